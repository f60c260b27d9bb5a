//! The client's side of the opening handshake.

use super::*;

const RESPONSE: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: sip\r\n\r\n";

fn key() -> Key {
    Key::new(*b"the sample nonce")
}

fn request() -> ClientRequest<'static> {
    ClientRequest { host: "a:8080", target: "/ws?x=1", origin: None, authorization: None, key: key() }
}

#[track_caller]
fn refused(response: &str, fault: ResponseFault) {
    assert_eq!(read_response(response.as_bytes(), 0, &key()), Err(fault), "{response}");
    assert!(!fault.to_string().is_empty());
}

#[test]
fn client_and_server_accept_each_others_handshake() {
    let asked = ClientRequest { origin: Some("https://a"), authorization: Some("Bearer x"), ..request() };
    let mut bytes = Vec::new();
    asked.write(&mut bytes).expect("it is valid");
    let Ok(Received::Whole(request)) = read_request(&bytes, 0) else { panic!("{}", bytes.escape_ascii()) };
    let upgrade = request.upgrade().expect("it is valid");
    assert_eq!((request.path(), request.query()), (&b"/ws"[..], Some(&b"x=1"[..])));
    assert_eq!((request.host(), upgrade.origin()), (&b"a:8080"[..], Some(&b"https://a"[..])));
    assert_eq!(upgrade.authorization(), Some(&b"Bearer x"[..]));
    let accepted = upgrade.accept();
    let len = accepted.as_bytes().len();
    let followed = [accepted.as_bytes(), b"\x89\x00"].concat();
    assert_eq!(read_response(&followed, 0, &key()), Ok(Received::Whole(len)));
}

#[test]
fn parts_that_would_change_the_request_are_refused() {
    let mut out = Vec::new();
    let mut write = |request: ClientRequest<'_>| request.write(&mut out);
    assert_eq!(write(ClientRequest { host: "a\r\nX: 1", ..request() }), Err(InvalidPart::Host));
    assert_eq!(write(ClientRequest { host: "", ..request() }), Err(InvalidPart::Host));
    assert_eq!(write(ClientRequest { target: "/a b", ..request() }), Err(InvalidPart::Target));
    assert_eq!(write(ClientRequest { target: "ws", ..request() }), Err(InvalidPart::Target));
    assert_eq!(write(ClientRequest { origin: Some("a\n"), ..request() }), Err(InvalidPart::Field));
    assert_eq!(write(ClientRequest { authorization: Some("a\r"), ..request() }), Err(InvalidPart::Field));
    assert!(out.is_empty());
}

#[test]
fn response_may_come_in_any_pieces() {
    let mut resume = 0;
    for end in 0..RESPONSE.len() {
        match read_response(&RESPONSE.as_bytes()[..end], resume, &key()) {
            Ok(Received::Partial { resume: next }) => resume = next,
            other => panic!("{other:?} after {end} bytes"),
        }
    }
    assert_eq!(read_response(RESPONSE.as_bytes(), resume, &key()), Ok(Received::Whole(RESPONSE.len())));
}

#[test]
fn other_statuses_are_reported() {
    for (line, code) in [("HTTP/1.1 403 Forbidden", 403), ("HTTP/1.0 503", 503), ("HTTP/1.1 302 Found", 302)]
    {
        refused(&format!("{line}\r\nContent-Length: 0\r\n\r\n"), ResponseFault::Status(code));
    }
    refused(&RESPONSE.replace("HTTP/1.1", "HTTP/1.0"), ResponseFault::Status(101));
}

#[test]
fn responses_that_do_not_fit_are_refused() {
    let without = |line: &str| RESPONSE.replace(&format!("{line}\r\n"), "");
    refused(&without("Upgrade: websocket"), ResponseFault::NotUpgraded);
    refused(&without("Connection: Upgrade"), ResponseFault::NotUpgraded);
    refused(&RESPONSE.replace("s3pP", "S3pP"), ResponseFault::Accept);
    refused(&without("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), ResponseFault::Accept);
    refused(&without("Sec-WebSocket-Protocol: sip"), ResponseFault::Subprotocol);
    refused(&RESPONSE.replace(": sip", ": msrp"), ResponseFault::Subprotocol);
    let twice = "Sec-WebSocket-Protocol: sip\r\nSec-WebSocket-Protocol: sip";
    refused(&RESPONSE.replace("Sec-WebSocket-Protocol: sip", twice), ResponseFault::Subprotocol);
    let extended = "Upgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate";
    refused(&RESPONSE.replace("Upgrade: websocket", extended), ResponseFault::Extension);
}

#[test]
fn bytes_other_than_a_response_are_refused() {
    for bytes in [
        "SIP/2.0 200 OK\r\n\r\n",
        "HTTP/2 101",
        "HTTP/1.1 1O1 x\r\n\r\n",
        "HTTP/1.1 1010\r\n\r\n",
        "HTTP/1.1 099\r\n\r\n",
    ] {
        refused(bytes, ResponseFault::Malformed);
    }
    refused(&RESPONSE.replace("Upgrade: websocket\r", "Upgrade: websocket"), ResponseFault::Malformed);
    refused(&format!("HTTP/1.1 101 {}", "x".repeat(17_000)), ResponseFault::Malformed);
}
