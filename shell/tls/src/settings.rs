//! What all sessions of one server, or all towards some peers, have in common.

use crate::authorities::Authorities;
use crate::certificate::{Certificate, CertificateError, read_all, subject_unless_authority};
use crate::choice::Choice;
use crate::remembered::{Ends, Remembered};
use crate::session::{Fault, Session};
use crate::tickets::{TicketSecret, Tickets};
use crate::verify::Judge;
use crate::versions::Versions;
use aws_lc_rs::digest::{Context, Digest, SHA256, SHA256_OUTPUT_LEN};
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::TrustAnchor;
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, Error, KeyLog, RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::path::Path;
use std::sync::Arc;

/// Bytes that a file of roots may have. Those of a whole system have a quarter of a megabyte.
const MAX_ROOTS: u64 = 8 << 20;

/// Whether clients are asked for a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    Off,
    /// They are asked. Who has none is served as anybody; a bad one ends the handshake.
    Offered,
    /// Who has none is not served.
    Required,
}

/// What decides about connections that clients open.
pub struct ServerSettings {
    /// The certificates that clients are shown.
    pub choice: Arc<Choice>,
    /// Whether clients are asked for theirs.
    pub clients: ClientCertificates,
    /// Who is believed about clients.
    pub roots: Arc<RootCertStore>,
    /// Where the keys of sessions are written, so that a capture can be decrypted.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

/// What decides about connections that we open.
pub struct ClientSettings {
    /// Who is believed about servers.
    pub roots: Arc<RootCertStore>,
    /// Whether `*.example.org` counts for one label.
    pub wildcards: bool,
    /// What a server that asks is shown.
    pub certificate: Option<Certificate>,
    /// Whether an earlier session may be resumed.
    pub resume: bool,
    /// Where the keys of sessions are written.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

/// What sessions that clients open begin from.
#[derive(Clone, Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
    /// Who is believed about clients, where they are asked for a certificate.
    authorities: Option<Authorities>,
}

impl Server {
    /// A session that begins.
    ///
    /// # Errors
    /// None is known.
    pub fn session(&self) -> Result<Session, Fault> {
        Session::server(&self.config)
    }

    /// Who is believed about clients, where they are asked for a certificate.
    pub fn authorities(&self) -> Option<&Authorities> {
        self.authorities.as_ref()
    }
}

impl From<Arc<ServerConfig>> for Server {
    fn from(config: Arc<ServerConfig>) -> Server {
        Server { config, authorities: None }
    }
}

impl ServerSettings {
    /// What sessions begin from. They are resumed by this process alone.
    ///
    /// # Errors
    /// As for [`ServerSettings::config`].
    pub fn server(&self) -> Result<Server, Error> {
        self.shared_server(TicketSecret::random()?)
    }

    /// The same, resumed by every process with this secret.
    ///
    /// # Errors
    /// As for [`ServerSettings::config`].
    pub fn shared_server(&self, secret: TicketSecret) -> Result<Server, Error> {
        self.of_versions(secret, Versions::Both.list())
    }

    /// For rustls, with tickets of this process alone.
    ///
    /// # Errors
    /// As for [`ServerSettings::shared_config`].
    pub fn config(&self) -> Result<Arc<ServerConfig>, Error> {
        self.shared_config(TicketSecret::random()?)
    }

    /// For rustls: TLS 1.3 and 1.2, and suites with forward secrecy only. Sessions are resumed by tickets, of
    /// which the server keeps nothing but their keys.
    ///
    /// # Errors
    /// Clients are to have a certificate, and there are no roots to judge it by.
    pub fn shared_config(&self, secret: TicketSecret) -> Result<Arc<ServerConfig>, Error> {
        self.shared_server(secret).map(|server| server.config)
    }

    /// The same, with these versions.
    pub(crate) fn of_versions(
        &self,
        secret: TicketSecret,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<Server, Error> {
        let provider = Arc::new(provider::default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
        let judges = |mandatory| {
            let judges = Authorities::new(Arc::clone(&self.roots), &provider, mandatory);
            judges.map_err(|error| Error::General(error.to_string()))
        };
        let authorities = match self.clients {
            ClientCertificates::Off => None,
            ClientCertificates::Offered => Some(judges(false)?),
            ClientCertificates::Required => Some(judges(true)?),
        };
        let builder = match &authorities {
            None => builder.with_no_client_auth(),
            Some(judges) => builder.with_client_cert_verifier(Arc::new(judges.clone())),
        };
        let choice: Arc<Choice> = Arc::clone(&self.choice);
        let mut config = builder.with_cert_resolver(choice);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Arc::new(Tickets::new(secret, self.scope()));
        // Each is 200 bytes and a signature's share of the handshake; a phone resumes from one.
        config.send_tls13_tickets = 1;
        if let Some(log) = &self.key_log {
            config.key_log = Arc::clone(log);
        }
        Ok(Server { config: Arc::new(config), authorities })
    }

    /// A digest of the settings for client certificates and of the trusted authorities. A ticket is accepted
    /// only where these are the same.
    fn scope(&self) -> Digest {
        let mut scope = Context::new(&SHA256);
        scope.update(&[self.clients as u8]);
        if self.clients != ClientCertificates::Off {
            let mut anchors: Vec<_> = self.roots.roots.iter().map(anchor).collect();
            anchors.sort_unstable();
            anchors.iter().for_each(|anchor| scope.update(anchor.as_ref()));
        }
        scope.finish()
    }
}

/// A digest of a trust anchor.
fn anchor(anchor: &TrustAnchor<'_>) -> [u8; SHA256_OUTPUT_LEN] {
    let constraints = anchor.name_constraints.as_deref().unwrap_or_default();
    let mut whole = Context::new(&SHA256);
    for part in [anchor.subject.as_ref(), anchor.subject_public_key_info.as_ref(), constraints] {
        whole.update(&(part.len() as u64).to_be_bytes());
        whole.update(part);
    }
    let mut digest = [0; SHA256_OUTPUT_LEN];
    digest.copy_from_slice(whole.finish().as_ref());
    digest
}

impl ClientSettings {
    /// For rustls.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        self.of_versions(None, Versions::Both.list())
    }

    /// The same, with these versions. `judge`: who judges certificates in place of the roots.
    pub(crate) fn of_versions(
        &self,
        judge: Option<Arc<dyn ServerCertVerifier>>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<Arc<ClientConfig>, Error> {
        let provider = Arc::new(provider::default_provider());
        let ends = Ends::default();
        let own = judge.is_none();
        let judge = judge.unwrap_or_else(|| {
            let judge = Judge::of_servers(Arc::clone(&self.roots), &provider, self.wildcards);
            Arc::new(judge.noting(ends.clone()))
        });
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(judge);
        let mut config = match &self.certificate {
            Some(certificate) => {
                let shown =
                    Arc::new(rustls::sign::SingleCertAndKey::from(Arc::clone(certificate.certified())));
                builder.with_client_cert_resolver(shown)
            }
            None => builder.with_no_client_auth(),
        };
        config.resumption = match self.resume {
            true if own => Resumption::store(Arc::new(Remembered::new(ends))),
            // The other verifier accepts every certificate, at any time.
            true => Resumption::default(),
            false => Resumption::disabled(),
        };
        if let Some(log) = &self.key_log {
            config.key_log = Arc::clone(log);
        }
        Ok(Arc::new(config))
    }
}

/// The roots in a file of PEM.
///
/// # Errors
/// It cannot be read, or has none.
pub fn roots_in(file: &Path) -> Result<Arc<RootCertStore>, CertificateError> {
    let mut roots = RootCertStore::empty();
    let found = read_all(file, MAX_ROOTS)?;
    let (taken, _) = roots.add_parsable_certificates(found);
    match taken {
        0 => Err(CertificateError::new(file, "has no certificate of an authority that can be used")),
        _ => Ok(Arc::new(roots)),
    }
}

/// The subjects of certificates in a file of roots that are no authorities (RFC 5280 section 4.2.1.9). The
/// holder of such a key could prove any name, because what a root may do is not verified.
///
/// # Errors
/// As for [`roots_in`].
pub fn no_authorities_in(file: &Path) -> Result<Vec<String>, CertificateError> {
    roots_in(file)?;
    Ok(read_all(file, MAX_ROOTS)?.iter().filter_map(|found| subject_unless_authority(found)).collect())
}

/// The roots of the system.
///
/// # Errors
/// There are none: the package `ca-certificates` is missing.
pub fn roots_of_system() -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    match taken {
        0 => {
            Err("the system has no certificates of authorities; install ca-certificates, or name a file"
                .into())
        }
        _ => Ok(Arc::new(roots)),
    }
}
