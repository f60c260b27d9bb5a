//! What connections that we open begin from.

use crate::names::is_domain;
use crate::session::{Fault, Session};
use crate::settings::ClientSettings;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// The largest number of servers whose last failure is kept.
const MOST_FAULTS: usize = 1_000;

/// What connections that we open begin from. It may be exchanged while they run. Clones share it.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    table: RwLock<Table>,
    /// The one server that all connections lead to, where there is only one.
    only: Option<Only>,
    /// Why the last connection to a server failed, by its name. A successful connection removes the entry.
    faults: Mutex<BTreeMap<Box<str>, String>>,
}

#[derive(Debug)]
struct Only {
    name: Box<str>,
    /// Why the first connection that failed did.
    fault: OnceLock<String>,
}

#[derive(Debug)]
struct Table {
    /// By the name that the server has to prove, in small letters.
    named: BTreeMap<Box<str>, Arc<ClientConfig>>,
    default: Arc<ClientConfig>,
}

impl Table {
    fn new<'a>(
        default: &ClientSettings,
        named: impl IntoIterator<Item = (&'a str, &'a ClientSettings)>,
    ) -> Result<Table, Error> {
        let entry = |(name, settings): (&str, &ClientSettings)| Ok((plain(name), settings.config()?));
        let named = named.into_iter().map(entry).collect::<Result<_, Error>>()?;
        Ok(Table { named, default: default.config()? })
    }
}

impl Client {
    /// Connections to a server of one of these names begin with the settings beside it, all others with
    /// `default`.
    ///
    /// # Errors
    /// A certificate cannot be used.
    pub fn new<'a>(
        default: &ClientSettings,
        named: impl IntoIterator<Item = (&'a str, &'a ClientSettings)>,
    ) -> Result<Client, Error> {
        let table = RwLock::new(Table::new(default, named)?);
        Ok(Client(Arc::new(Inner { table, only: None, faults: Mutex::default() })))
    }

    /// All connections lead to one server, so they need not say which name it has to prove.
    pub(crate) fn of_one(config: Arc<ClientConfig>, name: &str) -> Client {
        let table = RwLock::new(Table { named: BTreeMap::new(), default: config });
        let only = Some(Only { name: name.into(), fault: OnceLock::new() });
        Client(Arc::new(Inner { table, only, faults: Mutex::default() }))
    }

    /// The name that the server has to prove where a connection says none; `None`: it has to say one.
    pub fn only(&self) -> Option<&str> {
        self.0.only.as_ref().map(|only| &*only.name)
    }

    /// TLS with the server of this name failed. If all connections go to one server, the first reason is
    /// kept.
    pub fn failed(&self, name: &str, why: &dyn Display) {
        self.note(name, "TLS failed", why);
    }

    /// No connection to the server of this name came about, so TLS did not begin.
    pub fn unconnected(&self, name: &str, why: &dyn Display) {
        self.note(name, "cannot connect", why);
    }

    fn note(&self, name: &str, what: &str, why: &dyn Display) {
        if let Some(only) = &self.0.only {
            only.fault.get_or_init(|| why.to_string());
            return;
        }
        let mut faults = self.0.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let name = plain(name);
        if faults.len() < MOST_FAULTS || faults.contains_key(&name) {
            faults.insert(name, format!("{what}: {why}"));
        }
    }

    /// A server has proven this name.
    pub fn succeeded(&self, name: &str) {
        let mut faults = self.0.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if !faults.is_empty() {
            faults.remove(&plain(name));
        }
    }

    /// Why the last connection to the server of this name failed, if it did.
    pub fn fault_of(&self, name: &str) -> Option<String> {
        let faults = self.0.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.get(&plain(name)).cloned()
    }

    /// Why the first connection that failed did, where all lead to one server.
    pub fn fault(&self) -> Option<&str> {
        self.0.only.as_ref()?.fault.get().map(String::as_str)
    }

    /// Exchanges all of it. Sessions under way stay as they are.
    ///
    /// # Errors
    /// A certificate cannot be used; nothing has changed then.
    pub fn replace<'a>(
        &self,
        default: &ClientSettings,
        named: impl IntoIterator<Item = (&'a str, &'a ClientSettings)>,
    ) -> Result<(), Error> {
        *self.0.table.write().unwrap_or_else(PoisonError::into_inner) = Table::new(default, named)?;
        Ok(())
    }

    /// A session that begins, with a server that has to prove this name: a domain, or an address, as the host
    /// of a SIP URI is written. Empty: the name of [`Client::only`]. `out` gets what is to be sent first.
    ///
    /// # Errors
    /// It is no name that a certificate can have.
    pub fn session(&self, name: &str, out: &mut Vec<u8>) -> Result<Session, Fault> {
        let name = self.only().filter(|_| name.is_empty()).unwrap_or(name);
        let server = server_name(name).ok_or(Fault::NoName)?;
        let config = {
            let table = self.0.table.read().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(table.named.get(&plain(name)).unwrap_or(&table.default))
        };
        Session::client(&config, server, out)
    }
}

/// A name as it is compared: in small letters, without the brackets of an address and the dot at the end.
fn plain(name: &str) -> Box<str> {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase().into()
}

/// The name of a server for rustls.
fn server_name(name: &str) -> Option<ServerName<'static>> {
    let plain = plain(name);
    match plain.parse::<IpAddr>() {
        Ok(address) => Some(ServerName::IpAddress(address.into())),
        Err(_) if is_domain(&plain) => ServerName::try_from(String::from(plain)).ok(),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_domains_and_addresses() {
        let address = |text: &str| ServerName::IpAddress(text.parse::<IpAddr>().unwrap().into());
        for (name, read) in [("192.0.2.1", "192.0.2.1"), ("[2001:DB8::1]", "2001:db8::1")] {
            assert_eq!(server_name(name), Some(address(read)), "{name}");
        }
        let domain = ServerName::try_from("sip.example.org").unwrap();
        for name in ["sip.example.org", "SIP.example.ORG", "sip.example.org."] {
            assert_eq!(server_name(name), Some(domain.clone()), "{name}");
        }
        for name in ["", ".", "a b", "a/b", "example..org", "*.example.org", "[example.org"] {
            assert_eq!(server_name(name), None, "{name}");
        }
    }
}
