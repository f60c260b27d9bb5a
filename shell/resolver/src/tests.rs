//! Against a small DNS server on loopback that behaves badly on request.

mod server;

use super::*;
use server::{Record, Reply, Server};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// Long enough for a loaded machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

struct Setup {
    resolver: Resolver,
    answers: Receiver<Answer>,
}

impl Setup {
    fn new(config: &ResolverConfig) -> Setup {
        let (deliver, answers) = channel();
        let resolver = Resolver::start(config, move |answer| {
            // The test may have ended.
            let _ = deliver.send(answer);
        });
        Setup { resolver: resolver.unwrap(), answers }
    }

    fn with(server: &Server) -> Setup {
        Setup::new(&config(server))
    }

    fn ask(&self, kind: Kind, name: &str) -> Result<(), Answer> {
        self.resolver.ask(Question { worker: 3, id: 77, kind, name: name.as_bytes().into() })
    }

    fn next(&self) -> Answer {
        self.answers.recv_timeout(PATIENCE).expect("an answer")
    }

    fn find(&self, kind: Kind, name: &str) -> (Outcome, u32) {
        self.ask(kind, name).unwrap();
        let answer = self.next();
        assert_eq!((answer.question.worker, answer.question.id), (3, 77));
        assert_eq!(answer.question.name[..], *name.as_bytes());
        (answer.outcome, answer.ttl)
    }
}

fn config(server: &Server) -> ResolverConfig {
    ResolverConfig {
        nameservers: vec![server.address()],
        timeout: PATIENCE,
        hosts: HostsFile::None,
        ..ResolverConfig::default()
    }
}

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

#[test]
fn each_kind_of_record_arrives_whole() {
    let server = Server::start(|name, kind| match (name, kind) {
        ("h.example", 1) => Reply::Records(vec![Record::a(60, address(1)), Record::a(30, address(2))]),
        ("h.example", 28) => Reply::Records(vec![Record::aaaa(60, "2001:db8::1".parse().unwrap())]),
        ("_sip._udp.h.example", 33) => Reply::Records(vec![Record::srv(60, 10, 20, 5062, "h.example")]),
        ("h.example", 35) => Reply::Records(vec![
            Record::naptr(60, 50, 51, "s", "SIP+D2U", "", "_sip._udp.h.example"),
            Record::naptr(60, 1, 1, "u", "E2U+sip", "!^.*$!sip:x@y!", ""),
        ]),
        _ => Reply::NoSuchName,
    });
    let setup = Setup::with(&server);
    let (outcome, ttl) = setup.find(Kind::A, "h.example");
    assert_eq!((outcome, ttl), (Outcome::A([address(1), address(2)].into()), 30), "the least TTL");
    assert_eq!(setup.find(Kind::A, "H.Example.").0, Outcome::A([address(1), address(2)].into()));
    let six = ["2001:db8::1".parse().unwrap()];
    assert_eq!(setup.find(Kind::Aaaa, "h.example").0, Outcome::Aaaa(six.into()));
    let srv = Srv { priority: 10, weight: 20, port: 5062, target: b"h.example"[..].into() };
    assert_eq!(setup.find(Kind::Srv, "_sip._udp.h.example").0, Outcome::Srv([srv].into()));
    let naptr = Naptr {
        order: 50,
        preference: 51,
        flags: b"s"[..].into(),
        service: b"SIP+D2U"[..].into(),
        replacement: b"_sip._udp.h.example"[..].into(),
    };
    let (outcome, _) = setup.find(Kind::Naptr, "h.example");
    assert_eq!(outcome, Outcome::Naptr([naptr].into()), "without the one with a regular expression");
}

#[test]
fn absence_and_failure_are_told_apart() {
    let server = Server::start(|name, _| match name {
        "nx.example" => Reply::NoSuchName,
        "empty.example" => Reply::Records(vec![]),
        "refused.example" => Reply::Code(5),
        _ => Reply::Code(2),
    });
    let setup = Setup::with(&server);
    let (outcome, ttl) = setup.find(Kind::A, "nx.example");
    assert_eq!((outcome, ttl), (Outcome::Nothing, 17), "the TTL of the SOA");
    assert_eq!(setup.find(Kind::Srv, "empty.example").0, Outcome::Nothing);
    assert_eq!(setup.find(Kind::A, "servfail.example"), (Outcome::Failed(Failure::Server), 0));
    assert_eq!(setup.find(Kind::A, "refused.example"), (Outcome::Failed(Failure::Server), 0));
}

#[test]
fn a_silent_server_costs_the_time_limit_and_no_more() {
    let server = Server::start(|_, _| Reply::Silence);
    let setup = Setup::new(&ResolverConfig { timeout: Duration::from_millis(100), ..config(&server) });
    assert_eq!(setup.find(Kind::A, "slow.example"), (Outcome::Failed(Failure::Timeout), 0));
}

#[test]
fn a_slow_name_does_not_hold_up_the_others() {
    // The answer to "held" leaves only after "other" was asked.
    let server = Server::start(|name, _| match name {
        "held.example" => Reply::HoldUntil("other.example", vec![Record::a(60, address(1))]),
        _ => Reply::Records(vec![Record::a(60, address(2))]),
    });
    let setup = Setup::with(&server);
    setup.ask(Kind::A, "held.example").unwrap();
    server.wait_for("held.example");
    setup.ask(Kind::A, "other.example").unwrap();
    let mut outcomes = [setup.next(), setup.next()].map(|answer| (answer.question.name, answer.outcome));
    outcomes.sort_by(|a, b| a.0.cmp(&b.0));
    let [held, other] = outcomes.map(|(_, outcome)| outcome);
    assert_eq!((held, other), (Outcome::A([address(1)].into()), Outcome::A([address(2)].into())));
}

#[test]
fn beyond_concurrency_and_queue_the_refusal_is_immediate() {
    let server = Server::start(|name, _| match name {
        "1.example" => Reply::HoldUntil("2.example", vec![Record::a(60, address(1))]),
        _ => Reply::Records(vec![Record::a(60, address(2))]),
    });
    let setup = Setup::new(&ResolverConfig { concurrency: 1, queue: 1, ..config(&server) });
    setup.ask(Kind::A, "1.example").unwrap();
    server.wait_for("1.example");
    setup.ask(Kind::A, "2.example").unwrap();
    let refused = setup.ask(Kind::A, "3.example").unwrap_err();
    assert_eq!(refused.outcome, Outcome::Failed(Failure::Busy));
    assert_eq!(refused.question.name[..], *b"3.example");
    // What was accepted is answered: the second waits for the first, which the server lets go when it
    // is told to.
    server.release("2.example");
    assert_eq!(setup.next().question.name[..], *b"1.example");
    assert_eq!(setup.next().question.name[..], *b"2.example");
}

#[test]
fn five_hundred_srv_records_come_over_tcp() {
    let server = Server::start(|_, _| {
        Reply::TruncatedOverUdp((0..600).map(|n| Record::srv(60, n, 0, 5060, "h.example")).collect())
    });
    let setup = Setup::with(&server);
    let (Outcome::Srv(list), _) = setup.find(Kind::Srv, "_sip._udp.big.example") else {
        panic!("SRV records")
    };
    assert_eq!(list.len(), 512, "a bound on what is taken");
    assert_eq!(server.tcp_questions(), 1);
}

#[test]
fn aliases_are_followed_and_their_loops_left() {
    let server = Server::start(|name, _| match name {
        "alias.example" => Reply::Records(vec![Record::cname(5, "h.example")]),
        "h.example" => Reply::Records(vec![Record::a(60, address(1))]),
        "loop-a.example" => Reply::Records(vec![Record::cname(60, "loop-b.example")]),
        "loop-b.example" => Reply::Records(vec![Record::cname(60, "loop-a.example")]),
        _ => Reply::NoSuchName,
    });
    let setup = Setup::with(&server);
    assert_eq!(setup.find(Kind::A, "alias.example"), (Outcome::A([address(1)].into()), 5));
    let (outcome, _) = setup.find(Kind::A, "loop-a.example");
    assert!(matches!(outcome, Outcome::Failed(_) | Outcome::Nothing), "{outcome:?}");
    assert!(server.questions() < 40, "the loop is cut: {}", server.questions());
}

#[test]
fn a_ttl_of_zero_is_passed_on() {
    let server = Server::start(|_, _| Reply::Records(vec![Record::a(0, address(1))]));
    let setup = Setup::with(&server);
    assert_eq!(setup.find(Kind::A, "h.example"), (Outcome::A([address(1)].into()), 0));
}

#[test]
fn broken_answers_are_failures() {
    let server = Server::start(|name, _| match name {
        "pointer.example" => Reply::PointerLoop,
        _ => Reply::Garbage,
    });
    let setup = Setup::new(&ResolverConfig { timeout: Duration::from_millis(300), ..config(&server) });
    for name in ["pointer.example", "garbage.example"] {
        assert!(matches!(setup.find(Kind::A, name).0, Outcome::Failed(_)), "{name}");
    }
}

#[test]
fn names_that_cannot_be_asked_are_refused_before_the_dns() {
    let server = Server::start(|_, _| Reply::NoSuchName);
    let setup = Setup::with(&server);
    let long = "a".repeat(64);
    for name in ["", "a..b", &long, "caf\u{e9}.example"] {
        assert_eq!(setup.find(Kind::A, name), (Outcome::Failed(Failure::Name), 0), "{name}");
    }
    assert_eq!(server.questions(), 0);
}

#[test]
fn the_hosts_file_goes_first_and_answers_for_both_families() {
    let server = Server::start(|_, _| Reply::Records(vec![Record::a(60, address(99))]));
    let path = hosts_file("198.51.100.7 pbx pbx.example # a comment\n");
    let setup = Setup::new(&ResolverConfig { hosts: HostsFile::At(path.clone()), ..config(&server) });
    let seven = Outcome::A([Ipv4Addr::new(198, 51, 100, 7)].into());
    assert_eq!(setup.find(Kind::A, "pbx").0, seven);
    assert_eq!(setup.find(Kind::A, "PBX.example.").0, seven);
    assert_eq!(setup.find(Kind::Aaaa, "pbx.example").0, Outcome::Nothing);
    assert_eq!(server.questions(), 0);
    assert_eq!(setup.find(Kind::A, "h.example").0, Outcome::A([address(99)].into()));
    std::fs::remove_file(path).unwrap();
}

/// A hosts file in the temporary folder, of a name that no other test has.
fn hosts_file(text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("resolver-hosts-{}", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    path
}

#[test]
fn a_hosts_file_that_is_not_there_is_an_error_at_the_start() {
    let config =
        ResolverConfig { hosts: HostsFile::At("/nonexistent/hosts".into()), ..ResolverConfig::default() };
    assert!(Resolver::start(&config, |_| {}).is_err());
}

#[test]
fn a_server_that_is_not_there_is_a_failure_and_the_next_one_is_asked() {
    let nobody: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let server = Server::start(|_, _| Reply::Records(vec![Record::a(60, address(1))]));
    let nameservers = vec![nobody, server.address()];
    let setup = Setup::new(&ResolverConfig { nameservers, ..config(&server) });
    assert_eq!(setup.find(Kind::A, "h.example").0, Outcome::A([address(1)].into()));
    let setup = Setup::new(&ResolverConfig {
        nameservers: vec![nobody],
        timeout: Duration::from_millis(500),
        ..config(&server)
    });
    assert!(matches!(setup.find(Kind::A, "h.example").0, Outcome::Failed(_)));
}

#[test]
fn dropping_it_ends_the_thread_with_look_ups_under_way() {
    let server = Server::start(|_, _| Reply::Silence);
    let setup = Setup::with(&server);
    setup.ask(Kind::A, "h.example").unwrap();
    server.wait_for("h.example");
    let Setup { resolver, answers } = setup;
    drop(resolver);
    assert_eq!(answers.try_recv(), Err(TryRecvError::Disconnected), "the sender is gone with the thread");
}
