//! Phones behind address translation that register through the load balancer and are called through it (RFC
//! 3327).

use live::{Beside, Link, Msg, Req, Server, Setup, Via, eventually, fresh_ip, unique};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

/// Where nobody is.
const NOWHERE: &str = "10.255.255.7:5062";

/// A balancer of two workers in front of a server.
struct Front {
    at: SocketAddr,
    dir: PathBuf,
    balancer: Beside,
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Balancers in front of a server, which takes requests for their addresses as its own.
fn fronts<const N: usize>(more: &[&str]) -> ([Front; N], Server) {
    let ips = [(); N].map(|()| fresh_ip());
    let aliases = ips.map(|ip| format!("\"{ip}\"")).join(", ");
    let server = Setup::open().config(&format!("aliases = [{aliases}]\n")).start();
    (ips.map(|ip| front(ip, &server, more)), server)
}

fn front(ip: Ipv4Addr, server: &Server, more: &[&str]) -> Front {
    let dir = std::env::temp_dir().join(format!("strowger-phones-{}-{ip}", std::process::id()));
    let mut args: Vec<String> = ["balance", "--workers", "2", "--admin", "off"].map(String::from).into();
    for transport in ["udp", "tcp"] {
        args.extend(["--listen".into(), format!("{transport}:{ip}:5060")]);
    }
    args.extend(["--node".into(), format!("sip:{}", server.sip())]);
    args.extend(["--data-dir".into(), dir.display().to_string()]);
    let words: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Front { at: (ip, 5060).into(), dir, balancer: Beside::start(&words) }
}

/// A phone that takes NOWHERE for its address registers.
fn register(phone: &mut Link) {
    let mut register = Req::register("bob", phone).with("Supported: path, outbound");
    let own = phone.local().to_string();
    register.via = register.via.replace(&own, NOWHERE);
    register.extra.iter_mut().for_each(|line| *line = line.replace(&own, NOWHERE));
    let answer = phone.ask(&register);
    assert_eq!(answer.status(), Some(200), "{answer:?}");
    assert!(answer.header("Path").is_some_and(|path| path.contains(";d=p")), "{answer:?}");
}

/// Somebody calls the phone, which answers, and one of the two hangs up.
fn talk(caller: &mut Link, phone: &mut Link, phone_hangs_up: bool) {
    let invite = Req::invite("sip:bob@example.com", caller);
    let received: Msg = eventually("the phone rings", || {
        caller.send(&invite.bytes());
        phone.find_within(Duration::from_millis(500), |m| {
            m.method() == "INVITE" && m.header("Call-ID") == Some(&invite.call_id)
        })
    });
    let contact = format!("Contact: <sip:bob@{NOWHERE}>");
    phone.send(&received.reply(200, "b", &[&contact]));
    let answer = caller.response(&invite);
    assert_eq!(answer.status(), Some(200), "{answer:?}");
    caller.send(&invite.in_dialog("ACK", &answer, caller).bytes());
    phone.find_within(live::PATIENCE, |m| m.method() == "ACK").expect("the ACK");
    if !phone_hangs_up {
        let bye = invite.in_dialog("BYE", &answer, caller);
        caller.send(&bye.bytes());
        let received = phone.find_within(live::PATIENCE, |m| m.method() == "BYE").expect("the BYE");
        phone.send(&received.reply(200, "", &[]));
        assert_eq!(caller.response(&bye).status(), Some(200));
        return;
    }
    let mut bye = Req::new("BYE", "", phone);
    bye.uri = format!("sip:caller@{}", caller.local());
    (bye.from, bye.to) = (answer.header("To").expect("a To").into(), invite.from.clone());
    bye.call_id.clone_from(&invite.call_id);
    bye.extra = received.all("Record-Route").iter().map(|route| format!("Route: {route}")).collect();
    phone.send(&bye.bytes());
    let received = caller.find_within(live::PATIENCE, |m| m.method() == "BYE").expect("the BYE");
    caller.send(&received.reply(200, "", &[]));
    assert_eq!(phone.response(&bye).status(), Some(200));
}

#[test]
fn a_phone_whose_contact_nobody_reaches_is_called_through_the_balancer() {
    let ([balancer], _server) = fronts(&[]);
    let front = balancer.at;
    for via in [Via::Udp, Via::Tcp] {
        let mut phone = Link::open(via, front);
        register(&mut phone);
        // Of several calls some are of the worker that has not got the phone's connection.
        for n in 0..6 {
            let mut caller = Link::open(if n % 3 == 2 { Via::Tcp } else { Via::Udp }, front);
            talk(&mut caller, &mut phone, n % 2 == 1);
        }
    }
}

#[test]
fn caller_gets_480_when_the_tcp_phone_is_gone() {
    let ([balancer], _server) = fronts(&[]);
    let mut phone = Link::open(Via::Tcp, balancer.at);
    register(&mut phone);
    drop(phone);
    for via in [Via::Udp, Via::Tcp] {
        let mut caller = Link::open(via, balancer.at);
        let invite = Req::invite("sip:bob@example.com", &caller);
        caller.send(&invite.bytes());
        let answer = caller.response(&invite);
        assert_eq!(answer.status(), Some(480), "{answer:?}");
    }
}

/// Registers one flow of bob's phone (RFC 5626 section 4.2).
fn register_flow(flow: &mut Link, reg_id: u32, tags: &str) -> Msg {
    let mut register = Req::register("bob", flow).with(&format!("Supported: {tags}"));
    let params = format!(";ob>;+sip.instance=\"<urn:uuid:1>\";reg-id={reg_id}");
    for line in &mut register.extra {
        if line.starts_with("Contact:") {
            *line = line.replacen('>', &params, 1);
        }
    }
    flow.ask(&register)
}

/// The flow on which the phone rings is the one at this place.
fn rings_on(caller: &mut Link, flows: &mut [Link], place: usize) {
    let invite = Req::invite("sip:bob@example.com", caller);
    let ours = |m: &Msg| m.method() == "INVITE" && m.header("Call-ID") == Some(&invite.call_id);
    let received = eventually("the phone rings", || {
        caller.send(&invite.bytes());
        flows[place].find_within(Duration::from_millis(500), ours)
    });
    flows[place].send(&received.reply(486, "b", &[]));
    assert_eq!(caller.response(&invite).status(), Some(486));
}

#[test]
fn phone_with_two_flows_is_called_when_a_balancer_is_killed() {
    for via in [Via::Tcp, Via::Udp] {
        let ([one, mut other], server) = fronts(&[]);
        let mut flows = [&one, &other].map(|front| Link::open(via, front.at));
        for (reg_id, flow) in (1..).zip(&mut flows) {
            let answer = register_flow(flow, reg_id, "path, outbound");
            assert_eq!(
                (answer.status(), answer.header("Require")),
                (Some(200), Some("outbound")),
                "{answer:?}"
            );
            assert!(answer.header("Path").is_some_and(|path| path.contains(";ob>")), "{answer:?}");
        }
        let mut caller = Link::open(Via::Udp, server.sip());
        // Of equal flows the last one comes first.
        rings_on(&mut caller, &mut flows, 1);
        other.balancer.kill();
        rings_on(&mut caller, &mut flows, 0);
    }
}

#[test]
fn flow_that_a_balancer_has_lost_gives_way_at_once() {
    let ([one, other], server) = fronts(&[]);
    let mut first = Link::open(Via::Tcp, one.at);
    assert_eq!(register_flow(&mut first, 1, "path, outbound").status(), Some(200));
    let mut second = Link::open(Via::Tcp, other.at);
    assert_eq!(register_flow(&mut second, 2, "path, outbound").status(), Some(200));
    drop(second);
    let mut caller = Link::open(Via::Udp, server.sip());
    let mut flows = [first];
    for _ in 0..3 {
        rings_on(&mut caller, &mut flows, 0);
    }
    let mut again = Link::open(Via::Tcp, one.at);
    let answer = register_flow(&mut again, 3, "path, outbound");
    let contacts = answer.all("Contact").join(",");
    assert!(!contacts.contains("reg-id=2"), "its binding is gone: {contacts}");
    assert!(contacts.contains("reg-id=1") && contacts.contains("reg-id=3"), "{contacts}");
}

#[test]
fn registrar_answers_439_if_the_balancer_adds_no_path() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique("never.toml"));
    std::fs::write(&file, "[balance]\npath = \"never\"\n").expect("a file");
    let ([balancer], _server) = fronts(&["--config", &file.display().to_string()]);
    let mut phone = Link::open(Via::Tcp, balancer.at);
    assert_eq!(register_flow(&mut phone, 1, "path, outbound").status(), Some(439));
    // Who does not know outbound gets an ordinary binding.
    let answer = register_flow(&mut phone, 1, "path");
    assert_eq!((answer.status(), answer.header("Require")), (Some(200), None), "{answer:?}");
}

#[test]
fn keepalives_are_answered_by_the_balancer() {
    let ([balancer], _server) = fronts(&[]);
    let socket = UdpSocket::bind((fresh_ip(), 0)).expect("a socket");
    socket.set_read_timeout(Some(live::PATIENCE)).expect("a timeout");
    socket.connect(balancer.at).expect("a way");
    socket.send(&[&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], b"123456789012"].concat()).expect("sent");
    let mut answer = [0; 100];
    assert_eq!(socket.recv(&mut answer).expect("an answer"), 32);
    assert_eq!((&answer[..4], &answer[8..20]), (&[1, 1, 0, 12][..], &b"123456789012"[..]));
    let mut stream = TcpStream::connect(balancer.at).expect("a stream");
    stream.set_read_timeout(Some(live::PATIENCE)).expect("a timeout");
    stream.write_all(b"\r\n\r\n").expect("sent");
    stream.read_exact(&mut answer[..2]).expect("an answer");
    assert_eq!(&answer[..2], b"\r\n");
}
