//! TLS for SIP connections: sessions over bytes, certificates that are reloaded, verified names.
//!
//! Nothing here has a socket. A [`Session`] takes the bytes that a connection brings, in the caller's buffer,
//! and writes what is to be sent into another (rustls's unbuffered interface). An idle session has no buffer
//! of its own.
//!
//! - [`session`]: one connection's TLS;
//! - [`authorities`]: who is believed about clients, and which roots vouch for a peer;
//! - [`certificate`]: a chain with its key, read from files, and what it says;
//! - [`client`]: what connections that we open begin from;
//! - [`choice`]: which certificate a client is shown (SNI);
//! - [`class`]: kinds of faults, for counters;
//! - [`constraints`]: how long chains may be, and the names that authorities may vouch for;
//! - [`generator`]: TLS of a load generator;
//! - [`names`]: the identities in a peer's certificate (RFC 5922 section 7.1) and how they compare;
//! - [`verify`]: who is believed, as a server and as a client;
//! - [`tickets`], `proven`, `remembered`: sessions that are resumed, and for how long;
//! - [`key_log`]: keys for captures;
//! - [`versions`]: the versions of TLS that sessions may have;
//! - [`settings`]: what all sessions of a listener, or towards a peer, have in common.

pub mod authorities;
pub mod certificate;
pub mod choice;
pub mod class;
pub mod client;
pub mod constraints;
pub mod generator;
pub mod key_log;
pub mod names;
mod proven;
mod remembered;
pub mod session;
pub mod settings;
pub mod tickets;
pub mod verify;
pub mod versions;

pub use authorities::Authorities;
pub use certificate::{Certificate, CertificateError};
pub use choice::Choice;
pub use class::FaultClass;
pub use client::Client;
pub use generator::GeneratorSettings;
pub use key_log::KeyFile;
pub use names::Identities;
pub use rustls::{KeyLog, RootCertStore};
pub use session::{Fault, Session, Spoken, Standing};
pub use settings::{ClientCertificates, ClientSettings, Server, ServerSettings};
pub use tickets::{TicketSecret, Tickets};
pub use versions::Versions;
