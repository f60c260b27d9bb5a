//! The little SIP that a run needs beside the generator: a probe, and the registration of the callees.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Registrations under way at a time.
const WINDOW: usize = 50;
/// How long answers are waited for before requests are repeated.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often requests are repeated.
const ROUNDS: u32 = 20;
/// The domain of all users.
pub const DOMAIN: &str = "lab.test";

/// Stands for the name of a callee in the host of its contact.
pub const USER: &str = "${user}";

/// The name of a callee or caller; `number` counts from 0.
pub fn user(number: u32) -> String {
    format!("u{}", 1_000_000 + u64::from(number))
}

/// The password of a user.
pub fn password(number: u32) -> String {
    format!("p{}", 1_000_000 + u64::from(number))
}

/// The status of a response; nothing if it is none.
fn status(message: &[u8]) -> Option<u16> {
    let text = message.strip_prefix(b"SIP/2.0 ")?;
    std::str::from_utf8(text.get(..3)?).ok()?.parse().ok()
}

/// The number in the Call-ID, which this module made.
fn number(message: &[u8]) -> Option<u32> {
    let text = String::from_utf8_lossy(message);
    let line = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim().eq_ignore_ascii_case("call-id") || name.trim() == "i").then(|| value.trim().to_owned())
    })?;
    line.strip_prefix("lab-")?.split('-').next()?.parse().ok()
}

/// Whether the server at `target` answers an OPTIONS request over UDP, in whatever way.
///
/// # Errors
/// If no socket can be opened.
pub fn answers(target: SocketAddr, from: IpAddr) -> io::Result<bool> {
    let socket = UdpSocket::bind((from, 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let own = socket.local_addr()?;
    // Max-Forwards 0: a proxy answers itself.
    let request = format!(
        "OPTIONS sip:{target} SIP/2.0\r\nVia: SIP/2.0/UDP {own};rport;branch=z9hG4bK-probe-{port}\r\nMax-Forwards: 0\r\n\
         From: <sip:probe@{DOMAIN}>;tag=probe\r\nTo: <sip:{target}>\r\nCall-ID: lab-0-probe-{port}\r\nCSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\r\n",
        port = own.port()
    );
    socket.send_to(request.as_bytes(), target)?;
    let mut buffer = [0; 4_096];
    match socket.recv(&mut buffer) {
        Ok(length) => Ok(status(&buffer[..length]).is_some()),
        Err(_) => Ok(false),
    }
}

/// Registers `count` users at `server` over UDP, all at one contact: where the generator answers.
/// [`USER`] in it stands for the name of each.
///
/// # Errors
/// A sentence that says which response came instead, or how many had none.
pub fn register(server: SocketAddr, count: u32, from: IpAddr, contact: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("callees could not be registered: {error}");
    let socket = UdpSocket::bind((from, 0)).map_err(failed)?;
    let own = socket.local_addr().map_err(failed)?;
    let mut missing: BTreeSet<u32> = (0..count).collect();
    for _ in 0..ROUNDS {
        let mut waiting: Vec<u32> = missing.iter().rev().copied().collect();
        let mut pending = 0;
        let mut until = Instant::now() + PATIENCE;
        while !missing.is_empty() {
            while pending < WINDOW
                && let Some(number) = waiting.pop()
            {
                let request = registration(number, own, contact);
                socket.send_to(request.as_bytes(), server).map_err(failed)?;
                pending += 1;
                until = Instant::now() + PATIENCE;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left)).map_err(failed)?;
            let mut buffer = [0; 65_536];
            let Ok(length) = socket.recv(&mut buffer) else { continue };
            let (Some(status), Some(number)) = (status(&buffer[..length]), number(&buffer[..length])) else {
                continue;
            };
            if status >= 300 {
                return Err(format!("the registration of {} was answered {status}", user(number)));
            }
            if status >= 200 && missing.remove(&number) {
                pending = pending.saturating_sub(1);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
    }
    Err(format!("{} of {count} callees could not be registered: no answer", missing.len()))
}

fn registration(number: u32, own: SocketAddr, contact: &str) -> String {
    let user = user(number);
    let contact = contact.replace(USER, &user);
    // The repeated request is a retransmission: the same branch, Call-ID and CSeq. Without rport, with
    // which the server would call this socket.
    format!(
        "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK-lab-{number}-{port}\r\nMax-Forwards: 70\r\n\
         From: <sip:{user}@{DOMAIN}>;tag={number}\r\nTo: <sip:{user}@{DOMAIN}>\r\nCall-ID: lab-{number}-{port}\r\n\
         CSeq: 1 REGISTER\r\nContact: <sip:{user}@{contact}>\r\nExpires: 3600\r\nContent-Length: 0\r\n\r\n",
        port = own.port()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// A registrar that leaves each request's first copy unanswered and answers the second.
    fn registrar(status: &'static str) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let address = socket.local_addr().expect("bound");
        thread::spawn(move || {
            let mut seen = std::collections::BTreeMap::new();
            let mut buffer = [0; 65_536];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                let call_id =
                    text.lines().find(|line| line.starts_with("Call-ID")).unwrap_or_default().to_owned();
                let times = seen.entry(call_id.clone()).or_insert(0);
                *times += 1;
                if *times == 2 {
                    let answer = format!("SIP/2.0 {status}\r\n{call_id}\r\n\r\n");
                    let _ = socket.send_to(answer.as_bytes(), from);
                }
            }
        });
        address
    }

    #[test]
    fn lost_registrations_are_repeated() {
        let here = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(register(registrar("200 OK"), 120, here, "127.0.0.1:5090"), Ok(()));
    }

    #[test]
    fn refused_registration_says_the_status() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let error = register(registrar("403 Forbidden"), 1, here, "127.0.0.1:5090").expect_err("refused");
        assert!(error.contains("403"), "{error}");
    }

    #[test]
    fn messages_that_are_no_responses_are_ignored() {
        for bytes in [&b""[..], b"SIP/2.0 ", b"SIP/2.0 2", b"SIP/2.0 abc", b"INVITE sip:a SIP/2.0"] {
            assert_eq!(status(bytes), None);
        }
        assert_eq!(number(b"SIP/2.0 200 OK\r\nCall-ID: other\r\n"), None);
        assert_eq!(number(b"SIP/2.0 200 OK\r\ni: lab-17-5060\r\n"), Some(17));
    }
}
