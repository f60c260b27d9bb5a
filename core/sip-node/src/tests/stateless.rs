//! Forwarding without memory: RFC 3261 section 16.11.

use super::*;

fn lab() -> Lab {
    Lab::with(|s| {
        s.proxy.mode = Mode::Stateless;
        s.listeners.push(Listener::new(Transport::Tls, "198.51.100.1:5061".parse().unwrap(), None));
    })
}

/// No transaction is kept.
#[track_caller]
fn no_memory(lab: &Lab) {
    let counts = lab.report().transactions;
    assert_eq!((counts.server, counts.client), (0, 0));
}

#[test]
fn there_and_back() {
    let mut lab = lab();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.ask(CAROL, req.text());
    assert_eq!((sent.method(), sent.to().as_str()), ("INVITE", BOB));
    assert_eq!(sent.all("Max-Forwards"), ["69"]);
    // A retransmission goes the same way, with the same branch.
    assert_eq!(lab.ask(CAROL, req.text()).get("Via"), sent.get("Via"));
    // Another transaction of the same call and number has another.
    let other = Req { via: format!("{}x", req.via), ..req.clone() };
    assert_ne!(lab.ask(CAROL, other.text()).get("Via"), sent.get("Via"));
    // All responses go back, 100 included (16.11: no state to absorb it).
    for status in [100, 180, 200] {
        let claim = "P-Asserted-Identity: <sip:ceo@here.example>\r\n";
        let back = lab.ask(BOB, sent.reply(status, "b", claim));
        assert_eq!(back.get("P-Asserted-Identity"), None);
        assert_eq!((back.status(), back.to().as_str()), (status, CAROL));
        assert_eq!(back.all("Via"), [req.via.as_str()]);
    }
    no_memory(&lab);
    lab.rest();
}

#[test]
fn cancel_and_ack_follow_their_invite() {
    let mut lab = lab();
    lab.phones(&[BOB, BOB2]);
    let req = Req::invite();
    let sent = lab.ask(CAROL, req.text());
    let cancel = lab.ask(CAROL, req.cancel().text());
    assert_eq!((cancel.method(), cancel.to(), cancel.get("Via")), ("CANCEL", sent.to(), sent.get("Via")));
    let answer = lab.ask(BOB, cancel.reply(200, "b", ""));
    assert_eq!((answer.status(), answer.to().as_str()), (200, CAROL));
    let end = lab.ask(BOB, sent.reply(487, "b", ""));
    let ack = lab.ask(CAROL, req.ack(&end).text());
    assert_eq!((ack.method(), ack.to(), ack.get("Via")), ("ACK", sent.to(), sent.get("Via")));
    no_memory(&lab);
}

#[test]
fn answers_of_its_own_are_forgotten_and_their_acks_absorbed() {
    let mut lab = lab();
    let req = Req::invite();
    let refused = lab.ask(CAROL, req.text());
    assert_eq!(refused.status(), 480);
    lab.send(CAROL, req.ack(&refused).text());
    lab.silent();
    no_memory(&lab);
}

#[test]
fn a_response_finds_its_way_through_translation_and_connections() {
    let mut lab = lab();
    lab.phones(&[BOB]);
    let req = Req::invite().sent_by("UDP", "10.0.0.7:5060");
    let sent = lab.ask("192.0.2.10:40123", req.text());
    assert_eq!(lab.ask(BOB, sent.reply(200, "b", "")).to(), "192.0.2.10:40123");
    // 18.2.2: over the connection that the request came on.
    let req = Req::invite().sent_by("TCP", "192.0.2.10:5060");
    lab.send_on(tcp("192.0.2.10:40777", 4), req.text());
    let sent = lab.one();
    let back = lab.ask(BOB, sent.reply(200, "b", ""));
    assert_eq!((back.flow.transport, back.to().as_str()), (Transport::Tcp, "192.0.2.10:40777"));
    // A peer proves no name at the port that it connected from, so only that connection will do.
    let flow = Flow { transport: Transport::Tls, listener: ListenerId(4), ..tcp("192.0.2.10:40778", 5) };
    lab.send_on(flow, Req::invite().sent_by("TLS", "192.0.2.10:5061").text());
    let sent = lab.one();
    let back = lab.ask(BOB, sent.reply(200, "b", ""));
    assert_eq!(
        (back.flow.transport, back.to().as_str(), back.existing),
        (Transport::Tls, "192.0.2.10:40778", true)
    );
    // IPv6.
    let req = Req::invite().sent_by("UDP", "[2001:db8::10]:5062");
    lab.send("[2001:db8::10]:5062", req.text());
    let sent = lab.one();
    let ok = sent.reply(200, "b", "");
    assert_eq!(lab.ask(BOB, &ok).flow, udp("[2001:db8::10]:5062"));
    for (from, to) in
        [("[2001:db8::10]", "[2001:db8::11]"), ("[2001:db8::10]", "203.0.113.66"), ("bKt", "bKu")]
    {
        let forged = ok.replace(from, to);
        assert_ne!(forged, ok);
        lab.send(BOB, forged);
        lab.silent();
    }
}

#[test]
fn a_branch_may_come_back_in_other_letters() {
    let mut lab = lab();
    lab.phones(&[BOB]);
    let sent = lab.ask(CAROL, Req::invite().text());
    let branch = sent.get("Via").unwrap().split("branch=").nth(1).unwrap();
    for other in [branch.to_ascii_lowercase(), branch.to_ascii_uppercase()] {
        assert_eq!(lab.ask(BOB, sent.reply(200, "b", "").replace(branch, &other)).to(), CAROL);
    }
}

#[test]
fn nobody_makes_it_send_responses_elsewhere() {
    let mut lab = lab();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.ask(CAROL, req.text());
    let ok = sent.reply(200, "b", "");
    lab.send(BOB, ok.replace("Call-ID: ", "Call-ID: x"));
    lab.silent();
    // It is sealed as a whole, where the response goes included.
    let branch = sent.get("Via").unwrap().split("branch=").nth(1).unwrap();
    for at in 0..branch.len() {
        let digit = if branch.as_bytes()[at] == b'1' { "2" } else { "1" };
        let mut forged = branch.to_owned();
        forged.replace_range(at..=at, digit);
        lab.send(BOB, ok.replace(branch, &forged));
        lab.silent();
    }
    for forged in [branch[..branch.len() - 1].to_owned(), format!("{branch}0"), branch.replace("bKu", "bKt")]
    {
        lab.send(BOB, ok.replace(branch, &forged));
        lab.silent();
    }
    // What else the phone's Via says does not count.
    for forged in [
        ok.replace(&req.via, "SIP/2.0/UDP 203.0.113.66:53;branch=z9hG4bKc"),
        ok.replace(&req.via, &format!("{};received=203.0.113.66", req.via)),
    ] {
        assert_ne!(forged, ok);
        assert_eq!(lab.ask(BOB, forged).to(), CAROL);
    }
    // Without one there is nobody whom it is for.
    lab.send(BOB, ok.replace(&format!("Via: {}\r\n", req.via), ""));
    lab.silent();
    // A port that the phone makes up does not count: the sealed one does.
    let forged = ok.replace(&req.via, &format!("{};rport=53", req.via));
    assert_eq!(lab.ask(BOB, forged).to(), CAROL);
}

#[test]
fn users_are_challenged_and_their_credentials_stay() {
    let mut lab = lab();
    lab.phones(&[BOB]);
    let challenge = lab.ask(ALICE, Req::invite().alice().text());
    assert_eq!(challenge.status(), 407);
    no_memory(&lab);
    let sent = lab.as_user(ALICE, "alice", &Req::invite().alice()).remove(1);
    assert_eq!(sent.to().as_str(), BOB);
    assert!(sent.get("Proxy-Authorization").is_none());
}

#[test]
fn not_everywhere_and_not_for_everybody() {
    let mut lab = lab();
    // A user does not get into our own network, by address or by name.
    let sent = lab.as_user(ALICE, "alice", &Req::new("INVITE", "sip:x@127.0.0.1:8080").alice());
    assert!(requests(&sent).is_empty(), "{sent:?}");
    // An ACK or CANCEL cannot be challenged: a name of ours in From gets nobody out of the domain.
    for method in ["ACK", "CANCEL"] {
        let req = Req::new(method, "sip:x@203.0.113.9").alice();
        lab.send(ALICE, Req { to: "<sip:x@203.0.113.9>;tag=t".to_owned(), ..req }.text());
        assert!(requests(&lab.sent()).is_empty(), "{method}");
    }
    // From where a phone of ours is registered it does.
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
    let sent = lab.ask(ALICE, Req::new("CANCEL", "sip:x@203.0.113.9").alice().text());
    assert_eq!((sent.method(), sent.to().as_str()), ("CANCEL", "203.0.113.9:5060"));
}

#[test]
fn dialogs() {
    let mut lab = lab();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.ask(CAROL, req.text());
    let ok = lab.ask(BOB, sent.accept("b"));
    for method in ["ACK", "BYE"] {
        let sent = lab.ask(CAROL, req.within(method, &ok).text());
        assert_eq!((sent.method(), sent.to().as_str(), sent.get("Route")), (method, BOB, None));
    }
    no_memory(&lab);
}

#[test]
fn an_unknown_name_is_asked_for_and_the_retransmission_goes() {
    let mut lab = Lab::with(|s| {
        s.proxy.mode = Mode::Stateless;
        s.auth.enabled = false;
    });
    let req = Req::new("INVITE", "sip:x@far.example").alice();
    lab.send(ALICE, req.text());
    lab.silent();
    // Three rounds of questions: NAPTR, SRV, addresses.
    for _ in 0..4 {
        lab.resolve("203.0.113.9");
        lab.send(ALICE, req.text());
    }
    let sent = lab.sent();
    assert_eq!(sent.last().map(Sent::to), Some("203.0.113.9:5060".to_owned()));
    no_memory(&lab);
}

#[test]
fn why_somebody_was_refused_is_told_here_too() {
    let mut lab = Lab::with(|s| s.proxy.mode = Mode::Stateless);
    assert_eq!(lab.ask(CAROL, Req::new("OPTIONS", "sip:dave@far.example").text()).status(), 403);
    assert_eq!(*lab.world.refused.borrow(), [(Refusal::Elsewhere, "sip:dave@far.example".to_owned())]);
    assert_eq!(lab.count(Counter::Forbidden), 1);
}

#[test]
fn a_cancel_has_hops_like_any_other_request() {
    let mut lab = Lab::with(|s| s.proxy.mode = Mode::Stateless);
    lab.phones(&[BOB]);
    let cancel = Req { max_forwards: "0".to_owned(), ..Req::invite().cancel() };
    assert_eq!(lab.ask(CAROL, cancel.text()).status(), 483);
}

#[test]
fn the_same_of_equal_servers_is_chosen_for_a_whole_transaction() {
    // RFC 3263 section 4.4.
    use sip_proxy::locate::{Kind, Srv};
    let mut lab = Lab::with(|s| {
        s.proxy.mode = Mode::Stateless;
        s.auth.enabled = false;
    });
    let answer = |q: &NameAsked| match (q.kind, &q.name[..]) {
        (Kind::Srv, name) if name.starts_with(b"_sip._udp") => Answer::Srv(
            (1..=4_u8)
                .map(|n| Srv {
                    priority: 1,
                    weight: 1,
                    port: 5060,
                    target: format!("s{n}.far.example").into_bytes().into(),
                })
                .collect(),
        ),
        (Kind::A, [b's', n, b'.', ..]) => Answer::A(Box::new([[203, 0, 113, n - b'0'].into()])),
        _ => Answer::Nothing,
    };
    let mut servers = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let req = Req::new("INVITE", "sip:x@far.example").alice();
        for _ in 0..5 {
            lab.send(ALICE, req.text());
            lab.resolve_with(answer);
        }
        let sent = lab.sent();
        assert!(!sent.is_empty());
        let first = sent[0].to();
        assert!(sent.iter().all(|s| s.to() == first));
        let bind = lab.ask(ALICE, req.text());
        assert_eq!((bind.to(), bind.get("Via")), (first.clone(), sent[0].get("Via")));
        lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
        assert_eq!(lab.ask(ALICE, req.cancel().text()).to(), first);
        servers.insert(first);
    }
    assert!(servers.len() > 1, "all of them serve: {servers:?}");
    no_memory(&lab);
}

#[test]
fn breadth_is_limited_without_memory_too() {
    // RFC 5393 section 5.3.3: every request that is passed on has one value.
    let mut lab = lab();
    lab.phones(&[BOB]);
    let breadth = |lab: &mut Lab, line: &str| {
        let req = Req::invite();
        let req = if line.is_empty() { req } else { req.line(line) };
        let sent = lab.ask(CAROL, req.text());
        (sent.status(), sent.all("Max-Breadth").join("+"))
    };
    assert_eq!(breadth(&mut lab, ""), (0, "60".to_owned()));
    assert_eq!(breadth(&mut lab, "Max-Breadth: 5"), (0, "5".to_owned()));
    assert_eq!(breadth(&mut lab, "Max-Breadth: 500"), (0, "60".to_owned()));
    assert_eq!(breadth(&mut lab, "Max-Breadth: 0"), (440, String::new()));
    // The ACK of a 2xx has none of its own, whatever the mode.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let req = Req::invite();
    let sent = lab.invite(CAROL, req.text());
    let ok = lab.ask(BOB, sent[0].accept("b"));
    assert_eq!(lab.ask(CAROL, req.within("ACK", &ok).text()).all("Max-Breadth"), ["60"]);
}

#[test]
fn what_comes_again_with_its_credentials_is_the_same_request() {
    let mut lab = lab();
    lab.phones(&[BOB]);
    let call = Req::invite().alice();
    let challenge = lab.ask(ALICE, call.text());
    let again = call.answer("alice", &challenge).text();
    let sent = lab.invite(ALICE, &again).remove(0);
    assert_eq!(sent.to(), BOB);
    lab.send(ALICE, &again);
    let repeated = lab.sent();
    assert!(statuses(&repeated).iter().all(|status| *status == 100), "{repeated:?}");
    assert_eq!(lab.ask(BOB, sent.accept("b")).status(), 200);
    lab.rest();
}
