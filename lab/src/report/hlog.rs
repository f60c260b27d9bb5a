//! Merged distributions in the format of HdrHistogram's logs.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::distribution::{of, shown};
use super::groups::{Combination, Group, combinations};
use super::words::short;
use crate::outcome::Outcome;
use crate::record::RunRecord;

/// Significant digits, as in the histograms of the generator.
const DIGITS: u8 = 3;
/// The largest value, an hour; longer ones count as this.
const MAX_MICROS: u64 = 3_600_000_000;
/// The unit of the column of largest values: milliseconds.
const MICROS_TO_MILLIS: f64 = 1_000.0;

/// The times that the page shows, setup times where there are any, as HdrHistogram's interval log. It has a
/// histogram in encoding V2 for each system and combination of factors: all runs that count, merged. Values
/// are microseconds. The tag names the system and the factors, as `strowger;rate=100`.
pub fn hlog(outcome: &Outcome, records: &[RunRecord]) -> String {
    let combinations = combinations(outcome, records);
    let mut out = Vec::new();
    // A vector takes all bytes, and a histogram of these bounds can be encoded: there is no error to report.
    let _ = written(&mut out, &combinations);
    String::from_utf8(out).unwrap_or_default()
}

fn written(out: &mut Vec<u8>, combinations: &[Combination<'_>]) -> Option<()> {
    let key = shown(combinations).map_or("setup", |(key, _)| key);
    let runs = || combinations.iter().flat_map(|c| &c.groups).flat_map(|g| &g.runs);
    let first = runs().map(|run| run.run.started).min().unwrap_or(0);
    let start = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(first));
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_max_value_divisor(MICROS_TO_MILLIS);
    builder
        .add_comment(&format!("{key}, microseconds, from the intended start; the largest in milliseconds"));
    if let Some(start) = start {
        builder.with_start_time(start).with_base_time(start);
    }
    let mut log = builder.begin_log_with(out, &mut serializer).ok()?;
    let begun = |group: &Group<'_>| group.runs.iter().map(|run| run.run.started).min().unwrap_or(first);
    let mut groups: Vec<_> = combinations.iter().flat_map(|c| c.groups.iter().map(move |g| (c, g))).collect();
    // Readers of such logs expect the intervals in order of their start.
    groups.sort_by_key(|(_, group)| begun(group));
    for (combination, group) in groups {
        let Some(histogram) = merged(group, key) else { continue };
        let name = tag(&group.subject, combination);
        let measured: f64 = group.runs.iter().map(|run| run.load.windows.measured).sum();
        let measured = Duration::try_from_secs_f64(measured).unwrap_or_default();
        let begun = Duration::from_secs(begun(group).saturating_sub(first));
        log.write_histogram(&histogram, begun, measured, Tag::new(&name)).ok()?;
    }
    Some(())
}

/// The times of all runs; nothing if there are none.
fn merged(group: &Group<'_>, key: &str) -> Option<Histogram<u64>> {
    let mut histogram = Histogram::new_with_bounds(1, MAX_MICROS, DIGITS).ok()?;
    for distribution in group.runs.iter().filter_map(|run| of(run, key)) {
        for (upper, count) in &distribution.buckets {
            let value = (*upper).min(distribution.max).max(distribution.min);
            histogram.saturating_record_n(value.min(MAX_MICROS), *count);
        }
    }
    (!histogram.is_empty()).then_some(histogram)
}

/// The system and the factors. What separates fields of the log becomes an underscore.
fn tag(subject: &str, combination: &Combination<'_>) -> String {
    let factors = combination.factors.iter().map(|fact| format!(";{}={}", fact.name, fact.value));
    let name = std::iter::once(subject.to_owned()).chain(factors).collect::<String>();
    let plain = |c: char| if c == ',' || c.is_whitespace() || c.is_control() { '_' } else { c };
    short(&name).chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use load::report::{Distribution, Fact, Latency};

    use super::*;

    fn run(system: &str, void: bool, buckets: Vec<(u64, u64)>) -> RunRecord {
        let mut record = RunRecord::default();
        (record.run.system, record.run.started) = (system.to_owned(), 1_764_400_000);
        record.run.factors = vec![Fact::new("a, b", "x\ny")];
        record.screened.void.extend(void.then(|| "late".to_owned()));
        record.load.windows.measured = 30.0;
        let count = buckets.iter().map(|b| b.1).sum();
        let max = buckets.last().map_or(0, |b| b.0);
        let intended = Distribution { count, max, buckets, ..Distribution::default() };
        record.load.latencies.push(Latency { key: "setup".to_owned(), intended, ..Latency::default() });
        record
    }

    #[test]
    fn log_reads_back_as_merged_histograms() {
        let mut runs = [
            run("A", false, vec![(500, 90), (2_000, 10)]),
            run("A", false, vec![(500, 90), (1_000_000, 10)]),
            run("A", true, vec![(9, 1_000)]),
            run("B", false, vec![(700, 5)]),
        ];
        runs.last_mut().expect("there are some").run.started = 1_764_399_990;
        let log = hlog(&Outcome::default(), &runs);
        let entries: Vec<_> =
            IntervalLogIterator::new(log.as_bytes()).map(|entry| entry.expect("reads")).collect();
        let intervals: Vec<_> = entries
            .iter()
            .filter_map(|entry| match entry {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .collect();
        let tags: Vec<_> = intervals.iter().map(|i| i.tag().expect("has a tag").as_str()).collect();
        assert_eq!(tags, ["B;a__b=x_y", "A;a__b=x_y"]);
        assert_eq!(intervals[0].start_timestamp(), Duration::ZERO);
        let last = &intervals[1];
        assert_eq!(
            (last.start_timestamp(), last.duration()),
            (Duration::from_secs(10), Duration::from_secs(60))
        );
        assert!((last.max() - 1_000.0).abs() < 1.0, "{}", last.max());
        let bytes = decoded(last.encoded_histogram());
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut Cursor::new(bytes)).expect("decodes");
        assert_eq!((read.len(), read.value_at_quantile(0.5)), (200, 500));
        assert!(read.equivalent(read.max(), 1_000_000));
    }

    #[test]
    fn log_without_runs_has_only_its_head() {
        let log = hlog(&Outcome::default(), &[]);
        assert!(log.starts_with('#') && log.lines().all(|line| line.starts_with(['#', '"'])), "{log}");
    }

    /// Base64 (RFC 4648 section 4).
    fn decoded(text: &str) -> Vec<u8> {
        let digit = |b: u8| match b {
            b'A'..=b'Z' => u32::from(b - b'A'),
            b'a'..=b'z' => u32::from(b - b'a') + 26,
            b'0'..=b'9' => u32::from(b - b'0') + 52,
            b'+' => 62,
            _ => 63,
        };
        let digits: Vec<u32> = text.bytes().filter(|b| *b != b'=').map(digit).collect();
        let four = |chunk: &[u32]| {
            let bits = chunk.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - chunk.len()));
            bits.to_be_bytes()[1..chunk.len()].to_vec()
        };
        digits.chunks(4).flat_map(four).collect()
    }
}
