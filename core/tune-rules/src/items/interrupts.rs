//! Which processors handle a card's packets.

use super::cards::{live_cards, processors, queue_names, setting};
use crate::finding::Level;
use crate::item::Item;
use crate::look::Look;
use crate::parse::{cpu_list, cpu_mask, interrupts, mask_cpus};

pub(super) const INTERRUPTS: Item = Item::new(
    "interrupts",
    "processors that a card interrupts",
    "Each queue of a card interrupts one processor. Where all queues interrupt the same one, it does the kernel's work for
all workers. On a machine with more than 16 processors, keep one for each 16 free of workers (`pin` in strowger.toml) and
let the card interrupt those.
irqbalance moves interrupts by itself and undoes what others set: exclude the card's interrupts there.",
    "The configuration of irqbalance is not changed, and it is not stopped: it serves other cards and disks as well.",
    interrupts_rule,
);

pub(super) const PACKET_STEERING: Item = Item::new(
    "packet_steering",
    "packet steering in the kernel (RPS, RFS, XPS)",
    "RPS spreads the packets of a queue over processors: rps_cpus is a mask. It helps where a card has fewer
queues than there are workers. Where the server's eBPF program chooses the worker's socket, RPS moves each
packet once more without benefit. RFS (rps_flow_cnt) sends packets where the program that reads the flow ran
last; a SIP worker reads all of its flows from one socket, so RFS has a cost and no benefit. XPS (xps_cpus)
gives each processor a queue to send on.",
    "Masks that spread packets of several queues are not changed if the server does not steer.",
    packet_steering,
);

fn interrupts_rule(look: &mut Look<'_>) {
    let cpus = processors(look);
    let counts = look.file("/proc/interrupts").map(interrupts).unwrap_or_default();
    if cpus.len() < 2 {
        return;
    }
    for card in live_cards(look) {
        let mut irqs = card_irqs(look, &card);
        // Interrupts for changes of configuration never come.
        irqs.retain(|irq| counts.get(irq).is_some_and(|row| row.iter().any(|(_, count)| *count > 0)));
        let places: Vec<Vec<u32>> = irqs
            .iter()
            .filter_map(|irq| look.file(&format!("/proc/irq/{irq}/smp_affinity_list")).and_then(cpu_list))
            .collect();
        let Some(first) = places.first().filter(|place| place.len() == 1) else { continue };
        if irqs.len() < 2 || places.len() != irqs.len() || places.iter().any(|place| place != first) {
            continue;
        }
        let mut finding = look
            .finding(
                Level::Problem,
                format!("all {} interrupts of {card} go to processor {}", irqs.len(), first[0]),
            )
            .evidence(share(&counts, &irqs))
            .why("one processor does the kernel's work for all workers");
        if let Some(pid) = look.snapshot().process("irqbalance") {
            let ban: Vec<String> = irqs.iter().map(|irq| format!("--banirq={irq}")).collect();
            finding = finding.evidence(format!("irqbalance runs (process {pid})")).by_hand(format!(
                "add {} to IRQBALANCE_ARGS in /etc/default/irqbalance, or it moves them again",
                ban.join(" ")
            ));
        }
        // One processor for each 16 is for interrupts, where there are that many.
        let step = if cpus.len() > 16 { 16 } else { 1 };
        let targets: Vec<u32> = cpus.iter().copied().step_by(step).collect();
        if step > 1 {
            let list = targets.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            finding =
                finding.by_hand(format!("keep workers off the processors {list}: `pin` in strowger.toml"));
        }
        for (irq, cpu) in irqs.iter().zip(targets.iter().cycle()) {
            let path = format!("/proc/irq/{irq}/smp_affinity_list");
            if look.snapshot().word(&path) != Some(&cpu.to_string()) {
                finding = finding.change(look.set_path(&path, cpu));
            }
        }
        look.report(finding);
    }
}

/// The numbers of a card's interrupts. Those of a virtio card belong to the device above it.
fn card_irqs(look: &Look<'_>, card: &str) -> Vec<u32> {
    let mut irqs = Vec::new();
    for folder in ["msi_irqs", "../msi_irqs"] {
        let pattern = format!("/sys/class/net/{card}/device/{folder}/*");
        let names =
            look.snapshot().matching(&pattern).filter_map(|(path, _)| path.rsplit('/').next()?.parse().ok());
        irqs.extend(names.collect::<Vec<u32>>());
    }
    irqs.sort_unstable();
    irqs.dedup();
    irqs
}

/// Which processor has how much of the interrupts.
fn share(counts: &std::collections::BTreeMap<u32, Vec<(u32, u64)>>, irqs: &[u32]) -> String {
    let mut by_cpu = std::collections::BTreeMap::new();
    for (cpu, count) in irqs.iter().filter_map(|irq| counts.get(irq)).flatten() {
        let sum = by_cpu.entry(*cpu).or_insert(0u64);
        *sum = sum.saturating_add(*count);
    }
    let total: u64 = by_cpu.values().copied().fold(0, u64::saturating_add);
    let (cpu, most) = by_cpu.into_iter().max_by_key(|(_, count)| *count).unwrap_or((0, 0));
    format!(
        "processor {cpu} took {} % of them since boot (/proc/interrupts)",
        most.saturating_mul(100) / total.max(1)
    )
}

fn packet_steering(look: &mut Look<'_>) {
    let cpus = processors(look);
    let workers = look.expected().workers(cpus.len() as u64);
    for card in live_cards(look) {
        receive(look, &card, &cpus, workers);
        send(look, &card, &cpus);
    }
    let name = "net.core.rps_sock_flow_entries";
    if let Some(now) = look.sysctl(name).filter(|now| *now > 0) {
        let finding = look
            .finding(Level::Advice, format!("{name} is {now}: RFS is on"))
            .evidence_if(look.set_by(name))
            .why("a worker reads all of its flows from one socket, so RFS only costs")
            .change(look.set(name, 0));
        look.report(finding);
    }
}

/// RPS of one card.
fn receive(look: &mut Look<'_>, card: &str, cpus: &[u32], workers: u64) {
    let queues = queue_names(look, card, "rps_cpus");
    let masks: Vec<(String, Vec<u32>)> = queues
        .iter()
        .map(|queue| format!("/sys/class/net/{card}/queues/{queue}/rps_cpus"))
        .filter_map(|path| look.file(&path).map(|mask| (path, mask_cpus(mask))))
        .collect();
    let spread = masks.iter().any(|(_, cpus)| !cpus.is_empty());
    // A card that may have more queues is told to have them, by another item.
    let most = ["combined-max", "rx-channels-max"].iter().filter_map(|name| setting(look, card, name)).max();
    let few = (masks.len() as u64) < workers && most.is_none_or(|most| most <= masks.len() as u64);
    let finding = if spread && look.expected().kernel_steering() && workers > 1 {
        let mut finding = look
            .finding(Level::Advice, format!("RPS of {card} moves packets to other processors"))
            .why("the server's eBPF program chooses the worker already, so each packet moves once more for nothing");
        for (path, _) in masks.iter().filter(|(_, cpus)| !cpus.is_empty()) {
            finding = finding.change(look.set_path(path, "0"));
        }
        finding
    } else if !spread && !look.expected().kernel_steering() && few && cpus.len() > 1 {
        let mut finding = look
            .finding(
                Level::Advice,
                format!("{card} has {} queues for {workers} workers, and RPS is off", masks.len()),
            )
            .why("few processors do the kernel's work for all workers");
        for (path, _) in &masks {
            finding = finding.change(look.set_path(path, cpu_mask(cpus)));
        }
        finding
    } else {
        return;
    };
    if !finding.changes().is_empty() {
        look.report(finding);
    }
}

/// XPS of one card: with as many queues as processors, each processor has one of its own.
fn send(look: &mut Look<'_>, card: &str, cpus: &[u32]) {
    let queues = queue_names(look, card, "xps_cpus");
    if queues.len() < 2 || queues.len() != cpus.len() {
        return;
    }
    let paths: Vec<String> =
        queues.iter().map(|queue| format!("/sys/class/net/{card}/queues/{queue}/xps_cpus")).collect();
    let unset =
        paths.iter().all(|path| look.snapshot().text(path).is_some_and(|mask| mask_cpus(mask).is_empty()));
    if !unset {
        return;
    }
    let mut finding = look
        .finding(Level::Advice, format!("XPS of {card} is off, and it has a queue for each processor"))
        .why("processors wait for each other when they send on one queue");
    for (path, cpu) in paths.iter().zip(cpus) {
        finding = finding.change(look.set_path(path, cpu_mask(&[*cpu])));
    }
    look.report(finding);
}
