//! What was there before: one line of JSON for each change.

use crate::machine::Machine;
use crate::root::{Root, parent};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tune_rules::{OWN_SYSCTL_FILE, OWN_UNIT_FILE};

/// Bytes of a journal at most: some thousand boots.
const LONGEST: u64 = 16 << 20;

/// Where values are.
const VALUES: [&str; 5] = ["/proc/sys/", "/proc/irq/", "/sys/class/net/", "/sys/devices/", "/ethtool/"];

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
    /// The value of the entry before could not be written: the place has what it had.
    NotMade {
        /// Where.
        path: String,
    },
    /// After a boot, the value was written again, tried, or there already.
    Restored {
        /// Where.
        path: String,
        /// Which boot.
        boot: String,
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

impl Entry {
    /// The value, file or folder.
    fn path(&self) -> &str {
        match self {
            Entry::Value { path, .. }
            | Entry::Seen { path, .. }
            | Entry::NotMade { path }
            | Entry::Restored { path, .. }
            | Entry::File { path, .. }
            | Entry::Folder { path } => path,
        }
    }
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

/// Where a journal is.
#[derive(Clone, Debug)]
pub struct JournalPlace {
    root: Root,
    path: PathBuf,
}

impl JournalPlace {
    /// The usual place on a machine or in a tree. Links of a tree lead to places of the tree only.
    pub fn of(machine: &Machine) -> JournalPlace {
        JournalPlace { root: machine.root().clone(), path: PathBuf::from("/var/lib/strowger-tune/journal") }
    }

    /// Its path on this machine.
    pub fn shown(&self) -> PathBuf {
        self.root.shown(&self.path)
    }

    /// The folders above it that do not exist, the outermost first.
    fn missing_folders(&self) -> Vec<&Path> {
        let mut missing: Vec<&Path> = Vec::new();
        let mut folder = parent(&self.path);
        while !self.root.has_folder(folder) && folder.file_name().is_some() {
            missing.insert(0, folder);
            folder = parent(folder);
        }
        missing
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for JournalPlace {
    /// A path of this machine.
    fn from(path: &P) -> JournalPlace {
        JournalPlace { root: Root::MACHINE, path: path.as_ref().to_owned() }
    }
}

/// The journal, locked for this process.
pub struct Journal {
    place: JournalPlace,
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
    pub fn open(place: impl Into<JournalPlace>) -> Result<Journal, JournalError> {
        let place = place.into();
        let path = place.shown();
        let fault = |error: std::io::Error| failed(&path, &error);
        let missing = place.missing_folders();
        for folder in &missing {
            place.root.make_folder(folder, 0o755).map_err(fault)?;
        }
        let made_folder = !missing.is_empty();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = place.root.open(&place.path, flags, 0o644).map_err(fault)?;
        let mut journal = Journal { place, path, file, entries: Vec::new(), made_folder };
        journal.load()?;
        Ok(journal)
    }

    /// Opens it if there is one.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn existing(place: impl Into<JournalPlace>) -> Result<Option<Journal>, JournalError> {
        let place = place.into();
        match place.root.about_itself(&place.path) {
            Ok(_) => Journal::open(place).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&place.shown(), &error)),
        }
    }

    /// Reads the entries without locking it, for a user who may not write it.
    ///
    /// # Errors
    /// It cannot be read, or a line is damaged.
    pub fn entries_of(place: impl Into<JournalPlace>) -> Result<Vec<Entry>, JournalError> {
        let place = place.into();
        let path = place.shown();
        let file = match place.root.open(&place.path, OFlags::RDONLY | OFlags::NONBLOCK, 0) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened.and_then(|file| regular_file::read_opened(file, LONGEST)),
        };
        let text = file.and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other));
        parse(&path, &text.map_err(|error| failed(&path, &error))?).map(|(entries, _)| entries)
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
    /// They cannot be written, or the journal would become larger than 16 MiB.
    pub fn append(&mut self, entries: Vec<Entry>) -> Result<(), JournalError> {
        let mut text = String::new();
        for entry in &entries {
            let line = serde_json::to_string(entry).map_err(|error| said(&self.path, &error.to_string()))?;
            text.push_str(&line);
            text.push('\n');
        }
        let size = self.file.metadata().map_err(|error| failed(&self.path, &error))?.len();
        if size + text.len() as u64 > LONGEST {
            let what =
                format!("it would become larger than {LONGEST} bytes; run `strowger tune undo`, then apply");
            return Err(said(&self.path, &what));
        }
        let mut write = || {
            self.file.write_all(text.as_bytes())?;
            self.file.sync_all()?;
            self.place.root.sync_folder_of(&self.place.path)
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
        let JournalPlace { root, path } = &self.place;
        root.remove_file(path).map_err(|error| said(&self.path, &error.to_string()))?;
        if parent(path).ends_with("strowger-tune") {
            let _ = root.remove_folder(parent(path));
        }
        Ok(())
    }

    /// Removes it where nothing was written into it.
    pub fn remove_if_empty(self) {
        if self.entries.is_empty() {
            let JournalPlace { root, path } = &self.place;
            let _ = root.remove_file(path);
            if self.made_folder {
                let _ = root.remove_folder(parent(path));
            }
        }
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

/// Whether `apply` can have written an entry: what the journal says is carried out as root.
fn is_ours(entry: &Entry) -> bool {
    let path = entry.path();
    let allowed = match entry {
        Entry::Value { .. } | Entry::Seen { .. } | Entry::NotMade { .. } | Entry::Restored { .. } => {
            VALUES.iter().any(|root| path.starts_with(root))
        }
        Entry::File { .. } => [OWN_SYSCTL_FILE, OWN_UNIT_FILE].contains(&path),
        Entry::Folder { .. } => {
            let parent = |file: &str| file.starts_with(&format!("{path}/"));
            parent(OWN_SYSCTL_FILE) || parent(OWN_UNIT_FILE)
        }
    };
    allowed && !path.split('/').any(|part| part == "..")
}

/// The entries of a text, and the length of its whole lines.
fn parse(path: &Path, text: &str) -> Result<(Vec<Entry>, usize), JournalError> {
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let mut entries = Vec::new();
    for (at, line) in text[..whole].lines().enumerate() {
        let fault = |what: String| JournalError(format!("{}:{}: {what}", path.display(), at + 1));
        let entry: Entry = serde_json::from_str(line).map_err(|error| {
            fault(format!("damaged line: {error}; remove the line if it cannot be mended"))
        })?;
        if !is_ours(&entry) {
            let path = entry.path();
            return Err(fault(format!("names {path}, which `strowger tune` never writes; remove the line")));
        }
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
