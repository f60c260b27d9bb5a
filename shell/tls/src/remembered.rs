//! Sessions with servers that may be resumed, only while the certificates of these servers are valid: rustls
//! does not verify a certificate again when its session is resumed.

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::{ServerName, UnixTime};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of sessions that are kept. We connect to few servers.
const MOST: usize = 256;

/// The end of validity of each server's certificate, seconds since 1970.
#[derive(Clone, Debug, Default)]
pub struct Ends(Arc<Mutex<BTreeMap<Box<str>, u64>>>);

impl Ends {
    /// A server has proven its name by a certificate that is valid until then.
    pub fn note(&self, server: &ServerName<'_>, until: u64) {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let server = server.to_str();
        if ends.len() >= MOST && !ends.contains_key(&*server) {
            // Each of them then costs a full handshake.
            ends.clear();
        }
        ends.insert(server.into(), until);
    }

    fn count(&self, server: &ServerName<'_>, now: u64) -> bool {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.get(&*server.to_str()).is_some_and(|until| now < *until)
    }
}

/// The sessions of one client.
#[derive(Debug)]
pub struct Remembered {
    sessions: ClientSessionMemoryCache,
    ends: Ends,
}

impl Remembered {
    /// Empty. The verifier of servers fills `ends`.
    pub fn new(ends: Ends) -> Remembered {
        Remembered { sessions: ClientSessionMemoryCache::new(MOST), ends }
    }

    fn counts(&self, server: &ServerName<'_>) -> bool {
        self.ends.count(server, UnixTime::now().as_secs())
    }
}

impl ClientSessionStore for Remembered {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.sessions.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.sessions.set_tls12_session(server, value);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions.tls12_session(server).filter(|_| self.counts(server))
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.sessions.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.sessions.insert_tls13_ticket(server, value);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.sessions.take_tls13_ticket(server).filter(|_| self.counts(server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_count_until_the_certificate_ends() {
        let name = |text: &str| ServerName::try_from(text.to_owned()).expect("a name");
        let ends = Ends::default();
        ends.note(&name("a.example"), 100);
        assert!(ends.count(&name("a.example"), 99));
        assert!(!ends.count(&name("a.example"), 100) && !ends.count(&name("b.example"), 0));
        (0..MOST).for_each(|n| ends.note(&name(&format!("c{n}.example")), 100));
        assert!(ends.0.lock().expect("no panic").len() <= MOST);
    }
}
