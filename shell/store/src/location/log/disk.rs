//! Files of the log as the system has them. Everything that can fail goes through here, so that tests can
//! make up what a bad or a full disk does.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::io::Errno;

/// What a disk cannot read is no larger than this, mostly: tried again in pieces of so many bytes.
const PAGE: u64 = 4_096;

/// An open file.
#[derive(Debug)]
pub(crate) struct Disk {
    file: File,
    #[cfg(test)]
    path: std::path::PathBuf,
}

impl Disk {
    /// Makes a file, empty, for its owner only.
    pub(crate) fn create(path: &Path) -> io::Result<Disk> {
        Disk::with(OpenOptions::new().write(true).create(true).truncate(true).mode(0o600), path)
    }

    /// As [`create`](Disk::create), of one that gets the name `path` when it is whole.
    pub(crate) fn create_aside(aside: &Path, path: &Path) -> io::Result<Disk> {
        let disk = Disk::create(aside)?;
        #[cfg(test)]
        let disk = Disk { path: path.to_path_buf(), ..disk };
        let _ = path;
        Ok(disk)
    }

    /// Opens a file for reading.
    pub(crate) fn open(path: &Path) -> io::Result<Disk> {
        Disk::with(OpenOptions::new().read(true), path)
    }

    /// Opens a file to cut it.
    pub(crate) fn open_to_cut(path: &Path) -> io::Result<Disk> {
        Disk::with(OpenOptions::new().write(true), path)
    }

    fn with(options: &OpenOptions, path: &Path) -> io::Result<Disk> {
        Ok(Disk {
            file: options.open(path)?,
            #[cfg(test)]
            path: path.to_path_buf(),
        })
    }

    /// Device and inode.
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        self.file.metadata().map(|meta| (meta.dev(), meta.ino()))
    }

    pub(crate) fn length(&self) -> io::Result<u64> {
        self.file.metadata().map(|meta| meta.len())
    }

    /// Reads all of `bytes`; answers whether all of them could be read. Those that the disk does not give any
    /// more are zero.
    pub(crate) fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<bool> {
        match self.read_exact(bytes, at) {
            Err(error) if is_gone(&error) => {}
            outcome => return outcome.map(|()| true),
        }
        let (mut at, mut rest, mut whole) = (at, bytes, true);
        while !rest.is_empty() {
            let to_next = usize::try_from(PAGE - at % PAGE).unwrap_or(usize::MAX);
            let (page, after) = rest.split_at_mut(to_next.min(rest.len()));
            match self.read_exact(page, at) {
                Err(error) if is_gone(&error) => {
                    page.fill(0);
                    whole = false;
                }
                outcome => outcome?,
            }
            (at, rest) = (at + page.len() as u64, after);
        }
        Ok(whole)
    }

    fn read_exact(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        #[cfg(test)]
        faults::read(&self.path, at, bytes.len())?;
        self.file.read_exact_at(bytes, at)
    }

    pub(crate) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        #[cfg(test)]
        if let Some((kept, error)) = faults::write(&self.path, bytes.len()) {
            self.file.write_all_at(bytes.get(..kept).unwrap_or_default(), at)?;
            return Err(error);
        }
        self.file.write_all_at(bytes, at)
    }

    /// Brings what was written, and the length, to the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        #[cfg(test)]
        faults::sync(&self.path)?;
        self.file.sync_data()
    }

    pub(crate) fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
}

/// Brings the names in `dir` to the disk.
pub(crate) fn sync_names(dir: &Path) -> io::Result<()> {
    #[cfg(test)]
    faults::sync(dir)?;
    File::open(dir)?.sync_all()
}

/// Deletes a file, for good when this returns. One that is gone already is no failure: the attempt before may
/// have got that far.
pub(crate) fn remove(dir: &Path, path: &Path) -> io::Result<()> {
    #[cfg(test)]
    faults::remove(path)?;
    gone_is_done(fs::remove_file(path)).and_then(|()| sync_names(dir))
}

/// Gives a file another name; like [`remove`].
pub(crate) fn rename(dir: &Path, path: &Path, to: &Path) -> io::Result<()> {
    #[cfg(test)]
    faults::remove(path)?;
    gone_is_done(fs::rename(path, to)).and_then(|()| sync_names(dir))
}

fn gone_is_done(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// The disk has it and cannot give it, or somebody cut the file short. Reading again later gives no more.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error()) || error.kind() == io::ErrorKind::UnexpectedEof
}

/// Faults that tests ask for, by the path of the file.
#[cfg(test)]
pub(crate) mod faults {
    use std::collections::BTreeMap;
    use std::io;
    use std::ops::Range;
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// What a file does from now on.
    #[derive(Clone, Default, Debug)]
    pub(crate) struct Faults {
        /// Bytes that cannot be read.
        pub(crate) unreadable: Range<u64>,
        /// After so many bytes a write fails with this error.
        pub(crate) write: Option<(usize, i32)>,
        /// Bringing it to the disk fails with this error.
        pub(crate) sync: Option<i32>,
        /// Deleting and renaming it fails with this error.
        pub(crate) remove: Option<i32>,
        /// So many writes succeed before.
        pub(crate) writes_before: usize,
    }

    static ALL: Mutex<BTreeMap<PathBuf, Faults>> = Mutex::new(BTreeMap::new());

    fn all() -> MutexGuard<'static, BTreeMap<PathBuf, Faults>> {
        ALL.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(path: &Path, faults: Faults) {
        all().insert(path.to_path_buf(), faults);
    }

    pub(crate) fn clear(path: &Path) {
        all().remove(path);
    }

    fn fail(error: Option<i32>) -> io::Result<()> {
        error.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
    }

    pub(super) fn read(path: &Path, at: u64, length: usize) -> io::Result<()> {
        let bad = all().get(path).map(|faults| faults.unreadable.clone()).unwrap_or_default();
        let hit = at < bad.end && bad.start < at + length as u64;
        fail(hit.then_some(libc::EIO))
    }

    pub(super) fn write(path: &Path, length: usize) -> Option<(usize, io::Error)> {
        let mut all = all();
        let faults = all.get_mut(path)?;
        let (kept, error) = faults.write?;
        if faults.writes_before != 0 {
            faults.writes_before -= 1;
            return None;
        }
        Some((kept.min(length), io::Error::from_raw_os_error(error)))
    }

    pub(super) fn sync(path: &Path) -> io::Result<()> {
        fail(all().get(path).and_then(|faults| faults.sync))
    }

    pub(super) fn remove(path: &Path) -> io::Result<()> {
        fail(all().get(path).and_then(|faults| faults.remove))
    }
}
