//! Arrival processes as text, and traces.

use super::super::distribution::{Impossible, milliseconds};
use super::{Arrivals, LONGEST_TRACE, Profile, Spacing};
use core::str::FromStr;

impl FromStr for Arrivals {
    type Err = Impossible;

    /// See [`Arrivals`]. Times without a unit are seconds.
    fn from_str(text: &str) -> Result<Arrivals, Impossible> {
        let wrong = |why: &str| Impossible::new(format!("arrivals \"{text}\": {why}"));
        let (name, rest) = text.split_once(':').ok_or_else(|| {
            wrong("write constant:R, poisson:R, ramp:A..B/TIME, steps:R@TIME,... or burst:N/TIME")
        })?;
        let (name, spacing) = match name {
            "poisson" => ("constant", Spacing::Poisson),
            "poisson-ramp" => ("ramp", Spacing::Poisson),
            "poisson-steps" => ("steps", Spacing::Poisson),
            _ => (name, Spacing::Even),
        };
        let rate = |word: &str| {
            word.trim()
                .parse::<f64>()
                .map_err(|_| wrong(&format!("\"{word}\" is no rate (arrivals a second)")))
        };
        let profile = match name {
            "constant" => Profile::constant(rate(rest)?),
            "ramp" => {
                let form = || wrong("write FROM..TO/TIME, such as ramp:10..1000/60s");
                let (rates, length) = rest.split_once('/').ok_or_else(form)?;
                let (from, to) = rates.split_once("..").ok_or_else(form)?;
                Profile::ramp(rate(from)?, rate(to)?, micros(length)?)
            }
            "steps" => {
                let mut steps = Vec::new();
                for step in rest.split(',') {
                    let form = || wrong("write RATE@TIME,RATE@TIME,..., such as steps:100@60s,200@60s");
                    let (at, length) = step.split_once('@').ok_or_else(form)?;
                    steps.push((rate(at)?, micros(length)?));
                }
                Profile::steps(&steps)
            }
            "burst" => {
                let form = || wrong("write NUMBER/TIME, such as burst:50/1s");
                let (size, every) = rest.split_once('/').ok_or_else(form)?;
                let size = size.trim().parse().map_err(|_| form())?;
                return Arrivals::burst(size, micros(every)? as f64 / 1e3);
            }
            _ => {
                return Err(wrong(
                    "there are constant, poisson, ramp, steps, burst, poisson-ramp, poisson-steps",
                ));
            }
        };
        Arrivals::at_rate(profile, spacing).map_err(|why| wrong(&why.to_string()))
    }
}

/// Microseconds of a time; seconds if it has no unit.
fn micros(text: &str) -> Result<u64, Impossible> {
    let text = text.trim();
    let bare = text.bytes().all(|byte| !byte.is_ascii_alphabetic());
    let ms = if bare { milliseconds(&format!("{text}s"))? } else { milliseconds(text)? };
    if ms <= 0.0 {
        return Err(Impossible::new(format!("\"{text}\": a time must be above 0")));
    }
    Ok((ms * 1e3).round() as u64)
}

/// The times of a trace in microseconds. See [`Arrivals::trace`].
pub(super) fn read_trace(text: &str, name: &str) -> Result<Vec<u64>, Impossible> {
    let mut times: Vec<u64> = Vec::new();
    for (line, number) in text.lines().zip(1usize..) {
        let word = line.split(['#', ',', ' ', '\t']).next().unwrap_or_default();
        if word.is_empty() {
            // Nothing, a comment, or a line that begins with a blank: only the last could hide a time.
            if line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
                return Err(Impossible::new(format!("{name}:{number}: the time must begin the line")));
            }
            continue;
        }
        let seconds = word.parse::<f64>().ok().filter(|seconds| (0.0..1e12).contains(seconds));
        let Some(seconds) = seconds else {
            let message = format!("{name}:{number}: \"{word}\" is no time; write seconds since the start");
            return Err(Impossible::new(message));
        };
        let at = (seconds * 1e6).round() as u64;
        if times.last().is_some_and(|last| *last > at) {
            let message = format!("{name}:{number}: {word} is earlier than the line before; sort the trace");
            return Err(Impossible::new(message));
        }
        if times.len() == LONGEST_TRACE {
            return Err(Impossible::new(format!(
                "{name}:{number}: a trace may have {LONGEST_TRACE} arrivals"
            )));
        }
        times.push(at);
    }
    if times.is_empty() {
        return Err(Impossible::new(format!("{name}: no arrival in it; write a line with seconds for each")));
    }
    Ok(times)
}
