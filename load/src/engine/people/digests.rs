//! How users prove who they are (RFC 3261 section 22, RFC 7616).
//!
//! A secret is hashed each time anew: one block of MD5 costs less than the memory that a million kept
//! ones would. Where nonces are used again, 64 bytes a user hold the last one; everything else in a
//! challenge is the same for all users of a domain and kept once.

use super::Names;
use crate::population::Rng;
use sip_auth::client::{self, Challenge, Count, write_credentials};
use sip_auth::{Algorithm, ha1};
use sip_message::{Message, Name};

/// A request to be proven.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub method: &'a [u8],
    pub uri: &'a [u8],
}

/// Longest nonce that is kept. Those of the servers known to us have 32 to 56 characters.
const LONGEST: usize = 59;

/// The last nonce of one user.
#[derive(Clone, Copy)]
struct Kept {
    count: u32,
    length: u8,
    text: [u8; LONGEST],
}

const NOTHING: Kept = Kept { count: 0, length: 0, text: [0; LONGEST] };

/// What is the same in all challenges of one kind.
struct Template {
    realm: Vec<u8>,
    opaque: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    algorithm: Algorithm,
    counted: bool,
}

impl Template {
    fn of(parts: &Challenge<'_>) -> Template {
        Template {
            realm: parts.realm.to_vec(),
            opaque: parts.opaque.map(<[u8]>::to_vec),
            name: parts.name.map(<[u8]>::to_vec),
            algorithm: parts.algorithm,
            counted: parts.counted,
        }
    }

    fn is_of(&self, parts: &Challenge<'_>) -> bool {
        self.realm == parts.realm
            && self.opaque.as_deref() == parts.opaque
            && self.name.as_deref() == parts.name
            && self.counted == parts.counted
    }

    fn parts<'a>(&'a self, nonce: &'a [u8]) -> Challenge<'a> {
        Challenge {
            realm: &self.realm,
            nonce,
            opaque: self.opaque.as_deref(),
            name: self.name.as_deref(),
            algorithm: self.algorithm,
            counted: self.counted,
        }
    }
}

/// The answers of one worker's users to challenges.
pub struct Digests {
    rng: Rng,
    /// Nonces by the user's number at this worker; empty if they are not used again.
    kept: Vec<Kept>,
    /// Of a registrar's challenges and of a proxy's.
    templates: [Option<Template>; 2],
    user: Vec<u8>,
    password: Vec<u8>,
}

impl Digests {
    /// For `users` users; `reuse`: nonces are used again until the server wants another.
    pub fn new(seed: u64, users: u64, reuse: bool) -> Digests {
        Digests {
            rng: Rng::new(seed, 0x7065_6f70_6c65),
            kept: if reuse { vec![NOTHING; users as usize] } else { Vec::new() },
            templates: [None, None],
            user: Vec::new(),
            password: Vec::new(),
        }
    }

    /// Bytes allocated for nonces.
    pub fn bytes(&self) -> usize {
        self.kept.capacity() * size_of::<Kept>()
    }

    /// Appends the header line that proves a request: an answer to `challenge` if there is one, otherwise
    /// what spares a server the challenge; `proxy`: it is a proxy. False if the challenge has no answer.
    /// `local`: the user's number at this worker, if it is one of its.
    pub fn prove(
        &mut self,
        names: &Names,
        (user, local): (u64, Option<u32>),
        (proxy, challenge): (bool, Option<&Message<'_>>),
        asked: Asked<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        match challenge {
            Some(challenge) => self.answer(names, (user, local), challenge, asked, out),
            None => {
                self.anticipate(names, (user, local.unwrap_or(u32::MAX)), proxy, asked, out);
                true
            }
        }
    }

    /// Appends the header line that answers the challenge in a 401 or 407. False, and nothing appended,
    /// if there is none that can be answered.
    fn answer(
        &mut self,
        names: &Names,
        (user, local): (u64, Option<u32>),
        challenge: &Message<'_>,
        asked: Asked<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let proxy = challenge.status() == 407;
        let name = if proxy { Name::ProxyAuthenticate } else { Name::WwwAuthenticate };
        let Some((_, parts)) = client::first(challenge, name) else { return false };
        let place = local.and_then(|local| self.kept.get_mut(local as usize));
        if let Some(kept) = place {
            *kept = NOTHING;
            if let Some(text) = kept.text.get_mut(..parts.nonce.len()) {
                text.copy_from_slice(parts.nonce);
                (kept.count, kept.length) = (1, parts.nonce.len() as u8);
            }
            let template = self.templates.get_mut(usize::from(proxy));
            if let Some(template) = template.filter(|t| !t.as_ref().is_some_and(|t| t.is_of(&parts))) {
                *template = Some(Template::of(&parts));
            }
        }
        self.write(names, user, &parts, (proxy, 1), asked, out);
        true
    }

    /// Appends the header line that spares the server the challenge: with the nonce of the last one.
    /// Nothing if there is none.
    fn anticipate(
        &mut self,
        names: &Names,
        (user, local): (u64, u32),
        proxy: bool,
        asked: Asked<'_>,
        out: &mut Vec<u8>,
    ) {
        let Some(kept) = self.kept.get_mut(local as usize).filter(|kept| kept.length > 0) else { return };
        let Some(template) = self.templates.get_mut(usize::from(proxy)).and_then(Option::take) else {
            return;
        };
        kept.count += 1;
        let kept = *kept;
        let nonce = kept.text.get(..usize::from(kept.length)).unwrap_or_default();
        self.write(names, user, &template.parts(nonce), (proxy, kept.count), asked, out);
        if let Some(place) = self.templates.get_mut(usize::from(proxy)) {
            *place = Some(template);
        }
    }

    fn write(
        &mut self,
        names: &Names,
        user: u64,
        parts: &Challenge<'_>,
        (proxy, number): (bool, u32),
        asked: Asked<'_>,
        out: &mut Vec<u8>,
    ) {
        self.user.clear();
        self.password.clear();
        names.user(user, &mut self.user);
        names.password(user, &mut self.password);
        let secret = ha1(parts.algorithm, &self.user, parts.realm, &self.password);
        let asked = client::Asked { user: &self.user, method: asked.method, uri: asked.uri };
        let count = Count { number, cnonce: self.rng.next_u64() };
        write_credentials(parts, &secret, proxy, count, &asked, out);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::{Index, Limits, Parsed, parse};

    fn with<R>(text: &str, f: impl FnOnce(&Message<'_>) -> R) -> R {
        let mut index = Box::<Index>::default();
        match parse(text.as_bytes(), &mut index, &Limits::default()) {
            Parsed::Good(message) => f(&message),
            _ => panic!("{text}"),
        }
    }

    fn challenge(status: u16, more: &str) -> String {
        let header = if status == 407 { "Proxy-Authenticate" } else { "WWW-Authenticate" };
        format!(
            "SIP/2.0 {status} No\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:a@b>;tag=2\r\nCall-ID: i\r\nCSeq: 1 REGISTER\r\n\
             {header}: Digest realm=\"r\", nonce=\"abc\", qop=\"auth\"{more}\r\nContent-Length: 0\r\n\r\n"
        )
    }

    const ASKED: Asked<'static> = Asked { method: b"REGISTER", uri: b"sip:r" };

    #[test]
    fn a_nonce_is_used_again_with_the_next_count() {
        let names = Names::counted("u10", "p10").unwrap();
        let mut digests = Digests::new(1, 3, true);
        let mut out = Vec::new();
        digests.anticipate(&names, (2, 2), false, ASKED, &mut out);
        assert!(out.is_empty(), "there was no challenge yet");
        assert!(with(&challenge(401, ""), |m| digests.answer(&names, (2, Some(2)), m, ASKED, &mut out)));
        let text = String::from_utf8(std::mem::take(&mut out)).unwrap();
        assert!(
            text.starts_with("Authorization: Digest username=\"u12\",realm=\"r\",nonce=\"abc\""),
            "{text}"
        );
        assert!(text.contains("nc=00000001") && text.ends_with("\r\n"), "{text}");
        digests.anticipate(&names, (2, 2), false, ASKED, &mut out);
        assert!(String::from_utf8_lossy(&out).contains("nc=00000002"));
        out.clear();
        digests.anticipate(&names, (1, 1), false, ASKED, &mut out);
        digests.anticipate(&names, (2, 2), true, ASKED, &mut out);
        assert!(out.is_empty(), "another user's, or another kind of server's");
        assert_eq!(digests.bytes(), 3 * 64);
    }

    #[test]
    fn nothing_is_kept_where_nonces_are_not_used_again() {
        let names = Names::counted("u10", "p10").unwrap();
        let mut digests = Digests::new(1, 3, false);
        let mut out = Vec::new();
        assert!(with(&challenge(407, ""), |m| digests.answer(&names, (1, Some(1)), m, ASKED, &mut out)));
        assert!(out.starts_with(b"Proxy-Authorization: "));
        out.clear();
        digests.anticipate(&names, (1, 1), true, ASKED, &mut out);
        assert!(out.is_empty());
        assert_eq!(digests.bytes(), 0);
    }
}
