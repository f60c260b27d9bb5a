//! Where a binding is reached: docs/design/reach.md, every combination.

use super::*;

/// Where the REGISTER comes from.
const SEEN: &str = "192.0.2.20:40045";
const TRANSPORTS: [Transport; 2] = [Transport::Udp, Transport::Tcp];

/// What the client's Via calls it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Own {
    Right,
    OtherPort,
    OtherAddress,
    Name,
}

/// What the Contact names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Names {
    Sender,
    SenderOtherPort,
    Device,
    Private,
    Name,
    Multicast,
    Browser,
}

/// Who is between the client and us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Between {
    Nobody,
    /// A trusted proxy that sees the client where the client sees itself.
    Front,
    /// A trusted proxy that sees it elsewhere.
    FrontOfTranslated,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    transport: Transport,
    own: Own,
    rport: bool,
    names: Names,
    by_tcp: bool,
    path: bool,
    outbound: bool,
    between: Between,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reached {
    Source,
    Port,
    Contact,
    Refused,
}

/// A row of the table: what it is about, and what it says.
type Rule = (&'static str, fn(&Case) -> bool, Reached);

/// The table. The first row that fits says it.
const TABLE: [Rule; 9] = [
    ("Path", |c| c.path, Reached::Source),
    ("outbound", |c| c.outbound, Reached::Source),
    ("behind a trusted proxy and translated", |c| c.between == Between::FrontOfTranslated, Reached::Source),
    ("rport", |c| c.between == Between::Nobody && c.rport, Reached::Source),
    ("Via is not the source", |c| c.between == Between::Nobody && !c.sees_itself(), Reached::Source),
    (
        "no call can be made to it, or only the sender can",
        |c| matches!(c.names, Names::Browser | Names::Private),
        Reached::Source,
    ),
    ("an address that nobody may register", |c| c.names == Names::Multicast, Reached::Refused),
    ("the sender's own address", |c| c.names.is_sender() && c.between == Between::Nobody, Reached::Port),
    ("another device", |_| true, Reached::Contact),
];

impl Names {
    fn is_sender(self) -> bool {
        matches!(self, Names::Sender | Names::SenderOtherPort)
    }

    /// Host and port, with the address that it leads to.
    fn at(self) -> (&'static str, &'static str) {
        match self {
            Names::Sender => (SEEN, SEEN),
            Names::SenderOtherPort => ("192.0.2.20:5070", "192.0.2.20:5070"),
            Names::Device => ("192.0.2.99:5070", "192.0.2.99:5070"),
            Names::Private => ("10.1.1.1:5060", "10.1.1.1:5060"),
            Names::Name => ("phone.example.net:5070", "192.0.2.77:5070"),
            Names::Multicast => ("224.0.1.75:5060", ""),
            Names::Browser => ("df7jal23ls0d.invalid", ""),
        }
    }
}

impl Case {
    fn sees_itself(&self) -> bool {
        match self.own {
            Own::Right => true,
            // The port of its connection is unknown.
            Own::OtherPort => self.transport == Transport::Tcp,
            Own::OtherAddress | Own::Name => false,
        }
    }

    fn all() -> Vec<Case> {
        let mut all = Vec::new();
        let own = [Own::Right, Own::OtherPort, Own::OtherAddress, Own::Name];
        let names = [
            Names::Sender,
            Names::SenderOtherPort,
            Names::Device,
            Names::Private,
            Names::Name,
            Names::Multicast,
            Names::Browser,
        ];
        let between = [Between::Nobody, Between::Front, Between::FrontOfTranslated];
        for bits in 0..1_u32 << 5 {
            let bit = |n: u32| bits >> n & 1 == 1;
            for own in own {
                for names in names {
                    all.extend(between.map(|between| Case {
                        transport: TRANSPORTS[usize::from(bit(0))],
                        own,
                        rport: bit(1),
                        names,
                        by_tcp: bit(2) && names != Names::Browser,
                        path: bit(3),
                        outbound: bit(4),
                        between,
                    }));
                }
            }
        }
        // Outbound takes no proxy without Path (RFC 5626 section 6).
        all.retain(|case| case.between == Between::Nobody || !case.outbound);
        all
    }

    fn flow(&self) -> Flow {
        if self.transport == Transport::Udp { udp(SEEN) } else { tcp(SEEN, 7) }
    }

    fn contact(&self) -> String {
        let parameter = match (self.names, self.by_tcp) {
            (Names::Browser, _) => ";transport=ws",
            (_, true) => ";transport=tcp",
            _ => "",
        };
        format!("sip:bob@{}{parameter}", self.names.at().0)
    }

    /// Whether the Contact is a public address, which anybody may call.
    fn is_spelled(&self) -> bool {
        self.names.is_sender() || self.names == Names::Device
    }

    fn register(&self) -> Req {
        let transport = if self.transport == Transport::Udp { "UDP" } else { "TCP" };
        let sent_by = match self.own {
            Own::Right => SEEN,
            Own::OtherPort => "192.0.2.20:5999",
            Own::OtherAddress => "198.51.100.20:5999",
            Own::Name => "pc33.example.net",
        };
        let mut req = Req::new("REGISTER", "sip:here.example").sent_by(transport, sent_by);
        req.from = "<sip:bob@here.example>;tag=r".to_owned();
        req.to = "<sip:bob@here.example>".to_owned();
        req.via += if self.rport { ";rport" } else { "" };
        let outbound = if self.outbound { ";+sip.instance=\"<urn:uuid:1>\";reg-id=1" } else { "" };
        req.lines = vec![format!("Contact: <{}>{outbound}", self.contact())];
        if self.path {
            req.lines.extend(["Path: <sip:192.0.2.20:40045;lr;ob>".to_owned(), "Supported: path".to_owned()]);
        }
        let below = match self.between {
            Between::Nobody => return req,
            Between::Front => "10.0.0.7:5062;received=10.0.0.7;rport=5062",
            Between::FrontOfTranslated => "10.0.0.7:5062;received=203.0.113.9;rport=41045",
        };
        req.lines.insert(0, format!("Via: SIP/2.0/UDP {below};branch=z9hG4bKphone"));
        req
    }

    /// Where the answer to the REGISTER goes (RFC 3261 section 18.2.2, RFC 3581).
    fn answered_at(&self) -> &'static str {
        match self.own {
            _ if self.transport == Transport::Tcp || self.rport => SEEN,
            Own::Right | Own::OtherAddress => SEEN,
            Own::OtherPort => "192.0.2.20:5999",
            Own::Name => "192.0.2.20:5060",
        }
    }

    /// The ways that a call is tried, in order.
    fn ways(&self, reached: Reached) -> Vec<(Transport, &'static str)> {
        let (_, contact) = self.names.at();
        let there = if self.by_tcp { Transport::Tcp } else { Transport::Udp };
        let kept = self.path || self.outbound;
        // A flow of outbound is the very one.
        let source = if self.outbound { SEEN } else { self.answered_at() };
        let source = (self.transport, source);
        // On the connection of a proxy nobody is called: what spells out an address is called there.
        let by_proxy = self.transport == Transport::Tcp && self.between != Between::Nobody && !self.path;
        let is_source = self.outbound || reached == Reached::Source;
        if by_proxy && is_source && self.names == Names::Device {
            return vec![(there, contact)];
        }
        let mut ways = match reached {
            Reached::Refused => return Vec::new(),
            Reached::Contact => return vec![(there, contact)],
            Reached::Port if self.transport == Transport::Udp && !self.by_tcp => {
                return vec![(there, contact)];
            }
            Reached::Port | Reached::Source if !kept && self.names.is_sender() => match self.transport {
                // The Contact asks for TCP.
                Transport::Udp if self.by_tcp => vec![(Transport::Tcp, contact), source],
                // The connection, then a new one.
                Transport::Tcp => vec![source, (Transport::Tcp, contact)],
                _ => vec![source],
            },
            _ => vec![source],
        };
        ways.dedup();
        ways
    }
}

#[test]
fn binding_is_reached_where_the_table_says() {
    let mut rows = [0; TABLE.len()];
    for case in Case::all() {
        let row = TABLE.iter().position(|(_, fits, _)| fits(&case)).unwrap();
        rows[row] += 1;
        let (about, _, reached) = TABLE[row];
        let mut lab = Lab::open();
        if case.between != Between::Nobody {
            lab.reconfigure(|s| s.auth.fronts = vec![("192.0.2.20".parse().unwrap(), 32)]);
        }
        lab.send_on(case.flow(), case.register().text());
        let status = if reached == Reached::Refused { 403 } else { 200 };
        assert_eq!(lab.one().status(), status, "{about}: {case:?}");
        let expected = case.ways(reached);
        if expected.is_empty() {
            continue;
        }
        let expected: Vec<(Transport, String)> =
            expected.into_iter().map(|(transport, to)| (transport, to.to_owned())).collect();
        let mut uris = vec!["sip:bob@here.example".to_owned()];
        // A call to the Contact itself reaches the same phone.
        uris.extend(case.is_spelled().then(|| case.contact()));
        for uri in uris {
            lab.send(CAROL, Req::new("INVITE", &uri).text());
            lab.resolve("192.0.2.77");
            let mut ways = Vec::new();
            while let Some(sent) = lab.sent().into_iter().find(|s| s.method() == "INVITE" && s.status() == 0)
            {
                ways.push((sent.flow.transport, sent.to()));
                lab.undeliverable(&sent);
            }
            assert_eq!(ways, expected, "{about}: {case:?} by {uri}");
        }
    }
    assert!(rows.iter().all(|count| *count > 0), "a row that nothing fits: {rows:?}");
}

/// The names of the table's rows stand in the page that explains them.
#[test]
fn table_of_reach_stands_in_its_page() {
    let page = include_str!("../../../../docs/design/reach.md");
    for (about, _, _) in TABLE {
        assert!(page.contains(&format!("| {about} |")), "{about}");
    }
}

fn register(user: &str, via: &str, contact: &str) -> Req {
    let mut req = Req::new("REGISTER", "sip:here.example");
    req.via = format!("SIP/2.0/{via};branch=z9hG4bKg{}", number());
    req.from = format!("<sip:{user}@here.example>;tag=r{}", number());
    req.to = format!("<sip:{user}@here.example>");
    req.lines = vec![format!("Contact: {contact}")];
    req
}

/// A phone that STUN, or nobody, told its address.
#[test]
fn phone_with_a_wrong_address_is_called_where_it_is() {
    for via in ["UDP 198.51.100.20:5999", "UDP 203.0.113.9:5999;rport"] {
        let own = &via[4..].trim_end_matches(";rport");
        let seen = "203.0.113.9:41045";
        let mut lab = Lab::open();
        let contact = format!("<sip:bob@{own}>");
        assert_eq!(lab.ask(seen, register("bob", via, &contact).text()).status(), 200);
        let invite = Req::invite();
        let got = lab.invite(CAROL, invite.text()).remove(0);
        assert_eq!((got.to().as_str(), got.flow.transport), (seen, Transport::Udp));
        let ok = lab.ask(seen, got.reply(200, "b", &format!("Contact: {contact}\r\n")));
        // What follows goes there too, whoever asks, whatever its size.
        lab.send(CAROL, invite.within("ACK", &ok).text());
        assert_eq!(lab.one().to(), seen);
        let mut info = invite.within("INFO", &ok);
        info.body = "x".repeat(2_000);
        let sent = lab.ask(CAROL, info.text());
        assert_eq!((sent.to().as_str(), sent.flow.transport), (seen, Transport::Udp), "{via}");
        // And what the phone begins itself.
        let mut call = Req::new("INVITE", "sip:dave@here.example").sent_by("UDP", own);
        call.via += if via.ends_with("rport") { ";rport" } else { "" };
        call.from = "<sip:bob@here.example>;tag=c1".to_owned();
        call.lines = vec![format!("Contact: {contact}")];
        lab.bind("dave", &format!("<sip:dave@{BOB}>"), udp(BOB));
        let got = lab.invite(seen, call.text()).remove(0);
        let ok = lab.ask(BOB, got.accept("b"));
        assert_eq!(ok.to(), seen);
        let bye = from_callee(&got, "BYE", BOB, "<sip:dave@here.example>");
        assert_eq!(lab.ask(BOB, bye.text()).to(), seen, "{via}");
    }
}

/// RFC 3261 section 18.1.1 is for who chooses by a URI; this phone has said how it is reached.
#[test]
fn phone_on_udp_gets_a_large_call_by_datagram() {
    let mut invite = Req::invite();
    invite.body = "x".repeat(2_000);
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let sent = lab.invite(CAROL, invite.text());
    assert_eq!((sent.len(), sent[0].flow, sent[0].hurries), (1, udp(BOB), false));
    // Its connection, if it has one as well.
    let instance = "+sip.instance=\"<urn:uuid:1>\"";
    for (large, expected) in [(true, Transport::Tcp), (false, Transport::Udp)] {
        let mut lab = Lab::new();
        lab.bind(
            "bob",
            &format!("<sip:bob@192.0.2.20;transport=tcp>;{instance};reg-id=1"),
            tcp("192.0.2.20:41000", 3),
        );
        lab.bind("bob", &format!("<sip:bob@{BOB}>;{instance};reg-id=2"), udp(BOB));
        let mut invite = Req::invite();
        invite.body = "x".repeat(if large { 2_000 } else { 0 });
        let sent = lab.invite(CAROL, invite.text());
        assert_eq!((sent.len(), sent[0].flow.transport), (1, expected));
        lab.undeliverable(&sent[0]);
        assert_ne!(lab.one().flow.transport, expected, "the other one after it");
    }
}

/// A mailbox that registers like a phone is one.
#[test]
fn voicemail_that_is_a_phone_gets_a_large_call_by_datagram() {
    let mut lab = Lab::with(|s| {
        s.voicemail = Some(Voicemail {
            uri: b"sip:dave@here.example".to_vec(),
            on: sip_proxy::context::Reroute::UNREGISTERED,
            no_answer_ms: 0,
            ..Voicemail::default()
        });
    });
    lab.bind("dave", &format!("<sip:dave@{BOB2}>"), udp(BOB2));
    let mut invite = Req::invite();
    invite.body = "x".repeat(2_000);
    let sent = lab.invite(CAROL, invite.text());
    assert_eq!((sent.len(), sent[0].flow), (1, udp(BOB2)));
}

/// A name is looked up when a call comes, and leads nowhere that a Route would not.
#[test]
fn named_contact_is_looked_up_and_leads_nowhere_inside() {
    for (address, reached) in
        [("192.0.2.77", true), ("10.0.0.7", false), ("169.254.169.254", false), ("127.0.0.1", false)]
    {
        for via in [format!("UDP {ALICE}"), "TCP 192.0.2.30:5060".to_owned()] {
            let flow = if via.starts_with("UDP") { udp(ALICE) } else { tcp("192.0.2.30:41000", 3) };
            let mut lab = Lab::open();
            lab.send_on(flow, register("bob", &via, "<sip:x@phone.example.net>").text());
            assert_eq!(lab.one().status(), 200);
            lab.send(CAROL, Req::invite().text());
            lab.resolve(address);
            let sent = lab.sent();
            let to = |port: u16| vec![("INVITE".to_owned(), format!("{address}:{port}"))];
            assert_eq!(requests(&sent), if reached { to(5060) } else { vec![] }, "{address} {via}");
        }
    }
    // By maddr just as well (RFC 3263 section 4).
    let mut lab = Lab::open();
    let contact = format!("<sip:x@{ALICE};maddr=phone.example.net>");
    assert_eq!(lab.ask(ALICE, register("bob", &format!("UDP {ALICE}"), &contact).text()).status(), 200);
    lab.send(CAROL, Req::invite().text());
    lab.resolve("10.0.0.7");
    assert_eq!(requests(&lab.sent()), []);
}

/// Several Contacts in one REGISTER are each what they are.
#[test]
fn contacts_of_one_register_are_placed_each_by_itself() {
    let mut lab = Lab::open();
    let contacts = format!("<sip:bob@{ALICE}>, <sip:bob@192.0.2.99:5070>");
    assert_eq!(lab.ask(ALICE, register("bob", &format!("UDP {ALICE}"), &contacts).text()).status(), 200);
    let sent = lab.invite(CAROL, Req::invite().text());
    let mut reached: Vec<String> = sent.iter().map(Sent::to).collect();
    reached.sort();
    assert_eq!(reached, [ALICE, "192.0.2.99:5070"]);
}

/// Who sends what to a host that never asked for it: as little as can be.
#[test]
fn device_never_heard_from_gets_few_and_one_at_a_time() {
    let victim = |n: u32| format!("<sip:bob@192.0.2.99:{}>", 5_070 + n);
    let away = |n: u32| register("bob", &format!("UDP {ALICE}"), &victim(n));
    let sent_to = |lab: &mut Lab, method: &str| {
        lab.send(CAROL, Req::new(method, "sip:bob@here.example").text());
        lab.pass(40_000);
        lab.sent()
            .into_iter()
            .filter(|s| s.status() == 0 && s.to().starts_with("192.0.2.99"))
            .collect::<Vec<_>>()
    };
    let mut lab = Lab::open();
    assert_eq!(lab.ask(ALICE, away(0).text()).status(), 200);
    // Once more is the same one; a second is not, and nor are two at once.
    assert_eq!(lab.ask(ALICE, away(0).text()).status(), 200);
    let refused = lab.ask(ALICE, away(1).text());
    assert_eq!(refused.start(), "SIP/2.0 403 Too Many Contacts Elsewhere");
    let two = format!("{}, {}", victim(2), victim(3));
    let both = register("dave", &format!("UDP {ALICE}"), &two);
    assert_eq!(lab.ask(ALICE, both.text()).status(), 403);
    // Contacts count, not hosts: each is a branch of every call.
    let users = "<sip:a@192.0.2.99:5075>, <sip:b@192.0.2.99:5075>";
    let both = register("dave", &format!("UDP {ALICE}"), users);
    assert_eq!(lab.ask(ALICE, both.text()).status(), 403);
    // The phone's own Contacts are no concern of this.
    let own = register("bob", &format!("UDP {ALICE}"), &format!("<sip:bob@{ALICE};x=y>;q=0.1"));
    assert_eq!(lab.ask(ALICE, own.text()).status(), 200);
    for method in ["INVITE", "MESSAGE"] {
        assert_eq!(sent_to(&mut lab, method).len(), 3, "{method}");
    }
    // Once something has come back it is like any other.
    lab.send(CAROL, Req::invite().text());
    let got = lab.sent().into_iter().find(|s| s.to() == "192.0.2.99:5070").unwrap();
    lab.send("192.0.2.99:5070", got.reply(486, "b", ""));
    lab.pass(40_000);
    lab.sent();
    assert!(sent_to(&mut lab, "INVITE").len() > 5);
    assert_eq!(lab.ask(ALICE, away(1).text()).status(), 200);
    assert_eq!(lab.ask(ALICE, away(2).text()).status(), 403);
}

#[test]
fn path_elsewhere_and_contact_by_address_get_few_transmissions() {
    let mut lab = Lab::open();
    let by_path = register("bob", &format!("UDP {ALICE}"), &format!("<sip:bob@{ALICE}>"));
    let by_path = by_path.line("Supported: path").line("Path: <sip:192.0.2.99:5070;lr>");
    assert_eq!(lab.ask(ALICE, by_path.text()).status(), 200);
    let device = register("dave", &format!("UDP {ALICE}"), "<sip:dave@192.0.2.98:5070>");
    assert_eq!(lab.ask(ALICE, device.text()).status(), 200);
    for uri in ["sip:bob@here.example", "sip:dave@192.0.2.98:5070"] {
        lab.send(CAROL, Req::new("MESSAGE", uri).text());
        lab.pass(40_000);
        let sent =
            lab.sent().into_iter().filter(|s| s.status() == 0 && s.to().starts_with("192.0.2.9")).count();
        assert_eq!(sent, 3, "{uri}");
    }
}

/// A Path is the client's claim, like a Contact.
#[test]
fn path_elsewhere_takes_one_contact_until_it_answers() {
    let by_path = |user: &str, n: u32, edge: &str| {
        let contact = format!("<sip:{user}@192.0.2.30:{}>", 6_000 + n);
        let req = register(user, &format!("UDP {ALICE};rport"), &contact);
        req.line("Supported: path").line(&format!("Path: <sip:{edge};lr>"))
    };
    for edge in ["192.0.2.99:5070", "edge.victim.example"] {
        let mut lab = Lab::open();
        assert_eq!(lab.ask(ALICE, by_path("bob", 0, edge).text()).status(), 200);
        assert_eq!(lab.ask(ALICE, by_path("bob", 0, edge).text()).status(), 200, "the same once more");
        for n in 1..10 {
            let refused = lab.ask(ALICE, by_path("bob", n, edge).text());
            assert_eq!(refused.start(), "SIP/2.0 403 Too Many Contacts Elsewhere", "{edge}");
        }
        // A Contact of another device is refused beside it.
        let device = register("bob", &format!("UDP {ALICE}"), "<sip:bob@192.0.2.98:5070>");
        assert_eq!(lab.ask(ALICE, device.text()).status(), 403);
        lab.send(CAROL, Req::invite().text());
        lab.resolve("192.0.2.99");
        let got = lab.sent().into_iter().find(|s| s.to().starts_with("192.0.2.99")).unwrap();
        let there = got.to();
        lab.send(&there, got.reply(486, "b", ""));
        lab.pass(40_000);
        lab.sent();
        for n in 1..3 {
            assert_eq!(lab.ask(ALICE, by_path("bob", n, edge).text()).status(), 200, "{edge}");
        }
    }
    // One that names the host it came from leads nowhere else.
    let mut lab = Lab::open();
    for n in 0..3 {
        assert_eq!(lab.ask(ALICE, by_path("bob", n, ALICE).text()).status(), 200);
    }
}

/// A trusted proxy that writes the same name into Via and Path is at that name, and its phones are many. A
/// Path that leads elsewhere is not the proxy's.
#[test]
fn path_of_a_trusted_proxy_by_its_own_name_takes_many_contacts() {
    for (front, via, path, status) in [
        (BOB, "edge.example", "edge.example", 200),
        (BOB, "edge.example:5060", "edge.example", 200),
        (BOB, "edge.example:5070", "EDGE.example:5070", 200),
        (BOB, "other.example", "edge.example", 403),
        (CAROL, "edge.example", "edge.example", 403),
        (BOB, "edge.example", "edge.example;maddr=203.0.113.77", 403),
        (BOB, "edge.example", "edge.example;MADDR=203.0.113.77", 403),
        (BOB, "edge.example", "edge.example;maddr", 403),
        (BOB, "edge.example", "edge.example:5070", 403),
        (BOB, "edge.example:5070", "edge.example", 403),
    ] {
        let mut lab = Lab::open();
        lab.reconfigure(|s| s.auth.fronts = vec![("192.0.2.20".parse().unwrap(), 32)]);
        let by_path = |n: u32| {
            let contact = format!("<sip:bob@192.0.2.97:{}>", 6_000 + n);
            let mut req = register("bob", &format!("UDP {via};rport"), &contact);
            req.lines.insert(0, "Via: SIP/2.0/UDP 192.0.2.97:6000;branch=z9hG4bKp".to_owned());
            req.line("Supported: path").line(&format!("Path: <sip:{path};lr>"))
        };
        assert_eq!(lab.ask(front, by_path(0).text()).status(), 200);
        assert_eq!(lab.ask(front, by_path(1).text()).status(), status, "{path}, {via} from {front}");
    }
}

/// A client that registers another phone's Contact from elsewhere gets none of its calls.
#[test]
fn contact_claimed_by_two_leads_to_the_phone_that_is_there() {
    let uri = format!("sip:bob@{BOB}");
    let calls = |lab: &mut Lab| {
        let sent = lab.invite(CAROL, Req::new("INVITE", &uri).text());
        sent.iter().map(Sent::to).collect::<Vec<_>>()
    };
    let claim = |lab: &mut Lab, user: &str, from: &str| {
        let req = register(user, &format!("UDP {from};rport"), &format!("<{uri}>"));
        assert_eq!(lab.ask(from, req.text()).status(), 200);
    };
    let (near, far, squatter) = (BOB, "203.0.113.9:41045", "203.0.113.66:5060");
    for order in [[near, squatter], [squatter, near]] {
        let mut lab = Lab::open();
        ["bob", "dave"].iter().zip(order).for_each(|(user, from)| claim(&mut lab, user, from));
        assert_eq!(calls(&mut lab), [BOB]);
    }
    // Behind translation only the source shows where the phone is. Two sources contradict each other.
    let mut lab = Lab::open();
    claim(&mut lab, "bob", far);
    assert_eq!(calls(&mut lab), [far]);
    claim(&mut lab, "dave", far);
    assert_eq!(calls(&mut lab), [far], "one phone with two users");
    claim(&mut lab, "dave", squatter);
    assert_eq!(calls(&mut lab), [BOB]);
}

/// More claims than are read: the true binding may be one that is not.
#[test]
fn contact_claimed_by_many_leads_to_the_address_in_it() {
    let uri = format!("sip:bob@{BOB}");
    for phone in 0..8 {
        let mut lab = Lab::open();
        lab.bind(&format!("phone{phone}"), &format!("<{uri}>"), udp(BOB));
        for user in 0..200 {
            lab.bind(&format!("user{user}"), &format!("<{uri}>"), udp("203.0.113.66:5060"));
        }
        let sent = lab.invite(CAROL, Req::new("INVITE", &uri).text());
        assert_eq!(sent.iter().map(Sent::to).collect::<Vec<_>>(), [BOB], "phone{phone}");
    }
}

/// One PBX registers many users with one user part, and another parameter for each.
#[test]
fn contacts_that_differ_in_a_parameter_are_each_a_phone() {
    let mut lab = Lab::new();
    let uri = |line: usize| format!("sip:s@{BOB};line={line}");
    (0..40).for_each(|line| lab.bind(&format!("user{line}"), &format!("<{}>", uri(line)), udp(BOB)));
    for line in 0..40 {
        let sent = lab.invite(CAROL, Req::new("INVITE", &uri(line)).text());
        assert_eq!(sent.iter().map(Sent::to).collect::<Vec<_>>(), [BOB], "{line}");
    }
}

/// A registered Contact does not take over an address outside that a user may call.
#[test]
fn address_that_a_user_may_call_outside_is_not_taken_by_a_contact() {
    for (contact, seen, leads) in [
        // Translated, with a wrong port.
        ("203.0.113.9:5999", "203.0.113.9:41045", "203.0.113.9:41045"),
        ("203.0.113.9:5999", "203.0.113.66:5060", "203.0.113.9:5999"),
    ] {
        let mut lab = Lab::new();
        lab.bind("bob", &format!("<sip:bob@{contact}>"), udp(seen));
        let invite = Req::new("INVITE", &format!("sip:bob@{contact}")).alice();
        let sent = lab.as_user(ALICE, "alice", &invite);
        let got = sent.iter().find(|s| s.status() == 0).unwrap();
        assert_eq!(got.to(), leads, "{contact} from {seen}");
        // A stranger may call registered phones only.
        let got = lab.invite(CAROL, Req::new("INVITE", &format!("sip:bob@{contact}")).text()).remove(0);
        assert_eq!(got.to(), seen);
    }
}

/// What another worker has heard counts.
#[test]
fn what_was_heard_is_known_to_all_workers() {
    let heard = Arc::new(Heard::default());
    let away =
        |n: u32| register("bob", &format!("UDP {ALICE}"), &format!("<sip:bob@192.0.2.99:{}>", 5_070 + n));
    let (mut one, mut two) = (Lab::open(), Lab::open());
    for lab in [&mut one, &mut two] {
        lab.node.share_heard(Arc::clone(&heard));
        assert_eq!(lab.ask(ALICE, away(0).text()).status(), 200);
    }
    assert_eq!(two.ask(ALICE, away(1).text()).status(), 403);
    let got = one.invite(CAROL, Req::invite().text()).remove(0);
    // From elsewhere it proves nothing.
    one.send(CAROL, got.reply(100, "", ""));
    assert_eq!(two.ask(ALICE, away(1).text()).status(), 403);
    one.send("192.0.2.99:5070", got.reply(180, "b", ""));
    assert_eq!(two.ask(ALICE, away(1).text()).status(), 200);
}

/// Phones behind a proxy that we trust are where that one says, each of them.
#[test]
fn phones_behind_a_trusted_proxy_are_not_elsewhere() {
    let mut lab = Lab::open();
    lab.reconfigure(|s| s.auth.fronts = vec![("192.0.2.20".parse().unwrap(), 32)]);
    for phone in ["192.0.2.97:5060", "192.0.2.98:5060"] {
        let mut req = register("bob", &format!("UDP {BOB}"), &format!("<sip:bob@{phone}>"));
        req.lines.insert(0, format!("Via: SIP/2.0/UDP {phone};branch=z9hG4bKp"));
        assert_eq!(lab.ask(BOB, req.text()).status(), 200);
    }
    let mut reached: Vec<String> = lab.invite(CAROL, Req::invite().text()).iter().map(Sent::to).collect();
    reached.sort();
    assert_eq!(reached, ["192.0.2.97:5060", "192.0.2.98:5060"]);
}
