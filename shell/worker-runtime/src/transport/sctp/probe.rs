//! Why the kernel has no SCTP, and what to do.
//!
//! Distributions ship the module apart, and guides for hardening forbid it, so the error names the file.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Where modprobe reads its configuration (modprobe.d(5)); of files of one name it reads the first.
const FOLDERS: [&str; 5] = [
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
];

/// Why the kernel has no SCTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    /// A line of a file forbids the module.
    Forbidden {
        /// The file.
        file: PathBuf,
        /// The line, from one.
        number: usize,
        /// What it says.
        line: String,
    },
    /// It is not among the kernel's modules.
    Absent {
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// It is there, and not loaded.
    Unloaded,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernel has no SCTP: its module sctp ")?;
        match self {
            Missing::Forbidden { file, number, line } => write!(
                f,
                "is forbidden by {}:{number} (`{line}`); remove that line, then run `modprobe sctp`",
                file.display()
            ),
            Missing::Absent { folder } => write!(
                f,
                "is not in {}; install the package of your kernel's further modules (linux-modules-extra-... on \
                 Ubuntu, kernel-modules-extra on Fedora and RHEL) or a kernel that has it, then run `modprobe sctp`",
                folder.display()
            ),
            Missing::Unloaded => f.write_str(
                "is not loaded; run `modprobe sctp`, and write the line `sctp` to /etc/modules-load.d/sctp.conf to \
                 load it at each boot",
            ),
        }
    }
}

/// Why this kernel has none.
pub fn missing() -> Missing {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    look(&FOLDERS.map(PathBuf::from), &Path::new("/lib/modules").join(release.trim()))
}

/// Looks through what modprobe reads, then through the kernel's modules.
fn look(folders: &[PathBuf], modules: &Path) -> Missing {
    let mut seen = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> =
            entries.filter(|f| f.extension().is_some_and(|e| e == "conf")).collect();
        files.sort();
        for file in files {
            let name = file.file_name().map(ToOwned::to_owned);
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let text = fs::read_to_string(&file).unwrap_or_default();
            if let Some((number, line)) = text.lines().enumerate().find(|(_, line)| forbids(line)) {
                return Missing::Forbidden { file, number: number + 1, line: line.trim().to_owned() };
            }
        }
    }
    let lists = |name: &str| {
        let text = fs::read_to_string(modules.join(name)).unwrap_or_default();
        text.lines().any(|line| line.split(':').next().is_some_and(|path| path.contains("/sctp.ko")))
    };
    match lists("modules.dep") || lists("modules.builtin") {
        true => Missing::Unloaded,
        false => Missing::Absent { folder: modules.to_owned() },
    }
}

/// Whether a line keeps the module from being loaded when a socket asks for it: `blacklist sctp`, or
/// `install sctp` with a command that does nothing.
fn forbids(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["blacklist", "sctp"] => true,
        ["install", "sctp", command, ..] => {
            ["true", "false"].contains(&command.rsplit('/').next().unwrap_or_default())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is gone with the value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("strowger-sctp-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Folder(path)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).expect("a file");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lines_that_forbid_the_module_are_known() {
        for line in
            ["blacklist sctp", " blacklist\tsctp ", "install sctp /bin/false", "install sctp /bin/true # CIS"]
        {
            assert!(forbids(line), "{line}");
        }
        for line in
            ["# blacklist sctp", "blacklist sctp_diag", "install dccp /bin/false", "options sctp x=1", ""]
        {
            assert!(!forbids(line), "{line}");
        }
    }

    #[test]
    fn error_names_the_file_that_forbids_the_module() {
        let (etc, usr) = (Folder::new("etc"), Folder::new("usr"));
        let folders = [etc.0.clone(), usr.0.clone(), PathBuf::from("/nowhere")];
        etc.write("readme.txt", "blacklist sctp\n");
        usr.write("rare.conf", "blacklist sctp\n");
        assert!(look(&folders, &etc.0).to_string().contains("rare.conf:1 (`blacklist sctp`)"));
        etc.write("rare.conf", "# overrides the file of that name\n");
        assert_eq!(look(&folders, &etc.0), Missing::Absent { folder: etc.0.clone() });
        let file = etc.write("hard.conf", "# rare\ninstall sctp /bin/false\n");
        let found = look(&folders, &etc.0);
        assert_eq!(found, Missing::Forbidden { file, number: 2, line: "install sctp /bin/false".to_owned() });
        assert!(
            found.to_string().contains("hard.conf:2 (`install sctp /bin/false`); remove that line"),
            "{found}"
        );
    }

    #[test]
    fn module_that_is_there_is_to_be_loaded() {
        let modules = Folder::new("modules");
        modules.write("modules.dep", "kernel/net/sctp/sctp_diag.ko: kernel/net/sctp/sctp.ko\n");
        assert!(matches!(look(&[], &modules.0), Missing::Absent { .. }));
        modules.write("modules.dep", "kernel/net/sctp/sctp.ko.xz: kernel/lib/libcrc32c.ko.xz\n");
        let found = look(&[], &modules.0);
        assert_eq!(found, Missing::Unloaded);
        assert!(found.to_string().contains("run `modprobe sctp`"));
    }
}
