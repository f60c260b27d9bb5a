//! Captured packets as a file that tcpdump and Wireshark read.

use std::time::Duration;

/// The mark of a file with times in nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Packets begin with their IP header (LINKTYPE_RAW).
const RAW_IP: u32 = 101;
const BYTES_MAX: u32 = 262_144;

/// A packet that was captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// When the kernel had it, since 1970.
    pub at: Duration,
    /// Its length, bytes.
    pub length: usize,
    /// It, from its IP header on, or the beginning of it.
    pub bytes: Vec<u8>,
}

/// A file in the format of libpcap (draft-ietf-opsawg-pcap).
pub fn file(packets: &[Packet]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(MAGIC.to_le_bytes());
    // Version 2.4; time zone and accuracy are always zero.
    out.extend([2, 0, 4, 0]);
    out.extend([0; 8]);
    out.extend(BYTES_MAX.to_le_bytes());
    out.extend(RAW_IP.to_le_bytes());
    for packet in packets {
        let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
        let seconds = usize::try_from(packet.at.as_secs()).unwrap_or(usize::MAX);
        out.extend(word(seconds));
        out.extend(packet.at.subsec_nanos().to_le_bytes());
        out.extend(word(packet.bytes.len()));
        out.extend(word(packet.length));
        out.extend(&packet.bytes);
    }
    out
}

/// The UDP payload of a packet, with the ports before it; nothing if it is no whole UDP packet over IPv4.
pub fn datagram(packet: &[u8]) -> Option<&[u8]> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let is_udp = packet.first()? >> 4 == 4 && *packet.get(9)? == 17;
    let datagram = packet.get(header..)?;
    let length = usize::from(u16::from_be_bytes([*datagram.get(4)?, *datagram.get(5)?]));
    datagram.get(8..length).filter(|_| is_udp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 2];
        packet.extend([0x13, 0xc4, 0x13, 0xc5, 0, 8 + payload.len() as u8, 0, 0]);
        packet.extend(payload);
        packet
    }

    #[test]
    fn file_has_the_known_bytes_of_one_packet() {
        let bytes = packet(b"OPTIONS");
        let file = file(&[Packet { at: Duration::new(0x0102_0304, 5), length: 99, bytes: bytes.clone() }]);
        assert_eq!(file[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(file[20..24], [101, 0, 0, 0]);
        assert_eq!(file[24..40], [4, 3, 2, 1, 5, 0, 0, 0, 35, 0, 0, 0, 99, 0, 0, 0]);
        assert_eq!(file[40..], bytes);
    }

    #[test]
    fn payload_of_a_datagram_is_found() {
        let mut bytes = packet(b"OPTIONS");
        assert_eq!(datagram(&bytes), Some(&b"OPTIONS"[..]));
        assert_eq!(datagram(&bytes[..30]), None, "cut");
        assert_eq!(datagram(&[]), None);
        bytes[9] = 6;
        assert_eq!(datagram(&bytes), None, "TCP");
    }
}
