//! The examples of RFC 6455 section 5.7, and what else is valid.

use super::*;

#[test]
fn unmasked_text_is_read_by_a_client() {
    assert_eq!(client(&[0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f]), [text(b"Hello")]);
}

#[test]
fn masked_text_is_read_by_a_server() {
    let bytes = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(server(&bytes), [text(b"Hello")]);
}

#[test]
fn fragments_make_one_message() {
    let bytes = [0x01, 0x03, 0x48, 0x65, 0x6c, 0x80, 0x02, 0x6c, 0x6f];
    assert_eq!(client(&bytes), [text(b"Hello")]);
}

#[test]
fn ping_and_masked_pong_are_read() {
    assert_eq!(client(b"\x89\x05Hello"), [Seen::Ping(b"Hello".to_vec())]);
    let pong = [0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(server(&pong), [Seen::Pong(b"Hello".to_vec())]);
}

#[test]
fn binary_messages_of_256_bytes_and_64_kib_are_read() {
    let payload: Vec<u8> = (0..65_536u32).map(|at| at as u8).collect();
    let short = [&[0x82, 0x7e, 0x01, 0x00], &payload[..256]].concat();
    assert_eq!(client(&short), [binary(&payload[..256])]);
    let long = [&[0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0], &payload[..]].concat();
    assert_eq!(client(&long), [binary(&payload)]);
}

#[test]
fn control_frames_come_between_fragments() {
    let bytes = [
        frame(0x01, b"INVITE"),
        frame(0x89, b"one"),
        frame(0x00, b" sip:"),
        frame(0x8a, b"two"),
        frame(0x89, b"three"),
        frame(0x80, b"a@b"),
        frame(0x82, b"next"),
    ];
    let wanted = [
        Seen::Ping(b"one".to_vec()),
        Seen::Pong(b"two".to_vec()),
        Seen::Ping(b"three".to_vec()),
        text(b"INVITE sip:a@b"),
        binary(b"next"),
    ];
    assert_eq!(server(&bytes.concat()), wanted);
    let mut endpoint = Endpoint::new(Role::Server);
    let seen: Vec<Seen> = bytes.iter().flat_map(|bytes| endpoint.take(bytes)).collect();
    assert_eq!(seen, wanted);
    assert_eq!(endpoint.connection.pings(), 2);
}

#[test]
fn empty_messages_and_fragments_are_read() {
    assert_eq!(server(&frame(0x81, b"")), [text(b"")]);
    assert_eq!(
        server(&[frame(0x01, b""), frame(0x00, b"a"), frame(0x00, b""), frame(0x80, b"")].concat()),
        [text(b"a")]
    );
}

#[test]
fn character_may_be_split_over_fragments() {
    let word = "Zürich".as_bytes();
    assert_eq!(server(&[frame(0x01, &word[..2]), frame(0x80, &word[2..])].concat()), [text(word)]);
}

/// Each WebSocket message is given unchanged. The reader of SIP messages decides whether it is one SIP
/// message.
#[test]
fn boundaries_are_those_of_websocket_not_of_sip() {
    let options = b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n";
    let (first, second) = options.split_at(20);
    assert_eq!(server(&[frame(0x81, first), frame(0x81, second)].concat()), [text(first), text(second)]);
    let twice = options.repeat(2);
    assert_eq!(server(&frame(0x81, &twice)), [text(&twice)]);
}

#[test]
fn idle_connection_needs_no_buffer() {
    let mut endpoint = Endpoint::new(Role::Server);
    endpoint.take(&[frame(0x01, b"a"), frame(0x89, b""), frame(0x80, b"b")].concat());
    assert!(endpoint.buffer.is_empty() && !endpoint.connection.has_begun());
    assert!(size_of::<Connection>() <= 32, "{} bytes", size_of::<Connection>());
}

#[test]
fn message_put_back_comes_first_the_next_time() {
    let limits = Limits::default();
    let mut connection = Connection::new(Role::Server);
    let mut buffer = [frame(0x89, b"x"), frame(0x01, b"a"), frame(0x80, b"b"), frame(0x81, b"c")].concat();
    for _ in 0..3 {
        let mut reader = connection.read(&mut buffer, &limits);
        let mut event = reader.next_event();
        if matches!(event, Ok(Some(Event::Ping(_)))) {
            event = reader.next_event();
        }
        let event = event.expect("no fault").expect("a message");
        assert_eq!(look(&reader, event), text(b"ab"));
        reader.put_back();
        let kept = reader.finish();
        buffer.copy_within(kept.clone(), 0);
        buffer.truncate(kept.len());
    }
    let mut endpoint = Endpoint { connection, limits, buffer };
    assert_eq!(endpoint.take(b""), [text(b"ab"), text(b"c")]);
    assert!(endpoint.buffer.is_empty());
}
