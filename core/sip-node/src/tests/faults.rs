//! Limits, broken peers, restarts and time: what must not be lost or leaked, and what the operator sees.

use super::*;
use wire::FrameError;

#[test]
fn transactions_that_belong_to_nobody_end_without_taking_a_call_along() {
    // The first request ever keeps the first slot; the answers of others end while it rings.
    let mut lab = Lab::open();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].reply(180, "b", ""));
    let mut register = Req::new("REGISTER", "sip:here.example").alice();
    register.to = "<sip:alice@here.example>".to_owned();
    lab.send(ALICE, register.text());
    lab.send(CAROL, Req::new("CANCEL", "sip:bob@here.example").text());
    lab.pass(60_000);
    lab.sent();
    assert_eq!(lab.report().pending, 1);
    lab.send(BOB, sent[0].accept("b"));
    assert_eq!(statuses(&lab.sent()), [200]);
}

#[test]
fn a_full_pool_refuses_and_says_when_to_come_back() {
    let mut lab =
        Lab::limited(Limits { server: 2, client: 100, bytes: 64 << 20 }, |s| s.auth.enabled = false);
    lab.phones(&[BOB]);
    for _ in 0..2 {
        assert_eq!(lab.invite(CAROL, Req::invite().text()).len(), 1);
    }
    let refused = lab.ask(CAROL, Req::invite().text());
    assert_eq!(refused.status(), 503);
    assert!(refused.get("Retry-After").is_some());
    assert_eq!(lab.report().calls.len(), 2);
    assert_eq!(lab.count(Counter::Overload), 1);
    // There is no room for a CANCEL either; what is under way goes on.
    lab.rest();
    assert_eq!(lab.invite(CAROL, Req::invite().text()).len(), 1, "there is room again");
}

#[test]
fn without_room_for_a_branch_the_caller_is_told_to_come_back() {
    let mut lab = Lab::limited(Limits { server: 100, client: 1, bytes: 64 << 20 }, |_| {});
    lab.phones(&[BOB]);
    assert_eq!(lab.invite(CAROL, Req::invite().text()).len(), 1);
    lab.send(CAROL, Req::invite().text());
    let sent = lab.sent();
    let end = sent.last().unwrap();
    assert_eq!(end.status(), 503);
    assert!(end.get("Retry-After").is_some());
    lab.send(CAROL, Req::new("MESSAGE", "sip:bob@here.example").text());
    assert_eq!(statuses(&lab.sent()), [503]);
    assert_eq!(lab.report().calls.len(), 1);
    lab.rest();
}

#[test]
fn the_cap_on_calls() {
    let mut lab = Lab::with(|s| s.calls = 1);
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    assert_eq!(lab.ask(CAROL, Req::invite().text()).status(), 503);
    // Not for what belongs to the call that is there.
    let ok = lab.ask(BOB, sent[0].accept("b"));
    lab.send(CAROL, req.within("INVITE", &ok).text());
    assert_eq!(statuses(&lab.sent()), [100]);
    lab.reconfigure(|s| s.calls = 2);
    assert_eq!(lab.invite(CAROL, Req::invite().text()).len(), 1);
}

#[test]
fn nobody_keeps_others_out_by_never_hanging_up() {
    let change = |s: &mut Settings| (s.calls, s.auth.enabled) = (3, false);
    let mut lab = Lab::with(change);
    lab.phones(&[BOB]);
    for _ in 0..5 {
        let got = lab.invite(CAROL, Req::invite().text()).remove(0);
        assert_eq!(lab.ask(BOB, got.accept("b")).status(), 200);
    }
    assert_eq!(lab.report().calls.len(), 3);
    // Nor does one Call-ID for all of them, which count each while they ring.
    let mut lab = Lab::with(change);
    lab.phones(&[BOB]);
    let call = || Req { call_id: "one".to_owned(), ..Req::invite() };
    for _ in 0..3 {
        assert_eq!(lab.invite(CAROL, call().text()).len(), 1);
    }
    assert_eq!(lab.ask(CAROL, call().text()).status(), 503);
}

#[test]
fn draining_finishes_what_is_there_and_takes_nothing_new() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    lab.notice(Notice::Drain);
    assert!(lab.report().draining);
    let ok = lab.ask(BOB, sent[0].accept("b"));
    assert_eq!(lab.ask(CAROL, req.within("ACK", &ok).text()).to(), BOB);
    for method in ["INVITE", "MESSAGE", "REGISTER"] {
        let refused = lab.ask(CAROL, Req::new(method, "sip:bob@here.example").text());
        assert_eq!(refused.status(), 503, "{method}");
        assert!(refused.get("Retry-After").is_some());
    }
    // Also from a client that ignores the Record-Route.
    let mut info = req.within("INFO", &ok);
    info.lines.clear();
    assert_eq!(lab.ask(CAROL, info.text()).to(), BOB);
    assert_eq!(lab.ask(CAROL, req.within("BYE", &ok).text()).to(), BOB);
}

#[test]
fn reports_are_given_when_asked_for() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    lab.invite(CAROL, Req::invite().text());
    let (tell, told) = std::sync::mpsc::channel();
    let mut ask = |from, most| {
        let tell = tell.clone();
        let show = Box::new(move |report| tell.send(report).unwrap());
        lab.notice(Notice::Report { from, most, show });
        told.try_recv().unwrap()
    };
    let report = ask(0, 10);
    assert_eq!((report.pending, report.call_count, report.calls.len()), (1, 1, 1));
    assert_eq!(report.calls[0].from, "sip:carol@far.example");
    // Who wants the numbers only gets no list.
    for (from, most) in [(0, 0), (1, 10)] {
        let report = ask(from, most);
        assert_eq!((report.call_count, report.calls.len()), (1, 0));
    }
}

#[test]
fn calls_are_gone_when_they_are_over() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let calls = |lab: &Lab| lab.report().calls.len();
    // Refused by the callee; cancelled; never answered.
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(calls(&lab), 1);
    lab.send(BOB, sent[0].reply(486, "b", ""));
    lab.sent();
    assert_eq!(calls(&lab), 0);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    lab.send(CAROL, req.cancel().text());
    lab.send(BOB, sent[0].reply(100, "", ""));
    lab.send(BOB, sent[0].reply(487, "b", ""));
    lab.sent();
    assert_eq!(calls(&lab), 0);
    lab.invite(CAROL, Req::invite().text());
    lab.pass(40_000);
    assert_eq!(calls(&lab), 0);
    // A phone that forgot the call has ended it.
    for status in [481, 408] {
        let req = Req::invite();
        lab.sent();
        let sent = lab.invite(CAROL, req.text());
        let ok = lab.ask(BOB, sent[0].accept("b"));
        let bye = lab.ask(CAROL, req.within("BYE", &ok).text());
        lab.send(BOB, bye.reply(status, "", ""));
        lab.sent();
        assert_eq!(calls(&lab), 0, "{status}");
    }
    // So has one that never answers the BYE.
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    let ok = lab.ask(BOB, sent[0].accept("b"));
    lab.ask(CAROL, req.within("BYE", &ok).text());
    assert_eq!(calls(&lab), 1);
    lab.pass(40_000);
    lab.sent();
    assert_eq!(calls(&lab), 0);
    // One whose end nobody saw is forgotten after a day.
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.ask(BOB, sent[0].accept("b"));
    assert_eq!(calls(&lab), 1);
    lab.pass(25 * 3_600 * 1_000);
    assert_eq!(calls(&lab), 0);
}

#[test]
fn a_broken_stream_is_answered_once_if_it_can_be() {
    let mut lab = Lab::new();
    let flow = tcp(CAROL, 1);
    let head = Req::invite().text();
    for (error, status) in
        [(FrameError::HeadTooLong, 513), (FrameError::BodyTooLong, 413), (FrameError::BadLength, 400)]
    {
        let mut out = Outbox::new();
        Machine::refuse(&mut lab.node, lab.now, flow, head.as_bytes(), error, &mut out);
        let sent = &out.transmits()[0];
        assert_eq!(sent.flow, flow);
        assert!(out.message(sent).starts_with(format!("SIP/2.0 {status} ").as_bytes()));
    }
    for head in ["", "garbage\r\n\r\n", "SIP/2.0 200 OK\r\n\r\n"] {
        let mut out = Outbox::new();
        Machine::refuse(&mut lab.node, lab.now, flow, head.as_bytes(), FrameError::NotAMessage, &mut out);
        assert!(out.is_empty(), "{head}");
    }
    let ack = head.replace("INVITE", "ACK");
    let mut out = Outbox::new();
    Machine::refuse(&mut lab.node, lab.now, flow, ack.as_bytes(), FrameError::BadLength, &mut out);
    assert!(out.is_empty());
}

#[test]
fn settings_change_under_way() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    // The listeners are others now; the call goes on as far as it can.
    lab.reconfigure(|s| s.listeners.truncate(1));
    lab.send(BOB, sent[0].accept("b"));
    let ok = lab.one();
    assert_eq!(lab.ask(CAROL, req.within("BYE", &ok).text()).to(), BOB);
    lab.reconfigure(|s| s.listeners.clear());
    lab.send(CAROL, Req::invite().text());
    lab.rest();
}

#[test]
fn undeliverable_things_of_all_kinds() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    // A response that could not be sent ends nothing (RFC 6026 section 8.8).
    lab.send(BOB, sent[0].reply(180, "b", ""));
    let ringing = lab.one();
    lab.undeliverable(&ringing);
    lab.silent();
    // Nor does one about a request that was heard of meanwhile.
    lab.undeliverable(&sent[0]);
    lab.silent();
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.undeliverable(&sent[0]);
    assert_eq!(statuses(&lab.sent()), [500]);
    // Long over: nothing.
    lab.undeliverable(&sent[0]);
    lab.silent();
    for token in [1, u64::MAX, 1 << 63, 3 << 62] {
        let mut out = Outbox::new();
        lab.node.undeliverable(lab.now, token, &mut out);
        assert!(out.is_empty());
    }
    lab.rest();
}

#[test]
fn a_transaction_that_outlives_its_patience_takes_its_call_along() {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        s.proxy.timer_c_ms = 1_000_000;
    });
    lab.invite(ALICE, Req::new("INVITE", "sip:x@slow.example").alice().text());
    assert_eq!(lab.report().calls.len(), 1);
    lab.pass(300_000);
    assert!(lab.report().calls.is_empty());
    lab.rest();
}

#[test]
fn a_request_that_is_never_answered_leaves_nothing() {
    let mut lab = Lab::new();
    lab.phones(&[BOB, BOB2, BOB3]);
    for method in ["INVITE", "MESSAGE", "BYE", "SUBSCRIBE", "FOO"] {
        lab.send(CAROL, Req::new(method, "sip:bob@here.example").text());
    }
    lab.rest();
    // An INVITE that is answered and never acknowledged.
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send(BOB, sent[0].accept("b"));
    lab.rest();
}

#[test]
fn messages_at_the_limits_stay_whole_although_they_grow() {
    // As many header fields and Via values as may come in; what the answers rest on stands last.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let text = |req: &Req, headers: usize| {
        let vias: String = (0..69).map(|n| format!("Via: SIP/2.0/UDP h{n};branch=z9hG4bKh{n}\r\n")).collect();
        let others = headers - 70 - 6 - req.lines.len();
        let filler: String = (0..others).map(|n| format!("X-{n}: y\r\n")).collect();
        let text = req.text().replace("Content-Length: 0\r\n", "");
        let (start, rest) = text.split_once("Max-Forwards").unwrap();
        let (rest, last) = rest.split_once("From").unwrap();
        let (last, contact) = last.split_once("Contact").map_or((last, ""), |(l, c)| (l, c.trim_end()));
        let contact = if contact.is_empty() { String::new() } else { format!("Contact{contact}\r\n") };
        let last = last.trim_end();
        format!("{start}{vias}{filler}{contact}Content-Length: 0\r\nMax-Forwards{rest}From{last}\r\n\r\n")
    };
    let sent = lab.invite(CAROL, text(&req, 256));
    lab.send(BOB, sent[0].reply(180, "b", ""));
    assert_eq!(lab.one().status(), 180);
    lab.send(CAROL, text(&req.cancel(), 256));
    let cancel = lab.sent().into_iter().find(|s| s.status() == 0).expect("a CANCEL");
    for name in ["From", "To", "Call-ID"] {
        assert_eq!(cancel.get(name), sent[0].get(name), "{}", cancel.text);
    }
    lab.send(BOB, sent[0].reply(487, "b", ""));
    let end = lab.sent();
    let ack = end.iter().find(|s| s.status() == 0).expect("an ACK");
    assert_eq!((ack.get("From"), ack.get("Call-ID")), (sent[0].get("From"), sent[0].get("Call-ID")));
    assert_eq!(end.iter().find(|s| s.status() == 487).unwrap().all("Via").len(), 70);
    // A second try of the same request is written from what was stored.
    let mut lab = Lab::with(|s| {
        s.message.headers = 400;
        s.voicemail = Some(Voicemail {
            uri: b"sip:mailbox@203.0.113.60".to_vec(),
            on: sip_proxy::context::Reroute::ALWAYS,
            no_answer_ms: 0,
            ..Voicemail::default()
        });
    });
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, text(&Req::invite(), 400));
    lab.send(BOB, sent[0].reply(486, "b", ""));
    let mailbox = lab.sent().into_iter().find(|s| s.method() == "INVITE").unwrap();
    assert_eq!(mailbox.all("Via").len(), 71);
    assert_eq!(mailbox.get("Call-ID"), sent[0].get("Call-ID"));
    lab.rest();
}

proptest::proptest! {
    /// Whatever comes in whatever order, nothing panics and everything ends.
    #[test]
    fn any_order_of_events_ends_with_nothing_left(
        events in proptest::collection::vec((0u8..12, 0usize..4, 0u8..8), 1..40),
    ) {
        let mut lab = Lab::with(|s| {
            s.proxy.recurse = true;
            s.auth.enabled = false;
            s.voicemail = Some(Voicemail {
                uri: b"sip:mailbox@mail.example".to_vec(),
                on: sip_proxy::context::Reroute::ALWAYS,
                no_answer_ms: 10_000, ..Voicemail::default() });
        });
        lab.phones(&[BOB, BOB2]);
        lab.bind("bob", &format!("<sip:bob@{BOB3}>;q=0.2"), udp(BOB3));
        let mut reqs: Vec<Req> = Vec::new();
        let mut left: Vec<Sent> = Vec::new();
        for (what, which, how) in events {
            match what {
                0 | 1 => {
                    let req = if how < 6 { Req::invite() } else { Req::new("MESSAGE", "sip:bob@here.example") };
                    let req = if how % 2 == 0 { req.alice() } else { req };
                    lab.send(if how % 2 == 0 { ALICE } else { CAROL }, req.text());
                    reqs.push(req);
                }
                2 => if let Some(req) = reqs.get(which) {
                    let from = if req.via.contains(ALICE) { ALICE } else { CAROL };
                    lab.send(from, req.cancel().text());
                },
                3 => if let Some(req) = reqs.get(which) { lab.send(CAROL, req.text()) },
                4 => lab.pass([10, 600, 5_000, 11_000, 33_000, 70_000, 200_000, 1][usize::from(how)]),
                5 => if let Some(sent) = left.get(which).filter(|s| s.token != 0) {
                    let token = sent.token;
                    let mut out = Outbox::new();
                    lab.node.undeliverable(lab.now, token, &mut out);
                },
                6 => lab.resolve("203.0.113.60"),
                7 => lab.resolve_with(|_| Answer::Failed),
                _ => if let Some(sent) = left.iter().rev().filter(|s| s.status() == 0).nth(which) {
                    let status = [100, 180, 200, 302, 401, 486, 503, 603][usize::from(how)];
                    let line = "Contact: <sip:other@203.0.113.70>\r\n";
                    let reply = sent.reply(status, "t", line);
                    let from = sent.to();
                    lab.send(&from, reply);
                },
            }
            left.extend(lab.sent());
        }
        lab.resolve_with(|_| Answer::Nothing);
        lab.rest();
        proptest::prop_assert!(lab.report().calls.iter().all(|c| c.answered));
    }
}

#[test]
fn a_made_up_tag_is_no_way_round_the_cap_and_the_drain() {
    let made_up = || {
        let mut req = Req::invite();
        req.to = "<sip:bob@here.example>;tag=madeup".to_owned();
        req.text()
    };
    let mut lab = Lab::with(|s| s.calls = 0);
    lab.phones(&[BOB]);
    assert_eq!(lab.ask(CAROL, made_up()).status(), 503);
    lab.reconfigure(|s| s.calls = 1);
    let req = Req::invite();
    let got = lab.invite(CAROL, req.text()).remove(0);
    let ok = lab.ask(BOB, got.accept("b"));
    lab.notice(Notice::Drain);
    assert_eq!(lab.ask(CAROL, made_up()).status(), 503);
    // What belongs to a call goes on.
    assert_eq!(lab.invite(CAROL, req.within("INVITE", &ok).text())[0].to(), BOB);
    assert_eq!(lab.ask(CAROL, Req { cseq: 3, ..req.within("BYE", &ok) }.text()).to(), BOB);
}

/// An overload begins when there is no time to spare.
#[test]
fn pending_requests_are_walked_a_bounded_number_at_a_time() {
    let mut lab = Lab::limited(Limits { server: 5_000, client: 5_000, bytes: 64 << 20 }, |s| {
        (s.auth.enabled, s.calls) = (false, 5_000);
    });
    lab.phones(&[BOB]);
    let calls: Vec<Sent> = (0..1_500).map(|_| lab.invite(CAROL, Req::invite().text()).remove(0)).collect();
    // Some are over, and their slots are not.
    for call in calls.iter().take(100) {
        lab.send(BOB, call.accept("b"));
    }
    lab.sent();
    assert_eq!((lab.report().pending, lab.report().held), (1_400, 1_500));
    assert_eq!(walked(&mut lab), (vec![1_024, 376], 1_400));
    lab.rest();
    // As those that wait for bindings.
    lab.world.elsewhere.borrow_mut().push("dave");
    (0..1_100).for_each(|_| lab.hand_over(udp(CAROL), Req::new("MESSAGE", "sip:dave@here.example").text()));
    assert_eq!(walked(&mut lab), (vec![1_024, 76], 1_100));
    lab.rest();
}

/// How many requests each step of a walk shows, and how many different ones there are.
fn walked(lab: &mut Lab) -> (Vec<u32>, usize) {
    lab.node.users().begin_walk();
    let mut steps = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let mut shown = 0;
        lab.node.users().walk_pending(|request| {
            shown += 1;
            // Each has a Call-ID of its own.
            seen.insert(request.to_vec());
        });
        if shown == 0 {
            return (steps, seen.len());
        }
        steps.push(shown);
    }
}
