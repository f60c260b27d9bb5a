//! TLS: handshakes, messages, ends, faults.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::pieces::Pieces;
use common::secure::Stream;
use common::*;
use rustls::StreamOwned;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use wire::Transport;
use worker_runtime::{ConnectionView, Portion, Question, RuntimeConfig, Wanted};

/// A server with a TLS listener behind the two of [`config`], and its clients' settings.
struct Tls {
    server: Server,
    client: Arc<rustls::ClientConfig>,
}

impl Tls {
    fn start(workers: u16) -> Tls {
        Tls::with(config("127.0.0.1"), workers)
    }

    fn with(mut config: RuntimeConfig, workers: u16) -> Tls {
        secure::listens(&mut config, Transport::Tls);
        let client = secure::secured(&mut config);
        Tls { server: Server::with(config, workers), client }
    }

    fn tcp(&self) -> TcpStream {
        patient(TcpStream::connect(secure::address(&self.server)).unwrap())
    }

    fn connect(&self) -> Stream {
        secure::connect(&self.client, secure::address(&self.server))
    }
}

fn hear(stream: &mut impl Read, len: usize) -> String {
    let mut buffer = vec![0; len];
    stream.read_exact(&mut buffer).unwrap();
    String::from_utf8(buffer).unwrap()
}

/// A handshake may take longer than a first message, where many wait for their turns.
#[test]
#[allow(clippy::disallowed_methods, reason = "the time for a first message has to pass")]
fn time_of_a_first_message_begins_after_the_handshake() {
    let limit = Duration::from_secs(2);
    let mut config = config("127.0.0.1");
    (config.streams.handshake, config.streams.first_message) = (Duration::from_secs(600), limit);
    let tls = Tls::with(config, 1);
    loop {
        let tcp = tls.tcp();
        std::thread::sleep(limit + Duration::from_millis(500));
        let began = Instant::now();
        let mut stream = StreamOwned::new(secure::client_end(&tls.client), tcp);
        // No message, but the server looks at its deadline.
        stream.write_all(b"P\n").unwrap();
        assert_eq!(hear(&mut stream, 2), "\r\n");
        std::thread::sleep(Duration::from_millis(100));
        let answer = stream.write_all(b"hello\n").and_then(|()| {
            let mut answer = [0; 6];
            stream.read_exact(&mut answer).map(|()| answer)
        });
        if began.elapsed() < limit {
            assert_eq!(&answer.unwrap(), b"hello\n");
            return;
        }
    }
}

#[test]
fn lines_are_answered_within_tls() {
    for workers in [1, 2] {
        let tls = Tls::start(workers);
        let mut stream = tls.connect();
        for _ in 0..10 {
            stream.write_all(b"hello\n").unwrap();
            assert_eq!(hear(&mut stream, 6), "hello\n");
        }
        let counts = tls.server.counts();
        assert_eq!((counts.tcp_open, counts.tls_handshakes, counts.tls_failures), (1, 1, 0));
        assert_eq!((counts.tls_bytes_in, counts.tls_resumed), (60, 0));
        tls.server.wait_count("the last answer", |c| c.tls_bytes_out == 60);
        assert!(counts.tls_handshake_us > 0 && counts.tls_busy_us > 0);
    }
}

#[test]
fn long_message_and_many_short_ones_are_answered_in_order() {
    let tls = Tls::start(1);
    let mut stream = tls.connect();
    let long = format!("{}\n", "y".repeat(90_000));
    stream.write_all(long.as_bytes()).unwrap();
    assert_eq!(hear(&mut stream, long.len()), long);
    let short: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
    stream.write_all(short.as_bytes()).unwrap();
    assert_eq!(hear(&mut stream, short.len()), short);
}

#[test]
fn answers_wait_for_a_client_that_reads_late() {
    let tls = Tls::start(1);
    let mut stream = tls.connect();
    let text: String = (0..40_000).map(|n| format!("line {n} of many that nobody reads yet\n")).collect();
    let mut writer = text.as_bytes();
    // More than both kernels hold, in pieces, so that the server meets a socket without room.
    while !writer.is_empty() {
        let (piece, rest) = writer.split_at(writer.len().min(10_000));
        stream.write_all(piece).unwrap();
        writer = rest;
        if tls.server.counts().tcp_messages_in > 20_000 {
            break;
        }
    }
    let sent = text.len() - writer.len();
    let whole = text[..sent].rfind('\n').unwrap() + 1;
    assert!(hear(&mut stream, whole) == text[..whole]);
}

#[test]
fn handshake_byte_by_byte_is_one() {
    let tls = Tls::start(1);
    let mut client = secure::client_end(&tls.client);
    let mut tcp = tls.tcp();
    while client.is_handshaking() || client.wants_write() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        bytes.iter().for_each(|byte| tcp.write_all(&[*byte]).unwrap());
        if client.is_handshaking() {
            client.read_tls(&mut tcp).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    let mut stream = StreamOwned::new(client, tcp);
    stream.write_all(b"hello\n").unwrap();
    assert_eq!(hear(&mut stream, 6), "hello\n");
}

#[test]
fn close_at_the_machines_wish_says_so_within_tls() {
    let tls = Tls::start(1);
    let mut stream = tls.connect();
    stream.write_all(b"one\nbye\n").unwrap();
    let mut all = String::new();
    // Without the end within TLS this is an error.
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(all, "one\nfarewell\n");
}

#[test]
fn client_that_ends_its_side_is_answered_first() {
    let tls = Tls::start(1);
    let mut stream = tls.connect();
    stream.write_all(b"hello\n").unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    assert_eq!(hear(&mut stream, 6), "hello\n");
    drop(stream);
    tls.server.wait_count("the end", |c| c.tcp_open == 0);
}

#[test]
fn close_notify_that_comes_alone_ends_the_connection() {
    let mut config = config("127.0.0.1");
    config.streams.half_closed = Duration::from_millis(50);
    let tls = Tls::with(config, 1);
    let mut stream = tls.connect();
    stream.write_all(b"hello\n").unwrap();
    assert_eq!(hear(&mut stream, 6), "hello\n");
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    tls.server.wait_count("the end", |c| c.tcp_open == 0);
}

#[test]
fn handshakes_that_end_in_a_reset_leave_their_places() {
    let mut config = config("127.0.0.1");
    config.streams.max_handshakes = 4;
    let tls = Tls::with(config, 1);
    for _ in 0..100 {
        let mut stream = tls.connect();
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        rustix::net::sockopt::set_socket_linger(&stream.sock, Some(Duration::ZERO)).unwrap();
    }
    let mut stream = tls.connect();
    stream.write_all(b"hello\n").unwrap();
    assert_eq!(hear(&mut stream, 6), "hello\n");
}

#[test]
fn plain_bytes_get_an_alert_and_the_end() {
    let tls = Tls::start(1);
    let mut tcp = tls.tcp();
    tcp.write_all(b"OPTIONS sip:example.org SIP/2.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = tcp.read_to_end(&mut answer);
    assert_eq!(answer.first(), Some(&21), "an alert, RFC 8446 section 5.1: {answer:?}");
    tls.server.wait_count("the end", |c| c.tls_failed_not_tls == 1 && c.tcp_open == 0);
}

#[test]
fn half_a_handshake_ends_in_time() {
    let mut config = config("127.0.0.1");
    config.streams.handshake = Duration::from_millis(50);
    let tls = Tls::with(config, 1);
    let mut tcp = tls.tcp();
    tcp.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    tls.server.wait_count("the end", |c| c.tls_closed_useless == 1 && c.tcp_open == 0);
    let counts = tls.server.counts();
    assert_eq!((counts.tls_failed_timeout, counts.tls_failures), (1, 1));
    assert!(tls.server.told().is_empty(), "the machine knows of no connection");
}

#[test]
fn client_that_leaves_in_the_handshake_is_nobodys() {
    let tls = Tls::start(1);
    drop(tls.tcp());
    tls.server.wait_count("the end", |c| c.tcp_closed_peer == 1 && c.tcp_open == 0);
    assert!(tls.server.told().is_empty());
}

/// All connections that a worker has of these, by portions of `most`.
fn listed(server: &Server, wanted: Wanted, most: usize) -> Vec<ConnectionView> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let (send, receive) = sync_channel::<Portion>(1);
        let show = Box::new(move |portion| send.send(portion).unwrap());
        assert!(server.handle.ask_connections(0, Question { wanted, from, most, show }).is_ok());
        let portion = receive.recv().unwrap();
        assert!(portion.items.len() <= most);
        all.extend(portion.items);
        match portion.next {
            Some(next) => from = next,
            None => return all,
        }
    }
}

#[test]
fn connections_are_listed_with_what_tls_agreed_on() {
    let tls = Tls::start(1);
    let mut stream = tls.connect();
    stream.write_all(b"hello\n").unwrap();
    assert_eq!(hear(&mut stream, 6), "hello\n");
    let mut plain = patient(TcpStream::connect(tls.server.handle.listeners()[1].address).unwrap());
    plain.write_all(b"hello\n").unwrap();
    assert_eq!(hear(&mut plain, 6), "hello\n");
    let silent = tls.tcp();
    tls.server.wait_count("all three", |c| c.tcp_open == 3);

    let mut all = listed(&tls.server, Wanted::default(), 2);
    all.sort_by_key(|view| view.tls.is_none());
    assert_eq!(all.len(), 3);
    let agreed = all[0].tls.as_ref().unwrap();
    assert_eq!((agreed.version, agreed.peer.as_ref()), ("1.3", None));
    assert!(agreed.suite.starts_with("TLS13_"), "{agreed:?}");
    assert!(all[0].inbound && all[0].state == "open" && all[0].bytes_in > 100 && all[0].bytes_out > 100);
    let of = |wanted| {
        listed(&tls.server, wanted, 10).into_iter().map(|v| (v.transport, v.state)).collect::<Vec<_>>()
    };
    let tcp = Wanted { transport: Some(Transport::Tcp), ..Wanted::default() };
    assert_eq!(of(tcp), [(Transport::Tcp, "open")]);
    let port = Some(silent.local_addr().unwrap().port());
    assert_eq!(of(Wanted { port, ..Wanted::default() }), [(Transport::Tls, "handshake")]);
    assert_eq!(of(Wanted { ip: Some([127, 0, 0, 2].into()), ..Wanted::default() }), []);
    let plain = listed(&tls.server, tcp, 1).remove(0);
    assert_eq!((plain.bytes_in, plain.tls), (6, None));
}

#[test]
fn session_in_pieces_of_any_length_is_followed() {
    let mut config = config("127.0.0.1");
    config.streams.half_closed = Duration::from_millis(5);
    let tls = Tls::with(config, 1);
    let long = "y".repeat(40_000);
    for seed in 0..40 {
        let mut stream = StreamOwned::new(secure::client_end(&tls.client), Pieces::new(tls.tcp(), seed));
        let text: String = (1..21).map(|n| format!("{n} {seed}\n{}\n", &long[..n * n * 100])).collect();
        stream.write_all(text.as_bytes()).unwrap();
        let heard = hear(&mut stream, text.len() + 40);
        // Lines that begin with a digit are answered with the worker's number before them.
        let lines: Vec<_> = heard.lines().map(|line| line.strip_prefix("0:").unwrap_or(line)).collect();
        assert!(lines.join("\n") == text.trim_end(), "{seed}");
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{seed}");
    }
    let counts = tls.server.wait_count("the ends", |c| c.tcp_open == 0);
    assert_eq!((counts.tls_handshakes, counts.tls_failures), (40, 0));
}
