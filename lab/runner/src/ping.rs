//! Whether a host answers, and how fast: ICMP echo, or SIP OPTIONS where ICMP is not permitted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use lab::checks::RoundTrips;
use lab::statistics::median;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recvfrom, sendto, socket_with,
};

use crate::sip;

/// Questions of one look.
const QUESTIONS: u16 = 10;
/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_millis(200);
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

/// Asks a host. `sip`: where it answers SIP over UDP.
pub fn ask(when: &str, host: IpAddr, sip: SocketAddr) -> RoundTrips {
    let (by, to, times) = match host {
        IpAddr::V4(host) => match echo(host) {
            Ok(times) => ("ICMP", host.to_string(), times),
            Err(_) => ("SIP OPTIONS", sip.to_string(), options(sip)),
        },
        IpAddr::V6(_) => ("SIP OPTIONS", sip.to_string(), options(sip)),
    };
    let lost = u32::from(QUESTIONS) - u32::try_from(times.len()).unwrap_or(0);
    RoundTrips {
        when: when.to_owned(),
        to,
        by: by.to_owned(),
        sent: u32::from(QUESTIONS),
        lost,
        min: times.iter().copied().min_by(f64::total_cmp),
        median: median(&times),
    }
}

fn options(place: SocketAddr) -> Vec<f64> {
    let asked = (0..QUESTIONS).map(|_| {
        let begun = Instant::now();
        sip::answers(place, place.ip()).unwrap_or(false).then(|| milliseconds(begun))
    });
    // A host that does not answer the first question is not asked again: each takes its time.
    let mut times = Vec::new();
    for time in asked {
        match time {
            Some(time) => times.push(time),
            None if times.is_empty() => break,
            None => {}
        }
    }
    times
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Milliseconds of the answers that came.
fn echo(host: Ipv4Addr) -> Result<Vec<f64>, Errno> {
    let socket = icmp()?;
    set_socket_timeout(&socket, Timeout::Recv, Some(LIMIT))?;
    let mut times = Vec::new();
    for number in 0..QUESTIONS {
        let begun = Instant::now();
        let request = request(number);
        sendto(&socket, &request, SendFlags::empty(), &SocketAddrV4::new(host, 0))?;
        if is_answered(&socket, &request, begun) {
            times.push(milliseconds(begun));
        } else if times.is_empty() {
            break;
        }
    }
    Ok(times)
}

/// A socket for echo: without privileges where `net.ipv4.ping_group_range` has the group, or a raw one.
fn icmp() -> Result<OwnedFd, Errno> {
    let of = |kind| socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, Some(ipproto::ICMP));
    of(SocketType::DGRAM).or_else(|_| of(SocketType::RAW))
}

/// An echo request. Its identifier is this process: a raw socket sees the answers to all processes.
fn request(number: u16) -> [u8; 16] {
    let mut packet = [0; 16];
    packet[0] = ECHO_REQUEST;
    packet[4..6].copy_from_slice(&(std::process::id() as u16).to_be_bytes());
    packet[6..8].copy_from_slice(&number.to_be_bytes());
    packet[8..16].copy_from_slice(b"strowger");
    let sum = checksum(&packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// RFC 1071.
fn checksum(packet: &[u8]) -> u16 {
    let words = packet.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

fn is_answered(socket: &OwnedFd, request: &[u8], begun: Instant) -> bool {
    let mut buffer = [0_u8; 256];
    while begun.elapsed() < LIMIT {
        let Ok((length, _, _)) = recvfrom(socket, &mut buffer, RecvFlags::empty()) else { return false };
        if is_reply(buffer.get(..length).unwrap_or_default(), request) {
            return true;
        }
    }
    false
}

/// Whether a packet, with its IP header or without, is the answer. A kernel that gives identifiers to sockets
/// has its own.
fn is_reply(packet: &[u8], request: &[u8]) -> bool {
    let header = match packet.first() {
        Some(first) if first >> 4 == 4 => usize::from(first & 0x0f) * 4,
        _ => 0,
    };
    let Some(message) = packet.get(header..).filter(|message| message.len() >= request.len()) else {
        return false;
    };
    let has_identifier = header == 0 || message[4..6] == request[4..6];
    message[0] == ECHO_REPLY && has_identifier && message[6..16] == request[6..16]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_told_from_question_and_other_answers() {
        let request = request(7);
        assert_eq!(checksum(&request), 0, "the checksum fits");
        let mut reply = request;
        reply[0] = ECHO_REPLY;
        assert!(is_reply(&reply, &request));
        assert!(!is_reply(&request, &request), "the question itself");
        let mut raw = vec![0x45; 20];
        raw.extend(reply);
        assert!(is_reply(&raw, &request));
        raw[24] ^= 1;
        assert!(!is_reply(&raw, &request), "of another process");
        reply[7] = 8;
        assert!(!is_reply(&reply, &request));
        assert!(!is_reply(&[], &request));
    }

    #[test]
    fn loopback_answers_every_question() {
        let found = ask("before", Ipv4Addr::LOCALHOST.into(), SocketAddr::from((Ipv4Addr::LOCALHOST, 9)));
        if found.by == "ICMP" {
            assert_eq!((found.sent, found.lost), (10, 0));
            assert!(found.min <= found.median && found.min.is_some());
        }
    }
}
