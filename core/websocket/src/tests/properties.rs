//! Properties of all streams.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// A Ping, or else a Pong, with its payload.
type Control = (bool, Vec<u8>);
/// A fragment, and control frames that follow it.
type Fragment = (Vec<u8>, Vec<Control>);

/// What a peer sends.
#[derive(Clone, Debug)]
enum Sent {
    Message(Kind, Vec<Fragment>),
    Control(bool, Vec<u8>),
}

fn control() -> impl Strategy<Value = Control> {
    (any::<bool>(), vec(any::<u8>(), 0..=125))
}

fn sent() -> impl Strategy<Value = Sent> {
    let fragment =
        || (".{0,20}", vec(control(), 0..2)).prop_map(|(text, between)| (text.into_bytes(), between));
    let long = ("[a-z]{120,300}", Just(Vec::new())).prop_map(|(text, none)| (text.into_bytes(), none));
    let kind = prop_oneof![Just(Kind::Text), Just(Kind::Binary)];
    let fragments = prop_oneof![vec(fragment(), 1..6), vec(long, 1..3)];
    prop_oneof![
        3 => (kind, fragments).prop_map(|(kind, fragments)| Sent::Message(kind, fragments)),
        1 => control().prop_map(|(ping, payload)| Sent::Control(ping, payload)),
    ]
}

fn put_control(
    stream: &mut Vec<u8>,
    wanted: &mut Vec<Seen>,
    ping: bool,
    payload: &[u8],
    key: Option<[u8; 4]>,
) {
    if ping {
        stream.extend_from_slice(ControlFrame::ping(payload, key).as_bytes());
        wanted.push(Seen::Ping(payload.to_vec()));
    } else {
        stream.extend_from_slice(ControlFrame::pong(payload, key).as_bytes());
        wanted.push(Seen::Pong(payload.to_vec()));
    }
}

/// The bytes of what is sent, and what the receiver should see.
fn write(sent: &[Sent], key: Option<[u8; 4]>) -> (Vec<u8>, Vec<Seen>) {
    let (mut stream, mut wanted) = (Vec::new(), Vec::new());
    for sent in sent {
        match sent {
            Sent::Control(ping, payload) => put_control(&mut stream, &mut wanted, *ping, payload, key),
            Sent::Message(kind, fragments) => {
                let mut whole = Vec::new();
                for (at, (fragment, between)) in fragments.iter().enumerate() {
                    let opcode = match (at, kind) {
                        (0, Kind::Text) => 1,
                        (0, Kind::Binary) => 2,
                        _ => 0,
                    };
                    let last = at + 1 == fragments.len();
                    stream.extend(raw(opcode | if last { 0x80 } else { 0 }, fragment, key));
                    whole.extend_from_slice(fragment);
                    for (ping, payload) in between.iter().filter(|_| !last) {
                        put_control(&mut stream, &mut wanted, *ping, payload, key);
                    }
                }
                wanted.push(Seen::Message(*kind, whole));
            }
        }
    }
    (stream, wanted)
}

/// Gives `stream` to an endpoint in pieces of these sizes.
fn in_pieces(endpoint: &mut Endpoint, mut stream: &[u8], cuts: &[usize]) -> Vec<Seen> {
    let mut seen = Vec::new();
    for cut in cuts.iter().cycle() {
        let (piece, rest) = stream.split_at((*cut).clamp(1, stream.len().max(1)).min(stream.len()));
        seen.extend(endpoint.take(piece));
        stream = rest;
        if stream.is_empty() {
            break;
        }
    }
    seen
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), vec(1usize..40, 1..8), vec(1usize..400, 1..4)]
}

proptest! {
    /// Valid streams give what was sent, however they are cut, to both sides.
    #[test]
    fn any_split_gives_the_same_events(sent in vec(sent(), 0..8), key in any::<[u8; 4]>(), cuts in cuts()) {
        for (role, key) in [(Role::Server, Some(key)), (Role::Client, None)] {
            let (stream, wanted) = write(&sent, key);
            let mut endpoint = Endpoint::new(role);
            prop_assert_eq!(in_pieces(&mut endpoint, &stream, &cuts), wanted);
            prop_assert!(endpoint.buffer.is_empty());
        }
    }

    /// What is written is read.
    #[test]
    fn header_and_message_are_read_as_they_were_written(
        message in prop_oneof![vec(any::<u8>(), 0..300), ".{0,100}".prop_map(String::into_bytes)],
        key in any::<[u8; 4]>(),
    ) {
        let kind = Kind::of(&message);
        for (role, key) in [(Role::Server, Some(key)), (Role::Client, None)] {
            let header = MessageHeader::new(kind, message.len(), key);
            let mut masked = message.clone();
            mask(&mut masked, key.unwrap_or_default());
            let seen = Endpoint::new(role).take(&[header.as_bytes(), &masked].concat());
            prop_assert_eq!(seen, [Seen::Message(kind, message.clone())]);
        }
    }

    /// Any bytes, also those with a fault somewhere, give the same events whole and in pieces.
    #[test]
    fn any_bytes_are_read_alike_in_any_pieces(
        sent in vec(sent(), 0..4),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        noise in vec(any::<u8>(), 0..40),
        limits in (1u32..400, 1u16..6),
        cuts in cuts(),
    ) {
        let (mut stream, _) = write(&sent, Some(KEY));
        stream.extend(noise);
        for (at, byte) in changes {
            if !stream.is_empty() {
                let at = at.index(stream.len());
                stream[at] = byte;
            }
        }
        let limits = Limits { message: limits.0, fragments: limits.1 };
        let whole = Endpoint::with(Role::Server, limits).take(&stream);
        let pieces = in_pieces(&mut Endpoint::with(Role::Server, limits), &stream, &cuts);
        prop_assert_eq!(pieces, whole);
    }

    /// A caller without room for messages gets each of them in the end, once and in order.
    #[test]
    fn messages_put_back_are_not_lost(sent in vec(sent(), 0..6), refusals in vec(0usize..3, 1..6), cut in 1usize..60) {
        let (stream, wanted) = write(&sent, Some(KEY));
        let limits = Limits::default();
        let mut connection = Connection::new(Role::Server);
        let (mut buffer, mut seen) = (Vec::new(), Vec::new());
        let mut refusals = refusals.iter().cycle().flat_map(|times| (0..=*times).rev());
        let mut pieces = stream.chunks(cut);
        loop {
            let piece = pieces.next();
            buffer.extend_from_slice(piece.unwrap_or_default());
            let mut reader = connection.read(&mut buffer, &limits);
            while let Some(event) = reader.next_event().expect("it is valid") {
                if matches!(event, Event::Message { .. }) && refusals.next().is_some_and(|left| left > 0) {
                    reader.put_back();
                    break;
                }
                seen.push(look(&reader, event));
            }
            let kept = reader.finish();
            buffer.truncate(kept.end);
            buffer.drain(..kept.start);
            if piece.is_none() && buffer.is_empty() && !connection.has_begun() {
                break;
            }
        }
        prop_assert_eq!(seen, wanted);
    }

    /// No bytes do harm to the readers of the handshake, and pieces change nothing before its end.
    #[test]
    fn any_bytes_of_a_handshake_get_an_answer(bytes in vec(any::<u8>(), 0..200), lead in any::<bool>(), cut in 1usize..20) {
        let bytes = if lead { [b"GET / HTTP/1.1\r\nHost: a\r\n", &bytes[..]].concat() } else { bytes };
        let whole = read_request(&bytes, 0).map(|_| ());
        let key = Key::new([0; 16]);
        let _ = read_response(&bytes, 0, &key);
        let _ = read_response(&[b"HTTP/1.1 101 x\r\n", &bytes[..]].concat(), 0, &key);
        let (mut resume, mut end) = (0, 0);
        loop {
            end = (end + cut).min(bytes.len());
            match read_request(&bytes[..end], resume) {
                Ok(Received::Partial { resume: next }) if end < bytes.len() => resume = next,
                Err(Refusal::Body) | Ok(Received::Whole(_)) => break,
                other => {
                    prop_assert_eq!(other.map(|_| ()), whole);
                    break;
                }
            }
        }
    }
}
