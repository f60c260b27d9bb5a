//! The SIP domains in a certificate, and how they compare (RFC 5922 section 7).

use rustls::pki_types::CertificateDer;
use std::net::IpAddr;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Names of one certificate that are looked at: more stand in none of a SIP server's.
const MAX_NAMES: usize = 200;

/// The domains that a certificate proves (RFC 5922 section 7.1), in small letters, and addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identities {
    domains: Vec<Box<str>>,
    addresses: Vec<IpAddr>,
}

impl Identities {
    /// Those of this certificate. It is not judged here.
    pub fn of(certificate: &CertificateDer<'_>) -> Identities {
        X509Certificate::from_der(certificate)
            .map_or_else(|_| Identities::default(), |(_, c)| Self::in_it(&c))
    }

    /// Those of a certificate that is read already.
    pub(crate) fn in_it(certificate: &X509Certificate<'_>) -> Identities {
        let alternative = certificate.subject_alternative_name().ok().flatten();
        let Some(alternative) = alternative else {
            // Without the extension, and only then, the common name counts (section 7.1, 2).
            let common = certificate.subject().iter_common_name().find_map(|name| name.as_str().ok());
            let domains = common.filter(|name| is_domain(name)).map(small).into_iter().collect();
            return Identities { domains, addresses: Vec::new() };
        };
        let names = || alternative.value.general_names.iter().take(MAX_NAMES);
        let mut domains: Vec<Box<str>> = names()
            .filter_map(|name| match name {
                GeneralName::URI(uri) => sip_domain(uri).map(small),
                _ => None,
            })
            .collect();
        // A DNS name counts if no SIP URI is there (section 7.1, 1).
        if domains.is_empty() {
            domains.extend(names().filter_map(|name| match name {
                GeneralName::DNSName(name) if is_domain(name.strip_prefix("*.").unwrap_or(name)) => {
                    Some(small(name))
                }
                _ => None,
            }));
        }
        let addresses = names()
            .filter_map(|name| match name {
                GeneralName::IPAddress(bytes) => address(bytes),
                _ => None,
            })
            .collect();
        Identities { domains, addresses }
    }

    /// The domains, in small letters.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.iter().map(AsRef::as_ref)
    }

    /// The addresses, which prove a peer that is named by its address.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Whether it proves none.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.addresses.is_empty()
    }

    /// Whether it proves this domain: the whole of it, in any case (section 7.2). `wildcards`: a name such as
    /// `*.example.org` counts for one label. The RFC forbids it, but public certificates often need it.
    pub fn prove(&self, domain: &str, wildcards: bool) -> bool {
        let domain = domain.strip_suffix('.').unwrap_or(domain);
        // `*.0.2.1` is not an address and proves none.
        !is_address(domain)
            && self.domains().any(|name| {
                name.eq_ignore_ascii_case(domain)
                    || (wildcards && name.strip_prefix("*.").is_some_and(|parent| is_below(domain, parent)))
            })
    }

    /// Whether it proves this address.
    pub fn prove_address(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }
}

/// For a log line: the names, or that there are none.
impl std::fmt::Display for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.domains().map(str::to_owned).chain(self.addresses.iter().map(IpAddr::to_string));
        for (at, name) in names.enumerate() {
            write!(f, "{}{name}", if at == 0 { "" } else { ", " })?;
        }
        if self.is_empty() { f.write_str("no SIP domain") } else { Ok(()) }
    }
}

/// Whether the purposes of a certificate allow clients. A certificate without purposes allows all.
pub(crate) fn is_for_clients(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, read)) = X509Certificate::from_der(certificate) else { return false };
    match read.extended_key_usage() {
        Ok(Some(purposes)) => purposes.value.client_auth,
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Whether `domain` is one label below `parent`.
pub(crate) fn is_below(domain: &str, parent: &str) -> bool {
    domain.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(parent))
}

/// The domain of a `sip` URI without user (section 7.1, 1).
fn sip_domain(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("sip") || rest.contains('@') {
        return None;
    }
    let host = rest.split([';', '?']).next().unwrap_or(rest);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    is_domain(host).then_some(host)
}

/// Whether this can be a domain name: letters, digits, hyphens and dots, no empty label. An address is not
/// one: only an IP entry of the alternative names proves it (RFC 5280 section 4.2.1.6).
pub fn is_domain(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    if is_address(name) {
        return false;
    }
    let of_label = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    name.len() <= 253 && name.split('.').all(|label| !label.is_empty() && label.bytes().all(of_label))
}

/// Whether this is written as an address, which a DNS name cannot prove.
fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

/// An address as certificates have it: four or sixteen bytes.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(v4));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

fn small(name: &str) -> Box<str> {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into()
}

#[cfg(test)]
mod tests;
