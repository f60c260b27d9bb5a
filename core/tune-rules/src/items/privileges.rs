//! What the kernel must allow the server: eBPF and SCTP.

use super::descriptors::unit_values;
use crate::finding::{Change, Level};
use crate::item::Item;
use crate::look::Look;

pub(super) const BPF: Item = Item::new(
    "bpf",
    "privileges for eBPF",
    "The server's steering and its filter in an overload are eBPF programs. They need Linux 6.1, CAP_BPF and
CAP_PERFMON at the start; the server drops the privileges afterwards. Without them, workers hand datagrams over
a ring, which costs more. kernel.unprivileged_bpf_disabled does not matter to a process with CAP_BPF.",
    "Capabilities are added to the unit strowger.service only. kernel.unprivileged_bpf_disabled is a protection
and is not changed.",
    bpf,
);

pub(super) const SCTP: Item = Item::new(
    "sctp",
    "the SCTP module",
    "Listeners of SCTP need the kernel's module. Hardening guides forbid it with a line in /etc/modprobe.d. This item names
the file and line.",
    "Lines in modprobe.d are not changed, and no module is loaded.",
    sctp,
);

/// What the server's programs need.
const WANTED: [&str; 2] = ["CAP_BPF", "CAP_PERFMON"];

fn bpf(look: &mut Look<'_>) {
    if !look.expected().kernel_steering() {
        return;
    }
    let release = look.file("/proc/sys/kernel/osrelease").unwrap_or_default().trim();
    let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u64>().ok());
    if let (Some(major), Some(minor)) = (parts.next(), parts.next())
        && (major, minor) < (6, 1)
    {
        let finding = look
            .finding(Level::Note, format!("Linux {release} is too old for the server's eBPF programs"))
            .why("steering by the kernel and the filter in an overload need Linux 6.1");
        look.report(finding);
        return;
    }
    let Some(ambient) = unit_values(look.snapshot(), "AmbientCapabilities") else { return };
    let bounding = unit_values(look.snapshot(), "CapabilityBoundingSet").unwrap_or_default();
    let has = |values: &[&str], name: &str| {
        values.iter().any(|line| line.split_whitespace().any(|word| word == name))
    };
    let lacks = |values: &[&str]| WANTED.iter().any(|name| !has(values, name));
    let user = unit_values(look.snapshot(), "User").unwrap_or_default();
    let root = user.last().is_none_or(|user| *user == "root");
    let (no_ambient, no_bounding) = (!root && lacks(&ambient), !bounding.is_empty() && lacks(&bounding));
    if !no_ambient && !no_bounding {
        return;
    }
    let mut finding = look
        .finding(Level::Problem, "the unit strowger.service gives no CAP_BPF and CAP_PERFMON")
        .why("workers hand datagrams over a ring, which costs more, and an overload is filtered by the server itself")
        .by_hand("afterwards: systemctl daemon-reload; systemctl restart strowger");
    for (key, add) in [("AmbientCapabilities", no_ambient), ("CapabilityBoundingSet", no_bounding)] {
        if add {
            finding = finding.change(Change::UnitLine { key, value: WANTED.join(" ") });
        }
    }
    look.report(finding);
}

fn sctp(look: &mut Look<'_>) {
    let modules = look.file("/proc/modules").unwrap_or_default();
    let loaded = modules.lines().any(|line| line.starts_with("sctp "));
    let present = look.snapshot().text("/proc/sys/net/sctp/max_init_retransmits").is_some();
    if !look.expected().sctp() || loaded || present {
        return;
    }
    let mut places = Vec::new();
    for pattern in ["/etc/modprobe.d/*.conf", "/run/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf"] {
        for (path, text) in look.snapshot().matching(pattern) {
            for (at, line) in text.lines().enumerate() {
                let words: Vec<&str> = line.split_whitespace().collect();
                if matches!(words.as_slice(), ["blacklist" | "install", "sctp", ..]) {
                    places.push(format!("{path}:{}: {}", at + 1, line.trim()));
                }
            }
        }
    }
    let (level, why) = match places.is_empty() {
        true => (Level::Note, "the kernel loads it when the server opens a listener, if it has it"),
        false => (Level::Problem, "a rule forbids it, so listeners of SCTP fail"),
    };
    let mut finding = look.finding(level, "the SCTP module is not loaded").why(why);
    for place in places {
        finding = finding
            .by_hand(format!("remove the line {}", place.split(": ").next().unwrap_or_default()))
            .evidence(place);
    }
    look.report(finding);
}
