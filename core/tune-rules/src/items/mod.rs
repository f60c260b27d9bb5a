//! The items and their rules.

mod cards;
mod conntrack;
mod cpu;
mod descriptors;
mod folklore;
mod interrupts;
mod memory;
mod neighbours;
mod privileges;
mod softirq;
mod tcp;
mod udp;

use crate::expected::Expected;
use crate::finding::Finding;
use crate::item::Item;
use crate::look::Look;
use crate::rights::Rights;
use crate::snapshot::Snapshot;
use crate::sysctl::sysctl_lines;

/// All items, in the order of a report.
pub const ITEMS: &[Item] = &[
    descriptors::DESCRIPTORS,
    udp::BUFFERS,
    udp::DEFAULT_BUFFERS,
    udp::MEMORY,
    tcp::BACKLOG,
    tcp::MEMORY,
    tcp::KEEPALIVE,
    tcp::ORPHANS,
    tcp::FEATURES,
    tcp::PORTS,
    cards::RECEIVE_HASH,
    cards::QUEUES,
    interrupts::INTERRUPTS,
    interrupts::PACKET_STEERING,
    cards::RINGS,
    cards::COALESCING,
    softirq::SOFTIRQ,
    softirq::BUSY_POLL,
    conntrack::CONNTRACK,
    conntrack::SIP_HELPER,
    neighbours::NEIGHBOURS,
    cpu::GOVERNOR,
    cpu::IDLE_STATES,
    cpu::MITIGATIONS,
    cpu::STEAL,
    cpu::NUMA,
    cpu::CLOCK,
    memory::HUGE_PAGES,
    memory::OVERCOMMIT,
    memory::SWAP,
    memory::CONTROL_GROUP,
    privileges::BPF,
    privileges::SCTP,
    folklore::SYSCTL_FILES,
];

/// The item with this name.
pub fn item(name: &str) -> Option<&'static Item> {
    ITEMS.iter().find(|item| item.name() == name)
}

/// What all rules find, by item.
pub fn check(snapshot: &Snapshot, expected: &Expected) -> Vec<Finding> {
    let rights = Rights::of(snapshot);
    let lines = sysctl_lines(snapshot);
    let mut findings = Vec::new();
    for item in ITEMS {
        let mut look = Look::new(item.name(), snapshot, expected, &rights, &lines);
        item.run(&mut look);
        findings.extend(look.finish());
    }
    findings
}
