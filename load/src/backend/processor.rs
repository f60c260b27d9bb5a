//! One processor and its queue: between first come, first served and processor sharing.
//!
//! Up to `sharing` jobs are in service and each has its part of the processor; others wait in order. One is a
//! queue in order, as many as there may be is processor sharing. Time is an argument, seconds from an origin
//! of the caller's; what happens between two looks happens at its own time, so the answer does not depend on
//! how often one looks.

use std::collections::VecDeque;

/// A job that is not finished.
#[derive(Clone, Debug)]
struct Job<T> {
    /// Seconds of a whole processor that it still needs.
    left: f64,
    what: T,
}

/// The processor and what is there to do.
#[derive(Clone, Debug)]
pub struct Processor<T> {
    speed: f64,
    sharing: usize,
    room: usize,
    working: Vec<Job<T>>,
    waiting: VecDeque<Job<T>>,
    stalled: bool,
    /// Up to when the work is accounted for.
    at: f64,
    busy: f64,
}

impl<T> Processor<T> {
    /// One that does `speed` seconds of work in a second, on up to `sharing` jobs at a time (at least one),
    /// while at most `room` others wait.
    pub fn new(speed: f64, sharing: usize, room: usize) -> Processor<T> {
        Processor {
            speed: speed.max(f64::MIN_POSITIVE),
            sharing: sharing.max(1),
            room,
            working: Vec::new(),
            waiting: VecDeque::new(),
            stalled: false,
            at: 0.0,
            busy: 0.0,
        }
    }

    /// Takes on a job that needs `work` seconds of a processor of speed 1. Call [`Processor::pop`] until
    /// `now` before. Gives the job back where there is no room.
    pub fn offer(&mut self, now: f64, work: f64, what: T) -> Result<(), T> {
        self.advance(now);
        let job = Job { left: work.max(0.0), what };
        if self.working.len() < self.sharing {
            self.working.push(job);
        } else if self.waiting.len() < self.room {
            self.waiting.push_back(job);
        } else {
            return Err(job.what);
        }
        Ok(())
    }

    /// When the next job is finished if nothing comes in between.
    pub fn next(&self) -> Option<f64> {
        self.first().map(|(_, at)| at)
    }

    /// The next job that is finished at `until` or before, with the time at which it was.
    pub fn pop(&mut self, until: f64) -> Option<(f64, T)> {
        let (which, at) = self.first().filter(|(_, at)| *at <= until)?;
        self.advance(at);
        let done = self.working.swap_remove(which);
        self.fill();
        Some((at, done.what))
    }

    /// Stops or goes on. What is in service waits for as long as it stands still.
    pub fn stall(&mut self, now: f64, stalled: bool) {
        self.advance(now);
        self.stalled = stalled;
    }

    /// Takes back the first job for which `which` says so, waiting or in service.
    pub fn withdraw(&mut self, now: f64, mut which: impl FnMut(&T) -> bool) -> Option<T> {
        self.advance(now);
        if let Some(at) = self.working.iter().position(|job| which(&job.what)) {
            let job = self.working.swap_remove(at);
            self.fill();
            return Some(job.what);
        }
        let at = self.waiting.iter().position(|job| which(&job.what))?;
        self.waiting.remove(at).map(|job| job.what)
    }

    /// Jobs in service and waiting.
    pub fn len(&self) -> usize {
        self.working.len() + self.waiting.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All jobs, those in service first.
    pub fn jobs(&self) -> impl Iterator<Item = &T> {
        self.working.iter().chain(&self.waiting).map(|job| &job.what)
    }

    /// Seconds in which there was something to do, standing still included.
    pub fn busy(&self) -> f64 {
        self.busy
    }

    /// Which job in service is finished first, and when.
    fn first(&self) -> Option<(usize, f64)> {
        let jobs = self.working.iter().enumerate().filter(|_| !self.stalled);
        let (which, job) = jobs.min_by(|a, b| a.1.left.total_cmp(&b.1.left))?;
        Some((which, self.at + job.left * self.working.len() as f64 / self.speed))
    }

    /// Accounts for the work up to `now`; before what is accounted for already it changes nothing.
    fn advance(&mut self, now: f64) {
        let passed = now - self.at;
        if passed <= 0.0 {
            return;
        }
        self.at = now;
        if self.working.is_empty() {
            return;
        }
        self.busy += passed;
        if !self.stalled {
            let done = passed * self.speed / self.working.len() as f64;
            self.working.iter_mut().for_each(|job| job.left = (job.left - done).max(0.0));
        }
    }

    fn fill(&mut self) {
        while self.working.len() < self.sharing
            && let Some(job) = self.waiting.pop_front()
        {
            self.working.push(job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::Rng;

    /// The mean time from arrival to end at `load`, of jobs that come at random and need `work` on average.
    fn mean(sharing: usize, load: f64, work: impl Fn(&mut Rng) -> f64) -> f64 {
        let mut rng = Rng::new(7, 1);
        let mut processor = Processor::new(1.0, sharing, usize::MAX);
        let (mut now, mut sum, mut count) = (0.0, 0.0, 0u32);
        for nth in 0..400_000 {
            now += rng.exponential() / load;
            while let Some((at, came)) = processor.pop(now) {
                if nth > 20_000 {
                    (sum, count) = (sum + at - came, count + 1);
                }
            }
            assert_eq!(processor.offer(now, work(&mut rng), now), Ok(()));
        }
        sum / f64::from(count)
    }

    #[test]
    fn in_order_it_is_the_queue_of_the_books() {
        // M/M/1: 1 / (1 - load); M/D/1: 1 + load / (2 (1 - load)) (Pollaczek and Khinchine).
        for load in [0.3, 0.8] {
            let (exponential, fixed) = (mean(1, load, Rng::exponential), mean(1, load, |_| 1.0));
            let want = 1.0 / (1.0 - load);
            assert!((exponential / want - 1.0).abs() < 0.05, "{load}: {exponential} for {want}");
            let want = 1.0 + load / 2.0 / (1.0 - load);
            assert!((fixed / want - 1.0).abs() < 0.03, "{load}: {fixed} for {want}");
        }
    }

    #[test]
    fn shared_by_all_the_mean_does_not_depend_on_the_law_of_the_work() {
        // M/G/1-PS: 1 / (1 - load), whatever the law.
        let mixed = |rng: &mut Rng| if rng.chance(0.1) { 5.5 } else { 0.5 };
        for (load, within) in [(0.3, 0.03), (0.8, 0.08)] {
            let want = 1.0 / (1.0 - load);
            for got in [
                mean(usize::MAX, load, Rng::exponential),
                mean(usize::MAX, load, |_| 1.0),
                mean(usize::MAX, load, mixed),
            ] {
                assert!((got / want - 1.0).abs() < within, "{load}: {got} for {want}");
            }
        }
    }

    #[test]
    fn shared_by_some_it_is_between_the_two() {
        let [order, some, all] = [1, 4, usize::MAX].map(|sharing| mean(sharing, 0.8, |_| 1.0));
        assert!(order < some && some < all, "{order} {some} {all}");
    }

    #[test]
    fn jobs_end_at_their_time_however_seldom_one_looks() {
        let run = |looks: &[f64]| {
            let mut processor = Processor::new(2.0, 2, 8);
            for (what, work) in [("a", 2.0), ("b", 1.0), ("c", 1.0)] {
                assert_eq!(processor.offer(1.0, work, what), Ok(()));
            }
            let pops =
                looks.iter().flat_map(|&at| core::iter::from_fn(|| processor.pop(at)).collect::<Vec<_>>());
            pops.collect::<Vec<_>>()
        };
        // b has half of two seconds a second: 2.0. Then a and c have one second left each.
        let want = [(2.0, "b"), (3.0, "a"), (3.0, "c")];
        assert_eq!(run(&[10.0]), want);
        let fine: Vec<f64> = (0..40).map(|n| f64::from(n) / 4.0).collect();
        assert_eq!(run(&fine), want);
    }

    #[test]
    fn beyond_its_room_it_takes_nothing() {
        let mut processor = Processor::new(1.0, 1, 2);
        assert_eq!(
            [1, 2, 3, 4].map(|what| processor.offer(0.0, 1.0, what)),
            [Ok(()), Ok(()), Ok(()), Err(4)]
        );
        assert_eq!(processor.len(), 3);
        // One in its middle leaves, and there is room again.
        assert_eq!(processor.withdraw(0.5, |what| *what == 2), Some(2));
        assert_eq!(processor.withdraw(0.5, |what| *what == 2), None);
        assert_eq!(processor.offer(0.5, 1.0, 5), Ok(()));
        let ends: Vec<_> = core::iter::from_fn(|| processor.pop(9.0)).collect();
        assert_eq!(ends, [(1.0, 1), (2.0, 3), (3.0, 5)]);
        assert!(processor.is_empty() && processor.next().is_none());
        assert!((processor.busy() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn while_it_stands_still_nothing_ends() {
        let mut processor = Processor::new(1.0, 1, 9);
        assert_eq!(processor.offer(0.0, 2.0, ()), Ok(()));
        processor.stall(1.0, true);
        assert_eq!((processor.next(), processor.pop(50.0)), (None, None));
        processor.stall(5.0, false);
        assert_eq!(processor.next(), Some(6.0));
        assert_eq!(processor.pop(6.0), Some((6.0, ())));
    }
}
