//! Reads and writes a machine, or a tree that stands for one.

use crate::ethtool;
use crate::root::Root;
use rustix::fs::{FileType, OFlags, Stat};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tune_rules::{CARD_SETTINGS, OWN_SYSCTL_FILE, OWN_UNIT_FILE, PATHS, Reading, Rights, Seen, Snapshot};

/// Bytes of a file that are read at most; `/proc/interrupts` of a large machine has some MiB.
const LONGEST: u64 = 16 << 20;
/// Where settings of cards are.
const CARDS: &str = "/ethtool/";
/// Programs that change the settings of others.
const KNOWN_PROGRAMS: [&str; 2] = ["irqbalance", "tuned"];
/// Where the program is installed.
pub const INSTALLED: &str = "/usr/local/bin/strowger";
/// Files that one pattern may match.
const MOST_FILES: usize = 20_000;

/// A machine, or a tree of files that stands for one: paths start from its root. In a tree, the settings of
/// cards are files, `ethtool/CARD/SETTING`.
pub struct Machine {
    root: Root,
    #[cfg(test)]
    pub(crate) writes_left: std::cell::Cell<Option<u32>>,
    #[cfg(test)]
    refused: std::cell::RefCell<String>,
}

impl Machine {
    /// The machine or tree with this root.
    pub fn new(root: &Path) -> Machine {
        Machine {
            root: Root::at(root),
            #[cfg(test)]
            writes_left: std::cell::Cell::new(None),
            #[cfg(test)]
            refused: std::cell::RefCell::default(),
        }
    }

    /// Reads everything that the rules look at.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new().with_page(rustix::param::page_size() as u64);
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
            && let Ok(link) = self.root.link(Path::new(path))
        {
            return Reading::Text(link);
        }
        let file = self.root.open(Path::new(path), OFlags::RDONLY | OFlags::NONBLOCK, 0);
        match file.and_then(|file| regular_file::read_opened(file, LONGEST)) {
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
        let mut file = self.root.open(Path::new(path), OFlags::WRONLY | OFlags::TRUNC, 0)?;
        // In one piece: the kernel takes each write as a value.
        file.write_all(text.as_bytes())
    }

    /// Replaces a file of ours as a whole, or makes it.
    ///
    /// # Errors
    /// It cannot be written. The error does not name the path.
    pub fn put(&self, path: &str, text: &str) -> io::Result<()> {
        let draft = draft(path);
        self.burn()?;
        self.root.write_new(Path::new(&draft), text)?;
        self.burn()?;
        self.root.rename(Path::new(&draft), Path::new(path))
    }

    /// Removes a file of ours.
    ///
    /// # Errors
    /// It cannot be removed. The error does not name the path.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        self.burn()?;
        self.root.remove_file(Path::new(path))
    }

    /// Removes what an interrupted [`Machine::put`] left.
    pub(crate) fn remove_draft(&self, path: &str) {
        let _ = self.burn().and_then(|()| self.root.remove_file(Path::new(&draft(path))));
    }

    /// Makes a folder whose parent exists.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_folder(&self, path: &str) -> io::Result<()> {
        self.burn()?;
        self.root.make_folder(Path::new(path), 0o777)
    }

    /// Removes a folder if it is empty, and says whether it was.
    ///
    /// # Errors
    /// It is empty and cannot be removed.
    pub fn remove_folder(&self, path: &str) -> io::Result<bool> {
        self.burn()?;
        match self.root.remove_folder(Path::new(path)) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotFound) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether there is a folder.
    pub fn has_folder(&self, path: &str) -> bool {
        self.root.has_folder(Path::new(path))
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
        self.root.is_machine()
    }

    /// The card and the setting of a path, if a card must be asked for it.
    fn card<'a>(&self, path: &'a str) -> Option<(&'a str, &'a str)> {
        path.strip_prefix(CARDS).filter(|_| self.has_cards())?.split_once('/')
    }

    /// Where paths start.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// The program that root's unit may run for `strowger tune restore`: the running one, else the installed
    /// one, if only root may change it. In a tree only the installed one counts.
    pub fn safe_program(&self, running: Option<&Path>) -> Option<PathBuf> {
        let installed = Path::new(INSTALLED);
        let candidates = match self.root.is_machine() {
            true => [running.map(Path::to_owned), std::fs::canonicalize(installed).ok()],
            false => [None, Some(installed.to_owned())],
        };
        candidates.into_iter().flatten().find(|program| self.only_root_may_change(program))
    }

    /// Whether a file is a regular one that only root may change: it and all folders above it belong to root,
    /// are writable by nobody else, and are no links.
    fn only_root_may_change(&self, file: &Path) -> bool {
        let about = |place: &Path| self.root.about_itself(place);
        let regular = |about: Stat| FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
        // A link has a mode that everybody may write, so it fails here.
        let safe = |place: &Path| about(place).is_ok_and(|about| is_roots(about.st_uid, about.st_mode));
        file.is_absolute() && about(file).is_ok_and(regular) && file.ancestors().all(safe)
    }

    fn look(&self, path: &str) -> Seen {
        let reading = self.read(path);
        let place = Path::new(path);
        let writable = match reading {
            // A file of ours can be made where its nearest folder can be written.
            Reading::Absent => {
                let mut folders = place.ancestors().skip(1);
                let nearest = folders.find(|folder| self.root.about(folder).is_ok());
                nearest.is_some_and(|folder| self.root.may_write(folder))
            }
            Reading::Text(_) | Reading::Denied(_) => self.root.may_write(place),
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
                let at = if folder.is_empty() { "/" } else { folder };
                let names = self.root.names(Path::new(at)).into_iter();
                next.extend(names.filter(|name| fits(part, name)).map(|name| format!("{folder}/{name}")));
            }
            next.truncate(MOST_FILES);
            found = next;
        }
        let is_folder = |about: Stat| FileType::from_raw_mode(about.st_mode) == FileType::Directory;
        found.retain(|path| match self.root.about(Path::new(path)) {
            Ok(about) => !is_folder(about),
            // It masks a file, also in a tree without devices.
            Err(_) => self.root.link(Path::new(path)).is_ok_and(|to| to == "/dev/null"),
        });
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

/// Whether an owner and a mode mean that only root may write.
fn is_roots(owner: u32, mode: u32) -> bool {
    owner == 0 && mode & 0o022 == 0
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_others_may_change_is_not_run_as_root() {
        for (owner, mode, good) in
            [(0, 0o755, true), (1_000, 0o755, false), (0, 0o775, false), (0, 0o757, false)]
        {
            assert_eq!(is_roots(owner, mode), good, "{owner} {mode:o}");
        }
        // The folder of temporary files is writable by everybody.
        let file = std::env::temp_dir().join(format!("strowger-tune-program-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        assert!(!Machine::new(Path::new("/")).only_root_may_change(&file));
        std::fs::remove_file(&file).unwrap();
        let machine = Machine::new(Path::new("/"));
        assert!(!machine.only_root_may_change(Path::new("/usr/nonexistent")), "no program");
        assert!(!machine.only_root_may_change(Path::new("/usr")), "a folder");
    }

    #[test]
    fn program_of_another_user_is_not_named_for_root() {
        use std::os::unix::fs::PermissionsExt;
        let tree = std::env::temp_dir().join(format!("strowger-tune-safe-{}", std::process::id()));
        let folder = tree.join("usr/local/bin");
        std::fs::create_dir_all(&folder).unwrap();
        let machine = Machine::new(&tree);
        assert_eq!(machine.safe_program(Some(Path::new("/usr/bin/env"))), None, "there is none");
        let program = folder.join("strowger");
        std::fs::write(&program, "").unwrap();
        let mode = |of: &Path, mode| {
            std::fs::set_permissions(of, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&program, 0o777);
        assert_eq!(machine.safe_program(None), None, "everybody may write it");
        mode(&program, 0o755);
        mode(&folder, 0o775);
        assert_eq!(machine.safe_program(None), None, "a group may replace it");
        for folder in [&folder, &tree.join("usr/local"), &tree.join("usr"), &tree] {
            mode(folder, 0o755);
        }
        let expected = rustix::process::geteuid().is_root().then(|| PathBuf::from(INSTALLED));
        assert_eq!(machine.safe_program(None), expected);
        std::fs::rename(&program, folder.join("other")).unwrap();
        std::os::unix::fs::symlink("other", &program).unwrap();
        assert_eq!(machine.safe_program(None), None, "a link");
        std::fs::remove_dir_all(&tree).unwrap();
    }
}
