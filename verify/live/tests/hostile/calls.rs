//! Transactions, branches, loops: rows 22, 23, 26, 27 and 36.

use super::*;

#[test]
fn row_22_branches_do_not_mix_callers() {
    let (server, mut bob) = open_with_bob();
    for branch in
        ["", ";branch=", ";branch=z9hG4bK", ";branch=abc", ";branch=Z9HG4BKsame", ";branch=z9hG4bKsame"]
    {
        // Two callers use the same branch at once; each must get the answer to its own request.
        let mut callers: Vec<(Link, Req, u16)> = Vec::new();
        for status in [486, 480] {
            let mut link = server.link(Via::Udp);
            let mut req = Req::new("MESSAGE", "sip:bob@example.com", &link);
            req.via = format!("SIP/2.0/UDP {}{branch};rport", link.local());
            link.send(&req.bytes());
            callers.push((link, req, status));
        }
        let mut seen = 0;
        for _ in 0..2 {
            let Some((message, phone)) = bob.request_within(Duration::from_secs(3)) else { break };
            let whose =
                callers.iter().find(|c| Some(c.1.call_id.as_str()) == message.header("Call-ID")).unwrap();
            phone.send(&message.reply(whose.2, "b", &[]));
            seen += 1;
        }
        for (link, req, status) in &mut callers {
            let got = link.response(req).status().unwrap();
            assert!(got == *status || (seen == 0 && got == 400), "{branch:?}: {got} for {status}");
        }
        // A retransmission of the same request is answered from memory, not forwarded again.
        let (link, req, status) = &mut callers[0];
        if branch == ";branch=z9hG4bKsame" {
            link.send(&req.bytes());
            assert_eq!(link.response(req).status(), Some(*status));
            nothing_reached(&mut bob, "retransmission");
            // Same branch, other method: another transaction (RFC 3261 section 17.2.3).
            let mut other = req.clone();
            other.method = "INFO".into();
            other.cseq = 2;
            link.send(&other.bytes());
            let (message, phone) = bob.request_within(LONG).expect("another method is another transaction");
            phone.send(&message.reply(200, "b", &[]));
            assert_eq!(link.response(&other).status(), Some(200));
        }
    }
    server.assert_alive("branches");
}

#[test]
fn row_23_forged_and_late_responses() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        let mut link = server.link(via);
        let req = Req::invite("sip:bob@example.com", &link);
        link.send(&req.bytes());
        let (invite, phone) = bob.request_within(LONG).expect("forwarded");
        let contact = format!("Contact: <sip:bob@{}>", phone.local());
        // Not ours: another branch under our sent-by. And codes that do not exist.
        let good = invite.reply(486, "b", &[]);
        let text = String::from_utf8(good).unwrap();
        let forged = text.replacen("branch=z9hG4bK", "branch=z9hG4bKforged", 1);
        phone.send(forged.as_bytes());
        for code in ["4294967301", "099", "700", "9999", "-20"] {
            phone.send(text.replacen("SIP/2.0 486", &format!("SIP/2.0 {code}"), 1).as_bytes());
        }
        phone.send(text.replacen("CSeq: 1 INVITE", "CSeq: 1 BYE", 1).as_bytes());
        server.assert_alive("forged responses");
        assert!(
            link.find_within(SOON, |m| m.status().is_some_and(|s| s >= 180)).is_none(),
            "a forged response got through over {via:?}"
        );
        // Then the real one, and its retransmission in the Accepted state (RFC 6026).
        let ok = invite.reply(200, "b", &[&contact]);
        phone.send(&ok);
        assert_eq!(link.response(&req).status(), Some(200));
        phone.send(&ok);
        assert_eq!(link.response(&req).status(), Some(200), "a retransmitted 2xx is forwarded again");
        // A later 486 for the same branch is not.
        phone.send(text.as_bytes());
        server.assert_alive("late response");
        assert!(link.find_within(SOON, |m| m.status() == Some(486)).is_none(), "a final after the 2xx");
    }
}

#[test]
fn row_26_loops_end_and_spirals_pass() {
    let server = Setup::open().start();
    let bind = |user: &str, contact: String| {
        let mut link = server.link(Via::Udp);
        let mut req = Req::new("REGISTER", "sip:example.com", &link).user(user);
        req.to = format!("<sip:{user}@example.com>");
        // With rport the client itself would be called.
        req.via = req.via.replace(";rport", "");
        link.status(&req.with(&format!("Contact: <{contact}>")))
    };
    let here = server.sip();
    bind("self", format!("sip:self@{here}"));
    bind("domain", "sip:domain@example.com".into());
    bind("ping", format!("sip:pong@{here}"));
    bind("pong", format!("sip:ping@{here}"));
    for via in Via::BOTH {
        for user in ["self", "domain", "ping"] {
            let mut link = server.link(via);
            let req = Req::invite(&format!("sip:{user}@example.com"), &link);
            let status = link.status(&req);
            // 482 by loop detection; a registrar may refuse such a binding in the first place.
            assert!(matches!(status, 482 | 403 | 404 | 480), "{user} over {via:?}: {status}");
        }
    }
    // A spiral comes back with another Request-URI and goes on to a phone.
    let mut bob = Listener::open(server.sip());
    bob.udp.register("bob");
    if bind("spiral", format!("sip:bob@{here}")) == 200 {
        let mut link = server.link(Via::Udp);
        let req = Req::new("MESSAGE", "sip:spiral@example.com", &link);
        link.send(&req.bytes());
        let (message, phone) = bob.request_within(LONG).expect("a spiral is no loop");
        phone.send(&message.reply(200, "b", &[]));
        assert_eq!(link.response(&req).status(), Some(200));
    }
    server.assert_alive("loops");
}

#[test]
fn row_27_fork_bomb() {
    let server = Setup::open().start();
    let here = server.sip();
    // Two users whose 60 contacts lead to each other's.
    for (user, other) in [("a", "b"), ("b", "a")] {
        let mut link = server.link(Via::Udp);
        for i in 0..60 {
            let mut req = Req::new("REGISTER", "sip:example.com", &link).user(user);
            req.to = format!("<sip:{user}@example.com>");
            req.call_id = format!("bomb-{user}");
            req.cseq = i + 1;
            req.via = req.via.replace(";rport", "");
            link.ask(&req.with(&format!("Contact: <sip:{other}@{here};n={i}>")));
        }
    }
    let mut link = server.link(Via::Udp);
    let req = Req::invite("sip:a@example.com", &link);
    let before = Instant::now();
    let status = link.status(&req);
    assert!(matches!(status, 403 | 404 | 440 | 480 | 482 | 483 | 500 | 503), "{status}");
    assert!(before.elapsed() < LONG, "took {:?}", before.elapsed());
    server.assert_alive("a fork bomb");
}

#[test]
fn row_36_stray_ack_cancel_bye() {
    let (server, mut bob) = open_with_bob();
    for via in Via::BOTH {
        let mut link = server.link(via);
        // ACK is never answered.
        for tag in ["", ";tag=unknown"] {
            let mut ack = Req::new("ACK", "sip:bob@example.com", &link);
            ack.to.push_str(tag);
            link.send(&ack.bytes());
        }
        let mut nobody = Req::new("ACK", "sip:nobody@example.com", &link);
        nobody.to.push_str(";tag=x");
        link.send(&nobody.bytes());
        server.assert_alive("stray ACKs");
        assert!(link.drain().is_empty(), "an ACK was answered");
        while bob.request_within(SOON).is_some() {}
        // CANCEL of nothing.
        let cancel = Req::new("CANCEL", "sip:bob@example.com", &link);
        assert_eq!(link.status(&cancel), 481);
        nothing_reached(&mut bob, "a CANCEL that matches nothing");
        // A call that rings; a third party's CANCEL does not end it, the caller's does.
        let req = Req::invite("sip:bob@example.com", &link);
        link.send(&req.bytes());
        let (invite, phone) = bob.request_within(LONG).expect("forwarded");
        phone.send(&invite.reply(180, "b", &[]));
        link.expect(&req, 180);
        let mut thief = server.link(Via::Udp);
        let mut forged = req.cancel();
        forged.via = format!("SIP/2.0/UDP {};branch={};rport", thief.local(), unique("z9hG4bK"));
        assert_eq!(thief.status(&forged), 481, "a CANCEL from elsewhere");
        nothing_reached(&mut bob, "a third party's CANCEL");
        let cancel = req.cancel();
        link.send(&cancel.bytes());
        assert_eq!(link.response(&cancel).status(), Some(200));
        // CANCEL and 200 cross: the 200 wins and is delivered (RFC 5407 section 3.1.2).
        let (cancelled, phone) = bob.request_within(LONG).expect("the CANCEL is passed on");
        assert_eq!(cancelled.method(), "CANCEL");
        phone.send(&cancelled.reply(200, "b", &[]));
        let contact = format!("Contact: <sip:bob@{}>", phone.local());
        phone.send(&invite.reply(200, "b", &[&contact]));
        assert_eq!(link.response(&req).status(), Some(200), "the 200 that crossed the CANCEL");
    }
}
