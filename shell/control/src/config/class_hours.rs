//! Days, hours and time zones of classes.

use super::error::Fault;
use super::values::shown;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use sip_node::call_limits::{MINUTES_OF_WEEK, Zone};

/// The time for which offsets are looked up, seconds since 1970: the years 2025 to 2065.
const FROM: i64 = 1_735_689_600;
const TO: i64 = 3_029_529_600;
/// Steps of a zone at most.
const MOST_STEPS: usize = 200;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const MINUTES_OF_DAY: u16 = MINUTES_OF_WEEK / 7;

/// The intervals of `mon-fri 07:00-19:00`, in minutes of a week: the first minute, and the one behind the
/// last.
pub(super) fn intervals(written: &str) -> Result<Vec<(u16, u16)>, Fault> {
    let not = || {
        let what = format!("\"{}\" does not name days and hours", shown(written));
        Fault::new(
            what,
            "write them as \"mon-fri 07:00-19:00\", \"sat,sun 09:00-13:00\" or \"daily 06:00-22:00\"",
        )
    };
    let (days, hours) = written.trim().split_once(char::is_whitespace).ok_or_else(not)?;
    let (from, to) = hours.trim().split_once('-').ok_or_else(not)?;
    let (from, to) = (minute(from).ok_or_else(not)?, minute(to).ok_or_else(not)?);
    if from == to || from == MINUTES_OF_DAY {
        return Err(Fault::new(
            format!("\"{}\" is no time at all", shown(hours)),
            "for a whole day: 00:00-24:00",
        ));
    }
    let days = days_of(days).ok_or_else(not)?;
    let length = if from < to { to - from } else { to + MINUTES_OF_DAY - from };
    Ok(days
        .into_iter()
        .map(|day| {
            let first = day * MINUTES_OF_DAY + from;
            let behind = first + length;
            // An end at midnight of Monday is the end of the week.
            (first, if behind > MINUTES_OF_WEEK { behind - MINUTES_OF_WEEK } else { behind })
        })
        .collect())
}

/// Days by number, Monday is 0: `mon`, `mon-fri`, `sat,sun`, `daily`.
fn days_of(written: &str) -> Option<Vec<u16>> {
    if written.eq_ignore_ascii_case("daily") {
        return Some((0..7).collect());
    }
    let number = |day: &str| DAYS.iter().position(|name| name.eq_ignore_ascii_case(day));
    let mut days = Vec::new();
    for part in written.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        let count = (last + 7 - first) % 7 + 1;
        days.extend((0..count).filter_map(|n| u16::try_from((first + n) % 7).ok()));
    }
    Some(days)
}

/// Minutes since midnight of `07:30`; `24:00` is the end of the day.
fn minute(written: &str) -> Option<u16> {
    let (hour, minute) = written.trim().split_once(':')?;
    let is_number = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(hour) || !is_number(minute) {
        return None;
    }
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    let whole = hour * 60 + minute;
    (minute < 60 && whole <= MINUTES_OF_DAY).then_some(whole)
}

/// The name of a time zone that the system knows.
pub(super) fn time_zone(written: &str) -> Result<String, Fault> {
    match TimeZone::get(written) {
        Ok(_) => Ok(written.to_owned()),
        Err(_) => {
            let what = format!("the system knows no time zone \"{}\"", shown(written));
            Err(Fault::new(what, "a name such as \"Europe/Berlin\"; the package tzdata has the zones"))
        }
    }
}

/// The offsets of a zone; without a name of the system's zone. The core then needs no files and no rules.
pub(super) fn zone(name: Option<&str>) -> Zone {
    let zone = match name {
        // It was read when the file was.
        Some(name) => TimeZone::get(name).unwrap_or(TimeZone::UTC),
        None => TimeZone::system(),
    };
    let Ok(from) = Timestamp::from_second(FROM) else { return Zone::default() };
    let steps = zone.following(from).map(|step| (step.timestamp().as_second(), step.offset().seconds()));
    let steps: Vec<(i64, i32)> = steps.take_while(|(at, _)| *at < TO).take(MOST_STEPS).collect();
    Zone::new(zone.to_offset(from).seconds(), &steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_hours_become_minutes_of_the_week() {
        for (written, expected) in [
            ("mon 00:00-24:00", vec![(0, 1_440)]),
            ("sun 22:00-24:00", vec![(6 * 1_440 + 1_320, 7 * 1_440)]),
            (
                "Sat-Mon 7:30-8:00",
                vec![(5 * 1_440 + 450, 5 * 1_440 + 480), (6 * 1_440 + 450, 6 * 1_440 + 480), (450, 480)],
            ),
            ("tue,thu  09:00-10:00", vec![(1_440 + 540, 1_440 + 600), (3 * 1_440 + 540, 3 * 1_440 + 600)]),
            ("sun 22:00-06:00", vec![(6 * 1_440 + 1_320, 360)]),
        ] {
            assert_eq!(intervals(written).unwrap(), expected, "{written}");
        }
        assert_eq!(intervals("daily 06:00-22:00").unwrap().len(), 7);
        for bad in [
            "",
            "mon",
            "mon 7-9",
            "mon 07:00",
            "mon 07:60-08:00",
            "mon 24:01-03:00",
            "day 07:00-08:00",
            "mon 07:00-07:00",
            "mon- 07:00-08:00",
            "mon +7:00-08:00",
        ] {
            assert!(intervals(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn offsets_of_a_zone_are_those_of_its_summer_time() {
        if TimeZone::get("Europe/Berlin").is_err() {
            return;
        }
        let berlin = zone(Some("Europe/Berlin"));
        // 29 March 2026, 01:00 UTC.
        let begins = 1_774_746_000;
        assert_eq!(berlin.at(begins - 1).minute % 1_440, 119);
        assert_eq!(berlin.at(begins).minute % 1_440, 180);
        assert_eq!(zone(Some("UTC")), Zone::new(0, &[]));
    }
}
