//! The messages of the bench's workload `mixed` are messages to our parser.

use sip_message::{Index, Limits, Name, NameAddr, Parsed, parse};
use std::collections::BTreeSet;
use std::process::Command;

/// The messages that verify/bench/mixed/show.py prints: what each is called, and its bytes.
fn messages() -> Vec<(String, Vec<u8>)> {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/mixed/show.py");
    let done = Command::new("python3").args([program, "--raw", "--each", "3"]).output().expect("python3");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (mut rest, mut found) = (done.stdout.as_slice(), Vec::new());
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'\n').expect("a line before each message");
        let (head, after) = rest.split_at(end);
        let head = String::from_utf8(head.to_vec()).unwrap();
        let length: usize = head.rsplit(' ').next().unwrap().parse().unwrap();
        let (message, more) = after[1..].split_at(length);
        found.push((head, message.to_vec()));
        rest = more;
    }
    found
}

#[test]
fn mixed_messages_are_parsed_without_flaw() {
    let all = messages();
    let kinds: BTreeSet<&str> = all.iter().filter_map(|(head, _)| head.split(' ').next()).collect();
    assert!(kinds.len() >= 20, "{} kinds", kinds.len());
    // With an index that others used, and with a new one.
    let mut used = Index::new();
    for (head, bytes) in &all {
        for index in [&mut used, &mut Index::new()] {
            let message = match parse(bytes, index, &Limits::default()) {
                Parsed::Good(message) => message,
                Parsed::Bad(_, flaw) => panic!("{head}: {flaw:?}\n{}", String::from_utf8_lossy(bytes)),
                Parsed::Garbage(why) => panic!("{head}: {why}\n{}", String::from_utf8_lossy(bytes)),
            };
            for contact in message.values(Name::Contact) {
                let shown = String::from_utf8_lossy(contact);
                assert!(NameAddr::parse(contact).is_ok(), "{head}: {shown}");
            }
        }
    }
}
