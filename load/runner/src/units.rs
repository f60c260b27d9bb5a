//! Numbers with units on the command line.

use std::ops::RangeInclusive;

/// A time as SIPp reads it: a number, and `ms`, `s`, `m` or `h`, or nothing for `unit` milliseconds.
fn time(text: &str, unit: f64) -> Result<f64, String> {
    let (number, suffix) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let scale = match suffix {
        "" => unit,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 6e4,
        "h" => 3.6e6,
        _ => return Err("a time is a number and ms, s, m or h, such as 10s".to_owned()),
    };
    let begins = number.starts_with(|c: char| c.is_ascii_digit());
    let ms = number.parse::<f64>().ok().filter(|_| begins).map(|number| number * scale);
    ms.filter(|ms| *ms <= LONGEST)
        .ok_or_else(|| "a time begins with a number, such as 10s, and is at most 24 days".to_owned())
}

/// When calls begin.
pub fn arrivals(text: &str) -> Result<load::population::Arrivals, String> {
    text.parse().map_err(|why: load::population::Impossible| why.to_string())
}

/// Milliseconds: those of SIPp's integers.
const LONGEST: f64 = i32::MAX as f64;

/// Milliseconds of a time whose number alone means seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    time(text, 1e3)
}

/// Milliseconds of a time whose number alone means milliseconds.
pub fn millis(text: &str) -> Result<f64, String> {
    time(text, 1.0)
}

/// Likewise, whole ones.
pub fn whole_millis(text: &str) -> Result<u32, String> {
    millis(text).map(|ms| ms as u32)
}

/// Likewise.
pub fn long_millis(text: &str) -> Result<u64, String> {
    millis(text).map(|ms| ms as u64)
}

/// A share from 0 to 100.
pub fn percent(text: &str) -> Result<f64, String> {
    within(text, 0.0..=100.0, "a number from 0 to 100 is wanted")
}

/// How near a search comes, per cent: no search is to end sooner or never.
pub fn resolution(text: &str) -> Result<f64, String> {
    within(text, 0.1..=50.0, "a number from 0.1 to 50 is wanted")
}

/// Confidence of an interval, per cent.
pub fn confidence(text: &str) -> Result<f64, String> {
    within(text, 50.0..=99.9, "a number from 50 to 99.9 is wanted")
}

/// A number that is not below 0, up to a thousand million.
pub fn amount(text: &str) -> Result<f64, String> {
    within(text, 0.0..=1e9, "a number from 0 to 1000000000 is wanted")
}

/// A number of calls at a time. More have no memory on any machine.
pub fn count(text: &str) -> Result<usize, String> {
    whole(text, 1..=100_000_000)
}

/// A number of threads. More than there are processors are of no use.
pub fn workers(text: &str) -> Result<usize, String> {
    whole(text, 0..=1_024)
}

/// How many flows are kept. Nobody looks at more.
pub fn flows(text: &str) -> Result<usize, String> {
    whole(text, 0..=100_000)
}

fn whole(text: &str, range: RangeInclusive<usize>) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("a whole number from {} to {} is wanted", range.start(), range.end()))
}

fn within(text: &str, range: RangeInclusive<f64>, wanted: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| wanted.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_sipp() {
        let all = ["10", "10s", "500ms", "2m", "1h", "0.5s"].map(|text| (seconds(text), millis(text)));
        let want = [(1e4, 10.0), (1e4, 1e4), (500.0, 500.0), (1.2e5, 1.2e5), (3.6e6, 3.6e6), (500.0, 500.0)];
        assert_eq!(all, want.map(|(a, b)| (Ok(a), Ok(b))));
        assert_eq!((whole_millis("1.5s"), long_millis("2")), (Ok(1_500), Ok(2)));
        for wrong in ["", "s", "2x", "-1", "nan", "inf", "1e300", "1:30", ".5s", "25h60m", "700h"] {
            assert!(seconds(wrong).is_err() && millis(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_and_amounts_are_numbers() {
        assert_eq!((percent("99.99"), amount("0")), (Ok(99.99), Ok(0.0)));
        for wrong in ["nan", "-1", "inf", "x", "1e10"] {
            assert!(percent(wrong).is_err() && amount(wrong).is_err(), "{wrong}");
        }
        assert!(percent("200").is_err());
        assert_eq!((resolution("50"), resolution("0.1"), confidence("99.9")), (Ok(50.0), Ok(0.1), Ok(99.9)));
        for wrong in ["60", "0", "0.05", "nan"] {
            assert!(resolution(wrong).is_err_and(|why| why.contains("from 0.1 to 50")), "{wrong}");
        }
        for wrong in ["100", "10", "nan"] {
            assert!(confidence(wrong).is_err_and(|why| why.contains("from 50 to 99.9")), "{wrong}");
        }
    }
}
