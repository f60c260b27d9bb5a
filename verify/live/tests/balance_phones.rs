//! Phones behind address translation that register through the load balancer and are called through it (RFC
//! 3327).

use live::{Beside, Link, Msg, Req, Server, Setup, Via, eventually, fresh_ip};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where nobody is.
const NOWHERE: &str = "10.255.255.7:5062";

/// A balancer of two workers in front of a server.
struct Balanced {
    front: SocketAddr,
    dir: PathBuf,
    _balancer: Beside,
    _server: Server,
}

impl Drop for Balanced {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The server takes requests for the balancer's address as its own.
fn balanced() -> Balanced {
    let ip = fresh_ip();
    let server = Setup::open().config(&format!("aliases = [\"{ip}\"]\n")).start();
    let dir = std::env::temp_dir().join(format!("strowger-phones-{}-{ip}", std::process::id()));
    let mut args: Vec<String> = ["balance", "--workers", "2", "--admin", "off"].map(String::from).into();
    for transport in ["udp", "tcp"] {
        args.extend(["--listen".into(), format!("{transport}:{ip}:5060")]);
    }
    args.extend(["--node".into(), format!("sip:{}", server.sip())]);
    args.extend(["--data-dir".into(), dir.display().to_string()]);
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    Balanced { front: (ip, 5060).into(), dir, _balancer: Beside::start(&words), _server: server }
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
    let balanced = balanced();
    let front = balanced.front;
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
    let balanced = balanced();
    let mut phone = Link::open(Via::Tcp, balanced.front);
    register(&mut phone);
    drop(phone);
    for via in [Via::Udp, Via::Tcp] {
        let mut caller = Link::open(via, balanced.front);
        let invite = Req::invite("sip:bob@example.com", &caller);
        caller.send(&invite.bytes());
        let answer = caller.response(&invite);
        assert_eq!(answer.status(), Some(480), "{answer:?}");
    }
}
