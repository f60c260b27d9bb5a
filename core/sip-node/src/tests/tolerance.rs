//! URIs that are carried along: what passes in a Contact can be used to end the call. See
//! docs/design/uri-tolerance.md.

use super::*;
use proptest::prelude::*;

/// What a peer writes into the start line of a request for this Contact.
fn target(contact: &str) -> &str {
    match contact.strip_prefix('<') {
        Some(inner) => inner.split('>').next().unwrap(),
        None => contact.split(';').next().unwrap().trim(),
    }
}

/// Sends a request, which reaches this host. Names are not known.
#[track_caller]
fn reaches(lab: &mut Lab, (from, ip): (&str, &str), req: &Req) -> Sent {
    lab.send(from, req.text());
    lab.resolve_with(|_| Answer::Nothing);
    let mut sent = lab.sent();
    sent.retain(|s| s.status() != 100);
    let [sent] = &sent[..] else { panic!("{}: {sent:?}", req.uri) };
    assert_eq!(
        (sent.method(), sent.flow.remote.ip()),
        (req.method.as_str(), ip.parse().unwrap()),
        "{}",
        req.uri
    );
    sent.clone()
}

/// A call between two phones with these Contacts: `false` if one of them was refused. Whatever was not is
/// acknowledged and ended, by the one end and by the other.
fn ends(caller: &str, callee: &str, route: &str) -> bool {
    let mut lab = Lab::open();
    lab.phones(&[BOB]);
    let mut req = Req::invite();
    req.lines = vec![format!("Contact: {caller}")];
    if !route.is_empty() {
        req.lines.push(format!("Record-Route: {route}"));
    }
    lab.send(CAROL, req.text());
    let sent = lab.sent();
    let Some(got) = sent.iter().find(|s| s.status() == 0) else {
        assert_eq!(statuses(&sent), [400], "{caller}");
        return false;
    };
    lab.send(BOB, got.reply(200, "b", &format!("Contact: {callee}\r\n")));
    let Some(ok) = lab.sent().into_iter().find(|s| s.status() == 200) else { return false };
    let from_carol = |lab: &mut Lab, method: &str| {
        let mut within = req.within(method, &ok);
        within.uri = target(callee).to_owned();
        // The Record-Route of a proxy before us is taken off by that proxy.
        within.lines.drain(..usize::from(!route.is_empty()));
        reaches(lab, (CAROL, "192.0.2.20"), &within)
    };
    from_carol(&mut lab, "ACK");
    let again = from_carol(&mut lab, "INVITE");
    lab.send(BOB, again.reply(488, "b", ""));
    lab.sent();
    let bye = from_carol(&mut lab, "BYE");
    assert_eq!(lab.ask(BOB, bye.reply(200, "b", "")).to(), CAROL);
    let mut bye = from_callee(got, "BYE", BOB, "<sip:bob@here.example>");
    bye.uri = target(caller).to_owned();
    let sent = reaches(&mut lab, (BOB, "192.0.2.10"), &bye);
    assert_eq!(sent.all("Route"), if route.is_empty() { vec![] } else { vec![route] });
    true
}

/// Contacts that phones and gateways are known to write, and their kin.
const ODD: [&str; 13] = [
    "<sip:*21#@192.0.2.20:5060>",
    "<sip:gw+carrier#1@192.0.2.20:5060;transport=udp;gw=\"a b\">",
    "<sip:j\u{f6}rg@192.0.2.20>",
    "<sip:50%@192.0.2.20>",
    "<sip:{x}|^`\\~[y]@192.0.2.20>",
    "<sip:bob@192.0.2.20;line=\"a;b\";x={1}>",
    "<sip:bob@192.0.2.20?x=#&y=\"z\">",
    "<sip:a@b@192.0.2.20>",
    "<sip:bob@>",
    "<sip:bob@192.0.2.20:0>",
    "<tel:+49#x>",
    "<urn:service:x>",
    "sip:bob#@192.0.2.20",
];

#[test]
fn odd_contacts_pass_and_the_call_can_be_ended() {
    for contact in ODD {
        // White space can stand in no request line.
        let fits = !target(contact).contains(' ');
        let caller = contact.replace("192.0.2.20", "192.0.2.10");
        assert_eq!(ends(&caller, "<sip:bob@192.0.2.20>", ""), fits, "{contact}");
        assert_eq!(ends("<sip:carol@192.0.2.10>", contact, ""), fits, "{contact}");
    }
}

#[test]
fn odd_record_routes_of_others_come_back_as_routes() {
    let route = "<sip:edge#1@192.0.2.10;lr;x=\"y\">";
    assert!(ends("<sip:carol@192.0.2.10>", "<sip:bob@192.0.2.20>", route));
}

#[test]
fn odd_contacts_can_be_registered_and_called() {
    for contact in ["<sip:*21#@192.0.2.20>", "<sip:j\u{f6}rg@192.0.2.20;x=\"y\">"] {
        let mut lab = Lab::new();
        lab.bind("bob", contact, udp(BOB));
        let sent = lab.invite(CAROL, Req::invite().text()).remove(0);
        assert_eq!((sent.uri(), sent.to().as_str()), (inside(contact), BOB));
    }
}

#[test]
fn unreadable_uris_lead_nowhere_outside_a_dialog() {
    let mut lab = Lab::open();
    lab.phones(&[BOB]);
    for uri in ["sip:a@b@192.0.2.20", "sip:bob@here.example;x=\"y", "sip:bob@192.0.2.20:0", "nothing"] {
        let mut req = Req::invite();
        req.uri = uri.to_owned();
        assert_eq!(lab.ask(CAROL, req.text()).status(), 400, "{uri}");
        let mut alice = Req::invite().alice();
        alice.uri = "sip:x@far.example".to_owned();
        let route = alice.line(&format!("Route: <{uri};lr>"));
        assert_eq!(lab.ask(ALICE, route.text()).status(), 400, "{uri}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_contact_that_passes_can_be_used_to_end_the_call(
        scheme in "sip:|tel:|sip|urn:|",
        user in "([!-~]{0,6}|[#%\"@:;?\u{e9}a-c]{0,6})@?",
        host in "192[.]0[.]2[.]20|h[.]example|[!-~]{0,5}",
        rest in "(:[0-9]{1,5})?(;[!-=?-~\u{e9}\t ]{0,6}){0,2}",
        bracketed in any::<bool>(),
        long in prop::sample::select(vec![0, 0, 0, 0, 3_000]),
    ) {
        let uri = format!("{scheme}{user}{host}{rest}{}", "a".repeat(long));
        // What stands before a bracket is a display name, and not of the URI.
        prop_assume!(bracketed || !uri.contains('<'));
        let contact = if bracketed { format!("<{uri}>") } else { uri };
        // An empty value names nothing: it is as good as no Contact.
        prop_assume!(!target(&contact).trim().is_empty());
        // A sips URI leads nowhere on a server without TLS.
        prop_assume!(!contact.to_ascii_lowercase().contains("sips:"));
        ends(&contact.replace("192.0.2.20", "192.0.2.10"), "<sip:bob@192.0.2.20>", "");
        ends("<sip:carol@192.0.2.10>", &contact, "");
    }
}
