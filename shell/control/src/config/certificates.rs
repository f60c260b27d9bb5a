//! What `strowger check` says of the certificates that `[tls]` names.

use super::error::ConfigError;
use super::load::Loaded;
use super::tls::CertificateFiles;
use std::path::Path;
use tls::{Certificate, CertificateError};
use wire::Transport;

/// Days before the end of a certificate from which on it is mentioned.
const SOON: i64 = 30;

/// Certificates in a file of authorities that are named.
const SHOWN: usize = 5;

/// Where `[tls]` lists its certificates.
const LISTED: &str = "tls.certificates";

/// What is found: what a start would fail for, and what it would not.
#[derive(Debug, Default)]
pub struct CertificateFindings {
    /// Files that cannot be used.
    pub errors: Vec<ConfigError>,
    /// Certificates that expire, that cost more than others, that lack a domain, that are no authority.
    pub warnings: Vec<ConfigError>,
}

impl Loaded {
    /// Reads the certificates, at this second since 1970.
    pub fn check_certificates(&self, now: i64) -> CertificateFindings {
        let mut found = CertificateFindings::default();
        let mut good = Vec::new();
        for files in &self.config.tls.certificates {
            match Certificate::read(&files.chain, &files.key) {
                Ok(certificate) => {
                    found.warnings.extend(self.certificate_warnings(LISTED, files, &certificate, now));
                    good.push((certificate, files));
                }
                Err(error) => found.errors.push(self.unusable(LISTED, &error)),
            }
        }
        if let Some(file) = &self.config.tls.roots {
            self.check_roots("tls.roots", file, &mut found);
        }
        self.check_trunks(now, &mut found);
        let server = &self.config.server;
        let listens = server.listen.iter().any(|l| matches!(l.transport, Transport::Tls | Transport::Wss));
        // Phones that connect to a proxy in front verify the certificate of that proxy.
        let phones_connect = self.config.auth.fronts.is_empty();
        if listens && phones_connect && found.errors.is_empty() {
            let lacking = server.domains.iter().filter(|domain| !is_covered(domain, &good));
            found.warnings.extend(lacking.map(|domain| {
                let message = format!("no certificate is for the served domain {domain}");
                self.at(LISTED, message, "phones verify the name: get a certificate that has it")
            }));
        }
        found
    }

    /// Checks the files of trunks.
    fn check_trunks(&self, now: i64, found: &mut CertificateFindings) {
        for trunk in &self.config.trunks {
            let place = |key: &str| format!("trunk {} {key}", trunk.name);
            if let Some(files) = &trunk.certificate {
                match Certificate::read(&files.chain, &files.key) {
                    Ok(certificate) => {
                        let place = &place("certificate");
                        found.warnings.extend(self.certificate_warnings(place, files, &certificate, now));
                    }
                    Err(error) => found.errors.push(self.unusable(&place("certificate"), &error)),
                }
            }
            if let Some(file) = &trunk.roots {
                self.check_roots(&place("roots"), file, found);
            }
        }
    }

    /// Checks a file of authorities.
    fn check_roots(&self, place: &str, file: &Path, found: &mut CertificateFindings) {
        match tls::settings::no_authorities_in(file) {
            Ok(others) => found.warnings.extend(others.into_iter().take(SHOWN).map(|subject| {
                let file = file.display();
                let message = format!("{file} has the certificate of \"{subject}\", which is no authority");
                let mend = "whoever has its key could prove any name: name the authority that issued it";
                self.at(place, message, mend)
            })),
            Err(error) => found.errors.push(self.unusable(place, &error)),
        }
    }

    fn certificate_warnings<'a>(
        &'a self,
        place: &'a str,
        files: &'a CertificateFiles,
        certificate: &'a Certificate,
        now: i64,
    ) -> impl Iterator<Item = ConfigError> + 'a {
        let (facts, file) = (certificate.facts(), files.chain.display());
        let days = facts.days_left(now);
        let expiry = match days {
            ..0 => Some(format!("the certificate in {file} expired {} days ago", -days)),
            0..SOON => Some(format!("the certificate in {file} expires in {days} days")),
            _ => None,
        };
        let expiry = expiry.map(|message| self.at(place, message, "renew it"));
        let rsa = facts.is_rsa().then(|| {
            let message =
                format!("the key of {file} is {}: a handshake costs four times that of ECDSA", facts.key);
            self.at(place, message, "ask the authority for one with an ECDSA key (P-256)")
        });
        let foreign = files.domains.iter().filter(|domain| !covers(certificate, domain));
        let foreign = foreign.map(move |domain| {
            let message = format!("{file} is to be shown for {domain}, which is not in it: {}", facts.names);
            self.at(place, message, "correct `domains` of the entry, or get a certificate that has the name")
        });
        expiry.into_iter().chain(rsa).chain(foreign)
    }

    fn unusable(&self, place: &str, error: &CertificateError) -> ConfigError {
        self.at(place, error.to_string(), "correct the file, or name another one")
    }
}

/// Whether one of these is shown for a domain, and has it.
fn is_covered(domain: &str, certificates: &[(Certificate, &CertificateFiles)]) -> bool {
    certificates.iter().any(|(certificate, _)| covers(certificate, domain))
}

/// Whether a domain, or the wildcard that it is, is in a certificate.
fn covers(certificate: &Certificate, domain: &str) -> bool {
    let names = &certificate.facts().names;
    let address = domain.trim_matches(['[', ']']).parse();
    names.prove(domain, true) || address.is_ok_and(|address| names.prove_address(address))
}
