//! Memory that is shared with the kernel.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A map of the kernel's in the memory of this process. Others write it as well, so it is looked at by atomic
/// numbers alone, all of one size: what two atomic numbers of different sizes do at one place is undefined.
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
        Mapping::of(map.as_raw_fd(), libc::MAP_SHARED, bytes)
    }

    fn of(map: RawFd, flags: libc::c_int, bytes: usize) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice; no pointer of ours is given.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, map, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Mapping { at, bytes })
    }

    /// The number of 64 bits at this place; `None` outside.
    pub fn long(&self, at: usize) -> Option<&AtomicU64> {
        let inside = at.checked_add(8).is_some_and(|end| end <= self.bytes);
        // SAFETY: inside the mapping, which lives as long as `self`; aligned, for mappings begin at a page.
        // All that is borrowed from it is of this kind and size.
        (inside && at.is_multiple_of(8))
            .then(|| unsafe { AtomicU64::from_ptr(self.at.add(at).as_ptr().cast()) })
    }

    /// Writes the number of 32 bits at this place, by the one of 64 bits that it is half of: nobody else may
    /// write the other half meanwhile. Outside it writes nothing.
    pub fn set_word(&self, at: usize, word: u32) {
        let Some(place) = self.long(at & !7).filter(|_| at.is_multiple_of(4)) else { return };
        let mut bytes = place.load(Ordering::Relaxed).to_ne_bytes();
        let half = if at & 4 == 0 { bytes.first_chunk_mut() } else { bytes.last_chunk_mut() };
        if let Some(half) = half {
            *half = word.to_ne_bytes();
        }
        place.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our mapping, with its length; nothing borrowed from it is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// Maps no file, so that Miri can run it (`make miri`).
    #[test]
    fn word_is_written_beside_its_other_half() {
        write_words(&Mapping::of(-1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, 16).unwrap());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn map_of_the_kernel_is_written_in_words() {
        let path = std::env::temp_dir().join(format!("strowger-mapping-{}", std::process::id()));
        let options =
            std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = options.unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(16).unwrap();
        write_words(&Mapping::new(file.as_fd(), 16).unwrap());
    }

    fn write_words(mapping: &Mapping) {
        let bytes = |at| mapping.long(at).unwrap().load(Ordering::Relaxed).to_ne_bytes();
        mapping.set_word(0, 0x0101_0101);
        mapping.set_word(4, 0x0202_0202);
        mapping.set_word(0, 0x0303_0303);
        mapping.set_word(12, 0x0404_0404);
        assert_eq!(bytes(0), [3, 3, 3, 3, 2, 2, 2, 2]);
        assert_eq!(bytes(8), [0, 0, 0, 0, 4, 4, 4, 4]);
        // Not aligned, and outside.
        [2, 5, 14, 16, usize::MAX - 3].into_iter().for_each(|at| mapping.set_word(at, 9));
        assert_eq!((bytes(0)[4], bytes(8)[0]), (2, 0));
        assert!([4, 9, 16, usize::MAX].into_iter().all(|at| mapping.long(at).is_none()));
    }
}
