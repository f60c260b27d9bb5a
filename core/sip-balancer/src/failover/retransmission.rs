//! Sending once more what is kept: after silence, over another way, to another node.
//!
//! An INVITE outside a dialog has exactly one final response (RFC 3261 sections 16.7 and 16.8). While it is
//! kept, it is seen to by these rules, each of which stands in one place:
//!
//! - It ends by its deadline. Without an answer until then its sender gets 408 (`end`).
//! - One that its node says nothing to goes to another: soon where it says nothing to anybody, else later
//!   (`weigh_silence`).
//! - One whose node is down goes to another node, or waits for one while a phone rings; else it is refused
//!   (`rescue`).
//! - One that rang at a node that is back goes there once more, in case that has forgotten it (`remind`).
//! - What its sender has cancelled is never sent again: where it would have to be, its sender gets 487
//!   (`take_out`).
//! - Once it is answered or refused nobody else may answer it, and who still rings is cancelled (`call_off`).

use crate::failover::endings::LOOK;
use crate::failover::state::Failover;
use crate::failover::store::{Entry, KeptMessage, Memory, MessageKey};
use crate::forwarding::step::Step;
use crate::sessions::reply_credit::Reply;
use crate::timers::{LATE, T1};
use crate::transmit::TransmitToken;
use crate::{Assigned, MethodClass, Waiting};
use core::time::Duration;
use sip_health::Vital;
use wire::{Flow, Time};

/// So often a request may find its way dead, or its node silent, before its sender is told.
const MOST_TRIES: u8 = 3;
/// So long a node may say nothing to an INVITE while it answers what came later: until the second repetition
/// has come (RFC 3261 section 17.1.1.2), so that it must have had one of three.
const IGNORED: Duration = Duration::from_millis(1_500);

/// A message that is to be received once more, taken out of the store.
pub(crate) struct Replay {
    pub what: KeptMessage,
    pub from: Flow,
    pub bytes: Vec<u8>,
    generation: u32,
}

/// What is to be done with what was looked at.
pub(crate) enum Looked {
    /// Nothing.
    Done,
    /// It is replayed, and after that looked at again then at the latest, if that is not set yet.
    Replay(Option<Time>),
}

/// What becomes of an INVITE whose node may have gone down.
pub(crate) enum Rescue {
    /// It stays, and is looked at then.
    Wait(Time),
    /// It is replayed, so that it goes to another node.
    Replay,
    /// It was refused.
    Over,
}

impl Failover {
    /// Takes a message out that is to be received once more. An INVITE that nobody wants any more is refused
    /// instead.
    pub(crate) fn take_out(&mut self, step: &mut Step<'_>, at: u32) -> Option<Replay> {
        let entry = invariant::some!(self.kept.get(at), "a replayed message is stored")?;
        let what = entry.key.what;
        if what == KeptMessage::ToNode
            && entry.fresh
            && !entry.settled
            && step.dispatcher.calls().is_cancelled(entry.key.call, entry.key.id)
        {
            self.give_up(step, at, 487);
            return None;
        }
        if let Some(status) = entry.refused.filter(|_| what == KeptMessage::ToNode) {
            self.tell(step, at, status);
            return None;
        }
        let (from, bytes, generation) = self.kept.lend(at)?;
        self.replaying = true;
        Some(Replay { what, from, bytes, generation })
    }

    /// It has been received: puts it back.
    pub(crate) fn put_back(&mut self, step: &mut Step<'_>, at: u32, replay: Replay) {
        self.replaying = false;
        self.kept.bring_back(at, replay.generation, replay.bytes);
        if self.kept.get(at).is_some_and(|entry| entry.refused.is_some()) {
            self.call_off(step, at);
        }
    }

    /// One of those that are due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<u32> {
        self.kept.pop(now)
    }

    /// What is kept is looked at again then at the latest.
    pub(crate) fn look_again(&mut self, at: u32, look: Time) {
        self.kept.arm_or(at, look);
    }

    /// What is kept is due.
    pub(crate) fn look_at(&mut self, step: &mut Step<'_>, at: u32) -> Looked {
        let Some(entry) = invariant::some!(self.kept.get(at), "a due message is stored") else {
            return Looked::Done;
        };
        let (call, id, class, what) = (entry.key.call, entry.key.id, entry.key.class, entry.key.what);
        let (fresh, until, settled) = (entry.fresh, entry.until, entry.settled);
        if until <= step.now {
            self.end(step, at);
            return Looked::Done;
        }
        let (mut look, mut gone) = (Time::FAR, false);
        if fresh && settled {
            // At the latest when it could have been forgotten, and had nobody rung.
            match self.call_off(step, at) {
                true => look = step.now + LOOK,
                false => {
                    self.kept.get_mut(at).into_iter().for_each(|e| e.until = e.until.min(step.now + LATE))
                }
            }
        }
        if what == KeptMessage::ToNode && !settled {
            let Some(waiting) = step.dispatcher.calls().waiting(call, id, class) else {
                self.end(step, at);
                return Looked::Done;
            };
            let usable = step.forwarder.cluster().is_usable(step.now, waiting.node);
            gone = fresh && !usable;
            if waiting.heard || !usable {
                match self.rescue(step, at) {
                    Rescue::Wait(time) => look = time,
                    Rescue::Replay => return Looked::Replay(None),
                    Rescue::Over => return Looked::Done,
                }
                if usable && self.remind(step, at) {
                    return Looked::Replay(Some(look));
                }
            } else if fresh && !step.forwarder.settings().rules.silent_after.is_zero() {
                let (next, moves) = self.weigh_silence(step, at, &waiting);
                look = next;
                if moves {
                    return Looked::Replay(Some(look));
                }
            }
        }
        if fresh && !settled && step.dispatcher.calls().is_cancelled(call, id) && self.call_off(step, at) {
            look = look.min(step.now + LOOK);
        }
        let repeat = self.kept.get(at).map_or(Time::FAR, |entry| entry.repeat);
        if repeat <= step.now && gone {
            // It may be back, and it may have lost it.
            self.kept.get_mut(at).into_iter().for_each(|entry| entry.repeat = step.now + LOOK);
        } else if repeat <= step.now && self.repeats(step, at) {
            return Looked::Replay(Some(look));
        }
        self.kept.arm_or(at, look);
        Looked::Done
    }

    /// A node has said nothing to an INVITE yet. Says when to look at that again, and whether another node is
    /// to have it now.
    fn weigh_silence(&mut self, step: &mut Step<'_>, at: u32, waiting: &Waiting) -> (Time, bool) {
        let patience = step.forwarder.settings().rules.silent_after;
        let vital = step.forwarder.cluster().vital(waiting.node);
        let quiet = waiting.since.max(vital.map_or(Time::ZERO, Vital::heard_at)) + patience;
        let ignored = waiting.since + patience.max(IGNORED);
        let look = quiet.min(ignored);
        if look > step.now {
            return (look, false);
        }
        // Where many wait for long, and all of them in turn, another node would only have more to do.
        let slow = quiet > step.now && vital.map_or(Time::ZERO, Vital::served_at) <= waiting.since;
        if slow {
            return (quiet, false);
        }
        let entry = invariant::some!(self.kept.get(at), "an examined message is stored");
        let Some(MessageKey { call, id, class, .. }) = entry.map(|entry| entry.key) else {
            return (Time::FAR, false);
        };
        // One whose node may have no streams is first sent as others are (RFC 3261 section 18.1.1). Who has
        // given up wants it nowhere.
        let moves = !waiting.cancelled
            && (step.dispatcher.calls_mut().shrink(call, id, class)
                || self.give_away(step, at, quiet <= step.now));
        (step.now + patience, moves)
    }

    /// Whether what is kept is repeated now. A refusal of ours only as often as its caller has paid for: its
    /// address may be forged.
    fn repeats(&mut self, step: &mut Step<'_>, at: u32) -> bool {
        let Some(entry) = invariant::some!(self.kept.get_mut(at), "a repeated message is stored") else {
            return false;
        };
        entry.repeated(step.now);
        let (call, id, len) = (entry.key.call, entry.key.id, entry.bytes.len());
        let refusal = entry.refused.map(|status| Reply { status, len, secret: 0 });
        let of = refusal.and_then(|refusal| Some((step.dispatcher.calls().invite_of(call, id)?, refusal)));
        if of.is_none_or(|(place, refusal)| step.repays(place, &refusal)) {
            step.forwarder.counts.repeated += 1;
            return true;
        }
        self.kept.get_mut(at).into_iter().for_each(|entry| entry.repeat = Time::FAR);
        false
    }

    /// A node has said nothing for too long, to an INVITE or anything else (`silent`), or to this INVITE.
    /// Says whether another one may have it.
    fn give_away(&mut self, step: &mut Step<'_>, at: u32, silent: bool) -> bool {
        let Some(entry) = self.kept.get(at).filter(|entry| entry.tries < MOST_TRIES) else {
            return false;
        };
        let (call, id, ignored) = (entry.key.call, entry.key.id, entry.ignored);
        let other = self.has_other(step, at);
        let waits = match silent {
            true => step.dispatcher.silent(step.now, call, id),
            // What a second one ignores, too, says more of the INVITE; and where too many are moved it is as
            // well off here.
            false => {
                let moves = !ignored && (!other || step.dispatcher.may_move(step.now));
                step.dispatcher.ignored(call, id, moves)
            }
        };
        if !waits || !other {
            return false;
        }
        if let Some(entry) = self.kept.get_mut(at) {
            entry.tries += 1;
            entry.ignored |= !silent;
        }
        true
    }

    /// Whether another node may have an INVITE that is kept, and there is a way to it.
    pub(crate) fn has_other(&self, step: &Step<'_>, at: u32) -> bool {
        let Some(entry) = self.kept.get(at) else { return false };
        let near = entry.from.listener;
        let way = |node| step.forwarder.way(Assigned { node, again: true, large: false }, near).is_some();
        step.dispatcher.has_other(step.now, entry.key.call, entry.key.id, way)
    }

    /// Gives what is kept at `at` to another node, if it is an INVITE whose node has gone down. Without
    /// another one it stays while a node may still answer it, or its sender repeats it.
    pub(crate) fn rescue(&mut self, step: &mut Step<'_>, at: u32) -> Rescue {
        let open = |e: &&Entry| e.fresh && !e.settled;
        let Some(entry) = self.kept.get(at).filter(open) else { return Rescue::Wait(Time::FAR) };
        let (call, id, stream) = (entry.key.call, entry.key.id, entry.from.transport.is_reliable());
        if step.forwarder.cluster().is_usable(step.now, entry.node) {
            return Rescue::Wait(Time::FAR);
        }
        let Some(waiting) = step.dispatcher.calls().waiting(call, id, MethodClass::Invite) else {
            return Rescue::Wait(Time::FAR);
        };
        // Who has it and rings may be back.
        let (spent, other) = (step.dispatcher.has_felled(step.now, call, id), self.has_other(step, at));
        let repeated = !waiting.rang && !stream && !spent;
        if waiting.cancelled || ((spent || !other) && !repeated && !self.rings(step, at)) {
            self.give_up(step, at, 503);
            return Rescue::Over;
        }
        if spent || !other {
            if let Some(entry) = self.kept.get_mut(at).filter(|_| waiting.heard) {
                entry.memory = if spent { Memory::Whole } else { Memory::InDoubt };
                entry.repeat = Time::FAR;
            }
            return Rescue::Wait(step.now + LOOK);
        }
        // Whatever becomes of it, it is looked at again.
        let due = self.kept.get(at).map_or(Time::FAR, |entry| entry.until.min(step.now + LOOK));
        self.kept.arm(at, due);
        Rescue::Replay
    }

    /// Gives an INVITE once more to the node that has it, if that is back after it was down. To one that was
    /// only out of reach this is a repetition (RFC 3261 section 17.2.1), and one that was started anew has
    /// never seen it: its caller, who hears it ring, repeats nothing. As often as it may be tried, for it may
    /// be what brings that node down. Says whether it is.
    fn remind(&mut self, step: &mut Step<'_>, at: u32) -> bool {
        let forgotten = |e: &&mut Entry| e.memory == Memory::InDoubt && e.reminded < MOST_TRIES;
        let Some(entry) = self.kept.get_mut(at).filter(forgotten) else { return false };
        if step.dispatcher.calls().is_cancelled(entry.key.call, entry.key.id) {
            return false;
        }
        entry.reminded += 1;
        (entry.memory, entry.wait, entry.repeat) = (Memory::Renewed, T1, step.now + T1);
        step.forwarder.counts.repeated += 1;
        true
    }

    /// Whether a node rings that has or had an INVITE that is kept, and may still answer it.
    fn rings(&self, step: &Step<'_>, at: u32) -> bool {
        let Some(entry) = self.kept.get(at) else { return false };
        entry.rang
            || entry.rung().any(|node| !step.dispatcher.calls().is_barred(entry.key.call, entry.key.id, node))
    }

    /// A request that is kept did not get through. Says whether it is replayed.
    fn lost_way(&mut self, step: &mut Step<'_>, at: u32, unseen: bool) -> bool {
        let Some(entry) = invariant::some!(self.kept.get(at), "a message that was found is stored") else {
            return false;
        };
        let (call, id, class, what) = (entry.key.call, entry.key.id, entry.key.class, entry.key.what);
        if what == KeptMessage::ToNode {
            if step.dispatcher.calls_mut().shrink(call, id, class) {
                return true;
            }
            let Some(waiting) = step.dispatcher.calls().waiting(call, id, class) else {
                self.end(step, at);
                return false;
            };
            step.dispatcher.returned(step.now, call, id, class, waiting.node, unseen);
            if waiting.heard {
                // Its answer may come over another connection; if the node is down, it is seen to then. What
                // it was to be reminded of has not come through.
                if let Some(entry) = self.kept.get_mut(at).filter(|e| e.memory == Memory::Renewed) {
                    entry.memory = Memory::InDoubt;
                    let due = entry.repeat.min(entry.until).min(step.now + LOOK);
                    self.kept.arm(at, due);
                }
                step.forwarder.cluster().want_probe(waiting.node);
                return false;
            }
            let spent = self.kept.get(at).is_some_and(|entry| entry.tries + 1 >= MOST_TRIES);
            if self.rings(step, at) && (spent || !self.has_other(step, at)) {
                // Who had it before may still answer it, so its sender is not told. It is tried again
                // meanwhile.
                if let Some(entry) = self.kept.get_mut(at) {
                    entry.repeat = step.now + LOOK;
                    let due = entry.repeat.min(entry.until);
                    self.kept.arm(at, due);
                }
                return false;
            }
        }
        let Some(entry) = self.kept.get_mut(at) else { return false };
        entry.tries = entry.tries.saturating_add(1);
        if entry.tries < MOST_TRIES {
            return true;
        }
        self.give_up(step, at, 503);
        false
    }

    /// A transmit could not be sent. `unseen`: its peer cannot have read it. Says what is to be replayed.
    pub(crate) fn lost(&mut self, step: &mut Step<'_>, token: TransmitToken, unseen: bool) -> Option<u32> {
        match token {
            TransmitToken::Kept(at, generation, node) => {
                let at = self.kept.of_token(at, generation, node)?;
                self.lost_way(step, at, unseen).then_some(at)
            }
            TransmitToken::Response(number) => {
                let mut index = step.forwarder.take_index();
                let node = self.responses().node_of(number);
                let name = node.map_or(&b""[..], |node| step.forwarder.name_of(node));
                self.responses().resend(step.now, number, (name, &mut index), step.out);
                step.forwarder.return_index(index);
                None
            }
            TransmitToken::Probe(..) => None,
        }
    }
}
