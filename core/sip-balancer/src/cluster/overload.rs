//! Nodes that ask for less (RFC 7339): others get what they would have had, and where all ask for less, nobody does.
//!
//! Only a node that has shown in its answer to a probe that it fills in `oc` is asked for more of that, and believed: a
//! probe reaches nobody beyond it. One that does not know of it would pass on what whoever it calls wrote into our Via.

use crate::hash::{fnv1a, scramble};
use crate::timers::LATE;
use crate::{Balancer, Dispatcher, NoWay, NodeIndex, Request, Tag};
use core::mem;
use sip_message::Message;
use sip_proxy::feedback::{Algorithm, Category, oc};
use wire::Time;

/// INVITEs that were refused because nodes ask for less: another copy of one gets no other answer, for its caller may
/// have had the first (RFC 3261 section 17.2.1 has one final response). Each has one place, which a later one takes.
#[derive(Default, Debug)]
pub(crate) struct Refused {
    /// Ids and when they were refused; empty until the first.
    places: Vec<(u64, Time)>,
    until: Time,
}

/// Places for refused INVITEs, 64 KiB.
const PLACES: usize = 4_096;

impl Refused {
    fn are_over(&self, now: Time) -> bool {
        now >= self.until
    }

    fn has(&self, now: Time, id: u64) -> bool {
        let known = self.places.get(id as usize % PLACES);
        known.is_some_and(|&(known, at)| known == id && now < at + LATE)
    }

    fn note(&mut self, now: Time, id: u64) {
        if self.places.is_empty() {
            self.places = vec![(0, Time::ZERO); PLACES];
        }
        if let Some(place) = self.places.get_mut(id as usize % PLACES) {
            *place = (id, now);
        }
        self.until = now + LATE;
    }
}

impl Balancer {
    /// A node has answered a probe: whether it speaks of its overload, and what it says.
    pub(crate) fn hear_probe(&mut self, now: Time, node: NodeIndex, answer: &Message<'_>) {
        let wish = self.settings.overload_control.then(|| oc::wish(answer.via().raw)).flatten();
        self.cluster.set_speaks(node, wish.is_some_and(|wish| wish.algorithm == Algorithm::Loss));
        if self.cluster.speaks(node) {
            self.hear(now, node, answer);
        }
    }

    /// What a node that speaks of its overload says with a response.
    #[inline(never)]
    pub(crate) fn hear(&mut self, now: Time, node: NodeIndex, response: &Message<'_>) {
        if let Some(wish) = oc::wish(response.via().raw) {
            self.dispatcher.told(now, node, &wish);
        }
    }
}

impl Dispatcher {
    /// A node has said how much less it wants. Only what was offered is listened to.
    pub fn told(&mut self, now: Time, node: NodeIndex, wish: &oc::Wish) {
        if wish.algorithm == Algorithm::Loss
            && let Some(node) = self.cluster.node(node)
        {
            self.neighbours.tidy(now);
            self.neighbours.told(now, node.address, wish);
        }
    }

    /// What belongs to something that was begun goes to its node, and counts there.
    #[inline]
    pub(crate) fn goes_first(&mut self, now: Time, node: NodeIndex) -> NodeIndex {
        if !self.neighbours.is_empty() {
            self.count_within(now, node);
        }
        node
    }

    #[cold]
    fn count_within(&mut self, now: Time, node: NodeIndex) {
        if let Some(known) = self.cluster.node(node) {
            self.neighbours.lets(now, known.address, Category::Within, 0);
        }
    }

    /// Who gets something new that is to go to `node`: another one, of those that do not ask for less, if this one does
    /// and it is one of those that it is not to have.
    #[inline]
    pub(crate) fn held_back(
        &mut self,
        now: Time,
        r: &Request<'_>,
        node: NodeIndex,
    ) -> Result<NodeIndex, NoWay> {
        if self.neighbours.is_empty() && self.refused.are_over(now) {
            return Ok(node);
        }
        let invite = r.tag == Tag::Invite && !r.inside;
        if invite && self.refused.has(now, r.id) {
            return Err(NoWay::TooMuch);
        }
        let chosen = self.weigh(now, r, node);
        if invite && chosen.is_err() {
            self.refused.note(now, r.id);
        }
        chosen
    }

    #[cold]
    fn weigh(&mut self, now: Time, r: &Request<'_>, node: NodeIndex) -> Result<NodeIndex, NoWay> {
        // Mostly that is over soon, and then nothing is looked at any more.
        self.neighbours.tidy(now);
        let address = |at: NodeIndex| self.cluster.node(at).map(|node| node.address);
        let Some(wanted) = address(node) else { return Ok(node) };
        let dice = self.chooser.dice();
        if self.neighbours.lets(now, wanted, Category::New, dice) {
            return Ok(node);
        }
        self.happened.held_back += 1;
        let mut asking = mem::take(&mut self.asking);
        asking.clear();
        let asks = |at: &NodeIndex| address(*at).is_some_and(|hop| self.neighbours.asks(now, hop));
        asking.extend(self.cluster.indexes().filter(asks));
        // A table of places for these nodes alone would be made anew each time.
        let place =
            (self.chooser.algorithm() == crate::Algorithm::Maglev).then(|| scramble(fnv1a(r.call_id)));
        let other = match r.home.or(place) {
            Some(home) => self.chooser.home_but(now, home, &asking),
            None => self.chooser.choose_but(now, r.call_id, r.tag.kind(), &asking),
        };
        let other = other.filter(|at| !asking.contains(at));
        self.asking = asking;
        other.ok_or(NoWay::TooMuch)
    }
}
