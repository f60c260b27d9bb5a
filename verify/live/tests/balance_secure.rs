//! The load balancer over TLS and WebSocket: phones on connections of their own, nodes that prove names, and
//! certificates.

use live::{Authority, Front, Link, Msg, PATIENCE, Req, Server, Setup, Via, eventually, fresh_ip, run};
use std::net::Ipv4Addr;

/// A node behind this balancer, over TLS with a certificate of this name. It wants one of the balancer.
fn node(authority: &Authority, front: Ipv4Addr, name: &str) -> Server {
    authority.issue(name, &[name]);
    let config = format!(
        "aliases = [\"{front}\"]\n[auth]\nfronts = [\"{front}\"]\n{}client_certificates = \"required\"\n",
        authority.section(name)
    );
    Setup::open().tls().config(&config).start()
}

/// Answers a request. One that came in a datagram is answered to its sender, of which there may be several.
fn reply(link: &mut Link, request: &Msg, extra: &[&str]) {
    let via = request.header("Via").unwrap();
    let sender = via.split([' ', ';']).nth(1).and_then(|sent_by| sent_by.parse().ok());
    if let Some(sender) = sender.filter(|_| link.via() == Via::Udp) {
        link.set_server(sender);
    }
    link.send(&request.reply(200, "far", extra));
}

/// A call that is up: its INVITE at both ends, and the answer.
fn call(caller: &mut Link, callee: &mut Link, user: &str) -> (Req, Msg, Msg) {
    let invite = Req::invite(&format!("sip:{user}@example.com"), caller);
    caller.send(&invite.bytes());
    let received = callee
        .find_within(PATIENCE, |m| m.method() == "INVITE" && m.header("Call-ID") == Some(&invite.call_id))
        .unwrap_or_else(|| panic!("{user} does not ring"));
    let contact = format!("Contact: <{}>", callee.contact(user));
    reply(callee, &received, &[&contact]);
    let answer = caller.response(&invite);
    assert_eq!(answer.status(), Some(200), "{answer:?}");
    caller.send(&invite.in_dialog("ACK", &answer, caller).bytes());
    callee.request("ACK");
    (invite, received, answer)
}

/// The caller hangs up.
fn hang_up(caller: &mut Link, callee: &mut Link, (invite, _, answer): &(Req, Msg, Msg)) {
    let bye = invite.in_dialog("BYE", answer, caller);
    caller.send(&bye.bytes());
    let received = callee.request("BYE");
    reply(callee, &received, &[]);
    assert_eq!(caller.response(&bye).status(), Some(200));
}

/// The callee hangs up.
fn hung_up(caller: &mut Link, callee: &mut Link, (invite, received, answer): &(Req, Msg, Msg)) {
    let contact = received.header("Contact").unwrap();
    let target = contact.split_once('<').and_then(|(_, rest)| rest.split_once('>')).unwrap().0;
    let mut bye = Req::new("BYE", target, callee);
    (bye.from, bye.to) = (answer.header("To").unwrap().into(), invite.from.clone());
    bye.call_id.clone_from(&invite.call_id);
    bye.extra = received.all("Record-Route").iter().map(|route| format!("Route: {route}")).collect();
    callee.send(&bye.bytes());
    let received = caller.request("BYE");
    reply(caller, &received, &[]);
    assert_eq!(callee.response(&bye).status(), Some(200));
}

const PHONES: [(Via, &str); 5] =
    [(Via::Tls, "tls"), (Via::Wss, "wss"), (Via::Ws, "ws"), (Via::Tcp, "tcp"), (Via::Udp, "udp")];

/// Every phone calls the next one and the one after that, and both ends hang up.
fn all_call(front: &Front) {
    let mut phones = PHONES.map(|(via, _)| front.link(via));
    for (phone, (via, user)) in phones.iter_mut().zip(PHONES) {
        let answer = phone.ask(&Req::register(user, phone).with("Supported: path"));
        assert_eq!(answer.status(), Some(200), "{via:?}: {answer:?}");
        assert!(answer.header("Path").is_some_and(|path| path.contains(";d=p")), "{via:?}: {answer:?}");
    }
    for (from, step) in (0..PHONES.len()).flat_map(|from| [(from, 1), (from, 2)]) {
        let to = (from + step) % PHONES.len();
        let [caller, callee] = phones.get_disjoint_mut([from, to]).unwrap();
        let up = call(caller, callee, PHONES[to].1);
        match step {
            1 => hang_up(caller, callee, &up),
            _ => hung_up(caller, callee, &up),
        }
    }
    assert_eq!(front.metric("strowger_tls_unproven_total"), 0);
    let alive = "strowger_balance_records{kind=\"alive\"}";
    eventually("no call is left", || (front.metric(alive) == 0).then_some(()));
    front.ctl(&["audit"]);
}

#[test]
fn phones_on_all_connections_call_each_other() {
    let (authority, ip) = (Authority::new(), fresh_ip());
    let config = format!("aliases = [\"{ip}\"]\n[auth]\nfronts = [\"{ip}\"]\n");
    let server = Setup::open().config(&config).workers(2).start();
    let front = Front::start(authority, ip, "2", &[format!("sip:{}", server.sip())], "path = \"always\"\n");
    all_call(&front);
    let shown = front.ctl(&["connections", "--transport", "tls"]);
    assert!(shown.lines().any(|line| line.starts_with("tls ") && line.contains(" 1.3 ")), "{shown}");
}

#[test]
fn phones_on_all_connections_call_by_a_node_over_tls() {
    let (authority, ip) = (Authority::new(), fresh_ip());
    let server = node(&authority, ip, "node.example");
    let nodes = [format!("sip:{}:5061;transport=tls;verify=node.example", server.ip())];
    let front = Front::start(authority, ip, "2", &nodes, "path = \"always\"\n");
    all_call(&front);
    assert_eq!(server.metric("strowger_udp_in_total"), 0, "all of it over TLS");
}

#[test]
fn death_of_a_node_over_tls_loses_no_call() {
    let (authority, ip) = (Authority::new(), fresh_ip());
    let mut servers = ["one.example", "two.example"].map(|name| node(&authority, ip, name));
    let mut bob = Link::udp_at((fresh_ip(), 5060).into(), servers[0].sip());
    for server in &servers {
        bob.set_server(server.sip());
        bob.register("bob");
    }
    let uri = |server: &Server, name| format!("sip:{}:5061;transport=tls;verify={name}.example", server.ip());
    let nodes = [uri(&servers[0], "one"), uri(&servers[1], "two")];
    // No probe says that a node is gone: the connections do.
    let front =
        Front::start(authority, ip, "1", &nodes, "algorithm = \"round-robin\"\nprobe_interval = \"1h\"\n");
    let mut caller = front.link(Via::Tls);
    let ups: Vec<_> = (0..4).map(|_| call(&mut caller, &mut bob, "bob")).collect();
    servers[0].kill();
    for _ in 0..4 {
        let up = call(&mut caller, &mut bob, "bob");
        hang_up(&mut caller, &mut bob, &up);
    }
    assert!(front.metric("strowger_balance_events_total{event=\"retried\"}") >= 1);
    let alive = ups.iter().filter(|(_, received, _)| received.has(&format!("{}:", servers[1].ip())));
    let alive: Vec<_> = alive.collect();
    assert_eq!(alive.len(), 2, "each had two");
    alive.into_iter().for_each(|up| hang_up(&mut caller, &mut bob, up));
}

/// The connections are gone, and what is in Record-Route tells the node where the balancer is and which name
/// it has to prove.
#[test]
fn node_over_tls_finds_a_restarted_balancer() {
    let (authority, ip) = (Authority::new(), fresh_ip());
    let server = node(&authority, ip, "node.example");
    let mut bob = Link::udp_at((fresh_ip(), 5060).into(), server.sip());
    bob.register("bob");
    let nodes = [format!("sip:{}:5061;transport=tls;verify=node.example", server.ip())];
    let mut front = Front::start(authority, ip, "2", &nodes, "probe_interval = \"1h\"\n");
    let mut caller = front.link(Via::Udp);
    let [first, second] = [(); 2].map(|()| call(&mut caller, &mut bob, "bob"));
    front.restart();
    hung_up(&mut caller, &mut bob, &first);
    hang_up(&mut caller, &mut bob, &second);
    assert_eq!(server.metric("strowger_tls_unproven_total"), 0);
}

/// The phone has not registered since, and the connection of its REGISTER to the node is gone.
#[test]
fn node_calls_a_phone_by_a_restarted_balancer() {
    for transport in ["tls;verify=node.example", "tcp"] {
        let (authority, ip) = (Authority::new(), fresh_ip());
        let server = node(&authority, ip, "node.example");
        let port = if transport == "tcp" { 5060 } else { 5061 };
        let nodes = [format!("sip:{}:{port};transport={transport}", server.ip())];
        let mut front = Front::start(authority, ip, "2", &nodes, "path = \"always\"\n");
        let mut bob = front.link(Via::Udp);
        bob.register("bob");
        front.restart();
        let mut caller = front.link(Via::Tls);
        let up = call(&mut caller, &mut bob, "bob");
        hung_up(&mut caller, &mut bob, &up);
    }
}

#[test]
fn node_that_takes_no_connection_is_not_said_to_fail_in_tls() {
    let nodes = [format!("sip:{}:5061;transport=tls;verify=node.example", fresh_ip())];
    let front = Front::start(Authority::new(), fresh_ip(), "1", &nodes, "probe_interval = \"100ms\"\n");
    eventually("it is down", || front.ctl(&["nodes"]).contains(" down ").then_some(()));
    let shown = front.ctl(&["nodes"]);
    assert!(shown.contains("cannot connect: Connection refused") && !shown.contains("TLS"), "{shown}");
}

#[test]
fn node_that_does_not_prove_its_name_is_down() {
    let (authority, ip) = (Authority::new(), fresh_ip());
    let server = node(&authority, ip, "other.example");
    let nodes = [format!("sip:{}:5061;transport=tls;verify=node.example", server.ip())];
    let front = Front::start(authority, ip, "1", &nodes, "probe_interval = \"100ms\"\n");
    eventually("it is down", || front.ctl(&["nodes"]).contains(" down ").then_some(()));
    let why = "TLS failed: the certificate is of other.example, not of node.example";
    assert!(front.ctl(&["nodes"]).contains(why), "{}", front.ctl(&["nodes"]));
    assert!(front.ctl(&["status"]).contains(why), "{}", front.ctl(&["status"]));
    let mut caller = front.link(Via::Wss);
    assert_eq!(caller.status(&Req::invite("sip:bob@example.com", &caller)), 503);
    assert!(front.metric("strowger_tls_unproven_total") >= 1);
    assert_eq!(server.metric("strowger_tcp_messages_in_total"), 0);
    // The operator says what its name is.
    let file = front.authority().folder().join("front.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config.replace("verify=node.example", "verify=other.example")).unwrap();
    front.ctl(&["reload"]);
    eventually("it is up", || front.ctl(&["nodes"]).contains(" up ").then_some(()));
    assert_eq!(caller.status(&Req::invite("sip:bob@example.com", &caller)), 404);
}

#[test]
fn check_finds_nodes_that_no_listener_reaches() {
    let file = std::env::temp_dir().join(format!("strowger-nodes-{}.toml", std::process::id()));
    let check = |listen: &str, nodes: &str| {
        let config = format!("listen = [{listen}]\n[balance]\nnodes = [\n  {nodes}\n]\n");
        std::fs::write(&file, config).unwrap();
        let out = run(["check", file.to_str().unwrap()]);
        (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let udp = "'udp:127.0.0.1:5060'";
    let (good, said) = check(udp, "'sip:127.0.0.2',\n  'sip:127.0.0.3;transport=tls'");
    let expected =
        ".toml:5:3: node 127.0.0.3:5061 cannot be reached: there is no IPv4 listener over tls; add one";
    assert!(!good && said.contains(expected) && said.contains("1 error in "), "{said}");
    for (node, expected) in [
        ("'sip:[::1]'", "4:3: node [::1]:5060 cannot be reached: there is no IPv6 listener; add one"),
        ("'sip:127.0.0.1'", "4:3: node 127.0.0.1:5060 is this balancer itself"),
    ] {
        let (good, said) = check(udp, node);
        assert!(!good && said.contains(expected), "{said}");
    }
    // The balancer starts with such a name, and looks it up in vain.
    let (good, said) = check(udp, "'sip:app.example.com;transport=tcp'");
    let expected = "4:3: node app.example.com cannot be reached: there is no listener over tcp; add one";
    assert!(good && said.contains("warning: ") && said.contains(expected), "{said}");
    let both = format!("{udp}, 'tcp:0.0.0.0:5060'");
    let (good, said) = check(&both, "'sip:127.0.0.2;transport=tcp', 'sip:app.example.com;transport=tcp'");
    assert!(good && said.is_empty(), "{said}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn renewed_certificate_of_a_balancer_is_shown() {
    let (authority, ip) = (Authority::new(), fresh_ip());
    let front = Front::start(authority, ip, "1", &[format!("sip:{}:5060", fresh_ip())], "");
    assert!(front.ctl(&["certificates"]).contains("example.com"));
    let serves = |name: &str| front.ctl(&["certificates", "--output", "json"]).contains(name);
    front.authority().issue("front", &["example.com", "renewed.example"]);
    eventually("the new one", || serves("renewed.example").then_some(()));
    front.link(Via::Tls);
    // Before its listeners are opened, one without a certificate is told by name.
    let bare = run(["balance", "--listen", "tls:127.0.0.1:5061", "--node", "sip:127.0.0.2"]);
    let said = String::from_utf8_lossy(&bare.stderr).into_owned();
    let lacks = "--listen: the listener \"tls:127.0.0.1:5061\" has no certificate to show; ";
    assert!(said.contains(lacks) && said.contains("[tls]") && said.contains("--tls-cert"), "{said}");
}
