//! The client's side: writing a request, reading the response.

use super::accept::Key;
use super::head::{Fields, HeadFault, Received, end_of_head, is_text, split};
use core::fmt;

/// What a client asks for (RFC 6455 section 4.1, RFC 7118 section 4.1).
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'a> {
    /// Host, and the port if it is not that of the scheme.
    pub host: &'a str,
    /// Path and query; begins with `/`.
    pub target: &'a str,
    /// The origin of the script; none if this is not a browser.
    pub origin: Option<&'a str>,
    /// Scheme and credentials.
    pub authorization: Option<&'a str>,
    /// From 16 bytes that are random for each connection.
    pub key: Key,
}

/// A part that an intermediary could read as another request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidPart {
    /// The host is empty or has a character that a host may not have.
    Host,
    /// The target does not begin with `/`, or has a space or a control character.
    Target,
    /// The value of a field has a control character.
    Field,
}

impl ClientRequest<'_> {
    /// Appends the request to `out`, which stays as it is if a part is invalid.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), InvalidPart> {
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain(self.host) {
            return Err(InvalidPart::Host);
        }
        if !is_plain(self.target) || !self.target.starts_with('/') {
            return Err(InvalidPart::Target);
        }
        let fields = [("Origin", self.origin), ("Authorization", self.authorization)];
        if fields
            .iter()
            .filter_map(|(_, value)| *value)
            .any(|value| !value.bytes().all(|byte| is_text(&byte)))
        {
            return Err(InvalidPart::Field);
        }
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        put(&[b"GET ", self.target.as_bytes(), b" HTTP/1.1\r\nHost: ", self.host.as_bytes(), b"\r\n"]);
        put(&[
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ",
            self.key.as_bytes(),
            b"\r\n",
        ]);
        for (name, value) in fields {
            if let Some(value) = value {
                put(&[name.as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
            }
        }
        put(&[b"Sec-WebSocket-Protocol: sip\r\nSec-WebSocket-Version: 13\r\n\r\n"]);
        Ok(())
    }
}

/// Why a response does not accept. Shows itself as a text for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseFault {
    /// The head is too large, or the bytes are not an HTTP response.
    Malformed,
    /// The server answered with this status instead of 101.
    Status(u16),
    /// Upgrade is not `websocket`, or Connection does not have `Upgrade`.
    NotUpgraded,
    /// Sec-WebSocket-Accept does not fit the key.
    Accept,
    /// Sec-WebSocket-Protocol is not `sip`.
    Subprotocol,
    /// The server uses an extension that was not offered.
    Extension,
}

impl fmt::Display for ResponseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseFault::Malformed => f.write_str("malformed response"),
            ResponseFault::Status(code) => write!(f, "status {code} instead of 101"),
            ResponseFault::NotUpgraded => f.write_str("101 without an upgrade to WebSocket"),
            ResponseFault::Accept => f.write_str("Sec-WebSocket-Accept does not fit the key"),
            ResponseFault::Subprotocol => f.write_str("subprotocol is not sip"),
            ResponseFault::Extension => f.write_str("extension that was not offered"),
        }
    }
}

impl From<HeadFault> for ResponseFault {
    fn from(_: HeadFault) -> ResponseFault {
        ResponseFault::Malformed
    }
}

/// Reads the response to a request with this key. `resume` is what the last [`Received::Partial`] said, 0 at
/// first. The result is the length of the response: what follows it are the first frames of the server.
pub fn read_response(buffer: &[u8], resume: usize, key: &Key) -> Result<Received<usize>, ResponseFault> {
    let prefix = b"HTTP/1.";
    if !buffer.iter().zip(prefix).all(|(got, wanted)| got == wanted) {
        return Err(ResponseFault::Malformed);
    }
    let end = match end_of_head(buffer, resume)? {
        Received::Partial { resume } => return Ok(Received::Partial { resume }),
        Received::Whole(end) => end,
    };
    let (line, fields) = split(&buffer[..end])?;
    match status(line).ok_or(ResponseFault::Malformed)? {
        101 if line.starts_with(b"HTTP/1.1 ") => check(fields, key).map(|()| Received::Whole(end)),
        other => Err(ResponseFault::Status(other)),
    }
}

/// The status code in a status line.
fn status(line: &[u8]) -> Option<u16> {
    let [b'0' | b'1', b' ', code @ ..] = line.strip_prefix(b"HTTP/1.")? else { return None };
    let (digits, rest) = code.split_first_chunk::<3>()?;
    let number = digits.iter().try_fold(0, |sum, digit| match digit {
        b'0'..=b'9' => Some(sum * 10 + u16::from(digit - b'0')),
        _ => None,
    })?;
    (number >= 100 && rest.first().is_none_or(|&byte| byte == b' ')).then_some(number)
}

/// Checks the fields of a 101 (RFC 6455 section 4.1).
fn check(fields: Fields<'_>, key: &Key) -> Result<(), ResponseFault> {
    let is = |name, wanted: &[u8]| fields.single(name) == Ok(Some(wanted));
    if !fields.lists("Upgrade", "websocket") || !fields.lists("Connection", "Upgrade") {
        return Err(ResponseFault::NotUpgraded);
    }
    if !is("Sec-WebSocket-Accept", &key.accept()) {
        return Err(ResponseFault::Accept);
    }
    if fields.list("Sec-WebSocket-Extensions").next().is_some() {
        return Err(ResponseFault::Extension);
    }
    if is("Sec-WebSocket-Protocol", b"sip") { Ok(()) } else { Err(ResponseFault::Subprotocol) }
}
