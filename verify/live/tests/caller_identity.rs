//! Who calls, as a carrier is told: from P-Asserted-Identity, from From, or not at all.

use live::{Listener, Msg, PATIENCE, Req, Server, Setup, Via, fresh_ip};

fn config(carrier: &Listener, identity: &str) -> String {
    format!(
        "[auth]\nchallenge = [\"REGISTER\"]\n[[trunk]]\nname = \"carrier\"\ntargets = [\"sip:{}\"]\nprefixes = [\"+\"]\n\
         identity = \"{identity}\"\n[[caller]]\nuser = \"ann@example.com\"\nnumbers = [\"+493012345600\", \"+4930123457*\"]\n\
         [[domain]]\nname = \"example.com\"\ncountry = \"49\"\nnumbers = \"+493012345699\"\n",
        carrier.udp.local()
    )
}

fn start(identity: &str) -> (Server, Listener) {
    let mut carrier = Listener::open((fresh_ip(), 5060).into());
    let server = Setup::open().config(&config(&carrier, identity)).start();
    carrier.udp.set_server(server.sip());
    (server, carrier)
}

/// The INVITE of this user as the carrier gets it, with the caller's request and the answer to it.
fn call(server: &Server, carrier: &mut Listener, user: &str, lines: &[&str]) -> (Msg, Req, Msg) {
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:004940123456@example.com", &caller).user(user);
    let invite = lines.iter().fold(invite, |invite, line| invite.with(line));
    caller.send(&invite.bytes());
    let received = loop {
        let (message, link) = carrier.request_within(PATIENCE).expect("the carrier is called");
        if message.method() == "INVITE" && message.header("Call-ID") == Some(&invite.call_id) {
            link.send(&message.reply(486, "gw", &[]));
            break message;
        }
    };
    let answer = caller.response(&invite);
    assert_eq!(answer.status(), Some(486));
    (received, invite, answer)
}

#[test]
fn carrier_gets_the_number_that_a_user_may_present() {
    let (server, mut carrier) = start("pai");
    for (user, lines, number) in [
        ("ann", &[][..], "+493012345600"),
        ("ann", &["P-Preferred-Identity: <sip:030123457@example.com>"][..], "+4930123457"),
        ("ann", &["P-Preferred-Identity: <sip:+4930999@example.com>"][..], "+493012345600"),
        ("ann", &["P-Asserted-Identity: <sip:+4930999@example.com>"][..], "+493012345600"),
        ("ben", &[][..], "+493012345699"),
    ] {
        let (received, invite, _) = call(&server, &mut carrier, user, lines);
        let asserted = format!("<sip:{number}@example.com>");
        assert_eq!(received.all("P-Asserted-Identity"), [asserted.as_str()], "{user} {lines:?}");
        assert_eq!(received.header("From"), Some(invite.from.as_str()));
        assert_eq!(received.header("P-Preferred-Identity"), None);
    }
}

#[test]
fn carrier_that_reads_from_gets_the_number_there() {
    let (server, mut carrier) = start("from");
    let (received, invite, answer) = call(&server, &mut carrier, "ann", &[]);
    let from = invite.from.replacen("sip:ann@", "sip:+493012345600@", 1);
    assert_eq!(
        (received.header("From"), received.header("P-Asserted-Identity")),
        (Some(from.as_str()), None)
    );
    assert_eq!(answer.header("From"), Some(invite.from.as_str()), "the caller's own");
    // A reload changes what the next call tells.
    server.write_config(Some(&config(&carrier, "none")));
    assert!(server.ctl(&["reload"]).status.success(), "{}", server.log_text());
    let (received, invite, _) = call(&server, &mut carrier, "ann", &[]);
    let told = (received.header("From"), received.header("P-Asserted-Identity"));
    assert_eq!(told, (Some(invite.from.as_str()), None));
}
