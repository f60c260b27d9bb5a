//! What `ctl status`, its alarms and the metrics say of the room for messages, transactions and calls.

use control::metrics::{Kind, Text};
use sip_node::{Report, Shortage};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use wire::Time;

/// How long an alarm stays after a connection for which there was no room.
const SHORT: Duration = Duration::from_secs(300);

/// The alarm when there was no room for a stream connection lately, with the limit.
pub fn streams_alarm(last: Option<Time>, now: Time, most: usize) -> Option<String> {
    last.filter(|at| now.since(*at) < SHORT).map(|_| {
        format!(
            "stream connections are short: connections without registration or call are closed, or new ones refused; \
             find who opens them (`ss -tn`), or raise limits.connections ({most}) and `ulimit -n`"
        )
    })
}

/// Memory that messages take, in words.
pub fn memory(reports: &[Report]) -> String {
    let sum = |pick: fn(&Report) -> usize| mib(reports.iter().map(pick).sum());
    let held = sum(|r| r.transactions.held_bytes + r.transactions.yielding_bytes);
    let most = sum(|r| r.transactions.most_bytes);
    let unproven = sum(|r| r.transactions.unproven_bytes);
    let yielding = sum(|r| r.transactions.yielding_bytes);
    format!(
        "messages hold {held} MiB of {most} MiB, {unproven} MiB of it for unproven senders, {yielding} MiB for \
         responses that are dropped first"
    )
}

/// What there was too little of in the last minute, with the mend.
pub fn alarms(reports: &[Report]) -> Vec<String> {
    let all = reports.iter().flat_map(|report| report.shortages.iter().copied());
    let last: BTreeMap<Shortage, IpAddr> = all.collect();
    last.into_iter().map(|(kind, source)| alarm(kind, source)).collect()
}

fn alarm(kind: Shortage, source: IpAddr) -> String {
    match kind {
        Shortage::Transactions => "requests are refused: transactions are at their limit; raise limits.transactions".into(),
        Shortage::Bytes => {
            "requests are refused: the memory for messages is used up; give the server more, or raise limits.memory_mib"
                .into()
        }
        Shortage::Calls => "calls are refused: all that limits.calls allows are being set up; raise it".into(),
        Shortage::Waiting => {
            "requests are refused: too many wait for bindings that another node holds; look at the location store"
                .into()
        }
        Shortage::Share => format!(
            "requests of unproven senders are refused, the last one from {source}: they hold their share of \
             transactions, calls or memory; if it is an attack, block that address"
        ),
    }
}

/// The gauges and counters of it.
pub fn metrics(reports: &[Report], text: &mut Text<'_>) {
    type Pick = fn(&sip_transaction::Counts) -> u64;
    let sum = |pick: Pick| reports.iter().map(|r| pick(&r.transactions)).sum::<u64>();
    text.family("strowger_message_bytes", "Bytes held of messages: `all`, of these those of `unproven` senders, and `yielding`: responses kept for streams, which are dropped first.", Kind::Gauge);
    text.sample(
        "strowger_message_bytes",
        &[("of", "all")],
        sum(|c| (c.held_bytes + c.yielding_bytes) as u64),
    );
    text.sample("strowger_message_bytes", &[("of", "unproven")], sum(|c| c.unproven_bytes as u64));
    text.sample("strowger_message_bytes", &[("of", "yielding")], sum(|c| c.yielding_bytes as u64));
    text.family("strowger_message_bytes_limit", "Bytes of messages that may be held.", Kind::Gauge);
    text.sample("strowger_message_bytes_limit", &[], sum(|c| c.most_bytes as u64));
    let name = "strowger_room_refused_total";
    text.family(name, "Of the transactions refused, those refused because the memory for messages is used up (`memory`), or because unproven senders hold their share (`share`).", Kind::Counter);
    text.sample(name, &[("limit", "memory")], sum(|c| c.refused_bytes));
    text.sample(name, &[("limit", "share")], sum(|c| c.refused_share));
}

/// What the log says of a shortage.
pub const fn words(kind: Shortage) -> &'static str {
    match kind {
        Shortage::Transactions => "transactions at their limit: refusing new requests",
        Shortage::Bytes => "memory for messages used up: refusing new requests",
        Shortage::Calls => "calls at their limit: refusing new calls",
        Shortage::Waiting => "too many requests wait for bindings of other nodes: refusing further ones",
        Shortage::Share => "unproven senders hold their share: refusing their new requests",
    }
}

fn mib(bytes: usize) -> usize {
    bytes.div_ceil(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarm_names_the_sender_and_the_mend_once() {
        let report = |last: u8| Report {
            shortages: vec![
                (Shortage::Share, IpAddr::from([192, 0, 2, last])),
                (Shortage::Bytes, IpAddr::from([192, 0, 2, last])),
            ],
            ..Report::default()
        };
        let alarms = alarms(&[report(1), Report::default(), report(2)]);
        assert_eq!(alarms.len(), 2, "{alarms:?}");
        assert!(alarms[0].contains("limits.memory_mib"), "{alarms:?}");
        assert!(alarms[1].contains("192.0.2.2"), "{alarms:?}");
    }

    #[test]
    fn streams_alarm_stays_for_five_minutes() {
        let alarm = |last, now| streams_alarm(last, Time::from_secs(now), 100);
        assert_eq!(alarm(None, 1_000), None);
        assert!(
            alarm(Some(Time::from_secs(701)), 1_000)
                .is_some_and(|text| text.contains("limits.connections (100)"))
        );
        assert_eq!(alarm(Some(Time::from_secs(700)), 1_000), None);
    }

    #[test]
    fn memory_in_words_is_the_sum_of_all_workers() {
        let mut report = Report::default();
        report.transactions.held_bytes = 3 << 19;
        report.transactions.yielding_bytes = 2 << 20;
        report.transactions.most_bytes = 64 << 20;
        let text = memory(&[report.clone(), report]);
        assert_eq!(
            text,
            "messages hold 7 MiB of 128 MiB, 0 MiB of it for unproven senders, 4 MiB for responses that are dropped first"
        );
    }
}
