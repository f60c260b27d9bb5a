//! TLS connections that a worker opens: servers that it trusts, and connections used for one name only.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::forge::{ALERT, DATA, Forge};
use common::secure::{Authority, address, listens};
use common::*;
use rcgen::SanType;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tls::{Client, ClientCertificates};
use wire::Transport;
use worker_runtime::RuntimeConfig;

/// A server without TLS listeners that opens connections with `client`.
fn caller(client: Client, workers: u16) -> Server {
    caller_with(config("127.0.0.1"), client, workers)
}

fn caller_with(mut config: RuntimeConfig, client: Client, workers: u16) -> Server {
    config.tls_client = Some(client);
    Server::with(config, workers)
}

/// Has a worker of the caller send a line over TLS, with this token.
fn say(caller: &Server, worker: u16, name: &str, to: SocketAddr, (token, line): (u64, &str)) {
    caller.act(worker, &format!(">tls@{name} {to} {token} {line}"));
}

/// Waits until a line has come.
fn heard(server: &Server, line: &str) {
    server.wait_told(line, |(_, told)| *told == Told::Message(line.to_owned()));
}

/// Waits until the message with this token has failed, without having been cut off.
fn failed(caller: &Server, token: u64) {
    caller.wait_told("the failure", |(_, told)| *told == Told::Undeliverable(token));
}

fn hears_nothing(server: &Server) {
    let messages = server.told().into_iter().filter(|(_, told)| matches!(told, Told::Message(_)));
    assert_eq!(messages.count(), 0);
}

#[test]
fn line_reaches_a_server_that_proves_its_name() {
    let authority = Authority::new();
    let server = authority.of(&["example.org"]);
    let caller = caller(authority.client(), 1);
    say(&caller, 0, "example.org", address(&server), (7, "echo me"));
    // The echo of it comes back over the same connection, and is echoed again: the two talk on.
    caller.wait_count("the echoes", |c| c.tcp_messages_in > 3);
    let counts = caller.counts();
    assert_eq!((counts.tcp_connects, counts.tls_handshakes, counts.tls_failures), (1, 1, 0));
}

#[test]
fn server_is_not_believed_without_the_name() {
    let authority = Authority::new();
    for (names, wanted) in [
        (&["other.example"][..], "example.org"),
        (&["example.org"], "sub.example.org"),
        (&["*.example.org"], "sip.example.org"),
        (&["example.org"], "127.0.0.1"),
    ] {
        let (server, caller) = (authority.of(names), caller(authority.client(), 1));
        say(&caller, 0, wanted, address(&server), (7, "quiet secret"));
        failed(&caller, 7);
        let counts = caller.counts();
        let seen = (counts.tls_unproven, counts.tls_handshakes, counts.tcp_connect_failures);
        assert_eq!(seen, (1, 0, 1), "{wanted}");
        hears_nothing(&server);
    }
}

#[test]
fn server_is_not_believed_by_an_old_or_foreign_certificate() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let old = authority.issue(&["example.org"], |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let strange = foreign.certificate(&["example.org"]);
    for certificate in [old, strange] {
        let server = authority.server(&[certificate], ClientCertificates::Off, 1);
        let caller = caller(authority.client(), 1);
        say(&caller, 0, "example.org", address(&server), (7, "quiet secret"));
        failed(&caller, 7);
        assert_eq!(caller.counts().tls_unproven, 1);
        hears_nothing(&server);
    }
}

#[test]
fn address_is_proven_by_a_certificate_that_names_it() {
    let authority = Authority::new();
    let certificate = authority.issue(&["example.org"], |params| {
        params.subject_alt_names.push(SanType::IpAddress("127.0.0.1".parse().unwrap()));
    });
    let server = authority.server(&[certificate], ClientCertificates::Off, 1);
    let caller = caller(authority.client(), 1);
    say(&caller, 0, "127.0.0.1", address(&server), (7, "quiet hello"));
    heard(&server, "quiet hello");
}

#[test]
fn connection_is_taken_again_for_its_name_only() {
    for workers in [1, 2] {
        let authority = Authority::new();
        let certificates = ["one.example", "two.example"].map(|name| authority.certificate(&[name]));
        let server = authority.server(&certificates, ClientCertificates::Off, 1);
        let (caller, to) = (caller(authority.client(), workers), address(&server));
        say(&caller, 0, "one.example", to, (1, "quiet 1"));
        heard(&server, "quiet 1");
        // Of any worker, in any case.
        say(&caller, workers - 1, "ONE.example", to, (2, "quiet 2"));
        heard(&server, "quiet 2");
        assert_eq!(server.counts().tcp_accepted, 1, "{workers}");
        say(&caller, workers - 1, "two.example", to, (3, "quiet 3"));
        heard(&server, "quiet 3");
        say(&caller, 0, "one.example", to, (4, "quiet 4"));
        heard(&server, "quiet 4");
        assert_eq!(server.counts().tcp_accepted, 2, "{workers}");
        // Who proves two names does not prove a third.
        say(&caller, 0, "three.example", to, (5, "quiet 5"));
        failed(&caller, 5);
    }
}

#[test]
fn lines_wait_together_for_one_handshake() {
    let authority = Authority::new();
    let (server, caller) = (authority.of(&["example.org"]), caller(authority.client(), 1));
    for number in 0..50 {
        say(&caller, 0, "example.org", address(&server), (number, &format!("quiet {number}")));
    }
    heard(&server, "quiet 49");
    let lines: Vec<_> = server.told().into_iter().map(|(_, told)| told).collect();
    let wanted: Vec<_> = (0..50).map(|number| Told::Message(format!("quiet {number}"))).collect();
    assert_eq!((lines, caller.counts().tcp_connects), (wanted, 1));
}

#[test]
fn message_to_a_name_that_nobody_can_prove_is_not_sent() {
    let authority = Authority::new();
    let (server, caller) = (authority.of(&["example.org"]), caller(authority.client(), 1));
    say(&caller, 0, "not/a/name", address(&server), (1, "quiet secret"));
    failed(&caller, 1);
    assert_eq!((caller.counts().tls_unproven, caller.counts().tcp_connects), (1, 0));
    assert_eq!(server.counts().tcp_accepted, 0);
}

#[test]
fn server_that_wants_a_certificate_gets_the_one_for_its_name() {
    let authority = Authority::new();
    let certificate = authority.certificate(&["example.org"]);
    let server = authority.server(&[certificate], ClientCertificates::Required, 1);
    let own = authority.settings(Some(authority.certificate(&["caller.example"])));
    let client = Client::new(&authority.settings(None), [("Example.org", &own)]).unwrap();
    let caller = caller(client, 1);
    say(&caller, 0, "example.org", address(&server), (7, "quiet hello"));
    heard(&server, "quiet hello");
}

#[test]
fn server_that_wants_a_certificate_refuses_who_has_none() {
    let authority = Authority::new();
    let certificate = authority.certificate(&["example.org"]);
    let server = authority.server(&[certificate], ClientCertificates::Required, 1);
    let caller = caller(authority.client(), 1);
    say(&caller, 0, "example.org", address(&server), (7, "quiet hello"));
    // With TLS 1.3 the line has left when the server refuses; it was not read, so it has failed.
    failed(&caller, 7);
    assert_eq!(caller.counts().tls_unproven, 1);
    hears_nothing(&server);
}

/// What a worker's machine was told, in order.
fn told_to(server: &Server, worker: u16) -> Vec<Told> {
    server.told().into_iter().filter(|(to, _)| *to == worker).map(|(_, told)| told).collect()
}

#[test]
fn every_worker_hears_who_a_peer_is_before_its_first_message() {
    let authority = Authority::new();
    let certificate = authority.certificate(&["example.org"]);
    let server = authority.server(&[certificate], ClientCertificates::Offered, 3);
    let own = authority.certificate(&["caller.example", "127.0.0.9"]);
    let caller = caller(Client::new(&authority.settings(Some(own)), []).unwrap(), 1);
    // Whichever worker has the connection, two of the three have the message from another one.
    for round in 0..20 {
        for worker in 0..3 {
            say(&caller, 0, "example.org", address(&server), (7, &format!("{worker} quiet {round}")));
        }
    }
    for worker in 0..3 {
        heard(&server, &format!("{worker} quiet 19"));
        let told = told_to(&server, worker);
        let Some(Told::Identified(conn, names)) = told.first() else { panic!("{worker}: {told:?}") };
        assert_eq!((names.join(" "), conn.is_accepted()), ("caller.example 127.0.0.9".to_owned(), true));
        assert!(told[1..].iter().all(|told| !matches!(told, Told::Identified(..))), "{told:?}");
    }
}

#[test]
fn server_that_was_connected_to_is_identified_too() {
    let authority = Authority::new();
    let server = authority.of(&["example.org"]);
    let mut config = config("127.0.0.1");
    config.tls = Some(authority.serving(&[], ClientCertificates::Offered).server().unwrap());
    let caller = caller_with(config, authority.client(), 2);
    say(&caller, 0, "example.org", address(&server), (7, "quiet"));
    for worker in 0..2 {
        let (_, told) = caller.wait_told("the server's name", |(to, told)| {
            *to == worker && matches!(told, Told::Identified(..))
        });
        let Told::Identified(conn, names) = told else { unreachable!() };
        assert_eq!((names.join(" "), conn.is_accepted()), ("example.org".to_owned(), false));
    }
}

#[test]
fn set_of_roots_for_some_peers_vouches_for_them_alone() {
    let [common, own] = [Authority::new(), Authority::new()];
    let serving = common.serving(&[common.certificate(&["example.org"])], ClientCertificates::Offered);
    let secured = serving.server().unwrap();
    let mut config = config("127.0.0.1");
    listens(&mut config, Transport::Tls);
    config.tls = Some(secured.clone());
    let server = Server::with(config, 1);
    let call = |authority: &Authority, line: &str| {
        let shown = authority.certificate(&[line.split_once(' ').unwrap().1]);
        let caller = caller(Client::new(&common.settings(Some(shown)), []).unwrap(), 1);
        say(&caller, 0, "example.org", address(&server), (7, line));
        caller
    };
    // Before its roots are there, the peer is refused.
    failed(&call(&own, "quiet early.example"), 7);
    assert_eq!(server.counts().tls_failed_certificate, 1);
    let authorities = secured.authorities().unwrap();
    authorities.replace([("own.pem", Arc::clone(&own.roots))]);
    let _callers = [call(&own, "quiet own.example"), call(&common, "quiet common.example")];
    for (name, authority) in [("own.example", "own.pem"), ("common.example", "")] {
        server.wait_told(name, |(_, told)| *told == Told::Vouched(name.to_owned(), authority.to_owned()));
    }
    // Taken away again, they vouch for nobody.
    authorities.replace([]);
    failed(&call(&own, "quiet late.example"), 7);
}

#[test]
fn peer_without_a_certificate_has_no_identity() {
    let authority = Authority::new();
    let certificate = authority.certificate(&["example.org"]);
    let server = authority.server(&[certificate], ClientCertificates::Offered, 2);
    let caller = caller(authority.client(), 1);
    say(&caller, 0, "example.org", address(&server), (7, "1 quiet"));
    heard(&server, "1 quiet");
    assert!(!server.told().iter().any(|(_, told)| matches!(told, Told::Identified(..))));
}

#[test]
fn identity_waits_for_room_before_the_messages() {
    let authority = Authority::new();
    let certificate = authority.certificate(&["example.org"]);
    let settings = authority.settings(Some(authority.certificate(&["caller.example"])));
    // A ring of one place is full most of the time.
    let mut config = config("127.0.0.1");
    listens(&mut config, Transport::Tls);
    config.tls = Some(authority.serving(&[certificate], ClientCertificates::Required).server().unwrap());
    config.ring = 1;
    let server = Server::with(config, 2);
    let callers: Vec<Server> = (0..8).map(|_| caller(Client::new(&settings, []).unwrap(), 1)).collect();
    for (number, caller) in callers.iter().enumerate() {
        for line in 0..20 {
            let worker = line % 2;
            say(caller, 0, "example.org", address(&server), (7, &format!("{worker} quiet {number}.{line}")));
        }
    }
    for (number, _) in callers.iter().enumerate() {
        heard(&server, &format!("0 quiet {number}.18"));
        heard(&server, &format!("1 quiet {number}.19"));
    }
    drop(callers);
    for worker in 0..2 {
        let gone = |told: &[Told]| told.iter().filter(|told| matches!(told, Told::Disconnected(_))).count();
        wait("the ends", || (gone(&told_to(&server, worker)) == 8).then_some(()));
        let mut known = Vec::new();
        for told in told_to(&server, worker) {
            match told {
                Told::Identified(conn, _) => known.push(conn),
                Told::Disconnected(conn) => assert!(known.contains(&conn), "its end came first"),
                Told::Message(_) => assert!(!known.is_empty(), "a message came first"),
                _ => {}
            }
        }
        assert_eq!(known.len(), 8);
    }
}

#[test]
fn server_that_says_nothing_is_given_up_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config("127.0.0.1");
    config.streams.connect = Duration::from_millis(100);
    let caller = caller_with(config, Authority::new().client(), 1);
    say(&caller, 0, "example.org", silent.local_addr().unwrap(), (7, "quiet hello"));
    let (mut peer, _) = silent.accept().unwrap();
    let mut hello = [0];
    patient(peer.try_clone().unwrap()).read_exact(&mut hello).unwrap();
    assert_eq!(hello, [22], "the beginning of a handshake, RFC 8446 section 5.1");
    failed(&caller, 7);
    assert_eq!(caller.counts().tls_unproven, 1);
    let _ = peer.read_to_end(&mut Vec::new());
}

#[test]
fn server_that_leaves_in_the_handshake_takes_nothing() {
    let leaver = TcpListener::bind("127.0.0.1:0").unwrap();
    let caller = caller(Authority::new().client(), 1);
    say(&caller, 0, "example.org", leaver.local_addr().unwrap(), (7, "quiet hello"));
    let (mut peer, _) = leaver.accept().unwrap();
    peer.read_exact(&mut [0; 5]).unwrap();
    drop(peer);
    failed(&caller, 7);
    assert_eq!(caller.counts().tls_unproven, 1);
    assert!(!caller.told().iter().any(|(_, told)| matches!(told, Told::CutOff(_) | Told::Disconnected(_))));
}

#[test]
fn refused_connection_is_a_failure_at_once() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let caller = caller(Authority::new().client(), 1);
    say(&caller, 0, "example.org", nobody, (7, "quiet hello"));
    failed(&caller, 7);
    let counts = caller.counts();
    assert_eq!((counts.tcp_connects_refused, counts.tls_unproven), (1, 0));
}

#[test]
fn server_that_restarts_is_connected_to_anew() {
    let authority = Authority::new();
    let server = authority.of(&["example.org"]);
    let (caller, to) = (caller(authority.client(), 1), address(&server));
    say(&caller, 0, "example.org", to, (1, "quiet 1"));
    heard(&server, "quiet 1");
    drop(server);
    caller.wait_count("the end", |c| c.tcp_open == 0);
    say(&caller, 0, "example.org", to, (2, "quiet 2"));
    failed(&caller, 2);
    let peer = TcpListener::bind(to).unwrap();
    say(&caller, 0, "example.org", to, (3, "quiet 3"));
    assert!(peer.accept().is_ok());
}

#[test]
fn many_bytes_go_through_a_slow_handshake() {
    let authority = Authority::new();
    let (server, caller) = (authority.of(&["example.org"]), caller(authority.client(), 1));
    let long = format!("quiet {}", "x".repeat(40_000));
    say(&caller, 0, "example.org", address(&server), (1, &long));
    heard(&server, &long);
}

/// A server that takes one connection, makes the handshake, and acts by hand from then on.
fn by_hand(tickets: usize, act: impl FnOnce(Forge) + Send + 'static) -> (Server, SocketAddr, JoinHandle<()>) {
    let authority = Authority::new();
    let settings = authority.serving(&[authority.certificate(&["example.org"])], ClientCertificates::Off);
    let mut serving = ServerConfig::clone(&settings.config().unwrap());
    (serving.enable_secret_extraction, serving.send_tls13_tickets) = (true, tickets);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let server = std::thread::Builder::new().name("by hand".into()).spawn(move || {
        let mut stream = StreamOwned::new(
            ServerConnection::new(Arc::new(serving)).unwrap(),
            patient(listener.accept().unwrap().0),
        );
        // The line has come when it is read.
        stream.read_exact(&mut [0; 12]).unwrap();
        act(Forge::server(stream));
    });
    let server = server.unwrap();
    (caller(authority.client(), 1), to, server)
}

/// The fatal alert `access_denied`.
const DENIED: [u8; 2] = [2, 49];

#[test]
fn refusal_before_anything_else_means_that_nothing_was_read() {
    let (caller, to, server) = by_hand(0, |mut server| server.send(ALERT, &DENIED));
    say(&caller, 0, "example.org", to, (7, "quiet hello"));
    failed(&caller, 7);
    assert_eq!((caller.counts().tls_unproven, caller.counts().tls_failed_alert), (1, 1));
    server.join().unwrap();
}

#[test]
fn alert_of_a_server_that_accepted_us_cuts_messages_off() {
    // It has sent a ticket, or an answer, maybe in the same segment as its alert.
    let answer = |mut server: Forge, apart: bool| {
        let answer = server.seal(DATA, b"quiet answer\n", 0);
        let alert = server.seal(ALERT, &DENIED, 0);
        if apart {
            server.tcp.write_all(&answer).unwrap();
            server.tcp.write_all(&alert).unwrap();
        } else {
            server.tcp.write_all(&[answer, alert].concat()).unwrap();
        }
    };
    for kind in 0..3 {
        let (caller, to, server) = by_hand(usize::from(kind == 0), move |mut server| match kind {
            0 => server.send(ALERT, &DENIED),
            _ => answer(server, kind == 1),
        });
        say(&caller, 0, "example.org", to, (7, "quiet hello"));
        caller.wait_told("the end", |(_, told)| *told == Told::CutOff(7));
        let counts = caller.counts();
        assert_eq!(
            (counts.tls_unproven, counts.tls_failed_alert, counts.tls_closed_error),
            (0, 1, 1),
            "{kind}"
        );
        assert!(!caller.told().iter().any(|(_, told)| *told == Told::Undeliverable(7)));
        if kind > 0 {
            heard(&caller, "quiet answer");
        }
        server.join().unwrap();
    }
}
