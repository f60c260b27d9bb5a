//! SIPp's XML scenario language: what a call sends, waits for and decides, step by step.
//!
//! [`parse`] turns a scenario file into a [`Scenario`], a program of [`Step`]s whose labels, variables,
//! timers and transactions are numbers, and whose messages are [`Template`]s cut once into literal
//! pieces and keywords. What the language has and this crate has not is a [`Problem`] that names file,
//! line, column, element and mend; nothing is ignored silently. The meaning follows SIPp 3.6; where it
//! differs, the item says so.
//!
//! The engine owns the calls: it walks the steps, keeps the last message received, the route set and
//! the variables, and lends all that as [`Facts`] to whatever is rendered or run.

mod actions;
mod builtin;
mod context;
mod credentials;
mod facts;
mod inject;
mod message;
mod problem;
mod read;
mod regexp;
mod steps;
mod template;
mod variables;

pub use actions::{Action, Deed, Effects, Level, Outcome, run};
pub use builtin::{builtin, builtin_names};
pub use credentials::{Challenge, Credentials};
pub use facts::{Desk, Facts, Run};
pub use inject::{Injection, Injections, Order};
pub(crate) use message::Lines;
pub use message::{learn_next_url, learn_peer_tag, learn_routes, request_cseq, top_branch};
pub use problem::Problem;
pub use read::{Surroundings, parse};
pub use regexp::Pattern;
pub use steps::{
    Branch, Code, Condition, Expect, Kind, Op, Optional, Pause, Recv, Scenario, Send, Side, Step, Unexpected,
};
pub use template::{Brief, Fault, Model, Outline, Seeker, Template, date_time, is_keyword, timestamp};
pub use variables::{Scope, Slot, Value, Values, Variables, Vars};
