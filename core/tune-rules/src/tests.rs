//! Rules by table.

use crate::{Change, Expected, Finding, Level, Snapshot, check, same_value, sysctl_lines};

/// A machine of 8 GiB on which nothing is to be found.
fn good() -> Snapshot {
    Snapshot::new()
        .with("/proc/meminfo", "MemTotal:        8388608 kB\n")
        .with("/proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n")
        .with("/proc/sys/net/core/netdev_max_backlog", "1000\n")
        .with("/proc/sys/net/core/somaxconn", "4096\n")
        .with("/proc/sys/net/core/rmem_max", "4194304\n")
        .with("/proc/sys/net/core/wmem_max", "4194304\n")
        .with("/proc/sys/net/core/rmem_default", "212992\n")
        .with("/proc/sys/net/ipv4/udp_mem", "190000\t253000\t380000\n")
        .with("/proc/sys/net/ipv4/udp_rmem_min", "4096\n")
        .with("/proc/sys/net/ipv4/tcp_max_syn_backlog", "4096\n")
        .with("/proc/sys/net/ipv4/tcp_syncookies", "1\n")
        .with("/proc/sys/net/ipv4/tcp_timestamps", "1\n")
        .with("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
        .with("/proc/sys/net/ipv4/ip_local_reserved_ports", "\n")
}

fn found(snapshot: &Snapshot) -> Vec<Finding> {
    check(snapshot, &Expected::default())
}

#[test]
fn good_machine_has_no_findings() {
    assert_eq!(found(&good()), []);
}

#[test]
fn each_fault_is_found_by_its_item() {
    // Path, content, item, and what the change writes.
    let table: &[(&str, &str, &str, &str)] = &[
        ("/proc/sys/net/core/rmem_max", "212992\n", "udp_buffers", "4194304"),
        ("/proc/sys/net/core/wmem_max", "212992\n", "udp_buffers", "4194304"),
        ("/proc/sys/net/core/rmem_default", "67108864\n", "udp_default_buffers", "212992"),
        ("/proc/sys/net/ipv4/udp_rmem_min", "16777216\n", "udp_default_buffers", "4096"),
        ("/proc/sys/net/ipv4/udp_mem", "19257652 19257652 19257652\n", "udp_memory", "196608 262144 393216"),
        ("/proc/sys/net/ipv4/udp_mem", "100 200 300\n", "udp_memory", "196608 262144 393216"),
        ("/proc/sys/net/core/somaxconn", "128\n", "tcp_backlog", "4096"),
        ("/proc/sys/net/ipv4/tcp_max_syn_backlog", "512\n", "tcp_backlog", "4096"),
        ("/proc/sys/net/ipv4/tcp_syncookies", "0\n", "tcp_backlog", "1"),
        ("/proc/sys/net/ipv4/tcp_timestamps", "0\n", "tcp_features", "1"),
        ("/proc/sys/net/ipv4/ip_local_port_range", "40000 45000\n", "ports", "32768 60999"),
        ("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535\n", "ports", "5060,5061"),
    ];
    for (path, text, item, wanted) in table {
        let findings = found(&good().with(path, text));
        let [finding] = findings.as_slice() else { panic!("{path}: {findings:?}") };
        assert_eq!((finding.item(), finding.level()), (*item, Level::Problem), "{path}");
        let [change @ Change::Value { .. }] = finding.changes() else { panic!("{path}: {finding:?}") };
        assert_eq!(change.value(), *wanted, "{path}");
    }
}

#[test]
fn change_mends_what_was_found() {
    let bad = good()
        .with("/proc/sys/net/core/rmem_max", "1\n")
        .with("/proc/sys/net/ipv4/udp_mem", "9 9 99999999\n");
    let mut mended = bad.clone();
    for finding in found(&bad) {
        for change in finding.changes() {
            let Change::Value { path, value, .. } = change else { continue };
            mended = mended.with(path, value);
        }
    }
    assert_ne!(bad, mended);
    assert_eq!(found(&mended), []);
}

#[test]
fn values_above_the_wanted_ones_are_not_lowered() {
    let high = good()
        .with("/proc/sys/net/core/rmem_max", "268435456\n")
        .with("/proc/sys/net/core/somaxconn", "65535\n")
        .with("/proc/sys/net/ipv4/tcp_max_syn_backlog", "65536\n");
    assert_eq!(found(&high), []);
}

#[test]
fn receive_limit_follows_the_expected_rate() {
    let rates = [(100, 4 << 20), (10_000, 40_320_000), (100_000, 64 << 20)];
    for (rate, bytes) in rates {
        assert_eq!(Expected::default().with_calls(rate).receive_buffer(), bytes);
    }
}

#[test]
fn evidence_of_counters_comes_with_the_finding() {
    let snmp = "Udp: InDatagrams RcvbufErrors\nUdp: 5 12431\n";
    let drops =
        "  sl  local_address rem_address   st\n   1: 00000000:13C4 00000000:0000 07 0 0 0 0 0 0 2 0 77\n";
    let bad = good().with("/proc/net/snmp", snmp).with("/proc/net/udp", drops);
    let findings = found(&bad.clone().with("/proc/sys/net/core/rmem_max", "212992\n"));
    let line = "RcvbufErrors 12,431 since boot, 77 at the SIP ports (/proc/net/snmp, /proc/net/udp)";
    assert_eq!(findings[0].evidence_lines(), [line]);
    assert_eq!((findings.len(), findings[0].level()), (1, Level::Problem));
    let findings = found(&bad);
    assert_eq!((findings.len(), findings[0].level()), (1, Level::Note));
}

#[test]
fn harmful_lines_are_found_with_file_and_line() {
    let conf = "# copied\nnet.ipv4.udp_mem = 19257652 19257652 19257652\nnet/ipv4/tcp_tw_recycle=1\n\
                -net.core.rmem_default = 26214400\n; no\nnet.core.rmem_max = 33554432\n";
    let findings = found(&good().with("/etc/sysctl.d/60-sip.conf", conf));
    let titles: Vec<&str> = findings.iter().map(Finding::title).collect();
    assert_eq!(
        titles,
        [
            "/etc/sysctl.d/60-sip.conf:2 sets net.ipv4.udp_mem = 19257652 19257652 19257652",
            "/etc/sysctl.d/60-sip.conf:3 sets net.ipv4.tcp_tw_recycle = 1",
            "/etc/sysctl.d/60-sip.conf:4 sets net.core.rmem_default = 26214400",
        ]
    );
    assert!(findings[0].reason().contains("73.5 GiB"), "{}", findings[0].reason());
}

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
fn values_are_compared_without_form() {
    for (a, b) in [
        ("4096\t87380\t6291456\n", "4096 87380 6291456"),
        ("00000000,00000003", "3"),
        ("0f", "f\n"),
        ("0", "00"),
    ] {
        assert!(same_value(a, b), "{a} {b}");
    }
    for (a, b) in [("1", "2"), ("1 2", "1"), ("0-3,8", "0-38"), ("10", "1"), ("", "0")] {
        assert!(!same_value(a, b), "{a} {b}");
    }
}
