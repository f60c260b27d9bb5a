//! The reusable index of one message, and of those remembered.

use crate::memory::{Memory, Place};
use crate::spans::Spans;

/// Memory for indexing messages, made once and reused. About 1.5 kB.
#[derive(Debug)]
pub struct Index {
    pub(crate) spans: Spans,
    /// Copy of a message that had folded headers.
    pub(crate) unfolded: Vec<u8>,
    pub(crate) memory: Option<Memory>,
}

impl Default for Index {
    fn default() -> Index {
        Index::new()
    }
}

impl Index {
    /// An index with room for a usual message.
    pub fn new() -> Index {
        Index { spans: Spans::new(), unfolded: Vec::new(), memory: None }
    }

    /// One that remembers up to 128 messages, which makes reading others like them several times cheaper. It
    /// grows to about 300 kB, more if messages are large, at most 2 MB.
    pub fn with_memory() -> Index {
        Index { memory: Some(Memory::new()), ..Index::new() }
    }

    /// Whether it remembers messages.
    pub fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// The index of a message that was kept.
    #[inline]
    pub(crate) fn kept(&self, at: Place) -> &Spans {
        self.memory.as_ref().and_then(|memory| memory.spans(at)).unwrap_or(&self.spans)
    }
}
