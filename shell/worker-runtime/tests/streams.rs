//! TCP: framing, fairness, closing, connections outwards.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use wire::ConnId;
use worker_runtime::RuntimeConfig;

#[test]
fn a_line_is_answered_on_its_connection() {
    for (ip, workers) in [("127.0.0.1", 1), ("127.0.0.1", 4), ("::1", 2)] {
        let server = Server::with(config(ip), workers);
        let mut stream = server.connect();
        assert_eq!(ask(&mut stream, "hello\n"), "hello\n");
        assert_eq!(server.counts().tcp_open, 1);
    }
}

#[test]
fn a_thousand_messages_in_one_segment_are_all_answered_in_order() {
    let server = Server::start(1);
    let mut stream = server.connect();
    let text: String = (0..1_000).map(|n| format!("line {n}\n")).collect();
    stream.write_all(text.as_bytes()).unwrap();
    assert_eq!(hear_exactly(&mut stream, text.len()), text);
    let counts = server.counts();
    assert_eq!(counts.tcp_messages_in, 1_000);
}

#[test]
fn byte_by_byte_is_the_same_as_at_once() {
    let server = Server::start(1);
    let mut stream = server.connect();
    let text = "\n\none\n\ntwo\nthree four\n";
    for byte in text.bytes() {
        stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(hear_exactly(&mut stream, 19), "one\ntwo\nthree four\n");
}

#[test]
fn a_message_longer_than_one_read_is_put_together() {
    let server = Server::start(1);
    let mut stream = server.connect();
    let line = format!("{}\n", "y".repeat(90_000));
    stream.write_all(line.as_bytes()).unwrap();
    assert_eq!(hear_exactly(&mut stream, line.len()), line);
}

#[test]
fn messages_hop_to_their_owner_and_answers_hop_back() {
    let server = Server::start(4);
    let mut streams: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for stream in &mut streams {
        for digit in 0..10u16 {
            assert_eq!(ask(stream, &format!("{digit} x\n")), format!("{}:{digit} x\n", digit % 4));
        }
    }
    let counts = server.counts();
    assert!(counts.hops_out > 0, "{counts:?}");
}

#[test]
fn a_ping_is_answered_once_in_a_while() {
    let mut config = config("127.0.0.1");
    config.streams.pong_interval = std::time::Duration::from_secs(3_600);
    let server = Server::with(config, 1);
    let mut stream = server.connect();
    stream.write_all(&b"P\n".repeat(10_000)).unwrap();
    assert_eq!(ask(&mut stream, "end\n"), "\r\n");
    assert_eq!(hear_exactly(&mut stream, 4), "end\n");
    assert_eq!(server.counts().tcp_pongs, 1);
}

#[test]
fn a_broken_stream_is_refused_with_its_head_and_closed() {
    let server = Server::start(2);
    let mut stream = server.connect();
    stream.write_all(b"fine\n!bad and more that is never read as a message\nfine\n").unwrap();
    assert_eq!(hear_all(&mut stream), "fine\nrefused\n");
    drop(stream);
    server.wait_told("the refusal", |told| told.1 == Told::Refused("!bad ".to_owned()));
    server.wait_count("the close", |c| c.tcp_closed_broken == 1 && c.tcp_open == 0);
}

/// Sends four lines of four workers and then `rest`, often, and hears them all answered before the end.
fn lines_are_answered_before_the_end(config: &RuntimeConfig, workers: u16, rest: &str, last: &str) {
    let server = Server::with(config.clone(), workers);
    for attempt in 0..20 {
        let mut stream = server.connect();
        stream.write_all(format!("0 a\n1 b\n2 c\n3 d\n{rest}").as_bytes()).unwrap();
        let heard = hear_all(&mut stream);
        let mut lines: Vec<&str> = heard.lines().collect();
        lines.sort_unstable();
        let mut wanted: Vec<String> = ["0 a", "1 b", "2 c", "3 d"]
            .iter()
            .zip(0..)
            .map(|(l, n)| format!("{}:{l}", n % workers))
            .collect();
        wanted.extend((!last.is_empty()).then(|| last.to_owned()));
        wanted.sort_unstable();
        assert_eq!(lines, wanted, "attempt {attempt} with {workers} workers");
    }
}

#[test]
fn broken_stream_ends_after_the_answers_of_all_workers() {
    for workers in [1, 2, 4] {
        lines_are_answered_before_the_end(&config("127.0.0.1"), workers, "!bad\n", "refused");
    }
}

#[test]
fn closed_stream_ends_after_the_answers_of_all_workers() {
    for workers in [1, 2, 4] {
        lines_are_answered_before_the_end(&config("127.0.0.1"), workers, "bye\n", "farewell");
    }
}

#[test]
fn stream_over_a_limit_ends_after_the_answers_of_all_workers() {
    let mut little = config("127.0.0.1");
    little.streams.max_held = 1_000;
    let rest = "x".repeat(2_000);
    for workers in [1, 2, 4] {
        lines_are_answered_before_the_end(&little, workers, &rest, "");
    }
}

#[test]
fn runtime_ends_after_the_answers_of_all_workers() {
    for workers in [1, 2, 4] {
        for _ in 0..10 {
            let server = Server::start(workers);
            let mut stream = server.connect();
            stream.write_all("0 a\n1 b\n2 c\n3 d\n".repeat(50).as_bytes()).unwrap();
            server.wait_count("the lines are read", |c| c.tcp_messages_in == 200);
            drop(server);
            assert_eq!(hear_all(&mut stream).lines().count(), 200, "{workers} workers");
        }
    }
}

#[test]
fn a_message_without_end_is_refused() {
    let server = Server::start(1);
    let mut stream = server.connect();
    let _ = stream.write_all(&vec![b'z'; 200_000]);
    assert_eq!(hear_all(&mut stream), "refused\n");
}

#[test]
fn a_peer_that_has_ended_its_direction_is_still_answered() {
    let server = Server::start(1);
    let mut stream = server.connect();
    stream.write_all(b"last\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(hear_all(&mut stream), "last\n");
    server.wait_count("the close", |c| c.tcp_closed_peer == 1 && c.tcp_open == 0);
}

#[test]
fn the_machine_can_close_after_its_last_word_and_all_workers_hear() {
    let server = Server::start(3);
    let mut stream = server.connect();
    stream.write_all(b"bye\n").unwrap();
    assert_eq!(hear_all(&mut stream), "farewell\n");
    drop(stream);
    for worker in 0..3 {
        server.wait_told("the news", |told| told.0 == worker && matches!(told.1, Told::Disconnected(_)));
    }
    server.wait_count("the close", |c| c.tcp_closed_asked == 1 && c.tcp_open == 0);
}

/// Lets every worker send a line with a token, its number plus one, to `remote`.
fn send_all(server: &Server, workers: u16, remote: SocketAddr) {
    for worker in 0..workers {
        server.act(worker, &format!(">tcp {remote} {} from {worker}", worker + 1));
    }
}

#[test]
fn a_connection_outwards_is_made_once_and_used_by_all_workers() {
    let server = Server::start(4);
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = peer.local_addr().unwrap();
    server.act(0, &format!(">tcp {remote} 1 first"));
    let mut stream = patient(peer.accept().unwrap().0);
    assert_eq!(hear_exactly(&mut stream, 6), "first\n");
    send_all(&server, 4, remote);
    let mut lines: Vec<String> =
        hear_exactly(&mut stream, 4 * 7).split_inclusive('\n').map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["from 0\n", "from 1\n", "from 2\n", "from 3\n"]);
    assert_eq!(server.counts().tcp_connects, 1);
    // What comes back on it is a message like any other.
    assert_eq!(ask(&mut stream, "2 back\n"), "2:2 back\n");
    assert_eq!(stream.peer_addr().unwrap().ip(), server.tcp().ip());
}

#[test]
fn a_connection_inwards_is_used_outwards() {
    let server = Server::start(2);
    let mut stream = server.connect();
    assert_eq!(ask(&mut stream, "hello\n"), "hello\n");
    send_all(&server, 2, stream.local_addr().unwrap());
    let mut lines: Vec<String> =
        hear_exactly(&mut stream, 2 * 7).split_inclusive('\n').map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["from 0\n", "from 1\n"]);
    assert_eq!(server.counts().tcp_connects, 0);
}

#[test]
fn a_refused_connection_makes_its_messages_undeliverable() {
    let server = Server::start(2);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    send_all(&server, 2, nobody);
    server.wait_told("the failure of 0", |told| *told == (0, Told::Undeliverable(1)));
    server.wait_told("the failure of 1", |told| *told == (1, Told::Undeliverable(2)));
    server.wait_count("the count", |c| c.tcp_connect_failures >= 1 && c.tcp_open == 0);
    let counts = server.counts();
    assert_eq!(counts.tcp_connects_refused, counts.tcp_connect_failures);
    assert!(!server.told().iter().any(|told| matches!(told.1, Told::Disconnected(_))));
}

/// An address that takes no connection and refuses none: its queue of those to be accepted is full.
fn silent() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: it changes the queue of a socket that is ours.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let remote = listener.local_addr().unwrap();
    let long = std::time::Duration::from_secs(2);
    let queued = std::iter::from_fn(|| TcpStream::connect_timeout(&remote, long).ok()).collect();
    (listener, queued)
}

#[test]
fn message_with_another_way_waits_briefly_for_a_connection() {
    for workers in [1, 2] {
        let mut config = config("127.0.0.1");
        config.streams.connect = std::time::Duration::from_secs(3_600);
        config.streams.connect_hurried = std::time::Duration::from_millis(50);
        let server = Server::with(config, workers);
        let ((listener, _queued), (other, _more)) = (silent(), silent());
        let remote = listener.local_addr().unwrap();
        server.act(0, &format!(">tcp {} 1 patient", other.local_addr().unwrap()));
        server.act(0, &format!(">tcp {remote} 2 patient"));
        // From the worker that has the connection, and from another.
        server.act(workers - 1, &format!(">tcp {remote} 3 soon"));
        server.wait_told("the failure", |told| *told == (workers - 1, Told::Undeliverable(3)));
        server.wait_told("what waited with it", |told| *told == (0, Told::Undeliverable(2)));
        assert!(!server.told().contains(&(0, Told::Undeliverable(1))), "it waits");
    }
}

#[test]
fn message_for_an_existing_connection_opens_none() {
    let server = Server::start(2);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = listener.local_addr().unwrap();
    for worker in [0, 1] {
        server.act(worker, &format!(">tcp {remote} 7 there"));
        server.wait_told("the failure", |told| *told == (worker, Told::Undeliverable(7)));
    }
    assert_eq!(server.counts().tcp_connects, 0);
    // Over one that the peer opened it goes, whichever worker has it.
    let mut stream = server.connect();
    assert_eq!(ask(&mut stream, "hello\n"), "hello\n");
    for worker in [0, 1] {
        server.act(worker, &format!(">tcp {} 8 there", stream.local_addr().unwrap()));
        assert_eq!(hear_exactly(&mut stream, 6), "there\n");
    }
    assert!(!server.told().iter().any(|told| told.1 == Told::Undeliverable(8)));
}

#[test]
fn message_goes_anew_if_the_one_before_finds_no_connection() {
    let server = Server::start(2);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let anew = listener.local_addr().unwrap();
    let mut stream = server.connect();
    assert_eq!(ask(&mut stream, "hello\n"), "hello\n");
    let there = stream.local_addr().unwrap();
    for worker in [0, 1] {
        server.act(worker, &format!(">tcp {there} 0 there|>tcp {anew} 0 else"));
        assert_eq!(hear_exactly(&mut stream, 6), "there\n");
    }
    assert_eq!(server.counts().tcp_connects, 0);
    drop(stream);
    server.wait_told("the end", |told| matches!(told.1, Told::Disconnected(_)));
    server.act(1, &format!(">tcp {there} 0 there|>tcp {anew} 0 else"));
    let mut other = listener.accept().unwrap().0;
    assert_eq!(hear_exactly(&mut other, 5), "else\n");
    // The same among a datagram or two, which are sent without being put in order.
    let phone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = phone.local_addr().unwrap();
    server.act(0, &format!(">udp {at} 0 there|>udp {at} 0 else"));
    server.act(0, &format!(">udp {at} 0 last"));
    for expected in ["there\n", "last\n"] {
        let mut buffer = [0; 16];
        let length = phone.recv(&mut buffer).unwrap();
        assert_eq!(String::from_utf8_lossy(&buffer[..length]), expected);
    }
}

#[test]
fn a_message_for_a_connection_that_is_gone_or_never_was_is_undeliverable() {
    let server = Server::start(2);
    let mut stream = server.connect();
    stream.write_all(b">>0 12345 201\n>>1 12345 202\n>>9 12345 203\n").unwrap();
    for token in [201, 202, 203] {
        server.wait_told("the failure", |told| told.1 == Told::Undeliverable(token));
    }
}

#[test]
fn a_connection_of_another_worker_can_be_written_to() {
    let server = Server::start(4);
    let mut streams: Vec<_> = (0..6).map(|_| server.connect()).collect();
    // Each connection's identifier is learnt when a neighbour is closed, so find them by asking for
    // the first slots of all workers: every connection hears exactly one word.
    for stream in &mut streams {
        assert_eq!(ask(stream, "ready\n"), "ready\n");
    }
    let mut asker = server.connect();
    let mut wanted = 0;
    for worker in 0..4 {
        for slot in 0..7 {
            wanted += 1;
            asker.write_all(format!(">>{worker} {slot} {}\n", 1_000 + wanted).as_bytes()).unwrap();
        }
    }
    for stream in &mut streams {
        assert_eq!(hear_exactly(stream, 7), "across\n");
    }
    assert_eq!(hear_exactly(&mut asker, 7), "across\n");
    // All others are undeliverable.
    let failures =
        || server.told().iter().filter(|t| matches!(t.1, Told::Undeliverable(n) if n > 1_000)).count();
    wait("the failures", || (failures() == wanted - 7).then_some(()));
}

#[test]
fn a_peer_that_does_not_read_is_closed_and_told_of() {
    let mut config = config("127.0.0.1");
    config.streams.max_queued = 100_000;
    let server = Server::with(config, 1);
    let mut deaf = server.connect();
    let mut other = server.connect();
    let line = format!("{}\n", "a".repeat(50_000));
    // The echo fills both kernel buffers, then ours.
    wait("the close", || {
        let broken = deaf.write_all(line.as_bytes()).is_err();
        (broken || server.counts().tcp_closed_stalled == 1).then_some(())
    });
    server.wait_count("the close", |c| c.tcp_closed_stalled == 1);
    server.wait_told("its messages", |told| told.1 == Told::Undeliverable(1));
    server.wait_told("its end", |told| matches!(told.1, Told::Disconnected(_)));
    assert_eq!(ask(&mut other, "unaffected\n"), "unaffected\n");
}

/// What would begin something is refused at once where much waits; what goes on waits, and nothing is closed.
/// From the worker of the connection, and from another one.
#[test]
fn what_is_new_yields_where_much_waits() {
    for worker in [0, 1] {
        let mut config = config("127.0.0.1");
        config.streams.max_queued = usize::MAX;
        config.streams.max_queued_yielding = 100_000;
        let server = Server::with(config, 2);
        let peer = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = peer.local_addr().unwrap();
        server.act(0, &format!(">tcp {remote} 1 new first"));
        let (mut stream, _) = peer.accept().unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        assert_eq!(hear_exactly(&mut stream, 10), "new first\n");
        // Nothing is read until the kernel's buffers and ours are full.
        let mut token = 1;
        wait("the refusal", || {
            token += 1;
            server.act(worker, &format!(">tcp {remote} {token} new {}", "a".repeat(50_000)));
            (server.counts().tcp_congested > 0).then_some(())
        });
        server.act(worker, &format!(">tcp {remote} 9 goes on"));
        server.wait_told("the refusal", |told| *told == (worker, Told::Undeliverable(token)));
        // All that waited comes.
        let mut text = Vec::new();
        while !text.ends_with(b"goes on\n") {
            let mut some = [0; 65_536];
            let n = stream.read(&mut some).unwrap();
            assert!(n > 0, "closed");
            text.extend_from_slice(&some[..n]);
        }
        let counts = server.counts();
        assert!(counts.tcp_closed_stalled == 0 && counts.tcp_open == 1, "{counts:?}");
        server.act(worker, &format!(">tcp {remote} 1 new again"));
        assert_eq!(hear_exactly(&mut stream, 10), "new again\n");
    }
}

/// The connections whose end a machine was told of.
fn gone(server: &Server) -> Vec<ConnId> {
    let conn = |told| if let Told::Disconnected(conn) = told { Some(conn) } else { None };
    server.told().into_iter().filter_map(|(_, told)| conn(told)).collect()
}

#[test]
fn identifiers_of_connections_are_not_used_again() {
    let server = Server::start(1);
    let mut seen = Vec::<ConnId>::new();
    for round in 0..5 {
        let mut stream = server.connect();
        assert_eq!(ask(&mut stream, "hello\n"), "hello\n");
        drop(stream);
        server.wait_count("the close", |c| c.tcp_open == 0);
        wait("the news", || (gone(&server).len() > round).then_some(()));
    }
    for conn in gone(&server) {
        assert!(!seen.contains(&conn));
        seen.push(conn);
    }
}

#[test]
fn a_busy_connection_does_not_hold_up_another() {
    let mut config = config("127.0.0.1");
    config.streams.work_budget = 8;
    let server = Server::with(config, 1);
    let mut busy = server.connect();
    let mut quick = server.connect();
    let flood = b"quiet flood\n".repeat(5_000);
    busy.write_all(&flood).unwrap();
    assert_eq!(ask(&mut quick, "quick\n"), "quick\n");
    assert_eq!(ask(&mut busy, "end\n"), "end\n");
    assert_eq!(server.counts().tcp_messages_in, 5_002);
}

#[test]
fn a_reset_is_noticed() {
    let server = Server::start(1);
    let mut stream = server.connect();
    assert_eq!(ask(&mut stream, "hello\n"), "hello\n");
    // Unread input at close makes the kernel send a reset.
    stream.write_all(b"unread\n").unwrap();
    let mut one = [0; 1];
    stream.read_exact(&mut one).unwrap();
    drop(stream);
    server.wait_count("the close", |c| c.tcp_closed_peer == 1 && c.tcp_open == 0);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]
    /// However the bytes of a stream are cut into segments, the answers are the same.
    #[test]
    fn segments_do_not_matter(
        lines in proptest::collection::vec("[a-e\n]{0,30}", 1..20),
        cuts in proptest::collection::vec(1usize..40, 1..60),
        budget in 1u32..5,
    ) {
        let mut config = config("127.0.0.1");
        config.streams.work_budget = budget;
        let server = Server::with(config, 1);
        let mut stream = server.connect();
        let text = format!("{}\n", lines.join("\n"));
        let mut rest = text.as_bytes();
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            stream.write_all(now).unwrap();
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        stream.shutdown(Shutdown::Write).unwrap();
        // Empty lines carry nothing, the others come back.
        let expected: String =
            text.split('\n').filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
        proptest::prop_assert_eq!(hear_all(&mut stream), expected);
    }
}

#[test]
fn peers_that_come_and_go_leave_nothing_behind() {
    let mut config = config("127.0.0.1");
    config.streams.half_closed = std::time::Duration::ZERO;
    let server = Server::with(config, 4);
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = peer.local_addr().unwrap();
    std::thread::scope(|scope| {
        for client in 0..6 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..40u16 {
                    let mut stream = server.connect();
                    let line = format!("{} c{client}\n", round % 10);
                    assert_eq!(ask(&mut stream, &line), format!("{}:{line}", round % 10 % 4));
                    // Half of them leave with answers on their way, some after a request for others.
                    if round % 2 == 0 {
                        let _ = stream.write_all(format!(">tcp {remote} 3 x\n1 late\n2 late\n").as_bytes());
                    }
                }
            });
        }
        // The peer closes each connection at once, so that ours are made and lost all the time.
        peer.set_nonblocking(true).unwrap();
        scope.spawn(|| {
            wait("the end of the clients", || {
                while peer.accept().is_ok() {}
                (server.counts().tcp_accepted == 240).then_some(())
            });
        });
    });
    let counts = wait("all closed", || {
        while peer.accept().is_ok() {}
        Some(server.counts()).filter(|c| c.tcp_open == 0 && c.tcp_accepted == 240)
    });
    assert!(counts.tcp_connects > 0, "{counts:?}");
    assert!(server.handle.panics().is_empty());
    assert_eq!(server.handle.live_workers(), 4);
}

#[test]
fn what_was_sent_to_a_peer_that_fails_is_reported() {
    let server = Server::start(2);
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    server.act(1, &format!(">tcp {} 7 hello", peer.local_addr().unwrap()));
    let (stream, _) = peer.accept().unwrap();
    server.wait_count("the message", |c| c.tcp_bytes_out == 6);
    // It goes without having read it, which is a reset.
    wait("the arrival", || (stream.peek(&mut [0; 8]).unwrap() == 6).then_some(()));
    drop(stream);
    server.wait_told("the failure", |told| *told == (1, Told::CutOff(7)));
}

#[test]
fn what_was_sent_to_a_peer_that_ends_its_direction_is_reported_when_it_is_gone() {
    let server = Server::start(2);
    let mut peer = server.connect();
    assert_eq!(ask(&mut peer, "hello\n"), "hello\n");
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(hear_all(&mut peer), "");
    // The echo's token.
    server.wait_told("the failure", |told| told.1 == Told::CutOff(1));
}
