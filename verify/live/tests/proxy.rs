//! The proxy as phones and other servers see it: RFC 3261 section 16 and what builds on it.

use live::{Link, Listener, Msg, PATIENCE, Req, Server, Setup, Via, fresh_ip, unique};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

const SOON: Duration = Duration::from_millis(200);

/// A phone that registered as `user` over `via`.
fn phone(server: &Server, user: &str, via: Via) -> Link {
    let mut link = server.link(via);
    link.register(user);
    link
}

fn contact_of(link: &Link, user: &str) -> String {
    let transport = if link.via() == Via::Tcp { ";transport=tcp" } else { "" };
    format!("Contact: <sip:{user}@{}{transport}>", link.local())
}

/// Bind a further Contact of `user`: this link, with these parameters.
fn bind(link: &mut Link, user: &str, parameters: &str) {
    let mut req = Req::new("REGISTER", "sip:example.com", link).user(user);
    req.to = format!("<sip:{user}@example.com>");
    let contact = format!("Contact: <sip:{user}@{}>{parameters}", link.local());
    assert_eq!(link.status(&req.with(&contact)), 200);
}

/// bob answers the INVITE that `caller` sent; says what the caller got.
fn answer_call(caller: &mut Link, invite: &Req, bob: &mut Link) -> (Msg, Msg) {
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(180, "b", &[]));
    caller.expect(invite, 180);
    bob.send(&received.reply(200, "b", &[&contact_of(bob, "bob")]));
    (received, caller.response(invite))
}

#[test]
fn a_call_over_every_pair_of_transports() {
    let server = Setup::open().workers(2).start();
    for callee_via in Via::BOTH {
        let mut bob = phone(&server, "bob", callee_via);
        for caller_via in Via::BOTH {
            let what = format!("{caller_via:?} to {callee_via:?}");
            let mut caller = server.link(caller_via);
            let invite = Req::invite("sip:bob@example.com", &caller);
            let (received, answered) = answer_call(&mut caller, &invite, &mut bob);
            assert_eq!(answered.status(), Some(200), "{what}");
            assert_eq!(received.all("Via").len(), 2, "{what}");
            assert_eq!(received.body, invite.body, "{what}");
            let routes = answered.all("Record-Route").len();
            // Both sides of the server when they differ (RFC 5658), else one.
            assert_eq!(routes, if caller_via == callee_via { 1 } else { 2 }, "{what}: {answered:?}");
            assert!(received.has(";lr"), "{what}");
            let ack = invite.in_dialog("ACK", &answered, &caller);
            caller.send(&ack.bytes());
            assert!(bob.request("ACK").header("Route").is_none(), "{what}: our Route goes no further");
            let bye = invite.in_dialog("BYE", &answered, &caller);
            caller.send(&bye.bytes());
            let received = bob.request("BYE");
            bob.send(&received.reply(200, "", &[]));
            assert_eq!(caller.response(&bye).status(), Some(200), "{what}");
        }
        let mut link = server.link(Via::Udp);
        let mut clear =
            Req::new("REGISTER", "sip:example.com", &link).user("bob").with("Contact: *").with("Expires: 0");
        clear.to = "<sip:bob@example.com>".into();
        assert_eq!(link.status(&clear), 200);
    }
}

/// Feature codes, names beyond ASCII and quoted parameters, as gateways write them into Contact.
#[test]
fn calls_with_odd_contacts_can_be_ended() {
    let server = Setup::open().start();
    let mut bob = phone(&server, "bob", Via::Udp);
    for user in ["*21#", "gw+carrier#1", "j\u{f6}rg", "50%", "{x}|^"] {
        let mut caller = server.link(Via::Udp);
        let mut invite = Req::invite("sip:bob@example.com", &caller);
        invite.extra.retain(|line| !line.starts_with("Contact"));
        let invite = invite.with(&format!("Contact: <sip:{user}@{};x=\"y\">", caller.local()));
        caller.send(&invite.bytes());
        let received = bob.request("INVITE");
        bob.send(&received.reply(200, "b", &[&format!("Contact: <sip:{user}@{};x=\"y\">", bob.local())]));
        let answered = caller.response(&invite);
        caller.send(&invite.in_dialog("ACK", &answered, &caller).bytes());
        assert_eq!(bob.request("ACK").uri(), format!("sip:{user}@{};x=\"y\"", bob.local()));
        let bye = invite.in_dialog("BYE", &answered, &caller);
        caller.send(&bye.bytes());
        let received = bob.request("BYE");
        bob.send(&received.reply(200, "", &[]));
        assert_eq!(caller.response(&bye).status(), Some(200), "{user}");
    }
}

#[test]
fn the_callee_may_hang_up_first() {
    let server = Setup::open().start();
    let mut bob = phone(&server, "bob", Via::Udp);
    let mut caller = server.link(Via::Tcp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    let (received, answered) = answer_call(&mut caller, &invite, &mut bob);
    caller.send(&invite.in_dialog("ACK", &answered, &caller).bytes());
    bob.request("ACK");
    let mut bye = Req::new("BYE", "", &bob);
    bye.uri = received.header("Contact").and_then(|c| c.split('<').nth(1)?.split('>').next()).unwrap().into();
    bye.from = answered.header("To").unwrap().into();
    bye.to = invite.from.clone();
    bye.call_id = invite.call_id.clone();
    bye.extra = received.all("Record-Route").iter().map(|r| format!("Route: {r}")).collect();
    bob.send(&bye.bytes());
    let received = caller.request("BYE");
    caller.send(&received.reply(200, "", &[]));
    assert_eq!(bob.response(&bye).status(), Some(200));
}

#[test]
fn bye_without_route_finds_the_callee() {
    let server = Setup::open().start();
    let mut bob = phone(&server, "bob", Via::Udp);
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    let (_, answered) = answer_call(&mut caller, &invite, &mut bob);
    let mut ack = invite.in_dialog("ACK", &answered, &caller);
    (ack.uri, ack.extra) = (invite.uri.clone(), Vec::new());
    caller.send(&ack.bytes());
    bob.request("ACK");
    let mut bye = invite.in_dialog("BYE", &answered, &caller);
    (bye.uri, bye.extra) = (invite.uri.clone(), Vec::new());
    caller.send(&bye.bytes());
    let received = bob.request("BYE");
    bob.send(&received.reply(200, "", &[]));
    assert_eq!(caller.response(&bye).status(), Some(200));
}

#[test]
fn trying_is_at_once_and_retransmissions_stay_here() {
    let server = Setup::open().start();
    let mut bob = phone(&server, "bob", Via::Udp);
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    caller.expect(&invite, 100);
    let first = bob.request("INVITE");
    caller.send(&invite.bytes());
    caller.expect(&invite, 100);
    server.assert_alive("a retransmission");
    let again = bob.find_within(SOON, |m| m.method() == "INVITE");
    // The server's own client transaction may retransmit at T1, with the same branch; it is no second call.
    if let Some(again) = again {
        assert_eq!(again.header("Via"), first.header("Via"));
    }
}

#[test]
fn parallel_forking_and_the_losers_cancel() {
    let server = Setup::open().start();
    let mut phones: Vec<Link> = (0..3).map(|_| server.link(Via::Udp)).collect();
    for link in &mut phones {
        bind(link, "bob", "");
    }
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received: Vec<Msg> = phones.iter_mut().map(|p| p.request("INVITE")).collect();
    let branches: Vec<&str> = received.iter().filter_map(|m| m.header("Via")).collect();
    assert!(branches[0] != branches[1] && branches[1] != branches[2], "a branch of its own each");
    for (link, invite) in phones.iter_mut().zip(&received) {
        link.send(&invite.reply(180, &unique("t"), &[]));
    }
    let contact = contact_of(&phones[1], "bob");
    phones[1].send(&received[1].reply(200, "winner", &[&contact]));
    let answered = caller.response(&invite);
    assert!(answered.header("To").unwrap().contains("winner"));
    for i in [0, 2] {
        let cancel = phones[i].request("CANCEL");
        assert_eq!(cancel.header("Via"), received[i].header("Via"), "RFC 3261 section 9.1");
        phones[i].send(&cancel.reply(200, "", &[]));
        phones[i].send(&received[i].reply(487, "loser", &[]));
        assert_eq!(phones[i].request("ACK").header("Via"), received[i].header("Via"));
    }
    assert!(
        caller.find_within(SOON, |m| m.status().is_some_and(|s| s >= 300)).is_none(),
        "a 487 got through"
    );
}

#[test]
fn serial_by_q_and_the_best_response() {
    let server = Setup::open().start();
    let mut first = server.link(Via::Udp);
    let mut second = server.link(Via::Udp);
    bind(&mut first, "bob", ";q=0.9");
    bind(&mut second, "bob", ";q=0.1");
    let mut caller = server.link(Via::Udp);
    // 404, then 486: the lowest class wins, and within it neither must be preferred over 401/407 (16.7).
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = first.request("INVITE");
    assert!(second.recv_within(SOON).is_none(), "the lower q is tried later");
    first.send(&received.reply(503, "a", &[]));
    let received = second.request("INVITE");
    second.send(&received.reply(486, "b", &[]));
    assert_eq!(caller.response(&invite).status(), Some(486));
    caller.send(&invite.ack(&Msg::parse(&received.reply(486, "b", &[])).unwrap()).bytes());
    // A 6xx ends the search.
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = loop {
        let m = first.request("INVITE");
        if m.header("Call-ID") == Some(invite.call_id.as_str()) {
            break m;
        }
    };
    first.send(&received.reply(603, "a", &[]));
    assert_eq!(caller.response(&invite).status(), Some(603));
    let tried = second.find_within(SOON, |m| {
        m.method() == "INVITE" && m.header("Call-ID") == Some(invite.call_id.as_str())
    });
    assert!(tried.is_none(), "tried after a 603");
}

#[test]
fn a_503_alone_becomes_500() {
    let server = Setup::open().start();
    let mut a = server.link(Via::Udp);
    bind(&mut a, "solo", "");
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:solo@example.com", &caller);
    caller.send(&invite.bytes());
    let received = a.request("INVITE");
    a.send(&received.reply(503, "a", &[]));
    assert_eq!(caller.response(&invite).status(), Some(500), "RFC 3261 section 16.7 item 6");
}

#[test]
fn the_challenges_of_every_branch_are_gathered() {
    let server = Setup::open().start();
    let mut a = server.link(Via::Udp);
    let mut b = server.link(Via::Udp);
    let mut caller = server.link(Via::Udp);
    for link in [&mut a, &mut b] {
        bind(link, "two", "");
    }
    let invite = Req::new("MESSAGE", "sip:two@example.com", &caller);
    caller.send(&invite.bytes());
    for (link, realm) in [(&mut a, "one"), (&mut b, "two")] {
        let received = link.request("MESSAGE");
        let challenge = format!("Proxy-Authenticate: Digest realm=\"{realm}\", nonce=\"n\", algorithm=MD5");
        link.send(&received.reply(407, "x", &[&challenge]));
    }
    let told = caller.response(&invite);
    assert_eq!(told.all("Proxy-Authenticate").len(), 2, "section 16.7 item 7: every challenge");
}

#[test]
fn cancel_reaches_the_phone_and_the_caller_gets_487() {
    let server = Setup::open().start();
    for via in Via::BOTH {
        let user = if via == Via::Udp { "udp" } else { "tcp" };
        let mut bob = phone(&server, user, via);
        let mut caller = server.link(via);
        let invite = Req::invite(&format!("sip:{user}@example.com"), &caller);
        caller.send(&invite.bytes());
        let received = bob.request("INVITE");
        bob.send(&received.reply(180, "b", &[]));
        caller.expect(&invite, 180);
        let cancel = invite.cancel();
        caller.send(&cancel.bytes());
        let cancelled = bob.request("CANCEL");
        bob.send(&cancelled.reply(200, "", &[]));
        bob.send(&received.reply(487, "b", &[]));
        bob.request("ACK");
        let got = caller.response(&invite);
        assert_eq!(got.status(), Some(487), "{via:?}");
        caller.send(&invite.ack(&got).bytes());
    }
}

#[test]
fn nobody_there() {
    let server = Setup::open().start();
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:nobody@example.com", &caller);
    assert!(matches!(caller.status(&invite), 404 | 480));
    let require = Req::new("MESSAGE", "sip:nobody@example.com", &caller).with("Proxy-Require: frob, blib");
    let told = caller.ask(&require);
    assert_eq!(told.status(), Some(420));
    assert!(told.header("Unsupported").is_some_and(|v| v.contains("frob") && v.contains("blib")));
    let scheme = Req::new("MESSAGE", "ftp:nobody@example.com", &caller);
    assert_eq!(caller.status(&scheme), 416);
}

#[test]
fn a_silent_phone_is_given_up() {
    let config = "[timers]\nt1 = \"20ms\"\nt2 = \"100ms\"\n";
    let server = Setup::open().config(config).start();
    let mut silent = server.link(Via::Udp);
    bind(&mut silent, "bob", "");
    let mut caller = server.link(Via::Udp);
    // INVITE: 408 after Timer B. Others: RFC 4320 forbids a proxy to send the 408 late; silence or 408/480.
    let invite = Req::invite("sip:bob@example.com", &caller);
    let status = caller.status(&invite);
    assert!(matches!(status, 408 | 480), "{status}");
    let message = Req::new("MESSAGE", "sip:bob@example.com", &caller);
    caller.send(&message.bytes());
    let late = caller.response_within(&message, Duration::from_secs(3));
    assert!(late.is_none_or(|m| m.status() != Some(408)), "RFC 4320 section 4.2: no 408 to a non-INVITE");
}

#[test]
fn timer_c_ends_a_call_that_rings_for_ever() {
    let server = Setup::open().config("[proxy]\ntimer_c = \"1s\"\n").start();
    let mut bob = phone(&server, "bob", Via::Udp);
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(180, "b", &[]));
    let cancel = bob.request("CANCEL");
    bob.send(&cancel.reply(200, "", &[]));
    bob.send(&received.reply(487, "b", &[]));
    assert!(matches!(caller.response(&invite).status(), Some(408 | 487)));
}

/// A server whose voicemail is a listener of the test.
fn with_voicemail(extra: &str) -> (Server, Listener) {
    let place = fresh_ip();
    let config = format!(
        "{extra}\n[voicemail]\ntarget = \"sip:vm@{place}:5060\"\n\
         on = [\"busy\", \"no-answer\", \"rejected\", \"unregistered\"]\nno_answer_timeout = \"1s\"\n"
    );
    let server = Setup::open().config(&config).start();
    let voicemail = Listener::open_at((place, 5060).into(), server.sip());
    (server, voicemail)
}

/// The caller reaches voicemail, which was told why by RFC 4458.
fn reaches_voicemail(voicemail: &mut Listener, caller: &mut Link, invite: &Req, causes: &[&str]) {
    let (diverted, link) = voicemail.request_within(PATIENCE).expect("voicemail is called");
    let uri = diverted.uri().to_owned();
    assert!(causes.iter().any(|c| uri.contains(&format!("cause={c}"))), "{uri}: none of {causes:?}");
    assert!(
        uri.contains("target=sip:bob%40example.com") || uri.contains("target=sip:bob@example.com"),
        "{uri}"
    );
    assert_eq!(diverted.body, invite.body);
    link.send(&diverted.reply(200, "vm", &[&contact_of(link, "vm")]));
    assert!(caller.response(invite).header("To").unwrap().contains("tag=vm"));
}

#[test]
fn busy_and_rejected_calls_go_to_voicemail() {
    let (server, mut voicemail) = with_voicemail("");
    let mut bob = phone(&server, "bob", Via::Udp);
    for (status, causes) in [(486, &["486"][..]), (600, &["486"]), (603, &["603", "487", "480"])] {
        let mut caller = server.link(Via::Udp);
        let invite = Req::invite("sip:bob@example.com", &caller);
        caller.send(&invite.bytes());
        let received = bob.request("INVITE");
        bob.send(&received.reply(status, "b", &[]));
        reaches_voicemail(&mut voicemail, &mut caller, &invite, causes);
    }
}

#[test]
fn unanswered_calls_go_to_voicemail() {
    let (server, mut voicemail) = with_voicemail("");
    let mut bob = phone(&server, "bob", Via::Udp);
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(180, "b", &[]));
    let cancel = bob.request("CANCEL");
    bob.send(&cancel.reply(200, "", &[]));
    bob.send(&received.reply(487, "b", &[]));
    reaches_voicemail(&mut voicemail, &mut caller, &invite, &["408"]);
}

#[test]
fn calls_to_absent_subscribers_go_to_voicemail() {
    let place = fresh_ip();
    let config = format!("[voicemail]\ntarget = \"sip:vm@{place}:5060\"\non = [\"unregistered\"]\n");
    // bob is a subscriber without a phone; challenges cover only registrations here.
    let config = format!("[auth]\nchallenge = [\"REGISTER\"]\n{config}");
    let server = Setup::new().user("bob", "pw").config(&config).start();
    let mut voicemail = Listener::open_at((place, 5060).into(), server.sip());
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    reaches_voicemail(&mut voicemail, &mut caller, &invite, &["404", "480"]);
}

#[test]
fn redirect_mode_tells_where_to_go() {
    let server = Setup::open().config("[proxy]\nmode = \"redirect\"\n").start();
    let bob = phone(&server, "bob", Via::Udp);
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    let told = caller.ask(&invite);
    assert_eq!(told.status(), Some(302));
    assert!(told.header("Contact").is_some_and(|c| c.contains(&bob.local().to_string())));
}

#[test]
fn redirects_are_followed_when_asked_for() {
    for (recurse, expected) in [(true, 200), (false, 302)] {
        let config = format!("[proxy]\nrecurse_redirects = {recurse}\n");
        let server = Setup::open().config(&config).start();
        let mut bob = phone(&server, "bob", Via::Udp);
        let mut carol = phone(&server, "carol", Via::Udp);
        let mut caller = server.link(Via::Udp);
        let invite = Req::invite("sip:bob@example.com", &caller);
        caller.send(&invite.bytes());
        let received = bob.request("INVITE");
        bob.send(&received.reply(302, "b", &["Contact: <sip:carol@example.com>"]));
        if recurse {
            let received = carol.request("INVITE");
            carol.send(&received.reply(200, "c", &[&contact_of(&carol, "carol")]));
        }
        assert_eq!(caller.response(&invite).status(), Some(expected));
    }
}

/// A server with one trunk to these places, taking calls from the first.
fn with_trunk(places: &[Listener], extra: &str, setup: Setup) -> Server {
    let targets: Vec<String> = places.iter().map(|p| format!("\"sip:{}\"", p.udp.local())).collect();
    let config = format!(
        "[timers]\nt1 = \"50ms\"\nt2 = \"200ms\"\n[auth]\nchallenge = [\"REGISTER\"]\n\
         [[trunk]]\nname = \"carrier\"\ntargets = [{}]\nprefixes = [\"00\"]\ndomains = [\"carrier.example\"]\n\
         strip = 2\nprepend = \"+\"\n{extra}\n",
        targets.join(", ")
    );
    setup.config(&config).start()
}

/// Listeners made before the server exists; what they send goes through links made later.
fn places(n: usize) -> Vec<Listener> {
    let nowhere = (fresh_ip(), 5060).into();
    (0..n).map(|_| Listener::open(nowhere)).collect()
}

#[test]
fn calls_leave_by_the_trunk_and_fail_over() {
    let mut carrier = places(2);
    let server = with_trunk(&carrier, "", Setup::open());
    for place in &mut carrier {
        place.udp.set_server(server.sip());
    }
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:0044123@example.com", &caller);
    caller.send(&invite.bytes());
    let (received, link) = carrier[0].request_within(PATIENCE).expect("by prefix to the first target");
    assert!(received.uri().starts_with("sip:+44123@"), "{}", received.uri());
    link.send(&received.reply(503, "x", &[]));
    let (received, link) = carrier[1].request_within(PATIENCE).expect("then the second");
    link.send(&received.reply(200, "y", &[&contact_of(link, "gw")]));
    assert_eq!(caller.response(&invite).status(), Some(200));
    // The first silent: the second after a while.
    let invite = Req::invite("sip:info@carrier.example", &caller);
    caller.send(&invite.bytes());
    let (received, link) = loop {
        let (m, link) = carrier[1].request_within(PATIENCE).expect("fails over by timeout");
        if m.header("Call-ID") == Some(invite.call_id.as_str()) {
            break (m, link);
        }
    };
    link.send(&received.reply(200, "z", &[&contact_of(link, "gw")]));
    assert_eq!(caller.response(&invite).status(), Some(200));
}

#[test]
fn calls_come_in_by_the_trunk_only_from_its_address() {
    let mut carrier = places(1);
    let setup = Setup::new().auth(true).user("bob", "pw");
    let server = with_trunk(&carrier, "", setup);
    carrier[0].udp.set_server(server.sip());
    let mut bob = server.link(Via::Udp);
    let req = Req::register("bob", &bob);
    assert_eq!(bob.ask_as(&req, &live::Credentials::new("bob", "pw")).status(), Some(200));
    let from_trunk = &mut carrier[0].udp;
    let mut invite = Req::invite("sip:bob@example.com", from_trunk);
    invite.from = format!("<sip:+1555@carrier.example>;tag={}", unique("f"));
    from_trunk.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(486, "b", &[]));
    let got = from_trunk.response(&invite);
    assert_eq!(got.status(), Some(486));
    from_trunk.send(&invite.ack(&got).bytes());
    // The trunk may not use us to leave again, nor may a stranger use the trunk.
    let mut transit = Req::invite("sip:0044999@example.com", from_trunk);
    transit.from = invite.from.clone();
    assert!(matches!(from_trunk.status(&transit), 403 | 404 | 480 | 482));
    let mut stranger = server.link(Via::Udp);
    let mut toll = Req::invite("sip:0044999@example.com", &stranger);
    toll.from = format!("<sip:eve@elsewhere.example>;tag={}", unique("f"));
    assert!(matches!(stranger.status(&toll), 403 | 404 | 407));
}

#[test]
fn static_routes_come_first() {
    let mut gateway = places(1);
    let config = format!(
        "[[route]]\nprefix = \"9\"\ntargets = [\"sip:{}\"]\n[[route]]\nuser = \"old\"\nredirect = [\"sip:new@example.com\"]\n",
        gateway[0].udp.local()
    );
    let server = Setup::open().config(&config).start();
    gateway[0].udp.set_server(server.sip());
    let mut caller = server.link(Via::Udp);
    let req = Req::new("MESSAGE", "sip:911@example.com", &caller);
    caller.send(&req.bytes());
    let (received, link) = gateway[0].request_within(PATIENCE).expect("routed");
    link.send(&received.reply(200, "g", &[]));
    assert_eq!(caller.response(&req).status(), Some(200));
    let moved = caller.ask(&Req::invite("sip:old@example.com", &caller));
    assert!(matches!(moved.status(), Some(301 | 302)));
    assert!(moved.has("sip:new@example.com"));
}

/// A port of this address that nobody has.
fn free_port(ip: IpAddr) -> SocketAddr {
    UdpSocket::bind((ip, 0)).unwrap().local_addr().unwrap()
}

/// RFC 3261 section 18.2.2.
#[test]
fn answer_reaches_a_caller_whose_connection_was_reset() {
    for workers in [1, 4] {
        let server = Setup::open().workers(workers).start();
        let mut bob = phone(&server, "bob", Via::Udp);
        let mut caller = server.link(Via::Tcp);
        let mut listens = Listener::open_at(free_port(caller.local().ip()), server.sip());
        let mut invite = Req::invite("sip:bob@example.com", &caller);
        invite.via = format!("SIP/2.0/TCP {};branch={}", listens.udp.local(), unique("z9hG4bK"));
        caller.send(&invite.bytes());
        let received = bob.request("INVITE");
        caller.expect(&invite, 100);
        bob.send(&received.reply(180, "b", &[]));
        caller.expect(&invite, 180);
        bob.send(&received.reply(183, "b", &[]));
        caller.reset();
        live::eventually("the server has seen the connection close", || {
            live::http(server.admin(), "GET", "/v1/status").body.contains("\"connections\":0").then_some(())
        });
        bob.send(&received.reply(200, "b", &[&contact_of(&bob, "bob")]));
        let (answer, link) = listens.request_within(PATIENCE).expect("the answer");
        assert_eq!((answer.status(), link.via()), (Some(200), Via::Tcp), "{workers} workers");
        assert_eq!(answer.header("Call-ID"), Some(invite.call_id.as_str()));
    }
}

#[test]
fn a_tcp_phone_is_reachable_after_its_connection_died() {
    let server = Setup::open().start();
    // Registered over a connection that is gone; the Contact's port takes new ones.
    let mut gone = server.link(Via::Tcp);
    let mut bob = Listener::open_at(free_port(gone.local().ip()), server.sip());
    let mut req = Req::new("REGISTER", "sip:example.com", &gone).user("bob");
    req.to = "<sip:bob@example.com>".into();
    let req = req.with(&format!("Contact: <sip:bob@{};transport=tcp>", bob.udp.local()));
    assert_eq!(gone.status(&req), 200);
    drop(gone);
    live::eventually("the server has seen the connection close", || {
        live::http(server.admin(), "GET", "/v1/status").body.contains("\"connections\":0").then_some(())
    });
    let mut caller = server.link(Via::Udp);
    let req = Req::new("MESSAGE", "sip:bob@example.com", &caller);
    caller.send(&req.bytes());
    let (message, link) = bob.request_within(PATIENCE).expect("at its Contact");
    assert_eq!(link.via(), Via::Tcp);
    link.send(&message.reply(200, "b", &[]));
    assert_eq!(caller.response(&req).status(), Some(200));
}

#[test]
fn a_large_request_goes_by_datagram_where_nobody_takes_tcp() {
    // RFC 3261 section 18.1.1: beyond 1,300 bytes by TCP, and back to UDP when that is refused. Phones,
    // voicemail and trunks must all be reached so; many take UDP only.
    let place = fresh_ip();
    let trunk = fresh_ip();
    let config = format!(
        "[voicemail]\ntarget = \"sip:vm@{place}:5060\"\non = [\"busy\"]\n\
         [[trunk]]\nname = \"t\"\ntargets = [\"sip:{trunk}:5060\"]\nprefixes = [\"00\"]\n"
    );
    let server = Setup::open().config(&config).start();
    let mut bob = phone(&server, "bob", Via::Udp);
    let mut voicemail = Link::udp_at((place, 5060).into(), server.sip());
    let mut carrier = Link::udp_at((trunk, 5060).into(), server.sip());
    let large =
        |link: &Link, uri: &str| Req::invite(uri, link).with(&format!("X-Filler: {}", "f".repeat(1200)));
    let mut caller = server.link(Via::Udp);
    let invite = large(&caller, "sip:bob@example.com");
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    assert!(received.header("Via").is_some_and(|v| v.contains("/UDP")), "the Via says how it went");
    bob.send(&received.reply(486, "b", &[]));
    let received = voicemail.request("INVITE");
    voicemail.send(&received.reply(200, "vm", &[&contact_of(&voicemail, "vm")]));
    assert_eq!(caller.response(&invite).status(), Some(200));
    let invite = large(&caller, "sip:0044@example.com");
    caller.send(&invite.bytes());
    let received = carrier.request("INVITE");
    carrier.send(&received.reply(200, "gw", &[&contact_of(&carrier, "gw")]));
    assert_eq!(caller.response(&invite).status(), Some(200));
}

#[test]
fn a_trunk_of_a_domain_keeps_the_domain() {
    // For a domain that is not ours the target is the Request-URI itself (RFC 3261 section 16.5); the
    // trunk only says where the next hop is.
    let mut carrier = places(1);
    let place = carrier[0].udp.local();
    let config =
        format!("[[trunk]]\nname = \"c\"\ntargets = [\"sip:{place}\"]\ndomains = [\"carrier.example\"]\n");
    let server = Setup::open().config(&config).start();
    carrier[0].udp.set_server(server.sip());
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:info@carrier.example", &caller);
    caller.send(&invite.bytes());
    let (received, link) = carrier[0].request_within(PATIENCE).expect("by domain to its trunk");
    assert_eq!(received.uri(), "sip:info@carrier.example");
    link.send(&received.reply(200, "c", &[&contact_of(link, "gw")]));
    assert_eq!(caller.response(&invite).status(), Some(200));
}

#[test]
fn a_phone_behind_nat_needs_no_configuration() {
    let server = Setup::open().start();
    let mut bob = server.link(Via::Udp);
    // What it believes its address to be reaches nobody; what counts is where it sends from.
    let mut req = Req::new("REGISTER", "sip:example.com", &bob).user("bob");
    req.to = "<sip:bob@example.com>".into();
    req.via = format!("SIP/2.0/UDP 192.168.1.2:5062;branch={};rport", unique("z9hG4bK"));
    assert_eq!(bob.status(&req.with("Contact: <sip:bob@192.168.1.2:5062>")), 200);
    let mut caller = server.link(Via::Udp);
    let message = Req::new("MESSAGE", "sip:bob@example.com", &caller);
    caller.send(&message.bytes());
    let received = bob.request("MESSAGE");
    assert!(received.uri().contains("192.168.1.2:5062"), "the Request-URI stays the Contact");
    bob.send(&received.reply(200, "b", &[]));
    assert_eq!(caller.response(&message).status(), Some(200));
}

#[test]
fn both_answers_of_a_race_reach_the_caller() {
    let server = Setup::open().start();
    let mut phones: Vec<Link> = (0..2).map(|_| server.link(Via::Udp)).collect();
    for link in &mut phones {
        bind(link, "bob", "");
    }
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received: Vec<Msg> = phones.iter_mut().map(|p| p.request("INVITE")).collect();
    for (i, link) in phones.iter_mut().enumerate() {
        link.send(&received[i].reply(200, &format!("both{i}"), &[&contact_of(link, "bob")]));
    }
    let mut tags: Vec<String> = (0..2).map(|_| caller.response(&invite).to_tag().unwrap()).collect();
    tags.sort();
    assert_eq!(tags, ["both0", "both1"], "RFC 3261 section 16.7 item 5: every 2xx is forwarded");
}

#[test]
fn stateless_mode_forwards_without_memory() {
    let server = Setup::open().config("[proxy]\nmode = \"stateless\"\n").start();
    let mut bob = phone(&server, "bob", Via::Udp);
    let mut caller = server.link(Via::Udp);
    let req = Req::new("MESSAGE", "sip:bob@example.com", &caller);
    for _ in 0..2 {
        caller.send(&req.bytes());
    }
    let first = bob.request("MESSAGE");
    let second = bob.request("MESSAGE");
    assert_eq!(
        first.header("Via"),
        second.header("Via"),
        "section 16.11: the same branch for a retransmission"
    );
    bob.send(&first.reply(200, "b", &[]));
    assert_eq!(caller.response(&req).status(), Some(200));
}
