//! Which certificate a client is shown, by the name that it asks for (SNI, RFC 6066 section 3).

use crate::certificate::Certificate;
use crate::names::is_below;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The certificates of a server. One of them may be exchanged while the server runs.
#[derive(Debug, Default)]
pub struct Choice {
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    exact: BTreeMap<Box<str>, Arc<CertifiedKey>>,
    /// By the domain below which they are good for one label.
    wildcards: BTreeMap<Box<str>, Arc<CertifiedKey>>,
    /// For who asks for no name, or for one that none is for.
    default: Option<Arc<CertifiedKey>>,
}

impl Choice {
    /// Of these certificates, each with the domains that it is for; without any, those in it. The first is
    /// the default. Of two for one domain the earlier counts.
    pub fn new<'a>(certificates: impl IntoIterator<Item = (&'a Certificate, &'a [String])>) -> Choice {
        let choice = Choice::default();
        choice.replace(certificates);
        choice
    }

    /// Exchanges all of them. Sessions under way keep what they were shown.
    pub fn replace<'a>(&self, certificates: impl IntoIterator<Item = (&'a Certificate, &'a [String])>) {
        let mut table = Table::default();
        for (certificate, domains) in certificates {
            table.add(certificate, domains);
        }
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// The one for this name.
    fn of(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let found = name.and_then(|name| table.named(name));
        found.or(table.default.as_ref()).cloned()
    }
}

impl Table {
    fn add(&mut self, certificate: &Certificate, domains: &[String]) {
        let key = certificate.certified();
        self.default.get_or_insert_with(|| Arc::clone(key));
        for name in certificate.domains(domains) {
            let (names, name) = match name.strip_prefix("*.") {
                Some(parent) => (&mut self.wildcards, parent),
                None => (&mut self.exact, name),
            };
            names.entry(name.to_ascii_lowercase().into()).or_insert_with(|| Arc::clone(key));
        }
    }

    fn named(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        // rustls gives names in small letters, without a last dot.
        let wildcard = || {
            let (_, parent) = name.split_once('.')?;
            debug_assert!(is_below(name, parent) || name.starts_with('.'));
            self.wildcards.get(parent)
        };
        self.exact.get(name).or_else(wildcard)
    }
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.of(hello.server_name())
    }
}
