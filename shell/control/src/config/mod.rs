//! `strowger.toml`: read, checked and turned into a typed, immutable [`Config`].
//!
//! Everything wrong is reported at once, each finding with its line, its column and a mend. A
//! configuration that is not right is not half used: [`Config::load`] gives one or the other.

mod admin;
mod auth;
mod balance;
mod caller;
mod capacity;
mod carrier;
mod certificates;
mod claims;
mod class;
mod class_hours;
mod diff;
mod dns;
mod domain;
mod emergency;
mod form;
mod forwarding;
mod header_rules;
mod limits;
mod load;
mod log;
mod numbers;
mod overload;
mod proxy;
mod records;
mod reference;
mod registrar;
mod route;
mod route_file;
mod schema;
mod sctp;
mod sections;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod timers;
mod tls;
mod trunk;
mod types;
mod values;
mod voicemail;
mod websocket;

use toml_form::{error, reader, syntax};

pub use admin::AdminAccess;
pub use auth::Auth;
pub use balance::{Balance, BalanceNode, NodePlace};
pub use caller::Caller;
pub use carrier::{Passwords, Registration};
pub use certificates::CertificateFindings;
pub use class::Class;
pub use diff::{Changes, ReloadReport, diff, plan_reload};
pub use dns::Dns;
pub use domain::Domain;
pub use emergency::Emergency;
pub use forwarding::Forwarding;
pub use limits::Limits;
pub use load::{Loaded, Overrides};
pub use log::{Level, Log, LogFormat};
pub use overload::Overload;
pub use proxy::{Fork, Proxy, Strangers};
pub use records::{RecordFormat, Records};
pub use reference::fill_reference;
pub use registrar::Registrar;
pub use route::Route;
pub use route_file::RouteFile;
pub use sctp::Sctp;
pub use sections::Config;
pub use server::{Advertise, Pin, Server, Steering};
pub use store::{OnStoreFailure, Store};
pub use timers::Timers;
pub use tls::{CertificateFiles, Tls};
pub use toml_form::error::ConfigError;
pub use trunk::Trunk;
pub use types::{Cidr, HostPort, Listener, Rank, Target};
pub use values::nowhere;
pub use voicemail::Voicemail;
pub use websocket::WebSocket;
