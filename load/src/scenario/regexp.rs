//! POSIX extended regular expressions, as SIPp's scenarios write them, by the `regex` crate.

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    inner: regex::bytes::Regex,
}

impl Pattern {
    /// Whether it matches anywhere in `text`.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.inner.is_match(text)
    }
}
