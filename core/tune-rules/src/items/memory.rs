//! Memory of the machine and of the control group.

use crate::finding::Level;
use crate::item::Item;
use crate::look::Look;
use crate::parse::{bytes, field_number, grouped};

pub(super) const HUGE_PAGES: Item = Item::new(
    "huge_pages",
    "transparent huge pages",
    "With `always`, the kernel gives pages of 2 MiB to every program, and a thread of it copies memory to make them. The
server asks for small pages for itself, so the setting concerns other programs of the machine: they take more memory, and
may stop for milliseconds.",
    "Reported and never changed: databases on the machine may have other needs.",
    huge_pages,
);

pub(super) const OVERCOMMIT: Item = Item::new(
    "overcommit",
    "promised memory",
    "With vm.overcommit_memory = 2 the kernel refuses memory that it has not got, even if a program only reserves it. The
server reserves address space for its tables, and may fail to start.",
    "Reported and never changed.",
    overcommit,
);

pub(super) const SWAP: Item = Item::new(
    "swap",
    "memory on the disk",
    "A worker whose memory was moved to the disk waits milliseconds for it, and so do all calls of this worker.",
    "Reported and never changed: without swap, the kernel ends processes earlier.",
    swap,
);

pub(super) const CONTROL_GROUP: Item = Item::new(
    "control_group",
    "limits of the container or unit",
    "A control group may limit processor time (cpu.max), memory (memory.max) and threads (pids.max). A server
that has used its quota stops until the next period, 100 ms by default. This delays every call. nr_throttled in
cpu.stat counts it.",
    "Limits of control groups belong to the operator of the container or unit: they are reported and never changed.",
    control_group,
);

fn huge_pages(look: &mut Look<'_>) {
    let text = look.file("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let defrag = look.file("/sys/kernel/mm/transparent_hugepage/defrag").unwrap_or_default();
    if text.contains("[always]") && defrag.contains("[always]") {
        let finding = look
            .finding(Level::Note, "programs wait while the kernel makes huge pages")
            .evidence("transparent_hugepage: enabled [always], defrag [always]")
            .why("the server asks for small pages; other programs of this machine may stop for milliseconds")
            .by_hand("echo madvise > /sys/kernel/mm/transparent_hugepage/defrag");
        look.report(finding);
    }
}

fn overcommit(look: &mut Look<'_>) {
    if look.sysctl("vm.overcommit_memory") == Some(2) {
        let finding = look
            .finding(Level::Problem, "vm.overcommit_memory is 2: reserved memory counts as used")
            .evidence_if(look.set_by("vm.overcommit_memory"))
            .why("the server reserves address space for its tables, and may fail to start or to grow")
            .by_hand("set vm.overcommit_memory to 0, or raise vm.overcommit_ratio");
        look.report(finding);
    }
}

fn swap(look: &mut Look<'_>) {
    let Some(text) = look.file("/proc/meminfo") else { return };
    let number = |name| field_number(text, name).unwrap_or(0).saturating_mul(1_024);
    let used = number("SwapTotal").saturating_sub(number("SwapFree"));
    // A few pages that nobody needs are normal.
    if used > number("MemTotal") / 50 {
        let finding = look
            .finding(Level::Note, format!("{} of memory are on the disk", bytes(used)))
            .evidence("SwapTotal - SwapFree in /proc/meminfo")
            .why("a worker that needs its memory from the disk delays all calls it owns")
            .by_hand("give the machine more memory, or set MemorySwapMax=0 in the unit of the server");
        look.report(finding);
    }
}

fn control_group(look: &mut Look<'_>) {
    threads(look);
    let groups: Vec<(String, &str)> = look
        .snapshot()
        .below("/sys/fs/cgroup/")
        .filter_map(|(path, text)| Some((path.strip_suffix("/cpu.max")?.to_owned(), text)))
        .collect();
    for (folder, text) in groups {
        quota(look, &folder, text);
    }
    let limits: Vec<(String, u64)> = look
        .snapshot()
        .below("/sys/fs/cgroup/")
        .filter(|(path, _)| path.ends_with("/memory.max"))
        .filter_map(|(path, text)| Some((path.to_owned(), text.trim().parse().ok()?)))
        .collect();
    for (path, limit) in limits {
        // What 64-bit kernels of version 1 write for "no limit" is beyond any memory.
        let finding = look
            .finding(Level::Note, format!("the memory is limited to {}", bytes(limit)))
            .evidence(path)
            .why("the server sizes itself by this limit; the kernel ends it if it needs more");
        look.report(finding);
    }
}

/// Whether threads are limited to fewer than the server starts.
fn threads(look: &mut Look<'_>) {
    let processors = super::cards::processors(look).len() as u64;
    // Workers, and at most 64 threads for DNS, the store, the admin API and signals.
    let wanted = look.expected().workers(processors).saturating_add(64);
    let limits = look.snapshot().below("/sys/fs/cgroup/").filter(|(path, _)| path.ends_with("/pids.max"));
    let low: Vec<(&str, u64)> = limits
        .filter_map(|(path, text)| Some((path, text.trim().parse().ok()?)))
        .filter(|(_, limit)| *limit < wanted)
        .collect();
    for (path, limit) in low {
        let finding = look
            .finding(Level::Problem, format!("{limit} threads are allowed, the server may start {wanted}"))
            .evidence(path)
            .why("a server that cannot start a thread ends")
            .by_hand("raise TasksMax of the unit, or --pids-limit of the container");
        look.report(finding);
    }
}

fn quota(look: &mut Look<'_>, folder: &str, text: &str) {
    let mut words = text.split_whitespace();
    let quota = words.next().and_then(|word| word.parse::<u64>().ok());
    let (Some(quota), Some(period)) = (quota, words.next().and_then(|word| word.parse::<u64>().ok())) else {
        return;
    };
    let statistics = look.file(&format!("{folder}/cpu.stat")).unwrap_or_default();
    let throttled = field_number(statistics, "nr_throttled").unwrap_or(0);
    let level = if throttled > 0 { Level::Problem } else { Level::Note };
    let cpus = quota as f64 / period.max(1) as f64;
    let finding = look
        .finding(level, format!("processor time is limited to {cpus:.1} processors"))
        .evidence_if(
            (throttled > 0).then(|| format!("nr_throttled {} ({folder}/cpu.stat)", grouped(throttled))),
        )
        .evidence(format!("{folder}/cpu.max: {}", text.trim()))
        .why("a server that has used its quota stops until the next period, and every call is late by that")
        .by_hand("remove the quota, and give the server processors of its own (cpuset) in its place");
    look.report(finding);
}
