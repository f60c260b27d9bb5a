//! A copy of a data directory in one file, and a data directory made of such a copy.
//!
//! The file is a gzip'd tar archive with the database and the server's secret. SQLite copies the database
//! while a server works on it. Bindings that the server has not moved into the table yet (the last minutes)
//! are not in the copy.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use location::{Kind, Result, StoreError};

use crate::backend;
use crate::directory::{DATABASE_FILE, SECRET_FILE, ServerLock, prepare};

/// Ends of names of files that are not whole yet.
const DRAFT: &str = "restored";
/// Folders that hold what was there before restores.
const MOST_FOLDERS: u32 = 100;
/// Bytes of a secret file that are worth a copy: it has 32.
const MOST_SECRET: u64 = 64;

/// Writes a copy of the data directory `dir` to `output`; returns how many subscribers it has.
///
/// # Errors There is no database, it cannot be read, the disk of `dir` has no room for a second copy of it,
/// or `output` fails:
/// `name` is what errors call it.
pub fn backup(dir: &Path, output: impl Write, name: &Path) -> Result<u64> {
    let table = backend::open_for_command(dir, false)?;
    let draft = Draft::of(dir.join(format!("{DATABASE_FILE}.backup")))?;
    // SQLite fills a file that is there and empty; one that it makes could be read by others.
    draft.write(&mut io::empty(), name)?;
    table.copy_to(&draft.path)?;
    let count = table.count()?;
    let fail = |error| StoreError::io(name, "write it", &error);
    let mut archive = tar::Builder::new(GzEncoder::new(output, Compression::default()));
    archive.mode(tar::HeaderMode::Deterministic);
    archive.append_path_with_name(&draft.path, DATABASE_FILE).map_err(fail)?;
    let secret = dir.join(SECRET_FILE);
    match regular_file::read(&secret, MOST_SECRET) {
        Ok(bytes) => {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o600);
            archive.append_data(&mut header, SECRET_FILE, &bytes[..]).map_err(fail)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(StoreError::io(&secret, "read it", &error)),
    }
    archive.into_inner().and_then(GzEncoder::finish).and_then(|mut output| output.flush()).map_err(fail)?;
    Ok(count)
}

/// What [`restore`] made.
#[derive(Debug, PartialEq, Eq)]
pub struct Restored {
    /// The subscribers of the copy.
    pub subscribers: u64,
    /// The folder with what was in the data directory before.
    pub moved_to: Option<PathBuf>,
}

/// Makes the data directory `dir` of a copy that [`backup`] wrote. All of it is checked before anything gets
/// its name.
/// `replace`: what is there is moved into a folder of `dir`.
///
/// # Errors A server runs on `dir`, it has a database and `replace` is false, or `input` is no whole copy:
/// `name` is what errors call it.
pub fn restore(dir: &Path, input: impl Read, name: &Path, replace: bool) -> Result<Restored> {
    prepare(dir)?;
    let _lock = ServerLock::take(dir)?;
    let there = of_database(dir)?;
    if let Some(file) = there.first()
        && !replace
    {
        let problem = format!("has a database already: {}", file.to_string_lossy());
        let mend = "say --replace, which moves it aside, or give another --data-dir";
        return Err(StoreError::new(Kind::Input, dir, problem, mend));
    }
    let database = Draft::of(dir.join(format!("{DATABASE_FILE}.{DRAFT}")))?;
    let secret = Draft::of(dir.join(format!("{SECRET_FILE}.{DRAFT}")))?;
    let has_secret = unpack(input, name, &database, &secret)?;
    let subscribers = backend::check_copy(&database.path).map_err(|error| {
        let mend = "take another copy: `strowger backup` writes them";
        StoreError::new(Kind::Corrupt, name, format!("is no whole copy: {error}"), mend)
    })?;
    let moved_to = if there.is_empty() { None } else { Some(move_aside(dir, &there)?) };
    // The database is last: without it a directory counts as empty, and another try begins anew.
    if has_secret {
        secret.become_file(&dir.join(SECRET_FILE))?;
    }
    database.become_file(&dir.join(DATABASE_FILE))?;
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| StoreError::io(dir, "write it", &error))?;
    Ok(Restored { subscribers, moved_to })
}

/// The names of files that belong to a database: with a new one, an old write-ahead log or log of bindings
/// would be taken for its own.
fn of_database(dir: &Path) -> Result<Vec<OsString>> {
    let fail = |error| StoreError::io(dir, "list it", &error);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        let text = name.to_string_lossy();
        let is_log = text.starts_with("location.") && text.ends_with(".log");
        let is_database =
            text.strip_prefix(DATABASE_FILE).is_some_and(|end| matches!(end, "" | "-wal" | "-shm"));
        if is_log || is_database || text == SECRET_FILE {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Moves files of `dir` into a new folder there.
fn move_aside(dir: &Path, names: &[OsString]) -> Result<PathBuf> {
    let folder = (1..=MOST_FOLDERS)
        .map(|number| dir.join(format!("before-restore-{number}")))
        .find(|folder| !folder.exists())
        .ok_or_else(|| {
            let problem = format!("has {MOST_FOLDERS} folders of earlier restores");
            StoreError::new(Kind::Full, dir, problem, "remove those that are needed no more")
        })?;
    let fail = |error| StoreError::io(&folder, "move files there", &error);
    DirBuilder::new().mode(0o700).create(&folder).map_err(fail)?;
    for name in names {
        fs::rename(dir.join(name), folder.join(name)).map_err(fail)?;
    }
    Ok(folder)
}

/// Writes the two files of an archive; whether the secret was there.
fn unpack(input: impl Read, name: &Path, database: &Draft, secret: &Draft) -> Result<bool> {
    let no_copy = |error: io::Error| {
        let mend = "give a file that `strowger backup` wrote";
        StoreError::new(Kind::Corrupt, name, format!("is no copy of a data directory: {error}"), mend)
    };
    let (mut has_database, mut has_secret) = (false, false);
    let mut archive = tar::Archive::new(GzDecoder::new(input));
    for entry in archive.entries().map_err(no_copy)? {
        let mut entry = entry.map_err(no_copy)?;
        let path = entry.path().map_err(no_copy)?.into_owned();
        match path.to_str() {
            Some(DATABASE_FILE) if !has_database => {
                has_database = true;
                database.write(&mut entry, name)?;
            }
            Some(SECRET_FILE) if !has_secret && entry.size() <= MOST_SECRET => {
                has_secret = true;
                secret.write(&mut entry, name)?;
            }
            _ => return Err(no_copy(io::Error::other(format!("it holds {}", path.display())))),
        }
    }
    // An archive ends before its file does: the rest proves that the file is whole.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(no_copy)?;
    if !has_database {
        return Err(no_copy(io::Error::other(format!("it holds no {DATABASE_FILE}"))));
    }
    Ok(has_secret)
}

/// A file beside the one that it will be; removed unless it becomes that.
struct Draft {
    path: PathBuf,
}

impl Draft {
    /// At this path, where one that was left by a process that was killed is removed.
    fn of(path: PathBuf) -> Result<Draft> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io(&path, "remove it", &error))
            }
            _ => Ok(Draft { path }),
        }
    }

    /// Fills the file, which is its owner's alone, and brings it to the disk. `source` is what errors of
    /// reading name.
    fn write(&self, from: &mut impl Read, source: &Path) -> Result<()> {
        let fail = |error| StoreError::io(&self.path, "write it", &error);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path).map_err(fail)?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = from.read(&mut buffer).map_err(|error| {
                let mend = "give a file that `strowger backup` wrote whole";
                StoreError::new(Kind::Corrupt, source, format!("ends too early: {error}"), mend)
            })?;
            if read == 0 {
                return file.sync_all().map_err(fail);
            }
            file.write_all(&buffer[..read]).map_err(fail)?;
        }
    }

    fn become_file(self, path: &Path) -> Result<()> {
        fs::rename(&self.path, path).map_err(|error| StoreError::io(path, "write it", &error))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // SQLite may have made these two beside a database that it read.
        for end in ["", "-wal", "-shm"] {
            let mut path = self.path.clone().into_os_string();
            path.push(end);
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use location::testing::TempDir;

    use super::*;
    use crate::{Subscribers, UserName, load_or_create_secret};

    fn filled(users: usize) -> TempDir {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        for user in 0..users {
            subscribers.add(&UserName::parse(&format!("u{user}@example.com")).unwrap(), "secret").unwrap();
        }
        load_or_create_secret(temp.path()).unwrap();
        temp
    }

    fn copy(dir: &Path) -> Vec<u8> {
        let mut copy = Vec::new();
        backup(dir, &mut copy, Path::new("copy.tar.gz")).unwrap();
        copy
    }

    fn exported(dir: &Path) -> Vec<u8> {
        let mut csv = Vec::new();
        Subscribers::open_existing(dir).unwrap().export(&mut csv).unwrap();
        csv
    }

    fn restored(dir: &Path, copy: &[u8]) -> Result<u64> {
        let restored = restore(dir, copy, Path::new("copy.tar.gz"), false)?;
        assert_eq!(restored.moved_to, None);
        Ok(restored.subscribers)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn restored_directory_has_the_users_and_the_secret() {
        let from = filled(3);
        let copy = copy(from.path());
        let to = TempDir::new();
        let dir = to.path().join("new");
        assert_eq!(restored(&dir, &copy).unwrap(), 3);
        assert_eq!(exported(&dir), exported(from.path()));
        assert_eq!(load_or_create_secret(&dir).unwrap(), load_or_create_secret(from.path()).unwrap());
        assert!(!names(&dir).iter().any(|name| name.contains(DRAFT)), "{:?}", names(&dir));
    }

    #[test]
    fn copy_is_made_while_a_server_holds_the_directory() {
        let from = filled(2);
        let _server = ServerLock::take(from.path()).unwrap();
        let copy = copy(from.path());
        assert!(!names(from.path()).iter().any(|name| name.contains("backup")), "{:?}", names(from.path()));
        assert_eq!(restored(TempDir::new().path(), &copy).unwrap(), 2);
    }

    #[test]
    fn nothing_that_is_there_is_overwritten() {
        let (from, to) = (filled(1), filled(2));
        let before = exported(to.path());
        let error = restored(to.path(), &copy(from.path())).unwrap_err().to_string();
        assert!(error.contains("has a database already"), "{error}");
        assert_eq!(exported(to.path()), before);
    }

    #[test]
    fn replaced_database_is_moved_aside_with_its_logs() {
        let (from, to) = (filled(1), filled(2));
        let before = exported(to.path());
        for name in ["strowger.db-wal", "location.7.log"] {
            fs::write(to.path().join(name), "old").unwrap();
        }
        let restored = restore(to.path(), &copy(from.path())[..], Path::new("copy"), true).unwrap();
        let folder = restored.moved_to.unwrap();
        assert_eq!(names(&folder), ["location.7.log", "secret", "strowger.db", "strowger.db-wal"]);
        fs::remove_file(folder.join("strowger.db-wal")).unwrap();
        assert_eq!(exported(&folder), before);
        assert_eq!(exported(to.path()), exported(from.path()));
    }

    #[test]
    fn damaged_copy_replaces_nothing() {
        let (from, to) = (filled(1), filled(2));
        let before = exported(to.path());
        let copy = copy(from.path());
        restore(to.path(), &copy[..copy.len() - 1], Path::new("copy"), true).unwrap_err();
        assert_eq!(exported(to.path()), before);
    }

    #[test]
    fn copy_that_is_cut_anywhere_restores_nothing() {
        let copy = copy(filled(20).path());
        for end in (0..copy.len() - 1).step_by(97) {
            let to = TempDir::new();
            let error = restored(to.path(), &copy[..end]).unwrap_err().to_string();
            assert!(error.contains("copy.tar.gz"), "{error}");
            assert_eq!(names(to.path()), ["server.lock"], "cut at {end}");
        }
    }

    #[test]
    fn archive_with_other_files_is_refused() {
        for path in ["other", "../secret", "strowger.db/x"] {
            let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(1);
            header.set_mode(0o600);
            header.set_cksum();
            archive.append(&header, &b"x"[..]).unwrap();
            let bytes = archive.into_inner().unwrap().finish().unwrap();
            let to = TempDir::new();
            let error = restored(to.path(), &bytes).unwrap_err().to_string();
            assert!(error.contains("is no copy of a data directory"), "{error}");
            assert_eq!(names(to.path()), ["server.lock"]);
        }
    }
}
