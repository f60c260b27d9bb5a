//! One experiment at a time: in a folder of results, and on a machine. Two that run at once would measure
//! each other.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file of a folder of results that is locked.
const LOCK: &str = ".lock";
/// The file of the machine that is locked, in the first of [`FOLDERS`] that is there.
const MACHINE: &str = "strowger-lab.lock";
const FOLDERS: [&str; 3] = ["/run/lock", "/var/lock", "/tmp"];

/// A file that no other program has locked. It is free again when this is dropped, or the program ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is kept open")] File);

/// Locks a folder of results.
///
/// # Errors
/// If another `lab run` uses it, or the file cannot be written.
pub fn folder(out: &Path) -> Result<Lock, String> {
    let path = out.join(LOCK);
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(failed(error)),
        Err(TryLockError::WouldBlock) => {
            let other = fs::read_to_string(&path).unwrap_or_default();
            return Err(format!(
                "{}: in use by another `strowger lab`{}; wait for its end, or name another folder (--out)",
                out.display(),
                process(&other)
            ));
        }
    }
    note(&file).map_err(failed)?;
    Ok(Lock(file))
}

/// Locks the machine; nothing if it is to be shared.
///
/// # Errors
/// If another experiment runs on it, or there is no place for the file.
pub fn machine(share: bool) -> Result<Option<Lock>, String> {
    if share {
        return Ok(None);
    }
    let there = FOLDERS.iter().map(Path::new).find(|folder| folder.is_dir());
    machine_in(there.unwrap_or(Path::new("/tmp"))).map(Some)
}

fn machine_in(folder: &Path) -> Result<Lock, String> {
    let path = folder.join(MACHINE);
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let file = opened(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(failed(error)),
        Err(TryLockError::WouldBlock) => {
            let other = fs::read_to_string(&path).unwrap_or_default();
            return Err(format!(
                "another `strowger lab` measures on this machine{}: wait for its end; --share-machine runs both, \
                 and each disturbs the other",
                process(&other)
            ));
        }
    }
    // The file may belong to another user: it can be locked all the same.
    let _ = OpenOptions::new().write(true).open(&path).and_then(|file| note(&file));
    Ok(Lock(file))
}

/// The file, for reading. It stays, as another user may have it open.
fn opened(path: &PathBuf) -> io::Result<File> {
    match File::open(path) {
        // Linux refuses O_CREAT for another user's file in a folder such as /tmp, so it is opened first.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
            match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => File::open(path),
            }
        }
        other => other,
    }
}

/// Writes which process has it.
fn note(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(std::process::id().to_string().as_bytes())
}

fn process(text: &str) -> String {
    text.trim().parse::<u32>().map_or_else(|_| String::new(), |pid| format!(" (process {pid})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_in_use_is_refused_and_names_the_process() {
        let out = tempfile::tempdir().expect("a folder");
        let first = folder(out.path()).expect("it is free");
        let error = folder(out.path()).expect_err("it is in use");
        assert!(error.contains(&format!("(process {})", std::process::id())), "{error}");
        assert!(error.contains("--out"), "{error}");
        drop(first);
        folder(out.path()).expect("it is free again");
    }

    #[test]
    fn machine_in_use_is_refused_unless_it_is_shared() {
        let place = tempfile::tempdir().expect("a folder");
        let first = machine_in(place.path()).expect("it is free");
        let error = machine_in(place.path()).expect_err("it is in use");
        assert!(error.contains("--share-machine") && error.contains("process"), "{error}");
        drop(first);
        machine_in(place.path()).expect("it is free again");
        assert!(machine(true).expect("nothing is locked").is_none());
    }
}
