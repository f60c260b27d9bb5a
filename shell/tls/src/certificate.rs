//! A certificate chain with its key, from files, and what it says of itself.

use crate::names::Identities;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Bytes that a file with a chain or a key may have.
const MAX_BYTES: u64 = 1 << 20;
/// Certificates that a chain may have.
const MAX_CHAIN: usize = 30;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// What is wrong with a chain or a key.
#[derive(Debug)]
pub struct CertificateError {
    /// The file at fault.
    file: PathBuf,
    /// What is wrong, and what helps.
    what: String,
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

impl std::error::Error for CertificateError {}

impl CertificateError {
    pub(crate) fn new(file: &Path, what: impl Into<String>) -> CertificateError {
        CertificateError { file: file.to_owned(), what: what.into() }
    }
}

/// Why a chain and a key are no certificate.
#[derive(Debug)]
pub enum Unfit {
    /// What is wrong with the chain.
    Chain(String),
    /// What is wrong with the key.
    Key(String),
    /// The key is of another certificate.
    Pair,
}

/// A chain and its key, ready to be shown to peers.
#[derive(Clone, Debug)]
pub struct Certificate {
    key: Arc<CertifiedKey>,
    facts: Facts,
}

/// What the first certificate of a chain says.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Domains and addresses, wildcards among them.
    pub names: Identities,
    /// Who issued it.
    pub issuer: String,
    /// From when on it is valid, in seconds since 1970.
    pub not_before: i64,
    /// Until when, in seconds since 1970.
    pub not_after: i64,
    /// The kind of its key: `ECDSA P-256`, `RSA 2048`, `Ed25519`.
    pub key: String,
    /// Certificates in the chain.
    pub chain: usize,
}

impl Facts {
    /// Whether its key is of RSA, whose signature costs four times that of an elliptic curve.
    pub fn is_rsa(&self) -> bool {
        self.key.starts_with("RSA")
    }

    /// Whole days until it expires; negative: since it did.
    pub fn days_left(&self, now: i64) -> i64 {
        (self.not_after - now).div_euclid(DAY)
    }
}

impl Certificate {
    /// Reads a chain, the server's own certificate first, and its key; both in PEM. They may be one file.
    ///
    /// # Errors
    /// A file that cannot be read, or has nothing of that kind; a key of another certificate; a chain that is
    /// too long. Whether it has expired is not judged here: it may be the only one there is.
    pub fn read(chain: &Path, key: &Path) -> Result<Certificate, CertificateError> {
        let certificates = read_chain(chain)?;
        let private = PrivateKeyDer::from_pem_slice(&bytes(key, MAX_BYTES)?).map_err(|error| {
            let what = format!("no private key that can be read ({error}); it must be PEM, unencrypted");
            CertificateError::new(key, what)
        })?;
        Certificate::new(certificates, &private).map_err(|unfit| match unfit {
            Unfit::Chain(what) => CertificateError::new(chain, what),
            Unfit::Key(what) => CertificateError::new(key, what),
            Unfit::Pair => {
                let what = format!("is not the key of the certificate in {}", chain.display());
                CertificateError::new(key, what)
            }
        })
    }

    /// Of a chain, the server's own certificate first, and its key.
    ///
    /// # Errors
    /// They cannot be used, or not together.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'static>,
    ) -> Result<Certificate, Unfit> {
        let facts = facts(&chain).map_err(Unfit::Chain)?;
        let signing = any_supported_type(key)
            .map_err(|error| Unfit::Key(format!("this kind of key cannot be used: {error}")))?;
        let certified = CertifiedKey::new(chain, signing);
        certified.keys_match().map_err(|_| Unfit::Pair)?;
        Ok(Certificate { key: Arc::new(certified), facts })
    }

    /// What it says.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The domains that it is for, wildcards among them: `listed`, if there are any, else its own.
    pub fn domains<'a>(&'a self, listed: &'a [String]) -> impl Iterator<Item = &'a str> {
        let own = self.facts.names.domains().filter(|_| listed.is_empty());
        listed.iter().map(String::as_str).chain(own)
    }

    /// Whether it is the same certificate, with the same chain.
    pub fn is_same(&self, other: &Certificate) -> bool {
        self.key.cert == other.key.cert
    }

    /// For rustls.
    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.key
    }
}

fn bytes(file: &Path, limit: u64) -> Result<Vec<u8>, CertificateError> {
    regular_file::read(file, limit).map_err(|error| CertificateError::new(file, error.to_string()))
}

/// The certificates of a chain.
///
/// # Errors
/// It cannot be read, has none, or too many.
fn read_chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let found = read_all(file, MAX_BYTES)?;
    match found.len() {
        0..=MAX_CHAIN => Ok(found),
        _ => {
            Err(CertificateError::new(file, format!("more than {MAX_CHAIN} certificates; a chain has a few")))
        }
    }
}

/// The certificates in a file of at most `limit` bytes.
///
/// # Errors
/// It cannot be read, or has none.
pub(crate) fn read_all(file: &Path, limit: u64) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(file, limit)?).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(CertificateError::new(file, "no certificate is in it; it must be PEM (BEGIN CERTIFICATE)"))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(CertificateError::new(file, format!("not PEM: {error}"))),
    }
}

/// The subject of a certificate that is not one of an authority.
pub(crate) fn subject_unless_authority(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, read) = X509Certificate::from_der(certificate).ok()?;
    (!read.is_ca()).then(|| read.subject().to_string())
}

/// What the first of a chain says.
fn facts(chain: &[CertificateDer<'_>]) -> Result<Facts, String> {
    let first = chain.first().ok_or("no certificate")?;
    let (_, read) =
        X509Certificate::from_der(first).map_err(|error| format!("not an X.509 certificate: {error}"))?;
    let validity = read.validity();
    Ok(Facts {
        names: Identities::in_it(&read),
        issuer: read.issuer().to_string(),
        not_before: validity.not_before.timestamp(),
        not_after: validity.not_after.timestamp(),
        key: kind(read.public_key()),
        chain: chain.len(),
    })
}

/// The kind of a key, in a word or two.
fn kind(key: &SubjectPublicKeyInfo<'_>) -> String {
    match (key.parsed(), key.algorithm.algorithm.to_id_string().as_str()) {
        (Ok(PublicKey::RSA(rsa)), _) => format!("RSA {}", rsa.key_size()),
        (Ok(PublicKey::EC(point)), _) => format!("ECDSA P-{}", point.key_size()),
        // RFC 8410 section 3.
        (_, "1.3.101.112") => "Ed25519".to_owned(),
        (_, other) => other.to_owned(),
    }
}
