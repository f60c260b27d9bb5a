//! Numbers as they are dialled, looked up, and written for a trunk.

use live::{Link, Listener, PATIENCE, Req, Server, Setup, Via, fresh_ip};

/// A server in Berlin and a carrier that writes numbers in this format.
fn start(format: &str) -> (Server, Listener) {
    let mut carrier = Listener::open((fresh_ip(), 5060).into());
    let config = format!(
        "[auth]\nchallenge = [\"REGISTER\"]\n[[domain]]\nname = \"example.com\"\ncountry = \"49\"\narea = \"30\"\n\
         [[trunk]]\nname = \"carrier\"\ntargets = [\"sip:{}\"]\nprefixes = [\"+\"]\ncountry = \"49\"\n\
         number_format = \"{format}\"\n[[route]]\nuser = \"+493012345600\"\ntargets = [\"sip:bob@example.com\"]\n",
        carrier.udp.local()
    );
    let server = Setup::open().config(&config).start();
    carrier.udp.set_server(server.sip());
    (server, carrier)
}

#[test]
fn dialled_numbers_reach_the_carrier_in_its_format() {
    for (format, number) in
        [("e164_plus", "+493098765400"), ("e164", "493098765400"), ("national", "03098765400")]
    {
        let (server, mut carrier) = start(format);
        for dialled in ["03098765400", "00493098765400", "98765400", "+493098765400"] {
            let mut caller = server.link(Via::Udp);
            let invite = Req::invite(&format!("sip:{dialled}@example.com"), &caller);
            caller.send(&invite.bytes());
            let received = loop {
                let (message, link) = carrier.request_within(PATIENCE).expect(dialled);
                if message.method() == "INVITE" && message.header("Call-ID") == Some(&invite.call_id) {
                    link.send(&message.reply(486, "gw", &[]));
                    break message;
                }
            };
            assert_eq!(received.uri(), format!("sip:{number}@{}", carrier.udp.local()), "{dialled}");
            assert!(
                received.header("To").expect("To").contains(&format!("sip:{dialled}@")),
                "as it was dialled"
            );
            assert_eq!(caller.response(&invite).status(), Some(486));
        }
    }
}

/// A phone gets a call to the number as it was dialled.
#[track_caller]
fn rings(phone: &mut Link, dialled: &str) {
    let to = format!("sip:{dialled}@");
    let call = phone.find_within(PATIENCE, |m| m.header("To").is_some_and(|value| value.contains(&to)));
    assert_eq!(call.expect(dialled).method(), "INVITE");
}

#[test]
fn number_of_a_user_rings_however_it_is_dialled() {
    let (server, mut carrier) = start("e164");
    let mut phone = server.link(Via::Udp);
    phone.register("bob");
    for dialled in ["03012345600", "12345600", "+493012345600"] {
        let mut caller = server.link(Via::Udp);
        caller.send(&Req::invite(&format!("sip:{dialled}@example.com"), &caller).bytes());
        rings(&mut phone, dialled);
    }
    let invite = Req::invite("sip:493012345600@example.com", &carrier.udp);
    carrier.udp.send(&invite.bytes());
    rings(&mut phone, "493012345600");
    assert_eq!(carrier.udp.status(&Req::invite("sip:112@example.com", &carrier.udp)), 404, "it stays short");
}
