//! Faults that fail a connection, and the code that the peer gets.

use super::*;

/// That a server sees `fault` at the end of `bytes`, after `before`, and which code it answers.
#[track_caller]
fn breaks(bytes: &[u8], before: &[Seen], fault: Fault, code: u16) {
    let mut endpoint = Endpoint::new(Role::Server);
    let seen = endpoint.take(bytes);
    let (last, rest) = seen.split_last().expect("something is seen");
    assert_eq!((rest, last), (before, &Seen::Fault(fault)));
    assert_eq!(endpoint.connection.state(), State::Closing);
    let close = endpoint.connection.close_for(fault, None).expect("the first one");
    assert_eq!(client(close.as_bytes()), [Seen::Close(Some(code), fault.to_string().into_bytes())]);
    assert_eq!(endpoint.connection.state(), State::Closed);
    assert_eq!(endpoint.take(&frame(0x81, b"more")), [], "what comes after a fault is discarded");
    assert!(endpoint.buffer.is_empty());
}

#[test]
fn frames_of_clients_must_be_masked() {
    breaks(&raw(0x81, b"Hello", None), &[], Fault::NotMasked, 1002);
    breaks(&raw(0x89, b"", None), &[], Fault::NotMasked, 1002);
}

#[test]
fn frames_of_servers_must_not_be_masked() {
    assert_eq!(client(&frame(0x81, b"Hello")), [Seen::Fault(Fault::Masked)]);
}

#[test]
fn reserved_bits_and_opcodes_are_refused() {
    for bit in [0x40, 0x20, 0x10] {
        breaks(&frame(0x81 | bit, b"a"), &[], Fault::ReservedBits, 1002);
        breaks(&frame(0x89 | bit, b"a"), &[], Fault::ReservedBits, 1002);
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        breaks(&frame(0x80 | opcode, b"a"), &[], Fault::ReservedOpcode, 1002);
    }
}

#[test]
fn control_frames_are_short_and_whole() {
    for opcode in [8, 9, 10] {
        breaks(&frame(opcode, b""), &[], Fault::FragmentedControl, 1002);
        breaks(&frame(0x80 | opcode, &[0; 126]), &[], Fault::ControlTooLong, 1002);
    }
    // A short payload whose length has the longer form.
    breaks(&[0x8a, 0xfe, 0, 1], &[], Fault::ControlTooLong, 1002);
    assert_eq!(server(&frame(0x89, &[7; 125])), [Seen::Ping(vec![7; 125])]);
}

#[test]
fn lengths_have_their_shortest_form() {
    breaks(&[0x82, 0xfe, 0, 125], &[], Fault::LengthNotMinimal, 1002);
    breaks(&[0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff], &[], Fault::LengthNotMinimal, 1002);
}

/// A long message is refused before its payload comes, so no memory is used for it.
#[test]
fn long_messages_are_refused_by_their_header() {
    let huge = [0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0];
    breaks(&huge, &[], Fault::LengthTooLarge, 1002);
    let long = [0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4];
    breaks(&long, &[], Fault::TooBig, 1009);
    let just_over = [0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3, 4];
    breaks(&just_over, &[], Fault::TooBig, 1009);
}

#[test]
fn fragments_count_together_for_the_limit() {
    let mut endpoint = Endpoint::with(Role::Server, Limits { message: 10, ..Limits::default() });
    assert_eq!(
        endpoint.take(&[frame(0x01, b"12345"), frame(0x80, b"67890")].concat()),
        [text(b"1234567890")]
    );
    let seen = endpoint.take(&[frame(0x01, b"12345"), frame(0x89, b"ping"), frame(0x80, b"678901")].concat());
    assert_eq!(seen, [Seen::Ping(b"ping".to_vec()), Seen::Fault(Fault::TooBig)]);
}

#[test]
fn order_of_frames_in_a_message_is_kept() {
    breaks(&frame(0x80, b"a"), &[], Fault::NothingToContinue, 1002);
    breaks(&[frame(0x81, b"a"), frame(0x00, b"b")].concat(), &[text(b"a")], Fault::NothingToContinue, 1002);
    breaks(&[frame(0x01, b"a"), frame(0x81, b"b")].concat(), &[], Fault::MessageNotFinished, 1002);
    breaks(&[frame(0x02, b"a"), frame(0x02, b"b")].concat(), &[], Fault::MessageNotFinished, 1002);
}

#[test]
fn text_must_be_utf8_as_a_whole() {
    breaks(&frame(0x81, b"caf\xe9"), &[], Fault::InvalidText, 1007);
    breaks(&frame(0x81, b"cut \xc3"), &[], Fault::InvalidText, 1007);
    breaks(&frame(0x81, b"surrogate \xed\xa0\x80"), &[], Fault::InvalidText, 1007);
    breaks(&[frame(0x01, b"a\xc3"), frame(0x80, b"b")].concat(), &[], Fault::InvalidText, 1007);
    breaks(
        &[frame(0x01, b"\xf0\x9f"), frame(0x00, b""), frame(0x80, b"\x98")].concat(),
        &[],
        Fault::InvalidText,
        1007,
    );
    assert_eq!(server(&frame(0x82, b"caf\xe9")), [binary(b"caf\xe9")]);
}

#[test]
fn ten_thousand_empty_fragments_are_refused() {
    let mut endpoint = Endpoint::new(Role::Server);
    assert_eq!(endpoint.take(&frame(0x01, b"a")), []);
    let seen = endpoint.take(&frame(0x00, b"").repeat(10_000));
    assert_eq!(seen, [Seen::Fault(Fault::TooManyFragments)]);
    assert_eq!(Fault::TooManyFragments.code(), CloseCode::POLICY_VIOLATION);
    let mut slow = Endpoint::new(Role::Server);
    slow.take(&frame(0x01, b"a"));
    for _ in 0..200 {
        assert_eq!(slow.take(&frame(0x00, b"")), []);
        assert_eq!(slow.buffer, b"a", "empty fragments hold no memory");
    }
}

#[test]
fn pings_are_counted() {
    let mut endpoint = Endpoint::new(Role::Server);
    assert_eq!(endpoint.take(&frame(0x89, b"").repeat(10_000)).len(), 10_000);
    assert_eq!(endpoint.connection.pings(), 10_000);
    assert!(endpoint.buffer.is_empty());
}

#[test]
fn close_frames_with_a_bad_code_or_reason_are_refused() {
    breaks(&frame(0x88, &[3]), &[], Fault::InvalidCloseCode, 1002);
    for code in [0u16, 999, 1004, 1005, 1006, 1015, 2999, 5000] {
        breaks(&frame(0x88, &code.to_be_bytes()), &[], Fault::InvalidCloseCode, 1002);
    }
    breaks(&frame(0x88, b"\x03\xe8\xff"), &[], Fault::InvalidCloseReason, 1007);
}

#[test]
fn what_was_valid_before_a_fault_is_given() {
    let bytes = [frame(0x81, b"one"), frame(0x89, b"two"), raw(0x81, b"three", None)].concat();
    breaks(&bytes, &[text(b"one"), Seen::Ping(b"two".to_vec())], Fault::NotMasked, 1002);
}
