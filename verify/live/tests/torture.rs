//! The torture messages of RFC 4475 and RFC 5118, sent as they are over UDP and TCP. What must
//! happen to each stands in `torture/manifest.txt`. Every message meets a server of its own, because
//! the RFC uses the same branch in several messages, which makes them retransmissions of each other.

use live::{Link, Listener, Msg, Req, Server, Setup, Via, fresh_ip};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

/// One line of the manifest.
struct Case {
    file: String,
    aor: String,
    udp: Vec<String>,
    tcp: Vec<String>,
    kept: String,
    never: String,
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/torture"))
}

fn manifest() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("manifest.txt")).unwrap();
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty());
    lines.map(case).collect()
}

fn case(line: &str) -> Case {
    // A header value of the manifest may hold "|" no more than the RFC's do; the columns are six.
    let columns: Vec<&str> = line.splitn(6, " |").map(str::trim).collect();
    let [file, aor, udp, tcp, kept, never] = columns[..] else { panic!("not six columns: {line}") };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    Case {
        file: file.into(),
        aor: aor.into(),
        udp: words(udp),
        tcp: words(tcp),
        kept: kept.into(),
        never: never.into(),
    }
}

fn message(case: &Case) -> Vec<u8> {
    std::fs::read(folder().join(format!("{}.dat", case.file))).unwrap()
}

fn server() -> Server {
    let domains = [
        "example.net",
        "example.org",
        "company.com",
        "chair-dnrc.example.com",
        "services.example.com",
        "[2001:db8::10]",
    ];
    domains.iter().fold(Setup::open(), |setup, domain| setup.domain(domain)).start()
}

/// The ports that the Vias of these messages name; answers over UDP go to one of them on the
/// sender's address (RFC 3261 section 18.2.2).
const REPLY_PORTS: [u16; 6] = [5060, 5061, 5050, 5070, 6050, 19823];

/// A sender on port 5060 with ears on every port to which an answer may go.
struct Ears {
    sockets: Vec<UdpSocket>,
    server: SocketAddr,
}

impl Ears {
    fn new(server: SocketAddr) -> Self {
        let ip: Ipv4Addr = fresh_ip();
        let sockets: Vec<_> = REPLY_PORTS.iter().map(|&port| UdpSocket::bind((ip, port)).unwrap()).collect();
        for socket in &sockets {
            socket.set_nonblocking(true).unwrap();
        }
        Self { sockets, server }
    }

    fn send(&self, bytes: &[u8]) {
        self.sockets[0].send_to(bytes, self.server).unwrap();
    }

    fn final_within(&self, within: Duration) -> Option<Msg> {
        let end = Instant::now() + within;
        let mut datagram = vec![0; 65_536];
        loop {
            for socket in &self.sockets {
                while let Ok(n) = socket.recv(&mut datagram) {
                    let answer = Msg::parse(&datagram[..n]).expect("the server wrote a malformed message");
                    if answer.status().is_some_and(|s| s >= 200) {
                        return Some(answer);
                    }
                }
            }
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// What the server did with a message.
#[derive(Debug, Default)]
struct Outcome {
    answer: Option<Msg>,
    forwarded: Option<Msg>,
    closed: bool,
}

/// Bind `aor` to this listener.
fn bind(listener: &mut Listener, aor: &str) {
    if aor.is_empty() {
        return;
    }
    let mut req = Req::new("REGISTER", "sip:example.com", &listener.udp);
    let domain = aor.rsplit_once('@').unwrap().1;
    req.uri = format!("sip:{domain}");
    req.to = format!("<sip:{aor}>");
    req.from = format!("<sip:{aor}>;tag=bind");
    let req = req.with(&format!("Contact: <sip:target@{}>", listener.udp.local())).with("Expires: 600");
    let answer = listener.udp.ask(&req);
    assert_eq!(answer.status(), Some(200), "binding {aor}: {}", answer.start);
}

/// The server has one worker and the loopback keeps order, so once it has answered an OPTIONS sent
/// after the message, it has done with the message what it will do.
fn outcome(server: &Server, case: &Case, via: Via) -> Outcome {
    let mut listener = Listener::open(server.sip());
    bind(&mut listener, &case.aor);
    let bytes = message(case);
    let mut seen = Outcome::default();
    let hopes = if via == Via::Udp { &case.udp } else { &case.tcp };
    let silent = hopes.iter().all(|w| w == "drop" || w == "wait");
    let ears = Ears::new(server.sip());
    let mut stream = (via == Via::Tcp).then(|| server.link(Via::Tcp));
    match &mut stream {
        None => ears.send(&bytes),
        Some(link) => link.send(&bytes),
    }
    server.assert_alive(&case.file);
    let tick = Duration::from_millis(20);
    let end = Instant::now() + if silent { 5 * tick } else { Duration::from_secs(10) };
    while seen.answer.is_none() && seen.forwarded.is_none() && !seen.closed && Instant::now() < end {
        seen.answer = final_answer(&ears, &mut stream, &bytes, tick);
        if let Some((request, link)) = listener.request_within(tick) {
            link.send(&request.reply(486, "callee", &[]));
            seen.forwarded = Some(request);
        }
        seen.closed = stream.as_mut().is_some_and(|link| link.closed_within(Duration::from_millis(1)));
    }
    if seen.answer.is_none() && seen.closed {
        // The answer may have come together with the end of the stream.
        seen.answer = final_answer(&ears, &mut stream, &bytes, tick);
    }
    // Whatever was forwarded is answered for; what was refused must not arrive as well.
    if seen.forwarded.is_some() && seen.answer.is_none() {
        seen.answer = final_answer(&ears, &mut stream, &bytes, Duration::from_secs(10));
    } else if let Some((request, _)) = listener.request_within(tick) {
        seen.forwarded = Some(request);
    }
    if let Some(link) = &mut stream {
        let patience = if hopes.iter().any(|w| w == "close") {
            Duration::from_secs(10)
        } else {
            Duration::from_millis(50)
        };
        seen.closed = link.closed_within(patience);
    }
    seen
}

/// The final answer to the first message in `sent`. What follows it on a stream may belong to another worker,
/// and be answered sooner.
fn final_answer(ears: &Ears, stream: &mut Option<Link>, sent: &[u8], within: Duration) -> Option<Msg> {
    let text = String::from_utf8_lossy(sent);
    let head = text.trim_start().split("\r\n\r\n").next().unwrap_or_default();
    let first = |answer: &Msg| answer.header("Call-ID").is_none_or(|id| head.contains(id));
    match stream {
        None => ears.final_within(within),
        Some(link) => link.find_within(within, |m| m.status().is_some_and(|s| s >= 200) && first(m)),
    }
}

/// Does what happened fit this word of the manifest?
fn fits(word: &str, seen: &Outcome) -> bool {
    let status = seen.answer.as_ref().and_then(Msg::status);
    match word {
        "forward" => seen.forwarded.is_some(),
        "any" => status.is_some_and(|s| s != 400),
        "drop" | "wait" => status.is_none() && seen.forwarded.is_none() && (word == "drop" || !seen.closed),
        "close" => seen.closed && seen.forwarded.is_none() && matches!(status, None | Some(400 | 505)),
        code => status == code.parse().ok() && seen.forwarded.is_none(),
    }
}

fn complaint(server: &Server, case: &Case, via: Via) -> Option<String> {
    let seen = outcome(server, case, via);
    let hopes = if via == Via::Udp { &case.udp } else { &case.tcp };
    let told = || {
        let answer = seen.answer.as_ref().map_or("no answer", |a| &a.start);
        let forwarded = seen.forwarded.as_ref().map_or("not forwarded", |f| &f.start);
        format!("{} over {}: {answer}, {forwarded}, closed: {}", case.file, via.name(), seen.closed)
    };
    if !hopes.iter().any(|word| fits(word, &seen)) {
        return Some(format!("{}; wanted {}", told(), hopes.join(" or ")));
    }
    let out = seen.forwarded.as_ref().or(seen.answer.as_ref());
    if !case.kept.is_empty() && !out.is_some_and(|m| m.has(&case.kept)) {
        return Some(format!("{}; {:?} is gone", told(), case.kept));
    }
    if !case.never.is_empty() && out.is_some_and(|m| m.has(&case.never)) {
        return Some(format!("{}; {:?} must not be there", told(), case.never));
    }
    seen.forwarded.as_ref().and_then(|f| untouched(case, f)).map(|what| format!("{}; {what}", told()))
}

/// A forwarded body must be the sender's, byte for byte.
fn untouched(case: &Case, forwarded: &Msg) -> Option<String> {
    let sent = message(case);
    let at = sent.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let body = &sent[at..];
    (!body.starts_with(&forwarded.body) || forwarded.body.is_empty() != body.is_empty())
        .then(|| format!("body changed: {:?}", String::from_utf8_lossy(&forwarded.body)))
}

/// Every case of one RFC over one transport.
fn all(prefix: &str, via: Via) {
    let cases: Vec<Case> = manifest().into_iter().filter(|c| c.file.starts_with(prefix)).collect();
    assert!(!cases.is_empty());
    // A panic of the harness over one message (a malformed answer, say) counts against that message.
    let judged = |case: &Case| {
        std::panic::catch_unwind(|| complaint(&server(), case, via)).unwrap_or_else(|_| {
            Some(format!("{} over {}: the test panicked, see above", case.file, via.name()))
        })
    };
    let wrong: Vec<String> = cases.iter().filter_map(judged).collect();
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn the_manifest_names_every_message_once() {
    let mut named: Vec<String> = manifest().into_iter().map(|c| c.file).collect();
    named.sort();
    let mut there = Vec::new();
    for rfc in ["rfc4475", "rfc5118"] {
        for entry in std::fs::read_dir(folder().join(rfc)).unwrap() {
            let path = entry.unwrap().path();
            there.push(format!("{rfc}/{}", path.file_stem().unwrap().to_string_lossy()));
        }
    }
    there.sort();
    assert_eq!(named, there);
    assert_eq!(named.len(), 62);
}

#[test]
fn rfc4475_over_udp() {
    all("rfc4475", Via::Udp);
}

#[test]
fn rfc4475_over_tcp() {
    all("rfc4475", Via::Tcp);
}

#[test]
fn rfc5118_over_udp() {
    all("rfc5118", Via::Udp);
}

#[test]
fn rfc5118_over_tcp() {
    all("rfc5118", Via::Tcp);
}

/// All of them into one server, challenges on, several workers: it must go on answering.
#[test]
fn one_server_survives_all_of_them() {
    let server = Setup::new().workers(2).start();
    for case in manifest() {
        let ears = Ears::new(server.sip());
        ears.send(&message(&case));
        let mut link = server.link(Via::Tcp);
        link.send(&message(&case));
        server.assert_alive(&case.file);
    }
}

/// What a registrar stored for the two Contact forms, fetched afterwards (RFC 4475 3.3.12 to 3.3.14).
#[test]
fn fetched_bindings_keep_the_kind_of_their_parameters() {
    for (file, contact) in [
        ("rfc4475/cparam01", "<sip:+19725552222@gw1.example.net>"),
        ("rfc4475/cparam02", "<sip:+19725552222@gw1.example.net;unknownparam>"),
    ] {
        let server = server();
        let case = manifest().into_iter().find(|c| c.file == file).unwrap();
        outcome(&server, &case, Via::Udp);
        let mut link = server.link(Via::Udp);
        let mut fetch = Req::new("REGISTER", "sip:example.com", &link);
        fetch.to = "<sip:watson@example.com>".into();
        fetch.from = "<sip:watson@example.com>;tag=fetch".into();
        let answer = link.ask(&fetch);
        assert_eq!(answer.all("Contact").len(), 1);
        assert!(answer.has(contact), "{}", String::from_utf8_lossy(&answer.raw));
    }
}
