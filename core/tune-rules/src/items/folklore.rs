//! Lines of sysctl files that harm or do nothing.

use crate::finding::Level;
use crate::item::Item;
use crate::look::Look;
use crate::parse::{bytes, numbers};
use crate::sysctl::SysctlLine;

pub(super) const SYSCTL_FILES: Item = Item::new(
    "sysctl_files",
    "harmful lines in sysctl.conf and sysctl.d",
    "Copied tuning files for SIP servers often have harmful lines: udp_mem in bytes in place of pages, defaults
of many MiB for every socket, TCP without timestamps, tcp_tw_recycle. This item reads /etc/sysctl.conf and the
folders sysctl.d in /etc, /run, /usr/local/lib and /usr/lib, and explains such lines with file and line.",
    "Other files are not changed: remove the line yourself. The items udp_default_buffers, udp_memory,
tcp_memory and tcp_features correct the current values.",
    sysctl_files,
);

/// What is wrong with a line, and why.
type Fault = (Level, String);

fn sysctl_files(look: &mut Look<'_>) {
    for line in look.lines() {
        if line.file() == crate::OWN_SYSCTL_FILE {
            continue;
        }
        let Some((level, why)) = fault(look, line) else { continue };
        let place = line.place();
        let finding = look
            .finding(level, format!("{place} sets {} = {}", line.name(), line.value()))
            .why(why)
            .by_hand(format!("remove the line {place}"));
        look.report(finding);
    }
}

fn fault(look: &Look<'_>, line: &SysctlLine) -> Option<Fault> {
    let (name, value) = (line.name(), line.value());
    let number = numbers(value).and_then(|all| all.first().copied());
    let meminfo = look.snapshot().text("/proc/meminfo").unwrap_or_default();
    let page = look.snapshot().page();
    let problem = |why: String| Some((Level::Problem, why));
    let note = |why: &str| Some((Level::Note, why.to_owned()));
    match (name, number) {
        ("net.ipv4.udp_mem" | "net.ipv4.tcp_mem", _) if super::udp::beyond_memory(value, meminfo, page) => {
            let most = numbers(value).and_then(|all| all.into_iter().max()).unwrap_or(0);
            let size = bytes(most.saturating_mul(page));
            problem(format!("the value counts pages of {}, so it is {size}, more than half of this machine's memory", bytes(page)))
        }
        ("net.ipv4.tcp_tw_recycle", _) => problem(
            "Linux removed it in 4.12, so the line only makes sysctl fail. Before, it refused phones behind one NAT".into(),
        ),
        ("net.ipv4.tcp_timestamps" | "net.ipv4.tcp_sack" | "net.ipv4.tcp_window_scaling", Some(0)) => {
            problem("turning it off saves nothing and makes TCP slower after a loss".into())
        }
        ("net.core.rmem_default" | "net.core.wmem_default", Some(size)) if size > 4 << 20 => {
            let size = bytes(size);
            problem(format!("every socket of this machine may queue {size}: seconds of traffic, which senders repeat"))
        }
        ("net.ipv4.udp_rmem_min" | "net.ipv4.udp_wmem_min", Some(size)) if size > 4 << 20 => {
            problem(format!("each socket may take {} in spite of udp_mem, which protects the memory", bytes(size)))
        }
        ("net.ipv4.tcp_rmem" | "net.ipv4.tcp_wmem", _) => {
            let start = numbers(value).and_then(|all| all.get(1).copied()).filter(|start| *start > 1 << 20)?;
            problem(format!("each connection starts with {}: a few thousand slow peers take the memory", bytes(start)))
        }
        ("net.core.netdev_max_backlog", Some(packets)) if packets > 100_000 => {
            problem("a queue of that length delays packets for longer than senders wait before they repeat".into())
        }
        ("net.ipv4.tcp_syncookies", Some(0)) => problem("a full queue of handshakes refuses every new phone".into()),
        ("net.ipv4.tcp_abort_on_overflow", Some(1)) => {
            problem("phones are reset in a burst that would have passed in a second".into())
        }
        ("net.ipv4.tcp_low_latency" | "net.ipv4.tcp_fack" | "net.ipv4.tcp_max_ssthresh", Some(_)) => {
            note("the kernel ignores this setting")
        }
        _ => None,
    }
}
