//! Handshakes of TLS in masses: caps, and calls that go on meanwhile.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use tls::{Certificate, Choice, ClientCertificates, RootCertStore, ServerSettings};
use wire::Transport;
use worker_runtime::{Listener, RuntimeConfig};

/// Addresses that attack.
const ATTACKERS: u32 = 10_000;
/// Handshakes that are allowed at a time.
const MOST: usize = 200;
/// The beginning of a handshake: the header of a record of 512 bytes, and the first byte of a ClientHello.
const HALF: [u8; 6] = [22, 3, 1, 2, 0, 1];

fn server(change: impl FnOnce(&mut RuntimeConfig)) -> Server {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["example.org".to_owned()]).unwrap();
    let chain: Vec<CertificateDer<'static>> = vec![params.self_signed(&key).unwrap().der().clone()];
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let certificate = Certificate::new(chain, &private).unwrap();
    let settings = ServerSettings {
        choice: Arc::new(Choice::new([(&certificate, &[][..])])),
        clients: ClientCertificates::Off,
        roots: Arc::new(RootCertStore::empty()),
        key_log: None,
    };
    let mut config = config("127.0.0.1");
    config.listeners.push(Listener { transport: Transport::Tls, address: "127.0.0.1:0".parse().unwrap() });
    config.tls = Some(settings.server().unwrap());
    config.streams.handshake = std::time::Duration::from_secs(600);
    config.streams.max_handshakes = MOST;
    change(&mut config);
    Server::with(config, 1)
}

/// A connection from this address with half a handshake on it.
fn half(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&fd, &SocketAddrV4::new(from, 0)).unwrap();
    // One that is refused may be gone already.
    let _ = connect(&fd, &to);
    let mut stream = TcpStream::from(fd);
    let _ = stream.write_all(&HALF);
    stream
}

#[test]
fn half_handshakes_of_many_are_capped_and_calls_go_on() {
    let server = server(|_| {});
    let [plain, secure] = [1, 2].map(|at| server.handle.listeners()[at].address);
    let mut call = patient(TcpStream::connect(plain).unwrap());
    let mut kept = Vec::new();
    for n in 0..ATTACKERS {
        let [_, _, high, low] = n.to_be_bytes();
        let stream = half(Ipv4Addr::new(127, 10, high, low), secure);
        if kept.len() < MOST {
            kept.push(stream);
        }
        if n % 100 == 0 {
            call.write_all(b"hello\n").unwrap();
            let mut answer = [0; 6];
            call.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"hello\n");
        }
    }
    let refused = u64::from(ATTACKERS) - MOST as u64;
    server.wait_count("the refusals", |c| c.tls_refused == refused);
    let counts = server.counts();
    assert_eq!((counts.tcp_open, counts.tls_handshakes), (MOST as u64 + 1, 0));
    // Their places are free again once they are gone.
    drop(kept);
    server.wait_count("the ends", |c| c.tcp_open == 1);
    let _stream = half(Ipv4Addr::new(127, 11, 0, 1), secure);
    server.wait_count("another one", |c| c.tcp_open == 2 && c.tls_refused == refused);
}

#[test]
fn half_handshakes_of_one_source_are_capped() {
    let server = server(|config| config.streams.max_handshakes_per_source = 3);
    let secure = server.handle.listeners()[2].address;
    let one: Vec<TcpStream> = (0..5).map(|_| half(Ipv4Addr::new(127, 12, 0, 1), secure)).collect();
    server.wait_count("two too many", |c| c.tls_refused == 2 && c.tcp_open == 3);
    let _other = half(Ipv4Addr::new(127, 12, 0, 2), secure);
    server.wait_count("another source", |c| c.tls_refused == 2 && c.tcp_open == 4);
    drop(one);
    server.wait_count("the ends", |c| c.tcp_open == 1);
}

#[test]
fn kept_bytes_of_handshakes_count_as_held() {
    let server = server(|config| config.streams.max_held = 50_000);
    let secure = server.handle.listeners()[2].address;
    // The beginning of a record of 16 kB each.
    let part = [&[22, 3, 1, 64, 0, 1][..], &[0; 15_000]].concat();
    let all: Vec<TcpStream> = (0..6u8)
        .map(|n| {
            let mut stream = half(Ipv4Addr::new(127, 13, 0, n + 1), secure);
            let _ = stream.write_all(&part);
            stream
        })
        .collect();
    server.wait_count("those beyond the room", |c| c.tls_closed_slow + c.tls_closed_error >= 2);
    drop(all);
    server.wait_count("the ends", |c| c.tcp_open == 0);
}
