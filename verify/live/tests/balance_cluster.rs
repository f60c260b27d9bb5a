//! Two balancers with one secret and one name: what began at one goes on at the other.

use live::{Beside, Link, Msg, PATIENCE, Req, Setup, Via, eventually, fresh_ip};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use std::time::Duration;

/// A running balancer that calls itself `balance.test`.
struct Balancer {
    beside: Beside,
    ip: Ipv4Addr,
    dir: PathBuf,
}

impl Balancer {
    /// In front of these nodes; with the secret of another one, or its own.
    fn start(nodes: &[SocketAddr], of: Option<&Balancer>) -> Balancer {
        let ip = fresh_ip();
        let dir = std::env::temp_dir().join(format!("strowger-cluster-{}-{ip}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        if let Some(other) = of {
            std::fs::copy(other.secret(), dir.join("secret")).expect("its secret");
        }
        let config = dir.join("strowger.toml");
        std::fs::write(&config, "advertise = \"balance.test\"\n").expect("a file");
        let (udp, admin) = (format!("udp:{ip}:5060"), format!("{ip}:8080"));
        let [config, data] = [&config, &dir].map(|path| path.display().to_string());
        let nodes: Vec<String> = nodes.iter().map(|node| format!("sip:{node}")).collect();
        let mut args = vec!["balance", "--workers", "2", "--listen", &udp, "--admin", &admin];
        args.extend(["--algorithm", "round-robin", "--config", &config, "--data-dir", &data]);
        args.extend(nodes.iter().flat_map(|node| ["--node", node]));
        Balancer { beside: Beside::start(&args), ip, dir }
    }

    fn secret(&self) -> PathBuf {
        Path::new(&self.dir).join("secret")
    }

    fn sip(&self) -> SocketAddr {
        (self.ip, 5060).into()
    }

    fn kill(&mut self) {
        self.beside.kill();
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Answers where the topmost Via says.
fn reply(bob: &mut Link, request: &Msg, bytes: &[u8]) {
    let via = request.header("Via").and_then(|via| via.split([' ', ';']).nth(1)).expect("a Via");
    bob.set_server(via.parse().expect("an address and port"));
    bob.send(bytes);
}

#[test]
fn a_call_goes_on_at_the_other_balancer() {
    let mut bob = Link::udp_at((fresh_ip(), 5060).into(), (fresh_ip(), 5060).into());
    let servers = [(); 2].map(|()| {
        let server = Setup::open().start();
        bob.set_server(server.sip());
        bob.register("bob");
        server
    });
    let nodes = [servers[0].sip(), servers[1].sip()];
    let mut first = Balancer::start(&nodes, None);
    let second = Balancer::start(&nodes, Some(&first));
    let stranger = Balancer::start(&nodes, None);
    let mut caller = Link::open(Via::Udp, first.sip());
    let invite = Req::invite("sip:bob@example.com", &caller);
    let received = eventually("bob rings", || {
        caller.send(&invite.bytes());
        bob.find_within(Duration::from_millis(500), |m| m.method() == "INVITE")
    });
    // It is the name that stands in the route; the answer finds its way by the address that the INVITE came
    // from.
    let route = received.all("Record-Route").join(",");
    assert!(route.contains("sip:balance.test;lr;d="), "{route}");
    let contact = format!("Contact: <sip:bob@{}>", bob.local());
    reply(&mut bob, &received, &received.reply(200, "b", &[&contact]));
    let answer = caller.response(&invite);
    assert_eq!(answer.status(), Some(200), "{answer:?}");
    first.kill();
    // Whoever has another secret refuses what it cannot have sealed.
    let bye = invite.in_dialog("BYE", &answer, &caller);
    caller.set_server(stranger.sip());
    caller.send(&bye.bytes());
    assert_eq!(caller.response(&bye).status(), Some(403));
    caller.set_server(second.sip());
    caller.send(&invite.in_dialog("ACK", &answer, &caller).bytes());
    bob.find_within(PATIENCE, |m| m.method() == "ACK").expect("the ACK");
    let bye = invite.in_dialog("BYE", &answer, &caller);
    caller.send(&bye.bytes());
    let received = bob.find_within(PATIENCE, |m| m.method() == "BYE").expect("the BYE");
    reply(&mut bob, &received, &received.reply(200, "", &[]));
    assert_eq!(caller.response(&bye).status(), Some(200));
}

/// Between the two RFC 7339 is spoken where the node knows who is in front of it, and not otherwise.
#[test]
fn a_server_tells_the_balancer_in_front_of_it_how_it_is() {
    for (fronts, speaks) in [("[auth]\nfronts = [\"127.0.0.0/8\"]\n", true), ("", false)] {
        let server = Setup::open().config(fronts).start();
        let mut bob = server.link(Via::Udp);
        bob.register("bob");
        let balancer = Balancer::start(&[server.sip()], None);
        let mut caller = Link::open(Via::Udp, balancer.sip());
        let mut rings = || {
            let invite = Req::invite("sip:bob@example.com", &caller);
            caller.send(&invite.bytes());
            let received = bob.find_within(Duration::from_millis(500), |m| m.method() == "INVITE")?;
            bob.send(&received.reply(486, "b", &[]));
            Some(received.all("Via").join(","))
        };
        // The first probe has an answer some time after the start.
        let offered = |vias: &String| vias.contains(";oc;oc-algo=\"loss\"");
        match speaks {
            true => drop(eventually("it is offered", || rings().filter(offered))),
            false => {
                let admin = format!("{}:8080", balancer.ip);
                eventually("a probe is answered", || {
                    let out = live::run(["ctl", "nodes", "--admin", &admin]);
                    String::from_utf8_lossy(&out.stdout).contains(" up ").then_some(())
                });
                let all: Vec<String> = (0..20).filter_map(|_| rings()).collect();
                assert!(all.len() == 20 && !all.iter().any(offered), "{all:?}");
            }
        }
    }
}
