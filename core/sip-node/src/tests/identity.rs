//! Trunks that are known by the names in their certificates (RFC 5922), and names that they have to prove.

use super::*;
use wire::Identity;

/// A server of the carrier, which connects from here.
const CARRIER: &str = "203.0.113.5:40001";
/// Another server of the same carrier.
const OTHER: &str = "198.18.0.7:40002";
const NAME: &str = "sip.carrier.example";

/// A connection over TLS that a peer opened.
fn opened(from: &str, conn: u64) -> Flow {
    Flow {
        transport: Transport::Tls,
        listener: ListenerId(4),
        remote: from.parse().unwrap(),
        conn: Some(ConnId::accepted(0, conn)),
    }
}

/// A lab with a trunk that is known by its name, whose calls to one number are for bob.
fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    let mut lab = Lab::with(|s| {
        s.listeners.push(Listener::new(Transport::Tls, "198.51.100.1:5061".parse().unwrap(), None));
        let mut carrier = trunk(&["sip:sip.carrier.example;transport=tls"], "+49");
        (carrier.sources, carrier.source_names) = (Vec::new(), vec![NAME.as_bytes().to_vec()]);
        s.trunks.push(carrier);
        s.routes.push(Route {
            domain: None,
            prefix: None,
            user: Some(b"+1555".to_vec()),
            silent_after_ms: 2_000,
            action: RouteAction::Forward(vec![b"sip:bob@here.example".to_vec()]),
        });
        change(s);
    });
    lab.phones(&[BOB]);
    lab
}

fn identity(names: &[&str]) -> Arc<Identity> {
    Arc::new(Identity::new(names.iter().map(|name| (*name).into()).collect(), vec![Box::default()]))
}

fn call(from: &str) -> Req {
    let mut call = Req::new("INVITE", "sip:+1555@here.example").sent_by("TLS", from);
    call.lines.push("P-Asserted-Identity: <sip:+49301@carrier.example>".to_owned());
    call
}

/// The status of a call over this connection, or the request that left.
fn outcome(lab: &mut Lab, flow: Flow) -> (Vec<u16>, Option<Sent>) {
    lab.send_on(flow, call(&flow.remote.to_string()).text());
    let sent = lab.sent();
    (statuses(&sent), sent.into_iter().find(|sent| sent.status() == 0))
}

#[test]
fn call_belongs_to_the_trunk_whose_name_is_proven() {
    let mut lab = lab(|_| {});
    let flow = opened(CARRIER, 1);
    lab.node.identified(lab.now, flow.conn.unwrap(), &identity(&["other.example", "SIP.carrier.example"]));
    let (answers, sent) = outcome(&mut lab, flow);
    let sent = sent.unwrap_or_else(|| panic!("{answers:?}"));
    assert_eq!((answers, sent.to().as_str()), (vec![100], BOB));
    assert!(sent.get("P-Asserted-Identity").is_some(), "a trunk's word is believed");
    assert!(lab.world.news.borrow().is_empty());
    // The same address over another connection, and over UDP, has proven nothing.
    assert_eq!(outcome(&mut lab, opened(CARRIER, 2)).0, [403]);
    lab.send(CARRIER, call(CARRIER).text());
    assert_eq!(statuses(&lab.sent()), [403]);
    // Nor has a connection with the number of one that is gone.
    lab.node.disconnected(lab.now, flow.conn.unwrap(), &mut lab.out);
    assert_eq!(outcome(&mut lab, flow).0, [403]);
}

#[test]
fn call_without_the_name_is_a_strangers_and_the_reason_is_told() {
    let mut lab = lab(|_| {});
    for (conn, names, told, counter) in [
        (1, None, "wanted sip.carrier.example found -", Counter::PeerUnknown),
        (
            2,
            Some(&["a.example", "b.example"][..]),
            "wanted sip.carrier.example found a.example b.example",
            Counter::PeerOther,
        ),
        (
            3,
            Some(&["carrier.example"]),
            "wanted sip.carrier.example found carrier.example",
            Counter::PeerOther,
        ),
        (
            4,
            Some(&["*.carrier.example"]),
            "wanted sip.carrier.example found *.carrier.example",
            Counter::PeerOther,
        ),
    ] {
        let flow = opened(CARRIER, conn);
        if let Some(names) = names {
            lab.node.identified(lab.now, flow.conn.unwrap(), &identity(names));
        }
        let before = lab.count(counter);
        assert_eq!(outcome(&mut lab, flow).0, [403], "{names:?}");
        assert_eq!(lab.count(counter), before + 1, "{names:?}");
        assert_eq!(lab.world.news.take(), [format!("unproven {CARRIER} {told}")]);
    }
    // A phone of ours over TLS needs no certificate, and nothing is reported.
    let phone = opened(ALICE, 9);
    lab.send_on(phone, Req::invite().alice().sent_by("TLS", ALICE).text());
    assert_eq!(statuses(&lab.sent()), [407]);
    assert!(lab.world.news.borrow().is_empty());
}

#[test]
fn name_counts_for_the_authority_of_its_trunk_only() {
    let mut lab = lab(|s| s.trunks[0].authority = b"carrier.pem".to_vec());
    let names = || vec![NAME.into()];
    for (conn, authorities, status) in
        [(1, vec![""], 403), (2, vec!["other.pem"], 403), (3, vec!["", "carrier.pem"], 100)]
    {
        let flow = opened(CARRIER, conn);
        let authorities = authorities.into_iter().map(Into::into).collect();
        lab.node.identified(lab.now, flow.conn.unwrap(), &Arc::new(Identity::new(names(), authorities)));
        assert_eq!(outcome(&mut lab, flow).0, [status]);
    }
}

#[test]
fn reload_changes_the_trunk_of_a_connection() {
    let mut lab = lab(|s| s.trunks[0].source_names = vec![b"old.example".to_vec()]);
    let flow = opened(CARRIER, 1);
    lab.node.identified(lab.now, flow.conn.unwrap(), &identity(&[NAME]));
    assert_eq!(outcome(&mut lab, flow).0, [403]);
    lab.reconfigure(|s| s.trunks[0].source_names = vec![NAME.as_bytes().to_vec()]);
    assert_eq!(outcome(&mut lab, flow).0, [100]);
    lab.reconfigure(|s| s.trunks.clear());
    assert_eq!(outcome(&mut lab, flow).0, [403]);
}

/// The call is for bob, whose bindings others hold, and for a server elsewhere, which only a trunk that may
/// transit reaches.
#[test]
fn call_that_waited_keeps_the_trunk_that_was_proven() {
    for reloads in [false, true] {
        let mut lab = lab(|s| {
            let targets = ["sip:bob@here.example", "sip:198.18.0.9"];
            s.routes[0].action =
                RouteAction::Forward(targets.map(|target| target.as_bytes().to_vec()).into());
            (s.routes[0].user, s.routes[0].prefix) = (None, Some(b"+1555".to_vec()));
            s.trunks.last_mut().unwrap().may_transit = true;
        });
        *lab.world.elsewhere.borrow_mut() = vec!["bob"];
        let flow = opened(CARRIER, 1);
        lab.node.identified(lab.now, flow.conn.unwrap(), &identity(&[NAME]));
        lab.send_on(flow, call(CARRIER).text());
        assert_eq!(statuses(&lab.sent()), [100]);
        assert_eq!(lab.report().pending, 1, "it waits");
        lab.node.disconnected(lab.now, flow.conn.unwrap(), &mut lab.out);
        if reloads {
            let other = Trunk { name: b"other".to_vec(), sources: Vec::new(), ..Trunk::default() };
            lab.reconfigure(|s| s.trunks.insert(0, other));
        }
        let aor = b"bob@here.example"[..].into();
        lab.notice(Notice::Located(Located::Bindings { aor, found: Ok(BindingSet::default()) }));
        let sent = lab.sent();
        let left = requests(&sent);
        assert_eq!(left, [("INVITE".to_owned(), "198.18.0.9:5060".to_owned())], "{:?}", statuses(&sent));
    }
}

#[test]
fn trunk_is_known_beside_any_number_of_peers() {
    let mut lab = lab(|_| {});
    let phone = identity(&["phone.example"]);
    for conn in 10..65_550 {
        lab.node.identified(lab.now, ConnId::accepted(0, conn), &phone);
    }
    assert_eq!(lab.count(Counter::PeerCrowded), 4, "their certificates count for nothing");
    let flow = opened(CARRIER, 1);
    lab.node.identified(lab.now, flow.conn.unwrap(), &identity(&[NAME]));
    assert_eq!(outcome(&mut lab, flow).0, [100]);
}

#[test]
fn trunk_ends_its_call_over_any_connection_that_it_has_proven() {
    let mut lab = lab(|_| {});
    let [first, second, third] = [opened(CARRIER, 1), opened("203.0.113.5:40009", 2), opened(OTHER, 3)];
    for flow in [first, second, third] {
        lab.node.identified(lab.now, flow.conn.unwrap(), &identity(&[NAME]));
    }
    for flow in [first, second, third] {
        let call = call(CARRIER);
        lab.send_on(first, call.text());
        let invite = lab.sent().into_iter().find(|sent| sent.status() == 0).unwrap();
        lab.send(BOB, invite.accept("b"));
        let ok = lab.one();
        lab.send_on(first, call.within("ACK", &ok).text());
        assert_eq!(requests(&lab.sent()), [("ACK".to_owned(), BOB.to_owned())]);
        lab.send_on(flow, call.within("BYE", &ok).text());
        assert_eq!(requests(&lab.sent()), [("BYE".to_owned(), BOB.to_owned())], "{flow:?}");
    }
}

/// The request that leaves for a number of the trunk.
fn sent_over_trunk(lab: &mut Lab) -> Sent {
    lab.send(ALICE, Req::new("INVITE", "sip:+4930@here.example").alice().text());
    lab.resolve("203.0.113.5");
    lab.sent().into_iter().find(|sent| sent.status() == 0).unwrap()
}

#[test]
fn name_to_prove_is_the_host_of_the_target() {
    let mut lab = lab(|s| s.auth.enabled = false);
    let sent = sent_over_trunk(&mut lab);
    assert_eq!((sent.to().as_str(), sent.name.as_str()), ("203.0.113.5:5061", NAME));
}

#[test]
fn name_to_prove_is_the_one_that_the_trunk_says() {
    for target in
        ["sip:sip.carrier.example;transport=tls", "sip:203.0.113.5;transport=tls", "sips:203.0.113.5"]
    {
        let mut lab = lab(|s| {
            s.auth.enabled = false;
            let trunk = &mut s.trunks[0];
            (trunk.targets, trunk.verify) =
                (vec![target.as_bytes().to_vec()], Some(b"other.carrier.example".to_vec()));
        });
        // The addresses of the trunk's names are asked for.
        lab.pass(1);
        lab.resolve("203.0.113.5");
        let sent = sent_over_trunk(&mut lab);
        let want = ("203.0.113.5:5061", "other.carrier.example");
        assert_eq!((sent.to().as_str(), sent.name.as_str()), want, "{target}");
        lab.send_on(Flow { conn: Some(ConnId::new(0, 5)), ..sent.flow }, sent.accept("b"));
        // Within the dialog, too, and where the connection is gone.
        let ok = lab.sent().into_iter().find(|sent| sent.status() == 200).unwrap();
        let mut call = Req::new("INVITE", "sip:+4930@here.example").alice();
        (call.from, call.call_id) =
            (ok.get("From").unwrap().to_owned(), ok.get("Call-ID").unwrap().to_owned());
        lab.send(ALICE, call.within("BYE", &ok).text());
        let bye = lab.sent().into_iter().find(|sent| sent.status() == 0).unwrap();
        assert_eq!((bye.method(), bye.to().as_str(), bye.name.as_str()), ("BYE", want.0, want.1), "{target}");
    }
}

#[test]
fn sips_target_carries_both_schemes_over_tls() {
    for (asked, leaves) in [
        ("sip:+4930@here.example", "sip:+4930@203.0.113.5"),
        ("sips:+4930@here.example", "sips:+4930@203.0.113.5"),
    ] {
        let mut lab = lab(|s| {
            s.auth.enabled = false;
            s.trunks[0].targets = vec![b"sips:203.0.113.5".to_vec()];
        });
        let call = Req::new("INVITE", asked).alice().sent_by("TLS", ALICE);
        lab.send_on(opened(ALICE, 9), call.text());
        let sent = lab.sent().into_iter().find(|sent| sent.status() == 0).unwrap();
        assert_eq!((sent.flow.transport, sent.to().as_str()), (Transport::Tls, "203.0.113.5:5061"));
        assert_eq!(sent.uri(), leaves);
    }
    // A sip: target is not used for a sips: call, even over TLS (RFC 5630 section 5.3).
    let mut lab = lab(|s| {
        s.auth.enabled = false;
        s.trunks[0].targets = vec![b"sip:203.0.113.5;transport=tls".to_vec()];
    });
    let call = Req::new("INVITE", "sips:+4930@here.example").alice().sent_by("TLS", ALICE);
    lab.send_on(opened(ALICE, 9), call.text());
    assert_eq!(statuses(&lab.sent()), [100, 480]);
}
