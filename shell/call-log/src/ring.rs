//! A ring of bytes in a mapped file: one thread writes, another one reads, and after a kill the next process
//! goes on reading.
//!
//! The file has a head of 4,096 bytes, then the ring. The head holds how many bytes were ever written and how
//! many were ever read. The writer copies its bytes and then counts them as written, so that a reader sees
//! whole writes, also one that opens the file after a kill.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a file of this form begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"SWGRING1");
/// Bytes before the ring.
const HEAD: usize = 4_096;
/// Where the counts are: in cache lines of their own.
const WRITTEN: usize = 64;
const READ: usize = 128;

#[derive(Debug)]
struct Ring {
    map: MmapRaw,
    capacity: usize,
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Writer {
    ring: Arc<Ring>,
    written: u64,
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Reader {
    ring: Arc<Ring>,
}

/// Opens the ring in this file, or makes one of `capacity` bytes. Its blocks are reserved: a write to a
/// mapped page for which there is no room on the disk would end the process. One process has it open at a
/// time. The last value says whether it was made.
///
/// # Errors
/// The file cannot be made or mapped, or the disk is full.
pub(crate) fn open(path: &Path, capacity: usize) -> io::Result<(Writer, Reader, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path)?;
    let there = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let reserve =
        |bytes: usize| rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64);
    let (ring, made) = match map(&file, there) {
        // Events that nobody has read yet may be in it, so it keeps its size. It may be a copy with holes.
        Ok(ring) if there > HEAD && ring.is_whole() => {
            reserve(there)?;
            (ring, false)
        }
        _ => {
            file.set_len(0)?;
            reserve(HEAD + capacity)?;
            let ring = map(&file, HEAD + capacity)?;
            ring.count(0).store(MAGIC, Ordering::Release);
            (ring, true)
        }
    };
    let ring = Arc::new(ring);
    let written = ring.count(WRITTEN).load(Ordering::Acquire);
    Ok((Writer { ring: Arc::clone(&ring), written }, Reader { ring }, made))
}

fn map(file: &File, bytes: usize) -> io::Result<Ring> {
    if bytes <= HEAD {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let map = MmapOptions::new().len(bytes).map_raw(file)?;
    Ok(Ring { map, capacity: bytes - HEAD })
}

impl Ring {
    fn count(&self, at: usize) -> &AtomicU64 {
        let pointer = self.map.as_mut_ptr().wrapping_add(at).cast::<u64>();
        // SAFETY: the map is longer than the head, in which `at` is aligned (to 64, and the map to a page).
        // The number is only ever used as an atomic one, and the reference lives no longer than the map.
        unsafe { AtomicU64::from_ptr(pointer) }
    }

    /// Whether the counts can be those of a ring.
    fn is_whole(&self) -> bool {
        let [magic, written, read] = [0, WRITTEN, READ].map(|at| self.count(at).load(Ordering::Acquire));
        let waiting = written.checked_sub(read);
        magic == MAGIC && waiting.is_some_and(|bytes| bytes <= self.capacity as u64)
    }

    /// The two parts that `length` bytes from the position `from` have in the ring.
    fn parts(&self, from: u64, length: usize) -> [(usize, usize); 2] {
        let at = usize::try_from(from % self.capacity as u64).unwrap_or(0);
        let first = length.min(self.capacity - at);
        [(at, first), (0, length - first)]
    }
}

impl Writer {
    /// Whether less than half of the ring is used.
    pub fn has_room(&self) -> bool {
        let read = self.ring.count(READ).load(Ordering::Acquire);
        self.written.saturating_sub(read) < self.ring.capacity as u64 / 2
    }

    /// Appends bytes. False if there is no room: then nothing was written.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let ring = &*self.ring;
        let read = ring.count(READ).load(Ordering::Acquire);
        let used = usize::try_from(self.written.saturating_sub(read)).unwrap_or(usize::MAX);
        if bytes.len() > ring.capacity.saturating_sub(used) {
            return false;
        }
        let mut rest = bytes;
        for (at, length) in ring.parts(self.written, bytes.len()) {
            let (part, after) = rest.split_at(length);
            rest = after;
            let target = ring.map.as_mut_ptr().wrapping_add(HEAD + at);
            // SAFETY: `parts` are within the ring, which lies in the map behind the head. Nobody else touches
            // these bytes: this is the only writer, and the reader stops at the count that is stored below.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), target, length) };
        }
        self.written += bytes.len() as u64;
        ring.count(WRITTEN).store(self.written, Ordering::Release);
        true
    }
}

impl Reader {
    /// How far was written in all.
    pub fn written(&self) -> u64 {
        self.ring.count(WRITTEN).load(Ordering::Acquire)
    }

    /// How far was read in all.
    pub fn position(&self) -> u64 {
        self.ring.count(READ).load(Ordering::Acquire)
    }

    /// Appends at most `most` bytes that were not read yet to `out`, from `from` on. They stay in the ring
    /// until [`Reader::release`]. Returns the position after them.
    pub fn read(&self, from: u64, most: usize, out: &mut Vec<u8>) -> u64 {
        let ring = &*self.ring;
        let written = ring.count(WRITTEN).load(Ordering::Acquire);
        let length = usize::try_from(written.saturating_sub(from)).unwrap_or(0).min(most);
        for (at, length) in ring.parts(from, length) {
            let source = ring.map.as_ptr().wrapping_add(HEAD + at);
            let start = out.len();
            out.resize(start + length, 0);
            // SAFETY: `parts` are within the ring, which lies in the map behind the head. The writer does not
            // touch bytes between what was released and what it has counted as written. `out` has room for
            // them.
            unsafe { std::ptr::copy_nonoverlapping(source, out.as_mut_ptr().wrapping_add(start), length) };
        }
        from + length as u64
    }

    /// Gives the room of everything before `position` back. Positions before the last one are not taken.
    pub fn release(&self, position: u64) {
        let written = self.ring.count(WRITTEN).load(Ordering::Acquire);
        let to = position.clamp(self.position(), written);
        self.ring.count(READ).store(to, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn bytes_outlive_the_ends_of_the_ring() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ring");
        let (mut writer, reader, made) = open(&path, 100).expect("a ring");
        assert!(made && writer.append(b"first"));
        let mut out = Vec::new();
        let position = reader.read(0, 100, &mut out);
        assert_eq!((&out[..], position), (&b"first"[..], 5));
        drop((writer, reader));
        // Not released, so it is there again; the size asked for now does not count.
        let (mut writer, reader, made) = open(&path, 7).expect("a ring");
        assert!(!made && writer.has_room() && writer.append(&[7; 95]));
        assert!(!writer.has_room() && !writer.append(b"x"), "it is full");
        reader.release(5);
        assert!(writer.append(b"x"));
        out.clear();
        assert_eq!(reader.read(reader.position(), 1_000, &mut out), 101);
        assert_eq!(out.len(), 96);
    }

    #[test]
    fn file_of_another_form_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ring");
        for content in [&b""[..], &[0xff; 9_000], &[0; 4_096]] {
            std::fs::write(&path, content).expect("it is written");
            let (mut writer, reader, _) = open(&path, 64).expect("a ring");
            assert_eq!(reader.position(), 0);
            assert!(writer.append(&[1; 64]) && !writer.append(b"x"));
        }
    }

    #[test]
    fn copy_with_holes_has_its_blocks_reserved() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ring");
        let capacity = 1 << 20;
        drop(open(&path, capacity).expect("a ring"));
        // A backup that was restored: only the head has blocks.
        let head = std::fs::read(&path).expect("the ring")[..HEAD].to_vec();
        std::fs::write(&path, head).expect("it is written");
        let file = OpenOptions::new().write(true).open(&path).expect("the file");
        file.set_len((HEAD + capacity) as u64).expect("it is made longer");
        let blocks = || std::fs::metadata(&path).expect("the file").blocks() * 512;
        assert!(blocks() < capacity as u64, "this file system has no holes");
        let (_, _, made) = open(&path, 7).expect("a ring");
        assert!(!made && blocks() >= (HEAD + capacity) as u64, "{}", blocks());
    }

    proptest! {
        #[test]
        fn everything_is_read_once_and_in_order(steps in proptest::collection::vec((1_usize..40, 0_usize..60), 1..200)) {
            let folder = tempfile::tempdir().expect("a folder");
            let (mut writer, reader, _) = open(&folder.path().join("ring"), 97).expect("a ring");
            let (mut wrote, mut read, mut next) = (Vec::new(), Vec::new(), 0_u8);
            for (length, most) in steps {
                let bytes: Vec<u8> = (0..length).map(|_| { next = next.wrapping_add(1); next }).collect();
                if writer.append(&bytes) {
                    wrote.extend(bytes);
                }
                let position = reader.read(reader.position(), most, &mut read);
                reader.release(position);
            }
            reader.read(reader.position(), 1_000, &mut read);
            prop_assert_eq!(read, wrote);
        }
    }
}
