//! What was read from a machine.

use std::collections::BTreeMap;

/// What reading one file gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Its content.
    Text(String),
    /// There is no such file, or the card does not have the setting.
    Absent,
    /// It exists and could not be read: why.
    Denied(String),
}

/// A file as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    reading: Reading,
    writable: bool,
}

impl Seen {
    /// What reading gave, and whether this process may write there.
    pub fn new(reading: Reading, writable: bool) -> Seen {
        Seen { reading, writable }
    }

    /// What reading gave.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Whether this process may write there.
    pub fn writable(&self) -> bool {
        self.writable
    }
}

/// What was read from a machine, by path. Settings of network cards have paths too:
/// `/ethtool/CARD/SETTING`, as listed in [`crate::CARD_SETTINGS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    files: BTreeMap<String, Seen>,
    page: u64,
}

impl Default for Snapshot {
    fn default() -> Snapshot {
        Snapshot { files: BTreeMap::new(), page: 4_096 }
    }
}

impl Snapshot {
    /// Nothing read yet.
    pub fn new() -> Snapshot {
        Snapshot::default()
    }

    /// Adds what was seen at a path.
    pub fn record(&mut self, path: &str, seen: Seen) {
        self.files.insert(path.to_owned(), seen);
    }

    /// The snapshot with a writable file added.
    #[must_use]
    pub fn with(mut self, path: &str, text: &str) -> Snapshot {
        self.record(path, Seen::new(Reading::Text(text.to_owned()), true));
        self
    }

    /// The snapshot of a machine whose pages of memory have this number of bytes; 4,096 without it.
    #[must_use]
    pub fn with_page(mut self, bytes: u64) -> Snapshot {
        self.page = bytes.max(1_024);
        self
    }

    /// Bytes of a page of memory, in which udp_mem and tcp_mem count.
    pub fn page(&self) -> u64 {
        self.page
    }

    /// What was seen at a path; `None` if nobody looked.
    pub fn seen(&self, path: &str) -> Option<&Seen> {
        self.files.get(path)
    }

    /// The content of a file, if it could be read.
    pub fn text(&self, path: &str) -> Option<&str> {
        match self.files.get(path)?.reading() {
            Reading::Text(text) => Some(text),
            Reading::Absent | Reading::Denied(_) => None,
        }
    }

    /// The content of a file without white space around it.
    pub fn word(&self, path: &str) -> Option<&str> {
        self.text(path).map(str::trim)
    }

    /// What was seen where a pattern matches, in order of the paths. `*` stands for characters of a
    /// component.
    pub fn seen_at<'a, 'p>(
        &'a self,
        pattern: &'p str,
    ) -> impl Iterator<Item = (&'a str, &'a Seen)> + use<'a, 'p> {
        let prefix = pattern.split('*').next().unwrap_or_default();
        self.files
            .range(prefix.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(prefix))
            .filter(move |(path, _)| matches(pattern, path))
            .map(|(path, seen)| (path.as_str(), seen))
    }

    /// The files that a pattern matches and that could be read, with their content.
    pub fn matching<'a, 'p>(
        &'a self,
        pattern: &'p str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a, 'p> {
        self.seen_at(pattern).filter_map(|(path, seen)| match seen.reading() {
            Reading::Text(text) => Some((path, text.as_str())),
            Reading::Absent | Reading::Denied(_) => None,
        })
    }

    /// The files below a folder that could be read, in order of their paths.
    pub fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let folder = folder.to_owned();
        self.files.range(folder.clone()..).take_while(move |(path, _)| path.starts_with(&folder)).filter_map(
            |(path, seen)| match seen.reading() {
                Reading::Text(text) => Some((path.as_str(), text.as_str())),
                Reading::Absent | Reading::Denied(_) => None,
            },
        )
    }

    /// The number of a process with this name, if one runs.
    pub fn process(&self, name: &str) -> Option<&str> {
        let (path, _) = self.matching("/proc/*/comm").find(|(_, text)| text.trim() == name)?;
        path.split('/').nth(2)
    }

    /// The names of the network cards, without the loopback device.
    pub fn cards(&self) -> Vec<&str> {
        let pattern = "/sys/class/net/*/operstate";
        self.matching(pattern)
            .filter_map(|(path, _)| path.split('/').nth(4))
            .filter(|name| *name != "lo")
            .collect()
    }
}

/// Whether a path matches a pattern in which `*` stands for characters of one component.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let (mut patterns, mut parts) = (pattern.split('/'), path.split('/'));
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if component_matches(pattern, part) => {}
            _ => return false,
        }
    }
}

/// Whether a component matches one with at most one `*`.
fn component_matches(pattern: &str, part: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == part,
        Some((before, after)) => {
            part.len() >= before.len() + after.len() && part.starts_with(before) && part.ends_with(after)
        }
    }
}
