//! Tokens of WebSocket clients: a web site that knows a subscriber lets it connect for a limited time.

use crate::startup::Failure;
use aws_lc_rs::hmac;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use store::CredentialCache;

/// Checks the tokens of clients when they connect.
pub struct Tokens {
    key: hmac::Key,
    /// Seconds since 1970.
    clock: fn() -> u64,
    /// Without them any name is accepted.
    subscribers: OnceLock<Arc<CredentialCache>>,
}

impl Tokens {
    /// By the secret in a file.
    pub fn read(file: &Path, clock: fn() -> u64) -> Result<Tokens, Failure> {
        let (secret, is_open) = control::admin::read_secret(file)?;
        if is_open {
            log_events::server::token_secret_open(&crate::absolute(file).display());
        }
        Ok(Tokens::new(secret.as_bytes(), clock))
    }

    fn new(secret: &[u8], clock: fn() -> u64) -> Tokens {
        Tokens { key: hmac::Key::new(hmac::HMAC_SHA256, secret), clock, subscribers: OnceLock::new() }
    }

    /// Admits these subscribers alone.
    pub fn are_for(&self, subscribers: Arc<CredentialCache>) {
        let first = self.subscribers.set(subscribers).is_ok();
        invariant::holds!(first, "a server has its subscribers once");
    }

    /// Whether a query such as `user=alice@example.com&expires=1767225600&token=HEX` lets its sender
    /// connect. The time that this takes does not depend on the token, nor on whether the user is a
    /// subscriber.
    pub fn admit(&self, query: &[u8]) -> bool {
        let Some([user, expires, token]) = read(query) else { return false };
        let (Some(user), Some(token)) = (unescaped(user), unhex(token)) else { return false };
        let proven = [&user[..], b":", expires].concat();
        if hmac::verify(&self.key, &proven, &token).is_err() {
            return false;
        }
        let lives = sip_message::parse_u64(expires).is_some_and(|until| (self.clock)() < until);
        let (name, domain) = split(&user);
        lives && self.subscribers.get().is_none_or(|known| known.is_local_user(name, domain))
    }
}

/// The values of user, expires and token. Each must be there exactly once.
fn read(query: &[u8]) -> Option<[&[u8]; 3]> {
    let value = |name: &[u8]| {
        let mut all =
            query.split(|&byte| byte == b'&').filter_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="));
        all.next().filter(|_| all.next().is_none())
    };
    Some([value(b"user")?, value(b"expires")?, value(b"token")?])
}

/// A value of a query, with percent-encoding decoded.
fn unescaped(value: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(&byte) = rest.next() {
        plain.push(match byte {
            b'%' => digit(*rest.next()?)? << 4 | digit(*rest.next()?)?,
            _ => byte,
        });
    }
    Some(plain)
}

/// Bytes from hexadecimal digits.
fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let pairs = text.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// User name and domain.
fn split(user: &[u8]) -> (&[u8], &[u8]) {
    let at = user.iter().rposition(|&byte| byte == b'@').unwrap_or(user.len());
    (user.get(..at).unwrap_or_default(), user.get(at + 1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: &str = "2000000000";

    fn token(secret: &[u8], text: &str) -> String {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn token_admits_its_user_until_it_expires() {
        let secret = b"0123456789abcdef";
        let early = Tokens::new(secret, || 1_999_999_999);
        let late = Tokens::new(secret, || 2_000_000_000);
        let good = token(secret, "alice@example.com:2000000000");
        let query =
            |user: &str, until: &str, token: &str| format!("user={user}&expires={until}&token={token}");
        for user in ["alice@example.com", "alice%40example.com"] {
            assert!(early.admit(query(user, UNTIL, &good).as_bytes()), "{user}");
            assert!(!late.admit(query(user, UNTIL, &good).as_bytes()), "{user}");
        }
        assert!(early.admit(query("alice@example.com", UNTIL, &good.to_uppercase()).as_bytes()));
        for wrong in [
            query("bob@example.com", UNTIL, &good),
            query("alice@example.com", "2000000001", &good),
            query("alice@example.com", UNTIL, &token(b"another secret..", "alice@example.com:2000000000")),
            query("alice@example.com", UNTIL, &good[..62]),
            query("alice@example.com", UNTIL, &good[..63]),
            query("alice@example.com", UNTIL, ""),
            query("alice%4", UNTIL, &good),
            format!("{}&token={good}", query("alice@example.com", UNTIL, &good)),
            format!("user=alice@example.com&token={good}"),
            query("a", "never", &token(secret, "a:never")),
            String::new(),
        ] {
            assert!(!early.admit(wrong.as_bytes()), "{wrong}");
        }
    }
}
