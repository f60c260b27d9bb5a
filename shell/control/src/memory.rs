//! How much memory the system lets this process have.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of memory that this process may have, if the system says so: the least of the machine's memory,
/// resource limits, and the control groups.
pub fn usable() -> Option<u64> {
    let whole = of_machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let resources = [rlimit::Resource::AS, rlimit::Resource::DATA];
    let allowed = resources.into_iter().filter_map(|r| r.get_soft().ok());
    Some(allowed.chain(of_groups(Path::new("/sys/fs/cgroup"), &group)).fold(whole, u64::min))
}

/// The machine's memory, bytes, as proc(5) has it.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// The least that the control groups of this process allow, from its own up to the root: `memory.max` of
/// cgroup v2, `memory.limit_in_bytes` of the memory hierarchy of v1. A container sees its own group at the
/// root.
fn of_groups(root: &Path, group: &str) -> Option<u64> {
    let unified = group.lines().find_map(|line| line.strip_prefix("0::/"));
    let legacy = group.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(":/")?;
        controllers.split(',').any(|name| name == "memory").then_some(path)
    });
    let v2 = unified.and_then(|own| least(root, own, "memory.max"));
    let v1 = legacy.and_then(|own| least(&root.join("memory"), own, "memory.limit_in_bytes"));
    v2.into_iter().chain(v1).min()
}

/// The least number in the files of this name, from the group `own` up to `root`.
fn least(root: &Path, own: &str, name: &str) -> Option<u64> {
    let own: PathBuf = root.join(own.trim());
    let above = own.ancestors().take_while(|folder| folder.starts_with(root));
    above.filter_map(|folder| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        let text = "MemTotal:       24617116 kB\nMemFree:        23074520 kB\n";
        assert_eq!(of_machine(text), Some(24_617_116 * 1_024));
        for bad in ["", "MemTotal: many kB", "MemTotal: 12", "MemFree: 1 kB"] {
            assert_eq!(of_machine(bad), None, "{bad}");
        }
        assert!(usable().is_some_and(|bytes| bytes > 1 << 20), "of this machine");
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("strowger-groups-{}", std::process::id()));
        let own = root.join("system.slice/strowger.service");
        fs::create_dir_all(&own).expect("folders");
        let group = "1:name=systemd:/other\n0::/system.slice/strowger.service\n";
        assert_eq!(of_groups(&root, group), None, "nothing is said");
        fs::write(own.join("memory.max"), "max\n").expect("a file");
        assert_eq!(of_groups(&root, group), None, "no limit");
        fs::write(root.join("system.slice/memory.max"), "2147483648\n").expect("a file");
        assert_eq!(of_groups(&root, group), Some(2 << 30));
        fs::write(own.join("memory.max"), "1073741824\n").expect("a file");
        assert_eq!(of_groups(&root, group), Some(1 << 30));
        assert_eq!(of_groups(&root, ""), None);
        let legacy = root.join("memory/docker/abc");
        fs::create_dir_all(&legacy).expect("folders");
        fs::write(legacy.join("memory.limit_in_bytes"), "536870912\n").expect("a file");
        let group = "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n";
        assert_eq!(of_groups(&root, group), Some(512 << 20), "version 1");
        fs::write(root.join("memory/memory.limit_in_bytes"), "268435456\n").expect("a file");
        assert_eq!(of_groups(&root, "3:hugetlb,memory:/elsewhere\n"), Some(256 << 20), "in a container");
        fs::remove_dir_all(&root).expect("they go again");
    }
}
