//! What the workers of a server tell each other of their load, so that whichever answers tells a neighbour
//! the same (RFC 7339).
//!
//! Calls are dealt out by a hash of the Call-ID, so each worker has an equal part of what a neighbour brings:
//! the server wants as much less of it as the mean of its workers does. Each worker writes what it wants once
//! in a window, and all read the same words, so they contradict each other for a window at most. A neighbour
//! is a source, of which there is room for a fixed number; others are told nothing.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use sip_proxy::feedback::Algorithm;
use wire::{Load, Time};

/// Neighbours that are told, a power of two.
const NEIGHBOURS: usize = 64;
/// Places in which a neighbour may be.
const TRIES: usize = 8;
/// How long the place of one that asks no more is kept.
const KEPT: Duration = Duration::from_secs(60);
/// How long what a worker has written counts. One that sleeps has nothing to do, and writes nothing.
const FRESH: Duration = Duration::from_secs(1);

/// So many times as much as now may come for a worker that is calm.
const GROWS: f32 = 1.1;

/// What the workers of one server share.
pub struct Common {
    sequence: AtomicU64,
    neighbours: [Neighbour; NEIGHBOURS],
    workers: Box<[Row]>,
}

/// A neighbour: zeroes, if there is none.
#[derive(Default)]
struct Neighbour {
    source: AtomicU64,
    /// When it was last told something, microseconds.
    asked: AtomicU64,
    /// Whether it goes by a rate.
    paced: AtomicBool,
    /// Since when it asks without a pause, microseconds.
    since: AtomicU64,
}

/// What one worker wants of each neighbour. On cache lines of its own.
#[repr(align(64))]
struct Row {
    /// When it was written, microseconds.
    at: AtomicU64,
    wants: [AtomicU64; NEIGHBOURS],
}

/// What is wanted of a neighbour.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Wanted {
    /// What part of what it would bring it is to leave away, 0 to 1.
    pub loss: f32,
    /// Requests a second that are left to it, where there is an overload.
    pub left: f32,
}

impl Wanted {
    fn word(self) -> u64 {
        u64::from(self.loss.to_bits()) << 32 | u64::from(self.left.to_bits())
    }

    fn of(word: u64) -> Wanted {
        Wanted { loss: f32::from_bits((word >> 32) as u32), left: f32::from_bits(word as u32) }
    }
}

impl Common {
    /// For so many workers.
    pub fn new(workers: usize) -> Common {
        let row = |_| Row { at: AtomicU64::new(0), wants: core::array::from_fn(|_| AtomicU64::new(0)) };
        Common {
            sequence: AtomicU64::new(0),
            neighbours: core::array::from_fn(|_| Neighbour::default()),
            workers: (0..workers).map(row).collect(),
        }
    }

    /// The place of a neighbour that is told something now; `None`: there is no room.
    pub(super) fn place(&self, source: u64, now: Time) -> Option<usize> {
        let source = source.max(1);
        let places = || (0..TRIES).map(|n| (source as usize).wrapping_add(n) % NEIGHBOURS);
        let all = || places().filter_map(|at| Some((at, self.neighbours.get(at)?)));
        if let Some((at, neighbour)) = all().find(|(_, n)| n.source.load(Relaxed) == source) {
            let asked = neighbour.asked.fetch_max(now.as_micros(), Relaxed);
            if !is_fresh(asked, now) {
                self.forget(at, now);
            }
            return Some(at);
        }
        let gone =
            |n: &Neighbour| now.as_micros().saturating_sub(n.asked.load(Relaxed)) > KEPT.as_micros() as u64;
        all().find_map(|(at, neighbour)| {
            let before = neighbour.source.load(Relaxed);
            if before != 0 && !gone(neighbour) {
                return None;
            }
            neighbour.source.compare_exchange(before, source, Relaxed, Relaxed).ok()?;
            neighbour.asked.store(now.as_micros(), Relaxed);
            self.forget(at, now);
            Some(at)
        })
    }

    /// What was wanted of the neighbour before, or of this one when it asked last: nobody has written that
    /// anew meanwhile.
    fn forget(&self, at: usize, now: Time) {
        if let Some(neighbour) = self.neighbours.get(at) {
            neighbour.since.store(now.as_micros(), Relaxed);
        }
        self.workers.iter().filter_map(|row| row.wants.get(at)).for_each(|word| word.store(0, Relaxed));
    }

    /// Whether the workers have not all had a window yet to write what they want of this neighbour.
    pub(super) fn is_new(&self, at: usize, now: Time) -> bool {
        let since = self.neighbours.get(at).map_or(0, |neighbour| neighbour.since.load(Relaxed));
        now.as_micros().saturating_sub(since) < 2 * Load::WINDOW.as_micros() as u64
    }

    /// For how many workers this is.
    pub(super) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// How this neighbour is told.
    pub(super) fn goes_by(&self, at: usize, algorithm: Algorithm) {
        if let Some(neighbour) = self.neighbours.get(at) {
            neighbour.paced.store(algorithm == Algorithm::Rate, Relaxed);
        }
    }

    /// The neighbours that were told something of late, with their places and how they are told.
    pub(super) fn told(&self, now: Time) -> impl Iterator<Item = (usize, u64, Algorithm)> {
        let all = self.neighbours.iter().enumerate().map(|(at, n)| (at, n, n.source.load(Relaxed)));
        let of_late = all.filter(move |(_, n, source)| *source != 0 && is_fresh(n.asked.load(Relaxed), now));
        of_late.map(|(at, n, source)| match n.paced.load(Relaxed) {
            true => (at, source, Algorithm::Rate),
            false => (at, source, Algorithm::Loss),
        })
    }

    /// A worker writes what it wants of a neighbour; nothing, if it is calm.
    pub(super) fn want(&self, worker: usize, at: usize, wanted: Wanted) {
        if let Some(word) = self.workers.get(worker).and_then(|row| row.wants.get(at)) {
            word.store(wanted.word(), Relaxed);
        }
    }

    /// It has written all that it wants.
    pub(super) fn written(&self, worker: usize, now: Time) {
        if let Some(row) = self.workers.get(worker) {
            row.at.store(now.as_micros(), Relaxed);
        }
        self.sequence.fetch_max(now.as_micros() / 10, Relaxed);
    }

    /// What the server wants of a neighbour, and a number that does not fall and grows when that may have
    /// changed.
    pub(super) fn wanted(&self, at: usize, now: Time) -> (Wanted, u64) {
        // First, so that what is read is not older than it says.
        let sequence = self.sequence.load(Relaxed);
        let words = self.workers.iter().map(|row| match row.wants.get(at) {
            Some(word) if is_fresh(row.at.load(Relaxed), now) => Wanted::of(word.load(Relaxed)),
            _ => Wanted::default(),
        });
        let (mut all, mut loss, mut left, mut offered, mut busy) = (0u32, 0.0, 0.0, 0.0, 0u32);
        for wanted in words {
            all += 1;
            loss += wanted.loss;
            if wanted.loss > 0.0 || wanted.left > 0.0 {
                busy += 1;
                left += wanted.left;
                offered += wanted.left / (1.0 - wanted.loss).max(0.01);
            }
        }
        // One that is calm takes its part of all, which is what the others see of it; and a little more, or
        // who goes by a rate could never bring more than he does.
        let part = GROWS * offered / busy.max(1) as f32;
        let wanted =
            Wanted { loss: loss / all.max(1) as f32, left: left + part * all.saturating_sub(busy) as f32 };
        (wanted, sequence)
    }
}

/// Whether something of this time, in microseconds, still counts.
fn is_fresh(micros: u64, now: Time) -> bool {
    now.as_micros().saturating_sub(micros) < FRESH.as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, Change, Overload, Rules, Verdict};
    use super::*;
    use sip_message::Method;
    use std::sync::Arc;

    const NOW: Time = Time::from_secs(1_000);

    #[test]
    fn the_server_wants_the_mean_of_what_its_workers_want() {
        let common = Common::new(4);
        let at = common.place(7, NOW).unwrap();
        assert_eq!(common.wanted(at, NOW).0, Wanted::default());
        // Each has 100 of 400 requests; two can take 20 and 60 of them, and two 110.
        common.want(1, at, Wanted { loss: 0.8, left: 20.0 });
        common.want(2, at, Wanted { loss: 0.4, left: 60.0 });
        (0..4).for_each(|worker| common.written(worker, NOW));
        let (wanted, sequence) = common.wanted(at, NOW);
        assert!((wanted.loss - 0.3).abs() < 1e-5 && (wanted.left - 300.0).abs() < 1e-2, "{wanted:?}");
        assert_eq!(sequence, 100_000_000);
        // Who sleeps wants nothing any more.
        let later = NOW + FRESH;
        common.written(1, later);
        let (wanted, later) = common.wanted(at, later);
        assert!((wanted.loss - 0.2).abs() < 1e-5 && later > sequence, "{wanted:?}");
        common.written(3, NOW);
        assert_eq!(common.wanted(at, NOW).1, later, "it never falls");
    }

    #[test]
    fn there_is_room_for_some_and_again_when_they_are_gone() {
        let common = Common::new(1);
        let places: Vec<Option<usize>> = (0..1_000u64).map(|n| common.place(n << 6, NOW)).collect();
        let few: Vec<usize> = places.iter().flatten().copied().collect();
        assert_eq!(few.len(), TRIES);
        assert_eq!(common.told(NOW).count(), TRIES);
        assert_eq!(common.place(1 << 6, NOW), places[1]);
        common.want(0, places[1].unwrap(), Wanted { loss: 0.5, left: 1.0 });
        let later = NOW + KEPT + KEPT;
        assert_eq!(common.told(later).count(), 0);
        let next = common.place(900 << 6, later).unwrap();
        common.written(0, later);
        assert_eq!(common.wanted(next, later).0, Wanted::default(), "nothing of the one before");
        assert_eq!(common.told(later).collect::<Vec<_>>(), [(next, 900 << 6, Algorithm::Loss)]);
    }

    /// What was wanted of a neighbour when it asked last may be long over, and nobody has written it anew
    /// since.
    #[test]
    fn nobody_is_told_what_was_wanted_when_he_asked_last() {
        let common = Common::new(2);
        let at = common.place(7, NOW).unwrap();
        common.want(0, at, Wanted { loss: 0.9, left: 1.0 });
        common.written(0, NOW);
        assert!(common.wanted(at, NOW).0.loss > 0.4);
        let later = NOW + FRESH + FRESH;
        common.written(0, later);
        assert_eq!(common.place(7, later), Some(at));
        assert_eq!(common.wanted(at, later).0, Wanted::default());
        assert!(common.is_new(at, later) && !common.is_new(at, later + Load::WINDOW + Load::WINDOW));
    }

    /// Nor that all is well while it is not.
    #[test]
    fn who_asks_now_and_then_is_told_of_an_overload_at_once() {
        let common = Arc::new(Common::new(2));
        let mut overload = Overload::new(Rules { workers: 2, ..Rules::default() }, 7);
        overload.join(Arc::clone(&common), 0);
        let (mut now, mut lot) = (NOW, 0u64);
        let behind =
            |millis| Load { window: Load::WINDOW, behind: Duration::from_millis(millis), ..Load::default() };
        overload.pace(now, &behind(1_000));
        for window in 0..200 {
            for _ in 0..400 {
                lot = lot.wrapping_add(0x9e37_79b9_7f4a_7c15);
                overload.judge(7, lot ^ lot >> 29, true, true);
            }
            now = now + Load::WINDOW;
            overload.pace(now, &behind(if window % 2 == 0 { 150 } else { 0 }));
            // Every two seconds.
            if window % 40 == 39 {
                for algorithm in [Algorithm::Loss, Algorithm::Rate] {
                    let wish = overload.wish(7, algorithm);
                    assert!(!wish.valid.is_zero() && wish.value > 0, "{wish:?}");
                }
            }
        }
    }

    /// A trunk has 400 calls in a window for two workers, of which each can do 100: it brings as many as they
    /// can, and none of them thinks that it is over meanwhile.
    #[test]
    fn a_trunk_that_does_as_several_workers_tell_it_brings_what_they_can_do() {
        let rules = Rules { workers: 2, ..Rules::default() };
        let common = Arc::new(Common::new(2));
        let mut workers: Vec<(Overload, u32, Vec<Change>)> = (0..2)
            .map(|worker| {
                let mut overload = Overload::new(rules, 7 + worker as u64);
                overload.join(Arc::clone(&common), worker);
                (overload, 0, Vec::new())
            })
            .collect();
        let (mut now, mut lot, mut taken) = (Time::from_secs(1), 0u64, 0);
        for window in 0..1_200usize {
            now = now + Load::WINDOW;
            // Whoever answered last.
            let loss = workers[window % 2].0.wish(7, Algorithm::Loss).value;
            for n in 0..400u32 {
                lot = lot.wrapping_add(0x9e37_79b9_7f4a_7c15);
                if n * 100 / 400 < loss {
                    continue;
                }
                let call = lot ^ lot >> 29;
                let (overload, waits, _) = &mut workers[(call >> 20) as usize % 2];
                if !overload.sheds() {
                    overload.note(Method::Invite);
                } else if overload.judge(7, call, true, true) != Verdict::Take {
                    continue;
                }
                *waits += 1;
                taken += u32::from(window >= 600);
            }
            for (overload, waits, begun) in &mut workers {
                *waits = waits.saturating_sub(100);
                let behind = Duration::from_micros(u64::from(*waits) * 500);
                let load = Load { window: Load::WINDOW, behind, kept_up: *waits == 0, ..Load::default() };
                begun.extend(overload.pace(now, &load));
            }
        }
        for (_, _, begun) in &workers {
            assert_eq!(begun, &[Change::Entered]);
        }
        let taken = f64::from(taken) / 600.0;
        assert!((175.0..=202.0).contains(&taken), "{taken} in a window");
    }
}
