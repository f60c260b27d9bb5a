//! The transaction layer of SIP: RFC 3261 section 17 with the corrections of RFC 6026 and RFC 4320.
//!
//! One [`Layer`] per worker holds all its transactions. It never sends anything by itself and reads no
//! clock: what it wants sent goes to the caller's [`wire::Outbox`], time comes with every call, and
//! what time did comes out of [`Layer::handle_timeout`] as [`Event`]s.
//!
//! # Where a message goes
//!
//! A request: [`Layer::prepare`] reads the key of 17.2.3, [`Layer::absorb`] finds its transaction by it, or
//! [`Layer::accept`] makes one.
//! A response: the branch of our own Via carries a [`ClientId`]; [`ClientId::decode`] and
//! [`Layer::receive_response`].
//!
//! # What is bounded
//!
//! The number of transactions and the bytes that they hold are bounded ([`Limits`]), for all and for each
//! unproven source ([`Payer`]). So is the life of each: a timer runs in every state, and the layer empties by
//! itself when traffic stops. So is the work of one call. The bytes kept are bounded, too: of a finished
//! server transaction its key and its last response, of an accepted INVITE only the key. Of a finished client
//! transaction nothing is kept, or the ACK while its failure may be repeated.
//!
//! A proxied call that has ended (INVITE and BYE, both sides, over UDP) holds about 1.3 kB for the 32 s that
//! the RFC asks for. These are two server transactions of 152 bytes with a key of 64 to 128 and one answer of
//! 300 to 500, two client transactions of 168, four timers of 32 and two index entries of about 22.
//!
//! # What it costs
//!
//! Per proxied call of 13 messages about 8,000 instructions, all timers and the end included, and no
//! allocation in a steady state. Matching a request is one keyed hash; matching a response is reading 16
//! digits. Nothing is ever rehashed, copied to grow, or swept.
//!
//! # What others cannot do
//!
//! Ids have unguessable generations; hashes are keyed; keys are compared in full. Responses go to where
//! the first request came from, whoever repeats it.
#![forbid(unsafe_code)]

mod counts;
mod events;
mod hash;
mod id;
mod index;
mod key;
mod layer;
mod machine;
mod pool;
mod share;
mod timers;
mod timing;
mod wheel;

pub use counts::Counts;
pub use events::{Event, Inbound, Outcome, Short};
pub use hash::TableHash;
pub use id::{ClientId, ServerId};
pub use key::Prepared;
pub use layer::{ClientRequest, Layer, Limits};
pub use pool::Original;
pub use share::{Payer, Share};
pub use timers::Timers;
pub use wheel::TimerId;
