//! Errors that name the file, the problem and the mend.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::location::log::disk::Disk;

/// Written beside the database to see whether there is room, and deleted.
const PROBE: &str = "strowger.probe";
/// More than the smallest piece of a file that SQLite grows by.
const PROBE_BYTES: usize = 64 << 10;

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
    pub(crate) fn io(path: &Path, doing: &str, error: &io::Error) -> StoreError {
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

    /// What SQLite said about the database at `path`.
    pub(crate) fn sql(path: &Path, doing: &str, error: &rusqlite::Error) -> StoreError {
        let (kind, mend) = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
                Kind::Corrupt,
                "move it away and restore a backup, or rescue what is in it with `sqlite3 FILE .recover`",
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (Kind::Busy, "another program keeps it locked: wait for it or end it, then try again")
            }
            Some(ErrorCode::DiskFull) => return StoreError::full(path, doing, error),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => (
                Kind::System,
                "give this user the right to write the file and its directory, or run as their owner",
            ),
            // Of some of its files SQLite does not say why they cannot be written.
            Some(ErrorCode::SystemIoFailure) => match refusal(path) {
                Some(why) => return StoreError::full(path, doing, &why),
                None => (Kind::System, "the disk failed or a file size limit was hit: see the system log"),
            },
            _ => (Kind::System, "if this goes on, move the file away and restore a backup"),
        };
        StoreError::new(kind, path, format!("cannot {doing}: {error}"), mend)
    }

    fn full(path: &Path, doing: &str, why: &dyn fmt::Display) -> StoreError {
        let dir = directory_of(path).display();
        let problem = format!("cannot {doing}: the file system of {dir} is full: {why}");
        StoreError::new(
            Kind::Full,
            path,
            problem,
            format!("free some space there (see `df {dir}` and `df -i {dir}`)"),
        )
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Why nothing more can be written beside `path`, if the file system is full.
fn refusal(path: &Path) -> Option<io::Error> {
    let probe = directory_of(path).join(PROBE);
    let written =
        Disk::create(&probe).and_then(|file| file.write(&[1; PROBE_BYTES], 0).and_then(|()| file.sync()));
    // One that could not be made is not there.
    let _ = std::fs::remove_file(&probe);
    written
        .err()
        .filter(|error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::log::disk::faults::{self, Faults};
    use crate::testing::TempDir;

    /// As SQLite says it of the file that its connections share, and of the others.
    #[test]
    fn a_full_disk_is_called_full_whatever_sqlite_calls_it() {
        let failure = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let (full, shared) =
            (failure(rusqlite::ffi::SQLITE_FULL), failure(rusqlite::ffi::SQLITE_IOERR_SHMSIZE));
        let temp = TempDir::new();
        let path = temp.path().join(crate::DATABASE_FILE);
        let tell = |error: &rusqlite::Error| StoreError::sql(&path, "open the database", error);
        let failed = tell(&shared);
        assert!(failed.kind == Kind::System && failed.to_string().contains("see the system log"), "{failed}");
        let probe = temp.path().join(PROBE);
        assert!(!probe.exists());
        for errno in [libc::ENOSPC, libc::EDQUOT] {
            faults::set(&probe, Faults { write: Some((5, errno)), ..Faults::default() });
            for error in [&full, &shared] {
                let told = tell(error);
                let wanted = format!("the file system of {} is full", temp.path().display());
                assert!(told.kind == Kind::Full && told.to_string().contains(&wanted), "{told}");
                assert!(!probe.exists());
            }
        }
        faults::clear(&probe);
    }
}
