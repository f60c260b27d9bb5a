//! The mixed traffic of `lab/calls/mixed`: enough kinds, the documented shares, the shapes that it is for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use load::scenario::Injection;

/// A file of the folder.
fn own(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("calls/mixed").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The entries of the table of steps at which a field of a line may begin: number and label.
fn table(name: &str) -> BTreeMap<usize, String> {
    let mut found = BTreeMap::new();
    let mut step = 0;
    for line in own(name).lines() {
        if let Some(rest) = line.strip_prefix("<nop next=\"") {
            found.insert(step, rest.split('"').next().unwrap_or_default().to_owned());
        }
        step += usize::from(
            ["<nop", "<send", "<recv", "<pause", "<timewait"].iter().any(|tag| line.starts_with(tag)),
        );
    }
    found
}

/// The fields of all calls.
fn calls() -> Vec<Vec<String>> {
    own("calls.csv").lines().skip(1).map(|line| line.split(';').map(str::to_owned).collect()).collect()
}

fn kind(label: &str) -> &str {
    label.rsplit_once('.').map_or(label, |(kind, _)| kind)
}

fn flow(label: &str) -> &str {
    label.rsplit_once('.').map_or(label, |(_, flow)| flow)
}

#[test]
fn calls_begin_at_entries_of_the_tables() {
    let (callers, callees) = (table("caller.xml"), table("callee.xml"));
    let (mut calling, mut called) = (BTreeSet::new(), BTreeSet::new());
    for call in calls() {
        let step = |field: usize| call[field].parse::<usize>().expect("a number");
        let begin = &callers[&step(2)];
        calling.insert(kind(begin).to_owned());
        let answers: Vec<&str> = (3..6).map(|field| callees[&step(field)].as_str()).collect();
        called.insert(kind(answers[0]).to_owned());
        assert!(answers.iter().all(|label| kind(label) == kind(answers[0])), "one kind answers: {answers:?}");
        let first = match flow(begin) {
            own @ ("busy" | "cancel" | "message") => own,
            _ => "answer",
        };
        let middle = if flow(begin) == "info" { "info" } else { "hold" };
        assert_eq!(answers.iter().map(|label| flow(label)).collect::<Vec<_>>(), [first, middle, "bye"]);
    }
    assert!(calling.len() >= 20 && called.len() >= 20, "{} and {} kinds", calling.len(), called.len());
    let page = own("README.md");
    for kind in calling.union(&called) {
        assert!(page.contains(&format!("`{kind}`")), "README.md has no {kind}");
    }
}

#[test]
fn shares_of_flows_are_those_documented() {
    let (callers, calls) = (table("caller.xml"), calls());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for call in &calls {
        *counts.entry(flow(&callers[&call[2].parse().expect("a number")])).or_insert(0) += 1;
    }
    let page = own("README.md");
    assert_eq!(counts.len(), 7, "{counts:?}");
    for (flow, count) in counts {
        let percent = 100.0 * count as f64 / calls.len() as f64;
        let documented = page.split(&format!("| `{flow}` | ")).nth(1).and_then(|rest| rest.split(' ').next());
        let documented: f64 = documented.and_then(|share| share.parse().ok()).expect("a share in README.md");
        assert!((percent - documented).abs() < 2.0, "{flow}: {percent:.1} %, README.md says {documented}");
    }
}

#[test]
fn shapes_that_the_mix_is_for_are_there() {
    let text = own("caller.xml");
    for shape in [
        "\nv: ",
        "\nVIA: ",
        "\nVia : ",
        ";rport",
        ";ob>",
        "+sip.instance",
        "\n\\x20",
        "Session-Expires",
        "P-Asserted-Identity",
        "P-Preferred-Identity",
        "History-Info",
        "Diversion",
        "Reason: ",
        "\nX-",
        "a=candidate",
        "IN IP6",
        "\\x5b2001:",
        "Min-SE",
        "From: sip:",
        "gruu",
    ] {
        assert!(text.contains(shape), "no message has {shape:?}");
    }
}

#[test]
fn called_users_register_once() {
    for name in ["calls.csv", "registrations.csv"] {
        let file =
            Injection::parse(name, own(name).as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}"));
        assert!(file.lines() >= 1_000, "{name}: {} lines", file.lines());
    }
    let users: BTreeSet<String> = own("registrations.csv")
        .lines()
        .skip(1)
        .filter_map(|line| Some(line.split(';').next()?.to_owned()))
        .collect();
    assert_eq!(users.len(), 1_000, "each callee registers once");
    assert!(calls().iter().all(|call| users.contains(&call[0])), "a call to a user that does not register");
}
