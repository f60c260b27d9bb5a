//! A growable array that never moves its elements, so that no push pays for copying them all.

/// Elements in fixed segments of `1 << SHIFT`. A push allocates at most one segment; the list of segments (24
/// bytes each) is the only thing that is ever copied. The first segment is not in it, so that in a table that
/// has no more, as most have, an element is one step less away: each is a line that the processor mostly has
/// not.
#[repr(C)]
pub(crate) struct Segments<T, const SHIFT: usize> {
    first: Vec<T>,
    len: usize,
    others: Vec<Vec<T>>,
}

impl<T, const SHIFT: usize> Segments<T, SHIFT> {
    const MASK: usize = (1 << SHIFT) - 1;

    pub(crate) const fn new() -> Self {
        Segments { first: Vec::new(), len: 0, others: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, value: T) {
        if self.len & Self::MASK == 0 {
            let segment = Vec::with_capacity(1 << SHIFT);
            if self.len == 0 {
                self.first = segment;
            } else {
                self.others.push(segment);
            }
        }
        self.others.last_mut().unwrap_or(&mut self.first).push(value);
        self.len += 1;
    }

    /// `at` must be below `len`: callers index with numbers of their own making, never with input.
    pub(crate) fn at(&self, at: usize) -> &T {
        match at >> SHIFT {
            0 => &self.first[at],
            segment => &self.others[segment - 1][at & Self::MASK],
        }
    }

    pub(crate) fn at_mut(&mut self, at: usize) -> &mut T {
        match at >> SHIFT {
            0 => &mut self.first[at],
            segment => &mut self.others[segment - 1][at & Self::MASK],
        }
    }

    /// Where what leads to an element of the first segment ends.
    #[cfg(test)]
    pub(crate) fn leads(&self) -> usize {
        std::ptr::from_ref(&self.others) as usize
    }

    /// Bytes held, including room not yet used.
    pub(crate) fn bytes(&self) -> usize {
        let segments = usize::from(self.first.capacity() != 0) + self.others.len();
        segments * (size_of::<T>() << SHIFT) + self.others.capacity() * size_of::<Vec<T>>()
    }
}
