//! No arrival is overlooked, however it is taken, and nothing wakes a worker in vain.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::Transport;
use worker_runtime::Listener;

/// More than a socket's turn, which is four batches.
const BURST: usize = 150;

/// A server of one worker with two datagram sockets and batches of eight, and their addresses.
fn two_sockets() -> (Server, [SocketAddr; 2]) {
    let mut config = config("127.0.0.1");
    config.batch = 8;
    config.listeners.push(Listener { transport: Transport::Udp, ..config.listeners[0] });
    let server = Server::with(config, 1);
    let addresses = [0, 2].map(|at: usize| server.handle.listeners()[at].address);
    (server, addresses)
}

fn ask_datagram(client: &UdpSocket, to: SocketAddr, text: &str) {
    client.send_to(text.as_bytes(), to).unwrap();
    assert_eq!(hear(client), text);
}

/// Single datagrams teach the worker to take one and sleep. Then several come while it is busy, of which
/// epoll tells once, and after them none that would wake it. An overlooked one is never answered.
#[test]
fn bursts_on_two_sockets_are_taken_to_the_last() {
    let (server, addresses) = two_sockets();
    let clients = [client(), client()];
    for round in 0..10 {
        for n in 0..40 {
            for (client, to) in clients.iter().zip(addresses) {
                ask_datagram(client, to, &format!("single {round} {n}\n"));
            }
        }
        // Noting this takes the lock, so the worker is held up.
        let held = server.log.lock().unwrap();
        server.act(0, "quiet");
        for n in 0..BURST {
            for (client, to) in clients.iter().zip(addresses) {
                client.send_to(format!("burst {round} {n}\n").as_bytes(), to).unwrap();
            }
        }
        drop(held);
        for n in 0..BURST {
            for client in &clients {
                assert_eq!(hear(client), format!("burst {round} {n}\n"));
            }
        }
    }
    assert_eq!(server.counts().udp_kernel_drops, 0);
}

/// A pair again and again: the second one comes while the first is being answered, or just before.
#[test]
fn pairs_are_taken_to_the_last() {
    let (_server, [to, _]) = two_sockets();
    let (one, other) = (client(), client());
    for n in 0..2_000 {
        one.send_to(format!("one {n}\n").as_bytes(), to).unwrap();
        other.send_to(format!("other {n}\n").as_bytes(), to).unwrap();
        assert_eq!((hear(&one), hear(&other)), (format!("one {n}\n"), format!("other {n}\n")));
    }
}

/// Notices, other workers' messages and the other sockets get their turn during a flood.
#[test]
fn a_flood_holds_up_nobody_else() {
    let mut config = config("127.0.0.1");
    config.batch = 8;
    let server = Server::with(config, 2);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let flood = client();
            while !over.load(Ordering::Relaxed) {
                flood.send_to(b"flood\n", server.udp()).unwrap();
            }
        });
        let mut stream = server.connect();
        for n in 0..30 {
            for worker in 0..2 {
                server.handle.post(worker, format!("poke {n}")).unwrap();
                let poke = (worker, Told::Notice(format!("poke {n}")));
                server.wait_told("a poke", |told| *told == poke);
                let line = format!("{worker} {n}\n");
                assert_eq!(ask(&mut stream, &line), format!("{worker}:{line}"));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
#[allow(clippy::disallowed_methods, reason = "watches for what must not happen meanwhile")]
fn an_idle_worker_sleeps() {
    let (server, [to, _]) = two_sockets();
    let client = client();
    // The socket holds the port without hearing anything for us: it is connected elsewhere.
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    closed.connect("127.0.0.1:1").unwrap();
    for n in 0..100 {
        ask_datagram(&client, to, &format!("single {n}\n"));
    }
    client.send_to(b"", to).unwrap();
    server.act(0, &format!(">udp {} 7 lost", closed.local_addr().unwrap()));
    server.wait_count("the report", |counts| counts.udp_returned == 1 && counts.udp_in == 101);
    let before = server.counts().rounds;
    std::thread::sleep(Duration::from_millis(100));
    let rounds = server.counts().rounds - before;
    assert!(rounds <= 3, "{rounds} rounds without anything to do");
}
