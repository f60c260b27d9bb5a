//! Files that must be taken, and files that must be refused.

use super::super::inject::{Injection, Injections};
use super::super::steps::{Code, Expect, Kind, Op, Optional, Pause, Scenario, Side};
use super::super::variables::Scope;
use super::{Surroundings, parse};
use proptest::prelude::{any, prop_assert, proptest};
use std::io;

pub(in super::super) fn read(text: &str) -> Result<Scenario, Vec<String>> {
    read_with(text, &["a;b", "c;d"])
}

/// Reads with one injection file of these lines and the key `domain`.
pub(in super::super) fn read_with(text: &str, lines: &[&str]) -> Result<Scenario, Vec<String>> {
    let mut file =
        Injection::parse("u.csv", format!("SEQUENTIAL\n{}\n", lines.join("\n")).as_bytes()).unwrap();
    file.index(0).unwrap();
    let injections = Injections { files: vec![file] };
    let keys = [("domain".to_owned(), "example.org".to_owned())];
    let read_file = |name: &str| {
        if name == "f" { Ok(b"of a file".to_vec()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    let around = Surroundings { keys: &keys, injections: &injections, read_file: &read_file };
    parse("s.xml", text.as_bytes(), &around)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

const OPTIONS: &str = "<send><![CDATA[\n OPTIONS sip:a SIP/2.0\n Call-ID: [call_id]\n\n]]></send>";

/// A scenario of an OPTIONS and these elements.
fn with(elements: &str) -> Result<Scenario, Vec<String>> {
    read(&format!("<scenario name=\"x\">\n{OPTIONS}\n{elements}\n</scenario>"))
}

fn refused(elements: &str, what: &str) {
    let problems = with(elements).map(|_| ()).unwrap_err();
    assert!(problems.iter().any(|problem| problem.contains(what)), "{elements}: {problems:?}");
    for problem in problems {
        assert!(problem.starts_with("s.xml:") && problem.contains(';'), "no place or mend: {problem}");
    }
}

#[test]
fn a_scenario_becomes_steps() {
    let scenario = with(
        "<label id=\"l\"/><recv response=\"100\" optional=\"true\" next=\"l\" test=\"v\" chance=\"0.5\"/>\n\
         <recv response=\"200\" rtd=\"true\" timeout=\"500\" ontimeout=\"end\" rrs=\"true\" auth=\"true\" lost=\"10\" crlf=\"true\">\
         <action><assign assign_to=\"v\" value=\"1\"/></action></recv>\n\
         <pause/><pause milliseconds=\"20\"/><pause distribution=\"uniform\" min=\"1\" max=\"2\"/><pause variable=\"v\"/>\n\
         <nop condexec=\"v\" condexec_inverse=\"true\" counter=\"c\" start_rtd=\"t\" display=\"d\" hide=\"true\"/>\n\
         <recv request=\"A|B\" regexp_match=\"true\" optional=\"global\"/>\n\
         <timewait milliseconds=\"4000\"/><label id=\"end\"/>\n\
         <ResponseTimeRepartition value=\"20, 10\"/><CallLengthRepartition value=\"5\"/>",
    )
    .unwrap();
    assert_eq!((scenario.side, scenario.name.as_str(), scenario.steps.len()), (Side::Client, "x", 10));
    assert_eq!(
        (&scenario.timers, &scenario.counters),
        (&vec!["1".to_owned(), "t".into()], &vec!["c".to_owned()])
    );
    assert_eq!((&scenario.response_times_ms, &scenario.call_lengths_ms), (&vec![10, 20], &vec![5]));
    let v = scenario.variables.find("v").unwrap();
    let step = |at: usize| &scenario.steps[at];
    let Op::Recv(first) = &step(1).op else { panic!() };
    let next = step(1).next.unwrap();
    assert_eq!((first.optional, next.to, next.test, next.chance), (Optional::Yes, 1, Some(v), 0.5));
    let Op::Recv(ok) = &step(2).op else { panic!() };
    assert_eq!(
        (ok.timeout_ms, ok.on_timeout, ok.rrs, ok.auth, ok.lost),
        (Some(500), Some(10), true, true, Some(0.1))
    );
    let Expect::Response { code: Code::One(200), transaction: None, methods } = &ok.expect else { panic!() };
    assert_eq!(methods.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["OPTIONS"]);
    assert_eq!((step(2).stop_timer, step(2).line, step(2).actions.len()), (Some(0), 8, 1));
    let pauses: Vec<_> = (3..7)
        .map(|at| match &step(at).op {
            Op::Pause(pause) => pause.clone(),
            _ => panic!(),
        })
        .collect();
    assert!(
        matches!(pauses[..], [Pause::Default, Pause::Fixed(20), Pause::Random(_), Pause::Variable(own)] if own == v)
    );
}

#[test]
fn pauses_in_their_old_form_are_taken() {
    let pause = |attributes: &str| match &with(&format!("<pause {attributes}/>")).unwrap().steps[1].op {
        Op::Pause(pause) => pause.clone(),
        _ => panic!(),
    };
    for (old, new) in [
        ("normal=\"true\" mean=\"60\" stdev=\"15\"", "distribution=\"normal\" mean=\"60\" stdev=\"15\""),
        ("exponential=\"true\" mean=\"60\"", "distribution=\"exponential\" mean=\"60\""),
        ("gamma=\"true\" k=\"2\" theta=\"9\"", "distribution=\"gamma\" k=\"2\" theta=\"9\""),
        ("min=\"5\" max=\"9\"", "distribution=\"uniform\" min=\"5\" max=\"9\""),
        ("normal=\"false\" milliseconds=\"5\"", "distribution=\"fixed\" value=\"5\""),
    ] {
        assert_eq!(pause(old), pause(new), "{old}");
    }
}

#[test]
fn place_of_a_mistake_in_a_message_is_that_of_the_file() {
    for before in ["", "\n  ", "\n<action/>\n\t"] {
        let text = format!(
            "<scenario>\n<send>{before}<![CDATA[\n INFO sip:a SIP/2.0\n X: [nothing]\n]]></send></scenario>"
        );
        let line = text.lines().position(|line| line.contains("nothing")).unwrap() + 1;
        let problems = read(&text).unwrap_err();
        assert!(problems[0].starts_with(&format!("s.xml:{line}:5: ")), "{before:?}: {problems:?}");
    }
}

#[test]
fn conditions_counters_and_the_end() {
    let scenario = with(
        "<nop condexec=\"v\" condexec_inverse=\"true\" counter=\"c\" start_rtd=\"t\" display=\"d\" hide=\"true\"/>\n\
         <recv request=\"A|B\" regexp_match=\"true\" optional=\"global\"/>\n\
         <timewait milliseconds=\"4000\"/><Reference variables=\"v\"/>",
    )
    .unwrap();
    let step = &scenario.steps[1];
    assert!(step.condition.is_some_and(|condition| condition.inverse) && step.hidden);
    assert_eq!((step.counter, step.start_timer, step.display.as_deref()), (Some(0), Some(0), Some("d")));
    let Op::Recv(recv) = &scenario.steps[2].op else { panic!() };
    let Expect::Matching(pattern) = &recv.expect else { panic!() };
    assert!(pattern.matches(b"B") && recv.optional == Optional::Global && recv.advance);
    assert!(matches!(scenario.steps[3].op, Op::Pause(Pause::TimeWait(4000))));
}

#[test]
fn what_calls_share_is_for_one_worker() {
    let of = |action: &str| {
        let text = format!("<Global variables=\"g\"/><nop><action>{action}</action></nop>");
        with(&text).unwrap().shares()
    };
    assert!(of("<add assign_to=\"g\" value=\"1\"/>").is_some_and(|why| why.contains("<Global>")));
    assert!(of("<insert file=\"u.csv\" value=\"a;b\"/>").is_some_and(|why| why.contains("<insert>")));
    assert_eq!(of("<assign assign_to=\"v\" variable=\"g\"/>"), None);
    refused(&OPTIONS.replace("<send", "<send timeout=\"500\""), "no message waits to be sent here");
}

#[test]
fn transactions_are_numbered_and_checked() {
    let invite = "<send start_txn=\"i\"><![CDATA[\n INVITE sip:a SIP/2.0\n\n]]></send>";
    let ack = "<send ack_txn=\"i\"><![CDATA[\n ACK sip:a SIP/2.0\n\n]]></send>";
    let recv = "<recv response=\"200\" response_txn=\"i\"/>";
    let scenario = with(&[invite, recv, ack].concat()).unwrap();
    let Op::Recv(own) = &scenario.steps[2].op else { panic!() };
    assert!(matches!(own.expect, Expect::Response { transaction: Some(0), .. }));
    let Op::Send(send) = &scenario.steps[3].op else { panic!() };
    assert_eq!((send.ack_txn, &send.kind), (Some(0), &Kind::Request("ACK".into())));
    refused(&[invite, recv].concat(), "the transaction `i' is an INVITE's and has no ACK");
    refused(&[invite, ack].concat(), "the transaction `i' has no response");
    refused(&[recv, ack].concat(), "the transaction `i' is never begun");
    refused(
        "<send start_txn=\"i\"><![CDATA[\n ACK sip:a SIP/2.0\n\n]]></send>",
        "an ACK begins no transaction",
    );
    refused("<send ack_txn=\"i\"><![CDATA[\n BYE sip:a SIP/2.0\n\n]]></send>", "for an ACK only");
    refused("<send start_txn=\"i\"><![CDATA[\n SIP/2.0 200 OK\n\n]]></send>", "a response begins");
}

#[test]
fn scopes_the_initialisation_and_unexpected_messages() {
    let scenario = with(
        "<Global variables=\"g, h\"/><User variables=\"u\"/>\n\
         <init><nop next=\"1\"><action><add assign_to=\"g\" value=\"1\"/></action></nop><label id=\"1\"/></init>\n\
         <nop next=\"1\" test=\"u\"/><nop><action><assign assign_to=\"c\" variable=\"h\"/></action></nop><label id=\"1\"/>\n\
         <pause/><label id=\"_unexp.main\"/><nop><action><jump variable=\"_unexp.retaddr\"/></action></nop>",
    )
    .unwrap();
    let scope = |name: &str| scenario.variables.find(name).map(|slot| slot.scope);
    let scopes = ["g", "u", "c", "x"].map(scope);
    assert_eq!(scopes, [Some(Scope::Global), Some(Scope::User), Some(Scope::Call), None]);
    assert_eq!(scenario.shares(), None, "what <init> writes is the same for all");
    assert_eq!(
        (scenario.init.len(), scenario.init[0].next.unwrap().to, scenario.steps[1].next.unwrap().to),
        (1, 1, 3)
    );
    let unexpected = scenario.unexpected.unwrap();
    assert_eq!((unexpected.to, unexpected.return_to), (4, scenario.variables.find("_unexp.retaddr")));
}

#[test]
fn what_is_wrong_is_refused() {
    for (elements, what) in [
        ("<sendCmd><![CDATA[x]]></sendCmd>", "third-party call control"),
        ("<recvCmd/>", "third-party call control"),
        ("<foo/>", "<foo>: unknown element; there are send, recv,"),
        ("<recv/>", "does not say what for"),
        ("<recv response=\"200\" request=\"BYE\"/>", "a response and a request"),
        ("<recv response=\"2xx\"/>", "no response code"),
        ("<recv response=\"20\"/>", "no response code"),
        ("<recv response=\"(2\"/>", "not valid"),
        ("<recv response=\"9\" regexp_match=\"maybe\"/>", "neither true nor false"),
        ("<pause normal=\"true\" mean=\"5\"/>", "needs a number in `stdev'"),
        ("<nop display=\"&#0;\"/>", "no character of XML"),
        ("<pause max=\"5\"/>", "needs a number in `min'"),
        ("<pause normal=\"true\" mean=\"5\" stdev=\"1\" milliseconds=\"5\"/>", "more than one length"),
        ("<send>x<![CDATA[\n INFO sip:a SIP/2.0\n]]></send>", "more text than the message"),
        ("<send><![CDATA[\n INFO sip:a SIP/2.0\n]]> x</send>", "more text than the message"),
        ("<send><![CDATA[\n INFO sip:a SIP/2.0\n]]><![CDATA[x]]></send>", "more text than the message"),
        ("<recv response=\"200\" optional=\"maybe\"/>", "optional=\"maybe\""),
        ("<recv response=\"200\" rrs=\"yes\"/>", "neither true nor false"),
        (
            "<recv response=\"200\" rsr=\"true\"/>",
            "unknown attribute `rsr'; did you mean `rrs'? It may have:",
        ),
        ("<recv response=\"200\" absent=\"true\"/>", "unknown attribute `absent'; it may have:"),
        (
            "<recv respons=\"180\" optional=\"true\"/>",
            "unknown attribute `respons'; did you mean `response'?",
        ),
        ("<recv response=\"200\" next=\"9\"/>", "is no label"),
        ("<recv response=\"200\" test=\"v\"/>", "without `next'"),
        ("<recv response=\"200\" ontimeout=\"9\"/>", "is no label"),
        ("<recv response=\"200\" timeout=\"5s\"/>", "no number of milliseconds"),
        ("<recv response=\"200\" lost=\"200\"/>", "no percentage"),
        ("<recv response=\"200\" repeat_rtd=\"true\"/>", "`repeat_rtd' without `rtd'"),
        ("<recv request=\"(a\" regexp_match=\"true\"/>", "not valid"),
        ("<recv response=\"200\">text</recv>", "it holds text"),
        ("<recv response=\"200\"><foo/></recv>", "cannot stand in <recv>"),
        ("<label id=\"1\"/><label id=\"1\"/>", "is there twice"),
        ("<label/>", "the attribute `id' is missing"),
        ("<pause distribution=\"foo\"/>", "unknown distribution"),
        ("<pause distribution=\"normal\" mean=\"1\"/>", "needs a number in `stdev'"),
        ("<pause distribution=\"exponential\" mean=\"-1\"/>", "mean"),
        ("<pause distribution=\"exponential\" mean=\"1e12\"/>", "24 days"),
        ("<pause milliseconds=\"1\" variable=\"v\"/>", "more than one length"),
        ("<timewait milliseconds=\"1\"/><pause/>", "a step follows <timewait>"),
        ("<send>INVITE sip:a SIP/2.0</send>", "CDATA"),
        ("<send/>", "there is no message in it"),
        ("<send><![CDATA[\n [cseq] sip:a SIP/2.0\n]]></send>", "the first line is neither"),
        ("<send><![CDATA[\n SIP/2.0 20 OK\n]]></send>", "no response code"),
        ("<nop next=\"1\" test=\"v\"/><label id=\"1\"/>", "`v' is never given a value"),
        ("<Global variables=\"g\"/><nop chance=\"2\"/>", "no probability"),
        ("<ResponseTimeRepartition value=\"a\"/>", "no list of numbers"),
        ("<init><pause/></init>", "cannot stand in <init>"),
        ("<init><nop/></init>\n<init><nop/></init>", "s.xml:8:1: <init>: there is an <init> already"),
        (
            "<a></b>",
            "s.xml:7:1: not well-formed XML: <a> has no end before </b> of line 7; add </a>, or write it so",
        ),
    ] {
        refused(elements, what);
    }
    let problems = read("<!DOCTYPE scenario [<!ENTITY a SYSTEM \"/etc/passwd\">]><scenario>&a;</scenario>");
    assert!(problems.unwrap_err().iter().any(|problem| problem.contains("entities are not read")));
    assert!(read("<foo/>").unwrap_err()[0].contains("not <scenario>"));
    assert!(read("<scenario/>").unwrap_err()[0].contains("there is no message in it"));
    assert!(read("").is_err());
}

#[test]
fn fields_without_a_file_are_named_in_one_line() {
    let injections = Injections::default();
    let keys = [("domain".to_owned(), "example.org".to_owned())];
    let around = Surroundings { keys: &keys, injections: &injections, read_file: &|_| Ok(Vec::new()) };
    let text = crate::scenario::builtin("proxy200_auth").unwrap();
    let problems = parse("s.xml", text.as_bytes(), &around).unwrap_err();
    let [only] = &problems[..] else { panic!("{problems:?}") };
    let said = only.to_string();
    assert!(
        said.contains(": [field0], [field1], [field2]: no injection file is given; give one with -inf"),
        "{said}"
    );
}

/// Where an element begins that has no end is what is looked for; what stands in texts and comments is none.
#[test]
fn an_element_without_an_end_is_found() {
    let send = "<send a=\"<x>\">\n<![CDATA[\n</send> INVITE sip:a SIP/2.0\n]]>";
    let first = |text: &str| read(text).map(drop).unwrap_err().remove(0);
    let said = first(&format!("<scenario>\n<!-- <send> -->\n<nop/>\n{send}\n<pause/>\n</scenario>"));
    assert!(
        said.contains("s.xml:4:1: ") && said.contains("<send> has no end before </scenario> of line 9"),
        "{said}"
    );
    let said = first("<scenario>\n<recv request=\"INVITE\">\n");
    assert!(
        said.contains("s.xml:2:24: ") && said.ends_with("<recv> of line 2 has no end; add </recv>"),
        "{said}"
    );
    let said = first("<?xml version=\"1.0\"?>\n<scenario>\n<pause/>\n\n");
    assert!(
        said.contains("s.xml:3:9: ") && said.ends_with("<scenario> of line 2 has no end; add </scenario>"),
        "{said}"
    );
}

/// A keyword of a Call-ID that is mistyped is one mistake.
#[test]
fn a_mistyped_call_id_is_said_once() {
    let wrong = OPTIONS.replace("[call_id]", "[cal_id]");
    assert_ne!(wrong, OPTIONS);
    let problems = read(&format!("<scenario>\n{wrong}\n</scenario>")).map(drop).unwrap_err();
    let [only] = &problems[..] else { panic!("{problems:?}") };
    assert!(only.contains("[cal_id]: unknown keyword"), "{only}");
}

/// What a refusal names is there, and is all there is.
#[test]
fn elements_and_actions_that_are_named_are_there() {
    let words = |list: &str| -> Vec<String> {
        let list = list.trim_start_matches("there are ").replace(" and ", ", ");
        list.split(", ").map(|word| word.split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    let unknown = |elements: &str, what: &str| {
        with(elements).err().is_some_and(|problems| problems.iter().any(|problem| problem.contains(what)))
    };
    let (elements, actions) = (words(super::ELEMENTS), words(super::action::ACTIONS));
    assert_eq!((elements.len(), actions.len()), (12, 24));
    for name in elements {
        assert!(!unknown(&format!("<{name}/>"), "unknown element"), "{name}");
    }
    for name in actions {
        assert!(!unknown(&format!("<nop><action><{name}/></action></nop>"), "unknown action"), "{name}");
    }
}

#[test]
fn what_would_not_find_its_call_is_refused() {
    let send = |call_id: &str| {
        format!("<send><![CDATA[\n\n  INFO sip:a SIP/2.0\n  {call_id}\n\n]]></send><recv response=\"200\"/>")
    };
    for own in [
        "Call-ID: 1-2@h",
        "call-id : [pid]-[call_number]",
        "i:x[call_id]",
        "Call-ID: a///b[call_id]",
        "Call-ID:",
    ] {
        let problems = with(&send(own)).map(|_| ()).unwrap_err();
        // The OPTIONS of three lines comes before.
        let what =
            "s.xml:10:3: <send>: no answer would find its call by this Call-ID; write Call-ID: [call_id]";
        assert!(problems.len() == 1 && problems[0].starts_with(what), "{own}: {problems:?}");
    }
    for (own, prefixes) in [
        ("Call-ID: [call_id]", false),
        ("I: [call_id]-2", false),
        ("[last_Call-ID:]", false),
        ("X-Call-ID: 1", false),
        ("Call-ID: abc///[call_id]", true),
        ("Call-ID: [pid]///[call_id]", true),
        ("Call-ID: [$v]", true),
    ] {
        let text = send(own) + "<Reference variables=\"v\"/>";
        assert_eq!(with(&text).map(|own| own.prefixes_call_ids), Ok(prefixes), "{own}");
    }
    // Nothing is to come back to it, and a callee answers by what it got.
    assert!(with("<send><![CDATA[\n INFO sip:a SIP/2.0\n Call-ID: 1\n\n]]></send>").is_ok());
    assert!(read(&format!("<scenario><recv request=\"A\"/>{}</scenario>", send("Call-ID: 1"))).is_ok());
}

#[test]
fn wrong_actions_are_refused() {
    for (action, what) in [
        ("<exec command=\"ls\"/>", "no programs are run"),
        ("<exec play_pcap_audio=\"a.pcap\"/>", "media are not sent"),
        ("<exec rtp_stream=\"a.wav\"/>", "media are not sent"),
        ("<exec int_cmd=\"halt\"/>", "unknown internal command"),
        ("<exec/>", "what to do"),
        ("<setdest host=\"a\" port=\"1\" protocol=\"UDP\"/>", "cannot change where it sends"),
        ("<foo/>", "unknown action; there are ereg, log,"),
        ("<closecon/>", "with -t tn it is closed when the call is over"),
        ("<ereg regexp=\"(a\" assign_to=\"1\"/>", "not valid"),
        ("<ereg regexp=\"a\" assign_to=\"1,2\"/>", "2 variables for a match and 0 group(s)"),
        ("<ereg regexp=\"a\" search_in=\"hdr\" assign_to=\"1\"/>", "without `header'"),
        ("<ereg regexp=\"a\" search_in=\"var\" assign_to=\"1\"/>", "without `variable'"),
        ("<ereg regexp=\"a\" search_in=\"foo\" assign_to=\"1\"/>", "search_in=\"foo\""),
        ("<ereg regexp=\"a\" check_it=\"true\" check_it_inverse=\"true\" assign_to=\"1\"/>", "keep one"),
        ("<ereg regexp=\"a\"/>", "`assign_to' is missing"),
        ("<assign assign_to=\"1\"/>", "neither `value' nor `variable'"),
        ("<assign assign_to=\"1\" value=\"1\" variable=\"1\"/>", "both `value' and `variable'"),
        ("<assign assign_to=\"1\" value=\"x\"/>", "no number"),
        ("<assign assign_to=\"$1\" value=\"1\"/>", "no name of a variable"),
        ("<divide assign_to=\"1\" value=\"0\"/>", "division by zero"),
        ("<test assign_to=\"1\" variable=\"1\" compare=\"same\" value=\"1\"/>", "unknown comparison"),
        ("<test variable=\"1\" compare=\"equal\" value=\"1\"/>", "nothing is made of the result"),
        ("<strcmp assign_to=\"1\" variable=\"1\"/>", "needs `value' or `variable2'"),
        ("<lookup assign_to=\"1\" file=\"v.csv\" key=\"a\"/>", "no injection file `v.csv'"),
        ("<gettimeofday assign_to=\"1\"/>", "two variables"),
        ("<log message=\"[foo]\"/>", "unknown keyword; give -key foo VALUE"),
        ("<log message=\"[authentication]\"/>", "outside of the headers"),
        ("<log/>", "`message' is missing"),
        ("<jump value=\"99\"/>", "there is no step 99"),
    ] {
        refused(&format!("<nop><action>{action}</action></nop>"), what);
    }
    refused("<nop><action/><action/></nop>", "second <action>");
}

#[test]
fn wrong_keywords_are_refused_where_they_stand() {
    for (keyword, what) in [
        ("[foo]", "s.xml:4:6: [foo]: unknown keyword; give -key foo VALUE"),
        ("[::1]", "unknown keyword; write \\x5b"),
        ("[call_id", "a keyword does not end in this line"),
        ("[field2]", "u.csv:2 has only 2 field(s), field0 to field1"),
        ("[field0 file=\"v.csv\"]", "there is no file `v.csv'"),
        ("[field0 row=1]", "unknown parameter `row'"),
        ("[service foo=1]", "[service foo=1]: unknown parameter `foo'; take it out, it has none"),
        ("[cseq x=2]", "unknown parameter `x'"),
        ("[remote_port+1 x]", "unknown parameter `x'"),
        ("[call_number x=]", "unknown parameter `x'"),
        ("[branch-1 method=INVITE]", "unknown parameter `method'"),
        ("[last_From: x=1]", "unknown parameter `x'"),
        ("[domain x=1]", "unknown parameter `x'"),
        ("[file name=\"g\"]", "g cannot be read"),
        ("[file name=\"[field0]\"]", "not fixed"),
        ("[tdmmap]", "TDM circuits"),
        ("[rtpstream_audio_port]", "media are not sent"),
        ("[authentication aka_K=1]", "AKA is not supported"),
        ("[fill]", "how much"),
        ("[$v]", "`v' is never given a value"),
        ("[$]", "no name of a variable"),
        ("\n\n [len]", "[len]: it stands outside of the headers"),
        ("[len][len][len][len][len]", "too many in one message"),
    ] {
        let text = format!(
            "<scenario>\n<send><![CDATA[\n INVITE sip:a SIP/2.0\n X: é{keyword}\n\n]]></send></scenario>"
        );
        let text = text.replace('é', "x");
        let problems = read(&text).map(|_| ()).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(what)), "{keyword}: {problems:?}");
    }
}

#[test]
fn all_problems_come_at_once_in_the_order_of_the_file() {
    let problems = with("<recv response=\"200\" next=\"9\"/>\n<foo/>\n<pause milliseconds=\"x\"/>")
        .map(|_| ())
        .unwrap_err();
    let lines: Vec<&str> = problems.iter().map(|problem| problem.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["7", "8", "9"], "{problems:?}");
}

#[test]
fn messages_are_kept_only_where_they_are_used_later() {
    let keeps = |elements: &str| {
        let scenario = read(&format!("<scenario>{elements}</scenario>")).unwrap();
        let keeps: Vec<bool> = scenario
            .steps
            .iter()
            .filter_map(|step| match &step.op {
                Op::Recv(recv) => Some(recv.keep),
                _ => None,
            })
            .collect();
        assert_eq!(scenario.keeps_messages, keeps.contains(&true));
        keeps
    };
    let recv = "<recv request=\"INVITE\"/>";
    let ok = "<send><![CDATA[\n SIP/2.0 200 OK\n [last_Via:]\n]]></send>";
    assert_eq!(keeps(&[recv, ok, recv, ok].concat()), [false, false], "answered at once");
    assert_eq!(keeps(&[recv, "<pause/>", ok, recv, ok].concat()), [true, false], "answered later");
    let timeout = "<recv request=\"ACK\" timeout=\"5\" ontimeout=\"1\"/><pause/>";
    assert_eq!(
        keeps(&[recv, timeout, "<label id=\"1\"/>", ok].concat()),
        [true, true],
        "used after a timeout"
    );
    assert_eq!(
        keeps(&[recv, "<nop><action><jump value=\"1\"/></action></nop>", ok].concat()),
        [true],
        "a jump"
    );
}

#[test]
fn deep_nesting_does_no_harm() {
    for inner in ["<a>", "<recv>", "<send><action>"] {
        assert!(read(&format!("<scenario>{}", inner.repeat(100_000))).is_err());
        let close = inner.replace('<', "</");
        let whole = [inner.repeat(50_000), close.repeat(50_000)].concat();
        assert!(read(&format!("<scenario>{whole}</scenario>")).is_err());
    }
    let keyword = "[field0 line=".repeat(20_000) + &"]".repeat(20_000);
    assert!(with(&format!("<nop><action><log message=\"{keyword}\"/></action></nop>")).is_err());
}

#[test]
fn a_large_file_is_read_at_once() {
    let elements = "<pause milliseconds=\"1\"/>\n<nop/>\n<label id=\"l\"/>\n".repeat(20_000);
    let problems = with(&elements).map(|_| ()).unwrap_err();
    assert_eq!(problems.len(), 19_999, "labels that are there twice");
}

#[test]
fn latin_files_send_their_own_bytes() {
    let text = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><scenario><send><![CDATA[\n INFO sip:a SIP/2.0\n X: \xe9\n]]></send></scenario>";
    let injections = Injections::default();
    let around = Surroundings {
        keys: &[],
        injections: &injections,
        read_file: &|_| Err(io::ErrorKind::NotFound.into()),
    };
    let scenario = parse("s", text, &around).unwrap();
    let Op::Send(send) = &scenario.steps[0].op else { panic!() };
    let (_, text) = super::super::template::tests::render(&send.template, |_| {});
    assert_eq!(text, b"INFO sip:a SIP/2.0\r\nX: \xe9\r\n\r\n");
}

#[test]
fn timers_are_as_many_as_are_kept() {
    let timers = |count: usize| (0..count).map(|n| format!("<nop rtd=\"t{n}\"/>")).collect::<String>();
    assert_eq!(with(&timers(64)).map(|scenario| scenario.timers.len()), Ok(64));
    refused(&timers(65), "more than 64 different response timers");
}

/// A scenario with a bit of everything, to be damaged.
const SEED: &str = include_str!("../builtin/proxy200_auth.xml");

proptest! {
    #[test]
    fn damaged_files_are_refused_in_peace(
        at in any::<proptest::sample::Index>(),
        len in 0..40usize,
        what in "([<>/\"'=\\[\\]\\\\a-z&! \n-]|<!--|<!\\[CDATA\\[|\\]\\]>|next=\"|<action>|<ereg |\\[field|\\[last_|\\[len){0,6}",
    ) {
        let mut text = SEED.as_bytes().to_vec();
        let from = at.index(text.len());
        let to = (from + len).min(text.len());
        text.splice(from..to, what.bytes());
        let text = String::from_utf8_lossy(&text).into_owned();
        match read_with(&text, &["a;b;c;d"]) {
            Ok(scenario) => {
                for step in &scenario.steps {
                    if let Op::Send(send) = &step.op {
                        let _ = super::super::template::tests::render(&send.template, |_| {});
                    }
                }
            }
            Err(problems) => prop_assert!(!problems.is_empty()),
        }
    }
}
