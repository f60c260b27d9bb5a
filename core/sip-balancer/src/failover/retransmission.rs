//! Sending once more what is kept: after silence, over another way, to another node.
//!
//! An INVITE outside a dialog has exactly one final response (RFC 3261 sections 16.7 and 16.8). While it is kept, it is
//! seen to by these rules, each of which stands in one place:
//!
//! - It ends by its deadline. Without an answer until then its sender gets 408 (`end`).
//! - One that its node says nothing to goes to another: soon where it says nothing to anybody, else later (`look_at`).
//! - One whose node is down goes to another node, or waits for one while a phone rings; else it is refused (`rescue`).
//! - One that rang at a node that is back goes there once more, in case that has forgotten it (`remind`).
//! - What its sender has cancelled is never sent again: where it would have to be, its sender gets 487 (`feed`).
//! - Once it is answered or refused nobody else may answer it, and who still rings is cancelled (`call_off`).

use crate::failover::store::{Entry, Memory, What};
use crate::machine::requests::Checked;
use crate::sessions::replies::Reply;
use crate::timers::{GIVE_UP, LATE, T1, work};
use crate::transmit::TransmitToken;
use crate::{Assigned, Balancer, CallKey, NodeIndex, Request, Tag};
use core::time::Duration;
use sip_health::Vital;
use sip_message::{Message, Parsed, parse};
use wire::{Flow, Outbox, Time};

/// So often a request may find its way dead, or its node silent, before its sender is told.
const MOST_TRIES: u8 = 3;
/// So long a node may say nothing to an INVITE while it answers what came later: until the second repetition has come
/// (RFC 3261 section 17.1.1.2), so that it must have had one of three.
const IGNORED: Duration = Duration::from_millis(1_500);
/// From one look for another node to the next, while an INVITE rings at one that is down.
const LOOK: Duration = Duration::from_secs(1);

impl Balancer {
    /// Keeps a request to a node if it may have to be sent once more, and says what its transmit is known by; zero
    /// where nobody wants to know. An error: it was refused here with this status before, of which nothing else is known
    /// any more.
    pub(crate) fn keep_inward(
        &mut self,
        now: Time,
        from: Flow,
        request: &Message<'_>,
        r: &Request<'_>,
        to: Assigned,
        way: Flow,
    ) -> Result<u64, u16> {
        let fresh = r.tag == Tag::Invite && !r.inside;
        let stream = way.transport.is_reliable();
        let repeats = from.transport.is_reliable() && !stream;
        if !(fresh || repeats || stream) {
            return Ok(0);
        }
        let mut found = self.kept.find(r.id, r.tag, What::ToNode);
        if let Some(at) = found.filter(|_| !to.again)
            && let Some(entry) = self.kept.get(at).filter(|entry| entry.settled)
        {
            if let Some(status) = entry.refused {
                return Err(status);
            }
            self.kept.forget(at);
            found = None;
        }
        let (at, known) = match found {
            Some(at) => (at, true),
            // A late repetition of what is answered already, or an INVITE that there was no room to remember: it is the
            // caller's and the node's affair.
            None if (to.again || fresh) && self.dispatcher.calls().waiting(r.call, r.id, r.tag).is_none() => {
                return Ok(0);
            }
            None => {
                let (bytes, until) = (request.bytes(), now + GIVE_UP);
                let Some(at) = self.kept.keep(What::ToNode, r.call, r.id, r.tag, from, bytes, until) else {
                    return Ok(0);
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
        let Some(entry) = self.kept.get_mut(at) else { return Ok(0) };
        if entry.node != to.node {
            // Who rang may still do so, or has forgotten it.
            let rang = entry.rung().any(|node| node == to.node);
            entry.give_to(to.node);
            entry.memory = if rang { Memory::Renewed } else { Memory::Whole };
            // A caller that has had a provisional response repeats its INVITE no more (RFC 3261 section 17.1.1.2), so that
            // its next node would never get it where the one datagram that it left in is lost.
            let silenced =
                !stream && self.dispatcher.calls().waiting(r.call, r.id, r.tag).is_some_and(|w| w.rang);
            // One that has rung has as long as it had.
            (entry.until, entry.settled) = (entry.until.max(now + GIVE_UP), false);
            entry.wait = T1;
            entry.repeat = if repeats || silenced { now + T1 } else { Time::FAR };
        } else if to.again && known {
            // Its deadlines are set. Over a stream it is not repeated (17.1.1.2).
            if stream {
                entry.repeat = Time::FAR;
            }
            return Ok(if stream { self.kept.token(at) } else { 0 });
        }
        let due = look.min(entry.repeat).min(entry.until);
        self.kept.arm(at, due);
        Ok(if stream { self.kept.token(at) } else { 0 })
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
        let (tag, id) = (Tag::of(request.method()), c.id);
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
    pub(crate) fn refused_here(&mut self, now: Time, id: u64, tag: Tag, status: u16, out: &mut Outbox) {
        let Some(at) = self.kept.find(id, tag, What::ToNode) else { return };
        match self.kept.get_mut(at).filter(|entry| entry.fresh) {
            Some(entry) if !entry.settled => {
                entry.refuse(now, status);
                let call = entry.call;
                let len = out.transmits().last().map_or(0, |refusal| refusal.range.len());
                if let Some(place) = self.dispatcher.calls().invite_of(call, id) {
                    let refusal = Reply { status, len, secret: 0 };
                    self.dispatcher.calls_mut().pays(place, &refusal);
                }
                self.over(now, at, out);
            }
            Some(_) => {}
            None => self.kept.forget(at),
        }
    }

    /// With which status an INVITE was refused here after a node had it, if it was.
    pub(crate) fn refusal(&self, id: u64) -> Option<u16> {
        let at = self.kept.find(id, Tag::Invite, What::ToNode)?;
        self.kept.get(at)?.refused
    }

    /// The caller has got a refusal of ours: it is not repeated any more.
    pub(crate) fn refusal_acknowledged(&mut self, id: u64) {
        let Some(at) = self.kept.find(id, Tag::Invite, What::ToNode) else { return };
        if let Some(entry) = self.kept.get_mut(at).filter(|entry| entry.refused.is_some()) {
            entry.repeat = Time::FAR;
        }
    }

    /// The caller has cancelled an INVITE: whoever rings hears of it (RFC 3261 section 16.10), and the caller waits for
    /// its end no longer than for 64*T1 (9.1).
    pub(crate) fn cancelled(&mut self, now: Time, id: u64, out: &mut Outbox) {
        let Some(at) = self.kept.find(id, Tag::Invite, What::ToNode) else { return };
        let Some(entry) = self.kept.get_mut(at).filter(|entry| entry.fresh && !entry.settled) else { return };
        entry.until = entry.until.min(now + LATE);
        self.kept.arm(at, now);
        self.call_off(now, at, out);
    }

    /// An INVITE is answered or refused: who else rings is cancelled. Who cannot be reached is when it is back, as long
    /// as it may ring.
    pub(crate) fn over(&mut self, now: Time, at: u32, out: &mut Outbox) {
        let ring = self.settings.rules.ring_timeout;
        let owed = self.call_off(now, at, out);
        let Some(entry) = self.kept.get_mut(at) else { return };
        if owed {
            entry.wait_for_rivals(ring);
        }
        let due = entry.repeat.min(entry.until).min(if owed { now + LOOK } else { Time::FAR });
        self.kept.arm(at, due);
    }

    /// Of an INVITE that is answered, refused or cancelled: who had it before and rings is cancelled (16.7 step 10). Says
    /// whether a node rings that has not got the CANCEL yet, or has not answered it.
    fn call_off(&mut self, now: Time, at: u32, out: &mut Outbox) -> bool {
        let Some(entry) = self.kept.get(at) else { return false };
        let id = entry.id;
        // Mostly nobody, and nothing is allocated.
        let rung: Vec<NodeIndex> = entry.to_tell(now).collect();
        for &node in &rung {
            let told = self.kept.find(id, Tag::Cancel, What::Own(node)).is_some();
            // While it is fed, that is done later.
            if told || self.feeding || !self.cluster.is_usable(now, node) {
                continue;
            }
            self.withdraw(now, at, node, None, out);
            if let Some(entry) = self.kept.get_mut(at) {
                entry.put_off(now, node, LOOK);
            }
            // Where there is no room for the CANCEL it is sent once.
            if self.kept.find(id, Tag::Cancel, What::Own(node)).is_none() {
                self.told(id, node);
            }
        }
        self.kept.get(at).is_some_and(|entry| entry.rung().next().is_some())
    }

    /// A node knows that an INVITE that it had is over.
    pub(crate) fn told(&mut self, id: u64, node: NodeIndex) {
        let at = self.kept.find(id, Tag::Invite, What::ToNode);
        if let Some(entry) = at.and_then(|at| self.kept.get_mut(at)) {
            entry.mark(node, false);
        }
    }

    /// Something came back for what is kept: a response of this status from who has it.
    pub(crate) fn heard_of(
        &mut self,
        now: Time,
        id: u64,
        tag: Tag,
        what: What,
        status: u16,
        out: &mut Outbox,
    ) {
        let Some(at) = self.kept.find(id, tag, what) else { return };
        let ring = self.settings.rules.ring_timeout;
        let Some(entry) = self.kept.get_mut(at).filter(|entry| !entry.settled) else { return };
        if status < 200 {
            entry.heard();
            entry.alerted |= status > 100;
            let rings = tag == Tag::Invite && !self.dispatcher.calls().is_cancelled(entry.call, id);
            if rings {
                entry.until = now + ring;
            }
            // One that is down may have said that; and a node may not have got the CANCEL yet.
            let owed = !rings && entry.rung().next().is_some();
            let look = if owed || !self.cluster.is_usable(now, entry.node) { now + LOOK } else { Time::FAR };
            let due = entry.repeat.min(entry.until).min(look);
            return self.kept.arm(at, due);
        }
        entry.settle(now);
        // Of an INVITE alone those who had it before matter.
        if !entry.fresh || !entry.has_rivals() {
            return self.kept.forget(at);
        }
        self.over(now, at, out);
    }

    /// Receives a message that is kept once more. An INVITE that nobody wants any more is refused instead.
    pub(crate) fn feed(&mut self, now: Time, at: u32, out: &mut Outbox) {
        let Some(entry) = self.kept.get(at) else { return };
        let what = entry.what;
        if what == What::ToNode
            && entry.fresh
            && !entry.settled
            && self.dispatcher.calls().is_cancelled(entry.call, entry.id)
        {
            return self.give_up(now, at, 487, out);
        }
        if let Some(status) = entry.refused.filter(|_| what == What::ToNode) {
            return self.tell(at, status, out);
        }
        self.with_kept(at, |this, from, message| {
            this.feeding = true;
            match what {
                What::ToNode | What::ToCaller => this.request(now, from, message, out),
                What::Refusal => this.relay(now, from, message, out),
                What::Own(node) => this.send_own(from, message, node, at, out),
            }
            this.feeding = false;
        });
        if self.kept.get(at).is_some_and(|entry| entry.refused.is_some()) {
            self.call_off(now, at, out);
        }
    }

    /// What is due of what is kept.
    pub(crate) fn look_after(&mut self, now: Time, out: &mut Outbox) {
        for _ in 0..work(now, self.kept.next()) {
            let Some(at) = self.kept.pop(now) else { break };
            self.look_at(now, at, out);
        }
        self.save_orphans(now, out);
    }

    fn look_at(&mut self, now: Time, at: u32, out: &mut Outbox) {
        let Some(entry) = self.kept.get(at) else { return };
        let (call, id, tag, what) = (entry.call, entry.id, entry.tag, entry.what);
        let (fresh, until, settled) = (entry.fresh, entry.until, entry.settled);
        if until <= now {
            return self.end(now, at, out);
        }
        let (mut look, mut fed, mut gone) = (Time::FAR, false, false);
        if fresh && settled {
            // At the latest when it could have been forgotten, and had nobody rung.
            match self.call_off(now, at, out) {
                true => look = now + LOOK,
                false => self.kept.get_mut(at).into_iter().for_each(|e| e.until = e.until.min(now + LATE)),
            }
        }
        if what == What::ToNode && !settled {
            let Some(waiting) = self.dispatcher.calls().waiting(call, id, tag) else {
                return self.end(now, at, out);
            };
            let patience = self.settings.rules.silent_after;
            let usable = self.cluster.is_usable(now, waiting.node);
            gone = fresh && !usable;
            if waiting.heard || !usable {
                match self.rescue(now, at, out) {
                    Some(time) => look = time,
                    None => return,
                }
                fed = usable && self.remind(now, at, out);
            } else if fresh && !patience.is_zero() {
                let vital = self.cluster.vital(waiting.node);
                let quiet = waiting.since.max(vital.map_or(Time::ZERO, Vital::heard_at)) + patience;
                let ignored = waiting.since + patience.max(IGNORED);
                look = quiet.min(ignored);
                // Where many wait for long, and all of them in turn, another node would only have more to do.
                let slow = quiet > now && vital.map_or(Time::ZERO, Vital::served_at) <= waiting.since;
                if look <= now && slow {
                    look = quiet;
                } else if look <= now {
                    look = now + patience;
                    // One whose node may have no streams is first sent as others are (RFC 3261 section 18.1.1).
                    // Who has given up wants it nowhere.
                    fed = !waiting.cancelled
                        && (self.dispatcher.calls_mut().shrink(call, id, tag)
                            || self.give_away(now, at, quiet <= now));
                    if fed {
                        self.feed(now, at, out);
                    }
                }
            }
        }
        if fresh && !settled && self.dispatcher.calls().is_cancelled(call, id) && self.call_off(now, at, out)
        {
            look = look.min(now + LOOK);
        }
        let repeat = self.kept.get(at).map_or(Time::FAR, |entry| entry.repeat);
        if repeat <= now && gone {
            // It may be back, and it may have lost it.
            self.kept.get_mut(at).into_iter().for_each(|entry| entry.repeat = now + LOOK);
        } else if repeat <= now && !fed {
            self.repeat(now, at, out);
        }
        let Some(entry) = self.kept.get(at) else { return };
        let due = entry.repeat.min(entry.until).min(look);
        self.kept.arm(at, due);
    }

    /// Repeats what is kept. A refusal of ours only as often as its caller has paid for: its address may be forged.
    fn repeat(&mut self, now: Time, at: u32, out: &mut Outbox) {
        let Some(entry) = self.kept.get_mut(at) else { return };
        entry.repeated(now);
        let (call, id, len) = (entry.call, entry.id, entry.bytes.len());
        let refusal = entry.refused.map(|status| Reply { status, len, secret: 0 });
        let of = refusal.and_then(|refusal| Some((self.dispatcher.calls().invite_of(call, id)?, refusal)));
        if of.is_none_or(|(place, refusal)| self.repays(place, &refusal)) {
            self.counts.repeated += 1;
            return self.feed(now, at, out);
        }
        self.kept.get_mut(at).into_iter().for_each(|entry| entry.repeat = Time::FAR);
    }

    /// A node has said nothing for too long, to an INVITE or anything else (`silent`), or to this INVITE. Says whether
    /// another one may have it.
    fn give_away(&mut self, now: Time, at: u32, silent: bool) -> bool {
        let Some(entry) = self.kept.get(at).filter(|entry| entry.tries < MOST_TRIES) else {
            return false;
        };
        let (call, id, ignored) = (entry.call, entry.id, entry.ignored);
        let other = self.has_other(now, at);
        let waits = match silent {
            true => self.dispatcher.silent(now, call, id),
            // What a second one ignores, too, says more of the INVITE; and where too many are moved it is as well off here.
            false => {
                let moves = !ignored && (!other || self.dispatcher.may_move(now));
                self.dispatcher.ignored(call, id, moves)
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
    pub(crate) fn has_other(&self, now: Time, at: u32) -> bool {
        let Some(entry) = self.kept.get(at) else { return false };
        let near = entry.from.listener;
        let way = |node| self.way(Assigned { node, again: true, large: false }, near).is_some();
        self.dispatcher.has_other(now, entry.call, entry.id, way)
    }

    /// Gives what is kept at `at` to another node, if it is an INVITE whose node has gone down. Without another one it
    /// stays while a node may still answer it, or its sender repeats it: then this is when to look again. `None`: it
    /// has been sent, or refused.
    pub(crate) fn rescue(&mut self, now: Time, at: u32, out: &mut Outbox) -> Option<Time> {
        let open = |e: &&Entry| e.fresh && !e.settled;
        let Some(entry) = self.kept.get(at).filter(open) else { return Some(Time::FAR) };
        let (call, id, stream) = (entry.call, entry.id, entry.from.transport.is_reliable());
        if self.cluster.is_usable(now, entry.node) {
            return Some(Time::FAR);
        }
        let Some(waiting) = self.dispatcher.calls().waiting(call, id, Tag::Invite) else {
            return Some(Time::FAR);
        };
        // Who has it and rings may be back.
        let (spent, other) = (self.dispatcher.has_felled(now, call, id), self.has_other(now, at));
        let repeated = !waiting.rang && !stream && !spent;
        if waiting.cancelled || ((spent || !other) && !repeated && !self.rings(at)) {
            self.give_up(now, at, 503, out);
            return None;
        }
        if spent || !other {
            if let Some(entry) = self.kept.get_mut(at).filter(|_| waiting.heard) {
                entry.memory = if spent { Memory::Whole } else { Memory::InDoubt };
                entry.repeat = Time::FAR;
            }
            return Some(now + LOOK);
        }
        // Whatever becomes of it, it is looked at again.
        let due = self.kept.get(at).map_or(Time::FAR, |entry| entry.until.min(now + LOOK));
        self.kept.arm(at, due);
        self.feed(now, at, out);
        None
    }

    /// Gives an INVITE once more to the node that has it, if that is back after it was down. To one that was only out of
    /// reach this is a repetition (RFC 3261 section 17.2.1), and one that was started anew has never seen it: its caller,
    /// who hears it ring, repeats nothing. As often as it may be tried, for it may be what brings that node down. Says
    /// whether it was sent.
    fn remind(&mut self, now: Time, at: u32, out: &mut Outbox) -> bool {
        let forgotten = |e: &&mut Entry| e.memory == Memory::InDoubt && e.reminded < MOST_TRIES;
        let Some(entry) = self.kept.get_mut(at).filter(forgotten) else { return false };
        if self.dispatcher.calls().is_cancelled(entry.call, entry.id) {
            return false;
        }
        entry.reminded += 1;
        (entry.memory, entry.wait, entry.repeat) = (Memory::Renewed, T1, now + T1);
        self.counts.repeated += 1;
        self.feed(now, at, out);
        true
    }

    /// A phone takes an INVITE that its node got once more for a copy of the one that it rings for (`Memory::Renewed`,
    /// RFC 3261 section 8.2.2.2). So that one is there, and its answer finds the way that the INVITE has shown it. Says
    /// whether that is so; then the refusal is acknowledged here (17.1.1.3), and the caller hears it ring on.
    pub(crate) fn rings_on(
        &mut self,
        call: CallKey,
        id: u64,
        node: NodeIndex,
        response: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        let rings = |e: &Entry| {
            let same = e.memory == Memory::Renewed && e.alerted && !e.settled && e.node == node;
            same && !self.dispatcher.calls().is_cancelled(call, id)
        };
        let at = self.kept.find(id, Tag::Invite, What::ToNode);
        let Some(at) = at.filter(|at| self.kept.get(*at).is_some_and(rings)) else { return false };
        if let Some(entry) = self.kept.get_mut(at) {
            entry.heard();
        }
        self.acknowledge(at, node, response, out);
        true
    }

    /// Whether a node rings that has or had an INVITE that is kept, and may still answer it.
    fn rings(&self, at: u32) -> bool {
        let Some(entry) = self.kept.get(at) else { return false };
        entry.rang || entry.rung().any(|node| !self.dispatcher.calls().is_barred(entry.call, entry.id, node))
    }

    /// The time of what is kept is up. An INVITE that nobody has answered gets its final response now, as if a node
    /// had said 408 (RFC 3261 section 16.8).
    fn end(&mut self, now: Time, at: u32, out: &mut Outbox) {
        let unanswered = |e: &&Entry| e.what == What::ToNode && e.fresh && !e.settled;
        match self.kept.get(at).filter(unanswered) {
            Some(_) => self.give_up(now, at, 408, out),
            None => self.kept.forget(at),
        }
    }

    /// A transmit could not be sent. `unseen`: its peer cannot have read it.
    pub(crate) fn lost(&mut self, now: Time, token: u64, unseen: bool, out: &mut Outbox) {
        match TransmitToken::from_u64(token) {
            Some(TransmitToken::Kept(at, generation, node)) => {
                if let Some(at) = self.kept.of_token(at, generation, node) {
                    self.lost_way(now, at, unseen, out);
                }
            }
            Some(TransmitToken::Letter(number)) => self.kept.resend(now, number, out),
            Some(TransmitToken::Probe(at, serial)) => {
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
            if self.dispatcher.calls_mut().shrink(call, id, tag) {
                return self.feed(now, at, out);
            }
            let Some(waiting) = self.dispatcher.calls().waiting(call, id, tag) else {
                return self.end(now, at, out);
            };
            self.dispatcher.returned(now, call, id, tag, waiting.node, unseen);
            if waiting.heard {
                // Its answer may come over another connection; if the node is down, it is seen to then. What it was to be
                // reminded of has not come through.
                if let Some(entry) = self.kept.get_mut(at).filter(|e| e.memory == Memory::Renewed) {
                    entry.memory = Memory::InDoubt;
                    let due = entry.repeat.min(entry.until).min(now + LOOK);
                    self.kept.arm(at, due);
                }
                return self.cluster.want_probe(waiting.node);
            }
            let spent = self.kept.get(at).is_some_and(|entry| entry.tries + 1 >= MOST_TRIES);
            if self.rings(at) && (spent || !self.has_other(now, at)) {
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
        self.give_up(now, at, 503, out);
    }

    /// Nobody can be reached (503, RFC 3261 section 16.9), or nobody has answered in time (408): the sender is told. Of an
    /// INVITE that it has cancelled it is told what it waits for.
    fn give_up(&mut self, now: Time, at: u32, status: u16, out: &mut Outbox) {
        let Some(entry) = self.kept.get(at) else { return };
        let (call, id, tag, what) = (entry.call, entry.id, entry.tag, entry.what);
        let cancelled = tag == Tag::Invite && self.dispatcher.calls().is_cancelled(call, id);
        let status = if cancelled { 487 } else { status };
        if matches!(what, What::ToNode | What::ToCaller) {
            self.counts.unavailable += u64::from(status == 503);
            self.tell(at, status, out);
        }
        match what {
            What::ToNode => {
                self.dispatcher.calls_mut().abandon(now, call, id, tag, false);
                self.refused_here(now, id, tag, status, out);
            }
            _ => self.kept.forget(at),
        }
        if what == What::ToCaller {
            self.dispatcher.calls_mut().answered_by_caller(now, call, tag, 503, 0);
        }
    }

    /// Refuses what is kept, which is not received once more for that: nobody else is to have it.
    fn tell(&mut self, at: u32, status: u16, out: &mut Outbox) {
        self.with_kept(at, |this, from, message| this.refuse_again(from, message, status, out));
    }

    /// Works on a message that is kept, with the flow that it came on.
    pub(crate) fn with_kept(&mut self, at: u32, work: impl FnOnce(&mut Balancer, Flow, &Message<'_>)) {
        let Some((from, bytes, generation)) = self.kept.lend(at) else { return };
        let limits = self.settings.message;
        self.with_index(|this, index| {
            // It was good when it came.
            if let Parsed::Good(message) | Parsed::Bad(message, _) = parse(&bytes, index, &limits) {
                work(this, from, &message);
            }
        });
        self.kept.bring_back(at, generation, bytes);
    }

    /// Whether a node that answers an INVITE is another one than the one whose answer it is to have.
    pub(crate) fn is_rival(&self, id: u64, node: NodeIndex) -> bool {
        let at = self.kept.find(id, Tag::Invite, What::ToNode);
        at.and_then(|at| self.kept.get(at)).is_some_and(|entry| entry.is_rival(node))
    }
}
