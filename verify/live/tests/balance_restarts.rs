//! Calls through `strowger balance` that is killed and started again, in front of a node that it reaches over
//! streams.

use live::{
    Authority, Credentials, Front, Link, PATIENCE, Req, Server, Setup, Side, Via, fresh_ip, hangs_up, speaks,
    unique,
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
        Site::of(transport, false)
    }

    /// `auth`: its users have credentials.
    fn of(transport: Via, auth: bool) -> Site {
        let (authority, ip) = (Authority::new(), fresh_ip());
        let node = node(&authority, ip, transport, auth);
        let uri = match transport {
            Via::Tls => format!("sip:{}:5061;transport=tls;verify=node.example", node.ip()),
            _ => format!("sip:{};transport=tcp", node.sip()),
        };
        let mut bob = Link::udp_at((fresh_ip(), 5060).into(), node.sip());
        register(&mut bob, "bob");
        // No probe opens a connection between the messages.
        let keys = "probe_interval = \"1h\"\npath = \"always\"\n";
        let front = Front::start(authority, ip, "2", &[uri], keys);
        let mut ann = front.link(Via::Udp);
        if auth {
            register(&mut ann, "ann");
        }
        Site { front, node, bob, ann }
    }

    /// A call of ann to bob that is up: the sides of both.
    fn call(&mut self) -> (Side, Side) {
        let (mut invite, tag) = (Req::invite("sip:bob@example.com", &self.ann).user("ann"), unique("b"));
        self.ann.send(&invite.bytes());
        let first = self.ann.find_within(PATIENCE, |m| m.answers(&invite)).expect("an answer");
        if first.status() == Some(407) {
            self.ann.send(&invite.ack(&first).bytes());
            let line = live::answer(&first, &who("ann"), &invite.method, &invite.uri);
            invite = invite.again(&self.ann, &line);
            self.ann.send(&invite.bytes());
        }
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

fn who(user: &'static str) -> Credentials<'static> {
    Credentials::new(user, "secret")
}

/// Registers a user, with credentials if they are asked for.
fn register(link: &mut Link, user: &'static str) {
    let req = Req::register(user, link).with("Supported: path");
    let answer = link.ask_as(&req, &who(user));
    assert_eq!(answer.status(), Some(200), "{user}: {}", answer.start);
}

fn node(authority: &Authority, front: Ipv4Addr, transport: Via, auth: bool) -> Server {
    authority.issue("node", &["node.example"]);
    let config = format!("aliases = [\"{front}\"]\n[auth]\nfronts = [\"{front}\"]\n");
    let setup = match auth {
        true => Setup::new().user("ann", "secret").user("bob", "secret"),
        false => Setup::open(),
    };
    match transport {
        Via::Tls => setup.tls().config(&(config + &authority.section("node"))).start(),
        _ => setup.config(&config).start(),
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

/// A phone with credentials, registered through the balancer: its Path leads to the same port.
#[test]
fn callee_reaches_a_caller_with_credentials_after_a_restart() {
    for transport in [Via::Tcp, Via::Tls] {
        println!("{transport:?}");
        let mut site = Site::of(transport, true);
        let (_, mut callee) = site.call();
        site.front.restart();
        speaks((&mut site.bob, &mut callee), (&mut site.ann, "ann"));
        site.front.restart();
        hangs_up((&mut site.bob, &mut callee), &mut site.ann);
    }
}

/// The connection is a new one, so the port is not that of the sealed Record-Route: the user is challenged
/// (docs/reference/configuration.md, `auth.in_dialog`), and the answer is taken.
#[test]
fn caller_proves_itself_in_a_call_after_a_restart() {
    for transport in [Via::Tcp, Via::Tls] {
        println!("{transport:?}");
        let mut site = Site::of(transport, true);
        let (mut caller, _) = site.call();
        site.front.restart();
        let first = caller.request("INVITE", &site.ann);
        site.ann.send(&first.bytes());
        let challenge = site.ann.response(&first);
        assert_eq!(challenge.status(), Some(407), "{}", challenge.start);
        site.ann.send(&first.ack(&challenge).bytes());
        let line = live::answer(&challenge, &who("ann"), &first.method, &first.uri);
        let invite = first.again(&site.ann, &line);
        site.ann.send(&invite.bytes());
        let received = site.bob.request("INVITE");
        site.bob.send(&received.reply(200, "", &[&format!("Contact: <{}>", site.bob.contact("bob"))]));
        assert_eq!(site.ann.response(&invite).status(), Some(200), "{transport:?}");
    }
}
