//! The echo server and the front end of `strowger lab`, and the experiments that measure them.

use live::{Beside, fresh_ip, run};
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

/// A server of this kind over TCP, which accepts this number of connections.
fn server(role: &str, most: &str) -> (Beside, SocketAddr) {
    let place = SocketAddr::from((fresh_ip(), 5060));
    let own = place.to_string();
    (Beside::start(&["lab", "serve", role, &own, "--sockets", "tcp", "--most", most]), place)
}

fn connected(place: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&place, LIMIT).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// What the server says until it closes the connection, or `length` octets of it.
fn said(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let (mut all, mut part) = (Vec::new(), [0; 4_096]);
    while all.len() < length {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) => all.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    all
}

fn request(body: usize, length: &str) -> Vec<u8> {
    let head = format!(
        "REGISTER sip:a@example.com SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1;branch=z9hG4bKx\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.com>;tag=a\r\nTo: <sip:a@example.com>\r\nCall-ID: c\r\nCSeq: 1 REGISTER\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.into_bytes(), vec![b'x'; body]].concat()
}

#[test]
fn front_end_finds_requests_in_a_stream() {
    let (_server, place) = server("front-end", "10");
    let mut stream = connected(place);
    let two = [request(700, "700"), request(0, "0")].concat();
    for part in two.chunks(100) {
        stream.write_all(part).unwrap();
    }
    let mut answers = Vec::new();
    while answers.windows(4).filter(|end| end == b"\r\n\r\n").count() < 2 {
        let more = said(&mut stream, 1);
        assert!(!more.is_empty(), "closed after {}", String::from_utf8_lossy(&answers));
        answers.extend(more);
    }
    assert_eq!(String::from_utf8_lossy(&answers).matches("SIP/2.0 200 OK").count(), 2);
}

#[test]
fn front_end_survives_what_is_no_request() {
    let (_server, place) = server("front-end", "10");
    for rubbish in [vec![0; 200_000], b"GET / HTTP/1.1\r\n\r\n".to_vec(), request(0, "99999999999")] {
        let mut stream = connected(place);
        // It may close before it has read all.
        let _ = stream.write_all(&rubbish);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let answer = said(&mut stream, usize::MAX);
        assert!(!answer.starts_with(b"SIP/2.0 200"), "{}", String::from_utf8_lossy(&answer));
    }
    let mut stream = connected(place);
    stream.write_all(&request(0, "0")).unwrap();
    assert!(said(&mut stream, 12).starts_with(b"SIP/2.0 200 "));
}

#[test]
fn echo_refuses_connections_beyond_its_limit() {
    let (_server, place) = server("echo", "3");
    let mut held: Vec<TcpStream> = (0..3).map(|_| connected(place)).collect();
    for stream in &mut held {
        stream.write_all(b"any octets\0").unwrap();
        assert_eq!(said(stream, 11), b"any octets\0");
    }
    // The server closes it at once, perhaps before this side knows of it.
    if let Ok(mut beyond) = TcpStream::connect_timeout(&place, LIMIT) {
        let _ = (beyond.set_read_timeout(Some(LIMIT)), beyond.write_all(b"one more"));
        assert!(said(&mut beyond, 1).is_empty());
    }
    held[0].write_all(b"again").unwrap();
    assert_eq!(said(&mut held[0], 5), b"again");
}

/// The figures of `lab run` on this file.
fn figures(name: &str, text: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (file, out) = (folder.join("experiment.toml"), folder.join("out"));
    fs::write(&file, text).unwrap();
    let done = run([
        "lab",
        "run",
        "--share-machine",
        "--output",
        "json",
        "--out",
        out.to_str().unwrap(),
        file.to_str().unwrap(),
    ]);
    let found: Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&done.stderr)));
    assert_eq!(found["verdict"], "MEASURED", "{found}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("First answer") && page.contains("<svg"), "the page has no curves");
    found["figures"].as_array().unwrap().clone()
}

#[test]
fn associations_are_measured_over_udp_and_tcp() {
    let figures = figures(
        "associations",
        "repetitions = 1\n[system.udp]\nkind = \"echo\"\n[system.tcp]\nkind = \"echo\"\nsockets = \"tcp\"\n\
         [system.front]\nkind = \"front-end\"\nsockets = \"tcp\"\n[workload]\nassociations = 60\nrequest = 3_000\n",
    );
    let median = |subject: &str, quantity: &str| {
        let is_it = |figure: &&Value| figure["subject"] == subject && figure["quantity"] == quantity;
        figures.iter().find(is_it).and_then(|figure| figure["median"].as_f64())
    };
    for subject in ["udp", "tcp", "front"] {
        assert_eq!(median(subject, "associations"), Some(60.0), "{subject}");
        assert!(median(subject, "p50 of exchange").is_some_and(|ms| ms > 0.0), "{subject}");
    }
    assert!(median("tcp", "p50 of connect").is_some());
    assert_eq!(median("udp", "p50 of connect"), None);
}

#[test]
fn sctp_that_the_kernel_lacks_is_reported_before_any_run() {
    if fs::metadata("/proc/net/sctp").is_ok() {
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/papers/001-sctp.toml");
    let plan = run(["lab", "plan", file.to_str().unwrap()]);
    assert!(plan.status.success() && String::from_utf8_lossy(&plan.stdout).contains("verify/uml/lab.sh"));
    let refused = run(["lab", "run", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("verify/uml/lab.sh"), "{refused:?}");
}
