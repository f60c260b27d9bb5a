//! WebSocket: handshakes, frames, ends, faults; over TCP and TLS.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::pieces::Pieces;
use common::secure::Stream;
use common::*;
use rustls::{ClientConfig, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use wire::Transport;
use worker_runtime::{Listener, RuntimeConfig};

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const ASKS: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: sip\r\n\r\n";

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: example.org\r\n{ASKS}")
}

/// A frame with these first four bits, this opcode, and a mask.
fn frame(bits: u8, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![bits << 4 | opcode];
    match payload.len() {
        len @ 0..126 => bytes.push(0x80 | len as u8),
        len @ 126..0x1_0000 => {
            bytes.push(0x80 | 126);
            bytes.extend((len as u16).to_be_bytes());
        }
        len => {
            bytes.push(0x80 | 127);
            bytes.extend((len as u64).to_be_bytes());
        }
    }
    bytes.extend(KEY);
    bytes.extend(payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

fn text(payload: &str) -> Vec<u8> {
    frame(8, 1, payload.as_bytes())
}

/// What a server sends: opcode and payload.
type Heard = (u8, Vec<u8>);

fn said(payload: &str) -> Heard {
    (1, payload.as_bytes().to_vec())
}

/// The Close frame with this code.
fn close(code: u16) -> Vec<u8> {
    code.to_be_bytes().to_vec()
}

trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}

struct Client(Box<dyn Both>);

impl Client {
    /// Over a stream on which the handshake is still to be made.
    fn ask(mut stream: impl Both + 'static, path: &str) -> Client {
        stream.write_all(request(path).as_bytes()).unwrap();
        let mut client = Client(Box::new(stream));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
        assert!(head.contains("\r\nSec-WebSocket-Protocol: sip\r\n"), "{head}");
        client
    }

    fn exactly(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.exactly(1));
        }
        String::from_utf8(head).unwrap()
    }

    fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn hear(&mut self) -> Heard {
        let start = self.exactly(2);
        let len = match start[1] {
            126 => u64::from(u16::from_be_bytes(self.exactly(2).try_into().unwrap())),
            127 => u64::from_be_bytes(self.exactly(8).try_into().unwrap()),
            len => u64::from(len),
        };
        assert_eq!(start[0] & 0xf0, 0x80, "one whole frame, without a mask");
        (start[0] & 0x0f, self.exactly(len as usize))
    }

    fn asks(&mut self, payload: &str) -> String {
        self.say(&text(payload));
        let (opcode, answer) = self.hear();
        assert_eq!(opcode, 1);
        String::from_utf8(answer).unwrap()
    }

    /// The Close frame with this code comes, then the end.
    fn is_closed_with(&mut self, code: u16) {
        let (opcode, payload) = self.hear();
        assert_eq!(
            (opcode, payload.get(..2)),
            (8, Some(&code.to_be_bytes()[..])),
            "{}",
            payload.escape_ascii()
        );
        self.has_ended();
    }

    fn has_ended(&mut self) {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            ended => assert_eq!(ended.unwrap(), 0, "{}", rest.escape_ascii()),
        }
    }
}

/// A server with listeners of ws, wss and tls behind the two of [`config`].
struct Web {
    server: Server,
    client: Arc<ClientConfig>,
}

impl Web {
    fn start(workers: u16) -> Web {
        Web::with(config("127.0.0.1"), workers)
    }

    fn with(mut config: RuntimeConfig, workers: u16) -> Web {
        let transports = [Transport::Ws, Transport::Wss, Transport::Tls];
        transports.into_iter().for_each(|transport| secure::listens(&mut config, transport));
        let client = secure::secured(&mut config);
        Web { server: Server::with(config, workers), client }
    }

    fn address(&self, transport: Transport) -> SocketAddr {
        self.server.handle.listeners().iter().find(|l| l.transport == transport).unwrap().address
    }

    fn tcp(&self, transport: Transport) -> TcpStream {
        patient(TcpStream::connect(self.address(transport)).unwrap())
    }

    fn tls(&self, transport: Transport) -> Stream {
        secure::connect(&self.client, self.address(transport))
    }

    fn ws(&self) -> Client {
        Client::ask(self.tcp(Transport::Ws), "/")
    }

    fn wss(&self) -> Client {
        Client::ask(self.tls(Transport::Wss), "/")
    }

    /// The whole answer to these bytes, with which the connection ends.
    fn answer(&self, bytes: &str) -> String {
        let mut tcp = self.tcp(Transport::Ws);
        tcp.write_all(bytes.as_bytes()).unwrap();
        hear_all(&mut tcp)
    }
}

#[test]
fn messages_are_answered_over_tcp_and_tls() {
    for workers in [1, 2] {
        let web = Web::start(workers);
        for mut client in [web.ws(), web.wss()] {
            for n in 0..10 {
                // Each with an owner, some of which are not the worker of the connection.
                let line = format!("{} line {n}\n", n % workers);
                assert_eq!(client.asks(&line), format!("{}:{line}", n % workers));
                assert_eq!(client.asks("hello\n"), "hello\n");
            }
            client.say(&frame(8, 2, b"\xff binary\n"));
            assert_eq!(client.hear(), (2, b"\xff binary\n".to_vec()));
        }
        let counts = web.server.counts();
        assert_eq!((counts.websocket_handshakes, counts.tls_handshakes, counts.websocket_faults), (2, 1, 0));
    }
}

#[test]
fn handshake_byte_by_byte_is_one() {
    let web = Web::start(1);
    let mut tcp = web.tcp(Transport::Ws);
    request("/").bytes().for_each(|byte| tcp.write_all(&[byte]).unwrap());
    let mut client = Client(Box::new(tcp));
    assert!(client.head().starts_with("HTTP/1.1 101 "));
    assert_eq!(client.asks("hello\n"), "hello\n");
}

#[test]
fn half_a_head_ends_in_time() {
    let mut config = config("127.0.0.1");
    config.streams.first_message = Duration::from_millis(50);
    let web = Web::with(config, 1);
    let mut tcp = web.tcp(Transport::Ws);
    tcp.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").unwrap();
    web.server.wait_count("the end", |c| c.tcp_closed_useless == 1 && c.tcp_open == 0);
    assert!(web.server.told().is_empty(), "the machine knows of no connection");
}

/// The time for a handshake of TLS ends with that handshake, also where WebSocket may follow.
#[test]
fn first_bytes_over_tls_have_the_time_of_a_first_message() {
    let times = |config: &mut RuntimeConfig| {
        config.streams.handshake = Duration::from_secs(600);
        config.streams.first_message = Duration::from_millis(50);
    };
    let mut alone = config("127.0.0.1");
    times(&mut alone);
    for (web, transport) in [(shared_port(times), Transport::Tls), (Web::with(alone, 1), Transport::Wss)] {
        let mut silent = web.tls(transport);
        silent.flush().unwrap();
        let counts = web.server.wait_count("the end", |c| c.tls_closed_useless == 1 && c.tcp_open == 0);
        assert_eq!((counts.tls_handshakes, counts.tls_failed_timeout), (1, 0));
    }
}

#[test]
fn requests_that_are_not_accepted_get_their_status_and_the_end() {
    let mut config = config("127.0.0.1");
    config.websocket.path = Some("/sip".into());
    config.websocket.origins = vec!["https://phone.example.org".into()];
    let web = Web::with(config, 1);
    let whole = request("/sip");
    let with =
        |line: &str| whole.replace("Host: example.org\r\n", &format!("Host: example.org\r\n{line}\r\n"));
    let long = format!("X: {}", "y".repeat(20_000));
    for (bytes, status) in [
        (request("/other"), "404 "),
        (whole.replace("Protocol: sip", "Protocol: chat"), "400 "),
        (whole.replace("Sec-WebSocket-Protocol: sip\r\n", ""), "400 "),
        (whole.replace("Version: 13", "Version: 8"), "426 "),
        (whole.replace("GET", "POST"), "405 "),
        (with("Origin: https://evil.example"), "403 "),
        (with(&long), "431 "),
        // What an intermediary could take for a second request, or for none.
        (with("Content-Length: 5"), "400 "),
        (with("Transfer-Encoding: chunked"), "400 "),
        (with("Host: other.example"), "400 "),
        (with("X : y"), "400 "),
        (with(" folded"), "400 "),
        (format!("{whole}GET /second HTTP/1.1\r\n\r\n"), "400 "),
        (format!("{whole}\u{1}"), "400 "),
        (whole.replace("\r\n", "\n"), "400 "),
        ("OPTIONS sip:example.org SIP/2.0\r\n\r\n".into(), "405 "),
        ("\u{16}\u{3}\u{1}".into(), "400 "),
    ] {
        let answer = web.answer(&bytes);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {answer:?} to {bytes:?}");
    }
    web.server.wait_count("all ends", |c| c.tcp_open == 0 && c.websocket_refused == 17);
    assert!(web.server.told().is_empty());
    let origin = with("Origin: https://phone.example.org");
    let mut tcp = web.tcp(Transport::Ws);
    tcp.write_all(origin.as_bytes()).unwrap();
    assert!(Client(Box::new(tcp)).head().starts_with("HTTP/1.1 101 "));
}

#[test]
fn health_is_told_until_the_server_stops() {
    let web = Web::start(1);
    let asks = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    assert!(web.answer(asks).ends_with("\r\n\r\nok\n"));
    let mut early = web.tcp(Transport::Ws);
    web.server.wait_count("its connection", |c| c.tcp_accepted == 2);
    web.server.handle.stop_accepting();
    wait("no more connections", || TcpStream::connect(web.address(Transport::Ws)).err());
    early.write_all(asks.as_bytes()).unwrap();
    assert!(hear_all(&mut early).starts_with("HTTP/1.1 503 "));
}

/// Bytes of a client, and what is answered, however the bytes are cut.
fn conversation() -> (Vec<u8>, Vec<Heard>) {
    let long = format!("{}\n", "long ".repeat(300));
    let huge = format!("{}\n", "z".repeat(70_000));
    let bytes = [
        text("one\n"),
        frame(0, 1, b"in "),
        frame(8, 9, b"still here?"),
        frame(0, 0, b""),
        frame(0, 0, "fragm\u{e9}".as_bytes().split_at(6).0),
        frame(8, 10, b"nobody asked"),
        frame(8, 0, b"\xa9nts\n"),
        text(""),
        text("\r\n\r\n"),
        text(&long),
        frame(8, 2, b"binary\n"),
        text(&huge),
        text("0 mine\n"),
        text("last\n"),
    ];
    let lines = ["one\n", "in fragm\u{e9}nts\n", &long, "binary\n", &huge, "0:0 mine\n", "last\n"];
    (bytes.concat(), lines.iter().map(|line| said(line)).collect())
}

#[test]
fn conversation_is_the_same_however_it_is_cut() {
    let web = Web::start(1);
    let (bytes, wanted) = conversation();
    let mut seed = 7_u64;
    for round in 0..12 {
        let mut client = if round % 3 == 2 { web.wss() } else { web.ws() };
        let most = [1, 2, 5, 40, 700, 9_000][round % 6];
        let mut rest = &bytes[..];
        // Byte by byte only until the long ones.
        let slow = if most < 40 { 400 } else { usize::MAX };
        while !rest.is_empty() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let most = if bytes.len() - rest.len() < slow { most } else { 9_000 };
            let (piece, after) = rest.split_at(rest.len().min(1 + (seed >> 33) as usize % most));
            client.say(piece);
            rest = after;
        }
        let mut heard = Vec::new();
        let mut pongs = Vec::new();
        while heard.len() < wanted.len() {
            match client.hear() {
                (10, payload) => pongs.push(payload),
                // The answer to the keepalive, unless something else was waiting to be sent.
                (1, payload) if payload == b"\r\n" => {}
                other => heard.push(other),
            }
        }
        assert_eq!(pongs, [b"still here?"], "round {round}");
        assert!(heard == wanted, "round {round}");
    }
}

#[test]
fn keepalive_of_line_ends_is_answered() {
    let web = Web::start(1);
    let mut client = web.ws();
    client.say(&text("\r\n\r\n"));
    assert_eq!(client.hear(), said("\r\n"));
    // What answers one of ours is nothing.
    client.say(&text("\r\n"));
    assert_eq!(client.asks("hello\n"), "hello\n");
}

#[test]
fn what_breaks_the_rules_ends_with_its_code() {
    let mut config = config("127.0.0.1");
    config.websocket.max_message = 1_000;
    let web = Web::with(config, 1);
    let unmasked = |opcode: u8| vec![0x80 | opcode, 5, b'h', b'e', b'l', b'l', b'o'];
    let length = |len: u64| [&[0x81, 0xff][..], &len.to_be_bytes(), &KEY].concat();
    let cases = [
        ("unmasked", unmasked(1), 1002_u16),
        ("unmasked ping", unmasked(9), 1002),
        ("2^63", length(1 << 63), 1002),
        ("2^63 - 1", length((1 << 63) - 1), 1009),
        ("long form of a short length", length(5), 1002),
        ("reserved bit 1", frame(0b1100, 1, b"x"), 1002),
        ("reserved bit 2", frame(0b1010, 1, b"x"), 1002),
        ("reserved bit 3", frame(0b1001, 1, b"x"), 1002),
        ("reserved opcode", frame(8, 3, b"x"), 1002),
        ("reserved control opcode", frame(8, 11, b"x"), 1002),
        ("fragmented ping", frame(0, 9, b"x"), 1002),
        ("fragmented close", frame(0, 8, b""), 1002),
        ("long ping", frame(8, 9, &[b'x'; 126]), 1002),
        ("continuation of nothing", frame(8, 0, b"x"), 1002),
        ("message in a message", [frame(0, 1, b"x"), frame(8, 1, b"y")].concat(), 1002),
        ("not UTF-8", frame(8, 1, b"\xc3\x28\n"), 1007),
        ("half a character at the end", [frame(0, 1, b"\xc3"), frame(8, 0, b"")].concat(), 1007),
        ("too long", frame(8, 1, &[b'x'; 1_001]), 1009),
        ("too long together", [frame(0, 1, &[b'x'; 600]), frame(8, 0, &[b'x'; 401])].concat(), 1009),
        ("too many fragments", [frame(0, 1, b""), frame(0, 0, b"").repeat(300)].concat(), 1008),
        ("bad code", frame(8, 8, &close(1005)), 1002),
        ("half a code", frame(8, 8, &[3]), 1002),
        ("reason is not UTF-8", frame(8, 8, &[3, 232, 0xff]), 1007),
    ];
    for (name, bytes, code) in &cases {
        for mut client in [web.ws(), web.wss()] {
            // What was valid before it is answered, and nothing that comes behind it.
            client.say(&[&text("before\n"), &bytes[..], &text("quiet behind\n")].concat());
            assert_eq!(client.hear(), said("before\n"), "{name}");
            let (opcode, payload) = client.hear();
            assert_eq!((opcode, payload.get(..2)), (8, Some(&code.to_be_bytes()[..])), "{name}");
            client.has_ended();
        }
    }
    web.server.wait_count("all ends", |c| c.tcp_open == 0);
    assert_eq!(web.server.counts().websocket_faults, 2 * cases.len() as u64);
    assert!(!web.server.told().iter().any(|(_, told)| matches!(told, Told::Message(_))));
}

#[test]
fn ping_is_answered_and_a_flood_ends() {
    let web = Web::start(1);
    let mut client = web.ws();
    client.say(&[frame(8, 9, b"a"), frame(8, 9, b"b"), frame(8, 9, b"c")].concat());
    // Of several that come together the last is answered.
    while client.hear() != (10, b"c".to_vec()) {}
    assert_eq!(client.asks("hello\n"), "hello\n");
    let flood = frame(8, 9, b"x").repeat(1_000);
    client.say(&flood);
    let end = loop {
        match client.hear() {
            (10, _) => {}
            other => break other,
        }
    };
    assert_eq!((end.0, &end.1[..2]), (8, &close(1008)[..]));
    client.has_ended();
}

#[test]
fn close_of_the_client_is_answered_with_its_code() {
    let web = Web::start(2);
    for (sent, answer) in [(close(1000), close(1000)), (close(4_001), close(4_001)), (vec![], vec![])] {
        for mut client in [web.ws(), web.wss()] {
            assert_eq!(client.asks("hello\n"), "hello\n");
            client.say(&frame(8, 8, &sent));
            assert_eq!(client.hear(), (8, answer.clone()));
            client.has_ended();
        }
    }
    web.server.wait_count("all ends", |c| c.tcp_open == 0 && c.tcp_closed_peer == 6);
}

#[test]
fn close_at_the_machines_wish_is_normal() {
    let web = Web::start(1);
    for mut client in [web.ws(), web.wss()] {
        assert_eq!(client.asks("bye\n"), "farewell\n");
        client.is_closed_with(1000);
    }
}

#[test]
fn clients_are_told_that_the_server_goes_away() {
    let web = Web::start(1);
    let mut clients = [web.ws(), web.wss()];
    for client in &mut clients {
        assert_eq!(client.asks("hello\n"), "hello\n");
    }
    drop(web);
    for client in &mut clients {
        client.is_closed_with(1001);
    }
}

#[test]
fn silent_client_is_closed_in_order() {
    let mut config = config("127.0.0.1");
    config.streams.idle = Duration::from_millis(50);
    let web = Web::with(config, 1);
    let mut client = web.ws();
    assert_eq!(client.asks("hello\n"), "hello\n");
    client.is_closed_with(1000);
}

#[test]
fn message_that_does_not_end_is_ended() {
    let mut config = config("127.0.0.1");
    config.streams.message = Duration::from_millis(50);
    let web = Web::with(config, 1);
    let mut client = web.ws();
    assert_eq!(client.asks("hello\n"), "hello\n");
    client.say(&text("never whole\n")[..9]);
    client.has_ended();
    assert_eq!(web.server.counts().tcp_closed_slow, 1);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the workers are waited for")]
fn messages_keep_their_order_where_the_owners_ring_is_full() {
    let mut config = config("127.0.0.1");
    config.ring = 1;
    let web = Web::with(config, 2);
    for owner in 0..2 {
        let mut client = web.ws();
        let lines: Vec<String> = (0..500).map(|n| format!("{owner} line {n}\n")).collect();
        let bytes: Vec<u8> = lines.iter().flat_map(|line| text(line)).collect();
        let before = web.server.counts().tcp_messages_in;
        client.say(&bytes);
        while web.server.counts().tcp_messages_in < before + lines.len() as u64 {
            std::thread::sleep(Duration::from_millis(5));
        }
        // All were taken. An answer is lost where the ring back is full: its sender has timers for that. So
        // the answers are some of those that are expected, in order, and this one when the rings are empty.
        std::thread::sleep(Duration::from_millis(300));
        client.say(&text(&format!("{owner} end\n")));
        let mut expected = lines.iter().map(|line| said(&format!("{owner}:{line}")));
        let end = said(&format!("{owner}:{owner} end\n"));
        loop {
            let heard = client.hear();
            if heard == end {
                break;
            }
            assert!(expected.any(|line| line == heard), "not in order: {heard:?}");
        }
    }
}

#[test]
fn answers_wait_for_a_client_that_reads_late() {
    let mut config = config("127.0.0.1");
    config.streams.max_queued = 64 << 20;
    let web = Web::with(config, 1);
    let mut client = web.wss();
    let line = format!("{}\n", "line of many that nobody reads yet ".repeat(30));
    let piece = text(&line).repeat(10);
    let mut sent = 0;
    while sent < 20_000 && web.server.counts().tcp_messages_in < 10_000 {
        client.say(&piece);
        sent += 10;
    }
    for _ in 0..sent {
        assert_eq!(client.hear(), said(&line));
    }
}

/// A server whose first listeners of wss and tls have one port.
fn shared_port(change: impl FnOnce(&mut RuntimeConfig)) -> Web {
    let mut config = config("127.0.0.1");
    change(&mut config);
    config.share_ports = true;
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap();
    drop(held);
    for transport in [Transport::Wss, Transport::Tls] {
        config.listeners.push(Listener { transport, address });
    }
    let web = Web::with(config, 1);
    assert_eq!([Transport::Wss, Transport::Tls].map(|transport| web.address(transport)), [address; 2]);
    web
}

#[test]
fn tls_listener_tells_websocket_from_sip() {
    let web = shared_port(|_| {});
    let mut client = Client::ask(web.tls(Transport::Tls), "/");
    assert_eq!(client.asks("which listener\n"), "Wss 2\n");
    for line in ["hello\n", "GET sip:example.org SIP/2.0\r\n", "GET\n", "G\n"] {
        let mut sip = web.tls(Transport::Tls);
        for byte in line.bytes() {
            sip.write_all(&[byte]).unwrap();
        }
        let mut heard = vec![0; line.len()];
        sip.read_exact(&mut heard).unwrap();
        assert_eq!(heard, line.as_bytes());
        sip.write_all(b"more\n").unwrap();
        let mut more = [0; 5];
        sip.read_exact(&mut more).unwrap();
        assert_eq!(&more, b"more\n");
        sip.write_all(b"which listener\n").unwrap();
        let mut which = [0; 6];
        sip.read_exact(&mut which).unwrap();
        assert_eq!(&which, b"Tls 3\n");
    }
    let counts = web.server.counts();
    assert_eq!((counts.websocket_handshakes, counts.tls_handshakes), (1, 5));
}

#[test]
fn tls_listener_without_websocket_serves_sip_alone() {
    let web = Web::start(1);
    let mut stream = web.tls(Transport::Tls);
    stream.write_all(b"GET / HTTP/1.1\n").unwrap();
    let mut heard = [0; 15];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"GET / HTTP/1.1\n");
}

#[test]
fn client_that_is_gone_is_not_dialled() {
    let web = Web::start(1);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    for (token, transport) in [(71, "ws"), (72, "wss@example.org")] {
        web.server.act(0, &format!(">{transport} {address} {token} text"));
        web.server.wait_told("the failure", |told| told.1 == Told::Undeliverable(token));
    }
    assert_eq!(listener.accept().err().map(|error| error.kind()), Some(ErrorKind::WouldBlock));
    assert_eq!(web.server.counts().tcp_connects, 0);
    // To one that is there a message without a connection finds the way.
    let tcp = web.tcp(Transport::Ws);
    let address = tcp.local_addr().unwrap();
    let mut client = Client::ask(tcp, "/");
    web.server.act(0, &format!(">ws {address} 73 found"));
    assert_eq!(client.hear(), said("found\n"));
}

#[test]
fn session_in_pieces_of_any_length_is_followed() {
    let web = Web::start(1);
    let long = "y".repeat(70_000);
    for seed in 0..60 {
        let pieces = |transport| Pieces::new(web.tcp(transport), seed);
        let mut client = match seed % 3 {
            0 => Client::ask(pieces(Transport::Ws), "/"),
            1 => Client::ask(
                StreamOwned::new(secure::client_end(&web.client), pieces(Transport::Wss)),
                "/sip?x=1",
            ),
            _ => Client::ask(StreamOwned::new(secure::client_end(&web.client), web.tcp(Transport::Wss)), "/"),
        };
        let lines: Vec<String> =
            [1, 120, 130, 65_530, 65_540].map(|len| format!("{}\n", &long[..len])).to_vec();
        let mut bytes = Vec::new();
        for line in &lines {
            let (a, b) = line.as_bytes().split_at(line.len() / 2);
            bytes.extend([frame(0, 1, a), frame(8, 9, b"ping"), frame(8, 0, b), text(line)].concat());
        }
        bytes.extend(frame(8, 8, &close(1000)));
        client.say(&bytes);
        let mut heard = Vec::new();
        loop {
            match client.hear() {
                (1, line) => heard.push(String::from_utf8(line).unwrap()),
                (10, payload) => assert_eq!(payload, b"ping"),
                (8, payload) => {
                    assert_eq!(payload, close(1000), "{seed}");
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        client.has_ended();
        let wanted: Vec<_> = lines.iter().flat_map(|line| [line.clone(), line.clone()]).collect();
        assert!(heard == wanted, "{seed}");
    }
    let counts = web.server.wait_count("the ends", |c| c.tcp_open == 0);
    let faults = (counts.websocket_faults, counts.websocket_refused, counts.tls_failures);
    assert_eq!((counts.websocket_handshakes, faults), (60, (0, 0, 0)));
}
