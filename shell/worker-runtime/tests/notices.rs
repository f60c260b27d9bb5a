//! What workers tell each other of connections, where the rings between them are full.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::io::{Read, Write};
use std::net::TcpStream;

/// More than may wait for a worker whose ring has one place.
const MANY: usize = 100;

/// Connections of worker 0, and those of others that were opened meanwhile.
fn of_first_worker(server: &Server) -> (Vec<TcpStream>, Vec<TcpStream>) {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for n in 0.. {
        let line = format!("quiet {n}");
        let mut stream = server.connect();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let (worker, _) = server.wait_told(&line, |(_, told)| *told == Told::Message(line.clone()));
        if worker == 0 { &mut found } else { &mut others }.push(stream);
        if found.len() == MANY {
            break;
        }
    }
    (found, others)
}

#[test]
fn ends_of_connections_reach_a_worker_that_stands_still() {
    let mut config = config("127.0.0.1");
    config.ring = 1;
    let server = Server::with(config, 2);
    let (all, _others) = of_first_worker(&server);
    let held = GATE.lock().unwrap();
    server.act(1, "stand still");
    server.wait_told("it stands", |told| *told == (1, Told::Message("stand still".to_owned())));
    let before = server.told().len();
    drop(all);
    let ends = |worker| -> Vec<Told> {
        let told = server.told().split_off(before).into_iter();
        let ends = told.filter(|(of, told)| *of == worker && matches!(told, Told::Disconnected(_)));
        ends.map(|(_, told)| told).collect()
    };
    let first = wait("their ends", || Some(ends(0)).filter(|ends| ends.len() == MANY));
    // While more than the limit wait to be told, no connection begins that would add to them.
    server.act(0, &format!(">tcp {} 7 quiet", server.tcp()));
    server.wait_told("no connection", |(_, told)| *told == Told::Undeliverable(7));
    wait("a refusal", || {
        let _ = TcpStream::connect(server.tcp());
        (server.counts().tcp_refused > 1).then_some(())
    });
    assert!(ends(1).is_empty());
    drop(held);
    wait("all ends at the other worker", || {
        let ends = ends(1);
        first.iter().all(|end| ends.contains(end)).then_some(())
    });
    wait("an answer", || {
        let mut stream = server.connect();
        stream.write_all(b"hello\n").ok()?;
        stream.read_exact(&mut [0; 6]).ok()
    });
}
