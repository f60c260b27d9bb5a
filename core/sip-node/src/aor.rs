//! Addresses-of-record.

use sip_message::push_canonical_user;
use std::borrow::Cow;

/// An address-of-record in canonical form: part of the message where it stands there so, as it nearly always
/// does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Aor<'a> {
    text: Cow<'a, [u8]>,
    /// Where the domain begins.
    domain: usize,
}

impl<'a> Aor<'a> {
    /// Of a text in canonical form, with where its domain begins.
    pub const fn in_parts(text: Cow<'a, [u8]>, domain: usize) -> Aor<'a> {
        Aor { text, domain }
    }

    /// Of its parts, the domain in canonical form.
    pub fn new(user: impl Iterator<Item = u8>, domain: &[u8]) -> Aor<'a> {
        let user: Vec<u8> = user.collect();
        let mut text = Vec::with_capacity(user.len() + 1 + domain.len());
        push_canonical_user(&user, &mut text);
        text.push(b'@');
        let start = text.len();
        text.extend_from_slice(domain);
        Aor { text: text.into(), domain: start }
    }

    /// From what [`Aor::text`] gave.
    pub fn of_text(text: &'a [u8]) -> Aor<'a> {
        let domain = text.iter().rposition(|&b| b == b'@').map_or(text.len(), |at| at + 1);
        Aor { text: text.into(), domain }
    }

    /// The same, for longer.
    pub fn kept(&self) -> Aor<'static> {
        Aor { text: Cow::Owned(self.text.to_vec()), domain: self.domain }
    }

    /// `user@domain`.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The domain.
    pub fn domain(&self) -> &[u8] {
        self.text.get(self.domain..).unwrap_or(b"")
    }

    /// The domain, for longer.
    pub fn kept_domain(&self) -> Cow<'a, [u8]> {
        match self.text {
            Cow::Borrowed(text) => text.get(self.domain..).unwrap_or(b"").into(),
            Cow::Owned(_) => self.domain().to_vec().into(),
        }
    }

    /// The user; empty if there is none.
    pub fn user(&self) -> &[u8] {
        self.text.get(..self.domain.saturating_sub(1)).unwrap_or(b"")
    }
}
