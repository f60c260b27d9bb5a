//! A share of a processor: a control group with a quota, for servers that one generator cannot overload
//! otherwise.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::owner;

/// Where control groups are (version 2), and the folder of the processor controller of version 1.
const ROOTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "cgroup.controllers"), ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us")];
/// Microseconds of the shortest period that is used.
const PERIOD: f64 = 16_667.0;
/// The kernel takes no shorter quota, microseconds.
const QUOTA: f64 = 1_000.0;

/// Where control groups may be made here.
pub fn roots() -> Vec<&'static Path> {
    let there = ROOTS.iter().filter(|(root, probe)| Path::new(root).join(probe).exists());
    there.map(|(root, _)| Path::new(*root)).collect()
}

/// A control group. It is removed when this is dropped, after its processes have ended.
#[derive(Debug)]
pub struct Quota {
    group: PathBuf,
}

impl Quota {
    /// A group whose processes have this share of one processor, above 0.
    ///
    /// # Errors
    /// A sentence that says what is missing.
    pub fn new(share: f64) -> Result<Quota, String> {
        let name = owner::name("quota")?;
        let mut why = "no control group has a quota of the processor".to_owned();
        for root in roots() {
            let quota = Quota { group: root.join(&name) };
            match quota.make(share) {
                Ok(()) => return Ok(quota),
                Err(error) => why = format!("{}: {error}", quota.group.display()),
            }
        }
        Err(format!("processor_share: {why}; run as root, or remove the key"))
    }

    fn make(&self, share: f64) -> io::Result<()> {
        let period = PERIOD.max(QUOTA / share).ceil();
        let quota = (period * share).max(QUOTA).round();
        fs::create_dir(&self.group)?;
        if self.group.join("cpu.max").exists() {
            return fs::write(self.group.join("cpu.max"), format!("{quota} {period}"));
        }
        fs::write(self.group.join("cpu.cfs_period_us"), period.to_string())?;
        fs::write(self.group.join("cpu.cfs_quota_us"), quota.to_string())
    }

    /// Puts processes into it, with all their threads.
    ///
    /// # Errors
    /// A sentence that names the group.
    pub fn take(&self, processes: &[u32]) -> Result<(), String> {
        let put = |pid: &u32| fs::write(self.group.join("cgroup.procs"), pid.to_string());
        processes.iter().try_for_each(put).map_err(|error| format!("{}: {error}", self.group.display()))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A group with processes stays.
        let _ = fs::remove_dir(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_has_the_share_and_goes_with_its_owner() {
        // Where no group may be made there is nothing to look at.
        let quota = match Quota::new(0.06) {
            Ok(quota) => quota,
            Err(why) => return assert!(why.contains("processor_share"), "{why}"),
        };
        let group = quota.group.clone();
        let text =
            ["cpu.max", "cpu.cfs_quota_us"].iter().find_map(|name| fs::read_to_string(group.join(name)).ok());
        assert!(text.is_some_and(|text| text.starts_with("1000")), "{}", group.display());
        drop(quota);
        assert!(!group.exists());
        // One whose lab was killed goes at the next start: its name says of which lab it is.
        let name = group.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let own = format!("-{}-", std::process::id());
        assert!(name.starts_with("strowger-lab-") && name.contains(&own), "{name}");
        let (before, after) = name.split_once(&own).expect("it has the process");
        let (began, rest) = after.split_once('-').expect("it has its start");
        let other = group.with_file_name(format!("{before}{own}1{began}-{rest}"));
        fs::create_dir(&other).expect("made as the one before");
        crate::leftovers::end();
        assert!(!other.exists(), "{}", other.display());
    }
}
