//! Ends processes of a lab that was killed and could not end them itself, and removes what else it has left.
//!
//! Every process of a run has a mark in its environment. Everything else that outlives a process has a name.
//! Both say which lab it is of. The next lab removes what belongs to a lab that has ended.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};

use crate::owner::{Lab, MARK, namespace};
use crate::quota;
use crate::wall::Wall;

/// A file system in memory (tmpfs).
pub const MEMORY: &str = "/dev/shm";
/// For what is too large for memory.
pub const LARGE: &str = "/var/tmp";
/// Folders with files of labs, beside that for temporary files.
const FOLDERS: [&str; 2] = [MEMORY, LARGE];
/// A control group is busy until the processes in it have ended.
const TRIES: u32 = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// What was left by labs that were killed, and is gone now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    processes: usize,
    groups: usize,
    routes: usize,
    files: usize,
}

impl Removed {
    /// What was removed, in one line; nothing if nothing was.
    pub fn line(self) -> Option<String> {
        let counts = [
            (self.processes, "process", "processes"),
            (self.groups, "control group", "control groups"),
            (self.routes, "route", "routes"),
            (self.files, "file or folder", "files or folders"),
        ];
        let said = counts.iter().filter(|(count, ..)| *count > 0);
        let said: Vec<String> = said
            .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }))
            .collect();
        (!said.is_empty())
            .then(|| format!("removed what a lab that was killed has left: {}", said.join(", ")))
    }
}

/// Ends and removes what is left of labs that were killed.
pub fn end() -> Removed {
    let Some(here) = namespace() else { return Removed::default() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut removed =
        Removed { processes: pids.filter(|pid| end_if_left(*pid, &here)).count(), ..Removed::default() };
    for group in quota::roots().iter().flat_map(|root| left_in(root, &here)) {
        removed.groups += usize::from(remove_group(&group));
    }
    let folders: BTreeSet<PathBuf> =
        FOLDERS.iter().map(PathBuf::from).chain([std::env::temp_dir()]).collect();
    for path in folders.iter().flat_map(|folder| left_in(folder, &here)) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(address) = Lab::of_name(&name).and_then(|(_, what)| Wall::address_of(what)) {
            // The file stands for a route.
            removed.routes += usize::from(Wall::remove(address));
            let _ = fs::remove_file(&path);
        } else {
            removed.files += usize::from(remove(&path));
        }
    }
    removed
}

/// Things in a folder that are of this user, and whose lab has ended.
fn left_in(folder: &Path, here: &str) -> Vec<PathBuf> {
    let own = geteuid().as_raw();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let lab = Lab::of_name(&name).map(|(lab, _)| lab);
        // Anybody may make a file of this name in a folder such as /tmp.
        let is_own = || fs::symlink_metadata(path).is_ok_and(|metadata| metadata.uid() == own);
        lab.is_some_and(|lab| lab.has_ended(here)) && is_own()
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_left).collect()
}

/// Removes a file, or a folder with all in it. A link goes, and what it leads to stays.
fn remove(path: &Path) -> bool {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    if is_folder { fs::remove_dir_all(path).is_ok() } else { fs::remove_file(path).is_ok() }
}

fn remove_group(group: &Path) -> bool {
    for _ in 0..TRIES {
        if fs::remove_dir(group).is_ok() {
            return true;
        }
        if !group.exists() {
            return false;
        }
        thread::sleep(BETWEEN_TRIES);
    }
    false
}

fn end_if_left(pid: i32, here: &str) -> bool {
    // The descriptor stays with the process that is asked, so its number cannot go to another one in
    // between.
    let Some(process) = Pid::from_raw(pid) else { return false };
    let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return false };
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut marks = environment.split(|byte| *byte == 0).filter_map(|variable| {
        let text = std::str::from_utf8(variable).ok()?;
        text.strip_prefix(MARK)?.strip_prefix('=').and_then(Lab::read)
    });
    let is_left = marks.next_back().is_some_and(|lab| lab.has_ended(here));
    is_left && pidfd_send_signal(&process, Signal::KILL).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

    #[test]
    fn files_of_a_lab_that_ended_are_removed_and_others_stay() {
        let own = Lab::own().expect("of this process");
        let gone = Lab { began: own.began + 1, ..own.clone() };
        let elsewhere = Lab { namespace: "pid:[1]".to_owned(), ..gone.clone() };
        let folder = tempfile::tempdir().expect("a folder");
        let path = |lab: &Lab, what: &str| folder.path().join(lab.name(u32::MAX, what));
        for what in ["data", "linked"] {
            for lab in [&own, &gone, &elsewhere] {
                fs::create_dir_all(path(lab, what).join("in")).expect("made");
            }
        }
        fs::write(path(&gone, "socket"), "").expect("written");
        // A link is removed, and not what it leads to.
        fs::write(folder.path().join("kept"), "").expect("written");
        std::os::unix::fs::symlink(folder.path().join("kept"), path(&gone, "link")).expect("linked");
        let here = own.namespace.clone();
        let mut left = left_in(folder.path(), &here);
        left.sort();
        let mut wanted = ["data", "linked", "link", "socket"].map(|what| path(&gone, what));
        wanted.sort();
        assert_eq!(left, wanted);
        assert!(left.iter().all(|path| remove(path)));
        assert_eq!(left_in(folder.path(), &here), [""; 0].map(PathBuf::from));
        assert!(folder.path().join("kept").exists() && path(&own, "data").join("in").exists());
        assert!(path(&elsewhere, "data").exists());
    }

    #[test]
    fn next_lab_removes_folders_in_memory_of_one_that_was_killed() {
        let own = Lab::own().expect("of this process");
        let gone = Lab { began: own.began + 1, ..own.clone() };
        let at = |lab: &Lab| Path::new(MEMORY).join(lab.name(u32::MAX, "test"));
        for lab in [&gone, &own] {
            fs::create_dir_all(at(lab).join("in")).expect("made");
        }
        // A test beside this one may be the first to find it, and still be at it.
        let until = Instant::now() + Duration::from_secs(20);
        while at(&gone).exists() && Instant::now() < until {
            end();
        }
        assert!(!at(&gone).exists() && at(&own).exists());
        let _ = fs::remove_dir_all(at(&own));
        let said = Removed { processes: 1, groups: 2, ..Removed::default() };
        let line = "removed what a lab that was killed has left: 1 process, 2 control groups";
        assert_eq!((said.line().as_deref(), Removed::default().line()), (Some(line), None));
    }

    #[test]
    fn process_of_a_lab_that_ended_is_killed_and_others_stay() {
        let own = Lab::own().expect("of this process");
        let gone = Lab { began: own.began + 1, ..own.clone() };
        let sleeping = |mark: &Lab| {
            Command::new("sleep").arg("64").env(MARK, mark.to_string()).spawn().expect("sleep starts")
        };
        let (mut left, mut ours) = (sleeping(&gone), sleeping(&own));
        let until = Instant::now() + Duration::from_secs(20);
        // Until it has its own environment it has that of this process.
        let ended = loop {
            end();
            match left.try_wait().expect("a child") {
                None if Instant::now() < until => thread::sleep(Duration::from_millis(20)),
                ended => break ended,
            }
        };
        assert!(ended.is_some_and(|status| !status.success()));
        assert!(ours.try_wait().expect("a child").is_none(), "that of a running lab was killed");
        ours.kill().expect("a child");
        let _ = ours.wait();
    }
}
