//! Cutting messages out of a byte stream by Content-Length (RFC 3261 sections 7.5 and 18.3).

use crate::Limits;
use crate::block::line_feeds;
use crate::chars::{TOKEN, is, is_space, trim};
use crate::number::parse_u64;
use wire::{Frame, FrameError};

/// Looks at the start of a stream buffer. `resume` is what the last [`Frame::Partial`] said about the
/// same message (0 at first): the search for the end of the head goes on from there, so that a sender
/// of single bytes costs linear work.
///
/// On a stream the length is the only thing that tells where the next message starts. So anything
/// doubtful about it ends the connection: no Content-Length, two of them (even equal), one that is no
/// plain number, one beyond the limits. Bytes after such a message are never read as a message.
pub fn frame(buffer: &[u8], resume: usize, limits: &Limits) -> Frame {
    let skip = match keepalive(buffer) {
        Ok(skip) => skip,
        Err(frame) => return frame,
    };
    let message = &buffer[skip..];
    // Never beyond the first empty line, or one in the body would be taken for it.
    let from = resume.saturating_sub(skip).min(message.len());
    let Some(head) = end_of_head(message, from) else {
        if message.len() > limits.head {
            return Frame::Broken { len: buffer.len(), error: FrameError::HeadTooLong };
        }
        return match plausible(message) {
            true => Frame::Partial { resume: buffer.len().saturating_sub(3).max(skip) },
            false => Frame::Broken { len: 0, error: FrameError::NotAMessage },
        };
    };
    let broken = |error| Frame::Broken { len: skip + head, error };
    if head > limits.head {
        return broken(FrameError::HeadTooLong);
    }
    if !plausible(message) {
        return Frame::Broken { len: 0, error: FrameError::NotAMessage };
    }
    match content_length(&message[..head]) {
        None => broken(FrameError::BadLength),
        Some(body) if body > limits.body as u64 || head as u64 + body > limits.message as u64 => {
            broken(FrameError::BodyTooLong)
        }
        Some(body) => match head + body as usize {
            len if len <= message.len() => Frame::Message { skip, len },
            _ => Frame::Partial { resume: skip + head - 4 },
        },
    }
}

/// Line ends before a message: two of them are a ping (RFC 5626 section 4.4.1), one alone is a pong
/// or stray. Answers how many bytes to pass over when a message follows.
fn keepalive(buffer: &[u8]) -> Result<usize, Frame> {
    match buffer {
        [b'\r', b'\n', b'\r', b'\n', ..] => Err(Frame::Ping { len: 4, pong: b"\r\n" }),
        [b'\r'] | [b'\r', b'\n', b'\r'] => Err(Frame::Idle),
        // A lone CRLF may be a pong, or the first half of a ping: what comes next will tell.
        [b'\r', b'\n'] => Err(Frame::Idle),
        [b'\r', b'\n', ..] => Ok(2),
        _ => Ok(0),
    }
}

/// Position after the empty line. Searches from `from`, which must not be beyond the first CRLFCRLF.
fn end_of_head(message: &[u8], from: usize) -> Option<usize> {
    let ends = |&at: &usize| at >= from + 3 && message[..at].ends_with(b"\r\n\r");
    line_feeds(message, from).find(ends).map(|at| at + 1)
}

/// Whether the bytes can be the start of a SIP message: a token and a space, or `SIP/`. Keeps a TLS
/// hello or an HTTP client from holding a buffer until a deadline.
fn plausible(message: &[u8]) -> bool {
    let end = message.iter().take(64).position(|&b| !is(b, TOKEN));
    match end {
        None => message.len() <= 64,
        Some(0) => false,
        Some(at) => {
            message[at] == b' ' || (message[at] == b'/' && message[..at].eq_ignore_ascii_case(b"SIP"))
        }
    }
}

/// The one Content-Length of a head; `None` if it is missing, doubled or no number. Folded lines are
/// joined first in meaning: a fold inside the value makes it no number.
fn content_length(head: &[u8]) -> Option<u64> {
    let mut found = None;
    let mut ends = line_feeds(head, 0).filter(|&at| head[..at].ends_with(b"\r")).map(|at| at - 1);
    let mut at = ends.next()? + 2;
    while at < head.len() {
        let end = ends.next()?;
        let line = &head[at..end];
        at = end + 2;
        let Some(rest) = after_content_length(line) else { continue };
        let rest = trim(rest).strip_prefix(b":")?;
        let mut value = trim(rest);
        // `Content-Length:` CRLF SP `5`: legal folding before the number.
        if value.is_empty() && head.get(at).is_some_and(|&b| is_space(b)) {
            let end = ends.next()?;
            value = trim(&head[at..end]);
            at = end + 2;
        }
        let continued = head.get(at).is_some_and(|&b| is_space(b));
        let number = parse_u64(value)?;
        if continued || found.replace(number).is_some() {
            return None;
        }
    }
    found
}

/// What follows the name, in one of its two spellings, in a line that begins with it.
fn after_content_length(line: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"content-length";
    let len = match line.first()? {
        b'L' | b'l' => 1,
        b'C' | b'c' if line.len() >= NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME) => {
            NAME.len()
        }
        _ => return None,
    };
    line.get(len..).filter(|rest| rest.first().is_none_or(|&b| !is(b, TOKEN)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn look(bytes: &[u8]) -> Frame {
        frame(bytes, 0, &Limits::default())
    }

    fn message(length: &str, body: &str) -> Vec<u8> {
        format!("OPTIONS sip:a SIP/2.0\r\n{length}Via: x\r\n\r\n{body}").into_bytes()
    }

    #[test]
    fn whole_messages_are_cut() {
        let m = message("Content-Length: 4\r\n", "bodyNEXT");
        assert_eq!(look(&m), Frame::Message { skip: 0, len: m.len() - 4 });
        let m = message("l:\r\n 4\r\n", "body");
        assert_eq!(look(&m), Frame::Message { skip: 0, len: m.len() });
        assert!(matches!(look(&m[..m.len() - 1]), Frame::Partial { .. }));
        let m = [b"\r\n", &message("L : 0\r\n", "")[..]].concat();
        assert_eq!(look(&m), Frame::Message { skip: 2, len: m.len() - 2 });
    }

    #[test]
    fn doubtful_lengths_break_the_stream() {
        for length in [
            "",
            "Content-Length: -1\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 0x10\r\n",
            "Content-Length: 5 5\r\n",
            "Content-Length:\r\n",
            "Content-Length: 0\r\nContent-Length: 0\r\n",
            "Content-Length: 0\r\nl: 1\r\n",
            "Content-Length: 18446744073709551616\r\n",
            "Content-Length: 1\r\n 2\r\n",
            "Content-Length 1\r\n",
        ] {
            let m = message(length, "");
            assert_eq!(look(&m), Frame::Broken { len: m.len(), error: FrameError::BadLength }, "{length:?}");
        }
        for length in ["2147483648", "4294967296", "4294967328", "9223372036854775807"] {
            let m = message(&format!("Content-Length: {length}\r\n"), "");
            assert_eq!(look(&m), Frame::Broken { len: m.len(), error: FrameError::BodyTooLong }, "{length}");
        }
    }

    #[test]
    fn keepalives_are_told_apart() {
        assert_eq!(look(b"\r\n\r\n"), Frame::Ping { len: 4, pong: b"\r\n" });
        assert_eq!(look(b"\r\n\r\nOPTIONS"), Frame::Ping { len: 4, pong: b"\r\n" });
        assert_eq!(look(b"\r\n"), Frame::Idle);
        assert_eq!(look(b"\r"), Frame::Idle);
    }

    #[test]
    fn other_protocols_are_refused_early() {
        for bytes in [&b"\x16\x03\x01\x02\x00"[..], b"\0\0\0\0", b"<xml>", b"{\"a\":1}"] {
            assert_eq!(look(bytes), Frame::Broken { len: 0, error: FrameError::NotAMessage }, "{bytes:?}");
        }
        let endless = vec![b'A'; 40_000];
        assert!(matches!(look(&endless), Frame::Broken { .. }));
    }

    #[test]
    fn a_head_that_never_ends_is_refused() {
        let m = [b"OPTIONS sip:a SIP/2.0\r\nX: ".as_slice(), &vec![b'x'; 40_000]].concat();
        assert!(matches!(look(&m), Frame::Broken { error: FrameError::HeadTooLong, .. }));
    }

    proptest! {
        /// However the bytes arrive, the same message comes out.
        #[test]
        fn splitting_changes_nothing(body in "([ -~]|\r\n|\r\n\r\n){0,40}", lead in 0usize..2, step in 1usize..7) {
            let length = format!("Content-Length: {}\r\n", body.len());
            let stream = [&b"\r\n".repeat(lead)[..], &message(&length, &body), b"TAIL"].concat();
            let whole = look(&stream);
            let mut resume = 0;
            let mut have = step.min(stream.len());
            let answer = loop {
                match frame(&stream[..have], resume, &Limits::default()) {
                    Frame::Idle if have < stream.len() => have = (have + step).min(stream.len()),
                    Frame::Partial { resume: next } if have < stream.len() => {
                        resume = next;
                        have = (have + step).min(stream.len());
                    }
                    other => break other,
                }
            };
            prop_assert_eq!(answer, whole);
        }

        #[test]
        fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300), resume in 0usize..400) {
            let _ = frame(&bytes, resume, &Limits::default());
        }
    }
}
