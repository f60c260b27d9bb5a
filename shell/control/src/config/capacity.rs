//! What a trunk may have of calls, and how its targets share them.

use super::error::Fault;
use super::form::*;
use super::reader::{Reader, Section};
use super::trunk::Trunk;
use super::types::{Rank, Target};
use super::values::{shown, target};
use sip_node::{LineLimits, Mode};
use toml::de::DeValue;

/// How a target with a priority is written.
const EXAMPLE: &str = "write { uri = \"sip:192.0.2.1\", priority = 1, weight = 10 }";

/// The targets of a trunk: URIs, or tables with a priority and a weight.
pub(super) fn ranked_targets() -> Many<Target> {
    let parse = |value: &DeValue<'_>| match value {
        DeValue::Table(_) => ranked(value),
        _ => plain().read(value),
    };
    let show = |target: &Target| match target.rank {
        None => quoted(target),
        Some(Rank { priority, weight }) => {
            format!("{{ uri = {}, priority = {priority}, weight = {weight} }}", quoted(target))
        }
    };
    let values = "SIP URI, or `{ uri = SIP URI, priority = 0 to 65,535, weight = 0 to 65,535 }`";
    list(One::new(values, parse, show)).once("target").no_default()
}

fn plain() -> One<Target> {
    text("SIP URI", target)
}

fn ranked(value: &DeValue<'_>) -> Result<Target, Fault> {
    let DeValue::Table(table) = value else { return Err(Fault::new("expected a table", EXAMPLE)) };
    let (mut uri, mut rank) = (None, Rank { priority: 1, weight: 1 });
    for (name, value) in table.iter() {
        match name.get_ref().as_ref() {
            "uri" => uri = Some(plain().read(value.get_ref())?),
            "priority" => rank.priority = number(0..=65_535).read(value.get_ref())?,
            "weight" => rank.weight = number(0..=65_535).read(value.get_ref())?,
            other => {
                let what = format!("unknown key \"{}\" of a target", shown(other));
                return Err(Fault::new(what, "an entry has uri, priority and weight"));
            }
        }
    }
    match uri {
        Some(target) => Ok(Target { rank: Some(rank), ..target }),
        None => Err(Fault::new("target without uri", EXAMPLE)),
    }
}

/// Reports targets of a trunk whose order is not clear.
pub(super) fn check_ranks(section: &Section<'_, '_>, reader: &mut Reader<'_>, targets: &[Target]) {
    let ranked = targets.iter().filter(|target| target.rank.is_some()).count();
    if ranked > 0 && ranked < targets.len() {
        let mend = "write all of them as URIs, which are tried in their order, or all as tables";
        let fault = Fault::new("some targets have a priority and weight and others have none", mend);
        return reader.error(&section.span_of("targets"), fault);
    }
    let mut uris: Vec<&str> = targets.iter().map(|target| target.uri.as_str()).collect();
    uris.sort_unstable();
    if ranked > 0 && uris.windows(2).any(|pair| pair[0] == pair[1]) {
        let fault = Fault::new("duplicate target", "add the weights of both in one");
        reader.error(&section.span_of("targets"), fault);
    }
}

/// Reports limits of trunks that this server could not keep.
pub(super) fn check_limits(
    reader: &mut Reader<'_>,
    top: &Section<'_, '_>,
    trunks: &[Trunk],
    proxy: &super::Proxy,
) {
    let span = top.span_of("trunk");
    for trunk in trunks {
        let keys =
            [("channels", trunk.channels.is_some()), ("calls_per_second", trunk.calls_per_second.is_some())];
        for (key, _) in keys.into_iter().filter(|(_, is_there)| *is_there && proxy.mode != Mode::Stateful) {
            let message =
                format!("trunk \"{}\" has {key}, which only a stateful proxy can count", trunk.name);
            let mend = "remove it, or write mode = \"stateful\" in [proxy]";
            reader.error(&span, Fault::new(message, mend));
        }
        if trunk.channels.is_some() && proxy.mode == Mode::Stateful && !proxy.record_route {
            let message = format!("trunk \"{}\" has channels, but the end of calls is not seen", trunk.name);
            let mend = "remove it, or write record_route = true in [proxy]";
            reader.error(&span, Fault::new(message, mend));
        }
    }
}

/// What the core needs of a trunk's limits.
pub(super) fn limits(trunk: &Trunk) -> LineLimits {
    LineLimits {
        channels: trunk.channels.unwrap_or(0),
        calls_per_second: trunk.calls_per_second.unwrap_or(0),
    }
}

/// Priorities and weights as the core has them; empty where targets are tried in their order.
pub(super) fn weights(targets: &[Target]) -> Vec<(u16, u16)> {
    targets.iter().filter_map(|target| target.rank).map(|rank| (rank.priority, rank.weight)).collect()
}
