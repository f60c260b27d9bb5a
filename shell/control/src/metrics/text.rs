//! The Prometheus text format, version 0.0.4.

use super::histogram::Distribution;
use std::fmt::{Display, Write};

/// What kind of numbers a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// Bounds reported for histograms: powers of two from 16 us to 67 s, all of them bucket bounds.
const BOUNDS: std::ops::RangeInclusive<u32> = 4..=26;

/// Appends families and samples to a string.
pub struct Text<'o> {
    out: &'o mut String,
}

impl<'o> Text<'o> {
    /// Appends to `out`.
    pub fn new(out: &'o mut String) -> Text<'o> {
        Text { out }
    }

    /// Begins a family: its HELP and TYPE lines. Its samples follow.
    pub fn family(&mut self, name: &str, help: &str, kind: Kind) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.out.extend(["# HELP ", name, " "]);
        for c in help.chars() {
            match c {
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                c => self.out.push(c),
            }
        }
        self.out.extend(["\n# TYPE ", name, " ", kind, "\n"]);
    }

    /// One number. Label values may be any text.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(name);
        self.labels(labels, None);
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, " {value}");
    }

    /// A distribution of durations, in seconds.
    pub fn histogram(&mut self, name: &str, labels: &[(&str, &str)], all: &Distribution) {
        self.cumulative(name, labels, |bound| all.at_most(bound), (all.count(), all.sum_micros()));
    }

    /// The same by how many there are up to a bound, how many of all and the sum of them, microseconds.
    pub fn cumulative(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        at_most: impl Fn(u64) -> u64,
        (count, sum): (u64, u64),
    ) {
        for bits in BOUNDS {
            let bound = 1u64 << bits;
            self.bucket(name, labels, &Seconds(bound).to_string(), at_most(bound));
        }
        self.bucket(name, labels, "+Inf", count);
        self.out.extend([name, "_sum"]);
        self.labels(labels, None);
        let _ = writeln!(self.out, " {}", Seconds(sum));
        self.out.extend([name, "_count"]);
        self.labels(labels, None);
        let _ = writeln!(self.out, " {count}");
    }

    fn bucket(&mut self, name: &str, labels: &[(&str, &str)], bound: &str, count: u64) {
        self.out.extend([name, "_bucket"]);
        self.labels(labels, Some(("le", bound)));
        let _ = writeln!(self.out, " {count}");
    }

    fn labels(&mut self, labels: &[(&str, &str)], last: Option<(&str, &str)>) {
        let mut open = '{';
        for (name, value) in labels.iter().copied().chain(last) {
            self.out.push(open);
            open = ',';
            self.out.extend([name, "=\""]);
            for c in value.chars() {
                match c {
                    '\\' => self.out.push_str("\\\\"),
                    '"' => self.out.push_str("\\\""),
                    '\n' => self.out.push_str("\\n"),
                    c => self.out.push(c),
                }
            }
            self.out.push('"');
        }
        if open == ',' {
            self.out.push('}');
        }
    }
}

/// Microseconds written as seconds.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
