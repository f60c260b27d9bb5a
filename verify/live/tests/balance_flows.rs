//! A phone with two flows (RFC 5626) over TLS or WebSocket to `strowger balance`, in front of two servers
//! that ask each other. One of the two connections ends.

use live::{
    Authority, Front, Link, Msg, PATIENCE, Req, Server, Setup, Side, Via, fresh_ip, hangs_up, speaks, unique,
};
use std::time::{Duration, Instant};

/// Two servers, each of which asks the other for absent users.
fn nodes(front: std::net::Ipv4Addr) -> [Server; 2] {
    let config = |other: std::net::Ipv4Addr| {
        format!(
            "aliases = [\"{front}\"]\n[auth]\nfronts = [\"{front}\"]\n\
             [[trunk]]\nname = \"other\"\ntargets = [\"sip:{other}\"]\nmay_transit = true\n\
             [[route]]\ndomain = \"example.com\"\ntargets = [\"sip:example.com\", \"sip:{other}\"]\n"
        )
    };
    // The first learns only then where the second one is.
    let mut one = Setup::open().config("").start();
    let two = Setup::open().config(&config(one.ip())).start();
    one.write_config(Some(&config(two.ip())));
    one.restart();
    [one, two]
}

/// The balancer, its nodes, and bob's phone with two connections to it, registered in this order.
struct Site {
    front: Front,
    _nodes: [Server; 2],
    flows: Vec<Option<Link>>,
}

impl Site {
    fn new(via: Via, reg_ids: [u32; 2]) -> Site {
        let ip = fresh_ip();
        let nodes = nodes(ip);
        let uris: Vec<String> = nodes.iter().map(|node| format!("sip:{}", node.sip())).collect();
        let front = Front::start(Authority::new(), ip, "2", &uris, "algorithm = \"round-robin\"\n");
        let mut site = Site { front, _nodes: nodes, flows: Vec::new() };
        for reg_id in reg_ids {
            let mut link = site.front.link(via);
            if let Some(Some(first)) = site.flows.first().filter(|_| via == Via::Wss) {
                link = link.named_as(first.name());
            }
            let mut register = Req::register("bob", &link).with("Supported: path, outbound");
            let contact = register.extra.iter_mut().find(|line| line.starts_with("Contact:")).unwrap();
            contact.push_str(&format!(";+sip.instance=\"<urn:uuid:b>\";reg-id={reg_id}"));
            let answer = link.ask(&register);
            assert_eq!(
                (answer.status(), answer.header("Require")),
                (Some(200), Some("outbound")),
                "{answer:?}"
            );
            site.flows.push(Some(link));
        }
        site
    }

    /// The flow on which bob is called: its number, and the INVITE.
    fn called(&mut self, invite: &Req) -> (usize, Msg) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            for (n, flow) in self.flows.iter_mut().enumerate() {
                let ours = |m: &Msg| m.method() == "INVITE" && m.header("Call-ID") == Some(&invite.call_id);
                let tick = Duration::from_millis(10);
                if let Some(found) = flow.as_mut().and_then(|link| link.find_within(tick, ours)) {
                    return (n, found);
                }
            }
        }
        panic!("bob does not ring")
    }

    fn flow(&mut self, n: usize) -> &mut Link {
        self.flows[n].as_mut().unwrap()
    }

    /// bob answers the INVITE on this flow.
    fn answers(&mut self, ann: &mut Link, invite: &Req, on: usize, received: &Msg) -> (Side, Side) {
        let tag = unique("b");
        let bob = self.flow(on);
        bob.send(&received.reply(200, &tag, &[&format!("Contact: <{};ob>", bob.contact("bob"))]));
        let answer = ann.response(invite);
        assert_eq!(answer.status(), Some(200), "{answer:?}");
        ann.send(&invite.in_dialog("ACK", &answer, ann).bytes());
        bob.request("ACK");
        (Side::of_caller(invite, &answer), Side::of_callee(received, &tag))
    }
}

fn dial(ann: &mut Link) -> Req {
    let invite = Req::invite("sip:bob@example.com", ann).user("ann");
    ann.send(&invite.bytes());
    invite
}

#[test]
fn phone_with_two_flows_is_called_by_the_other_when_one_dies() {
    for via in [Via::Tls, Via::Wss] {
        let mut site = Site::new(via, [1, 2]);
        let mut ann = site.front.link(Via::Udp);
        // The one on which it rings ends before the call is answered.
        let invite = dial(&mut ann);
        let (dead, _) = site.called(&invite);
        site.flows[dead] = None;
        let (other, received) = site.called(&invite);
        let (mut caller, mut callee) = site.answers(&mut ann, &invite, other, &received);
        speaks((&mut ann, &mut caller), (site.flow(other), "bob"));
        hangs_up((site.flow(other), &mut callee), &mut ann);
        // Both nodes and both workers get some of these calls.
        for n in 0..4 {
            let invite = dial(&mut ann);
            let (on, received) = site.called(&invite);
            assert_eq!(on, other);
            let (mut caller, mut callee) = site.answers(&mut ann, &invite, on, &received);
            match n % 2 {
                0 => hangs_up((&mut ann, &mut caller), site.flow(on)),
                _ => hangs_up((site.flow(on), &mut callee), &mut ann),
            }
        }
        site.flows[other] = None;
        let invite = dial(&mut ann);
        // Each node has asked the other one.
        assert_eq!(ann.response(&invite).status(), Some(482), "{via:?}");
    }
}

#[test]
fn phone_ends_its_call_over_the_other_flow_when_one_dies() {
    for (via, reg_ids) in [(Via::Tls, [1, 2]), (Via::Wss, [1, 2]), (Via::Tls, [2, 1])] {
        let mut site = Site::new(via, reg_ids);
        let mut ann = site.front.link(Via::Udp);
        let invite = dial(&mut ann);
        let (dead, received) = site.called(&invite);
        let (_, mut callee) = site.answers(&mut ann, &invite, dead, &received);
        site.flows[dead] = None;
        let bob = site.flow(1 - dead);
        speaks((bob, &mut callee), (&mut ann, "ann"));
        hangs_up((bob, &mut callee), &mut ann);
    }
}

#[test]
fn caller_ends_its_call_when_the_flow_of_the_phone_died() {
    for (via, reg_ids) in [(Via::Tls, [1, 2]), (Via::Wss, [1, 2]), (Via::Tls, [2, 1])] {
        let mut site = Site::new(via, reg_ids);
        let mut ann = site.front.link(Via::Udp);
        let invite = dial(&mut ann);
        let (dead, received) = site.called(&invite);
        let (mut caller, _) = site.answers(&mut ann, &invite, dead, &received);
        site.flows[dead] = None;
        // The ACK of a re-INVITE would not find the phone.
        assert_eq!(ann.status(&caller.request("INVITE", &ann)), 480, "{via:?}");
        hangs_up((&mut ann, &mut caller), site.flow(1 - dead));
    }
}

#[test]
fn call_on_one_flow_goes_on_when_the_other_dies() {
    for via in [Via::Tls, Via::Wss] {
        let mut site = Site::new(via, [1, 2]);
        let mut ann = site.front.link(Via::Udp);
        let invite = dial(&mut ann);
        let (on, received) = site.called(&invite);
        let (mut caller, mut callee) = site.answers(&mut ann, &invite, on, &received);
        site.flows[1 - on] = None;
        speaks((&mut ann, &mut caller), (site.flow(on), "bob"));
        speaks((site.flow(on), &mut callee), (&mut ann, "ann"));
        hangs_up((&mut ann, &mut caller), site.flow(on));
    }
}
