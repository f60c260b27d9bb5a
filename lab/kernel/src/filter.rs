//! Programs for packet sockets, which see IPv4 packets from their header on: a classic one that selects
//! packets, and one that counts them.

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
const IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Where `struct __sk_buff` has the number of datagrams or segments that the packet stands for.
const PARTS: i16 = 164;
/// The helper `bpf_map_lookup_elem`.
const LOOK_UP: i32 = 1;

const fn step(code: u16, value: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code, jt: then, jf: otherwise, k: value }
}

/// An instruction of the kernel's machine (RFC 9669 section 3.1).
const fn code(opcode: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    let registers = (to | from << 4) as u64;
    opcode as u64 | registers << 8 | (offset as u16 as u64) << 16 | (value as u32 as u64) << 32
}

/// Adds the packets of a protocol between two hosts, in both directions, to a sum, and passes none of them
/// on. Fragments but the first are left out. A packet that the kernel has not cut yet (`UDP_SEGMENT`) counts
/// as what it stands for.
pub fn counting(protocol: u8, one: Ipv4Addr, other: Ipv4Addr, sum: u32) -> [u64; 25] {
    let (one, other) = (one.to_bits().cast_signed(), other.to_bits().cast_signed());
    [
        // Loads from the packet want its description in r6, put the value into r0, and end the program with 0
        // where the packet is shorter.
        code(0xbf, 6, 1, 0, 0),                  // 0: r6 = r1
        code(0x30, 0, 0, 0, PROTOCOL as i32),    // 1: r0 = the protocol
        code(0x55, 0, 0, 20, protocol as i32),   // 2: another one: to 23
        code(0x28, 0, 0, 0, FRAGMENT as i32),    // 3: r0 = offset of the fragment
        code(0x45, 0, 0, 18, OFFSET as i32),     // 4: not the first: to 23
        code(0x20, 0, 0, 0, SOURCE as i32),      // 5: r0 = the source
        code(0xbf, 7, 0, 0, 0),                  // 6: r7 = r0
        code(0x20, 0, 0, 0, DESTINATION as i32), // 7: r0 = the destination
        code(0x56, 7, 0, 1, one),                // 8: not from one: to 10
        code(0x16, 0, 0, 2, other),              // 9: to the other: to 12
        code(0x56, 7, 0, 12, other),             // 10: not from the other: to 23
        code(0x56, 0, 0, 11, one),               // 11: not to one: to 23
        code(0x61, 8, 6, PARTS, 0),              // 12: r8 = its parts
        code(0x55, 8, 0, 1, 0),                  // 13: some: to 15
        code(0xb7, 8, 0, 0, 1),                  // 14: r8 = 1
        code(0x62, 10, 0, -4, 0),                // 15: on the stack: key 0
        code(0xbf, 2, 10, 0, 0),                 // 16: r2 = the stack
        code(0x07, 2, 0, 0, -4),                 // 17: r2 = address of the key
        code(0x18, 1, 1, 0, sum.cast_signed()),  // 18: r1 = the map (two instructions)
        0,                                       // 19
        code(0x85, 0, 0, 0, LOOK_UP),            // 20: r0 = address of the sum
        code(0x15, 0, 0, 1, 0),                  // 21: none: to 23
        code(0xdb, 0, 8, 0, 0),                  // 22: add r8 to it, atomically
        code(0xb7, 0, 0, 0, 0),                  // 23: r0 = 0: pass nothing on
        code(0x95, 0, 0, 0, 0),                  // 24: end
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
                IF_EQUAL => at += usize::from(if accumulator == step.k { step.jt } else { step.jf }),
                RETURN => return step.k,
                other => panic!("{other}"),
            }
        }
    }

    fn packet(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
        packet.extend(from);
        packet.extend(to);
        packet
    }

    #[test]
    fn packets_of_a_host_are_taken_in_both_directions() {
        let (a, b) = ([127, 16, 0, 1], [127, 16, 0, 2]);
        let program = of_host(a.into(), 100);
        let results = [(a, b), (b, a), (b, b)].map(|(from, to)| result(&program, &packet(from, to)));
        assert_eq!(results, [100, 100, 0]);
    }
}
