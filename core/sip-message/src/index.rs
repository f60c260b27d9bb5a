//! The reusable index of one message.

use crate::spans::Spans;

/// Memory for indexing messages, made once and reused. About 1.5 kB.
#[derive(Debug)]
pub struct Index {
    pub(crate) spans: Spans,
    /// Copy of a message that had folded headers.
    pub(crate) unfolded: Vec<u8>,
}

impl Default for Index {
    fn default() -> Index {
        Index::new()
    }
}

impl Index {
    /// An index with room for a usual message.
    pub fn new() -> Index {
        Index { spans: Spans::new(), unfolded: Vec::new() }
    }
}
