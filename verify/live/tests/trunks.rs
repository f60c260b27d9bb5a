//! Targets that do not answer: the next one in time, marks that all workers see, probes, and what an operator
//! sees.

use live::{Link, Listener, PATIENCE, Req, Server, Setup, Via, eventually, fresh_ip};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

/// From the INVITE to the second target, at most: `silent_after`, and what a call takes.
const FIRST_CALL: Duration = Duration::from_millis(2_300);
/// At once, beside `silent_after` of one second and more.
const AT_ONCE: Duration = Duration::from_millis(700);

/// A server with a trunk and emergency calls that have these targets, the first of which says nothing.
fn server(first: &str, second: SocketAddr, workers: usize) -> Server {
    let config = format!(
        "[auth]\nchallenge = [\"REGISTER\"]\n\
         [[trunk]]\nname = \"carrier\"\ntargets = [\"{first}\", \"sip:{second}\"]\nprefixes = [\"00\"]\n\
         [emergency]\ntargets = [\"{first}\", \"sip:{second}\"]\nnumbers = [\"112\"]\nstrangers = true\n",
    );
    Setup::open().workers(workers).config(&config).start()
}

/// A listener that answers, made before the server is.
fn target() -> Listener {
    Listener::open((fresh_ip(), 5060).into())
}

/// Calls this number and has the target accept: how long the INVITE took to get there.
fn call(server: &Server, user: &str, target: &mut Listener) -> Duration {
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite(&format!("sip:{user}@example.com"), &caller);
    let began = Instant::now();
    caller.send(&invite.bytes());
    let (received, link) = loop {
        let (message, link) = target.request_within(PATIENCE).expect("the target is called");
        if message.header("Call-ID") == Some(invite.call_id.as_str()) {
            break (message, link);
        }
    };
    let took = began.elapsed();
    let contact = format!("Contact: <sip:gw@{}>", link.local());
    link.send(&received.reply(200, "gw", &[&contact]));
    assert_eq!(caller.response(&invite).status(), Some(200));
    took
}

/// What `ctl trunks` says of a target of the trunk.
fn standing(server: &Server, target: &str) -> String {
    let out = server.ctl(&["trunks"]);
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("trunk carrier") && line.contains(target));
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

fn status(server: &Server) -> String {
    String::from_utf8(server.ctl(&["status"]).stdout).unwrap()
}

#[test]
fn silent_udp_target_costs_the_first_call_silent_after() {
    for workers in [1, 2] {
        let silent = UdpSocket::bind((fresh_ip(), 5060)).unwrap();
        let first = format!("sip:{}", silent.local_addr().unwrap());
        let mut second = target();
        let server = server(&first, second.udp.local(), workers);
        second.udp.set_server(server.sip());
        let took = call(&server, "0044123", &mut second);
        assert!(took >= Duration::from_secs(2) && took < FIRST_CALL, "{took:?} with {workers} workers");
        // Whatever worker has them.
        for _ in 0..8 {
            let took = call(&server, "0044123", &mut second);
            assert!(took < AT_ONCE, "{took:?} with {workers} workers");
        }
        let line = standing(&server, &first);
        assert!(
            line.contains("down") && line.contains("not answered") && line.contains("no response"),
            "{line}"
        );
        assert!(status(&server).contains(&format!("target {first} is down")), "{}", status(&server));
        assert!(server.log_has("target down: no response"), "{}", server.log_text());
        assert_eq!(server.metric("strowger_target_failures_total{reason=\"silent\"}"), 1);
        assert_eq!(server.metric("strowger_targets{state=\"down\"}"), 2, "in both lists");
        // The same gateway of emergency calls is known to be silent as well.
        assert!(call(&server, "112", &mut second) < AT_ONCE);
    }
}

#[test]
fn silent_emergency_target_costs_one_second() {
    let silent = UdpSocket::bind((fresh_ip(), 5060)).unwrap();
    let mut second = target();
    let server = server(&format!("sip:{}", silent.local_addr().unwrap()), second.udp.local(), 2);
    second.udp.set_server(server.sip());
    let took = call(&server, "112", &mut second);
    assert!(took >= Duration::from_secs(1) && took < Duration::from_millis(1_300), "{took:?}");
    assert!(call(&server, "112", &mut second) < AT_ONCE);
}

#[test]
fn tcp_target_that_accepts_and_says_nothing_is_left() {
    let silent = TcpListener::bind((fresh_ip(), 5060)).unwrap();
    let first = format!("sip:{};transport=tcp", silent.local_addr().unwrap());
    let mut second = target();
    let server = server(&first, second.udp.local(), 2);
    second.udp.set_server(server.sip());
    let took = call(&server, "0044123", &mut second);
    assert!(took >= Duration::from_secs(2) && took < FIRST_CALL, "{took:?}");
    for _ in 0..4 {
        assert!(call(&server, "0044123", &mut second) < AT_ONCE);
    }
}

#[test]
fn target_that_answers_probes_is_called_first_again() {
    for workers in [1, 2] {
        let place: SocketAddr = (fresh_ip(), 5060).into();
        let silent = UdpSocket::bind(place).unwrap();
        let mut second = target();
        let server = server(&format!("sip:{place}"), second.udp.local(), workers);
        second.udp.set_server(server.sip());
        call(&server, "0044123", &mut second);
        drop(silent);
        let mut first = Link::udp_at(place, server.sip());
        let probe = first.find_within(PATIENCE, |m| m.method() == "OPTIONS").expect("a probe");
        assert!(probe.uri().contains(&place.to_string()), "{}", probe.uri());
        first.send(&probe.reply(200, "gw", &[]));
        eventually("the target is up", || {
            standing(&server, &place.to_string()).contains(" up ").then_some(())
        });
        assert!(server.log_has("target up"));
        drop(first);
        let mut first = Listener::open_at(place, server.sip());
        for _ in 0..4 {
            assert!(call(&server, "0044123", &mut first) < AT_ONCE, "{workers} workers");
        }
    }
}

#[test]
fn late_answer_of_a_left_target_reaches_the_caller() {
    let place: SocketAddr = (fresh_ip(), 5060).into();
    let mut first = Link::udp_at(place, (fresh_ip(), 5060).into());
    let mut second = target();
    let server = server(&format!("sip:{place}"), second.udp.local(), 1);
    first.set_server(server.sip());
    second.udp.set_server(server.sip());
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:0044123@example.com", &caller);
    caller.send(&invite.bytes());
    let received = first.request("INVITE");
    let (other, link) = second.request_within(PATIENCE).expect("the second target is called");
    link.send(&other.reply(180, "s", &[]));
    caller.expect(&invite, 180);
    // It rings late: its call is cancelled.
    first.send(&received.reply(180, "f", &[]));
    first.request("CANCEL");
    // It was faster than the CANCEL: the caller has to know, to end that call.
    first.send(&received.reply(200, "f", &[&format!("Contact: <sip:gw@{place}>")]));
    assert_eq!(caller.response(&invite).status(), Some(200));
}

#[test]
fn log_names_the_dead_target_of_a_list_without_name() {
    let place = format!("sip:{}:5060", fresh_ip());
    for (list, called, config) in [
        ("emergency", "112", format!("[emergency]\ntargets = [\"{place}\"]\nnumbers = [\"112\"]\n")),
        ("route", "0044123", format!("[[route]]\nprefix = \"00\"\ntargets = [\"{place}\"]\n")),
    ] {
        let server = Setup::open().config(&config).start();
        let mut caller = server.link(Via::Udp);
        caller.register("ann");
        let mut invite = Req::invite(&format!("sip:{called}@example.com"), &caller);
        invite.from = invite.from.replace("sip:caller@", "sip:ann@");
        assert_eq!(caller.ask(&invite).status(), Some(500), "{list}");
        let line = eventually("a line about it", || {
            server.log_text().lines().find(|line| line.contains("no target answered")).map(str::to_owned)
        });
        assert!(line.contains(&format!("list=\"{list}\" name={place}")), "{line}");
    }
}

#[test]
fn all_targets_dead_is_500_with_a_warning_and_one_line() {
    let places = [fresh_ip(), fresh_ip()].map(|ip| format!("sip:{ip}:5060"));
    let config = format!(
        "[auth]\nchallenge = [\"REGISTER\"]\n\
         [[trunk]]\nname = \"carrier\"\ntargets = [\"{}\", \"{}\"]\nprefixes = [\"00\"]\n",
        places[0], places[1]
    );
    let server = Setup::open().config(&config).start();
    let mut caller = server.link(Via::Udp);
    for _ in 0..3 {
        let invite = Req::invite("sip:0044123@example.com", &caller);
        let answer = caller.ask(&invite);
        assert_eq!(answer.status(), Some(500));
        let warning = answer.header("Warning").expect("a Warning");
        assert!(warning.starts_with("399 ") && !warning.contains("127."), "{warning}");
    }
    // The log is written by a thread of its own.
    let log = eventually("a line about it", || {
        Some(server.log_text()).filter(|log| log.contains("no target answered"))
    });
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("no target answered")).collect();
    let [line] = lines[..] else { panic!("one line: {log}") };
    assert!(line.contains("carrier") && places.iter().all(|place| line.contains(place.as_str())), "{line}");
}
