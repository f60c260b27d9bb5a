//! A challenge of another server that is answered more than once: each request carries credentials at once,
//! with the next nonce count (RFC 7616 section 3.4).

use crate::algorithm::Ha1;
use crate::client::{Asked, Challenge, Count, is_stale, write_credentials};
use core::fmt;
use sip_message::{Message, Name};

/// What proves this server to another one. It has no `Debug`, because it holds a password.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    /// The user name.
    pub user: &'a [u8],
    /// The password.
    pub password: &'a [u8],
    /// The only realm that is answered. `None`: any. The sender of a challenge learns a hash of the password,
    /// which can be guessed offline, and an element behind the server may ask as well.
    pub realm: Option<&'a [u8]>,
}

/// Why no challenge of a response is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unanswerable {
    /// There is none, or none that can be answered ([`Challenge::of`]).
    Unreadable,
    /// Those that can be answered are of other realms.
    Realm,
}

impl Unanswerable {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Unanswerable::Unreadable => "its challenge cannot be answered",
            Unanswerable::Realm => "its challenge is of another realm than `realm`",
        }
    }
}

/// A challenge that is answered, and how often it was.
#[derive(Clone, PartialEq, Eq)]
pub struct Held {
    /// The value of the header field. It was read by [`Challenge::of`].
    value: Box<[u8]>,
    secret: Ha1,
    /// A proxy has made it (407).
    proxy: bool,
    used: u32,
}

impl Held {
    /// Of the challenges of a 401 or 407 the first that can be answered (RFC 8760 section 2.4).
    ///
    /// # Errors
    /// If there is none.
    pub fn of(response: &Message<'_>, login: &Login<'_>) -> Result<Held, Unanswerable> {
        let proxy = response.status() == 407;
        let name = if proxy { Name::ProxyAuthenticate } else { Name::WwwAuthenticate };
        let mut refused = Unanswerable::Unreadable;
        for header in response.headers(name) {
            let Some(challenge) = Challenge::of(header.value) else { continue };
            if login.realm.is_some_and(|realm| *realm != *crate::client::unescaped(challenge.realm)) {
                refused = Unanswerable::Realm;
                continue;
            }
            let secret = challenge.secret(login.user, login.password);
            return Ok(Held { value: header.value.into(), secret, proxy, used: 0 });
        }
        Err(refused)
    }

    /// Whether a proxy has made it. Otherwise the server that a request is for has.
    pub const fn is_of_proxy(&self) -> bool {
        self.proxy
    }

    /// The realm as it was written.
    pub fn realm(&self) -> &[u8] {
        Challenge::of(&self.value).map_or(b"", |challenge| challenge.realm)
    }

    /// Whether another one has the same nonce: an answer to it was not accepted.
    pub fn is_again(&self, other: &Held) -> bool {
        let nonce = |held: &Held| Challenge::of(&held.value).map(|challenge| challenge.nonce.to_vec());
        self.proxy == other.proxy && nonce(self) == nonce(other)
    }

    /// Appends the line that answers it for a request, with its end. `cnonce` is a number that differs from
    /// one request to the next.
    pub fn write(&mut self, asked: &Asked<'_>, cnonce: u64, out: &mut Vec<u8>) {
        let Some(challenge) = Challenge::of(&self.value) else { return };
        self.used = self.used.saturating_add(1);
        let count = Count { number: self.used, cnonce };
        write_credentials(&challenge, &self.secret, self.proxy, count, asked, out);
        out.extend_from_slice(b"\r\n");
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held(answered {} times, hidden)", self.used)
    }
}

/// How often challenges to one request were answered: once each of a proxy and of a server, and once more
/// where the nonce was too old (RFC 3261 section 22, RFC 7616 section 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tries {
    proxy: u8,
    server: u8,
}

impl Tries {
    /// Whether this 401 or 407 may be answered, which then counts.
    pub fn take(&mut self, response: &Message<'_>) -> bool {
        let tries = if response.status() == 407 { &mut self.proxy } else { &mut self.server };
        let may = *tries == 0 || *tries == 1 && is_stale(response);
        *tries = tries.saturating_add(1);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Algorithm, Authenticator, Backoff, BackoffRules, Config, Decision, LocalLedger, NonceCounts, Request,
        Secret, Status, ha1,
    };
    use core::net::IpAddr;
    use core::time::Duration;
    use proptest::prelude::*;
    use sip_message::{Index, Limits, Parsed, parse};
    use wire::Time;

    fn with<R>(status: u16, lines: &str, f: impl FnOnce(&Message<'_>) -> R) -> R {
        let text = format!(
            "SIP/2.0 {status} No\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:a@b>;tag=2\r\nCall-ID: i\r\nCSeq: 1 INVITE\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        let mut index = Box::<Index>::default();
        match parse(text.as_bytes(), &mut index, &Limits::default()) {
            Parsed::Good(message) => f(&message),
            _ => panic!("{text}"),
        }
    }

    const LOGIN: Login<'static> = Login { user: b"4930555", password: b"pass word", realm: None };

    fn held(status: u16, lines: &str, realm: Option<&[u8]>) -> Result<Held, Unanswerable> {
        with(status, lines, |response| Held::of(response, &Login { realm, ..LOGIN }))
    }

    fn line(held: &mut Held) -> String {
        let mut out = Vec::new();
        held.write(&Asked { user: LOGIN.user, method: b"INVITE", uri: b"sip:1@c" }, 0xabc, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn nonce_count_rises_with_each_request() {
        let lines = "Proxy-Authenticate: Digest realm=\"c\", nonce=\"n\", qop=\"auth\", opaque=\"o\"\r\n";
        let mut held = held(407, lines, None).expect("answered");
        for count in ["00000001", "00000002", "00000003"] {
            let line = line(&mut held);
            assert!(
                line.starts_with("Proxy-Authorization: Digest username=\"4930555\",realm=\"c\","),
                "{line}"
            );
            assert!(line.contains(&format!(",nc={count},")) && line.contains("opaque=\"o\""), "{line}");
            assert!(line.ends_with("\r\n") && line.matches("\r\n").count() == 1, "{line}");
        }
        assert!(!format!("{held:?}").contains("4930555"));
    }

    #[test]
    fn only_the_wanted_realm_is_answered() {
        let lines = "WWW-Authenticate: Digest realm=\"other\", nonce=\"a\"\r\n\
             WWW-Authenticate: Digest realm=\"carrier\", nonce=\"b\"\r\n";
        assert_eq!(held(401, lines, Some(b"carrier")).expect("answered").realm(), b"carrier");
        assert_eq!(held(401, lines, None).expect("answered").realm(), b"other");
        assert_eq!(held(401, lines, Some(b"none")), Err(Unanswerable::Realm));
        assert_eq!(held(401, "", None), Err(Unanswerable::Unreadable));
        // A challenge of a proxy in a 401 is not one.
        let proxy = "Proxy-Authenticate: Digest realm=\"carrier\", nonce=\"b\"\r\n";
        assert_eq!(held(401, proxy, None), Err(Unanswerable::Unreadable));
    }

    #[test]
    fn challenge_for_ever_is_answered_twice_at_most() {
        let plain = "Proxy-Authenticate: Digest realm=\"c\", nonce=\"n\"\r\n";
        let stale = "Proxy-Authenticate: Digest realm=\"c\", nonce=\"n\", stale=true\r\n";
        for (lines, most) in [(plain, 1), (stale, 2)] {
            let mut tries = Tries::default();
            let taken = (0..300).filter(|_| with(407, lines, |response| tries.take(response))).count();
            assert_eq!(taken, most);
            let server = "WWW-Authenticate: Digest realm=\"c\", nonce=\"n\"\r\n";
            assert!(with(401, server, |response| tries.take(response)), "that is another challenge");
            assert!(!with(401, server, |response| tries.take(response)));
        }
    }

    #[test]
    fn same_nonce_again_is_noticed() {
        let of = |status, nonce: &str| {
            let name = if status == 407 { "Proxy-Authenticate" } else { "WWW-Authenticate" };
            held(status, &format!("{name}: Digest realm=\"c\", nonce=\"{nonce}\"\r\n"), None)
                .expect("answered")
        };
        assert!(of(407, "n").is_again(&of(407, "n")));
        assert!(!of(407, "n").is_again(&of(407, "m")) && !of(407, "n").is_again(&of(401, "n")));
    }

    proptest! {
        /// Any header value is read without harm, and what is written stays one line.
        #[test]
        fn hostile_challenges_stay_on_one_line(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(challenge) = Challenge::of(&value) {
                let secret = challenge.secret(b"u", b"p");
                let mut held = Held { value: value.clone().into(), secret, proxy: false, used: 0 };
                let mut out = Vec::new();
                held.write(&Asked { user: b"u", method: b"BYE", uri: b"sip:h" }, 1, &mut out);
                prop_assert!(out.iter().rev().skip(2).all(|&b| b >= b' ' || b == b'\t'));
            }
        }

        /// What the client writes is what our own server accepts, with every algorithm, twice in a row.
        #[test]
        fn our_server_accepts_what_the_client_writes(
            user in "[a-z0-9+]{1,20}",
            password in "[ -~]{0,30}",
            realm in "[ -~]{1,30}",
            uri in "sip:[a-z0-9]{1,10}@[a-z]{1,10}",
            which in 0usize..3,
            proxy in any::<bool>(),
        ) {
            let algorithm = [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512_256][which];
            let config = Config { algorithms: vec![algorithm], ..Config::default() };
            let server = Authenticator::new(&Secret { key: [1; 16], epoch: 1 }, config);
            let mut ledger = LocalLedger {
                nonces: NonceCounts::new(100, Duration::from_secs(300)),
                backoff: Backoff::new(100, BackoffRules::default()),
                recent: None,
            };
            let source = IpAddr::from([192, 0, 2, 1]);
            let (now, names_server) = (Time::from_secs(9), Request::NOT_BY_ADDRESS);
            let (method, realm) = (&b"INVITE"[..], realm.as_bytes());
            let request = Request {
                method, uri: uri.as_bytes(), realm, home: b"h", source, peer: None, now, names_server,
            };
            let status = if proxy { Status::ProxyAuthenticationRequired } else { Status::Unauthorized };
            let mut lines = Vec::new();
            server.challenge(status, &request, false, 1, &mut lines);
            let lines = String::from_utf8(lines).expect("text");
            let login = Login { user: user.as_bytes(), password: password.as_bytes(), realm: Some(realm) };
            let held = with(status.code(), &lines, |response| Held::of(response, &login));
            let mut held = held.expect("our own challenge is answered");
            for cnonce in 0..2 {
                let mut out = Vec::new();
                held.write(&Asked { user: login.user, method, uri: uri.as_bytes() }, cnonce, &mut out);
                let text = String::from_utf8(out).expect("text");
                let value = text.split_once(": ").expect("a header field").1.trim_end();
                let mut secrets = |name: &crate::Name, asked: Algorithm| {
                    (name.user() == user.as_bytes()).then(|| ha1(asked, user.as_bytes(), realm, password.as_bytes()))
                };
                let decision = server.check(
                    &request, [value.as_bytes()].into_iter(), &mut secrets, &mut ledger,
                );
                prop_assert!(matches!(decision, Decision::Accepted { .. }), "{text}");
            }
        }
    }
}
