//! Who may reach what: an attacker's attempts on the wire, with the default configuration except for the
//! trunk.

use live::{Credentials, Link, Listener, Msg, PATIENCE, Req, Server, Setup, Via, fresh_ip, run, unique};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_millis(150);

fn alice() -> Credentials<'static> {
    Credentials::new("alice", "secret-a")
}

/// A server with two users and a carrier for +49.
fn with_carrier(extra: &str) -> (Server, Listener) {
    let place: SocketAddr = (fresh_ip(), 5060).into();
    let config = format!(
        "[[trunk]]\nname = \"carrier\"\ntargets = [\"sip:{place}\"]\nprefixes = [\"+49\"]\nstrip = 1\nprepend = \"00\"\n{extra}\n"
    );
    let server = Setup::new().user("alice", "secret-a").user("gw", "secret-g").config(&config).start();
    let carrier = Listener::open_at(place, server.sip());
    (server, carrier)
}

/// Registers a gateway, with this Contact.
fn register(link: &mut Link, user: &str, contact: &str) -> (Option<u16>, String) {
    let mut req = Req::register(user, link);
    req.extra.retain(|line| !line.starts_with("Contact:"));
    let req = req.with(&format!("Contact: <{contact}>"));
    let answer =
        link.ask_as(&req, &Credentials::new(user, if user == "gw" { "secret-g" } else { "secret-a" }));
    (answer.status(), answer.start)
}

fn gateway(server: &Server) -> Listener {
    let mut gateway = Listener::open(server.sip());
    let contact = format!("sip:gw@{}", gateway.udp.local());
    assert_eq!(register(&mut gateway.udp, "gw", &contact).0, Some(200));
    gateway
}

/// A request of a stranger.
fn stranger(method: &str, uri: &str, link: &Link) -> Req {
    let mut req = Req::new(method, uri, link).contact(link);
    req.from = format!("<sip:eve@elsewhere.example>;tag={}", unique("f"));
    req
}

fn nothing_reached(listener: &mut Listener, what: &str) {
    if let Some((request, _)) = listener.request_within(SOON) {
        panic!("{what}: forwarded {}", String::from_utf8_lossy(&request.raw));
    }
}

#[test]
fn registered_gateway_takes_no_number_of_a_stranger() {
    let server = Setup::new().user("gw", "secret-g").start();
    let mut gateway = gateway(&server);
    let place = gateway.udp.local();
    for via in Via::BOTH {
        for uri in [
            format!("sip:+19005551234@{place}"),
            format!("sip:{place}"),
            format!("sip:+19005551234@{place};transport=udp"),
            format!("sip:gw@{place};user=phone"),
            format!("sip:Gw@{place}"),
        ] {
            for tag in ["", ";tag=made-up"] {
                let mut link = server.link(via);
                let mut req = stranger("INVITE", &uri, &link);
                req.to.push_str(tag);
                assert_eq!(link.status(&req), 403, "{uri} over {via:?}");
                nothing_reached(&mut gateway, &uri);
            }
        }
        // Its own Contact is another name of that user.
        let mut link = server.link(via);
        let req = stranger("OPTIONS", &format!("sip:g%77@{place}"), &link);
        link.send(&req.bytes());
        let (got, phone) = gateway.request_within(PATIENCE).expect("its Contact");
        phone.send(&got.reply(200, "g", &[]));
        assert_eq!(link.response(&req).status(), Some(200));
    }
}

#[test]
fn contact_or_path_at_a_trunk_is_refused() {
    let (server, mut carrier) = with_carrier("");
    let place = carrier.udp.local();
    let mut phone = server.link(Via::Udp);
    let (status, start) = register(&mut phone, "alice", &format!("sip:alice@{place}"));
    assert_eq!(status, Some(403), "{start}");
    assert_eq!(start, "SIP/2.0 403 Contact At A Trunk Or Service");
    let at_home = format!("Contact: <sip:alice@{}>", phone.local());
    let req = Req::register("alice", &phone);
    let mut req = req.with(&format!("Path: <sip:{place};lr>")).with("Supported: path");
    req.extra.push(at_home);
    assert_eq!(phone.ask_as(&req, &alice()).status(), Some(403));
    // Nobody calls over the trunk by way of her.
    let mut link = server.link(Via::Udp);
    let req = stranger("INVITE", "sip:alice@example.com", &link);
    assert!(matches!(link.status(&req), 403 | 480), "no binding was made");
    nothing_reached(&mut carrier, "a call for alice");
    // The carrier itself may.
    assert_eq!(register(&mut carrier.udp, "alice", &format!("sip:alice@{place}")).0, Some(200));
}

#[test]
fn stolen_password_is_worth_no_number_beyond_the_prefixes() {
    let (server, mut carrier) = with_carrier("");
    let place = carrier.udp.local();
    let far = "sip:+19005551234@far.example";
    for via in Via::BOTH {
        for (uri, route) in [
            (format!("sip:+19005551234@{place}"), None),
            (format!("sip:+19005551234@{place};transport=tcp"), None),
            (format!("sip:19005551234@far.example;maddr={}", place.ip()), None),
            (far.to_owned(), Some(format!("<sip:{place};lr>"))),
            (far.to_owned(), Some(format!("<sip:{place}>"))),
            (
                format!("sip:+19005551234@{place}"),
                Some(format!("<sip:{};lr>, <sip:{place};lr>", server.sip())),
            ),
        ] {
            let mut link = server.link(via);
            let mut req = Req::invite(&uri, &link).user("alice");
            req.extra.extend(route.iter().map(|route| format!("Route: {route}")));
            assert_eq!(link.ask_as(&req, &alice()).status(), Some(403), "{uri} by {route:?} over {via:?}");
            nothing_reached(&mut carrier, &uri);
        }
        // What the prefixes allow leaves as they want it.
        for (uri, route) in [
            (format!("sip:+4930@{place}"), None),
            ("sip:+4930@far.example".to_owned(), Some(format!("<sip:{place};lr>"))),
        ] {
            let mut link = server.link(via);
            let mut req = Req::invite(&uri, &link).user("alice");
            req.extra.extend(route.iter().map(|route| format!("Route: {route}")));
            let challenged = link.ask(&req);
            let req = req.again(&link, &live::answer(&challenged, &alice(), "INVITE", &uri));
            link.send(&req.bytes());
            let (got, gateway) = carrier.request_within(PATIENCE).expect("over the trunk");
            assert_eq!(got.uri(), format!("sip:004930@{place}"));
            gateway.send(&got.reply(486, "g", &[]));
            assert_eq!(link.response(&req).status(), Some(486));
            let (ack, _) = carrier.request_within(PATIENCE).expect("the ACK for it");
            assert_eq!(ack.method(), "ACK");
        }
    }
}

#[test]
fn route_that_nobody_recorded_goes_to_nobody_else() {
    let server = Setup::new().user("gw", "secret-g").start();
    let mut callee = gateway(&server);
    let mut other = Listener::open(server.sip());
    let mut link = server.link(Via::Udp);
    let invite = stranger("INVITE", "sip:gw@example.com", &link);
    link.send(&invite.bytes());
    let (got, phone) = callee.request_within(PATIENCE).expect("a call for the gateway");
    let contact = format!("Contact: <sip:gw@{}>", phone.local());
    phone.send(&got.reply(200, "g", &[&contact]));
    let ok = link.response(&invite);
    for route in
        [format!("<sip:{};lr>", other.udp.local()), "<sip:198.51.100.7>".into(), "<sip:10.1.2.3;lr>".into()]
    {
        for method in ["ACK", "BYE", "INFO"] {
            let req = invite.in_dialog(method, &ok, &link).with(&format!("Route: {route}"));
            link.send(&req.bytes());
            if method != "ACK" {
                assert_eq!(link.response(&req).status(), Some(403), "{method} by {route}");
            }
            nothing_reached(&mut callee, &route);
            nothing_reached(&mut other, &route);
        }
    }
    let bye = invite.in_dialog("BYE", &ok, &link);
    link.send(&bye.bytes());
    let (got, phone) = callee.request_within(PATIENCE).expect("the BYE by the recorded Route");
    phone.send(&got.reply(200, "g", &[]));
    assert_eq!(link.response(&bye).status(), Some(200));
}

#[test]
fn front_that_a_binding_stands_at_is_no_open_relay() {
    let front = fresh_ip();
    let list = "challenge = [\"REGISTER\", \"INVITE\"]";
    for fronts in ["", &format!("fronts = [\"{front}\"]")] {
        let config = format!("[auth]\n{list}\n{fronts}\n");
        let server = Setup::new().user("alice", "secret-a").config(&config).start();
        let mut victim = Listener::open(server.sip());
        let mut proxy = Link::udp_at((front, 5060).into(), server.sip());
        // A Contact by name, or the front's own: the binding stands at the front.
        let (status, start) = register(&mut proxy, "alice", &format!("sip:alice@{front}:5060"));
        assert_eq!(status, Some(200), "{start}");
        for method in ["MESSAGE", "OPTIONS", "SUBSCRIBE"] {
            let place = victim.udp.local();
            let mut req = Req::new(method, &format!("sip:x@{place}"), &proxy).user("anybody");
            req.extra.push(format!("Via: SIP/2.0/UDP {};branch=z9hG4bKattacker", victim.udp.local()));
            assert_eq!(proxy.status(&req), 403, "{method} with {fronts}");
            nothing_reached(&mut victim, method);
        }
    }
}

#[test]
fn strangers_command_no_phone() {
    let server = Setup::new().user("gw", "secret-g").start();
    let mut phone = gateway(&server);
    for via in Via::BOTH {
        for (method, line) in [
            ("REFER", "Refer-To: <sip:+19005551234@example.com>"),
            ("NOTIFY", "Event: check-sync;reboot=true"),
            ("SUBSCRIBE", "Event: presence"),
            ("PUBLISH", "Event: presence"),
            ("FROB", "X: y"),
            ("INFO", "Content-Type: application/dtmf-relay"),
        ] {
            for (tag, status) in [("", 403), (";tag=made-up", 481)] {
                let mut link = server.link(via);
                let mut req = stranger(method, "sip:gw@example.com", &link).with(line);
                req.to.push_str(tag);
                assert_eq!(link.status(&req), status, "{method} over {via:?}");
                nothing_reached(&mut phone, method);
            }
        }
        // With a To tag the phone itself says that it has no such dialog.
        for (method, line) in [("BYE", "X: y"), ("UPDATE", "X: y"), ("PRACK", "RAck: 1 1 INVITE")] {
            let mut link = server.link(via);
            let mut req = stranger(method, "sip:gw@example.com", &link).with(line);
            assert_eq!(link.status(&req), 403, "{method} over {via:?}");
            nothing_reached(&mut phone, method);
            req = req.again(&link, "X: z");
            req.to.push_str(";tag=made-up");
            link.send(&req.bytes());
            let (got, phone) = phone.request_within(PATIENCE).expect(method);
            assert_eq!(got.method(), method);
            phone.send(&got.reply(481, "", &[]));
            assert_eq!(link.response(&req).status(), Some(481), "{method} over {via:?}");
        }
        for (uri, line) in
            [("sip:gw@example.com;intercom=true", "X: y"), ("sip:gw@example.com", "Require: replaces")]
        {
            let mut link = server.link(via);
            assert_eq!(link.status(&stranger("INVITE", uri, &link).with(line)), 403, "{uri} {line}");
            nothing_reached(&mut phone, uri);
        }
        let mut link = server.link(via);
        let req = stranger("INVITE", "sip:gw@example.com", &link)
            .with("Alert-Info: <http://127.0.0.1>;info=alert-autoanswer")
            .with("Call-Info: <sip:x>;answer-after=0")
            .with("Answer-Mode: Auto")
            .with("Priv-Answer-Mode: Auto;require")
            .with("Replaces: x;to-tag=1;from-tag=2")
            .with("X-AUTOANSWER: TRUE")
            .with("P-Asserted-Identity: <sip:gw@example.com>")
            .with("Subject: hello");
        link.send(&req.bytes());
        let (got, phone) = phone.request_within(PATIENCE).expect("the call itself");
        for name in [
            "Alert-Info",
            "Call-Info",
            "Answer-Mode",
            "Priv-Answer-Mode",
            "Replaces",
            "X-AUTOANSWER",
            "P-Asserted-Identity",
        ] {
            assert!(got.header(name).is_none(), "{name} got through");
        }
        assert_eq!(got.header("Subject"), Some("hello"));
        phone.send(&got.reply(486, "g", &[]));
        let answer = link.response(&req);
        assert_eq!(answer.status(), Some(486));
        link.send(&req.ack(&answer).bytes());
        phone.request("ACK");
    }
}

/// Sends a request without Route in the dialog that `answer` made; the phone gets it and accepts.
fn passes(link: &mut Link, phone: &mut Listener, invite: &Req, answer: &Msg, method: &str) {
    let mut req = invite.in_dialog(method, answer, link).with("RAck: 1 1 INVITE");
    req.extra.retain(|line| !line.starts_with("Route"));
    link.send(&req.bytes());
    let (got, phone) = phone.request_within(PATIENCE).expect(method);
    assert_eq!(got.method(), method);
    if method != "ACK" {
        phone.send(&got.reply(200, "", &[]));
        assert_eq!(link.response(&req).status(), Some(200), "{method}");
    }
}

#[test]
fn peer_without_route_ends_calls_that_no_table_knows() {
    for mode in ["stateful", "stateless"] {
        let config = format!("[proxy]\nmode = \"{mode}\"\n");
        let mut server = Setup::new().user("gw", "secret-g").config(&config).start();
        let mut phone = gateway(&server);
        let contact = format!("Contact: <sip:gw@{}>", phone.udp.local());
        let mut link = server.link(Via::Udp);
        let mut invite = Req::invite("sip:gw@example.com", &link);
        // A stranger's request over UDP gets at most three times its bytes back.
        invite =
            invite.with("Supported: 100rel, timer, replaces").with(&format!("Subject: {}", "x".repeat(400)));
        invite.from = format!("<sip:eve@elsewhere.example>;tag={}", unique("f"));
        link.send(&invite.bytes());
        let (got, at) = phone.request_within(PATIENCE).expect("the call");
        at.send(&got.reply(183, "g", &[&contact, "Require: 100rel", "RSeq: 1"]));
        let early = link.find_within(PATIENCE, |m| m.status() == Some(183)).expect("the 183");
        for method in ["PRACK", "UPDATE"] {
            passes(&mut link, &mut phone, &invite, &early, method);
        }
        if mode == "stateful" {
            passes(&mut link, &mut phone, &invite, &early, "INFO");
        }
        phone.udp.send(&got.reply(200, "g", &[&contact]));
        let answer = link.find_within(PATIENCE, |m| m.status() == Some(200)).expect("the 200");
        passes(&mut link, &mut phone, &invite, &answer, "ACK");
        server.restart();
        assert_eq!(
            register(&mut phone.udp, "gw", &contact["Contact: <".len()..contact.len() - 1]).0,
            Some(200)
        );
        passes(&mut link, &mut phone, &invite, &answer, "BYE");
    }
}

#[test]
fn strangers_are_shut_out_where_the_operator_says_so() {
    let server = Setup::new()
        .user("gw", "secret-g")
        .user("alice", "secret-a")
        .config("[proxy]\nstrangers = \"refuse\"\n")
        .start();
    let mut phone = gateway(&server);
    for via in Via::BOTH {
        let mut link = server.link(via);
        for method in ["INVITE", "MESSAGE", "OPTIONS"] {
            assert_eq!(link.status(&stranger(method, "sip:gw@example.com", &link)), 403, "{method}");
        }
        nothing_reached(&mut phone, "a stranger's request");
        let req = Req::new("OPTIONS", "sip:gw@example.com", &link).user("alice");
        let challenged = link.ask(&req);
        let req = req.again(&link, &live::answer(&challenged, &alice(), "OPTIONS", "sip:gw@example.com"));
        link.send(&req.bytes());
        let (got, phone) = phone.request_within(PATIENCE).expect("a user's");
        phone.send(&got.reply(200, "g", &[]));
        assert_eq!(link.response(&req).status(), Some(200));
    }
}

#[test]
fn log_names_the_key_when_a_trunk_may_not_transit() {
    let other = fresh_ip();
    let pbx = format!("[[trunk]]\nname = \"pbx\"\ntargets = [\"sip:{other}\"]\nprefixes = [\"+4930555\"]\n");
    let (server, mut carrier) = with_carrier(&pbx);
    let mut req = Req::invite("sip:+4930555100@example.com", &carrier.udp);
    req.from = format!("<sip:+1555@carrier.example>;tag={}", unique("f"));
    assert_eq!(carrier.udp.status(&req), 403);
    let end = Instant::now() + PATIENCE;
    while !server.log_has("may_transit = true") && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = server.log_text();
    assert!(
        text.contains("may_transit = true") && text.contains(&carrier.udp.local().ip().to_string()),
        "{text}"
    );
}

#[test]
fn check_refuses_a_source_that_two_trunks_share() {
    let file = live::file(
        env!("CARGO_TARGET_TMPDIR"),
        "strowger.toml",
        "[[trunk]]\nname = \"carrier\"\ntargets = [\"sip:192.0.2.1\"]\nprefixes = [\"+\"]\n\n[[trunk]]\nname = \"pbx\"\n\
         targets = [\"sip:192.0.2.1:5070\"]\nprefixes = [\"+49\"]\nmay_transit = true\n",
    );
    let out = run(["check", &file.to_string_lossy()]);
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(!out.status.success(), "{said}");
    assert!(said.contains("8:11") && said.contains("may_transit"), "{said}");
}

#[test]
fn refused_requests_are_listed_with_their_reason() {
    let server = Setup::new().user("alice", "secret-a").start();
    let mut link = server.link(Via::Udp);
    let req = Req::register("alice", &link);
    assert_eq!(link.ask_as(&req, &Credentials::new("alice", "guessed")).status(), Some(401));
    let mut other = server.link(Via::Tcp);
    let req = stranger("INVITE", "sip:+19005551234@carrier.example", &other);
    assert_eq!(other.status(&req), 403);

    let list = |args: &[&str]| -> Vec<serde_json::Value> {
        let out = server.ctl(&[&["refused", "--output", "json"], args].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    };
    let all = list(&[]);
    let shown: Vec<(&str, &str)> =
        all.iter().map(|r| (r["about"].as_str().unwrap(), r["source"].as_str().unwrap())).collect();
    let (phone, caller) = (link.local().ip().to_string(), other.local().ip().to_string());
    assert_eq!(shown, [("sip:+19005551234@carrier.example", &caller[..]), ("alice@example.com", &phone[..])]);
    assert!(all[0]["reason"].as_str().unwrap().contains("none of our domains"), "{all:?}");
    assert!(all[1]["reason"].as_str().unwrap().starts_with("wrong password"), "{all:?}");
    assert_eq!(list(&["--about", "ALICE@"]).len(), 1);
    assert_eq!(list(&["--source", &caller]).len(), 1);
    assert_eq!(list(&["--limit", "1"]).len(), 1);
    let table = String::from_utf8(server.ctl(&["refused"]).stdout).unwrap();
    assert!(table.lines().nth(1).unwrap().contains(&*caller), "{table}");
    let bad = server.ctl(&["refused", "--source", "somewhere"]);
    assert!(String::from_utf8_lossy(&bad.stderr).contains("source is an address"), "{bad:?}");
}
