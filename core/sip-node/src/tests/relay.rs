//! What must not make this server a relay for strangers: tokens shown from beside their end, a mailbox or
//! PBX on the server's own machine, contacts that lead back here or to the admin API.

use super::*;

/// A mailbox or PBX on the server's own machine.
const BESIDE_US: &str = "198.51.100.1:5080";
const VICTIM: &str = "203.0.113.77:5060";

/// A server whose calls all go to a mailbox at this address.
fn with_mailbox(uri: &str, change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.voicemail = Some(Voicemail {
            uri: uri.as_bytes().to_vec(),
            on: sip_proxy::context::Reroute::ALWAYS,
            no_answer_ms: 0,
            ..Voicemail::default()
        });
        change(s);
    })
}

/// A PBX on the server's own machine, whose calls may leave over a carrier for numbers with +49.
fn with_pbx(s: &mut Settings) {
    let mut pbx = trunk(&["sip:198.51.100.1:5080"], "9");
    pbx.sources = vec![("198.51.100.1".parse().unwrap(), 32)];
    pbx.may_transit = true;
    s.trunks.push(pbx);
    s.trunks.push(trunk(&["sip:203.0.113.5"], "+49"));
}

/// Where the requests among what left went.
fn reached(sent: &[Sent]) -> Vec<String> {
    requests(sent).into_iter().map(|(_, to)| to).collect()
}

/// Plays the network for what this server sends itself; returns what left for others.
fn spiral(lab: &mut Lab, first: Vec<Sent>) -> Vec<Sent> {
    let (mut out, mut back) = (Vec::new(), first);
    for _ in 0..100 {
        let Some(sent) = back.pop() else { return out };
        match sent.to() == US {
            true => lab.send(US, &sent.text),
            false => out.push(sent),
        }
        back.extend(lab.sent());
    }
    panic!("it goes round and round: {back:?}")
}

/// A request with the token of `ok`, whose tags say that it is from the other end than `invite`.
fn tags_swapped(method: &str, invite: &Req, ok: &Sent) -> Req {
    let mut evil = Req::new(method, "sip:victim@203.0.113.77");
    evil.call_id.clone_from(&invite.call_id);
    evil.from = "<sip:alice@here.example>;tag=zz".to_owned();
    evil.to = format!("<sip:victim@203.0.113.77>;tag={}", tag_of(&invite.from));
    evil.lines = vec![format!("Route: {}", ok.get("Record-Route").unwrap())];
    evil
}

#[test]
fn two_tokens_do_not_make_a_stranger_the_mailbox_on_our_own_machine() {
    // The first token leads to the mailbox, the second Route is this server's, on the same address: it
    // would come back from there, and the second token would take it for the mailbox's.
    let mut lab = with_mailbox("sip:mailbox@198.51.100.1:5080", |_| {});
    let token = |lab: &mut Lab, tag: &str| {
        let mut invite = Req::invite();
        invite.call_id = "same".to_owned();
        invite.from = format!("<sip:carol@far.example>;tag={tag}");
        let got = lab.invite(CAROL, invite.text()).remove(0);
        assert_eq!(got.to(), BESIDE_US);
        lab.ask(BESIDE_US, got.accept("m")).get("Record-Route").unwrap().to_owned()
    };
    let (first, second) = (token(&mut lab, "t1"), token(&mut lab, "t2"));
    for method in ["MESSAGE", "INVITE", "ACK"] {
        let mut evil = Req::new(method, "sip:victim@203.0.113.77");
        evil.call_id = "same".to_owned();
        evil.from = "<sip:anyone@far.example>;tag=t1".to_owned();
        evil.to = "<sip:victim@203.0.113.77>;tag=t2".to_owned();
        evil.lines = vec![format!("Route: {first}, {second}")];
        lab.send(CAROL, evil.text());
        let sent = lab.sent();
        // What begins something does not reach the other end either: the tags are of no call.
        let to: &[&str] = if method == "ACK" { &[BESIDE_US] } else { &[] };
        assert_eq!(reached(&spiral(&mut lab, sent)), to, "{method}: the other end and nobody else");
    }
    // And if it did come back, with our Via on top, it would be nobody's.
    let mut evil = Req::new("MESSAGE", "sip:victim@203.0.113.77");
    evil.via = "SIP/2.0/UDP 198.51.100.1:5060;branch=z9hG4bKs01.0123456789abcdef".to_owned();
    evil.call_id = "same".to_owned();
    evil.from = "<sip:anyone@far.example>;tag=zz".to_owned();
    evil.to = "<sip:victim@203.0.113.77>;tag=t2".to_owned();
    evil.lines = vec![format!("Route: {second}")];
    lab.send(US, evil.text());
    assert!(!reached(&lab.sent()).contains(&VICTIM.to_owned()));
}

#[test]
fn a_stranger_beside_the_mailbox_reaches_nobody_with_its_token() {
    let mut lab = with_mailbox("sip:mailbox@192.0.2.10:5080", |_| {});
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    assert_eq!(got.to(), "192.0.2.10:5080");
    let ok = lab.ask("192.0.2.10:5080", got.accept("m"));
    for method in ["MESSAGE", "INVITE", "ACK", "NOTIFY"] {
        lab.send(CAROL, tags_swapped(method, &invite, &ok).text());
        let sent = lab.sent();
        assert!(reached(&sent).iter().all(|to| to == CAROL), "{method}: {sent:?}");
        // Nor does he get a new token that calls him the mailbox.
        assert!(sent.iter().all(|s| s.get("Record-Route").is_none()), "{method}");
    }
    // The mailbox itself hangs up, from another port as well.
    for address in ["192.0.2.10:5080", "192.0.2.10:40001"] {
        let bye = from_callee(&got, "BYE", address, "<sip:bob@here.example>");
        assert_eq!(lab.ask(address, bye.text()).to(), CAROL);
    }
}

#[test]
fn a_stranger_beside_the_phone_relays_no_ack_with_its_token() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let beside = "192.0.2.20:7000";
    let mut invite = Req::invite().sent_by("UDP", beside);
    invite.lines = vec![format!("Contact: <sip:x@{beside}>")];
    let got = lab.invite(beside, invite.text()).remove(0);
    let ok = lab.ask(BOB, got.accept("b"));
    lab.send(beside, tags_swapped("ACK", &invite, &ok).sent_by("UDP", beside).text());
    assert!(!reached(&lab.sent()).contains(&VICTIM.to_owned()));
}

#[test]
fn a_phone_whose_port_has_changed_still_acknowledges_and_hangs_up() {
    let mut lab = Lab::new();
    let invite = Req::new("INVITE", "sip:x@203.0.113.77").alice();
    let got = lab.as_user(ALICE, "alice", &invite).remove(1);
    let answer = got.reply(200, "b", "Contact: <sip:x@203.0.113.99:5070>\r\n");
    let ok = lab.ask(VICTIM, answer);
    let moved = "192.0.2.30:40000";
    let ack = Req { cseq: 2, ..invite.within("ACK", &ok) };
    assert_eq!(lab.ask(moved, ack.text()).to(), VICTIM, "where the call was set up");
    let bye = Req { cseq: 3, ..invite.within("BYE", &ok) };
    let challenge = lab.ask(moved, bye.text());
    lab.send(moved, bye.answer("alice", &challenge).text());
    assert_eq!(lab.one().to(), "203.0.113.99:5070", "proven: wherever the other end says");
}

#[test]
fn a_name_of_somebody_else_leads_only_to_the_other_end() {
    // Alice calls herself as a stranger. In that dialog From is not held against her credentials, because
    // the call might have been passed on to her; it must not let her write to anybody as bob.
    let mut lab = Lab::new();
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
    let herself = "192.0.2.30:7000";
    let mut invite = Req::new("INVITE", "sip:alice@here.example").sent_by("UDP", herself);
    // To is hers to choose, whoever is called.
    invite.to = "<sip:bob@here.example>".to_owned();
    invite.lines = vec![format!("Contact: <sip:x@{herself}>")];
    let got = lab.invite(herself, invite.text()).remove(0);
    lab.ask(ALICE, got.accept("b"));
    let mut message = from_callee(&got, "MESSAGE", ALICE, "<sip:bob@here.example>");
    message.uri = "sip:victim@203.0.113.77".to_owned();
    let challenge = lab.ask(ALICE, message.text());
    lab.send(ALICE, message.answer("alice", &challenge).text());
    assert_eq!(lab.one().to(), herself);
    // Under her own name she may send anywhere.
    let mut message = from_callee(&got, "MESSAGE", ALICE, "<sip:alice@here.example>");
    message.uri = "sip:victim@203.0.113.77".to_owned();
    let challenge = lab.ask(ALICE, message.text());
    lab.send(ALICE, message.answer("alice", &challenge).text());
    assert_eq!(lab.one().to(), VICTIM);
}

#[test]
fn whoever_was_called_bears_the_name_that_was_called_and_no_other() {
    // A stranger whom alice called, and bob's phone, both as dave: not without his password.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    for (uri, to) in [("sip:x@203.0.113.77", VICTIM), ("sip:bob@here.example", BOB)] {
        let invite = Req::new("INVITE", uri).alice();
        let got = lab.as_user(ALICE, "alice", &invite).remove(1);
        assert_eq!(got.to(), to);
        lab.ask(to, got.accept("b"));
        let message = from_callee(&got, "MESSAGE", to, "<sip:dave@here.example>");
        let challenge = lab.ask(to, message.text());
        assert_eq!(challenge.status(), 407, "{uri}");
        assert_eq!(lab.ask(to, message.answer("bob", &challenge).text()).status(), 403, "{uri}");
        // As who he is he may.
        let message = from_callee(&got, "MESSAGE", to, "<sip:x@203.0.113.77>");
        assert_eq!(lab.ask(to, message.text()).to(), ALICE, "{uri}");
    }
}

#[test]
fn what_this_server_sends_itself_is_not_from_the_pbx_on_its_machine() {
    // Alice's Contact is this server, with a number: whoever calls her comes back from our own address.
    for mode in [Mode::Stateful, Mode::Stateless] {
        let mut lab = Lab::with(|s| {
            with_pbx(s);
            s.proxy.mode = mode;
        });
        lab.bind("alice", "<sip:+49900@198.51.100.1:5060>", sip_registrar::elsewhere(udp(ALICE)));
        lab.send(CAROL, Req::new("INVITE", "sip:alice@here.example").text());
        let sent = lab.sent();
        assert!(reached(&sent).contains(&US.to_owned()), "{mode:?}: {sent:?}");
        let sent = spiral(&mut lab, sent);
        assert!(!reached(&sent).contains(&"203.0.113.5:5060".to_owned()), "{mode:?}: {sent:?}");
    }
    // The PBX itself may.
    let mut lab = Lab::with(with_pbx);
    let out = Req::new("INVITE", "sip:+49900@here.example").sent_by("UDP", BESIDE_US);
    assert_eq!(lab.invite(BESIDE_US, out.text())[0].to(), "203.0.113.5:5060");
}

#[test]
fn a_dialog_with_a_mailbox_on_our_machine_leads_not_back_to_us() {
    let mut lab = with_mailbox("sip:mailbox@198.51.100.1:5080", with_pbx);
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    let ok = lab.ask(BESIDE_US, got.accept("b"));
    let mut again = invite.within("INVITE", &ok);
    for user in ["+49900", "bob"] {
        again.uri = format!("sip:{user}@198.51.100.1:5060");
        lab.send(CAROL, again.text());
        assert_eq!(reached(&lab.sent()), [BESIDE_US]);
        again.cseq += 1;
    }
    // Not for one of our users either, who may name other ports of the other end.
    let invite = Req::new("INVITE", "sip:bob@here.example").alice();
    let got = lab.as_user(ALICE, "alice", &invite).remove(1);
    let ok = lab.ask(BESIDE_US, got.accept("b"));
    for (port, to) in [(5060, BESIDE_US), (5082, "198.51.100.1:5082")] {
        let info = Req { cseq: 5, uri: format!("sip:m@198.51.100.1:{port}"), ..invite.within("INFO", &ok) };
        let challenge = lab.ask(ALICE, info.text());
        assert_eq!(lab.ask(ALICE, info.answer("alice", &challenge).text()).to(), to);
    }
}

#[test]
fn a_stranger_chooses_no_port_of_the_other_end() {
    let mut lab = with_mailbox("sip:mailbox@10.0.0.5:5080", |_| {});
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    let ok = lab.ask("10.0.0.5:5080", got.accept("b"));
    for uri in ["sip:x@10.0.0.5:6379;transport=tcp", "sip:x@10.0.0.5:6379", "sip:x@10.0.0.6"] {
        let mut info = invite.within("INFO", &ok);
        info.uri = uri.to_owned();
        let sent = lab.ask(CAROL, info.text());
        assert_eq!(
            (sent.to().as_str(), sent.uri(), sent.flow.transport),
            ("10.0.0.5:5080", uri, Transport::Udp)
        );
    }
    // Nor by a Route, whose name may be the other end's.
    for (route, passes) in [
        ("sip:x.example:6379;transport=tcp;maddr=10.0.0.5;lr", true),
        ("sip:x.example;maddr=10.0.0.5;lr", true),
        ("sip:10.0.0.5:6379;lr", true),
        ("sip:x.example;maddr=10.0.0.6;lr", false),
    ] {
        for method in ["INVITE", "BYE", "ACK"] {
            let routed = invite.within(method, &ok).line(&format!("Route: <{route}>"));
            lab.send(CAROL, Req { cseq: 20 + number(), ..routed }.text());
            let sent = lab.sent();
            let way = sent.iter().find(|s| s.status() == 0).map(|s| (s.to(), s.flow.transport));
            let seen = passes.then(|| ("10.0.0.5:5080".to_owned(), Transport::Udp));
            assert_eq!(way, seen, "{method} {route}");
        }
    }
    // A phone of ours there he could call as well.
    let mut lab = Lab::new();
    lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
    lab.bind("dave", "<sip:dave@192.0.2.20:5070>", udp("192.0.2.20:5070"));
    let got = lab.invite(CAROL, invite.text()).remove(0);
    let ok = lab.ask(BOB, got.accept("b"));
    for (uri, to) in [
        ("dave@192.0.2.20:5070", "192.0.2.20:5070"),
        ("bob@192.0.2.20:5070", BOB),
        ("dave@192.0.2.20:5071", BOB),
    ] {
        let info = Req { uri: format!("sip:{uri}"), ..invite.within("INFO", &ok) };
        assert_eq!(lab.ask(CAROL, info.text()).to(), to);
    }
}

#[test]
fn a_private_contact_leads_to_where_the_other_end_is() {
    // Behind address translation, or pointing into our own network.
    for contact in ["sip:carol@10.0.0.9:5060", "sip:x@10.0.0.7:6379;transport=tcp"] {
        let mut lab = Lab::new();
        lab.phones(&[BOB]);
        let mut invite = Req::invite().sent_by("UDP", "10.0.0.9:5060");
        invite.lines = vec![format!("Contact: <{contact}>")];
        let got = lab.invite("192.0.2.10:31000", invite.text()).remove(0);
        lab.ask(BOB, got.accept("b"));
        let bye = from_callee(&got, "BYE", BOB, "<sip:bob@here.example>");
        let challenge = lab.ask(BOB, bye.text());
        let sent = lab.ask(BOB, bye.answer("bob", &challenge).text());
        assert_eq!((sent.to().as_str(), sent.uri()), ("192.0.2.10:31000", contact));
    }
    // Among private addresses they mean what they say.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let mut invite = Req::invite().sent_by("UDP", "10.0.0.1:5060");
    invite.lines = vec!["Contact: <sip:carol@10.0.0.9:5070>".to_owned()];
    let got = lab.invite("10.0.0.1:5060", invite.text()).remove(0);
    lab.ask(BOB, got.accept("b"));
    let bye = from_callee(&got, "BYE", BOB, "<sip:bob@here.example>");
    let challenge = lab.ask(BOB, bye.text());
    assert_eq!(lab.ask(BOB, bye.answer("bob", &challenge).text()).to(), "10.0.0.9:5070");
}

/// A REGISTER of alice's, with her password.
fn register(lab: &mut Lab, from: &str, lines: &[&str]) {
    let mut req = Req::new("REGISTER", "sip:here.example").sent_by("UDP", from);
    req.from = format!("<sip:alice@here.example>;tag=r{}", number());
    req.to = "<sip:alice@here.example>".to_owned();
    req.lines = lines.iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(statuses(&lab.as_user(from, "alice", &req)), [200]);
}

#[test]
fn no_registration_opens_the_admin_api() {
    let admin = "127.0.0.1:8080".to_owned();
    let options = || Req::new("OPTIONS", "sip:alice@here.example").text();
    // By a Contact on loopback of a phone that is elsewhere, whether called by name or by address.
    let mut lab = Lab::new();
    register(&mut lab, ALICE, &["Contact: <sip:x@127.0.0.1:8080>"]);
    lab.send(CAROL, Req::new("OPTIONS", "sip:x@127.0.0.1:8080;transport=tcp").text());
    assert_eq!(statuses(&lab.sent()), [403]);
    lab.send(CAROL, options());
    assert_eq!(reached(&lab.sent()), [ALICE]);
    // By a Path.
    let mut lab = Lab::new();
    let path = "Path: <sip:127.0.0.1:8080;transport=tcp;lr>";
    register(&mut lab, ALICE, &["Contact: <sip:x@192.0.2.30>", path, "Supported: path"]);
    lab.send(CAROL, options());
    assert!(!reached(&lab.sent()).contains(&admin));
    // From its own address, on a server for which loopback is the network.
    let listener = |transport| Listener::new(transport, "127.0.0.1:5060".parse().unwrap(), None);
    let mut lab = Lab::with(|s| s.listeners = vec![listener(Transport::Udp), listener(Transport::Tcp)]);
    register(&mut lab, "127.0.0.1:6000", &["Contact: <sip:x@127.0.0.1:8080;transport=tcp>"]);
    lab.send("127.0.0.1:6001", options());
    assert_eq!(reached(&lab.sent()), ["127.0.0.1:6000"]);
    lab.send("127.0.0.1:6001", Req::new("OPTIONS", "sip:x@127.0.0.1:8080").text());
    assert_eq!(statuses(&lab.sent()), [403]);
    // A phone there is reached at its Contact like any other.
    register(&mut lab, "127.0.0.1:6000", &["Contact: *", "Expires: 0"]);
    register(&mut lab, "127.0.0.1:6000", &["Contact: <sip:x@127.0.0.1:6010>"]);
    lab.send("127.0.0.1:6001", options());
    assert_eq!(reached(&lab.sent()), ["127.0.0.1:6010"]);
}

#[test]
fn a_path_leads_to_the_balancer_that_the_register_came_from_whatever_the_contact_is() {
    // Inside, with a phone outside whose Contact is its public address, and with one whose Contact is
    // private.
    for contact in ["203.0.113.7:5062", "10.0.0.7:5062", "192.0.2.30"] {
        let mut lab = Lab::new();
        let lines =
            [&format!("Contact: <sip:x@{contact}>"), "Path: <sip:10.0.0.9;lr;d=p0>", "Supported: path"];
        register(&mut lab, "10.0.0.9:5060", &lines);
        lab.send(CAROL, Req::new("OPTIONS", "sip:alice@here.example").text());
        assert_eq!(reached(&lab.sent()), ["10.0.0.9:5060"], "{contact}");
    }
}

#[test]
fn the_address_of_a_registered_phone_has_the_port_of_its_transport() {
    let mut lab = Lab::with(|s| {
        s.listeners.push(Listener::new(Transport::Tls, "198.51.100.1:5061".parse().unwrap(), None))
    });
    lab.phones(&[BOB]);
    // Bob is at 5060; without a port this is 5061.
    lab.bind("bob", "<sip:x@192.0.2.20>", udp(BOB));
    lab.send(CAROL, Req::new("OPTIONS", "sip:x@192.0.2.20;transport=tls").text());
    assert_eq!(statuses(&lab.sent()), [403]);
    assert_eq!(lab.ask(CAROL, Req::new("OPTIONS", "sip:x@192.0.2.20").text()).to(), BOB);
}
