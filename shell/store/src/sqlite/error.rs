//! What SQLite says, as errors that name the file, the problem and the mend.

use std::fmt;
use std::io;
use std::path::Path;

use location::{Kind, StoreError};
use rusqlite::ErrorCode;

use crate::directory::files;

/// Written beside the database to see whether there is room, and deleted.
const PROBE: &str = "strowger.probe";
/// More than the smallest piece of a file that SQLite grows by.
const PROBE_BYTES: usize = 64 << 10;

/// What SQLite said about the database at `path`.
pub(crate) fn sql_error(path: &Path, doing: &str, error: &rusqlite::Error) -> StoreError {
    let (kind, mend) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
            Kind::Corrupt,
            "move it away and restore a backup, or rescue what is in it with `sqlite3 FILE .recover`",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Kind::Busy, "another program keeps it locked: wait for it or end it, then try again")
        }
        Some(ErrorCode::DiskFull) => return full(path, doing, error),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => (
            Kind::System,
            "give this user the right to write the file and its directory, or run as their owner",
        ),
        // Of some of its files SQLite does not say why they cannot be written.
        Some(ErrorCode::SystemIoFailure) => match refusal(path) {
            Some(why) => return full(path, doing, &why),
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

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Why nothing more can be written beside `path`, if the file system is full.
fn refusal(path: &Path) -> Option<io::Error> {
    let probe = directory_of(path).join(PROBE);
    let file = files().create(&probe, &probe);
    let written = file.and_then(|file| file.write(&[1; PROBE_BYTES], 0).and_then(|()| file.sync()));
    // One that could not be made is not there.
    let _ = std::fs::remove_file(&probe);
    written
        .err()
        .filter(|error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use location::testing::{Faults, TempDir, faults};

    /// As SQLite says it of the file that its connections share, and of the others.
    #[test]
    fn a_full_disk_is_called_full_whatever_sqlite_calls_it() {
        let failure = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let (full, shared) =
            (failure(rusqlite::ffi::SQLITE_FULL), failure(rusqlite::ffi::SQLITE_IOERR_SHMSIZE));
        let temp = TempDir::new();
        let path = temp.path().join(crate::DATABASE_FILE);
        let tell = |error: &rusqlite::Error| sql_error(&path, "open the database", error);
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
