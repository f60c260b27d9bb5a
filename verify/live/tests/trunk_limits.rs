//! Channels of trunks, shared by the workers of a server.

use live::{Link, Msg, PATIENCE, Req, Server, Setup, Via, eventually, fresh_ip};
use std::net::SocketAddr;

/// A server of two workers with a trunk that has these keys, and the gateway that is its target.
fn server(keys: &str) -> (Server, Link) {
    let place: SocketAddr = (fresh_ip(), 5060).into();
    let mut gateway = Link::udp_at(place, place);
    let config = format!(
        "[auth]\nchallenge = [\"REGISTER\"]\n\
         [emergency]\ntargets = [\"sip:{place}\"]\nnumbers = [\"112\"]\nstrangers = true\n\
         [[trunk]]\nname = \"pbx\"\ntargets = [\"sip:{place}\"]\nprefixes = [\"00\"]\n{keys}\n",
    );
    let server = Setup::open().workers(2).config(&config).start();
    gateway.set_server(server.sip());
    (server, gateway)
}

/// A call to this user that the gateway answers: the INVITE and the 200 of the caller.
fn call(user: &str, caller: &mut Link, gateway: &mut Link) -> (Req, Msg) {
    let invite = Req::invite(&format!("sip:{user}@example.com"), caller);
    caller.send(&invite.bytes());
    let wanted = |m: &Msg| m.method() == "INVITE" && m.header("Call-ID") == Some(invite.call_id.as_str());
    let received = gateway.find_within(PATIENCE, wanted).expect("the gateway is called");
    let contact = format!("Contact: <sip:gw@{}>", gateway.local());
    gateway.send(&received.reply(200, "gw", &[&contact]));
    let answer = caller.response(&invite);
    assert_eq!(answer.status(), Some(200));
    (invite, answer)
}

/// A request of the caller within a call, which the gateway answers.
fn within(method: &str, (invite, answer): &(Req, Msg), caller: &mut Link, gateway: &mut Link) {
    let request = invite.in_dialog(method, answer, caller).contact(caller);
    caller.send(&request.bytes());
    let wanted = |m: &Msg| m.method() == method && m.header("Call-ID") == Some(invite.call_id.as_str());
    let received = gateway.find_within(PATIENCE, wanted).expect("the gateway gets it");
    let contact = format!("Contact: <sip:gw@{}>", gateway.local());
    gateway.send(&received.reply(200, "", &[&contact]));
    assert_eq!(caller.response(&request).status(), Some(200), "{method}");
}

fn refused(caller: &mut Link) -> (Option<u16>, String) {
    let invite = Req::invite("sip:0044123@example.com", caller);
    let answer = caller.ask(&invite);
    (answer.status(), answer.header("Warning").unwrap_or_default().to_owned())
}

fn calls_now(server: &Server) -> u64 {
    server.metric("strowger_trunk_calls{trunk=\"pbx\"}")
}

/// What `ctl` prints.
fn ctl(server: &Server, what: &str) -> String {
    String::from_utf8(server.ctl(&[what]).stdout).unwrap()
}

#[test]
fn channels_bound_the_calls_of_two_workers_and_come_back() {
    let (server, mut gateway) = server("channels = 3");
    let mut caller = server.link(Via::Udp);
    for round in 1..=2 {
        let calls: Vec<(Req, Msg)> = (0..3).map(|_| call("0044123", &mut caller, &mut gateway)).collect();
        assert_eq!(calls_now(&server), 3);
        for _ in 0..8 {
            let (status, warning) = refused(&mut caller);
            assert_eq!(status, Some(503));
            assert!(warning.contains("All channels of the trunk are in use"), "{warning}");
        }
        assert_eq!(
            server.metric("strowger_trunk_refused_total{trunk=\"pbx\",reason=\"channels\"}"),
            8 * round
        );
        // Help is not refused, and its call counts.
        let help = call("112", &mut caller, &mut gateway);
        assert_eq!(calls_now(&server), 4);
        let line = ctl(&server, "trunks");
        assert!(line.lines().any(|line| line.starts_with("trunk pbx") && line.contains("4/3")), "{line}");
        let status = ctl(&server, "status");
        assert!(status.contains("trunk pbx is full: 4 of 3 channels are in use"), "{status}");
        for call in calls.iter().chain([&help]) {
            within("BYE", call, &mut caller, &mut gateway);
        }
        assert_eq!(calls_now(&server), 0);
    }
    let status = ctl(&server, "status");
    assert!(status.contains("trunk pbx had all 3 channels in use"), "{status}");
    let log =
        eventually("a line about it", || Some(server.log_text()).filter(|log| log.contains("trunk_full")));
    let lines = log.lines().filter(|line| line.contains("trunk_full")).count();
    assert!(lines < 16, "fewer lines than refused calls: {log}");
    assert_eq!(server.metric("strowger_trunk_attempts_total{trunk=\"pbx\"}"), 8);
    assert_eq!(server.metric("strowger_trunk_answered_total{trunk=\"pbx\"}"), 8);
}

#[test]
fn calls_of_a_trunk_beyond_its_channels_are_busy() {
    let (server, mut gateway) = server("channels = 1");
    let mut ann = server.link(Via::Udp);
    ann.register("ann");
    let first = Req::invite("sip:ann@example.com", &gateway);
    gateway.send(&first.bytes());
    let received = ann.request("INVITE");
    let second = Req::invite("sip:ann@example.com", &gateway);
    let busy = gateway.ask(&second);
    assert_eq!(busy.status(), Some(486));
    assert!(busy.header("Warning").is_some_and(|warning| warning.contains("channels")), "{}", busy.start);
    ann.send(&received.reply(486, "ann", &[]));
    assert_eq!(gateway.response(&first).status(), Some(486));
    let again = Req::invite("sip:ann@example.com", &gateway);
    gateway.send(&again.bytes());
    let wanted = |m: &Msg| m.method() == "INVITE" && m.header("Call-ID") == Some(again.call_id.as_str());
    ann.find_within(PATIENCE, wanted).expect("the channel is free again");
    assert_eq!(calls_now(&server), 1);
}

#[test]
fn call_from_before_a_crash_takes_its_channel_again() {
    let (mut server, mut gateway) = server("channels = 1");
    let mut caller = server.link(Via::Udp);
    let call = call("0044123", &mut caller, &mut gateway);
    server.kill();
    server.restart();
    assert_eq!(calls_now(&server), 0);
    within("UPDATE", &call, &mut caller, &mut gateway);
    assert_eq!(calls_now(&server), 1);
    assert_eq!(refused(&mut caller).0, Some(503));
}
