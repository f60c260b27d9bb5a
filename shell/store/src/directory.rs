//! The data directory: who may read it, who serves from it, and the server's secret.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use location::{Files, Kind, Result, StoreError};

/// Name of the database inside the data directory.
pub const DATABASE_FILE: &str = "strowger.db";
/// Name of the secret inside the data directory.
pub const SECRET_FILE: &str = "secret";
/// Name of the file whose lock says that a server runs on this directory.
const LOCK_FILE: &str = "server.lock";

/// The file system of the log of bindings.
#[cfg(not(test))]
pub(crate) fn files() -> Arc<dyn Files> {
    Arc::new(location::SystemFiles)
}

/// The same with the faults that tests ask for.
#[cfg(test)]
pub(crate) fn files() -> Arc<dyn Files> {
    Arc::new(location::testing::FaultyFiles)
}

/// Creates `dir` (mode 0700, parents too) if it is not there, and warns if others may read it.
pub(crate) fn prepare(dir: &Path) -> Result<()> {
    match fs::metadata(dir) {
        Ok(meta) if !meta.is_dir() => {
            return Err(StoreError::new(
                Kind::System,
                dir,
                "is a file, not a directory",
                "move it, or give another --data-dir",
            ));
        }
        Ok(meta) => {
            static WARNED: Once = Once::new();
            if meta.permissions().mode() & 0o077 != 0 {
                WARNED.call_once(|| {
                    log_events::subscribers::data_directory_open(&dir.display());
                });
            }
            return Ok(());
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(StoreError::io(dir, "look at it", &error)),
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| StoreError::io(dir, "create the directory", &error))
}

/// The database's path in `dir`, the file made with mode 0600 if it is not there. SQLite gives its
/// `-wal` and `-shm` files the mode of the database.
pub(crate) fn database_file(dir: &Path) -> Result<PathBuf> {
    let path = dir.join(DATABASE_FILE);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| StoreError::io(&path, "open it for writing", &error))?;
    let meta = file.metadata().map_err(|error| StoreError::io(&path, "look at it", &error))?;
    if !meta.is_file() {
        return Err(StoreError::new(
            Kind::System,
            &path,
            "is not a regular file",
            "move it, or give another --data-dir",
        ));
    }
    if meta.mode() & 0o077 != 0 {
        log_events::subscribers::database_open(&path.display());
    }
    Ok(path)
}

/// Held as long as a server runs on the data directory. The kernel lets go of it when the process
/// ends, however it ends.
#[derive(Debug)]
pub(crate) struct ServerLock {
    _file: File,
}

impl ServerLock {
    /// Takes the lock, or says which process has it: two servers on one database would each
    /// overwrite the other's bindings.
    pub(crate) fn take(dir: &Path) -> Result<ServerLock> {
        let path = dir.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| StoreError::io(&path, "open it for writing", &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = (&mut file).take(20).read_to_string(&mut pid);
                return Err(StoreError::new(
                    Kind::Busy,
                    dir,
                    format!("another server (process {}) runs on this data directory", pid.trim()),
                    "stop it first, or give another --data-dir",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io(&path, "lock it", &error)),
        }
        // The number is for people only; failing to write it does not matter.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(ServerLock { _file: file })
    }
}

/// The server's secret, 32 random bytes that outlive restarts. Made on first use.
///
/// Whoever knows it can forge nonces and our Via branches, so the file is readable by its owner
/// only, and it appears whole or not at all: it is written under another name and then linked.
pub fn load_or_create_secret(dir: &Path) -> Result<[u8; 32]> {
    prepare(dir)?;
    let path = dir.join(SECRET_FILE);
    if let Some(secret) = read_secret(&path)? {
        return Ok(secret);
    }
    // The last eight bytes only make the draft's name unique.
    let mut fresh = [0u8; 40];
    getrandom::fill(&mut fresh).map_err(|error| {
        StoreError::new(
            Kind::System,
            &path,
            format!("the system gave no random bytes for it: {error}"),
            "check that /dev/urandom exists",
        )
    })?;
    let (fresh, unique) = fresh.split_at(32);
    let unique = unique.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
    let draft = dir.join(format!("{SECRET_FILE}.{unique:016x}.new"));
    let outcome = write_and_link(&draft, &path, fresh);
    let _ = fs::remove_file(&draft);
    outcome?;
    // If another process linked first, its bytes count.
    read_secret(&path)?.ok_or_else(|| {
        StoreError::new(
            Kind::System,
            &path,
            "vanished while it was made",
            "run one program at a time, then try again",
        )
    })
}

/// Writes `secret` to `draft`, then gives it the name `path` unless that name is taken.
fn write_and_link(draft: &Path, path: &Path, secret: &[u8]) -> Result<()> {
    let fail = |error: std::io::Error| StoreError::io(path, "write it", &error);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft).map_err(fail)?;
    file.write_all(secret).and_then(|()| file.sync_all()).map_err(fail)?;
    match fs::hard_link(draft, path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(fail(error)),
        _ => {}
    }
    if let Some(dir) = path.parent() {
        File::open(dir).and_then(|d| d.sync_all()).map_err(fail)?;
    }
    Ok(())
}

/// The secret in `path`; `None` if there is no such file.
fn read_secret(path: &Path) -> Result<Option<[u8; 32]>> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(64).read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io(path, "read it", &error)),
    }
    match <[u8; 32]>::try_from(bytes.as_slice()) {
        Ok(secret) => Ok(Some(secret)),
        Err(_) => Err(StoreError::new(
            Kind::Corrupt,
            path,
            format!("must hold 32 bytes and holds {}", bytes.len()),
            "delete it: a new one is made at the next start, and clients are challenged once more",
        )),
    }
}

#[cfg(test)]
mod tests {
    use location::testing::TempDir;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_directory_is_for_its_owner_only() {
        let temp = TempDir::new();
        let dir = temp.path().join("a/b");
        prepare(&dir).unwrap();
        let db = database_file(&dir).unwrap();
        assert_eq!((mode(&dir), mode(&db)), (0o700, 0o600));
        prepare(&dir).unwrap();
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let temp = TempDir::new();
        let path = temp.path().join("data");
        fs::write(&path, "x").unwrap();
        let error = prepare(&path).unwrap_err();
        assert!(error.to_string().contains("data: is a file"), "{error}");
        let error = prepare(&path.join("below")).unwrap_err();
        assert!(error.to_string().contains("below"), "{error}");
    }

    #[test]
    fn the_secret_stays_the_same_and_is_private() {
        let temp = TempDir::new();
        let first = load_or_create_secret(temp.path()).unwrap();
        assert_ne!(first, [0; 32]);
        assert_eq!(load_or_create_secret(temp.path()).unwrap(), first);
        assert_eq!(mode(&temp.path().join(SECRET_FILE)), 0o600);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "no draft is left behind");
        let other = TempDir::new();
        assert_ne!(load_or_create_secret(other.path()).unwrap(), first);
    }

    #[test]
    fn threads_that_race_for_the_secret_agree() {
        let temp = TempDir::new();
        let path = temp.path();
        let all: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..8).map(|_| scope.spawn(|| load_or_create_secret(path).unwrap())).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert!(all.iter().all(|secret| *secret == all[0]));
    }

    #[test]
    fn a_damaged_secret_is_reported_with_its_mend() {
        let temp = TempDir::new();
        fs::write(temp.path().join(SECRET_FILE), "short").unwrap();
        let error = load_or_create_secret(temp.path()).unwrap_err();
        assert_eq!(error.kind, Kind::Corrupt);
        assert!(error.to_string().contains("holds 5") && error.to_string().contains("delete it"), "{error}");
    }

    #[test]
    fn two_servers_cannot_share_a_directory() {
        let temp = TempDir::new();
        let first = ServerLock::take(temp.path()).unwrap();
        let error = ServerLock::take(temp.path()).unwrap_err();
        assert_eq!(error.kind, Kind::Busy);
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        drop(first);
        ServerLock::take(temp.path()).unwrap();
    }
}
