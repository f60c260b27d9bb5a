//! Caps and deadlines of streams: what hostile or dead peers can hold, and for how long.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

/// Far beyond any test.
const NEVER: Duration = Duration::from_secs(86_400);
/// Soon, and longer than a tick of the deadline wheel.
const SOON: Duration = Duration::from_millis(200);

/// A server whose deadlines are far away but for what `change` says.
fn server(workers: u16, change: impl FnOnce(&mut worker_runtime::StreamLimits)) -> Server {
    let mut config = config("127.0.0.1");
    let s = &mut config.streams;
    (s.first_message, s.message, s.idle, s.half_closed, s.linger) = (NEVER, NEVER, NEVER, NEVER, NEVER);
    (s.connect, s.write_stall) = (NEVER, NEVER);
    change(s);
    Server::with(config, workers)
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let server = server(2, |s| s.first_message = SOON);
    let mut silent = server.connect();
    assert_eq!(hear_all(&mut silent), "");
    server.wait_count("the close", |c| c.tcp_closed_useless == 1 && c.tcp_open == 0);
}

#[test]
fn line_ends_and_pings_are_not_useful() {
    let server = server(1, |s| s.first_message = SOON);
    let mut stream = server.connect();
    wait("the close", || {
        let gone = stream.write_all(b"\nP\n").is_err();
        (gone || server.counts().tcp_closed_useless == 1).then_some(())
    });
}

#[test]
fn a_trickled_message_is_cut_off_and_others_are_not() {
    let server = server(1, |s| s.message = SOON);
    let mut good = server.connect();
    assert_eq!(ask(&mut good, "before\n"), "before\n");
    let mut slow = server.connect();
    // Useful first: the deadline of a message is not that of a first message.
    assert_eq!(ask(&mut slow, "hello\n"), "hello\n");
    wait("the close", || {
        let gone = slow.write_all(b"x").is_err();
        (gone || server.counts().tcp_closed_slow == 1).then_some(())
    });
    server.wait_told("the news", |told| matches!(told.1, Told::Disconnected(_)));
    assert_eq!(ask(&mut good, "after\n"), "after\n");
    assert_eq!(server.counts().tcp_closed_slow, 1);
}

#[test]
fn a_part_of_a_keepalive_is_no_message_begun() {
    let server = server(1, |s| s.message = SOON);
    let mut stream = server.connect();
    stream.write_all(b"\r").unwrap();
    let mut control = server.connect();
    control.write_all(b"begun").unwrap();
    assert_eq!(hear_all(&mut control), "");
    // The other has waited longer and is open still.
    assert_eq!(server.counts().tcp_open, 1);
    assert_eq!(ask(&mut stream, "\n"), "\r\n");
}

#[test]
fn a_long_message_is_given_time_for_its_length() {
    let server = server(1, |s| (s.message, s.min_bytes_per_second) = (SOON, 1));
    let mut long = server.connect();
    // 5000 bytes at one a second.
    long.write_all(&[b'x'; 5_000]).unwrap();
    server.wait_count("its arrival", |c| c.tcp_bytes_in == 5_000);
    let mut short = server.connect();
    short.write_all(b"").unwrap();
    assert_eq!(ask(&mut short, "one\n"), "one\n");
    let mut control = server.connect();
    control.write_all(b"y").unwrap();
    server.wait_count("the close of the one-byte message", |c| c.tcp_closed_slow == 1);
    assert_eq!(ask(&mut long, "\n").len(), 5_001);
}

#[test]
fn silence_is_allowed_for_its_time_only() {
    let server = server(1, |s| s.idle = SOON);
    let mut idle = server.connect();
    assert_eq!(ask(&mut idle, "hello\n"), "hello\n");
    assert_eq!(hear_all(&mut idle), "");
    server.wait_count("the close", |c| c.tcp_closed_idle == 1);
}

#[test]
fn a_peer_that_reads_nothing_of_a_little_is_closed_in_time() {
    let server = server(1, |s| {
        s.write_stall = SOON;
        s.max_queued = usize::MAX;
    });
    let mut deaf = server.connect();
    deaf.set_write_timeout(Some(Duration::from_millis(10))).unwrap();
    let line = format!("{}\n", "a".repeat(60_000));
    wait("the close", || {
        let _ = deaf.write(line.as_bytes());
        (server.counts().tcp_closed_stalled == 1).then_some(())
    });
}

#[test]
fn a_refused_peer_that_stays_is_reset_in_time() {
    let server = server(1, |s| s.linger = SOON);
    let mut stubborn = server.connect();
    stubborn.write_all(b"!\n").unwrap();
    assert_eq!(hear_exactly(&mut stubborn, 8), "refused\n");
    server.wait_count("the close", |c| c.tcp_closed_broken == 1 && c.tcp_open == 0);
}

#[test]
fn an_unanswered_connect_fails_in_time() {
    let server = server(1, |s| s.connect = SOON);
    let (full, _fillers) = full_listener();
    let remote = full.local_addr().unwrap();
    server.act(0, &format!(">tcp {remote} 5 never"));
    server.act(0, &format!(">tcp {remote} 6 comes"));
    for token in [5, 6] {
        server.wait_told("the failure", |told| told.1 == Told::Undeliverable(token));
    }
    assert_eq!(server.counts().tcp_connect_failures, 1);
}

#[test]
fn a_connection_being_made_queues_only_so_much() {
    let server = server(1, |s| s.max_queued_connecting = 10);
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = peer.local_addr().unwrap();
    // One notice is one round, so the connect cannot have ended between the two.
    server.act(0, &format!(">tcp {remote} 7 far more than ten bytes"));
    server.wait_told("the failure", |told| told.1 == Told::Undeliverable(7));
}

#[test]
fn one_source_gets_only_its_share() {
    let server = server(4, |s| (s.max_per_source, s.half_closed) = (3, SOON));
    let mut streams: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for stream in &mut streams {
        assert_eq!(ask(stream, "in\n"), "in\n");
    }
    assert_eq!(hear_all(&mut server.connect()), "");
    server.wait_count("the refusal", |c| c.tcp_refused == 1);
    // Another source is served, and a place given up is given again.
    drop(streams.pop());
    wait("a place", || {
        let mut next = server.connect();
        let served = next.write_all(b"in\n").is_ok() && hear_up_to(&mut next, 3) == "in\n";
        served.then_some(())
    });
}

/// Up to `len` bytes.
#[test]
fn oldest_loose_connection_goes_when_room_is_short() {
    for workers in [1, 2] {
        let server = server(workers, |s| (s.max_connections, s.idle_loose) = (16, Some(NEVER)));
        let mut kept = server.connect();
        assert_eq!(ask(&mut kept, "keep\n"), "kept\n");
        let mut strangers: Vec<_> = (0..12).map(|_| server.connect()).collect();
        for stranger in &mut strangers {
            assert_eq!(ask(stranger, "hello\n"), "hello\n");
        }
        // Twelve of sixteen are the most for such as never mattered.
        assert_eq!(server.counts().tcp_closed_room, 0);
        assert_eq!(server.handle.short_of_streams(), None);
        for late in 1..=20 {
            let mut phone = server.connect();
            // The kernel chooses the worker, which may have nothing to drop where there are two.
            if workers == 1 {
                assert_eq!(ask(&mut phone, "hello\n"), "hello\n");
                assert_eq!(server.counts().tcp_closed_room, late);
            }
            strangers.push(phone);
        }
        if workers == 1 {
            assert_eq!(hear_all(&mut strangers[0]), "");
            assert_eq!(ask(&mut strangers[31], "still\n"), "still\n");
        }
        assert_eq!(ask(&mut kept, "still\n"), "still\n");
        assert!(server.handle.short_of_streams().is_some());
        assert!(server.counts().tcp_open <= 13);
    }
}

#[test]
fn a_share_is_kept_for_connections_that_matter() {
    let server = server(1, |s| (s.max_connections, s.idle_loose) = (16, Some(NEVER)));
    let mut kept = Vec::new();
    for _ in 0..15 {
        let mut phone = server.connect();
        assert_eq!(ask(&mut phone, "keep\n"), "kept\n");
        kept.push(phone);
    }
    let mut stranger = server.connect();
    assert_eq!(ask(&mut stranger, "hello\n"), "hello\n");
    // It is the only one that can go.
    let mut other = server.connect();
    assert_eq!(ask(&mut other, "keep\n"), "kept\n");
    assert_eq!(hear_all(&mut stranger), "");
    // Now none can.
    let mut late = server.connect();
    assert_eq!(hear_all(&mut late), "");
    for phone in &mut kept {
        assert_eq!(ask(phone, "still\n"), "still\n");
    }
}

#[test]
fn loose_connections_are_closed_after_short_silence() {
    let short = Duration::from_millis(300);
    let server = server(1, |s| s.idle_loose = Some(short));
    let mut kept = server.connect();
    assert_eq!(ask(&mut kept, "keep\n"), "kept\n");
    let mut stranger = server.connect();
    assert_eq!(ask(&mut stranger, "hello\n"), "hello\n");
    // Pings do not prolong it.
    assert_eq!(ask(&mut stranger, "P\n"), "\r\n");
    assert_eq!(hear_all(&mut stranger), "");
    server.wait_count("the close", |c| c.tcp_closed_idle == 1);
    assert_eq!(ask(&mut kept, "still\n"), "still\n");
}

#[test]
fn connection_in_use_makes_no_room_until_it_is_released() {
    let server = server(1, |s| (s.max_connections, s.idle_loose) = (16, Some(NEVER)));
    let mut used = server.connect();
    for _ in 0..2 {
        assert_eq!(ask(&mut used, "use\n"), "used\n");
    }
    let mut strangers = Vec::new();
    let mut come = |count| {
        for _ in 0..count {
            let mut stranger = server.connect();
            assert_eq!(ask(&mut stranger, "hello\n"), "hello\n");
            strangers.push(stranger);
        }
    };
    come(30);
    for _ in 0..2 {
        assert_eq!(ask(&mut used, "free\n"), "freed\n", "twice in use");
        come(11);
    }
    // It came to the end of the list when it was released.
    assert_eq!(ask(&mut used, "still\n"), "still\n");
    come(1);
    assert_eq!(hear_all(&mut used), "");
}

#[test]
fn connection_is_as_loose_as_before_after_its_use() {
    let server = server(1, |s| s.idle_loose = Some(Duration::from_millis(300)));
    let mut used = server.connect();
    assert_eq!(ask(&mut used, "use\n"), "used\n");
    let mut stranger = server.connect();
    assert_eq!(ask(&mut stranger, "hello\n"), "hello\n");
    assert_eq!(hear_all(&mut stranger), "");
    assert_eq!(ask(&mut used, "free\n"), "freed\n");
    assert_eq!(hear_all(&mut used), "");
    server.wait_count("the close", |c| c.tcp_closed_idle == 2);
}

#[test]
fn connection_that_matters_outlasts_its_use() {
    let server = server(1, |s| s.idle_loose = Some(Duration::from_millis(300)));
    let mut phone = server.connect();
    assert_eq!(ask(&mut phone, "use\n"), "used\n");
    assert_eq!(ask(&mut phone, "keep\n"), "kept\n");
    assert_eq!(ask(&mut phone, "free\n"), "freed\n");
    let mut stranger = server.connect();
    assert_eq!(ask(&mut stranger, "hello\n"), "hello\n");
    assert_eq!(hear_all(&mut stranger), "");
    assert_eq!(ask(&mut phone, "still\n"), "still\n");
}

#[test]
fn connections_in_use_by_strangers_leave_half_to_others() {
    let server = server(1, |s| (s.max_connections, s.idle_loose) = (16, Some(NEVER)));
    let mut used: Vec<_> = (0..12).map(|_| server.connect()).collect();
    for stranger in &mut used {
        assert_eq!(ask(stranger, "use\n"), "used\n");
    }
    for _ in 0..4 {
        let mut phone = server.connect();
        assert_eq!(ask(&mut phone, "keep\n"), "kept\n");
    }
    // The ninth was one too many to be spared.
    assert_eq!(ask(&mut used[7], "still\n"), "still\n");
    assert_eq!(hear_all(&mut used[8]), "");
}

fn hear_up_to(stream: &mut std::net::TcpStream, len: usize) -> String {
    let mut text = String::new();
    let mut one = [0; 1];
    while text.len() < len && matches!(std::io::Read::read(stream, &mut one), Ok(1)) {
        text.push(one[0] as char);
    }
    text
}

#[test]
fn the_process_takes_only_so_many() {
    let server = server(2, |s| s.max_connections = 2);
    let mut streams: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for stream in &mut streams {
        assert_eq!(ask(stream, "in\n"), "in\n");
    }
    assert_eq!(hear_all(&mut server.connect()), "");
    // Our own connections count as well.
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    server.act(0, &format!(">tcp {} 9 x", peer.local_addr().unwrap()));
    server.wait_told("the failure", |told| told.1 == Told::Undeliverable(9));
}

#[test]
fn all_buffers_together_hold_only_so_much() {
    let server = server(1, |s| s.max_held = 100_000);
    let mut good = server.connect();
    assert_eq!(ask(&mut good, "before\n"), "before\n");
    let mut hoarders: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for hoarder in &mut hoarders {
        // Begun and never finished; the third at the latest is one too many.
        let _ = hoarder.write_all(&[b'x'; 40_000]);
    }
    server.wait_count("the closes", |c| c.tcp_closed_slow == 2);
    assert_eq!(ask(&mut good, "after\n"), "after\n");
    // What the closed ones held is free again.
    hoarders.truncate(0);
    server.wait_count("the others' end", |c| c.tcp_open == 1);
    let mut more = server.connect();
    let line = format!("{}\n", "y".repeat(60_000));
    assert_eq!(ask(&mut more, &line).len(), line.len());
}

#[test]
fn what_is_queued_for_many_peers_counts_together() {
    // Each is far below what one may have queued; together they are not.
    let server = server(1, |s| s.max_held = 100_000);
    let full: Vec<_> = (0..6).map(|_| full_listener()).collect();
    for (listener, _) in &full {
        let remote = listener.local_addr().unwrap();
        server.act(0, &format!(">tcp {remote} 5 {}", "x".repeat(30_000)));
    }
    server.wait_count("the closes", |c| c.tcp_closed_stalled == 3);
    server.wait_told("the failure", |told| told.1 == Told::Undeliverable(5));
}

/// A listener whose queue is full: it drops further attempts without an answer.
fn full_listener() -> (TcpListener, Vec<std::net::TcpStream>) {
    let full = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = full.local_addr().unwrap();
    // SAFETY: a valid listening socket; the second listen only shortens its queue.
    assert_eq!(unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&full), 0) }, 0);
    let mut fillers = Vec::new();
    while let Ok(filler) = std::net::TcpStream::connect_timeout(&remote, Duration::from_millis(100)) {
        fillers.push(filler);
    }
    (full, fillers)
}
