//! TLS for SIP connections: sessions over bytes, certificates that are reloaded, verified names.
//!
//! Nothing here has a socket. A [`Session`] takes the bytes that a connection brings, in the caller's buffer,
//! and writes what is to be sent into another (rustls's unbuffered interface). An idle session has no buffer
//! of its own.
//!
//! - [`session`]: one connection's TLS;
//! - [`certificate`]: a chain with its key, read from files, and what it says;
//! - [`choice`]: which certificate a client is shown (SNI);
//! - [`names`]: the identities in a peer's certificate (RFC 5922 section 7.1) and how they compare;
//! - [`verify`]: who is believed, as a server and as a client;
//! - [`settings`]: what all sessions of a listener, or towards a peer, have in common.

pub mod certificate;
pub mod choice;
pub mod names;
pub mod session;
pub mod settings;
pub mod verify;

pub use certificate::{Certificate, CertificateError};
pub use choice::Choice;
pub use names::Identities;
pub use rustls::RootCertStore;
pub use session::{Fault, Session, Standing};
pub use settings::{ClientCertificates, ClientSettings, Server, ServerSettings};
