//! One worker of a SIP server as a pure machine: transport rules (RFC 3261 section 18), transaction
//! layer (17), and the transaction users: registrar (10), proxy (16), redirect server (8.3).
//!
//! A [`Node`] is driven through [`wire::Machine`]: bytes in, an outbox to fill, time as an argument.
//! What all workers share (location, credentials, name resolution, counters) it reaches through
//! [`Services`]; what the operator decided is in [`Settings`]. It owns its calls alone: the owner of a
//! message is a function of its Call-ID.
//!
//! A request passes these parts, each once: `node` parses it, `transaction_users` matches a transaction,
//! `ingress` reads what it shows, `gate` checks and authenticates it. Nothing is remembered before that. Then
//! one transaction user handles it: `registrar` with `bindings`, or `forwarding` to the targets that
//! `routing` has found (`access` is the rule who may reach what). `forwarding` also handles responses and
//! timers. In an overload `overload` comes before all of it.
//!
//! Each part owns its state. What all of them use (`site`, transactions, calls, overload control, buffers) is
//! lent to them in a `step`, with the time and the outbox. `replies` writes what this server answers itself.
#![forbid(unsafe_code)]

mod access;
mod account;
mod admitted;
mod aor;
mod bindings;
mod callees;
mod calls;
mod channels;
mod counters;
mod diverting;
mod emergency;
mod extensions;
mod forwarding;
mod gate;
mod icmp;
mod ingress;
mod limits;
mod located;
mod named_targets;
mod node;
mod numbers;
mod overload;
mod random;
mod recent_responses;
mod records;
mod registrar;
mod remote_targets;
mod replies;
mod routing;
mod server_side;
mod services;
mod session_timers;
mod settings;
mod short;
mod shortage;
mod site;
mod step;
mod strangers;
#[cfg(test)]
mod tests;
mod transaction_users;
mod trunk_ref;
mod uris;
mod user_rules;
mod watch;

pub use account::Account;
pub use call_forwarding;
pub use call_limits;
pub use call_records::{CallName, What};
pub use call_rules;
pub use calls::{Call, Life};
pub use counters::{Counter, CounterFamily, FAMILIES, Span};
pub use emergency::Emergency;
pub use located::{BindingSet, Coverage, Located, Question, StoreDown};
pub use node::{Node, NodeConfig, Notice, Report};
pub use number_routes;
pub use numbers::{Decisive, NumberPlan};
pub use overload::{Common, Rules as OverloadRules, Standing};
pub use services::{Refusal, RegistrationNews, Services, Troubled};
pub use settings::{
    Auth, Challenge, Domain, Listener, Mode, Proxy, Route, RouteAction, Settings, Trunk, Voicemail,
};
pub use shortage::Shortage;
pub use sip_health::{Failure, Gateway, Gateways, LineFull, LineLimits, Lines};
pub use sip_proxy::feedback::Algorithm;
pub use sip_proxy::session_timer::{Policy as SessionPolicy, SHORTEST as SHORTEST_SESSION};
pub use sip_registration::{
    Rules as RegistrationRules, Shown, Standing as RegistrationStanding, Standings,
    State as RegistrationState,
};
pub use site::{Heard, Keys};
pub use strangers::Strangers;
pub use user_rules::CallForwarding;
pub use watch::List;
