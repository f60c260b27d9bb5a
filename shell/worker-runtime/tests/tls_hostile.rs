//! What strangers send over TLS: each ends in a defined way, is counted, and keeps nobody else waiting.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::forge::{ALERT, DATA, Forge, HANDSHAKE};
use common::*;
use rustls::ClientConfig;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use wire::Transport;

/// A server of TLS with a phone on it that is served all the time.
struct Target {
    server: Server,
    client: Arc<ClientConfig>,
    phone: secure::Stream,
}

impl Target {
    fn start() -> Target {
        let mut config = config("127.0.0.1");
        secure::listens(&mut config, Transport::Tls);
        let client = secure::secured(&mut config);
        let server = Server::with(config, 1);
        let phone = secure::connect(&client, secure::address(&server));
        let mut target = Target { server, client, phone };
        target.serves();
        target
    }

    /// Whether the phone is served.
    fn serves(&mut self) {
        self.phone.write_all(b"hello\n").unwrap();
        let mut answer = [0; 6];
        self.phone.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello\n");
    }

    fn tcp(&self) -> TcpStream {
        patient(TcpStream::connect(secure::address(&self.server)).unwrap())
    }

    fn forge(&self) -> Forge {
        Forge::client(&self.client, self.tcp())
    }

    /// Waits until only the phone is left, which is served.
    fn is_left_with_the_phone(&mut self) -> worker_runtime::Counts {
        let counts = self.server.wait_count("the end of the others", |c| c.tcp_open == 1);
        self.serves();
        counts
    }
}

/// Reads until the end of the stream, in whatever way it comes.
fn hear_the_end(tcp: &mut TcpStream) {
    let mut buffer = [0; 4_096];
    while tcp.read(&mut buffer).is_ok_and(|n| n > 0) {}
}

#[test]
fn messages_before_a_fault_are_handed_on() {
    let mut target = Target::start();
    let line = |n: usize, end: &str| format!("quiet {n} {end}\n");
    for (n, kind) in ["bad record", "alert", "garbage"].into_iter().enumerate() {
        for count in [1, 500] {
            let mut forge = target.forge();
            let lines: String = (0..count).map(|at| line(at, kind)).collect();
            let mut bytes = forge.seal(DATA, lines.as_bytes(), 0);
            let mut end = forge.seal(ALERT, &[2, 80], 0);
            match n {
                0 => end[10] ^= 1,
                1 => {}
                _ => end = b"\x00garbage".to_vec(),
            }
            bytes.extend(end);
            let before = target.server.counts().tls_failures;
            // Maybe together with the end of the handshake.
            forge.tcp.write_all(&bytes).unwrap();
            hear_the_end(&mut forge.tcp);
            let counts = target.is_left_with_the_phone();
            assert_eq!(counts.tls_failures, before + 1, "{kind}");
            let told = target.server.told();
            let of = |(_, told): &&(u16, Told)| matches!(told, Told::Message(line) if line.ends_with(kind));
            assert_eq!(told.iter().filter(of).count(), if count == 1 { 1 } else { 501 }, "{kind}");
        }
    }
    let counts = target.server.counts();
    assert_eq!((counts.tls_failed_alert, counts.tls_failed_other, counts.tls_closed_error), (2, 4, 6));
    assert_eq!(HANDSHAKE, 22);
}
