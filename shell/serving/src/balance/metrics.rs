//! The metrics of a balancer.

use super::admin::{Running, Sum, health_name, why_text, work_of};
use crate::counters;
use control::metrics::{Kind as Type, Text};
use sip_balancer::{Cluster, Health, Kind, NodeIndex, NodeStats, Report};
use wire::Time;
use worker_runtime::monotonic_now;

/// Appends all of them.
pub(super) fn write(text: &mut Text<'_>, running: &Running, sum: &Sum, up: bool, reloads: (u64, u64)) {
    gauge(text, "strowger_up", "1 while the balancer takes new calls.", u64::from(up));
    gauge(text, "strowger_workers", "Worker threads.", running.workers as u64);
    running.grade.metric(text);
    crate::process::metrics(text);
    counters::reloads(reloads, text);
    crate::bugs::metrics(text);
    crate::certificates::metrics(running.certificates.as_ref(), text);
    counters::metrics(&running.handle.counts(), text);
    messages(text, &sum.reports);
    states(text, running);
    loads(text, running);
    figures(text, running, sum);
}

fn gauge(text: &mut Text<'_>, name: &str, help: &str, value: u64) {
    text.family(name, help, Type::Gauge);
    text.sample(name, &[], value);
}

type Pick = fn(&Report) -> u64;

/// A family of numbers of all workers: name, kind, label, meaning, and the values of the label.
struct Family {
    name: &'static str,
    kind: Type,
    label: &'static str,
    help: &'static str,
    rows: &'static [(&'static str, Pick)],
}

/// What all workers count together.
const FAMILIES: &[Family] = &[
    Family {
        name: "strowger_balance_messages_total",
        kind: Type::Counter,
        label: "kind",
        help: "Messages by what became of them: `request-received`, `response-received`, `request-to-node`, `request-to-caller`, `response-relayed`, `garbage` (no SIP), `stray` (a response whose Via this cluster did not seal, that does not come from its node or that another node has replaced; an ACK of nothing), `probe`, `repeated` (sent again here, because their sender will not), `withdrawn` (CANCEL, ACK or BYE to a node that answered an INVITE that another one has), `withheld` (responses not sent over UDP because they exceed three times what the caller sent, and its address has not shown that it receives), `unkept` (could have been needed again, and there was no room).",
        rows: &[
            ("request-received", |r| r.counts.requests),
            ("response-received", |r| r.counts.responses),
            ("request-to-node", |r| r.counts.forwarded),
            ("request-to-caller", |r| r.counts.outward),
            ("response-relayed", |r| r.counts.relayed),
            ("garbage", |r| r.counts.garbage),
            ("stray", |r| r.counts.stray),
            ("probe", |r| r.counts.probes),
            ("repeated", |r| r.counts.repeated),
            ("withdrawn", |r| r.counts.withdrawn),
            ("withheld", |r| r.counts.withheld),
            ("unkept", |r| r.unkept),
        ],
    },
    Family {
        name: "strowger_balance_refused_total",
        kind: Type::Counter,
        label: "reason",
        help: "Requests refused: `malformed`, `loop` (and Max-Forwards used up), `forbidden`, `forged` (a token that no key has sealed), `unavailable` (503).",
        rows: &[
            ("malformed", |r| r.counts.malformed),
            ("loop", |r| r.counts.loops),
            ("forbidden", |r| r.counts.forbidden),
            ("forged", |r| r.counts.forged),
            ("unavailable", |r| r.counts.unavailable),
        ],
    },
    Family {
        name: "strowger_balance_events_total",
        kind: Type::Counter,
        label: "event",
        help: "`assigned` (transactions given to nodes), `repeated` (requests that had been forwarded before), `retried` (given to another node because theirs failed before it said anything, or refused it with 503), `moved` (requests of calls whose node is down), `timed-out` (transactions never finished), `lost-call` (calls whose end was never seen), `no-node`, `full`, `unrecorded` (requests of known calls forwarded without a record), `held-back` (new requests that a node did not get because it asks for less), `softened` (503, or 482, of a node passed on as 500).",
        rows: &[
            ("assigned", |r| r.events.assigned),
            ("repeated", |r| r.events.repeated),
            ("retried", |r| r.events.retried),
            ("moved", |r| r.events.moved),
            ("timed-out", |r| r.events.timed_out),
            ("lost-call", |r| r.events.lost_calls),
            ("no-node", |r| r.events.no_node),
            ("full", |r| r.events.full),
            ("unrecorded", |r| r.events.unrecorded),
            ("held-back", |r| r.events.held_back),
            ("softened", |r| r.counts.softened),
        ],
    },
    Family {
        name: "strowger_balance_records",
        kind: Type::Gauge,
        label: "kind",
        help: "Records in memory: `alive` (calls and dialogs), `ended` (remembered for late retransmissions), `transaction`, `kept` (messages that may have to be sent again).",
        rows: &[
            ("alive", |r| r.alive as u64),
            ("ended", |r| r.ended as u64),
            ("transaction", |r| r.transactions as u64),
            ("kept", |r| r.kept as u64),
        ],
    },
];

fn messages(text: &mut Text<'_>, reports: &[Report]) {
    for family in FAMILIES {
        text.family(family.name, family.help, family.kind);
        for (value, pick) in family.rows {
            text.sample(family.name, &[(family.label, value)], reports.iter().map(pick).sum::<u64>());
        }
    }
}

fn states(text: &mut Text<'_>, running: &Running) {
    let (cluster, now) = (&running.cluster, monotonic_now());
    let mut family = |name: &str, help: &str, kind: Type, value: &dyn Fn(NodeIndex) -> u64| {
        text.family(name, help, kind);
        for (at, node) in cluster.members() {
            text.sample(name, &[("node", &node.name())], value(at));
        }
    };
    family("strowger_balance_node_up", "1 unless the node is down.", Type::Gauge, &|at| {
        u64::from(cluster.health(at).0 != Health::Down)
    });
    family("strowger_balance_node_open", "1 while the node gets new calls.", Type::Gauge, &|at| {
        u64::from(cluster.gets_calls(now, at))
    });
    family("strowger_balance_node_weight", "Its share beside the others'.", Type::Gauge, &|at| {
        cluster.weight(at).into()
    });
    family("strowger_balance_node_falls_total", "How often the node has gone down.", Type::Counter, &|at| {
        cluster.falls(at).into()
    });
    family("strowger_balance_calls", "Calls the node has.", Type::Gauge, &|at| cluster.load(at).calls.into());
    reasons(text, cluster, now);
}

/// Of each node how it is and why, as labels.
fn reasons(text: &mut Text<'_>, cluster: &Cluster, now: Time) {
    let name = "strowger_balance_node_state";
    text.family(
        name,
        "1 for how the node is (`unknown`, `up`, `down`) and why; `strowger ctl nodes` says more where TLS fails.",
        Type::Gauge,
    );
    for (at, node) in cluster.members() {
        let (health, why) = (health_name(cluster.health(at).0), why_text(cluster, now, at));
        text.sample(name, &[("node", &node.name()), ("health", health), ("why", &why)], 1u64);
    }
}

fn loads(text: &mut Text<'_>, running: &Running) {
    let cluster = &running.cluster;
    let name = "strowger_balance_work";
    text.family(name, "Its unfinished work in BYEs, as `tlwl` counts it.", Type::Gauge);
    for (at, node) in cluster.members() {
        text.sample(name, &[("node", &node.name())], work_of(&cluster.load(at)));
    }
    let name = "strowger_balance_transactions";
    text.family(
        name,
        "Transactions the node has not finished: `invite`, `bye`, `register`, `other`.",
        Type::Gauge,
    );
    for (at, node) in cluster.members() {
        for (kind, open) in Kind::ALL.iter().zip(cluster.load(at).open) {
            text.sample(name, &[("node", &node.name()), ("kind", kind.name())], open);
        }
    }
}

fn figures(text: &mut Text<'_>, running: &Running, sum: &Sum) {
    let named = running.cluster.members().map(|(at, node)| (at, node.name()));
    let named: Vec<(NodeIndex, String)> = named.collect();
    let nodes = || {
        let of = |at: NodeIndex| sum.nodes.get(usize::from(at.0));
        named.iter().filter_map(move |(at, name)| Some((name.as_str(), of(*at)?)))
    };
    let name = "strowger_balance_assigned_total";
    text.family(name, "Transactions given to the node.", Type::Counter);
    for (node, stats) in nodes() {
        text.sample(name, &[("node", node)], stats.assigned);
    }
    let name = "strowger_balance_responses_total";
    text.family(name, "Responses of the node: `1xx` to `6xx`.", Type::Counter);
    for (node, stats) in nodes() {
        for (class, count) in ["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"].iter().zip(stats.responses) {
            text.sample(name, &[("node", node), ("class", class)], count);
        }
    }
    answers(text, nodes());
    let name = "strowger_balance_occupancy_total";
    let help = "Transactions by the number of unfinished ones that they found at the node when they came; `64` means 64 or more. The distribution of figures 10 to 13 of the paper.";
    text.family(name, help, Type::Counter);
    for (node, stats) in nodes() {
        for (found, count) in stats.occupancy.iter().enumerate().filter(|(_, count)| **count > 0) {
            text.sample(name, &[("node", node), ("found", &found.to_string())], count);
        }
    }
}

fn answers<'a>(text: &mut Text<'_>, nodes: impl Iterator<Item = (&'a str, &'a NodeStats)> + Clone) {
    let name = "strowger_balance_answer_seconds";
    let help = "Time to the node's first response that shows work (of an INVITE any but 100, of others the final one) in the last minute or two: 0.5, 0.95, 0.99. At most a quarter too long.";
    text.family(name, help, Type::Gauge);
    for (node, stats) in nodes.clone() {
        let recent = Kind::ALL.map(|kind| (kind, stats.recent(kind)));
        for (kind, times) in recent.iter().filter(|(_, times)| times.count > 0) {
            for (quantile, part) in [("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99)] {
                let labels = [("node", node), ("kind", kind.name()), ("quantile", quantile)];
                text.sample(name, &labels, times.quantile(part) as f64 / 1e6);
            }
        }
    }
    let name = "strowger_balance_response_seconds";
    let help =
        "The same as `strowger_balance_answer_seconds` since the start, in buckets from 16 us to 67 s.";
    text.family(name, help, Type::Histogram);
    for (node, stats) in nodes {
        for (kind, times) in Kind::ALL.iter().zip(&stats.times).filter(|(_, times)| times.count > 0) {
            let labels = [("node", node), ("kind", kind.name())];
            text.cumulative(name, &labels, |bound| times.below(bound), (times.count, times.sum));
        }
    }
}
