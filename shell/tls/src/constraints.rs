//! Chains that peers show: how long they may be, and the names that their authorities may vouch for.
//!
//! webpki applies name constraints (RFC 5280 section 4.2.1.10) to names of the DNS and to addresses. It
//! refuses URIs under constraints of URIs. SIP domains in URIs and common names are also DNS names (RFC 5922
//! section 7.1). If an authority may not vouch for a domain as a DNS name, it may not do so there either.

use crate::names::Identities;
use rustls::pki_types::{CertificateDer, TrustAnchor};
use rustls::{CertificateError, Error, OtherError, RootCertStore};
use std::fmt;
use std::sync::Arc;
use x509_parser::extensions::{GeneralName, GeneralSubtree, NameConstraints};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The largest number of certificates after the first in a chain. Public authorities need two. Each may cost
/// a signature check before the peer is refused.
pub const MAX_OTHERS: usize = 4;

/// Why a chain is refused before its signatures are verified, or because of its names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It has this number of certificates.
    Long(usize),
    /// A name constraint of an authority in the chain excludes this domain.
    Excluded(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Long(count) => {
                write!(f, "a chain of {count} certificates: {} are accepted", MAX_OTHERS + 1)
            }
            Refused::Excluded(domain) => write!(f, "an authority of the chain may not vouch for {domain}"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        CertificateError::Other(OtherError(Arc::new(refused))).into()
    }
}

/// The certificates after the first in a chain, parsed.
pub struct Others<'a>(Vec<(&'a [u8], X509Certificate<'a>)>);

fn read<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    let (_, read) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    Ok(read)
}

/// When the first certificate of a chain expires, seconds since 1970.
///
/// # Errors
/// One cannot be read.
pub fn end_of(certificate: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<u64, Error> {
    let end = |certificate| read(certificate).map(|read| read.validity().not_after.timestamp());
    let ends = std::iter::once(certificate).chain(others).map(end);
    let first = ends.reduce(|one, other| Ok(one?.min(other?))).unwrap_or(Ok(0))?;
    Ok(first.max(0).cast_unsigned())
}

impl<'a> Others<'a> {
    /// Those of a chain. Of several with the same subject only the first is used. So there is one path to
    /// verify, and a refusal costs a few signature checks at most. webpki would try a hundred.
    ///
    /// # Errors
    /// There are too many, or one cannot be read.
    pub fn of(certificates: &'a [CertificateDer<'_>]) -> Result<Others<'a>, Error> {
        if certificates.len() > MAX_OTHERS {
            return Err(Refused::Long(certificates.len() + 1).into());
        }
        let mut others: Vec<(&[u8], X509Certificate<'_>)> = Vec::new();
        for certificate in certificates {
            let other = read(certificate)?;
            if !others.iter().any(|(_, earlier)| earlier.subject() == other.subject()) {
                others.push((certificate.as_ref(), other));
            }
        }
        Ok(Others(others))
    }

    /// For webpki.
    pub fn certificates(&self) -> Vec<CertificateDer<'a>> {
        self.0.iter().map(|(der, _)| CertificateDer::from_slice(der)).collect()
    }

    /// Checks the name constraints of these certificates, and of the roots that they and `certificate` lead
    /// to, against the domains of `certificate`. The path is verified already.
    ///
    /// # Errors
    /// One may not, or its constraints cannot be read.
    pub fn vouch_for(
        &self,
        certificate: &CertificateDer<'_>,
        found: &Identities,
        roots: &RootCertStore,
    ) -> Result<(), Error> {
        let first = read(certificate)?;
        let issuers = || {
            self.0
                .iter()
                .map(|(_, other)| other)
                .chain([&first])
                .map(|read| read.tbs_certificate.issuer.as_raw())
        };
        for (_, other) in &self.0 {
            let constraints = other.name_constraints().map_err(|_| CertificateError::BadEncoding)?;
            constraints.map_or(Ok(()), |constraints| allow(constraints.value, found))?;
        }
        let leads_to = |root: &&TrustAnchor<'_>| {
            let subject = sequence(&root.subject);
            issuers().any(|issuer| issuer == subject)
        };
        for root in roots.roots.iter().filter(|root| root.name_constraints.is_some()).filter(leads_to) {
            let bytes = sequence(root.name_constraints.as_deref().unwrap_or_default());
            let (_, constraints) =
                NameConstraints::from_der(&bytes).map_err(|_| CertificateError::BadEncoding)?;
            allow(&constraints, found)?;
        }
        Ok(())
    }
}

/// Whether constraints of the DNS allow all of these domains.
fn allow(constraints: &NameConstraints<'_>, found: &Identities) -> Result<(), Error> {
    let parents = |trees: &'_ Option<Vec<GeneralSubtree<'_>>>| -> Vec<String> {
        let of_dns = trees.iter().flatten().filter_map(|tree| match tree.base {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        });
        of_dns.collect()
    };
    let permitted = parents(&constraints.permitted_subtrees);
    let excluded = parents(&constraints.excluded_subtrees);
    let within = |domain: &str, parents: &[String]| parents.iter().any(|parent| is_within(domain, parent));
    let bad = found.domains().find(|domain| {
        let domain = domain.strip_prefix("*.").unwrap_or(domain);
        (!permitted.is_empty() && !within(domain, &permitted)) || within(domain, &excluded)
    });
    bad.map_or(Ok(()), |domain| Err(Refused::Excluded(domain.to_owned()).into()))
}

/// Whether a domain belongs to a subtree: the parent itself, or a domain below it. If the parent begins with
/// a dot, only domains below it.
fn is_within(domain: &str, parent: &str) -> bool {
    match domain.strip_suffix(parent) {
        Some("") => true,
        Some(rest) => parent.is_empty() || parent.starts_with('.') || rest.ends_with('.'),
        None => false,
    }
}

/// A sequence with its header, which webpki removes (ITU-T X.690 section 8.1.3).
fn sequence(content: &[u8]) -> Vec<u8> {
    let len = content.len().to_be_bytes();
    let len = len.iter().position(|byte| *byte > 0).and_then(|at| len.get(at..)).unwrap_or(&[0]);
    let mut bytes = vec![0x30];
    if content.len() > 0x7f {
        bytes.push(0x80 | len.len() as u8);
    }
    bytes.extend(len);
    bytes.extend(content);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtree_has_its_parent_and_all_below() {
        for (domain, parent, is) in [
            ("example.org", "example.org", true),
            ("a.b.example.org", "example.org", true),
            ("notexample.org", "example.org", false),
            ("example.org", ".example.org", false),
            ("a.example.org", ".example.org", true),
            ("example.org", "", true),
            ("org", "example.org", false),
        ] {
            assert_eq!(is_within(domain, parent), is, "{domain} {parent}");
        }
    }

    #[test]
    fn sequence_has_a_short_or_long_header() {
        assert_eq!(sequence(&[]), [0x30, 0]);
        assert_eq!(sequence(&[7; 127])[..3], [0x30, 127, 7]);
        assert_eq!(sequence(&[7; 200])[..4], [0x30, 0x81, 200, 7]);
        assert_eq!(sequence(&[7; 300])[..5], [0x30, 0x82, 1, 44, 7]);
    }
}
