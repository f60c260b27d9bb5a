//! No descriptors left. A program of its own, because the limit is the process's; one test, because
//! tests of one program run side by side.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::fs::File;
use std::io::ErrorKind;
use std::net::TcpStream;

#[test]
fn without_descriptors_new_peers_are_refused_and_old_ones_served() {
    let server = Server::start(2);
    let mut old = server.connect();
    assert_eq!(ask(&mut old, "before\n"), "before\n");
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = 100;
    // SAFETY: `limit` is readable.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    // All that are left are taken; one at a time is freed for the client's end.
    let mut hoard = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        hoard.push(file);
    }
    for _ in 0..40 {
        drop(hoard.pop());
        // Refused at once, not left hanging: it may be over before the client knows that it began.
        match TcpStream::connect(server.tcp()) {
            Ok(refused) => assert_eq!(hear_all(&mut patient(refused)), ""),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        assert_eq!(ask(&mut old, "during\n"), "during\n");
        hoard.push(File::open("/dev/null").unwrap());
    }
    assert_eq!(server.counts().tcp_exhausted, 40);
    hoard.clear();
    let served = wait("room again", || {
        let mut new = server.connect();
        std::io::Write::write_all(&mut new, b"after\n").ok()?;
        let text = hear_all_or(&mut new, 6);
        (text == "after\n").then_some(text)
    });
    assert_eq!(served, "after\n");
}

/// Up to `len` bytes.
fn hear_all_or(stream: &mut TcpStream, len: usize) -> String {
    let mut text = String::new();
    let mut one = [0; 1];
    while text.len() < len && matches!(std::io::Read::read(stream, &mut one), Ok(1)) {
        text.push(one[0] as char);
    }
    text
}
