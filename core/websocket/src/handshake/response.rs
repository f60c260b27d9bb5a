//! What a server answers.

use super::accept::Key;

const BEFORE: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: ";
const AFTER: &[u8] = b"\r\nSec-WebSocket-Protocol: sip\r\n\r\n";
/// Characters of the value of Sec-WebSocket-Accept.
const VALUE: usize = 28;
const LENGTH: usize = BEFORE.len() + VALUE + AFTER.len();

/// The response that accepts a connection (RFC 6455 section 4.2.2, RFC 7118 section 4.1).
#[derive(Clone, Copy, Debug)]
pub struct Accepted([u8; LENGTH]);

impl Accepted {
    /// The response to a request with this key.
    pub(crate) fn new(key: &Key) -> Accepted {
        let mut bytes = [0; LENGTH];
        let (before, rest) = bytes.split_at_mut(BEFORE.len());
        let (value, after) = rest.split_at_mut(VALUE);
        before.copy_from_slice(BEFORE);
        value.copy_from_slice(&key.accept());
        after.copy_from_slice(AFTER);
        Accepted(bytes)
    }

    /// What is sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The statuses of responses that refuse. The connection is closed after each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// 400: the request is malformed, or it is no handshake for SIP.
    BadRequest,
    /// 401: the caller found no valid credentials (RFC 7118 section 7).
    Unauthorized,
    /// 403: the caller does not accept the Origin (RFC 6455 section 10.2).
    Forbidden,
    /// 404: the caller has no such path.
    NotFound,
    /// 405: the method is not GET.
    MethodNotAllowed,
    /// 426: the request is not of WebSocket, or of another version than 13.
    UpgradeRequired,
    /// 431: the head of the request is too large.
    FieldsTooLarge,
    /// 503: the caller accepts no more connections now.
    Unavailable,
}

macro_rules! response {
    ($status:literal, $($line:literal),*) => {
        concat!("HTTP/1.1 ", $status, "\r\n", $($line, "\r\n",)* "Content-Length: 0\r\n\r\n").as_bytes()
    };
}

impl Status {
    /// Its code.
    pub const fn code(self) -> u16 {
        match self {
            Status::BadRequest => 400,
            Status::Unauthorized => 401,
            Status::Forbidden => 403,
            Status::NotFound => 404,
            Status::MethodNotAllowed => 405,
            Status::UpgradeRequired => 426,
            Status::FieldsTooLarge => 431,
            Status::Unavailable => 503,
        }
    }

    /// The whole response. It repeats nothing of the request, so a request cannot influence it.
    pub const fn response(self) -> &'static [u8] {
        match self {
            Status::BadRequest => response!("400 Bad Request", "Connection: close"),
            Status::Unauthorized => {
                response!("401 Unauthorized", "WWW-Authenticate: Bearer", "Connection: close")
            }
            Status::Forbidden => response!("403 Forbidden", "Connection: close"),
            Status::NotFound => response!("404 Not Found", "Connection: close"),
            Status::MethodNotAllowed => {
                response!("405 Method Not Allowed", "Allow: GET", "Connection: close")
            }
            Status::UpgradeRequired => response!(
                "426 Upgrade Required",
                "Upgrade: websocket",
                "Sec-WebSocket-Version: 13",
                "Connection: Upgrade, close"
            ),
            Status::FieldsTooLarge => {
                response!("431 Request Header Fields Too Large", "Connection: close")
            }
            Status::Unavailable => {
                response!("503 Service Unavailable", "Retry-After: 5", "Connection: close")
            }
        }
    }
}

/// Writes a small response with a text as its body, such as to `GET /healthz`, after which the connection is
/// closed. `code` has three digits, and `reason` no line end.
pub fn write_response(out: &mut Vec<u8>, code: u16, reason: &str, body: &str) {
    debug_assert!((100..=999).contains(&code), "status code {code}");
    debug_assert!(!reason.contains(['\r', '\n']), "line end in a reason phrase");
    out.extend_from_slice(
        format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
            Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .as_bytes(),
    );
}
