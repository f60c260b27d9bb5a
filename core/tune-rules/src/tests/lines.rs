//! Which lines of sysctl files count at boot.

use super::good;
use crate::{Snapshot, sysctl_lines};

#[test]
fn last_line_by_file_name_counts_at_boot() {
    let snapshot = good()
        .with("/usr/lib/sysctl.d/50-a.conf", "net.core.rmem_max = 1\n")
        .with("/etc/sysctl.d/50-a.conf", "net.core.rmem_max = 2\n")
        .with("/run/sysctl.d/40-b.conf", "net.core.rmem_max = 3\n")
        .with("/etc/sysctl.d/99-sysctl.conf", "net.core.rmem_max = 4\n")
        .with("/etc/sysctl.conf", "net.core.rmem_max = 4\n");
    let lines = sysctl_lines(&snapshot);
    let values: Vec<&str> = lines.iter().map(crate::SysctlLine::value).collect();
    assert_eq!(values, ["3", "2", "4"]);
}

#[test]
fn link_to_nothing_hides_a_file() {
    let mut snapshot = good().with("/usr/lib/sysctl.d/50-a.conf", "net.core.rmem_max = 1\n");
    assert_eq!(sysctl_lines(&snapshot).len(), 1);
    let device = crate::Reading::Denied("is a device".to_owned());
    snapshot.record("/etc/sysctl.d/50-a.conf", crate::Seen::new(device, true));
    assert_eq!(sysctl_lines(&snapshot), []);
}

#[test]
fn sysctl_conf_counts_as_the_system_reads_it() {
    let own = good()
        .with("/etc/sysctl.conf", "net.core.rmem_max = 1\n")
        .with("/etc/sysctl.d/90-a.conf", "net.core.rmem_max = 2\n");
    let order = |snapshot: &Snapshot| -> Vec<String> {
        sysctl_lines(snapshot).iter().map(crate::SysctlLine::place).collect()
    };
    // procps and others read it last, systemd only through a link, under the name of that.
    assert_eq!(order(&own), ["/etc/sysctl.d/90-a.conf:1", "/etc/sysctl.conf:1"]);
    let systemd = own.with("/usr/lib/systemd/systemd-sysctl", "ELF");
    assert_eq!(order(&systemd), ["/etc/sysctl.conf:1", "/etc/sysctl.d/90-a.conf:1"]);
    let early = systemd.clone().with("/etc/sysctl.d/10-sysctl.conf", "net.core.rmem_max = 1\n");
    assert_eq!(order(&early), ["/etc/sysctl.conf:1", "/etc/sysctl.d/90-a.conf:1"]);
    let late = systemd.with("/etc/sysctl.d/99-sysctl.conf", "net.core.rmem_max = 1\n");
    assert_eq!(order(&late), ["/etc/sysctl.d/90-a.conf:1", "/etc/sysctl.conf:1"]);
}
