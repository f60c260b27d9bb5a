//! A share of a processor: a control group with a quota, for servers that one generator cannot overload
//! otherwise.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where control groups are (version 2), and the folder of the processor controller of version 1.
const ROOTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "cgroup.controllers"), ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us")];
/// Microseconds of the shortest period that is used.
const PERIOD: f64 = 16_667.0;
/// The kernel takes no shorter quota, microseconds.
const QUOTA: f64 = 1_000.0;

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
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("strowger-lab-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut why = "no control group has a quota of the processor".to_owned();
        for (root, probe) in ROOTS {
            let root = Path::new(root);
            if !root.join(probe).exists() {
                continue;
            }
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
    }
}
