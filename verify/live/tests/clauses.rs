//! Single clauses of RFC 3261 that docs/rfc-coverage.md names and that no other test shows.

use live::{Link, Listener, Msg, PATIENCE, Req, Server, Setup, Via};

/// A REGISTER of `user` with exactly these lines; the 200.
fn register(link: &mut Link, user: &str, lines: &[&str]) -> Msg {
    let mut req = Req::new("REGISTER", "sip:example.com", link).user(user);
    req.to = format!("<sip:{user}@example.com>");
    let answer = link.ask(&lines.iter().fold(req, |req, line| req.with(line)));
    assert_eq!(answer.status(), Some(200));
    answer
}

/// The seconds that a 200 to REGISTER gives its only binding.
fn seconds(answer: &Msg) -> u32 {
    let contacts = answer.all("Contact");
    assert_eq!(contacts.len(), 1, "{contacts:?}");
    let value = contacts[0].split(';').find_map(|p| p.trim().strip_prefix("expires="));
    value.unwrap().trim_end_matches('>').parse().unwrap()
}

#[test]
fn a_refresh_gives_the_binding_a_new_interval() {
    // RFC 3261 section 10.2.4: the same contact again, longer or shorter.
    let server = Setup::open().start();
    let mut link = server.link(Via::Udp);
    let contact = "Contact: <sip:ann@192.0.2.1>";
    for wanted in [300, 3_000, 120] {
        let answer = register(&mut link, "ann", &[contact, &format!("Expires: {wanted}")]);
        assert_eq!(seconds(&answer), wanted);
        let told = seconds(&register(&mut link, "ann", &[]));
        assert!((wanted - 30..=wanted).contains(&told), "{told} of {wanted}");
    }
}

#[test]
fn the_user_in_to_is_found_however_it_is_written() {
    // Section 10.3 step 5: escapes undone, parameters gone, host in any case.
    let server = Setup::open().start();
    let mut phone = server.link(Via::Udp);
    let mut req = Req::new("REGISTER", "sip:example.com", &phone).user("ann").contact(&phone);
    req.to = "\"A\" <sip:%61nn@EXAMPLE.com:5060;x=y>".into();
    assert_eq!(phone.status(&req), 200);
    let mut caller = server.link(Via::Udp);
    let message = Req::new("MESSAGE", "sip:ann@example.com", &caller);
    caller.send(&message.bytes());
    let received = phone.request("MESSAGE");
    phone.send(&received.reply(200, "b", &[]));
    assert_eq!(caller.response(&message).status(), Some(200));
    // Not a user of ours: not found, whatever the Request-URI says.
    let mut req = Req::new("REGISTER", "sip:example.com", &phone).user("ann").contact(&phone);
    req.to = "<sip:ann@elsewhere.example>".into();
    assert_eq!(phone.status(&req), 404);
}

#[test]
fn options_for_others_stops_like_everything_when_no_hops_are_left() {
    // Section 16.3 step 3 lets a proxy answer for the callee; this one does not.
    let server = Setup::open().start();
    let mut bob = server.link(Via::Udp);
    bob.register("bob");
    let mut caller = server.link(Via::Udp);
    for method in ["OPTIONS", "MESSAGE", "INVITE"] {
        let mut req = Req::new(method, "sip:bob@example.com", &caller);
        req.max_forwards = Some("0".into());
        assert_eq!(caller.status(&req), 483, "{method}");
    }
    // In order on one socket: had one of them been forwarded, it would be here first.
    let last = Req::new("MESSAGE", "sip:bob@example.com", &caller);
    caller.send(&last.bytes());
    let first = bob.recv_within(PATIENCE).unwrap();
    assert_eq!(first.header("Call-ID"), Some(last.call_id.as_str()), "forwarded: {}", first.start);
}

/// A server whose users may call out, and a next hop that is no user of it.
fn with_next_hop() -> (Server, Listener) {
    let server = Setup::open().start();
    let hop = Listener::open(server.sip());
    (server, hop)
}

#[test]
fn a_loose_route_is_followed_and_stays() {
    // Section 16.6 steps 6 and 7, 16.12: the Route says where to go, the Request-URI stays.
    let (server, mut hop) = with_next_hop();
    let route = format!("<sip:{};lr>", hop.udp.local());
    let mut caller = server.link(Via::Udp);
    for lines in [
        vec![format!("Route: {route}")],
        // Our own value before it goes.
        vec![format!("Route: <sip:{};lr>, {route}", server.sip())],
        vec![format!("Route: <sip:{};lr>", server.sip()), format!("Route: {route}")],
    ] {
        let req = Req::new("MESSAGE", "sip:carol@far.example", &caller);
        let req = lines.iter().fold(req, |req, line| req.with(line));
        caller.send(&req.bytes());
        let (received, link) = hop.request_within(PATIENCE).expect("by the Route");
        assert_eq!(received.uri(), "sip:carol@far.example");
        assert_eq!(received.all("Route"), [route.as_str()], "{lines:?}");
        link.send(&received.reply(200, "c", &[]));
        assert_eq!(caller.response(&req).status(), Some(200));
    }
}

#[test]
fn a_uri_of_another_domain_is_the_only_target() {
    // Section 16.5: what this server is not responsible for goes where its URI says.
    let (server, mut hop) = with_next_hop();
    let mut caller = server.link(Via::Udp);
    let req = Req::new("MESSAGE", &format!("sip:carol@{}", hop.udp.local()), &caller);
    caller.send(&req.bytes());
    let (received, link) = hop.request_within(PATIENCE).expect("at its own URI");
    assert_eq!(received.uri(), req.uri);
    link.send(&received.reply(200, "c", &[]));
    assert_eq!(caller.response(&req).status(), Some(200));
}

#[test]
fn a_stream_gets_a_content_length_where_a_datagram_had_none() {
    // Section 16.6 step 9, and 18.3 for responses.
    let server = Setup::open().start();
    let mut bob = server.link(Via::Tcp);
    bob.register("bob");
    let mut caller = server.link(Via::Udp);
    let req = Req::new("MESSAGE", "sip:bob@example.com", &caller);
    caller.send(format!("{}\r\nhello", req.head()).as_bytes());
    let received = bob.request("MESSAGE");
    assert_eq!((received.header("Content-Length"), &received.body[..]), (Some("5"), &b"hello"[..]));
    bob.send(&received.reply(200, "b", &[]));
    assert_eq!(caller.response(&req).status(), Some(200));
    // And back: a phone on UDP answers a caller on TCP.
    let mut ann = server.link(Via::Udp);
    ann.register("ann");
    let mut caller = server.link(Via::Tcp);
    let req = Req::new("MESSAGE", "sip:ann@example.com", &caller);
    caller.send(&req.bytes());
    let received = ann.request("MESSAGE");
    let reply = String::from_utf8(received.reply(200, "a", &[])).unwrap();
    ann.send(reply.replace("Content-Length: 0\r\n", "").as_bytes());
    assert_eq!(caller.response(&req).header("Content-Length"), Some("0"));
}

#[test]
fn an_answer_leaves_from_where_the_request_came_in() {
    // RFC 3581 section 4: a socket that is connected takes nothing from anywhere else.
    let server = Setup::open().workers(2).start();
    for n in 0..8 {
        let socket = std::net::UdpSocket::bind((live::fresh_ip(), 0)).unwrap();
        socket.connect(server.sip()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let place = socket.local_addr().unwrap();
        // Whatever sent-by says: the answer comes to the port it was asked from.
        let options = format!(
            "OPTIONS sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP phone.example;rport;branch=z9hG4bKo{n}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:x@far.example>;tag=f\r\nTo: <sip:example.com>\r\n\
             Call-ID: from-{n}@{place}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send(options.as_bytes()).unwrap();
        let mut answer = vec![0; 4_096];
        let len = socket.recv(&mut answer).expect("an answer from the address that was asked");
        let answer = Msg::parse(&answer[..len]).unwrap();
        assert_eq!(answer.status(), Some(200));
        let via = answer.header("Via").unwrap();
        for part in [format!(";received={}", place.ip()), format!(";rport={}", place.port())] {
            assert!(via.contains(&part), "{via}");
        }
    }
}

#[test]
fn a_status_that_nobody_knows_passes_as_its_class() {
    // Section 8.1.3.2: provisional as 183, final as x00; the caller sees what was said.
    let server = Setup::open().start();
    let mut bob = server.link(Via::Udp);
    bob.register("bob");
    for (status, of_invite) in [(299, true), (399, true), (499, true), (599, true), (699, true), (299, false)]
    {
        let mut caller = server.link(Via::Udp);
        let req = match of_invite {
            true => Req::invite("sip:bob@example.com", &caller),
            false => Req::new("MESSAGE", "sip:bob@example.com", &caller),
        };
        caller.send(&req.bytes());
        let received = bob.request(&req.method);
        if of_invite {
            bob.send(&received.reply(199, "b", &[]));
            caller.expect(&req, 199);
        }
        let contact = format!("Contact: <sip:bob@{}>", bob.local());
        bob.send(&received.reply(status, "b", &[&contact]));
        let answer = caller.response(&req);
        assert_eq!(answer.status(), Some(status));
        if of_invite && status >= 300 {
            bob.request("ACK");
            caller.send(&req.ack(&answer).bytes());
        }
    }
}
