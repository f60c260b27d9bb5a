//! One worker of a SIP server as a pure machine: transport rules (RFC 3261 section 18), transaction
//! layer (17), and the transaction users: registrar (10), proxy (16), redirect server (8.3).
//!
//! A [`Node`] is driven through [`wire::Machine`]: bytes in, an outbox to fill, time as an argument.
//! What all workers share (location, credentials, name resolution, counters) it reaches through
//! [`Services`]; what the operator decided is in [`Settings`]. It owns its calls alone: the owner of a
//! message is a function of its Call-ID.
//!
//! The way of a request, file by file: `node` parses it, `inbound` matches a transaction, `ingress` reads
//! what it shows, `admit` checks and authenticates it. Nothing is remembered before that. Then come
//! `registration` with `bindings`, or `routing` (`access` is the rule who may reach what). `dispatch` has the
//! response context, `forward` rewrites and sends, `outcome` handles responses and timers. `stateless` is for
//! ACK and for stateless mode. In an overload `overload` comes before all of it. What a server is (settings,
//! services, names, keys) is `site`, which all of them read.
#![forbid(unsafe_code)]

mod access;
mod admit;
mod admitted;
mod anonymous;
mod bindings;
mod callees;
mod calls;
mod dispatch;
mod emergency;
mod forward;
mod found;
mod held;
mod inbound;
mod ingress;
mod letters;
mod lookups;
mod node;
mod outcome;
mod overload;
mod prober;
mod promised;
mod prompt;
mod proxied;
mod registration;
mod returned;
mod routing;
mod services;
mod settings;
mod short;
mod shortage;
mod silence;
mod site;
mod stateless;
mod strangers;
#[cfg(test)]
mod tests;
mod trunk_ref;
mod uris;
mod watch;

pub use calls::Call;
pub use emergency::Emergency;
pub use node::{Node, NodeConfig, Notice, Report};
pub use overload::{Common, Rules as OverloadRules, Standing};
pub use services::{Counter, Question, Refusal, Services, Span, StoreDown, Troubled, Unregistered};
pub use settings::{
    Auth, Challenge, Listener, Mode, Proxy, Route, RouteAction, Settings, Trunk, Trying, Voicemail,
};
pub use shortage::Shortage;
pub use sip_health::{Failure, Gateway, Gateways};
pub use sip_proxy::feedback::Algorithm;
pub use site::{Heard, Keys};
pub use strangers::Strangers;
pub use watch::List;
