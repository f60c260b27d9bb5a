//! Names of kernel settings, and the files that set them at boot.

use crate::snapshot::{Reading, Snapshot};

/// Where the kernel has them.
const ROOT: &str = "/proc/sys/";

/// The folders of files that set them at boot; a file of an earlier folder hides one with its name in a later
/// one (sysctl.d(5)).
const FOLDERS: [&str; 4] = ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];

/// The file that most systems read after all others.
const LAST: &str = "/etc/sysctl.conf";
/// What reads the files at boot where systemd does.
const SYSTEMD: &str = "/usr/lib/systemd/systemd-sysctl";

/// A line that sets a value at boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysctlLine {
    file: String,
    line: usize,
    name: String,
    value: String,
}

impl SysctlLine {
    /// Where it is: `FILE:LINE`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// The file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The name with dots.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value.
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// The path of a name such as `net.core.rmem_max`. A slash in a name stands for a dot, as in
/// `net.ipv4.conf.eth0/100.forwarding`.
pub fn path_of(name: &str) -> String {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swap).fold(ROOT.to_owned(), |mut path, c| {
        path.push(c);
        path
    })
}

/// The name of a path below `/proc/sys`.
pub fn name_of(path: &str) -> Option<String> {
    let swap = |c| match c {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    Some(path.strip_prefix(ROOT)?.chars().map(swap).collect())
}

/// How people call what is at a path: `net.core.rmem_max`, `eth0 rx-ring`, or the path.
pub fn shown(path: &str) -> String {
    let card = path.strip_prefix("/ethtool/").and_then(|rest| rest.split_once('/'));
    match card {
        Some((card, setting)) => format!("{card} {setting}"),
        None => name_of(path).unwrap_or_else(|| path.to_owned()),
    }
}

/// The lines of all files that set values at boot, in the order in which they are read: the last one counts.
pub fn sysctl_lines(snapshot: &Snapshot) -> Vec<SysctlLine> {
    let own = snapshot.text(LAST);
    let mut linked = false;
    let mut files: Vec<(&str, &str, &str)> = Vec::new();
    for folder in FOLDERS {
        let pattern = format!("{folder}/*.conf");
        for (path, seen) in snapshot.seen_at(&pattern) {
            // A link to /dev/null hides a file and has no lines.
            let text = match seen.reading() {
                Reading::Text(text) => text.as_str(),
                Reading::Absent | Reading::Denied(_) => "",
            };
            let name = path.rsplit('/').next().unwrap_or_default();
            let hidden = files.iter().any(|(other, _, _)| *other == name);
            // Debian and Fedora link /etc/sysctl.d/99-sysctl.conf to it: then it is read under that name.
            let link = own == Some(text) && !text.is_empty();
            linked |= link && !hidden;
            if !hidden {
                files.push((name, if link { LAST } else { path }, text));
            }
        }
    }
    files.sort();
    // Without a link, systemd does not read it, so all other files count more. Other systems read it last.
    let systemd = snapshot.seen(SYSTEMD).is_some_and(|seen| *seen.reading() != Reading::Absent);
    if let Some(text) = own.filter(|_| !linked) {
        let at = if systemd { 0 } else { files.len() };
        files.insert(at, ("", LAST, text));
    }
    let mut lines = Vec::new();
    for (_, path, text) in files {
        read_lines(path, text, &mut lines);
    }
    lines
}

/// The lines that set a name, the last one counts.
pub fn lines_for<'a>(lines: &'a [SysctlLine], name: &'a str) -> impl Iterator<Item = &'a SysctlLine> {
    lines.iter().filter(move |line| line.name == name)
}

fn read_lines(file: &str, text: &str, into: &mut Vec<SysctlLine>) {
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let name = name.trim();
        let name = name.strip_prefix('-').unwrap_or(name).trim();
        into.push(SysctlLine {
            file: file.to_owned(),
            line: at + 1,
            name: dotted(name),
            value: value.trim().to_owned(),
        });
    }
}

/// A name with dots between its parts. The first separator says which one the line uses (sysctl.d(5)).
fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes()[at] == b'/' => {
            name_of(&format!("{ROOT}{name}")).unwrap_or_else(|| name.to_owned())
        }
        _ => name.to_owned(),
    }
}
