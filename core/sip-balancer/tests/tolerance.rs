//! URIs that are carried along: what passes in a Contact can be used to end the call. See
//! docs/design/uri-tolerance.md.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use proptest::prelude::*;

/// What a peer writes into the start line of a request for this Contact.
fn target(contact: &str) -> &str {
    match contact.strip_prefix('<') {
        Some(inner) => inner.split('>').next().unwrap_or(""),
        None => contact.split(';').next().unwrap_or("").trim(),
    }
}

/// A call through the balancer between ends with these Contacts: `false` if one of them was refused.
/// Whatever was not is acknowledged and ended, by the one end and by the other.
fn ends(caller: &str, callee: &str) -> bool {
    let mut world = World::new();
    let invite = request("INVITE", "t1", 1, "t1", "", &format!("Contact: {caller}\r\n"));
    let forwarded = world.one(CALLER, &invite);
    if !forwarded.start().starts_with("INVITE ") {
        assert!(forwarded.start().starts_with("SIP/2.0 400 "), "{caller}: {forwarded:?}");
        return false;
    }
    let back = world.answer(&forwarded, "200 OK", &format!("Contact: {callee}\r\n"));
    if back.is_empty() {
        return false;
    }
    let route = format!("Route: {}\r\n", forwarded.header("Record-Route").expect("a route"));
    for (method, cseq) in [("ACK", 1), ("BYE", 2)] {
        let text = request(method, "t1", cseq, method, ";tag=callee", &route);
        let text = text.replacen("sip:bob@example.com SIP", &format!("{} SIP", target(callee)), 1);
        let sent = world.one(CALLER, &text);
        assert_eq!(sent.to, forwarded.to);
        assert!(sent.start().starts_with(method), "{text}");
    }
    let bye = format!(
        "BYE {} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKn1\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=callee\r\nTo: <sip:alice@example.com>;tag=caller\r\n\
         Call-ID: t1\r\nCSeq: 9 BYE\r\n{route}Content-Length: 0\r\n\r\n",
        target(caller),
        forwarded.to
    );
    let sent = world.one(&forwarded.to, &bye);
    assert_eq!(sent.to, CALLER);
    assert!(sent.start().starts_with("BYE "), "{bye}");
    true
}

#[test]
fn odd_contacts_pass_and_the_call_can_be_ended() {
    for contact in [
        "<sip:*21#@198.51.100.7>",
        "<sip:gw@198.51.100.7;line=\"a;b\">",
        "<sip:j\u{f6}rg@198.51.100.7>",
        "<sip:a@b@198.51.100.7>",
        "<urn:service:x>",
    ] {
        assert!(ends(contact, "<sip:bob@192.0.2.20>"), "{contact}");
        assert!(ends("<sip:alice@198.51.100.7>", contact), "{contact}");
    }
    assert!(!ends("<sip:a b@198.51.100.7>", "<sip:bob@192.0.2.20>"));
}

proptest! {
    #[test]
    fn a_contact_that_passes_can_be_used_to_end_the_call(
        scheme in "sip:|tel:|sip|urn:|",
        user in "([!-~]{0,6}|[#%\"@:;?\u{e9}a-c]{0,6})@?",
        host in "198[.]51[.]100[.]7|h[.]example|[!-~]{0,5}",
        rest in "(;[!-=?-~\u{e9}\t ]{0,6}){0,2}",
        bracketed in any::<bool>(),
    ) {
        let uri = format!("{scheme}{user}{host}{rest}");
        let contact = if bracketed { format!("<{uri}>") } else { uri };
        // An empty value names nothing: it is as good as no Contact.
        prop_assume!(!target(&contact).trim().is_empty());
        ends(&contact, "<sip:bob@192.0.2.20>");
        ends("<sip:alice@198.51.100.7>", &contact);
    }
}
