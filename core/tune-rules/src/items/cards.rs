//! Network cards: hash, queues, rings, coalescing.

use crate::finding::Level;
use crate::item::Item;
use crate::look::Look;
use crate::parse::{cpu_list, grouped};

pub(super) const RECEIVE_HASH: Item = Item::new(
    "receive_hash",
    "how a card chooses the queue of a datagram",
    "A card with several queues chooses one by a hash. For UDP many drivers hash addresses only (sd), so all
datagrams of one SBC, trunk or NAT go to one queue and one processor. With ports (sdfn) it spreads, because
ports of phones differ. `ethtool -n CARD rx-flow-hash udp4` shows it.",
    "Cards with one queue, and cards that do not support it. Fragments have no ports: with sdfn they may arrive after
later datagrams, which SIP tolerates.",
    receive_hash,
);

pub(super) const QUEUES: Item = Item::new(
    "queues",
    "queues of a card",
    "Each queue of a card has an interrupt, and its packets are handled by one processor at a time. With fewer
queues than workers, some processors do the work of the kernel for all workers.",
    "Changing it stops the card for a moment, so this is advice. More queues than workers are not changed.",
    queues,
);

pub(super) const RINGS: Item = Item::new(
    "rings",
    "room for packets in a card",
    "A card writes packets into a ring and drops what does not fit before the kernel takes it (rx_missed_errors,
rx_fifo_errors). The ring is made larger only where that happened: a larger one takes more of the processor's cache.
Changing it stops the card for a moment.",
    "Without such counts nothing is changed. The ring of sent packets is not changed.",
    rings,
);

pub(super) const COALESCING: Item = Item::new(
    "coalescing",
    "interrupts that wait for more packets",
    "A card may wait with its interrupt until more packets come (rx-usecs), and adapt that time to the traffic
(adaptive-rx). That saves processor time. It delays messages by up to 100 us or more, each by a different time.",
    "It is advice, because it costs processor time at high rates. Times up to 50 us are not changed.",
    coalescing,
);

/// A setting of a card as a number; `None` if the card does not have it.
pub(super) fn setting(look: &mut Look<'_>, card: &str, name: &str) -> Option<u64> {
    look.file(&format!("/ethtool/{card}/{name}"))?.trim().parse().ok()
}

/// The cards that are not down. Where there are cards of hardware or of a hypervisor, only those count: a
/// machine with containers has hundreds of others.
pub(super) fn live_cards(look: &Look<'_>) -> Vec<String> {
    let snapshot = look.snapshot();
    let up = |card: &&str| snapshot.word(&format!("/sys/class/net/{card}/operstate")) != Some("down");
    let has_device = |card: &&str| snapshot.text(&format!("/sys/class/net/{card}/device/uevent")).is_some();
    let cards: Vec<&str> = snapshot.cards().into_iter().filter(up).collect();
    let hardware: Vec<&str> = cards.iter().copied().filter(has_device).collect();
    let chosen = if hardware.is_empty() { cards } else { hardware };
    chosen.into_iter().map(str::to_owned).collect()
}

/// The processors that are in use.
pub(super) fn processors(look: &mut Look<'_>) -> Vec<u32> {
    let online = look.file("/sys/devices/system/cpu/online").and_then(cpu_list);
    online.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| vec![0])
}

/// The queues of a card in one direction, `rx` or `tx`.
pub(super) fn queue_names(look: &Look<'_>, card: &str, file: &str) -> Vec<String> {
    let pattern = format!("/sys/class/net/{card}/queues/*/{file}");
    let mut names: Vec<String> = look
        .snapshot()
        .matching(&pattern)
        .filter_map(|(path, _)| path.split('/').nth(6))
        .map(str::to_owned)
        .collect();
    names.sort_by_key(|name| name.rsplit('-').next().and_then(|number| number.parse::<u32>().ok()));
    names
}

fn receive_hash(look: &mut Look<'_>) {
    for card in live_cards(look) {
        if queue_names(look, &card, "rps_cpus").len() < 2 {
            continue;
        }
        for family in ["udp4", "udp6"] {
            let path = format!("/ethtool/{card}/rx-hash-{family}");
            let Some(now) = look.file(&path).map(str::trim) else { continue };
            // A card that does not say how it chooses cannot be told either.
            if now.is_empty() || ["s", "d", "f", "n"].iter().all(|field| now.contains(field)) {
                continue;
            }
            let finding = look
                .finding(
                    Level::Problem,
                    format!("{card} chooses the queue of {family} datagrams by {now}, without ports"),
                )
                .why("everything that comes from one SBC, trunk or NAT is handled by one processor")
                .change(look.set_path(&path, "sdfn"));
            look.report(finding);
        }
    }
}

fn queues(look: &mut Look<'_>) {
    let processors = processors(look).len() as u64;
    let workers = look.expected().workers(processors);
    for card in live_cards(look) {
        // Most cards have combined queues, some one kind for each direction.
        for kind in ["combined", "rx-channels"] {
            let now = setting(look, &card, kind).filter(|now| *now > 0);
            let most = setting(look, &card, &format!("{kind}-max"));
            let Some((now, most)) = now.zip(most) else { continue };
            let wanted = workers.min(processors).min(most);
            if now < wanted {
                let finding = look
                    .finding(Level::Advice, format!("{card} has {now} queues for {workers} workers, and may have {most}"))
                    .why("few processors do the work of the kernel for all workers; the card stops for a moment")
                    .change(look.set_path(&format!("/ethtool/{card}/{kind}"), wanted));
                look.report(finding);
            }
        }
    }
}

fn rings(look: &mut Look<'_>) {
    for card in live_cards(look) {
        let counters = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];
        let mut lost = Vec::new();
        for counter in counters {
            let path = format!("/sys/class/net/{card}/statistics/{counter}");
            let count: Option<u64> = look.file(&path).and_then(|text| text.trim().parse().ok());
            if let Some(count) = count.filter(|count| *count > 0) {
                lost.push(format!("{counter} {}", grouped(count)));
            }
        }
        if lost.is_empty() {
            continue;
        }
        let evidence = format!("{} of {card} since it came up", lost.join(", "));
        let (now, most) = (setting(look, &card, "rx-ring"), setting(look, &card, "rx-ring-max"));
        let finding = match now.zip(most) {
            Some((now, most)) if now < most.min(4_096) => look
                .finding(
                    Level::Problem,
                    format!("{card} dropped packets, its ring has {now} of {most} places"),
                )
                .evidence(evidence)
                .why("a burst does not fit into the ring; the card stops for a moment when it is changed")
                .change(look.set_path(&format!("/ethtool/{card}/rx-ring"), most.min(4_096))),
            Some((now, _)) => look
                .finding(
                    Level::Note,
                    format!("{card} dropped packets, and its ring has {now} places already"),
                )
                .evidence(evidence)
                .why("if the count still grows, give the card more queues"),
            None => look
                .finding(Level::Note, format!("{card} dropped packets"))
                .evidence(evidence)
                .why("its ring cannot be seen or changed: not supported by this card"),
        };
        look.report(finding);
    }
}

fn coalescing(look: &mut Look<'_>) {
    for card in live_cards(look) {
        let adaptive = look.file(&format!("/ethtool/{card}/adaptive-rx")).map(str::trim) == Some("on");
        let long = setting(look, &card, "rx-usecs").filter(|time| *time > 50);
        let title = match (adaptive, long) {
            (false, None) => continue,
            (true, _) => format!("{card} adapts how long its interrupts wait"),
            (false, Some(time)) => format!("{card} waits {time} us with its interrupts"),
        };
        let mut finding =
            look.finding(Level::Advice, title).why("a message waits that long, and never the same time");
        if adaptive {
            finding = finding.change(look.set_path(&format!("/ethtool/{card}/adaptive-rx"), "off"));
        }
        if adaptive && setting(look, &card, "rx-usecs").is_some_and(|time| time != 20) || long.is_some() {
            finding = finding.change(look.set_path(&format!("/ethtool/{card}/rx-usecs"), 20));
        }
        look.report(finding);
    }
}
