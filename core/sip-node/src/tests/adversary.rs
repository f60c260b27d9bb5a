//! What goes round the rules of `relay`: requests of this server to itself that look like a phone's, tags
//! swapped by a trunk, private addresses in other words, sealed branches used again.

use super::*;
use sip_proxy::locate::Kind;

const CARRIER: &str = "203.0.113.5:5060";
const VICTIM: &str = "198.18.0.77:5060";

/// Where the requests among what left went.
fn reached(sent: &[Sent]) -> Vec<String> {
    requests(sent).into_iter().map(|(_, to)| to).collect()
}

/// Plays the network for what this server sends itself; returns what left for others.
fn spiral(lab: &mut Lab) -> Vec<Sent> {
    let (mut out, mut back) = (Vec::new(), lab.sent());
    for _ in 0..100 {
        let Some(sent) = back.pop() else { return out };
        match sent.to() == US {
            true => lab.send_on(Flow { conn: None, ..tcp_or_udp(&sent) }, &sent.text),
            false => out.push(sent),
        }
        back.extend(lab.sent());
    }
    panic!("it goes round and round: {back:?}")
}

fn tcp_or_udp(sent: &Sent) -> Flow {
    Flow { remote: US.parse().unwrap(), ..sent.flow }
}

/// `method` in the dialog of `ok` to whatever `uri` names, with tags that say who sends it.
fn in_the_dialog_of(invite: &Req, ok: &Sent, by_caller: bool, method: &str, uri: &str) -> Req {
    let mut evil = Req::new(method, uri);
    evil.call_id.clone_from(&invite.call_id);
    let (from, to) = if by_caller { (tag_of(&invite.from), "zz") } else { ("zz", tag_of(&invite.from)) };
    evil.from = format!("<sip:x@far.example>;tag={from}");
    evil.to = format!("<sip:y@far.example>;tag={to}");
    evil.lines = vec![format!("Route: {}", ok.get("Record-Route").unwrap())];
    evil
}

#[test]
fn a_contact_at_our_own_address_makes_no_phone_of_what_we_send_ourselves() {
    // Alice's calls go on to a number, by a Contact that is this server. Our own address is that of a
    // registered phone then, and what comes from it with a name of ours in From would be a user's.
    let mut lab = Lab::with(|s| {
        s.trunks.push(trunk(&["sip:203.0.113.5"], "+49"));
        s.auth.challenge = Challenge::Only(vec![b"REGISTER".to_vec()]);
    });
    lab.bind("alice", "<sip:+49900@198.51.100.1:5060>", udp(ALICE));
    for method in ["INVITE", "MESSAGE", "ACK"] {
        let mut call = Req::new(method, "sip:alice@here.example");
        call.from = "<sip:bob@here.example>;tag=1".to_owned();
        lab.send(CAROL, call.text());
        let sent = spiral(&mut lab);
        assert!(!reached(&sent).contains(&CARRIER.to_owned()), "{method}: {sent:?}");
    }
    // Alice's own phone may call the number.
    let out = Req::new("INVITE", "sip:+49900@here.example").alice();
    assert_eq!(lab.invite(ALICE, out.text())[0].to(), CARRIER);
}

#[test]
fn a_trunk_that_swaps_the_tags_is_not_the_user_it_was_called_by() {
    let mut lab = Lab::with(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
    lab.phones(&[BOB]);
    let invite = Req::new("INVITE", "sip:+49900@here.example").alice();
    let got = lab.as_user(ALICE, "alice", &invite).remove(1);
    let ok = lab.ask(CARRIER, got.accept("b"));
    for method in ["MESSAGE", "INVITE", "ACK"] {
        lab.send(CARRIER, in_the_dialog_of(&invite, &ok, true, method, "sip:x@198.18.0.77").text());
        let to = reached(&lab.sent());
        assert!(to.iter().all(|to| to == CARRIER), "{method}: {to:?}");
    }
    // Nor is it at the place of a stranger who calls one of our users.
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    let ok = lab.ask(BOB, got.accept("b"));
    for method in ["MESSAGE", "INVITE", "ACK"] {
        lab.send(CARRIER, in_the_dialog_of(&invite, &ok, false, method, "sip:x@198.18.0.77").text());
        let to = reached(&lab.sent());
        assert!(!to.contains(&VICTIM.to_owned()), "{method}: {to:?}");
    }
}

/// Answers every question for an address with a private one.
fn resolve_inside(lab: &mut Lab) {
    lab.resolve_with(|question| match question.kind {
        Kind::A => Answer::A(Box::new(["10.0.0.7".parse().unwrap()])),
        _ => Answer::Nothing,
    });
}

#[test]
fn nobody_outside_names_a_host_inside_whatever_the_name() {
    for contact in ["sip:x@[::ffff:10.0.0.7]:6379;transport=tcp", "sip:x@inside.example:6379;transport=tcp"] {
        let mut lab = Lab::new();
        lab.phones(&[BOB]);
        let mut invite = Req::invite();
        invite.lines = vec![format!("Contact: <{contact}>")];
        let got = lab.invite(CAROL, invite.text()).remove(0);
        lab.ask(BOB, got.accept("b"));
        let bye = from_callee(&got, "BYE", BOB, "<sip:bob@here.example>");
        let challenge = lab.ask(BOB, bye.text());
        lab.send(BOB, bye.answer("bob", &challenge).text());
        resolve_inside(&mut lab);
        assert_eq!(reached(&lab.sent()), [CAROL], "{contact}");
    }
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
fn no_registration_from_outside_leads_inside() {
    const INSIDE: &str = "10.0.0.7:6379";
    let by_name = || Req::new("OPTIONS", "sip:alice@here.example").text();
    let by_address = || Req::new("OPTIONS", "sip:x@10.0.0.7:6379;transport=tcp").text();
    let path = "Path: <sip:10.0.0.7:6379;transport=tcp;lr>";
    let path_by_name = "Path: <sip:inside.example:6379;transport=tcp;lr>";
    let contact = "Contact: <sip:x@10.0.0.7:6379;transport=tcp>";
    let mapped = "Contact: <sip:x@[::ffff:10.0.0.7]:6379;transport=tcp>";
    let herself = "Contact: <sip:x@192.0.2.30>";
    for lines in [
        &[contact][..],
        &[mapped],
        &[herself, path, "Supported: path"],
        &[herself, path_by_name, "Supported: path"],
    ] {
        let mut lab = Lab::new();
        register(&mut lab, ALICE, lines);
        for text in [by_name(), by_address()] {
            lab.send(CAROL, text);
            resolve_inside(&mut lab);
            let to = reached(&lab.sent());
            assert!(!to.contains(&INSIDE.to_owned()), "{lines:?}: {to:?}");
        }
    }
    // From inside it means what it says.
    let mut lab = Lab::new();
    register(&mut lab, "10.0.0.30:5060", &[contact]);
    lab.send(CAROL, by_name());
    assert_eq!(reached(&lab.sent()), [INSIDE]);
}

#[test]
fn a_user_who_calls_from_outside_names_nobody_inside() {
    let call = |from: &str, uri: &str, route: Option<&str>| {
        let mut lab = Lab::new();
        let mut call = Req::new("MESSAGE", uri).alice().sent_by("UDP", from);
        call.lines.extend(route.map(|route| format!("Route: <{route}>")));
        let challenge = lab.ask(from, call.text());
        lab.send(from, call.answer("alice", &challenge).text());
        resolve_inside(&mut lab);
        let sent = lab.sent();
        (reached(&sent), statuses(&sent))
    };
    let names = ["sip:x@10.0.0.7:6379", "sip:x@[::ffff:10.0.0.7]:6379", "sip:x@inside.example:6379"];
    for uri in names {
        let route = format!("{uri};lr");
        for (uri, route) in [(uri, None), ("sip:x@far.example", Some(&route[..]))] {
            assert_eq!(call(ALICE, uri, route), (vec![], vec![403]), "{uri} {route:?}");
            assert_eq!(call("10.0.0.30:5060", uri, route).0, ["10.0.0.7:6379"], "{uri} {route:?}");
        }
    }
}

#[test]
fn a_branch_without_memory_is_no_way_back_where_nothing_is_without_memory() {
    // An ACK takes a sealed way back with it that nobody needs, and that would be good for ever.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let invite = Req::invite();
    let got = lab.invite(CAROL, invite.text()).remove(0);
    let ok = lab.ask(BOB, got.accept("b"));
    let ack = lab.ask(CAROL, invite.within("ACK", &ok).text());
    lab.send(BOB, ack.reply(200, "b", ""));
    lab.silent();
    assert_eq!(lab.count(Counter::Stray), 1);
}

#[test]
fn another_server_of_our_name_is_the_trunk_that_it_is() {
    for mode in [Mode::Stateful, Mode::Stateless] {
        let server = |key: u8| {
            let named = |transport, name: &str| {
                Listener::new(transport, US.parse().unwrap(), Some((name.as_bytes().to_vec(), None)))
            };
            let change = |s: &mut Settings| {
                s.listeners = vec![named(Transport::Udp, "sip.here.example")];
                s.trunks.push(trunk(&["sip:203.0.113.5"], "+49"));
                s.trunks[0].may_transit = true;
                s.trunks.push(Trunk { sources: Vec::new(), ..trunk(&["sip:203.0.113.99"], "+1") });
                s.proxy.mode = mode;
            };
            Lab::keyed([key; 16], change)
        };
        let (mut other, mut lab) = (server(1), server(2));
        // A call that came to the other one, with a name of ours in From, and leaves it for this one.
        other.bind("bob", "<sip:+1900@198.51.100.1:5060>", udp(US));
        other.send(CAROL, Req::invite().text());
        let sent = other.sent().into_iter().find(|s| s.status() == 0).unwrap();
        assert!(sent.get("Via").unwrap().contains("sip.here.example;branch="));
        lab.send(CARRIER, &sent.text);
        assert!(reached(&lab.sent()).contains(&"203.0.113.99:5060".to_owned()), "{mode:?}");
        // The same text is from ourselves at the one that wrote it.
        other.send(CARRIER, &sent.text);
        assert!(!reached(&other.sent()).contains(&"203.0.113.99:5060".to_owned()), "{mode:?}");
    }
}

#[test]
fn a_phone_on_our_own_machine_is_inside() {
    // It comes from loopback and has the address of the machine in its Contact; it may call a neighbour.
    let near = "127.0.0.1:6000";
    let listener = |transport, at: &str| Listener::new(transport, at.parse().unwrap(), None);
    let mut lab = Lab::with(|s| {
        s.admin = None;
        s.listeners =
            vec![listener(Transport::Udp, "127.0.0.1:5060"), listener(Transport::Udp, "10.0.0.1:5060")];
    });
    register(&mut lab, near, &["Contact: <sip:x@10.0.0.1:6000>"]);
    assert!(lab.world.table.borrow().has_contact_address("10.0.0.1:6000".parse().unwrap()));
    let call = Req::new("MESSAGE", "sip:x@10.0.0.7").alice().sent_by("UDP", near);
    let challenge = lab.ask(near, call.text());
    lab.send(near, call.answer("alice", &challenge).text());
    assert_eq!(reached(&lab.sent()), ["10.0.0.7:5060"]);
}

#[test]
fn a_caller_that_sends_from_another_port_than_it_listens_at_is_hung_up_on_where_it_listens() {
    // Without rport the answers go to its sent-by, and so must what follows. Bob is not known by the name
    // that was called, so he is a stranger here, and chooses no port.
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let mut invite = Req::invite();
    invite.to = "<sip:+4930100@far.example>".to_owned();
    let got = lab.invite("192.0.2.10:51234", invite.text()).remove(0);
    let ok = lab.ask(BOB, got.accept("b"));
    assert_eq!(ok.to(), CAROL);
    let bye = from_callee(&got, "BYE", BOB, "<sip:+4930100@far.example>");
    assert_eq!(lab.ask(BOB, bye.text()).to(), CAROL);
}
