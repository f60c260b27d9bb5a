//! How what is kept ends: answered, refused here, cancelled, given up.

use crate::failover::state::Failover;
use crate::failover::store::{Entry, KeptMessage};
use crate::forwarding::step::Step;
use crate::sessions::reply_credit::Reply;
use crate::timers::LATE;
use crate::{MethodClass, NodeIndex};
use core::time::Duration;
use wire::Time;

/// From one look for another node to the next, while an INVITE rings at one that is down.
pub(super) const LOOK: Duration = Duration::from_secs(1);

impl Failover {
    /// The sender of a request is told here that it goes nowhere. Of an INVITE it is remembered who may still
    /// answer it, as the caller must not hear of that any more.
    pub(crate) fn refused_here(&mut self, step: &mut Step<'_>, id: u64, class: MethodClass, status: u16) {
        let Some(at) = self.kept.find(id, class, KeptMessage::ToNode) else { return };
        match self.kept.get_mut(at).filter(|entry| entry.fresh) {
            Some(entry) if !entry.settled => {
                entry.refuse(step.now, status);
                let call = entry.key.call;
                let len = step.out.transmits().last().map_or(0, |refusal| refusal.range.len());
                if let Some(place) = step.dispatcher.calls().invite_of(call, id) {
                    let refusal = Reply { status, len, secret: 0 };
                    step.dispatcher.calls_mut().pays(place, &refusal);
                }
                self.over(step, at);
            }
            Some(_) => {}
            None => self.kept.forget(at),
        }
    }

    /// The caller has cancelled an INVITE: whoever rings hears of it (RFC 3261 section 16.10), and the caller
    /// waits for its end no longer than for 64*T1 (9.1).
    pub(crate) fn cancelled(&mut self, step: &mut Step<'_>, id: u64) {
        let Some(at) = self.kept.find(id, MethodClass::Invite, KeptMessage::ToNode) else { return };
        let Some(entry) = self.kept.get_mut(at).filter(|entry| entry.fresh && !entry.settled) else { return };
        entry.until = entry.until.min(step.now + LATE);
        self.kept.arm(at, step.now);
        self.call_off(step, at);
    }

    /// An INVITE is answered or refused: who else rings is cancelled. Who cannot be reached is when it is
    /// back, as long as it may ring.
    pub(crate) fn over(&mut self, step: &mut Step<'_>, at: u32) {
        let ring = step.forwarder.settings().rules.ring_timeout;
        let owed = self.call_off(step, at);
        let Some(entry) = invariant::some!(self.kept.get_mut(at), "an entry that ended is still stored")
        else {
            return;
        };
        if owed {
            entry.wait_for_earlier(ring);
        }
        let due = entry.repeat.min(entry.until).min(if owed { step.now + LOOK } else { Time::FAR });
        self.kept.arm(at, due);
    }

    /// Of an INVITE that is answered, refused or cancelled: who had it before and rings is cancelled (16.7
    /// step 10). Says whether a node rings that has not got the CANCEL yet, or has not answered it.
    pub(super) fn call_off(&mut self, step: &mut Step<'_>, at: u32) -> bool {
        let Some(entry) = invariant::some!(self.kept.get(at), "a message called off is stored") else {
            return false;
        };
        let id = entry.key.id;
        // Mostly nobody, and nothing is allocated.
        let rung: Vec<NodeIndex> = entry.to_tell(step.now).collect();
        for &node in &rung {
            let told = self.kept.find(id, MethodClass::Cancel, KeptMessage::Own(node)).is_some();
            // While it is replayed, that is done later.
            if told || self.replaying || !step.forwarder.cluster().is_usable(step.now, node) {
                continue;
            }
            self.withdraw(step, at, node, None);
            if let Some(entry) = self.kept.get_mut(at) {
                entry.put_off(step.now, node, LOOK);
            }
            // Where there is no room for the CANCEL it is sent once.
            if self.kept.find(id, MethodClass::Cancel, KeptMessage::Own(node)).is_none() {
                self.kept.told(id, node);
            }
        }
        self.kept.get(at).is_some_and(|entry| entry.rung().next().is_some())
    }

    /// Something came back for what is kept: a response of this status from who has it.
    pub(crate) fn heard_of(
        &mut self,
        step: &mut Step<'_>,
        id: u64,
        class: MethodClass,
        what: KeptMessage,
        status: u16,
    ) {
        let Some(at) = self.kept.find(id, class, what) else { return };
        let ring = step.forwarder.settings().rules.ring_timeout;
        let Some(entry) = self.kept.get_mut(at).filter(|entry| !entry.settled) else { return };
        if status < 200 {
            entry.heard();
            entry.alerted |= status > 100;
            let rings =
                class == MethodClass::Invite && !step.dispatcher.calls().is_cancelled(entry.key.call, id);
            if rings {
                entry.until = step.now + ring;
            }
            // One that is down may have said that; and a node may not have got the CANCEL yet.
            let owed = !rings && entry.rung().next().is_some();
            let look = if owed || !step.forwarder.cluster().is_usable(step.now, entry.node) {
                step.now + LOOK
            } else {
                Time::FAR
            };
            let due = entry.repeat.min(entry.until).min(look);
            return self.kept.arm(at, due);
        }
        entry.settle(step.now);
        // Of an INVITE alone those who had it before matter.
        if !entry.fresh || !entry.has_earlier() {
            return self.kept.forget(at);
        }
        self.over(step, at);
    }

    /// The time of what is kept is up. An INVITE that nobody has answered gets its final response now, as if
    /// a node had said 408 (RFC 3261 section 16.8).
    pub(super) fn end(&mut self, step: &mut Step<'_>, at: u32) {
        let unanswered = |e: &&Entry| e.key.what == KeptMessage::ToNode && e.fresh && !e.settled;
        match self.kept.get(at).filter(unanswered) {
            Some(_) => self.give_up(step, at, 408),
            None => self.kept.forget(at),
        }
    }

    /// Nobody can be reached (503, RFC 3261 section 16.9), or nobody has answered in time (408): the sender
    /// is told. Of an INVITE that it has cancelled it is told what it waits for.
    pub(super) fn give_up(&mut self, step: &mut Step<'_>, at: u32, status: u16) {
        let Some(entry) = invariant::some!(self.kept.get(at), "a message given up is stored") else { return };
        let (call, id, class, what) = (entry.key.call, entry.key.id, entry.key.class, entry.key.what);
        let cancelled = class == MethodClass::Invite && step.dispatcher.calls().is_cancelled(call, id);
        let status = if cancelled { 487 } else { status };
        if matches!(what, KeptMessage::ToNode | KeptMessage::ToCaller) {
            step.forwarder.counts.unavailable += u64::from(status == 503);
            self.tell(step, at, status);
        }
        match what {
            KeptMessage::ToNode => {
                step.dispatcher.calls_mut().abandon(step.now, call, id, class, false);
                self.refused_here(step, id, class, status);
            }
            _ => self.kept.forget(at),
        }
        if what == KeptMessage::ToCaller {
            step.dispatcher.calls_mut().answered_by_caller(step.now, call, class, 503, 0);
        }
    }

    /// Refuses what is kept, which is not received once more for that: nobody else is to have it.
    pub(super) fn tell(&mut self, step: &mut Step<'_>, at: u32, status: u16) {
        self.with_kept(step, at, |_, step, from, message| {
            step.forwarder.refuse_again(from, message, status, step.out);
        });
    }
}
