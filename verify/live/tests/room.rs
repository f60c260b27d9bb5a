//! What strangers may take of memory, calls and bandwidth while users are served.

use live::{Credentials, Link, Msg, PATIENCE, Req, Server, Setup, Via, fresh_ips, unique};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn server(config: &str) -> Server {
    Setup::new().user("bob", "b-secret").user("alice", "a-secret").config(config).start()
}

/// A request of a user of another domain.
fn stranger(method: &str, link: &Link) -> Req {
    let mut req = Req::new(method, "sip:bob@example.com", link).contact(link);
    req.from = format!("<sip:mallory@far.example>;tag={}", unique("m"));
    req
}

/// The first answer to a request, provisional or not.
fn fate(link: &mut Link, req: &Req) -> Msg {
    link.send(&req.bytes());
    let answer =
        link.find_within(PATIENCE, |m| m.status().is_some() && m.header("Call-ID") == Some(&req.call_id));
    answer.unwrap_or_else(|| panic!("no answer to {}", req.method))
}

/// Registers bob at a link with this number of contacts.
fn register(link: &mut Link, contacts: usize) {
    let transport = if link.via() == Via::Tcp { ";transport=tcp" } else { "" };
    let mut req = Req::new("REGISTER", "sip:example.com", link).user("bob").with("Expires: 3600");
    req.to = "<sip:bob@example.com>".into();
    for n in 0..contacts {
        req = req.with(&format!("Contact: <sip:b{n}@{}{transport}>", link.local()));
    }
    assert_eq!(link.ask_as(&req, &Credentials::new("bob", "b-secret")).status(), Some(200));
}

/// Alice calls bob: her INVITE passes if it gets an answer other than 503.
fn alice_calls(server: &Server) -> Option<u16> {
    let mut alice = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &alice).user("alice");
    let challenge = alice.ask(&invite);
    let line = live::answer(&challenge, &Credentials::new("alice", "a-secret"), "INVITE", &invite.uri);
    let again = invite.again(&alice, &line);
    fate(&mut alice, &again).status()
}

#[test]
fn large_invites_of_strangers_leave_memory_for_others() {
    // Ten phones that are sent datagrams of any size, seldom again, and say nothing.
    let server = server("[limits]\nmemory_mib = 64\n[proxy]\nmtu = 65535\n[timers]\nt1 = \"4s\"\n");
    let mut phones = server.link(Via::Udp);
    register(&mut phones, 10);
    let resident = || server.metric("process_resident_memory_bytes");
    let before = resident();
    let mut refused = 0;
    for ip in fresh_ips::<4>() {
        let mut link = Link::udp_at(SocketAddr::from((ip, 0)), server.sip());
        for _ in 0..90 {
            let invite = stranger("INVITE", &link).body(&[b'x'; 60_000]);
            let answer = fate(&mut link, &invite);
            if answer.status() == Some(503) {
                assert!(answer.header("Retry-After").is_some(), "{answer:?}");
                refused += 1;
            }
        }
    }
    // Of 32 MiB for messages strangers have half, and one of them an eighth: 69 such INVITEs.
    assert!((80..=120).contains(&refused), "{refused} of 360 were refused");
    let held = server.metric("strowger_message_bytes{of=\"unproven\"}");
    assert!((12 << 20..=16 << 20).contains(&held), "{held} bytes held");
    assert_eq!(server.metric("strowger_room_refused_total{limit=\"share\"}"), refused);
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more for 20 MB received");
    assert_eq!(alice_calls(&server), Some(100));
    let status = String::from_utf8(server.ctl(&["status"]).stdout).unwrap();
    assert!(status.contains("ALARM") && status.contains("hold their share"), "{status}");
    assert!(status.contains("16 MiB of it for unproven senders"), "{status}");
    assert!(server.log_has("unproven senders hold their share"), "{}", server.log_text());
}

#[test]
fn ringing_calls_of_one_stranger_leave_calls_for_users() {
    let server = server("[limits]\ncalls = 80\n");
    let mut phone = server.link(Via::Udp);
    register(&mut phone, 1);
    let mut link = server.link(Via::Udp);
    let fates: Vec<_> = (0..100)
        .map(|_| {
            let invite = stranger("INVITE", &link);
            fate(&mut link, &invite).status()
        })
        .collect();
    assert_eq!(fates.iter().filter(|fate| **fate == Some(100)).count(), 10, "an eighth: {fates:?}");
    assert_eq!(fates.iter().filter(|fate| **fate == Some(503)).count(), 90, "{fates:?}");
    assert_eq!(alice_calls(&server), Some(100));
}

#[test]
fn unproven_sender_gets_three_times_its_bytes_at_most() {
    let server = server("[timers]\nt1 = \"50ms\"\nt2 = \"200ms\"\n");
    let mut phone = server.link(Via::Udp);
    register(&mut phone, 1);
    for status in [486, 200, 180] {
        let mut link = server.link(Via::Udp);
        let invite = stranger("INVITE", &link).with("User-Agent: somebody who never sends an ACK");
        link.send(&invite.bytes());
        let received = phone.request("INVITE");
        let contact = format!("Contact: <sip:bob@{}>", phone.local());
        let times = if status == 486 { 1 } else { 40 };
        for _ in 0..times {
            phone.send(&received.reply(status, "b", &[&contact]));
        }
        // Timer G of 486 runs for 3.2 s.
        let (end, mut bytes) = (Instant::now() + Duration::from_secs(4), 0);
        while let Some(message) = link.recv_raw(end.saturating_duration_since(Instant::now())) {
            bytes += message.len();
        }
        let most = 3 * invite.bytes().len();
        assert!(bytes > 0 && bytes <= most, "{status}: {bytes} bytes for {most} at most");
        if status == 180 {
            phone.send(&received.reply(486, "b", &[]));
            assert_eq!(link.response(&invite).status(), Some(486), "there is room for the answer");
        }
        phone.drain();
    }
}
