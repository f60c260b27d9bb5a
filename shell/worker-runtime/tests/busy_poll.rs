//! Workers that look for more before they sleep.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::net::UdpSocket;
use std::time::Duration;

/// Asks each of both workers in turn, whichever the kernel gives the datagram to, and waits for each answer.
fn ask(server: &Server, socket: &UdpSocket, times: usize) {
    let mut buffer = [0; 64];
    for n in 0..times {
        let line = format!("{} times {n}\n", n % 2);
        socket.send_to(line.as_bytes(), server.udp()).unwrap();
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], *format!("{}:{line}", n % 2).as_bytes());
    }
}

#[test]
fn they_look_while_there_is_traffic_and_sleep_when_there_is_none() {
    let mut config = config("127.0.0.1");
    // However busy the machine is, most answers come within that.
    config.busy_poll = Duration::from_millis(200);
    let server = Server::with(config, 2);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    wait("they look", || {
        ask(&server, &socket, 20);
        (server.counts().busy_polled_us > 0).then_some(())
    });
    wait("they sleep", || {
        let before = server.counts();
        // Longer than they look.
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(socket.recv(&mut [0; 64]).is_err());
        (server.counts() == before).then_some(())
    });
    // And are there at once.
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    ask(&server, &socket, 20);
}

#[test]
fn they_never_look_unless_told_to() {
    let server = Server::with(config("127.0.0.1"), 2);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    ask(&server, &socket, 200);
    assert_eq!(server.counts().busy_polled_us, 0);
}
