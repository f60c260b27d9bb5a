//! Zones and what RFC 3263 makes of them.

use super::*;
use core::net::Ipv6Addr;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A zone, and the questions that were put to it.
#[derive(Default)]
struct Zone {
    answers: BTreeMap<(Kind, Vec<u8>), Answer>,
    asked: Vec<String>,
    most_under_way: usize,
}

impl Zone {
    fn with(mut self, kind: Kind, name: &str, answer: Answer) -> Zone {
        self.answers.insert((kind, name.as_bytes().to_vec()), answer);
        self
    }

    fn a(self, name: &str, last: u8) -> Zone {
        self.with(Kind::A, name, Answer::A([Ipv4Addr::new(192, 0, 2, last)].into()))
    }

    fn srv(self, name: &str, records: &[(u16, u16, u16, &str)]) -> Zone {
        let record = |&(priority, weight, port, target): &(u16, u16, u16, &str)| Srv {
            priority,
            weight,
            port,
            target: target.as_bytes().into(),
        };
        self.with(Kind::Srv, name, Answer::Srv(records.iter().map(record).collect()))
    }

    fn naptr(self, name: &str, records: &[(u16, u16, &str, &str)]) -> Zone {
        let record = |&(order, preference, service, replacement): &(u16, u16, &str, &str)| Naptr {
            order,
            preference,
            flags: b"s"[..].into(),
            service: service.as_bytes().into(),
            replacement: replacement.as_bytes().into(),
        };
        self.with(Kind::Naptr, name, Answer::Naptr(records.iter().map(record).collect()))
    }

    /// Runs a look-up to its end, answering the newest question first.
    fn resolve(&mut self, want: &Want<'_>, able: &Ability) -> Result<Vec<String>, Error> {
        let found = match locate(want, able, 42)? {
            Located::Now(found) => found,
            Located::Ask(mut locate) => self.run(&mut locate)?,
        };
        Ok(found.as_slice().iter().map(|d| format!("{} {}", d.transport, d.address)).collect())
    }

    fn run(&mut self, locate: &mut Locate) -> Result<Destinations, Error> {
        let mut under_way = Vec::new();
        loop {
            match locate.poll() {
                Step::Ask(id) => {
                    let (kind, name) = locate.question(id).expect("a question");
                    self.asked.push(format!("{kind:?} {}", String::from_utf8_lossy(name)));
                    under_way.push(id);
                    self.most_under_way = self.most_under_way.max(under_way.len());
                }
                Step::Wait => {
                    let id = under_way.pop().expect("something is under way");
                    let (kind, name) = locate.question(id).expect("a question");
                    let answer = self.answers.get(&(kind, name.to_vec())).cloned().unwrap_or(Answer::Nothing);
                    locate.answer(id, &answer);
                }
                Step::Done(end) => return end,
            }
        }
    }
}

fn able(transports: &[Transport]) -> Ability {
    Ability { transports: transports.iter().copied().collect(), v4: true, v6: true, v6_first: false }
}

fn all() -> Ability {
    able(&[Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss, Transport::Sctp])
}

fn plain() -> Ability {
    able(&[Transport::Udp, Transport::Tcp])
}

fn sip(host: &str) -> Want<'_> {
    Want { secure: false, host: host.as_bytes(), port: None, transport: None, large: false }
}

fn sips(host: &str) -> Want<'_> {
    Want { secure: true, ..sip(host) }
}

fn settled(want: &Want<'_>, able: &Ability) -> Result<Vec<String>, Error> {
    let mut zone = Zone::default();
    let found = zone.resolve(want, able);
    assert!(zone.asked.is_empty(), "asked {:?}", zone.asked);
    found
}

#[test]
fn numeric_hosts_are_settled_at_once() {
    let tcp = Some(&b"TCP"[..]);
    assert_eq!(settled(&sip("192.0.2.7"), &all()).unwrap(), ["udp 192.0.2.7:5060"]);
    assert_eq!(settled(&sip("[2001:db8::1]"), &all()).unwrap(), ["udp [2001:db8::1]:5060"]);
    assert_eq!(settled(&sips("192.0.2.7"), &all()).unwrap(), ["tls 192.0.2.7:5061"]);
    let want = Want { port: Some(6000), transport: tcp, ..sip("192.0.2.7") };
    assert_eq!(settled(&want, &all()).unwrap(), ["tcp 192.0.2.7:6000"]);
    let want = Want { transport: tcp, ..sips("192.0.2.7") };
    assert_eq!(settled(&want, &all()).unwrap(), ["tls 192.0.2.7:5061"]);
    let want = Want { transport: Some(b"tls"), ..sip("192.0.2.7") };
    assert_eq!(settled(&want, &all()).unwrap(), ["tls 192.0.2.7:5061"]);
}

#[test]
fn a_large_request_goes_by_tcp_first() {
    let large = Want { large: true, ..sip("192.0.2.7") };
    assert_eq!(settled(&large, &plain()).unwrap(), ["tcp 192.0.2.7:5060", "udp 192.0.2.7:5060"]);
    let demanded = Want { transport: Some(b"udp"), ..large };
    assert_eq!(settled(&demanded, &plain()).unwrap(), ["tcp 192.0.2.7:5060", "udp 192.0.2.7:5060"]);
    assert_eq!(settled(&large, &able(&[Transport::Udp])).unwrap(), ["udp 192.0.2.7:5060"]);
}

#[test]
fn what_cannot_be_sent_is_an_error_and_no_question() {
    for transport in [&b"udp"[..], b"sctp", b"carrier-pigeon", b""] {
        let want = Want { transport: Some(transport), ..sips("example.com") };
        assert_eq!(settled(&want, &all()), Err(Error::NoTransport));
    }
    assert_eq!(settled(&sips("example.com"), &plain()), Err(Error::NoTransport));
    assert_eq!(settled(&sip("[2001:db8::1]"), &Ability { v6: false, ..all() }), Err(Error::NoTransport));
    assert_eq!(settled(&sip("192.0.2.7"), &able(&[])), Err(Error::NoTransport));
    for host in [
        "",
        "a b",
        "255.255.255.255",
        "0.0.0.0",
        "239.1.2.3",
        "[ff02::1]",
        "[::]",
        "[::ffff:0.0.0.0]",
        "1.2.3",
    ] {
        assert_eq!(settled(&sip(host), &all()), Err(Error::BadHost), "{host}");
    }
}

#[test]
fn the_example_of_rfc_3263_section_4_1() {
    let mut zone = Zone::default()
        .naptr(
            "example.com",
            &[
                (50, 50, "SIPS+D2T", "_sips._tcp.example.com."),
                (90, 50, "SIP+D2T", "_sip._tcp.example.com"),
                (100, 50, "SIP+D2U", "_sip._udp.example.com."),
            ],
        )
        .srv(
            "_sip._tcp.example.com",
            &[(0, 1, 5060, "server1.example.com"), (0, 2, 5060, "server2.example.com")],
        )
        .a("server1.example.com", 1)
        .a("server2.example.com", 2);
    let mut found = zone.resolve(&sip("Example.COM"), &plain()).unwrap();
    found.sort();
    assert_eq!(found, ["tcp 192.0.2.1:5060", "tcp 192.0.2.2:5060"]);
    assert_eq!(zone.asked[..2], ["Naptr example.com", "Srv _sip._tcp.example.com"]);
    assert_eq!(zone.asked.len(), 6, "two hosts, two families each");
}

#[test]
fn tls_is_taken_for_a_sip_uri_where_naptr_prefers_it() {
    let zone = || {
        Zone::default()
            .naptr(
                "example.com",
                &[(50, 50, "sips+d2t", "_sips._tcp.x.net"), (90, 50, "SIP+D2U", "_sip._udp.x.net")],
            )
            .srv("_sips._tcp.x.net", &[(0, 0, 5071, "a.x.net")])
            .srv("_sip._udp.x.net", &[(0, 0, 5070, "a.x.net")])
            .a("a.x.net", 1)
    };
    assert_eq!(zone().resolve(&sip("example.com"), &all()).unwrap(), ["tls 192.0.2.1:5071"]);
    assert_eq!(zone().resolve(&sips("example.com"), &all()).unwrap(), ["tls 192.0.2.1:5071"]);
    assert_eq!(zone().resolve(&sip("example.com"), &plain()).unwrap(), ["udp 192.0.2.1:5070"]);
}

#[test]
fn a_sips_uri_never_follows_a_sip_record() {
    let mut zone = Zone::default()
        .naptr("example.com", &[(50, 50, "SIP+D2T", "_sip._tcp.example.com")])
        .srv("_sip._tcp.example.com", &[(0, 0, 5060, "a.example.com")])
        .a("a.example.com", 1)
        .a("example.com", 9);
    assert_eq!(zone.resolve(&sips("example.com"), &all()).unwrap(), ["tls 192.0.2.9:5061"]);
    assert!(!zone.asked.iter().any(|q| q.contains("_sip._tcp")));
}

#[test]
fn without_naptr_each_transport_is_looked_for() {
    let mut zone = Zone::default()
        .srv("_sip._tcp.example.com", &[(0, 0, 5080, "a.example.com")])
        .srv("_sip._udp.example.com", &[(0, 0, 5070, "a.example.com")])
        .a("a.example.com", 1);
    let found = zone.resolve(&sip("example.com"), &all()).unwrap();
    assert_eq!(found, ["udp 192.0.2.1:5070", "tcp 192.0.2.1:5080"]);
    let large = Want { large: true, ..sip("example.com") };
    assert_eq!(zone.resolve(&large, &all()).unwrap(), ["tcp 192.0.2.1:5080", "udp 192.0.2.1:5070"]);
    let mut zone = zone.a("example.com", 9);
    assert_eq!(zone.resolve(&sip("example.com"), &able(&[Transport::Tls])).unwrap(), ["tls 192.0.2.9:5061"]);
}

#[test]
fn without_srv_the_host_itself_is_tried() {
    let mut zone = Zone::default().a("example.com", 9);
    assert_eq!(zone.resolve(&sip("example.com."), &plain()).unwrap(), ["udp 192.0.2.9:5060"]);
    assert_eq!(
        zone.asked,
        [
            "Naptr example.com",
            "Srv _sip._udp.example.com",
            "Srv _sip._tcp.example.com",
            "A example.com",
            "Aaaa example.com"
        ]
    );
    let want = Want { transport: Some(b"tcp"), ..sip("example.com") };
    let mut zone = Zone::default().a("example.com", 9);
    assert_eq!(zone.resolve(&want, &plain()).unwrap(), ["tcp 192.0.2.9:5060"]);
    assert_eq!(zone.asked, ["Srv _sip._tcp.example.com", "A example.com", "Aaaa example.com"]);
    let want = Want { transport: Some(b"ws"), ..sip("example.com") };
    assert_eq!(zone.resolve(&want, &all()).unwrap(), ["ws 192.0.2.9:80"]);
}

#[test]
fn with_a_port_only_addresses_are_asked() {
    let want = Want { port: Some(5062), ..sip("example.com") };
    let mut zone = Zone::default().a("example.com", 9);
    assert_eq!(zone.resolve(&want, &plain()).unwrap(), ["udp 192.0.2.9:5062"]);
    assert_eq!(zone.asked, ["A example.com", "Aaaa example.com"]);
    let large = Want { large: true, transport: Some(b"udp"), ..want };
    assert_eq!(zone.resolve(&large, &plain()).unwrap(), ["tcp 192.0.2.9:5062", "udp 192.0.2.9:5062"]);
}

#[test]
fn both_families_in_the_order_of_taste() {
    let v6: Ipv6Addr = "2001:db8::9".parse().unwrap();
    let mut zone = Zone::default().a("h", 9).with(Kind::Aaaa, "h", Answer::Aaaa([v6].into()));
    let want = Want { port: Some(5060), ..sip("h") };
    let (four, six) = ("udp 192.0.2.9:5060", "udp [2001:db8::9]:5060");
    assert_eq!(zone.resolve(&want, &plain()).unwrap(), [four, six]);
    assert_eq!(zone.resolve(&want, &Ability { v6_first: true, ..plain() }).unwrap(), [six, four]);
    assert_eq!(zone.resolve(&want, &Ability { v6: false, ..plain() }).unwrap(), [four]);
    assert_eq!(zone.asked.last().unwrap(), "A h", "no question for a family that is not there");
}

#[test]
fn an_srv_record_of_a_dot_ends_the_search() {
    let mut zone = Zone::default().srv("_sip._udp.example.com", &[(0, 0, 0, ".")]).a("example.com", 9);
    assert_eq!(zone.resolve(&sip("example.com"), &plain()), Err(Error::NoService));
    // One transport may be absent and another not.
    let mut zone = zone.srv("_sip._tcp.example.com", &[(0, 0, 5060, "example.com")]);
    assert_eq!(zone.resolve(&sip("example.com"), &plain()).unwrap(), ["tcp 192.0.2.9:5060"]);
}

#[test]
fn a_dead_dns_is_told_from_an_unknown_name() {
    assert_eq!(Zone::default().resolve(&sip("example.com"), &plain()), Err(Error::NotFound));
    let mut zone = Zone::default().with(Kind::A, "example.com", Answer::Failed);
    assert_eq!(zone.resolve(&sip("example.com"), &plain()), Err(Error::Unavailable));
    // A server that chokes on NAPTR does not stop the rest.
    let mut zone = Zone::default().with(Kind::Naptr, "example.com", Answer::Failed).a("example.com", 9);
    assert_eq!(zone.resolve(&sip("example.com"), &plain()).unwrap(), ["udp 192.0.2.9:5060"]);
}

#[test]
fn five_hundred_srv_records_stay_bounded() {
    let names: Vec<String> = (0..500).map(|n| format!("h{n}.example.com")).collect();
    let records: Vec<_> = names.iter().map(|name| (0, 1, 5060, name.as_str())).collect();
    let mut zone = Zone::default().srv("_sip._udp.example.com", &records);
    assert_eq!(zone.resolve(&sip("example.com"), &plain()), Err(Error::NotFound));
    assert!(zone.asked.len() <= 3 + 2 * MAX_HOSTS, "{}", zone.asked.len());
    assert!(zone.most_under_way <= MAX_IN_FLIGHT);
    // One host with many ports and addresses.
    let many: Box<[Ipv4Addr]> = (0..=255).map(|n| Ipv4Addr::new(198, 51, 100, n)).collect();
    let records: Vec<_> = (1..500).map(|port| (0, 1, port, "h.example.com")).collect();
    let mut zone = Zone::default().srv("_sip._udp.example.com", &records).with(
        Kind::A,
        "h.example.com",
        Answer::A(many),
    );
    assert_eq!(zone.resolve(&sip("example.com"), &plain()).unwrap().len(), MAX_DESTINATIONS);
}

#[test]
fn one_place_is_tried_once() {
    let mut zone = Zone::default()
        .srv("_sip._udp.example.com", &[(0, 0, 5060, "a.example.com"), (1, 0, 5060, "b.example.com")])
        .a("a.example.com", 1)
        .a("b.example.com", 1);
    assert_eq!(zone.resolve(&sip("example.com"), &plain()).unwrap(), ["udp 192.0.2.1:5060"]);
}

#[test]
fn addresses_nobody_can_have_are_left_out() {
    let list = ["0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1"].map(|a| a.parse().unwrap());
    let mut zone = Zone::default().with(Kind::A, "h", Answer::A(list.into()));
    let want = Want { port: Some(5060), ..sip("h") };
    assert_eq!(zone.resolve(&want, &plain()).unwrap(), ["udp 192.0.2.1:5060"]);
}

#[test]
fn answers_out_of_place_do_no_harm() {
    let Ok(Located::Ask(mut locate)) = locate(&sip("example.com"), &plain(), 1) else { panic!("a name") };
    locate.answer(AskId(0), &Answer::Failed);
    locate.answer(AskId(200), &Answer::Failed);
    assert!(locate.question(AskId(200)).is_none());
    let Step::Ask(id) = locate.poll() else { panic!("a question") };
    assert!(matches!(locate.poll(), Step::Wait));
    locate.answer(id, &Answer::A([Ipv4Addr::LOCALHOST].into()));
    assert!(matches!(locate.poll(), Step::Ask(_)), "a wrong kind counts as none");
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a.example".to_owned()),
        Just("b.example".to_owned()),
        Just(".".to_owned()),
        Just(String::new()),
        "[a-z0-9._-]{0,80}",
        ".{0,10}"
    ]
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let naptr = (any::<u16>(), any::<u16>(), "[sSuaA]?", "(SIPS?\\+D2[UTSWX])|.{0,5}", any_name()).prop_map(
        |(order, preference, flags, service, replacement)| Naptr {
            order,
            preference,
            flags: flags.into_bytes().into(),
            service: service.into_bytes().into(),
            replacement: replacement.into_bytes().into(),
        },
    );
    let srv =
        (0_u16..3, any::<u16>(), any::<u16>(), any_name()).prop_map(|(priority, weight, port, target)| Srv {
            priority,
            weight,
            port,
            target: target.into_bytes().into(),
        });
    prop_oneof![
        prop::collection::vec(naptr, 0..8).prop_map(|v| Answer::Naptr(v.into())),
        prop::collection::vec(srv, 0..40).prop_map(|v| Answer::Srv(v.into())),
        prop::collection::vec(any::<[u8; 4]>().prop_map(Ipv4Addr::from), 0..20)
            .prop_map(|v| Answer::A(v.into())),
        prop::collection::vec(any::<[u8; 16]>().prop_map(Ipv6Addr::from), 0..20)
            .prop_map(|v| Answer::Aaaa(v.into())),
        Just(Answer::Nothing),
        Just(Answer::Failed),
    ]
}

proptest! {
    #[test]
    fn whatever_the_dns_says_it_ends_within_bounds(
        secure: bool, large: bool, port: Option<u16>,
        transport in prop_oneof![Just(None), Just(Some("tcp")), Just(Some("udp")), Just(Some("tls"))],
        answers in prop::collection::vec(any_answer(), 1..20),
    ) {
        let want = Want { secure, large, port, host: b"example.com", transport: transport.map(str::as_bytes) };
        let Ok(Located::Ask(mut locate)) = locate(&want, &all(), 3) else { return Ok(()) };
        let mut supply = answers.iter().cycle();
        let mut questions = 0;
        let end = loop {
            match locate.poll() {
                Step::Ask(id) => {
                    questions += 1;
                    prop_assert!(questions <= 1 + 4 + 2 * MAX_HOSTS);
                    let (_, name) = locate.question(id).expect("a question");
                    prop_assert!(dns::is_host_name(name));
                    // Every other answer comes while more questions are put.
                    if let Some(answer) = supply.next() {
                        locate.answer(id, answer);
                    }
                }
                Step::Wait => prop_assert!(false, "everything was answered"),
                Step::Done(end) => break end,
            }
        };
        if let Ok(found) = end {
            prop_assert!((1..=MAX_DESTINATIONS).contains(&found.len()));
            for d in found.as_slice() {
                prop_assert!(want::is_unicast(d.address.ip()));
                prop_assert!(!secure || matches!(d.transport, Transport::Tls | Transport::Wss));
            }
        }
    }
}
