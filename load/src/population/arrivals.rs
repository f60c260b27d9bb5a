//! Open-loop arrivals: when calls are to begin, whatever became of the earlier ones.
//!
//! Times are the intended ones, in microseconds since the start; latency counts from them. Each worker
//! has its own iterator, and the union of all has the law that was asked for: of evenly spaced arrivals
//! worker w takes every W-th, of a Poisson process it makes an independent one with a W-th of the rate.

mod profile;
mod text;

use super::distribution::Impossible;
use super::rng::Rng;
use core::fmt;
use std::sync::Arc;

use profile::Walk;
pub use profile::{Profile, Segment, Then};

/// Longest trace, in arrivals: 1.6 GB of memory.
pub const LONGEST_TRACE: usize = 200_000_000;

/// How arrivals follow the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Spacing {
    /// Evenly, as SIPp does.
    #[default]
    Even,
    /// At random: a Poisson process, as many independent people make it.
    Poisson,
}

/// An arrival process.
///
/// As text: `constant:100`, `poisson:100`, `ramp:10..1000/60s` (then 1000 for ever), `steps:100@60s,200@60s`
/// (then the end), `burst:50/1s`. `poisson-ramp` and `poisson-steps` are random. A trace is read by
/// [`Arrivals::trace`].
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// A rate that may change with time.
    Rate {
        /// The rate.
        profile: Profile,
        /// How arrivals follow it.
        spacing: Spacing,
    },
    /// `size` arrivals at once, at the start and then every `every` microseconds.
    Burst {
        /// Arrivals of a burst.
        size: u64,
        /// Microseconds from burst to burst.
        every: u64,
    },
    /// Times that were recorded, in microseconds, ascending.
    Trace(Arc<[u64]>),
}

impl Arrivals {
    /// Evenly spaced, `rate` a second.
    pub fn constant(rate: f64) -> Result<Arrivals, Impossible> {
        Arrivals::at_rate(Profile::constant(rate), Spacing::Even)
    }

    /// A Poisson process, `rate` a second on average.
    pub fn poisson(rate: f64) -> Result<Arrivals, Impossible> {
        Arrivals::at_rate(Profile::constant(rate), Spacing::Poisson)
    }

    /// Arrivals that follow `profile`; refuses impossible rates.
    pub fn at_rate(profile: Profile, spacing: Spacing) -> Result<Arrivals, Impossible> {
        profile.check()?;
        Ok(Arrivals::Rate { profile, spacing })
    }

    /// `size` at once every `every_ms` milliseconds.
    pub fn burst(size: u64, every_ms: f64) -> Result<Arrivals, Impossible> {
        let every = (every_ms * 1e3).round() as u64;
        if size == 0 || every == 0 {
            let message = format!("a burst of {size} every {every_ms} ms: both must be above 0");
            return Err(Impossible::new(message));
        }
        Ok(Arrivals::Burst { size, every })
    }

    /// SIPp's `-r`, `-rp`, `-rate_increase`, `-rate_interval`, `-rate_max` and `-no_rate_quit`.
    pub fn of_options(options: &RateOptions) -> Result<Arrivals, Impossible> {
        Arrivals::at_rate(options.profile()?, Spacing::Even)
    }

    /// Reads a trace: a line for each arrival, seconds since the start as a decimal number, ascending. What
    /// follows a `#`, a comma or a blank is not read, nor are empty lines. `name` is for messages, which
    /// name the line.
    pub fn trace(text: &str, name: &str) -> Result<Arrivals, Impossible> {
        text::read_trace(text, name).map(|times| Arrivals::Trace(times.into()))
    }

    /// The rate at `micros`, in arrivals a second. Bursts: the mean. Traces: over the second around it.
    pub fn rate_at(&self, micros: u64) -> f64 {
        match self {
            Arrivals::Rate { profile, .. } => profile.rate_at(micros),
            Arrivals::Burst { size, every } => *size as f64 * 1e6 / *every as f64,
            Arrivals::Trace(times) => {
                let before = |at: u64| times.partition_point(|time| *time < at);
                (before(micros.saturating_add(500_000)) - before(micros.saturating_sub(500_000))) as f64
            }
        }
    }

    /// Arrivals expected before `micros`, what a report calls offered.
    pub fn expected_by(&self, micros: u64) -> f64 {
        match self {
            Arrivals::Rate { profile, .. } => profile.expected_by(micros),
            Arrivals::Burst { size, every } => micros.div_ceil(*every) as f64 * *size as f64,
            Arrivals::Trace(times) => times.partition_point(|time| *time < micros) as f64,
        }
    }

    /// When the last arrival has happened, in microseconds; none if they go on for ever.
    pub fn end(&self) -> Option<u64> {
        match self {
            Arrivals::Rate { profile, .. } => profile.end(),
            Arrivals::Burst { .. } => None,
            Arrivals::Trace(times) => Some(times.last().copied().unwrap_or(0)),
        }
    }

    /// The intended times of worker `worker` of `workers`, ascending. At most as many as are this worker's
    /// share of `limit` arrivals of all workers (SIPp's `-m`).
    pub fn times(&self, seed: u64, worker: u32, workers: u32, limit: Option<u64>) -> Times {
        let (worker, workers) = (u64::from(worker), u64::from(workers.max(1)));
        let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(worker).div_ceil(workers));
        let source = match self {
            Arrivals::Rate { profile, spacing } => {
                let random = (*spacing == Spacing::Poisson)
                    .then(|| Rng::new(seed ^ 0x6172_7269_7661_6c73, worker << 32 | workers));
                Source::Rated(Rated::new(profile.clone(), 0, random, worker, workers))
            }
            Arrivals::Burst { size, every } => Source::Burst { size: *size, every: *every, n: worker },
            Arrivals::Trace(times) => Source::Trace { times: times.clone(), n: worker },
        };
        Times { source, worker, workers, left }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrivals::Rate { profile, spacing: Spacing::Even } => write!(f, "{profile}, evenly spaced"),
            Arrivals::Rate { profile, spacing: Spacing::Poisson } => write!(f, "{profile}, Poisson"),
            Arrivals::Burst { size, every } => write!(f, "bursts of {size} every {} ms", *every as f64 / 1e3),
            Arrivals::Trace(times) => {
                let seconds = self.end().unwrap_or(0) as f64 / 1e6;
                write!(f, "a trace of {} arrivals over {seconds} s", times.len())
            }
        }
    }
}

/// SIPp's options for the call rate, under their names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateOptions {
    /// `-r`: calls in each period. SIPp's default is 10.
    pub r: f64,
    /// `-rp`: the period in milliseconds, 1,000 by default.
    pub rp: f64,
    /// `-rate_increase`: added to `r` after each interval; 0 for none.
    pub rate_increase: f64,
    /// `-rate_interval` in milliseconds; SIPp's default is that of `-fd`, 60 s.
    pub rate_interval: f64,
    /// `-rate_max`: where the increase ends; 0 for nowhere.
    pub rate_max: f64,
    /// `-no_rate_quit`: stay at `rate_max` instead of ending the run.
    pub no_rate_quit: bool,
}

impl Default for RateOptions {
    fn default() -> RateOptions {
        RateOptions {
            r: 10.0,
            rp: 1_000.0,
            rate_increase: 0.0,
            rate_interval: 60_000.0,
            rate_max: 0.0,
            no_rate_quit: false,
        }
    }
}

impl RateOptions {
    /// The rate over time. As in SIPp a step that would exceed `rate_max` is cut to it, and there the run
    /// ends (no call is made at that rate), unless `no_rate_quit`.
    pub fn profile(&self) -> Result<Profile, Impossible> {
        let positive = |name: &str, value: f64| {
            let message = || Impossible::new(format!("{name} {value}: must be above 0"));
            if value > 0.0 && value.is_finite() { Ok(()) } else { Err(message()) }
        };
        positive("-rp", self.rp)?;
        let scale = 1e3 / self.rp;
        let rate = self.r * scale;
        if self.rate_increase == 0.0 {
            return Ok(Profile::constant(rate));
        }
        positive("-rate_increase", self.rate_increase)?;
        positive("-rate_interval", self.rate_interval)?;
        let length = ((self.rate_interval * 1e3).round() as u64).max(1);
        if self.rate_max == 0.0 {
            let by = self.rate_increase * scale;
            let first = Segment { length, from: rate, to: rate };
            return Ok(Profile { segments: vec![first], then: Then::Increase { by, every: length } });
        }
        let steps = ((self.rate_max - self.r) / self.rate_increase + 1e-9).floor();
        if steps.is_nan() || steps > 1e6 {
            let message = format!(
                "-rate_increase {} up to -rate_max {} takes {steps} steps; the most are 1000000",
                self.rate_increase, self.rate_max
            );
            return Err(Impossible::new(message));
        }
        let step = |i: u32| {
            let rate = (self.r + f64::from(i) * self.rate_increase) * scale;
            Segment { length, from: rate, to: rate }
        };
        let segments = (0..=steps.max(0.0) as u32).map(step).collect();
        let then = if self.no_rate_quit { Then::Hold(self.rate_max * scale) } else { Then::End };
        Ok(Profile { segments, then })
    }
}

/// The intended times of one worker: microseconds since the start, ascending, in constant time each.
#[derive(Clone, Debug)]
pub struct Times {
    source: Source,
    worker: u64,
    workers: u64,
    left: u64,
}

#[derive(Clone, Debug)]
enum Source {
    Rated(Rated),
    Burst { size: u64, every: u64, n: u64 },
    Trace { times: Arc<[u64]>, n: u64 },
}

/// Arrivals by the inverse of the expected number: the n-th of evenly spaced ones is where n are expected.
#[derive(Clone, Debug)]
struct Rated {
    walk: Walk,
    /// What the profile calls 0, in microseconds.
    origin: u64,
    /// For Poisson processes.
    random: Option<Rng>,
    /// Expected number, of all workers, before the next arrival.
    mass: f64,
    /// Number of the next arrival, if they are evenly spaced.
    n: u64,
    next: Option<u64>,
}

impl Rated {
    fn new(profile: Profile, origin: u64, random: Option<Rng>, worker: u64, workers: u64) -> Rated {
        let mut rated = Rated { walk: Walk::new(profile), origin, random, mass: 0.0, n: worker, next: None };
        rated.draw(workers);
        rated
    }

    /// Decides on the next arrival.
    fn draw(&mut self, workers: u64) {
        match &mut self.random {
            Some(rng) => self.mass += rng.exponential() * workers as f64,
            None => self.mass = self.n as f64,
        }
        self.next = self.walk.when(self.mass).map(|at| self.origin.saturating_add(at));
    }
}

impl Times {
    /// From `at` microseconds on the rate is `rate` a second (0 for a pause): SIPp's keys `+`, `-`, `*`, `/`
    /// and `p`. Every worker must be told the same. Bursts and traces keep their times; the answer is
    /// whether the rate was changed.
    pub fn set_rate(&mut self, at: u64, rate: f64) -> bool {
        let Source::Rated(source) = &mut self.source else { return false };
        let profile = Profile::constant(rate);
        if profile.check().is_err() {
            return false;
        }
        // Counting begins again: worker w with the w-th arrival from now on.
        let random = source.random.take();
        *source = Rated::new(profile, at, random, self.worker, self.workers);
        true
    }

    /// The next time, without taking it.
    pub fn peek(&self) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        match &self.source {
            Source::Rated(source) => source.next,
            Source::Burst { size, every, n } => (n / size).checked_mul(*every),
            Source::Trace { times, n } => times.get(usize::try_from(*n).ok()?).copied(),
        }
    }
}

impl Iterator for Times {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let at = self.peek()?;
        self.left -= 1;
        match &mut self.source {
            Source::Rated(source) => {
                source.n += self.workers;
                source.draw(self.workers);
            }
            Source::Burst { n, .. } | Source::Trace { n, .. } => *n += self.workers,
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests;
