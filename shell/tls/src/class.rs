//! Kinds of faults, for counters.

use crate::session::Fault;
use rustls::Error;

/// What kind of fault ended a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultClass {
    /// The ends have no version, cipher suite or other parameter in common.
    NothingInCommon,
    /// A certificate is missing, or is not believed.
    Certificate,
    /// The peer has sent an alert.
    Alert,
    /// The bytes are none of TLS.
    NotTls,
    /// The peer does not follow the protocol in another way.
    Other,
}

impl Fault {
    /// What kind it is.
    pub fn class(&self) -> FaultClass {
        match self {
            Fault::Tls(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => {
                FaultClass::NothingInCommon
            }
            Fault::Tls(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => {
                FaultClass::Certificate
            }
            Fault::Tls(Error::AlertReceived(_)) => FaultClass::Alert,
            Fault::NotTls(_) => FaultClass::NotTls,
            _ => FaultClass::Other,
        }
    }
}
