//! Rules as they are written, and what they make of messages.

use super::*;
use crate::{LONGEST_TEMPLATE, LONGEST_VALUE};
use proptest::prelude::*;
use sip_message::{Index, Limits, NameAddr, Parsed, Values as Elements, parse};

const NONE: [&str; 0] = [];

/// A request with this From and these further lines.
fn request(from: &[u8], lines: &[u8]) -> Vec<u8> {
    let start = b"INVITE sip:+49301@us SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: ";
    let rest = b"\r\nTo: <sip:b@us>\r\nCall-ID: a<b>\"c\r\nCSeq: 1 INVITE\r\n";
    [&start[..], from, rest, lines, b"Content-Length: 4\r\n\r\nbody"].concat()
}

/// What a request becomes; `None`: it is none that can be read.
fn edited(request: &[u8], rules: &HeaderRules) -> Option<Vec<u8>> {
    let mut index = Index::new();
    let Parsed::Good(message) = parse(request, &mut index, &Limits::default()) else { return None };
    let (mut splices, mut out) = (Splices::new(), Vec::new());
    let values = Values::of(&message, "2001:db8::7".parse().unwrap(), b"carrier");
    rules.edit(&message, &values, &mut splices);
    splices.apply(message.bytes(), &mut out);
    Some(out)
}

/// The lines between CSeq and Content-Length that a request has after the edits.
fn lines(from: &str, before: &str, rules: &HeaderRules) -> String {
    let out = edited(&request(from.as_bytes(), before.as_bytes()), rules).expect("a good request");
    let text = String::from_utf8(out).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert_eq!(body, "body");
    let lines = head.split_once("CSeq: 1 INVITE\r\n").expect("CSeq").1;
    lines.replacen("Content-Length: 4", "", 1).trim_matches(['\r', '\n']).to_owned()
}

fn set(line: &str) -> HeaderRules {
    HeaderRules::parse(&NONE, &[line], &NONE).expect("a good rule")
}

#[test]
fn fields_are_removed_set_and_added_in_this_order() {
    let rules = HeaderRules::parse(
        &["X-Internal", "P-*", "Subject"],
        &["User-Agent: Strowger", "X-Caller: {user}"],
        &["X-Caller: {number}", "Via-Trunk: {trunk}"],
    );
    let before = "x-internal: 1\r\np-Charging-Vector: 2\r\nP-Asserted-Identity: <sip:a@us>\r\ns: hello\r\n\
                  X-Caller: 3\r\nX-Internals: 4\r\nUser-Agent: phone\r\n";
    let after = "X-Internals: 4\r\n\r\nUser-Agent: Strowger\r\nX-Caller: alice\r\nX-Caller: +49301\r\n\
                 Via-Trunk: carrier";
    assert_eq!(lines("<sip:alice@us>;tag=1", before, &rules.unwrap()), after);
    assert_eq!(lines("<sip:alice@us>;tag=1", "X-A: 1\r\n", &HeaderRules::default()), "X-A: 1");
    assert!(HeaderRules::default().is_empty());
}

#[test]
fn every_named_value_is_written() {
    let rules = set("X-All: {user}|{domain}|{number}|{trunk}|{source}|{call-id}|{{{display-name}}}");
    let from = "\"Al \\\"Ice\\\"\" <sip:al%23ice@us.example>;tag=1";
    let want = "X-All: al%23ice|us.example|+49301|carrier|2001:db8::7|a%3Cb%3E%22c|{Al%20%22Ice%22}";
    assert_eq!(lines(from, "", &rules), want);
    let rules = set("X-Who: \"{display-name}\" <sip:{user}@[2001:db8::1];from={source}>");
    let want = "X-Who: \"Al \\\"Ice\\\"\" <sip:al%23ice@[2001:db8::1];from=[2001:db8::7]>";
    assert_eq!(lines(from, "", &rules), want);
}

#[test]
fn field_with_a_missing_or_long_value_is_not_written() {
    let rules = set("X-Who: {display-name} {user}");
    assert_eq!(lines("<sip:alice@us>;tag=1", "X-Who: 1\r\nX-B: 2\r\n", &rules), "X-B: 2");
    assert_eq!(lines("\"\" <sip:alice@us>;tag=1", "", &rules), "");
    let from = |len: usize| format!("\"{}\" <sip:a@us>;tag=1", "n".repeat(len));
    assert_eq!(lines(&from(LONGEST_VALUE + 1), "", &rules), "");
    assert!(lines(&from(LONGEST_VALUE), "", &rules).ends_with("n a"));
}

#[test]
fn beginning_removes_nothing_that_the_protocol_owns() {
    let rules = HeaderRules::parse(&["C-*", "Co*", "R*"], &NONE, &NONE).unwrap();
    let before = "Contact: <sip:a@h>\r\nComment: 1\r\nReason: x\r\nRoute: <sip:p;lr>\r\nRAck: 1 1 INVITE\r\n";
    let after = "Contact: <sip:a@h>\r\nRoute: <sip:p;lr>\r\nRAck: 1 1 INVITE";
    assert_eq!(lines("<sip:alice@us>;tag=1", before, &rules), after);
}

#[test]
fn names_that_are_not_the_operators_are_refused() {
    for name in [
        "Via",
        "v",
        "From",
        "f",
        "To",
        "Call-ID",
        "i",
        "CSeq",
        "Contact",
        "m",
        "Route",
        "Record-Route",
        "Max-Forwards",
        "Content-Length",
        "l",
        "Content-Type",
        "Authorization",
        "Proxy-Authorization",
        "proxy-authenticate",
        "Require",
        "target-dialog",
        "Max-Breadth",
        "Via*",
    ] {
        let found = check_pattern(name).expect_err(name);
        assert!(found.what.contains("belongs to the protocol"), "{found:?}");
        let found = check_field(&format!("{}: x", name.trim_end_matches('*'))).expect_err(name);
        assert!(found.what.contains("belongs to the protocol"), "{found:?}");
    }
    for name in ["P-Asserted-Identity", "Remote-Party-ID"] {
        assert!(check_pattern(name).is_ok());
        assert!(
            check_field(&format!("{name}: <sip:{{user}}@us>")).unwrap_err().what.contains("would assert")
        );
    }
    assert!(check_pattern("Supported").is_ok());
    assert!(check_field("Supported: 100rel").unwrap_err().what.contains("ends of a call"));
}

#[test]
fn names_that_are_no_names_are_refused() {
    for name in ["", " ", "X Y", "X:", "X-\u{e9}", "X-\r\nY", "X*Y", "*X", "X**", "(x)", &"x".repeat(65)] {
        assert!(check_pattern(name).unwrap_err().what.contains("is not the name"), "{name:?}");
    }
    assert!(check_pattern("*").unwrap_err().what.contains("all header fields"));
    for line in ["Q", "X-Y", "Q:", "X-Y: ", ""] {
        assert!(check_field(line).unwrap_err().what.contains("has no value"), "{line:?}");
    }
    for line in [": x", "X Y: x", "X\r\nY: x", "X-*: y"] {
        assert!(check_field(line).unwrap_err().what.contains("is not the name"), "{line:?}");
    }
}

#[test]
fn values_that_would_break_a_message_are_refused() {
    for (value, what) in [
        ("a\r\nEvil: b", "control character"),
        ("a\nb", "control character"),
        ("a\0b", "control character"),
        ("\"open", "quotation mark is not closed"),
        ("\"a\\", "quotation mark is not closed"),
        ("\"a\\b\"", "backslash"),
        ("<sip:a@b", "\"<\" is not closed"),
        ("sip:a@b>", "\">\" closes nothing"),
        ("<sip:a\"@b>", "a URI cannot have"),
        ("<sip:a b>", "a URI cannot have"),
        ("{usr}", "there is no value {usr}"),
        ("{user", "\"{\" is not closed"),
        ("user}", "\"}\" closes nothing"),
        (&"x".repeat(LONGEST_TEMPLATE + 1), "more than 512 bytes"),
    ] {
        let found = check_field(&format!("X-A: {value}")).expect_err(value);
        assert!(found.what.contains(what) && !found.mend.is_empty(), "{value:?}: {found:?}");
    }
    for value in ["{{}}", "\"a\\\\\\\"\"", "a, b;c=\"d\"", &"x".repeat(LONGEST_TEMPLATE)] {
        assert_eq!(check_field(&format!("X-A: {value}")), Ok(()), "{value:?}");
    }
}

/// Pieces that templates may be put together of.
const PIECES: [&str; 24] = [
    "{user}",
    "{domain}",
    "{number}",
    "{trunk}",
    "{source}",
    "{call-id}",
    "{display-name}",
    "\"{display-name}\"",
    "<sip:{user}@{domain}>",
    "\"",
    "<",
    ">",
    "{",
    "}",
    "{{",
    "}}",
    "\\",
    ",",
    ";a=",
    " ",
    "x",
    "\u{e9}",
    "\r\n",
    "\t",
];

fn template() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES.to_vec()), 1..8);
    let template = pieces.prop_map(|pieces| pieces.concat());
    template.prop_filter("a good rule", |template| check_field(&format!("X-T: {template}")).is_ok())
}

/// Bytes that a hostile caller would try, more often than others.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let hostile = prop::sample::select(b"\"\\<>,;:@%\0 \t()[]{}=?&\x7f\x80\xff".to_vec());
    // A line break ends the field that it stands in, so no value has one.
    let any = any::<u8>().prop_filter("no line break", |byte| !matches!(byte, b'\r' | b'\n'));
    prop::collection::vec(prop_oneof![hostile, any, b'a'..=b'z'], 0..24)
}

/// The only X-T of a message: its elements, and the parameters of the first.
fn shape(message: &[u8]) -> (usize, usize, bool) {
    let mut index = Index::new();
    let Parsed::Good(message) = parse(message, &mut index, &Limits::default()) else {
        panic!("{}", message.escape_ascii())
    };
    assert_eq!(message.body(), b"body");
    let fields: Vec<_> = message.headers(Name::Other).filter(|h| h.raw_name == b"X-T").collect();
    assert_eq!(fields.len(), 1);
    let elements: Vec<_> = Elements::new(fields[0].value).collect();
    let params = elements.first().and_then(|first| NameAddr::parse(first).ok());
    let count = params.map_or(0, |addr| sip_message::Params::new(addr.params).count());
    (elements.len(), count, params.is_some())
}

proptest! {
    /// What the request of a caller says changes neither the lines of the message nor the parts of a field.
    #[test]
    fn no_value_changes_the_structure_of_a_message(template in template(), user in text(), name in text()) {
        let rules = set(&format!("X-T: {template}"));
        let from = |user: &[u8], name: &[u8]| [b"\"", name, b"\" <sip:", user, b"@us>;tag=1"].concat();
        let lines = b"X-T: 1\r\nX-U: 2\r\n";
        let tame = edited(&request(&from(b"alice", b"Alice"), lines), &rules).expect("a good request");
        // Not every one is a request, and a value that is missing leaves the field out.
        let written = edited(&request(&from(&user, &name), lines), &rules);
        let is_whole = |out: &Vec<u8>| out.windows(5).any(|five| five == b"X-T: ");
        let Some(written) = written.filter(is_whole) else { return Ok(()) };
        prop_assert_eq!(shape(&written), shape(&tame), "{}", written.escape_ascii());
        let count = |text: &[u8]| text.windows(2).filter(|two| two == b"\r\n").count();
        prop_assert_eq!(count(&written), count(&tame));
    }
}
