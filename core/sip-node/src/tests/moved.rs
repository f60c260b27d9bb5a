//! Phones that have a new connection while a dialog goes on: after a restart of this server, or of their
//! network. Their dialogs go on over it.

use super::*;

const BEFORE: &str = "192.0.2.20:41000";
const AFTER: &str = "192.0.2.20:52000";

fn opened(transport: Transport, from: &str, conn: u64) -> Flow {
    let listener = match transport {
        Transport::Tcp => 1,
        Transport::Tls => 4,
        Transport::Wss => 5,
        _ => 6,
    };
    Flow { transport, listener: ListenerId(listener), conn: Some(ConnId::accepted(0, conn)), ..tcp(from, 0) }
}

fn lab() -> Lab {
    Lab::with(|s| {
        for (transport, address) in [
            (Transport::Tls, "198.51.100.1:5061"),
            (Transport::Wss, "198.51.100.1:443"),
            (Transport::Ws, "198.51.100.1:80"),
        ] {
            s.listeners.push(Listener::new(transport, address.parse().unwrap(), None));
        }
        s.auth.in_dialog = false;
    })
}

/// The Contact of bob's phone on this connection. A browser keeps its Contact; other phones use the port
/// that the server sees.
fn contact(transport: Transport, from: &str) -> String {
    match transport {
        Transport::Ws | Transport::Wss => "<sip:k3v1@df7jal23ls0d.invalid;transport=ws>".to_owned(),
        Transport::Tls => format!("<sip:bob@{from};transport=tls;ob>"),
        _ => format!("<sip:bob@{from};transport=tcp>"),
    }
}

const TRANSPORTS: [Transport; 4] = [Transport::Tls, Transport::Wss, Transport::Ws, Transport::Tcp];

/// A call between carol, over UDP, and bob's phone on a connection, begun by either side. Returns what carol
/// and bob need to send further requests.
struct Call {
    lab: Lab,
    transport: Transport,
    /// As carol sends it.
    carols: Req,
    /// As bob sends it.
    bobs: Req,
}

impl Call {
    fn to_phone(transport: Transport) -> Call {
        let mut lab = lab();
        let flow = opened(transport, BEFORE, 1);
        lab.bind("bob", &contact(transport, BEFORE), flow);
        let invite = Req::invite();
        let got = lab.invite(CAROL, invite.text()).remove(0);
        let line = format!("Contact: {}\r\n", contact(transport, BEFORE));
        lab.send_on(flow, got.reply(200, "b", &line));
        let ok = lab.one();
        lab.send(CAROL, invite.within("ACK", &ok).text());
        assert_eq!(lab.one().to(), BEFORE);
        let bobs = from_callee(&got, "BYE", BEFORE, "<sip:bob@here.example>");
        Call { lab, transport, carols: invite.within("INVITE", &ok), bobs }
    }

    fn of_phone(transport: Transport) -> Call {
        let mut lab = lab();
        let flow = opened(transport, BEFORE, 1);
        lab.bind("bob", &contact(transport, BEFORE), flow);
        lab.bind("dave", "<sip:dave@192.0.2.10:5060>", udp(CAROL));
        let mut invite = Req::new("INVITE", "sip:dave@here.example");
        invite.via = format!("SIP/2.0/{} {BEFORE};branch=z9hG4bKp{}", transport.via_name(), number());
        invite.from = "<sip:bob@here.example>;tag=b".to_owned();
        invite.lines = vec![format!("Contact: {}", contact(transport, BEFORE))];
        lab.send_on(flow, invite.text());
        let challenge = lab.one();
        let invite = invite.answer("bob", &challenge);
        lab.send_on(flow, invite.text());
        let got = lab.sent().into_iter().find(|s| s.status() == 0).expect("forwarded");
        lab.send(CAROL, got.reply(200, "d", "Contact: <sip:dave@192.0.2.10:5060>\r\n"));
        let ok = lab.one();
        lab.send_on(flow, invite.within("ACK", &ok).text());
        lab.one();
        let mut carols = from_callee(&got, "INVITE", CAROL, "<sip:dave@here.example>");
        carols.from = "<sip:dave@here.example>;tag=d".to_owned();
        Call { lab, transport, carols, bobs: invite.within("BYE", &ok) }
    }

    fn both(transport: Transport) -> [Call; 2] {
        [Call::to_phone(transport), Call::of_phone(transport)]
    }

    /// Bob's phone registers on its new connection, and the old one is gone.
    fn moves(&mut self) -> Flow {
        let flow = opened(self.transport, AFTER, 2);
        // The old binding has the same instance, so it is replaced, as it is with the same Contact.
        let mut bindings = Vec::new();
        self.lab.world.table.borrow().bindings(b"bob@here.example", self.lab.now, |b| {
            bindings.push(String::from_utf8(b.contact.to_vec()).unwrap())
        });
        for old in bindings {
            self.lab.bind("bob", &format!("<{old}>;expires=0"), flow);
        }
        self.lab.bind("bob", &contact(self.transport, AFTER), flow);
        flow
    }

    /// The next requests of carol's, until one has gone to the phone; `status` of what else was answered.
    fn carol_sends(&mut self, method: &str) -> Vec<Sent> {
        (self.carols.method, self.carols.cseq) = (method.to_owned(), self.carols.cseq + 1);
        self.carols.via = format!("SIP/2.0/UDP {CAROL};branch=z9hG4bKq{}", number());
        self.lab.send(CAROL, self.carols.text());
        self.lab.sent().into_iter().filter(|s| s.status() != 100).collect()
    }
}

#[test]
fn dialog_goes_on_over_the_new_connection_after_a_restart() {
    for call in TRANSPORTS.into_iter().flat_map(Call::both) {
        let mut call = call;
        call.lab.restart();
        // The phone is not back: no other phone is called in its place.
        let sent = call.carol_sends("INVITE");
        assert!(sent[0].existing && sent[0].to() == BEFORE, "{sent:?}");
        call.lab.undeliverable(&sent[0]);
        call.lab.sent();

        let flow = call.moves();
        let sent = call.carol_sends("INVITE");
        assert_eq!((requests(&sent), sent[0].flow), (vec![("INVITE".to_owned(), AFTER.to_owned())], flow));
        call.lab.send_on(
            flow,
            sent[0].reply(200, "b", &format!("Contact: {}\r\n", contact(call.transport, AFTER))),
        );
        let ok = call.lab.one();
        assert_eq!((ok.status(), ok.to().as_str()), (200, CAROL));
        (call.carols.method, call.carols.via) =
            ("ACK".to_owned(), format!("SIP/2.0/UDP {CAROL};branch=z9hG4bKa{}", number()));
        call.lab.send(CAROL, call.carols.text());
        let ack = call.lab.one();
        assert_eq!((ack.method(), ack.flow), ("ACK", flow));
        let bye = call.carol_sends("BYE");
        assert_eq!((requests(&bye), bye[0].flow), (vec![("BYE".to_owned(), AFTER.to_owned())], flow));
    }
}

#[test]
fn phone_on_a_new_connection_is_known_in_its_dialog() {
    for call in TRANSPORTS.into_iter().flat_map(Call::both) {
        let mut call = call;
        call.lab.restart();
        let flow = call.moves();
        call.bobs.via = format!("SIP/2.0/{} {AFTER};branch=z9hG4bKn{}", call.transport.via_name(), number());
        call.lab.send_on(flow, call.bobs.text());
        let sent = call.lab.one();
        assert_eq!((sent.method(), sent.status(), sent.to().as_str()), ("BYE", 0, CAROL), "{}", sent.text);
        // From another connection the phone must prove its name.
        let other = opened(call.transport, "192.0.2.20:53000", 3);
        call.bobs.via =
            format!("SIP/2.0/{} x.invalid;branch=z9hG4bKn{}", call.transport.via_name(), number());
        call.lab.send_on(other, call.bobs.text());
        assert_eq!(call.lab.one().status(), 407);
    }
}

/// Carol's next request goes to these connections of bob's phone, one after the other.
fn tries(call: &mut Call, wanted: [&str; 2]) {
    let mut sent = call.carol_sends("INVITE");
    for (at, to) in wanted.into_iter().enumerate() {
        assert_eq!((sent.len(), sent[0].to().as_str(), sent[0].existing), (1, to, true));
        if at == 0 {
            call.lab.undeliverable(&sent[0]);
            sent = call.lab.sent();
        }
    }
    // No response shows whether an ACK arrived: it goes over both.
    call.carols.method = "ACK".to_owned();
    call.carols.via = format!("SIP/2.0/UDP {CAROL};branch=z9hG4bKa{}", number());
    call.lab.send(CAROL, call.carols.text());
    let mut acks = requests(&call.lab.sent());
    acks.sort();
    assert_eq!(acks, [("ACK".to_owned(), BEFORE.to_owned()), ("ACK".to_owned(), AFTER.to_owned())]);
}

#[test]
fn dialog_goes_on_when_a_connection_was_replaced() {
    // The user name of a Contact with a new port only makes it likely that it is the same phone.
    for mut call in Call::both(Transport::Tls) {
        call.moves();
        tries(&mut call, [BEFORE, AFTER]);
    }
    for transport in [Transport::Wss, Transport::Ws] {
        for mut call in Call::both(transport) {
            call.moves();
            tries(&mut call, [AFTER, BEFORE]);
        }
    }
}

#[test]
fn dialog_follows_a_phone_whose_earlier_binding_is_still_there() {
    let with = |from, instance: &str| {
        format!("{};+sip.instance=\"<urn:uuid:{instance}>\"", contact(Transport::Tls, from))
    };
    for (earlier, later, follows) in [("a", "a", true), ("a", "b", false)] {
        let mut call = Call::to_phone(Transport::Tls);
        call.lab.bind("bob", &with(BEFORE, earlier), opened(Transport::Tls, BEFORE, 1));
        call.lab.bind("bob", &with(AFTER, later), opened(Transport::Tls, AFTER, 2));
        if follows {
            tries(&mut call, [AFTER, BEFORE]);
        } else {
            assert_eq!(requests(&call.carol_sends("INVITE")), [("INVITE".to_owned(), BEFORE.to_owned())]);
        }
    }
}

#[test]
fn dialog_goes_over_the_other_flow_if_its_own_has_ended() {
    // RFC 5626 section 4.2: both flows are in use, whichever was registered last.
    for transport in [Transport::Tls, Transport::Wss] {
        for order in [[1, 2], [2, 1]] {
            let mut call = Call::to_phone(transport);
            call.lab.bind("bob", &format!("{};expires=0", contact(transport, BEFORE)), udp(BOB));
            for reg_id in order {
                let from = if reg_id == 1 { BEFORE } else { AFTER };
                let flow =
                    format!("{};+sip.instance=\"<urn:uuid:a>\";reg-id={reg_id}", contact(transport, from));
                let supported = "Supported: path, outbound\r\n";
                call.lab.bind_with("bob", &flow, opened(transport, from, reg_id), supported);
                call.lab.now = call.lab.now + Duration::from_secs(10);
            }
            tries(&mut call, [BEFORE, AFTER]);
        }
    }
}

#[test]
fn other_phones_of_the_user_get_nothing_of_a_dialog() {
    for transport in TRANSPORTS {
        let mut call = Call::to_phone(transport);
        call.lab.restart();
        let flow = call.moves();
        // Another Contact of the user.
        let other = opened(transport, "192.0.2.21:41000", 4);
        call.lab.bind("bob", "<sip:desk@10.0.0.1;transport=tls>", other);
        let sent = call.carol_sends("INVITE");
        assert_eq!((sent.len(), sent[0].flow), (1, flow));
    }
    // It is unknown which of two it is.
    let mut call = Call::to_phone(Transport::Tls);
    call.lab.restart();
    call.moves();
    call.lab.bind(
        "bob",
        &contact(Transport::Tls, "192.0.2.20:52001"),
        opened(Transport::Tls, "192.0.2.20:52001", 5),
    );
    let sent = call.carol_sends("INVITE");
    assert_eq!((sent.len(), sent[0].to().as_str(), sent[0].existing), (1, BEFORE, true));
    // A phone may register one user name and call by another, if it is the only one.
    let mut call = Call::to_phone(Transport::Tls);
    call.lab.restart();
    let flow = call.moves();
    call.carols.uri = "sip:line7@192.0.2.20:41000;transport=tls".to_owned();
    assert_eq!(call.carol_sends("INVITE")[0].flow, flow);
    call.lab.bind("bob", "<sip:desk@10.0.0.1;transport=tls>", opened(Transport::Tls, "192.0.2.21:41000", 4));
    assert!(call.carol_sends("INVITE")[0].existing);
    // By its address it does.
    let mut call = Call::to_phone(Transport::Tls);
    call.lab.restart();
    let flow = call.moves();
    call.lab.bind(
        "bob",
        &contact(Transport::Tls, "192.0.2.25:52001"),
        opened(Transport::Tls, "192.0.2.25:52001", 5),
    );
    assert_eq!(call.carol_sends("INVITE")[0].flow, flow);
}

#[test]
fn dialog_never_moves_to_another_users_phone() {
    // The sender can write any name into To; the token has a mark of the callee.
    let mut call = Call::to_phone(Transport::Wss);
    call.lab.restart();
    call.moves();
    call.lab.bind("dave", &contact(Transport::Wss, AFTER), opened(Transport::Wss, "192.0.2.40:40000", 6));
    call.carols.to = call.carols.to.replace("sip:bob@", "sip:dave@");
    let sent = call.carol_sends("INVITE");
    assert_eq!((sent[0].to().as_str(), sent[0].existing), (BEFORE, true));
}
