//! Sending once more what is kept: after silence, over another way, to another node.

use crate::cluster::NodeIndex;
use crate::kept::{Entry, T1, Token, What};
use crate::machine::Balancer;
use crate::requests::{Checked, tag_of};
use crate::sessions::{GIVE_UP, LATE};
use crate::{Assigned, Request, Tag};
use core::time::Duration;
use sip_message::{Message, Parsed, parse};
use wire::{Flow, Outbox, Time};

/// So often a request may find its way dead, or its node silent, before its sender is told.
const MOST_TRIES: u8 = 3;
/// From one look for another node to the next, while an INVITE rings at one that is down.
const LOOK: Duration = Duration::from_secs(1);
/// Looked at in one go.
const WORK: usize = 1_024;

impl Balancer {
    /// Keeps a request to a node if it may have to be sent once more, and says what its transmit is known by; zero
    /// where nobody wants to know.
    pub(crate) fn keep_inward(
        &mut self,
        now: Time,
        from: Flow,
        request: &Message<'_>,
        r: &Request<'_>,
        to: Assigned,
        way: Flow,
    ) -> u64 {
        let fresh = r.tag == Tag::Invite && !r.inside;
        let stream = way.transport.is_reliable();
        let repeats = from.transport.is_reliable() && !stream;
        if !(fresh || repeats || stream) {
            return 0;
        }
        let (at, known) = match self.kept.find(r.id, r.tag, What::ToNode) {
            Some(at) => (at, true),
            // A late repetition of what is answered already.
            None if to.again && self.dispatcher.waiting(r.call, r.id, r.tag).is_none() => return 0,
            None => {
                let until = now + GIVE_UP;
                let bytes = request.bytes();
                let Some(at) = self.kept.keep(What::ToNode, r.call, r.id, r.tag, from, bytes, until) else {
                    return 0;
                };
                if let Some(entry) = self.kept.get_mut(at) {
                    (entry.fresh, entry.node) = (fresh, to.node);
                    entry.repeat = if repeats { now + T1 } else { Time::FAR };
                }
                (at, false)
            }
        };
        let patience = self.settings.rules.silent_after;
        let look = if fresh && !patience.is_zero() { now + patience } else { Time::FAR };
        let Some(entry) = self.kept.get_mut(at) else { return 0 };
        if entry.node != to.node {
            entry.give_to(to.node);
            // One that has rung has as long as it had.
            (entry.until, entry.settled) = (entry.until.max(now + GIVE_UP), false);
            entry.wait = T1;
            entry.repeat = if repeats { now + T1 } else { Time::FAR };
        } else if to.again && known {
            // Its deadlines are set.
            return if stream { self.kept.token(at) } else { 0 };
        }
        let due = look.min(entry.repeat).min(entry.until);
        self.kept.arm(at, due);
        if stream { self.kept.token(at) } else { 0 }
    }

    /// The same for a request to the caller's side.
    pub(crate) fn keep_outward(
        &mut self,
        now: Time,
        from: Flow,
        request: &Message<'_>,
        c: &Checked<'_>,
        way: Flow,
    ) -> u64 {
        let (tag, id) = (tag_of(request.method()), c.id);
        let stream = way.transport.is_reliable();
        let repeats = from.transport.is_reliable() && !stream;
        if !(repeats || stream) {
            return 0;
        }
        if let Some(at) = self.kept.find(id, tag, What::ToCaller) {
            return if stream { self.kept.token(at) } else { 0 };
        }
        let until = now + GIVE_UP;
        let Some(at) = self.kept.keep(What::ToCaller, c.call, id, tag, from, request.bytes(), until) else {
            return 0;
        };
        let Some(entry) = self.kept.get_mut(at) else { return 0 };
        entry.repeat = if repeats { now + T1 } else { Time::FAR };
        let due = entry.repeat.min(until);
        self.kept.arm(at, due);
        if stream { self.kept.token(at) } else { 0 }
    }

    /// Keeps a refusal that came over a stream and leaves in a datagram, until its ACK comes (RFC 3261 17.2.1).
    pub(crate) fn keep_refusal(&mut self, now: Time, from: Flow, response: &Message<'_>, id: u64) {
        let call = self.sealer.call(response.call_id());
        let until = now + LATE;
        let kept = self.kept.keep(What::Refusal, call, id, Tag::Invite, from, response.bytes(), until);
        let Some(at) = kept else { return };
        if let Some(entry) = self.kept.get_mut(at) {
            entry.repeat = now + T1;
        }
        self.kept.arm(at, now + T1);
    }

    /// How often the way of a request that is kept was found to lead nowhere.
    pub(crate) fn tries(&self, id: u64, tag: Tag, what: What) -> u8 {
        let at = self.kept.find(id, tag, what);
        at.and_then(|at| self.kept.get(at)).map_or(0, |entry| entry.tries)
    }

    /// Forgets what is kept under an id, if it is.
    pub(crate) fn forget(&mut self, id: u64, tag: Tag, what: What) {
        if let Some(at) = self.kept.find(id, tag, what) {
            self.kept.forget(at);
        }
    }

    /// The sender of a request is told here that it goes nowhere. Of an INVITE it is remembered who may still answer it,
    /// as the caller must not hear of that any more.
    pub(crate) fn refused_here(&mut self, now: Time, id: u64, tag: Tag) {
        let Some(at) = self.kept.find(id, tag, What::ToNode) else { return };
        match self.kept.get_mut(at).filter(|entry| entry.fresh) {
            Some(entry) => {
                entry.refuse(now + LATE);
                self.kept.arm(at, now + LATE);
            }
            None => self.kept.forget(at),
        }
    }

    /// Whether an INVITE was refused here after a node had it.
    pub(crate) fn is_refused(&self, id: u64) -> bool {
        let at = self.kept.find(id, Tag::Invite, What::ToNode);
        at.and_then(|at| self.kept.get(at)).is_some_and(|entry| entry.refused)
    }

    /// Something came back for what is kept: a response of this status from who has it.
    pub(crate) fn heard_of(&mut self, now: Time, id: u64, tag: Tag, what: What, status: u16) {
        let Some(at) = self.kept.find(id, tag, what) else { return };
        let ring = self.settings.rules.ring_timeout;
        let Some(entry) = self.kept.get_mut(at).filter(|entry| !entry.settled) else { return };
        if status < 200 {
            entry.heard();
            if tag == Tag::Invite {
                entry.until = now + ring;
            }
            let due = entry.repeat.min(entry.until);
            return self.kept.arm(at, due);
        }
        entry.settled = true;
        // Of an INVITE alone those who had it before matter.
        if !entry.fresh || !entry.has_rivals() {
            return self.kept.forget(at);
        }
        (entry.repeat, entry.until) = (Time::FAR, now + LATE);
        self.kept.arm(at, now + LATE);
    }

    /// Receives a message that is kept once more.
    fn feed(&mut self, now: Time, at: u32, out: &mut Outbox) {
        let Some(what) = self.kept.get(at).map(|entry| entry.what) else { return };
        let Some((from, bytes, generation)) = self.kept.lend(at) else { return };
        let limits = self.settings.message;
        self.with_index(|this, index| {
            // It was good when it came.
            let (Parsed::Good(message) | Parsed::Bad(message, _)) = parse(&bytes, index, &limits) else {
                return;
            };
            this.feeding = true;
            match what {
                What::ToNode | What::ToCaller => this.request(now, from, &message, out),
                What::Refusal => this.relay(now, from, &message, out),
                What::Own(node) => this.send_own(from, &message, node, at, out),
            }
            this.feeding = false;
        });
        self.kept.bring_back(at, generation, bytes);
    }

    /// What is due of what is kept.
    pub(crate) fn look_after(&mut self, now: Time, out: &mut Outbox) {
        for _ in 0..WORK {
            let Some(at) = self.kept.pop(now) else { break };
            self.look_at(now, at, out);
        }
        let generation = self.cluster.generation();
        if generation != self.seen {
            self.seen = generation;
            self.save_orphans(now, out);
        }
    }

    fn look_at(&mut self, now: Time, at: u32, out: &mut Outbox) {
        let Some(entry) = self.kept.get(at) else { return };
        let (call, id, tag, what) = (entry.call, entry.id, entry.tag, entry.what);
        let (fresh, until, settled) = (entry.fresh, entry.until, entry.settled);
        if until <= now {
            return self.kept.forget(at);
        }
        let (mut look, mut fed) = (Time::FAR, false);
        if what == What::ToNode && !settled {
            let Some(waiting) = self.dispatcher.waiting(call, id, tag) else { return self.kept.forget(at) };
            let patience = self.settings.rules.silent_after;
            if waiting.heard || (waiting.rang && !self.cluster.is_usable(now, waiting.node)) {
                match self.rescue(now, at, out) {
                    Some(time) => look = time,
                    None => return,
                }
            } else if fresh && !patience.is_zero() {
                let since = waiting.since.max(self.cluster.heard_at(waiting.node));
                look = since + patience;
                if look <= now {
                    look = now + patience;
                    // One whose node may have no streams is first sent as others are (RFC 3261 section 18.1.1).
                    fed = self.dispatcher.shrink(call, id, tag) || self.give_away(now, at);
                    if fed {
                        self.feed(now, at, out);
                    }
                }
            }
        }
        let repeat = self.kept.get(at).map_or(Time::FAR, |entry| entry.repeat);
        if repeat <= now && !fed {
            if let Some(entry) = self.kept.get_mut(at) {
                entry.repeated(now);
            }
            self.counts.repeated += 1;
            self.feed(now, at, out);
        }
        let Some(entry) = self.kept.get(at) else { return };
        let due = entry.repeat.min(entry.until).min(look);
        self.kept.arm(at, due);
    }

    /// A node has said nothing for too long, to an INVITE or anything else. Says whether another one may have it.
    fn give_away(&mut self, now: Time, at: u32) -> bool {
        let Some(entry) = self.kept.get(at).filter(|entry| entry.tries < MOST_TRIES) else {
            return false;
        };
        let (call, id) = (entry.call, entry.id);
        // Who has given up wants it nowhere.
        let waits = !self.dispatcher.is_cancelled(call, id) && self.dispatcher.silent(now, call, id);
        if !waits || !self.has_other(now, at) {
            return false;
        }
        if let Some(entry) = self.kept.get_mut(at) {
            entry.tries += 1;
        }
        true
    }

    /// Whether another node may have an INVITE that is kept, and there is a way to it.
    fn has_other(&self, now: Time, at: u32) -> bool {
        let Some(entry) = self.kept.get(at) else { return false };
        let near = entry.from.listener;
        let way = |node| self.way(Assigned { node, again: true, large: false }, near).is_some();
        self.dispatcher.has_other(now, entry.call, entry.id, way)
    }

    /// INVITEs whose node has gone down while it rang go to another one.
    fn save_orphans(&mut self, now: Time, out: &mut Outbox) {
        let cluster = &self.cluster;
        if cluster.indexes().all(|at| cluster.is_usable(now, at)) {
            return;
        }
        for at in self.kept.places() {
            let Some(look) = self.rescue(now, at, out) else { continue };
            // What has not been heard of is looked at soon enough.
            if let Some(entry) = self.kept.get(at).filter(|_| look < Time::FAR) {
                let due = entry.repeat.min(entry.until).min(look);
                self.kept.arm(at, due);
            }
        }
    }

    /// Gives what is kept at `at` to another node, if it is an INVITE whose node has gone down. Without another one it
    /// stays, for it may be answered all the same: then this is when to look again. `None`: it has been sent.
    fn rescue(&mut self, now: Time, at: u32, out: &mut Outbox) -> Option<Time> {
        let lost = |e: &&Entry| e.fresh && !e.settled && e.tries < MOST_TRIES;
        let Some(entry) = self.kept.get(at).filter(lost) else { return Some(Time::FAR) };
        let (call, id) = (entry.call, entry.id);
        if self.cluster.is_usable(now, entry.node) {
            return Some(Time::FAR);
        }
        let waiting = self.dispatcher.waiting(call, id, Tag::Invite);
        let Some(waiting) = waiting.filter(|_| !self.dispatcher.is_cancelled(call, id)) else {
            return Some(Time::FAR);
        };
        if !self.has_other(now, at) {
            return Some(if waiting.rang { now + LOOK } else { Time::FAR });
        }
        if let Some(entry) = self.kept.get_mut(at) {
            entry.tries += 1;
            // Whatever becomes of it, it is looked at again.
            let due = entry.until.min(now + LOOK);
            self.kept.arm(at, due);
        }
        self.feed(now, at, out);
        None
    }

    /// A transmit could not be sent. `unseen`: its peer cannot have read it.
    pub(crate) fn lost(&mut self, now: Time, token: u64, unseen: bool, out: &mut Outbox) {
        match Token::from_u64(token) {
            Some(Token::Kept(at, generation, node)) => {
                if let Some(at) = self.kept.of_token(at, generation, node) {
                    self.lost_way(now, at, unseen, out);
                }
            }
            Some(Token::Letter(number)) => self.kept.resend(now, number, out),
            Some(Token::Probe(at, serial)) => {
                if let Some(probes) = &mut self.probes {
                    probes.returned(at, serial);
                }
            }
            None => {}
        }
    }

    /// A request that is kept did not get through.
    fn lost_way(&mut self, now: Time, at: u32, unseen: bool, out: &mut Outbox) {
        let Some(entry) = self.kept.get(at) else { return };
        let (call, id, tag, what) = (entry.call, entry.id, entry.tag, entry.what);
        if what == What::ToNode {
            if self.dispatcher.shrink(call, id, tag) {
                return self.feed(now, at, out);
            }
            let Some(waiting) = self.dispatcher.waiting(call, id, tag) else { return self.kept.forget(at) };
            self.dispatcher.returned(now, call, id, tag, waiting.node, unseen);
            if waiting.heard {
                // Its answer may come over another connection; if the node is down, it is seen to then.
                return self.cluster.want_probe(waiting.node);
            }
            if waiting.rang && !self.has_other(now, at) {
                // Who had it before may still answer it, so its sender is not told. It is tried again meanwhile.
                if let Some(entry) = self.kept.get_mut(at) {
                    entry.repeat = now + LOOK;
                    let due = entry.repeat.min(entry.until);
                    self.kept.arm(at, due);
                }
                return;
            }
        }
        let Some(entry) = self.kept.get_mut(at) else { return };
        entry.tries = entry.tries.saturating_add(1);
        if entry.tries < MOST_TRIES {
            return self.feed(now, at, out);
        }
        self.give_up(now, at, out);
    }

    /// Nobody can be reached: the sender is told (RFC 3261 section 16.9).
    fn give_up(&mut self, now: Time, at: u32, out: &mut Outbox) {
        let Some(entry) = self.kept.get(at) else { return };
        let (call, id, tag, what) = (entry.call, entry.id, entry.tag, entry.what);
        let Some((from, bytes, generation)) = self.kept.lend(at) else { return };
        match what {
            What::ToNode => {
                self.dispatcher.abandon(now, call, id, tag);
                self.refused_here(now, id, tag);
            }
            _ => self.kept.forget(at),
        }
        if what == What::ToCaller {
            self.dispatcher.answered_by_caller(now, call, tag, 503);
        }
        let limits = self.settings.message;
        if matches!(what, What::ToNode | What::ToCaller) {
            self.with_index(|this, index| {
                if let Parsed::Good(message) = parse(&bytes, index, &limits) {
                    this.unavailable(from, &message, out);
                }
            });
        }
        self.kept.bring_back(at, generation, bytes);
    }

    /// Whether a node had an INVITE before the one that has it.
    pub(crate) fn is_rival(&self, id: u64, node: NodeIndex) -> bool {
        let at = self.kept.find(id, Tag::Invite, What::ToNode);
        at.and_then(|at| self.kept.get(at)).is_some_and(|entry| entry.is_rival(node))
    }
}
