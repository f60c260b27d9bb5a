//! Nodes that ask for less (RFC 7339): others get what they would have had, and where all ask for less,
//! nobody does.

use crate::hash::{fnv1a, scramble};
use crate::timers::LATE;
use crate::{Chooser, Cluster, MethodClass, NodeIndex, NotAssigned, Request};
use core::mem;
use core::net::SocketAddr;
use sip_proxy::feedback::{Category, Neighbours, oc};
use wire::Time;

/// INVITEs that were refused because nodes ask for less: another copy of one gets no other answer, for its
/// caller may have had the first (RFC 3261 section 17.2.1 has one final response). Each has one place, which
/// a later one takes.
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

/// The nodes that ask for less, as one worker knows them.
#[derive(Default, Debug)]
pub(crate) struct Overload {
    /// By their addresses.
    neighbours: Neighbours,
    /// Room to list them.
    asking: Vec<NodeIndex>,
    refused: Refused,
    /// New requests that did not go to the node that they would have gone to.
    held_back: u64,
}

impl Overload {
    /// New requests that did not go to the node that they would have gone to.
    pub fn held_back(&self) -> u64 {
        self.held_back
    }

    /// The node at an address has said how much less it wants. Only what was offered is listened to.
    pub fn told(&mut self, now: Time, node: SocketAddr, wish: &oc::Wish) {
        self.neighbours.tidy(now);
        self.neighbours.told(now, node, wish);
    }

    /// What belongs to something that was begun goes to its node, and counts there.
    #[inline]
    pub fn goes_first(&mut self, now: Time, cluster: &Cluster, node: NodeIndex) {
        if !self.neighbours.is_empty() {
            self.count_within(now, cluster, node);
        }
    }

    #[cold]
    fn count_within(&mut self, now: Time, cluster: &Cluster, node: NodeIndex) {
        if let Some(known) = cluster.node(node) {
            self.neighbours.lets(now, known.address, Category::Within, 0);
        }
    }

    /// Who gets something new that is to go to `node`: another one, of those that do not ask for less, if
    /// this one does and it is one of those that it is not to have.
    #[inline]
    pub fn redirect(
        &mut self,
        now: Time,
        r: &Request<'_>,
        node: NodeIndex,
        (cluster, chooser): (&Cluster, &mut Chooser),
    ) -> Result<NodeIndex, NotAssigned> {
        if self.neighbours.is_empty() && self.refused.are_over(now) {
            return Ok(node);
        }
        let invite = r.class == MethodClass::Invite && !r.inside;
        if invite && self.refused.has(now, r.id) {
            return Err(NotAssigned::TooMuch);
        }
        let chosen = self.weigh(now, r, node, (cluster, chooser));
        if invite && chosen.is_err() {
            self.refused.note(now, r.id);
        }
        chosen
    }

    #[cold]
    fn weigh(
        &mut self,
        now: Time,
        r: &Request<'_>,
        node: NodeIndex,
        (cluster, chooser): (&Cluster, &mut Chooser),
    ) -> Result<NodeIndex, NotAssigned> {
        // Mostly that is over soon, and then nothing is looked at any more.
        self.neighbours.tidy(now);
        let address = |at: NodeIndex| cluster.node(at).map(|node| node.address);
        let Some(wanted) = address(node) else { return Ok(node) };
        let dice = chooser.dice();
        if self.neighbours.lets(now, wanted, Category::New, dice) {
            return Ok(node);
        }
        self.held_back += 1;
        let mut asking = mem::take(&mut self.asking);
        asking.clear();
        let asks = |at: &NodeIndex| address(*at).is_some_and(|hop| self.neighbours.asks(now, hop));
        asking.extend(cluster.indexes().filter(asks));
        // A table of places for these nodes alone would be made anew each time.
        let place = (chooser.algorithm() == crate::Algorithm::Maglev).then(|| scramble(fnv1a(r.call_id)));
        let other = match r.home.or(place) {
            Some(home) => chooser.home_but(now, home, &asking, r.secure),
            None => chooser.choose_for(now, r, &asking),
        };
        let other = other.filter(|at| !asking.contains(at));
        self.asking = asking;
        other.ok_or(NotAssigned::TooMuch)
    }
}
