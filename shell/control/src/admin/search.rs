//! What a list is searched for.

/// A text that items must contain, ASCII letters in any case. The empty one is contained in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search(Vec<u8>);

impl Search {
    /// For what a person wrote. Spaces around it do not count.
    #[must_use]
    pub fn new(text: &str) -> Search {
        Search(text.trim().as_bytes().to_vec())
    }

    /// Whether it takes every item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of an item's texts contains it.
    #[must_use]
    pub fn takes(&self, texts: &[&[u8]]) -> bool {
        let has = |text: &&[u8]| text.windows(self.0.len()).any(|part| part.eq_ignore_ascii_case(&self.0));
        self.is_empty() || texts.iter().any(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_takes_parts_in_any_case() {
        let texts: &[&[u8]] = &[b"sip:Alice@example.com", b"Zoiper \xff"];
        for text in ["", "  ", "ALICE", "zoiper", " example.com "] {
            assert!(Search::new(text).takes(texts), "{text}");
        }
        for text in ["bob", "alice@example.com.invalid", "comZoiper"] {
            assert!(!Search::new(text).takes(texts), "{text}");
        }
        assert!(Search::new("").takes(&[]) && !Search::new("a").takes(&[b""]));
    }
}
