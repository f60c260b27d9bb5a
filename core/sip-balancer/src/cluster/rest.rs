//! Why a node gets no new calls for a while though it answers: it has refused some with 503, has said so to a
//! probe, is far worse than the others, or has failed where nobody probes.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use wire::Time;

/// A node that refuses calls with 503 rests so long at least, as far as it asks for that, whatever it says to
/// probes. If it refuses again within four times as long and `SOON` after that, it rests twice as long at
/// least, up to `MOST_REST`.
const LEAST_REST: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_secs(30);
const MOST_REST: Duration = Duration::from_secs(32);
/// Longest rest that a Retry-After can ask for.
pub(crate) const LONGEST_REST: Duration = Duration::from_secs(600);

/// A time that all workers share; zero: none.
#[derive(Debug, Default)]
struct Moment(AtomicU64);

impl Moment {
    fn get(&self) -> Time {
        Time::from_micros(self.0.load(Relaxed))
    }

    fn set(&self, time: Time) {
        self.0.store(time.as_micros(), Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// Puts it off.
    fn extend(&self, time: Time) {
        self.0.fetch_max(time.as_micros(), Relaxed);
    }

    fn shorten(&self, time: Time) {
        self.0.fetch_min(time.as_micros(), Relaxed);
    }
}

/// The rests of one node.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Until when it gets no new calls, because it has refused some with 503.
    refused: Moment,
    /// When it last did so, before when no good answer to a probe ends that, and how long that is after the
    /// first 503.
    asked: Moment,
    least: Moment,
    step: AtomicU64,
    /// Until when it has said that it wants no calls, be it that it gets them all the same; zero: it has
    /// taken one since.
    refusing: Moment,
    /// When it last said so.
    refused_at: Moment,
    /// As [`Rest::refused`], as the answer to a probe has set it last, which a good answer to a later one
    /// ends.
    by_probe: Moment,
    /// The same where it is far worse than the others.
    ejected: Moment,
    /// Until when it counts as failed, where nobody probes it.
    out: Moment,
}

impl Rest {
    /// As it was at first.
    pub fn reset(&self) {
        self.step.store(0, Relaxed);
        let rests =
            [&self.refused, &self.by_probe, &self.refusing, &self.refused_at, &self.ejected, &self.out];
        rests.into_iter().for_each(|moment| moment.set(Time::ZERO));
    }

    /// Until when it rests, if it does.
    pub fn until(&self, now: Time) -> Option<Time> {
        let rests = [&self.by_probe, &self.ejected, &self.out, &self.refused];
        let until = rests.iter().map(|moment| moment.get()).max().unwrap_or(Time::ZERO);
        (until > now).then_some(until)
    }

    /// Whether it rests because it is far worse than the others.
    pub fn is_ejected(&self, now: Time) -> bool {
        self.ejected.get() > now
    }

    /// It is far worse than the others.
    pub fn eject(&self, until: Time) {
        self.ejected.extend(until);
    }

    /// Whether nobody probes it, and it counts as failed for a while.
    pub fn is_out(&self, now: Time) -> bool {
        self.out.get() > now
    }

    /// It counts as failed until then.
    pub fn put_out(&self, until: Time) {
        self.out.set(until);
    }

    /// Something came from it that it owed.
    pub fn heard(&self) {
        // Read first: the line stays shared by all workers while all is well.
        if self.out.is_set() {
            self.out.set(Time::ZERO);
        }
    }

    /// It has refused a call with 503 and wants none for so long.
    pub fn after_refusal(&self, now: Time, time: Duration) {
        if self.refused.get() <= now {
            // One that is back, and refuses again soon, waits for longer each time, whatever it says to
            // probes.
            let before = Duration::from_micros(self.step.load(Relaxed));
            let soon = self.least.get() + before * 4 + SOON > now;
            let step = if soon && !before.is_zero() { (before * 2).min(MOST_REST) } else { LEAST_REST };
            self.step.store(step.as_micros() as u64, Relaxed);
            self.least.set(now + step);
        }
        self.asked.set(now);
        self.refused.extend(now + time);
    }

    /// The same, asked for in the answer to a probe: a good answer to a later one ends it.
    pub fn by_probe(&self, until: Time) {
        self.by_probe.extend(until);
    }

    /// Nobody probes any more.
    pub fn forget_probes(&self) {
        self.by_probe.set(Time::ZERO);
    }

    /// A probe that was `sent` then has a good answer. It ends the rest that a probe began, and shortens what
    /// a call was told before that to the least, for one that was started anew takes calls, whatever it said
    /// before. Says when it has rested by that, if it did. That it is far worse than the others no probe
    /// shows.
    pub fn probed_well(&self, now: Time, sent: Time) -> Option<Time> {
        let mut over = None;
        if self.by_probe.is_set() {
            over = Some(now).filter(|_| self.by_probe.get() > now);
            self.by_probe.set(Time::ZERO);
        }
        let least = self.least.get().max(now);
        if self.refused.get() > least && sent > self.asked.get() {
            self.refused.set(least);
            over = Some(least);
        }
        if sent > self.refused_at.get() {
            self.refusing.shorten(least.max(self.refused_at.get() + LEAST_REST));
        }
        over
    }

    /// It has refused a call and wants none for so long. Other than a rest this is noted of every node, also
    /// of the last one: it says what a caller is told, not where calls go.
    pub fn refuses(&self, now: Time, time: Duration) {
        self.refused_at.set(now);
        self.refusing.set(now + time.max(LEAST_REST));
    }

    /// It has taken a call that it was sent then, whatever it said before that.
    pub fn accepts(&self, sent: Time) {
        // Read first: the line stays shared by all workers while all is well.
        if self.refusing.is_set() && sent > self.refused_at.get() {
            self.refusing.set(Time::ZERO);
        }
    }

    /// Whether the last thing that it said to a call was that it wants none, and the time that it named
    /// lasts.
    pub fn is_refusing(&self, now: Time) -> bool {
        self.refusing.get() > now
    }
}
