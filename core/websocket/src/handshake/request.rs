//! The request of a client, as a server reads it.

use super::accept::Key;
use super::head::{FieldValues, Fields, HeadFault, Received, end_of_head, split};
use super::response::{Accepted, Status};
use core::fmt;

/// Why a request is refused. Shows itself as a text for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The head has more than 16 KiB.
    HeadTooLarge,
    /// The head has more than 100 fields.
    TooManyFields,
    /// The first line is no request line, or its target is not a path.
    BadRequestLine,
    /// The version is not HTTP/1.1.
    HttpVersion,
    /// The method is not GET.
    Method,
    /// A line does not end with CRLF, is no field, or has a control character.
    BadField,
    /// A field is continued on a second line.
    Folded,
    /// No Host, several, or none that names a host.
    Host,
    /// The request has a body, or bytes follow it before it is answered (RFC 6455 section 4.1).
    Body,
    /// A field that may be there once is there several times.
    Repeated,
    /// The request does not ask for WebSocket.
    NotWebSocket,
    /// Connection does not have the token `Upgrade`.
    Connection,
    /// Sec-WebSocket-Version is missing.
    NoVersion,
    /// Sec-WebSocket-Version is not 13.
    Version,
    /// Sec-WebSocket-Key is missing or not 16 bytes.
    Key,
    /// The subprotocol `sip` is not offered (RFC 7118 section 4.1).
    Subprotocol,
}

impl Refusal {
    /// The status of the response.
    pub const fn status(self) -> Status {
        match self {
            Refusal::HeadTooLarge | Refusal::TooManyFields => Status::FieldsTooLarge,
            Refusal::Method => Status::MethodNotAllowed,
            Refusal::NotWebSocket | Refusal::Version => Status::UpgradeRequired,
            _ => Status::BadRequest,
        }
    }

    /// What the log says.
    pub const fn reason(self) -> &'static str {
        match self {
            Refusal::HeadTooLarge => "head too large",
            Refusal::TooManyFields => "too many header fields",
            Refusal::BadRequestLine => "malformed request line",
            Refusal::HttpVersion => "not HTTP/1.1",
            Refusal::Method => "method is not GET",
            Refusal::BadField => "malformed header field",
            Refusal::Folded => "folded header field",
            Refusal::Host => "not one valid Host",
            Refusal::Body => "bytes after the head",
            Refusal::Repeated => "header field repeated",
            Refusal::NotWebSocket => "no upgrade to WebSocket",
            Refusal::Connection => "no Upgrade in Connection",
            Refusal::NoVersion => "no Sec-WebSocket-Version",
            Refusal::Version => "Sec-WebSocket-Version is not 13",
            Refusal::Key => "not one valid Sec-WebSocket-Key",
            Refusal::Subprotocol => "subprotocol sip not offered",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl From<HeadFault> for Refusal {
    fn from(fault: HeadFault) -> Refusal {
        match fault {
            HeadFault::TooLarge => Refusal::HeadTooLarge,
            HeadFault::TooManyFields => Refusal::TooManyFields,
            HeadFault::BadField => Refusal::BadField,
            HeadFault::Folded => Refusal::Folded,
        }
    }
}

/// Reads the request at the start of a connection. `resume` is what the last [`Received::Partial`] said, 0 at
/// first.
///
/// Strict, so that no intermediary reads another request out of the same bytes: GET and HTTP/1.1 alone, a
/// path as the target, one Host, no body, nothing after the head.
pub fn read_request(buffer: &[u8], resume: usize) -> Result<Received<Request<'_>>, Refusal> {
    if !is_plausible(buffer) {
        return Err(Refusal::BadRequestLine);
    }
    let end = match end_of_head(buffer, resume)? {
        Received::Partial { resume } => return Ok(Received::Partial { resume }),
        Received::Whole(end) => end,
    };
    let (line, fields) = split(&buffer[..end])?;
    let target = request_line(line)?;
    let single = |name| fields.single(name).map_err(|()| Refusal::Repeated);
    let host = single("Host").ok().flatten().filter(|host| is_host(host)).ok_or(Refusal::Host)?;
    let length = single("Content-Length")?;
    let has_body =
        length.is_some_and(|length| length != b"0") || fields.values("Transfer-Encoding").next().is_some();
    if has_body || end < buffer.len() {
        return Err(Refusal::Body);
    }
    Ok(Received::Whole(Request { target, host, fields }))
}

/// Whether the bytes can be the start of a request. Ends a connection that speaks TLS or SIP before it has
/// filled a buffer or waited for a deadline.
fn is_plausible(buffer: &[u8]) -> bool {
    match buffer.iter().take(16).position(|byte| !byte.is_ascii_uppercase()) {
        None => buffer.len() < 16,
        Some(end) => end > 0 && buffer[end] == b' ',
    }
}

/// The target in a request line.
fn request_line(line: &[u8]) -> Result<&[u8], Refusal> {
    let mut parts = line.split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Refusal::BadRequestLine);
    };
    let is_path =
        target.starts_with(b"/") && target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#');
    if method != b"GET" {
        Err(Refusal::Method)
    } else if version != b"HTTP/1.1" {
        Err(Refusal::HttpVersion)
    } else if !is_path {
        Err(Refusal::BadRequestLine)
    } else {
        Ok(target)
    }
}

/// Whether a value of Host has only characters of a host and a port.
fn is_host(host: &[u8]) -> bool {
    !host.is_empty() && host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%:[]".contains(byte))
}

/// A request without a body. It may ask for WebSocket or not.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    target: &'a [u8],
    host: &'a [u8],
    fields: Fields<'a>,
}

impl<'a> Request<'a> {
    /// The path as it was sent, with its escapes.
    pub fn path(&self) -> &'a [u8] {
        self.target.split(|&byte| byte == b'?').next().unwrap_or_default()
    }

    /// What follows the question mark, as it was sent.
    pub fn query(&self) -> Option<&'a [u8]> {
        self.target.get(self.path().len() + 1..)
    }

    /// The Host field.
    pub fn host(&self) -> &'a [u8] {
        self.host
    }

    /// All header fields.
    pub fn fields(&self) -> Fields<'a> {
        self.fields
    }

    /// Whether it asks for WebSocket. A request that does not, such as `GET /healthz`, is the caller's to
    /// answer.
    pub fn asks_for_websocket(&self) -> bool {
        self.fields.lists("Upgrade", "websocket")
    }

    /// Reads it as the handshake of a client that speaks SIP (RFC 6455 section 4.2.1, RFC 7118 section 4.1).
    pub fn upgrade(&self) -> Result<Upgrade<'a>, Refusal> {
        let fields = self.fields;
        let single = |name| fields.single(name).map_err(|()| Refusal::Repeated);
        if !self.asks_for_websocket() {
            return Err(Refusal::NotWebSocket);
        }
        if !fields.lists("Connection", "Upgrade") {
            return Err(Refusal::Connection);
        }
        match single("Sec-WebSocket-Version")? {
            None => return Err(Refusal::NoVersion),
            Some(b"13") => {}
            Some(_) => return Err(Refusal::Version),
        }
        let key = single("Sec-WebSocket-Key")?.and_then(Key::from_field).ok_or(Refusal::Key)?;
        let (origin, authorization) = (single("Origin")?, single("Authorization")?);
        let upgrade = Upgrade { request: *self, key, origin, authorization };
        if upgrade.subprotocols().any(|name| name == b"sip") {
            Ok(upgrade)
        } else {
            Err(Refusal::Subprotocol)
        }
    }
}

/// A valid handshake of a client. Whether its path, Origin and credentials are accepted is for the caller to
/// decide: [`Upgrade::accept`] is the answer that does, [`Status::response`] has those that refuse.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade<'a> {
    request: Request<'a>,
    key: Key,
    origin: Option<&'a [u8]>,
    authorization: Option<&'a [u8]>,
}

impl<'a> Upgrade<'a> {
    /// The request: its path, query and other header fields.
    pub fn request(&self) -> Request<'a> {
        self.request
    }

    /// The Origin as it was sent. Browsers always send one (RFC 6455 section 10.2), other clients seldom do.
    pub fn origin(&self) -> Option<&'a [u8]> {
        self.origin
    }

    /// The Authorization field, with its scheme.
    pub fn authorization(&self) -> Option<&'a [u8]> {
        self.authorization
    }

    /// The values of Cookie, which RFC 7118 section 7 has a server look at.
    pub fn cookies(&self) -> FieldValues<'a> {
        self.request.fields.values("Cookie")
    }

    /// The subprotocols on offer, the preferred one first. `sip` is among them.
    pub fn subprotocols(&self) -> impl Iterator<Item = &'a [u8]> {
        self.request.fields.list("Sec-WebSocket-Protocol")
    }

    /// Its key.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The response that accepts it, with the subprotocol `sip` and without extensions.
    pub fn accept(&self) -> Accepted {
        Accepted::new(&self.key)
    }
}
