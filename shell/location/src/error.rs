//! Errors that name the file, the problem and the mend.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why the store could not do what was asked, in words for the operator.
#[derive(Debug)]
pub struct StoreError {
    /// The file or directory concerned.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub mend: String,
    /// The rough class, for code that must decide.
    pub kind: Kind,
}

/// What class of failure a [`StoreError`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// What the caller gave is not acceptable (a user name, a file's content).
    Input,
    /// Not there, and not to be created.
    Missing,
    /// The operating system refused: permissions, space, I/O.
    System,
    /// Someone else holds the file. Trying again may succeed.
    Busy,
    /// No space, a file size limit or a quota.
    Full,
    /// The file's content is damaged or foreign.
    Corrupt,
    /// The file was written by a newer program.
    Version,
}

/// The store's result.
pub type Result<T> = std::result::Result<T, StoreError>;

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path.display(), self.problem, self.mend)
    }
}

impl std::error::Error for StoreError {}

impl StoreError {
    /// An error from its parts.
    pub fn new(kind: Kind, path: &Path, problem: impl Into<String>, mend: impl Into<String>) -> StoreError {
        StoreError { path: path.to_path_buf(), problem: problem.into(), mend: mend.into(), kind }
    }

    /// What the operating system said about `path`.
    pub fn io(path: &Path, doing: &str, error: &io::Error) -> StoreError {
        let (kind, mend) = match error.kind() {
            io::ErrorKind::NotFound => (Kind::Missing, "create it, or give another path"),
            io::ErrorKind::PermissionDenied => {
                (Kind::System, "give this user the right to read and write it, or run as its owner")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                (Kind::Full, "free some space on that file system")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                (Kind::System, "remount it writable, or give another --data-dir")
            }
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                (Kind::System, "something that is no directory is in the way: move it, or give another path")
            }
            _ => (Kind::System, "see the system log for the cause"),
        };
        StoreError::new(kind, path, format!("cannot {doing}: {error}"), mend)
    }
}
