//! The program against the function, by means of the interpreter.

use crate::emulate::{self, Run};
use crate::program::STEPS;
use crate::{LONGEST, Ownership, REACH};
use kernel_programs::SteeringProgram;
use proptest::prelude::*;

const WORKERS: u16 = 64;

fn both() -> (Ownership, SteeringProgram) {
    let ownership = Ownership::new(b"a key of 16 byte");
    let program = ownership.program(WORKERS).expect("a program");
    (ownership, program)
}

fn run(program: &SteeringProgram, message: &[u8], linear: usize) -> Run {
    emulate::run(program, message, linear).expect("no fault")
}

/// A call's message with this line for its Call-ID.
fn message(line: &str, before: usize, after: &str) -> Vec<u8> {
    let via = "Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK776asdhds\r\n".repeat(before);
    format!("INVITE sip:bob@example.com SIP/2.0\r\n{via}{ENDS}Max-Forwards: 70\r\n{line}\r\n{after}")
        .into_bytes()
}

const ENDS: &str = "From: <sip:a@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\n";
const AFTER: &str = "CSeq: 1 INVITE\r\nContact: <sip:alice@192.0.2.10>\r\nContent-Length: 0\r\n\r\n";

#[test]
fn every_spelling_of_a_call_has_one_owner_in_both() {
    let (ownership, program) = both();
    let id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6@foo.bar.com";
    let owner = ownership.owner(&message(&format!("Call-ID: {id}"), 1, AFTER), WORKERS);
    assert!(owner.is_some());
    for line in [
        "Call-ID: #",
        "call-id:#",
        "CALL-ID \t : #",
        "cAlL-iD:\r\n\t #",
        "i: #",
        "I\t:#",
        "i:#   ",
        "i: \r\n #\t ",
        "Call-ID: #\r\n more",
    ] {
        for before in [0, 1, 7, 30] {
            for after in [AFTER, "", "CSeq: 1 ACK\r\n\r\n", "\r\n", "\r\nbody\r\nCall-ID: no"] {
                let message = message(&line.replace('#', id), before, after);
                assert_eq!(ownership.owner(&message, WORKERS), owner, "{line} {before} {after:?}");
                for linear in [0, 1, 20, 200, message.len() - 20, message.len()] {
                    let run = run(&program, &message, linear);
                    assert_eq!(run.chosen, owner, "{line} after {before}, {linear} of {}", message.len());
                }
            }
        }
    }
}

#[test]
fn what_has_no_call_id_is_nobodys() {
    let (ownership, program) = both();
    for text in [
        "",
        "\r\n\r\n",
        "\0",
        "\n",
        "jaK",
        "REGISTER sip:a SIP/2.0\r\n\r\nCall-ID: x\r\n",
        "REGISTER sip:a SIP/2.0\r\nCall-ID:\r\nTo: x\r\n\r\n",
        "REGISTER sip:a SIP/2.0\r\nCall-ID: \r\n\r\n",
        "REGISTER sip:a SIP/2.0\r\nCall-ID x\r\nCall-IDs: x\r\nix: y\r\nCall\rID: x\r\n Call-ID: x\r\n\r\n",
        "Call-ID: in the first line\r\nTo: x\r\n\r\n",
        "\r\ni: in the first line\r\n\r\n",
        "INVITE sip:a SIP/2.0\r\nCall-ID",
        "INVITE sip:a SIP/2.0\r\nCall-ID:",
        "INVITE sip:a SIP/2.0\r\ni",
    ] {
        assert_eq!(ownership.owner(text.as_bytes(), WORKERS), None, "{text:?}");
        for linear in 0..=text.len() {
            assert_eq!(run(&program, text.as_bytes(), linear).chosen, None, "{text:?}, {linear}");
        }
    }
}

#[test]
fn the_limits_of_the_program_are_where_they_are_said_to_be() {
    let (ownership, program) = both();
    for (len, decides) in [(1, true), (LONGEST, true), (LONGEST + 1, false), (2_000, false)] {
        let message = message(&format!("i: {}", "x".repeat(len)), 1, AFTER);
        let owner = ownership.owner(&message, WORKERS);
        for linear in [0, message.len()] {
            let chosen = run(&program, &message, linear).chosen;
            assert_eq!(chosen, owner.filter(|_| decides), "{len} bytes, {linear}");
        }
    }
    let pad = |len: usize| format!("OPTIONS sip:a SIP/2.0\r\nSubject: {}\r\n", "s".repeat(len - 34));
    for (place, decides) in [(REACH - 20, true), (REACH + 1, false), (20_000, false)] {
        let message = format!("{}i: x@y\r\n{AFTER}", pad(place)).into_bytes();
        assert_eq!(message.get(place), Some(&b'i'));
        let owner = ownership.owner(&message, WORKERS);
        assert_eq!(run(&program, &message, message.len()).chosen, owner.filter(|_| decides), "at {place}");
    }
    // One that is beyond what is copied, or cut by it.
    for place in 3_700..4_000 {
        let message = format!("{}i: x@y\r\n{}", pad(place), "x".repeat(4_000)).into_bytes();
        let chosen = run(&program, &message, 0).chosen;
        assert!(chosen.is_none() || chosen == ownership.owner(&message, WORKERS), "at {place}");
    }
    // Lines upon lines end it.
    let message = format!("OPTIONS sip:a SIP/2.0\r\n{}i: x\r\n\r\n", "a:\r\n".repeat(900)).into_bytes();
    assert_eq!(run(&program, &message, message.len()).chosen, None);
    assert!(ownership.owner(&message, WORKERS).is_some());
}

#[test]
fn what_an_ordinary_message_costs() {
    let (_, program) = both();
    let invite = message("Call-ID: f81d4fae-7dec-11d0-a765-00a0c91e6bf6@foo.bar.com", 2, AFTER);
    let run = run(&program, &invite, invite.len());
    // docs/design/steering.md names the bound.
    println!("{} bytes, {} instructions of {}", invite.len(), run.instructions, program.code.len());
    assert!(!run.copied && run.instructions < 600, "{run:?}");
}

#[test]
fn owners_are_spread_evenly_and_depend_on_the_key() {
    let (ownership, _) = both();
    let other = Ownership::new(b"another key, of ");
    let mut counts = [0u32; 8];
    let mut same = 0;
    for n in 0..8_000 {
        let message = message(&format!("Call-ID: {n}-1234@192.0.2.10"), 1, AFTER);
        let owner = ownership.owner(&message, 8).unwrap();
        counts[usize::from(owner)] += 1;
        same += u32::from(other.owner(&message, 8) == Some(owner));
    }
    assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    assert!((850..1_150).contains(&same), "{same}");
}

/// Pieces of which hostile messages are made.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let odd = [
        "\r\n",
        "\n",
        "\r",
        " ",
        "\t",
        ":",
        "Call-ID",
        "call-id",
        "CALL-ID",
        "Call-ID:",
        "i",
        "I",
        "i:",
        "\r\ni: ",
        "\r\nCall-ID: ",
        "\nCall-ID :",
        "\r\n ",
        "\r\n\r\n",
        "Call-I",
        "\u{e9}\u{8a}",
        "\0",
        "abc@192.0.2.1",
        "\u{7f}",
        "Call-ID\r\n",
        "\r\ni\r\n: ",
        "Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK776asdhds\r\n",
    ];
    prop_oneof![
        8 => prop::sample::select(odd.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 0..140usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn check(message: &[u8], linear: usize) -> Result<(), TestCaseError> {
    let (ownership, program) = both();
    let owner = ownership.owner(message, WORKERS);
    let run = emulate::run(&program, message, linear);
    prop_assert!(run.is_ok(), "{run:?}");
    if let Some(chosen) = run.ok().and_then(|run| run.chosen) {
        prop_assert_eq!(Some(chosen), owner);
    } else if let Some(owner) = owner {
        // It may give up only for a reason: bytes beyond ASCII, which it takes one by one, or its limits.
        let id = sip_message::find_call_id(message).unwrap_or_default();
        let within = id.len() <= LONGEST && message.len() < REACH && message.len() < STEPS as usize;
        prop_assert!(!(within && message.is_ascii()), "gave up on {} bytes of {owner}", message.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The program answers as the function does or not at all, and stays inside its memory, whatever
    /// comes and however much of it is in reach.
    #[test]
    fn program_and_function_agree(pieces in prop::collection::vec(piece(), 0..30), linear in any::<prop::sample::Index>()) {
        let message = pieces.concat();
        check(&message, message.len())?;
        check(&message, 0)?;
        check(&message, linear.index(message.len() + 1))?;
    }

    /// The same for messages that are nearly right.
    #[test]
    fn and_on_a_message_with_a_few_bytes_wrong(
        before in 0..12usize,
        id in "[!-~]{1,140}",
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        linear in any::<prop::sample::Index>(),
    ) {
        let mut message = message(&format!("Call-ID: {id}"), before, AFTER);
        for (place, byte) in changes {
            *place.get_mut(&mut message) = byte;
        }
        check(&message, message.len())?;
        check(&message, linear.index(message.len() + 1))?;
        // Where the indexed message has a Call-ID, it is the one that was found.
        let (ownership, _) = both();
        let mut index = sip_message::Index::new();
        if let sip_message::Parsed::Good(parsed) = sip_message::parse(&message, &mut index, &Default::default()) {
            let owner = ownership.owner_of(parsed.call_id(), WORKERS);
            prop_assert_eq!(owner, ownership.owner(&message, WORKERS));
        }
    }
}
