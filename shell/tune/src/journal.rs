//! What was there before: one line of JSON for each change.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// A value of the kernel or of a card is about to be changed.
    Value {
        /// The item that wants it.
        item: String,
        /// Where it is.
        path: String,
        /// What was read there.
        old: String,
        /// What is written.
        new: String,
        /// Whether it is meant to end with this boot.
        until_reboot: bool,
        /// The boot in which it was changed.
        boot: String,
        /// When, in seconds since 1970.
        at: u64,
    },
    /// What the kernel made of the value that was written.
    Seen {
        /// Where.
        path: String,
        /// What was read there afterwards.
        text: String,
    },
    /// A file of ours is about to be written.
    File {
        /// Which one.
        path: String,
        /// What was in it; `None`: there was no such file.
        old: Option<String>,
        /// What is written.
        new: String,
    },
    /// A folder is about to be made.
    Folder {
        /// Which one.
        path: String,
    },
}

/// Why the journal cannot be used.
#[derive(Debug)]
pub struct JournalError(String);

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JournalError {}

/// The journal, locked for this process.
pub struct Journal {
    path: PathBuf,
    file: File,
    entries: Vec<Entry>,
    made_folder: bool,
}

impl Journal {
    /// Opens or makes it, and its folder.
    ///
    /// # Errors
    /// It cannot be made, read or locked, others may write it, or a line is damaged.
    pub fn open(path: &Path) -> Result<Journal, JournalError> {
        let fault = |error: std::io::Error| failed(path, &error);
        let folder = path.parent().unwrap_or(Path::new("."));
        let made_folder = !folder.as_os_str().is_empty() && !folder.exists();
        if made_folder {
            fs::DirBuilder::new().mode(0o755).recursive(true).create(folder).map_err(fault)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let file = options.open(path).map_err(fault)?;
        let mut journal = Journal { path: path.to_owned(), file, entries: Vec::new(), made_folder };
        journal.load()?;
        Ok(journal)
    }

    /// Opens it if there is one.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn existing(path: &Path) -> Result<Option<Journal>, JournalError> {
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        Journal::open(path).map(Some)
    }

    /// Reads the entries without locking it, for a user who may not write it.
    ///
    /// # Errors
    /// It cannot be read, or a line is damaged.
    pub fn entries_of(path: &Path) -> Result<Vec<Entry>, JournalError> {
        match fs::read_to_string(path) {
            Ok(text) => parse(path, &text).map(|(entries, _)| entries),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(said(path, &error.to_string())),
        }
    }

    /// What it holds, the oldest entry first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds entries. They are on the disk when this returns.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn append(&mut self, entries: Vec<Entry>) -> Result<(), JournalError> {
        let mut text = String::new();
        for entry in &entries {
            let line = serde_json::to_string(entry).map_err(|error| said(&self.path, &error.to_string()))?;
            text.push_str(&line);
            text.push('\n');
        }
        let mut write = || {
            self.file.write_all(text.as_bytes())?;
            self.file.sync_all()?;
            self.path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
        };
        write().map_err(|error: std::io::Error| said(&self.path, &error.to_string()))?;
        self.entries.extend(entries);
        Ok(())
    }

    /// Ends it: everything is undone. An empty folder of its own goes too.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(self) -> Result<(), JournalError> {
        fs::remove_file(&self.path).map_err(|error| said(&self.path, &error.to_string()))?;
        if let Some(folder) = self.path.parent().filter(|folder| folder.ends_with("strowger-tune")) {
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// Removes it where nothing was written into it.
    pub fn remove_if_empty(self) {
        if self.entries.is_empty() {
            let folder = self.path.parent().filter(|_| self.made_folder).map(Path::to_owned);
            let _ = fs::remove_file(&self.path);
            folder.map(fs::remove_dir);
        }
    }

    /// An error about its content.
    pub(crate) fn refuse(&self, what: &str) -> JournalError {
        said(&self.path, what)
    }

    fn load(&mut self) -> Result<(), JournalError> {
        let path = self.path.clone();
        let fault = |error: std::io::Error| failed(&path, &error);
        match self.file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(said(&path, "another `strowger tune` is at work; wait until it has ended"));
            }
            Err(TryLockError::Error(error)) => return Err(fault(error)),
        }
        let about = self.file.metadata().map_err(fault)?;
        // Values of the journal are written as root, so only its owner may have written it.
        let me = rustix::process::geteuid().as_raw();
        if !about.is_file() || about.nlink() != 1 || about.uid() != me || about.mode() & 0o022 != 0 {
            let mend =
                "it must be a regular file of the user who runs `strowger tune`, writable by nobody else";
            return Err(said(&path, mend));
        }
        let mut text = String::new();
        self.file.read_to_string(&mut text).map_err(fault)?;
        let (entries, whole) = parse(&path, &text)?;
        // A line that a crash cut off was never followed by a change.
        self.file.set_len(whole as u64).map_err(fault)?;
        self.file.seek(SeekFrom::End(0)).map_err(fault)?;
        self.entries = entries;
        Ok(())
    }
}

/// The entries of a text, and the length of its whole lines.
fn parse(path: &Path, text: &str) -> Result<(Vec<Entry>, usize), JournalError> {
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let mut entries = Vec::new();
    for (at, line) in text[..whole].lines().enumerate() {
        let entry = serde_json::from_str(line).map_err(|error| {
            JournalError(format!(
                "{}:{}: damaged line: {error}; remove the line if it cannot be mended",
                path.display(),
                at + 1
            ))
        })?;
        entries.push(entry);
    }
    Ok((entries, whole))
}

/// What the system said, and the mend where it is known.
fn failed(path: &Path, error: &std::io::Error) -> JournalError {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => said(path, &format!("{error}; run `strowger tune` as root")),
        _ => said(path, &error.to_string()),
    }
}

fn said(path: &Path, what: &str) -> JournalError {
    JournalError(format!("{}: {what}", path.display()))
}
