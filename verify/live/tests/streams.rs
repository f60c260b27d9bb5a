//! Slow and many streams (row 7 of the table of hostile inputs) and reuse of connections.

use live::{Link, Msg, Req, Setup, Via, eventually};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(15);

/// Numbers of workers: one, one that owns about half of what it reads, and one that owns little of it.
const WORKERS: [usize; 3] = [1, 2, 4];

/// As [`Setup::open`], once for each of [`WORKERS`].
fn open() -> impl Iterator<Item = Setup> {
    WORKERS.into_iter().map(|workers| Setup::open().workers(workers))
}

#[test]
fn row_07_slow_senders_are_cut_off() {
    for setup in open() {
        let server =
            setup.config("[limits]\ntcp_head_timeout = \"1s\"\ntcp_idle_timeout = \"30s\"\n").start();
        // A byte now and then never resets the clock of a started message.
        let mut slow = server.link(Via::Tcp);
        let bytes = Req::new("OPTIONS", "sip:example.com", &slow).bytes();
        let start = Instant::now();
        let closed = bytes.iter().any(|byte| {
            slow.send(std::slice::from_ref(byte));
            slow.closed_within(Duration::from_millis(200))
        });
        assert!(closed && start.elapsed() < LONG, "a slow header was waited for {:?}", start.elapsed());
        // A body that never comes.
        let mut waiting = server.link(Via::Tcp);
        let head = Req::new("OPTIONS", "sip:example.com", &waiting).head();
        waiting.send(format!("{head}Content-Length: 100\r\n\r\nhalf").as_bytes());
        assert!(waiting.closed_within(LONG), "a missing body was waited for");
        // Silence before any message is a connection kept open, and keepalives are no message.
        let mut idle = server.link(Via::Tcp);
        assert!(!idle.closed_within(Duration::from_secs(2)), "an idle connection was cut like a slow one");
        idle.send(b"\r\n\r\n");
        assert_eq!(idle.bytes_within(LONG), b"\r\n");
    }
}

#[test]
fn row_07_idle_streams_end_unless_a_phone_lives_there() {
    for setup in open() {
        let server = setup.config("[limits]\ntcp_idle_timeout = \"1s\"\n").start();
        let mut idle = server.link(Via::Tcp);
        assert!(idle.closed_within(LONG), "an idle stranger stays for ever");
    }
}

#[test]
fn row_07_one_source_cannot_take_every_connection() {
    for setup in open() {
        let server = setup.config("[limits]\nconnections_per_source = 10\n").start();
        let mut hog: Vec<Link> = (0..40).filter_map(|_| Link::try_tcp(server.sip()).ok()).collect();
        let refused = 40 - hog.len();
        let closed = eventually("connections above the cap are closed", || {
            let closed = hog
                .iter_mut()
                .filter_map(|l| l.closed_within(Duration::from_millis(1)).then_some(()))
                .count();
            (closed + refused >= 30).then_some(closed + refused)
        });
        assert!(closed <= 31, "{closed} of 40 closed with a cap of 10");
        server.assert_alive("a source with many connections");
    }
}

#[test]
fn a_response_comes_back_on_its_connection() {
    for setup in open() {
        let server = setup.start();
        let mut links: Vec<Link> = (0..20).map(|_| server.link(Via::Tcp)).collect();
        let asked: Vec<Req> = links.iter().map(|l| Req::new("OPTIONS", "sip:example.com", l)).collect();
        for (link, req) in links.iter_mut().zip(&asked) {
            link.send(&req.bytes());
        }
        for (link, req) in links.iter_mut().zip(&asked).rev() {
            assert_eq!(link.response(req).status(), Some(200));
        }
    }
}

/// What would begin something is refused where a phone takes nothing, and what goes on is not; its connection
/// stays, and it is reached again when it reads.
#[test]
fn new_requests_yield_to_a_phone_that_does_not_read() {
    for setup in open() {
        let server = setup.start();
        let mut deaf = server.link(Via::Tcp);
        deaf.register("deaf");
        let mut caller = server.link(Via::Udp);
        let body = vec![b'x'; 30_000];
        let ask = |caller: &mut Link| {
            let req = Req::new("MESSAGE", "sip:deaf@example.com", caller).body(&body);
            caller.send(&req.bytes());
            caller.response_within(&req, Duration::from_millis(5)).and_then(|answer| answer.status())
        };
        // The kernel takes some of them first.
        let status = eventually("a request yields", || ask(&mut caller));
        // The phone cannot be reached, and this is no fault of the server (RFC 3261 section 21.4.18).
        assert_eq!(status, 480);
        assert!(server.metric("strowger_tcp_congested_total") > 0);
        assert_eq!(server.metric("strowger_tcp_closed_stalled_total"), 0);
        // All that waited comes, and then what is new.
        let taken = (0..)
            .map_while(|_| deaf.find_within(Duration::from_millis(500), |m| m.method() == "MESSAGE"))
            .count();
        assert!(taken > 2, "{taken}");
        let again = Req::new("MESSAGE", "sip:deaf@example.com", &caller).body(b"again");
        caller.send(&again.bytes());
        let came = deaf.find_within(LONG, |m| m.has("again")).expect("the phone is reached again");
        deaf.send(&came.reply(200, "t", &[]));
        assert_eq!(caller.response(&again).status(), Some(200));
    }
}

#[test]
fn a_phone_that_does_not_read_harms_nobody() {
    for setup in open() {
        let server = setup.start();
        let mut deaf = server.link(Via::Tcp);
        deaf.register("deaf");
        // Far more than any socket buffer: the server must bound what it keeps for the deaf phone.
        let mut caller = server.link(Via::Tcp);
        let body = vec![b'x'; 30_000];
        for _ in 0..600 {
            let req = Req::new("MESSAGE", "sip:deaf@example.com", &caller).body(&body);
            caller.send(&req.bytes());
        }
        let mut other = server.link(Via::Tcp);
        other.register("other");
        server.assert_alive("a phone that does not read");
        let rss = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        let kib: u64 = rss
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok())
            .unwrap();
        assert!(kib < 400_000, "{kib} KiB resident after 18 MB for a deaf phone");
    }
}

/// What follows a message that was valid is no reason not to answer it, whichever worker owns it.
#[test]
fn valid_requests_are_answered_before_a_broken_stream_ends() {
    // The second request of RFC 4475 section 3.1.2.4 (`dblreq`) begins with what its Content-Length cut off.
    let tails: [&[u8]; 2] = [b"\x00\x01garbage\r\n\r\n", b"tion: x\r\nINVITE sip:a SIP/2.0\r\n\r\n"];
    for setup in open() {
        let server = setup.start();
        let mut callee = server.link(Via::Udp);
        callee.register("callee");
        for attempt in 0..20 {
            let mut link = server.link(Via::Tcp);
            let user = format!("user{attempt}");
            let asked = [
                Req::register(&user, &link),
                Req::new("INVITE", "sip:callee@example.com", &link).contact(&link),
                Req::new("OPTIONS", "sip:example.com", &link),
            ];
            let mut bytes: Vec<u8> = asked.iter().flat_map(Req::bytes).collect();
            bytes.extend_from_slice(tails[attempt % 2]);
            link.send(&bytes);
            let came: Vec<Msg> = std::iter::from_fn(|| link.recv_within(LONG)).collect();
            for (req, status) in asked.iter().zip([200, 100, 200]) {
                let found = came.iter().any(|m| m.answers(req) && m.status() == Some(status));
                assert!(found, "{status} to {} in attempt {attempt}: {came:?}", req.method);
            }
            assert!(link.closed_within(LONG), "attempt {attempt}");
        }
    }
}

#[test]
fn requests_are_answered_after_the_peer_has_ended_its_direction() {
    for setup in open() {
        let server = setup.start();
        for attempt in 0..10 {
            let mut link = server.link(Via::Tcp);
            let asked: Vec<Req> = (0..4).map(|_| Req::new("OPTIONS", "sip:example.com", &link)).collect();
            link.send(&asked.iter().flat_map(Req::bytes).collect::<Vec<u8>>());
            link.end_sending();
            let came: Vec<Msg> = asked.iter().map_while(|_| link.recv_within(LONG)).collect();
            for req in &asked {
                let found = came.iter().any(|m| m.answers(req) && m.status() == Some(200));
                assert!(found, "attempt {attempt}: {came:?}");
            }
        }
    }
}

/// Strangers who had one request answered hold every connection that they can.
#[test]
fn phones_get_in_while_strangers_hold_every_connection() {
    for setup in open() {
        let server = setup.config("[limits]\nconnections = 400\n").start();
        let mut strangers: Vec<Link> = Vec::new();
        for _ in 0..420 {
            let Ok(mut link) = Link::try_tcp(server.sip()) else { continue };
            link.send(&Req::new("OPTIONS", "sip:example.com", &link).bytes());
            let _ = link.recv_within(LONG);
            strangers.push(link);
        }
        let mut phones: Vec<Link> = (0..20).map(|_| server.link(Via::Tcp)).collect();
        for (n, phone) in phones.iter_mut().enumerate() {
            phone.register(&format!("phone{n}"));
        }
        // As many come again as there were, and no phone has to go.
        for _ in 0..420 {
            strangers.extend(Link::try_tcp(server.sip()));
        }
        for (n, phone) in phones.iter_mut().enumerate() {
            phone.register(&format!("phone{n}"));
        }
        assert!(server.metric("strowger_tcp_closed_room_total") > 0);
        let status = String::from_utf8(server.ctl(&["status"]).stdout).unwrap();
        assert!(status.contains("stream connections are short"), "{status}");
    }
}

/// A call that was answered keeps the connection of its caller, who has not registered.
#[test]
fn answered_call_keeps_the_connection_of_its_caller() {
    let server = Setup::open().config("[limits]\nconnections = 40\n").start();
    let mut callee = server.link(Via::Udp);
    callee.register("callee");
    let mut caller = server.link(Via::Tcp);
    let invite = Req::invite("sip:callee@example.com", &caller);
    caller.send(&invite.bytes());
    let asked = callee.request("INVITE");
    let contact = format!("Contact: <sip:callee@{}>", callee.local());
    callee.send(&asked.reply(200, "t", &[&contact]));
    let answer = caller.response(&invite);
    assert_eq!(answer.status(), Some(200));
    let _strangers: Vec<Link> = (0..80).filter_map(|_| Link::try_tcp(server.sip()).ok()).collect();
    eventually("an older connection makes room", || {
        (server.metric("strowger_tcp_closed_room_total") > 30).then_some(())
    });
    assert_eq!(caller.status(&Req::new("OPTIONS", "sip:example.com", &caller)), 200);
}
