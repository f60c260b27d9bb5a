//! What ends a branch or a forwarded request besides a response: timeouts, the transport, CANCEL.

use super::Forwarder;
use super::actions::arm;
use super::prober::is_probe;
use super::proxied::{Proxied, ProxiedId};
use super::registering::is_registration;
use super::upstream::still_trying;
use crate::services::Services;
use crate::step::Step;
use core::mem;
use sip_message::{Message, Name};
use sip_proxy::context::{Action, BranchId};
use sip_transaction::{ClientId, Event, TimerId};
use wire::Time;

/// Bytes of the Reason lines of a CANCEL that are passed on.
const REASONS: usize = 512;

impl Forwarder {
    pub(super) fn cancel_branch<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        branch: BranchId,
        actions: &mut Vec<Action>,
    ) {
        if let Some(at) = p.lookups.iter().position(|l| l.branch.id == branch) {
            p.lookups.swap_remove(at);
            return p.context.branch_failed(step.now, branch, 487, actions);
        }
        if let Some(client) = p.client(branch) {
            // RFC 3326: why, for phones that list missed calls.
            let reason: &[u8] = match p.accepted {
                true => b"Reason: SIP;cause=200;text=\"Call completed elsewhere\"\r\n",
                false => p.text(&p.reason),
            };
            step.layer.cancel(step.now, client, reason, step.out);
            let target = p.target(branch);
            if let Some(&hop) = target.and_then(|target| target.hop(branch)) {
                self.count_within(step.now, hop);
            }
        }
    }

    /// What time or the transport did.
    pub(crate) fn event<S: Services>(&mut self, step: &mut Step<'_, S>, event: Event) {
        match event {
            Event::ClientTimeout { id, user } => self.branch_ended(step, (id, user), false),
            Event::ClientUnreachable { id, user } => self.branch_ended(step, (id, user), true),
            Event::ServerGone { user, .. } => self.server_gone(step, user),
            Event::User { token } => self.woken(step, token),
            Event::ClientGone { user, .. } => self.client_gone(step, user),
            Event::AckTimeout { .. } | Event::ServerUnreachable { .. } => {}
        }
    }

    /// A timer of a forwarded request.
    fn woken<S: Services>(&mut self, step: &mut Step<'_, S>, token: u64) {
        let (id, _) = ProxiedId::split(token);
        let Some(mut proxied) = self.proxied.take(id) else { return };
        proxied.timing.timer = TimerId::NONE;
        if proxied.timing.trying <= step.now {
            proxied.timing.trying = Time::FAR;
            still_trying(step, &mut proxied);
        }
        if step.now < proxied.timing.wakes {
            // The timer was set for the 100.
            arm(step.layer, &mut proxied);
            return self.proxied.put_back(step.layer, proxied);
        }
        proxied.timing.wakes = Time::FAR;
        let mut actions = mem::take(&mut self.actions);
        proxied.context.timeout(step.now, &mut actions);
        self.perform(step, proxied, actions, None, None);
    }

    fn branch_ended<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        (client, user): (ClientId, u64),
        unreachable: bool,
    ) {
        if is_registration(user) {
            self.registering.lost(step, user, unreachable);
            return self.registering.run(step, &mut self.resolver);
        }
        if is_probe(user) {
            if unreachable {
                self.prober.lost(user);
            }
            return;
        }
        let (id, branch) = ProxiedId::split(user);
        let Some(mut proxied) = self.proxied.take(id) else { return };
        // A request that was challenged has left again, in another transaction.
        let former = proxied.client(branch).is_some_and(|present| present != client);
        if proxied.over || former {
            return self.put_or_free(step, proxied);
        }
        if unreachable {
            self.branch_unreached(step, &proxied, branch);
        }
        let mut actions = mem::take(&mut self.actions);
        // Only silence counts as "not there"; a branch that answered something ends as it says.
        let silent = proxied.context.is_silent(branch) && !proxied.has_more(branch);
        if unreachable {
            proxied.branch_lost(step.now, branch, &mut actions);
        } else if silent && proxied.replace(branch) {
            proxied.context.branch_redirected(step.now, branch, &mut actions);
        } else {
            proxied.context.branch_timeout(step.now, branch, &mut actions);
        }
        self.perform(step, proxied, actions, None, None);
    }

    /// The server transaction has ended: an accepted INVITE needs its proxied request no more, one whose
    /// phones may answer still keeps it for as long as that can be, and one that was never answered takes
    /// everything with it.
    fn server_gone<S: Services>(&mut self, step: &mut Step<'_, S>, user: u64) {
        let (id, _) = ProxiedId::split(user);
        if self.proxied.end_accepted(id) {
            return;
        }
        let Some(mut proxied) = self.proxied.take(id) else { return };
        if proxied.over && proxied.context.gave_up() {
            return self.put_or_free(step, proxied);
        }
        if !proxied.over {
            for (_, client) in mem::take(&mut proxied.clients) {
                step.layer.abandon(client);
            }
            step.layer.unschedule(mem::replace(&mut proxied.timing.timer, TimerId::NONE));
            step.calls.concluded(408, &proxied.upstream.key);
            step.record_failed(proxied.upstream.recorded, 408, true);
        }
        self.proxied.end(step.layer, proxied);
    }

    /// A client transaction has ended. The last one takes a proxied request with it that was kept for a late
    /// answer, so that there are never more of those than client transactions.
    fn client_gone<S: Services>(&mut self, step: &mut Step<'_, S>, user: u64) {
        let (id, _) = ProxiedId::split(user);
        if let Some(proxied) = self.proxied.take(id) {
            self.put_or_free(step, proxied);
        }
    }

    /// Puts a proxied request back that something may still come for: its caller's transaction is there, or
    /// a branch that may bring an answer.
    fn put_or_free<S: Services>(&mut self, step: &mut Step<'_, S>, proxied: Box<Proxied>) {
        let waits = |(_, client): &(BranchId, ClientId)| step.layer.user_of_client(*client).is_some();
        let caller = step.layer.user_of(proxied.upstream.server).is_some();
        match caller || !proxied.over || proxied.clients.iter().any(waits) {
            true => self.proxied.put_back(step.layer, proxied),
            false => self.proxied.end(step.layer, proxied),
        }
    }

    /// A CANCEL for a request being forwarded, whose server transaction has this user (section 16.10).
    pub(crate) fn cancel<S: Services>(&mut self, step: &mut Step<'_, S>, user: u64, cancel: &Message<'_>) {
        let (id, _) = ProxiedId::split(user);
        let Some(mut proxied) = self.proxied.take(id) else { return };
        // RFC 3326 section 2: copied into the CANCELs that follow from this one.
        let mut lines = cancel.headers(Name::Reason).filter_map(|header| cancel.bytes().get(header.line));
        // Of one CANCEL, however many come.
        if proxied.reason.is_empty() {
            proxied.reason = proxied.push_text(|text| {
                let room = text.len() + REASONS;
                while let Some(line) = lines.next().filter(|line| text.len() + line.len() <= room) {
                    text.extend_from_slice(line);
                }
            });
        }
        let mut actions = mem::take(&mut self.actions);
        proxied.context.cancel_all(step.now, &mut actions);
        self.perform(step, proxied, actions, None, None);
    }
}
