//! Where the programs of this machine are.

use std::path::{Path, PathBuf};

/// A program of the search path, or of where servers are that only root may start.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder: PathBuf| folder.join(name)).find(|candidate| candidate.is_file())
}

/// The same; its name where it is nowhere, so that starting it says so.
pub fn found(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| PathBuf::from(name))
}

/// A program that an experiment names: a name without a folder is looked up in the search path.
pub fn located(program: &Path) -> PathBuf {
    match program.to_str() {
        Some(name) if !name.contains('/') => found(name),
        _ => program.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_of_the_search_path_is_found_once() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(found("sh"), find("sh").expect("it is there"));
        assert_eq!((find("no-such-program"), found("no-such-program")), (None, "no-such-program".into()));
        assert_eq!(located(Path::new("bin/sh")), Path::new("bin/sh"));
    }
}
