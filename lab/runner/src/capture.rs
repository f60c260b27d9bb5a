//! Packets just before and just after a measurement, never within: a capture takes processor time.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use lab::checks::Capture;
use lab_kernel::pcap::{Packet, datagram, file};

use crate::witness::refusal;

/// How long a capture lasts, and how many packets it has at most.
pub const LENGTH: Duration = Duration::from_millis(500);
const PACKETS_MAX: usize = 400;

/// Takes the packets of a host for a while: a summary, and the file.
///
/// # Errors
/// A sentence that says why there is none.
pub fn take(host: IpAddr, name: &str, length: Duration) -> Result<(Capture, Vec<u8>), String> {
    let IpAddr::V4(host) = host else { return Err("it sees IPv4 packets only".to_owned()) };
    let begun = lab_kernel::Capture::of(host).map_err(|error| refusal(&error))?;
    let packets = begun.packets(length, PACKETS_MAX).map_err(|error| refusal(&error))?;
    Ok((summary(name, &packets), file(&packets)))
}

fn summary(name: &str, packets: &[Packet]) -> Capture {
    let mut seen = BTreeSet::new();
    let (mut repeated, mut errors) = (0, 0);
    for packet in packets {
        let Some(message) = datagram(&packet.bytes).filter(|message| !message.is_empty()) else { continue };
        // Addresses and message: a proxy changes the topmost Via, so a forwarded message is another one.
        let addresses = packet.bytes.get(12..20);
        if !seen.insert((addresses, message)) {
            repeated += 1;
        }
        errors += usize::from(is_error(message));
    }
    let seconds = match packets {
        [first, .., last] => last.at.saturating_sub(first.at).as_secs_f64(),
        _ => 0.0,
    };
    Capture { file: name.to_owned(), packets: packets.len(), seconds, repeated, errors }
}

/// A response of an error, other than a challenge.
fn is_error(message: &[u8]) -> bool {
    let status = message.strip_prefix(b"SIP/2.0 ").and_then(|rest| rest.get(..3));
    status.is_some_and(|status| status >= &b"400"[..] && status != b"401" && status != b"407")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(at: u64, from: u8, message: &str) -> Packet {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, from, 127, 0, 0, 9];
        bytes.extend([0x13, 0xc4, 0x13, 0xc4, 0, 8 + message.len() as u8, 0, 0]);
        bytes.extend(message.as_bytes());
        Packet { at: Duration::from_millis(at), length: bytes.len(), bytes }
    }

    #[test]
    fn repeated_messages_and_errors_are_counted() {
        let packets = [
            packet(0, 1, "INVITE a"),
            packet(1, 2, "INVITE a"),
            packet(2, 2, "SIP/2.0 407 Proxy Authentication Required"),
            packet(3, 2, "SIP/2.0 503 Service Unavailable"),
            packet(500, 1, "INVITE a"),
        ];
        let found = summary("before.pcap", &packets);
        assert_eq!((found.packets, found.repeated, found.errors, found.seconds), (5, 1, 1, 0.5));
        assert_eq!(summary("x", &[]).packets, 0);
    }
}
