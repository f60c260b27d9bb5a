//! Who is believed.

use crate::constraints::{Others, end_of};
use crate::names::{Identities, is_for_clients};
use crate::proven;
use crate::remembered::Ends;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use std::fmt;
use std::sync::Arc;

/// A certificate that is valid, but for another name. For the log.
#[derive(Debug)]
pub struct OtherName {
    /// Who was wanted.
    pub wanted: String,
    /// Whose it is.
    pub found: Identities,
}

impl fmt::Display for OtherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the certificate is of {}, not of {}", self.found, self.wanted)
    }
}

impl std::error::Error for OtherName {}

/// Judges certificates by roots, and names by RFC 5922.
#[derive(Debug)]
pub struct Judge {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
    wildcards: bool,
    /// Whether clients must have a certificate, where this judges clients.
    mandatory: bool,
    /// The judge of certificates that are for clients, where this judges clients.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    /// The ends of validity of servers' certificates.
    ends: Ends,
}

impl Judge {
    /// Of servers. `wildcards`: see [`Identities::prove`].
    pub fn of_servers(roots: Arc<RootCertStore>, provider: &CryptoProvider, wildcards: bool) -> Judge {
        let algorithms = provider.signature_verification_algorithms;
        Judge { roots, algorithms, wildcards, mandatory: false, clients: None, ends: Ends::default() }
    }

    /// Notes the end of validity of each server's certificate.
    pub(crate) fn noting(self, ends: Ends) -> Judge {
        Judge { ends, ..self }
    }

    /// Of clients. `mandatory`: they must have a certificate.
    ///
    /// # Errors
    /// There are no roots.
    pub fn of_clients(
        roots: Arc<RootCertStore>,
        provider: &Arc<CryptoProvider>,
        mandatory: bool,
    ) -> Result<Judge, VerifierBuilderError> {
        let algorithms = provider.signature_verification_algorithms;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider));
        let (clients, ends) = (Some(clients.build()?), Ends::default());
        Ok(Judge { roots, algorithms, wildcards: false, mandatory, clients, ends })
    }

    /// Verifies that a chain leads to a root, is valid now, and is for servers; or for clients, if this
    /// verifies clients and the certificate is for them. Returns the names that it proves.
    pub(crate) fn chain(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Identities, Error> {
        let others = Others::of(others)?;
        let certificates = others.certificates();
        match self.clients.as_ref().filter(|_| is_for_clients(certificate)) {
            Some(clients) => clients.verify_client_cert(certificate, &certificates, now).map(|_| ())?,
            None => self.servers(certificate, &certificates, now)?,
        }
        let found = Identities::of(certificate);
        others.vouch_for(certificate, &found, &self.roots)?;
        Ok(found)
    }

    fn servers(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, others, now, self.algorithms.all)
    }

    fn tls12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn tls13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = self.chain(certificate, others, now)?;
        let proven = match name {
            ServerName::DnsName(name) => found.prove(name.as_ref(), self.wildcards),
            ServerName::IpAddress(address) => found.prove_address((*address).into()),
            _ => false,
        };
        if proven {
            self.ends.note(name, end_of(certificate, others)?);
            return Ok(ServerCertVerified::assertion());
        }
        let wanted = name.to_str().into_owned();
        let why = OtherName { wanted, found };
        Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why)))))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tls12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tls13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Judge {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.clients.as_ref().map_or(&[], |clients| clients.root_hint_subjects())
    }

    /// A peer is a SIP server that opens a connection to us, so a certificate for servers is good enough:
    /// public authorities no longer issue ones for clients, and RFC 5924 section 4 leaves it to us.
    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.chain(certificate, others, now)?;
        proven::counts_until(end_of(certificate, others)?);
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tls12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tls13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Believes every server: for a load generator that has no roots. The server still proves that it has the key
/// of its certificate.
#[derive(Debug)]
pub(crate) struct Anybody(WebPkiSupportedAlgorithms);

impl Anybody {
    /// With the algorithms of our provider.
    pub(crate) fn new() -> Anybody {
        Anybody(aws_lc_rs::default_provider().signature_verification_algorithms)
    }
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
