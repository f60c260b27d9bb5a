//! The channels of trunks that a call holds.
//!
//! A forwarded INVITE holds them while its call is set up, and the table of calls once it is answered. Both
//! give them back by forgetting them, however the call ends.

use crate::short::Short;
use core::mem;
use core::time::Duration;
use sip_health::{Channel, Line, LineFull};
use sip_proxy::context::BranchId;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::Time;

/// Sent to a trunk whose call finds all channels in use, and to a caller if no trunk has another one.
pub(crate) const NO_CHANNEL: &[u8] = b"Warning: 399 proxy \"All channels of the trunk are in use\"\r\n";
/// Sent to a caller if no trunk may get a further call in this second.
const NO_RATE: &[u8] = b"Warning: 399 proxy \"The trunk gets no more calls in this second\"\r\n";

/// From one look at calls that may be lost to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// Calls looked at in one go, if there are no more of them than a round takes.
const WORK: usize = 64;
/// A round takes no more than this number of intervals, however many calls there are.
const ROUND: usize = 32;

/// The Warning (RFC 3261 section 20.43) of a call that a trunk does not take.
pub(crate) const fn warning(full: LineFull) -> &'static [u8] {
    match full {
        LineFull::Channels => NO_CHANNEL,
        LineFull::Rate => NO_RATE,
    }
}

/// Those of an answered call.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    /// Of the trunk at one end.
    pub inbound: Option<Channel>,
    /// Of the trunk at the other end.
    pub outbound: Option<Channel>,
}

impl Channels {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.inbound.is_none() && self.outbound.is_none()
    }

    /// Takes what others have and these do not.
    pub fn add(&mut self, others: Channels) {
        self.inbound = self.inbound.take().or(others.inbound);
        self.outbound = self.outbound.take().or(others.outbound);
    }
}

/// A call in the table of calls: its hash and sequence.
type Named = (u64, u64);

/// The answered calls that hold channels, for the look at those that are lost.
#[derive(Default)]
pub(crate) struct Holding {
    /// With some that are over.
    queue: VecDeque<Named>,
    next: Time,
}

impl Holding {
    /// Another call holds channels. If there are more than `most`, those that are not `live` are left out.
    pub fn add(&mut self, call: Named, most: usize, live: impl Fn(Named) -> bool) {
        self.queue.push_back(call);
        if self.queue.len() > most {
            self.queue.retain(|call| live(*call));
        }
    }

    /// Looks at a part of the calls, once a second at most. `holds`: whether a call goes on holding channels.
    pub fn look(&mut self, now: Time, mut holds: impl FnMut(Named) -> bool) {
        if self.queue.is_empty() || now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        let calls = self.queue.len();
        for _ in 0..WORK.max(calls.div_ceil(ROUND)).min(calls) {
            let Some(call) = self.queue.pop_front() else { return };
            if holds(call) {
                self.queue.push_back(call);
            }
        }
    }
}

/// A channel of a trunk, and the branch that goes there.
type Held = (Channel, BranchId);

/// Those of a call that is being set up.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    /// Of the trunk that it came from.
    pub inbound: Option<Channel>,
    /// Of the trunks that are tried.
    outbound: Short<Held>,
    /// The trunk that took no further call last. Its other targets are not asked.
    pub refused: Option<Arc<Line>>,
}

impl Claimed {
    /// Whether this trunk has taken no further call.
    pub fn is_refused(&self, line: &Arc<Line>) -> bool {
        self.refused.as_ref().is_some_and(|refused| Arc::ptr_eq(refused, line))
    }

    /// A branch begins, to a target of this trunk or of none. Gives back the channels of branches that no
    /// longer run, but for one of this trunk, which the new branch takes over. Returns whether there is one.
    pub fn hand_on(
        &mut self,
        line: Option<&Arc<Line>>,
        branch: BranchId,
        runs: impl Fn(BranchId) -> bool,
    ) -> bool {
        if self.outbound.is_empty() {
            return false;
        }
        let (mut kept, mut found) = (Short::None, false);
        let mut look = |(channel, held_by): Held| {
            let same = line.is_some_and(|line| Arc::ptr_eq(channel.line(), line));
            let runs = runs(held_by);
            if same && !found && (held_by == branch || !runs) {
                found = true;
                kept.push((channel, branch));
            } else if runs {
                kept.push((channel, held_by));
            }
        };
        match mem::take(&mut self.outbound) {
            Short::None => {}
            Short::One(held) => look(held),
            Short::More(all) => all.into_iter().for_each(look),
        }
        self.outbound = kept;
        found
    }

    /// A branch has a channel.
    pub fn hold(&mut self, channel: Channel, branch: BranchId) {
        self.outbound.push((channel, branch));
    }

    /// A branch to a target of this trunk, or of none, was answered.
    pub fn answered(&mut self, line: Option<Arc<Line>>, branch: BranchId) -> Channels {
        let own = |(channel, held_by): Held| {
            let same = line.as_ref().is_some_and(|line| Arc::ptr_eq(channel.line(), line));
            (same && held_by.target() == branch.target()).then_some(channel)
        };
        let held = match mem::take(&mut self.outbound) {
            Short::None => None,
            Short::One(held) => own(held),
            Short::More(all) => all.into_iter().find_map(own),
        };
        // A target that was given up may have answered all the same.
        let outbound = held.or_else(|| line.as_ref().map(|line| line.anyway()));
        Channels { inbound: self.inbound.take(), outbound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_health::{LineLimits, Lines};

    #[test]
    fn parallel_branches_hold_a_channel_each() {
        let lines = Lines::new([(&b"a"[..], LineLimits::default())], &Lines::default());
        let line = lines.get(b"a").unwrap();
        let calls = || line.standing(Time::ZERO).calls;
        let branch = BranchId::from_u16;
        let mut claimed = Claimed::default();
        claimed.hold(line.anyway(), branch(0));
        assert!(!claimed.hand_on(Some(line), branch(1), |_| true));
        claimed.hold(line.anyway(), branch(1));
        // The first one failed. What stands in for it takes its channel over.
        assert!(claimed.hand_on(Some(line), branch(2), |held_by| held_by != branch(0)));
        assert_eq!(calls(), 2);
        assert!(!claimed.hand_on(None, branch(3), |held_by| held_by == branch(2)));
        assert_eq!(calls(), 1);
        let channels = claimed.answered(Some(Arc::clone(line)), branch(2));
        assert_eq!(calls(), 1);
        drop(channels);
        assert_eq!(calls(), 0);
    }
}
