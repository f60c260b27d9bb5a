//! The files of the log as the system has them. Everything that can fail goes through [`Files`], so that a
//! simulated disk can stand in its place.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::error::{Kind, Result, StoreError};

/// What a disk cannot read is no larger than this, mostly: a failed read is tried again in such pieces.
const PAGE: u64 = 4_096;

/// For what a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To read it.
    Read,
    /// To cut it.
    Cut,
}

/// A file system as the log uses it.
pub trait Files: Send + Sync + fmt::Debug {
    /// Makes an empty file, for its owner only, in the place of any other. `becomes` is the name that it gets
    /// when it is whole.
    ///
    /// # Errors
    /// As the system has them, here and for all other functions.
    fn create(&self, path: &Path, becomes: &Path) -> io::Result<Box<dyn File>>;

    /// Opens a file that is there.
    ///
    /// # Errors
    /// See [`Files::create`].
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>>;

    /// Which file has this name: device and inode.
    ///
    /// # Errors
    /// See [`Files::create`].
    fn identity(&self, path: &Path) -> io::Result<(u64, u64)>;

    /// Whether anything has this name, be it a link to nothing.
    fn exists(&self, path: &Path) -> bool;

    /// The names in a directory, in any order.
    ///
    /// # Errors
    /// See [`Files::create`].
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;

    /// Gives a file another name, in the place of any other file.
    ///
    /// # Errors
    /// See [`Files::create`].
    fn rename(&self, path: &Path, to: &Path) -> io::Result<()>;

    /// Takes a file's name away.
    ///
    /// # Errors
    /// See [`Files::create`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Brings the names in a directory to the disk.
    ///
    /// # Errors
    /// See [`Files::create`].
    fn sync_names(&self, dir: &Path) -> io::Result<()>;

    /// Fills `bytes` with what nobody can guess.
    ///
    /// # Errors
    /// See [`Files::create`].
    fn random(&self, bytes: &mut [u8]) -> io::Result<()>;
}

/// An open file.
pub trait File: Send + Sync + fmt::Debug {
    /// Device and inode.
    ///
    /// # Errors
    /// As the system has them, here and for all other functions.
    fn identity(&self) -> io::Result<(u64, u64)>;

    /// Bytes in it.
    ///
    /// # Errors
    /// See [`File::identity`].
    fn length(&self) -> io::Result<u64>;

    /// Reads all of `bytes`.
    ///
    /// # Errors
    /// See [`File::identity`].
    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of `bytes`. Where that fails some may be there.
    ///
    /// # Errors
    /// See [`File::identity`].
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Brings what was written, and the length, to the disk.
    ///
    /// # Errors
    /// See [`File::identity`].
    fn sync(&self) -> io::Result<()>;

    /// Cuts the file, or makes it longer with zeros.
    ///
    /// # Errors
    /// See [`File::identity`].
    fn set_length(&self, length: u64) -> io::Result<()>;
}

/// Reads all of `bytes` from `file`; answers whether all of them could be read. Those that the disk does not
/// give any more are zero.
pub(crate) fn read_whole(file: &dyn File, bytes: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read(bytes, at) {
        Err(error) if is_gone(&error) => {}
        outcome => return outcome.map(|()| true),
    }
    let (mut at, mut rest, mut whole) = (at, bytes, true);
    while !rest.is_empty() {
        let to_next = usize::try_from(PAGE - at % PAGE).unwrap_or(usize::MAX);
        let (page, after) = rest.split_at_mut(to_next.min(rest.len()));
        match file.read(page, at) {
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

/// The disk has it and cannot give it, or the file was cut short. Reading again later gives no more.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error()) || error.kind() == io::ErrorKind::UnexpectedEof
}

/// The directory of a log, and the file system that it is on.
#[derive(Clone, Debug)]
pub struct LogDir {
    files: Arc<dyn Files>,
    path: PathBuf,
}

impl LogDir {
    /// The directory `path` in `files`.
    pub fn new(files: Arc<dyn Files>, path: &Path) -> LogDir {
        LogDir { files, path: path.to_path_buf() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file system.
    pub fn files(&self) -> &dyn Files {
        &*self.files
    }

    /// A name in it.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Deletes a file, for good when this returns. One that is gone already is no failure: the attempt before
    /// may have got that far.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        gone_is_done(self.files.remove(path)).and_then(|()| self.sync_names())
    }

    /// Gives a file another name; like [`remove`](LogDir::remove).
    pub(crate) fn rename(&self, path: &Path, to: &Path) -> io::Result<()> {
        gone_is_done(self.files.rename(path, to)).and_then(|()| self.sync_names())
    }

    /// Brings its names to the disk.
    pub(crate) fn sync_names(&self) -> io::Result<()> {
        self.files.sync_names(&self.path)
    }

    /// A key that nobody can guess.
    ///
    /// # Errors
    /// The system gave no random bytes.
    pub fn random_key(&self) -> Result<[u8; 16]> {
        let mut key = [0; 16];
        self.files.random(&mut key).map_err(|error| {
            let problem = format!("the system gave no random bytes for its keys: {error}");
            StoreError::new(Kind::System, &self.path, problem, "check that /dev/urandom exists")
        })?;
        Ok(key)
    }
}

fn gone_is_done(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// The files of this machine.
#[derive(Clone, Copy, Default, Debug)]
pub struct SystemFiles;

#[derive(Debug)]
struct SystemFile(fs::File);

fn open(options: &OpenOptions, path: &Path) -> io::Result<Box<dyn File>> {
    Ok(Box::new(SystemFile(options.open(path)?)))
}

impl Files for SystemFiles {
    fn create(&self, path: &Path, _: &Path) -> io::Result<Box<dyn File>> {
        open(OpenOptions::new().write(true).create(true).truncate(true).mode(0o600), path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        let (read, write) = (access == Access::Read, access == Access::Cut);
        open(OpenOptions::new().read(read).write(write), path)
    }

    fn identity(&self, path: &Path) -> io::Result<(u64, u64)> {
        fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
    }

    fn exists(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    fn rename(&self, path: &Path, to: &Path) -> io::Result<()> {
        fs::rename(path, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_names(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::other)
    }
}

impl File for SystemFile {
    fn identity(&self) -> io::Result<(u64, u64)> {
        self.0.metadata().map(|meta| (meta.dev(), meta.ino()))
    }

    fn length(&self) -> io::Result<u64> {
        self.0.metadata().map(|meta| meta.len())
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}
