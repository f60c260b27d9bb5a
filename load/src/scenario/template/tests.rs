//! Texts as they must come out.

use super::super::credentials::Challenge;
use super::super::facts::{Desk, Facts, Run};
use super::super::inject::{Injection, Injections};
use super::super::read::tests::{read, read_with};
use super::super::steps::Scenario;
use super::super::variables::{Scope, Value, Values, Vars};
use super::{Fault, Template};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

const LAST: &[u8] = b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKa\r\nv: SIP/2.0/UDP 10.0.0.2\r\n\
    f: <sip:a@b>;tag=x\r\nTo: \"B\" <sip:b@c>;tag=zz\r\nCSeq: 41 INVITE\r\nX-Folded: a\r\n b\r\nContent-Length: 4\r\n\r\nTo: ";

pub(in super::super) fn run() -> Run {
    Run {
        service: "service".into(),
        remote_host: "host".into(),
        remote_ip: "[2001:db8::1]".into(),
        remote_port: 5070,
        transport: "UDP",
        media_ip: "127.0.0.3".into(),
        media_port: 6000,
        pid: 77,
        auth_user: b"au".to_vec(),
        auth_password: b"ap".to_vec(),
        auth_uri: None,
        users: -1,
        local_ip: None,
        local_port: None,
        version: "v",
    }
}

/// Renders for a call in the middle of its life, with one injection line `ann;secret;bob`.
pub(in super::super) fn render(
    template: &Template,
    change: impl FnOnce(&mut Facts<'_>),
) -> (Result<(), Fault>, Vec<u8>) {
    let (run, mut values) = (run(), [(); 3].map(|()| Values::default()));
    let [call, user, global] = &mut values;
    render_with(&run, template, &Vars { call, user, global }, change)
}

fn render_with(
    run: &Run,
    template: &Template,
    vars: &Vars<'_>,
    change: impl FnOnce(&mut Facts<'_>),
) -> (Result<(), Fault>, Vec<u8>) {
    let file = b"SEQUENTIAL\nann;secret;bob;\n#\ncat;[authentication username=joe password=\"a b\"];x;y\n";
    let injections = Injections { files: vec![Injection::parse("u.csv", file).unwrap()] };
    let mut desk = Desk::new(injections, 1, 10_000);
    let mut challenge = Challenge::default();
    let header = "Proxy-Authenticate: Digest realm=\"r\",nonce=\"n\"";
    super::super::credentials::tests::tell(&mut challenge, 407, header);
    let mut facts = Facts {
        run,
        desk: &mut desk,
        call_number: 3,
        call_id: b"3-77@h",
        local_ip: b"127.0.0.2",
        local_port: 5060,
        step: 4,
        round: 0,
        cseq: 9,
        last: LAST,
        outline: None,
        peer_tag: b"zz",
        routes: b"<sip:r;lr>",
        next_url: b"sip:next",
        challenge: Some(&mut challenge),
        lines: &[0],
        user: 5,
        wall_micros: 1_635_146_455_000_000,
        tick_ms: 104,
    };
    change(&mut facts);
    let mut out = b"before".to_vec();
    let result = template.render(&mut facts, vars, &mut out);
    (result, out.split_off(6))
}

fn scenario(lines: &str) -> Scenario {
    let text = format!(
        "<scenario><send><![CDATA[\n INFO sip:q@w SIP/2.0\n{lines}]]></send><Reference variables=\"v,n\"/></scenario>"
    );
    read_with(&text, &["a;b;c;d"]).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn template(scenario: &Scenario) -> &Template {
    scenario.templates().next().unwrap()
}

/// The lines after the first of a message of these lines, unbound and bound.
fn shown_to(lines: &str, change: impl Fn(&mut Facts<'_>)) -> String {
    let mut scenario = scenario(lines);
    let (result, text) = render(template(&scenario), &change);
    assert_eq!(result, Ok(()));
    for local in [None, Some("127.0.0.2".to_owned())] {
        let run = Run { local_port: local.as_ref().map(|_| 5060), local_ip: local, ..run() };
        scenario.bind(&run);
        let (result, bound) = render(template(&scenario), &change);
        assert_eq!((result, String::from_utf8_lossy(&bound)), (Ok(()), String::from_utf8_lossy(&text)));
    }
    let text = String::from_utf8(text).unwrap();
    text.strip_prefix("INFO sip:q@w SIP/2.0\r\n").unwrap().to_owned()
}

fn shown(lines: &str) -> String {
    shown_to(lines, |_| {})
}

#[test]
fn white_space_is_sipps() {
    let text = shown("   To: a   \n\tFrom: b\t\n\n     m=audio  1\n\n   x \n\n\n   ");
    assert_eq!(text, "To: a\r\nFrom: b\r\n\r\nm=audio  1\r\n\r\nx\r\n");
    assert_eq!(shown("To: a\n\n  "), "To: a\r\n\r\n", "no body");
    assert_eq!(shown("To: a"), "To: a\r\n\r\n");
    assert_eq!(shown("To: a\n\nbody"), "To: a\r\n\r\nbody", "no line end after the last line, none there");
    assert_eq!(shown("A: \\x5bfoo] \\x41\\xzz"), "A: [foo] A\\xzz\r\n\r\n");
}

#[test]
fn keywords_show_what_they_say() {
    for (keyword, text) in [
        ("[service]", "service"),
        ("[remote_host]", "host"),
        ("[remote_ip]:[remote_port]", "[2001:db8::1]:5070"),
        ("[remote_port+3]", "5073"),
        ("[transport]", "UDP"),
        ("[local_ip]:[local_port-1]", "127.0.0.2:5059"),
        ("[server_ip][local_ip_type]", "127.0.0.24"),
        ("[media_ip][media_ip_type]", "127.0.0.34"),
        ("[media_port+2] [auto_media_port]", "6002 6008"),
        ("[call_number]", "3"),
        ("[call_id]", "3-77@h"),
        ("[cseq] [cseq+1]", "9 10"),
        ("[branch] [branch-2]", "z9hG4bK-77-3-4 z9hG4bK-77-3-2"),
        ("[branch-7]", "z9hG4bK-77-3--3"),
        ("[msg_index]", "4"),
        ("[peer_tag_param]", ";tag=zz"),
        ("[routes]", "Route: <sip:r;lr>"),
        ("[next_url]", "sip:next"),
        ("[pid] [users] [userid] [clock_tick]", "77 -1 5 104"),
        ("[dynamic_id] [dynamic_id]", "10000 10001"),
        ("[sipp_version]", "v"),
        ("[date]", "Mon, 25 Oct 2021 07:20:55 GMT"),
        ("[last_cseq_number+1]", "42"),
        ("[last_Request_URI]", "sip:b@c"),
        ("[last_From]", "f: <sip:a@b>;tag=x"),
        ("[last_to:];more", "To: \"B\" <sip:b@c>;tag=zz;more"),
        ("[last_Via:]", "Via: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKa, SIP/2.0/UDP 10.0.0.2"),
        ("[last_x-folded:]", "X-Folded: a\r\n b"),
        ("[domain]", "example.org"),
        ("[field0]-[field1]", "ann-secret"),
        ("[field0 file=\"u.csv\" line=1]", "cat"),
        ("[file name=\"f\"]", "of a file"),
        ("[file name=f]", "of a file"),
    ] {
        // In the middle of a line, and as the whole line.
        assert_eq!(shown(&format!("A: {keyword};")), format!("A: {text};\r\n\r\n"));
        assert_eq!(shown(keyword), format!("{text}\r\n\r\n"));
    }
    let looped = shown_to("A: [branch]", |facts| facts.round = 2);
    assert_eq!(looped, "A: z9hG4bK-77-3-4-2\r\n\r\n", "a second round has branches of its own");
}

#[test]
fn transport_in_a_uri_is_ws_over_tls_as_well() {
    for (transport, in_uri) in [("TLS", "TLS"), ("WS", "ws"), ("WSS", "ws")] {
        let mut scenario = scenario("Via: SIP/2.0/[transport] x\nContact: <sip:a;Transport=[transport]>");
        scenario.bind(&Run { transport, ..run() });
        let text = String::from_utf8(render(template(&scenario), |_| {}).1).unwrap();
        let wanted = format!("Via: SIP/2.0/{transport} x\r\nContact: <sip:a;Transport={in_uri}>\r\n\r\n");
        assert!(text.ends_with(&wanted), "{text}");
    }
}

#[test]
fn lines_without_content_are_dropped() {
    let nothing = |facts: &mut Facts<'_>| (facts.routes, facts.last) = (b"", b"");
    let text = "A: 1\n[routes]\nB: 2\n[last_To:];x=[call_id]\n[$v][last_To:][$v]\nC: [last_To:]3\n[field3]\nD: [$v]\n[routes]\n\n[$v]\nbody\n[last_From:]\n";
    assert_eq!(shown_to(text, nothing), "A: 1\r\nB: 2\r\nC: 3\r\nD: \r\n\r\nbody\r\n");
    assert_eq!(shown("[$v]x"), "x\r\n\r\n", "text after a variable stays");
    assert_eq!(shown_to("[routes]", nothing), "\r\n");
}

#[test]
fn lengths_are_those_of_the_body() {
    for body in [0, 1, 9, 10, 99, 100, 999, 1000, 12_345] {
        let text = shown_to(&format!("L: [len]; [len+3]\nM: 1\n\n[next_url]{}", "x".repeat(body)), |facts| {
            facts.next_url = b""
        });
        let want = format!("L: {body}; {}\r\nM: 1\r\n\r\n{}", body + 3, "x".repeat(body));
        assert_eq!(text, if body == 0 { want + "" } else { want });
    }
    // A body much longer than it looks.
    let long: &'static str = "y".repeat(700).leak();
    let text = shown_to("L: [len]\n\n[next_url]", |facts| facts.next_url = long.as_bytes());
    assert_eq!(text, format!("L: 700\r\n\r\n{long}"));
    assert_eq!(shown("L: [len]\nM: [len-1]"), "L: 0\r\nM: 0\r\n\r\n", "no body; never below zero");
}

#[test]
fn body_is_what_stands_in_the_section() {
    let of = |body: &str, end: &str| {
        let lines = "INFO sip:a SIP/2.0\nContent-Length: [len]";
        let text = format!("<scenario><send>\n  <![CDATA[\n{lines}\n\n{body}]]>{end}</send></scenario>");
        let scenario = read(&text).unwrap();
        let sent = String::from_utf8(render(template(&scenario), |_| {}).1).unwrap();
        let (head, body) = sent.split_once("\r\n\r\n").unwrap();
        let length: usize = head.rsplit(' ').next().unwrap().parse().unwrap();
        assert_eq!(length, body.len(), "{sent}");
        body.to_owned()
    };
    for end in ["", "\n", "\n\n  ", "\r\n"] {
        assert_eq!(of("abc", end), "abc", "{end:?}");
        assert_eq!(of("abc\n", end), "abc\r\n", "{end:?}");
        assert_eq!(of("a\r\nbc", end), "a\r\nbc", "{end:?}");
        assert_eq!(of("", end), "", "{end:?}");
    }
}

#[test]
fn random_texts_differ_and_follow_the_seed() {
    let lines = "A: [random length=8 of=0-9][random length=1-3]|[random]";
    let text = format!("<scenario><send><![CDATA[\n INFO sip:q@w SIP/2.0\n{lines}]]></send></scenario>");
    let problems = read_with(&text, &["a;b"]).unwrap_err();
    assert!(problems[0].to_string().contains("[random]: it does not say how long"), "{problems:?}");
    let scenario = scenario("A: [random length=8 of=0-9]\nB: [random length=8 of=0-9]");
    let shown = || String::from_utf8(render(template(&scenario), |_| {}).1).unwrap();
    let text = shown();
    let values: Vec<&str> = text.lines().skip(1).take(2).filter_map(|line| line.get(3..)).collect();
    assert!(
        values.iter().all(|value| value.len() == 8 && value.bytes().all(|b| b.is_ascii_digit())),
        "{text}"
    );
    assert_ne!(values[0], values[1]);
    assert_eq!(shown(), text);
}

#[test]
fn variables_and_fillings_are_shown() {
    let scenario = scenario("A: [$v][$n] [fill variable=n] [fill variable=n text=\"ab\"]\n[$v]");
    let mut call = scenario.variables.values(Scope::Call);
    let (mut user, mut global) = (Values::default(), Values::default());
    let mut vars = Vars { call: &mut call, user: &mut user, global: &mut global };
    let set = |vars: &mut Vars<'_>, name: &str, change: &dyn Fn(&mut Value)| {
        let slot = scenario.variables.find(name).unwrap();
        change(vars.get_mut(slot).unwrap());
    };
    set(&mut vars, "v", &|value| value.set_text(b"w"));
    set(&mut vars, "n", &|value| value.set_number(3.0));
    let (_, text) = render_with(&run(), template(&scenario), &vars, |_| {});
    // SIPp fills with this letter.
    let filled = "X".repeat(3);
    let expected = format!("INFO sip:q@w SIP/2.0\r\nA: w3.000000 {filled} aba\r\nw\r\n\r\n");
    assert_eq!(String::from_utf8_lossy(&text), expected);
    set(&mut vars, "n", &|value| value.set_number(-1e300));
    set(&mut vars, "v", &|value| value.set_number(1e300));
    assert!(render_with(&run(), template(&scenario), &vars, |_| {}).0.is_ok());
}

#[test]
fn credentials_answer_for_the_request_they_stand_in() {
    let user = |text: &str| text.split("username=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let uri = |text: &str| text.split("uri=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let text = shown("[authentication]");
    assert!(text.starts_with("Proxy-Authorization: Digest ") && text.ends_with("\r\n\r\n"), "{text}");
    assert_eq!((user(&text), uri(&text)), ("au".to_owned(), "sip:q@w".to_owned()));
    let (a, b) = (
        shown("[authentication username=joe password=\"ap\"]"),
        shown("[authentication username=[field0] password=[field1]]"),
    );
    assert_eq!((user(&a), user(&b)), ("joe".to_owned(), "ann".to_owned()));
    assert_ne!(shown("[authentication password=x]"), text, "another password, another proof");
    // A whole keyword from an injection file.
    let field = shown_to("[field1]", |facts| facts.lines = &[1]);
    assert_eq!(user(&field), "joe");
    assert_eq!(field, shown("[authentication username=joe password=\"a b\"]"));
    let own = scenario("[authentication]");
    let fixed = Run { auth_uri: Some(b"sip:fixed".to_vec()), ..run() };
    let mut values = [(); 3].map(|()| Values::default());
    let [call, user, global] = &mut values;
    let (_, text) = render_with(&fixed, template(&own), &Vars { call, user, global }, |_| {});
    assert_eq!(uri(&String::from_utf8_lossy(&text)), "sip:fixed");
}

#[test]
fn what_cannot_be_shown_is_a_fault() {
    let fault = |lines: &str, change: &dyn Fn(&mut Facts<'_>)| render(template(&scenario(lines)), change).0;
    assert_eq!(fault("[authentication]", &|facts| facts.challenge = None), Err(Fault::NoChallenge));
    assert_eq!(fault("[field0]", &|facts| facts.lines = &[]), Err(Fault::NoField));
    assert_eq!(fault("[field0 line=7]", &|_| {}), Err(Fault::NoField));
    assert_eq!(fault("[field0 line=[$v]]", &|_| {}), Err(Fault::NoField));
}

#[test]
fn texts_of_actions_have_keywords_and_escapes() {
    let text = "<scenario><recv request=\"A\"><action><log message=\"a\\nb [call_id] \\x5b[last_CSeq:]\"/></action></recv></scenario>";
    let scenario = read(text).unwrap();
    let (_, text) = render(template(&scenario), |_| {});
    assert_eq!(String::from_utf8_lossy(&text), "a\r\nb 3-77@h [CSeq: 41 INVITE");
}

proptest! {
    /// Bound or not, whatever was received, the same text comes out, and its length is right.
    #[test]
    fn any_template_is_rendered_in_peace(
        lines in "(\\[(service|branch|cseq|last_To:|last_From|routes|\\$v|field1|local_ip|pid|len|next_url)\\]|[a-zé: ]|\n){0,30}",
        last in proptest::collection::vec(any::<u8>(), 0..80),
        empty in any::<bool>(),
    ) {
        let text = format!("<scenario><send><![CDATA[\n INFO sip:q@w SIP/2.0\nLen: [len]\n{lines}\n]]></send><Reference variables=\"v\"/></scenario>");
        if let Ok(mut scenario) = read(&text) {
            let last: &'static [u8] = last.leak();
            let change = |facts: &mut Facts<'_>| {
                if empty {
                    facts.routes = b"";
                    facts.last = last;
                }
            };
            let (result, text) = render(template(&scenario), change);
            prop_assert_eq!(result, Ok(()));
            scenario.bind(&run());
            prop_assert_eq!(&render(template(&scenario), change).1, &text);
            let whole = String::from_utf8_lossy(&text).into_owned();
            let length: usize = whole.split("Len: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
            let head = whole.find("\r\n\r\n").unwrap() + 4;
            prop_assert!(whole.len() - head == length || !whole.is_ascii());
        }
    }
}

/// Keywords whose texts a model can or cannot make.
const LINES: [&str; 14] = [
    "Call-ID: [call_id]\n",
    "X: [call_number];[branch];[msg_index]\n",
    "[last_Via:]\n",
    "[last_Subject:]\n",
    "Y: [next_url][peer_tag_param]\n",
    "[routes]\n",
    "CSeq: [cseq+7] INFO\n",
    "Z: [local_ip]:[local_port] [userid]\n",
    "D: [dynamic_id]\n",
    "[last_CSeq:]\n",
    "W: [last_cseq_number-2]\n",
    "F: [field2];[field0]\n",
    "L: [len]\nA: [call_id]\nM: [len+90]\nB: [call_number]\n",
    "Content-Length: [len]\n\n[call_id][call_number][call_number]\n",
];

proptest! {
    /// Whatever was made before, a text made with a model is the one that is made without.
    #[test]
    fn a_model_changes_nothing(
        lines in proptest::collection::vec(0..LINES.len() - 1, 1..8),
        body in any::<bool>(),
        calls in proptest::collection::vec(
            (0..120_u64, "[0-9]{1,3}", "|a{0,1}b", "|<r>|<rr>", (0..3_usize, 4..6_usize, 0..2_u32), any::<u8>()), 1..12,
        ),
    ) {
        let last = body.then_some(LINES.len() - 1);
        let (mut lines, lengths) = (lines, LINES.len() - 2);
        // Four lengths in one message are the most.
        if let Some(first) = lines.iter().position(|&at| at == lengths) {
            let mut nth = 0;
            lines.retain(|&at| {
                nth += 1;
                at != lengths || nth == first + 1
            });
        }
        let scenario = scenario(&lines.into_iter().chain(last).map(|at| LINES[at]).collect::<String>());
        let (run, mut values) = (run(), [(); 3].map(|()| Values::default()));
        let [call, user, global] = &mut values;
        let vars = Vars { call, user, global };
        let file = Injection::parse("u.csv", b"SEQUENTIAL\na;b;c\n[authentication];b;e\nfg;;h\n").unwrap();
        let mut desk = Desk::new(Injections { files: vec![file] }, 1, 10_000);
        let mut model = super::Model::default();
        let mut index = sip_message::Index::new();
        for (number, id, tag, routes, (vias, step, round), cseq) in calls {
            let last = format!("SIP/2.0 200 OK\r\n{}Via: SIP/2.0/UDP a;branch=z9hG4bK{id}\r\nFrom: <sip:a@b>;tag=1\r\n\
                To: <sip:c@d>\r\nCall-ID: {id}\r\nCSeq: {cseq} INFO\r\n{}\r\n",
                "v: SIP/2.0/UDP b\r\n".repeat(vias), if id.len() == 2 { "Subject: x\r\n" } else { "" });
            let limits = sip_message::Limits::default();
            let sip_message::Parsed::Good(message) = sip_message::parse(last.as_bytes(), &mut index, &limits) else {
                panic!("a good message")
            };
            let mut outline = super::Outline::default();
            outline.learn(&scenario.headers, &message);
            let shown = [false, true].map(|with| {
                desk.dynamic_id = number;
                let mut facts = Facts {
                    run: &run, desk: &mut desk, call_number: number, call_id: id.as_bytes(),
                    local_ip: routes.as_bytes(), local_port: u16::from(cseq), step, round, cseq: u32::from(cseq) * 9,
                    last: last.as_bytes(), outline: (cseq % 16 > 0).then_some(&outline), peer_tag: tag.as_bytes(),
                    routes: routes.as_bytes(), next_url: tag.as_bytes(), challenge: None, lines: &[u32::from(cseq) % 3], user: number,
                    wall_micros: 0, tick_ms: 0,
                };
                let (mut out, own) = (b"before".to_vec(), template(&scenario));
                let result = match with {
                    true => own.render_like(&mut model, &mut facts, &vars, &mut out),
                    false => own.render(&mut facts, &vars, &mut out),
                };
                (result, String::from_utf8(out).unwrap())
            });
            prop_assert_eq!(&shown[0], &shown[1]);
        }
    }
}

/// Or the test above would show nothing.
#[test]
fn a_model_is_used_where_it_can_be() {
    let own = scenario("Call-ID: [call_id]\n[routes]\nCSeq: [cseq] INFO\nContent-Length: [len]\n\nx\n");
    let mut model = super::Model::default();
    let mut shown = |change: fn(&mut Facts<'_>)| {
        let mut text = Vec::new();
        let (result, plain) = render(template(&own), |facts| {
            change(facts);
            let mut values = [(); 3].map(|()| Values::default());
            let [call, user, global] = &mut values;
            let vars = Vars { call, user, global };
            template(&own).render_like(&mut model, facts, &vars, &mut text).unwrap();
        });
        assert_eq!((result, text), (Ok(()), plain));
        model.uses()
    };
    assert_eq!(shown(|_| {}), 0);
    assert_eq!(shown(|facts| facts.call_id = b"4-88@i"), 1);
    assert_eq!(shown(|facts| facts.cseq = 8), 2);
    assert_eq!(shown(|facts| facts.call_id = b"longer-88@i"), 2);
    assert_eq!(shown(|facts| facts.call_id = b"LONGER-99@i"), 3);
    assert_eq!(shown(|facts| facts.routes = b""), 3);
    assert_eq!(shown(|facts| facts.step = 5), 3);
}

/// Renders for each of these messages received, with the help of the one before, and compares with a plain
/// rendering. How often that help was used until then.
fn rendered_alike(own: &Scenario, received: impl IntoIterator<Item = String>) -> Vec<usize> {
    let mut index = sip_message::Index::new();
    let mut model = super::Model::default();
    let mut used = Vec::new();
    for last in received {
        let limits = sip_message::Limits::default();
        let sip_message::Parsed::Good(message) = sip_message::parse(last.as_bytes(), &mut index, &limits)
        else {
            panic!("a good message")
        };
        let mut outline = super::Outline::default();
        outline.learn(&own.headers, &message);
        // Facts of these tests may outlive what they are made in.
        let outline = &*Box::leak(Box::new(outline));
        let last = &*last.leak();
        let (result, text) = render(template(own), |facts| {
            (facts.last, facts.outline) = (last.as_bytes(), Some(outline));
            let mut values = [(); 3].map(|()| Values::default());
            let [call, user, global] = &mut values;
            let (vars, mut text) = (Vars { call, user, global }, Vec::new());
            template(own).render_like(&mut model, facts, &vars, &mut text).unwrap();
            let (_, plain) = render(template(own), |plain| plain.last = last.as_bytes());
            assert_eq!(String::from_utf8(text), String::from_utf8(plain));
        });
        assert!(result.is_ok() && !text.is_empty());
        used.push(model.uses());
    }
    used
}

/// Headers of the message received are copied over those of the one before.
#[test]
fn headers_of_the_same_length_are_copied() {
    let own = scenario("[last_Via:]\n[last_From:]\n[last_To:];tag=[call_number]\n[last_Call-ID:]\n");
    let received = (10..16).map(|nth| {
        format!(
            "BYE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK{nth}\r\nv: SIP/2.0/UDP b\r\nMax-Forwards: 70\r\n\
            From: <sip:a@b>;tag={nth}\r\nTo: <sip:c@d>\r\nCall-ID: {nth}{}\r\nCSeq: 1 BYE\r\n\r\n",
            if nth == 14 { "x" } else { "" }
        )
    });
    // The first makes the model; one that is longer makes it anew, and so does the one after it.
    assert_eq!(rendered_alike(&own, received), [0, 1, 2, 3, 3, 3]);
}

/// The commas between values are where the received message has them.
#[test]
fn values_of_other_lengths_are_copied_with_their_commas() {
    let own = scenario("[last_Via:]\n");
    let received = [("aa", "bbbb"), ("aaa", "bbb"), ("ccc", "ddd"), ("ee", "ffff"), ("gg", "hhhh")].map(|(a, b)| {
        format!(
            "BYE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK{a}\r\nVia: SIP/2.0/UDP i;branch=z9hG4bK{b}\r\n\
            Max-Forwards: 70\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: 1\r\nCSeq: 1 BYE\r\n\r\n"
        )
    });
    assert_eq!(rendered_alike(&own, received), [0, 1, 2, 3, 4]);
}
