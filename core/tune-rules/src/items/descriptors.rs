//! Open files.

use crate::finding::{Change, Level};
use crate::item::Item;
use crate::look::Look;
use crate::parse::{field, grouped};
use crate::snapshot::Snapshot;

pub(super) const DESCRIPTORS: Item = Item::new(
    "descriptors",
    "open files and connections",
    "Each stream connection is an open file. Four limits count: LimitNOFILE of the unit (the server raises its
soft limit to the hard one itself), fs.nr_open, above which no process may go, and fs.file-max for the whole
machine. The wanted value is two for each expected connection, plus a thousand. The second one is for
connections that close while phones reconnect.",
    "Higher limits are not changed. A running server keeps its limit until its next start.",
    descriptors,
);

/// Servers that one finding names.
const SHOWN_SERVERS: usize = 4;

/// What systemd gives a unit that says nothing: the hard limit.
const SYSTEMD_DEFAULT: u64 = 524_288;

fn descriptors(look: &mut Look<'_>) {
    let wanted = look.expected().connections().saturating_mul(2).saturating_add(1_000);
    let connections = grouped(look.expected().connections());
    let why = format!("{connections} connections need {} open files", grouped(wanted));
    look.raise("fs.nr_open", wanted, &why);
    let in_use =
        look.file("/proc/sys/fs/file-nr").and_then(|text| text.split_whitespace().next()?.parse().ok());
    look.raise("fs.file-max", wanted.saturating_add(in_use.unwrap_or(0)), &why);
    let low: Vec<(String, u64)> = running(look).into_iter().filter(|(_, limit)| *limit < wanted).collect();
    if let Some(least) = low.iter().map(|(_, limit)| *limit).min() {
        let mut finding = look
            .finding(Level::Problem, format!("a running server may open only {} files", grouped(least)))
            .why(why.clone())
            .by_hand("raise LimitNOFILE of its unit, or `ulimit -Hn` where it is started, and restart it");
        for (pid, limit) in low.iter().take(SHOWN_SERVERS) {
            finding = finding.evidence(format!("/proc/{pid}/limits: Max open files {limit}"));
        }
        look.report(finding);
    }
    let Some(limit) = unit_limit(look.snapshot()).filter(|limit| *limit < wanted) else { return };
    let finding = look
        .finding(Level::Problem, format!("the unit strowger.service allows {} open files", grouped(limit)))
        .why(why)
        .change(Change::UnitLine { key: "LimitNOFILE", value: wanted.next_multiple_of(1_024).to_string() })
        .by_hand("afterwards: systemctl daemon-reload; systemctl restart strowger");
    look.report(finding);
}

/// The servers that run and the hard limit of each. One whose limits cannot be seen is reported.
fn running(look: &mut Look<'_>) -> Vec<(String, u64)> {
    let limit = |text: &str| {
        let hard = field(text, "Max open files")?.split_whitespace().nth(1)?;
        if hard == "unlimited" { Some(u64::MAX) } else { hard.parse().ok() }
    };
    let servers = look.snapshot().matching("/proc/*/comm").filter(|(_, name)| name.trim() == "strowger");
    let pids: Vec<String> =
        servers.filter_map(|(path, _)| path.split('/').nth(2)).map(str::to_owned).collect();
    let seen = |pid: String| {
        let limit = look.file(&format!("/proc/{pid}/limits")).and_then(limit)?;
        Some((pid, limit))
    };
    pids.into_iter().filter_map(seen).collect()
}

/// The value of a key in the unit of the server and its drop-ins; the last line counts.
pub(super) fn unit_values<'a>(snapshot: &'a Snapshot, key: &str) -> Option<Vec<&'a str>> {
    let places = ["/usr/lib/systemd/system/strowger.service", "/etc/systemd/system/strowger.service"];
    let unit = places.iter().rev().find_map(|path| snapshot.text(path))?;
    let drop_ins = snapshot.matching("/etc/systemd/system/strowger.service.d/*.conf").map(|(_, text)| text);
    let lines = std::iter::once(unit).chain(drop_ins).flat_map(str::lines);
    Some(
        lines
            .filter_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix('='))
            .map(str::trim)
            .collect(),
    )
}

/// The hard limit that the unit gives; `None` if there is no unit.
fn unit_limit(snapshot: &Snapshot) -> Option<u64> {
    let values = unit_values(snapshot, "LimitNOFILE")?;
    let Some(last) = values.last() else { return Some(SYSTEMD_DEFAULT) };
    let hard = last.rsplit(':').next().unwrap_or(last);
    Some(if hard == "infinity" { u64::MAX } else { hard.parse().unwrap_or(SYSTEMD_DEFAULT) })
}
