//! Peers that are not there: what the network says about datagrams to them (RFC 3261 section 18.4).

use live::{Link, Listener, PATIENCE, Req, Server, Setup, Via, fresh_ip};

/// A server with voicemail and `workers` workers, and the voicemail.
fn with_voicemail(workers: usize) -> (Server, Listener) {
    let place = fresh_ip();
    let config = format!("[voicemail]\ntarget = \"sip:vm@{place}:5060\"\nno_answer_timeout = \"600s\"\n");
    let server = Setup::open().workers(workers).config(&config).start();
    let voicemail = Listener::open_at((place, 5060).into(), server.sip());
    (server, voicemail)
}

/// Registers `user` from a port that is closed afterwards.
fn registered_and_gone(server: &Server, user: &str) {
    Link::open(Via::Udp, server.sip()).register(user);
}

#[test]
fn a_call_to_a_closed_port_goes_to_voicemail_at_once() {
    for workers in [1, 3] {
        let (server, mut voicemail) = with_voicemail(workers);
        registered_and_gone(&server, "bob");
        // Several calls, so that every worker has one.
        for _ in 0..6 {
            let mut caller = server.link(Via::Udp);
            let invite = Req::invite("sip:bob@example.com", &caller);
            caller.send(&invite.bytes());
            // PATIENCE is less than the 32 s after which the transaction would give up by itself, and
            // the cause would be another one then.
            let (diverted, link) = voicemail.request_within(PATIENCE).expect("voicemail is called");
            assert!(diverted.uri().contains("cause=503"), "{}", diverted.uri());
            let contact = format!("Contact: <sip:vm@{}>", link.local());
            link.send(&diverted.reply(200, "vm", &[&contact]));
            assert_eq!(caller.response(&invite).status(), Some(200), "{workers} workers");
        }
    }
}

#[test]
fn a_phone_that_is_there_is_not_harmed_by_one_that_is_not() {
    let server = Setup::open().start();
    registered_and_gone(&server, "bob");
    let mut bob = server.link(Via::Udp);
    bob.register("bob");
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(180, "b", &[]));
    caller.expect(&invite, 180);
    bob.send(&received.reply(200, "b", &[&format!("Contact: <sip:bob@{}>", bob.local())]));
    assert_eq!(caller.response(&invite).status(), Some(200));
}
