//! Everything that grows has a limit and a refusal.

use super::{Fixture, request};
use sip_message::{Index, Limits, Parsed, parse};

#[test]
fn bindings_of_one_address_are_limited() {
    let mut f = Fixture::new();
    let contact = |n: usize| format!("Contact: <sip:a@192.0.2.{n}>");
    for n in 0..10 {
        f.accept(&[&contact(n)]);
    }
    let reply = f.refuse(403, &[&contact(10)]);
    assert_eq!(reply.reason, b"Too Many Contacts");
    f.accept(&[&contact(9)]);
    f.accept(&["Contact: <sip:a@192.0.2.0>;expires=0", &contact(10)]);
    assert_eq!(f.contacts().len(), 10);
    // A limit lowered later does not lock out those who are there.
    f.config.max_bindings = 3;
    f.accept(&[&contact(9)]);
    f.refuse(403, &["Contact: <sip:a@192.0.2.1>;expires=0", &contact(11)]);
    f.accept(&["Contact: <sip:a@192.0.2.1>;expires=0"]);
}

#[test]
fn expired_bindings_do_not_count() {
    let mut f = Fixture::new();
    for n in 0..10 {
        f.accept(&[&format!("Contact: <sip:a@192.0.2.{n}>;expires=60")]);
    }
    f.pass(60);
    f.accept(&["Contact: <sip:new@192.0.2.77>"]);
    assert_eq!((f.contacts().len(), f.table.len()), (1, 1));
}

#[test]
fn values_of_one_request_are_limited() {
    let mut f = Fixture::new();
    let many: Vec<String> = (0..17).map(|n| format!("<sip:a@192.0.2.{n}>;expires=0")).collect();
    f.refuse(513, &[&format!("Contact: {}", many.join(","))]);
    f.accept(&[&format!("Contact: {}", many[1..].join(","))]);
    f.refuse(513, &[&format!("Contact: {}", vec!["*"; 500].join(","))]);
}

#[test]
fn lengths_are_limited() {
    let mut f = Fixture::new();
    let x = |n| "x".repeat(n);
    f.refuse(513, &[&format!("Contact: <sip:{}@192.0.2.1>", x(600))]);
    f.refuse(513, &[&format!("Contact: <sip:a@192.0.2.1>;p={}", x(600))]);
    f.refuse(513, &[&format!("Contact: <sip:a@192.0.2.1>;+sip.instance=\"<{}>\"", x(600))]);
    f.accept(&[&format!("Contact: <sip:a@192.0.2.1{}?a=b{}>", ";x".repeat(16), "&a=b".repeat(15))]);
    f.refuse(513, &[&format!("Contact: <sip:a@192.0.2.1{}>", ";x".repeat(17))]);
    f.refuse(513, &[&format!("Contact: <sip:a@192.0.2.1?a=b{}>", "&a=b".repeat(16))]);
    let path = |n| format!("Path: <sip:{}@edge.example.com;lr>", x(n));
    f.refuse(513, &["Contact: <sip:a@192.0.2.1>", "Supported: path", &path(600), &path(600)]);
    f.accept(&["Contact: <sip:a@192.0.2.1>", "Supported: path", &path(400), &path(400)]);
    // Each of them is a hop of every request to the phone.
    let paths = |n| format!("Path: {}", vec!["<sip:edge.example.com;lr>"; n].join(","));
    f.accept(&["Contact: <sip:a@192.0.2.1>", "Supported: path", &paths(8)]);
    f.refuse(513, &["Contact: <sip:a@192.0.2.1>", "Supported: path", &paths(9)]);
    assert_eq!(f.register_as(&x(300), 1, &["Contact: <sip:a@192.0.2.1>"]).status, 513);
}

#[test]
fn a_full_table_takes_no_new_address_and_serves_the_old() {
    let mut f = Fixture::new();
    f.table = crate::Table::new([5, 6], 1, true);
    let send = |f: &mut Fixture, aor: &[u8], lines: &[&str]| {
        let text = request("sip:example.com", "c", f.now.as_secs() as u32, lines);
        let mut index = Index::new();
        let Parsed::Good(message) = parse(text.as_bytes(), &mut index, &Limits::default()) else {
            panic!("not a good message")
        };
        f.pass(1);
        f.serve(&message, aor).status
    };
    assert_eq!(send(&mut f, b"a@example.com", &["Contact: <sip:a@192.0.2.1>"]), 200);
    f.changes.clear();
    assert_eq!(send(&mut f, b"b@example.com", &["Contact: <sip:b@192.0.2.1>"]), 500);
    assert_eq!(send(&mut f, b"b@example.com", &["Contact: <sip:b@192.0.2.1>;expires=0"]), 200);
    assert!(f.changes.is_empty() && f.table.aors() == 1);
    assert_eq!(send(&mut f, b"a@example.com", &["Contact: <sip:second@192.0.2.1>"]), 200);
    assert_eq!(send(&mut f, b"a@example.com", &["Contact: *", "Expires: 0"]), 200);
    assert_eq!(send(&mut f, b"b@example.com", &["Contact: <sip:b@192.0.2.1>"]), 200);
}
