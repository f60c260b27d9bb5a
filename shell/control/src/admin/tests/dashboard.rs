//! The dashboard's files, searches and live values, over the socket.

use super::super::events::LISTENERS;
use super::*;
use std::io::{BufRead, BufReader};

/// The value of a header in an answer; empty if there is none.
fn field<'a>(answer: &'a str, name: &str) -> &'a str {
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
}

#[test]
fn page_comes_with_a_strict_policy_and_a_mark() {
    let (_, server) = start();
    let (status, page) = get(server.address(), "/");
    assert_eq!(status, 200);
    assert_eq!(field(&page, "content-type"), "text/html; charset=utf-8");
    assert_eq!(field(&page, "x-content-type-options"), "nosniff");
    assert_eq!(field(&page, "referrer-policy"), "no-referrer");
    assert_eq!(field(&page, "cross-origin-resource-policy"), "same-origin");
    let policy = field(&page, "content-security-policy");
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.split("; ").any(|found| found.trim() == rule), "{rule} not in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let mark = field(&page, "etag");
    let again =
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nIf-None-Match: {mark}\r\n\r\n");
    let (status, answer) = raw(server.address(), &again);
    assert_eq!((status, field(&answer, "etag")), (304, mark));
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    let (status, script) = get(server.address(), "/dashboard/app.js");
    assert_eq!((status, field(&script, "content-type")), (200, "text/javascript; charset=utf-8"));
    assert_eq!(get(server.address(), "/dashboard/../guard.rs").0, 404);
}

#[test]
fn foreign_page_reads_no_list() {
    let (_, server) = start();
    let ask = |path: &str, mode: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        raw(server.address(), &format!("{head}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: {mode}\r\n\r\n"))
            .0
    };
    assert_eq!((ask("/v1/bindings", "no-cors"), ask("/v1/events", "cors")), (403, 403));
    assert_eq!((ask("/", "navigate"), ask("/dashboard/app.js", "cors")), (200, 403));
}

#[test]
fn searches_are_paged_and_bounded() {
    let (_, server) = start();
    let list = |query: &str| -> Value {
        let (status, answer) = get(server.address(), query);
        assert_eq!(status, 200, "{query}: {answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let page = list("/v1/bindings?q=USER004&limit=4");
    assert_eq!(page["items"].as_array().unwrap().len(), 4);
    let next = page["next"].as_str().unwrap();
    let rest = list(&format!("/v1/bindings?q=USER004&limit=100&after={next}"));
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (6, &Value::Null));
    assert_eq!(list("/v1/connections?q=:10007")["items"].as_array().unwrap().len(), 1);
    let page = list("/v1/refused?limit=100&after=200");
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next"]), (50, &Value::Null));
    assert_eq!(page["items"][0]["about"], "user200@example.com");
    assert_eq!(list("/v1/refused?limit=100")["next"], "100");
    assert_eq!(list("/v1/refused?q=192.0.2.77")["items"].as_array().unwrap().len(), 1);
    assert_eq!(list("/v1/refused?after=18446744073709551615")["items"].as_array().unwrap().len(), 0);
    for query in ["bindings?q=", "calls?q=", "trunks?q=", "connections?q=", "refused?q="] {
        let long = format!("/v1/{query}{}", "a".repeat(600));
        assert_eq!(get(server.address(), &long).0, 400, "{query}");
    }
    assert_eq!(get(server.address(), "/v1/refused?after=x").0, 400);
}

/// Asks for live values; the answer's status, and what follows.
fn listen(address: SocketAddr) -> (String, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut status = String::new();
    reader.read_line(&mut status).unwrap();
    (status, reader)
}

/// Reads on to the next live values.
fn sample(reader: &mut BufReader<TcpStream>) -> Live {
    let mut lines = reader.by_ref().lines().map(Result::unwrap);
    let json = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).unwrap();
    serde_json::from_str(&json).unwrap()
}

#[test]
fn live_values_come_again_and_again() {
    let (pretend, server) = start();
    let (status, mut reader) = listen(server.address());
    assert_eq!(status, "HTTP/1.1 200 OK\r\n");
    assert_eq!(sample(&mut reader).state, State::Ready);
    pretend.drained.store(true, SeqCst);
    while sample(&mut reader).state != State::Draining {}
    // A panic of the server ends the stream, and the next one begins anew.
    pretend.panics.store(true, SeqCst);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    pretend.panics.store(false, SeqCst);
    sample(&mut listen(server.address()).1);
}

#[test]
fn listener_beyond_the_limit_is_told_why() {
    let (_, server) = start();
    let mut all: Vec<_> = (0..LISTENERS).map(|_| listen(server.address())).collect();
    assert!(all.iter().all(|(status, _)| status.contains("200")));
    let (status, answer) = get(server.address(), "/v1/events");
    assert_eq!((status, field(&answer, "retry-after")), (503, "10"));
    assert!(answer.contains("16 pages show live values already; close one"), "{answer}");
    // One that goes away makes room, as soon as the server sees it.
    all.pop();
    assert!((0..10_000).any(|_| listen(server.address()).0.contains("200")));
}
