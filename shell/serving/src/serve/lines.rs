//! What an operator sees of the calls of trunks: load, alarms, metrics.

use control::admin::{TrunkLoad, TrunkTarget};
use control::metrics::{Kind, Text};
use sip_health::{LineFull, LineStanding};
use wire::Time;

/// Alarms that name a trunk; one more says how many there are besides.
const NAMED: usize = 8;

/// Why a trunk takes no further call, in a word.
pub const fn reason(why: LineFull) -> &'static str {
    match why {
        LineFull::Channels => "channels",
        LineFull::Rate => "rate",
    }
}

/// The calls of a trunk as the API has them.
pub fn load(standing: &LineStanding, now: Time) -> TrunkLoad {
    let limit = |most: u32| Some(most).filter(|most| *most > 0);
    TrunkLoad {
        calls: standing.calls,
        channels: limit(standing.limits.channels),
        last_minute: standing.minute,
        calls_per_second: limit(standing.limits.calls_per_second),
        attempts: standing.attempts,
        answered: standing.answered,
        hour_attempts: standing.hour.0,
        hour_answered: standing.hour.1,
        no_channel: standing.no_channel,
        no_rate: standing.no_rate,
        full: standing.full.map(|(why, _)| reason(why).to_owned()),
        full_s: standing.full.map(|(_, at)| now.since(at).as_secs()),
    }
}

/// The trunks of these targets, each with its load and all of its targets.
fn trunks(targets: &[TrunkTarget]) -> impl Iterator<Item = (&TrunkLoad, &[TrunkTarget])> {
    let same = |one: &TrunkTarget, next: &TrunkTarget| one.list == next.list && next.trunk.is_none();
    targets.chunk_by(same).filter_map(|chunk| Some((chunk.first()?.trunk.as_ref()?, chunk)))
}

/// What the operator should look at: trunks that are full or were lately, and those without a target that
/// answers.
pub fn alarms(targets: &[TrunkTarget]) -> Vec<String> {
    let lately = |load: &TrunkLoad| load.full_s.is_some_and(|ago| ago < LineStanding::SHOWN.as_secs());
    let all: Vec<String> = trunks(targets)
        .filter_map(|(load, targets)| {
            let name = &targets.first()?.list;
            let ago = load.full_s.unwrap_or(0);
            if targets.len() > 1 && targets.iter().all(|target| target.state == "down") {
                return Some(format!("{name}: all {} targets are down", targets.len()));
            }
            match (load.channels, load.calls_per_second, load.full.as_deref()) {
                (Some(most), ..) if load.calls >= most => {
                    Some(format!("{name} is full: {} of {most} channels are in use", load.calls))
                }
                (Some(most), _, Some("channels")) if lately(load) => {
                    Some(format!("{name} had all {most} channels in use {ago} s ago, and a call was refused"))
                }
                (_, Some(most), Some("rate")) if lately(load) => {
                    let so_many = format!("more than {most} new calls in a second");
                    Some(format!("{name}: {so_many} {ago} s ago, and a call was refused"))
                }
                _ => None,
            }
        })
        .collect();
    let more = all.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more trunks are full or down: see `strowger ctl trunks`"));
    all.into_iter().take(NAMED).chain(more).collect()
}

/// The calls of each trunk.
pub fn metrics(targets: &[TrunkTarget], text: &mut Text<'_>) {
    type Value = fn(&TrunkLoad) -> u64;
    let families: [(&str, &str, Kind, Value); 5] = [
        ("strowger_trunk_calls", "Calls over a trunk now, in both directions.", Kind::Gauge, |load| {
            load.calls.into()
        }),
        (
            "strowger_trunk_channels",
            "Most calls at one time over a trunk; 0: no limit.",
            Kind::Gauge,
            |load| load.channels.unwrap_or(0).into(),
        ),
        ("strowger_trunk_attempts_total", "Calls sent to a trunk.", Kind::Counter, |load| load.attempts),
        ("strowger_trunk_answered_total", "Calls sent to a trunk that it answered.", Kind::Counter, |load| {
            load.answered
        }),
        // The last one has a label more.
        (
            REFUSED,
            "Calls that a trunk had no room for: `channels`, all were in use; `rate`, too many in a second.",
            Kind::Counter,
            |load| load.no_channel,
        ),
    ];
    for (name, help, kind, value) in families {
        text.family(name, help, kind);
        for (load, targets) in trunks(targets) {
            let trunk = targets.first().map_or("", |target| target.list.as_str());
            let trunk = trunk.strip_prefix("trunk ").unwrap_or(trunk);
            if name == REFUSED {
                text.sample(name, &[("trunk", trunk), ("reason", "channels")], load.no_channel);
                text.sample(name, &[("trunk", trunk), ("reason", "rate")], load.no_rate);
            } else {
                text.sample(name, &[("trunk", trunk)], value(load));
            }
        }
    }
}

const REFUSED: &str = "strowger_trunk_refused_total";

#[cfg(test)]
mod tests {
    use super::*;

    fn target(list: &str, state: &str, trunk: Option<TrunkLoad>) -> TrunkTarget {
        TrunkTarget {
            list: list.into(),
            target: "sip:gw".into(),
            state: state.into(),
            why: String::new(),
            since_s: None,
            calls: 0,
            failures: 0,
            last_error: None,
            last_error_s: None,
            silent: Vec::new(),
            trunk,
        }
    }

    fn load(calls: u32, full: Option<(&str, u64)>) -> Option<TrunkLoad> {
        Some(TrunkLoad {
            calls,
            channels: Some(10),
            calls_per_second: Some(5),
            no_channel: 3,
            full: full.map(|(why, _)| why.to_owned()),
            full_s: full.map(|(_, ago)| ago),
            ..TrunkLoad::default()
        })
    }

    #[test]
    fn alarms_name_trunks_that_are_full_or_down() {
        let one = |load| alarms(&[target("trunk a", "up", load), target("emergency", "down", None)]);
        assert_eq!(one(load(10, None)), ["trunk a is full: 10 of 10 channels are in use"]);
        let was = "trunk a had all 10 channels in use 9 s ago, and a call was refused";
        assert_eq!(one(load(4, Some(("channels", 9)))), [was]);
        let rate = "trunk a: more than 5 new calls in a second 9 s ago, and a call was refused";
        assert_eq!(one(load(4, Some(("rate", 9)))), [rate]);
        assert!(one(load(4, Some(("rate", 600)))).is_empty() && one(load(9, None)).is_empty());
        let down = [target("trunk a", "down", load(0, None)), target("trunk a", "down", None)];
        assert_eq!(alarms(&down), ["trunk a: all 2 targets are down"]);
        let many: Vec<TrunkTarget> =
            (0..20).map(|n| target(&format!("trunk {n}"), "up", load(10, None))).collect();
        assert_eq!(alarms(&many).len(), NAMED + 1);
    }

    #[test]
    fn metrics_have_one_sample_for_each_trunk() {
        let mut out = String::new();
        let all = [target("trunk a", "up", load(4, None)), target("trunk a", "up", None)];
        metrics(&all, &mut Text::new(&mut out));
        assert!(out.contains("strowger_trunk_calls{trunk=\"a\"} 4\n"), "{out}");
        assert!(out.contains("strowger_trunk_refused_total{trunk=\"a\",reason=\"channels\"} 3\n"), "{out}");
        assert_eq!(out.matches("trunk=\"a\"").count(), 6, "{out}");
    }
}
