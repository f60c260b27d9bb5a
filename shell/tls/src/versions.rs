//! The versions of TLS that sessions may have.

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

/// The versions that are offered and taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Versions {
    /// TLS 1.3 and 1.2.
    #[default]
    Both,
    /// TLS 1.2 alone.
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
static NEW: [&SupportedProtocolVersion; 1] = [&TLS13];
static OLD: [&SupportedProtocolVersion; 1] = [&TLS12];

impl Versions {
    /// For rustls.
    pub(crate) fn list(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Versions::Both => &BOTH,
            Versions::Tls13 => &NEW,
            Versions::Tls12 => &OLD,
        }
    }
}
