//! WebSocket frames: however the bytes are split, the events are the same, and equal those of tungstenite.
//! `compare` lists the intended differences.
#![no_main]

use fuzz::Feed;
use libfuzzer_sys::fuzz_target;
use std::io::{self, Read, Write};
use tungstenite::protocol::{Role as TheirRole, WebSocket, WebSocketConfig};
use tungstenite::{Error, Message};
use websocket::{CloseCode, Connection, Event, Fault, Key, Kind, Limits, MessageHeader, Role};
use websocket::{Received, Refusal, mask, read_request, read_response};

/// An event, as both readers see it.
#[derive(Clone, PartialEq, Debug)]
enum Seen {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, Vec<u8>),
}

/// How the reading of a stream ended.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    /// With the bytes.
    Waiting,
    /// With a Close frame.
    Closed,
    Fault(Fault),
    /// Tungstenite refused text, which it does before its message ends.
    TheirUtf8,
    TheirFault,
}

/// Reads `stream` as it arrives in pieces of the sizes that `cut` says.
fn ours(stream: &[u8], role: Role, limits: &Limits, mut cut: impl FnMut() -> usize) -> (Vec<Seen>, End) {
    let mut connection = Connection::new(role);
    let (mut seen, mut buffer, mut have) = (Vec::new(), Vec::new(), 0);
    loop {
        let more = cut().clamp(1, (stream.len() - have).max(1)).min(stream.len() - have);
        buffer.extend_from_slice(&stream[have..have + more]);
        have += more;
        let mut reader = connection.read(&mut buffer, limits);
        let end = loop {
            match reader.next_event() {
                Ok(Some(event)) => seen.push(of_event(&event, |range| reader.bytes(range).to_vec())),
                Ok(None) => break End::Waiting,
                Err(fault) => break End::Fault(fault),
            }
        };
        let kept = reader.finish();
        assert!(kept.len() <= limits.held(), "{} bytes kept", kept.len());
        buffer.truncate(kept.end);
        buffer.drain(..kept.start);
        if let Some(Seen::Close(..)) = seen.last() {
            return (seen, End::Closed);
        }
        if end != End::Waiting || have == stream.len() {
            return (seen, end);
        }
    }
}

fn of_event(event: &Event, bytes: impl Fn(std::ops::Range<usize>) -> Vec<u8>) -> Seen {
    match event.clone() {
        Event::Message { kind: Kind::Text, payload } => {
            let text = bytes(payload);
            assert!(std::str::from_utf8(&text).is_ok(), "text that is not UTF-8");
            Seen::Text(text)
        }
        Event::Message { kind: Kind::Binary, payload } => Seen::Binary(bytes(payload)),
        Event::Ping(payload) => Seen::Ping(bytes(payload)),
        Event::Pong(payload) => Seen::Pong(bytes(payload)),
        Event::Close { code, reason } => Seen::Close(code.map(CloseCode::get), bytes(reason)),
    }
}

/// A stream that ends by making its reader wait, and swallows what is written.
struct Pipe<'a>(&'a [u8]);

impl Read for Pipe<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { self.0.read(room) }
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The events of tungstenite.
fn theirs(stream: &[u8], role: Role, limits: &Limits) -> (Vec<Seen>, End) {
    let most = Some(limits.message as usize);
    let config =
        WebSocketConfig::default().max_message_size(most).max_frame_size(most).read_buffer_size(4_096);
    let role = match role {
        Role::Client => TheirRole::Client,
        Role::Server => TheirRole::Server,
    };
    let mut socket = WebSocket::from_raw_socket(Pipe(stream), role, Some(config));
    let mut seen = Vec::new();
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => seen.push(Seen::Text(text.as_bytes().to_vec())),
            Ok(Message::Binary(bytes)) => seen.push(Seen::Binary(bytes.to_vec())),
            Ok(Message::Ping(bytes)) => seen.push(Seen::Ping(bytes.to_vec())),
            Ok(Message::Pong(bytes)) => seen.push(Seen::Pong(bytes.to_vec())),
            Ok(Message::Close(close)) => {
                let code = close.as_ref().map(|close| close.code.into());
                seen.push(Seen::Close(
                    code,
                    close.map(|close| close.reason.as_bytes().to_vec()).unwrap_or_default(),
                ));
                return (seen, End::Closed);
            }
            Ok(Message::Frame(_)) => unreachable!("it is for writers"),
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                return (seen, End::Waiting);
            }
            Err(Error::Utf8(_)) => return (seen, End::TheirUtf8),
            Err(_) => return (seen, End::TheirFault),
        }
    }
}

/// Whether `ours` equals `theirs`, except for the intended differences.
fn compare((our, our_end): &(Vec<Seen>, End), (their, their_end): &(Vec<Seen>, End)) {
    let cut_short =
        |shorter: &[Seen], longer: &[Seen]| assert!(longer.starts_with(shorter), "{our:?} {their:?}");
    let violation = Seen::Close(Some(1002), b"Protocol violation".to_vec());
    match (our_end, their_end) {
        // Tungstenite refuses text at the first byte that cannot be right, we at the end of the message.
        // Control frames, a Close or another fault may come before that.
        (_, End::TheirUtf8) if our.len() >= their.len() => {
            cut_short(their, our);
            let rest = &our[their.len()..];
            assert!(!rest.iter().any(|seen| matches!(seen, Seen::Text(_) | Seen::Binary(_))), "{rest:?}");
        }
        // It takes lengths in a longer form than they need, also in control frames.
        (End::Fault(Fault::LengthNotMinimal | Fault::ControlTooLong), _) => cut_short(our, their),
        // It answers a Close whose code may not be sent as one with another code, also 1014, which IANA has.
        (End::Fault(Fault::InvalidCloseCode), End::Closed) => {
            assert_eq!((&our[..], Some(&violation)), (&their[..our.len()], their.last()));
        }
        (End::Closed, End::Closed) if their.last() == Some(&violation) && our != their => {
            assert!(matches!(our.last(), Some(Seen::Close(Some(1014), _))), "{our:?}");
        }
        // It refuses most frames only when they are whole.
        (End::Fault(_), End::TheirFault | End::Waiting) => assert_eq!(our, their),
        _ => assert_eq!((our, our_end), (their, their_end)),
    }
}

/// A stream of frames that the input chooses. Invalid frames are rare, so that much of a stream is read
/// before one.
fn built(mut feed: Feed<'_>, role: Role) -> Vec<u8> {
    let mut stream = Vec::new();
    while !feed.is_empty() {
        let (first, len) = (feed.byte(), usize::from(feed.byte()));
        if len == 0xff {
            stream.extend([first, feed.byte(), feed.byte(), feed.byte()]);
            continue;
        }
        let key = (role == Role::Server).then(|| std::array::from_fn(|_| feed.byte()));
        let payload: Vec<u8> =
            std::iter::from_fn(|| (!feed.is_empty()).then(|| feed.byte())).take(len).collect();
        let start = stream.len();
        stream.extend_from_slice(MessageHeader::new(Kind::Text, payload.len(), key).as_bytes());
        stream[start] = first;
        let start = stream.len();
        stream.extend_from_slice(&payload);
        mask(&mut stream[start..], key.unwrap_or_default());
    }
    stream
}

/// The readers of the handshake: pieces change nothing before the end of the head.
fn handshake(bytes: &[u8], cuts: &[u8]) {
    let _ = read_response(bytes, 0, &Key::new([7; 16]));
    let whole = read_request(bytes, 0);
    if let Ok(Received::Whole(request)) = &whole {
        assert!(request.path().starts_with(b"/") && !request.host().is_empty());
        if let Ok(upgrade) = request.upgrade() {
            assert!(upgrade.subprotocols().any(|name| name == b"sip"));
        }
    }
    let (mut end, mut resume) = (0, 0);
    for cut in cuts.iter().cycle() {
        end = (end + usize::from(*cut).max(1)).min(bytes.len());
        match read_request(&bytes[..end], resume) {
            Ok(Received::Partial { resume: next }) if end < bytes.len() => resume = next,
            // What follows a head is a fault only if it came with it.
            Ok(Received::Whole(_)) | Err(Refusal::Body) => return,
            other => return assert_eq!(other.map(|_| ()), whole.map(|_| ())),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut feed = Feed::new(data);
    // The first byte chooses what is read, by which side, and with which limit; the next four the pieces.
    let choice = feed.byte();
    let cuts: [u8; 4] = std::array::from_fn(|_| feed.byte());
    let role = if choice & 1 == 0 { Role::Server } else { Role::Client };
    let message = [125, 200, 65_536][usize::from(choice >> 1) % 3];
    let limits = Limits { message, fragments: u16::MAX };
    let stream = match choice >> 6 {
        0 => return handshake(feed.rest(), &cuts),
        1 => feed.rest().to_vec(),
        _ => built(feed, role),
    };
    let whole = ours(&stream, role, &limits, || stream.len());
    let mut turn = 0;
    let pieces = ours(&stream, role, &limits, || {
        turn += 1;
        usize::from(cuts[turn % cuts.len()])
    });
    assert_eq!(pieces, whole);
    compare(&whole, &theirs(&stream, role, &limits));
});
