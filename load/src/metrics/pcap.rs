//! Kept call flows as a capture file that packet analysers read.

use std::net::{IpAddr, SocketAddr};

use super::ladders::{Direction, Ladder, Step};

/// Link type 101: each packet begins with its IPv4 or IPv6 header.
const LINKTYPE_RAW: u32 = 101;
const UDP: u8 = 17;

/// The flows as a pcap file of version 2.4 with microseconds. `epoch_micros` is the wall clock at
/// [`wire::Time::ZERO`], microseconds since 1970.
///
/// Every message is written as one UDP datagram between its two addresses, also those that came over a
/// stream: what is kept are messages and not segments, and this way every analyser shows them. A message
/// longer than was kept, or than a datagram can be, is marked as cut by its original length.
pub fn pcap<'a>(flows: impl IntoIterator<Item = &'a Ladder>, epoch_micros: u64) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(0xa1b2_c3d4_u32.to_le_bytes());
    out.extend(2_u16.to_le_bytes());
    out.extend(4_u16.to_le_bytes());
    out.extend([0; 8]);
    out.extend(262_144_u32.to_le_bytes());
    out.extend(LINKTYPE_RAW.to_le_bytes());
    let mut steps: Vec<&Step> = flows.into_iter().flat_map(|f| &f.steps).filter(|s| s.held).collect();
    steps.sort_by_key(|s| s.at);
    for s in steps {
        let at = epoch_micros.saturating_add(s.at.as_micros());
        let packet = datagram(s);
        let whole = packet.len() + s.length.saturating_sub(s.bytes.len());
        out.extend(((at / 1_000_000) as u32).to_le_bytes());
        out.extend(((at % 1_000_000) as u32).to_le_bytes());
        out.extend((packet.len() as u32).to_le_bytes());
        out.extend(u32::try_from(whole).unwrap_or(u32::MAX).to_le_bytes());
        out.extend(packet);
    }
    out
}

/// IP header, UDP header, payload.
fn datagram(s: &Step) -> Vec<u8> {
    let (from, to) = match s.direction {
        Direction::Sent => (s.local, s.remote),
        Direction::Received => (s.remote, s.local),
    };
    // Lengths are those on the wire, so that a cut packet is seen to be cut.
    let udp_length = (s.length + 8).min(65_507 + 8) as u16;
    let mut udp = Vec::with_capacity(s.bytes.len() + 8);
    udp.extend(from.port().to_be_bytes());
    udp.extend(to.port().to_be_bytes());
    udp.extend(udp_length.to_be_bytes());
    udp.extend([0, 0]);
    udp.extend_from_slice(s.bytes.get(..65_507).unwrap_or(&s.bytes));
    let mut packet = match (from.ip(), to.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let mut ip = vec![0x45, 0];
            ip.extend((udp_length.saturating_add(20)).to_be_bytes());
            // No identification, may not be fragmented, 64 hops.
            ip.extend([0, 0, 0x40, 0, 64, UDP, 0, 0]);
            ip.extend(a.octets());
            ip.extend(b.octets());
            let sum = checksum(&[&ip]);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            ip
        }
        _ => {
            let mut ip = vec![0x60, 0, 0, 0];
            ip.extend(udp_length.to_be_bytes());
            ip.extend([UDP, 64]);
            ip.extend(v6(from));
            ip.extend(v6(to));
            ip
        }
    };
    if s.bytes.len() == s.length {
        // With the pseudo header: addresses, protocol and length (RFC 768; RFC 8200 section 8.1).
        let addresses = if packet[0] == 0x45 { &packet[12..20] } else { &packet[8..40] };
        let pseudo = [&[0, UDP][..], &udp_length.to_be_bytes()].concat();
        let sum = checksum(&[addresses, &pseudo, &udp]);
        udp[6..8].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
    }
    packet.extend(udp);
    packet
}

fn v6(a: SocketAddr) -> [u8; 16] {
    match a.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The Internet checksum (RFC 1071). Every part but the last has an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for pair in parts.iter().flat_map(|p| p.chunks(2)) {
        let high = u32::from(pair.first().copied().unwrap_or(0)) << 8;
        sum += high | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use wire::Time;

    use super::*;

    fn flow(local: &str, remote: &str, bytes: &[u8], length: usize) -> Ladder {
        let step = Step {
            at: Time::from_micros(1_500_000),
            direction: Direction::Received,
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            bytes: bytes.to_vec(),
            length,
            held: true,
        };
        Ladder {
            at: Time::ZERO,
            call_id: "x".to_owned(),
            why: "test".to_owned(),
            steps: vec![step],
            incomplete: false,
        }
    }

    fn u32_at(b: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(b[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn an_empty_file_is_its_header() {
        let none: [Ladder; 0] = [];
        let f = pcap(&none, 0);
        assert_eq!(f.len(), 24);
        assert_eq!((u32_at(&f, 0), u32_at(&f, 20)), (0xa1b2_c3d4, 101));
    }

    #[test]
    fn an_ipv4_datagram_is_whole_and_its_sums_are_right() {
        let f =
            pcap([&flow("127.0.0.1:5070", "127.0.0.2:5060", b"SIP/2.0 200 OK\r\n\r\n", 18)], 1_000_000_000);
        assert_eq!((u32_at(&f, 24), u32_at(&f, 28)), (1_001, 500_000));
        assert_eq!((u32_at(&f, 32), u32_at(&f, 36)), (46, 46));
        let p = &f[40..];
        assert_eq!(p.len(), 46);
        assert_eq!(&p[12..20], [127, 0, 0, 2, 127, 0, 0, 1]);
        assert_eq!(&p[20..24], [0x13, 0xc4, 0x13, 0xce]);
        // A checksum over data with its checksum in it is zero.
        assert_eq!(checksum(&[&p[..20]]), 0);
        assert_eq!(checksum(&[&p[12..20], &[0, UDP, 0, 26], &p[20..]]), 0);
        assert_eq!(&p[28..], b"SIP/2.0 200 OK\r\n\r\n");
    }

    #[test]
    fn ipv6_and_odd_lengths() {
        let f = pcap([&flow("[::1]:5070", "[2001:db8::7]:5060", b"abc", 3)], 0);
        let p = &f[40..];
        assert_eq!((p[0], p[6], p.len()), (0x60, UDP, 51));
        assert_eq!(checksum(&[&p[8..40], &[0, UDP, 0, 11], &p[40..]]), 0);
    }

    #[test]
    fn a_cut_message_says_so() {
        let f = pcap([&flow("127.0.0.1:1", "127.0.0.1:2", &[b'x'; 100], 70_000)], 0);
        assert_eq!((u32_at(&f, 32), u32_at(&f, 36)), (128, 70_028));
        assert_eq!(&f[40 + 2..40 + 4], 65_535_u16.to_be_bytes());
    }
}
