//! Trusted authorities for peers that connect: the roots of the whole server, and sets of roots for some
//! peers.

use crate::names::Identities;
use crate::session::Session;
use crate::verify::Judge;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::VerifierBuilderError;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use std::sync::{Arc, PoisonError, RwLock};

/// Verifiers of client certificates. A peer is accepted if one of them accepts it; [`Authorities::identify`]
/// returns those that do. The sets for some peers may be replaced while the server runs. Clones share them.
#[derive(Clone, Debug)]
pub struct Authorities(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    common: Judge,
    own: RwLock<Vec<Named>>,
}

#[derive(Debug)]
struct Named {
    name: Box<str>,
    judge: Judge,
}

impl Authorities {
    /// The roots of the whole server alone. `mandatory`: clients must have a certificate.
    ///
    /// # Errors
    /// There are no roots.
    pub(crate) fn new(
        roots: Arc<RootCertStore>,
        provider: &Arc<CryptoProvider>,
        mandatory: bool,
    ) -> Result<Authorities, VerifierBuilderError> {
        let common = Judge::of_clients(roots, provider, mandatory)?;
        Ok(Authorities(Arc::new(Inner { common, own: RwLock::default() })))
    }

    /// Replaces the sets for some peers. A set without roots accepts no peer.
    pub fn replace<'a>(&self, sets: impl IntoIterator<Item = (&'a str, Arc<RootCertStore>)>) {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let judge = |(name, roots): (&str, Arc<RootCertStore>)| {
            let judge = Judge::of_clients(roots, &provider, false).ok()?;
            Some(Named { name: name.into(), judge })
        };
        *self.0.own.write().unwrap_or_else(PoisonError::into_inner) =
            sets.into_iter().filter_map(judge).collect();
    }

    /// The names that the peer of a session has proven, and the sets of roots under which its certificate is
    /// valid now. The empty name means the roots of the whole server. `None`: the peer sent no certificate,
    /// or none that is valid. For a resumed session the chain is verified again, because the certificate may
    /// have expired.
    pub fn identify(&self, session: &Session) -> Option<(Identities, Vec<Box<str>>)> {
        let (first, others) = session.chain()?.split_first()?;
        let now = UnixTime::now();
        let mut found = None;
        let mut vouching = Vec::new();
        self.each(|name, judge| {
            if let Ok(names) = judge.chain(first, others, now) {
                vouching.push(name.into());
                found = Some(names);
            }
            false
        });
        Some((found?, vouching))
    }

    /// Asks each verifier, until one accepts.
    fn each(&self, mut ask: impl FnMut(&str, &Judge) -> bool) {
        if !ask("", &self.0.common) {
            let own = self.0.own.read().unwrap_or_else(PoisonError::into_inner);
            let _ = own.iter().any(|named| ask(&named.name, &named.judge));
        }
    }
}

impl ClientCertVerifier for Authorities {
    fn client_auth_mandatory(&self) -> bool {
        self.0.common.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.common.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // The error under the roots of the whole server is reported.
        let mut first = None;
        let mut verified = None;
        self.each(|_, judge| {
            match judge.verify_client_cert(certificate, others, now) {
                Ok(good) => verified = Some(good),
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
            verified.is_some()
        });
        verified.ok_or_else(|| first.unwrap_or(Error::General("nobody judges certificates".into())))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ClientCertVerifier::verify_tls12_signature(&self.0.common, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ClientCertVerifier::verify_tls13_signature(&self.0.common, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ClientCertVerifier::supported_verify_schemes(&self.0.common)
    }
}
