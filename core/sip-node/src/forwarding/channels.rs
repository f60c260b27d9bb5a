//! The channels of trunks that a forwarded INVITE takes, and what becomes of it where there are none.

use super::proxied::{Proxied, StoredTarget};
use crate::access::Holder;
use crate::admitted::Admitted;
use crate::calls::DialogKey;
use crate::channels::{Channels, NO_CHANNEL};
use crate::server_side::ServerSide;
use crate::services::{Counter, Services};
use crate::settings::Settings;
use crate::site::Site;
use crate::step::Step;
use crate::watch::List;
use core::net::SocketAddr;
use sip_health::{Channel, Line};
use sip_message::{Message, Uri};
use sip_proxy::context::BranchId;
use sip_proxy::token::Role;
use std::sync::Arc;
use wire::Flow;

/// To a call of a trunk that has no further channel. A 503 would say that this server is out of service, and
/// the trunk would try the next one (RFC 3263 section 4.3).
const BUSY: u16 = 486;

/// The channel of the trunk that a new call comes from, if it comes from one. An error: there is no further
/// one, and the call was answered.
pub(super) fn claim_inbound<S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Message<'_>,
    a: &Admitted<'_>,
    server: ServerSide,
) -> Result<Option<Channel>, ()> {
    let trunk = a.caller.trunk.filter(|_| server.is_new_call);
    let Some(line) = trunk.and_then(|at| line_at(step.site.settings(), at)) else { return Ok(None) };
    let full = match line.inbound(step.now) {
        Ok(channel) => return Ok(Some(channel)),
        Err(_) if step.site.is_emergency_call(&a.uri, a.routing.request_uri) => {
            return Ok(Some(line.anyway()));
        }
        Err(full) => full,
    };
    step.site.services().trunk_full(line.name(), full, line.limits());
    step.site.services().count(Counter::CallsFailed);
    step.answer_in(flow, request, server, BUSY, NO_CHANNEL);
    Err(())
}

/// Takes a channel of the trunk that a branch of a new call leads to, if it leads to one and the call does
/// not have one already. False: the trunk takes no further call.
pub(super) fn claim_outbound<S: Services>(step: &Step<'_, S>, p: &mut Proxied, branch: BranchId) -> bool {
    if !p.invite || p.upstream.key.is_within() {
        return true;
    }
    let Some(target) = p.target(branch) else { return true };
    let urgent = target.watch.as_ref().is_some_and(|watch| watch.list == List::Emergency);
    let line = line_of(step.site, target);
    let context = &p.context;
    if p.claimed.hand_on(line.as_ref(), branch, |held_by| context.is_running(held_by)) {
        return true;
    }
    let Some(line) = line else { return true };
    if !urgent && p.claimed.is_refused(&line) {
        return false;
    }
    let began = p.timing.started;
    let taken = match urgent {
        true => {
            line.attempt(began);
            Ok(line.anyway())
        }
        false => line.outbound(step.now, began),
    };
    match taken {
        Ok(channel) => {
            p.claimed.hold(channel, branch);
            true
        }
        Err(full) => {
            p.withheld.full = Some(full);
            step.site.services().trunk_full(line.name(), full, line.limits());
            p.claimed.refused = Some(line);
            false
        }
    }
}

/// A branch of a new call was answered with a 2xx, which went back: the call holds its channels from here.
pub(super) fn hold_channels<S: Services>(step: &mut Step<'_, S>, p: &mut Proxied, branch: BranchId) {
    if !p.invite || p.upstream.key.is_within() {
        return;
    }
    let line = p.target(branch).and_then(|target| line_of(step.site, target));
    let channels = p.claimed.answered(line, branch);
    if let Some(channel) = &channels.outbound {
        channel.line().answered(p.timing.started);
    }
    if !channels.is_empty() {
        step.calls.hold(&p.upstream.key, channels);
    }
}

/// A call was answered that had been given up, and goes on.
pub(super) fn hold_late<S: Services>(step: &mut Step<'_, S>, p: &Proxied, callee: SocketAddr) {
    let upstream = &p.upstream;
    let sender = if upstream.role == Role::Trunk { line_of_sender(step.site, upstream.source) } else { None };
    let receiver = line_of_target(step.site, callee);
    hold_anyway(step, &upstream.key, sender, receiver);
}

/// A call is found to be under way, with a request of it from `source` to `place`: one from before a restart.
pub(super) fn take_up<S: Services>(
    step: &mut Step<'_, S>,
    key: &DialogKey,
    source: Option<Flow>,
    place: SocketAddr,
) {
    let (by_trunk, to_trunk) = key.trunk_ends();
    let sender = source.filter(|_| by_trunk).and_then(|flow| line_of_sender(step.site, flow));
    let settings = step.site.settings();
    let there = || line_at(settings, settings.trunk_of(place.ip())?);
    let receiver = if to_trunk { line_of_target(step.site, place).or_else(there) } else { None };
    hold_anyway(step, key, sender, receiver);
}

fn hold_anyway<S: Services>(
    step: &mut Step<'_, S>,
    key: &DialogKey,
    sender: Option<Arc<Line>>,
    receiver: Option<Arc<Line>>,
) {
    let [inbound, outbound] = [sender, receiver].map(|line| line.map(|line| line.anyway()));
    let channels = Channels { inbound, outbound };
    if !channels.is_empty() {
        step.calls.hold(key, channels);
    }
}

/// The trunk that a target belongs to.
fn line_of<S: Services>(site: &Site<S>, target: &StoredTarget) -> Option<Arc<Line>> {
    if let Some(trunk) = &target.trunk {
        return trunk.get()?.line.clone();
    }
    // Of a route, voicemail or `[emergency]`.
    let uri = target.watch.as_ref()?.gateway.uri();
    let settings = site.settings();
    if settings.trunks.is_empty() {
        return None;
    }
    match site.places().of_uri(settings, &Uri::parse(uri).ok()?)? {
        Holder::Trunk(at) => line_at(settings, at),
        Holder::Service => None,
    }
}

/// The trunk that a message comes from.
fn line_of_sender<S: Services>(site: &Site<S>, flow: Flow) -> Option<Arc<Line>> {
    match site.trunk_of(flow) {
        Some(at) => line_at(site.settings(), at),
        None => line_of_target(site, flow.remote),
    }
}

/// The trunk that has a target at this address.
fn line_of_target<S: Services>(site: &Site<S>, address: SocketAddr) -> Option<Arc<Line>> {
    match site.places().target_at(site.settings(), address)? {
        Holder::Trunk(at) => line_at(site.settings(), at),
        Holder::Service => None,
    }
}

/// The trunk at this place of the settings.
fn line_at(settings: &Settings, at: usize) -> Option<Arc<Line>> {
    settings.trunks.get(at)?.line.clone()
}
