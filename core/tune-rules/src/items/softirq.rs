//! Between the network card and the socket.

use crate::finding::Level;
use crate::item::Item;
use crate::look::Look;
use crate::parse::{grouped, softnet};

pub(super) const SOFTIRQ: Item = Item::new(
    "softirq",
    "packets that wait for a processor",
    "A processor takes at most net.core.netdev_budget packets, for at most netdev_budget_usecs, before it lets programs
run. /proc/net/softnet_stat counts in its third column how often packets were left then (squeezed). With RPS, packets wait
in a queue of net.core.netdev_max_backlog; the second column counts those that did not fit (dropped).
These limits are raised only where the counters show that they were reached.",
    "Without such counts nothing is raised: a larger budget takes time from the server.",
    softirq,
);

pub(super) const BUSY_POLL: Item = Item::new(
    "busy_poll",
    "polling for packets",
    "net.core.busy_poll and net.core.busy_read let every program on the machine poll the card in place of
waiting. The server's own `busy_poll` does that for its workers only, and only if the next message is expected
soon.",
    "The system-wide values are reported and never changed.",
    busy_poll,
);

fn softirq(look: &mut Look<'_>) {
    let long = look.sysctl("net.core.netdev_max_backlog").filter(|now| *now > 100_000);
    if let Some(now) = long {
        let finding = look
            .finding(
                Level::Problem,
                format!("net.core.netdev_max_backlog lets {} packets wait", grouped(now)),
            )
            .evidence_if(look.set_by("net.core.netdev_max_backlog"))
            .why("a queue of that length delays packets for longer than senders wait before they repeat")
            .change(look.set("net.core.netdev_max_backlog", 16_384));
        look.report(finding);
    }
    let Some((packets, dropped, squeezed)) = look.file("/proc/net/softnet_stat").and_then(softnet) else {
        return;
    };
    if dropped > 0 && long.is_none() {
        let evidence = format!("softnet dropped {} since boot (/proc/net/softnet_stat)", grouped(dropped));
        raise_on_evidence(look, "net.core.netdev_max_backlog", 4_096, &evidence);
    }
    // A few are normal after a stop of the machine; one in ten thousand packets is not.
    if squeezed > 0 && squeezed.saturating_mul(10_000) >= packets {
        let evidence =
            format!("softnet squeezed {} of {} packets since boot", grouped(squeezed), grouped(packets));
        raise_on_evidence(look, "net.core.netdev_budget", 600, &evidence);
        raise_on_evidence(look, "net.core.netdev_budget_usecs", 8_000, &evidence);
    }
}

/// Raises a limit that was reached; where it is that high already, only the count is reported.
fn raise_on_evidence(look: &mut Look<'_>, name: &str, wanted: u64, evidence: &str) {
    let Some(now) = look.sysctl(name) else { return };
    let finding = if now < wanted {
        look.finding(Level::Problem, format!("{name} is {now}, and the limit was reached"))
            .evidence(evidence)
            .evidence_if(look.set_by(name))
            .why("packets wait or are dropped before any program sees them")
            .change(look.set(name, wanted))
    } else {
        look.finding(Level::Note, format!("{name} is {now} already, and the limit was reached since boot"))
            .evidence(evidence)
            .why("if the count still grows, give the card more queues or the machine more processors")
    };
    look.report(finding);
}

fn busy_poll(look: &mut Look<'_>) {
    for name in ["net.core.busy_poll", "net.core.busy_read"] {
        let Some(now) = look.sysctl(name).filter(|now| *now > 0) else { continue };
        let finding = look
            .finding(Level::Note, format!("{name} is {now} us: every program of the machine polls"))
            .evidence_if(look.set_by(name))
            .why("the server polls by its own `busy_poll`, and knows when it is worth it")
            .by_hand(format!("set {name} to 0, and `busy_poll` in strowger.toml if latency matters"));
        look.report(finding);
    }
}
