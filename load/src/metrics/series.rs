//! The run over time: one point for each second, or for more when the run is long.

use wire::Time;

use super::events::{CallEnd, Side};
use super::sketch::{Sketch, Sparse};

/// The most points kept. When a run needs more, two neighbours become one, again and again, so that a
/// day's run has points of 32 s.
pub const MAX_POINTS: usize = 4_096;

macro_rules! point {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// What happened in one interval. Things belong to the interval in which they happened.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Point {
            $($(#[$doc])* pub $name: u64,)+
            /// Responses received, by the first digit of their status, from 1.
            pub responses: [u64; 6],
            /// The longest send queue that one worker saw, in messages.
            pub queue: u64,
            /// Response times from the intended start ([`super::Measure::Response`]).
            pub latency: Sparse,
            /// How late scheduled sends were.
            pub lateness: Sparse,
        }

        impl Point {
            /// Adds what happened in another interval or at another worker.
            pub fn merge(&mut self, other: &Point) {
                $(self.$name += other.$name;)+
                self.responses.iter_mut().zip(&other.responses).for_each(|(own, more)| *own += more);
                self.queue = self.queue.max(other.queue);
                self.latency.merge(&other.latency);
                self.lateness.merge(&other.lateness);
            }
        }
    };
}

point! {
    /// Calls begun, caller's side.
    begun,
    /// Calls ended in whatever way, caller's side.
    ended,
    /// Of these, successful or cancelled as planned.
    succeeded,
    /// Of these, failed.
    failed,
    /// Calls begun, callee's side.
    callee_begun,
    /// Calls ended, callee's side.
    callee_ended,
    /// Of these, failed.
    callee_failed,
    /// Sessions established.
    established,
    /// Registrations of every kind that succeeded.
    registered,
    /// Registrations of every kind that failed.
    register_failed,
    /// Messages sent, retransmissions included.
    sent,
    /// Messages received.
    received,
    /// Requests sent again.
    repeated,
    /// Messages that nobody waited for.
    unexpected,
    /// Packets that our own sockets dropped.
    drops,
}

/// A time series of one worker, or of several after [`Series::merge`].
#[derive(Clone, Debug)]
pub struct Series {
    origin: Time,
    /// Length of the shortest interval, microseconds; `width` is this times a power of two.
    base: u64,
    width: u64,
    points: Vec<Point>,
    /// Index of the interval that fills.
    at: usize,
    /// When it is full, microseconds.
    full: u64,
    counts: Point,
    latency: Sketch,
    lateness: Sketch,
}

impl Series {
    /// An empty series. `origin` is the start of the first interval and must be the same for all that
    /// are merged; `base_micros` is the length of an interval (at least 1).
    pub fn new(origin: Time, base_micros: u64) -> Series {
        let base = base_micros.max(1);
        Series {
            origin,
            base,
            width: base,
            points: Vec::with_capacity(64),
            at: 0,
            full: origin.as_micros().saturating_add(base),
            counts: Point::default(),
            latency: Sketch::default(),
            lateness: Sketch::default(),
        }
    }

    /// Length of an interval now, microseconds.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Start of the first interval.
    pub fn origin(&self) -> Time {
        self.origin
    }

    /// The counters of the interval in which `now` lies. A time before the interval that fills counts as
    /// in it.
    #[inline]
    pub fn at(&mut self, now: Time) -> &mut Point {
        self.reach(now);
        &mut self.counts
    }

    /// A response time in microseconds.
    #[inline]
    pub fn latency(&mut self, now: Time, micros: u64) {
        self.reach(now);
        self.latency.record(micros);
    }

    /// The lateness of so many calls that were left out, in microseconds.
    pub fn lateness_of(&mut self, now: Time, micros: u64, calls: u64) {
        self.reach(now);
        self.lateness.record_times(micros, calls);
    }

    /// The lateness of a send in microseconds.
    #[inline]
    pub fn lateness(&mut self, now: Time, micros: u64) {
        self.reach(now);
        self.lateness.record(micros);
    }

    /// A call began.
    #[inline]
    pub(super) fn call_begun(&mut self, now: Time, side: Side) {
        let p = self.at(now);
        match side {
            Side::Caller => p.begun += 1,
            Side::Callee => p.callee_begun += 1,
        }
    }

    /// A call ended.
    #[inline]
    pub(super) fn call_ended(&mut self, now: Time, side: Side, end: CallEnd) {
        let p = self.at(now);
        match (side, end) {
            (Side::Caller, CallEnd::Success | CallEnd::Cancelled) => p.succeeded += 1,
            (Side::Caller, CallEnd::Failed(_)) => p.failed += 1,
            (Side::Callee, CallEnd::Failed(_)) => p.callee_failed += 1,
            _ => {}
        }
        match side {
            Side::Caller => p.ended += 1,
            Side::Callee => p.callee_ended += 1,
        }
    }

    #[inline]
    fn reach(&mut self, now: Time) {
        if now.as_micros() >= self.full {
            self.advance(now.as_micros().saturating_sub(self.origin.as_micros()));
        }
    }

    /// Goes on with this interval.
    fn turn_to(&mut self, at: usize) {
        self.at = at;
        self.full = self.origin.as_micros().saturating_add((at as u64 + 1).saturating_mul(self.width));
    }

    /// Closes the interval that fills and opens the one at `micros` after the origin.
    #[cold]
    fn advance(&mut self, micros: u64) {
        self.flush();
        while micros / self.width >= MAX_POINTS as u64 {
            self.coarsen();
        }
        self.turn_to((micros / self.width) as usize);
        // Intervals in which nothing happened are points too.
        if self.points.len() < self.at {
            self.points.resize_with(self.at, Point::default);
        }
    }

    /// Lets time pass: closes the intervals that are over, also if nothing happened in them.
    pub fn tick(&mut self, now: Time) {
        self.reach(now);
    }

    /// Puts the interval that fills among the points.
    fn flush(&mut self) {
        if self.points.len() <= self.at {
            self.points.resize_with(self.at + 1, Point::default);
        }
        let mut open = core::mem::take(&mut self.counts);
        open.latency = self.latency.sparse();
        open.lateness = self.lateness.sparse();
        self.latency.clear();
        self.lateness.clear();
        if let Some(p) = self.points.get_mut(self.at) {
            p.merge(&open);
        }
    }

    /// Makes one interval of two, all along.
    fn coarsen(&mut self) {
        let mut old = core::mem::take(&mut self.points).into_iter();
        let mut new = Vec::with_capacity(old.len().div_ceil(2));
        while let Some(mut p) = old.next() {
            if let Some(q) = old.next() {
                p.merge(&q);
            }
            new.push(p);
        }
        self.points = new;
        self.width *= 2;
        self.turn_to(self.at / 2);
    }

    /// All points, the one that fills included. Point `i` covers the time from `i` to `i + 1` times
    /// [`Series::width`] after the origin.
    pub fn points(&self) -> Vec<Point> {
        let mut whole = self.clone();
        whole.flush();
        whole.points
    }

    /// The last interval that is over, and its index; `None` in the first one.
    pub fn last_closed(&self) -> Option<(usize, &Point)> {
        let i = self.at.checked_sub(1)?;
        self.points.get(i).map(|p| (i, p))
    }

    /// Adds another worker's series of the same origin and base interval. The coarser one decides.
    pub fn merge(&mut self, other: &Series) {
        debug_assert_eq!((self.origin, self.base), (other.origin, other.base));
        let mut theirs = other.clone();
        theirs.flush();
        self.flush();
        while self.width < theirs.width {
            self.coarsen();
        }
        while theirs.width < self.width {
            theirs.coarsen();
        }
        if self.points.len() < theirs.points.len() {
            self.points.resize_with(theirs.points.len(), Point::default);
        }
        self.points.iter_mut().zip(&theirs.points).for_each(|(a, b)| a.merge(b));
        self.turn_to(self.at.max(theirs.at));
    }
}

/// Calls in progress at the end of each point, both sides, from the counts of those begun and ended.
pub fn in_progress(points: &[Point]) -> Vec<u64> {
    let mut up = 0_u64;
    points
        .iter()
        .map(|p| {
            up = (up + p.begun + p.callee_begun).saturating_sub(p.ended + p.callee_ended);
            up
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::Failure;

    fn secs(s: u64) -> Time {
        Time::from_secs(s)
    }

    #[test]
    fn things_belong_to_the_second_in_which_they_happen() {
        let mut s = Series::new(secs(10), 1_000_000);
        s.call_begun(secs(10), Side::Caller);
        s.call_begun(Time::from_micros(10_999_999), Side::Caller);
        s.call_begun(secs(11), Side::Callee);
        s.latency(secs(12), 500);
        s.call_ended(secs(12), Side::Caller, CallEnd::Success);
        s.call_ended(secs(12), Side::Caller, CallEnd::Failed(Failure::Refused));
        let p = s.points();
        assert_eq!(p.len(), 3);
        assert_eq!((p[0].begun, p[1].callee_begun, p[2].succeeded, p[2].failed), (2, 1, 1, 1));
        assert_eq!(p[2].latency.max(), 500);
        assert_eq!(in_progress(&p), [2, 3, 1]);
        assert_eq!(s.last_closed().map(|(i, p)| (i, p.callee_begun)), Some((1, 1)));
    }

    #[test]
    fn silence_is_seen() {
        let mut s = Series::new(Time::ZERO, 1_000_000);
        s.at(Time::ZERO).sent += 1;
        s.tick(Time::from_millis(999));
        assert_eq!(s.last_closed(), None);
        s.tick(secs(1));
        assert_eq!(s.last_closed().map(|(i, p)| (i, p.sent)), Some((0, 1)));
        s.tick(secs(10));
        assert_eq!(s.last_closed().map(|(i, p)| (i, p.sent)), Some((9, 0)));
        assert_eq!(s.points().len(), 11);
    }

    #[test]
    fn time_before_the_origin_or_the_open_interval_counts_in_the_open_one() {
        let mut s = Series::new(secs(10), 1_000_000);
        s.at(secs(3)).sent += 1;
        s.at(secs(12)).sent += 1;
        s.at(secs(11)).sent += 1;
        let p = s.points();
        assert_eq!(p.iter().map(|p| p.sent).collect::<Vec<_>>(), [1, 0, 2]);
    }

    #[test]
    fn a_long_run_is_coarser_and_loses_nothing() {
        let mut s = Series::new(Time::ZERO, 1_000_000);
        for t in 0..20_000 {
            s.at(secs(t)).sent += 1;
            s.latency(secs(t), t);
        }
        let p = s.points();
        assert_eq!(s.width(), 8_000_000);
        assert_eq!(p.len(), 2_500);
        assert!(p.iter().all(|p| p.sent == 8 && p.latency.count() == 8));
        assert_eq!(p[0].latency.max(), 7);
    }

    #[test]
    fn a_jump_of_years_is_bounded_work() {
        let mut s = Series::new(Time::ZERO, 1);
        s.at(Time::ZERO).sent += 1;
        s.at(secs(10 * 365 * 86_400)).sent += 1;
        let p = s.points();
        assert!(p.len() <= MAX_POINTS);
        assert_eq!(p.iter().map(|p| p.sent).sum::<u64>(), 2);
    }

    proptest! {
        #[test]
        fn merging_is_associative_whatever_the_widths(
            a in prop::collection::vec((0_u64..6_000, 0_u64..100_000), 0..30),
            b in prop::collection::vec((0_u64..20_000, 0_u64..100_000), 0..30),
            c in prop::collection::vec((0_u64..40_000, 0_u64..100_000), 0..30),
        ) {
            let of = |events: &[(u64, u64)]| {
                let mut events = events.to_vec();
                events.sort_unstable();
                let mut s = Series::new(Time::ZERO, 1_000_000);
                for (t, v) in events {
                    s.at(secs(t)).sent += 1;
                    s.latency(secs(t), v);
                    let q = s.at(secs(t));
                    q.queue = q.queue.max(v);
                }
                s
            };
            let (a, b, c) = (of(&a), of(&b), of(&c));
            let mut left = a.clone();
            left.merge(&b);
            left.merge(&c);
            let mut bc = c.clone();
            bc.merge(&b);
            let mut right = a.clone();
            right.merge(&bc);
            prop_assert_eq!(left.width(), right.width());
            prop_assert_eq!(left.points(), right.points());
        }
    }
}
