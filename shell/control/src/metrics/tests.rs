//! Tests of counting, of the buckets and of the text.

use super::histogram::{BUCKETS, bucket, upper};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn buckets_join_without_gap() {
    let mut low = 0;
    for i in 0..BUCKETS {
        assert_eq!(bucket(low + 1), i, "just above the bound below");
        assert_eq!(bucket(upper(i)), i, "the bound itself");
        assert!(upper(i) > low);
        low = upper(i);
    }
    assert_eq!(low, 1 << 37);
    assert_eq!(bucket(0), 0);
    assert_eq!(bucket(u64::MAX), BUCKETS - 1);
}

proptest! {
    #[test]
    fn a_reading_is_at_most_an_eighth_too_high(micros in 1u64..(1 << 37)) {
        let read = upper(bucket(micros));
        prop_assert!(read >= micros);
        prop_assert!(read - micros <= micros.div_ceil(8));
    }

    #[test]
    fn quantiles_agree_with_a_sorted_list(mut values in prop::collection::vec(1u64..1_000_000, 1..200), part in 0.0f64..=1.0) {
        let registry = Registry::new(1, &[]);
        let recorder = registry.recorder(0).unwrap();
        for value in &values {
            recorder.observe(Span::Answer, *value);
        }
        values.sort_unstable();
        let rank = ((values.len() as f64 * part).ceil() as usize).clamp(1, values.len());
        let exact = values[rank - 1];
        let read = registry.histogram(Span::Answer).quantile(part).unwrap();
        prop_assert_eq!(read, upper(bucket(exact)));
    }
}

#[test]
fn writers_are_summed() {
    let registry = Registry::new(3, &["A", "B"]);
    let recorders: Vec<Recorder> = (0..3).map(|i| registry.recorder(i).unwrap()).collect();
    for (i, recorder) in (1u64..).zip(&recorders) {
        recorder.add(Counter::Forwarded, i);
        recorder.add(Counter::Forwarded, i);
        recorder.observe(Span::Answer, 1000 * i);
        recorder.count_method(1);
        recorder.count_method(2);
    }
    assert_eq!(registry.total(Counter::Forwarded), 12);
    let answers = registry.histogram(Span::Answer);
    assert_eq!((answers.count(), answers.sum_micros()), (3, 6000));
    let mut text = String::new();
    registry.render(&mut text);
    assert!(text.contains("strowger_requests_received_total{method=\"A\"} 0\n"));
    assert!(text.contains("strowger_requests_received_total{method=\"B\"} 3\n"));
    assert!(text.contains("strowger_requests_received_total{method=\"other\"} 3\n"));
}

#[test]
fn a_block_has_one_writer_at_a_time() {
    let registry = Registry::new(1, &[]);
    let first = registry.recorder(0).unwrap();
    assert!(registry.recorder(0).is_none());
    assert!(registry.recorder(1).is_none());
    first.add(Counter::Voicemail, 5);
    drop(first);
    assert!(registry.recorder(0).is_some());
    assert_eq!(registry.total(Counter::Voicemail), 5, "what was counted stays");
}

#[test]
fn blocks_do_not_share_cache_lines() {
    assert_eq!(align_of::<Block>(), 128);
    assert_eq!(size_of::<Block>() % 128, 0);
}

#[test]
fn an_empty_distribution_has_no_quantile() {
    assert_eq!(Distribution::default().quantile(0.5), None);
    assert_eq!(Distribution::default().count(), 0);
}

/// The value of a sample line, by everything before it.
fn value_of(text: &str, sample: &str) -> f64 {
    let line = text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(name, _)| name == sample));
    line.unwrap_or_else(|| panic!("no {sample}")).rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn histograms_are_cumulative_and_in_seconds() {
    let registry = Registry::new(1, &[]);
    let recorder = registry.recorder(0).unwrap();
    for micros in [1, 16, 17, 1024, 2_000_000, 1 << 30] {
        recorder.observe(Span::Answer, micros);
    }
    let mut text = String::new();
    registry.render(&mut text);
    let bucket = |le: &str| value_of(&text, &format!("strowger_answer_seconds_bucket{{le=\"{le}\"}}"));
    assert_eq!(bucket("0.000016"), 2.0);
    assert_eq!(bucket("0.000032"), 3.0);
    assert_eq!(bucket("0.001024"), 4.0);
    assert_eq!(bucket("2.097152"), 5.0);
    assert_eq!(bucket("67.108864"), 5.0);
    assert_eq!(bucket("+Inf"), 6.0);
    assert_eq!(value_of(&text, "strowger_answer_seconds_count"), 6.0);
    assert!((value_of(&text, "strowger_answer_seconds_sum") - 1_075.742_882).abs() < 1e-6);
}

#[test]
fn the_text_is_well_formed() {
    let registry = Registry::new(2, &["A"]);
    let mut text = String::new();
    registry.render(&mut text);
    let name_ok =
        |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let mut families = BTreeSet::new();
    let mut samples = BTreeSet::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(name_ok(name) && help.ends_with('.'), "{line}");
            assert!(families.insert(name.to_owned()), "family {name} twice");
            current = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current);
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            assert!(sample.starts_with(&current), "{sample} in {current}");
            assert!(samples.insert(sample.to_owned()), "{sample} twice");
        }
    }
    assert!(families.len() > 10, "{}", families.len());
}

#[test]
fn labels_and_help_are_escaped() {
    let mut out = String::new();
    let mut text = Text::new(&mut out);
    text.family("x", "one\\two\nthree", Kind::Gauge);
    text.sample("x", &[("a", "q\"b\\s\nn"), ("b", "")], 1);
    text.sample("x", &[], 2.5);
    let expected = "# HELP x one\\\\two\\nthree\n# TYPE x gauge\n\
                    x{a=\"q\\\"b\\\\s\\nn\",b=\"\"} 1\nx 2.5\n";
    assert_eq!(out, expected);
}
