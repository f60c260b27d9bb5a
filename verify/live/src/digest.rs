//! The phone's half of digest authentication (RFC 7616), written apart from the code under test.

use crate::Msg;
use md5::{Digest, Md5};
use sha2::Sha256;

/// Whose password answers a challenge, and with which counters.
#[derive(Clone, Debug)]
pub struct Credentials<'a> {
    /// User name.
    pub user: &'a str,
    /// Password.
    pub password: &'a str,
    /// Nonce count; each use of a nonce needs a higher one.
    pub nc: u32,
}

impl<'a> Credentials<'a> {
    /// First use of a nonce by this user.
    pub fn new(user: &'a str, password: &'a str) -> Self {
        Self { user, password, nc: 1 }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn md5_hex(text: &str) -> String {
    hex(&Md5::digest(text.as_bytes()))
}

fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// A parameter of a challenge, without its quotes.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    challenge.trim_start_matches("Digest").split(',').find_map(|part| {
        let (key, value) = part.split_once('=')?;
        (key.trim().eq_ignore_ascii_case(name)).then(|| value.trim().trim_matches('"').to_owned())
    })
}

/// The header line that answers the MD5 challenge in a 401 or 407.
pub fn answer(challenged: &Msg, who: &Credentials<'_>, method: &str, uri: &str) -> String {
    respond(challenged, who, method, uri, "MD5", md5_hex)
}

/// The header line that answers the SHA-256 challenge in a 401 or 407.
pub fn sha256_answer(challenged: &Msg, who: &Credentials<'_>, method: &str, uri: &str) -> String {
    respond(challenged, who, method, uri, "SHA-256", sha256_hex)
}

fn respond(
    challenged: &Msg,
    who: &Credentials<'_>,
    method: &str,
    uri: &str,
    algorithm: &str,
    hash: fn(&str) -> String,
) -> String {
    let (header, name) = match challenged.status() {
        Some(407) => ("Proxy-Authenticate", "Proxy-Authorization"),
        _ => ("WWW-Authenticate", "Authorization"),
    };
    let challenge = challenged
        .all(header)
        .into_iter()
        .find(|c| parameter(c, "algorithm").unwrap_or_else(|| "MD5".into()).eq_ignore_ascii_case(algorithm))
        .unwrap_or_else(|| panic!("no {algorithm} challenge in {}", challenged.start));
    let realm = parameter(challenge, "realm").unwrap_or_default();
    let nonce = parameter(challenge, "nonce").unwrap_or_default();
    let ha1 = hash(&format!("{}:{realm}:{}", who.user, who.password));
    let ha2 = hash(&format!("{method}:{uri}"));
    let opaque = parameter(challenge, "opaque").map(|o| format!(", opaque=\"{o}\"")).unwrap_or_default();
    let user = who.user;
    // Challenges may offer several protections ("auth,auth-int"); only auth is used here.
    if challenge.contains("qop") {
        let (nc, cnonce) = (format!("{:08x}", who.nc), crate::unique("c"));
        let response = hash(&format!("{ha1}:{nonce}:{nc}:{cnonce}:auth:{ha2}"));
        format!(
            "{name}: Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
             algorithm={algorithm}, qop=auth, nc={nc}, cnonce=\"{cnonce}\", response=\"{response}\"{opaque}"
        )
    } else {
        let response = hash(&format!("{ha1}:{nonce}:{ha2}"));
        format!(
            "{name}: Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
             algorithm={algorithm}, response=\"{response}\"{opaque}"
        )
    }
}
