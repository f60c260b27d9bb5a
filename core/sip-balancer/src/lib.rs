//! Session-aware load balancing for SIP clusters.
//!
//! The balancer stands in front of several servers and shows one address. The first request of a call
//! chooses a node, every later one follows. What it knows of the nodes it has counted itself: calls and
//! unfinished transactions it gave them, from its own records.
//!
//! | file | what |
//! |---|---|
//! | `algorithm`, `choose`, `maglev`, `times`, `outliers` | who gets a new call |
//! | `cluster`, `members`, `health` | the nodes as all workers see them |
//! | `sessions`, `index`, `wheel` | calls, transactions, counters |
//! | `dispatch`, `retry`, `ends`, `feedback` | which node a request goes to, what a response means |
//! | `token` | what messages carry so that nothing need be remembered |
//! | `machine`, `requests`, `responses`, `probes` | the same with bytes: one worker's machine |
//! | `conns` | which stream connections matter |
//! | `replies`, `proven` | how many responses go to an address that may be forged |
//! | `cancels` | CANCEL of what nothing is known of |
//! | `kept`, `again`, `rivals` | requests that may have to be sent once more, and what becomes of who had them first |
#![forbid(unsafe_code)]

mod again;
mod algorithm;
mod budget;
mod cancels;
mod choose;
mod cluster;
mod conns;
mod dispatch;
mod ends;
mod failing;
mod feedback;
mod health;
mod index;
mod kept;
mod machine;
mod maglev;
mod members;
mod orphans;
mod outliers;
mod phones;
mod probes;
mod proven;
mod refusals;
mod replies;
mod requests;
mod responses;
mod retry;
mod rivals;
mod sessions;
mod settings;
mod stats;
mod times;
pub mod token;
mod wheel;

pub use algorithm::{Algorithm, Kind};
pub use choose::Chooser;
pub use cluster::{Cluster, Load, MOST_NODES, NodeIndex, NotAdded};
pub use dispatch::{Answer, Assigned, Dispatcher, FailedDialogs, Happened, NoWay, Request, Rules, Seen, Tag};
pub use health::{Health, Order, Why};
pub use machine::{Balancer, Counts, Notice, Report, Setup};
pub use members::Node;
pub use replies::Proof;
pub use retry::Waiting;
pub use sessions::{CallKey, Phase};
pub use settings::{Listener, Mark, PathBy, Probing, RegisterBy, Settings};
pub use stats::{NodeStats, OCCUPANCIES, Times};
pub use times::{Costs, UNIT};
