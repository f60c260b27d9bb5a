//! Session-aware load balancing for SIP clusters.
//!
//! The balancer stands in front of several servers and shows one address. The first request of a call
//! chooses a node, every later one follows. What it knows of the nodes it has counted itself: calls and
//! unfinished transactions it gave them, from its own records.
//!
//! | folder | what |
//! |---|---|
//! | `policy` | who gets a new call: algorithms, costs, refusals, overload |
//! | `cluster` | the nodes as all workers see them: members, health, load, rests, probes |
//! | `sessions` | calls, transactions and counters of one worker, and which node a request goes to |
//! | `forwarding` | messages checked and written, without a memory of calls |
//! | `failover` | requests that may have to be sent once more, and what becomes of who had them first |
//! | `machine` | the same with bytes: one worker's machine |
//! | `request`, `method`, `message` | requests and responses as the other parts see them |
//! | `listener` | our sockets, and what messages and tokens call them |
//! | `settings` | what the operator decided |
//! | `token` | what messages carry so that nothing need be remembered |
#![forbid(unsafe_code)]

mod cluster;
mod counts;
mod failover;
mod forwarding;
mod hash;
mod listener;
mod machine;
mod message;
mod method;
mod policy;
mod request;
mod sessions;
mod settings;
mod timers;
pub mod token;
mod transmit;

pub use cluster::health::{Health, Order, Why};
pub use cluster::loads::Load;
pub use cluster::members::{Node, NodeIndex};
pub use cluster::names::NodeNames;
pub use cluster::stats::{NodeStats, OCCUPANCIES, Times};
pub use cluster::{Cluster, MOST_NODES, NotAdded};
pub use counts::Counts;
pub use listener::{Listener, Mark};
pub use machine::{Balancer, Notice, Report, Setup};
pub use method::{BYE_COST, Kind, MethodClass};
pub use policy::algorithm::Algorithm;
pub use policy::choice::Chooser;
pub use request::{Answer, Assigned, CallKey, NotAssigned, Proof, Request, Seen};
pub use sessions::calls::{Calls, Waiting};
pub use sessions::dispatch::{Dispatcher, Events};
pub use sessions::table::Phase;
pub use settings::{FailedDialogs, PathBy, Probing, RegisterBy, Rules, Settings};
