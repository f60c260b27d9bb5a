//! Whether the servers that requests are sent to answer.
//!
//! A SIP server keeps this of the targets of its trunks, a balancer of its nodes. Both use the same parts:
//!
//! | file | what |
//! |---|---|
//! | `vital` | the state of one server in atomics, shared by all workers |
//! | `probe` | when one worker asks with OPTIONS, and what the answers mean |
//! | `gateway` | a target by its URI, with those of its addresses that do not answer |
//! | `line` | the calls that a trunk carries, and how many it may |
//!
//! Nothing here sends or reads a message.
#![forbid(unsafe_code)]

mod gateway;
mod line;
mod probe;
mod vital;

pub use gateway::{Failure, Gateway, Gateways, MOST_MARKS, Standing};
pub use line::{Channel, Line, LineFull, LineLimits, LineStanding, Lines};
pub use probe::{Overdue, Probe};
pub use vital::{HEARD_GRAIN, Health, Vital, Why};
