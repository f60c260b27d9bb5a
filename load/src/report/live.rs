//! A run while it goes on: a small dashboard as plain text, and one line for pipes.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::format::{ms, number, percent};
use crate::metrics::{Point, Pulse, Sparse};

/// Seconds of history in the small diagrams.
const HISTORY: usize = 600;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// Remembers enough of the pulses to draw them.
#[derive(Clone, Debug, Default)]
pub struct Live {
    title: String,
    pulse: Option<Pulse>,
    shown: Option<(usize, u64)>,
    rate: VecDeque<f64>,
    p99: VecDeque<f64>,
}

impl Live {
    /// `title`: what is run against what; of several lines only the first is shown.
    pub fn new(title: &str) -> Live {
        let title = title.lines().next().unwrap_or_default();
        let title = title.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        Live { title, ..Live::default() }
    }

    /// Takes the pulses of all workers, merged. May be called more often than intervals end.
    pub fn update(&mut self, pulse: Pulse) {
        if let Some((index, point)) = &pulse.last
            && self.shown != Some((*index, pulse.width))
        {
            self.shown = Some((*index, pulse.width));
            let per_second = 1e6 / pulse.width.max(1) as f64;
            for (history, value) in [
                (&mut self.rate, (point.begun + point.callee_begun + registers(point)) as f64 * per_second),
                (&mut self.p99, ms(point.latency.percentile(99.0))),
            ] {
                if history.len() == HISTORY {
                    history.pop_front();
                }
                history.push_back(value);
            }
        }
        self.pulse = Some(pulse);
    }

    /// The dashboard: lines of at most `width` characters, each ended by a line feed, always the same
    /// number of them. No control codes: moving the cursor is the caller's. `unicode`: block characters
    /// may be used. `phase`: where the run is ("warm-up, 12 s of 60 s").
    pub fn frame(&self, phase: &str, width: usize, unicode: bool) -> String {
        let mut lines = vec![format!("{}  {phase}", self.title)];
        let empty = Point::default();
        let (point, per) = self.last(&empty);
        let rate = |n: u64| number((n as f64 * per).round());
        let c = self.pulse.as_ref().map(|p| &p.counters);
        let total = |f: fn(&crate::metrics::Counters) -> u64| number(c.map_or(0.0, |c| f(c) as f64));
        lines.push(format!(
            "calls     {:>9} /s begun  {:>9} up  {:>9} failed  success {}",
            rate(point.begun + point.callee_begun),
            total(|c| c.sides.iter().map(|s| s.unfinished()).sum()),
            total(|c| c.sides.iter().map(|s| s.failures()).sum()),
            c.map_or_else(|| "-".to_owned(), success),
        ));
        lines.push(format!(
            "register  {:>9} /s        {:>9} failed",
            rate(point.registered),
            total(|c| c.registrations_failed + c.refreshes_failed + c.removals_failed),
        ));
        lines.push(format!(
            "messages  {:>9} /s sent   {:>9} /s received  {:>6} again  {:>6} unexpected",
            rate(point.sent),
            rate(point.received),
            total(|c| c.retransmissions()),
            total(|c| c.unexpected_messages()),
        ));
        lines.push(format!("response  {}", percentiles(&point.latency)));
        lines.push(format!(
            "lateness  {}  queue {}  drops {}",
            percentiles(&point.lateness),
            number(point.queue as f64),
            total(|c| c.lost().all()),
        ));
        let room = width.saturating_sub(30);
        lines.push(format!("rate      {}", spark(&self.rate, room, unicode, "/s")));
        lines.push(format!("p99       {}", spark(&self.p99, room, unicode, "ms")));
        let mut out = String::new();
        for line in lines {
            let end = line.char_indices().nth(width).map_or(line.len(), |(i, _)| i);
            let _ = writeln!(out, "{}", line[..end].trim_end());
        }
        out
    }

    /// The same in one line without line end, for logs and pipes.
    pub fn line(&self, phase: &str) -> String {
        let empty = Point::default();
        let (point, per) = self.last(&empty);
        let c = self.pulse.as_ref().map(|p| &p.counters);
        format!(
            "{phase}: calls {}/s up {} failed {} success {}, register {}/s, response p50 {} p99 {} max {} ms, \
             lateness p99.9 {} ms, again {}, unexpected {}, drops {}",
            number(((point.begun + point.callee_begun) as f64 * per).round()),
            c.map_or(0, |c| c.sides.iter().map(|s| s.unfinished()).sum()),
            c.map_or(0, |c| c.sides.iter().map(|s| s.failures()).sum::<u64>()),
            c.map_or_else(|| "-".to_owned(), success),
            number((point.registered as f64 * per).round()),
            number(ms(point.latency.percentile(50.0))),
            number(ms(point.latency.percentile(99.0))),
            number(ms(point.latency.max())),
            number(ms(point.lateness.percentile(99.9))),
            c.map_or(0, |c| c.retransmissions()),
            c.map_or(0, |c| c.unexpected_messages()),
            c.map_or(0, |c| c.lost().all()),
        )
    }

    /// The last interval and what makes a rate of its counts.
    fn last<'a>(&'a self, empty: &'a Point) -> (&'a Point, f64) {
        match &self.pulse {
            Some(Pulse { last: Some((_, p)), width, .. }) => (p, 1e6 / (*width).max(1) as f64),
            _ => (empty, 0.0),
        }
    }
}

fn registers(p: &Point) -> u64 {
    p.registered + p.register_failed
}

/// The worse side's success, whole run.
fn success(c: &crate::metrics::Counters) -> String {
    let worst = c.sides.iter().filter_map(|s| s.success_percent()).reduce(f64::min);
    worst.map_or_else(|| "-".to_owned(), |p| format!("{} %", percent(p)))
}

fn percentiles(s: &Sparse) -> String {
    if s.count() == 0 {
        return "-".to_owned();
    }
    let at = |p: f64| number(ms(s.percentile(p)));
    format!(
        "p50 {:<6} p90 {:<6} p99 {:<6} p99.9 {:<6} max {} ms",
        at(50.0),
        at(90.0),
        at(99.0),
        at(99.9),
        number(ms(s.max()))
    )
}

/// The last `room` values as a row of blocks from zero to the largest of them, which is named behind it.
fn spark(values: &VecDeque<f64>, room: usize, unicode: bool, unit: &str) -> String {
    let blocks = if unicode { BLOCKS } else { ASCII };
    let shown: Vec<f64> = values.iter().skip(values.len().saturating_sub(room)).copied().collect();
    let top = shown.iter().copied().fold(0.0, f64::max);
    if top <= 0.0 {
        return "-".to_owned();
    }
    let block = |v: &f64| blocks[((v / top * 8.0).ceil() as usize).clamp(1, 8) - 1];
    format!("{} {} {unit} at most", shown.iter().map(block).collect::<String>(), number(top))
}

#[cfg(test)]
mod tests {
    use wire::Time;

    use super::*;
    use crate::metrics::{Began, CallEnd, Failure, Metrics, Setup, Side};

    fn live() -> Live {
        let mut m = Metrics::new(&Setup::default());
        let mut l = Live::new("uac \u{1b}[31m against 127.0.0.1\nsecond line");
        for second in 0..100_u64 {
            for i in 0..second {
                let began = Began::at(Time::from_micros(second * 1_000_000 + i));
                m.call_begun(Side::Caller, began);
                m.scheduled_send(began.sent, began.intended);
                m.responded(Time::from_micros(second * 1_000_000 + 2_000 + i), began);
                let end = if i == 50 { CallEnd::Failed(Failure::Refused) } else { CallEnd::Success };
                m.call_ended(Time::from_micros(second * 1_000_000 + 5_000), Side::Caller, began, end);
            }
            l.update(m.pulse());
            l.update(m.pulse());
        }
        l
    }

    #[test]
    fn a_frame_has_a_fixed_number_of_lines_of_bounded_width() {
        for l in [live(), Live::new("nothing yet")] {
            for width in [0, 1, 20, 80, 200] {
                for unicode in [true, false] {
                    let frame = l.frame("measured, 100 s", width, unicode);
                    assert_eq!(frame.lines().count(), 8);
                    assert!(frame.lines().all(|line| line.chars().count() <= width), "{frame}");
                    assert!(!frame.chars().any(|c| c.is_control() && c != '\n'));
                    assert!(unicode || frame.is_ascii());
                }
            }
        }
    }

    #[test]
    fn it_shows_the_last_whole_second() {
        let l = live();
        let frame = l.frame("measured", 100, true);
        // Second 98 is the last that is over; each of the 49 seconds after the fiftieth had one failure.
        assert!(frame.contains("98 /s begun"), "{frame}");
        assert!(frame.contains("49 failed"), "{frame}");
        assert!(frame.contains('█'), "{frame}");
        assert_eq!(l.rate.len(), 99, "one value for a second however often it is asked");
        let line = l.line("measured");
        assert!(line.starts_with("measured: calls 98/s"), "{line}");
        assert!(line.contains("p50 2 "), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn history_is_bounded() {
        let mut l = Live::new("x");
        for i in 0..2 * HISTORY {
            let last = Some((i, Point { begun: i as u64, ..Point::default() }));
            l.update(Pulse { counters: crate::metrics::Counters::default(), last, width: 1_000_000 });
        }
        assert_eq!(l.rate.len(), HISTORY);
        assert!(l.frame("x", 80, true).lines().all(|l| l.chars().count() <= 80));
    }
}
