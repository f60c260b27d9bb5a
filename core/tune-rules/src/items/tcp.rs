//! TCP.

use crate::finding::Level;
use crate::item::Item;
use crate::look::Look;
use crate::parse::{bytes, field_number, grouped, paired};
use crate::paths::OWN_SYSCTL_FILE;
use crate::sysctl::{SysctlLine, lines_for};

pub(super) const BACKLOG: Item = Item::new(
    "tcp_backlog",
    "connections that wait to be accepted",
    "After an outage all phones connect at once. net.core.somaxconn limits how many connections wait until the
server accepts them. The server asks for 4,096 for each worker. Further connections are dropped, and the phone tries
again after 1, 3 and 7 seconds. ListenOverflows in /proc/net/netstat counts that. net.ipv4.tcp_syncookies lets
the kernel answer without memory when too many handshakes are in progress. With it, which is the default,
net.ipv4.tcp_max_syn_backlog has no effect, so raising that helps only where SYN cookies are off. With
net.ipv4.tcp_abort_on_overflow the kernel resets connections that would otherwise only wait.",
    "Larger backlogs are not changed, and neither is the value that always sends SYN cookies (2).",
    backlog,
);

pub(super) const MEMORY: Item = Item::new(
    "tcp_memory",
    "memory of TCP connections",
    "net.ipv4.tcp_mem limits all connections together, in pages of mostly 4 KiB. The second number of net.ipv4.tcp_rmem and
tcp_wmem is the buffer with which a connection starts; the kernel lets it grow. SIP's connections are many and idle, and
a message has a few KiB. Copied tuning files start each connection with many MiB: a few thousand slow peers can then take
the whole memory.",
    "The first and the third number are not changed, and neither are starting buffers up to 1 MiB.",
    memory,
);

pub(super) const KEEPALIVE: Item = Item::new(
    "tcp_keepalive",
    "connections of phones that are gone",
    "The server turns on keepalives for each connection. Linux sends the first after
net.ipv4.tcp_keepalive_time, two hours. A phone that lost its network holds its connection for that long, and
calls to it wait for a timeout. With 900, the connection ends after 26 minutes: 15 until the first keepalive,
and 11 for nine of them without an answer.",
    "Shorter times are not changed. Phones on batteries wake for each keepalive, so this is advice.",
    keepalive,
);

pub(super) const ORPHANS: Item = Item::new(
    "tcp_orphans",
    "connections that are closing",
    "When the server stops, all its connections close at once. Connections that no program holds are orphans.
Beyond net.ipv4.tcp_max_orphans the kernel resets them. Closed connections wait for a minute, at most
net.ipv4.tcp_max_tw_buckets of them. Others end at once, so late packets of an old connection may reach a new
one.",
    "Larger limits are not changed.",
    orphans,
);

pub(super) const FEATURES: Item = Item::new(
    "tcp_features",
    "options of TCP that copied tuning files turn off",
    "net.ipv4.tcp_timestamps, tcp_sack and tcp_window_scaling are on in every Linux. Files copied from the
network turn them off to save bytes or time. Without timestamps, round trips are measured badly and old segments
are accepted after sequence numbers wrap. Without SACK, one loss costs several round trips. Where SYN cookies
are needed, connections without timestamps lose SACK and window scaling as well. The savings are not measurable.",
    "Values other than 0 are not changed.",
    features,
);

pub(super) const PORTS: Item = Item::new(
    "ports",
    "ports of outgoing connections",
    "net.ipv4.ip_local_port_range has the ports that the kernel gives to outgoing connections; 28,232 by default for
each pair of addresses. A range such as 1024 to 65535 contains the ports of SIP: an outgoing connection of any program
may then hold port 5060, and the server cannot start. net.ipv4.ip_local_reserved_ports keeps ports out of the range.",
    "A range is only widened, and ports are only added to the reserved ones, which include those of other files.",
    ports,
);

/// What the server asks for when it listens, for each worker.
const BACKLOG_OF_SERVER: u64 = 4_096;

fn backlog(look: &mut Look<'_>) {
    let netstat = look.file("/proc/net/netstat").unwrap_or_default();
    let count = |name| {
        let count = paired(netstat, "TcpExt", name).filter(|count| *count > 0)?;
        Some(format!("{name} {} since boot (/proc/net/netstat)", grouped(count)))
    };
    let mut queues = vec![(
        "net.core.somaxconn",
        "ListenOverflows",
        "connections that wait until the server accepts them",
    )];
    // With SYN cookies, which are the default, the kernel does not look at this limit.
    if look.sysctl("net.ipv4.tcp_syncookies") == Some(0) {
        queues.push(("net.ipv4.tcp_max_syn_backlog", "TCPReqQFullDrop", "handshakes under way"));
    }
    for (name, counter, what) in queues {
        let Some(now) = look.sysctl(name).filter(|now| *now < BACKLOG_OF_SERVER) else { continue };
        let title = format!("{name} allows {now} {what}, the server asks for {BACKLOG_OF_SERVER}");
        let finding = look
            .finding(Level::Problem, title)
            .evidence_if(count(counter))
            .evidence_if(look.set_by(name))
            .why("connections that do not fit are dropped, and phones try again after seconds")
            .change(look.set(name, BACKLOG_OF_SERVER));
        look.report(finding);
    }
    let switches = [
        ("net.ipv4.tcp_syncookies", 0, 1, "a full queue of handshakes refuses every new phone"),
        (
            "net.ipv4.tcp_abort_on_overflow",
            1,
            0,
            "phones are reset in a burst that would have passed in a second",
        ),
    ];
    for (name, bad, good, why) in switches {
        switch(look, name, bad, good, why);
    }
}

/// Reports a switch that is on the wrong side.
fn switch(look: &mut Look<'_>, name: &str, bad: u64, good: u64, why: &str) {
    if look.sysctl(name) == Some(bad) {
        let finding = look
            .finding(Level::Problem, format!("{name} is {bad}"))
            .evidence_if(look.set_by(name))
            .why(why)
            .change(look.set(name, good));
        look.report(finding);
    }
}

fn memory(look: &mut Look<'_>) {
    super::udp::pages(look, "net.ipv4.tcp_mem", "TCP connections", tcp_default);
    for (name, default) in [("net.ipv4.tcp_rmem", 131_072), ("net.ipv4.tcp_wmem", 16_384)] {
        let Some(&[least, start, most]) = look.sysctl_numbers(name).as_deref() else { continue };
        if start <= 1 << 20 {
            continue;
        }
        let total = look.file("/proc/meminfo").and_then(|text| field_number(text, "MemTotal")).unwrap_or(0);
        let connections = look.expected().connections();
        let finding = look
            .finding(Level::Problem, format!("{name} starts each connection with {}", bytes(start)))
            .evidence(format!(
                "{} connections may take {}, the machine has {}",
                grouped(connections),
                bytes(connections.saturating_mul(start)),
                bytes(total.saturating_mul(1 << 10))
            ))
            .evidence_if(look.set_by(name))
            .why("slow peers take the memory; a SIP message has a few KiB")
            .change(look.set(name, format!("{least} {default} {}", most.max(default))));
        look.report(finding);
    }
}

/// The kernel's own value of tcp_mem on a machine with this number of pages (tcp_init_mem).
fn tcp_default(pages: u64) -> [u64; 3] {
    let limit = (pages / 16).max(128);
    [limit / 4 * 3, limit, limit / 4 * 3 * 2]
}

fn keepalive(look: &mut Look<'_>) {
    let name = "net.ipv4.tcp_keepalive_time";
    let Some(now) = look.sysctl(name).filter(|now| *now > 900) else { return };
    let finding = look
        .finding(Level::Advice, format!("a phone that is gone holds its connection for {} minutes", now / 60))
        .evidence_if(look.set_by(name))
        .why("calls to it wait for a timeout, and its descriptor stays in use")
        .change(look.set(name, 900));
    look.report(finding);
}

fn orphans(look: &mut Look<'_>) {
    let netstat = look.file("/proc/net/netstat").unwrap_or_default();
    let count = |name| paired(netstat, "TcpExt", name).filter(|count| *count > 0);
    let wanted = look.expected().connections().next_power_of_two().max(8_192);
    let limits = [
        (
            "net.ipv4.tcp_max_orphans",
            "TCPAbortOnMemory",
            "a server that stops resets connections in place of closing them",
        ),
        (
            "net.ipv4.tcp_max_tw_buckets",
            "TCPTimeWaitOverflow",
            "late packets of an old connection may reach a new one",
        ),
    ];
    for (name, counter, why) in limits {
        let Some(now) = look.sysctl(name).filter(|now| *now < wanted) else { continue };
        let finding = look
            .finding(
                Level::Problem,
                format!("{name} is {}, fewer than the expected connections", grouped(now)),
            )
            .evidence_if(
                count(counter).map(|n| format!("{counter} {} since boot (/proc/net/netstat)", grouped(n))),
            )
            .evidence_if(look.set_by(name))
            .why(why)
            .change(look.set(name, wanted));
        look.report(finding);
    }
}

fn features(look: &mut Look<'_>) {
    switch(
        look,
        "net.ipv4.tcp_timestamps",
        0,
        1,
        "round trips are measured badly, and segments of old connections may be accepted",
    );
    switch(
        look,
        "net.ipv4.tcp_tw_recycle",
        1,
        0,
        "phones behind one NAT are refused; Linux removed it in 4.12",
    );
    switch(look, "net.ipv4.tcp_sack", 0, 1, "one lost packet costs several round trips");
    switch(
        look,
        "net.ipv4.tcp_window_scaling",
        0,
        1,
        "a connection carries at most 64 KiB for each round trip",
    );
}

fn ports(look: &mut Look<'_>) {
    let name = "net.ipv4.ip_local_port_range";
    let Some(&[first, last]) = look.sysctl_numbers(name).as_deref() else { return };
    let count = last.saturating_add(1).saturating_sub(first);
    if count < 28_232 {
        let finding = look
            .finding(Level::Problem, format!("{name} has {} ports, Linux gives 28,232", grouped(count)))
            .evidence_if(look.set_by(name))
            .why("connections to one server fail when all ports are in use")
            .change(look.set(name, format!("{} {}", first.min(32_768), last.max(60_999))));
        look.report(finding);
    }
    reserved_ports(look, first, last);
}

/// The rule for ports of the server in the range, and for ports that other files reserve. The setting is one
/// list, so the last file replaces what earlier ones reserve.
fn reserved_ports(look: &mut Look<'_>, first: u64, last: u64) {
    let name = "net.ipv4.ip_local_reserved_ports";
    let now = look.file(&crate::path_of(name)).unwrap_or_default().trim();
    let lines: Vec<&SysctlLine> = lines_for(look.lines(), name).collect();
    let mut all: Vec<String> = Vec::new();
    let lists = std::iter::once(now).chain(lines.iter().map(|line| line.value()));
    lists.for_each(|list| reserve(&mut all, list));
    let held = ranges(&all.join(","));
    let is_free = |port: &&u16| {
        (first..=last).contains(&u64::from(**port)) && !covers(&held, (u64::from(**port), u64::from(**port)))
    };
    let exposed: Vec<String> = look.expected().ports().iter().filter(is_free).map(u16::to_string).collect();
    let mut dropped: Vec<String> = Vec::new();
    if let Some((ours, others)) = lines.split_last().filter(|(line, _)| line.file() == OWN_SYSCTL_FILE) {
        let kept = ranges(ours.value());
        others.iter().for_each(|line| reserve(&mut dropped, line.value()));
        dropped.retain(|part| ranges(part).iter().any(|range| !covers(&kept, *range)));
    }
    let (title, why) = if !exposed.is_empty() {
        (
            format!("outgoing connections may take the SIP ports {}", exposed.join(", ")),
            "a server that restarts cannot listen on a port that an outgoing connection holds",
        )
    } else if !dropped.is_empty() {
        (
            format!("{OWN_SYSCTL_FILE} drops the ports {}, which another file reserves", dropped.join(", ")),
            "the last file that has the setting replaces the lists of the others at boot",
        )
    } else {
        return;
    };
    all.extend(exposed);
    let finding = look
        .finding(Level::Problem, title)
        .evidence(format!("net.ipv4.ip_local_port_range = {first} {last}"))
        .evidence_if(look.set_by("net.ipv4.ip_local_port_range"))
        .why(why)
        .change(look.set(name, all.join(",")));
    look.report(finding);
}

/// Adds the parts of a list of ports that are not in another one.
fn reserve(all: &mut Vec<String>, list: &str) {
    for part in list.split(',').map(str::trim) {
        let held = ranges(&all.join(","));
        if ranges(part).iter().any(|range| !covers(&held, *range)) {
            all.push(part.to_owned());
        }
    }
}

/// Whether one of the ranges contains another one.
fn covers(ranges: &[(u64, u64)], (from, to): (u64, u64)) -> bool {
    ranges.iter().any(|(first, last)| *first <= from && to <= *last)
}

/// The ranges of a list such as `8080,9000-9010`.
fn ranges(list: &str) -> Vec<(u64, u64)> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
    };
    list.split(',').filter_map(range).collect()
}
