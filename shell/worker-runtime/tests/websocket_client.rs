//! WebSocket connections that a worker opens, as a load generator's does: over TCP and TLS, refused ones, and
//! one connection for several workers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::secure::Authority;
use common::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use tls::{ClientCertificates, GeneratorSettings, Versions};
use wire::Transport;
use worker_runtime::{RuntimeConfig, WebSocketClient};

/// A server with a WebSocket listener behind the two of [`config`].
fn server(transport: Transport, mut config: RuntimeConfig) -> (Server, SocketAddr) {
    secure::listens(&mut config, transport);
    let server = Server::with(config, 1);
    let address = server.handle.listeners()[2].address;
    (server, address)
}

fn caller(path: &str, workers: u16, change: impl FnOnce(&mut RuntimeConfig)) -> Server {
    let mut config = config("127.0.0.1");
    config.websocket_client = Some(WebSocketClient::new("example.org", path));
    change(&mut config);
    Server::with(config, workers)
}

/// Waits until a line has come.
fn heard(server: &Server, line: &str) {
    server.wait_told(line, |(_, told)| *told == Told::Message(line.to_owned()));
}

#[test]
fn line_and_its_echo_go_over_websocket() {
    let (server, address) = server(Transport::Ws, config("127.0.0.1"));
    let caller = caller("/sip", 1, |_| {});
    caller.act(0, &format!(">ws {address} 7 quiet first"));
    caller.act(0, &format!(">ws {address} 7 echo"));
    heard(&server, "quiet first");
    // The echo comes back over the same connection, and is echoed again: the two talk on.
    caller.wait_count("the echoes", |c| c.tcp_messages_in > 3);
    let counts = caller.counts();
    assert_eq!((counts.tcp_connects, counts.websocket_handshakes, counts.websocket_faults), (1, 1, 0));
    let counts = server.counts();
    assert_eq!((counts.websocket_handshakes, counts.websocket_faults), (1, 0), "all is masked");
}

#[test]
fn long_messages_keep_their_bytes() {
    let (server, address) = server(Transport::Ws, config("127.0.0.1"));
    let caller = caller("/", 1, |_| {});
    for len in [1, 124, 125, 126, 5_000, 65_530, 65_540, 200_000] {
        let line = format!("quiet {}", "ab".repeat(len / 2));
        caller.act(0, &format!(">ws {address} 7 {line}"));
        heard(&server, &line);
    }
    assert_eq!((caller.counts().tcp_connects, server.counts().websocket_faults), (1, 0));
}

#[test]
fn line_goes_over_websocket_and_tls() {
    let authority = Authority::new();
    let certificate = authority.certificate(&["example.org"]);
    let settings = authority.serving(&[certificate], ClientCertificates::Off);
    let roots = Arc::clone(&authority.roots);
    let mut secure = config("127.0.0.1");
    secure.tls = Some(settings.server().unwrap());
    let (server, address) = server(Transport::Wss, secure);
    for (name, believed) in [("example.org", true), ("example.com", false)] {
        let settings = GeneratorSettings {
            roots: Some(Arc::clone(&roots)),
            certificate: None,
            versions: Versions::Both,
            resume: true,
        };
        let caller = caller("/", 1, |config| config.tls_client = Some(settings.client(name).unwrap()));
        caller.act(0, &format!(">wss {address} 7 quiet {name}"));
        if believed {
            heard(&server, "quiet example.org");
            let counts = caller.counts();
            assert_eq!((counts.tls_handshakes, counts.websocket_handshakes), (1, 1));
            continue;
        }
        caller.wait_told("the failure", |(_, told)| *told == Told::Undeliverable(7));
        assert_eq!((caller.counts().tls_unproven, caller.handle.websocket_fault()), (1, None));
        assert!(caller.handle.tls_fault().is_some_and(|why| why.contains("not of example.com")));
    }
}

#[test]
fn refusal_is_reported_and_fails_the_message() {
    let mut strict = config("127.0.0.1");
    strict.websocket.path = Some("/sip".into());
    let (_server, address) = server(Transport::Ws, strict);
    let caller = caller("/other", 1, |_| {});
    caller.act(0, &format!(">ws {address} 7 quiet"));
    caller.wait_told("the failure", |(_, told)| *told == Told::Undeliverable(7));
    assert_eq!(caller.handle.websocket_fault(), Some("status 404 instead of 101"));
    assert_eq!((caller.counts().tcp_connect_failures, caller.counts().tls_unproven), (1, 0));
}

/// The key in a request that has come as a whole.
fn asked(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn server_without_websocket_fails_the_message() {
    let wrong = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: sip\r\n\r\n";
    for (answer, why) in [
        ("SIP/2.0 400 Bad Request\r\n\r\n", "malformed response"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "status 200 instead of 101"),
        (wrong, "Sec-WebSocket-Accept does not fit the key"),
        ("", "the server closed the connection in the handshake"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = caller("/", 1, |_| {});
        caller.act(0, &format!(">ws {} 7 quiet", listener.local_addr().unwrap()));
        let mut stream = patient(listener.accept().unwrap().0);
        let request = asked(&mut stream);
        assert!(request.starts_with("GET / HTTP/1.1\r\nHost: example.org\r\n"), "{request}");
        stream.write_all(answer.as_bytes()).unwrap();
        drop(stream);
        caller.wait_told("the failure", |(_, told)| *told == Told::Undeliverable(7));
        assert_eq!(caller.handle.websocket_fault(), Some(why), "{answer}");
    }
}

/// The key of a request and what a server answers to it, by a reader of our own crate.
fn accept(request: &str) -> Vec<u8> {
    let Ok(websocket::Received::Whole(request)) = websocket::read_request(request.as_bytes(), 0) else {
        panic!("{request}")
    };
    request.upgrade().unwrap().accept().as_bytes().to_vec()
}

#[test]
fn control_frames_of_a_client_are_masked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let caller = caller("/", 1, |_| {});
    caller.act(0, &format!(">ws {} 7 quiet", listener.local_addr().unwrap()));
    let mut stream = patient(listener.accept().unwrap().0);
    // The first frames come with the response: a message in two pieces, and a Ping.
    let mut answer = accept(&asked(&mut stream));
    answer.extend(b"\x01\x04quie\x80\x02t!\x89\x02hi");
    stream.write_all(&answer).unwrap();
    heard(&caller, "quiet!");
    let mut frame = |opcode: u8, payload: &[u8]| {
        let mut head = [0; 6];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head[..2], [0x80 | opcode, 0x80 | payload.len() as u8], "a mask of its own");
        let mut body = vec![0; payload.len()];
        stream.read_exact(&mut body).unwrap();
        body.iter_mut().zip(head[2..].iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        assert_eq!(body, payload);
        head[2..].to_vec()
    };
    let first = frame(1, b"quiet\n");
    assert_ne!(first, frame(10, b"hi"), "each frame has another mask");
    drop(caller);
    frame(8, &1001_u16.to_be_bytes());
}

#[test]
fn workers_that_begin_at_once_share_one_connection() {
    for _ in 0..20 {
        let (server, address) = server(Transport::Ws, config("127.0.0.1"));
        let caller = caller("/", 4, |_| {});
        for worker in 0..4 {
            caller.act(worker, &format!(">ws {address} 7 quiet {worker}"));
        }
        for worker in 0..4 {
            heard(&server, &format!("quiet {worker}"));
        }
        assert_eq!(caller.counts().tcp_connects, 1);
    }
}
