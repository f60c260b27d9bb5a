//! What strangers send in records of TLS: each ends in a defined way, is counted, and delays nobody else.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::forge::{ALERT, DATA, Forge, HANDSHAKE};
use common::secure::Authority;
use common::*;
use rustls::version::TLS12;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tls::ClientCertificates;
use wire::Transport;

/// A server of TLS with a phone on it that is served all the time.
struct Target {
    server: Server,
    client: Arc<ClientConfig>,
    roots: Arc<RootCertStore>,
    phone: secure::Stream,
}

impl Target {
    fn start() -> Target {
        let mut config = config("127.0.0.1");
        secure::listens(&mut config, Transport::Tls);
        let authority = Authority::new();
        let certificate = authority.certificate(&["example.org"]);
        config.tls = Some(authority.serving(&[certificate], ClientCertificates::Off).server().unwrap());
        let client = authority.settings(None).config().unwrap();
        let server = Server::with(config, 1);
        let phone = secure::connect(&client, secure::address(&server));
        let mut target = Target { server, client, roots: authority.roots, phone };
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
}

/// A plain record.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &(content.len() as u16).to_be_bytes(), content].concat()
}

/// The ClientHello of a client, without the header of its record.
fn hello(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes.split_off(5)
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Alert,
    Other,
    NotTls,
}

impl Target {
    /// A stranger that sends these bytes at once is refused, and counted once.
    fn refuses(&mut self, name: &str, tcp: &mut TcpStream, bytes: &[u8], kind: Kind) {
        let before = self.server.counts();
        // The end may come before all is written.
        let _ = tcp.write_all(bytes);
        hear_the_end(tcp);
        let counts = self.is_left_with_the_phone();
        let by_kind = [
            (Kind::Alert, counts.tls_failed_alert - before.tls_failed_alert),
            (Kind::Other, counts.tls_failed_other - before.tls_failed_other),
            (Kind::NotTls, counts.tls_failed_not_tls - before.tls_failed_not_tls),
        ];
        let wanted = by_kind.map(|(other, _)| (other, u64::from(other == kind)));
        assert_eq!(by_kind, wanted, "{name}");
        assert_eq!(counts.tls_failures, before.tls_failures + 1, "{name}");
    }

    /// Whether a forged client is served.
    fn answers(&mut self, name: &str, forge: &mut Forge) {
        let before = self.server.counts().tls_bytes_in;
        forge.send(DATA, b"hello\n");
        let counts = self.server.wait_count(name, |c| c.tls_bytes_in >= before + 6);
        assert_eq!((counts.tcp_open, counts.tls_failures), (2, 0), "{name}");
        self.serves();
    }
}

#[test]
fn records_of_one_byte_are_followed() {
    let mut target = Target::start();
    let mut tcp = target.tcp();
    let mut client = secure::client_end(&target.client);
    let hello = hello(&mut client);
    // First in one write, with the header of a record for each byte of the ClientHello.
    let records: Vec<u8> = hello.iter().flat_map(|byte| record(HANDSHAKE, &[*byte])).collect();
    tcp.write_all(&records).unwrap();
    while client.is_handshaking() {
        assert!(client.read_tls(&mut tcp).unwrap() > 0);
        client.process_new_packets().unwrap();
    }
    let mut stream = rustls::StreamOwned::new(client, tcp);
    for byte in b"hello\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello\n");
    target.serves();
    assert_eq!(target.server.counts().tls_failures, 0);
}

#[test]
fn empty_records_are_skipped_and_a_flood_is_refused() {
    let mut target = Target::start();
    let mut forge = target.forge();
    for _ in 0..20 {
        for kind in [DATA, HANDSHAKE] {
            let few: Vec<u8> = (0..5).flat_map(|_| forge.seal(kind, b"", 0)).collect();
            forge.tcp.write_all(&few).unwrap();
            target.answers("after empty records", &mut forge);
        }
    }
    // With much padding as well.
    let padded = forge.seal(DATA, b"", 16_000);
    forge.tcp.write_all(&padded).unwrap();
    target.answers("after a padded record", &mut forge);
    let many: Vec<u8> = (0..500).flat_map(|_| forge.seal(DATA, b"", 0)).collect();
    target.refuses("many empty records", &mut forge.tcp, &many, Kind::Other);
}

/// rustls remembers how far it has read; bytes that it has not discarded have to be there the next time.
#[test]
fn records_may_come_with_the_end_of_the_handshake() {
    let mut target = Target::start();
    for kinds in [
        &[DATA][..],
        &[HANDSHAKE],
        &[HANDSHAKE, HANDSHAKE],
        &[HANDSHAKE, DATA],
        &[DATA, HANDSHAKE],
        &[HANDSHAKE, DATA, HANDSHAKE, DATA],
    ] {
        for apart in [false, true] {
            let (mut forge, mut bytes) = Forge::with_flight(&target.client, target.tcp());
            let parts: Vec<Vec<u8>> = kinds.iter().map(|kind| forge.seal(*kind, b"", 0)).collect();
            let data = forge.seal(DATA, b"hello\n", 0);
            if apart {
                forge.tcp.write_all(&bytes).unwrap();
                parts.iter().for_each(|part| forge.tcp.write_all(part).unwrap());
                forge.tcp.write_all(&data).unwrap();
            } else {
                bytes.extend([parts.concat(), data].concat());
                forge.tcp.write_all(&bytes).unwrap();
            }
            for _ in 0..3 {
                target.answers(&format!("{kinds:?} {apart}"), &mut forge);
            }
            drop(forge);
            target.is_left_with_the_phone();
        }
    }
}

#[test]
fn empty_and_oversized_records_are_refused() {
    let mut target = Target::start();
    for (name, bytes) in [
        ("an empty record of the handshake", record(HANDSHAKE, b"")),
        ("an empty alert", record(ALERT, b"")),
        ("a plain record of 16,385 bytes", record(HANDSHAKE, &[1; 16_385])),
        ("a plain record of 65,535 bytes", record(HANDSHAKE, &[1; 65_535])),
        ("a ClientHello that is too long", record(HANDSHAKE, &[1, 1, 0, 0, 3, 3])),
        ("data before the handshake", record(DATA, b"hello\n")),
        ("an unknown kind", record(99, b"hello\n")),
        ("a Finished first", record(HANDSHAKE, &[20, 0, 0, 1, 0])),
    ] {
        let (mut tcp, first) = (target.tcp(), bytes[0]);
        let kind = if first == HANDSHAKE || first == ALERT { Kind::Other } else { Kind::NotTls };
        target.refuses(name, &mut tcp, &bytes, kind);
    }
    for (name, kind, content, padding) in [
        ("an encrypted empty alert", ALERT, &b""[..], 0),
        ("16,385 bytes in a record", DATA, &[b'a'; 16_385], 0),
        ("too much padding", DATA, b"a", 16_500),
        ("a kind zero", 0, b"a", 0),
        ("an unknown kind", 99, b"a", 0),
        ("a second ClientHello", HANDSHAKE, &[1, 0, 0, 1, 0], 0),
        ("a second Finished", HANDSHAKE, &[20, 0, 0, 1, 0], 0),
        ("a certificate that was not asked for", HANDSHAKE, &[11, 0, 0, 4, 0, 0, 0, 0], 0),
        ("a ChangeCipherSpec after the handshake", 20, &[1], 0),
        ("a message that is too long", HANDSHAKE, &[24, 0xff, 0xff, 0xff, 0], 0),
    ] {
        let mut forge = target.forge();
        let bytes = forge.seal(kind, content, padding);
        target.refuses(name, &mut forge.tcp, &bytes, Kind::Other);
    }
}

#[test]
fn alerts_end_a_connection_in_every_state() {
    const FATAL: [u8; 2] = [2, 40];
    let mut target = Target::start();
    let mut first = target.tcp();
    target.refuses("an alert first", &mut first, &record(ALERT, &FATAL), Kind::Alert);
    let mut half = target.tcp();
    let part = [record(HANDSHAKE, &[1, 0, 2, 0, 3]), record(ALERT, &FATAL)].concat();
    target.refuses("an alert within the ClientHello", &mut half, &part, Kind::Other);
    let mut tcp = target.tcp();
    let mut client = secure::client_end(&target.client);
    tcp.write_all(&record(HANDSHAKE, &hello(&mut client))).unwrap();
    assert_eq!(tcp.peek(&mut [0]).unwrap(), 1);
    target.refuses("an alert after the ClientHello", &mut tcp, &record(ALERT, &FATAL), Kind::Alert);
    let mut forge = target.forge();
    let alert = forge.seal(ALERT, &FATAL, 0);
    target.refuses("an alert after the handshake", &mut forge.tcp, &alert, Kind::Alert);
    let mut forge = target.forge();
    let alert = record(ALERT, &FATAL);
    target.refuses("a plain alert after the handshake", &mut forge.tcp, &alert, Kind::Other);
    let mut forge = target.forge();
    // With TLS 1.3 every alert but two is fatal, whatever it says (RFC 8446 section 6).
    let alert = forge.seal(ALERT, &[1, 40], 0);
    target.refuses("a warning after the handshake", &mut forge.tcp, &alert, Kind::Alert);
    let mut forge = target.forge();
    let alerts: Vec<u8> = (0..100).flat_map(|_| forge.seal(ALERT, &[1, 90], 0)).collect();
    target.refuses("many warnings", &mut forge.tcp, &alerts, Kind::Other);
}

#[test]
fn close_notify_ends_a_connection_without_a_failure() {
    let mut target = Target::start();
    let mut forge = target.forge();
    let bytes = [forge.seal(ALERT, &[1, 0], 0), forge.seal(DATA, b"quiet late\n", 0), b"garbage".to_vec()];
    forge.tcp.write_all(&bytes.concat()).unwrap();
    hear_the_end(&mut forge.tcp);
    let counts = target.is_left_with_the_phone();
    assert_eq!((counts.tls_failures, counts.tls_closed_peer), (0, 1));
    assert!(
        target.server.told().iter().all(|(_, told)| !matches!(told, Told::Message(_))),
        "nothing after it"
    );
    // In the handshake it is a warning that nobody has signed; the end of the stream counts.
    let mut tcp = target.tcp();
    tcp.write_all(&record(ALERT, &[1, 0])).unwrap();
    tcp.shutdown(std::net::Shutdown::Write).unwrap();
    hear_the_end(&mut tcp);
    let counts = target.is_left_with_the_phone();
    assert_eq!((counts.tls_handshakes, counts.tls_failed_timeout, counts.tls_closed_peer), (2, 0, 2));
}

#[test]
fn key_updates_are_followed_and_a_flood_is_refused() {
    let mut target = Target::start();
    let mut stream = secure::connect(&target.client, secure::address(&target.server));
    for round in 0..20 {
        if round > 0 {
            stream.conn.refresh_traffic_keys().unwrap();
        }
        stream.write_all(b"hello\n").unwrap();
        let mut answer = [0; 6];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello\n");
    }
    target.serves();
    let mut bytes = Vec::new();
    for _ in 0..1_000 {
        stream.conn.refresh_traffic_keys().unwrap();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut bytes).unwrap();
        }
    }
    target.refuses("many KeyUpdates", &mut stream.sock, &bytes, Kind::Other);
}

/// A ClientHello whose first extension is a `server_name` with these bytes as its host (RFC 6066 section 3).
fn hello_for(host: &[u8], hello: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let two = |n: usize| (n as u16).to_be_bytes();
    // Header, version, random; then the session, the suites, and the compression methods.
    let mut at = 4 + 2 + 32;
    at += 1 + number(&hello[at..at + 1]);
    at += 2 + number(&hello[at..at + 2]);
    at += 1 + number(&hello[at..at + 1]);
    let name = [&[0][..], &two(host.len()), host].concat();
    let list = [&two(name.len())[..], &name].concat();
    let mut extensions = [&two(0)[..], &two(list.len()), &list].concat();
    let mut rest = &hello[at + 2..];
    while let [a, b, c, d, more @ ..] = rest {
        let (data, next) = more.split_at(number(&[*c, *d]));
        if [*a, *b] != [0, 0] {
            extensions.extend([&[*a, *b, *c, *d][..], data].concat());
        }
        rest = next;
    }
    let body = [&hello[4..at], &two(extensions.len()), &extensions].concat();
    [&[1, 0][..], &two(body.len()), &body].concat()
}

#[test]
fn server_names_of_any_bytes_end_or_get_the_default() {
    let mut target = Target::start();
    let long = [b'a'; 60_000];
    // A ticket would be bound to the ClientHello as it was.
    let mut client = ClientConfig::clone(&target.client);
    client.resumption = rustls::client::Resumption::disabled();
    let client = Arc::new(client);
    for (name, host, served) in [
        ("as it is", &b"example.org"[..], true),
        ("another", b"other.example", true),
        ("with NUL", b"example.org\0.example.com", false),
        ("only NUL", b"\0", false),
        ("empty", b"", false),
        ("not ASCII", "ex\u{e4}mple.org".as_bytes(), false),
        ("254 bytes", &[b'a'; 254], false),
        ("60,000 bytes", &long, false),
    ] {
        let hello = hello_for(host, &hello(&mut secure::client_end(&client)));
        let bytes: Vec<u8> = hello.chunks(16_384).flat_map(|part| record(HANDSHAKE, part)).collect();
        let mut tcp = target.tcp();
        if served {
            let before = target.server.counts().tls_failures;
            tcp.write_all(&bytes).unwrap();
            let mut answer = [0; 6];
            tcp.read_exact(&mut answer).unwrap();
            assert_eq!((answer[0], answer[5]), (HANDSHAKE, 2), "{name}: a ServerHello");
            drop(tcp);
            assert_eq!(target.is_left_with_the_phone().tls_failures, before, "{name}");
        } else {
            target.refuses(name, &mut tcp, &bytes, Kind::Other);
        }
    }
}

#[test]
fn renegotiation_is_refused() {
    let mut target = Target::start();
    let provider = Arc::clone(target.client.crypto_provider());
    let old = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS12]).unwrap();
    let old = old.with_root_certificates(Arc::clone(&target.roots)).with_no_client_auth();
    let mut forge = Forge::client(&Arc::new(old), target.tcp());
    target.answers("TLS 1.2", &mut forge);
    // The first is answered by the warning `no_renegotiation` (RFC 5246 section 7.2.2).
    let hello = hello(&mut secure::client_end(&target.client));
    forge.send(HANDSHAKE, &hello);
    target.answers("after a renegotiation", &mut forge);
    let more: Vec<u8> = (0..3).flat_map(|_| forge.seal(HANDSHAKE, &hello, 0)).collect();
    target.refuses("more renegotiations", &mut forge.tcp, &more, Kind::Other);
}
