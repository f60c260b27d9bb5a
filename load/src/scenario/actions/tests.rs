//! What actions do to variables and calls.

use super::super::credentials::Challenge;
use super::super::facts::{Desk, Facts};
use super::super::inject::{Injection, Injections};
use super::super::read::tests::read;
use super::super::template::tests::run as run_facts;
use super::super::variables::{Scope, Vars};
use super::{Effects, Level, Outcome, run};
use crate::population::Rng;

const LAST: &[u8] =
    b"SIP/2.0 200 OK\r\nTo: b;tag=zz\r\nRecord-Route: <sip:a;lr>\r\nrecord-route: <sip:b;lr>\r\n\
    Contact: <sip:c@d:5>\r\nX-Contact: no\r\nContent-Length: 3\r\n\r\nv=0";

/// The call's fate, and its variables as they show, after these actions.
fn done(actions: &str, names: &[&str]) -> (Outcome, Vec<String>, Vec<(Level, String)>) {
    done_with(actions, names, LAST)
}

fn done_with(actions: &str, names: &[&str], last: &[u8]) -> (Outcome, Vec<String>, Vec<(Level, String)>) {
    let text = format!(
        "<scenario><recv request=\"A\"><action>\n{actions}</action></recv><Reference variables=\"{}\"/></scenario>",
        ["u", "r"].iter().chain(names).copied().collect::<Vec<_>>().join(",")
    );
    let mut scenario = read(&text).unwrap_or_else(|problems| panic!("{problems:?}"));
    let facts_of_run = run_facts();
    scenario.bind(&facts_of_run);
    let mut file = Injection::parse("u.csv", b"SEQUENTIAL\na;b\nc;d\n").unwrap();
    file.index(0).unwrap();
    let mut desk = Desk::new(Injections { files: vec![file] }, 1, 1);
    let mut challenge = Challenge::default();
    let mut facts = Facts {
        run: &facts_of_run,
        desk: &mut desk,
        call_number: 3,
        call_id: b"i",
        local_ip: b"127.0.0.1",
        local_port: 1,
        step: 0,
        round: 0,
        cseq: 1,
        last,
        outline: None,
        peer_tag: b"",
        routes: b"",
        next_url: b"",
        challenge: Some(&mut challenge),
        lines: &[0],
        user: 0,
        wall_micros: 12_345_678,
        tick_ms: 0,
    };
    let [mut call, mut user, mut global] =
        [Scope::Call, Scope::User, Scope::Global].map(|s| scenario.variables.values(s));
    let mut vars: Vars<'_> = Vars { call: &mut call, user: &mut user, global: &mut global };
    let mut effects = Effects::default();
    let outcome = run(&scenario.steps[0].actions, &mut vars, &mut facts, &mut Rng::new(1, 1), &mut effects);
    let shown = names.iter().map(|name| {
        let mut out = Vec::new();
        if let Some(value) = scenario.variables.find(name).and_then(|slot| vars.get(slot)) {
            value.write(&mut out);
        }
        String::from_utf8_lossy(&out).into_owned()
    });
    let shown = shown.collect();
    let lines =
        effects.lines.iter().map(|(level, line)| (*level, String::from_utf8_lossy(line).into_owned()));
    (outcome, shown, lines.collect())
}

fn values<const N: usize>(actions: &str, names: [&str; N]) -> [String; N] {
    let (outcome, values, lines) = done(actions, &names);
    assert_eq!((outcome, lines.len()), (Outcome::GoOn, 0), "{actions}");
    values.try_into().unwrap()
}

#[test]
fn expressions_find_their_text_where_they_look() {
    let ereg = |rest: &str| format!("<ereg assign_to=\"v,w\" {rest}/>");
    for (rest, found) in [
        ("regexp=\"tag=([a-z]*)\"", ["tag=zz", "zz"]),
        ("regexp=\"(.*)\" search_in=\"body\"", ["v=0", "v=0"]),
        ("regexp=\"(.*)\" search_in=\"hdr\" header=\"Contact:\"", [" <sip:c@d:5>", " <sip:c@d:5>"]),
        (
            "regexp=\"(.*)\" search_in=\"hdr\" header=\"contact\" case_indep=\"true\"",
            [": <sip:c@d:5>", ": <sip:c@d:5>"],
        ),
        ("regexp=\"(.*)\" search_in=\"hdr\" header=\"Contact:\" occurrence=\"2\"", [" no", " no"]),
        (
            "regexp=\"b(.*)\" search_in=\"hdr\" header=\"Record-Route:\" case_indep=\"true\" occurence=\"2\"",
            ["b;lr>", ";lr>"],
        ),
        ("regexp=\"(.*)\" search_in=\"hdr\" header=\"ontact:\" start_line=\"true\"", ["", ""]),
        ("regexp=\"(.*)\" search_in=\"hdr\" header=\"Nope:\"", ["", ""]),
        ("regexp=\"(z)?SIP\"", ["SIP", ""]),
        ("regexp=\"no(pe)\"", ["", ""]),
    ] {
        assert_eq!(values(&ereg(rest), ["v", "w"]), found, "{rest}");
    }
    let in_variable = "<assignstr assign_to=\"u\" value=\"sip:[call_id]@h\"/><ereg regexp=\":(.)@\" search_in=\"var\" variable=\"u\" assign_to=\"v,w\"/>";
    assert_eq!(values(in_variable, ["v", "w"]), [":i@", "i"]);
    let kept = "<assign assign_to=\"v\" value=\"1\"/><ereg regexp=\"nope\" assign_to=\"v\"/>";
    assert_eq!(values(kept, ["v"]), ["1.000000"], "what finds nothing changes nothing");
}

#[test]
fn checks_decide_on_the_call() {
    let fate = |action: &str| done(action, &[]).0;
    for (action, fails) in [
        ("<ereg regexp=\"tag\" assign_to=\"v\" check_it=\"true\"/>", false),
        ("<ereg regexp=\"nope\" assign_to=\"v\" check_it=\"true\"/>", true),
        ("<ereg regexp=\".*\" search_in=\"hdr\" header=\"Nope:\" assign_to=\"v\" check_it=\"true\"/>", true),
        ("<ereg regexp=\"tag\" assign_to=\"v\" check_it_inverse=\"true\"/>", true),
        ("<ereg regexp=\"nope\" assign_to=\"v\" check_it_inverse=\"true\"/>", false),
        ("<test variable=\"u\" compare=\"equal\" value=\"0\" check_it=\"true\"/>", false),
        ("<test variable=\"u\" compare=\"greater_than\" value=\"0\" check_it=\"true\"/>", true),
        ("<test variable=\"u\" compare=\"greater_than\" value=\"0\" check_it_inverse=\"true\"/>", false),
        ("<strcmp variable=\"u\" value=\"\" check_it=\"true\"/>", false),
        ("<strcmp variable=\"u\" value=\"x\" check_it=\"true\"/>", true),
    ] {
        assert_eq!(fate(action), if fails { Outcome::Fail(2) } else { Outcome::GoOn }, "{action}");
    }
    assert_eq!(fate("<exec int_cmd=\"stop_call\"/>"), Outcome::StopCall);
    assert_eq!(fate("<exec int_cmd=\"stop_gracefully\"/>"), Outcome::StopGracefully);
    assert_eq!(fate("\n<jump value=\"1\"/><exec int_cmd=\"stop_now\"/>"), Outcome::StopNow);
    let (outcome, values, _) = done("<jump value=\"1\"/><assign assign_to=\"v\" value=\"2\"/>", &["v"]);
    assert_eq!((outcome, values[0].as_str()), (Outcome::Jump(1), "2.000000"));
    assert_eq!(fate("<jump variable=\"u\"/>"), Outcome::Jump(0));
    // There is one step.
    let jump =
        |to: &str| done(&format!("<assign assign_to=\"v\" value=\"{to}\"/>\n<jump variable=\"v\"/>"), &["v"]);
    assert_eq!(jump("1").0, Outcome::Jump(1));
    for to in ["2", "0.5", "-1", "1e300", "NaN"] {
        let (outcome, _, lines) = jump(to);
        assert_eq!(outcome, Outcome::Fail(3), "{to}");
        assert!(lines[0].1.starts_with("line 3: jump: there is no step "), "{lines:?}");
    }
}

#[test]
fn numbers_are_reckoned() {
    let sum = "<assign assign_to=\"v\" value=\"2\"/><add assign_to=\"v\" value=\"3\"/><multiply assign_to=\"v\" variable=\"v\"/>\
        <subtract assign_to=\"v\" value=\"1\"/><divide assign_to=\"v\" value=\"5\"/><add assign_to=\"w\" value=\"1\"/>";
    assert_eq!(values(sum, ["v", "w"]), ["4.800000", "1.000000"]);
    let (outcome, shown, lines) =
        done("<assign assign_to=\"v\" value=\"2\"/><divide assign_to=\"v\" variable=\"u\"/>", &["v"]);
    assert_eq!((outcome, shown[0].as_str()), (Outcome::GoOn, "2.000000"));
    assert_eq!(lines, [(Level::Warning, "line 2: divide: the divisor is 0".to_owned())]);
    let number = "<assignstr assign_to=\"u\" value=\"12.5\"/><todouble assign_to=\"v\" variable=\"u\"/>";
    assert_eq!(values(number, ["v"]), ["12.500000"]);
    assert_eq!(done("<todouble assign_to=\"v\" variable=\"u\"/>", &["v"]).2.len(), 1);
    for (compare, holds) in [
        ("equal", "false"),
        ("not_equal", "true"),
        ("greater_than", "false"),
        ("less_than", "true"),
        ("greater_than_equal", "false"),
        ("less_than_equal", "true"),
    ] {
        let test = format!(
            "<assign assign_to=\"u\" value=\"1\"/><test assign_to=\"v\" variable=\"u\" compare=\"{compare}\" value=\"2\"/>"
        );
        assert_eq!(values(&test, ["v"]), [holds], "{compare}");
        let test = format!("<test assign_to=\"v\" variable=\"u\" compare=\"{compare}\" variable2=\"u\"/>");
        let same = compare.contains("equal") && compare != "not_equal";
        assert_eq!(values(&test, ["v"]), [same.to_string()]);
    }
    let drawn = values("<sample assign_to=\"v\" distribution=\"uniform\" min=\"5\" max=\"6\"/>", ["v"]);
    assert!(drawn[0].starts_with("5."));
    assert_eq!(values("<gettimeofday assign_to=\"v,w\"/>", ["v", "w"]), ["12.000000", "345678.000000"]);
}

#[test]
fn texts_are_changed_and_compared() {
    let text = |value: &str, then: &str| {
        values(&format!("<assignstr assign_to=\"v\" value=\"{value}\"/>{then}"), ["v"])[0].clone()
    };
    assert_eq!(text(" a b ", "<trim assign_to=\"v\"/>"), "a b");
    assert_eq!(text("a b/~é", "<urlencode variable=\"v\"/>"), "a%20b%2F~%C3%A9");
    assert_eq!(text("a%20b%2f%zz%", "<urldecode variable=\"v\"/>"), "a b/%zz%");
    let compare = |left: &str, right: &str| {
        let actions = format!(
            "<assignstr assign_to=\"u\" value=\"{left}\"/><strcmp assign_to=\"v\" variable=\"u\" value=\"{right}\"/>"
        );
        values(&actions, ["v"])[0].parse::<f64>().unwrap()
    };
    assert_eq!(
        (compare("A", "s2"), compare("x", "x"), compare("xy", "x"), compare("", "")),
        (-50.0, 0.0, 121.0, 0.0)
    );
    let variables =
        "<assignstr assign_to=\"u\" value=\"a\"/><strcmp assign_to=\"v\" variable=\"u\" variable2=\"u\"/>";
    assert_eq!(values(variables, ["v"]), ["0.000000"]);
}

#[test]
fn what_is_said_is_collected() {
    let (outcome, _, lines) = done(
        "<log message=\"a [call_number]\"/>\n<warning message=\"b\"/>\n<error message=\"c\"/><log message=\"d\"/>",
        &[],
    );
    assert_eq!(outcome, Outcome::Fail(4));
    let want = [(Level::Log, "a 3"), (Level::Warning, "b"), (Level::Error, "c")];
    assert_eq!(lines, want.map(|(level, text)| (level, text.to_owned())));
    let (outcome, _, lines) = done("<log message=\"[field0 line=9]\"/>", &[]);
    assert_eq!((outcome, lines.len()), (Outcome::Fail(2), 1), "a text that cannot be made fails the call");
}

#[test]
fn injection_files_are_looked_up_and_changed() {
    let lookup = "<lookup assign_to=\"v\" file=\"u.csv\" key=\"c\"/><assignstr assign_to=\"w\" value=\"[field1 line=[$v]]\"/>";
    assert_eq!(values(lookup, ["v", "w"]), ["1.000000", "d"]);
    let missing = "<lookup assign_to=\"v\" file=\"u.csv\" key=\"x\"/>";
    assert_eq!(values(missing, ["v"]), ["-1.000000"]);
    let change = "<insert file=\"u.csv\" value=\"e;[call_number]\"/><lookup assign_to=\"v\" file=\"u.csv\" key=\"e\"/>\
        <replace file=\"u.csv\" line=\"[$v]\" value=\"f;g\"/><assignstr assign_to=\"w\" value=\"[field1 line=2]\"/>";
    assert_eq!(values(change, ["v", "w"]), ["2.000000", "g"]);
    assert_eq!(done("<replace file=\"u.csv\" line=\"9\" value=\"f;g\"/>", &[]).0, Outcome::Fail(2));
}

#[test]
fn credentials_are_verified() {
    let mut desk = super::super::credentials::Credentials::new(1);
    let mut challenge = Challenge::default();
    let header = "WWW-Authenticate: Digest realm=\"r\",nonce=\"n\"";
    super::super::credentials::tests::tell(&mut challenge, 401, header);
    let wanted = super::super::credentials::Wanted {
        user: b"joe",
        password: b"pw",
        method: b"REGISTER",
        uri: b"sip:h",
    };
    let mut request = b"REGISTER sip:h SIP/2.0\r\n".to_vec();
    desk.answer(&mut challenge, &wanted, &mut request).unwrap();
    request.extend_from_slice(b"\r\n\r\n");
    for (password, holds) in [("pw", "true"), ("no", "false")] {
        let action = format!(
            "<assignstr assign_to=\"u\" value=\"joe\"/><verifyauth assign_to=\"v\" username=\"[$u]\" password=\"{password}\"/>"
        );
        let (_, values, _) = done_with(&action, &["v"], &request);
        assert_eq!(values, [holds]);
    }
}
