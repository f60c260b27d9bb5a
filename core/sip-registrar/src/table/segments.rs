//! A growable array that never moves its elements, so that no push pays for copying them all.

/// Elements in fixed segments of `1 << SHIFT`. A push allocates at most one segment; the list of
/// segments (24 bytes each) is the only thing that is ever copied.
pub(crate) struct Segments<T, const SHIFT: usize> {
    segments: Vec<Vec<T>>,
    len: usize,
}

impl<T, const SHIFT: usize> Segments<T, SHIFT> {
    const MASK: usize = (1 << SHIFT) - 1;

    pub(crate) const fn new() -> Self {
        Segments { segments: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, value: T) {
        if self.len & Self::MASK == 0 {
            self.segments.push(Vec::with_capacity(1 << SHIFT));
        }
        if let Some(last) = self.segments.last_mut() {
            last.push(value);
            self.len += 1;
        }
    }

    /// `at` must be below `len`: callers index with numbers of their own making, never with input.
    pub(crate) fn at(&self, at: usize) -> &T {
        &self.segments[at >> SHIFT][at & Self::MASK]
    }

    pub(crate) fn at_mut(&mut self, at: usize) -> &mut T {
        &mut self.segments[at >> SHIFT][at & Self::MASK]
    }

    /// Bytes held, including room not yet used.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.len() * (size_of::<T>() << SHIFT) + self.segments.capacity() * size_of::<Vec<T>>()
    }
}
