//! What is checked when a run is over.

use crate::check::Check;
use crate::mutation::Mutation;
use crate::phone::{Call, CallSpec, Final, Leg, LegState, Manner, Phone, Stage};
use crate::scenario::{Planned, ROOM, Weather};
use crate::world::World;
use core::time::Duration;
use wire::Time;

/// No call and no question takes longer, with what follows it.
const LONGEST: Duration = Duration::from_secs(300);
/// In quiet weather the INVITE of a call is everywhere by then.
const SOON: Duration = Duration::from_secs(5);

/// Whether a call was answered.
pub(crate) fn is_answered(call: &Call) -> bool {
    matches!(call.result, Some(Final::Status(200..=299)))
}

/// Notes the first thing that is not as it should be.
pub(crate) fn judge(world: &mut World) {
    if world.monitor.violation.is_some() {
        return;
    }
    let found = leaks(world)
        .map(|text| (Check::NoLeak, text))
        .or_else(|| hangs(world).map(|text| (Check::NoHang, text)))
        .or_else(|| outcomes(world).map(|text| (Check::CallSucceeds, text)))
        .or_else(|| records(world).map(|text| (Check::RecordTrue, text)));
    if let Some((check, text)) = found {
        world.monitor.violate(check, text);
    }
}

/// What a server still remembers after the silence.
fn leaks(world: &World) -> Option<String> {
    for (i, site) in world.sites.iter().enumerate() {
        for (w, node) in site.nodes.iter().enumerate() {
            let report = node.report(world.now, 0, usize::MAX);
            let t = report.transactions;
            if t.server + t.client + t.timers + report.pending + report.held > 0 {
                return Some(format!(
                    "server {i} worker {w}: {} server and {} client transactions, {} timers, {} pending, {} held",
                    t.server, t.client, t.timers, report.pending, report.held
                ));
            }
            let quiet = world.scenario.weather == Weather::Quiet && world.scenario.attacks.is_empty();
            if let Some(call) = report.calls.iter().find(|c| quiet || !c.answered) {
                return Some(format!("server {i} worker {w} still counts a call: {call:?}"));
            }
        }
        let calls: usize = site.nodes.iter().map(|node| node.report(world.now, 0, 0).call_count).sum();
        let channels = site.channels(world.now);
        // A call may come from a trunk and go to another one.
        if channels as usize > 2 * calls {
            return Some(format!("server {i} holds {channels} channels of trunks for {calls} calls"));
        }
        let left = site.shared.location.size().1;
        if left > 0 {
            return Some(format!("server {i} still holds {left} bindings"));
        }
    }
    None
}

/// Records of calls that are not true.
fn records(world: &World) -> Option<String> {
    // A mistake on the way makes the messages untrue, not the records.
    if !matches!(world.mutation, None | Some(Mutation::LoseRecord | Mutation::LateRecord)) {
        return None;
    }
    let sites = world.sites.iter().enumerate();
    let judge = |(number, site): (usize, &crate::site::Site)| {
        world.monitor.truth.judge(
            number,
            (site.spec.record_route, site.life > 1),
            &mut site.book.borrow_mut(),
        )
    };
    sites.filter(|(_, site)| site.spec.room == ROOM).find_map(judge).or_else(|| unrecorded(world))
}

/// An answered call of a phone without a record at its server, in quiet weather.
fn unrecorded(world: &World) -> Option<String> {
    for phone in world.phones.iter().filter(|_| world.scenario.weather == Weather::Quiet) {
        let home = world.sites.iter().find(|site| site.spec.address.ip() == phone.profile.home.ip())?;
        for call in phone.calls.iter().filter(|call| is_answered(call)) {
            let count = home.book.borrow().answered(&call.call_id);
            if count != 1 {
                return Some(format!("call {} of {}: {count} records", call.call_id, phone.profile.aor()));
            }
        }
    }
    None
}

/// Transactions of phones without an end.
fn hangs(world: &World) -> Option<String> {
    for (at, phone) in world.phones.iter().enumerate() {
        let who = phone.profile.aor();
        // An answer to a translated phone may be lost whenever its mapping ends.
        let translated = world.lapsed(at, Time::ZERO, LONGEST);
        if phone.open_clients() > 0 {
            return Some(format!("{who} has {} transactions that do not end", phone.open_clients()));
        }
        for call in &phone.calls {
            let number = call.spec.number;
            // A 2xx that is lost too often is the two phones' affair; a crash takes calls along.
            let excused = translated
                || world.scenario.weather == Weather::Stormy
                || legs(world, &call.call_id).any(|l| matches!(l.status, Some(200..=299)));
            let hung = call.result.is_none() || call.result == Some(Final::Hung) && !excused;
            if hung || call.stage != Stage::Over {
                return Some(format!("call {number} of {who} to {}: {:?}", call.spec.callee, call.result));
            }
        }
        if let Some(ask) = phone.asks.iter().find(|a| a.result.is_none()) {
            return Some(format!("{} of {who} to {} has no end", ask.method, ask.aor));
        }
    }
    None
}

fn legs<'w>(world: &'w World, call_id: &'w str) -> impl Iterator<Item = &'w Leg> {
    world.phones.iter().flat_map(move |phone| legs_of(phone, call_id))
}

fn legs_of<'w>(phone: &'w Phone, call_id: &'w str) -> impl Iterator<Item = &'w Leg> {
    phone.legs.iter().filter(move |leg| leg.call_id == call_id)
}

/// Calls and questions against their scripts, in quiet weather.
fn outcomes(world: &World) -> Option<String> {
    if world.scenario.weather != Weather::Quiet {
        return None;
    }
    for phone in world.phones.iter().filter(|p| p.profile.registers) {
        if !phone.is_registered() && !phone.profile.leaves {
            return Some(format!("{} is not registered", phone.profile.aor()));
        }
    }
    for (i, planned) in world.scenario.calls.iter().enumerate() {
        let phone = world.phones.get(planned.phone)?;
        if let Some(text) = unreached(world, i, planned) {
            return Some(text);
        }
        if is_doubtful(world, planned.phone, &planned.what.callee, planned.at) {
            continue;
        }
        let call = phone.calls.iter().find(|c| c.spec.number == planned.what.number)?;
        let title =
            format!("call {} of {} to {}", planned.what.number, phone.profile.aor(), planned.what.callee);
        let result = call.result.unwrap_or(Final::Hung);
        if !planned.right.contains(&result) {
            return Some(format!("{title}: {result:?} instead of one of {:?}", planned.right));
        }
        if let Some(text) = call_is_whole(world, call) {
            return Some(format!("{title}: {text}"));
        }
    }
    for (i, planned) in world.scenario.asks.iter().enumerate() {
        let phone = world.phones.get(planned.phone)?;
        let (method, aor) = &planned.what;
        if is_doubtful(world, planned.phone, aor, planned.at) {
            continue;
        }
        let wrong = phone.asks.iter().find(|a| {
            a.method == *method && a.aor == *aor && !a.result.is_some_and(|r| planned.right.contains(&r))
        });
        if let Some(ask) = wrong {
            let right = &planned.right;
            return Some(format!("{method} {i} to {aor}: {:?} instead of one of {right:?}", ask.result));
        }
    }
    None
}

/// Whether an end of a call or question was behind a translation that had forgotten it at some time.
fn is_doubtful(world: &World, caller: usize, callee: &str, at: Time) -> bool {
    let phones = world.phones.iter().enumerate();
    let mut ends = phones.filter(|(i, p)| *i == caller || p.profile.aor() == callee);
    ends.any(|(i, _)| world.lapsed(i, at, LONGEST))
}

/// A phone that was not called: it was registered, and its mapping was alive.
fn unreached(world: &World, number: usize, planned: &Planned<CallSpec>) -> Option<String> {
    let (caller, callee) = (planned.phone, &planned.what.callee);
    if !world.scenario.rings_all(callee) || world.lapsed(caller, planned.at, SOON) {
        return None;
    }
    let call = world.phones.get(caller)?.calls.iter().find(|c| c.spec.number == planned.what.number)?;
    let ready = world.ready.get(&number)?;
    let called = |i: usize| legs_of(&world.phones[i], &call.call_id).next().is_some();
    let missed = ready.iter().find(|&&i| {
        let profile = &world.phones[i].profile;
        let fit = profile.registers && profile.aor() == *callee && profile.manner != Manner::Silent;
        fit && !world.lapsed(i, planned.at, SOON) && !called(i)
    })?;
    Some(format!("{} of {callee} is registered and was not called", world.phones[*missed].profile.network))
}

/// What is wrong with a call, seen from both ends.
fn call_is_whole(world: &World, call: &Call) -> Option<String> {
    let legs: Vec<&Leg> = legs(world, &call.call_id).collect();
    if let Some(leg) = legs.iter().find(|l| l.state != LegState::Over) {
        return Some(format!("a leg is still {:?}", leg.state));
    }
    let confirmed = legs.iter().filter(|l| l.confirmed).count();
    if !is_answered(call) {
        return (confirmed > 0).then(|| format!("{confirmed} phones think that they are in a call"));
    }
    if confirmed != call.forks() {
        return Some(format!("{} phones answered, {confirmed} saw an ACK", call.forks()));
    }
    if let Some(leg) = legs.iter().find(|l| l.confirmed && l.bye != Some(Final::Status(200))) {
        return Some(format!("the called phone's BYE ended with {:?}", leg.bye));
    }
    if call.bye != Some(Final::Status(200)) {
        return Some(format!("BYE ended with {:?}", call.bye));
    }
    let asked = call.spec.reinvite && call.spec.talk >= 4_000 && !call.cancelled;
    if asked && call.reinvited != Some(Final::Status(200)) {
        return Some(format!("INVITE within the dialog ended with {:?}", call.reinvited));
    }
    None
}
