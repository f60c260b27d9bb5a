//! Memory that is shown to the kernel from call to call.

use std::ptr::{self, NonNull};

/// Values at a place of their own, which pointers that are kept may mean.
///
/// A reference that may write ends all pointers that were made from another one before. So all that is made
/// here comes from one pointer: references last as long as `self` is borrowed, and pointers, which are used
/// while it is not, go on after them.
pub struct Pinned<T> {
    at: NonNull<T>,
    len: usize,
}

// SAFETY: as a `Vec<T>`.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T> Pinned<T> {
    pub fn new(values: Vec<T>) -> Pinned<T> {
        let values = Box::leak(values.into_boxed_slice());
        Pinned { len: values.len(), at: NonNull::from(values).cast() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// A pointer to the value of this number and those after it, good as long as the value lives.
    pub fn place(&mut self, index: usize) -> *mut T {
        assert!(index <= self.len, "a place of another one");
        // SAFETY: inside, or its end.
        unsafe { self.at.as_ptr().add(index) }
    }

    pub fn all(&self) -> &[T] {
        // SAFETY: the length is that of the allocation; nothing writes the values while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    pub fn all_mut(&mut self) -> &mut [T] {
        // SAFETY: the length is that of the allocation; nothing else reads the values while `self` is
        // borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        // SAFETY: as it was leaked.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(self.at.as_ptr(), self.len)) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same use as by the kernel and a batch. `make miri` checks that it is defined.
    #[test]
    fn pointers_that_are_kept_outlive_what_is_borrowed_between() {
        let mut values = Pinned::new(vec![0_u8; 8]);
        let mut means = Pinned::new(vec![ptr::null_mut(); 2]);
        means.all_mut()[0] = values.place(0);
        means.all_mut()[1] = values.place(4);
        let kept = means.place(0);
        for round in 1..4 {
            values.all_mut()[..4].fill(9);
            // SAFETY: both places have values that live, and nothing is borrowed.
            unsafe { kept.add(1).read().write_bytes(round, 4) };
            assert_eq!(values.all(), [9, 9, 9, 9, round, round, round, round]);
            assert_eq!((means.all().len(), values.len()), (2, 8));
            // SAFETY: as above.
            unsafe { kept.read().write(round) };
            assert_eq!(values.all()[..2], [round, 9]);
            let moved = (values, means);
            (values, means) = moved;
        }
    }
}
