//! Phones behind connections that they opened (RFC 5626, RFC 7118), and what becomes of their calls when
//! those connections end, or the server does.

use live::{
    Credentials, Link, Listener, Msg, PATIENCE, Req, Server, Setup, Side, Via, hangs_up, speaks, unique,
};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Well below the 32 s after which a transaction would give up by itself.
const AT_ONCE: Duration = Duration::from_secs(5);

fn server() -> Setup {
    Setup::new().secure().workers(2).user("ann", "secret").user("bob", "secret")
}

fn who(user: &'static str) -> Credentials<'static> {
    Credentials::new(user, "secret")
}

/// Registers a user at a link, with credentials.
fn register(link: &mut Link, user: &'static str, params: &str) {
    let mut req = Req::register(user, link).with("Supported: path, outbound");
    let contact = req.extra.iter_mut().find(|line| line.starts_with("Contact:")).unwrap();
    contact.push_str(params);
    let answer = link.ask_as(&req, &who(user));
    assert_eq!(answer.status(), Some(200), "{user}: {}", answer.start);
}

/// ann calls bob, who answers.
fn call(ann: &mut Link, bob: &mut Link) -> (Side, Side) {
    let invite = dial(ann);
    let received = bob.request("INVITE");
    answers(ann, &invite, bob, &received)
}

/// bob answers this INVITE, which came to him in this form.
fn answers(ann: &mut Link, invite: &Req, bob: &mut Link, received: &Msg) -> (Side, Side) {
    bob.send(&received.reply(200, "b", &[&format!("Contact: <{}>", bob.contact("bob"))]));
    let answer = ann.response(invite);
    assert_eq!(answer.status(), Some(200));
    ann.send(&invite.in_dialog("ACK", &answer, ann).bytes());
    bob.request("ACK");
    (Side::of_caller(invite, &answer), Side::of_callee(received, "b"))
}

/// The phone connects again, as the same one.
fn back(server: &Server, old: &Link, user: &'static str) -> Link {
    let link = server.link(old.via());
    let mut link = if matches!(old.via(), Via::Ws | Via::Wss) { link.named_as(old.name()) } else { link };
    register(&mut link, user, "");
    link
}

#[test]
fn call_goes_on_over_new_connections_after_kill_9() {
    for (anns, bobs, callee_hangs_up) in [
        (Via::Tls, Via::Tls, true),
        (Via::Wss, Via::Wss, false),
        (Via::Ws, Via::Tls, false),
        (Via::Wss, Via::Udp, true),
        (Via::Udp, Via::Tls, false),
        (Via::Tcp, Via::Wss, true),
    ] {
        println!("{anns:?} calls {bobs:?}; the callee hangs up: {callee_hangs_up}");
        let mut server = server().start();
        let (mut ann, mut bob) = (server.link(anns), server.link(bobs));
        register(&mut ann, "ann", "");
        register(&mut bob, "bob", "");
        let (mut caller, mut callee) = call(&mut ann, &mut bob);

        server.restart();
        if anns != Via::Udp {
            ann = back(&server, &ann, "ann");
        }
        if bobs != Via::Udp {
            bob = back(&server, &bob, "bob");
        }
        speaks((&mut bob, &mut callee), (&mut ann, "ann"));
        speaks((&mut ann, &mut caller), (&mut bob, "bob"));
        match callee_hangs_up {
            true => hangs_up((&mut bob, &mut callee), &mut ann),
            false => hangs_up((&mut ann, &mut caller), &mut bob),
        }
    }
}

#[test]
fn call_goes_on_when_a_phone_connects_anew() {
    for via in Via::FLOWS {
        let server = server().start();
        let (mut ann, mut bob) = (server.link(Via::Udp), server.link(via));
        register(&mut ann, "ann", "");
        register(&mut bob, "bob", ";+sip.instance=\"<urn:uuid:b>\";reg-id=1");
        let (mut caller, mut callee) = call(&mut ann, &mut bob);
        let name = bob.name().to_owned();
        drop(bob);
        let mut bob = server.link(via);
        if via != Via::Tls {
            bob = bob.named_as(&name);
        }
        register(&mut bob, "bob", ";+sip.instance=\"<urn:uuid:b>\";reg-id=1");
        speaks((&mut ann, &mut caller), (&mut bob, "bob"));
        speaks((&mut bob, &mut callee), (&mut ann, "ann"));
        hangs_up((&mut ann, &mut caller), &mut bob);
    }
}

/// A phone opened its connection, so no other one leads to it (RFC 3261 sections 9.1 and 17.1.1.3).
#[test]
fn refused_re_invite_is_cancelled_and_acked_on_its_connection() {
    for via in Via::FLOWS {
        println!("{via:?}");
        let server = server().start();
        let (mut ann, mut bob) = (server.link(Via::Udp), server.link(via));
        register(&mut ann, "ann", "");
        register(&mut bob, "bob", "");
        let (mut caller, _) = call(&mut ann, &mut bob);
        for cancels in [false, true] {
            let invite = caller.request("INVITE", &ann);
            ann.send(&invite.bytes());
            let received = bob.request("INVITE");
            let status = if cancels { 487 } else { 488 };
            if cancels {
                bob.send(&received.reply(180, "", &[]));
                assert!(ann.find_within(PATIENCE, |m| m.status() == Some(180)).is_some());
                ann.send(&invite.cancel().bytes());
                let cancel = bob.request("CANCEL");
                bob.send(&cancel.reply(200, "", &[]));
            }
            bob.send(&received.reply(status, "", &[]));
            let ack = bob.request("ACK");
            assert_eq!(ack.header("CSeq"), Some(&*format!("{} ACK", invite.cseq)));
            let refused = |m: &Msg| m.status() == Some(status) && m.header("CSeq") == received.header("CSeq");
            assert!(ann.find_within(PATIENCE, refused).is_some(), "{status}");
        }
    }
}

/// ann calls bob with these credentials; the INVITE as it was sent.
fn dial(ann: &mut Link) -> Req {
    let invite = Req::invite("sip:bob@example.com", ann).user("ann");
    let challenged = ann.ask(&invite);
    assert_eq!(challenged.status(), Some(407));
    let invite = invite.again(ann, &live::answer(&challenged, &who("ann"), "INVITE", &invite.uri));
    ann.send(&invite.bytes());
    invite
}

/// The link on which an INVITE comes: its number, and the INVITE.
fn called(links: &mut [Option<Link>]) -> (usize, Msg) {
    let end = Instant::now() + AT_ONCE;
    while Instant::now() < end {
        for (n, link) in links.iter_mut().enumerate() {
            let Some(link) = link else { continue };
            if let Some(msg) = link.find_within(Duration::from_millis(10), |m| m.method() == "INVITE") {
                return (n, msg);
            }
        }
    }
    panic!("no INVITE came at once")
}

#[test]
fn phone_with_two_flows_is_called_by_the_other_when_one_dies() {
    for (first, second) in
        [(Via::Tls, Via::Tls), (Via::Wss, Via::Wss), (Via::Ws, Via::Tls), (Via::Tcp, Via::Tcp)]
    {
        let server = server().start();
        let mut ann = server.link(Via::Udp);
        let mut flows = [first, second].map(|via| Some(server.link(via)));
        for (n, link) in flows.iter_mut().enumerate() {
            let params = format!(";+sip.instance=\"<urn:uuid:b>\";reg-id={}", n + 1);
            register(link.as_mut().unwrap(), "bob", &params);
        }
        // The one that the call is on ends before it is answered.
        let invite = dial(&mut ann);
        let (on, _) = called(&mut flows);
        flows[on] = None;
        let (other, received) = called(&mut flows);
        assert_ne!(other, on);
        flows[other].as_mut().unwrap().send(&received.reply(486, "b", &[]));
        assert_eq!(ann.response_within(&invite, AT_ONCE).and_then(|m| m.status()), Some(486));
        ann.send(&invite.ack(&busy_answer(&invite)).bytes());

        // It is known to be gone at the next call.
        let invite = dial(&mut ann);
        let (again, received) = called(&mut flows);
        assert_eq!(again, other);
        flows[other].as_mut().unwrap().send(&received.reply(486, "b", &[]));
        assert_eq!(ann.response_within(&invite, AT_ONCE).and_then(|m| m.status()), Some(486));

        // Both are.
        flows[other] = None;
        let invite = dial(&mut ann);
        assert_eq!(ann.response_within(&invite, AT_ONCE).and_then(|m| m.status()), Some(480));
    }
}

/// An answer with a To tag, for the ACK that ends a transaction.
fn busy_answer(invite: &Req) -> Msg {
    let text = format!("SIP/2.0 486 x\r\nTo: {};tag=b\r\nContent-Length: 0\r\n\r\n", invite.to);
    Msg::parse(text.as_bytes()).unwrap()
}

#[test]
fn phone_on_a_connection_is_not_called_where_its_contact_leads() {
    for via in Via::FLOWS {
        let server = server().start();
        let mut ann = server.link(Via::Udp);
        // What listens at the phone's own address, and at another one.
        let local = TcpListener::bind("127.0.0.1:0").unwrap();
        local.set_nonblocking(true).unwrap();
        let mut elsewhere = Listener::open(server.sip());
        let transport = if via == Via::Tls { "tls" } else { "ws" };
        for place in [local.local_addr().unwrap(), elsewhere.udp.local()] {
            let bob = server.link(via);
            let mut bob = bob.named_as(&place.to_string());
            register(&mut bob, "bob", "");
            let invite = dial(&mut ann);
            let received = bob.request("INVITE");
            assert_eq!(received.uri(), format!("sip:bob@{place};transport={transport}"));
            bob.send(&received.reply(486, "b", &[]));
            assert_eq!(ann.response(&invite).status(), Some(486));
            drop(bob);
            let invite = dial(&mut ann);
            assert_eq!(ann.response_within(&invite, AT_ONCE).and_then(|m| m.status()), Some(480), "{via:?}");
            assert!(local.accept().is_err(), "{via:?}: a connection was made to the phone's address");
            assert!(elsewhere.request_within(Duration::from_millis(100)).is_none(), "{via:?}");
        }
    }
}

#[test]
fn phone_on_tcp_is_called_at_its_contact_if_that_is_reachable() {
    let server = server().start();
    let mut ann = server.link(Via::Udp);
    let mut listener = Listener::open_at(free_port(), server.sip());
    let mut bob = server.link(Via::Tcp).named_as(&listener.udp.local().to_string());
    register(&mut bob, "bob", "");
    drop(bob);
    let invite = dial(&mut ann);
    let (received, link) = listener.request_within(AT_ONCE).expect("a new connection");
    assert_eq!((received.method(), link.via()), ("INVITE", Via::Tcp));
    link.send(&received.reply(486, "b", &[]));
    assert_eq!(ann.response_within(&invite, PATIENCE).and_then(|m| m.status()), Some(486));
}

/// A port of the address that connections come from.
fn free_port() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn restart_while_phones_are_away_leaves_no_call_hanging() {
    let mut server = server().start();
    let mut ann = server.link(Via::Udp);
    let mut bob = server.link(Via::Wss);
    register(&mut bob, "bob", "");
    server.restart();
    // bob has not noticed yet.
    let invite = dial(&mut ann);
    assert_eq!(ann.response_within(&invite, AT_ONCE).and_then(|m| m.status()), Some(480));
    let mut bob = back(&server, &bob, "bob");
    let invite = dial(&mut ann);
    let received = bob.request("INVITE");
    bob.send(&received.reply(486, &unique("b"), &[]));
    assert_eq!(ann.response(&invite).status(), Some(486));
}

#[test]
fn call_goes_on_over_the_other_flow_when_one_dies() {
    for (first, second) in [(Via::Tls, Via::Tls), (Via::Wss, Via::Wss), (Via::Ws, Via::Tls)] {
        for ann_first in [true, false] {
            println!("{first:?} and {second:?}; ann speaks first: {ann_first}");
            let server = server().start();
            let mut ann = server.link(Via::Udp);
            register(&mut ann, "ann", "");
            let mut flows = [first, second].map(|via| Some(server.link(via)));
            for (n, link) in flows.iter_mut().enumerate() {
                let params = format!(";+sip.instance=\"<urn:uuid:b>\";reg-id={}", n + 1);
                register(link.as_mut().unwrap(), "bob", &params);
            }
            let invite = dial(&mut ann);
            let (on, received) = called(&mut flows);
            let (mut caller, mut callee) = answers(&mut ann, &invite, flows[on].as_mut().unwrap(), &received);
            flows[on] = None;
            let bob = flows[1 - on].as_mut().unwrap();
            if ann_first {
                speaks((&mut ann, &mut caller), (bob, "bob"));
                speaks((bob, &mut callee), (&mut ann, "ann"));
                hangs_up((bob, &mut callee), &mut ann);
            } else {
                speaks((bob, &mut callee), (&mut ann, "ann"));
                speaks((&mut ann, &mut caller), (bob, "bob"));
                hangs_up((&mut ann, &mut caller), bob);
            }
        }
    }
}
