//! WebSocket as a client sees it (RFC 6455, RFC 7118): upgrades that are refused, frames, ends.

use live::{Credentials, Link, PATIENCE, Req, Server, Setup, UPGRADE, Via, eventually, frame, http, opcode};
use std::process::Command;
use std::time::Duration;

const SITE: &str = "https://phone.example.com";

fn server() -> Server {
    Setup::open().secure().workers(2).start()
}

/// The status and the whole head of the answer to this request.
fn asked(server: &Server, via: Via, request: &str) -> (u16, String) {
    let mut link = server.bare_link(via);
    let head = link.ask_upgrade(request);
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head}"));
    if status != 101 {
        assert!(link.closed_within(PATIENCE), "{head}");
    }
    (status, head)
}

fn with(line: &str) -> String {
    UPGRADE.replace("Host: example.com\r\n", &format!("Host: example.com\r\n{line}\r\n"))
}

#[test]
fn upgrades_are_refused_with_their_reason() {
    let config = format!("[websocket]\npath = \"/ws\"\norigins = [\"{SITE}\"]\n");
    let server = Setup::open().secure().config(&config).start();
    let right = |request: String| request.replace("GET / ", "GET /ws ");
    for via in [Via::Ws, Via::Wss] {
        for (request, wanted) in [
            (UPGRADE.to_owned(), 404),
            (UPGRADE.replace("GET / ", "GET /ws/ "), 404),
            (right(with("Origin: https://evil.example")), 403),
            (right(with("Origin: null")), 403),
            (right(UPGRADE.replace("Protocol: sip", "Protocol: chat")), 400),
            (right(UPGRADE.replace("Sec-WebSocket-Protocol: sip\r\n", "")), 400),
            (right(UPGRADE.replace("Version: 13", "Version: 8")), 426),
            (right("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n".to_owned()), 426),
            (right(with(&format!("Origin: {SITE}"))), 101),
            // No browser.
            (right(UPGRADE.to_owned()), 101),
        ] {
            let (status, head) = asked(&server, via, &request);
            assert_eq!(status, wanted, "{via:?}: {head} to {request}");
            assert!(!head.contains("evil"), "what a stranger wrote is not repeated");
            let accepted = head.contains("\r\nSec-WebSocket-Protocol: sip\r\n");
            assert_eq!(accepted, status == 101, "{head}");
        }
    }
    assert_eq!(server.metric("strowger_websocket_refused_total"), 16);
    assert_eq!(server.metric("strowger_websocket_handshakes_total"), 4);
    server.assert_alive("refused upgrades");
}

#[test]
fn health_is_told_and_sip_on_the_wrong_port_is_not_taken() {
    let server = server();
    for via in [Via::Ws, Via::Wss] {
        let (status, head) = asked(&server, via, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(status, 200, "{head}");
        let (status, _) = asked(&server, via, "OPTIONS sip:example.com SIP/2.0\r\n\r\n");
        assert_eq!(status, 405);
    }
    assert_eq!(http(server.place(Via::Ws), "GET", "/healthz").status, 200);
    // Only SIP over HTTP was refused.
    assert_eq!(server.metric("strowger_websocket_refused_total"), 2);
}

/// The Close frame with this code comes, and then the end.
fn is_closed(link: &mut Link, code: u16, what: &str) {
    let (opcode, payload) = link.control_within(PATIENCE).unwrap_or_else(|| panic!("no Close: {what}"));
    assert_eq!((opcode, payload.get(..2)), (opcode::CLOSE, Some(&code.to_be_bytes()[..])), "{what}");
    assert!(link.closed_within(PATIENCE), "{what}");
}

fn options(link: &Link) -> Req {
    Req::new("OPTIONS", "sip:example.com", link)
}

#[test]
fn pings_are_answered_and_close_is_returned() {
    let server = server();
    for via in [Via::Ws, Via::Wss] {
        let mut link = server.link(via);
        link.stream().send_raw(&frame(8, opcode::PING, b"are you there?"));
        let answered = link.control_within(PATIENCE);
        assert_eq!(answered, Some((opcode::PONG, b"are you there?".to_vec())));
        // Nobody asked.
        link.stream().send_raw(&frame(8, opcode::PONG, b"yes"));
        let ping = options(&link);
        assert_eq!(link.status(&ping), 200);
        link.stream().send_raw(&frame(8, opcode::CLOSE, &3000_u16.to_be_bytes()));
        is_closed(&mut link, 3000, "the client ends");
    }
    assert_eq!(server.metric("strowger_websocket_faults_total"), 0);
}

#[test]
fn fragments_are_one_message() {
    let server = server();
    for via in [Via::Ws, Via::Wss] {
        let mut link = server.link(via);
        let ping = options(&link);
        let bytes = ping.bytes();
        let pieces: Vec<&[u8]> = bytes.chunks(100).collect();
        for (n, piece) in pieces.iter().enumerate() {
            let opcode = if n == 0 { opcode::TEXT } else { opcode::CONTINUATION };
            link.stream().send_raw(&frame(if n + 1 == pieces.len() { 8 } else { 0 }, opcode, piece));
            // Control frames may stand between them.
            link.stream().send_raw(&frame(8, opcode::PING, &[n as u8]));
            assert_eq!(link.control_within(PATIENCE), Some((opcode::PONG, vec![n as u8])));
        }
        assert_eq!(link.response(&ping).status(), Some(200));
    }
}

#[test]
fn broken_frames_end_with_their_code() {
    let server = server();
    let unmasked = [0x81, 5, b'h', b'e', b'l', b'l', b'o'].to_vec();
    for (what, bytes, code) in [
        ("no mask", unmasked, 1002),
        ("a reserved bit", frame(0b1100, opcode::TEXT, b"x"), 1002),
        ("a reserved opcode", frame(8, 3, b"x"), 1002),
        ("a continuation of nothing", frame(8, opcode::CONTINUATION, b"x"), 1002),
        ("a fragmented Ping", frame(0, opcode::PING, b"x"), 1002),
        ("not UTF-8", frame(8, opcode::TEXT, b"\xc3\x28"), 1007),
        ("a code that may not be sent", frame(8, opcode::CLOSE, &1005_u16.to_be_bytes()), 1002),
        ("too long", frame(8, opcode::TEXT, &vec![b'x'; 1 << 20]), 1009),
    ] {
        for via in [Via::Ws, Via::Wss] {
            let mut link = server.link(via);
            // What was valid before it is answered.
            let ping = options(&link);
            link.stream().send_raw(&[frame(8, opcode::TEXT, &ping.bytes()), bytes.clone()].concat());
            assert_eq!(link.response(&ping).status(), Some(200), "{what}");
            is_closed(&mut link, code, what);
        }
    }
    assert_eq!(server.metric("strowger_websocket_faults_total"), 16);
    server.assert_alive("broken frames");
}

/// RFC 7118 section 5. What follows the end of a message is dropped, as in a datagram (RFC 3261 section
/// 18.3). A message that is cut is malformed.
#[test]
fn websocket_message_holds_one_sip_message() {
    let server = server();
    for via in [Via::Ws, Via::Wss] {
        // Two in one: the second is what follows the end of the first.
        let mut link = server.link(via);
        let [first, second] = [options(&link), options(&link)];
        link.send(&[first.bytes(), second.bytes()].concat());
        assert_eq!(link.response(&first).status(), Some(200));
        assert_eq!(link.response_within(&second, Duration::from_millis(300)).map(|m| m.start), None);
        // One in two: neither half is one.
        let whole = options(&link).body(b"12345678");
        let bytes = whole.bytes();
        let (head, body) = bytes.split_at(bytes.len() - 8);
        link.send(head);
        link.send(body);
        assert_eq!(link.response(&whole).status(), Some(400));
        let half = options(&link);
        let bytes = half.bytes();
        let (start, end) = bytes.split_at(bytes.len() / 2);
        link.send(start);
        link.send(end);
        assert!(
            link.response_within(&half, Duration::from_millis(300)).is_none_or(|m| m.status() == Some(400))
        );
        // The connection goes on.
        let ping = options(&link);
        assert_eq!(link.status(&ping), 200);
    }
}

#[test]
fn stopping_server_says_that_it_goes_away() {
    let mut server = server();
    let mut links = [Via::Ws, Via::Wss].map(|via| server.link(via));
    server.signal("TERM");
    for link in &mut links {
        is_closed(link, 1001, "the server stops");
    }
    eventually("it has ended", || server.ended());
}

#[test]
fn one_port_takes_sip_and_websocket_over_tls() {
    let server = Setup::open().secure().listen("tls:5070").listen("wss:5070").start();
    let mut phone = server.bare_link_to(Via::Tls, 5070);
    phone.register("ann");
    let mut browser = server.bare_link_to(Via::Wss, 5070);
    assert!(browser.ask_upgrade(UPGRADE).starts_with("HTTP/1.1 101 "));
    browser.register("bob");
    let mut probe = server.bare_link_to(Via::Wss, 5070);
    assert!(probe.ask_upgrade("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 200 "));
    // Each is called as what it is.
    for (caller, callee, user) in [(0, 1, "bob"), (1, 0, "ann")] {
        let links = [&mut phone, &mut browser];
        let ask = Req::new("MESSAGE", &format!("sip:{user}@example.com"), links[caller]).body(b"hello");
        links[caller].send(&ask.bytes());
        let received = links[callee].request("MESSAGE");
        let via = ["SIP/2.0/TLS ", "SIP/2.0/WSS "][callee];
        assert!(received.header("Via").unwrap().starts_with(via), "{received:?}");
        links[callee].send(&received.reply(200, "x", &[]));
        assert_eq!(links[caller].response(&ask).status(), Some(200));
    }
    // A method of SIP may be named so.
    let odd = Req::new("GET", "sip:example.com", &phone);
    phone.send(&odd.bytes());
    assert!(phone.response(&odd).status().is_some_and(|status| status >= 400));
    assert_eq!(server.metric("strowger_websocket_handshakes_total"), 1);
}

/// The token of a user until a second, by openssl as a page's server may make it.
fn token(secret: &str, user: &str, until: u64) -> String {
    let text = format!("printf '%s' '{user}:{until}' | openssl dgst -sha256 -hmac '{secret}' -hex");
    let out = Command::new("sh").args(["-c", &text]).output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    said.trim().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn token_of_a_subscriber_lets_a_page_connect() {
    const SECRET: &str = "f0e1d2c3b4a5968778695a4b3c2d1e0f";
    let folder = std::env::temp_dir().join(format!("strowger-live-token-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("secret"), SECRET).unwrap();
    let config = format!("[websocket]\ntoken_secret = \"{}\"\n", folder.join("secret").display());
    let setup = Setup::new().secure().user("ann", "secret").config(&config);
    let server = setup.start();
    let (far, past) = (4_000_000_000, 1_000_000_000);
    let ask = |user: &str, until: u64, token: &str| {
        let target = format!("GET /?user={user}&expires={until}&token={token} ");
        asked(&server, Via::Wss, &UPGRADE.replace("GET / ", &target)).0
    };
    let good = token(SECRET, "ann@example.com", far);
    assert_eq!(ask("ann@example.com", far, &good), 101);
    assert_eq!(ask("ann%40example.com", far, &good), 101);
    assert_eq!(ask("ann@example.com", far + 1, &good), 403);
    assert_eq!(ask("ann@example.com", far, &token("another secret", "ann@example.com", far)), 403);
    assert_eq!(ask("ann@example.com", past, &token(SECRET, "ann@example.com", past)), 403, "expired");
    assert_eq!(ask("bob@example.com", far, &token(SECRET, "bob@example.com", far)), 403, "no subscriber");
    assert_eq!(asked(&server, Via::Wss, UPGRADE).0, 403);
    assert!(server.log_has("token_secret_open"), "{}", server.log_text());

    // Who has connected still needs the password.
    let mut link = server.bare_link(Via::Wss);
    let target = format!("GET /?user=ann@example.com&expires={far}&token={good} ");
    assert!(link.ask_upgrade(&UPGRADE.replace("GET / ", &target)).starts_with("HTTP/1.1 101 "));
    let register = Req::register("ann", &link);
    assert_eq!(link.status(&register), 401);
    let register = Req::register("ann", &link);
    assert_eq!(link.ask_as(&register, &Credentials::new("ann", "secret")).status(), Some(200));
    std::fs::remove_dir_all(&folder).unwrap();
}
