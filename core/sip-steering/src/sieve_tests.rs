//! The sieve, by means of the interpreter. What the worker would do is compared in sip-node.

use crate::emulate::{self, Sifted};
use crate::{Ownership, Table, Threshold, memory_bits, part, place};
use kernel_programs::SieveProgram;
use proptest::prelude::*;
use std::net::IpAddr;

const WORKERS: u16 = 4;
const NOW: u64 = 1_000_000_000;

fn both() -> (Ownership, SieveProgram) {
    let ownership = Ownership::new(b"a key of 16 byte");
    let program = ownership.sieve(WORKERS).expect("a program");
    (ownership, program)
}

fn from(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// All workers with this table, good until then.
fn run(program: &SieveProgram, message: &[u8], sender: IpAddr, table: &Table, until: u64) -> Sifted {
    let tables: Vec<(u64, &[u32])> = (0..WORKERS).map(|_| (until, table.words())).collect();
    emulate::sift(program, message, sender, NOW, &tables, &mut Vec::new()).expect("no fault")
}

fn drops(program: &SieveProgram, message: &str, table: &Table) -> bool {
    let sifted = run(program, message.as_bytes(), from("192.0.2.1"), table, NOW + 1);
    assert_eq!(sifted.counted, u64::from(sifted.dropped));
    sifted.dropped
}

fn request(start: &str, to: &str, id: &str) -> String {
    format!(
        "{start} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.10;branch=z9hG4bKx\r\nFrom: <sip:a@b>;tag=1\r\n{to}\r\n{id}\r\nCSeq: 1 X\r\n\r\n"
    )
}

#[test]
fn new_work_is_dropped_in_every_spelling_and_the_rest_never() {
    let (_, program) = both();
    let none = Table::default();
    for to in ["To: <sip:b@c>", "t:<sip:b@c>", "TO \t: \"A\" <sip:b@c>;x=y", "tO:\r\n sip:b@c\r\n\t;x"] {
        for id in ["Call-ID: x@y", "i : x@y", "CALL-id:\r\n\tx@y"] {
            for start in [
                "INVITE sip:b@c",
                "REGISTER sip:c",
                "SUBSCRIBE sip:b@c",
                "PUBLISH sip:b@c",
                "MESSAGE sip:b@c",
            ] {
                assert!(drops(&program, &request(start, to, id), &none), "{start} {to} {id}");
                assert!(drops(&program, &request(start, id, to), &none), "{start} {id} {to}");
            }
            for start in [
                "ACK sip:b",
                "BYE sip:b",
                "CANCEL sip:b",
                "PRACK sip:b",
                "UPDATE sip:b",
                "OPTIONS sip:b",
                "INFO sip:b",
                "invite sip:b",
                "INVITE urn:service:sos",
                "INVITE URN:service:sos.police",
                "MESSAGE urn:service:sos",
                "INVITEX sip:b",
            ] {
                assert!(!drops(&program, &request(start, to, id), &none), "{start} {to} {id}");
            }
        }
    }
    let text = request("INVITE sip:b@c", "To: <sip:b@c>", "i: x");
    assert!(!drops(&program, &text.replace("INVITE sip:b@c SIP/2.0", "SIP/2.0 200 OK"), &none));
    assert!(!drops(&program, &format!("\r\n{text}"), &none), "left to the worker");
    for tag in [";tag=1", " ; TAG = 1", ";x=y\r\n ;tAg=1"] {
        assert!(
            !drops(&program, &request("INVITE sip:b@c", &format!("To: <sip:b@c>{tag}"), "i: x"), &none),
            "{tag}"
        );
        assert!(
            !drops(&program, &request("INVITE sip:b@c", "i: x", &format!("t: <sip:b@c>{tag}")), &none),
            "{tag}"
        );
    }
    for other in ["Topic: tag", "T: x\r\nTo: <sip:b@c>;tag=1", "Tag: 1", "t\tx: tag"] {
        assert!(
            drops(&program, &request("INVITE sip:b@c", &format!("{other}\r\nTo: <sip:b@c>"), "i: x"), &none),
            "{other}"
        );
    }
    assert!(!drops(&program, &format!("{text}{}", "x".repeat(4_000)), &none), "too long to be sure");
}

/// Whatever the thresholds are, and only these numbers.
#[test]
fn calls_to_the_numbers_of_the_table_pass() {
    let (_, program) = both();
    let mut table = Table::default();
    let numbers: [&[u8]; 7] = [b"112", b"15", b"+112", b"0112000", b"*1", b"01120000", b""];
    let drops =
        |table: &Table, start: &str| drops(&program, &request(start, "To: <sip:b@c>", "Call-ID: x@y"), table);
    assert!(drops(&table, "INVITE sip:112@b"));
    table.set_numbers(numbers.into_iter());
    for uri in [
        "sip:112@b",
        "SIP:112@here.example",
        "sip:112;phone-context=x@b",
        "sip:112:x@b",
        "tel:112;phone-context=+49",
        "sip:15@b",
        "sip:+112@b",
        "sip:0112000@b",
        "tel:112",
        "sip:*1@b",
        // It has room for the beginning only.
        "sip:01120000@b",
        "sip:01120001@b",
    ] {
        for method in ["INVITE", "MESSAGE"] {
            assert!(!drops(&table, &format!("{method} {uri}")), "{method} {uri}");
        }
        for method in ["REGISTER", "SUBSCRIBE", "PUBLISH"] {
            assert!(drops(&table, &format!("{method} {uri}")), "{method} {uri}");
        }
    }
    for uri in [
        "sip:1123@b",
        "sip:11@b",
        "sip:0@b",
        "sip:1@b",
        "sip:151@b",
        "sips:112@b",
        "sip:113@b",
        "sip:0112@b",
        "sip:011200@b",
        "sip:b@112",
        "sip:b@c;user=112",
        "sip:*12@b",
        "sip:",
    ] {
        assert!(drops(&table, &format!("INVITE {uri}")), "{uri}");
        assert!(drops(&table, &format!("MESSAGE {uri}")), "{uri}");
    }
    table.set_numbers([&b"119"[..]; 20].into_iter());
    assert!(!drops(&table, "INVITE sip:119@b") && drops(&table, "INVITE sip:112@b"));
    // Of more than there is room for none is dropped, and what begins as none of them does is.
    let many: Vec<String> = (110..150).map(|n| format!("{n}000")).chain(["0112".to_owned()]).collect();
    table.set_numbers(many.iter().map(|number| number.as_bytes()));
    assert!(many.iter().all(|number| !drops(&table, &format!("INVITE sip:{number}@b"))));
    assert!(drops(&table, "INVITE sip:911@b") && drops(&table, "INVITE sip:15@b"));
    let all: Vec<String> = (0..100).map(|n| format!("{n:02}9")).collect();
    table.set_numbers(all.iter().map(|number| number.as_bytes()));
    assert!(!drops(&table, "INVITE sip:009@b") && !drops(&table, "INVITE sip:x@b"), "anything may be one");
    assert!(drops(&table, "REGISTER sip:009@b"));
    table.set_numbers(core::iter::empty());
    assert!(drops(&table, "INVITE sip:119@b"));
}

#[test]
fn what_stands_still_drops_nothing() {
    let (_, program) = both();
    let text = request("INVITE sip:b@c", "To: <sip:b@c>", "i: x");
    for (until, drops) in [
        (0, false),
        (NOW - 1, false),
        (NOW, false),
        (NOW + 1, true),
        (NOW + 500_000_000, true),
        // Of a clock that is ahead, as in a time namespace: it would be good for ever.
        (NOW + 1_000_000_001, false),
        (u64::MAX, false),
    ] {
        let sifted = run(&program, text.as_bytes(), from("192.0.2.1"), &Table::default(), until);
        assert_eq!(sifted.dropped, drops, "{until}");
    }
    // A worker that is not there.
    assert!(
        !emulate::sift(&program, text.as_bytes(), from("192.0.2.1"), NOW, &[], &mut Vec::new())
            .unwrap()
            .dropped
    );
}

/// Each source by its own bucket in either row, for its INVITEs and for the rest another one; each worker by
/// its own table.
#[test]
fn a_source_is_judged_by_its_share() {
    let (ownership, program) = both();
    let text = request("INVITE sip:b@c", "To: <sip:b@c>", "i: x");
    let registers = request("REGISTER sip:c", "To: <sip:b@c>", "i: x");
    for (one, same, other) in [
        ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:3::1"),
    ] {
        for (row, invite) in [(0, true), (1, true), (0, false), (1, false)] {
            let mut table = Table::default();
            (0..2).for_each(|row| table.set_salt(row, 0x1234_5678_9abc_def0 * (row as u64 + 1)));
            let at = row * 512 + place(part(ownership.source(from(one)), invite), table.salt(row));
            table.set_thresholds((0..1_024).map(|n| threshold(if n == at { 65_536 } else { 0 })));
            for (who, has_share) in [(one, true), (same, true), (other, false)] {
                for (text, is_it) in [(&text, invite), (&registers, !invite)] {
                    let sifted = run(&program, text.as_bytes(), from(who), &table, NOW + 1);
                    assert_eq!(sifted.dropped, !(has_share && is_it), "{who} in row {row}: {text}");
                }
            }
        }
    }
    let owner = ownership.owner(text.as_bytes(), WORKERS).unwrap();
    let none = Table::default();
    for overloaded in 0..WORKERS {
        let tables: Vec<(u64, &[u32])> =
            (0..WORKERS).map(|n| (if n == overloaded { NOW + 1 } else { 0 }, none.words())).collect();
        let sifted =
            emulate::sift(&program, text.as_bytes(), from("192.0.2.1"), NOW, &tables, &mut Vec::new())
                .unwrap();
        assert_eq!(sifted.dropped, overloaded == owner);
    }
}

#[test]
fn what_a_datagram_costs() {
    let (_, program) = both();
    let text = request(
        "INVITE sip:bob@example.com",
        "To: <sip:bob@example.com>",
        "Call-ID: f81d4fae-7dec-11d0-a765-00a0c91e6bf6@foo.bar.com",
    );
    let sifted = run(&program, text.as_bytes(), from("192.0.2.1"), &Table::default(), NOW + 1);
    println!("{} bytes, {} instructions of {}", text.len(), sifted.instructions, program.code.len());
    assert!(sifted.dropped && sifted.instructions < 925, "{}", sifted.instructions);
}

/// With what is up to twice as high near to it.
fn threshold(below: u32) -> Threshold {
    Threshold { below, near: 2 * below }
}

/// One worker, whose memory lasts from one datagram to the next.
struct Remembering {
    ownership: Ownership,
    program: SieveProgram,
    memory: Vec<u8>,
}

impl Remembering {
    fn new() -> Remembering {
        let ownership = Ownership::new(b"a key of 16 byte");
        let program = ownership.sieve(1).expect("a program");
        Remembering { ownership, program, memory: Vec::new() }
    }

    fn lot(&self, id: &str) -> u32 {
        u32::from(self.ownership.lot(id.as_bytes()) as u16)
    }

    /// Whether a request of this call is dropped where this is everybody's threshold.
    fn drops(&mut self, start: &str, id: &str, below: u32) -> bool {
        self.drops_near(start, id, threshold(below))
    }

    fn drops_near(&mut self, start: &str, id: &str, threshold: Threshold) -> bool {
        let mut table = Table::default();
        table.set_thresholds((0..1_024).map(|_| threshold));
        let message = request(start, "To: <sip:b@c>", &format!("i: {id}"));
        let tables = [(NOW + 1, table.words())];
        let from = from("192.0.2.1");
        emulate::sift(&self.program, message.as_bytes(), from, NOW, &tables, &mut self.memory)
            .expect("no fault")
            .dropped
    }

    fn knows(&mut self, id: &str) {
        let bits = memory_bits(self.ownership.lot(id.as_bytes()));
        emulate::know(&self.program, &mut self.memory, &bits);
    }
}

const INVITE: &str = "INVITE sip:b@c";
const REGISTER: &str = "REGISTER sip:c";

/// What was dropped once is dropped again where the threshold has risen above it meanwhile, but not where its
/// source is served in full; and INVITEs only, for others may keep their Call-ID for ever.
#[test]
fn what_was_dropped_once_is_dropped_again() {
    let mut kernel = Remembering::new();
    let (mut near, mut far) = (0, 0);
    for n in 0..400 {
        let id = format!("call-{n}");
        let lot = kernel.lot(&id);
        assert_eq!(kernel.drops(INVITE, &id, 20_000), lot >= 20_000);
        assert_eq!(kernel.drops(REGISTER, &id, 20_000), lot >= 20_000);
        let remembered = (20_000..40_000).contains(&lot);
        assert_eq!(kernel.drops(INVITE, &id, 65_000), remembered || lot >= 65_000, "{lot}");
        assert_eq!(kernel.drops(REGISTER, &id, 65_000), lot >= 65_000);
        assert!(!kernel.drops(INVITE, &id, 65_536));
        near += u32::from(remembered);
        far += u32::from(lot >= 40_000);
    }
    assert!(near > 50 && far > 50);
}

/// The worker has fallen behind for a moment and says where the threshold will soon be again.
#[test]
fn what_is_near_where_the_threshold_was_is_remembered() {
    let mut kernel = Remembering::new();
    for n in 0..400 {
        let id = format!("call-{n}");
        let lot = kernel.lot(&id);
        assert_eq!(kernel.drops_near(INVITE, &id, Threshold { below: 2_000, near: 40_000 }), lot >= 2_000);
        assert_eq!(
            kernel.drops(INVITE, &id, 65_000),
            (2_000..40_000).contains(&lot) || lot >= 65_000,
            "{lot}"
        );
    }
}

#[test]
fn of_both_buckets_of_a_source_the_higher_counts() {
    let mut table = Table::default();
    table.set_salt(1, 77);
    let [first, second] = [0, 1].map(|row| 512 * row + place(5, table.salt(row)));
    let at = |n: usize| match n {
        n if n == first => Threshold { below: 65_536, near: 3 },
        n if n == second => Threshold { below: 7, near: 65_536 },
        _ => threshold(0),
    };
    table.set_thresholds((0..1_024).map(at));
    assert_eq!(table.threshold(5), Threshold { below: 65_536, near: 65_536 });
    table.set_thresholds((0..1_024).map(|_| Threshold { below: 100, near: 201 }));
    assert_eq!(table.threshold(5), Threshold { below: 100, near: 204 });
}

/// What the worker has taken on passes: that repeats what was accepted, or comes with credentials. Whatever
/// the threshold is by then, and also if it was dropped, and is remembered, before the worker could say so.
#[test]
fn what_was_taken_on_is_never_dropped() {
    let mut kernel = Remembering::new();
    for n in 0..400 {
        let id = format!("call-{n}");
        if n % 2 == 0 {
            kernel.drops(INVITE, &id, kernel.lot(&id));
        }
        kernel.knows(&id);
        for threshold in [0, kernel.lot(&id), 65_000] {
            for start in [INVITE, REGISTER] {
                assert!(!kernel.drops(start, &id, threshold), "{id} {start} {threshold}");
            }
        }
    }
    // And nobody else.
    let dropped = (0..400).filter(|n| kernel.drops(INVITE, &format!("other-{n}"), 0)).count();
    assert!(dropped >= 398, "{dropped}");
}

proptest! {
    /// INVITEs go by the lot of their Call-ID, other requests by one that is shifted; each passes below the
    /// threshold.
    #[test]
    fn the_lot_decides(id in "[!-~]{1,100}", below in 0u32..65_537, shift in any::<u16>(), v4 in any::<u32>(), invite in any::<bool>()) {
        let (ownership, program) = both();
        let mut table = Table::default();
        table.set_thresholds((0..1_024).map(|_| threshold(below)));
        table.set_shift(shift);
        let lot = (ownership.lot(id.as_bytes()) as u16).wrapping_add(if invite { 0 } else { shift });
        let start = if invite { "INVITE sip:b@c" } else { "REGISTER sip:c" };
        let text = request(start, "To: <sip:b@c>", &format!("Call-ID: {id}"));
        let sifted = run(&program, text.as_bytes(), IpAddr::V4(v4.into()), &table, NOW + 1);
        prop_assert_eq!(sifted.dropped, u32::from(lot) >= below);
    }

    /// It never goes where it may not, whatever comes.
    #[test]
    fn any_bytes_are_read_without_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..4_200), pieces in prop::collection::vec(0usize..12, 0..200)) {
        const PIECES: [&str; 12] = ["\r\nTo:", "\r\nt", "\n", "\r\n", " ", ":", "ta", "g", "\r\nCall-ID: ", "x", "\r\ni:", "\r\n "];
        let (_, program) = both();
        let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        for message in [bytes.clone(), [b"INVITE ", &bytes[..]].concat(), [b"REGISTER ", text.as_bytes()].concat()] {
            run(&program, &message, from("192.0.2.1"), &Table::default(), NOW + 1);
        }
    }
}
