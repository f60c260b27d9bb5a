//! Classic BPF programs for packet sockets, which see IPv4 packets from their header on.

use std::net::Ipv4Addr;

use libc::sock_filter;

/// Offsets in the IPv4 header.
const FRAGMENT: u32 = 6;
const PROTOCOL: u32 = 9;
const SOURCE: u32 = 12;
const DESTINATION: u32 = 16;
/// Bits of the field that has the offset of a fragment.
const OFFSET: u32 = 0x1fff;

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const IF_EQUAL: u16 = 0x15;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const fn step(code: u16, value: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code, jt: then, jf: otherwise, k: value }
}

/// Accepts packets of a protocol between two hosts, in both directions, fragments but the first left out; one
/// byte of each.
pub fn between(protocol: u8, one: Ipv4Addr, other: Ipv4Addr) -> [sock_filter; 13] {
    let (one, other) = (one.to_bits(), other.to_bits());
    [
        step(LOAD_BYTE, PROTOCOL, 0, 0),
        step(IF_EQUAL, u32::from(protocol), 0, 10),
        step(LOAD_HALF, FRAGMENT, 0, 0),
        step(IF_ANY_BIT, OFFSET, 8, 0),
        step(LOAD_WORD, SOURCE, 0, 0),
        step(IF_EQUAL, one, 0, 2),
        step(LOAD_WORD, DESTINATION, 0, 0),
        step(IF_EQUAL, other, 3, 4),
        step(IF_EQUAL, other, 0, 3),
        step(LOAD_WORD, DESTINATION, 0, 0),
        step(IF_EQUAL, one, 0, 1),
        step(RETURN, 1, 0, 0),
        step(RETURN, 0, 0, 0),
    ]
}

/// Accepts all packets from and to a host, up to this number of bytes of each.
pub fn of_host(host: Ipv4Addr, bytes: u32) -> [sock_filter; 6] {
    [
        step(LOAD_WORD, SOURCE, 0, 0),
        step(IF_EQUAL, host.to_bits(), 2, 0),
        step(LOAD_WORD, DESTINATION, 0, 0),
        step(IF_EQUAL, host.to_bits(), 0, 1),
        step(RETURN, bytes, 0, 0),
        step(RETURN, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program returns for a packet.
    fn result(program: &[sock_filter], packet: &[u8]) -> u32 {
        let (mut at, mut accumulator) = (0_usize, 0_u32);
        loop {
            let step = program[at];
            at += 1;
            let offset = step.k as usize;
            match step.code {
                LOAD_WORD => {
                    accumulator = u32::from_be_bytes(packet[offset..offset + 4].try_into().expect("four"));
                }
                LOAD_HALF => {
                    accumulator =
                        u32::from(u16::from_be_bytes(packet[offset..offset + 2].try_into().expect("two")));
                }
                LOAD_BYTE => accumulator = u32::from(packet[offset]),
                IF_EQUAL => at += usize::from(if accumulator == step.k { step.jt } else { step.jf }),
                IF_ANY_BIT => at += usize::from(if accumulator & step.k != 0 { step.jt } else { step.jf }),
                RETURN => return step.k,
                other => panic!("{other}"),
            }
        }
    }

    fn packet(protocol: u8, offset: u16, from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet[6..8].copy_from_slice(&offset.to_be_bytes());
        packet.extend(from);
        packet.extend(to);
        packet
    }

    const A: [u8; 4] = [127, 16, 0, 1];
    const B: [u8; 4] = [127, 16, 0, 2];
    const C: [u8; 4] = [127, 16, 0, 3];

    #[test]
    fn packets_between_two_hosts_are_told_from_others() {
        let program = between(17, A.into(), B.into());
        assert_eq!([(A, B), (B, A)].map(|(from, to)| result(&program, &packet(17, 0, from, to))), [1, 1]);
        for other in [
            packet(17, 0, A, A),
            packet(17, 0, B, B),
            packet(17, 0, C, B),
            packet(17, 0, A, C),
            packet(6, 0, A, B),
            // The second fragment of a datagram; more fragments follow the first.
            packet(17, 185, A, B),
        ] {
            assert_eq!(result(&program, &other), 0, "{other:?}");
        }
        assert_eq!(result(&program, &packet(17, 0x2000, A, B)), 1);
    }

    #[test]
    fn packets_of_a_host_are_taken_in_both_directions() {
        let program = of_host(A.into(), 100);
        let results = [(A, B), (B, A), (B, B)].map(|(from, to)| result(&program, &packet(6, 0, from, to)));
        assert_eq!(results, [100, 100, 0]);
    }
}
