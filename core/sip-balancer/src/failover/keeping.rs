//! What is kept, and until when.

use crate::failover::state::Failover;
use crate::failover::store::{Entry, KeptMessage, MessageKey};
use crate::forwarding::check::Checked;
use crate::forwarding::step::Step;
use crate::timers::{GIVE_UP, LATE, T1};
use crate::token::Branch;
use crate::{Assigned, CallKey, Calls, MethodClass, Request};
use sip_message::{Message, Parsed, parse};
use wire::{Flow, Time};

impl Failover {
    /// Keeps a request to a node if it may have to be sent once more, and says what its transmit is known by;
    /// zero where nobody wants to know. An error: it was refused here with this status before, of which
    /// nothing else is known any more.
    pub(crate) fn keep_inward(
        &mut self,
        step: &mut Step<'_>,
        from: Flow,
        request: &Message<'_>,
        r: &Request<'_>,
        (to, way): (Assigned, Flow),
    ) -> Result<u64, u16> {
        let fresh = r.class == MethodClass::Invite && !r.inside;
        let stream = way.transport.is_reliable();
        let repeats = from.transport.is_reliable() && !stream;
        if !(fresh || repeats || stream) {
            return Ok(0);
        }
        let (at, known) = match self.find_inward(r, to) {
            Ok(Some(at)) => (at, true),
            Err(status) => return Err(status),
            // A late repetition of what is answered already, or an INVITE that there was no room to remember:
            // it is the caller's and the node's affair.
            Ok(None)
                if (to.again || fresh)
                    && step.dispatcher.calls().waiting(r.call, r.id, r.class).is_none() =>
            {
                return Ok(0);
            }
            Ok(None) => {
                let key = MessageKey { what: KeptMessage::ToNode, call: r.call, id: r.id, class: r.class };
                let Some(at) = self.kept.keep(key, from, request.bytes(), step.now + GIVE_UP) else {
                    return Ok(0);
                };
                if let Some(entry) = invariant::some!(self.kept.get_mut(at), "a message just stored is there")
                {
                    (entry.fresh, entry.node) = (fresh, to.node);
                    entry.repeat = if repeats { step.now + T1 } else { Time::FAR };
                }
                (at, false)
            }
        };
        let token = |this: &Failover| if stream { this.kept.token(at) } else { 0 };
        let entry = invariant::some!(self.kept.get_mut(at), "a message that was found is stored");
        let Some(entry) = entry else { return Ok(0) };
        if entry.node != to.node {
            // A caller that has had a provisional response repeats its INVITE no more (RFC 3261 section
            // 17.1.1.2), so that its next node would never get it where the one datagram that it left in is
            // lost.
            let silenced =
                !stream && step.dispatcher.calls().waiting(r.call, r.id, r.class).is_some_and(|w| w.rang);
            entry.move_to(step.now, to.node, repeats || silenced);
        } else if to.again && known {
            // Its deadlines are set. Over a stream it is not repeated (17.1.1.2).
            if stream {
                entry.repeat = Time::FAR;
            }
            return Ok(token(self));
        }
        let patience = step.forwarder.settings().rules.silent_after;
        self.kept.arm_or(at, if fresh && !patience.is_zero() { step.now + patience } else { Time::FAR });
        Ok(token(self))
    }

    /// Where a request to a node is kept. One that is settled is forgotten if it comes as a new one, unless
    /// it was refused here: an error is the status.
    fn find_inward(&mut self, r: &Request<'_>, to: Assigned) -> Result<Option<u32>, u16> {
        let found = self.kept.find(r.id, r.class, KeptMessage::ToNode);
        let settled = |at: &u32| self.kept.get(*at).is_some_and(|entry| entry.settled);
        let Some(at) = found.filter(|_| !to.again).filter(settled) else { return Ok(found) };
        if let Some(status) = self.kept.get(at).and_then(|entry| entry.refused) {
            return Err(status);
        }
        self.kept.forget(at);
        Ok(None)
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
        let (class, id) = (MethodClass::of(request.method()), c.id);
        let stream = way.transport.is_reliable();
        let repeats = from.transport.is_reliable() && !stream;
        if !(repeats || stream) {
            return 0;
        }
        if let Some(at) = self.kept.find(id, class, KeptMessage::ToCaller) {
            return if stream { self.kept.token(at) } else { 0 };
        }
        let until = now + GIVE_UP;
        let key = MessageKey { what: KeptMessage::ToCaller, call: c.call, id, class };
        let Some(at) = self.kept.keep(key, from, request.bytes(), until) else {
            return 0;
        };
        let entry = invariant::some!(self.kept.get_mut(at), "a message just stored is there");
        let Some(entry) = entry else { return 0 };
        entry.repeat = if repeats { now + T1 } else { Time::FAR };
        let due = entry.repeat.min(until);
        self.kept.arm(at, due);
        if stream { self.kept.token(at) } else { 0 }
    }

    /// Whether the balancer must repeat a node's refusal of an INVITE. A node challenges or refuses a new
    /// INVITE without a transaction (RFC 3261 section 8.2.7), and answers each retransmission anew. But the
    /// caller stops retransmitting after a provisional response (17.1.1.2), which may be from another node,
    /// or from the same node before a restart.
    pub(crate) fn repeats_refusal(&self, calls: &Calls, call: CallKey, branch: &Branch) -> bool {
        let at =
            self.kept.find(branch.id, MethodClass::Invite, KeptMessage::ToNode).filter(|_| !branch.to_caller);
        at.and_then(|at| self.kept.get(at)).is_some_and(Entry::was_sent_again)
            && calls.waiting(call, branch.id, MethodClass::Invite).is_some_and(|waiting| waiting.rang)
    }

    /// Keeps a refusal that leaves in a datagram and that only the balancer repeats, until its ACK comes (RFC
    /// 3261 section 17.2.1): one that came over a stream, or [`Failover::repeats_refusal`].
    pub(crate) fn keep_refusal(&mut self, step: &mut Step<'_>, from: Flow, response: &Message<'_>, id: u64) {
        let call = step.forwarder.sealer().call(response.call_id());
        let until = step.now + LATE;
        let key = MessageKey { what: KeptMessage::Refusal, call, id, class: MethodClass::Invite };
        let Some(at) = self.kept.keep(key, from, response.bytes(), until) else { return };
        if let Some(entry) = invariant::some!(self.kept.get_mut(at), "a message just stored is there") {
            entry.repeat = step.now + T1;
        }
        self.kept.arm(at, step.now + T1);
    }

    /// Works on a message that is kept, with the flow that it came on.
    pub(super) fn with_kept(
        &mut self,
        step: &mut Step<'_>,
        at: u32,
        work: impl FnOnce(&mut Failover, &mut Step<'_>, Flow, &Message<'_>),
    ) {
        let Some((from, bytes, generation)) = self.kept.lend(at) else { return };
        let (mut index, limits) = (step.forwarder.take_index(), step.forwarder.settings().message);
        // It was good when it came.
        if let Parsed::Good(message) | Parsed::Bad(message, _) = parse(&bytes, &mut index, &limits) {
            work(self, step, from, &message);
        }
        step.forwarder.return_index(index);
        self.kept.bring_back(at, generation, bytes);
    }
}
