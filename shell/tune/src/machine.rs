//! Reads and writes a machine, or a tree that stands for one.

use crate::ethtool;
use rustix::fs::{Access, access};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tune_rules::{CARD_SETTINGS, OWN_SYSCTL_FILE, OWN_UNIT_FILE, PATHS, Reading, Rights, Seen, Snapshot};

/// Bytes of a file that are read at most; `/proc/interrupts` of a large machine has some MiB.
const LONGEST: u64 = 16 << 20;
/// Where settings of cards are.
const CARDS: &str = "/ethtool/";
/// Programs that change the settings of others.
const KNOWN_PROGRAMS: [&str; 2] = ["irqbalance", "tuned"];
/// Files that one pattern may match.
const MOST_FILES: usize = 20_000;

/// A machine, or a tree of files that stands for one: paths start from its root. In a tree, the settings of
/// cards are files, `ethtool/CARD/SETTING`.
pub struct Machine {
    root: PathBuf,
    #[cfg(test)]
    pub(crate) writes_left: std::cell::Cell<Option<u32>>,
    #[cfg(test)]
    refused: std::cell::RefCell<String>,
}

impl Machine {
    /// The machine or tree with this root.
    pub fn new(root: &Path) -> Machine {
        Machine {
            root: root.to_owned(),
            #[cfg(test)]
            writes_left: std::cell::Cell::new(None),
            #[cfg(test)]
            refused: std::cell::RefCell::default(),
        }
    }

    /// Reads everything that the rules look at.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for pattern in PATHS {
            if pattern.contains(['*', '#']) {
                for path in self.expand(pattern) {
                    snapshot.record(&path, self.look(&path));
                }
            } else {
                snapshot.record(pattern, self.look(pattern));
            }
        }
        for path in [OWN_SYSCTL_FILE, OWN_UNIT_FILE] {
            snapshot.record(path, self.look(path));
        }
        self.processes(&mut snapshot);
        let cards: Vec<String> = snapshot.cards().into_iter().map(str::to_owned).collect();
        let may_change = Rights::of(&snapshot).net_admin();
        for card in cards {
            for setting in CARD_SETTINGS {
                let path = format!("{CARDS}{card}/{setting}");
                let seen = match self.has_cards() {
                    true => Seen::new(self.read(&path), may_change),
                    false => self.look(&path),
                };
                snapshot.record(&path, seen);
            }
        }
        snapshot
    }

    /// Reads what the rules need of running programs: whether some run, and the limits of servers.
    fn processes(&self, snapshot: &mut Snapshot) {
        for path in self.expand("/proc/#/comm") {
            let Reading::Text(name) = self.read(&path) else { continue };
            let folder = path.trim_end_matches("/comm");
            let serves = name.trim() == "strowger" && self.serves(folder);
            if serves || KNOWN_PROGRAMS.contains(&name.trim()) {
                snapshot.record(&path, Seen::new(Reading::Text(name), false));
            }
            if !serves {
                continue;
            }
            let limits = format!("{folder}/limits");
            snapshot.record(&limits, self.look(&limits));
            let Reading::Text(groups) = self.read(&format!("{folder}/cgroup")) else { continue };
            let group =
                groups.lines().find_map(|line| line.strip_prefix("0::")).filter(|group| *group != "/");
            for file in ["cpu.max", "cpu.stat", "memory.max"] {
                if let Some(group) = group {
                    let path = format!("/sys/fs/cgroup{group}/{file}");
                    snapshot.record(&path, self.look(&path));
                }
            }
        }
    }

    /// Whether a process was started to serve or to balance.
    fn serves(&self, folder: &str) -> bool {
        let Reading::Text(line) = self.read(&format!("{folder}/cmdline")) else { return false };
        line.split('\0').nth(1).is_some_and(|word| matches!(word, "serve" | "balance"))
    }

    /// What is at a path.
    pub fn read(&self, path: &str) -> Reading {
        if let Some((card, setting)) = self.card(path) {
            return match ethtool::read(card, setting) {
                Ok(Some(text)) => Reading::Text(text),
                Ok(None) => Reading::Absent,
                Err(error) => refused(&error),
            };
        }
        if path.starts_with("/proc/self/ns/")
            && let Ok(link) = fs::read_link(self.place(path))
        {
            return Reading::Text(link.to_string_lossy().into_owned());
        }
        match regular_file::read(&self.place(path), LONGEST) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Reading::Text(text),
                Err(_) => Reading::Denied("it is no text".to_owned()),
            },
            Err(error) => refused(&error),
        }
    }

    /// Writes a value to a file of the kernel, which exists.
    ///
    /// # Errors
    /// It cannot be written. The error does not name the path.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.burn()?;
        if let Some((card, setting)) = self.card(path) {
            return ethtool::write(card, setting, text);
        }
        #[cfg(test)]
        if *self.refused.borrow() == path {
            return Err(io::Error::from(ErrorKind::InvalidInput));
        }
        let mut file = OpenOptions::new().write(true).truncate(true).open(self.place(path))?;
        // In one piece: the kernel takes each write as a value.
        file.write_all(text.as_bytes())
    }

    /// Replaces a file of ours as a whole, or makes it.
    ///
    /// # Errors
    /// It cannot be written. The error does not name the path.
    pub fn put(&self, path: &str, text: &str) -> io::Result<()> {
        let (place, draft) = (self.place(path), self.place(&draft(path)));
        self.burn()?;
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        self.burn()?;
        fs::rename(&draft, &place)?;
        sync_folder(&place)
    }

    /// Removes a file of ours.
    ///
    /// # Errors
    /// It cannot be removed. The error does not name the path.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        self.burn()?;
        let place = self.place(path);
        fs::remove_file(&place)?;
        sync_folder(&place)
    }

    /// Removes what an interrupted [`Machine::put`] left.
    pub(crate) fn remove_draft(&self, path: &str) {
        let _ = self.burn().and_then(|()| fs::remove_file(self.place(&draft(path))));
    }

    /// Makes a folder whose parent exists.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_folder(&self, path: &str) -> io::Result<()> {
        self.burn()?;
        fs::create_dir(self.place(path))
    }

    /// Removes a folder if it is empty, and says whether it was.
    ///
    /// # Errors
    /// It is empty and cannot be removed.
    pub fn remove_folder(&self, path: &str) -> io::Result<bool> {
        self.burn()?;
        match fs::remove_dir(self.place(path)) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotFound) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether there is a folder.
    pub fn has_folder(&self, path: &str) -> bool {
        self.place(path).is_dir()
    }

    /// Which boot of the kernel this is.
    pub fn boot(&self) -> String {
        match self.read("/proc/sys/kernel/random/boot_id") {
            Reading::Text(text) => text.trim().to_owned(),
            Reading::Absent | Reading::Denied(_) => String::new(),
        }
    }

    /// Whether a process with this name runs, and its number.
    pub(crate) fn process(&self, name: &str) -> Option<u32> {
        self.expand("/proc/#/comm").into_iter().find_map(|path| {
            let Reading::Text(text) = self.read(&path) else { return None };
            (text.trim() == name).then(|| path.split('/').nth(2)?.parse().ok())?
        })
    }

    /// Whether the cards of this machine are meant, not the files of a tree.
    fn has_cards(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The card and the setting of a path, if a card must be asked for it.
    fn card<'a>(&self, path: &'a str) -> Option<(&'a str, &'a str)> {
        path.strip_prefix(CARDS).filter(|_| self.has_cards())?.split_once('/')
    }

    /// Where a path is on this machine.
    pub(crate) fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn look(&self, path: &str) -> Seen {
        let reading = self.read(path);
        let place = self.place(path);
        let writable = match reading {
            // A file of ours can be made where its nearest folder can be written.
            Reading::Absent => {
                place.ancestors().skip(1).find(|folder| folder.exists()).is_some_and(may_write)
            }
            Reading::Text(_) | Reading::Denied(_) => may_write(&place),
        };
        Seen::new(reading, writable)
    }

    /// The paths that a pattern matches.
    fn expand(&self, pattern: &str) -> Vec<String> {
        let mut found = vec![String::new()];
        for part in pattern.split('/').skip(1) {
            let special = part.contains(['*', '#']);
            let mut next = Vec::new();
            for folder in &found {
                if !special {
                    next.push(format!("{folder}/{part}"));
                    continue;
                }
                let entries = fs::read_dir(self.place(folder)).into_iter().flatten().flatten();
                let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
                next.extend(names.filter(|name| fits(part, name)).map(|name| format!("{folder}/{name}")));
            }
            next.truncate(MOST_FILES);
            found = next;
        }
        found.retain(|path| self.place(path).metadata().is_ok_and(|about| !about.is_dir()));
        found.sort();
        found
    }

    /// In tests, the kernel refuses each value at this path.
    #[cfg(test)]
    pub(crate) fn refuse(&self, path: &str) {
        path.clone_into(&mut self.refused.borrow_mut());
    }

    /// In tests, the process "dies" after a number of writes: everything after that fails.
    #[cfg(test)]
    fn burn(&self) -> io::Result<()> {
        match self.writes_left.get() {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the process is dead")),
            Some(left) => {
                self.writes_left.set(Some(left - 1));
                Ok(())
            }
        }
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests let it fail")]
    fn burn(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What an error of reading means.
fn refused(error: &io::Error) -> Reading {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Reading::Absent,
        // Attributes of sysfs that a driver does not have.
        _ if unsupported(error) => Reading::Absent,
        ErrorKind::PermissionDenied => Reading::Denied("permission denied".to_owned()),
        _ => Reading::Denied(error.to_string()),
    }
}

/// Where a file of ours is written before it gets its name. sysctl.d and systemd skip this ending.
fn draft(path: &str) -> String {
    format!("{path}.new")
}

/// Makes a new name in a folder last.
fn sync_folder(place: &Path) -> io::Result<()> {
    place.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn may_write(place: &Path) -> bool {
    access(place, Access::WRITE_OK).is_ok()
}

/// Whether an error says that a driver does not have an attribute.
fn unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::OPNOTSUPP | Errno::INVAL | Errno::NODEV | Errno::IO | Errno::NOENT))
}

/// Whether a name fits a part of a pattern: `#` is a number, `*` any characters.
fn fits(part: &str, name: &str) -> bool {
    if part == "#" {
        return name.bytes().all(|byte| byte.is_ascii_digit());
    }
    let (before, after) = part.split_once('*').unwrap_or((part, ""));
    name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
}
