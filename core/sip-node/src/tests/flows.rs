//! Client-initiated connections: RFC 5626 sections 5.3, 6 and 7.

use super::*;

const OUTBOUND: &str = "Supported: path, outbound\r\n";
const FIRST: &str = "192.0.2.20:41000";
const SECOND: &str = "192.0.2.20:42000";

/// A connection that the peer opened.
fn opened(transport: Transport, from: &str, conn: u64) -> Flow {
    let listener = if transport == Transport::Tcp { ListenerId(1) } else { ListenerId(4) };
    Flow { transport, listener, conn: Some(ConnId::accepted(0, conn)), ..tcp(from, 0) }
}

fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.listeners.push(Listener::new(Transport::Tls, "198.51.100.1:5061".parse().unwrap(), None));
        change(s);
    })
}

/// Registers a flow of bob's phone.
fn bind_flow(lab: &mut Lab, flow: Flow, reg_id: u32) {
    let contact =
        format!("<sip:bob@10.0.0.9;transport=tls;ob>;+sip.instance=\"<urn:uuid:1>\";reg-id={reg_id}");
    lab.bind_with("bob", &contact, flow, OUTBOUND);
}

/// A connection ends: the runtime tells what was on it, and every machine.
fn end(lab: &mut Lab, sent: &Sent, had_left: bool) {
    match had_left {
        true => lab.node.cut_off(lab.now, sent.token, &mut lab.out),
        false => lab.undeliverable(sent),
    }
    lab.node.disconnected(lab.now, sent.flow.conn.unwrap(), &mut lab.out);
}

#[test]
fn call_goes_to_the_other_flow_when_one_dies_before_a_response() {
    // RFC 5626 section 7. Also where the request had left whole.
    for had_left in [false, true] {
        let mut lab = lab(|_| {});
        bind_flow(&mut lab, opened(Transport::Tls, FIRST, 1), 1);
        bind_flow(&mut lab, opened(Transport::Tls, SECOND, 2), 2);
        let sent = lab.invite(CAROL, Req::invite().text());
        assert_eq!(sent.len(), 1, "one flow at a time");
        end(&mut lab, &sent[0], had_left);
        let next = lab.sent();
        let other = if sent[0].to() == FIRST { SECOND } else { FIRST };
        assert_eq!(requests(&next), [("INVITE".to_owned(), other.to_owned())], "{had_left}");
        assert!(next[0].existing && next[0].get("Via") != sent[0].get("Via"));
        lab.send_on(next[0].flow, next[0].accept("b"));
        assert_eq!(statuses(&lab.sent()), [200]);
        lab.rest();
    }
}

#[test]
fn caller_does_not_wait_when_all_flows_are_dead() {
    let mut lab = lab(|_| {});
    bind_flow(&mut lab, opened(Transport::Tls, FIRST, 1), 1);
    bind_flow(&mut lab, opened(Transport::Tcp, SECOND, 2), 2);
    let mut sent = lab.invite(CAROL, Req::invite().text());
    for _ in 0..2 {
        assert!(sent[0].existing, "nothing is opened to {}", sent[0].to());
        end(&mut lab, &sent[0], false);
        sent = lab.sent();
    }
    // RFC 5626 section 11.6: 430 is for proxies. No time has passed.
    assert_eq!((sent.len(), sent[0].status()), (1, 480));
    lab.rest();
}

#[test]
fn call_that_rings_is_not_repeated_on_another_flow_that_lives() {
    // The phone has spoken: its other flow gets nothing until the call is over.
    let mut lab = lab(|_| {});
    bind_flow(&mut lab, opened(Transport::Tls, FIRST, 1), 1);
    bind_flow(&mut lab, opened(Transport::Tls, SECOND, 2), 2);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send_on(sent[0].flow, sent[0].reply(180, "b", ""));
    assert_eq!(statuses(&lab.sent()), [180]);
    lab.send_on(sent[0].flow, sent[0].reply(486, "b", ""));
    assert_eq!(requests(&lab.sent()), [("ACK".to_owned(), sent[0].to())]);
}

#[test]
fn nothing_is_opened_to_where_a_connection_came_from() {
    // After a restart a binding has the address of its connection, which nobody need listen at.
    let stripped = |flow: Flow| Flow { conn: None, ..flow };
    let contact = "<sip:bob@192.0.2.20:5070;transport=tcp>";
    // (connection, Contact, first hop only over a connection that is there, where else)
    let cases = [
        (Transport::Tcp, contact, true, Some("192.0.2.20:5070")),
        (Transport::Tcp, "<sip:bob@192.0.2.20:41000;transport=tcp>", false, None),
        (Transport::Tcp, "<sip:bob@10.0.0.9:5070;transport=tcp>", true, None),
        (Transport::Tcp, "<sip:bob@a.invalid;transport=tcp>", true, None),
        (Transport::Tls, "<sip:bob@192.0.2.20:5071;transport=tls>", true, None),
    ];
    for (transport, contact, existing, further) in cases {
        let mut lab = lab(|_| {});
        lab.bind("bob", contact, stripped(opened(transport, FIRST, 1)));
        let sent = lab.invite(CAROL, Req::invite().text());
        assert_eq!(
            (sent[0].flow.remote.to_string().as_str(), sent[0].existing),
            (FIRST, existing),
            "{contact}"
        );
        lab.undeliverable(&sent[0]);
        let next = lab.sent();
        match further {
            None => assert_eq!(statuses(&next), [480], "{contact}"),
            Some(to) => assert_eq!((next[0].to().as_str(), next[0].existing), (to, false), "{contact}"),
        }
    }
}

/// The request that a BYE from the callee becomes, where the caller sent from `flow` with this Contact and
/// Via, and what follows when its connection is gone.
fn bye_to_caller(lab: &mut Lab, flow: Flow, contact: &str) -> (Sent, Vec<Sent>) {
    lab.phones(&[BOB]);
    let mut req = Req::invite().sent_by(flow.transport.via_name(), &flow.remote.to_string());
    req.lines[0] = format!("Contact: {contact}");
    lab.send_on(flow, req.text());
    let got = lab.sent().into_iter().find(|s| s.status() == 0).unwrap();
    lab.send(BOB, got.accept("b"));
    lab.sent();
    lab.send(BOB, from_callee(&got, "BYE", BOB, "<sip:bob@here.example>").text());
    let bye = lab.one();
    assert_eq!((bye.flow.remote, bye.flow.transport), (flow.remote, flow.transport));
    lab.undeliverable(&bye);
    (bye, lab.sent())
}

#[test]
fn request_in_a_dialog_goes_over_the_flow_of_its_phone() {
    // RFC 5626 section 5.3: a user's phone is reached by the flow in the token, or not at all.
    let tls = opened(Transport::Tls, "192.0.2.30:45000", 9);
    let tcp = opened(Transport::Tcp, "192.0.2.30:45000", 9);
    // (connection of alice's phone, its Contact, where else)
    let cases = [
        (tls, "<sip:alice@192.0.2.30:5061;transport=tls>", None),
        (tls, "<sip:alice@10.0.0.7:5061;transport=tls;ob>", None),
        (tcp, "<sip:alice@192.0.2.30:45000;transport=tcp>", None),
        (tcp, "<sip:alice@10.0.0.7:5060;transport=tcp>", None),
        (tcp, "<sip:alice@192.0.2.30:5060;transport=tcp>", Some("192.0.2.30:5060")),
    ];
    for (flow, contact, further) in cases {
        let mut lab = lab(|s| s.auth.enabled = false);
        // With authentication off its registration proves who a phone is.
        lab.bind("alice", contact, flow);
        lab.phones(&[BOB]);
        let mut req = Req::invite().sent_by(flow.transport.via_name(), &flow.remote.to_string());
        (req.from, req.lines[0]) =
            ("<sip:alice@here.example>;tag=a".to_owned(), format!("Contact: {contact}"));
        lab.send_on(flow, req.text());
        let got = lab.sent().into_iter().find(|s| s.status() == 0).unwrap();
        lab.send(BOB, got.accept("b"));
        lab.sent();
        lab.send(BOB, from_callee(&got, "BYE", BOB, "<sip:bob@here.example>").text());
        let bye = lab.one();
        assert_eq!((bye.flow.remote, bye.existing), (flow.remote, true), "{contact}");
        lab.undeliverable(&bye);
        let next = lab.sent();
        match further {
            None => assert_eq!((next.len(), next[0].status()), (1, 480), "{contact}"),
            Some(to) => assert_eq!((next[0].to().as_str(), next[0].existing), (to, false), "{contact}"),
        }
    }
}

#[test]
fn ack_goes_anew_if_the_connection_of_its_peer_is_gone() {
    let by = |transport| opened(transport, "192.0.2.30:45000", 9);
    let beside = "192.0.2.30:5060";
    // (connection of alice's phone, its Contact, where its ACK goes else)
    for (flow, contact, further) in [
        (by(Transport::Tcp), "<sip:alice@192.0.2.30:5060;transport=tcp>", Some(beside)),
        (by(Transport::Tcp), "<sip:alice@10.0.0.7:5060;transport=tcp>", None),
        (by(Transport::Tls), "<sip:alice@192.0.2.30:5061;transport=tls>", None),
    ] {
        let mut lab = lab(|s| s.auth.enabled = false);
        lab.bind("alice", contact, flow);
        lab.phones(&[BOB]);
        let mut req = Req::invite().sent_by(flow.transport.via_name(), &flow.remote.to_string());
        (req.from, req.lines[0]) =
            ("<sip:alice@here.example>;tag=a".to_owned(), format!("Contact: {contact}"));
        lab.send_on(flow, req.text());
        let got = lab.sent().into_iter().find(|s| s.status() == 0).unwrap();
        lab.send(BOB, got.accept("b"));
        lab.sent();
        lab.send(BOB, from_callee(&got, "ACK", BOB, "<sip:bob@here.example>").text());
        let ways: Vec<_> = lab.sent().iter().map(|s| (s.to(), s.existing, s.instead)).collect();
        let mut expected = vec![(flow.remote.to_string(), true, false)];
        expected.extend(further.map(|to| (to.to_owned(), false, true)));
        assert_eq!(ways, expected, "{contact}");
    }
}

#[test]
fn server_that_connects_from_its_own_port_is_connected_to() {
    // A gateway that listens at the port that it connects from, as its Contact says.
    let (bye, _) = bye_to_caller(
        &mut lab(|s| s.auth.in_dialog = false),
        opened(Transport::Tcp, CAROL, 9),
        "<sip:carol@192.0.2.10:5060;transport=tcp>",
    );
    assert!(!bye.existing);
    let flow = opened(Transport::Tcp, "192.0.2.10:47000", 9);
    let (bye, next) = bye_to_caller(
        &mut lab(|s| s.auth.in_dialog = false),
        flow,
        "<sip:carol@192.0.2.10:5060;transport=tcp>",
    );
    assert!(bye.existing);
    assert_eq!(statuses(&next), [480], "its connection is gone, and another port is anybody's word");
}

#[test]
fn stun_keepalive_is_answered_over_udp_only() {
    // RFC 5626 section 8: on the port of SIP, from where it was asked.
    let request = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], b"123456789012"].concat();
    let mut lab = lab(|_| {});
    for (flow, answers) in [(udp(BOB), true), (udp("[2001:db8::9]:5060"), true), (tcp(BOB, 1), false)] {
        let arrival = wire::Arrival::new(lab.now, flow, &request);
        lab.node.receive(arrival, &mut lab.out);
        let sent: Vec<_> = lab.out.transmits().iter().map(|t| (t.flow, t.token)).collect();
        assert_eq!(sent, if answers { vec![(flow, 0)] } else { vec![] });
        assert_eq!(lab.count(Counter::Garbage), usize::from(!answers));
        lab.out.clear();
    }
}

#[test]
fn ack_of_a_2xx_opens_no_connection_to_a_flow() {
    let mut lab = lab(|_| {});
    bind_flow(&mut lab, opened(Transport::Tls, FIRST, 1), 1);
    let invite = Req::invite();
    let sent = lab.invite(CAROL, invite.text());
    lab.send_on(sent[0].flow, sent[0].reply(200, "b", "Contact: <sip:bob@10.0.0.9;transport=tls;ob>\r\n"));
    let ok = lab.one();
    lab.send(CAROL, invite.within("ACK", &ok).text());
    let ack = lab.one();
    assert_eq!((ack.method(), ack.to().as_str(), ack.existing), ("ACK", FIRST, true));
}

/// RFC 3261 section 18.2.2. The callee returns the Via of the caller, and may have changed it.
#[test]
fn response_goes_anew_only_to_a_via_that_names_a_host() {
    let via = "SIP/2.0/TLS 192.0.2.10:5061;branch=z9hG4bKx";
    let expected = vec![("192.0.2.10:5061".to_owned(), "192.0.2.10".to_owned())];
    for (returned, anew) in [
        (via, expected),
        ("SIP/2.0/TLS ;branch=z9hG4bKx", vec![]),
        ("SIP/2.0/TLS :5061;branch=z9hG4bKx", vec![]),
        ("nothing", vec![]),
    ] {
        let mut lab = lab(|_| {});
        lab.phones(&[BOB]);
        let mut invite = Req::invite();
        invite.via = via.to_owned();
        lab.send_on(opened(Transport::Tls, "192.0.2.10:47000", 9), invite.text());
        let got = lab.sent().into_iter().find(|s| s.status() == 0).expect("it rings");
        let own = got.all("Via")[1].to_owned();
        lab.send(BOB, got.reply(486, "b", "").replace(&own, returned));
        let busy = lab.sent().into_iter().find(|s| s.status() == 486).expect("its answer");
        lab.undeliverable(&busy);
        let sent: Vec<_> = lab.sent().iter().map(|s| (s.to(), s.name.clone())).collect();
        assert_eq!(sent, anew, "{returned}");
    }
}

#[test]
fn dialogs_of_flows_come_by_here_without_record_route_too() {
    // RFC 5626 sections 5.3.1 and 5.3.2: a phone behind a flow is not reached in another way.
    let unrecorded = || lab(|s| (s.proxy.record_route, s.auth.in_dialog) = (false, false));
    let mut lab = unrecorded();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, Req::invite().text());
    assert!(sent[0].all("Record-Route").is_empty());
    // The callee registered with outbound.
    let mut lab = unrecorded();
    bind_flow(&mut lab, opened(Transport::Tls, FIRST, 1), 1);
    let invite = Req::invite();
    let sent = lab.invite(CAROL, invite.text());
    assert_eq!(sent[0].all("Record-Route").len(), 2);
    lab.send_on(sent[0].flow, sent[0].reply(200, "b", "Contact: <sip:bob@10.0.0.9;transport=tls;ob>\r\n"));
    let ok = lab.one();
    lab.send(CAROL, invite.within("ACK", &ok).text());
    assert_eq!(lab.one().to(), FIRST);
    // The call is known: what follows in it is let through.
    lab.send(CAROL, Req { cseq: 2, ..invite.within("INVITE", &ok) }.text());
    assert_eq!(requests(&lab.sent()), [("INVITE".to_owned(), FIRST.to_owned())]);
    // The caller asks for it.
    let mut lab = unrecorded();
    lab.phones(&[BOB]);
    let mut req = Req::invite();
    req.lines[0] = "Contact: <sip:carol@10.0.0.7;transport=tcp;ob>".to_owned();
    let from = opened(Transport::Tcp, "192.0.2.10:47000", 9);
    lab.send_on(from, req.sent_by("TCP", "10.0.0.7:5060").text());
    let got = lab.sent().into_iter().find(|s| s.status() == 0).unwrap();
    assert_eq!(got.all("Record-Route").len(), 2);
    lab.send(BOB, got.accept("b"));
    lab.sent();
    lab.send(BOB, from_callee(&got, "BYE", BOB, "<sip:bob@here.example>").text());
    assert_eq!(lab.one().to(), "192.0.2.10:47000");
}

/// Registers a flow of bob's phone through an edge proxy.
fn bind_behind(lab: &mut Lab, edge: &str, reg_id: u32) {
    let contact = format!("<sip:bob@10.0.0.9;ob>;+sip.instance=\"<urn:uuid:1>\";reg-id={reg_id}");
    let path = format!("Path: <sip:{edge};lr;d=p1;ob>\r\n{OUTBOUND}");
    // As the edge wrote it, below the phone's own.
    let via = format!("Via: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bKb{reg_id}\r\n");
    lab.bind_with("bob", &contact, udp(edge), &format!("{via}{path}"));
}

#[test]
fn flow_that_an_edge_has_lost_is_tried_no_more() {
    // RFC 5626 section 7: the other one is, at once and from then on.
    let mut lab = Lab::new();
    let (first, second) = ("192.0.2.71:5060", "192.0.2.72:5060");
    bind_behind(&mut lab, first, 1);
    bind_behind(&mut lab, second, 2);
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(sent.len(), 1, "one flow at a time");
    let (lost, other) = if sent[0].to() == first { (first, second) } else { (second, first) };
    lab.send(lost, sent[0].reply(430, "e", ""));
    let next = lab.sent();
    let invite = next.iter().find(|sent| sent.method() == "INVITE").expect("the other flow");
    assert_eq!(invite.to(), other);
    lab.send(other, invite.accept("b"));
    assert_eq!(statuses(&lab.sent()), [200]);
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(requests(&sent), [("INVITE".to_owned(), other.to_owned())]);
    // The 430 is from the phone, so its flow works.
    lab.send(other, sent[0].reply(486, "b", ""));
    lab.sent();
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(requests(&sent), [("INVITE".to_owned(), other.to_owned())]);
    lab.send(other, sent[0].reply(430, "e", ""));
    assert!(statuses(&lab.sent()).contains(&480));
    lab.send(CAROL, Req::invite().text());
    assert_eq!(statuses(&lab.sent()), [480], "no flow is left");
}

#[test]
fn flow_that_was_registered_anew_outlives_a_late_430() {
    let mut lab = Lab::new();
    let edge = "192.0.2.71:5060";
    bind_behind(&mut lab, edge, 1);
    let sent = lab.invite(CAROL, Req::invite().text());
    bind_behind(&mut lab, edge, 1);
    lab.send(edge, sent[0].reply(430, "e", ""));
    assert!(statuses(&lab.sent()).contains(&480));
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!(requests(&sent), [("INVITE".to_owned(), edge.to_owned())]);
}

#[test]
fn dialog_by_a_front_goes_on_over_a_new_connection() {
    let mut lab = lab(|s| {
        s.auth.enabled = false;
        s.auth.fronts = vec![("192.0.2.90".parse().unwrap(), 32)];
    });
    lab.phones(&[BOB]);
    let mut invite = Req::invite();
    invite.via = "SIP/2.0/TLS 192.0.2.90:5061;branch=z9hG4bKfront".to_owned();
    invite.from = "<sip:alice@here.example>;tag=a".to_owned();
    invite.lines.push("Record-Route: <sip:192.0.2.90:5061;transport=tls;lr;d=02>".to_owned());
    invite.lines.push("Contact: <sip:carol@192.0.2.99:5060>".to_owned());
    lab.send_on(opened(Transport::Tls, "192.0.2.90:50001", 1), invite.text());
    let got = lab.sent().into_iter().find(|sent| sent.status() == 0).expect("it rings");
    lab.send(BOB, got.reply(200, "b", &format!("Contact: <sip:bob@{BOB}>\r\n")));
    lab.sent();
    lab.restart();
    lab.send(BOB, from_callee(&got, "BYE", BOB, "<sip:bob@here.example>").text());
    let mut ways = Vec::new();
    while let Some(sent) = lab.sent().into_iter().find(|sent| sent.status() == 0) {
        ways.push((sent.to(), sent.existing));
        lab.undeliverable(&sent);
    }
    assert_eq!(ways.last(), Some(&("192.0.2.90:5061".to_owned(), false)), "{ways:?}");
}

/// Registers bob's phone behind a proxy in front of this server, whose Path has this port.
fn bind_by_front(lab: &mut Lab, flow: Flow, port: u16) {
    let transport = flow.transport.via_name().to_lowercase();
    let lines = format!("Path: <sip:192.0.2.90:{port};transport={transport};lr;d=p1>\r\nSupported: path\r\n");
    lab.bind_with("bob", "<sip:bob@10.0.0.9;transport=tls>;+sip.instance=\"<urn:uuid:1>\"", flow, &lines);
}

const FRONT: &str = "192.0.2.90:50001";

#[test]
fn phone_is_called_over_a_new_connection_to_its_front() {
    // The front has restarted, or has closed a connection that was not used.
    let tls = opened(Transport::Tls, FRONT, 1);
    let tcp = opened(Transport::Tcp, FRONT, 1);
    // (connection of the REGISTER, whether the front is trusted, port in Path, where else)
    for (flow, trusted, port, further) in [
        (tls, true, 5061, Some("192.0.2.90:5061")),
        // Nobody else proves to be the front.
        (tls, false, 5061, None),
        (tcp, true, 5060, Some("192.0.2.90:5060")),
        (tcp, false, 5070, Some("192.0.2.90:5070")),
        (tcp, true, 50001, None),
    ] {
        let case = format!("{:?} {trusted} {port}", flow.transport);
        let mut lab = lab(|s| {
            if trusted {
                s.auth.fronts = vec![("192.0.2.90".parse().unwrap(), 32)];
            }
        });
        bind_by_front(&mut lab, flow, port);
        let sent = lab.invite(CAROL, Req::invite().text());
        assert_eq!(sent[0].to(), FRONT, "{case}");
        lab.undeliverable(&sent[0]);
        let next = lab.sent();
        let Some(to) = further else {
            assert_eq!(statuses(&next), [480], "{case}");
            continue;
        };
        assert!(sent[0].existing, "{case}: nobody listens at the port of the old connection");
        assert_eq!((next[0].to().as_str(), next[0].existing), (to, false), "{case}");
        assert!(next[0].get("Route").is_some_and(|route| route.contains(";d=p1")), "{case}");
        lab.send_on(next[0].flow, next[0].accept("b"));
        assert_eq!(statuses(&lab.sent()), [200], "{case}");
        lab.rest();
    }
}

#[test]
fn front_that_has_lost_a_flow_is_not_asked_twice() {
    let mut lab = lab(|s| s.auth.fronts = vec![("192.0.2.90".parse().unwrap(), 32)]);
    bind_by_front(&mut lab, opened(Transport::Tls, FRONT, 1), 5061);
    let sent = lab.invite(CAROL, Req::invite().text());
    lab.send_on(sent[0].flow, sent[0].reply(430, "e", ""));
    let next = lab.sent();
    assert_eq!(requests(&next), [("ACK".to_owned(), FRONT.to_owned())]);
    assert!(statuses(&next).contains(&480));
}

#[test]
fn dialog_goes_by_another_path_if_the_front_lost_its_flow() {
    // The phone has registered over two flows, or again since it was cut off: by the same front or another.
    for (other, contact) in [
        ("192.0.2.90:5060", "<sip:alice@10.0.0.9;ob>"),
        ("192.0.2.91:5060", "<sip:alice@10.0.0.9;ob>"),
        ("192.0.2.90:5060", "<sip:alice@10.0.0.9:41000;ob>"),
    ] {
        let fronts = [("192.0.2.90".parse().unwrap(), 31)];
        let mut lab = lab(|s| (s.auth.enabled, s.auth.fronts) = (false, fronts.to_vec()));
        lab.phones(&[BOB]);
        let front = "192.0.2.90:5060";
        for (edge, contact, reg_id, path) in
            [(other, contact, 2, "new"), (front, "<sip:alice@10.0.0.9;ob>", 1, "old")]
        {
            let contact = format!("{contact};+sip.instance=\"<urn:uuid:1>\";reg-id={reg_id}");
            let via = format!("Via: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bKb{reg_id}\r\n");
            let lines = format!("{via}Path: <sip:{edge};lr;d={path};ob>\r\n{OUTBOUND}");
            lab.bind_with("alice", &contact, udp(edge), &lines);
            lab.now = lab.now + Duration::from_secs(10);
        }
        let mut invite = Req::invite();
        invite.via = format!("SIP/2.0/UDP {front};branch=z9hG4bKfront");
        invite.from = "<sip:alice@here.example>;tag=a".to_owned();
        invite.lines = vec![
            format!("Record-Route: <sip:{front};lr;d=02>"),
            "Record-Route: <sip:192.0.2.90:5061;transport=tls;lr;d=02>".to_owned(),
            "Contact: <sip:alice@10.0.0.9;ob>".to_owned(),
        ];
        lab.send(front, invite.text());
        let got = lab.sent().into_iter().find(|sent| sent.status() == 0).expect("it rings");
        lab.send(BOB, got.reply(200, "b", &format!("Contact: <sip:bob@{BOB}>\r\n")));
        lab.sent();
        lab.send(BOB, from_callee(&got, "BYE", BOB, "<sip:bob@here.example>").text());
        let bye = lab.one();
        assert_eq!((bye.to().as_str(), bye.all("Route").len()), (front, 2), "{}", bye.text);
        lab.send(front, bye.reply(430, "", ""));
        let old = lab.one();
        assert_eq!(
            (old.to().as_str(), old.all("Route")),
            (front, vec![&*format!("<sip:{front};lr;d=old;ob>")])
        );
        lab.send(front, old.reply(430, "", ""));
        let new = lab.one();
        assert_eq!(
            (new.to().as_str(), new.all("Route")),
            (other, vec![&*format!("<sip:{other};lr;d=new;ob>")])
        );
        assert_eq!((new.method(), new.get("CSeq")), ("BYE", bye.get("CSeq")));
        lab.send(other, new.reply(200, "", ""));
        assert_eq!(statuses(&lab.sent()), [200]);
        lab.rest();
    }
}

/// A call of alice, whose phone is behind a front, to bob; the INVITE as bob has it. The phones of alice have
/// these instances.
fn call_by_front(lab: &mut Lab, contact: &str, instances: &[&str]) -> Sent {
    let front = "192.0.2.90:5060";
    lab.phones(&[BOB]);
    for instance in instances {
        let contact = format!("<{contact}>;+sip.instance=\"<urn:uuid:{instance}>\";reg-id=1");
        let via = format!("Via: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bKb{instance}\r\n");
        let lines = format!("{via}Path: <sip:{front};lr;d=p{instance};ob>\r\n{OUTBOUND}");
        lab.bind_with("alice", &contact, udp(front), &lines);
    }
    let mut invite = Req::invite();
    invite.via = format!("SIP/2.0/UDP {front};branch=z9hG4bKfront");
    invite.from = "<sip:alice@here.example>;tag=a".to_owned();
    invite.lines = vec![format!("Record-Route: <sip:{front};lr;d=02>"), format!("Contact: <{contact}>")];
    lab.send(front, invite.text());
    let got = lab.sent().into_iter().find(|sent| sent.status() == 0).expect("it rings");
    lab.send(BOB, got.reply(200, "b", &format!("Contact: <sip:bob@{BOB}>\r\n")));
    lab.sent();
    got
}

fn by_fronts() -> Lab {
    lab(|s| (s.auth.enabled, s.auth.fronts) = (false, vec![("192.0.2.90".parse().unwrap(), 32)]))
}

/// Two networks behind address translation may use the same addresses.
#[test]
fn request_goes_by_no_path_if_two_phones_have_its_contact() {
    for (instances, further) in [(&["1"][..], 1), (&["1", "2"], 0)] {
        let mut lab = by_fronts();
        let got = call_by_front(&mut lab, "sip:alice@10.0.0.9;ob", instances);
        lab.send(BOB, from_callee(&got, "BYE", BOB, "<sip:bob@here.example>").text());
        let bye = lab.one();
        lab.send(&bye.to(), bye.reply(430, "", ""));
        assert_eq!(requests(&lab.sent()).len(), further, "{instances:?}");
    }
}

/// A front that is overloaded gets no more of it (RFC 3261 section 21.5.4).
#[test]
fn front_that_answers_503_does_not_get_it_by_a_path() {
    let mut lab = by_fronts();
    let got = call_by_front(&mut lab, "sip:alice@10.0.0.9;ob", &["1"]);
    lab.send(BOB, from_callee(&got, "BYE", BOB, "<sip:bob@here.example>").text());
    let bye = lab.one();
    lab.send(&bye.to(), bye.reply(503, "", ""));
    let back = lab.sent();
    assert_eq!((requests(&back).len(), statuses(&back).len()), (0, 1), "{back:?}");
}

/// RFC 3261 sections 16.6 step 2 and 19.1.1.
#[test]
fn request_by_a_path_has_the_same_target() {
    let mut lab = by_fronts();
    let got = call_by_front(&mut lab, "sip:alice@10.0.0.9;ob", &["1"]);
    let mut req = from_callee(&got, "BYE", BOB, "<sip:bob@here.example>");
    req.uri = "sip:alice@10.0.0.9;ob;method=BYE?Subject=x".to_owned();
    lab.send(BOB, req.text());
    let bye = lab.one();
    lab.send(&bye.to(), bye.reply(430, "", ""));
    let again = lab.one();
    assert_eq!(bye.uri(), "sip:alice@10.0.0.9;ob");
    assert_eq!(again.uri(), bye.uri());
}

/// Anybody on the host of the front can listen at a port. The Path was written by the front.
#[test]
fn dialog_by_a_front_on_tcp_goes_on_at_the_port_of_a_path() {
    for (port, further) in [(5060, true), (5070, false)] {
        for method in ["INVITE", "BYE"] {
            let mut lab = lab(|s| {
                (s.auth.in_dialog, s.auth.fronts) = (false, vec![("192.0.2.90".parse().unwrap(), 32)]);
            });
            lab.phones(&[BOB]);
            let flow = opened(Transport::Tcp, FRONT, 1);
            let path = format!("Path: <sip:192.0.2.90:{port};transport=tcp;lr;d=p1>\r\nSupported: path\r\n");
            lab.bind_with("alice", "<sip:alice@10.0.0.9>;+sip.instance=\"<urn:uuid:1>\"", flow, &path);
            let mut invite = Req::invite();
            invite.via = "SIP/2.0/TCP 192.0.2.90:5060;branch=z9hG4bKfront".to_owned();
            invite.from = "<sip:alice@here.example>;tag=a".to_owned();
            invite.lines = vec![
                "Record-Route: <sip:192.0.2.90:5060;transport=tcp;lr;d=02>".to_owned(),
                "Contact: <sip:alice@10.0.0.9>".to_owned(),
            ];
            lab.send_on(flow, invite.text());
            let invite = invite.answer("alice", &lab.one());
            lab.send_on(flow, invite.text());
            let got = lab.sent().into_iter().find(|sent| sent.status() == 0).expect("it rings");
            lab.send(BOB, got.reply(200, "b", &format!("Contact: <sip:bob@{BOB}>\r\n")));
            lab.sent();
            lab.send(BOB, from_callee(&got, method, BOB, "<sip:bob@here.example>").text());
            let sent = lab.sent();
            let sent = sent.iter().find(|sent| sent.status() == 0).unwrap_or_else(|| panic!("{sent:?}"));
            assert_eq!((sent.to().as_str(), sent.existing), (FRONT, true));
            lab.undeliverable(sent);
            let next = lab.sent().into_iter().find(|sent| sent.status() == 0);
            let next = next.map(|sent| (sent.to(), sent.existing, sent.all("Route").len()));
            let anew = Some(("192.0.2.90:5060".to_owned(), false, 1));
            match method {
                "INVITE" => assert_eq!(next, anew.filter(|_| further), "{port}"),
                // By the Route of the dialog, or by the Path.
                _ => assert!(next.is_some_and(|n| !n.1 || n.0 == FRONT), "{port}"),
            }
        }
    }
}

#[test]
fn record_route_of_a_front_never_leads_to_the_admin_api() {
    let mut lab = lab(|s| {
        (s.auth.enabled, s.auth.fronts) = (false, vec![("192.0.2.90".parse().unwrap(), 32)]);
        s.admin = Some("192.0.2.90:8080".parse().unwrap());
    });
    lab.phones(&[BOB]);
    let mut invite = Req::invite();
    invite.via = "SIP/2.0/TLS 192.0.2.90:5061;branch=z9hG4bKfront".to_owned();
    invite.lines.push("Record-Route: <sip:192.0.2.90:8080;transport=tls;lr;d=02>".to_owned());
    invite.lines.push("Contact: <sip:carol@192.0.2.99:5060>".to_owned());
    lab.send_on(opened(Transport::Tls, FRONT, 1), invite.text());
    let got = lab.sent().into_iter().find(|sent| sent.status() == 0).expect("it rings");
    lab.send(BOB, got.reply(200, "b", &format!("Contact: <sip:bob@{BOB}>\r\n")));
    lab.sent();
    lab.send(BOB, from_callee(&got, "BYE", BOB, "<sip:bob@here.example>").text());
    while let Some(sent) = lab.sent().into_iter().find(|sent| sent.status() == 0) {
        assert_eq!(sent.to(), FRONT);
        lab.undeliverable(&sent);
    }
}

#[test]
fn request_goes_anew_without_memory_too() {
    for method in ["BYE", "INFO"] {
        let mut lab = lab(|s| (s.auth.enabled, s.proxy.mode) = (false, Mode::Stateless));
        let flow = opened(Transport::Tcp, "192.0.2.30:45000", 9);
        let contact = "<sip:alice@192.0.2.30:5060;transport=tcp>";
        lab.bind("alice", contact, flow);
        lab.phones(&[BOB]);
        let mut req = Req::invite().sent_by("TCP", "192.0.2.30:45000");
        (req.from, req.lines[0]) =
            ("<sip:alice@here.example>;tag=a".to_owned(), format!("Contact: {contact}"));
        lab.send_on(flow, req.text());
        let got = lab.one();
        lab.send(BOB, got.accept("b"));
        lab.one();
        lab.send(BOB, from_callee(&got, method, BOB, "<sip:bob@here.example>").text());
        let ways: Vec<_> = lab.sent().iter().map(|s| (s.to(), s.existing, s.instead)).collect();
        let expected = [("192.0.2.30:45000", true, false), ("192.0.2.30:5060", false, true)];
        assert_eq!(ways, expected.map(|(to, existing, instead)| (to.to_owned(), existing, instead)));
    }
}
