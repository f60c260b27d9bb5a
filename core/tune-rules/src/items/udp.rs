//! Memory of UDP sockets.

use crate::finding::Level;
use crate::item::Item;
use crate::look::Look;
use crate::parse::{bytes, field_number, grouped, numbers, paired, udp_drops};

pub(super) const BUFFERS: Item = Item::new(
    "udp_buffers",
    "limits of receive and send buffers",
    "net.core.rmem_max and net.core.wmem_max limit what a program without CAP_NET_ADMIN may ask for. Linux
allows 208 KiB, the traffic of 2,000 calls a second in 20 ms. The server sizes its buffers itself: half a second
of the recent traffic, at least 4 MiB and at most 64 MiB for each socket. The limit must allow that, or
datagrams are lost whenever the process stops for a moment. RcvbufErrors in /proc/net/snmp and the last column
of /proc/net/udp count what was lost. The limit takes no memory. A long queue causes delay, so overload control
drops datagrams that have waited too long.",
    "Limits above the wanted value are not changed. The server sets the size of each socket's buffer.",
    buffers,
);

pub(super) const DEFAULT_BUFFERS: Item = Item::new(
    "udp_default_buffers",
    "default size of socket buffers",
    "net.core.rmem_default is the buffer of every socket that does not set its size. net.ipv4.udp_rmem_min is
what a UDP socket may hold even beyond net.ipv4.udp_mem. Copied tuning files set them to many MiB. Then every
UDP socket of the machine may hold seconds of traffic: answers come after the sender has retransmitted, so a
short peak becomes a long overload. The server sets the size of its buffers and does not use the default.",
    "Defaults up to 4 MiB are not changed.",
    default_buffers,
);

pub(super) const MEMORY: Item = Item::new(
    "udp_memory",
    "memory of all UDP sockets together",
    "net.ipv4.udp_mem has three numbers of pages (mostly 4 KiB), not of bytes: below the first nothing is
limited, above the third datagrams are dropped and MemErrors counts them. Linux takes up to 19 % of memory.
Copied tuning files set numbers of bytes or of larger machines, up to 73 GiB. Then the kernel runs out of memory
before it drops datagrams, and kills processes instead.",
    "Values between the need of the load and half of the memory are not changed.",
    memory,
);

/// What the kernel dropped because buffers of sockets were full.
fn lost(look: &mut Look<'_>) -> Option<String> {
    let snmp = look.file("/proc/net/snmp")?;
    let errors = paired(snmp, "Udp", "RcvbufErrors")?;
    let ports = look.expected().ports();
    let sockets = ["/proc/net/udp", "/proc/net/udp6"];
    let drops: u64 = sockets
        .iter()
        .filter_map(|path| look.file(path))
        .map(|text| udp_drops(text, ports))
        .fold(0, u64::saturating_add);
    if errors == 0 && drops == 0 {
        return None;
    }
    let here = if drops > 0 { format!(", {} at the SIP ports", grouped(drops)) } else { String::new() };
    Some(format!("RcvbufErrors {} since boot{here} (/proc/net/snmp, /proc/net/udp)", grouped(errors)))
}

fn buffers(look: &mut Look<'_>) {
    let lost = lost(look);
    let wanted = [
        ("net.core.rmem_max", look.expected().receive_buffer(), "receive"),
        ("net.core.wmem_max", 4 << 20, "send"),
    ];
    let mut low = false;
    for (name, wanted, kind) in wanted {
        let Some(now) = look.sysctl(name).filter(|now| *now < wanted) else { continue };
        low = true;
        let title =
            format!("{kind} buffers are limited to {}, the server asks for {}", bytes(now), bytes(wanted));
        let mut finding = look.finding(Level::Problem, title).change(look.set(name, wanted));
        finding = match kind {
            "receive" => finding
                .evidence_if(lost.clone())
                .why("datagrams are lost whenever the server stops for a moment, and all senders repeat them at once")
                .measured("docs/performance/tune.md"),
            _ => finding.why("a burst of answers does not fit into the send buffer"),
        };
        finding = finding.evidence_if(look.set_by(name));
        look.report(finding.by_hand("restart the server: it asks for larger buffers at its start"));
    }
    if let Some(lost) = lost.filter(|_| !low) {
        let finding = look
            .finding(Level::Note, "datagrams were lost although the limits are high enough")
            .evidence(lost)
            .why("the server was too slow or stopped; see overload control (`strowger ctl status`)");
        look.report(finding);
    }
}

fn default_buffers(look: &mut Look<'_>) {
    const MOST: u64 = 4 << 20;
    let queue = "queues of seconds make senders retransmit, so a short peak becomes a long overload";
    let floor = "udp_mem protects the memory of the machine no longer: each socket may go beyond it";
    let defaults = [
        ("net.core.rmem_default", 212_992, "receive buffer of every socket that asks for nothing", queue),
        ("net.core.wmem_default", 212_992, "send buffer of every socket that asks for nothing", queue),
        (
            "net.ipv4.udp_rmem_min",
            4_096,
            "memory that a UDP socket may receive into in spite of udp_mem",
            floor,
        ),
        ("net.ipv4.udp_wmem_min", 4_096, "memory that a UDP socket may send from in spite of udp_mem", floor),
    ];
    for (name, default, what, why) in defaults {
        let Some(now) = look.sysctl(name).filter(|now| *now > MOST) else { continue };
        let finding = look
            .finding(Level::Problem, format!("{name} is {}: the {what}", bytes(now)))
            .evidence_if(look.set_by(name))
            .why(why)
            .change(look.set(name, default));
        look.report(finding);
    }
}

fn memory(look: &mut Look<'_>) {
    pages(look, "net.ipv4.udp_mem", "datagrams", udp_default);
}

/// The kernel's own value of udp_mem on a machine with this number of pages (udp_init).
fn udp_default(pages: u64) -> [u64; 3] {
    let limit = (pages / 8).max(128);
    [limit / 4 * 3, limit, limit / 4 * 3 * 2]
}

/// The rule for udp_mem and tcp_mem, which count pages.
pub(super) fn pages(look: &mut Look<'_>, name: &str, what: &str, default: fn(u64) -> [u64; 3]) {
    let Some(now) = look.sysctl_numbers(name) else { return };
    let Some(total) = look.file("/proc/meminfo").and_then(|text| field_number(text, "MemTotal")) else {
        return;
    };
    let (Some(most), memory) = (now.get(2).copied(), total.saturating_mul(1 << 10)) else { return };
    let page = look.snapshot().page();
    let mut wanted = default(memory / page);
    let (is, has) = (bytes(most.saturating_mul(page)), bytes(memory));
    let least =
        if name.ends_with("udp_mem") { look.expected().receive_buffer().saturating_mul(2) / page } else { 0 };
    let (title, why) = if most > memory / page / 2 {
        (
            format!(
                "{name} allows {what} to take {is} ({} pages of {}), the machine has {has}",
                grouped(most),
                bytes(page)
            ),
            "the kernel runs out of memory and ends processes before it drops anything",
        )
    } else if most < least.min(wanted[2]) {
        for (wanted, now) in wanted.iter_mut().zip(&now) {
            *wanted = (*wanted).max(*now);
        }
        (
            format!("{name} limits all {what} together to {is}"),
            "datagrams are dropped although buffers have room",
        )
    } else {
        return;
    };
    let errors = look.snapshot().text("/proc/net/snmp").and_then(|text| paired(text, "Udp", "MemErrors"));
    let errors = errors.filter(|errors| *errors > 0 && name.ends_with("udp_mem"));
    let finding = look
        .finding(Level::Problem, title)
        .evidence_if(
            errors.map(|errors| format!("MemErrors {} since boot (/proc/net/snmp)", grouped(errors))),
        )
        .evidence_if(look.set_by(name))
        .why(why)
        .change(look.set(name, format!("{} {} {}", wanted[0], wanted[1], wanted[2])));
    look.report(finding);
}

/// Whether a value of udp_mem or tcp_mem is beyond the memory of the machine.
pub(super) fn beyond_memory(value: &str, meminfo: &str, page: u64) -> bool {
    let most = numbers(value).and_then(|pages| pages.into_iter().max());
    let total = field_number(meminfo, "MemTotal");
    most.zip(total).is_some_and(|(most, total)| most.saturating_mul(page / 1_024) > total / 2)
}
