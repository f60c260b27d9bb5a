//! The packets of some associations, and the time between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use lab::associations::Packet as Step;
use lab::statistics::median;
use lab_kernel::Capture;
use lab_kernel::pcap::Packet;

/// How long the kernel may take to hand over what it has captured.
const HANDED_OVER: Duration = Duration::from_millis(500);
/// Packets taken at most: of each association there are about ten.
const MOST: usize = 10_000;

/// The packets of a server, from the beginning on.
#[derive(Debug)]
pub struct Packets {
    capture: Capture,
    server: Ipv4Addr,
}

impl Packets {
    /// Begins to capture what goes to or comes from a server.
    ///
    /// # Errors
    /// Without the right to do so.
    pub fn of(server: IpAddr) -> Result<Packets, String> {
        let IpAddr::V4(server) = server else { return Err("the server has no address of IPv4".to_owned()) };
        let capture = Capture::of(server).map_err(|error| format!("packet socket: {error}"))?;
        Ok(Packets { capture, server })
    }

    /// Ends; the packets of each association in order, with the time since the one before.
    ///
    /// # Errors
    /// If the kernel does not hand them over.
    pub fn steps(self) -> Result<Vec<Step>, String> {
        let packets = self.capture.packets(HANDED_OVER, MOST);
        let packets = packets.map_err(|error| format!("packet socket: {error}"))?;
        let first = packets.first().map(|packet| packet.at).unwrap_or_default();
        let seconds = |packet: &Packet| packet.at.saturating_sub(first).as_secs_f64();
        let captured: Vec<Captured<'_>> =
            packets.iter().map(|packet| (seconds(packet), packet.bytes.as_slice())).collect();
        Ok(steps(&captured, self.server))
    }
}

/// A packet of IPv4: seconds since the first one, and its octets.
type Captured<'a> = (f64, &'a [u8]);

/// An association by the other end.
type Peer = (Ipv4Addr, u16);

/// The other end, whether it sent the packet, and the kinds of what is in it.
fn read(packet: &[u8], server: Ipv4Addr) -> Option<(Peer, bool, Vec<&'static str>)> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    let (from, to) = (address(12)?, address(16)?);
    let length = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let inside = packet.get(header..length.min(packet.len()))?;
    let port = |at: usize| Some(u16::from_be_bytes([*inside.get(at)?, *inside.get(at + 1)?]));
    let sent = to == server;
    let peer = if sent { (from, port(0)?) } else { (to, port(2)?) };
    let kinds = match packet.get(9)? {
        6 => of_tcp(inside)?,
        17 => vec!["DATA"],
        132 => of_sctp(inside),
        _ => return None,
    };
    Some((peer, sent, kinds))
}

fn of_tcp(segment: &[u8]) -> Option<Vec<&'static str>> {
    let (header, flags) = (usize::from(segment.get(12)? >> 4) * 4, segment.get(13)?);
    Some(match (flags & 0x02 != 0, flags & 0x10 != 0) {
        (true, false) => vec!["SYN"],
        (true, true) => vec!["SYN, ACK"],
        _ if segment.len() > header => vec!["DATA"],
        _ => vec!["ACK"],
    })
}

/// Types of chunks (RFC 9260 section 3.2).
fn of_sctp(packet: &[u8]) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    let mut rest = packet.get(12..).unwrap_or_default();
    while let [kind, _, high, low, ..] = rest {
        match kind {
            0 if !kinds.contains(&"DATA") => kinds.push("DATA"),
            1 => kinds.push("INIT"),
            2 => kinds.push("INIT-ACK"),
            10 => kinds.push("COOKIE-ECHO"),
            11 => kinds.push("COOKIE-ACK"),
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes([*high, *low])).next_multiple_of(4).max(4);
        rest = rest.get(length..).unwrap_or_default();
    }
    kinds
}

/// The first packet of each kind of an association, and when it came.
type Sequence = Vec<(String, f64)>;

/// Median times between packets, of the associations whose packets came in the most frequent order.
fn steps(captured: &[Captured<'_>], server: Ipv4Addr) -> Vec<Step> {
    let mut sequences: BTreeMap<Peer, Sequence> = BTreeMap::new();
    for (at, packet) in captured {
        let Some((peer, sent, kinds)) = read(packet, server) else { continue };
        let sequence = sequences.entry(peer).or_default();
        let name = |kind: &str| format!("{}:{kind}", if sent { 's' } else { 'r' });
        let is_known = |kind: &&str| {
            let name = name(kind);
            sequence.iter().any(|(known, _)| known.split('+').any(|part| part == name))
        };
        // Acknowledgements after the set-up are no step.
        let is_late_ack = |kind: &&str| *kind == "ACK" && (!sent || sequence.len() > 2);
        let new: Vec<String> = kinds
            .iter()
            .filter(|kind| !is_known(kind) && !is_late_ack(kind))
            .map(|kind| name(kind))
            .collect();
        if !new.is_empty() {
            sequence.push((new.join("+"), *at));
        }
    }
    let mut orders: BTreeMap<Vec<&str>, Vec<&Sequence>> = BTreeMap::new();
    for sequence in sequences.values() {
        orders.entry(sequence.iter().map(|(name, _)| name.as_str()).collect()).or_default().push(sequence);
    }
    let Some((names, usual)) = orders.iter().max_by_key(|(_, all)| all.len()) else { return Vec::new() };
    let step = |(nth, name): (usize, &&str)| {
        let time = |sequence: &Sequence, at: usize| sequence.get(at).map_or(0.0, |(_, time)| *time);
        let before = nth.saturating_sub(1);
        let gaps: Vec<f64> = usual.iter().map(|s| (time(s, nth) - time(s, before)) * 1e3).collect();
        let seen = u64::try_from(gaps.len()).unwrap_or(u64::MAX);
        Step { name: (*name).to_owned(), ms: median(&gaps).unwrap_or(0.0), seen }
    };
    names.iter().enumerate().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Ipv4Addr = Ipv4Addr::new(127, 16, 0, 1);
    const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 16, 0, 2);

    /// A packet of IPv4 to the server, or from it.
    fn packet(protocol: u8, sent: bool, inside: &[u8]) -> Vec<u8> {
        let (from, to) = if sent { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let length = u16::try_from(20 + 4 + inside.len()).expect("short").to_be_bytes();
        let mut all = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0];
        all.extend(from.octets());
        all.extend(to.octets());
        let (own, other) = if sent { (10_000_u16, 5060_u16) } else { (5060, 10_000) };
        all.extend(own.to_be_bytes());
        all.extend(other.to_be_bytes());
        all.extend(inside);
        all
    }

    fn chunks(kinds: &[u8]) -> Vec<u8> {
        let mut all = vec![0; 8];
        kinds.iter().for_each(|kind| all.extend([*kind, 0, 0, 5, 1, 0, 0, 0]));
        all
    }

    fn said(packets: &[Vec<u8>]) -> Vec<(String, f64)> {
        let captured: Vec<Captured<'_>> =
            packets.iter().enumerate().map(|(nth, packet)| (nth as f64 / 1e3, packet.as_slice())).collect();
        steps(&captured, SERVER).into_iter().map(|step| (step.name, (step.ms * 1e3).round() / 1e3)).collect()
    }

    #[test]
    fn handshake_of_sctp_is_read_with_data_on_its_cookie() {
        let sctp = |sent, kinds: &[u8]| packet(132, sent, &chunks(kinds));
        // 3 is a SACK.
        let all = [
            sctp(true, &[1]),
            sctp(false, &[2]),
            sctp(true, &[10, 0, 0]),
            sctp(false, &[11, 3]),
            sctp(false, &[0]),
        ];
        let names = ["s:INIT", "r:INIT-ACK", "s:COOKIE-ECHO+s:DATA", "r:COOKIE-ACK", "r:DATA"];
        let found = said(&all);
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
        assert_eq!(found.iter().map(|(_, ms)| *ms).collect::<Vec<_>>(), [0.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn handshake_of_tcp_ends_with_the_first_data() {
        let tcp = |sent, flags: u8, data: usize| {
            let mut inside = vec![0; 16];
            (inside[8], inside[9]) = (0x50, flags);
            inside.resize(16 + data, 1);
            packet(6, sent, &inside)
        };
        let all = [
            tcp(true, 0x02, 0),
            tcp(false, 0x12, 0),
            tcp(true, 0x10, 0),
            tcp(true, 0x18, 9),
            tcp(false, 0x10, 0),
            tcp(false, 0x18, 9),
            tcp(true, 0x10, 0),
        ];
        let names: Vec<String> = said(&all).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["s:SYN", "r:SYN, ACK", "s:ACK", "s:DATA", "r:DATA"]);
    }

    #[test]
    fn damaged_packets_are_read_as_far_as_they_go() {
        for length in 0..30 {
            assert!(read(&vec![0xff; length], SERVER).is_none_or(|(_, _, kinds)| kinds.is_empty()));
        }
        assert!(of_sctp(&[0; 64]).len() <= 1);
    }
}
