//! What is raised is not lowered, pages have the size of the machine, and other files keep their ports.

use super::{found, good};
use crate::{Change, Finding, OWN_SYSCTL_FILE, Snapshot};

/// The changes of an item, by name.
fn changes(snapshot: &Snapshot, item: &str) -> Vec<(String, String)> {
    let findings = found(snapshot);
    let of_item = findings.iter().filter(|finding| finding.item() == item);
    of_item
        .flat_map(Finding::changes)
        .map(|change: &Change| (change.name(), change.value().to_owned()))
        .collect()
}

#[test]
fn thresholds_of_neighbours_are_only_raised() {
    let phones = "192.0.2.1 0x1 0x2 00:00:00:00:00:01 * eth0\n".repeat(900);
    let name = |number| format!("/proc/sys/net/ipv4/neigh/default/gc_thresh{number}");
    let full = good()
        .with("/proc/net/arp", &format!("IP address\n{phones}"))
        .with(&name(1), "6000\n")
        .with(&name(2), "7000\n")
        .with(&name(3), "1024\n");
    let limit = ("net.ipv4.neigh.default.gc_thresh3".to_owned(), "8192".to_owned());
    assert_eq!(changes(&full, "neighbours"), std::slice::from_ref(&limit));
    let low = full.with(&name(1), "128\n");
    let first = ("net.ipv4.neigh.default.gc_thresh1".to_owned(), "2048".to_owned());
    assert_eq!(changes(&low, "neighbours"), [limit, first]);
}

#[test]
fn low_memory_of_datagrams_is_only_raised() {
    // The first number is above the default already.
    let low = good()
        .with("/proc/meminfo", "MemTotal: 32768 kB\n")
        .with("/proc/sys/net/ipv4/udp_mem", "900 900 900\n");
    let raised = ("net.ipv4.udp_mem".to_owned(), "900 1024 1536".to_owned());
    assert_eq!(changes(&low, "udp_memory"), [raised]);
}

#[test]
fn pages_have_the_size_of_the_machine() {
    // 8 GiB in pages of 64 KiB: a fourth of the memory for datagrams is right, 73 GiB are not.
    let machine = good().with_page(65_536).with("/proc/sys/net/ipv4/udp_mem", "12288 16384 24576\n");
    assert_eq!(changes(&machine, "udp_memory"), []);
    let large = machine.clone().with("/proc/sys/net/ipv4/udp_mem", "190000 253000 380000\n");
    let mended = ("net.ipv4.udp_mem".to_owned(), "12288 16384 24576".to_owned());
    assert_eq!(changes(&large, "udp_memory"), [mended]);
    let title = found(&large).remove(0).title().to_owned();
    assert!(title.contains("take 23.2 GiB (380,000 pages of 64 KiB)"), "{title}");
    let line = machine.with("/etc/sysctl.d/60-sip.conf", "net.ipv4.udp_mem = 190000 253000 380000\n");
    let reason = found(&line).remove(0).reason().to_owned();
    assert!(reason.contains("pages of 64 KiB, so it is 23.2 GiB"), "{reason}");
}

#[test]
fn reserved_ports_of_other_files_are_kept() {
    let range = good().with("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535\n");
    let name = "net.ipv4.ip_local_reserved_ports";
    let other = range.with("/etc/sysctl.d/50-db.conf", &format!("{name} = 8080,9000-9010,8080\n"));
    assert_eq!(changes(&other, "ports"), [(name.to_owned(), "8080,9000-9010,5060,5061".to_owned())]);
    // A file that came after ours was written.
    let ours = other
        .with("/proc/sys/net/ipv4/ip_local_reserved_ports", "5060-5061\n")
        .with(OWN_SYSCTL_FILE, &format!("{name} = 5060,5061\n"));
    let whole = [(name.to_owned(), "5060-5061,8080,9000-9010".to_owned())];
    assert_eq!(changes(&ours, "ports"), whole);
    let title = found(&ours).remove(0).title().to_owned();
    assert!(title.contains("8080, 9000-9010") && title.contains(OWN_SYSCTL_FILE), "{title}");
    // Also where it is in force now: at the next boot it is not.
    let live = ours.clone().with("/proc/sys/net/ipv4/ip_local_reserved_ports", "5060-5061,8080,9000-9010\n");
    assert_eq!(changes(&live, "ports"), whole);
    let kept = live.with(OWN_SYSCTL_FILE, &format!("{name} = 5060-5061,8080,9000-9010\n"));
    assert_eq!(changes(&kept, "ports"), []);
    // Where the other file is read later, it is the one that counts.
    let later = ours.with("/etc/sysctl.d/95-db.conf", &format!("{name} = 8080\n"));
    assert_eq!(changes(&later, "ports"), []);
}
