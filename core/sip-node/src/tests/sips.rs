//! `sips:`: RFC 3261 sections 16.6 and 26.2.2, RFC 5630, RFC 5658 section 6.

use super::*;

const CALLER: &str = "192.0.2.10:40000";
const PHONE: &str = "192.0.2.21:41000";
const DOWNGRADE: &str = "380 proxy \"SIPS Not Allowed\"";
const CLEAR: &str = "381 proxy \"SIPS Required\"";

/// A TLS connection from an address.
fn tls(from: &str, conn: u64) -> Flow {
    Flow { transport: Transport::Tls, listener: ListenerId(4), ..tcp(from, conn) }
}

/// A lab with a listener for TLS.
fn secure_lab(change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.listeners.push(Listener::new(Transport::Tls, "198.51.100.1:5061".parse().unwrap(), None));
        change(s);
    })
}

/// A request to bob over TLS with this Request-URI.
fn secure(method: &str, uri: &str) -> Req {
    let mut req = Req::new(method, uri).sent_by("TLS", "192.0.2.10:5061");
    let scheme = uri.split(':').next().unwrap();
    req.lines = vec![format!("Contact: <{scheme}:carol@192.0.2.10:5061>")];
    req
}

/// Sends it over TLS; the requests that left and the final response.
fn call(lab: &mut Lab, req: &Req) -> (Vec<Sent>, Option<Sent>) {
    lab.send_on(tls(CALLER, 9), req.text());
    let (requests, responses): (Vec<_>, Vec<_>) = lab.sent().into_iter().partition(|s| s.status() == 0);
    (requests, responses.into_iter().find(|s| s.status() >= 200))
}

#[track_caller]
fn is_refused(lab: &mut Lab, req: &Req, warning: &str, why: Refusal) {
    let (sent, answer) = call(lab, req);
    assert!(sent.is_empty(), "{sent:?}");
    let answer = answer.expect("an answer");
    assert_eq!((answer.status(), answer.get("Warning")), (480, Some(warning)));
    assert_eq!(lab.world.refused.borrow_mut().pop(), Some((why, req.uri.clone())));
}

#[test]
fn sips_request_goes_to_sips_contacts_over_tls_only() {
    // RFC 5630 section 5.3: no last hop exception, neither in the clear nor to a sip: Contact over TLS.
    let mut lab = secure_lab(|_| {});
    let req = || secure("INVITE", "sips:bob@here.example");
    lab.phones(&[BOB]);
    lab.bind("bob", "<sip:bob@192.0.2.22:5061;transport=tls>", tls("192.0.2.22:42000", 4));
    is_refused(&mut lab, &req(), DOWNGRADE, Refusal::Downgrade);
    lab.bind("bob", "<sips:bob@192.0.2.21:5061>", tls(PHONE, 3));
    let (sent, answer) = call(&mut lab, &req());
    assert!(answer.is_none());
    let [got] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((got.flow, got.uri()), (tls(PHONE, 3), "sips:bob@192.0.2.21:5061"));
    // 16.6 step 4: nor does what follows go in the clear. RFC 5658 section 6.2: without `transport=tls`.
    assert_eq!(got.all("Record-Route").len(), 1);
    assert!(got.all("Record-Route")[0].starts_with("<sips:198.51.100.1:5061;lr;d="), "{}", got.text);
    lab.send_on(tls(PHONE, 3), got.reply(200, "b", "Contact: <sips:bob@192.0.2.21:5061>\r\n"));
    let ok = lab.one();
    for method in ["ACK", "BYE"] {
        let mut req = secure("INVITE", "sips:bob@here.example");
        (req.from, req.call_id) = (ok.get("From").unwrap().to_owned(), ok.get("Call-ID").unwrap().to_owned());
        lab.send_on(tls(CALLER, 9), req.within(method, &ok).text());
        let sent = lab.one();
        assert_eq!((sent.method(), sent.flow.remote, sent.flow.transport), {
            (method, PHONE.parse().unwrap(), Transport::Tls)
        });
    }
}

#[test]
fn stateless_proxy_refuses_to_downgrade_too() {
    let mut lab = secure_lab(|s| s.proxy.mode = Mode::Stateless);
    lab.phones(&[BOB]);
    let req = || secure("INVITE", "sips:bob@here.example");
    is_refused(&mut lab, &req(), DOWNGRADE, Refusal::Downgrade);
    // An ordinary call over TLS goes on any way there is.
    let (sent, _) = call(&mut lab, &secure("INVITE", "sip:bob@here.example"));
    assert_eq!((sent[0].to().as_str(), sent[0].flow.transport), (BOB, Transport::Udp));
    let mut lab = secure_lab(|s| s.proxy.mode = Mode::Stateless);
    lab.bind("bob", "<sips:bob@192.0.2.21:5061>", tls(PHONE, 3));
    let (sent, _) = call(&mut lab, &req());
    assert_eq!((sent[0].flow, sent[0].uri()), (tls(PHONE, 3), "sips:bob@192.0.2.21:5061"));
    let (sent, _) = call(&mut lab, &secure("INVITE", "sip:bob@here.example"));
    assert_eq!((sent[0].flow, sent[0].uri()), (tls(PHONE, 3), "sip:bob@192.0.2.21:5061"));
}

#[test]
fn sip_request_reaches_a_sips_contact_as_sip_over_tls() {
    // RFC 5630 section 5.3: only the scheme changes, so nobody takes the call for one that was safe all the
    // way. Both Record-Routes of a dialog between UDP and TLS are sip: then (RFC 5658 section 5).
    let mut lab = secure_lab(|_| {});
    lab.bind("bob", "<sips:bob:x@192.0.2.21:5061;a=b>", tls(PHONE, 3));
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!((sent[0].flow, sent[0].uri()), (tls(PHONE, 3), "sip:bob:x@192.0.2.21:5061;a=b"));
    let routes = sent[0].all("Record-Route");
    assert!(routes[0].starts_with("<sip:198.51.100.1:5061;transport=tls;lr;d="), "{routes:?}");
    assert!(routes[1].starts_with("<sip:198.51.100.1:5060;lr;d="), "{routes:?}");
    // The connection is gone: no other way will do.
    lab.undeliverable(&sent[0]);
    assert_eq!(statuses(&lab.sent()), [480], "no new connection to 192.0.2.21:5061");
    // The same of one that a trusted proxy registered in the clear.
    let mut lab = Lab::new();
    lab.bind("bob", "<sips:bob@192.0.2.20>", udp(BOB));
    lab.send(CAROL, Req::invite().text());
    let end = lab.sent().pop().unwrap();
    assert_eq!((end.status(), end.get("Warning")), (480, Some(CLEAR)));
    assert_eq!(lab.world.refused.borrow_mut().pop().unwrap().0, Refusal::Clear);
}

#[test]
fn sips_request_that_comes_in_the_clear_is_refused() {
    let mut lab = secure_lab(|s| s.auth.fronts = vec![("192.0.2.40".parse().unwrap(), 32)]);
    lab.bind("bob", "<sips:bob@192.0.2.21:5061>", tls(PHONE, 3));
    for method in ["INVITE", "MESSAGE", "OPTIONS", "REGISTER", "SUBSCRIBE"] {
        let req = Req::new(method, "sips:bob@here.example");
        for flow in [udp(CAROL), tcp(CAROL, 7)] {
            lab.send_on(
                flow,
                Req { via: format!("SIP/2.0/UDP {CAROL};branch=z9hG4bKq{}", number()), ..req.clone() }.text(),
            );
            let answer = lab.one();
            assert_eq!(answer.start(), "SIP/2.0 400 SIPS Over Insecure Transport", "{method}");
            assert_eq!(lab.world.refused.borrow_mut().pop().unwrap().0, Refusal::InTheClear);
        }
    }
    // A trusted proxy may have had it over TLS.
    let sent = lab.invite("192.0.2.40:5060", Req::new("INVITE", "sips:bob@here.example").text());
    assert_eq!(sent[0].flow, tls(PHONE, 3));
    // In a dialog a phone may have the wrong Contact; its caller can end the call all the same.
    let invite = Req::invite();
    let sent = lab.invite(CAROL, invite.text());
    lab.send_on(sent[0].flow, sent[0].reply(200, "b", "Contact: <sips:bob@192.0.2.21:5061>\r\n"));
    let ok = lab.one();
    lab.send(CAROL, invite.within("BYE", &ok).text());
    let bye = lab.one();
    assert_eq!((bye.method(), bye.flow.remote.to_string().as_str()), ("BYE", PHONE));
}

#[test]
fn sips_phone_in_a_dialog_is_not_reached_in_the_clear() {
    let mut lab = secure_lab(|_| {});
    lab.phones(&[BOB]);
    let invite = Req::invite();
    let sent = lab.invite(CAROL, invite.text());
    lab.send(BOB, sent[0].reply(200, "b", "Contact: <sips:bob@192.0.2.20>\r\n"));
    let ok = lab.one();
    lab.send(CAROL, invite.within("BYE", &ok).text());
    let answer = lab.one();
    assert_eq!((answer.status(), answer.get("Warning")), (480, Some(DOWNGRADE)));
}

#[test]
fn emergency_call_by_sips_goes_on_in_the_clear() {
    for mode in [Mode::Stateful, Mode::Stateless] {
        let mut lab = secure_lab(|s| {
            s.emergency = Some(emergency::help());
            s.proxy.mode = mode;
        });
        lab.bind("alice", &format!("<sip:alice@{ALICE};transport=tls>"), tls(ALICE, 3));
        let mut call = emergency::to("INVITE", "sips:112@here.example").alice().sent_by("TLS", ALICE);
        for flow in [tls(ALICE, 3), udp(ALICE)] {
            lab.send_on(flow, call.text());
            let sent = lab.sent();
            let got = sent.iter().find(|s| s.status() == 0).expect("a call");
            assert_eq!((got.uri(), got.flow.transport), ("sip:112@203.0.113.110", Transport::Udp));
            call = Req { call_id: format!("e{}", number()), ..call.sent_by("UDP", ALICE) };
        }
        // Another number is what it was.
        let other = emergency::to("INVITE", "sips:1123@here.example").alice().sent_by("TLS", ALICE);
        lab.send_on(tls(ALICE, 3), other.text());
        assert!(requests(&lab.sent()).is_empty());
    }
}

#[test]
fn redirection_to_the_other_scheme_is_passed_on() {
    // RFC 5630 section 5.3: never recursed on, whichever way it leads.
    for (contact, asked, other) in [("sips", "sips", "sip"), ("sips", "sip", "sips"), ("sip", "sip", "sips")]
    {
        let mut lab = secure_lab(|s| {
            s.proxy.recurse = true;
            s.auth.enabled = false;
        });
        lab.bind("bob", &format!("<{contact}:bob@192.0.2.21:5061>"), tls(PHONE, 3));
        let mut req = secure("INVITE", &format!("{asked}:bob@here.example"));
        req.from = "<sip:alice@here.example>;tag=a".to_owned();
        let (sent, _) = call(&mut lab, &req);
        let line = format!("Contact: <sip:x@192.0.2.98>;q=0.1, <{other}:bob@192.0.2.99>\r\n");
        lab.send_on(tls(PHONE, 3), sent[0].reply(302, "b", &line));
        let end = lab.sent();
        assert_eq!((requests(&end).len(), statuses(&end)), (1, vec![302]), "the ACK: {end:?}");
    }
}

#[test]
fn transport_tls_in_a_sip_uri_means_tls_on_this_hop() {
    // Deprecated by RFC 3261 section 26.2.2, and what most phones on TLS write. Such a call may come from
    // anywhere and go on anywhere.
    let mut lab = secure_lab(|s| s.auth.enabled = false);
    lab.bind("bob", "<sip:bob@192.0.2.21:41000;transport=TLS>", tls(PHONE, 3));
    let sent = lab.invite(CAROL, Req::invite().text());
    assert_eq!((sent[0].flow, sent[0].uri()), (tls(PHONE, 3), "sip:bob@192.0.2.21:41000;transport=TLS"));
    let far = Req::new("INVITE", "sip:x@203.0.113.9;transport=tls").alice();
    let sent = lab.invite(ALICE, far.text());
    assert_eq!((sent[0].to().as_str(), sent[0].flow.transport), ("203.0.113.9:5061", Transport::Tls));
    // A server without TLS sends nothing in the clear instead.
    let mut lab = Lab::open();
    let far = Req::new("INVITE", "sip:x@203.0.113.9;transport=tls").alice();
    lab.send(ALICE, far.text());
    let end = lab.sent();
    assert!(requests(&end).is_empty() && end.last().unwrap().status() >= 400, "{end:?}");
}

#[test]
fn sips_contact_over_udp_is_registered_by_nobody() {
    // RFC 5630 section 5.2: sips all the way, of which the transport is a part.
    let mut lab = secure_lab(|_| {});
    let mut req = Req::new("REGISTER", "sips:here.example").sent_by("UDP", BOB);
    (req.from, req.to) = ("<sip:bob@here.example>;tag=b".to_owned(), "<sip:bob@here.example>".to_owned());
    req.lines = vec!["Contact: <sips:bob@192.0.2.21>".to_owned()];
    assert_eq!(lab.ask(BOB, req.text()).status(), 400);
    assert_eq!(lab.count(Counter::RegisterMalformed), 1);
    let challenge = {
        lab.send_on(tls(PHONE, 3), req.clone().sent_by("TLS", "192.0.2.21:41000").text());
        lab.one()
    };
    lab.send_on(tls(PHONE, 3), req.sent_by("TLS", "192.0.2.21:41000").answer("bob", &challenge).text());
    assert_eq!(lab.one().status(), 200);
    assert_eq!(lab.bindings_of("bob"), [PHONE]);
}
