//! What is counted, how long things took, and what that says about the run.
//!
//! Each worker owns one [`Metrics`] and fills it through small inline methods that allocate nothing; who
//! reads merges the workers' ([`Metrics::merge`], which is associative and commutative). For a live view
//! there is [`Metrics::pulse`], which is small: copying every histogram out of a worker in mid-run would
//! make it late, and lateness is what a generator must not have.
//!
//! Two instants belong to everything that begins: when it was meant to begin and when it did
//! ([`Began`]). Latencies are counted from the first (a server that stalls must not be excused because
//! the generator was kept waiting with it); the second is kept for comparison, and because RFC 6076
//! section 3 defines its metrics by the bits on the wire.
//!
//! Everything is counted twice: over the whole run, and over the measured window. A thing belongs to the
//! window in which it was *meant to begin*, so that numerators and denominators speak of the same calls
//! and a slow answer cannot fall out of the statistics by coming late.

mod counters;
mod custom;
mod events;
mod figures;
mod hist;
mod ladders;
mod marks;
mod pcap;
mod punctuality;
mod rates;
mod record;
mod series;
mod sip;
mod sketch;
mod verdict;

pub use counters::{Counters, Lost, SideCounts, Statuses};
pub use custom::{Custom, Paired};
pub use events::{
    Began, Bye, CallEnd, Failure, Measure, Method, Registering, Side, TransactionEnd, Unexpected, Window,
};
pub use figures::{Figures, Spread};
pub use hist::{Hist, rank};
pub use ladders::{Direction, Ladder, Ladders, Step};
pub use pcap::pcap;
pub use punctuality::Punctuality;
pub use rates::{Attempted, Rates};
pub use record::{Metrics, Pulse, Setup, Table};
pub use series::{MAX_POINTS, Point, Series, in_progress};
pub use sip::{Performance, Ratio};
pub use sketch::{Sketch, Sparse};
pub use verdict::{Check, Health, LatencyLimit, Missing, OPEN, Rule, Stop, Verdict, judge};
