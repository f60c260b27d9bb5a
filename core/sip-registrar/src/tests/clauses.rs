//! RFC 3261 section 10, clause by clause.

use super::{AOR, Fixture, lines_of, request, text};
use crate::Change;
use core::time::Duration;
use wire::Time;

const ONE: &str = "Contact: <sip:alice@192.0.2.1:5062>";
const TWO: &str = "Contact: <sip:alice@192.0.2.2>";

#[test]
fn a_request_without_contact_only_asks() {
    let mut f = Fixture::new();
    assert_eq!(f.accept(&[]), Vec::<String>::new());
    f.accept(&[ONE]);
    f.pass(10);
    let told = f.accept(&["Expires: 0"]);
    assert_eq!(told, ["Contact: <sip:alice@192.0.2.1:5062>;expires=3590"]);
    assert!(f.changes.is_empty());
}

#[test]
fn the_answer_lists_every_current_binding() {
    let mut f = Fixture::new();
    f.accept(&["Contact: \"Al\" <sip:alice@192.0.2.1:5062>;q=0.25;audio;methods=\"INVITE, BYE\""]);
    f.pass(100);
    let told = f.accept(&["m: sip:alice@192.0.2.2;expires=600"]);
    assert_eq!(
        told,
        [
            "Contact: <sip:alice@192.0.2.2>;expires=600",
            "Contact: <sip:alice@192.0.2.1:5062>;expires=3500;q=0.25;audio;methods=\"INVITE, BYE\"",
        ]
    );
}

#[test]
fn an_interval_comes_from_the_contact_then_the_header_then_the_configuration() {
    let mut f = Fixture::new();
    f.config.default_expires = 1800;
    f.accept(&["Contact: <sip:a@192.0.2.1>;expires=100, <sip:b@192.0.2.1>", "Expires: 200"]);
    f.accept(&["Contact: <sip:c@192.0.2.1>"]);
    let seconds: Vec<u64> = f.contacts().iter().map(|(_, s)| *s).collect();
    assert_eq!(seconds, [1800, 100, 200]);
}

#[test]
fn a_malformed_interval_counts_as_an_hour() {
    let mut f = Fixture::new();
    for bad in ["-1", "4294967296", "99999999999999999999999", "soon", "1e3", "0x10"] {
        f.accept(&[&format!("Contact: <sip:a@192.0.2.1>;expires={bad}")]);
        assert_eq!(f.contacts()[0].1, 3600, "{bad}");
        f.accept(&["Contact: <sip:a@192.0.2.1>;expires=0"]);
        f.accept(&["Contact: <sip:a@192.0.2.1>", &format!("Expires: {bad}")]);
        assert_eq!(f.contacts()[0].1, 3600, "{bad}");
    }
    f.accept(&["Contact: <sip:a@192.0.2.1>;expires=4294967295"]);
    assert_eq!(f.contacts()[0].1, 7200, "the largest valid interval is only shortened");
}

#[test]
fn too_brief_an_interval_is_refused_with_the_least_one() {
    let mut f = Fixture::new();
    let reply = f.refuse(423, &["Contact: <sip:a@192.0.2.1>;expires=3600, <sip:b@192.0.2.1>;expires=59"]);
    assert_eq!(lines_of(&reply), ["Min-Expires: 60"]);
    f.accept(&["Contact: <sip:a@192.0.2.1>;expires=60"]);
    // An hour is never too brief, whatever the configuration says.
    f.config.min_expires = 100_000;
    f.config.max_expires = 100_000;
    f.accept(&["Contact: <sip:a@192.0.2.1>;expires=3600"]);
    assert_eq!(f.contacts()[0].1, 3600);
    assert_eq!(lines_of(&f.refuse(423, &["Contact: <sip:a@192.0.2.1>;expires=3599"])), ["Min-Expires: 3600"]);
}

#[test]
fn zero_removes_one_binding_and_wildcard_all() {
    let mut f = Fixture::new();
    f.accept(&[ONE, TWO]);
    f.accept(&["Contact: <sip:alice@192.0.2.1:5062>;expires=0"]);
    assert_eq!(f.contacts(), [("sip:alice@192.0.2.2".to_owned(), 3600)]);
    f.accept(&["Contact: <sip:nobody@192.0.2.99>;expires=0"]);
    assert!(f.changes.is_empty(), "removing what is not there changes nothing");
    f.accept(&[ONE]);
    f.pass(1);
    assert_eq!(f.accept(&["Contact: *", "Expires: 0"]), Vec::<String>::new());
    assert_eq!(f.changes.len(), 2);
    assert!(f.table.is_empty() && f.table.aors() == 0);
}

#[test]
fn wildcard_stands_alone_and_with_zero() {
    let mut f = Fixture::new();
    f.accept(&[ONE]);
    f.refuse(400, &["Contact: *"]);
    f.refuse(400, &["Contact: *", "Expires: 60"]);
    f.refuse(400, &["Contact: *", "Expires: none"]);
    f.refuse(400, &["Contact: *", ONE, "Expires: 0"]);
    f.refuse(400, &["Contact: *, *", "Expires: 0"]);
    f.refuse(400, &["Contact: *;expires=0"]);
    f.refuse(400, &["Contact: <*>", "Expires: 0"]);
}

#[test]
fn a_request_older_than_the_binding_fails_and_changes_nothing() {
    let mut f = Fixture::new();
    assert_eq!(f.register_as("x", 7, &[ONE]).status, 200);
    for cseq in [7, 6, 0] {
        for lines in
            [&[ONE][..], &["Contact: <sip:alice@192.0.2.1:5062>;expires=0"], &["Contact: *", "Expires: 0"]]
        {
            f.pass(1);
            let before = f.contacts();
            assert_eq!(f.register_as("x", cseq, lines).status, 500, "{cseq} {lines:?}");
            assert!(f.changes.is_empty());
            assert_eq!(f.contacts(), before);
        }
    }
    assert_eq!(f.register_as("x", 8, &[ONE]).status, 200);
    assert_eq!(f.register_as("another", 1, &[ONE]).status, 200, "another Call-ID is another order");
    assert_eq!(f.register_as("x", 1, &[TWO]).status, 200, "order holds per binding");
    assert_eq!(f.register_as("x", 2, &["Contact: *", "Expires: 0"]).status, 200);
}

#[test]
fn all_or_nothing() {
    let mut f = Fixture::new();
    assert_eq!(f.register_as("x", 7, &[ONE]).status, 200);
    let before = f.contacts();
    // The first two values are fine and the third is out of order.
    let lines = [TWO, "Contact: <sip:third@192.0.2.3>", ONE];
    assert_eq!(f.register_as("x", 7, &lines).status, 500);
    assert_eq!(f.contacts(), before);
    // A wildcard that only one of the bindings forbids leaves the others too.
    assert_eq!(f.register_as("y", 1, &[TWO]).status, 200);
    let before = f.contacts();
    assert_eq!(f.register_as("x", 7, &["Contact: *", "Expires: 0"]).status, 500);
    assert_eq!(f.contacts(), before);
    assert!(f.changes.is_empty());
    assert!(!f.table.has_contact_address("192.0.2.3:5060".parse().expect("an address")));
}

#[test]
fn contacts_compare_as_uris() {
    let mut f = Fixture::new();
    f.accept(&["Contact: <sip:%61lice@HOST.example;Transport=TCP;x=1>"]);
    f.accept(&["Contact: <sip:alice@host.EXAMPLE;transport=tcp>;expires=100"]);
    assert_eq!(f.contacts(), [("sip:alice@host.EXAMPLE;transport=tcp".to_owned(), 100)]);
    let [Change::Delete { contact, .. }, Change::Put(record)] = &f.changes[..] else {
        panic!("a changed text is a changed key: {:?}", f.changes)
    };
    assert_eq!(text(contact), "sip:%61lice@HOST.example;Transport=TCP;x=1");
    assert_eq!(text(&record.contact), "sip:alice@host.EXAMPLE;transport=tcp");
    for other in ["sip:Alice@host.example;transport=tcp", "sip:alice@host.example:5060;transport=tcp"] {
        f.accept(&[&format!("Contact: <{other}>")]);
    }
    assert_eq!(f.contacts().len(), 3);
}

#[test]
fn the_same_text_goes_before_an_equivalent_one() {
    let mut f = Fixture::new();
    // Equality is not transitive: both match a URI without the parameter, but not each other.
    f.accept(&["Contact: <sip:a@192.0.2.1;x=1>"]);
    f.accept(&["Contact: <sip:a@192.0.2.1;x=2>"]);
    f.accept(&["Contact: <sip:a@192.0.2.1;x=2>;expires=70"]);
    let seconds: Vec<u64> = f.contacts().iter().map(|(_, s)| *s).collect();
    assert_eq!(seconds, [70, 3600]);
}

#[test]
fn a_contact_twice_in_one_request_counts_as_last_written() {
    let mut f = Fixture::new();
    f.accept(&[ONE, "Contact: <sip:alice@192.0.2.1:5062>;expires=90"]);
    assert_eq!(f.contacts(), [("sip:alice@192.0.2.1:5062".to_owned(), 90)]);
    f.accept(&[
        "Contact: <sip:alice@192.0.2.1:5062>;expires=0",
        "Contact: <sip:alice@192.0.2.1:5062>;expires=80",
    ]);
    assert_eq!(f.contacts(), [("sip:alice@192.0.2.1:5062".to_owned(), 80)]);
    assert!(matches!(f.changes[..], [Change::Delete { .. }, Change::Put(_)]));
    assert_eq!(f.table.len(), 1);
}

#[test]
fn lookup_is_in_order_of_preference() {
    let mut f = Fixture::new();
    f.accept(&["Contact: <sip:a@192.0.2.1>;q=0.5, <sip:b@192.0.2.1>, <sip:c@192.0.2.1>;q=0.5, <sip:d@192.0.2.1>;q=1.0"]);
    let order = |f: &Fixture| f.map(|b| text(&b.contact[4..5])).concat();
    assert_eq!(order(&f), "bdac");
    f.accept(&["Contact: <sip:b@192.0.2.1>;q=0.1, <sip:c@192.0.2.1>;q=0.7"]);
    assert_eq!(order(&f), "dcab");
    f.accept(&["Contact: <sip:d@192.0.2.1>;q=nonsense"]);
    assert_eq!(order(&f), "dcab", "a malformed q is no q");
    f.accept(&["Contact: <sip:a@192.0.2.1>;q=0.7"]);
    assert_eq!(order(&f), "dacb", "the newest first among equals");
    f.accept(&["Contact: <sip:c@192.0.2.1>;q=0.70"]);
    assert_eq!(order(&f), "dcab");
}

#[test]
fn a_binding_ends_when_its_time_is_over_and_not_before() {
    let mut f = Fixture::new();
    f.accept(&["Contact: <sip:a@192.0.2.1>;expires=100"]);
    let start = f.now;
    f.now = Time::from_micros(start.as_micros() + 99_999_999);
    assert_eq!(f.contacts().len(), 1);
    assert_eq!(f.accept(&[]), ["Contact: <sip:a@192.0.2.1>;expires=1"]);
    f.now = Time::from_micros(start.as_micros() + 100_000_000);
    assert_eq!(f.contacts().len(), 0, "not swept yet, and yet gone");
    assert_eq!(f.accept(&[]), Vec::<String>::new());
    // A new binding finds the old one over: the store hears of it.
    f.accept(&["Contact: <sip:b@192.0.2.1>"]);
    assert!(
        matches!(&f.changes[..], [Change::Delete { contact, .. }, Change::Put(_)] if &contact[..] == b"sip:a@192.0.2.1")
    );
    assert_eq!(f.table.len(), 1);
}

#[test]
fn a_change_says_all_that_a_store_needs() {
    let mut f = Fixture::new();
    f.accept(&[
        "Contact: <sip:alice@10.0.0.2:5062>;q=0.3;expires=120;+sip.instance=\"<urn:uuid:1>\";mobile",
        "User-Agent: Phone/1.0",
        "Path: <sip:edge.example.com;lr>",
        "Supported: path",
    ]);
    let [Change::Put(r)] = &f.changes[..] else { panic!("{:?}", f.changes) };
    let r = r.clone();
    assert_eq!(&r.aor[..], AOR);
    assert_eq!(text(&r.contact), "sip:alice@10.0.0.2:5062");
    assert_eq!(text(&r.params), ";mobile");
    assert_eq!((r.q, r.cseq, r.reg_id, r.flow), (300, 1, 0, f.flow));
    assert_eq!(r.expires.since(f.now).as_secs(), 120);
    assert_eq!((text(&r.call_id), text(&r.path)), ("one".to_owned(), "<sip:edge.example.com;lr>".to_owned()));
    assert_eq!((text(&r.instance), text(&r.user_agent)), ("<urn:uuid:1>".to_owned(), "Phone/1.0".to_owned()));
    // And all that the table needs to come back to the same state.
    let mut other = Fixture::new();
    other.table.restore(&r).expect("room");
    assert_eq!(other.map(|b| b.to_record(AOR)), std::slice::from_ref(&r));
    let refresh = ["Contact: <sip:alice@10.0.0.2:5062>;+sip.instance=\"<urn:uuid:1>\""];
    assert_eq!(other.register_as("one", 1, &refresh).status, 500);
    assert_eq!(other.register_as("one", 2, &refresh).status, 200);
    other.table.restore(&r).expect("room");
    assert_eq!(other.map(|b| b.to_record(AOR)), [r], "restoring again replaces");
}

#[test]
fn where_the_request_came_from_is_remembered() {
    let mut f = Fixture::new();
    f.accept(&["Contact: <sip:alice@192.0.2.2>"]);
    assert_eq!(f.map(|b| b.flow), [f.flow]);
    let at = |s: &str| s.parse().expect("an address");
    assert!(f.table.has_contact_address(at("192.0.2.2:5060")));
    assert!(f.table.has_contact_address(at("198.51.100.7:40000")));
    f.flow.remote = at("198.51.100.7:40001");
    f.accept(&["Contact: <sip:alice@192.0.2.2>"]);
    assert!(!f.table.has_contact_address(at("198.51.100.7:40000")));
    assert!(f.table.has_contact_address(at("198.51.100.7:40001")));
    // The same binding by RFC 5626 at a new Contact, then at one without an address.
    let flow = |host: &str| format!("Contact: <sip:b@{host}>;reg-id=1;+sip.instance=\"<urn:x:1>\"");
    f.accept(&[&flow("192.0.2.3:5070")]);
    assert!(f.table.has_contact_address(at("192.0.2.3:5070")));
    f.accept(&[&flow("[2001:db8::1];transport=tls")]);
    assert!(!f.table.has_contact_address(at("192.0.2.3:5070")));
    assert!(f.table.has_contact_address(at("[2001:db8::1]:5061")));
    f.accept(&[&flow("phone.invalid")]);
    assert!(!f.table.has_contact_address(at("[2001:db8::1]:5061")));
    f.accept(&["Contact: *", "Expires: 0"]);
    assert!(!f.table.has_contact_address(at("192.0.2.2:5060")));
    assert!(!f.table.has_contact_address(at("198.51.100.7:40001")));
}

#[test]
fn contacts_are_found_by_address_and_whole_uri() {
    let mut f = Fixture::new();
    f.flow.remote = "192.0.2.9:40000".parse().expect("an address");
    f.accept(&["Contact: <sip:gw@192.0.2.20:5072;line=7>", "Contact: <sip:%61@[2001:db8::1];transport=tls>"]);
    let finds = |f: &Fixture, address: &str, uri: &str| {
        let uri = sip_message::Uri::parse(uri.as_bytes()).expect("a URI");
        let mut found = false;
        let contact = crate::ContactAt::new(address.parse().expect("an address"), &uri, f.now);
        f.table.contacts(&contact, |_| {
            found = true;
            true
        });
        found
    };
    for (address, uri, found) in [
        ("192.0.2.20:5072", "sip:gw@192.0.2.20:5072;line=7", true),
        ("192.0.2.20:5072", "sip:g%77@192.0.2.20:5072", true),
        ("[2001:db8::1]:5061", "sip:a@[2001:DB8::1];transport=TLS", true),
        ("192.0.2.20:5072", "sip:+19005551234@192.0.2.20:5072", false),
        ("192.0.2.20:5072", "sip:192.0.2.20:5072", false),
        ("192.0.2.20:5072", "sip:GW@192.0.2.20:5072", false),
        ("192.0.2.20:5072", "sip:gw@192.0.2.20:5072;line=8", false),
        ("192.0.2.20:5072", "sip:gw@192.0.2.20:5072;user=phone", false),
        ("192.0.2.20:5073", "sip:gw@192.0.2.20:5072", false),
        ("192.0.2.9:40000", "sip:gw@192.0.2.9:40000", false),
    ] {
        assert_eq!(finds(&f, address, uri), found, "{uri} at {address}");
    }
    // What is over is not found, whether it was swept or not; and nothing is left when it is.
    f.now = f.now + Duration::from_secs(8_000);
    assert!(!finds(&f, "192.0.2.20:5072", "sip:gw@192.0.2.20:5072"));
    while f.table.expire(f.now, 100, &mut Vec::new()) {}
    for address in ["192.0.2.20:5072", "192.0.2.9:40000", "[2001:db8::1]:5061"] {
        assert!(!f.table.has_contact_address(address.parse().expect("an address")), "{address}");
    }
}

#[test]
fn any_contact_at_an_address_is_visited_and_a_source_reported() {
    let mut f = Fixture::new();
    f.flow.remote = "192.0.2.9:40000".parse().expect("an address");
    f.accept(&["Contact: <sip:gw@192.0.2.20:5072>", "Contact: <sip:+49@192.0.2.20:5072>"]);
    let any = |f: &Fixture, address: &str| {
        let mut seen = std::collections::BTreeSet::new();
        let contact = crate::ContactAt::any(address.parse().expect("an address"), f.now);
        let more = f.table.contacts(&contact, |binding| {
            seen.insert(binding.contact.to_vec());
            false
        });
        (seen.len(), more)
    };
    assert_eq!(any(&f, "192.0.2.20:5072"), (2, false));
    assert_eq!(any(&f, "192.0.2.9:40000"), (0, true), "a source");
    assert_eq!(any(&f, "192.0.2.20:5073"), (0, false));
    f.now = f.now + Duration::from_secs(8_000);
    assert_eq!(any(&f, "192.0.2.20:5072"), (0, false), "over");
}

#[test]
fn a_contact_in_a_network_of_its_own_is_where_its_phone_is_in_that_network_only() {
    let at = |s: &str| s.parse().expect("an address");
    for near in [
        "127.0.0.1:8080",
        "[::1]:8080",
        "[::ffff:127.0.0.1]:8080",
        "169.254.1.1:8080",
        "[fe80::1]:8080",
        "10.0.0.2:8080",
        "[::ffff:10.0.0.2]:8080",
        "100.64.0.2:8080",
        "[fd00::1]:8080",
    ] {
        let mut f = Fixture::new();
        f.accept(&[&format!("Contact: <sip:alice@{near}>")]);
        assert!(!f.table.has_contact_address(at(near)), "{near}");
        f.accept(&["Contact: *", "Expires: 0"]);
        // From the same machine or link it is.
        f.flow.remote = at(near);
        f.flow.remote.set_port(6000);
        f.accept(&[&format!("Contact: <sip:alice@{near}>")]);
        assert!(f.table.has_contact_address(at(near)), "{near}");
    }
}

#[test]
fn contacts_of_other_kinds_are_refused() {
    let mut f = Fixture::new();
    for bad in [
        "<mailto:a@example.org>",
        "<sip:>",
        "<sip:a@b c>",
        "a b",
        "<sip:a@192.0.2.1",
        "<sip:a@192.0.2.1>;x=a\"b",
    ] {
        f.refuse(400, &[ONE, &format!("Contact: {bad}")]);
    }
    f.refuse(400, &["Contact: <tel:+15551234>"]);
    f.config.allow_tel = true;
    f.accept(&["Contact: <tel:+15551234>"]);
}

#[test]
fn a_contact_that_is_the_address_of_record_would_loop() {
    let mut f = Fixture::new();
    f.refuse(403, &["Contact: <sip:alice@example.com>"]);
    f.refuse(403, &["Contact: <sip:%61lice@EXAMPLE.com;transport=tcp>"]);
    f.accept(&["Contact: <sip:alice@example.com:5099>"]);
    f.accept(&["Contact: <sip:bob@example.com>"]);
}

#[test]
fn a_sips_contact_needs_sips_all_the_way() {
    let mut f = Fixture::new();
    let contact = "Contact: <sips:alice@192.0.2.1>";
    f.refuse(400, &[contact]);
    assert_eq!(f.send(&request("sips:example.com", "s", 1, &[contact])).status, 200);
    let path = [contact, "Supported: path", "Path: <sip:edge.example.com;lr>"];
    assert_eq!(f.send(&request("sips:example.com", "s", 2, &path)).status, 400);
    let path = [contact, "Supported: path", "Path: <sips:edge.example.com;lr>"];
    assert_eq!(f.send(&request("sips:example.com", "s", 3, &path)).status, 200);
    f.accept(&["Contact: <sips:alice@192.0.2.1>;expires=0"]);
}

#[test]
fn service_route_is_given_with_every_success() {
    let mut f = Fixture::new();
    f.config.service_route = b"<sip:home.example.com;lr>".to_vec();
    assert_eq!(f.accept(&[]), ["Service-Route: <sip:home.example.com;lr>"]);
    assert_eq!(f.accept(&[TWO])[1], "Service-Route: <sip:home.example.com;lr>");
    assert!(lines_of(&f.refuse(400, &["Contact: *"])).is_empty());
}

#[test]
fn a_sips_contact_stands_beside_no_sip_contact() {
    // RFC 5630 section 5.2: all Contacts of a registration, unless one only ends a binding.
    let mut f = Fixture::new();
    let [sips, sip] = ["Contact: <sips:alice@192.0.2.1>", "Contact: <sip:alice@192.0.2.2>"];
    assert_eq!(f.send(&request("sips:example.com", "s", 1, &[sips, sip])).status, 400);
    let gone = format!("{sip};expires=0");
    assert_eq!(f.send(&request("sips:example.com", "s", 2, &[sips, &gone])).status, 200);
    assert_eq!(f.map(|b| b.contact.to_vec()), [b"sips:alice@192.0.2.1"]);
}

#[test]
fn a_contact_replaces_the_same_one_of_the_other_scheme() {
    // RFC 5630 section 5.1.1.1.
    let mut f = Fixture::new();
    let contact = |scheme: &str| format!("Contact: <{scheme}:alice@192.0.2.1;transport=tcp>");
    for (n, scheme) in [(1, "sip"), (2, "sips"), (3, "sips"), (4, "sip")] {
        assert_eq!(f.send(&request("sips:example.com", "s", n, &[&contact(scheme)])).status, 200);
        let text = format!("{scheme}:alice@192.0.2.1;transport=tcp");
        assert_eq!(f.map(|b| b.contact.to_vec()), [text.as_bytes()], "{n}");
    }
    let ended = format!("{};expires=0", contact("sips"));
    assert_eq!(f.send(&request("sips:example.com", "s", 5, &[&ended])).status, 200);
    assert_eq!(f.map(|b| b.contact.to_vec()).len(), 0);
}
