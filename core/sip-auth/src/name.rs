//! The user name of a credential.

use core::fmt;

/// Longest user name accepted, in bytes; longer ones are refused with 400.
pub const MAX_USERNAME: usize = 160;

/// How a client writes its user name; the hash of the secret covers the text as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameForm {
    /// `alice`.
    Bare,
    /// `alice@example.com`.
    Full,
}

/// A user name with quoting removed: UTF-8, no control characters, at most [`MAX_USERNAME`] bytes.
/// Kept inline so that a check allocates nothing. `Debug` hides it, because people type passwords
/// into the wrong field.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; MAX_USERNAME],
    len: u8,
    /// Length of the part before the last `@`; equal to `len` when there is none.
    user: u8,
}

impl Name {
    /// Collects a name; `None` if it is too long, holds control characters or is not UTF-8.
    pub fn from_bytes(text: impl IntoIterator<Item = u8>) -> Option<Name> {
        let mut name = Name { bytes: [0; MAX_USERNAME], len: 0, user: 0 };
        for byte in text {
            *name.bytes.get_mut(usize::from(name.len))? = byte;
            name.len += 1;
        }
        name.checked()
    }

    /// The same for a name that is at hand in one piece.
    pub fn from_slice(text: &[u8]) -> Option<Name> {
        let mut name = Name { bytes: [0; MAX_USERNAME], len: 0, user: 0 };
        name.bytes.get_mut(..text.len())?.copy_from_slice(text);
        name.len = u8::try_from(text.len()).ok()?;
        name.checked()
    }

    fn checked(mut self) -> Option<Name> {
        let text = self.as_bytes();
        // Without an early way out, so that the compiler can take many bytes at a time.
        let (mut control, mut beyond) = (false, false);
        for &b in text {
            control |= (b < 0x20) | (b == 0x7f);
            beyond |= b >= 0x80;
        }
        if control || (beyond && core::str::from_utf8(text).is_err()) {
            return None;
        }
        let at = text.iter().rposition(|&b| b == b'@').and_then(|at| u8::try_from(at).ok());
        self.user = at.unwrap_or(self.len);
        Some(self)
    }

    /// The whole name as the client wrote it, quoting removed.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The part before the last `@`, or all of it.
    pub fn user(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.user)).unwrap_or_default()
    }

    /// The part after the last `@`, if there is one. Letter case as written.
    pub fn domain(&self) -> Option<&[u8]> {
        self.as_bytes().get(usize::from(self.user) + 1..)
    }

    /// The name in lower case (ASCII).
    pub(crate) fn to_lower(self) -> Name {
        Name { bytes: self.bytes.map(|b| b.to_ascii_lowercase()), ..self }
    }

    /// Whether the name carries a domain.
    pub fn form(&self) -> NameForm {
        if self.user == self.len { NameForm::Bare } else { NameForm::Full }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name {}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({} bytes, hidden)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &[u8]) -> Option<Name> {
        let name = Name::from_bytes(text.iter().copied());
        assert_eq!(name, Name::from_slice(text));
        name
    }

    #[test]
    fn splits_at_the_last_at_sign() {
        let full = name(b"a@b@example.com").expect("a name");
        assert_eq!(
            (full.user(), full.domain(), full.form()),
            (&b"a@b"[..], Some(&b"example.com"[..]), NameForm::Full)
        );
        let bare = name(b"alice").expect("a name");
        assert_eq!((bare.user(), bare.domain(), bare.form()), (&b"alice"[..], None, NameForm::Bare));
        assert_eq!(name(b"alice@").expect("a name").domain(), Some(&b""[..]));
        assert_eq!(name(b"").expect("a name").form(), NameForm::Bare);
    }

    #[test]
    fn refuses_what_must_not_reach_a_database_or_a_log() {
        assert!(name(&[b'a'; MAX_USERNAME]).is_some());
        assert!(name(&[b'a'; MAX_USERNAME + 1]).is_none());
        assert!(name(b"a\0b").is_none());
        assert!(name(b"a\x7fb").is_none());
        assert!(name(b"a\xffb").is_none());
        assert!(name("b\u{fc}cher".as_bytes()).is_some());
    }
}
