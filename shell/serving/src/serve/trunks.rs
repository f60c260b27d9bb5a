//! What an operator sees of the targets of trunks, routes, voicemail and emergency calls.

use super::lines;
use crate::operator::cause;
use control::admin::TrunkTarget;
use control::config::{Config, Target};
use control::metrics::{Kind, Text};
use sip_health::{Failure, Health, Standing, Why};
use sip_node::Gateways;
use wire::Time;

/// Alarms that name a target; one more says how many there are besides.
const NAMED: usize = 8;

/// Every target of every list, in the order of the configuration. `client` says why connections over TLS
/// fail.
pub fn targets(
    config: &Config,
    gateways: &Gateways,
    client: Option<&tls::Client>,
    now: Time,
) -> Vec<TrunkTarget> {
    let mut all = Vec::new();
    let mut add = |list: &str, targets: &[Target], name: Option<&String>| {
        for target in targets {
            if let Some(gateway) = gateways.get(target.uri.as_bytes()) {
                let client = client.filter(|_| target.may_be_secure());
                let fault = || client?.fault_of(name.unwrap_or(&target.host));
                all.push(shown(list, &target.uri, &gateway.standing(), (now, fault)));
            }
        }
    };
    for trunk in &config.trunks {
        add(&format!("trunk {}", trunk.name), &trunk.targets, trunk.verify.as_ref());
    }
    for route in &config.routes {
        let parts = [("domain", &route.domain), ("prefix", &route.prefix), ("user", &route.user)];
        let parts =
            parts.into_iter().filter_map(|(name, value)| Some(format!(" {name} {}", value.as_ref()?)));
        add(&format!("route{}", parts.collect::<String>()), &route.targets, None);
    }
    if let Some(voicemail) = &config.voicemail {
        add("voicemail", std::slice::from_ref(&voicemail.target), None);
    }
    if let Some(emergency) = &config.emergency {
        add("emergency", &emergency.targets, None);
    }
    add_loads(&mut all, gateways, now);
    all
}

/// Adds the calls of each trunk to the first of its targets.
fn add_loads(all: &mut [TrunkTarget], gateways: &Gateways, now: Time) {
    for list in all.chunk_by_mut(|one, next| one.list == next.list) {
        if let Some(first) = list.first_mut()
            && let Some(name) = first.list.strip_prefix("trunk ")
            && let Some(line) = gateways.lines().get(name.as_bytes())
        {
            first.trunk = Some(lines::load(&line.standing(now), now));
        }
    }
}

/// One target; `fault` says why connections to it fail.
fn shown(
    list: &str,
    uri: &str,
    standing: &Standing,
    (now, fault): (Time, impl Fn() -> Option<String>),
) -> TrunkTarget {
    // `why` has the reason otherwise.
    let apart = || fault().filter(|_| standing.why != Why::Unreachable);
    let last = |failure| match (failure, apart()) {
        (Failure::Unreachable, Some(fault)) => format!("{}: {fault}", text(failure)),
        _ => text(failure),
    };
    let state = match standing.health {
        Health::Unknown => "unknown",
        Health::Up => "up",
        Health::Down => "down",
    };
    TrunkTarget {
        list: list.to_owned(),
        target: uri.to_owned(),
        state: state.to_owned(),
        why: cause(standing.why, &fault),
        since_s: standing.since.map(|since| now.since(since).as_secs()),
        calls: standing.calls,
        failures: standing.failures,
        last_error: standing.last.map(|(failure, _)| last(failure)),
        last_error_s: standing.last.map(|(_, at)| now.since(at).as_secs()),
        silent: standing.marked.iter().map(|(transport, address)| format!("{transport}:{address}")).collect(),
        trunk: None,
    }
}

/// A failure in words.
pub fn text(failure: Failure) -> String {
    match failure {
        Failure::Silent => "no response".to_owned(),
        Failure::Unreachable => "unreachable".to_owned(),
        Failure::Status(status) => status.to_string(),
    }
}

/// What the operator should look at. A target in several lists is one alarm.
pub fn alarms(targets: &[TrunkTarget]) -> Vec<String> {
    let mut down: Vec<&TrunkTarget> = targets.iter().filter(|target| target.state == "down").collect();
    let mut seen = Vec::new();
    down.retain(|target| {
        !seen.contains(&&target.target) && {
            seen.push(&target.target);
            true
        }
    });
    let named = down.iter().take(NAMED).map(|target| {
        let since = target.since_s.map_or(String::new(), |since| format!(" for {since} s"));
        format!("{}: target {} is down{since}: {}", target.list, target.target, target.why)
    });
    let more = down.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more targets are down: see `strowger ctl trunks`"));
    named.chain(more).collect()
}

/// How many targets are up and down.
pub fn metrics(targets: &[TrunkTarget], text: &mut Text<'_>) {
    const NAME: &str = "strowger_targets";
    text.family(NAME, "Targets of trunks, routes, voicemail and `[emergency]`: `up`, `down` (tried last, and probed), `unknown` (nothing was sent to it yet).", Kind::Gauge);
    for state in ["up", "down", "unknown"] {
        let count = targets.iter().filter(|target| target.state == state).count();
        text.sample(NAME, &[("state", state)], count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(list: &str, uri: &str, state: &str) -> TrunkTarget {
        TrunkTarget {
            list: list.into(),
            target: uri.into(),
            state: state.into(),
            why: "requests are not answered".into(),
            since_s: Some(12),
            calls: 3,
            failures: 1,
            last_error: Some("no response".into()),
            last_error_s: Some(12),
            silent: Vec::new(),
            trunk: None,
        }
    }

    #[test]
    fn alarms_name_each_target_that_is_down_once() {
        let all = [
            target("trunk a", "sip:gw1", "down"),
            target("trunk a", "sip:gw2", "up"),
            target("emergency", "sip:gw1", "down"),
        ];
        assert_eq!(alarms(&all), ["trunk a: target sip:gw1 is down for 12 s: requests are not answered"]);
        let many: Vec<TrunkTarget> =
            (0..20).map(|n| target("trunk a", &format!("sip:gw{n}"), "down")).collect();
        let alarms = alarms(&many);
        assert_eq!(alarms.len(), NAMED + 1);
        assert_eq!(alarms[NAMED], "12 more targets are down: see `strowger ctl trunks`");
    }
}
