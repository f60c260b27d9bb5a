//! Memory that is shared with the kernel.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A map of the kernel's in the memory of this process. Others write it as well, so it is looked at by atomic numbers
/// alone.
pub struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to no thread, and is reached through atomic numbers only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first so many bytes of a map that was made to be mapped.
    pub fn new(map: BorrowedFd<'_>, bytes: usize) -> io::Result<Mapping> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at a place of the kernel's choice; no pointer of ours is given.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, map.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Mapping { at, bytes })
    }

    /// The place of a number of so many bytes, if it is inside and aligned.
    fn place(&self, at: usize, bytes: usize) -> Option<NonNull<u8>> {
        let inside = at.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        // SAFETY: the place is inside the mapping.
        (inside && at.is_multiple_of(bytes)).then(|| unsafe { self.at.add(at) })
    }

    /// The number of 64 bits at this place; `None` outside.
    pub fn long(&self, at: usize) -> Option<&AtomicU64> {
        // SAFETY: inside the mapping, which lives as long as `self`; aligned, for mappings begin at a page.
        self.place(at, 8).map(|place| unsafe { AtomicU64::from_ptr(place.as_ptr().cast()) })
    }

    /// The number of 32 bits at this place; `None` outside.
    pub fn word(&self, at: usize) -> Option<&AtomicU32> {
        // SAFETY: as above.
        self.place(at, 4).map(|place| unsafe { AtomicU32::from_ptr(place.as_ptr().cast()) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our mapping, with its length; nothing borrowed from it is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
