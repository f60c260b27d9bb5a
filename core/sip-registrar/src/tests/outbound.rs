//! Path (RFC 3327) and outbound registrations (RFC 5626).

use super::{Fixture, lines_of, text};
use crate::{Change, PathPolicy};
use wire::Transport;

const FLOW_1: &str = "Contact: <sip:alice@10.0.0.2>;reg-id=1;+sip.instance=\"<urn:uuid:AA>\"";
const FLOW_2: &str = "Contact: <sip:alice@10.0.0.2>;reg-id=2;+sip.instance=\"<urn:uuid:AA>\"";
const PLAIN: &str = "Contact: <sip:alice@10.0.0.2>";
const EDGE: &str = "Path: <sip:edge.example.com;lr;ob>";

#[test]
fn path_is_stored_and_shown_in_order() {
    let mut f = Fixture::new();
    let told = f.accept(&[
        PLAIN,
        "Path: <sip:p2.example.com;lr>, <sip:p1.example.com;lr>",
        "Path: <sip:p0.example.com;lr>",
        "Supported: replaces, Path",
    ]);
    let all = "<sip:p2.example.com;lr>,<sip:p1.example.com;lr>,<sip:p0.example.com;lr>";
    assert_eq!(told[1], format!("Path: {all}"));
    assert_eq!(f.map(|b| text(b.path)), [all]);
    f.accept(&[PLAIN]);
    assert_eq!(f.map(|b| text(b.path)), [""], "a refresh without Path ends it");
}

#[test]
fn path_without_support_is_a_matter_of_policy() {
    let mut f = Fixture::new();
    let lines = [PLAIN, "Path: <sip:p1.example.com;lr>"];
    assert_eq!(lines_of(&f.refuse(420, &lines)), ["Unsupported: path"]);
    f.policy = PathPolicy::Accept;
    let told = f.accept(&lines);
    assert_eq!(told.len(), 1, "used, but not shown");
    assert_eq!(f.map(|b| text(b.path)), ["<sip:p1.example.com;lr>"]);
}

#[test]
fn a_path_that_is_no_route_is_refused() {
    let mut f = Fixture::new();
    f.refuse(400, &[PLAIN, "Supported: path", "Path: <tel:+1>"]);
    f.refuse(400, &[PLAIN, "Supported: path", "Path: <sip:ok.example.com;lr>, <sip:>"]);
}

#[test]
fn an_instance_has_one_binding_per_flow() {
    let mut f = Fixture::new();
    f.accept(&[FLOW_1, "Supported: outbound"]);
    f.accept(&[FLOW_2]);
    assert_eq!(f.map(|b| (b.reg_id, b.is_outbound())), [(2, true), (1, true)]);
    // The client comes back at another address: the binding is replaced, not joined.
    f.flow.remote = "203.0.113.5:7".parse().expect("an address");
    f.accept(&["Contact: <sip:alice@10.9.9.9>;reg-id=1;+sip.instance=\"<URN:uuid:aa>\""]);
    assert_eq!(f.map(|b| text(b.contact)), ["sip:alice@10.9.9.9", "sip:alice@10.0.0.2"]);
    assert_eq!(f.map(|b| b.flow.remote.port()), [7, 40000]);
    assert!(
        matches!(&f.changes[..], [Change::Delete { reg_id: 1, contact, .. }, Change::Put(_)] if &contact[..] == b"sip:alice@10.0.0.2")
    );
}

#[test]
fn flows_and_plain_bindings_live_side_by_side() {
    let mut f = Fixture::new();
    f.accept(&[FLOW_1]);
    f.accept(&[PLAIN]);
    f.accept(&["Contact: <sip:alice@10.0.0.2>;+sip.instance=\"<urn:uuid:AA>\""]);
    assert_eq!(f.map(|b| b.reg_id), [0, 1], "an instance alone makes no flow");
    f.accept(&["Contact: <sip:alice@10.0.0.2>;expires=0"]);
    assert_eq!(f.map(|b| b.reg_id), [1], "the plain binding goes first");
    f.accept(&[FLOW_2]);
    f.accept(&["Contact: <sip:alice@10.0.0.2>;expires=0"]);
    assert_eq!(f.map(|b| b.reg_id), [0u32; 0], "then every flow with that URI");
}

#[test]
fn one_flow_is_ended_by_its_own_number() {
    let mut f = Fixture::new();
    f.accept(&[FLOW_1]);
    f.accept(&[FLOW_2]);
    f.accept(&["Contact: <sip:other@10.0.0.2>;reg-id=1;expires=0;+sip.instance=\"<urn:uuid:AA>\""]);
    assert_eq!(f.map(|b| b.reg_id), [2]);
}

#[test]
fn outbound_is_confirmed_to_clients_that_know_it() {
    let mut f = Fixture::new();
    f.config.flow_timer = 120;
    let told = f.accept(&[FLOW_1, "Supported: path, outbound"]);
    assert_eq!(
        told,
        [
            "Contact: <sip:alice@10.0.0.2>;expires=3600;+sip.instance=\"<urn:uuid:AA>\";reg-id=1",
            "Require: outbound",
            "Flow-Timer: 120"
        ]
    );
    assert_eq!(f.accept(&[FLOW_1]).len(), 1, "not to others");
    // Section 6: for a flow of its own, whose keepalives come here; over UDP those say when to come.
    let via = "Via: SIP/2.0/TCP 192.0.2.200;branch=z9hG4bKx";
    let told = f.accept(&[FLOW_1, via, "Supported: path, outbound", EDGE]);
    assert!(told.contains(&"Require: outbound".to_owned()) && !told.iter().any(|l| l.contains("Flow-Timer")));
    f.flow.transport = Transport::Udp;
    assert_eq!(f.accept(&[FLOW_1, "Supported: path, outbound"])[1..], ["Require: outbound"]);
    f.flow.transport = Transport::Tls;
    assert_eq!(
        f.accept(&["Contact: <sip:x@10.0.0.2>", "Supported: outbound"]).len(),
        2,
        "not without reg-id"
    );
}

#[test]
fn a_registration_is_for_one_flow_only() {
    let mut f = Fixture::new();
    f.refuse(400, &[FLOW_1, FLOW_2]);
    f.refuse(400, &[FLOW_1, "Contact: <sip:b@10.0.0.3>"]);
    f.accept(&[FLOW_1, "Contact: <sip:b@10.0.0.3>;expires=0"]);
    assert_eq!(f.contacts().len(), 1);
}

#[test]
fn a_reg_id_without_instance_or_value_is_ignored() {
    let mut f = Fixture::new();
    let instance = "+sip.instance=\"<u>\"";
    for bad in [
        "reg-id=1".to_owned(),
        format!("reg-id=0;{instance}"),
        format!("reg-id=x;{instance}"),
        // Section 10: up to 2^31 - 1.
        format!("reg-id=2147483648;{instance}"),
        format!("reg-id=4294967297;{instance}"),
        format!("reg-id={};{instance}", "9".repeat(200)),
    ] {
        let told = f.accept(&[&format!("Contact: <sip:a@10.0.0.2>;{bad}"), "Supported: outbound"]);
        assert!(!told[0].contains("reg-id") && told.len() == 1, "{told:?}");
        assert_eq!(f.map(|b| b.reg_id), [0]);
    }
}

#[test]
fn behind_a_proxy_the_first_hop_must_know_outbound() {
    let via = "Via: SIP/2.0/TCP 192.0.2.200;branch=z9hG4bKx";
    let mut f = Fixture::new();
    f.refuse(439, &[FLOW_1, via, "Supported: outbound, path"]);
    f.refuse(439, &[FLOW_1, via, "Supported: outbound, path", "Path: <sip:edge.example.com;lr>"]);
    f.accept(&[FLOW_1, via]);
    assert_eq!(f.map(|b| b.reg_id), [0], "reg-id is ignored");
    let told = f.accept(&[FLOW_1, via, "Supported: outbound, path", EDGE]);
    assert!(told.contains(&"Require: outbound".to_owned()), "{told:?}");
    let second = "Path: <sip:core.example.com;lr>, <sip:edge.example.com;lr;ob>";
    let told = f.accept(&[FLOW_1, via, "Supported: outbound, path", second]);
    assert!(told.contains(&"Require: outbound".to_owned()), "{told:?}");
    let first = "Path: <sip:edge.example.com;lr;ob>, <sip:core.example.com;lr>";
    f.accept(&[FLOW_1, via, "Supported: outbound, path", first]);
    let middle = "Path: <sip:a.example.com;lr>, <sip:b.example.com;lr;ob>, <sip:c.example.com;lr>";
    f.refuse(439, &[FLOW_1, via, "Supported: outbound, path", middle]);
    f.accept(&["Contact: <sip:other@10.0.0.4>", via, "Supported: outbound"]);
}

#[test]
fn gruus_of_a_client_are_dropped() {
    let mut f = Fixture::new();
    let told = f.accept(&["Contact: <sip:a@10.0.0.2>;pub-gruu=\"sip:a@b;gr=x\";Temp-GRUU=\"sip:y\";video"]);
    assert_eq!(told, ["Contact: <sip:a@10.0.0.2>;expires=3600;video"]);
}

#[test]
fn largest_reg_id_is_taken_and_a_huge_instance_is_not() {
    let mut f = Fixture::new();
    f.accept(&["Contact: <sip:a@10.0.0.2>;reg-id=2147483647;+sip.instance=\"<u>\"", "Supported: outbound"]);
    assert_eq!(f.map(|b| b.reg_id), [2_147_483_647]);
    let instance = "x".repeat(5_000);
    f.refuse(513, &[&format!("Contact: <sip:a@10.0.0.2>;reg-id=1;+sip.instance=\"<{instance}>\"")]);
    let ob = ";ob".repeat(17);
    f.refuse(513, &[&format!("Contact: <sip:a@10.0.0.2{ob}>;reg-id=1;+sip.instance=\"<u>\"")]);
    assert_eq!(f.contacts().len(), 1);
}
