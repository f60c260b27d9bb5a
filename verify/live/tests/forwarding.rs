//! Calls that users forward: set by commands and files while the server runs.

use live::{Link, Listener, Msg, PATIENCE, Req, Server, Setup, Via, eventually, fresh_ip, run, text};

/// A server with two workers and these users, and the carrier for numbers.
fn start() -> (Server, Listener) {
    let mut carrier = Listener::open((fresh_ip(), 5060).into());
    let target = carrier.udp.local();
    let config = format!(
        "[[trunk]]\nname = \"carrier\"\ntargets = [\"sip:{target}\"]\nprefixes = [\"+\"]\nidentity = \"pai\"\n"
    );
    let server =
        Setup::open().workers(2).user("ann", "secret-a").user("ben", "secret-b").config(&config).start();
    carrier.udp.set_server(server.sip());
    (server, carrier)
}

/// Runs `strowger user` on the data directory of the server.
#[track_caller]
fn user(server: &Server, args: &[&str]) -> String {
    let data = server.data();
    let data = data.to_str().expect("a name");
    let out = run(["user"].into_iter().chain(args.iter().copied()).chain(["--data-dir", data]));
    assert!(out.status.success(), "{}", text(&out));
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// A call to a user, with the answer to it, and the INVITE that the carrier got. The carrier
/// answers 486.
fn call(server: &Server, carrier: &mut Listener, user: &str) -> (Msg, Option<Msg>) {
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite(&format!("sip:{user}@example.com"), &caller);
    caller.send(&invite.bytes());
    let mut received = None;
    let answer = eventually("a final answer", || {
        if let Some((message, link)) = carrier.request_within(std::time::Duration::from_millis(20))
            && message.method() == "INVITE"
            && message.header("Call-ID") == Some(&invite.call_id)
        {
            link.send(&message.reply(486, "gw", &[]));
            received = Some(message);
        }
        let within = std::time::Duration::from_millis(20);
        caller.find_within(within, |answer| {
            answer.answers(&invite) && answer.status().is_some_and(|s| s >= 200)
        })
    });
    caller.send(&invite.ack(&answer).bytes());
    (answer, received)
}

#[test]
fn forwarding_set_while_the_server_runs_counts_on_all_workers() {
    let (server, mut carrier) = start();
    assert_eq!(call(&server, &mut carrier, "ann").0.status(), Some(480));
    let said = user(&server, &["forward", "ann@example.com", "--always", "+493012345"]);
    assert!(said.contains("forward_always") && said.contains("+493012345"), "{said}");
    eventually("the server knows", || call(&server, &mut carrier, "ann").1);
    // Each Call-ID has one of the workers.
    for _ in 0..8 {
        let (answer, received) = call(&server, &mut carrier, "ann");
        let received = received.expect("it is forwarded");
        assert_eq!(answer.status(), Some(486));
        assert_eq!(
            received.header("Diversion").map(|line| line.contains("<sip:ann@example.com>")),
            Some(true)
        );
        assert!(received.header("History-Info").is_some_and(|line| line.contains("index=1.1;mp=1")));
        assert_eq!(received.all("P-Asserted-Identity"), ["<sip:ann@example.com>"]);
    }
    user(&server, &["forward", "ann@example.com", "--clear"]);
    eventually("the server forgets", || call(&server, &mut carrier, "ann").1.is_none().then_some(()));
}

#[test]
fn forwarding_survives_a_restart_and_an_export() {
    let (mut server, mut carrier) = start();
    user(&server, &["forward", "ann@example.com", "--unreachable", "+4930", "--ring-time", "25"]);
    server.restart();
    carrier.udp.set_server(server.sip());
    assert!(call(&server, &mut carrier, "ann").1.is_some());
    let csv = user(&server, &["export"]);
    assert!(
        csv.lines().next().is_some_and(|head| head.ends_with("also_ring,ring_time,do_not_disturb")),
        "{csv}"
    );
    let file = server.data().join("users.csv");
    std::fs::write(&file, csv.replace("+4930", "+4940")).expect("a file");
    user(&server, &["import", file.to_str().expect("a name")]);
    let shown = user(&server, &["show", "ann@example.com", "--output", "json"]);
    assert!(shown.contains("\"unreachable\": \"+4940\"") && shown.contains("\"ring_time\": 25"), "{shown}");
    eventually("the server knows", || {
        let uri = call(&server, &mut carrier, "ann").1?.uri().to_owned();
        uri.contains("+4940").then_some(())
    });
}

#[test]
fn busy_phone_forwards_to_another_user() {
    let (server, mut carrier) = start();
    user(&server, &["forward", "ann@example.com", "--busy", "ben"]);
    let [mut ann, mut ben] = [server.link(Via::Udp), server.link(Via::Udp)];
    ann.register("ann");
    ben.register("ben");
    let mut caller = server.link(Via::Udp);
    let (invite, second) = eventually("a forwarded call", || {
        let invite = Req::invite("sip:ann@example.com", &caller);
        caller.send(&invite.bytes());
        let first = of_call(&mut ann, &invite)?;
        ann.send(&first.reply(486, "a", &[]));
        let second = of_call(&mut ben, &invite);
        if second.is_none() {
            caller.drain();
        }
        second.map(|second| (invite, second))
    });
    ben.send(&second.reply(200, "b", &[&format!("Contact: <{}>", ben.contact("ben"))]));
    let answer =
        caller.find_within(PATIENCE, |answer| answer.answers(&invite) && answer.status() == Some(200));
    assert!(answer.is_some());
    assert!(carrier.request_within(std::time::Duration::from_millis(20)).is_none());
    assert!(server.metric("strowger_forwardings_total{result=\"forwarded\"}") > 0);
}

/// The INVITE of a call as this phone gets it.
fn of_call(phone: &mut Link, invite: &Req) -> Option<Msg> {
    let within = std::time::Duration::from_secs(1);
    phone.find_within(within, |m| m.method() == "INVITE" && m.header("Call-ID") == Some(&invite.call_id))
}

#[test]
fn unusable_settings_are_refused_with_the_option() {
    let (server, _carrier) = start();
    let data = server.data();
    let data = data.to_str().expect("a name");
    for (args, words) in [
        (&["ann@example.com", "--busy", "not this"][..], "--busy not this holds a space"),
        (&["ann@example.com", "--ring-time", "900"][..], "--ring-time 900 is longer than 600 seconds"),
        (&["nobody@example.com", "--busy", "1"][..], "there is no subscriber nobody@example.com"),
    ] {
        let out = run(["user", "forward"].iter().chain(args).chain(&["--data-dir", data]));
        let said = text(&out);
        assert!(!out.status.success() && said.contains(words), "{said}");
    }
}
