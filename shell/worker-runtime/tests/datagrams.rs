//! UDP: echo, batches, hops between workers, failures.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use wire::Transport;
use worker_runtime::{Listener, Runtime, StartError};

#[test]
fn a_datagram_is_answered() {
    for workers in [1, 2, 4] {
        let server = Server::start(workers);
        let client = client();
        client.send_to(b"hello\n", server.udp()).unwrap();
        assert_eq!(hear(&client), "hello\n");
        let counts = server.wait_count("the answer", |c| c.udp_out == 1);
        assert_eq!((counts.udp_in, counts.udp_bytes_in, counts.udp_bytes_out), (1, 6, 6));
        assert_eq!(counts.hops_out, 0);
    }
}

#[test]
fn ipv6_works_and_takes_no_ipv4() {
    let server = Server::with(config("::1"), 2);
    let client = client_on("::1");
    client.send_to(b"sixth\n", server.udp()).unwrap();
    assert_eq!(hear(&client), "sixth\n");
}

/// Those that fit one packet of any network, those that may not, and the largest there is. To see the
/// ones between refused first, run it where packets are short: `unshare -n`, then
/// `ip link set lo up mtu 1300`.
#[test]
fn datagrams_of_all_sizes_pass() {
    let server = Server::start(1);
    let client = client();
    for size in [1_000, 1_272, 1_273, 1_400, 1_401, 1_500, 9_000, 65_507] {
        let big = vec![b'x'; size];
        client.send_to(&big, server.udp()).unwrap();
        assert_eq!(hear(&client).len(), big.len());
    }
    assert_eq!(server.counts().udp_send_errors, 0);
}

/// How many sockets of this machine at `local` are connected to `remote`, by their ports in /proc/net/udp.
/// One reading may leave a socket out, or have it twice, while others come and go: the list comes in pages
/// that begin at a count of sockets.
fn connected(local: SocketAddr, remote: SocketAddr) -> usize {
    let port = |word: &str| u16::from_str_radix(word.split_once(':').unwrap().1, 16).unwrap();
    let mut inodes = std::collections::BTreeSet::new();
    for _ in 0..8 {
        let text = std::fs::read_to_string("/proc/net/udp").unwrap();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if (port(words[1]), port(words[2])) == (local.port(), remote.port()) {
                inodes.insert(words[9].to_owned());
            }
        }
    }
    inodes.len()
}

#[test]
fn target_of_a_generator_has_a_twin_socket_and_others_are_heard() {
    let (peer, other) = (client(), client());
    for (workers, sockets) in [(1, 1), (2, 0)] {
        let mut config = config("127.0.0.1");
        config.generator.peer = Some(peer.local_addr().unwrap());
        let server = Server::with(config, workers);
        assert_eq!(connected(server.udp(), peer.local_addr().unwrap()), sockets);
        for size in [10, 1_400, 1_401, 9_000, 65_507] {
            for client in [&peer, &other] {
                let line = vec![b'x'; size];
                client.send_to(&line, server.udp()).unwrap();
                assert_eq!(hear(client).len(), size);
            }
        }
        // A burst is answered in batches.
        for round in 0..5 {
            for n in 0..100 {
                peer.send_to(format!("b {round} {n}\n").as_bytes(), server.udp()).unwrap();
            }
            (0..100).for_each(|_| assert!(hear(&peer).starts_with("b ")));
        }
        let counts = server.wait_count("all sent", |c| c.udp_out == 510);
        assert_eq!((counts.udp_in, counts.udp_send_errors), (510, 0));
    }
}

#[test]
fn a_peer_that_is_away_is_reported_as_any_other() {
    let mut config = config("127.0.0.1");
    let gone = client().local_addr().unwrap();
    config.generator.peer = Some(gone);
    let server = Server::with(config, 1);
    server.act(0, &format!(">udp {gone} 7 anybody"));
    server.wait_count("the report", |c| c.udp_returned == 1);
    // And then it is there.
    let back = UdpSocket::bind(gone).unwrap();
    server.act(0, &format!(">udp {gone} 8 somebody"));
    assert_eq!(hear(&back), "somebody\n");
}

#[test]
fn an_empty_datagram_is_passed_over() {
    let server = Server::start(2);
    let client = client();
    client.send_to(b"", server.udp()).unwrap();
    client.send_to(b"after\n", server.udp()).unwrap();
    assert_eq!(hear(&client), "after\n");
}

#[test]
fn every_message_reaches_its_owner_by_one_hop() {
    for workers in [2u16, 4] {
        let server = Server::start(workers);
        // Several clients, so that the kernel gives their datagrams to several workers.
        let clients: Vec<_> = (0..8).map(|_| client()).collect();
        for (n, client) in clients.iter().enumerate() {
            for digit in 0..10u16 {
                client.send_to(format!("{digit} {n}\n").as_bytes(), server.udp()).unwrap();
                assert_eq!(hear(client), format!("{}:{digit} {n}\n", digit % workers));
            }
        }
        let counts = server.wait_count("all answers", |c| c.udp_out == 80);
        assert_eq!(counts.hops_in, counts.hops_out);
        assert!(counts.hops_out > 0 && counts.hops_out < 80, "{counts:?}");
        assert_eq!(counts.ring_drops, 0);
    }
}

#[test]
fn a_burst_is_taken_in_batches_and_nothing_is_lost() {
    let server = Server::start(1);
    let client = client();
    const COUNT: usize = 200;
    // The worker is held up by a message of its own, so that a queue forms.
    let mut heard = BTreeMap::new();
    for round in 0..20 {
        for n in 0..COUNT {
            client.send_to(format!("burst {round} {n}\n").as_bytes(), server.udp()).unwrap();
        }
        for _ in 0..COUNT {
            *heard.entry(hear(&client)).or_insert(0) += 1;
        }
    }
    assert_eq!(heard.len(), 20 * COUNT);
    assert!(heard.values().all(|times| *times == 1));
    let counts = server.wait_count("all sent", |c| c.udp_out == 20 * COUNT as u64);
    assert!(counts.udp_batches < counts.udp_in, "some datagrams came together: {counts:?}");
    assert_eq!(counts.udp_kernel_drops, 0);
}

#[test]
fn a_full_ring_drops_and_counts() {
    let mut config = config("127.0.0.1");
    config.ring = 1;
    let server = Server::with(config, 2);
    // Enough clients that the kernel gives some to worker 1.
    let clients: Vec<_> = (0..32).map(|_| client()).collect();
    // Worker 0 wants to note what it is told and cannot; its ring holds one message.
    let held = server.log.lock().unwrap();
    server.act(0, "quiet");
    wait("a drop", || {
        for client in &clients {
            client.send_to(b"0 flood\n", server.udp()).unwrap();
        }
        (server.counts().ring_drops > 0).then_some(())
    });
    drop(held);
    // It still serves.
    let last = client();
    last.send_to(b"still here\n", server.udp()).unwrap();
    assert_eq!(hear(&last), "still here\n");
}

#[test]
fn what_the_kernel_refuses_is_undeliverable() {
    let server = Server::start(1);
    let client = client();
    // Broadcast is not enabled; the IPv4 socket reaches no IPv6 address.
    client.send_to(b">udp 255.255.255.255:9 41 text\n", server.udp()).unwrap();
    client.send_to(b">udp [::1]:9 42 text\n", server.udp()).unwrap();
    server.wait_told("the first failure", |told| told.1 == Told::Undeliverable(41));
    server.wait_told("the second failure", |told| told.1 == Told::Undeliverable(42));
    assert_eq!(server.counts().udp_send_errors, 2);
}

#[test]
fn tls_without_a_certificate_is_refused_and_undeliverable() {
    for transport in [Transport::Tls, Transport::Wss] {
        let mut config = config("127.0.0.1");
        config.listeners.push(Listener { transport, address: "127.0.0.1:0".parse().unwrap() });
        let machine = Lines { worker: 0, log: Log::default(), alarm: None };
        let error = Runtime::start(config, vec![machine]).err().expect("no certificate");
        assert!(matches!(error, StartError::NoCertificate(l) if l.transport == transport), "{error}");
    }
    let server = Server::start(1);
    server.act(0, ">wss@example.org 127.0.0.1:9 77 text");
    server.wait_told("the failure", |told| told.1 == Told::Undeliverable(77));
}

#[test]
fn sctp_is_served_or_the_missing_module_is_named() {
    let mut config = config("127.0.0.1");
    let listener = Listener { transport: Transport::Sctp, address: "127.0.0.1:0".parse().unwrap() };
    config.listeners.push(listener);
    let machine = Lines { worker: 0, log: Log::default(), alarm: None };
    match Runtime::start(config, vec![machine]) {
        Ok(runtime) => {
            assert!(runtime.handle().listeners().last().is_some_and(|l| l.address.port() != 0));
            runtime.handle().shutdown();
        }
        Err(error) => {
            assert!(matches!(error, StartError::NoSctp { listener: l, .. } if l == listener), "{error}");
            let said = error.to_string();
            assert!(
                said.starts_with("cannot listen on sctp:127.0.0.1:0: the kernel has no SCTP: "),
                "{said}"
            );
            assert!(said.contains("modprobe sctp"), "{said}");
        }
    }
}

#[test]
fn a_port_in_use_is_named_with_the_mend() {
    let server = Server::start(1);
    for (index, listener) in server.handle.listeners().iter().enumerate() {
        let mut config = config("127.0.0.1");
        config.listeners[index].address = listener.address;
        let machine = Lines { worker: 0, log: Log::default(), alarm: None };
        let error =
            Runtime::start(config.clone(), vec![machine]).err().expect("the port is taken").to_string();
        assert!(error.contains(&listener.address.to_string()), "{error}");
        assert!(error.contains("another process or listener has this port"), "{error}");
        config.share_ports = true;
        let machine = Lines { worker: 0, log: Log::default(), alarm: None };
        let shared = Runtime::start(config, vec![machine]).expect("sharing was allowed");
        shared.handle().shutdown();
        shared.join().unwrap();
    }
}

/// An address that nothing listens on. The socket holds the port without hearing anything for us: it
/// is connected elsewhere.
fn closed_port(ip: &str) -> (UdpSocket, SocketAddr) {
    let socket = client_on(ip);
    let address = socket.local_addr().unwrap();
    socket.connect((ip, 1)).unwrap();
    (socket, address)
}

#[test]
fn what_came_back_is_told_to_every_machine_and_harms_no_other_message() {
    for (ip, workers) in [("127.0.0.1", 1), ("127.0.0.1", 3), ("::1", 2)] {
        let server = Server::with(config(ip), workers);
        let (client, (_held, closed)) = (client_on(ip), closed_port(ip));
        let to = client.local_addr().unwrap();
        for n in 0..20 {
            server.act(0, &format!(">udp {closed} 7 lost {n}"));
            server.act(0, &format!(">udp {to} 8 arrives {n}"));
            // Each send after the lost one meets its error, and goes out all the same.
            assert_eq!(hear(&client), format!("arrives {n}\n"));
            let wanted = Told::Returned(closed, format!("lost {n}\n"));
            for worker in 0..workers {
                server.wait_told("what came back", |(w, told)| *w == worker && *told == wanted);
            }
        }
        // And so does each receive.
        client.send_to(b"still there\n", server.udp()).unwrap();
        assert_eq!(hear(&client), "still there\n");
        assert_eq!(server.counts().udp_returned, 20);
        assert!(!server.told().iter().any(|(_, told)| matches!(told, Told::Undeliverable(_))));
    }
}

#[test]
fn batches_go_out_between_those_that_come_back() {
    let server = Server::start(1);
    let (client, (_held, closed)) = (client(), closed_port("127.0.0.1"));
    let to = client.local_addr().unwrap();
    for n in 0..200 {
        server.act(0, &format!(">udp {} 7 message {n}", if n % 3 == 0 { closed } else { to }));
    }
    for n in (0..200).filter(|n| n % 3 != 0) {
        assert_eq!(hear(&client), format!("message {n}\n"));
    }
    let wanted = Told::Returned(closed, "message 198\n".to_owned());
    server.wait_told("the last that came back", |(_, told)| *told == wanted);
    assert_eq!(server.counts().udp_send_errors, 0);
}
