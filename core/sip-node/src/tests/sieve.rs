//! What the kernel would drop in an overload, by the interpreter, against what the worker makes of the same
//! message.

use crate::Emergency;
use crate::overload::{Kind, screen};
use proptest::prelude::*;
use sip_steering::{Ownership, SieveProgram, Table, Threshold, emulate};
use std::net::IpAddr;
use std::sync::OnceLock;

const STARTS: &[&str] = &[
    "INVITE sip:b@c SIP/2.0",
    "REGISTER sip:c SIP/2.0",
    "MESSAGE sip:b@c SIP/2.0",
    "SUBSCRIBE sip:b@c SIP/2.0",
    "PUBLISH sip:b@c SIP/2.0",
    "OPTIONS sip:b@c SIP/2.0",
    "BYE sip:b@c SIP/2.0",
    "ACK sip:b@c SIP/2.0",
    "CANCEL sip:b@c SIP/2.0",
    "PRACK sip:b@c SIP/2.0",
    "INVITE urn:service:sos SIP/2.0",
    "INVITE sip:112@c SIP/2.0",
    "MESSAGE sip:112;x=y@c SIP/2.0",
    "INVITE tel:112 SIP/2.0",
    "INVITE sip:1123@c SIP/2.0",
    "SIP/2.0 200 OK",
    "\r\nINVITE sip:b@c SIP/2.0",
];
const LINES: &[&str] = &[
    "To: <sip:b@c>",
    "t: <sip:b@c>;tag=1",
    "TO:<sip:b@c>\r\n ;x=y\r\n\t;TaG=1",
    "To : \"tag >\" <sip:b@c>",
    "to:\r\n sip:b@c ; tag = 1",
    "t\t:sip:vintage@c",
    "To: <sip:b@c>;x=\"tag>\"",
    "T",
    "To",
    "Topic: tag",
    "Call-ID: c@d",
    "i : c@d",
    "CALL-ID:\r\n c@d",
    "I: other",
    "Call-ID:",
    "i",
    "",
    "\r",
    "\n",
    "Via: SIP/2.0/UDP a;branch=z9hG4bKx",
    "Subject: a\r\n To: b;tag=2",
    "CSeq: 1 INVITE",
    "To: \u{e9}\u{8a} <sip:b@c>",
];

/// Whether the kernel drops it. There is one key in these tests, and so one program.
fn dropped(message: &[u8], ownership: &Ownership, table: &Table) -> bool {
    static PROGRAM: OnceLock<SieveProgram> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| ownership.sieve(1).expect("a program"));
    let from: IpAddr = "192.0.2.1".parse().unwrap();
    let run = emulate::sift(program, message, from, 0, &[(1, table.words())], &mut Vec::new());
    run.expect("no fault").dropped
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// What the kernel drops is new work to the worker, of the same call; and what is plain it does drop.
    #[test]
    fn the_kernel_drops_new_work_only(
        start in 0..STARTS.len(),
        lines in prop::collection::vec(0..LINES.len(), 0..8),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        threshold in 0u32..65_537,
    ) {
        let lines: Vec<&str> = lines.into_iter().map(|n| LINES[n]).collect();
        let mut message = format!("{}\r\n{}\r\n\r\nTo: body\r\ni: body\r\n\r\n", STARTS[start], lines.join("\r\n")).into_bytes();
        for (place, byte) in changes {
            *place.get_mut(&mut message) = byte;
        }
        let ownership = Ownership::new(b"sixteen bytes---");
        let mut table = Table::default();
        let help = Emergency { numbers: vec![b"112".to_vec()], ..Emergency::default() };
        table.set_numbers(help.numbers.iter().map(|number| &number[..]));
        if dropped(&message, &ownership, &table) {
            let Kind::New(call_id, invite) = screen(&message, Some(&help)) else {
                prop_assert!(false, "{}", message.escape_ascii());
                return Ok(());
            };
            table.set_thresholds((0..1_024).map(|_| Threshold { below: threshold, near: threshold }));
            table.set_shift(12_345);
            let lot = (ownership.lot(call_id) as u16).wrapping_add(if invite { 0 } else { 12_345 });
            let passes = u32::from(lot) < threshold;
            prop_assert_eq!(dropped(&message, &ownership, &table), !passes, "{}", message.escape_ascii());
        }
    }

    #[test]
    fn plain_new_work_is_dropped(start in 0usize..5, to in prop::sample::select(vec![0usize, 22]), id in 10usize..13, others in prop::collection::vec(19usize..22, 0..6), turn in 0usize..8) {
        let mut lines: Vec<&str> = others.into_iter().map(|n| LINES[n]).collect();
        lines.extend([LINES[to], LINES[id]]);
        let turn = turn % lines.len();
        lines.rotate_left(turn);
        let message = format!("{}\r\n{}\r\n\r\n", STARTS[start], lines.join("\r\n"));
        prop_assert!(dropped(message.as_bytes(), &Ownership::new(b"sixteen bytes---"), &Table::default()), "{message}");
    }
}

/// A Call-ID has no control character inside. Where one has, kernel and worker still draw the same lot for
/// it.
#[test]
fn a_call_id_ends_for_both_where_it_has_to() {
    let ownership = Ownership::new(b"sixteen bytes---");
    let mut table = Table::default();
    for threshold in (0..65_536).step_by(997) {
        table.set_thresholds((0..1_024).map(|_| Threshold { below: threshold, near: threshold }));
        for id in ["c\0d", "c\td", "c d", "c\x1f", "c"] {
            let message = format!("INVITE sip:b@c SIP/2.0\r\nTo: <sip:b@c>\r\nCall-ID: {id}\r\n\r\n");
            let Kind::New(call_id, true) = screen(message.as_bytes(), None) else { panic!("{id:?}") };
            let passes = u32::from(ownership.lot(call_id) as u16) < threshold;
            assert_eq!(dropped(message.as_bytes(), &ownership, &table), !passes, "{id:?} at {threshold}");
        }
    }
}
