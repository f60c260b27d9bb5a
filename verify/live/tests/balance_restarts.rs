//! Calls through `strowger balance` that is killed and started again, in front of a node that it reaches over
//! streams.

use live::{
    Authority, Front, Link, PATIENCE, Req, Server, Setup, Side, Via, fresh_ip, hangs_up, speaks, unique,
};
use std::net::Ipv4Addr;

/// A node with a phone of its own, behind a balancer that reaches it over this transport.
struct Site {
    front: Front,
    node: Server,
    bob: Link,
    ann: Link,
}

impl Site {
    fn new(transport: Via) -> Site {
        let (authority, ip) = (Authority::new(), fresh_ip());
        let node = node(&authority, ip, transport);
        let uri = match transport {
            Via::Tls => format!("sip:{}:5061;transport=tls;verify=node.example", node.ip()),
            _ => format!("sip:{};transport=tcp", node.sip()),
        };
        let mut bob = Link::udp_at((fresh_ip(), 5060).into(), node.sip());
        bob.register("bob");
        // No probe opens a connection between the messages.
        let front = Front::start(authority, ip, "2", &[uri], "probe_interval = \"1h\"\n");
        let ann = front.link(Via::Udp);
        Site { front, node, bob, ann }
    }

    /// A call of ann to bob that is up: the sides of both.
    fn call(&mut self) -> (Side, Side) {
        let (invite, tag) = (Req::invite("sip:bob@example.com", &self.ann).user("ann"), unique("b"));
        self.ann.send(&invite.bytes());
        let received = self.bob.find_within(PATIENCE, |m| {
            m.method() == "INVITE" && m.header("Call-ID") == Some(&invite.call_id)
        });
        let received = received.expect("bob rings");
        self.bob.send(&received.reply(200, &tag, &[&format!("Contact: <{}>", self.bob.contact("bob"))]));
        let answer = self.ann.response(&invite);
        assert_eq!(answer.status(), Some(200), "{answer:?}");
        self.ann.send(&invite.in_dialog("ACK", &answer, &self.ann).bytes());
        self.bob.request("ACK");
        (Side::of_caller(&invite, &answer), Side::of_callee(&received, &tag))
    }
}

fn node(authority: &Authority, front: Ipv4Addr, transport: Via) -> Server {
    authority.issue("node", &["node.example"]);
    let config = format!("aliases = [\"{front}\"]\n[auth]\nfronts = [\"{front}\"]\n");
    match transport {
        Via::Tls => Setup::open().tls().config(&(config + &authority.section("node"))).start(),
        _ => Setup::open().config(&config).start(),
    }
}

#[test]
fn either_end_hangs_up_after_a_restart_of_the_balancer() {
    for transport in [Via::Tcp, Via::Tls] {
        let mut site = Site::new(transport);
        let (mut caller, _) = site.call();
        let (_, mut callee) = site.call();
        site.front.restart();
        // The first request goes from the node to the balancer, which has no connection yet.
        hangs_up((&mut site.bob, &mut callee), &mut site.ann);
        hangs_up((&mut site.ann, &mut caller), &mut site.bob);
        assert_eq!(site.node.metric("strowger_tls_unproven_total"), 0);
    }
}

#[test]
fn callee_changes_its_call_after_a_restart_of_the_balancer() {
    for transport in [Via::Tcp, Via::Tls] {
        let mut site = Site::new(transport);
        let (mut caller, mut callee) = site.call();
        site.front.restart();
        speaks((&mut site.bob, &mut callee), (&mut site.ann, "ann"));
        speaks((&mut site.ann, &mut caller), (&mut site.bob, "bob"));
        hangs_up((&mut site.bob, &mut callee), &mut site.ann);
    }
}
