//! Rates over time.

use super::super::distribution::Impossible;
use core::fmt;

/// A time during which the rate changes evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Microseconds.
    pub length: u64,
    /// Arrivals a second at its begin.
    pub from: f64,
    /// Arrivals a second at its end.
    pub to: f64,
}

/// What follows the last segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Then {
    /// Nothing.
    End,
    /// This rate for ever.
    Hold(f64),
    /// The rate of the last segment and `by` more, after each `every` microseconds `by` more again.
    Increase {
        /// Arrivals a second.
        by: f64,
        /// Microseconds.
        every: u64,
    },
}

/// A rate of arrivals over time, all workers together.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its parts, in order.
    pub segments: Vec<Segment>,
    /// What comes after them.
    pub then: Then,
}

/// The highest rate, in arrivals a second.
const HIGHEST: f64 = 1e9;
const MOST_SEGMENTS: usize = 1_000_001;

impl Segment {
    const fn flat(rate: f64, length: u64) -> Segment {
        Segment { length, from: rate, to: rate }
    }

    fn seconds(&self) -> f64 {
        self.length as f64 / 1e6
    }

    /// Arrivals expected in its first `seconds`.
    fn mass(&self, seconds: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds();
        seconds * (self.from + 0.5 * slope * seconds)
    }

    /// After how many seconds `mass` arrivals are expected, a number below that of the whole segment.
    fn when(&self, mass: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds();
        let root = (self.from * self.from + 2.0 * slope * mass).max(0.0).sqrt();
        // This form of the solution loses no digits where the slope is small.
        if mass <= 0.0 { 0.0 } else { 2.0 * mass / (self.from + root) }
    }
}

impl Profile {
    /// `rate` a second for ever.
    pub fn constant(rate: f64) -> Profile {
        Profile { segments: Vec::new(), then: Then::Hold(rate) }
    }

    /// From `from` to `to` a second over `length` microseconds, then `to` for ever.
    pub fn ramp(from: f64, to: f64, length: u64) -> Profile {
        Profile { segments: vec![Segment { length, from, to }], then: Then::Hold(to) }
    }

    /// Each rate for its microseconds, then nothing.
    pub fn steps(steps: &[(f64, u64)]) -> Profile {
        let segments = steps.iter().map(|(rate, length)| Segment::flat(*rate, *length)).collect();
        Profile { segments, then: Then::End }
    }

    /// Whether its numbers are possible.
    pub fn check(&self) -> Result<(), Impossible> {
        let rate = |rate: f64| {
            let message = || Impossible::new(format!("a rate of {rate}/s: must be from 0 to {HIGHEST}"));
            if (0.0..=HIGHEST).contains(&rate) { Ok(()) } else { Err(message()) }
        };
        for segment in &self.segments {
            rate(segment.from).and(rate(segment.to))?;
            if segment.length == 0 {
                return Err(Impossible::new("a part of a rate profile must last longer than 0"));
            }
        }
        if self.segments.len() > MOST_SEGMENTS {
            return Err(Impossible::new(format!(
                "a rate profile of {} parts; the most are {MOST_SEGMENTS}",
                self.segments.len()
            )));
        }
        match self.then {
            Then::End if self.segments.is_empty() => Err(Impossible::new("a rate profile without any part")),
            Then::End => Ok(()),
            Then::Hold(hold) => rate(hold),
            Then::Increase { by, every } if every == 0 || by <= 0.0 => {
                Err(Impossible::new(format!("a rate that increases by {by}/s every {every} us")))
            }
            Then::Increase { by, .. } => rate(by),
        }
    }

    /// Arrivals a second at `micros`.
    pub fn rate_at(&self, micros: u64) -> f64 {
        let Some((segment, begin, _)) = self.locate(micros) else { return 0.0 };
        let share = (micros - begin) as f64 / segment.length as f64;
        segment.from + share * (segment.to - segment.from)
    }

    /// Arrivals expected before `micros`.
    pub fn expected_by(&self, micros: u64) -> f64 {
        match self.locate(micros) {
            Some((segment, begin, before)) => before + segment.mass((micros - begin) as f64 / 1e6),
            None => self.segments.iter().map(|segment| segment.mass(segment.seconds())).sum(),
        }
    }

    /// When it is over, in microseconds.
    pub fn end(&self) -> Option<u64> {
        let length = self.segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.length));
        (self.then == Then::End).then_some(length)
    }

    /// The `i`-th part, whether listed or implied.
    fn segment(&self, i: usize) -> Option<Segment> {
        if let Some(segment) = self.segments.get(i) {
            return Some(*segment);
        }
        match self.then {
            Then::End => None,
            Then::Hold(rate) => Some(Segment::flat(rate, u64::MAX)),
            Then::Increase { by, every } => {
                let more = (i + 1 - self.segments.len()) as f64;
                Some(Segment::flat(self.last_rate() + more * by, every))
            }
        }
    }

    fn last_rate(&self) -> f64 {
        self.segments.last().map_or(0.0, |segment| segment.to)
    }

    /// The part at `micros`, when it begins, and the arrivals expected before it.
    fn locate(&self, micros: u64) -> Option<(Segment, u64, f64)> {
        let (mut begin, mut before) = (0u64, 0.0);
        for segment in &self.segments {
            let end = begin.saturating_add(segment.length);
            if micros < end {
                return Some((*segment, begin, before));
            }
            before += segment.mass(segment.seconds());
            begin = end;
        }
        if let Then::Increase { by, every } = self.then {
            // The sum of an arithmetic series, as there may be many parts.
            let gone = (micros - begin) / every;
            let n = gone as f64;
            before += every as f64 / 1e6 * (n * self.last_rate() + by * n * (n + 1.0) / 2.0);
            begin += gone * every;
            return Some((self.segment(self.segments.len() + gone as usize)?, begin, before));
        }
        Some((self.segment(self.segments.len())?, begin, before))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        let shown = 8;
        for segment in self.segments.iter().take(shown) {
            let Segment { from, to, .. } = segment;
            write!(f, "{between}{from}/s")?;
            if from != to {
                write!(f, " to {to}/s")?;
            }
            write!(f, " for {} s", segment.seconds())?;
            between = ", ";
        }
        if self.segments.len() > shown {
            write!(f, "{between}and {} more parts", self.segments.len() - shown)?;
        }
        match self.then {
            Then::End => Ok(()),
            Then::Hold(rate) if self.segments.is_empty() => write!(f, "{rate}/s"),
            Then::Hold(rate) => write!(f, "{between}then {rate}/s"),
            Then::Increase { by, every } => {
                write!(f, "{between}then {by}/s more every {} s", every as f64 / 1e6)
            }
        }
    }
}

/// Goes through a profile from arrival to arrival.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    profile: Profile,
    index: usize,
    /// Begin of the part, in seconds, and the arrivals expected before it.
    begin: f64,
    before: f64,
}

impl Walk {
    pub(super) fn new(profile: Profile) -> Walk {
        Walk { profile, index: 0, begin: 0.0, before: 0.0 }
    }

    /// When `mass` arrivals have been expected, in microseconds; none if never. `mass` must not fall from
    /// call to call.
    pub(super) fn when(&mut self, mass: f64) -> Option<u64> {
        loop {
            let segment = self.profile.segment(self.index)?;
            let whole = segment.mass(segment.seconds());
            let within = mass - self.before;
            if within < whole {
                return Some(((self.begin + segment.when(within)) * 1e6).round() as u64);
            }
            if segment.length == u64::MAX {
                return None;
            }
            self.index += 1;
            self.begin += segment.seconds();
            self.before += whole;
        }
    }
}
