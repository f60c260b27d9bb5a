//! References: what a paper measured.

use super::*;

const SYSTEMS: &str = "paper = 'A. Author, On Servers, 2012'\n[system.A]\n[system.B]\n[factor]\n\
    rate = [1000, 4_000]\ntransport = ['udp', 'tcp']\n";

fn with(reference: &str) -> String {
    format!("{SYSTEMS}[[reference]]\nsource = 'Table 1'\nnote = 'newer machines'\n{reference}\n")
}

#[track_caller]
fn reference(text: &str) -> Reference {
    good(&with(text)).references()[0].clone()
}

#[test]
fn reference_reads_as_it_is_written() {
    let one = reference("what = 'mean of setup of A at 4000/s'\nvalue = '0.5 s'");
    assert_eq!(one.to_string(), "Table 1: mean of setup of A where rate = 4000");
    assert_eq!(one.points, [Point { at: None, value: 500.0 }]);
    let series = reference("what = 'peak of B'\nover = 'rate'\nvalue = [300, '600 calls/s']");
    let points: Vec<_> = series.points.iter().map(|point| (point.at.as_deref(), point.value)).collect();
    assert_eq!(points, [(Some("1000"), 300.0), (Some("4000"), 600.0)]);
    let quotient = reference("what = 'peak of B relative to A'\nvalue = '24%'").what.expect("a counterpart");
    assert_eq!((quotient.unit(), quotient.to_string().as_str()), ("x", "peak of B relative to A"));
    for (written, shown) in [
        ("peak of B relative to A at 1000/s", "peak of B relative to A where rate = 1000"),
        (
            "peak of B where rate = 4000 relative to A where rate = 1000",
            "peak of B where rate = 4000 relative to A where rate = 1000",
        ),
        ("peak of B relative to where rate = 1000", "peak of B relative to B where rate = 1000"),
    ] {
        let what = reference(&format!("what = '{written}'\nvalue = 1")).what.expect("a counterpart");
        assert_eq!(what.to_string(), shown);
    }
    let alone = reference("value = '85 % of the time'");
    assert_eq!(
        (alone.what, alone.said.as_str(), alone.note.as_str()),
        (None, "85 % of the time", "newer machines")
    );
}

#[test]
fn values_without_unit_have_that_of_the_list() {
    let series = "what = 'mean of setup of A where transport = tcp'\nover = 'rate'\nunit = 's'\n";
    let series = reference(&format!("{series}at = [500, 4000.0]\nvalue = [0.4, '9 ms']"));
    let points: Vec<_> = series.points.iter().map(|point| (point.at.as_deref(), point.value)).collect();
    assert_eq!(points, [(Some("500"), 400.0), (Some("4000"), 9.0)]);
}

#[test]
fn mistakes_in_references_are_reported_with_place_and_mend() {
    let line = 10;
    let mistakes = [
        (
            "what = 'mean of setop of A'\nvalue = '1 ms'",
            (line, 17, "expected what is measured, found \"setop\""),
        ),
        ("what = 'peak of C'\nvalue = 1", (line, 17, "expected a system, found \"C\"")),
        ("what = 'peak of A at most 5'\nvalue = 1", (line, 22, "\"most\" is no rate")),
        ("what = 'peak of A relative to A'\nvalue = 1", (line, 31, "A relative to itself")),
        ("what = 'peak of A relative B'\nvalue = 1", (line, 28, "expected `to`, found \"B\"")),
        ("what = 'mean of setup of A'\nvalue = 1", (line + 1, 9, "`setup` needs a unit; one of ms, us, s")),
        ("what = 'mean of setup of A'\nvalue = 'fast'", (line + 1, 9, "expected a number, found \"fast\"")),
        ("what = 'peak of A'", (line, 0, "0 values for 1; write one value")),
        ("what = 'peak of A'\nvalue = [1, 2]", (line + 1, 9, "2 values for 1; write one value")),
        (
            "what = 'peak of A'\nover = 'rate'\nvalue = [1]",
            (line + 2, 9, "1 values for 2; write one for each"),
        ),
        (
            "what = 'peak of A'\nover = 'rat'\nvalue = [1]",
            (line + 1, 8, "\"rat\" is not a factor; did you mean"),
        ),
        (
            "what = 'peak of A at 1000/s'\nover = 'rate'\nvalue = 1",
            (line + 1, 8, "`what` has one value of rate"),
        ),
        (
            "what = 'peak of A'\nover = 'transport'\nat = ['sctp']\nvalue = 1",
            (line + 2, 6, "no run has transport = \"sctp\"; one of udp, tcp"),
        ),
        ("what = 'peak of A'\nat = [1]\nvalue = 1", (line + 1, 6, "`at` without a factor")),
        ("over = 'rate'\nvalue = 1", (line, 8, "`over` without `what`")),
        (
            "what = 'peak of A'\nvalues = 1",
            (line + 1, 1, "unknown key `values` in [reference]; did you mean"),
        ),
    ];
    for (text, (line, column, said)) in mistakes {
        let found = listed(&read(&with(text)).expect_err(text));
        let place = if column == 0 { String::new() } else { format!("x.toml:{line}:{column}: ") };
        assert!(found.contains(&format!("{place}{said}")), "{text}: {found}");
    }
}

#[test]
fn reference_says_of_which_paper_where_and_why() {
    let found = listed(&read(&with("value = '1'").replace("paper =", "question =")).expect_err("no paper"));
    assert!(found.contains("a reference to no paper; write `paper = "), "{found}");
    for key in ["source", "note"] {
        let text = with("value = '1'").replace(&format!("{key} ="), "#");
        let found = listed(&read(&text).expect_err(key));
        assert!(found.contains(&format!("there is no `{key}`")), "{found}");
    }
}

#[test]
fn reference_changes_neither_name_nor_verdicts() {
    let (without, with) = (good(SYSTEMS), good(&with("what = 'peak of A'\nvalue = 1")));
    assert_eq!(without.id(), with.id());
    assert_eq!((without.judged(), without.repetitions()), (with.judged(), with.repetitions()));
    let plan = with.plan_text(&with.plan().expect("it can be run"), None);
    assert!(plan.contains("paper       A. Author") && plan.contains("references  1 of 1 have"), "{plan}");
    // The text beside the results has them too.
    let again = good(with.to_toml());
    assert_eq!(again.references(), with.references());
    assert_eq!(again.paper(), "A. Author, On Servers, 2012");
}
