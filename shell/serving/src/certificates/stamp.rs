//! How a file is seen to have changed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file as the system describes it. Symbolic links are followed, so a link that leads elsewhere (certbot,
/// Kubernetes) changes it as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    inode: (u64, u64),
    size: u64,
    /// Last change of the bytes, and of the inode; seconds and nanoseconds.
    times: [(i64, i64); 2],
}

impl Stamp {
    /// Of this file; `None` if it cannot be looked at.
    pub fn of(file: &Path) -> Option<Stamp> {
        let meta = std::fs::metadata(file).ok()?;
        Some(Stamp {
            inode: (meta.dev(), meta.ino()),
            size: meta.size(),
            times: [(meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec())],
        })
    }

    /// Whether it changed so lately that a further change might not show: file systems count time in steps,
    /// up to two seconds.
    pub fn is_young(&self, now: i64) -> bool {
        self.times.iter().any(|(seconds, _)| (now - 2..=now + 2).contains(seconds))
    }
}
