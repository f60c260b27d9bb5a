//! What connections that we open begin from.

use crate::names::is_domain;
use crate::session::{Fault, Session};
use crate::settings::ClientSettings;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// What connections that we open begin from. It may be exchanged while they run. Clones share it.
#[derive(Clone, Debug)]
pub struct Client(Arc<RwLock<Table>>);

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
        Ok(Client(Arc::new(RwLock::new(Table::new(default, named)?))))
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
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Table::new(default, named)?;
        Ok(())
    }

    /// A session that begins, with a server that has to prove this name: a domain, or an address, as the host
    /// of a SIP URI is written. `out` gets what is to be sent first.
    ///
    /// # Errors
    /// It is no name that a certificate can have.
    pub fn session(&self, name: &str, out: &mut Vec<u8>) -> Result<Session, Fault> {
        let server = server_name(name).ok_or(Fault::NoName)?;
        let config = {
            let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
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
