//! One experiment at a time: in a folder of results, and on a machine. Two that run at once would measure
//! each other.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The file of a folder of results that is locked.
const LOCK: &str = ".lock";
/// The file of the machine that is locked. It is empty: it may belong to another user, and is only read.
const MACHINE: &str = "strowger-lab.lock";
/// Where it is: the first of these that this user may use.
const FOLDERS: [&str; 3] = ["/run/lock", "/var/lock", "/tmp"];

/// A file that no other program has locked. It is free again when this is dropped, or the program ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is kept open")] File);

/// Locks a folder of results.
///
/// # Errors
/// If another `lab run` uses it, or the file cannot be made.
pub fn folder(out: &Path) -> Result<Lock, String> {
    let path = out.join(LOCK);
    let file = opened(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    taken(&file, &path)?.map_err(|other| {
        format!(
            "{}: in use by another `strowger lab`{other}; wait for its end, or name another folder (--out)",
            out.display()
        )
    })?;
    Ok(Lock(file))
}

/// Locks the machine; nothing if it is to be shared.
///
/// # Errors
/// If another experiment runs on it, or there is no place for the file.
pub fn machine(share: bool) -> Result<Option<Lock>, String> {
    if share { Ok(None) } else { machine_in(&FOLDERS.map(Path::new)).map(Some) }
}

fn machine_in(folders: &[&Path]) -> Result<Lock, String> {
    let mut why = "no folder for its lock".to_owned();
    for folder in folders {
        let path = folder.join(MACHINE);
        let file = match opened(&path) {
            Ok(file) => file,
            Err(error) => {
                why = format!("{}: {error}", path.display());
                continue;
            }
        };
        taken(&file, &path)?.map_err(|other| {
            format!(
                "another `strowger lab` measures on this machine{other}: wait for its end; --share-machine runs \
                 both, and each disturbs the other"
            )
        })?;
        return Ok(Lock(file));
    }
    Err(format!("{why}; --share-machine runs without a lock of the machine"))
}

/// The file, for reading. It is made if it is not there.
fn opened(path: &Path) -> io::Result<File> {
    match regular_file::open(path) {
        // Linux refuses O_CREAT for another user's file in a folder such as /tmp, so it is opened first.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let made = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
            match made {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
                _ => regular_file::open(path),
            }
        }
        other => other,
    }
}

/// Locks a file, or says which process has it locked.
fn taken(file: &File, path: &Path) -> Result<Result<(), String>, String> {
    match file.try_lock() {
        Ok(()) => Ok(Ok(())),
        Err(TryLockError::WouldBlock) => Ok(Err(holder(file).unwrap_or_default())),
        Err(TryLockError::Error(error)) => Err(format!("{}: {error}", path.display())),
    }
}

/// ` (process 1234)`, by the kernel's list of locks.
fn holder(file: &File) -> Option<String> {
    let inode = format!(":{}", file.metadata().ok()?.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // "1: FLOCK  ADVISORY  WRITE 1234 fe:00:6490912 0 EOF"
    let fields = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut ours = fields.filter(|fields| {
        fields.get(1) == Some(&"FLOCK") && fields.get(5).is_some_and(|place| place.ends_with(&inode))
    });
    let pid: u32 = ours.next()?.get(4)?.parse().ok()?;
    Some(format!(" (process {pid})"))
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
        // A folder that cannot be used is left out.
        let folders = [Path::new("/proc"), place.path()];
        let first = machine_in(&folders).expect("it is free");
        let error = machine_in(&folders).expect_err("it is in use");
        assert!(error.contains("--share-machine") && error.contains("process"), "{error}");
        drop(first);
        machine_in(&folders).expect("it is free again");
        assert!(machine(true).expect("nothing is locked").is_none());
        assert!(machine_in(&[Path::new("/proc")]).expect_err("it cannot be made").contains("/proc/"));
    }

    #[test]
    fn lock_of_the_machine_writes_to_no_file() {
        let place = tempfile::tempdir().expect("a folder");
        // Anybody may put a link there, in a folder such as /tmp.
        let victim = place.path().join("victim");
        fs::write(&victim, "kept").expect("written");
        std::os::unix::fs::symlink(&victim, place.path().join(MACHINE)).expect("linked");
        let _lock = machine_in(&[place.path()]).expect("it is free");
        assert_eq!(fs::read_to_string(&victim).expect("read"), "kept");
    }
}
