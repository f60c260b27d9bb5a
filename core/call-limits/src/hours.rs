//! Local time: zones as tables of offsets, and the hours of a week.

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

/// Minutes of a week.
pub const MINUTES_OF_WEEK: u16 = 7 * 24 * 60;

/// The offsets of a time zone from UTC.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Zone {
    /// Before the first step, seconds east.
    first: i32,
    /// Seconds since 1970 from which on an offset counts, ascending.
    steps: Box<[(i64, i32)]>,
}

impl Zone {
    /// With this offset, seconds east, until the first of the steps. Each step has the seconds since 1970
    /// from which on its offset counts; they ascend.
    pub fn new(first: i32, steps: &[(i64, i32)]) -> Zone {
        Zone { first, steps: steps.into() }
    }

    /// The local time at `utc` seconds since 1970.
    pub fn at(&self, utc: i64) -> Moment {
        let after = self.steps.partition_point(|(from, _)| *from <= utc);
        let offset = after.checked_sub(1).and_then(|at| self.steps.get(at)).map_or(self.first, |step| step.1);
        let local = utc.saturating_add(i64::from(offset));
        let day = local.div_euclid(DAY);
        // The first of January 1970 was a Thursday.
        let weekday = (day + 3).rem_euclid(7);
        let minute = weekday * 24 * 60 + local.rem_euclid(DAY) / MINUTE;
        Moment { minute: minute as u16, day, hour: local.div_euclid(HOUR) }
    }
}

/// A local time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Minutes since Monday, 00:00.
    pub minute: u16,
    /// The local day, counted from 1970.
    pub day: i64,
    /// The local hour, counted from 1970.
    pub hour: i64,
}

/// Hours of a week. The default has all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hours {
    /// First minute of each interval and the one behind its last; ascending, apart from each other.
    intervals: Box<[(u16, u16)]>,
}

impl Hours {
    /// Of intervals of minutes of a week, from Monday, 00:00: the first and the one behind the last. An end
    /// that is not behind its beginning is of the next week. None: all hours.
    pub fn new(intervals: &[(u16, u16)]) -> Hours {
        let mut parts: Vec<(u16, u16)> = Vec::new();
        for &(from, to) in intervals {
            match from < to {
                true => parts.push((from, to)),
                false => parts.extend([(from, MINUTES_OF_WEEK), (0, to)]),
            }
        }
        parts.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::new();
        for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Hours { intervals: merged.into() }
    }

    /// Whether a minute of the week is among them.
    pub fn has(&self, minute: u16) -> bool {
        let after = self.intervals.partition_point(|(from, _)| *from <= minute);
        let last = after.checked_sub(1).and_then(|at| self.intervals.get(at));
        self.intervals.is_empty() || last.is_some_and(|(_, to)| minute < *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Monday, 30 March 2026, 00:00 UTC.
    const MONDAY: i64 = 1_774_828_800;

    #[test]
    fn local_time_follows_the_steps_of_a_zone() {
        // Europe/Berlin: summer time begins on 29 March 2026, 01:00 UTC.
        let zone = Zone::new(3_600, &[(MONDAY - 23 * HOUR, 7_200)]);
        let before = zone.at(MONDAY - 23 * HOUR - 1);
        assert_eq!(before.minute, 6 * 24 * 60 + 119);
        assert_eq!(zone.at(MONDAY - 23 * HOUR).minute, 6 * 24 * 60 + 180);
        assert_eq!(zone.at(MONDAY).minute, 120);
        assert_eq!(zone.at(MONDAY - 2 * HOUR).minute, 0, "midnight is local");
        assert_eq!(zone.at(MONDAY - 2 * HOUR).day, before.day + 1);
        assert_eq!(Zone::default().at(0), Moment { minute: 3 * 24 * 60, day: 0, hour: 0 });
        assert_eq!(Zone::default().at(-1).minute, 3 * 24 * 60 - 1);
    }

    #[test]
    fn hours_may_pass_the_end_of_the_week() {
        // Sunday 22:00 to Monday 06:00, and Monday 05:00 to 08:00.
        let hours = Hours::new(&[(6 * 1_440 + 1_320, 360), (300, 480)]);
        for (minute, has) in
            [(0, true), (479, true), (480, false), (6 * 1_440 + 1_319, false), (10_079, true)]
        {
            assert_eq!(hours.has(minute), has, "{minute}");
        }
        assert!(Hours::default().has(1_234) && Hours::new(&[(0, 0)]).has(77));
    }

    proptest! {
        #[test]
        fn hours_are_those_of_any_interval(
            intervals in prop::collection::vec((0..MINUTES_OF_WEEK, 0..=MINUTES_OF_WEEK), 1..8),
            minute in 0..MINUTES_OF_WEEK,
        ) {
            let inside = |&(from, to): &(u16, u16)| match from < to {
                true => (from..to).contains(&minute),
                false => minute >= from || minute < to,
            };
            prop_assert_eq!(Hours::new(&intervals).has(minute), intervals.iter().any(inside));
        }
    }
}
