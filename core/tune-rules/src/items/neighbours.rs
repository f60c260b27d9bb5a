//! The table of directly attached devices.

use super::conntrack::hex_column;
use crate::finding::Level;
use crate::item::Item;
use crate::look::Look;
use crate::parse::grouped;

pub(super) const NEIGHBOURS: Item = Item::new(
    "neighbours",
    "directly attached phones",
    "The kernel keeps the hardware address of each device on its own networks, at most gc_thresh3 of them (1,024). With
more phones on one network, packets to some are dropped; /proc/net/stat/arp_cache counts that in its last column.
Phones behind a router do not count.",
    "Nothing is changed while the table is less than half full: phones behind routers need no entry.",
    neighbours,
);

fn neighbours(look: &mut Look<'_>) {
    let table = look.file("/proc/net/arp").unwrap_or_default();
    let entries = table.lines().count().saturating_sub(1) as u64;
    let full = hex_column(look.file("/proc/net/stat/arp_cache").unwrap_or_default(), "table_fulls");
    for family in ["ipv4", "ipv6"] {
        let name = format!("net.{family}.neigh.default.gc_thresh3");
        let Some(most) = look.sysctl(&name) else { continue };
        let counts = family == "ipv4" && (entries.saturating_mul(2) > most || full > 0);
        let wanted = entries.saturating_mul(4).clamp(8_192, 1 << 30).next_power_of_two();
        if !counts || most >= wanted {
            continue;
        }
        let mut finding = look
            .finding(
                Level::Problem,
                format!("{name} is {most}, and {} neighbours are known", grouped(entries)),
            )
            .evidence_if(
                (full > 0)
                    .then(|| format!("table_fulls {} since boot (/proc/net/stat/arp_cache)", grouped(full))),
            )
            .evidence_if(look.set_by(&name))
            .why("packets to phones that do not fit into the table are dropped")
            .change(look.set(&name, wanted));
        for (number, wanted) in [(2, wanted / 2), (1, wanted / 4)] {
            let name = format!("net.{family}.neigh.default.gc_thresh{number}");
            if look.sysctl(&name).is_some_and(|now| now < wanted) {
                finding = finding.change(look.set(&name, wanted));
            }
        }
        look.report(finding);
    }
}
