//! The handle: notices, timers, draining, panics, the end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use wire::{Arrival, ConnId, Flow, Frame, FrameError, Machine, Outbox, Time, Transport};
use worker_runtime::{Bound, PostError, Runtime, RuntimeHandle, StartError, WorkerPanic, monotonic_now};

#[test]
fn notices_reach_the_worker_they_are_for() {
    let server = Server::start(3);
    server.handle.post(1, "only you".to_owned()).unwrap();
    assert_eq!(server.handle.post_all(&"all of you".to_owned()), 3);
    assert_eq!(server.handle.post(3, "nobody".to_owned()), Err(PostError::NoWorker("nobody".to_owned())));
    for worker in 0..3 {
        server.wait_told("the notice", |t| *t == (worker, Told::Notice("all of you".to_owned())));
    }
    server.wait_told("the notice", |t| *t == (1, Told::Notice("only you".to_owned())));
    wait("the counts", || (server.counts().notices == 4).then_some(()));
}

#[test]
fn a_full_queue_of_notices_gives_the_notice_back() {
    let mut config = config("127.0.0.1");
    config.notices = 1;
    let server = Server::with(config, 1);
    // The machine wants to note what it is told and cannot, so the worker takes one notice at most.
    let held = server.log.lock().unwrap();
    let error = (0..3).find_map(|_| server.handle.post(0, "again".to_owned()).err());
    drop(held);
    assert_eq!(error, Some(PostError::Full("again".to_owned())));
}

#[test]
fn a_deadline_wakes_a_sleeping_worker_and_not_early() {
    let server = Server::start(2);
    let before = monotonic_now();
    server.act(1, "alarm 50");
    server.wait_told("the alarm", |told| *told == (1, Told::Timeout));
    assert!((monotonic_now() - before).as_millis() >= 50);
}

#[test]
fn an_idle_worker_sleeps() {
    let server = Server::start(1);
    server.handle.post(0, "settle".to_owned()).unwrap();
    server.wait_told("the notice", |told| told.1 == Told::Notice("settle".to_owned()));
    server.act(0, "alarm 300");
    server.wait_told("the alarm", |told| told.1 == Told::Timeout);
    // Start, two notices, an alarm; a loop that spins makes thousands.
    assert!(server.counts().rounds < 50, "{:?}", server.counts());
}

#[test]
fn a_drained_server_takes_no_new_connections_and_serves_the_old() {
    let server = Server::start(2);
    let mut old = server.connect();
    assert_eq!(ask(&mut old, "before\n"), "before\n");
    server.handle.stop_accepting();
    wait("the kernel's refusal", || TcpStream::connect(server.tcp()).is_err().then_some(()));
    assert_eq!(ask(&mut old, "after\n"), "after\n");
    let client = client();
    client.send_to(b"too\n", server.udp()).unwrap();
    assert_eq!(hear(&client), "too\n");
}

#[test]
fn shutdown_ends_all_workers_and_frees_the_ports() {
    let mut server = Server::start(3);
    let (udp, tcp) = (server.udp(), server.tcp());
    let mut stream = server.connect();
    assert_eq!(ask(&mut stream, "hello\n"), "hello\n");
    server.handle.shutdown();
    server.runtime.take().unwrap().join().unwrap();
    assert_eq!(server.handle.live_workers(), 0);
    assert_eq!(hear_all(&mut stream), "");
    std::net::UdpSocket::bind(udp).unwrap();
    assert!(TcpStream::connect(tcp).is_err());
    assert_eq!(server.counts().tcp_open, 0);
}

#[test]
fn a_panic_is_told_and_the_other_workers_go_on() {
    let told: Arc<Mutex<Vec<WorkerPanic>>> = Arc::default();
    let mut config = config("127.0.0.1");
    let sink = Arc::clone(&told);
    config.on_panic = Some(Arc::new(move |panic: &WorkerPanic| sink.lock().unwrap().push(panic.clone())));
    let mut server = Server::with(config, 2);
    server.act(1, "boom");
    let expected = WorkerPanic { worker: 1, message: "told to".to_owned() };
    wait("the hook", || (*told.lock().unwrap() == [expected.clone()]).then_some(()));
    assert_eq!(server.handle.live_workers(), 1);
    assert_eq!(server.handle.panics(), std::slice::from_ref(&expected));
    // The port is the other worker's alone now.
    let client = client();
    client.send_to(b"still\n", server.udp()).unwrap();
    assert_eq!(hear(&client), "still\n");
    server.handle.shutdown();
    assert_eq!(server.runtime.take().unwrap().join(), Err(vec![expected]));
}

#[test]
fn machines_can_be_made_after_the_addresses_are_known() {
    let bound = Bound::new(config("127.0.0.1"), 1).unwrap();
    assert!(bound.listeners().iter().all(|l| l.address.port() != 0));
    let machines: Vec<Lines> = Vec::new();
    assert!(matches!(bound.start(machines), Err(StartError::Unusable(_))));
    assert!(matches!(Bound::new(config("127.0.0.1"), 0), Err(StartError::Unusable(_))));
}

#[test]
fn pinned_workers_run_and_an_impossible_cpu_is_no_hindrance() {
    let mut config = config("127.0.0.1");
    config.pin = vec![0, 4_000];
    let server = Server::with(config, 2);
    let mut stream = server.connect();
    stream.write_all(b"1 a\n0 b\n").unwrap();
    let mut heard: Vec<_> = hear_exactly(&mut stream, 12).split('\n').map(str::to_owned).collect();
    heard.sort();
    assert_eq!(heard, ["", "0:0 b", "1:1 a"]);
}

#[test]
fn descriptors_are_not_inherited() {
    let server = Server::start(1);
    let mut stream = server.connect();
    assert_eq!(ask(&mut stream, "hello\n"), "hello\n");
    // The inode numbers of our sockets: the tenth column of the lines with our address and that of our peer
    // or of none. Other programs may use the same port at other addresses or to other peers. One reading may
    // leave a socket out, or have it twice, while others come and go.
    let written = |address: SocketAddr| {
        let SocketAddr::V4(address) = address else { panic!("{address}") };
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    let peers = ["00000000:0000".to_owned(), written(stream.local_addr().unwrap())];
    let mut ours = std::collections::BTreeSet::new();
    for (table, address) in [("tcp", server.tcp()), ("udp", server.udp())].repeat(8) {
        let table = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap();
        let local = written(address);
        for line in table.lines() {
            let columns: Vec<_> = line.split_whitespace().collect();
            if columns.get(1) == Some(&local.as_str()) && peers.iter().any(|peer| peer == columns[2]) {
                ours.insert(format!("socket:[{}]", columns[9]));
            }
        }
    }
    assert_eq!(ours.len(), 3, "a listening socket, a connection and a datagram socket");
    let output = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(listed.contains("/proc/"), "{listed}");
    for socket in ours {
        assert!(!listed.contains(&socket), "a child has {socket}:\n{listed}");
    }
}

#[test]
fn dropping_the_runtime_leaves_it_running() {
    let mut server = Server::start(1);
    drop(server.runtime.take());
    let client = client();
    client.send_to(b"on\n", server.udp()).unwrap();
    assert_eq!(hear(&client), "on\n");
    server.handle.shutdown();
    wait("the end", || (server.handle.live_workers() == 0).then_some(()));
}

/// A machine that is told something anew as soon as it has been told.
struct Asked(Arc<OnceLock<RuntimeHandle<u32>>>);

impl Machine for Asked {
    type Notice = u32;

    fn frame(&self, _: Transport, buffer: &[u8], _: usize) -> Frame {
        Frame::Skip { len: buffer.len() }
    }

    fn owner(&self, _: &[u8], _: u16) -> Option<u16> {
        Some(0)
    }

    fn receive(&mut self, _: Arrival<'_>, _: &mut Outbox) -> Option<u16> {
        None
    }

    fn refuse(&mut self, _: Time, _: Flow, _: &[u8], _: FrameError, _: &mut Outbox) {}

    fn disconnected(&mut self, _: Time, _: ConnId, _: &mut Outbox) {}

    fn undeliverable(&mut self, _: Time, _: u64, _: &mut Outbox) {}

    fn notice(&mut self, _: Time, left: u32, _: &mut Outbox) {
        if let Some(handle) = self.0.get()
            && left > 0
        {
            handle.post(0, left - 1).unwrap();
        }
    }

    fn timeout(&mut self, _: Time, _: &mut Outbox) {}

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

#[test]
fn who_asks_again_and_again_keeps_no_socket_waiting() {
    let slot = Arc::new(OnceLock::new());
    let runtime = Runtime::start(config("127.0.0.1"), vec![Asked(Arc::clone(&slot))]).unwrap();
    let handle = slot.get_or_init(|| runtime.handle());
    handle.post(0, 999).unwrap();
    wait("all notices", || (handle.counts().notices == 1_000).then_some(()));
    wait("a round for each", || (handle.counts().rounds >= 1_000).then_some(()));
    handle.shutdown();
    runtime.join().unwrap();
}
