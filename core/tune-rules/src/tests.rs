//! Rules by table.

mod limits;
mod lines;

use crate::{Change, Expected, Finding, Level, Snapshot, check, same_value};

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
fn syn_backlog_counts_only_without_syn_cookies() {
    let low = good().with("/proc/sys/net/ipv4/tcp_max_syn_backlog", "128\n");
    assert_eq!(found(&low), []);
    let findings = found(&low.with("/proc/sys/net/ipv4/tcp_syncookies", "0\n"));
    let names: Vec<String> = findings.iter().flat_map(Finding::changes).map(Change::name).collect();
    assert_eq!(names, ["net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_syncookies"]);
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
                -net.core.rmem_default = 26214400\n; no\nnet.core.rmem_max = 33554432\n\
                net.ipv4.tcp_rmem = 4096 8388608 16777216\nnet.ipv4.tcp_wmem = 4096 16384 4194304\n";
    let findings = found(&good().with("/etc/sysctl.d/60-sip.conf", conf));
    let titles: Vec<&str> = findings.iter().map(Finding::title).collect();
    assert_eq!(
        titles,
        [
            "/etc/sysctl.d/60-sip.conf:2 sets net.ipv4.udp_mem = 19257652 19257652 19257652",
            "/etc/sysctl.d/60-sip.conf:3 sets net.ipv4.tcp_tw_recycle = 1",
            "/etc/sysctl.d/60-sip.conf:4 sets net.core.rmem_default = 26214400",
            "/etc/sysctl.d/60-sip.conf:7 sets net.ipv4.tcp_rmem = 4096 8388608 16777216",
        ]
    );
    assert!(findings[0].reason().contains("73.5 GiB"), "{}", findings[0].reason());
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

/// A good machine with two processors and a card of two queues.
fn with_card() -> Snapshot {
    good()
        .with("/sys/devices/system/cpu/online", "0-1\n")
        .with("/sys/class/net/lo/operstate", "unknown\n")
        .with("/sys/class/net/eth0/operstate", "up\n")
        .with("/sys/class/net/eth0/device/uevent", "DRIVER=virtio_net\n")
        .with("/sys/class/net/eth0/device/../msi_irqs/37", "msix\n")
        .with("/sys/class/net/eth0/device/../msi_irqs/38", "msix\n")
        .with("/sys/class/net/eth0/device/../msi_irqs/39", "msix\n")
        .with("/proc/irq/38/smp_affinity_list", "0\n")
        .with("/proc/irq/39/smp_affinity_list", "1\n")
        .with(
            "/proc/interrupts",
            "      CPU0 CPU1\n 37: 0 0 x config\n 38: 90 0 x rx\n 39: 10 5 x tx\nNMI: 0 0 x\n",
        )
        .with("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
        .with("/sys/class/net/eth0/queues/rx-1/rps_cpus", "00000000,00000000\n")
        .with("/sys/class/net/eth0/queues/tx-0/xps_cpus", "1\n")
        .with("/sys/class/net/eth0/queues/tx-1/xps_cpus", "2\n")
        .with("/sys/class/net/eth0/statistics/rx_missed_errors", "0\n")
        .with("/ethtool/eth0/rx-hash-udp4", "sdfn")
        .with("/ethtool/eth0/rx-hash-udp6", "sdfn")
        .with("/ethtool/eth0/rx-ring", "512")
        .with("/ethtool/eth0/rx-ring-max", "2048")
        .with("/ethtool/eth0/combined", "2")
        .with("/ethtool/eth0/combined-max", "8")
        .with("/ethtool/eth0/rx-usecs", "20")
        .with("/ethtool/eth0/adaptive-rx", "off")
}

#[test]
fn good_card_has_no_findings() {
    assert_eq!(found(&with_card()), []);
}

/// The only finding, and what its changes write, as `NAME=VALUE`.
fn only(snapshot: &Snapshot, expected: &Expected, about: &str) -> (Finding, Vec<String>) {
    let findings = check(snapshot, expected);
    let [finding] = findings.as_slice() else { panic!("{about}: {findings:?}") };
    let changes =
        finding.changes().iter().map(|change| format!("{}={}", change.name(), change.value())).collect();
    (finding.clone(), changes)
}

#[test]
fn each_fault_of_a_card_is_found_by_its_item() {
    use Level::{Advice, Problem};
    type Row = (&'static [(&'static str, &'static str)], &'static str, Level, &'static [&'static str]);
    let table: &[Row] = &[
        (&[("/ethtool/eth0/rx-hash-udp4", "sd")], "receive_hash", Problem, &["eth0 rx-hash-udp4=sdfn"]),
        (&[("/ethtool/eth0/rx-hash-udp6", "sdf")], "receive_hash", Problem, &["eth0 rx-hash-udp6=sdfn"]),
        (&[("/ethtool/eth0/combined", "1")], "queues", Advice, &["eth0 combined=2"]),
        (
            &[("/sys/class/net/eth0/statistics/rx_missed_errors", "7\n")],
            "rings",
            Problem,
            &["eth0 rx-ring=2048"],
        ),
        (
            &[("/ethtool/eth0/rx-usecs", "8"), ("/ethtool/eth0/adaptive-rx", "on")],
            "coalescing",
            Advice,
            &["eth0 adaptive-rx=off", "eth0 rx-usecs=20"],
        ),
        (&[("/ethtool/eth0/rx-usecs", "100")], "coalescing", Advice, &["eth0 rx-usecs=20"]),
        (
            &[("/proc/irq/39/smp_affinity_list", "0\n")],
            "interrupts",
            Problem,
            &["/proc/irq/39/smp_affinity_list=1"],
        ),
        (
            &[("/sys/class/net/eth0/queues/rx-1/rps_cpus", "3\n")],
            "packet_steering",
            Advice,
            &["/sys/class/net/eth0/queues/rx-1/rps_cpus=0"],
        ),
        (
            &[
                ("/sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n"),
                ("/sys/class/net/eth0/queues/tx-1/xps_cpus", "0\n"),
            ],
            "packet_steering",
            Advice,
            &["/sys/class/net/eth0/queues/tx-0/xps_cpus=1", "/sys/class/net/eth0/queues/tx-1/xps_cpus=2"],
        ),
        (
            &[("/proc/sys/net/core/rps_sock_flow_entries", "32768\n")],
            "packet_steering",
            Advice,
            &["net.core.rps_sock_flow_entries=0"],
        ),
    ];
    for (files, item, level, wanted) in table {
        let bad = files.iter().fold(with_card(), |snapshot, (path, text)| snapshot.with(path, text));
        let (finding, changes) = only(&bad, &Expected::default(), files[0].0);
        assert_eq!((finding.item(), finding.level()), (*item, *level), "{files:?}");
        assert_eq!(changes, *wanted, "{files:?}");
    }
}

#[test]
fn card_that_lacks_a_setting_is_left_alone() {
    let mut bare = with_card();
    for setting in crate::CARD_SETTINGS {
        bare.record(&format!("/ethtool/eth0/{setting}"), crate::Seen::new(crate::Reading::Absent, true));
    }
    assert_eq!(found(&bare), []);
    let missed = bare.with("/sys/class/net/eth0/statistics/rx_missed_errors", "7\n");
    let (finding, changes) = only(&missed, &Expected::default(), "rings");
    assert_eq!((finding.level(), changes.len()), (Level::Note, 0));
    assert!(finding.reason().contains("not supported by this card"), "{finding:?}");
}

#[test]
fn virtual_cards_do_not_count_beside_hardware() {
    let veth = |snapshot: Snapshot| {
        snapshot
            .with("/sys/class/net/veth1/operstate", "up\n")
            .with("/sys/class/net/veth1/queues/rx-0/rps_cpus", "3\n")
    };
    assert_eq!(found(&veth(with_card())), []);
    assert_eq!(found(&veth(good().with("/sys/devices/system/cpu/online", "0-1\n"))).len(), 1);
}

#[test]
fn rps_is_advised_only_without_kernel_steering() {
    let ring = Expected::default().with_kernel_steering(false).with_workers(4);
    let more = with_card().with("/sys/devices/system/cpu/online", "0-63\n");
    // A card that may have more queues is told to have them.
    assert_eq!(only(&more, &ring, "queues").0.item(), "queues");
    let spread = with_card().with("/sys/class/net/eth0/queues/rx-0/rps_cpus", "3\n");
    assert_eq!(check(&spread, &ring.clone().with_workers(2)), []);
    let snapshot = more.with("/ethtool/eth0/combined-max", "2");
    let (finding, changes) = only(&snapshot, &ring, "rps");
    assert_eq!(finding.item(), "packet_steering");
    assert_eq!(changes[0], "/sys/class/net/eth0/queues/rx-0/rps_cpus=ffffffff,ffffffff");
}

#[test]
fn irqbalance_is_named_where_interrupts_are_moved() {
    let bad =
        with_card().with("/proc/irq/39/smp_affinity_list", "0\n").with("/proc/812/comm", "irqbalance\n");
    let (finding, _) = only(&bad, &Expected::default(), "irqbalance");
    assert_eq!(finding.evidence_lines()[1], "irqbalance runs (process 812)");
    assert!(finding.steps_by_hand()[0].contains("--banirq=38 --banirq=39"), "{finding:?}");
}

#[test]
fn each_other_fault_is_found_by_its_item() {
    use Level::{Advice, Note, Problem};
    let stat = "cpu  1000 0 1000 900000 0 0 0 5000 0 0\n";
    let conntrack = "entries drop early_drop insert_failed\n0000000a 00000010 00000000 00000001\n";
    let arp = format!("IP address\n{}", "192.0.2.1\n".repeat(600));
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, Level, &'a [&'a str]);
    let table: &[Row<'_>] = &[
        (&[("/proc/sys/fs/nr_open", "1024\n")], "descriptors", Problem, &["fs.nr_open=21000"]),
        (&[("/proc/sys/fs/file-max", "9000\n")], "descriptors", Problem, &["fs.file-max=21000"]),
        (
            &[
                (
                    "/proc/77/limits",
                    "Max open files            1024                 4096                 files\n",
                ),
                ("/proc/77/comm", "strowger\n"),
            ],
            "descriptors",
            Problem,
            &[],
        ),
        (
            &[("/etc/systemd/system/strowger.service", "[Service]\nLimitNOFILE=4096\n")],
            "descriptors",
            Problem,
            &["LimitNOFILE=21504"],
        ),
        (
            &[("/proc/sys/net/ipv4/tcp_mem", "99999999 99999999 99999999\n")],
            "tcp_memory",
            Problem,
            &["net.ipv4.tcp_mem=98304 131072 196608"],
        ),
        (
            &[("/proc/sys/net/ipv4/tcp_rmem", "4096 8388608 16777216\n")],
            "tcp_memory",
            Problem,
            &["net.ipv4.tcp_rmem=4096 131072 16777216"],
        ),
        (
            &[("/proc/sys/net/ipv4/tcp_keepalive_time", "7200\n")],
            "tcp_keepalive",
            Advice,
            &["net.ipv4.tcp_keepalive_time=900"],
        ),
        (
            &[("/proc/sys/net/ipv4/tcp_max_orphans", "4096\n")],
            "tcp_orphans",
            Problem,
            &["net.ipv4.tcp_max_orphans=16384"],
        ),
        (
            &[("/proc/sys/net/ipv4/tcp_max_tw_buckets", "4096\n")],
            "tcp_orphans",
            Problem,
            &["net.ipv4.tcp_max_tw_buckets=16384"],
        ),
        (
            &[("/proc/sys/net/core/netdev_max_backlog", "300000\n")],
            "softirq",
            Problem,
            &["net.core.netdev_max_backlog=16384"],
        ),
        (
            &[("/proc/net/softnet_stat", "0000ffff 00000005 00000000\n")],
            "softirq",
            Problem,
            &["net.core.netdev_max_backlog=4096"],
        ),
        (
            &[
                ("/proc/net/softnet_stat", "00000fff 00000000 00000005\n"),
                ("/proc/sys/net/core/netdev_budget", "300\n"),
            ],
            "softirq",
            Problem,
            &["net.core.netdev_budget=600"],
        ),
        (&[("/proc/sys/net/core/busy_poll", "50\n")], "busy_poll", Note, &[]),
        (&[("/proc/modules", "nf_conntrack_sip 40960 0 - Live 0x0\n")], "sip_helper", Problem, &[]),
        (
            &[
                ("/proc/sys/net/ipv4/neigh/default/gc_thresh1", "128\n"),
                ("/proc/sys/net/ipv4/neigh/default/gc_thresh2", "512\n"),
                ("/proc/sys/net/ipv4/neigh/default/gc_thresh3", "1024\n"),
                ("/proc/net/arp", &arp),
            ],
            "neighbours",
            Problem,
            &[
                "net.ipv4.neigh.default.gc_thresh3=8192",
                "net.ipv4.neigh.default.gc_thresh2=4096",
                "net.ipv4.neigh.default.gc_thresh1=2048",
            ],
        ),
        (
            &[("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")],
            "governor",
            Advice,
            &["/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor=performance"],
        ),
        (
            &[
                ("/sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "890\n"),
                ("/sys/devices/system/cpu/cpu0/cpuidle/state3/name", "C10\n"),
            ],
            "idle_states",
            Note,
            &[],
        ),
        (&[("/sys/devices/system/cpu/vulnerabilities/mds", "Vulnerable\n")], "mitigations", Note, &[]),
        (&[("/proc/stat", stat)], "steal", Note, &[]),
        (
            &[("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")],
            "clock",
            Problem,
            &[],
        ),
        (
            &[
                ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
                ("/sys/kernel/mm/transparent_hugepage/defrag", "[always] defer madvise never\n"),
            ],
            "huge_pages",
            Note,
            &[],
        ),
        (&[("/proc/sys/vm/overcommit_memory", "2\n")], "overcommit", Problem, &[]),
        (
            &[("/proc/meminfo", "MemTotal: 8388608 kB\nSwapTotal: 4194304 kB\nSwapFree: 3000000 kB\n")],
            "swap",
            Note,
            &[],
        ),
        (
            &[
                ("/sys/fs/cgroup/cpu.max", "150000 100000\n"),
                ("/sys/fs/cgroup/cpu.stat", "usage_usec 1\nnr_throttled 12\n"),
            ],
            "control_group",
            Problem,
            &[],
        ),
        (&[("/sys/fs/cgroup/memory.max", "1073741824\n")], "control_group", Note, &[]),
        (&[("/sys/fs/cgroup/pids.max", "32\n")], "control_group", Problem, &[]),
        (
            &[("/proc/sys/net/ipv4/tcp_tw_recycle", "1\n")],
            "tcp_features",
            Problem,
            &["net.ipv4.tcp_tw_recycle=0"],
        ),
        (
            &[
                ("/proc/sys/kernel/osrelease", "6.1.0-28-amd64\n"),
                ("/etc/systemd/system/strowger.service", "[Service]\nUser=strowger\nLimitNOFILE=1048576\n"),
            ],
            "bpf",
            Problem,
            &["AmbientCapabilities=CAP_BPF CAP_PERFMON"],
        ),
        (&[("/proc/sys/kernel/osrelease", "5.15.0\n")], "bpf", Note, &[]),
    ];
    for (files, item, level, wanted) in table {
        let bad = files.iter().fold(good(), |snapshot, (path, text)| snapshot.with(path, text));
        let (finding, changes) = only(&bad, &Expected::default(), files[0].0);
        assert_eq!((finding.item(), finding.level()), (*item, *level), "{files:?}");
        assert_eq!(changes, *wanted, "{files:?}");
    }
    let tracked = good()
        .with("/proc/sys/net/netfilter/nf_conntrack_count", "10\n")
        .with("/proc/sys/net/netfilter/nf_conntrack_max", "4096\n")
        .with("/proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream", "20\n")
        .with("/proc/net/stat/nf_conntrack", conntrack);
    let findings = found(&tracked);
    let changes: Vec<&str> = findings.iter().flat_map(Finding::changes).map(Change::value).collect();
    assert_eq!(changes, ["65536", "120"]);
    assert!(findings[0].evidence_lines()[0].starts_with("17 entries were refused"), "{findings:?}");
}

#[test]
fn counts_of_a_mended_limit_are_notes() {
    let mended = good()
        .with("/proc/net/softnet_stat", "0000ffff 00000005 00000000\n")
        .with("/proc/sys/net/core/netdev_max_backlog", "4096\n");
    assert_eq!(only(&mended, &Expected::default(), "softnet").0.level(), Level::Note);
    let rings = with_card()
        .with("/sys/class/net/eth0/statistics/rx_missed_errors", "7\n")
        .with("/ethtool/eth0/rx-ring", "2048");
    assert_eq!(only(&rings, &Expected::default(), "rings").0.level(), Level::Note);
}

#[test]
fn forbidden_sctp_module_is_named_with_its_line() {
    let expected = Expected::default().with_sctp(true);
    let stig = good().with("/etc/modprobe.d/stig.conf", "# hardening\ninstall sctp /bin/false\n");
    let (finding, _) = only(&stig, &expected, "sctp");
    assert_eq!(finding.level(), Level::Problem);
    assert_eq!(finding.evidence_lines(), ["/etc/modprobe.d/stig.conf:2: install sctp /bin/false"]);
    assert_eq!(found(&stig), []);
    assert_eq!(check(&stig.with("/proc/modules", "sctp 1 0 - Live 0x0\n"), &expected), []);
}

#[test]
fn unit_of_this_repository_needs_nothing() {
    let unit = include_str!("../../../deploy/strowger.service");
    let snapshot = good()
        .with("/proc/sys/kernel/osrelease", "6.1.0\n")
        .with("/etc/systemd/system/strowger.service", unit);
    assert_eq!(found(&snapshot), []);
}

#[test]
fn drop_in_counts_after_the_unit() {
    let unit = "[Service]\nUser=strowger\nAmbientCapabilities=CAP_BPF CAP_PERFMON\nLimitNOFILE=1024\n";
    let snapshot = good()
        .with("/usr/lib/systemd/system/strowger.service", unit)
        .with("/etc/systemd/system/strowger.service.d/10.conf", "[Service]\nLimitNOFILE=1024:infinity\n");
    assert_eq!(found(&snapshot), []);
}

#[test]
fn machine_made_from_a_container_image_is_no_container() {
    let image = good().with("/.dockerenv", "");
    assert_eq!(crate::Rights::of(&image).container(), Some("Docker"));
    let machine = image.with("/proc/self/ns/pid", "pid:[4026531836]");
    assert_eq!(crate::Rights::of(&machine).container(), None);
    let podman = good()
        .with("/run/.containerenv", "engine=\"podman-4.3.1\"\n")
        .with("/proc/self/ns/pid", "pid:[4026532210]");
    assert_eq!(crate::Rights::of(&podman).container(), Some("podman"));
}

#[test]
fn settings_of_the_host_are_unseen_in_a_namespace() {
    let mut inside = good();
    for path in ["/proc/sys/net/core/netdev_max_backlog", "/proc/sys/net/ipv4/udp_mem"] {
        inside.record(path, crate::Seen::new(crate::Reading::Absent, false));
    }
    let findings = found(&inside);
    assert!(findings.iter().all(|finding| finding.level() == Level::Unseen), "{findings:?}");
    assert_eq!(findings[0].title(), "not seen: net.ipv4.udp_mem");
    assert!(findings[0].reason().starts_with("only in the network namespace of the host"), "{findings:?}");
}

#[test]
fn missing_privileges_are_named() {
    let mut user =
        good().with("/proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n");
    let low = crate::Reading::Text("212992\n".to_owned());
    user.record("/proc/sys/net/core/rmem_max", crate::Seen::new(low, false));
    let denied = crate::Reading::Denied("permission denied".to_owned());
    user.record("/proc/sys/net/core/somaxconn", crate::Seen::new(denied, false));
    let findings = found(&user);
    assert_eq!(
        findings[0].obstacle(),
        Some(
            "this process runs as user 1000, not as root, and it lacks CAP_NET_ADMIN and CAP_SYS_ADMIN: run `strowger tune apply` as root"
        )
    );
    assert_eq!(findings[1].title(), "not seen: net.core.somaxconn (permission denied)");
}

#[test]
fn servers_with_low_limits_are_one_finding() {
    let line = "Max open files            1024                 4096                 files\n";
    let servers = (1..10).fold(good(), |snapshot, pid| {
        snapshot.with(&format!("/proc/{pid}/limits"), line).with(&format!("/proc/{pid}/comm"), "strowger\n")
    });
    let (finding, _) = only(&servers, &Expected::default(), "servers");
    assert_eq!(finding.title(), "a running server may open only 4,096 files");
    assert_eq!(finding.evidence_lines().len(), 4);
}

#[test]
fn interrupts_have_processors_of_their_own_on_large_machines() {
    let bad = with_card()
        .with("/sys/devices/system/cpu/online", "0-31\n")
        .with("/ethtool/eth0/combined-max", "2")
        .with("/proc/irq/39/smp_affinity_list", "0\n");
    let (finding, changes) = only(&bad, &Expected::default(), "interrupts");
    assert_eq!(changes, ["/proc/irq/39/smp_affinity_list=16"]);
    assert!(finding.steps_by_hand()[0].contains("off the processors 0, 16"), "{finding:?}");
}

#[test]
fn node_of_a_card_is_named_where_there_are_several() {
    let snapshot = with_card()
        .with("/sys/class/net/eth0/device/numa_node", "1\n")
        .with("/sys/devices/system/node/node0/cpulist", "0-15\n");
    assert_eq!(found(&snapshot), []);
    let (finding, _) = only(
        &snapshot.with("/sys/devices/system/node/node1/cpulist", "16-31\n"),
        &Expected::default(),
        "numa",
    );
    assert_eq!(finding.title(), "eth0 belongs to NUMA node 1, which has the processors 16-31");
}

/// The page of all items. `STROWGER_WRITE_REFERENCE=1` writes it anew.
#[test]
fn reference_page_is_as_the_items_say() {
    let mut page = "# Items of `strowger tune`\n\nWritten by `make reference` from `core/tune-rules`. \
                    [The guide](../guide/tune.md) says how to use them.\n"
        .to_owned();
    for item in crate::ITEMS {
        let (name, title) = (item.name(), item.title());
        let (text, untouched) =
            (filled(item.explanation()), filled(&format!("Not touched: {}", item.untouched())));
        page.push_str(&format!("\n## `{name}`: {title}\n\n{text}\n\n{untouched}\n"));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/tune.md");
    if std::env::var_os("STROWGER_WRITE_REFERENCE").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), page, "run `make reference`");
}

/// A paragraph in lines of at most 118 characters.
fn filled(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().unwrap();
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 118 {
            lines.push(word.to_owned());
        } else {
            let space = if line.is_empty() { "" } else { " " };
            line.push_str(&format!("{space}{word}"));
        }
    }
    lines.join("\n")
}

#[test]
fn items_have_names_and_pages() {
    for item in crate::ITEMS {
        assert!(item.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", item.name());
        assert!(item.explanation().len() > 100 && item.untouched().ends_with('.'), "{}", item.name());
        assert_eq!(crate::item(item.name()).map(crate::Item::title), Some(item.title()));
    }
}

#[test]
fn nonsense_in_any_file_never_panics() {
    let most = u64::MAX.to_string();
    let texts = [
        "",
        "\n",
        "0",
        "-1",
        &most,
        &format!("{most} {most} {most} {most} {most} {most} {most} {most} {most}"),
        &format!("0-{most}"),
        "4294967295-0,,-",
        "ffffffffffffffffffffffffffffffffffffffffffffffff",
        ":::\n:\n=\n = = \n-=\n/=1\n.=\n",
        "Udp:\nUdp: RcvbufErrors\nUdp:\n",
        "MemTotal: \ncpu\ncpu  \nMax open files\nUid:\nCapEff: zz\n",
        "entries drop\n0\nzzzz zzzz\n",
        "install sctp\nblacklist\nsctp \nLimitNOFILE=:\nAmbientCapabilities=\nUser=\n",
        "\u{0}\u{1b}[31m\u{fffd}\u{1f600}",
    ];
    let names = ["eth0", "0", "-", "\u{1f600}"];
    let place = |pattern: &str, name: &str| pattern.replace(['*', '#'], name);
    let paths: Vec<&str> = crate::PATHS
        .iter()
        .copied()
        .chain(["/proc/#/limits", "/proc/#/comm", "/sys/fs/cgroup/a/cpu.max"])
        .collect();
    let most_of_all = Expected::default().with_sctp(true).with_connections(u64::MAX).with_calls(u64::MAX);
    for text in texts {
        let mut all = Snapshot::new();
        for path in &paths {
            for name in names {
                all = all.with(&place(path, name), text);
                found(&with_card().with(&place(path, name), text));
            }
        }
        for setting in crate::CARD_SETTINGS {
            all = all.with(&format!("/ethtool/eth0/{setting}"), text);
        }
        found(&all);
        check(&all, &most_of_all);
    }
}
