//! Handshakes of TLS in masses: caps, who makes room, and phones and calls that go on meanwhile.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::secure::{Stream, client_end};
use common::*;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Transport;
use worker_runtime::RuntimeConfig;

/// Addresses that attack.
const ATTACKERS: u32 = 10_000;
/// Handshakes that are allowed at a time.
const MOST: usize = 200;
/// The beginning of a handshake: the header of a record of 512 bytes, and the first byte of a ClientHello.
const HALF: [u8; 6] = [22, 3, 1, 2, 0, 1];

/// A server of TLS with little room for handshakes, and what its phones begin from.
struct Flooded {
    server: Server,
    client: Arc<ClientConfig>,
}

impl Flooded {
    fn with(change: impl FnOnce(&mut RuntimeConfig)) -> Flooded {
        let mut config = config("127.0.0.1");
        secure::listens(&mut config, Transport::Tls);
        let client = secure::secured(&mut config);
        config.streams.handshake = Duration::from_secs(600);
        config.streams.max_handshakes = MOST;
        change(&mut config);
        Flooded { server: Server::with(config, 1), client }
    }

    /// A connection from this address.
    fn from(&self, from: Ipv4Addr) -> TcpStream {
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&fd, &SocketAddrV4::new(from, 0)).unwrap();
        // One that is refused may be gone already.
        let _ = connect(&fd, &self.address());
        patient(TcpStream::from(fd))
    }

    fn address(&self) -> SocketAddr {
        secure::address(&self.server)
    }

    /// A connection from this address with half a ClientHello on it.
    fn half(&self, from: Ipv4Addr) -> TcpStream {
        let mut stream = self.from(from);
        let _ = stream.write_all(&HALF);
        stream
    }

    /// A phone at this address, whose handshake is to be made.
    fn phone(&self, from: Ipv4Addr) -> Stream {
        StreamOwned::new(client_end(&self.client), self.from(from))
    }

    fn is_served(&self, mut phone: Stream) {
        phone.write_all(b"hello\n").unwrap();
        let mut answer = [0; 6];
        phone.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello\n");
    }
}

/// Sends what a client's end has to send, and returns it.
fn send(client: &mut ClientConnection, tcp: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    tcp.write_all(&bytes).unwrap();
    bytes
}

/// Reads until a client's end of TLS 1.3 has the whole answer, and only its own flight is left.
fn receive(client: &mut ClientConnection, tcp: &mut TcpStream) {
    while client.is_handshaking() {
        assert!(client.read_tls(tcp).unwrap() > 0, "the end of the stream");
        client.process_new_packets().unwrap();
    }
}

#[test]
fn half_handshakes_of_many_make_room_and_calls_go_on() {
    let flooded = Flooded::with(|_| {});
    let server = &flooded.server;
    let mut call = patient(TcpStream::connect(server.tcp()).unwrap());
    let mut kept = Vec::new();
    for n in 0..ATTACKERS {
        let [_, _, high, low] = n.to_be_bytes();
        kept.push(flooded.half(Ipv4Addr::new(127, 10, high, low)));
        if n % 100 == 99 {
            call.write_all(b"hello\n").unwrap();
            let mut answer = [0; 6];
            call.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"hello\n");
            let over = u64::from(n + 1).saturating_sub(MOST as u64);
            server.wait_count("those beyond the room", |c| c.tls_gave_way == over);
            kept.drain(..kept.len().saturating_sub(MOST));
        }
        if n % 1_000 == 999 {
            flooded.is_served(flooded.phone(Ipv4Addr::new(127, 11, 0, 1)));
        }
    }
    let counts = server.counts();
    assert_eq!((counts.tls_refused, counts.tls_handshakes), (0, 10));
    // Their places are free again once they are gone.
    drop(kept);
    server.wait_count("the ends", |c| c.tcp_open == 1);
    let before = server.counts().tls_gave_way;
    let all: Vec<_> = (0..MOST as u8).map(|n| flooded.half(Ipv4Addr::new(127, 12, 0, n))).collect();
    server.wait_count("as many as before", |c| c.tcp_open == MOST as u64 + 1);
    assert_eq!(server.counts().tls_gave_way, before);
    drop(all);
}

#[test]
fn silent_connections_take_no_places() {
    let flooded = Flooded::with(|config| config.streams.max_handshakes = 5);
    let silent: Vec<_> = (0..50).map(|n| flooded.from(Ipv4Addr::new(127, 14, 0, 1 + n % 10))).collect();
    flooded.server.wait_count("all of them", |c| c.tcp_open == 50);
    flooded.is_served(flooded.phone(Ipv4Addr::new(127, 14, 0, 1)));
    let counts = flooded.server.counts();
    assert_eq!((counts.tls_refused, counts.tls_gave_way, counts.tls_handshakes), (0, 0, 1));
    drop(silent);
}

/// As a port scan does, or the health probe of a balancer for TCP.
#[test]
fn end_without_a_byte_takes_no_place() {
    let flooded = Flooded::with(|config| config.streams.max_handshakes = 1);
    let server = &flooded.server;
    let mut tcp = flooded.from(Ipv4Addr::new(127, 19, 0, 1));
    let mut client = client_end(&flooded.client);
    send(&mut client, &mut tcp);
    receive(&mut client, &mut tcp);
    for n in 1..=20 {
        let probe = flooded.from(Ipv4Addr::new(127, 19, 1, n));
        // The other direction stays open, so it is the end of the stream that is reported, and no hang-up.
        probe.shutdown(std::net::Shutdown::Write).unwrap();
        server.wait_count("the probe's end", |c| c.tls_closed_peer == u64::from(n));
    }
    let counts = server.counts();
    assert_eq!((counts.tls_refused, counts.tls_gave_way, counts.tls_failures), (0, 0, 0));
    flooded.is_served(StreamOwned::new(client, tcp));
}

#[test]
fn half_handshakes_of_one_source_make_room_for_it() {
    let flooded = Flooded::with(|config| config.streams.max_handshakes_per_source = 3);
    let server = &flooded.server;
    let _other = flooded.half(Ipv4Addr::new(127, 15, 0, 2));
    let one: Vec<TcpStream> = (0..5).map(|_| flooded.half(Ipv4Addr::new(127, 15, 0, 1))).collect();
    let counts =
        server.wait_count("two too many", |c| c.tls_gave_way + c.tls_refused == 2 && c.tcp_open == 4);
    flooded.is_served(flooded.phone(Ipv4Addr::new(127, 15, 0, 1)));
    server.wait_count("the phone", |c| c.tls_gave_way == counts.tls_gave_way + 1 && c.tcp_open == 3);
    assert_eq!(server.counts().tls_refused, counts.tls_refused);
    drop(one);
    server.wait_count("the ends", |c| c.tcp_open == 1);
}

#[test]
fn source_with_most_half_handshakes_makes_room() {
    let flooded = Flooded::with(|config| config.streams.max_handshakes = 20);
    // The oldest of all, and slow.
    let mut tcp = flooded.from(Ipv4Addr::new(127, 16, 0, 9));
    let mut client = client_end(&flooded.client);
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    tcp.write_all(&hello[..hello.len() / 2]).unwrap();
    flooded.server.wait_count("its first bytes", |c| c.tcp_open == 1);
    let all: Vec<_> = (0..100).map(|n| flooded.half(Ipv4Addr::new(127, 16, 0, 1 + n % 2))).collect();
    // Of those that come together, some may wait for us, and cannot make room.
    flooded.server.wait_count("those beyond the room", |c| c.tls_gave_way + c.tls_refused == 81);
    tcp.write_all(&hello[hello.len() / 2..]).unwrap();
    receive(&mut client, &mut tcp);
    flooded.is_served(StreamOwned::new(client, tcp));
    drop(all);
}

#[test]
fn answered_handshakes_make_room_after_older_ones() {
    let flooded = Flooded::with(|config| config.streams.max_handshakes = 20);
    let _half: Vec<_> = (0..10).map(|n| flooded.half(Ipv4Addr::new(127, 17, 0, 1 + n))).collect();
    flooded.server.wait_count("the half ones", |c| c.tcp_open == 10);
    let mut tcp = flooded.from(Ipv4Addr::new(127, 17, 0, 100));
    let mut client = client_end(&flooded.client);
    send(&mut client, &mut tcp);
    receive(&mut client, &mut tcp);
    // The answered one is older than these, and younger than the half ones when it was answered.
    let _more: Vec<_> = (0..19).map(|n| flooded.half(Ipv4Addr::new(127, 17, 1, 1 + n))).collect();
    flooded.server.wait_count("the first half ones", |c| c.tls_gave_way == 10);
    flooded.is_served(StreamOwned::new(client, tcp));
}

#[test]
fn kept_bytes_of_handshakes_count_as_held() {
    let flooded = Flooded::with(|config| config.streams.max_held = 50_000);
    // The beginning of a record of 16 kB each.
    let part = [&[22, 3, 1, 64, 0, 1][..], &[0; 15_000]].concat();
    let all: Vec<TcpStream> = (0..6u8)
        .map(|n| {
            let mut stream = flooded.from(Ipv4Addr::new(127, 13, 0, n + 1));
            let _ = stream.write_all(&part);
            stream
        })
        .collect();
    flooded.server.wait_count("those beyond the room", |c| c.tls_closed_slow + c.tls_closed_error >= 2);
    drop(all);
    flooded.server.wait_count("the ends", |c| c.tcp_open == 0);
}

/// The worker stands still from before the client's last flight until its time is over.
#[test]
#[allow(clippy::disallowed_methods, reason = "the time for the handshake has to pass")]
fn handshake_does_not_expire_while_its_bytes_wait_for_us() {
    let limit = Duration::from_secs(2);
    let flooded = Flooded::with(|config| config.streams.handshake = limit);
    let mut plain = patient(TcpStream::connect(flooded.server.tcp()).unwrap());
    loop {
        let start = Instant::now();
        let mut tcp = flooded.from(Ipv4Addr::new(127, 18, 0, 1));
        let mut client = client_end(&flooded.client);
        send(&mut client, &mut tcp);
        receive(&mut client, &mut tcp);
        // The machine tells of this line, and cannot.
        let held = flooded.server.log.lock().unwrap();
        plain.write_all(b"quiet line\n").unwrap();
        // So that the worker most likely stands still before the rest comes.
        std::thread::sleep(Duration::from_millis(50));
        send(&mut client, &mut tcp);
        let in_time = start.elapsed() < limit;
        std::thread::sleep(limit);
        drop(held);
        if in_time {
            flooded.is_served(StreamOwned::new(client, tcp));
            assert_eq!(flooded.server.counts().tls_failed_timeout, 0);
            return;
        }
    }
}

/// Has the peer send small segments: its kernel gives it a small buffer then (tcp(7), `TCP_MAXSEG`).
fn small_segments(fd: &OwnedFd) {
    let most: libc::c_int = 536;
    // SAFETY: the descriptor is open, and the option is an integer of this size.
    let set = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const most).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
}

/// A flight larger than the kernels hold, to a client that says more before it reads.
#[test]
fn flight_that_waits_for_room_is_sent_when_there_is_some() {
    let authority = secure::Authority::new();
    let certificate = authority.issue(&["example.org"], |params| {
        let name = |n| rcgen::SanType::DnsName(format!("{n:0>60}.example.org").try_into().unwrap());
        params.subject_alt_names.extend((0..700).map(name));
    });
    let server = authority.server(&[certificate], tls::ClientCertificates::Off, 1);
    let client = authority.settings(None).config().unwrap();
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&fd, 2_048).unwrap();
    small_segments(&fd);
    connect(
        &fd,
        &match secure::address(&server) {
            SocketAddr::V4(v4) => v4,
            SocketAddr::V6(v6) => panic!("{v6}"),
        },
    )
    .unwrap();
    let mut tcp = patient(TcpStream::from(fd));
    let mut client = client_end(&client);
    send(&mut client, &mut tcp);
    let mut peeked = [0];
    assert_eq!(tcp.peek(&mut peeked).unwrap(), 1, "the flight has begun");
    // The dummy ChangeCipherSpec of RFC 8446 appendix D.4.
    tcp.write_all(&[20, 3, 3, 0, 1, 1]).unwrap();
    // It has its turn before the second of these.
    let mut plain = server.connect();
    (0..2).for_each(|_| assert_eq!(ask(&mut plain, "hello\n"), "hello\n"));
    receive(&mut client, &mut tcp);
    assert!(!client.is_handshaking());
}
