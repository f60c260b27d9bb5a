//! Names and slow, wrong or hostile name service (row 39 of the table of hostile inputs; RFC 3263).
//! The name server is a thread of the test on a loopback address.

use live::{
    Beside, Link, Listener, PATIENCE, Req, Server, Setup, Via, eventually, fresh_ip, fresh_ips, http,
};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the name server answers to a question.
#[derive(Clone, Copy)]
enum Say {
    /// These records: type and data already encoded.
    Records(&'static [Record]),
    /// NXDOMAIN.
    NoSuchName,
    /// SERVFAIL.
    Fail,
    /// Nothing.
    Nothing,
    /// Bytes that loop when decompressed.
    Loop,
}

#[derive(Clone, Copy)]
enum Record {
    A(u8),
    Srv(u16, u16, &'static str),
    Cname(&'static str),
}

fn encode_name(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.').filter(|l| !l.is_empty()) {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

/// The question's name and type.
fn question(packet: &[u8]) -> Option<(String, u16)> {
    let mut at = 12;
    let mut labels = Vec::new();
    loop {
        let n = usize::from(*packet.get(at)?);
        if n == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(packet.get(at + 1..at + 1 + n)?).to_ascii_lowercase());
        at += n + 1;
    }
    let kind = u16::from_be_bytes([*packet.get(at + 1)?, *packet.get(at + 2)?]);
    Some((labels.join("."), kind))
}

fn record(owner: &str, record: &Record, net: Ipv4Addr) -> Vec<u8> {
    let (kind, data) = match record {
        // The test's own addresses: the last octet counts on from the net's.
        Record::A(n) => (1u16, [&net.octets()[..3], &[net.octets()[3].wrapping_add(*n)]].concat()),
        Record::Srv(priority, port, target) => (
            33,
            [&priority.to_be_bytes()[..], &0u16.to_be_bytes(), &port.to_be_bytes(), &encode_name(target)]
                .concat(),
        ),
        Record::Cname(target) => (5, encode_name(target)),
    };
    let mut out = encode_name(owner);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&1u16.to_be_bytes());
    out.extend_from_slice(&0u32.to_be_bytes());
    out.extend_from_slice(&(data.len() as u16).to_be_bytes());
    out.extend(data);
    out
}

fn reply(packet: &[u8], name: &str, say: Say, net: Ipv4Addr) -> Option<Vec<u8>> {
    let end = 12 + encode_name(name).len() + 4;
    let (code, records): (u8, &[Record]) = match say {
        Say::Nothing => return None,
        Say::NoSuchName => (3, &[]),
        Say::Fail => (2, &[]),
        Say::Records(records) => (0, records),
        Say::Loop => {
            let mut out = packet[..end.min(packet.len())].to_vec();
            out[2] = 0x84;
            out[3] = 0;
            out[7] = 1;
            // A pointer to itself, then the rest of a record.
            let here = out.len() as u16;
            out.extend_from_slice(&(0xc000 | here).to_be_bytes());
            out.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
            return Some(out);
        }
    };
    let mut out = packet[..end.min(packet.len())].to_vec();
    out[2] = 0x84;
    out[3] = code;
    out[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    out[8..12].fill(0);
    out.extend(records.iter().flat_map(|r| record(name, r, net)));
    Some(out)
}

/// A name server for `*.test` that answers by name and type; ends with the test process.
fn name_server(net: Ipv4Addr, zone: fn(&str, u16) -> Say) -> SocketAddr {
    let socket = UdpSocket::bind((fresh_ip(), 5353)).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut packet = [0; 2048];
        while let Ok((n, from)) = socket.recv_from(&mut packet) {
            let Some((name, kind)) = question(&packet[..n]) else { continue };
            if let Some(out) = reply(&packet[..n], &name, zone(&name, kind), net) {
                let _ = socket.send_to(&out, from);
            }
        }
    });
    address
}

/// A server that asks this name server and has trunks to its names.
fn server(dns: SocketAddr) -> Server {
    let trunk = |name: &str| {
        format!("[[trunk]]\nname = \"{name}\"\ntargets = [\"sip:{name}.test\"]\nprefixes = [\"{name}\"]\n")
    };
    let names = ["srv", "plain", "gone", "fail", "slow", "loop", "cname", "many"];
    let config = format!(
        "[timers]\nt1 = \"50ms\"\nt2 = \"200ms\"\n[dns]\nservers = [\"{dns}\"]\ntimeout = \"1s\"\n{}",
        names.map(trunk).concat()
    );
    Setup::open().config(&config).start()
}

fn zone(name: &str, kind: u16) -> Say {
    match (name, kind) {
        ("_sip._udp.srv.test", 33) => {
            Say::Records(&[Record::Srv(1, 5060, "a.test"), Record::Srv(2, 5060, "b.test")])
        }
        ("a.test", 1) => Say::Records(&[Record::A(0)]),
        ("b.test", 1) => Say::Records(&[Record::A(1)]),
        ("plain.test", 1) => Say::Records(&[Record::A(1)]),
        ("gone.test" | "_sip._udp.gone.test" | "_sip._tcp.gone.test", _) => Say::NoSuchName,
        ("fail.test" | "_sip._udp.fail.test" | "_sip._tcp.fail.test", _) => Say::Fail,
        ("slow.test" | "_sip._udp.slow.test" | "_sip._tcp.slow.test", _) => Say::Nothing,
        ("loop.test" | "_sip._udp.loop.test" | "_sip._tcp.loop.test", _) => Say::Loop,
        ("cname.test", _) => Say::Records(&[Record::Cname("cname2.test")]),
        ("cname2.test", _) => Say::Records(&[Record::Cname("cname.test")]),
        _ => Say::Records(&[]),
    }
}

/// Two carriers on neighbouring addresses, and a net for the name server's A records.
fn carriers() -> (Listener, Listener, Ipv4Addr) {
    let [a, b] = fresh_ips();
    let nowhere = (a, 1).into();
    (Listener::open_at((a, 5060).into(), nowhere), Listener::open_at((b, 5060).into(), nowhere), a)
}

fn call(link: &mut Link, user: &str) -> Req {
    let req = Req::new("MESSAGE", &format!("sip:{user}@example.com"), link);
    link.send(&req.bytes());
    req
}

#[test]
fn srv_order_and_failover() {
    let (mut a, mut b, net) = carriers();
    let server = server(name_server(net, zone));
    for listener in [&mut a, &mut b] {
        listener.udp.set_server(server.sip());
    }
    let mut caller = server.link(Via::Udp);
    let req = call(&mut caller, "srv1");
    let (message, link) = a.request_within(PATIENCE).expect("the lowest priority value first");
    link.send(&message.reply(503, "x", &[]));
    let (message, link) = b.request_within(PATIENCE).expect("RFC 3263 section 4.3: the next on 503");
    link.send(&message.reply(200, "y", &[]));
    assert_eq!(caller.response(&req).status(), Some(200));
    let req = call(&mut caller, "plain1");
    let (message, link) = b.request_within(PATIENCE).expect("an A record alone");
    link.send(&message.reply(200, "z", &[]));
    assert_eq!(caller.response(&req).status(), Some(200));
}

/// Its calls wait in the socket while it starts, and are the first that it reads.
#[test]
fn call_during_a_restart_reaches_a_trunk_by_name() {
    let (mut a, _b, net) = carriers();
    let mut server = server(name_server(net, zone));
    a.udp.set_server(server.sip());
    let (mut caller, calls) = (server.link(Via::Udp), AtomicBool::new(true));
    let req = Req::new("MESSAGE", "sip:srv1@example.com", &caller);
    server.kill();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while calls.load(Ordering::Relaxed) {
                caller.send(&req.bytes());
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        server.restart();
        calls.store(false, Ordering::Relaxed);
    });
    // A question that was lost would be asked again after 30 s.
    let (message, link) = a.request_within(PATIENCE).expect("its name is looked up at once");
    link.send(&message.reply(200, "x", &[]));
    assert_eq!(caller.response(&req).status(), Some(200));
}

#[test]
fn row_39_bad_name_service_fails_the_call_and_nothing_else() {
    let (_a, _b, net) = carriers();
    let server = server(name_server(net, zone));
    for name in ["gone1", "fail1", "slow1", "loop1", "cname1"] {
        let mut caller = server.link(Via::Udp);
        let req = Req::invite(&format!("sip:{name}@example.com"), &caller);
        caller.send(&req.bytes());
        // Others are served while the question is open.
        server.assert_alive(name);
        let status = caller.response(&req).status().unwrap();
        assert!(matches!(status, 404 | 408 | 480 | 500 | 502 | 503 | 504), "{name}: {status}");
    }
    assert!(server.log_has("name_unresolved: no request can be sent to a host name: the DNS "));
}

#[test]
fn row_39_many_open_questions_stop_nobody() {
    let (_a, _b, net) = carriers();
    let server = server(name_server(net, zone));
    let mut flood = server.link(Via::Udp);
    for i in 0..2000 {
        call(&mut flood, &format!("slow{i}"));
    }
    server.assert_alive("2,000 calls to a name nobody answers for");
    let mut bob = server.link(Via::Udp);
    bob.register("bob");
    let mut caller = server.link(Via::Udp);
    let req = call(&mut caller, "bob");
    let message = bob.find_within(Duration::from_secs(10), |m| m.method() == "MESSAGE").expect("forwarded");
    bob.send(&message.reply(200, "b", &[]));
    assert_eq!(caller.response(&req).status(), Some(200));
}

/// Whether the cluster has another server by now, and whether the name server answers at all.
static MOVED: AtomicBool = AtomicBool::new(false);
static DEAF: AtomicBool = AtomicBool::new(false);

fn cluster_zone(name: &str, kind: u16) -> Say {
    if DEAF.load(Ordering::Relaxed) {
        return Say::Fail;
    }
    match (name, kind) {
        ("_sip._udp.cluster.test", 33) if MOVED.load(Ordering::Relaxed) => {
            Say::Records(&[Record::Srv(1, 5060, "b.test")])
        }
        ("_sip._udp.cluster.test", 33) => {
            Say::Records(&[Record::Srv(1, 5060, "a.test"), Record::Srv(2, 5060, "b.test")])
        }
        ("a.test", 1) => Say::Records(&[Record::A(0)]),
        ("b.test", 1) => Say::Records(&[Record::A(1)]),
        _ => Say::Records(&[]),
    }
}

/// A balancer in front of a name.
struct Balancer {
    _beside: Beside,
    dir: PathBuf,
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Balancer {
    fn start(ip: Ipv4Addr, dns: SocketAddr) -> Balancer {
        let dir = std::env::temp_dir().join(format!("strowger-names-{}-{ip}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let config = dir.join("balance.toml");
        let text = format!(
            "listen = [\"udp:{ip}:5060\"]\ndata_dir = \"{}\"\n[admin]\nlisten = \"{ip}:8080\"\n\
             [dns]\nservers = [\"{dns}\"]\ntimeout = \"1s\"\n[balance]\nnodes = [\"sip:cluster.test\"]\n\
             probe_interval = 0\n",
            dir.display()
        );
        std::fs::write(&config, text).unwrap();
        let config = config.display().to_string();
        Balancer { _beside: Beside::start(&["balance", "--config", &config]), dir }
    }
}

/// Nodes of a balancer by SRV: their priorities, one that goes, and a name server that fails.
#[test]
fn the_nodes_of_a_balancer_follow_the_dns() {
    let (mut a, mut b, net) = carriers();
    let ip = fresh_ip();
    let balancer = Balancer::start(ip, name_server(net, cluster_zone));
    let sip = SocketAddr::from((ip, 5060));
    for listener in [&mut a, &mut b] {
        listener.udp.set_server(sip);
    }
    let mut caller = Link::open(Via::Udp, sip);
    let mut sent_to = |listener: &mut Listener, user: &str| {
        let req = call(&mut caller, user);
        let (message, link) = listener.request_within(PATIENCE).expect("its node");
        link.send(&message.reply(200, "x", &[]));
        assert_eq!(caller.response(&req).status(), Some(200));
    };
    (0..4).for_each(|n| sent_to(&mut a, &format!("first{n}")));
    MOVED.store(true, Ordering::Relaxed);
    let nodes = || http((ip, 8080).into(), "GET", "/v1/nodes").body;
    eventually("the first node is gone", || nodes().contains("removed").then_some(()));
    (0..4).for_each(|n| sent_to(&mut b, &format!("moved{n}")));
    DEAF.store(true, Ordering::Relaxed);
    let status = || http((ip, 8080).into(), "GET", "/v1/status").body;
    eventually("somebody is told", || status().contains("stay as they are").then_some(()));
    (0..4).for_each(|n| sent_to(&mut b, &format!("deaf{n}")));
    drop(balancer);
}
