//! Hostile input from raw sockets, one test a row of the project's table of hostile inputs, over UDP
//! and TCP. Rows about TLS (9) and offered load (37) belong to later versions; slow senders (7) are
//! in `streams.rs`, faults of the machine (40) in `crash.rs`, name service (39) in `names.rs`.

mod calls;
mod framing;
mod messages;
mod trust;

use live::{Credentials, Link, Listener, Msg, Req, Server, Setup, Via, answer, unique};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(10);

/// A server that challenges nobody, with bob's phone registered at a listener.
fn open_with_bob() -> (Server, Listener) {
    let server = Setup::open().start();
    let mut bob = Listener::open(server.sip());
    bob.udp.register("bob");
    (server, bob)
}

/// A server with challenges on and two users.
fn closed() -> Server {
    Setup::new().user("alice", "secret-a").user("bob", "secret-b").start()
}

fn alice() -> Credentials<'static> {
    Credentials::new("alice", "secret-a")
}

/// Nothing may have reached the listener; the server has answered an OPTIONS sent later.
fn nothing_reached(listener: &mut Listener, what: &str) {
    if let Some((request, _)) = listener.request_within(SOON) {
        panic!("{what}: forwarded {}", String::from_utf8_lossy(&request.raw));
    }
}

/// Send raw bytes and expect one of these statuses, or silence when `silence` is allowed.
fn expect_refusal(server: &Server, via: Via, bytes: &[u8], statuses: &[u16], silence: bool, what: &str) {
    let mut link = server.link(via);
    link.send(bytes);
    server.assert_alive(what);
    let wait = if silence { SOON } else { LONG };
    match link.find_within(wait, |m| m.status().is_some_and(|s| s >= 200)) {
        Some(m) => assert!(statuses.contains(&m.status().unwrap()), "{what} over {via:?}: {}", m.start),
        None => assert!(silence || link.closed_within(LONG), "{what} over {via:?}: no answer"),
    }
}

/// The request with this text in place of Content-Length's value.
fn with_length(req: &Req, length_lines: &str, body: &[u8]) -> Vec<u8> {
    [format!("{}{length_lines}\r\n", req.head()).as_bytes(), body].concat()
}
