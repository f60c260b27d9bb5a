//! Claims: sentences and keys.

use super::*;

const SYSTEMS: &str = "[system.A]\n[system.B]\nworkers = 2\n[system.empty]\nkind = 'none'\n[factor]\nrate = [1000, 4_000]\ntransport = ['udp', 'tcp']\n";

#[track_caller]
fn claim(text: &str) -> Claim {
    good(&format!("{SYSTEMS}[[claim]]\n{text}\n")).claims()[0].clone()
}

#[test]
fn sentence_reads_as_it_is_shown() {
    let sentences = [
        ("p99 of setup of A at most 60 ms", "p99 of setup of A at most 60 ms"),
        ("p99.9 of setup of A at most 0.5s", "p99.9 of setup of A at most 500 ms"),
        (
            "median of response of B at most 700us at 4000/s",
            "p50 of response of B at most 0.7 ms where rate = 4000",
        ),
        ("max of sdd of A at most 1 s", "max of sdd of A at most 1000 ms"),
        ("calls/s of A at least 1.25 of B", "calls/s of A at least 1.25 of B"),
        ("calls/s of A at least 125% of B", "calls/s of A at least 1.25 of B"),
        ("cpu/call of B within 5% of A", "cpu/call of B within 1.05 of A"),
        ("  CPU/CALL  of B At Most 12us", "cpu/call of B at most 12 us"),
        (
            "memory of A at most 1 GiB where transport=tcp",
            "memory of A at most 1024 MiB where transport = tcp",
        ),
        (
            "success of A at least 99.9% where transport = tcp and rate = 1000",
            "success of A at least 99.9% where rate = 1000 and transport = tcp",
        ),
        ("sessions/s of A at least 3 sessions/s", "sessions/s of A at least 3/s"),
        ("registered of A at least 99.99%", "registered of A at least 99.99%"),
        ("recovery of A at most 500 ms", "recovery of A at most 0.5 s"),
        ("failures of A at most 0", "failures of A at most 0"),
        ("cpu/call of A at most 3 of empty", "cpu/call of A at most 3 of empty"),
    ];
    let sentences = sentences.into_iter().chain([
        (
            "cpu/call of A where transport = tcp at most 2 of where transport = udp",
            "cpu/call of A where transport = tcp at most 2 of A where transport = udp",
        ),
        (
            "cpu/call of A where transport=tcp and rate=1000 within 5% of B where rate = 4000",
            "cpu/call of A where rate = 1000 and transport = tcp within 1.05 of B where rate = 4000",
        ),
        (
            "cpu/call of A where transport = tcp at most 2 of B at 4000/s",
            "cpu/call of A at most 2 of B where rate = 4000 and transport = tcp",
        ),
    ]);
    for (written, shown) in sentences {
        assert_eq!(claim(&format!("that = '{written}'")).to_string(), shown);
        assert_eq!(claim(&format!("that = '{shown}'")).to_string(), shown);
    }
}

#[test]
fn keys_mean_the_same_as_a_sentence() {
    let pairs = [
        ("metric = 'p99 of setup'\nof = 'A'\nat_most = '60 ms'", "p99 of setup of A at most 60 ms"),
        (
            "metric = 'calls/s'\nof = 'A'\nat_least = 1.25\nrelative_to = 'B'",
            "calls/s of A at least 1.25 of B",
        ),
        ("metric = 'cpu'\nof = 'A'\nwithin = '5%'\nrelative_to = 'B'", "cpu of A within 5% of B"),
        (
            "metric = 'cpu'\nof = 'A'\nat_most = 2\nat = { transport = 'tcp' }\nrelative_at = { transport = 'udp' }",
            "cpu of A where transport = tcp at most 2 of where transport = udp",
        ),
        (
            "metric = 'cpu'\nof = 'A'\nat_most = '9%'\nat = { rate = 1000 }",
            "cpu of A at most 9% where rate = 1000",
        ),
    ];
    for (keys, sentence) in pairs {
        assert_eq!(claim(keys), claim(&format!("that = '{sentence}'")), "{keys}");
    }
}

#[test]
fn claim_without_system_is_of_the_only_one_under_test() {
    let text = "[system.A]\n[system.empty]\nkind = 'none'\n[[claim]]\nthat = 'cpu at most 9%'\n";
    assert_eq!(good(text).claims()[0].system, "A");
}

#[test]
fn rate_of_all_runs_needs_no_factor() {
    let text = "[workload]\nrate = 4000\n[[claim]]\nthat = 'cpu at most 9% at 4000/s'\n";
    assert!(good(text).claims()[0].at.is_empty());
}

#[test]
fn claim_concerns_combinations_with_its_levels() {
    let claim = claim("that = 'cpu of A at most 9% at 4000/s'");
    let experiment = good(SYSTEMS);
    let of = |setup: &&Setup| claim.concerns(&setup.combination);
    let rates: Vec<f64> = experiment.setups().iter().filter(of).map(|setup| setup.workload.rate).collect();
    assert_eq!(rates, [4_000.0, 4_000.0]);
}

#[test]
fn mistakes_point_into_the_sentence() {
    let mistakes = [
        ("", "1:", "expected what is measured, found the end; one of setup,"),
        ("p99 setup", "5:", "expected `of`, found \"setup\"; write `p99 of setup`"),
        (
            "p99 of setpu of A at most 1 ms",
            "8:",
            "expected what is measured, found \"setpu\"; did you mean `setup`?",
        ),
        ("setup of A at most 1 ms", "1:", "`setup` has many values in each run; write `p99 of setup`,"),
        ("p99 of cpu of A at most 1%", "1:", "`cpu` has one value in each run; remove `p99 of`"),
        ("cpu at most 1%", "5:", "there are several systems; say of which, such as `of A`"),
        ("cpu of C at most 1%", "8:", "expected a system, found \"C\"; did you mean `A`?"),
        (
            "cpu of A below 1%",
            "10:",
            "expected a limit, found \"below\"; write `at most`, `at least` or `within`",
        ),
        ("cpu of A at mots 1%", "13:", "expected `most` or `least`, found \"mots\"; write"),
        ("cpu of A at most lots", "18:", "expected a number, found \"lots\"; write one such as"),
        ("cpu of A at most", "17:", "expected a number, found the end; write one such as"),
        ("cpu of A at most 60 ms", "21:", "\"ms\" is no unit of `cpu`; one of %, percent"),
        ("p99 of setup of A at most 60", "29:", "`setup` needs a unit; one of ms, us, s"),
        ("cpu of A at most 2 of A", "23:", "A is compared with itself; name another system;"),
        ("cpu of A at most 2 ms of B", "20:", "\"ms\" beside another system; write a factor,"),
        (
            "cpu of A within 9%",
            "19:",
            "`within` compares two systems; write `within 1.05 of A`, or `at most`",
        ),
        ("cpu of A within 0.9 of B", "17:", "no factor that can be judged; write one such as"),
        ("cpu of A at most 0 of B", "18:", "no factor that can be judged; write one such as"),
        ("cpu of A at most 9% at 5000/s", "24:", "no run has rate = \"5000\"; one of 1000, 4000"),
        (
            "cpu of A at most 9% at noon",
            "24:",
            "\"noon\" is no rate; write one such as `at 4000/s`, or `where`",
        ),
        ("cpu of A at most 9% where rat = 1", "27:", "\"rat\" is not a factor; did you mean `rate`?"),
        (
            "cpu of A at most 9% where x",
            "27:",
            "expected a factor, found \"x\"; write `where FACTOR = VALUE`",
        ),
        ("cpu of A at most 9% at 1000/s where rate = 4000", "31:", "`rate` has two values; write two claims"),
        (
            "cpu of A where rate = 1000 at most 2 of A where rate = 1000",
            "43:",
            "A is compared with itself; name another system;",
        ),
        (
            "cpu of A where rate = 1000 at most 2 of A where transport = udp",
            "43:",
            "`transport` has a value on one side only; write `where transport = VALUE` before the limit too",
        ),
        (
            "cpu of A at most 2 of where rate = 1000",
            "23:",
            "expected a system, found \"where\"; one of A, B, empty",
        ),
        (
            "cpu of A where rate = 1000 at most 2 of A where rate = 7",
            "56:",
            "no run has rate = \"7\"; one of 1000, 4000",
        ),
        ("cpu of A at most 9% often", "21:", "expected the end, found \"often\"; remove it,"),
    ];
    for (sentence, column, message) in mistakes {
        let text = format!("claim = [{{ that = \"{sentence}\" }}]\n{SYSTEMS}");
        let errors = read(&text).unwrap_err();
        let (_, column) = (errors.len(), column.trim_end_matches(':').parse::<u32>().unwrap());
        let place = format!("x.toml:1:{}: ", 19 + column);
        let found = listed(&errors);
        assert!(found.starts_with(&format!("{place}{message}")), "{sentence}\n{found}\n{place}{message}");
        assert_eq!(errors.len(), 1, "{found}");
    }
}

#[test]
fn mistakes_in_keys_point_to_the_key() {
    let mistakes = [
        ("of = 'A'", "x.toml:9:1: a claim without a metric; write `that ="),
        ("metric = 'cpu'", "x.toml:9:1: a claim has one limit; write one of"),
        ("metric = 'cpu'\nof = 'D'\nat_most = 1", "x.toml:11:6: expected a system, found \"D\"; "),
        ("metric = 'cpu'\nof = 'A'\nat_most = '1 ms'", "x.toml:12:11: \"ms\" is no unit of `cpu`; "),
        (
            "metric = 'cpu'\nof = 'A'\nat_most = '1%'\nat = { rate = 5 }",
            "x.toml:13:6: no run has rate = \"5\"; ",
        ),
        ("that = 'cpu of A at most 1%'\nof = 'B'", "x.toml:11:6: `of` beside a sentence; remove one of them"),
        ("that = 'cpu of A at most 1%'\nwhen = 1", "x.toml:11:1: unknown key `when` in [claim]; known here:"),
    ];
    for (keys, message) in mistakes {
        let found = listed(&read(&format!("{SYSTEMS}[[claim]]\n{keys}\n")).unwrap_err());
        assert!(found.starts_with(message), "{found}\n{message}");
    }
}

#[test]
fn claim_is_judged_as_it_was_written() {
    let judged = |text: &str| crate::statistics::Claim::from(&claim(&format!("that = '{text}'")));
    let value = judged("p99 of setup of A at most 60 ms");
    assert_eq!((value.metric.as_str(), value.unit.as_str()), ("p99 of setup", "ms"));
    assert_eq!(value.kind, crate::statistics::Kind::AtMost { limit: 60.0 });
    let same = crate::statistics::Kind::Same { of: "A".to_owned(), within: 1.05 };
    assert_eq!(judged("cpu of B within 5% of A").kind, same);
    let least = crate::statistics::Kind::AtLeastTimes { of: "A".to_owned(), times: 2.0 };
    assert_eq!(judged("calls/s of B at least 2 of A").kind, least);
}

#[test]
fn other_side_has_its_own_values_of_factors() {
    let claim = claim("that = 'cpu of A where transport = tcp at most 2 of B where transport = udp'");
    let experiment = good(SYSTEMS);
    let concerned: Vec<String> = experiment
        .setups()
        .iter()
        .filter(|setup| claim.concerns(&setup.combination))
        .filter_map(|setup| claim.other_side(&setup.combination))
        .map(|(system, combination)| format!("{system} at {combination}"))
        .collect();
    assert_eq!(concerned, ["B at rate = 1000, transport = udp", "B at rate = 4000, transport = udp"]);
}

#[test]
fn control_is_on_a_side_of_each_comparison() {
    let controls = |claims: &[&str], key: &str| {
        let claims: String =
            claims.iter().map(|claim| format!("[[claim]]\nthat = 'cpu of {claim}'\n")).collect();
        let systems = "[system.A]\n[system.B]\n[system.C]\n[system.D]\n";
        good(&format!("{key}\n{systems}{claims}")).controls().to_vec()
    };
    assert_eq!(controls(&["B at most 1 of A", "C at most 1 of A"], ""), ["A"]);
    assert_eq!(controls(&["A at most 1 of B", "C at most 1 of D"], ""), ["B", "D"]);
    assert_eq!(controls(&["A at most 1 of B", "C at most 1 of A"], ""), ["A"]);
    // One that is on no side says nothing of the claim.
    assert_eq!(controls(&["A at most 1 of B"], "control = 'C'"), ["C", "B"]);
    assert_eq!(controls(&["A at most 9%"], ""), ["A"]);
}
