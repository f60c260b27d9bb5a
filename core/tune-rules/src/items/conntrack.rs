//! The kernel's connection tracking.

use crate::finding::Level;
use crate::item::Item;
use crate::look::Look;
use crate::parse::grouped;

pub(super) const CONNTRACK: Item = Item::new(
    "conntrack",
    "connection tracking",
    "A stateful firewall on the server keeps an entry for each phone. When the table is full, packets of new
phones are dropped; /proc/net/stat/nf_conntrack counts that (drop, early_drop, insert_failed). An entry of UDP
ends after nf_conntrack_udp_timeout, or nf_conntrack_udp_timeout_stream once both sides have sent. These times
must be above the interval in which phones send keepalives, or calls to phones behind NAT meet a closed
firewall. It is best not to track SIP: two nftables rules with `notrack` cost less than the entries.",
    "Firewall rules are never changed. A larger table and longer times are kept.",
    conntrack,
);

pub(super) const SIP_HELPER: Item = Item::new(
    "sip_helper",
    "the kernel's SIP helper (ALG)",
    "nf_conntrack_sip and nf_nat_sip read SIP messages and rewrite addresses in them. They implement little of
SIP. They damage messages over TCP and protected fields, and break phones that work without them. Routers call
this SIP ALG.",
    "Modules are not unloaded: a firewall rule may use them.",
    sip_helper,
);

fn conntrack(look: &mut Look<'_>) {
    // Without an entry, connection tracking is not in the path.
    let count_name = "net.netfilter.nf_conntrack_count";
    let Some(count) = look.sysctl(count_name).filter(|count| *count > 0) else { return };
    let statistics = look.file("/proc/net/stat/nf_conntrack").unwrap_or_default();
    let lost = ["drop", "early_drop", "insert_failed"]
        .iter()
        .map(|name| hex_column(statistics, name))
        .fold(0, u64::saturating_add);
    let lost = (lost > 0).then(|| {
        format!(
            "{} entries were refused or ended early since boot (/proc/net/stat/nf_conntrack)",
            grouped(lost)
        )
    });
    let wanted = look.expected().connections().saturating_mul(4).max(65_536).next_power_of_two();
    if let Some(most) = look.sysctl("net.netfilter.nf_conntrack_max").filter(|most| *most < wanted) {
        let finding = look
            .finding(Level::Problem, format!("connection tracking has room for {} entries", grouped(most)))
            .evidence_if(lost.clone())
            .evidence(format!("{count_name} = {count}: tracking is in the path"))
            .evidence_if(look.set_by("net.netfilter.nf_conntrack_max"))
            .why("when the table is full, packets of new phones are dropped")
            .change(look.set("net.netfilter.nf_conntrack_max", wanted));
        look.report(finding);
    } else if let Some(lost) = lost {
        let finding = look
            .finding(
                Level::Note,
                "connection tracking refused entries although its table is large enough now",
            )
            .evidence(lost);
        look.report(finding);
    }
    let times = [
        ("net.netfilter.nf_conntrack_udp_timeout", 30),
        ("net.netfilter.nf_conntrack_udp_timeout_stream", 120),
    ];
    for (name, wanted) in times {
        look.raise(
            name,
            wanted,
            "phones send keepalives every 30 s or so; the firewall must not forget them before",
        );
    }
    let ports = look.expected().ports().iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let finding = look
        .finding(Level::Note, "connection tracking is in the path of SIP")
        .evidence(format!("{count_name} = {}", grouped(count)))
        .why("each entry costs memory and time; SIP needs none")
        .by_hand("nft add table inet sip")
        .by_hand("nft 'add chain inet sip in { type filter hook prerouting priority raw; }'")
        .by_hand("nft 'add chain inet sip out { type filter hook output priority raw; }'")
        .by_hand(format!("nft 'add rule inet sip in udp dport {{ {ports} }} notrack'"))
        .by_hand(format!("nft 'add rule inet sip out udp sport {{ {ports} }} notrack'"))
        .by_hand("the firewall must then accept SIP without asking for the state of a connection");
    look.report(finding);
}

/// The sum over processors of a column of hexadecimal numbers under its name.
pub(super) fn hex_column(text: &str, name: &str) -> u64 {
    let mut lines = text.lines();
    let at = lines.next().and_then(|names| names.split_whitespace().position(|column| column == name));
    let Some(at) = at else { return 0 };
    let number = |line: &str| u64::from_str_radix(line.split_whitespace().nth(at)?, 16).ok();
    lines.filter_map(number).fold(0, u64::saturating_add)
}

fn sip_helper(look: &mut Look<'_>) {
    let modules = look.file("/proc/modules").unwrap_or_default();
    let loaded = |name: &str| modules.lines().any(|line| line.split_whitespace().next() == Some(name));
    let present: Vec<&str> =
        ["nf_nat_sip", "nf_conntrack_sip"].into_iter().filter(|name| loaded(name)).collect();
    // Linux 6.0 removed it.
    let automatic = look.snapshot().word("/proc/sys/net/netfilter/nf_conntrack_helper") == Some("1");
    if !present.is_empty() || automatic {
        let title = match present.as_slice() {
            [] => "net.netfilter.nf_conntrack_helper is 1: the kernel's SIP helper takes all packets to port 5060".to_owned(),
            names => format!("the kernel's SIP helper is loaded ({})", names.join(", ")),
        };
        let finding = look
            .finding(Level::Problem, title)
            .why("it rewrites SIP messages, and breaks calls that work without it")
            .by_hand("find the rule that uses it: nft list ruleset | grep -i sip")
            .by_hand("modprobe -r nf_nat_sip nf_conntrack_sip")
            .by_hand("printf 'blacklist nf_conntrack_sip\\nblacklist nf_nat_sip\\n' > /etc/modprobe.d/no-sip-helper.conf");
        look.report(finding);
    }
}
