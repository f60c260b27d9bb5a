//! The certificates of TLS listeners: read at the start, and anew with each reload.

use crate::startup::Failure;
use control::config as c;
use std::path::Path;
use std::sync::Arc;
use tls::settings::{roots_in, roots_of_system};
use tls::{Certificate, CertificateError, Choice, ClientCertificates, RootCertStore, Server, ServerSettings};

/// Days before the end of a certificate from which on the log warns.
const SOON: i64 = 30;

/// What clients are shown. Clones share it.
#[derive(Clone)]
pub struct Certificates {
    choice: Arc<Choice>,
}

impl Certificates {
    /// Reads them, and what TLS listeners serve with; `None` if the configuration has no certificate.
    pub fn start(config: &c::Tls) -> Result<Option<(Certificates, Server)>, Failure> {
        if config.certificates.is_empty() {
            return Ok(None);
        }
        let choice = Arc::new(Choice::default());
        let certificates = Certificates { choice: Arc::clone(&choice) };
        certificates.read(config)?;
        let roots = match (&config.roots, config.client_certificates) {
            (_, ClientCertificates::Off) => Arc::new(RootCertStore::empty()),
            (Some(file), _) => roots_in(file)?,
            (None, _) => roots_of_system()?,
        };
        let settings = ServerSettings { choice, clients: config.client_certificates, roots, key_log: None };
        let server = settings.server().map_err(|error| format!("TLS cannot be served: {error}"))?;
        Ok(Some((certificates, server)))
    }

    /// Reads all of them anew. Of one that cannot be read or used, all stay as they were.
    pub fn read(&self, config: &c::Tls) -> Result<(), CertificateError> {
        let read = |files: &c::CertificateFiles| {
            let certificate = Certificate::read(&files.chain, &files.key)?;
            look_at(&certificate, &files.chain);
            Ok((certificate, files.domains.clone()))
        };
        let all: Vec<(Certificate, Vec<String>)> =
            config.certificates.iter().map(read).collect::<Result<_, CertificateError>>()?;
        self.choice.replace(all.iter().map(|(certificate, domains)| (certificate, &domains[..])));
        Ok(())
    }

    /// The same for a reload, with what is wrong in the log.
    pub fn read_anew(&self, config: &c::Tls) {
        if let Err(error) = self.read(config) {
            log_events::certificates::certificates_kept(&error);
        }
    }
}

/// Logs what an operator should know of a certificate.
fn look_at(certificate: &Certificate, chain: &Path) {
    let facts = certificate.facts();
    let days = facts.days_left(crate::serve::wall_micros() / 1_000_000);
    let file = chain.display();
    match days {
        ..0 => log_events::certificates::certificate_expired(&file, &facts.names, -days),
        0..SOON => log_events::certificates::certificate_expires_soon(&file, &facts.names, days),
        _ => log_events::certificates::certificate_read(&file, &facts.names, days),
    }
}
