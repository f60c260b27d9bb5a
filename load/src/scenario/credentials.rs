//! A client's answers to digest challenges (RFC 2617, RFC 7616, RFC 8760), and a server's check of
//! such answers by `verifyauth`.

use super::message;
use super::template::Fault;
use crate::population::Rng;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use sip_auth::client::{self, Asked, Count};
use sip_auth::{Algorithm, Ha1, Question, ha1, response};
use sip_message::{AuthParams, Message, Name};

/// The challenge of a dialog or registration, and how often it was answered.
#[derive(Clone, Debug, Default)]
pub struct Challenge {
    /// The value of WWW-Authenticate or Proxy-Authenticate.
    text: Vec<u8>,
    proxy: bool,
    /// Answers given with its nonce.
    count: u32,
    /// Where its parts stand in the text.
    parts: Option<Places>,
    /// There was a challenge, and none that can be answered.
    unanswerable: bool,
}

/// Where the parts of a challenge stand in its text.
#[derive(Clone, Copy, Debug)]
struct Places {
    realm: (u16, u16),
    nonce: (u16, u16),
    opaque: Option<(u16, u16)>,
    name: Option<(u16, u16)>,
    algorithm: Algorithm,
    counted: bool,
}

/// Most secrets that are kept hashed; beyond, all are forgotten and hashed again as they are used.
const MOST_SECRETS: usize = 4_000_000;

/// Secrets already hashed, and the source of cnonces. One per worker.
#[derive(Debug)]
pub struct Credentials {
    rng: Rng,
    secrets: HashMap<Vec<u8>, Ha1, FixedState>,
    key: Vec<u8>,
}

/// What is to be proven, and for which request.
pub(super) struct Wanted<'a> {
    pub user: &'a [u8],
    pub password: &'a [u8],
    pub method: &'a [u8],
    pub uri: &'a [u8],
}

impl Challenge {
    /// Takes the challenge of a 401 or 407: of several, the first Digest one with an algorithm that is known
    /// (RFC 8760 section 2.4). False if there is none; then the old one stays.
    pub fn learn(&mut self, message: &Message<'_>) -> bool {
        let proxy = !message.is_request() && message.status() == 407;
        let names = if proxy {
            [Name::ProxyAuthenticate, Name::WwwAuthenticate]
        } else {
            [Name::WwwAuthenticate, Name::ProxyAuthenticate]
        };
        let found = names.into_iter().find_map(|name| {
            let (value, parts) = client::first(message, name)?;
            Some((name, value, Places::of(&parts, value)?))
        });
        let Some((name, value, places)) = found else {
            self.unanswerable |= names.into_iter().any(|name| message.headers(name).next().is_some());
            return false;
        };
        self.text.clear();
        self.text.extend_from_slice(value);
        self.parts = Some(places);
        self.proxy = name == Name::ProxyAuthenticate;
        self.count = 0;
        true
    }

    /// Whether there is a challenge to answer.
    pub fn is_known(&self) -> bool {
        self.parts.is_some()
    }

    /// Forgets it, for the next call.
    pub fn clear(&mut self) {
        self.text.clear();
        self.parts = None;
        self.unanswerable = false;
        self.count = 0;
    }

    fn parts(&self) -> Option<client::Challenge<'_>> {
        let places = self.parts?;
        let part = |(from, to): (u16, u16)| self.text.get(usize::from(from)..usize::from(to));
        Some(client::Challenge {
            realm: part(places.realm)?,
            nonce: part(places.nonce)?,
            opaque: places.opaque.and_then(part),
            name: places.name.and_then(part),
            algorithm: places.algorithm,
            counted: places.counted,
        })
    }
}

impl Places {
    /// Where the parts of a challenge stand in `value`, whose slices they are. `None` if it is too long.
    fn of(parts: &client::Challenge<'_>, value: &[u8]) -> Option<Places> {
        let place = |part: &[u8]| {
            let from = part.as_ptr() as usize - value.as_ptr() as usize;
            Some((u16::try_from(from).ok()?, u16::try_from(from + part.len()).ok()?))
        };
        Some(Places {
            realm: place(parts.realm)?,
            nonce: place(parts.nonce)?,
            opaque: parts.opaque.and_then(place),
            name: parts.name.and_then(place),
            algorithm: parts.algorithm,
            counted: parts.counted,
        })
    }
}

impl Credentials {
    /// No secrets yet; cnonces follow from `seed`.
    pub fn new(seed: u64) -> Credentials {
        // A stream of its own, so that no other draw depends on whether a server asks for credentials.
        Credentials { rng: Rng::new(seed, 0x636e_6f6e_6365), secrets: HashMap::default(), key: Vec::new() }
    }

    /// The hash of a secret; the same one is computed once.
    fn secret(&mut self, algorithm: Algorithm, user: &[u8], realm: &[u8], password: &[u8]) -> Ha1 {
        self.key.clear();
        for part in [algorithm.name().as_bytes(), user, realm, password] {
            self.key.extend_from_slice(&(part.len() as u32).to_le_bytes());
            self.key.extend_from_slice(part);
        }
        if let Some(secret) = self.secrets.get(&self.key) {
            return *secret;
        }
        let secret = ha1(algorithm, user, realm, password);
        if self.secrets.len() >= MOST_SECRETS {
            self.secrets.clear();
        }
        self.secrets.insert(self.key.clone(), secret);
        secret
    }

    /// Writes the header that answers a challenge, without a line end.
    pub(super) fn answer(
        &mut self,
        challenge: &mut Challenge,
        wanted: &Wanted<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        challenge.count = challenge.count.wrapping_add(1);
        let Some(parts) = challenge.parts() else {
            return Err(if challenge.unanswerable { Fault::UnknownChallenge } else { Fault::NoChallenge });
        };
        let secret = self.secret(parts.algorithm, wanted.user, parts.realm, wanted.password);
        let count = Count { number: challenge.count, cnonce: self.rng.next_u64() };
        let asked = Asked { user: wanted.user, method: wanted.method, uri: wanted.uri };
        client::write_credentials(&parts, &secret, challenge.proxy, count, &asked, out);
        Ok(())
    }

    /// `verifyauth`: whether the Authorization or Proxy-Authorization of a raw request was made with this
    /// password. Only the proof is checked: nonces are the scenario's own affair.
    pub(super) fn verify(&mut self, message: &[u8], user: &[u8], password: &[u8]) -> bool {
        let method = message.split(|&b| b == b' ').next().unwrap_or_default();
        let value = message::header(message, Name::Authorization);
        let value = value.or_else(|| message::header(message, Name::ProxyAuthorization));
        let Some(params) = value.and_then(AuthParams::parse) else { return false };
        let get = |name: &[u8]| params.get(name);
        let (Some(name), Some(realm), Some(nonce), Some(uri), Some(proof)) =
            (get(b"username"), get(b"realm"), get(b"nonce"), get(b"uri"), get(b"response"))
        else {
            return false;
        };
        let Some(algorithm) = get(b"algorithm").map_or(Some(Algorithm::Md5), Algorithm::from_name) else {
            return false;
        };
        let counted = match (get(b"nc"), get(b"cnonce"), get(b"qop")) {
            (Some(nc), Some(cnonce), Some(qop)) => Some((nc, cnonce, qop)),
            _ => None,
        };
        let secret = self.secret(algorithm, user, realm, password);
        let question = Question { method, uri, nonce, counted };
        name == user && response(&secret, &question).as_bytes().eq_ignore_ascii_case(proof)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Has a challenge learn from a response with this header.
    pub fn tell(challenge: &mut Challenge, status: u16, header: &str) -> bool {
        let message = format!(
            "SIP/2.0 {status} No\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:a@b>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\n{header}\r\nContent-Length: 0\r\n\r\n"
        );
        let mut index = sip_message::Index::new();
        let limits = sip_message::Limits::default();
        let sip_message::Parsed::Good(message) = sip_message::parse(message.as_bytes(), &mut index, &limits)
        else {
            panic!("a good message: {message}")
        };
        challenge.learn(&message)
    }

    fn challenged(status: u16, header: &str) -> Option<Challenge> {
        let mut challenge = Challenge::default();
        assert_eq!(tell(&mut challenge, status, header), challenge.is_known());
        challenge.is_known().then_some(challenge)
    }

    fn answer(desk: &mut Credentials, challenge: &mut Challenge) -> String {
        let wanted = Wanted { user: b"joe", password: b"schmo", method: b"REGISTER", uri: b"sip:h" };
        let mut out = Vec::new();
        desk.answer(challenge, &wanted, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn answers_stand_the_check_and_count() {
        for header in [
            "WWW-Authenticate: Digest realm=\"r\", nonce=\"abc\", qop=\"auth,auth-int\", opaque=\"o\", algorithm=MD5",
            "WWW-Authenticate: Digest realm=\"r\", nonce=\"abc\", qop=\"auth\", algorithm=SHA-256",
            "WWW-Authenticate: Digest realm=\"r\",nonce=\"abc\"",
        ] {
            let mut desk = Credentials::new(1);
            let mut challenge = challenged(401, header).unwrap();
            let (first, second) = (answer(&mut desk, &mut challenge), answer(&mut desk, &mut challenge));
            assert_eq!(first.contains("nc=00000001"), header.contains("qop"), "{first}");
            assert_eq!(second.contains("nc=00000002"), header.contains("qop"), "{second}");
            assert_eq!(first.contains("opaque=\"o\""), header.contains("opaque"));
            for text in [first, second] {
                assert!(text.starts_with(
                    "Authorization: Digest username=\"joe\",realm=\"r\",nonce=\"abc\",uri=\"sip:h\""
                ));
                let request = format!("REGISTER sip:h SIP/2.0\r\n{text}\r\n\r\n");
                assert!(desk.verify(request.as_bytes(), b"joe", b"schmo"), "{request}");
                assert!(!desk.verify(request.as_bytes(), b"joe", b"other"));
                assert!(!desk.verify(request.as_bytes(), b"jim", b"schmo"));
                assert!(!desk.verify(request.replace("REGISTER", "INVITE").as_bytes(), b"joe", b"schmo"));
            }
            assert_eq!(desk.secrets.len(), 3, "each secret is hashed once");
        }
    }

    #[test]
    fn a_proxy_is_answered_as_a_proxy() {
        let mut challenge = challenged(407, "Proxy-Authenticate: Digest realm=\"r\",nonce=\"n\"").unwrap();
        assert!(answer(&mut Credentials::new(1), &mut challenge).starts_with("Proxy-Authorization: Digest "));
    }

    /// RFC 2617 section 3.5, as far as it can be steered: without qop all is fixed.
    #[test]
    fn the_proof_is_the_one_of_the_rfc() {
        let mut challenge =
            challenged(401, "WWW-Authenticate: Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"").unwrap();
        let uri = b"/dir/index.html";
        let wanted = Wanted { user: b"Mufasa", password: b"Circle Of Life", method: b"GET", uri };
        let mut out = Vec::new();
        Credentials::new(1).answer(&mut challenge, &wanted, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("response=\"670fd8c2df070c60b045671b8b24ff02\""));
    }

    #[test]
    fn what_cannot_be_answered_is_not_taken() {
        for header in [
            "WWW-Authenticate: Basic realm=\"r\"",
            "WWW-Authenticate: Digest realm=\"r\",nonce=\"n\",algorithm=AKAv1-MD5",
            "WWW-Authenticate: Digest realm=\"r\",nonce=\"n\",qop=\"auth-int\"",
            "WWW-Authenticate: Digest nonce=\"n\"",
            "X: y",
        ] {
            assert!(challenged(401, header).is_none(), "{header}");
        }
        // The first that can be answered counts.
        let two = "WWW-Authenticate: Digest realm=\"r\",nonce=\"n\",algorithm=X\r\nWWW-Authenticate: Digest realm=\"s\",nonce=\"m\"";
        assert!(answer(&mut Credentials::new(1), &mut challenged(401, two).unwrap()).contains("realm=\"s\""));
        let wanted = Wanted { user: b"", password: b"", method: b"", uri: b"" };
        let fault =
            |challenge: &mut Challenge| Credentials::new(1).answer(challenge, &wanted, &mut Vec::new());
        let mut challenge = Challenge::default();
        assert_eq!(fault(&mut challenge), Err(Fault::NoChallenge));
        assert!(!tell(&mut challenge, 401, "WWW-Authenticate: Basic realm=\"r\""));
        assert_eq!(fault(&mut challenge), Err(Fault::UnknownChallenge));
        challenge.clear();
        assert_eq!(fault(&mut challenge), Err(Fault::NoChallenge));
    }

    #[test]
    fn cnonces_follow_from_the_seed() {
        let header = "WWW-Authenticate: Digest realm=\"r\",nonce=\"n\",qop=\"auth\"";
        let [a, b, c] =
            [1, 1, 2].map(|seed| answer(&mut Credentials::new(seed), &mut challenged(401, header).unwrap()));
        assert!(a == b && a != c);
    }
}
