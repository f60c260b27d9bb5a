use proptest::prelude::*;
use wire::Time;

use super::*;
use crate::metrics::{Direction, Ladders, Rule};
use crate::report::build::tests::run;
use crate::report::{Fact, Group, compare};

const HOSTILE: &str = "</pre></title><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{1b}[31m";

fn hostile() -> Report {
    let (mut inputs, m) = run(5);
    let mut l = Ladders::new(3, 1 << 16);
    let (here, there) = ("127.0.0.1:5070".parse().unwrap(), "[::1]:5060".parse().unwrap());
    let message = format!("SIP/2.0 486 {HOSTILE}\r\nCall-ID: {HOSTILE}\r\n\r\n{HOSTILE}\0\u{202e}");
    l.offer(1, Time::ZERO, Direction::Received, here, there, message.as_bytes());
    l.failed(Time::ZERO, 1, Time::ZERO, HOSTILE.as_bytes(), (b"", b""), HOSTILE);
    inputs.title = HOSTILE.to_owned();
    inputs.workload = HOSTILE.to_owned();
    inputs.started = HOSTILE.to_owned();
    inputs.program = HOSTILE.to_owned();
    inputs.command = vec![HOSTILE.to_owned()];
    inputs.notes = vec![HOSTILE.to_owned()];
    for facts in [&mut inputs.parameters, &mut inputs.machine, &mut inputs.server] {
        *facts = vec![Fact::new(HOSTILE, HOSTILE)];
    }
    let text = || HOSTILE.to_owned();
    let trials = vec![Trial { load: 1.0, unit: text(), verdict: text(), why: text(), ..Trial::default() }];
    let (outcome, interval) = (crate::population::Outcome::Found, Some((1.0, 2.0)));
    let peak =
        crate::population::Peak { load: 1.0, outcome, confidence: None, interval, runs: (1, 1), trials: 1 };
    let mut r = Report::build(inputs, &m, &Rule::default(), l.kept()).searched(trials, &peak, HOSTILE);
    // Reports can also be written by hand, so that nothing in them may be trusted.
    r.verdict.word = text();
    r.verdict.why = vec![text()];
    r.verdict.checks[0].name = text();
    r.verdict.checks[0].found = text();
    r.metrics[0].name = text();
    r.metrics[0].key = text();
    r.metrics[0].unit = text();
    r.metrics[0].definition = text();
    r.latencies[0].key = text();
    r.latencies[0].text = text();
    r.series.columns[0].key = text();
    r.whole.insert(text(), 1);
    r
}

/// Tags and attributes of a page may only be those that the program writes.
fn assert_clean(page: &str) {
    for bad in ["<script", "<img", "onerror=alert(1)>", "\u{1b}", "\0", "\u{202e}", "</title><"] {
        assert!(!page.contains(bad), "{bad:?} in the page");
    }
    let names: std::collections::BTreeSet<&str> = page
        .split('<')
        .skip(1)
        .map(|t| {
            t.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()
        })
        .collect();
    let known = [
        "",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "a",
        "header",
        "h1",
        "h2",
        "h3",
        "p",
        "main",
        "div",
        "strong",
        "ul",
        "li",
        "dl",
        "dt",
        "dd",
        "nav",
        "table",
        "caption",
        "span",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "figure",
        "figcaption",
        "svg",
        "path",
        "line",
        "text",
        "rect",
        "details",
        "summary",
        "pre",
        "footer",
    ];
    for name in names {
        assert!(known.contains(&name), "<{name}> in the page");
    }
}

#[test]
fn nothing_that_came_from_outside_becomes_markup() {
    let r = hostile();
    assert_clean(&html(&r));
    let (a, b) = (Group { name: HOSTILE.to_owned(), reports: vec![r.clone(), r.clone()] }, Group::default());
    assert_clean(&compare(&a, &b, 0.95).html(HOSTILE));
    let b = Group { name: HOSTILE.to_owned(), reports: vec![r] };
    let c = compare(&a, &b, 0.95);
    assert_clean(&c.html(HOSTILE));
    assert!(!c.text().contains('\u{1b}'));
}

#[test]
fn the_page_is_self_contained() {
    let (inputs, m) = run(5);
    let page = html(&Report::build(inputs, &m, &Rule::default(), &[]));
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("url("));
    assert!(!page.contains("src=") && !page.contains("@import"));
    assert_eq!(
        page.matches(" id=\"").count(),
        page.split(" id=\"").skip(1).collect::<std::collections::BTreeSet<_>>().len()
    );
    for part in page.split("href=\"").skip(1) {
        let target = part.split('"').next().unwrap();
        let id = target.strip_prefix('#').unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{target} leads nowhere");
    }
}

#[test]
fn elements_are_closed() {
    let page = html(&hostile());
    for name in
        ["div", "table", "tr", "td", "ul", "li", "details", "summary", "pre", "svg", "figure", "dl", "main"]
    {
        let opened = page.matches(&format!("<{name}>")).count() + page.matches(&format!("<{name} ")).count();
        assert_eq!(opened, page.matches(&format!("</{name}>")).count(), "{name}");
    }
}

#[test]
fn it_says_the_verdict_first_and_how_to_repeat_the_run() {
    let (inputs, m) = run(5);
    let page = html(&Report::build(inputs, &m, &Rule::default(), &[]));
    assert!(page.contains("<strong>FAIL</strong> The server broke the rule."));
    assert!(page.find("FAIL").unwrap() < page.find("Over time").unwrap());
    assert!(page.contains("strowger load -r &#39;it&#39;\\&#39;&#39;s 1000&#39;"));
    assert!(page.contains("RFC 6076 section 4.9"));
    assert_eq!(page.matches("<figure ").count(), 7);
}

#[test]
fn an_empty_report_is_a_page_too() {
    assert_clean(&html(&Report::default()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn numbers_of_any_size_break_nothing(values in prop::collection::vec(any::<f64>(), 1..6),
                                         counts in prop::collection::vec(any::<u64>(), 6)) {
        // A report that was written by hand, or by something broken.
        let finite: Vec<Option<f64>> = values.iter().map(|v| v.is_finite().then_some(*v)).collect();
        let d = Distribution {
            count: counts[0],
            min: counts[1],
            p50: counts[2],
            max: counts[3],
            mean: finite[0].unwrap_or(0.0),
            buckets: vec![(counts[4], counts[5]), (counts[2], counts[3]), (0, counts[0])],
            ..Distribution::default()
        };
        let mut r = hostile();
        r.lateness = d.clone();
        for l in &mut r.latencies {
            (l.key, l.intended, l.sent) = ("response".to_owned(), d.clone(), d.clone());
        }
        for c in &mut r.series.columns {
            c.values.clone_from(&finite);
        }
        r.series.time = finite.iter().map(|v| v.unwrap_or(-1.0)).collect();
        r.windows.measured = finite[0].unwrap_or(1.0);
        r.compression = finite[0].unwrap_or(1.0);
        for m in &mut r.metrics {
            m.value = finite[0];
        }
        r.trials[0].load = finite[0].unwrap_or(0.0);
        r.trials[0].p99_ms = finite[0];
        if let Some(peak) = &mut r.peak {
            (peak.load, peak.outcome) = (finite[0], HOSTILE.to_owned());
        }
        let page = html(&r);
        assert_clean(&page);
        prop_assert!(!page.contains("NaN") && !page.contains(">inf"));
        let back = Report::from_json(&r.to_json());
        prop_assert!(back.is_ok());
        let _ = crate::report::csv(&r);
        let (a, b) = (Group { name: "a".to_owned(), reports: vec![r.clone(), r.clone()] },
                      Group { name: "b".to_owned(), reports: vec![r.clone(), r] });
        let c = compare(&a, &b, 0.95);
        let _ = (c.text(), c.html("x"), c.to_json());
    }
}
