//! Phones on WebSocket (RFC 7118): they are reached over the connection that they opened, and not otherwise.

use super::*;

/// Where a browser connects from.
const BROWSER: &str = "203.0.113.77:51000";
/// As JsSIP and SIP.js write it for both transports.
const CONTACT: &str = "<sip:k3v1@df7jal23ls0d.invalid;transport=ws>";

/// The connection of a browser, over TLS or not.
fn web(transport: Transport) -> Flow {
    let (listener, number) = if transport == Transport::Wss { (4, 11) } else { (5, 12) };
    let conn = Some(ConnId::accepted(0, number));
    Flow { transport, listener: ListenerId(listener), remote: BROWSER.parse().unwrap(), conn }
}

fn lab() -> Lab {
    Lab::with(|s| {
        s.auth.enabled = false;
        for (transport, address) in [(Transport::Wss, "198.51.100.1:443"), (Transport::Ws, "198.51.100.1:80")]
        {
            s.listeners.push(Listener::new(transport, address.parse().unwrap(), None));
        }
    })
}

/// A request of a browser's user.
fn of_browser(method: &str, uri: &str, transport: Transport) -> Req {
    let mut req = Req::new(method, uri);
    req.via = format!("SIP/2.0/{} df7jal23ls0d.invalid;branch=z9hG4bKw{}", transport.via_name(), number());
    req.from = format!("<sip:bob@here.example>;tag=w{}", number());
    req.lines = vec![format!("Contact: {CONTACT}")];
    req
}

/// The request with this method that the server sends on.
fn forwarded(lab: &mut Lab, method: &str) -> Sent {
    let sent = lab.sent().into_iter().find(|s| s.status() == 0 && s.method() == method);
    sent.expect("forwarded")
}

fn register(lab: &mut Lab, transport: Transport) -> Sent {
    let mut req = of_browser("REGISTER", "sip:here.example", transport);
    req.to = "<sip:bob@here.example>".to_owned();
    lab.send_on(web(transport), req.text());
    lab.one()
}

#[test]
fn registration_binds_the_connection_whatever_the_contact_says() {
    for transport in [Transport::Ws, Transport::Wss] {
        let mut lab = lab();
        let answer = register(&mut lab, transport);
        assert_eq!((answer.status(), answer.flow), (200, web(transport)));
        // RFC 7118 section 5.3 and RFC 3261 section 18.2.1: sent-by is not the source.
        assert!(answer.get("Via").unwrap().ends_with(";received=203.0.113.77"), "{}", answer.text);
        assert!(answer.get("Contact").unwrap().starts_with(CONTACT), "{}", answer.text);
        lab.send(CAROL, Req::invite().text());
        let got = forwarded(&mut lab, "INVITE");
        assert_eq!((got.flow, got.uri()), (web(transport), inside(CONTACT)));
        assert!(got.flow.is_only_way());
    }
}

#[test]
fn rport_is_filled_where_the_browser_asks_for_it() {
    let mut lab = lab();
    let mut req = of_browser("OPTIONS", "sip:here.example", Transport::Wss);
    req.via = req.via.replace(";branch", ";rport;branch");
    lab.send_on(web(Transport::Wss), req.text());
    let answer = lab.one();
    // RFC 3581 section 4.
    assert!(answer.get("Via").unwrap().ends_with(";received=203.0.113.77;rport=51000"), "{}", answer.text);
    assert_eq!(answer.flow, web(Transport::Wss));
}

/// What a request that we forward over WebSocket says of us.
fn says_where_we_are(sent: &Sent, transport: Transport) {
    let (via, port) = if transport == Transport::Wss { ("WSS", 443) } else { ("WS", 80) };
    let ours = format!("SIP/2.0/{via} 198.51.100.1:{port};branch=");
    assert!(sent.all("Via")[0].starts_with(&ours), "{}", sent.text);
    // RFC 7118 section 5.2: there is one transport parameter for both.
    let route = format!("<sip:198.51.100.1:{port};transport=ws;lr");
    assert!(sent.all("Record-Route").iter().any(|r| r.starts_with(&route)), "{}", sent.text);
}

#[test]
fn phone_on_udp_calls_a_browser_and_requests_go_both_ways() {
    for transport in [Transport::Ws, Transport::Wss] {
        let mut lab = lab();
        register(&mut lab, transport);
        let call = Req::invite();
        lab.send(CAROL, call.text());
        let got = forwarded(&mut lab, "INVITE");
        says_where_we_are(&got, transport);
        lab.send_on(web(transport), got.reply(200, "b", &format!("Contact: {CONTACT}\r\n")));
        let ok = lab.one();
        assert_eq!((ok.status(), ok.to()), (200, CAROL.to_owned()));
        for method in ["ACK", "INFO"] {
            lab.send(CAROL, call.within(method, &ok).text());
            let sent = forwarded(&mut lab, method);
            is_for_browser(&sent, transport);
            if method == "INFO" {
                lab.send_on(web(transport), sent.reply(200, "b", ""));
                lab.sent();
            }
        }
        let mut bye = from_callee(&got, "BYE", BOB, "<sip:bob@here.example>");
        bye.via = of_browser("BYE", "sip:x", transport).via;
        lab.send_on(web(transport), bye.text());
        let sent = forwarded(&mut lab, "BYE");
        assert_eq!((sent.to(), sent.flow.transport), (CAROL.to_owned(), Transport::Udp));
        lab.send(CAROL, sent.reply(200, "c", ""));
        let answer = lab.one();
        assert_eq!((answer.status(), answer.flow), (200, web(transport)));
    }
}

#[test]
fn browser_calls_a_phone_on_udp_and_another_browser() {
    for transport in [Transport::Ws, Transport::Wss] {
        let mut lab = lab();
        lab.bind("alice", "<sip:alice@192.0.2.20:5060>", udp("192.0.2.20:5060"));
        let call = of_browser("INVITE", "sip:alice@here.example", transport);
        lab.send_on(web(transport), call.text());
        let got = forwarded(&mut lab, "INVITE");
        assert_eq!((got.to(), got.flow.transport), ("192.0.2.20:5060".to_owned(), Transport::Udp));
        names_our_listener(&got, transport);
        lab.send("192.0.2.20:5060", got.reply(200, "a", "Contact: <sip:alice@192.0.2.20:5060>\r\n"));
        let ok = lab.one();
        assert_eq!((ok.status(), ok.flow), (200, web(transport)));
        lab.send_on(web(transport), call.within("ACK", &ok).text());
        assert_eq!(lab.one().to(), "192.0.2.20:5060");
        // The callee hangs up: over the connection that the call came on.
        let bye = from_callee(&got, "BYE", "192.0.2.20:5060", "<sip:alice@here.example>");
        lab.send("192.0.2.20:5060", bye.text());
        let sent = forwarded(&mut lab, "BYE");
        is_for_browser(&sent, transport);
    }
}

/// A request within a dialog goes to the browser, over the connection that is open to its address.
fn is_for_browser(sent: &Sent, transport: Transport) {
    let flow = web(transport);
    assert_eq!(
        (sent.flow.transport, sent.flow.remote, sent.uri()),
        (transport, flow.remote, inside(CONTACT))
    );
    assert!(sent.flow.conn.is_none_or(|conn| Some(conn) == flow.conn), "{:?}", sent.flow);
}

/// The callee of a call from a browser finds the listener of the browser in the route set.
fn names_our_listener(sent: &Sent, transport: Transport) {
    let route = if transport == Transport::Wss { "198.51.100.1:443" } else { "198.51.100.1:80" };
    let routes = sent.all("Record-Route").join(", ");
    assert!(routes.contains(&format!("<sip:{route};transport=ws;lr")), "{}", sent.text);
}

#[test]
fn browser_whose_connection_is_gone_is_not_called_elsewhere() {
    let mut lab = lab();
    register(&mut lab, Transport::Wss);
    lab.send(CAROL, Req::invite().text());
    let got = forwarded(&mut lab, "INVITE");
    lab.undeliverable(&got);
    let sent = lab.sent();
    assert_eq!(statuses(&sent), [480], "{sent:?}");
}
