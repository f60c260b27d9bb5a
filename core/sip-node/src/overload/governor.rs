//! How much new work a worker takes on while it is short of time.
//!
//! There is no figure to configure. What the worker can carry is what it did carry: the mean of what was
//! taken on over the last second or two of overload. Around that mean a little more is taken on while it
//! keeps up and less while work piles up, so the mean follows the machine, whatever else runs on it and
//! whatever a call costs.

use super::backlog::Backlog;
use core::time::Duration;
use wire::{Load, Time};

/// The mean follows what was taken on within about this time, seconds.
const MEMORY: f64 = 1.5;
/// So much of a window counts, seconds: a window lasts for its least and one round at most, and rounds are
/// short.
const LONGEST: f64 = 0.1;
/// Without a refusal for so long, the overload is over: longer than between two repetitions of an INVITE (RFC
/// 3261 section 17.1.1.2: 16 s), or what got no answer would be taken for new.
const QUIET: Duration = Duration::from_secs(17);
/// The least that is taken on, in units a second: two calls or so, lest nobody finds out that it is over.
const LEAST: f64 = 10.0;
/// How much more than the mean is tried while the worker keeps up.
const PROBE: f64 = 1.08;
/// Windows of keeping up after which still more is tried, and how much more with each.
const PATIENT: u32 = 10;
const BOLDER: f64 = 0.02;
/// The most that is tried, by the mean.
const BOLDEST: f64 = 2.0;
/// Windows far behind, with nearly nothing taken on, after which it is not new work that keeps the worker
/// behind.
const TRIAL: u32 = 40;
/// Windows for which new work has its part all the same, before that is tried again.
const PART: u32 = 160;
/// That part, by the most that was taken on of late.
const FLOOR: f64 = 0.25;
/// What that most loses with each window, unless the worker is far behind: half of it in about a minute.
const FADES: f64 = 0.9995;
/// How much of what there was the mean in calm times forgets with each window.
const CALM: f64 = 0.3;

/// Windows in a row in which all that is new was taken on, after which an overload is at rest.
const RESTED: u32 = 20;

/// What changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// New work is refused from now on, beyond what can be carried.
    Entered,
    /// All of it is taken on again.
    Left,
}

/// Decides how much new work there may be. Work is counted in units; see [`super::units`].
#[derive(Clone, Debug)]
pub struct Governor {
    /// Being behind for so long is overload.
    patience: Duration,
    /// What was taken on in a second of late, while calm; then what can be, by experience.
    capacity: f64,
    /// The most it was of late.
    best: f64,
    /// What waits while the worker is behind, in calm times and in an overload at rest.
    backlog: Backlog,
    overload: Option<Overload>,
}

#[derive(Clone, Debug)]
struct Overload {
    /// The last refusal.
    refused: Time,
    /// Windows in a row in which the worker kept up.
    easy: u32,
    /// Windows in a row in which the worker was far behind.
    far: u32,
    /// Windows in a row in which all that was new was taken on: if anything was refused, it repeated what had
    /// been.
    rest: u32,
    /// What may be taken on in a second now.
    budget: f64,
}

impl Governor {
    /// In calm. Being behind for longer than `patience` is overload.
    pub fn new(patience: Duration) -> Governor {
        Governor { patience, capacity: 0.0, best: 0.0, backlog: Backlog::default(), overload: None }
    }

    /// From now on.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Units that may be taken on in a second; `None`: whatever comes.
    pub fn budget(&self) -> Option<f64> {
        self.overload.as_ref().map(|overload| overload.budget)
    }

    /// A window is over, in which so many units were taken on, and so many requests refused or not answered.
    /// `limits`: of what was new not all could be taken on.
    pub fn pace(&mut self, now: Time, load: &Load, taken: u32, refused: u32, limits: bool) -> Option<Change> {
        // A window without an end is one without traffic, and one much longer than it should be is of a
        // process that stood still: it says nothing of what can be carried while it runs.
        let seconds = load.window.as_secs_f64().clamp(0.001, LONGEST);
        let rate = f64::from(taken) / seconds;
        let Some(overload) = &mut self.overload else {
            self.capacity += (rate - self.capacity) * CALM;
            self.best = self.capacity.max(self.best * FADES);
            if self.backlog.excuses(load, self.patience) || load.behind < self.patience {
                return None;
            }
            self.backlog.forget();
            let capacity = self.capacity.max(LEAST);
            self.overload = Some(Overload { refused: now, easy: 0, far: 0, rest: 0, budget: capacity });
            return Some(Change::Entered);
        };
        overload.rest = if limits { 0 } else { overload.rest.saturating_add(1) };
        // Then a stall is what it is in calm times: only that what had no answer still gets none is left of
        // the overload.
        let rests = overload.rest >= RESTED
            && (self.backlog.excuses(load, self.patience) || load.behind < self.patience);
        if !rests && overload.rest >= RESTED {
            overload.rest = 0;
            self.backlog.forget();
        }
        if refused > 0 {
            overload.refused = now;
            self.capacity += (rate - self.capacity) * (seconds / MEMORY);
        } else {
            // That is what was offered, not what could be carried.
            self.capacity = self.capacity.max(rate);
        }
        let far = load.behind >= 2 * self.patience;
        overload.far = if far { (overload.far + 1) % (TRIAL + PART) } else { 0 };
        if !far {
            self.best = self.capacity.max(self.best * FADES);
        }
        // Where less new work leaves the worker as far behind as it was, what goes first keeps it there, and
        // would bring what is new down to nothing.
        let floor = if overload.far >= TRIAL { self.best * FLOOR } else { 0.0 };
        self.capacity = self.capacity.max(LEAST).max(floor);
        let eases = load.kept_up && load.behind < self.patience / 2;
        overload.easy = if eases { overload.easy + 1 } else { 0 };
        let bolder = f64::from(overload.easy.saturating_sub(PATIENT)) * BOLDER;
        let gain = match load.behind {
            behind if behind >= 2 * self.patience => 0.1,
            behind if behind >= self.patience => 0.5,
            behind if behind >= self.patience / 2 => 0.85,
            _ if load.kept_up => (PROBE + bolder).min(BOLDEST),
            _ => 1.0,
        };
        // After a stall most of what waits is new, and comes several times as fast as it was brought.
        let tried = if rests { self.best.max(self.capacity) * BOLDEST } else { self.capacity * gain };
        overload.budget = tried.max(LEAST).max(floor);
        if now.since(overload.refused) < QUIET || load.behind >= self.patience / 2 {
            return None;
        }
        self.overload = None;
        Some(Change::Left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const PATIENCE: Duration = Duration::from_millis(200);
    const STEP: Duration = Duration::from_millis(50);

    /// A server with a queue, under a governor. Half of the work of a unit is its first message; the other
    /// half comes behind what waits by then. What is refused costs a fiftieth.
    struct Model {
        governor: Governor,
        /// Units done in a second.
        capacity: f64,
        /// Units that can wait; what comes besides is lost.
        room: f64,
        /// What waits, oldest first: when it came, units of first messages, and of work that follows.
        queue: VecDeque<(Time, f64, f64)>,
        behind: Duration,
        now: Time,
        changes: Vec<Change>,
        /// What is refused in each window for good, besides.
        repeats: u32,
        /// Units refused but for that.
        refused: f64,
    }

    impl Model {
        const STEPS: u32 = 10;

        fn new(capacity: f64) -> Model {
            let (governor, now) = (Governor::new(PATIENCE), Time::from_micros(1));
            Model {
                governor,
                capacity,
                room: f64::INFINITY,
                queue: VecDeque::new(),
                behind: Duration::ZERO,
                now,
                changes: Vec::new(),
                repeats: 0,
                refused: 0.0,
            }
        }

        /// One window in which so many units are offered in a second. Units done, and the longest wait in
        /// seconds.
        fn window(&mut self, offered: f64) -> (f64, f64) {
            let budget = self.governor.budget().unwrap_or(f64::INFINITY);
            // As a share of what comes, which is how it is done.
            let share = (budget / offered).min(1.0);
            let (mut done, mut wait, mut kept_up) = (0.0, 0.0f64, false);
            let (mut taken, mut refused) = (0.0, 0.0);
            for _ in 0..Self::STEPS {
                let step = STEP / Self::STEPS;
                self.now = self.now + step;
                if self.queue.iter().map(|(_, new, rest)| new + rest).sum::<f64>() < self.room {
                    self.queue.push_back((self.now, offered * step.as_secs_f64(), 0.0));
                }
                let mut room = self.capacity * step.as_secs_f64();
                let mut follows = 0.0;
                while let Some((came, new, rest)) = self.queue.pop_front() {
                    let cost = new * (share * 0.5 + (1.0 - share) * 0.02) + rest * 0.5;
                    let part = (room / cost).min(1.0);
                    room -= cost * part;
                    wait = wait.max(self.now.since(came).as_secs_f64());
                    taken += new * share * part;
                    refused += new * (1.0 - share) * part;
                    follows += new * share * part;
                    done += rest * part;
                    if part < 1.0 {
                        self.queue.push_front((came, new * (1.0 - part), rest * (1.0 - part)));
                        break;
                    }
                }
                self.queue.push_back((self.now, 0.0, follows));
                kept_up |= room > 0.0;
                self.behind = if room > 0.0 { Duration::ZERO } else { self.behind + step };
            }
            let load =
                Load { window: STEP, behind: self.behind, kept_up, sieved: None, waiting: self.waiting() };
            self.refused += refused;
            let refused = f64::ceil(refused) as u32 + self.repeats;
            let change = self.governor.pace(self.now, &load, taken as u32, refused, share < 1.0);
            self.changes.extend(change);
            (done, wait)
        }

        /// As the kernel counts it: 2 kB a message, two messages a unit. Nobody knows where something was
        /// lost.
        fn waiting(&self) -> Option<u64> {
            let all = self.queue.iter().map(|(_, new, rest)| new + rest).sum::<f64>();
            (all < self.room).then_some((all * 4_096.0) as u64)
        }

        /// The machine stands still while so much is offered, and the worker's round lasts for as long.
        fn stall(&mut self, time: Duration, offered: f64) {
            let step = Duration::from_millis(5);
            for _ in 0..time.as_millis() / step.as_millis() {
                self.now = self.now + step;
                self.queue.push_back((self.now, offered * step.as_secs_f64(), 0.0));
            }
            self.behind += time.min(Load::ROUND);
        }

        /// So many seconds; the share of the capacity that was used, and the longest wait.
        fn run(&mut self, seconds: usize, offered: f64) -> (f64, f64) {
            let windows = seconds * 20;
            let each: Vec<(f64, f64)> = (0..windows).map(|_| self.window(offered)).collect();
            let done: f64 = each.iter().map(|(done, _)| done).sum();
            (done / seconds as f64 / self.capacity, each.iter().fold(0.0, |most, (_, wait)| most.max(*wait)))
        }
    }

    #[test]
    fn whatever_is_offered_the_server_is_used_and_nobody_waits_long() {
        for capacity in [2_000.0, 400_000.0] {
            for times in [1.1f64, 1.5, 2.0, 4.0, 10.0] {
                let mut model = Model::new(capacity);
                model.run(1, capacity * 0.5);
                // It cannot know at first how much that is.
                model.run(15, capacity * times);
                let (used, wait) = model.run(20, capacity * times);
                // What is not taken on costs its fiftieth.
                let best = 1.0 - (times - 1.0) * 0.02;
                assert!(used > 0.93 * best, "{times} times {capacity}: {used}");
                assert!(wait < 0.3, "{times} times {capacity}: {wait} s");
                assert_eq!(model.changes, [Change::Entered]);
            }
        }
    }

    /// What it has missed by then it does a little later, and refuses nothing.
    #[test]
    fn a_machine_that_stood_still_catches_up_and_refuses_nothing() {
        for load in [0.5, 0.67, 0.75, 0.8, 0.85] {
            for stall in [50, 75, 100, 150, 200, 300] {
                let mut model = Model::new(20_000.0);
                model.run(2, 20_000.0 * load);
                model.stall(Duration::from_millis(stall), 20_000.0 * load);
                model.run(5, 20_000.0 * load);
                assert!(model.changes.is_empty(), "{stall} ms at {load}");
            }
        }
    }

    /// The machine goes on standing still now and then behind an overload, that of what is refused for good:
    /// what got no answer is repeated, a few requests a second, and gets none. What is new is taken on as if
    /// it were over.
    #[test]
    fn what_an_overload_has_left_does_not_make_a_stall_one() {
        for load in [0.5, 0.67, 0.75, 0.8, 0.85] {
            let mut model = Model::new(20_000.0);
            model.run(2, 20_000.0 * load);
            model.run(10, 30_000.0);
            assert_eq!(model.changes, [Change::Entered]);
            model.repeats = 5;
            model.run(10, 20_000.0 * load);
            for _ in 0..4 {
                model.refused = 0.0;
                model.stall(Duration::from_millis(300), 20_000.0 * load);
                model.run(5, 20_000.0 * load);
                assert_eq!(model.refused, 0.0, "at {load}");
            }
            assert_eq!(model.changes, [Change::Entered]);
            // And if there is more than can be done, it is an overload as before.
            model.run(10, 30_000.0);
            let (used, wait) = model.run(10, 30_000.0);
            assert!(used > 0.9 && wait < 0.4, "{used}, {wait} s");
        }
    }

    /// And it is no excuse.
    #[test]
    fn an_overload_that_begins_with_a_stall_is_one() {
        for times in [1.05, 1.5, 4.0] {
            let mut model = Model::new(20_000.0);
            model.run(2, 16_000.0);
            model.stall(Duration::from_millis(200), 16_000.0);
            model.run(2, 20_000.0 * times);
            assert_eq!(model.changes, [Change::Entered], "{times}");
        }
    }

    #[test]
    fn it_follows_a_machine_that_becomes_slower_and_faster() {
        let mut model = Model::new(100_000.0);
        model.run(20, 300_000.0);
        model.capacity = 30_000.0;
        model.run(20, 300_000.0);
        let (used, wait) = model.run(10, 300_000.0);
        // Nine times as much is refused, which has its price.
        assert!(used > 0.95 * 0.82 && wait < 0.3, "slower: {used}, {wait} s");
        model.capacity = 100_000.0;
        model.run(20, 300_000.0);
        let (used, wait) = model.run(10, 300_000.0);
        assert!(used > 0.9 && wait < 0.3, "faster: {used}, {wait} s");
    }

    #[test]
    fn below_the_capacity_nothing_is_refused_and_it_ends() {
        let mut model = Model::new(10_000.0);
        model.run(60, 9_500.0);
        assert!(model.changes.is_empty());
        model.run(5, 40_000.0);
        assert_eq!(model.changes, [Change::Entered]);
        model.run(20, 5_000.0);
        assert_eq!(model.changes, [Change::Entered, Change::Left]);
        assert_eq!(model.governor.budget(), None);
    }

    #[test]
    fn a_long_silence_is_an_end() {
        let mut model = Model::new(10_000.0);
        model.run(2, 40_000.0);
        let load = Load {
            window: Duration::from_secs(600),
            behind: Duration::ZERO,
            kept_up: true,
            ..Load::default()
        };
        let change = model.governor.pace(model.now + load.window, &load, 0, 0, false);
        assert_eq!(change, Some(Change::Left));
    }

    #[test]
    fn a_machine_that_becomes_much_slower_is_followed() {
        let mut model = Model::new(100_000.0);
        model.run(20, 150_000.0);
        // As a socket's buffer is: what waits there goes by while nearly nothing is taken on.
        (model.capacity, model.room) = (10_000.0, 10_000.0);
        model.run(30, 60_000.0);
        let (used, wait) = model.run(20, 60_000.0);
        assert!(used > 0.75 && wait < 0.3, "{used}, {wait} s");
    }

    /// A flood of what goes first, which no refusal ends.
    #[test]
    fn an_overload_of_other_work_leaves_new_work_its_part() {
        let mut governor = Governor::new(PATIENCE);
        let mut now = Time::from_micros(1);
        let mut window = |behind: u64, taken: f64, governor: &mut Governor| {
            now = now + STEP;
            let load = Load {
                window: STEP,
                behind: Duration::from_millis(behind),
                kept_up: behind == 0,
                ..Load::default()
            };
            governor.pace(now, &load, (taken * STEP.as_secs_f64()) as u32, 1_000, true);
            governor.budget().unwrap_or(2_000.0)
        };
        for _ in 0..100 {
            window(0, 2_000.0, &mut governor);
        }
        let (mut budget, mut all) = (2_000.0, 0.0);
        for _ in 0..6_000 {
            budget = window(9_000, budget, &mut governor);
            all += budget / 6_000.0;
        }
        assert!((350.0..600.0).contains(&all), "{all} of 2,000 a second");
    }

    #[test]
    fn what_comes_through_an_overload_of_other_work_is_never_nothing() {
        let mut governor = Governor::new(PATIENCE);
        let mut now = Time::from_micros(1);
        for _ in 0..10_000 {
            now = now + STEP;
            let load =
                Load { window: STEP, behind: Duration::from_secs(9), kept_up: false, ..Load::default() };
            governor.pace(now, &load, 0, 1_000, true);
        }
        assert_eq!(governor.budget(), Some(LEAST));
    }
}
