//! Apply, verify and undo on a tree of files.

use crate::{
    Applied, Entry, Journal, JournalPlace, Lasting, Machine, Outcome, Undone, apply, restore, select, undo,
    verify,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tune_rules::{Expected, Finding, Level, OWN_SYSCTL_FILE, Rights, check};

/// A tree that stands for a machine with faults, removed at the end.
struct Tree(PathBuf, #[expect(dead_code, reason = "held")] Turn);

/// A child process holds the locks of all journals for a moment, between its fork and its exec. So a test
/// that starts one runs alone.
static FORKS: RwLock<()> = RwLock::new(());

enum Turn {
    Shared(#[expect(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

/// Files of a machine of 8 GiB with five faults.
const FILES: &[(&str, &str)] = &[
    ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:         4194304 kB\n"),
    ("proc/self/status", "Name:\tstrowger\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"),
    ("proc/self/uid_map", "         0          0 4294967295\n"),
    ("proc/sys/kernel/random/boot_id", "5a0c3c0e-0000-4000-8000-000000000001\n"),
    ("proc/sys/net/core/netdev_max_backlog", "1000\n"),
    ("proc/sys/net/core/rmem_max", "212992\n"),
    ("proc/sys/net/core/wmem_max", "4194304\n"),
    ("proc/sys/net/core/rmem_default", "212992\n"),
    ("proc/sys/net/core/somaxconn", "128\n"),
    ("proc/sys/net/ipv4/udp_mem", "19257652\t19257652\t19257652\n"),
    ("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096\n"),
    ("proc/sys/net/ipv4/tcp_timestamps", "0\n"),
    ("proc/sys/net/ipv4/ip_local_port_range", "1024\t65535\n"),
    ("proc/sys/net/ipv4/ip_local_reserved_ports", "\n"),
    (
        "proc/net/snmp",
        "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 900000 0 12431 900000 12431 0\n",
    ),
    ("etc/sysctl.conf", "# copied\nnet.ipv4.tcp_timestamps = 0\n"),
    ("etc/sysctl.d/README", "files here\n"),
    ("var/lib/other/file", "kept\n"),
];

fn always() -> Lasting {
    Lasting::Always { restore: Some("/usr/local/bin/strowger tune restore".to_owned()) }
}

impl Tree {
    fn new() -> Tree {
        Tree::planted(Turn::Shared(FORKS.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// While this one is there, there is no other.
    fn alone() -> Tree {
        Tree::planted(Turn::Alone(FORKS.write().unwrap_or_else(PoisonError::into_inner)))
    }

    fn planted(turn: Turn) -> Tree {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("strowger-tune-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let tree = Tree(std::env::temp_dir().join(name), turn);
        for (path, text) in FILES {
            tree.put(path, text);
        }
        tree
    }

    fn put(&self, path: &str, text: &str) {
        let place = self.0.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    fn get(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap()
    }

    fn machine(&self) -> Machine {
        Machine::new(&self.0)
    }

    fn journal(&self) -> PathBuf {
        self.0.join("var/lib/strowger-tune/journal")
    }

    fn findings(&self) -> Vec<Finding> {
        check(&self.machine().snapshot(), &Expected::default())
    }

    fn report(&self, findings: &[Finding]) -> String {
        crate::say::report(findings, &Rights::of(&self.machine().snapshot()))
    }

    fn apply(&self) -> Vec<Applied> {
        let mut journal = Journal::open(&self.journal()).unwrap();
        let findings = self.findings();
        apply(&self.machine(), &select(&findings, &[]), &mut journal, &always()).unwrap()
    }

    fn undo(&self) -> Vec<Undone> {
        undo(&self.machine(), Journal::existing(&self.journal()).unwrap().unwrap()).unwrap()
    }

    /// Every file with its content, and every folder.
    fn everything(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        fn walk(folder: &Path, into: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, into);
                    into.insert(path, None);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    into.insert(path, Some(bytes));
                }
            }
        }
        let mut all = BTreeMap::new();
        walk(&self.0, &mut all);
        all
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn report_finds_planted_faults_and_changes_nothing() {
    let tree = Tree::new();
    let before = tree.everything();
    let findings = tree.findings();
    let text = tree.report(&findings);
    for name in ["rmem_max", "somaxconn", "udp_mem", "tcp_timestamps", "5060, 5061", "/etc/sysctl.conf:2"] {
        assert!(text.contains(name), "{name} in {text}");
    }
    assert!(text.contains("RcvbufErrors 12,431 since boot"), "{text}");
    assert!(text.contains("73.5 GiB"), "{text}");
    crate::script(&tree.machine(), &select(&findings, &[]));
    assert_eq!(before, tree.everything());
}

#[test]
fn undo_returns_every_byte_after_apply_and_verify() {
    let tree = Tree::new();
    let before = tree.everything();
    let applied = tree.apply();
    assert!(applied.iter().all(Applied::made), "{applied:?}");
    assert_eq!(tree.get("proc/sys/net/core/rmem_max"), "4194304\n");
    assert!(tree.get(&OWN_SYSCTL_FILE[1..]).contains("net.core.rmem_max = 4194304\n"));
    let left = tree.findings();
    let lines_alone =
        |finding: &Finding| finding.level() != Level::Problem || finding.item() == "sysctl_files";
    assert!(left.iter().all(lines_alone), "{left:?}");
    let verified = verify(&tree.machine(), &Journal::entries_of(&tree.journal()).unwrap());
    // /etc/sysctl.conf is read after our file, and turns timestamps off again.
    let at_risk: Vec<_> =
        verified.iter().filter(|v| !v.kept()).map(|v| (v.name(), v.by().unwrap())).collect();
    assert_eq!(at_risk, [("net.ipv4.tcp_timestamps", "/etc/sysctl.conf:2 will set 0 at the next boot")]);
    let undone = tree.undo();
    assert!(undone.iter().all(|u| matches!(u, Undone::Restored { .. })), "{undone:?}");
    assert_eq!(before, tree.everything());
}

#[test]
fn undo_returns_every_byte_after_a_crash_at_any_write() {
    let mut crashes = 0;
    for writes in 0.. {
        let tree = Tree::new();
        let before = tree.everything();
        let findings = tree.findings();
        let machine = tree.machine();
        machine.writes_left.set(Some(writes));
        let mut journal = Journal::open(&tree.journal()).unwrap();
        let applied = apply(&machine, &select(&findings, &[]), &mut journal, &always()).unwrap();
        drop(journal);
        tree.undo();
        assert_eq!(before, tree.everything(), "after {writes} writes");
        if applied.iter().all(Applied::made) {
            break;
        }
        crashes += 1;
    }
    // Five values or more, and a file of two steps.
    assert!(crashes >= 7, "{crashes}");
}

#[test]
fn undo_goes_on_after_a_crash_at_any_write() {
    for writes in 0..12 {
        let tree = Tree::new();
        let before = tree.everything();
        tree.apply();
        let machine = tree.machine();
        machine.writes_left.set(Some(writes));
        undo(&machine, Journal::existing(&tree.journal()).unwrap().unwrap()).unwrap();
        if let Some(journal) = Journal::existing(&tree.journal()).unwrap() {
            undo(&tree.machine(), journal).unwrap();
        }
        assert_eq!(before, tree.everything(), "after {writes} writes");
    }
}

#[test]
fn undo_leaves_alone_what_another_program_changed() {
    let tree = Tree::new();
    let before = tree.everything();
    tree.apply();
    tree.put("proc/sys/net/core/somaxconn", "9999\n");
    tree.put("proc/sys/net/core/rmem_max", "212992\n");
    let verified = verify(&tree.machine(), &Journal::entries_of(&tree.journal()).unwrap());
    let kept = |name: &str| verified.iter().find(|v| v.name() == name).unwrap().kept();
    assert!(!kept("net.core.somaxconn") && !kept("net.core.rmem_max") && kept("net.ipv4.udp_mem"));
    let undone = tree.undo();
    let left = |u: &&Undone| matches!(u, Undone::LeftAlone { name, now, old, .. } if name == "net.core.somaxconn" && now == "9999" && old == "128");
    assert_eq!(undone.iter().filter(left).count(), 1, "{undone:?}");
    assert!(undone.contains(&Undone::WasBack { name: "net.core.rmem_max".to_owned() }), "{undone:?}");
    tree.put("proc/sys/net/core/somaxconn", "128\n");
    assert_eq!(before, tree.everything());
}

#[test]
fn undo_says_that_the_machine_restarted_since() {
    let tree = Tree::new();
    tree.apply();
    tree.put("proc/sys/kernel/random/boot_id", "5a0c3c0e-0000-4000-8000-000000000002\n");
    tree.put("proc/sys/net/core/somaxconn", "4097\n");
    let undone = tree.undo();
    assert!(undone.iter().any(|u| matches!(u, Undone::LeftAlone { restarted: true, .. })), "{undone:?}");
    assert_eq!(tree.get("proc/sys/net/core/rmem_max"), "212992\n");
}

#[test]
fn applying_twice_is_undone_to_the_first_value() {
    let tree = Tree::new();
    let before = tree.everything();
    tree.apply();
    let mut journal = Journal::open(&tree.journal()).unwrap();
    let findings = check(&tree.machine().snapshot(), &Expected::default().with_calls(10_000));
    let plans = select(&findings, &["udp_buffers".to_owned()]);
    assert_eq!(apply(&tree.machine(), &plans, &mut journal, &always()).unwrap().len(), 2);
    drop(journal);
    assert_eq!(tree.get("proc/sys/net/core/rmem_max"), "40320000\n");
    let file = tree.get(&OWN_SYSCTL_FILE[1..]);
    assert!(file.contains("rmem_max = 40320000\n") && file.contains("somaxconn = 4096\n"), "{file}");
    tree.undo();
    assert_eq!(before, tree.everything());
}

#[test]
fn until_reboot_writes_no_file() {
    let tree = Tree::new();
    let mut journal = Journal::open(&tree.journal()).unwrap();
    let findings = tree.findings();
    apply(&tree.machine(), &select(&findings, &[]), &mut journal, &Lasting::UntilReboot).unwrap();
    assert!(!tree.0.join(&OWN_SYSCTL_FILE[1..]).exists());
    assert_eq!(tree.get("proc/sys/net/core/rmem_max"), "4194304\n");
}

#[test]
fn journal_refuses_paths_that_apply_never_writes() {
    for (path, kind) in
        [("/etc/shadow", "file"), ("/proc/sys/../../etc/shadow", "value"), ("/etc/shadow", "value")]
    {
        let tree = Tree::new();
        tree.put("etc/shadow", "secret\n");
        let mut journal = Journal::open(&tree.journal()).unwrap();
        let (path, old, new) = (path.to_owned(), "mine\n".to_owned(), "secret\n".to_owned());
        let entry = match kind {
            "file" => Entry::File { path, old: Some(old), new },
            _ => Entry::Value {
                item: String::new(),
                path,
                old,
                new,
                until_reboot: false,
                boot: String::new(),
                at: 0,
            },
        };
        journal.append(vec![entry]).unwrap();
        drop(journal);
        // So neither `undo` nor `restore` starts.
        let said = Journal::existing(&tree.journal()).err().unwrap().to_string();
        assert!(said.contains("journal:1: ") && said.contains("never writes"), "{said}");
        assert!(Journal::entries_of(&tree.journal()).is_err());
        assert_eq!(tree.get("etc/shadow"), "secret\n");
    }
}

#[test]
fn journal_is_refused_when_others_may_write_it() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::new();
    tree.apply();
    fs::set_permissions(tree.journal(), fs::Permissions::from_mode(0o666)).unwrap();
    let said = Journal::existing(&tree.journal()).err().unwrap().to_string();
    assert!(said.contains("writable by nobody else"), "{said}");
}

#[test]
fn journal_line_cut_off_by_a_crash_is_dropped() {
    let tree = Tree::new();
    let before = tree.everything();
    tree.apply();
    let whole = fs::read_to_string(tree.journal()).unwrap();
    fs::write(tree.journal(), format!("{whole}{{\"kind\":\"val")).unwrap();
    tree.undo();
    assert_eq!(before, tree.everything());
    tree.put("var/lib/strowger-tune/journal", "nonsense\n");
    let said = Journal::existing(&tree.journal()).err().unwrap().to_string();
    assert!(said.contains("journal:1: damaged line"), "{said}");
}

#[test]
fn journal_has_one_user_at_a_time() {
    let tree = Tree::new();
    let first = Journal::open(&tree.journal()).unwrap();
    let said = Journal::open(&tree.journal()).err().unwrap().to_string();
    assert!(said.contains("another `strowger tune`"), "{said}");
    drop(first);
    assert!(Journal::open(&tree.journal()).is_ok());
}

#[test]
fn container_is_told_what_to_do_on_the_host() {
    let tree = Tree::new();
    tree.put(".dockerenv", "");
    tree.put("proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\n");
    fs::remove_file(tree.0.join("proc/sys/net/core/netdev_max_backlog")).unwrap();
    let snapshot = tree.machine().snapshot();
    let mut read_only = snapshot.clone();
    let path = "/proc/sys/net/core/rmem_max";
    read_only.record(path, tune_rules::Seen::new(snapshot.seen(path).unwrap().reading().clone(), false));
    let findings = check(&read_only, &Expected::default());
    let text = tree.report(&findings);
    assert!(
        text.contains("this is a Docker container and this process lacks CAP_NET_ADMIN and CAP_SYS_ADMIN"),
        "{text}"
    );
    assert!(text.contains("make the change on the host"), "{text}");
    let before = tree.everything();
    let plans = select(&findings, &["udp_buffers".to_owned()]);
    let results = crate::refused(&plans);
    assert!(results.iter().all(|r| matches!(r.outcome(), Outcome::Obstacle(_))), "{results:?}");
    assert_eq!(before, tree.everything());
}

/// A card with RPS on, and a unit of the server.
fn plant_card(tree: &Tree) {
    tree.put("sys/devices/system/cpu/online", "0-1\n");
    tree.put("sys/class/net/eth0/operstate", "up\n");
    tree.put("sys/class/net/eth0/device/uevent", "DRIVER=test\n");
    tree.put("sys/class/net/eth0/queues/rx-0/rps_cpus", "3\n");
    tree.put("sys/class/net/eth0/queues/rx-1/rps_cpus", "3\n");
    tree.put("ethtool/eth0/rx-hash-udp4", "sd\n");
    tree.put("etc/systemd/system/strowger.service", "[Service]\nLimitNOFILE=4096\n");
    for (irq, place) in [(38, "0\n"), (39, "0\n")] {
        tree.put(&format!("sys/class/net/eth0/device/msi_irqs/{irq}"), "msix\n");
        tree.put(&format!("proc/irq/{irq}/smp_affinity_list"), place);
    }
    tree.put("proc/interrupts", "      CPU0 CPU1\n 38: 90 0 x\n 39: 10 5 x\n");
}

#[test]
fn settings_of_cards_are_restored_after_a_boot() {
    let tree = Tree::new();
    plant_card(&tree);
    let before = tree.everything();
    let names = ["receive_hash", "packet_steering", "descriptors", "interrupts"].map(str::to_owned);
    let mut journal = Journal::open(&tree.journal()).unwrap();
    let findings = tree.findings();
    let applied = apply(&tree.machine(), &select(&findings, &names), &mut journal, &always()).unwrap();
    assert_eq!(tree.get("ethtool/eth0/rx-hash-udp4"), "sdfn\n");
    let unit = tree.get(&tune_rules::OWN_UNIT_FILE[1..]);
    let lines = "[Service]\nExecStartPre=-+/usr/local/bin/strowger tune restore\nLimitNOFILE=21504\n";
    assert!(unit.ends_with(lines), "{unit}");
    assert_eq!(crate::steps(&findings, &applied)[0], "systemctl daemon-reload; systemctl restart strowger");
    // A person's change within this boot stays.
    tree.put("ethtool/eth0/rx-hash-udp4", "sdf\n");
    assert_eq!(restore(&tree.machine(), &mut journal).unwrap(), []);
    // A boot: one value is as before, another one is new, and interrupts have other numbers.
    tree.put("proc/sys/kernel/random/boot_id", "5a0c3c0e-0000-4000-8000-000000000002\n");
    tree.put("proc/irq/39/smp_affinity_list", "0\n");
    tree.put("ethtool/eth0/rx-hash-udp4", "sd\n");
    tree.put("sys/class/net/eth0/queues/rx-0/rps_cpus", "1\n");
    assert_eq!(restore(&tree.machine(), &mut journal).unwrap().len(), 2);
    assert_eq!(tree.get("ethtool/eth0/rx-hash-udp4"), "sdfn\n");
    // Once for each boot.
    for path in ["ethtool/eth0/rx-hash-udp4", "sys/class/net/eth0/queues/rx-0/rps_cpus"] {
        let restored = tree.get(path);
        tree.put(path, "1\n");
        assert_eq!(restore(&tree.machine(), &mut journal).unwrap(), [], "{path}");
        tree.put(path, &restored);
    }
    assert_eq!(tree.get("sys/class/net/eth0/queues/rx-0/rps_cpus"), "0\n");
    assert_eq!(tree.get("proc/irq/39/smp_affinity_list"), "0\n");
    drop(journal);
    let verified = verify(&tree.machine(), &Journal::entries_of(&tree.journal()).unwrap());
    let lost: Vec<&str> = verified.iter().filter(|v| !v.kept()).map(crate::Verified::name).collect();
    assert_eq!(lost, ["/proc/irq/39/smp_affinity_list"]);
    tree.put("proc/sys/kernel/random/boot_id", "5a0c3c0e-0000-4000-8000-000000000003\n");
    tree.put("proc/irq/39/smp_affinity_list", "1\n");
    let undone = tree.undo();
    let gone = Undone::Gone { name: "/proc/irq/39/smp_affinity_list".to_owned() };
    assert!(undone.contains(&gone), "{undone:?}");
    tree.put("proc/irq/39/smp_affinity_list", "0\n");
    tree.put("proc/sys/kernel/random/boot_id", "5a0c3c0e-0000-4000-8000-000000000001\n");
    // What the boot brought is what undo goes back to.
    assert_eq!(tree.get("sys/class/net/eth0/queues/rx-0/rps_cpus"), "1\n");
    tree.put("sys/class/net/eth0/queues/rx-0/rps_cpus", "3\n");
    assert_eq!(before, tree.everything());
}

#[test]
fn settings_of_a_module_are_restored_when_it_came_late() {
    let tree = Tree::new();
    plant_card(&tree);
    tree.put("proc/sys/net/netfilter/nf_conntrack_count", "10\n");
    tree.put("proc/sys/net/netfilter/nf_conntrack_max", "4096\n");
    let before = tree.everything();
    let mut journal = Journal::open(&tree.journal()).unwrap();
    let findings = tree.findings();
    apply(&tree.machine(), &select(&findings, &["conntrack".to_owned()]), &mut journal, &always()).unwrap();
    assert!(tree.get(&tune_rules::OWN_UNIT_FILE[1..]).contains("tune restore"));
    assert!(tree.get(&OWN_SYSCTL_FILE[1..]).contains("net.netfilter.nf_conntrack_max = 65536\n"));
    let module = tree.0.join("proc/sys/net/netfilter/nf_conntrack_max");
    fs::remove_file(&module).unwrap();
    tree.put("proc/sys/kernel/random/boot_id", "5a0c3c0e-0000-4000-8000-000000000002\n");
    assert_eq!(restore(&tree.machine(), &mut journal).unwrap(), []);
    tree.put("proc/sys/net/netfilter/nf_conntrack_max", "4096\n");
    assert_eq!(restore(&tree.machine(), &mut journal).unwrap().len(), 1);
    assert_eq!(tree.get("proc/sys/net/netfilter/nf_conntrack_max"), "65536\n");
    let values = journal.entries().iter().filter(|entry| matches!(entry, Entry::Value { .. }));
    assert_eq!(values.count(), 1, "the journal has the old value already");
    drop(journal);
    tree.undo();
    tree.put("proc/sys/kernel/random/boot_id", "5a0c3c0e-0000-4000-8000-000000000001\n");
    assert_eq!(before, tree.everything());
}

#[test]
fn value_that_the_kernel_refuses_is_set_by_no_file() {
    let tree = Tree::new();
    let findings = tree.findings();
    let mut journal = Journal::open(&tree.journal()).unwrap();
    let machine = tree.machine();
    machine.refuse("/proc/sys/net/core/somaxconn");
    let applied = apply(&machine, &select(&findings, &[]), &mut journal, &always()).unwrap();
    let failed = |result: &&Applied| matches!(result.outcome(), Outcome::Failed(_));
    assert_eq!(applied.iter().filter(failed).map(Applied::name).collect::<Vec<_>>(), ["net.core.somaxconn"]);
    assert!(!tree.get(&OWN_SYSCTL_FILE[1..]).contains("somaxconn"));
    assert!(tree.get(&OWN_SYSCTL_FILE[1..]).contains("rmem_max"));
    drop(journal);
    // What was not made is not missed, and is not there to be undone.
    let entries = Journal::entries_of(&tree.journal()).unwrap();
    assert!(verify(&machine, &entries).iter().all(|v| v.name() != "net.core.somaxconn"));
    tree.put("proc/sys/net/core/somaxconn", "512\n");
    assert!(tree.undo().iter().all(|u| !matches!(u, Undone::LeftAlone { .. })));
    assert_eq!(tree.get("proc/sys/net/core/somaxconn"), "512\n");
}

#[test]
fn value_refused_later_is_verified_as_made_before() {
    let tree = Tree::new();
    tree.apply();
    let machine = tree.machine();
    machine.refuse("/proc/sys/net/core/rmem_max");
    let mut journal = Journal::open(&tree.journal()).unwrap();
    let findings = check(&machine.snapshot(), &Expected::default().with_calls(10_000));
    let plans = select(&findings, &["udp_buffers".to_owned()]);
    apply(&machine, &plans, &mut journal, &Lasting::UntilReboot).unwrap();
    let verified = verify(&machine, journal.entries());
    let limit = verified.iter().find(|v| v.name() == "net.core.rmem_max").unwrap();
    assert_eq!((limit.wanted(), limit.kept()), ("4194304", true));
}

#[test]
fn setting_that_a_card_refuses_again_is_tried_once_a_boot() {
    let tree = Tree::new();
    plant_card(&tree);
    let mut journal = Journal::open(&tree.journal()).unwrap();
    let findings = tree.findings();
    let plans = select(&findings, &["receive_hash".to_owned()]);
    apply(&tree.machine(), &plans, &mut journal, &always()).unwrap();
    tree.put("proc/sys/kernel/random/boot_id", "5a0c3c0e-0000-4000-8000-000000000002\n");
    tree.put("ethtool/eth0/rx-hash-udp4", "s\n");
    let machine = tree.machine();
    machine.refuse("/ethtool/eth0/rx-hash-udp4");
    assert_eq!(restore(&machine, &mut journal).unwrap()[0].outcome(), &Outcome::Unsupported);
    assert_eq!(restore(&machine, &mut journal).unwrap(), []);
    drop(journal);
    // What the boot brought is not ours to undo.
    tree.undo();
    assert_eq!(tree.get("ethtool/eth0/rx-hash-udp4"), "s\n");
}

#[test]
fn verify_names_who_undid_a_value() {
    let tree = Tree::new();
    plant_card(&tree);
    tree.apply();
    assert_eq!(tree.get("proc/irq/39/smp_affinity_list"), "1\n");
    tree.put("proc/irq/39/smp_affinity_list", "0\n");
    tree.put("proc/sys/net/core/rmem_max", "16777216\n");
    tree.put("proc/sys/net/core/somaxconn", "128\n");
    tree.put("etc/sysctl.d/99-old.conf", "net.core.somaxconn = 128\n");
    tree.put("proc/812/comm", "irqbalance\n");
    tree.put("proc/900/comm", "tuned\n");
    tree.put("etc/tuned/active_profile", "network-throughput\n");
    let verified = verify(&tree.machine(), &Journal::entries_of(&tree.journal()).unwrap());
    let by = |name: &str| verified.iter().find(|v| v.name() == name).unwrap().by().unwrap().to_owned();
    assert_eq!(by("/proc/irq/39/smp_affinity_list"), "irqbalance runs (process 812) and moves interrupts");
    assert_eq!(by("net.core.somaxconn"), "/etc/sysctl.d/99-old.conf:1 sets this");
    assert_eq!(by("net.core.rmem_max"), "tuned runs (process 900) with the profile network-throughput");
}

#[test]
fn script_does_what_apply_does() {
    let without_journal = |tree: &Tree| {
        let all = tree.everything();
        let inner =
            all.into_iter().map(|(path, bytes)| (path.strip_prefix(&tree.0).unwrap().to_owned(), bytes));
        inner.filter(|(path, _)| !path.starts_with("var/lib/strowger-tune")).collect::<Vec<_>>()
    };
    let tree = Tree::new();
    let script = crate::script(&tree.machine(), &select(&tree.findings(), &[]));
    for line in
        ["sysctl -q -w 'net.core.somaxconn=4096'  # was 128", "cat > /etc/sysctl.d/90-strowger-tune.conf"]
    {
        assert!(script.contains(line), "{script}");
    }
    tree.apply();
    let applied = without_journal(&tree);
    drop(tree);
    // With a function in place of sysctl, on a tree in place of the machine.
    let other = Tree::alone();
    let root = other.0.display();
    let place = format!("{root}/proc/sys/$(echo ${{3%%=*}} | tr . /)");
    let sysctl = format!("sysctl() {{ printf '%s\\n' \"${{3#*=}}\" > {place}; }}\n");
    let script = script.replace("/etc/sysctl.d", &format!("{root}/etc/sysctl.d"));
    let status = std::process::Command::new("sh").arg("-c").arg(sysctl + &script).status().unwrap();
    assert!(status.success());
    assert_eq!(applied, without_journal(&other));
}

#[test]
fn script_names_no_program_to_restore() {
    let tree = Tree::new();
    plant_card(&tree);
    tree.put("proc/sys/net/netfilter/nf_conntrack_count", "10\n");
    tree.put("proc/sys/net/netfilter/nf_conntrack_max", "4096\n");
    let script = crate::script(&tree.machine(), &select(&tree.findings(), &[]));
    assert!(script.contains("net.netfilter.nf_conntrack_max=65536"), "{script}");
    assert!(!script.contains("ExecStartPre"), "{script}");
    assert!(script.contains("# Run this script again after each boot"), "{script}");
}

#[test]
fn masked_file_is_seen_as_the_system_sees_it() {
    let tree = Tree::new();
    tree.put("usr/lib/sysctl.d/50-a.conf", "net.ipv4.tcp_tw_recycle = 1\n");
    let found = |tree: &Tree| tree.report(&tree.findings()).contains("tcp_tw_recycle");
    assert!(found(&tree));
    std::os::unix::fs::symlink("/dev/null", tree.0.join("etc/sysctl.d/50-a.conf")).unwrap();
    assert!(!found(&tree));
}

#[test]
fn fifo_in_place_of_a_file_does_not_block() {
    let tree = Tree::new();
    let place = tree.0.join("etc/sysctl.conf");
    fs::remove_file(&place).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, &place, kind, mode, 0).unwrap();
    let denied = |seen: &tune_rules::Seen| matches!(seen.reading(), tune_rules::Reading::Denied(_));
    assert!(tree.machine().snapshot().seen("/etc/sysctl.conf").is_some_and(denied));
}

#[test]
fn hundreds_of_changes_are_shown_in_few_lines() {
    let tree = Tree::new();
    for cpu in 0..200 {
        tree.put(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), "powersave\n");
    }
    let findings = tree.findings();
    let text = tree.report(&findings);
    assert!(text.contains("and 196 more like these"), "{text}");
    assert_eq!(select(&findings, &["governor".to_owned()]).len(), 200);
}

#[test]
fn links_of_a_tree_lead_to_the_tree_only() {
    let tree = Tree::new();
    let other = tree.0.with_extension("other");
    for folder in ["sysctl.d", "journal", "root"] {
        fs::create_dir_all(other.join(folder)).unwrap();
    }
    fs::write(other.join("value"), "128\n").unwrap();
    let link = |to: &Path, from: &str| {
        let from = tree.0.join(from);
        let _ = fs::remove_file(&from).or_else(|_| fs::remove_dir_all(&from));
        std::os::unix::fs::symlink(to, from).unwrap();
    };
    let root = Machine::new(&tree.0);
    fs::create_dir_all(tree.0.join("var/lib")).unwrap();
    link(&other.join("value"), "proc/sys/net/core/somaxconn");
    link(&other.join("sysctl.d"), "etc/sysctl.d");
    link(&other.join("journal"), "var/lib/strowger-tune");
    // One that leads to the tree's own file is followed, also where it starts at the root.
    link(Path::new("/proc/sys/net/core/rmem_here"), "proc/sys/net/core/rmem_max");
    tree.put("proc/sys/net/core/rmem_here", "212992\n");
    assert!(Journal::open(JournalPlace::of(&root)).is_err(), "a folder that is not in the tree");
    let mut journal = Journal::open(&tree.0.join("journal")).unwrap();
    let findings = tree.findings();
    apply(&root, &select(&findings, &[]), &mut journal, &always()).unwrap();
    assert_eq!(tree.get("proc/sys/net/core/rmem_here"), "4194304\n");
    assert_eq!(fs::read_to_string(other.join("value")).unwrap(), "128\n");
    for folder in ["sysctl.d", "journal"] {
        assert_eq!(fs::read_dir(other.join(folder)).unwrap().count(), 0, "{folder}");
    }
    fs::remove_dir_all(&other).unwrap();
}

#[test]
fn journal_in_the_current_folder_has_a_bare_name() {
    let name = format!("strowger-tune-bare-{}", std::process::id());
    let mut journal = Journal::open(&name).unwrap();
    let wrote = journal.append(vec![Entry::Folder { path: "/etc/sysctl.d".to_owned() }]);
    let there = Path::new(&name).exists();
    journal.remove().unwrap();
    assert!(wrote.is_ok() && there, "{wrote:?}");
}
