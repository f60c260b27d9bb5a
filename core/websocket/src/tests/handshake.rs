//! The server's side of the opening handshake.

use super::*;

/// The request of RFC 7118 section 4.1.
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: sip-ws.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://www.example.com\r\n\
    Sec-WebSocket-Protocol: sip\r\nSec-WebSocket-Version: 13\r\n\r\n";

fn whole(request: &str) -> Result<Request<'_>, Refusal> {
    match read_request(request.as_bytes(), 0)? {
        Received::Whole(request) => Ok(request),
        Received::Partial { .. } => panic!("not whole: {request}"),
    }
}

/// That the handshake is refused for this reason with this status.
#[track_caller]
fn refused(request: &str, refusal: Refusal, status: u16) {
    assert_eq!(whole(request).and_then(|request| request.upgrade()).map(|_| ()), Err(refusal), "{request}");
    assert_eq!(refusal.status().code(), status);
    let response = refusal.status().response();
    assert!(response.starts_with(format!("HTTP/1.1 {status} ").as_bytes()));
    assert!(response.ends_with(b"\r\nContent-Length: 0\r\n\r\n"));
}

/// The request with a line in place of the first one that begins like this.
fn with(name: &str, line: &str) -> String {
    let (head, rest) = REQUEST.split_once(name).expect("it has the line");
    let (_, rest) = rest.split_once("\r\n").expect("lines end");
    format!("{head}{line}{rest}")
}

#[test]
fn handshake_of_the_rfc_is_accepted() {
    let upgrade = whole(REQUEST).and_then(|request| request.upgrade()).expect("it is valid");
    let request = upgrade.request();
    assert_eq!((request.path(), request.query()), (&b"/"[..], None));
    assert_eq!(request.host(), b"sip-ws.example.com");
    assert_eq!(upgrade.origin(), Some(&b"http://www.example.com"[..]));
    assert_eq!(upgrade.authorization(), None);
    assert_eq!(upgrade.key().as_bytes(), b"dGhlIHNhbXBsZSBub25jZQ==");
    assert_eq!(
        upgrade.accept().as_bytes(),
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: sip\r\n\r\n"
    );
}

#[test]
fn facts_are_given_as_they_were_sent() {
    let request = "GET /ws/a%20b?token=1&x=%3f?2 HTTP/1.1\r\nhOST:   [2001:db8::1]:8080  \r\n\
        Upgrade: h2c, WebSocket\r\nConnection: keep-alive , UPGRADE\r\nSec-WebSocket-Protocol: xmpp,, sip\r\n\
        Sec-WebSocket-Protocol: mqtt\r\nAuthorization: Bearer abc\r\nCookie: a=1\r\nContent-Length: 0\r\n\
        Sec-WebSocket-Extensions: permessage-deflate\r\n\
        Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let upgrade = whole(request).and_then(|request| request.upgrade()).expect("it is valid");
    let request = upgrade.request();
    assert_eq!((request.path(), request.query()), (&b"/ws/a%20b"[..], Some(&b"token=1&x=%3f?2"[..])));
    assert_eq!(request.host(), b"[2001:db8::1]:8080");
    assert_eq!(upgrade.subprotocols().collect::<Vec<_>>(), [&b"xmpp"[..], b"sip", b"mqtt"]);
    assert_eq!((upgrade.origin(), upgrade.authorization()), (None, Some(&b"Bearer abc"[..])));
    assert_eq!(upgrade.cookies().collect::<Vec<_>>(), [b"a=1"]);
    assert_eq!(request.fields().count(), 11);
}

#[test]
fn health_check_is_left_to_the_caller() {
    let request = whole("GET /healthz?full HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is valid HTTP");
    assert!(!request.asks_for_websocket());
    assert_eq!((request.path(), request.query()), (&b"/healthz"[..], Some(&b"full"[..])));
    assert_eq!(request.upgrade().map(|_| ()), Err(Refusal::NotWebSocket));
    let mut out = Vec::new();
    write_response(&mut out, 200, "OK", "ok\n");
    let text = String::from_utf8(out).expect("ASCII");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("\r\nContent-Length: 3\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\nok\n"), "{text}");
}

#[test]
fn requests_without_websocket_are_told_to_upgrade() {
    refused(&with("Upgrade:", ""), Refusal::NotWebSocket, 426);
    refused(&with("Upgrade:", "Upgrade: h2c\r\n"), Refusal::NotWebSocket, 426);
    refused(&with("Sec-WebSocket-Version:", "Sec-WebSocket-Version: 8\r\n"), Refusal::Version, 426);
    let response = Status::UpgradeRequired.response().escape_ascii().to_string();
    assert!(response.contains("Sec-WebSocket-Version: 13") && response.contains("Upgrade: websocket"));
}

#[test]
fn incomplete_handshakes_are_refused() {
    refused(&with("Connection:", ""), Refusal::Connection, 400);
    refused(&with("Connection:", "Connection: close\r\n"), Refusal::Connection, 400);
    refused(&with("Sec-WebSocket-Key:", ""), Refusal::Key, 400);
    refused(&with("Sec-WebSocket-Key:", "Sec-WebSocket-Key: short\r\n"), Refusal::Key, 400);
    refused(&with("Sec-WebSocket-Version:", ""), Refusal::NoVersion, 400);
    refused(&with("Sec-WebSocket-Protocol:", ""), Refusal::Subprotocol, 400);
    refused(
        &with("Sec-WebSocket-Protocol:", "Sec-WebSocket-Protocol: SIP, msrp\r\n"),
        Refusal::Subprotocol,
        400,
    );
}

#[test]
fn repeated_fields_are_refused() {
    for name in ["Origin", "Sec-WebSocket-Version", "Sec-WebSocket-Key", "Authorization", "Content-Length"] {
        let line = format!("{name}: 0\r\n{name}: 0\r\nSec-WebSocket-Version");
        refused(&REQUEST.replace("Sec-WebSocket-Version", &line), Refusal::Repeated, 400);
    }
}

/// Nothing that another reader of HTTP could take for a second request, or for one to another host.
#[test]
fn smuggled_requests_are_refused() {
    refused(&with("Host:", "Host: a\r\nHost: b\r\n"), Refusal::Host, 400);
    refused(&with("Host:", ""), Refusal::Host, 400);
    refused(&with("Host:", "Host:\r\n"), Refusal::Host, 400);
    refused(&with("Host:", "Host: a, b\r\n"), Refusal::Host, 400);
    refused(&with("Host:", "Host: a\r\nContent-Length: 5\r\n"), Refusal::Body, 400);
    refused(&with("Host:", "Host: a\r\nContent-Length: 00\r\n"), Refusal::Body, 400);
    refused(&with("Host:", "Host: a\r\nTransfer-Encoding: chunked\r\n"), Refusal::Body, 400);
    refused(&with("Host:", "Host: a\r\nTransfer-Encoding:\r\n"), Refusal::Body, 400);
    refused(&with("Host:", "Host: a\r\nTransfer-Encoding : chunked\r\n"), Refusal::BadField, 400);
    refused(&with("Host:", "Host: a\r\nX: 1\r\n Transfer-Encoding: chunked\r\n"), Refusal::Folded, 400);
    refused(&with("Host:", "Host: a\r\nX: 1\rTransfer-Encoding: chunked\r\n"), Refusal::BadField, 400);
    refused(&with("Host:", "Host: a\r\nX: 1\nTransfer-Encoding: chunked\r\n"), Refusal::BadField, 400);
    refused(&with("Host:", "Host: a\r\nX: 1\0\r\n"), Refusal::BadField, 400);
    refused(&with("Host:", "Host: a\r\n: nameless\r\n"), Refusal::BadField, 400);
    refused(&with("Host:", "Host: a\r\nno colon\r\n"), Refusal::BadField, 400);
    refused(&format!("{REQUEST}GET /second HTTP/1.1\r\n"), Refusal::Body, 400);
    refused(&format!("{REQUEST}\u{1}"), Refusal::Body, 400);
}

#[test]
fn other_request_lines_are_refused() {
    refused(&with("GET", "POST / HTTP/1.1\r\n"), Refusal::Method, 405);
    refused(&with("GET", "GETT / HTTP/1.1\r\n"), Refusal::Method, 405);
    refused(&with("GET", "GET / HTTP/1.0\r\n"), Refusal::HttpVersion, 400);
    refused(&with("GET", "GET / HTTP/2.0\r\n"), Refusal::HttpVersion, 400);
    for line in [
        "GET /\r\n",
        "GET  / HTTP/1.1\r\n",
        "GET / HTTP/1.1 \r\n",
        "GET /a b HTTP/1.1\r\n",
        "get / HTTP/1.1\r\n",
    ] {
        refused(&with("GET", line), Refusal::BadRequestLine, 400);
    }
    for target in ["http://a/", "a", "*", "/#x", "/\u{7f}", "/é"] {
        refused(&with("GET", &format!("GET {target} HTTP/1.1\r\n")), Refusal::BadRequestLine, 400);
    }
}

#[test]
fn large_heads_are_refused() {
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(16_384));
    assert_eq!(read_request(long.as_bytes(), 0).map(|_| ()), Err(Refusal::HeadTooLarge));
    let many = format!("Host: a\r\n{}", "X: 1\r\n".repeat(94));
    refused(&with("Host:", &many), Refusal::TooManyFields, 431);
    assert!(whole(&with("Host:", &many[..many.len() - 6])).is_ok());
    assert_eq!(Refusal::HeadTooLarge.status().code(), 431);
}

#[test]
fn other_protocols_are_refused_early() {
    for bytes in [&b"\x16\x03\x01"[..], b"\r\n\r\n", b"{", b"get", b"OPTIONSOPTIONSOPTIONS", b"SIP/2.0"] {
        let refused = read_request(bytes, 0).map(|_| ());
        assert_eq!(refused, Err(Refusal::BadRequestLine), "{}", bytes.escape_ascii());
    }
    assert_eq!(read_request(b"GET / HTTP/1.1\n", 0).map(|_| ()), Err(Refusal::BadField));
}

#[test]
fn request_may_come_in_any_pieces() {
    let bytes = REQUEST.as_bytes();
    let mut resume = 0;
    for end in 0..bytes.len() {
        match read_request(&bytes[..end], resume) {
            Ok(Received::Partial { resume: next }) => resume = next,
            other => panic!("{other:?} after {end} bytes"),
        }
    }
    assert!(matches!(read_request(bytes, resume), Ok(Received::Whole(_))));
}

#[test]
fn statuses_of_the_caller_have_responses() {
    for status in [Status::Unauthorized, Status::Forbidden, Status::NotFound, Status::Unavailable] {
        let text = status.response().escape_ascii().to_string();
        assert!(text.contains(&format!("HTTP/1.1 {} ", status.code())) && text.contains("Connection: close"));
    }
}
