//! What a subscriber's name may be, and the columns that hold the hashes of a password.

use std::fmt;

use sip_auth::{Algorithm, Credentials, NameForm, canonical_user};

/// Longest user name, in bytes.
pub const MAX_USER: usize = 128;
/// Longest domain, in bytes (RFC 1035 section 2.3.4).
pub const MAX_DOMAIN: usize = 253;
/// Longest password, in bytes.
pub const MAX_PASSWORD: usize = 1_024;

/// All algorithms that a password is hashed with.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512_256];

/// The hash columns of the subscriber table and what each holds.
pub(crate) const HASH_COLUMNS: [(&str, NameForm, Algorithm); 6] = [
    ("ha1", NameForm::Bare, Algorithm::Md5),
    ("ha1b", NameForm::Full, Algorithm::Md5),
    ("ha1_sha256", NameForm::Bare, Algorithm::Sha256),
    ("ha1b_sha256", NameForm::Full, Algorithm::Sha256),
    ("ha1_sha512t256", NameForm::Bare, Algorithm::Sha512_256),
    ("ha1b_sha512t256", NameForm::Full, Algorithm::Sha512_256),
];

/// A user name and a domain that were found acceptable, the domain in lower case.
///
/// The domain is also the realm: the hashes cover it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserName {
    user: String,
    domain: String,
}

impl UserName {
    /// Checks the two parts. The message says what is wrong without repeating the input, which may
    /// hold anything.
    pub fn new(user: &str, domain: &str) -> Result<UserName, &'static str> {
        check_user(user)?;
        check_domain(domain)?;
        Ok(UserName { user: user.to_owned(), domain: domain.to_ascii_lowercase() })
    }

    /// Reads `user@domain`, with `sip:` or `sips:` in front or not.
    pub fn parse(text: &str) -> Result<UserName, &'static str> {
        let text = text.strip_prefix("sip:").or_else(|| text.strip_prefix("sips:")).unwrap_or(text);
        let (user, domain) = text.rsplit_once('@').ok_or("there is no domain")?;
        UserName::new(user, domain)
    }

    /// The part before the `@`.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The part after the `@`, lower case.
    pub fn domain(&self) -> &str {
        &self.domain
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.domain)
    }
}

impl fmt::Debug for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The address-of-record of a subscriber, as bindings have it: the user in canonical form.
pub(crate) fn aor(user: &[u8], domain: &[u8]) -> Vec<u8> {
    [&canonical_user(user)[..], b"@", &domain.to_ascii_lowercase()].concat()
}

fn check_user(user: &str) -> Result<(), &'static str> {
    if user.is_empty() {
        return Err("the user name is empty");
    }
    if user.len() > MAX_USER {
        return Err("the user name is longer than 128 bytes");
    }
    if user.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("the user name holds a control character or a space");
    }
    // `:` separates the fields under the hash; the others cannot stand for themselves in a URI or in
    // a quoted string.
    if user.contains([':', '@', '"', '\\', '<', '>', '%']) {
        return Err("the user name holds one of : @ \" \\ < > %");
    }
    Ok(())
}

fn check_domain(domain: &str) -> Result<(), &'static str> {
    if domain.is_empty() {
        return Err("the domain is empty");
    }
    if domain.len() > MAX_DOMAIN {
        return Err("the domain is longer than 253 bytes");
    }
    let host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let reference = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
    let good = match domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inside) => !inside.is_empty() && inside.chars().all(reference),
        None => domain.chars().all(host),
    };
    if good { Ok(()) } else { Err("the domain is no host name (letters, digits, dots, hyphens; no port)") }
}

/// Whether a password can be taken.
pub(crate) fn check_password(password: &str) -> Result<(), &'static str> {
    if password.is_empty() {
        return Err("the password is empty");
    }
    if password.len() > MAX_PASSWORD {
        return Err("the password is longer than 1024 bytes");
    }
    if password.chars().any(char::is_control) {
        return Err("the password holds a control character");
    }
    Ok(())
}

/// The hashes of `password` for `name`, by every algorithm and in both forms of the name.
pub fn hash_password(name: &UserName, password: &str) -> Result<Credentials, &'static str> {
    check_password(password)?;
    let (user, domain) = (name.user.as_bytes(), name.domain.as_bytes());
    Ok(Credentials::from_password(user, domain, domain, password.as_bytes(), &ALGORITHMS))
}

/// One hash as the table holds it: lower-case hexadecimal, or nothing.
pub(crate) fn hash_text(credentials: &Credentials, form: NameForm, algorithm: Algorithm) -> String {
    let Some(ha1) = credentials.get(form, algorithm) else { return String::new() };
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    ha1.as_bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use sip_auth::Ha1;

    use super::*;

    #[test]
    fn names_are_split_at_the_last_at_sign_and_domains_lowered() {
        let name = UserName::parse("sip:Alice@Example.COM").unwrap();
        assert_eq!((name.user(), name.domain()), ("Alice", "example.com"));
        assert_eq!(UserName::parse("+4930123@[2001:DB8::1]").unwrap().domain(), "[2001:db8::1]");
        assert!(UserName::parse("alice").is_err());
    }

    #[test]
    fn names_that_could_not_work_or_could_harm_are_refused() {
        let long = "a".repeat(MAX_USER + 1);
        for user in ["", "a b", "a:b", "a@b", "a\r\nb", "a\0", "a\u{7f}", "a\"", "a%00", "a\u{2028}b", &long]
        {
            assert!(UserName::new(user, "example.com").is_err(), "{user:?}");
        }
        let long = "a".repeat(MAX_DOMAIN + 1);
        for domain in ["", "a b", "a:5060", "a/b", "a'b", "[", "[]", "[x]", "ex\u{e4}mple", "a\n", &long] {
            assert!(UserName::new("alice", domain).is_err(), "{domain:?}");
        }
        assert!(UserName::new("b\u{fc}cher", "example.com").is_ok());
        assert!(UserName::new("o'brien;DROP", "example.com").is_ok());
    }

    #[test]
    fn passwords_have_limits() {
        let name = UserName::new("alice", "example.com").unwrap();
        for bad in ["", "a\nb", &"x".repeat(MAX_PASSWORD + 1)] {
            assert!(hash_password(&name, bad).is_err());
        }
        assert!(hash_password(&name, "p\u{e4}ss word; --").is_ok());
    }

    #[test]
    fn the_hash_is_the_one_of_the_rfc() {
        // RFC 7616 section 3.9.1: the example user, with our domain in place of its realm.
        let name = UserName::new("Mufasa", "http-auth").unwrap();
        let hashes = hash_password(&name, "Circle of Life").unwrap();
        let text = hash_text(&hashes, NameForm::Bare, Algorithm::Md5);
        assert_eq!(text.len(), 32);
        assert_eq!(
            Ha1::from_hex(Algorithm::Md5, text.as_bytes()),
            Some(sip_auth::ha1(Algorithm::Md5, b"Mufasa", b"http-auth", b"Circle of Life"))
        );
    }
}
