//! Calls to users who have rules for them: forwarding (RFC 5806, RFC 7044), do not disturb, ring time,
//! numbers that ring at the same time.

use super::*;
use crate::call_forwarding::When;
use ::call_rules::{HeaderRules, Identity};
use sip_proxy::context::Reroute;

const CARRIER: &str = "203.0.113.5:5060";
const MAILBOX: &str = "203.0.113.60:5060";
const DAVE: &str = "192.0.2.40:5060";

/// A server with a trunk for numbers, a phone of dave's, and the rules of bob.
fn lab(set: impl FnOnce(&mut Rules)) -> Lab {
    let mut lab = Lab::with(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+")));
    lab.bind("dave", &format!("<sip:dave@{DAVE}>"), udp(DAVE));
    lab.rule("bob", set);
    lab
}

impl Lab {
    /// Sets the rules of a user.
    pub(super) fn rule(&mut self, user: &'static str, set: impl FnOnce(&mut Rules)) {
        let mut rules = Rules::default();
        set(&mut rules);
        self.world.rules.borrow_mut().push((user, Arc::new(rules)));
    }
}

/// Sets where calls go in this case.
fn to(when: When, target: &'static str) -> impl FnOnce(&mut Rules) {
    move |rules| rules.set_target(when, target).expect("a good target")
}

/// The INVITE among what left for this address.
#[track_caller]
fn invite_to(sent: &[Sent], address: &str) -> Sent {
    let found = sent.iter().find(|s| s.status() == 0 && s.method() == "INVITE" && s.to() == address);
    found.unwrap_or_else(|| panic!("{sent:#?}")).clone()
}

#[test]
fn all_calls_go_to_a_number_with_the_rights_of_the_user() {
    let mut lab = lab(to(When::Always, "+4940"));
    lab.phones(&[BOB]);
    // A stranger could not call that number.
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(sent.len(), 1, "{sent:#?}");
    let out = invite_to(&sent, CARRIER);
    assert_eq!(out.uri(), "sip:+4940@203.0.113.5");
    assert_eq!(out.all("Diversion"), ["<sip:bob@here.example>;reason=unconditional;counter=1;privacy=off"]);
    let history = "<sip:bob@here.example>;index=1, <sip:+4940@here.example;cause=302>;index=1.1;mp=1";
    assert_eq!(out.all("History-Info"), [history]);
    lab.send(CARRIER, out.accept("x"));
    assert_eq!(statuses(&lab.sent()), [200]);
    assert_eq!(lab.count(Counter::Forwardings), 1);
    lab.rest();
}

#[test]
fn busy_user_forwards_when_a_phone_says_so() {
    for status in [486, 600, 603] {
        let mut lab = lab(to(When::Busy, "+4940"));
        lab.phones(&[BOB]);
        let sent = lab.invite(CAROL, Req::invite().text());
        lab.send(BOB, sent[0].reply(180, "b", ""));
        lab.sent();
        lab.send(BOB, sent[0].reply(status, "b", ""));
        let after = lab.sent();
        assert!(statuses(&after).is_empty(), "{status}: {after:#?}");
        let out = invite_to(&after, CARRIER);
        assert!(out.get("Diversion").is_some_and(|line| line.contains("user-busy")), "{}", out.text);
        assert!(out.get("History-Info").is_some_and(|line| line.contains("Reason=SIP%3Bcause%3D486")));
        lab.send(CARRIER, out.reply(404, "x", ""));
        // The best answer of all goes back.
        assert_eq!(statuses(&lab.sent()), [if status > 600 { 603 } else { status }]);
        lab.rest();
    }
}

#[test]
fn call_that_nobody_answers_goes_on_after_the_ring_time() {
    let mut lab = lab(|rules| {
        rules.set_target(When::NoAnswer, "dave").unwrap();
        rules.set_ring_time(7).unwrap();
    });
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.sent();
    lab.pass(6_900);
    lab.silent();
    lab.pass(200);
    let after = lab.sent();
    assert!(after.iter().any(|s| s.method() == "CANCEL" && s.to() == BOB), "{after:#?}");
    let second = invite_to(&after, DAVE);
    // Phones of ours learn it from History-Info alone.
    assert_eq!((second.get("Diversion"), second.all("History-Info").len()), (None, 1));
    lab.send(DAVE, second.accept("d"));
    assert_eq!(statuses(&lab.sent()), [200]);
    lab.send(BOB, sent[0].reply(487, "b", ""));
    lab.rest();
}

#[test]
fn ring_time_has_a_default_and_needs_no_forwarding() {
    let mut lab = lab(to(When::NoAnswer, "dave"));
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.pass(19_900);
    assert!(lab.sent().iter().all(|s| s.to() != DAVE));
    lab.pass(200);
    invite_to(&lab.sent(), DAVE);
    let mut lab = self::lab(|rules| rules.set_ring_time(5).unwrap());
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    lab.sent();
    lab.pass(5_100);
    let cancel = lab.one();
    assert_eq!((cancel.method(), cancel.to().as_str()), ("CANCEL", BOB));
    lab.send(BOB, sent[0].reply(487, "b", ""));
    assert_eq!(statuses(&lab.sent()), [408]);
    lab.rest();
}

#[test]
fn unreachable_user_forwards_whatever_the_cause() {
    // Without a phone, at once.
    let mut lab = lab(to(When::Unreachable, "dave"));
    let out = invite_to(&lab.invite(CAROL, Req::invite().text()), DAVE);
    assert!(out.get("History-Info").is_some_and(|line| line.contains("cause=404")), "{}", out.text);
    // A phone that says so, and one that says nothing.
    for status in [Some(480), Some(503), None] {
        let mut lab = self::lab(to(When::Unreachable, "dave"));
        lab.phones(&[BOB]);
        let sent = lab.invite(CAROL, Req::invite().text());
        match status {
            Some(status) => lab.send(BOB, sent[0].reply(status, "b", "")),
            None => lab.pass(33_000),
        }
        invite_to(&lab.sent(), DAVE);
    }
    // A phone that rings and then declines was reached.
    let mut lab = self::lab(to(When::Unreachable, "dave"));
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(486, "b", ""));
    assert_eq!(statuses(&lab.sent()), [486]);
}

#[test]
fn quiet_user_is_busy_or_has_a_mailbox() {
    let quiet = |rules: &mut Rules| rules.set_do_not_disturb(true);
    let mut lab = lab(quiet);
    lab.phones(&[BOB]);
    assert_eq!(lab.ask(CAROL, Req::invite().text()).status(), 486);
    lab.reconfigure(|s| s.proxy.forwarding.quiet_status = 480);
    assert_eq!(lab.ask(CAROL, Req::invite().text()).status(), 480);
    lab.reconfigure(|s| {
        let uri = b"sip:mailbox@203.0.113.60".to_vec();
        s.voicemail = Some(Voicemail { uri, on: Reroute::BUSY, ..Voicemail::default() });
    });
    let sent = lab.invite(CAROL, Req::invite().text());
    let mailbox = invite_to(&sent, MAILBOX);
    assert_eq!(mailbox.uri(), "sip:mailbox@203.0.113.60;target=sip:bob%40here.example;cause=486");
    // Voicemail is not tried twice.
    lab.send(MAILBOX, mailbox.reply(486, "m", ""));
    assert_eq!(statuses(&lab.sent()), [486]);
    lab.rest();
}

#[test]
fn quiet_user_with_a_number_for_busy_forwards() {
    let mut lab = lab(|rules| {
        rules.set_do_not_disturb(true);
        rules.set_target(When::Busy, "+4940").unwrap();
    });
    lab.phones(&[BOB]);
    let out = invite_to(&lab.invite(CAROL, Req::invite().text()), CARRIER);
    assert!(out.get("Diversion").is_some_and(|line| line.contains("do-not-disturb")), "{}", out.text);
}

#[test]
fn emergency_service_that_calls_back_reaches_the_phone() {
    let mut lab = lab(|rules| {
        rules.set_do_not_disturb(true);
        rules.set_target(When::Always, "+4940").unwrap();
    });
    lab.phones(&[BOB]);
    let back = || Req::invite().line("Priority: psap-callback");
    let from_trunk = back().sent_by("UDP", CARRIER);
    assert_eq!(lab.invite(CARRIER, from_trunk.text())[0].to(), BOB);
    // Anybody else only says so.
    assert_eq!(lab.invite(CAROL, back().text())[0].to(), CARRIER);
}

#[test]
fn emergency_numbers_are_no_target_however_written() {
    for target in ["112", "%31%31%32", "tel:1-1-2", "1-1-2@example.com;user=phone", "sip:112@203.0.113.70"] {
        let mut lab = lab(to(When::Always, target));
        lab.reconfigure(|s| {
            s.trunks[0].prefixes = vec![b"1".to_vec()];
            s.emergency = Some(Emergency {
                targets: vec![b"sip:112@203.0.113.70".to_vec()],
                numbers: vec![b"112".to_vec()],
                strangers: true,
                silent_after_ms: 1_000,
            });
        });
        lab.phones(&[BOB]);
        assert_eq!(lab.ask(CAROL, Req::invite().text()).status(), 480, "{target}");
    }
}

#[test]
fn further_numbers_do_not_ring_beyond_the_limit_of_forwardings() {
    let mut lab = lab(|rules| rules.set_also(["+4940"].into_iter()).unwrap());
    lab.phones(&[BOB]);
    let again = Req::invite().line("Diversion: <sip:x@y>;counter=5");
    let sent = lab.invite(CAROL, again.text());
    assert_eq!((sent.len(), sent[0].to()), (1, BOB.to_owned()), "{sent:#?}");
    assert_eq!(lab.count(Counter::ForwardingsEnded), 1);
}

#[test]
fn further_numbers_ring_at_the_same_time() {
    let mut lab = lab(|rules| rules.set_also(["+4940", "dave"].into_iter()).unwrap());
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(sent.len(), 3, "{sent:#?}");
    let (own, out, other) = (invite_to(&sent, BOB), invite_to(&sent, CARRIER), invite_to(&sent, DAVE));
    assert_eq!((own.get("History-Info"), own.get("Diversion")), (None, None));
    assert!(out.get("Diversion").is_some_and(|line| line.contains("follow-me")), "{}", out.text);
    lab.send(CARRIER, out.accept("x"));
    let after = lab.sent();
    assert_eq!(statuses(&after), [200]);
    for phone in [&own, &other] {
        lab.send(&phone.to(), phone.reply(487, "p", ""));
    }
    lab.rest();
    // Also where no phone is registered.
    let mut lab = self::lab(|rules| rules.set_also(["+4940"].into_iter()).unwrap());
    invite_to(&lab.invite(CAROL, Req::invite().text()), CARRIER);
}

#[test]
fn rules_of_each_user_on_the_way_count() {
    let mut lab = lab(to(When::Always, "dave"));
    lab.rule("dave", to(When::Busy, "+4940"));
    let first = invite_to(&lab.invite(CAROL, Req::invite().text()), DAVE);
    lab.send(DAVE, first.reply(486, "d", ""));
    let out = invite_to(&lab.sent(), CARRIER);
    let reasons: Vec<&str> = out.all("Diversion").iter().filter_map(|line| line.split(';').nth(1)).collect();
    assert_eq!(reasons, ["reason=user-busy", "reason=unconditional"]);
    let indexes: Vec<&str> =
        out.text.split("index=").skip(1).filter_map(|rest| rest.split([',', ';', '\r']).next()).collect();
    assert_eq!(indexes, ["1", "1.1", "1.1.1"]);
}

#[test]
fn users_who_forward_to_each_other_make_no_loop() {
    let mut lab = lab(to(When::Always, "dave"));
    lab.rule("dave", to(When::Always, "bob"));
    assert_eq!(lab.ask(CAROL, Req::invite().text()).status(), 480);
    assert_eq!((lab.count(Counter::Forwardings), lab.count(Counter::ForwardingsEnded)), (2, 1));
    // By way of busy phones as well.
    let mut lab = self::lab(to(When::Busy, "dave"));
    lab.rule("dave", to(When::Busy, "bob"));
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(486, "b", ""));
    let second = invite_to(&lab.sent(), DAVE);
    lab.send(DAVE, second.reply(486, "d", ""));
    let third = invite_to(&lab.sent(), BOB);
    lab.send(BOB, third.reply(486, "b", ""));
    assert_eq!(statuses(&lab.sent()), [486]);
    lab.rest();
}

#[test]
fn forwardings_of_earlier_servers_count() {
    let mut lab = lab(to(When::Always, "+4940"));
    let earlier = |line: &str| Req::invite().line(line);
    assert_eq!(lab.ask(CAROL, earlier("Diversion: <sip:x@y>;counter=5").text()).status(), 480);
    let four = earlier("Diversion: <sip:x@y>;counter=4");
    let out = invite_to(&lab.invite(CAROL, four.text()), CARRIER);
    assert_eq!(out.all("Diversion").len(), 2);
    let entries: Vec<String> = (1..=5).map(|n| format!("<sip:x{n}@y>;index=1.{n};mp=1")).collect();
    let history = earlier(&format!("History-Info: {}", entries.join(", ")));
    assert_eq!(lab.ask(CAROL, history.text()).status(), 480);
}

#[test]
fn forwarding_loop_over_two_servers_ends() {
    const ONE: &str = "198.51.100.1:5060";
    const TWO: &str = "198.51.100.2:5060";
    let server = |key: u8, own: &'static str, other: &'static str, prefix: &'static str, limit: u32| {
        let mut lab = Lab::keyed([key; 16], |s| {
            let listener = |transport| Listener::new(transport, own.parse().unwrap(), None);
            s.listeners = vec![listener(Transport::Udp), listener(Transport::Tcp)];
            s.proxy.forwarding.limit = limit;
            let sources = vec![(other.parse::<SocketAddr>().unwrap().ip(), 32)];
            let target = format!("sip:{}", other.split(':').next().unwrap());
            s.trunks.push(Trunk { sources, ..trunk(&[target.as_str()], prefix) });
        });
        lab.rule("bob", to(When::Always, "+11"));
        lab.rule("+11", to(When::Always, "+22"));
        lab.rule("+22", to(When::Always, "+11"));
        lab
    };
    for (limit, status) in [(2, 480), (5, 482), (20, 482)] {
        let mut one = server(6, ONE, TWO, "+11", limit);
        let mut two = server(7, TWO, ONE, "+22", limit);
        // Each has the rules of its own numbers alone.
        one.world.rules.borrow_mut().retain(|(user, _)| *user != "+11");
        two.world.rules.borrow_mut().retain(|(user, _)| *user == "+11");
        one.send(CAROL, Req::invite().text());
        let (mut invites, mut answers) = (0, Vec::new());
        for _ in 0..50 {
            let sent: Vec<(&str, Sent)> = one
                .sent()
                .into_iter()
                .map(|s| (ONE, s))
                .chain(two.sent().into_iter().map(|s| (TWO, s)))
                .collect();
            for (from, message) in sent {
                invites += usize::from(message.status() == 0 && message.method() == "INVITE");
                match message.to().as_str() {
                    ONE => one.send(from, &message.text),
                    TWO => two.send(from, &message.text),
                    _ => answers.extend(Some(message.status()).filter(|status| *status >= 200)),
                }
            }
        }
        assert_eq!(answers, [status], "limit {limit}");
        assert!(invites <= 6, "{invites} INVITEs with limit {limit}");
    }
}

#[test]
fn trunk_is_told_who_forwards_as_its_rules_ask() {
    let mut lab = lab(to(When::Always, "+4940"));
    lab.reconfigure(|s| {
        let asserted = HeaderRules::default().with_identity(Identity::Asserted, None);
        s.trunks[0].headers = Some(Arc::new(asserted));
        s.trunks.push(Trunk {
            name: b"other".to_vec(),
            sources: vec![("198.18.0.5".parse().unwrap(), 32)],
            ..Trunk::default()
        });
    });
    let call = Req::invite()
        .sent_by("UDP", "198.18.0.5:5060")
        .line("P-Asserted-Identity: <sip:+1555@other.example>");
    let out = invite_to(&lab.invite("198.18.0.5:5060", call.text()), CARRIER);
    assert_eq!(out.all("P-Asserted-Identity"), ["<sip:bob@here.example>"]);
    assert_eq!(out.get("Privacy"), None);
    assert!(out.get("From").is_some_and(|from| from.contains("carol@far.example")), "{}", out.text);
}

#[test]
fn privacy_keeps_who_forwards_among_trusted_servers() {
    let mut lab = lab(to(When::Always, "+4940"));
    let private = || Req::invite().line("Privacy: history");
    let out = invite_to(&lab.invite(CAROL, private().text()), CARRIER);
    assert!(out.get("Diversion").is_some_and(|line| line.contains("bob@") && line.ends_with("privacy=full")));
    assert!(out.get("History-Info").is_some_and(|line| line.contains("?Privacy=history")), "{}", out.text);
    lab.reconfigure(|s| {
        let withheld = HeaderRules::default().with_identity(Identity::Withheld, None);
        s.trunks[0].headers = Some(Arc::new(withheld));
    });
    let out = invite_to(&lab.invite(CAROL, private().text()), CARRIER);
    let lines = [out.all("Diversion"), out.all("History-Info")].concat().join(" ");
    assert!(!lines.contains("bob") && !lines.contains("4940"), "{lines}");
}

#[test]
fn headers_of_forwardings_can_be_switched_off() {
    let mut lab = lab(to(When::Always, "+4940"));
    lab.reconfigure(|s| (s.proxy.forwarding.diversion, s.proxy.forwarding.history) = (false, false));
    let out = invite_to(&lab.invite(CAROL, Req::invite().text()), CARRIER);
    assert_eq!((out.get("Diversion"), out.get("History-Info")), (None, None));
}

#[test]
fn caller_who_cancels_ends_a_forwarded_call() {
    let mut lab = lab(to(When::Busy, "dave"));
    lab.phones(&[BOB]);
    let call = Req::invite();
    let sent = lab.invite(CAROL, call.text());
    lab.send(BOB, sent[0].reply(486, "b", ""));
    let second = invite_to(&lab.sent(), DAVE);
    lab.send(DAVE, second.reply(180, "d", ""));
    lab.sent();
    lab.send(CAROL, call.cancel().text());
    let after = lab.sent();
    assert!(after.iter().any(|s| s.method() == "CANCEL" && s.to() == DAVE), "{after:#?}");
    lab.send(DAVE, second.reply(487, "d", ""));
    assert_eq!(statuses(&lab.sent()).last(), Some(&486));
    lab.rest();
}

#[test]
fn other_requests_are_not_forwarded() {
    let mut lab = lab(to(When::Always, "+4940"));
    lab.phones(&[BOB]);
    lab.send(CAROL, Req::new("MESSAGE", "sip:bob@here.example").text());
    assert_eq!(requests(&lab.sent()), [("MESSAGE".to_owned(), BOB.to_owned())]);
}
