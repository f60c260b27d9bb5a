//! Texts of values that many files have, and untrusted text in messages.

use std::time::Duration;

/// Longest text of any single value, in octets; more is a mistake in the file.
pub const LONGEST_TEXT: usize = 4096;

/// Digits and a unit.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let micros = match unit.trim_start() {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    number.checked_mul(micros).map(Duration::from_micros)
}

/// A duration as it may stand in the file.
pub fn show_duration(duration: Duration) -> String {
    match duration.subsec_micros() {
        0 => format!("{}s", duration.as_secs()),
        micros if micros % 1_000 == 0 => format!("{}ms", duration.as_millis()),
        _ => format!("{}us", duration.as_micros()),
    }
}

/// Untrusted text for a message: cut, and with control characters escaped.
pub fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        shown.push_str("...");
    }
    shown
}
