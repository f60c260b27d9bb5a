//! An interpreter for the programs that are assembled here, so that what they answer can be tested
//! everywhere: no kernel and no privilege needed. It knows the instructions that the assembler writes and the
//! few functions that the programs call, and refuses every access outside the memory that the kernel would
//! allow.

use crate::program::{HEADER, MAP_LOOKUP_ELEM, SK_SELECT_REUSEPORT, SKB_LOAD_BYTES};
use crate::sieve::{FROM_IP, KTIME_GET_NS, SKB_LOAD_BYTES_RELATIVE};
use kernel_programs::{SieveProgram, SteeringProgram};
use std::net::IpAddr;
use std::ops::Range;

/// What a run of the program came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The worker chosen, if one was.
    pub chosen: Option<u16>,
    /// Instructions executed, those of called functions apart.
    pub instructions: u32,
    /// Whether the packet was copied.
    pub copied: bool,
}

/// What a run of a sieve came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sifted {
    /// Whether it dropped the datagram.
    pub dropped: bool,
    /// What it counted as dropped, over all workers.
    pub counted: u64,
    /// Instructions executed, those of called functions apart.
    pub instructions: u32,
}

/// Why a program was stopped: always a fault of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It read or wrote where it may not, at this instruction.
    Access(usize),
    /// It would have the kernel drop the packet.
    Drop,
    /// It ran out of itself, or holds what the assembler never writes.
    Instruction(usize),
    /// It went on for longer than any program that ends.
    Endless,
}

/// Instructions after which a program is taken for endless.
const MOST: u32 = 100_000;
/// Where each kind of memory begins.
const CONTEXT: u64 = 1 << 32;
const PACKET: u64 = 2 << 32;
const STACK: u64 = 3 << 32;
const SCRATCH: u64 = 4 << 32;
const MAPS: u64 = 5 << 32;
const TABLE: u64 = 6 << 32;
const MEMORY: u64 = 7 << 32;
const STACK_BYTES: u64 = 512;
/// Headers without an end.
const STALE: &[u8] = b"\r\nVia: x\r\nCall-ID: stale@before\r\nTo: y";
/// The answer that lets the packet pass; any other loses it.
const SK_PASS: u64 = 1;
/// The answers of a sieve: nothing of the packet, or as much of it as there is.
const NOTHING: u32 = 0;
const WHOLE: u32 = u32::MAX;
/// Where the sender's address is in an IP header of either version.
const SENDERS: [usize; 2] = [12, 8];

/// Runs the program for a datagram with this payload, of which the first `linear` bytes can be reached
/// directly, as a network driver may have it.
///
/// # Errors
/// What no program that the kernel takes does.
pub fn run(program: &SteeringProgram, payload: &[u8], linear: usize) -> Result<Run, Fault> {
    let header = HEADER as usize;
    let mut packet = vec![0; header];
    packet.extend_from_slice(payload);
    let linear = (header + linear).min(packet.len());
    let mut context = Vec::new();
    context.extend(PACKET.to_le_bytes());
    context.extend((PACKET + linear as u64).to_le_bytes());
    context.extend((packet.len() as u32).to_le_bytes());
    let mut machine = Machine {
        registers: [0; 11],
        context,
        packet,
        linear,
        stack: vec![0; STACK_BYTES as usize],
        scratch: stale(payload.len(), program.scratch),
        sieve: None,
        result: Run { chosen: None, instructions: 0, copied: false },
    };
    match machine.run(&program.code)? {
        SK_PASS => Ok(machine.result),
        _ => Err(Fault::Drop),
    }
}

/// Runs the sieve at this time, in nanoseconds, for a datagram with this payload from here. `tables` are what
/// the workers have written, each with the time until which it is good. Of what is remembered as dropped in
/// `memory`, which is empty at first, the first generation is the young one.
///
/// # Errors
/// What no program that the kernel takes does.
pub fn sift(
    program: &SieveProgram,
    payload: &[u8],
    from: IpAddr,
    now: u64,
    tables: &[(u64, &[u32])],
    memory: &mut Vec<u8>,
) -> Result<Sifted, Fault> {
    let mut packet = vec![0; HEADER as usize];
    packet.extend_from_slice(payload);
    let mut ip = vec![0; 40];
    let (version, octets) = match from {
        IpAddr::V4(ip) => (0x45, ip.octets().to_vec()),
        IpAddr::V6(ip) => (0x60, ip.octets().to_vec()),
    };
    let at = SENDERS[usize::from(from.is_ipv6())];
    ip[0] = version;
    ip[at..at + octets.len()].copy_from_slice(&octets);
    let mut table = vec![0; program.entry() * tables.len()];
    for ((until, words), entry) in tables.iter().zip(table.chunks_exact_mut(program.entry())) {
        entry[SieveProgram::UNTIL..][..8].copy_from_slice(&until.to_le_bytes());
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        entry[SieveProgram::WORDS..].iter_mut().zip(words).for_each(|(byte, word)| *byte = word);
    }
    reserve(memory, each(program) * tables.len());
    let mut machine = Machine {
        registers: [0; 11],
        context: (packet.len() as u32).to_le_bytes().to_vec(),
        linear: 0,
        packet,
        stack: vec![0; STACK_BYTES as usize],
        scratch: stale(payload.len(), program.scratch),
        sieve: Some(Sieve {
            ip,
            table,
            entry: program.entry(),
            memory: std::mem::take(memory),
            each: each(program),
            now,
        }),
        result: Run { chosen: None, instructions: 0, copied: false },
    };
    let dropped = match machine.run(&program.code)? as u32 {
        WHOLE => false,
        NOTHING => true,
        _ => return Err(Fault::Drop),
    };
    let table = machine.sieve.map_or(Vec::new(), |sieve| {
        *memory = sieve.memory;
        sieve.table
    });
    let counts =
        table.chunks_exact(program.entry()).filter_map(|entry| entry[SieveProgram::DROPPED..].first_chunk());
    let counted = counts.map(|count| u64::from_le_bytes(*count)).sum();
    Ok(Sifted { dropped, counted, instructions: machine.result.instructions })
}

/// Bytes of memory of a worker.
fn each(program: &SieveProgram) -> usize {
    SieveProgram::GENERATIONS * program.memory as usize
}

/// At least so many bytes; at first they cost nothing until they are written.
fn reserve(memory: &mut Vec<u8>, bytes: usize) {
    match memory.is_empty() {
        true => *memory = vec![0; bytes],
        false => memory.resize(bytes.max(memory.len()), 0),
    }
}

/// As the only worker does that says so: these bits pass from now on.
pub fn know(program: &SieveProgram, memory: &mut Vec<u8>, bits: &[u32]) {
    reserve(memory, each(program));
    let known = &mut memory[SieveProgram::KNOWN * program.memory as usize..];
    bits.iter().for_each(|bit| known[*bit as usize / 8] |= 1 << (bit % 8));
}

/// Not zeros: what an earlier packet left there, which nothing ends, at another place for each length.
fn stale(length: usize, bytes: u32) -> Vec<u8> {
    STALE.iter().copied().cycle().skip(length).take(bytes as usize).collect()
}

/// What a sieve has besides.
struct Sieve {
    /// The beginning of the IP header.
    ip: Vec<u8>,
    table: Vec<u8>,
    /// Bytes of an entry of the table.
    entry: usize,
    memory: Vec<u8>,
    /// Bytes of it for each worker.
    each: usize,
    now: u64,
}

struct Machine {
    registers: [u64; 11],
    context: Vec<u8>,
    packet: Vec<u8>,
    linear: usize,
    stack: Vec<u8>,
    scratch: Vec<u8>,
    sieve: Option<Sieve>,
    result: Run,
}

/// The parts of an instruction.
struct Parts {
    op: u8,
    dst: usize,
    src: usize,
    offset: i16,
    imm: i32,
}

impl Parts {
    fn of(code: u64) -> Parts {
        Parts {
            op: code as u8,
            dst: (code >> 8 & 0xf) as usize,
            src: (code >> 12 & 0xf) as usize,
            offset: (code >> 16) as i16,
            imm: (code >> 32) as i32,
        }
    }
}

impl Machine {
    /// Its answer.
    fn run(&mut self, code: &[u64]) -> Result<u64, Fault> {
        self.registers[1] = CONTEXT;
        self.registers[10] = STACK + STACK_BYTES;
        let mut at = 0;
        loop {
            self.result.instructions += 1;
            if self.result.instructions > MOST {
                return Err(Fault::Endless);
            }
            let wrong = Fault::Instruction(at);
            let parts = Parts::of(*code.get(at).ok_or(wrong)?);
            if parts.dst > 10 || parts.src > 10 {
                return Err(wrong);
            }
            at += 1;
            match parts.op & 0x07 {
                0x00 => {
                    let high = code.get(at).ok_or(wrong)? >> 32;
                    let number = u64::from(parts.imm as u32) | high << 32;
                    self.registers[parts.dst] = if parts.src == 1 { MAPS + number } else { number };
                    at += 1;
                }
                0x01 => self.registers[parts.dst] = self.load(&parts).ok_or(Fault::Access(at - 1))?,
                0x03 if parts.op != 0xdb => self.store(&parts).ok_or(Fault::Access(at - 1))?,
                0x04 | 0x07 => self.alu(&parts).ok_or(wrong)?,
                0x03 if parts.op == 0xdb => self.add(&parts).ok_or(Fault::Access(at - 1))?,
                0x05 if parts.op == 0x95 => return Ok(self.registers[0]),
                0x05 if parts.op == 0x85 => self.call(parts.imm).ok_or(Fault::Access(at - 1))?,
                0x05 => {
                    if self.jumps(&parts).ok_or(wrong)? {
                        at = at.checked_add_signed(isize::from(parts.offset)).ok_or(wrong)?;
                    }
                }
                _ => return Err(wrong),
            }
        }
    }

    fn second(&self, parts: &Parts) -> u64 {
        if parts.op & 0x08 != 0 { self.registers[parts.src] } else { i64::from(parts.imm) as u64 }
    }

    fn alu(&mut self, parts: &Parts) -> Option<()> {
        let (first, second) = (self.registers[parts.dst], self.second(parts));
        let narrow = parts.op & 0x07 == 0x04;
        let (first, second) =
            if narrow { (first & 0xffff_ffff, second & 0xffff_ffff) } else { (first, second) };
        let result = match parts.op & 0xf0 {
            0x00 => first.wrapping_add(second),
            0x10 => first.wrapping_sub(second),
            0x20 => first.wrapping_mul(second),
            0x40 => first | second,
            0x50 => first & second,
            0x60 if !narrow => first.checked_shl(u32::try_from(second).ok()?)?,
            0x70 if !narrow => first.checked_shr(u32::try_from(second).ok()?)?,
            0x80 => first.wrapping_neg(),
            0xa0 => first ^ second,
            0xb0 => second,
            _ => return None,
        };
        self.registers[parts.dst] = if narrow { result & 0xffff_ffff } else { result };
        Some(())
    }

    fn jumps(&self, parts: &Parts) -> Option<bool> {
        let (first, second) = (self.registers[parts.dst], self.second(parts));
        Some(match parts.op & 0xf0 {
            0x00 => true,
            0x10 => first == second,
            0x20 => first > second,
            0x30 => first >= second,
            0x40 => first & second != 0,
            0x50 => first != second,
            0xa0 => first < second,
            _ => return None,
        })
    }

    /// Memory at this address, if all of it may be used.
    fn memory(&mut self, address: u64, len: usize, write: bool) -> Option<&mut [u8]> {
        let place = (address & 0xffff_ffff) as usize;
        let range: Range<usize> = place..place.checked_add(len)?;
        match address >> 32 << 32 {
            CONTEXT if !write => self.context.get_mut(range),
            PACKET if !write => self.packet.get_mut(..self.linear)?.get_mut(range),
            STACK => self.stack.get_mut(range),
            SCRATCH => self.scratch.get_mut(range),
            TABLE => self.sieve.as_mut()?.table.get_mut(range),
            MEMORY => self.sieve.as_mut()?.memory.get_mut(range),
            _ => None,
        }
    }

    fn address(&self, register: usize, offset: i16) -> u64 {
        self.registers[register].wrapping_add_signed(i64::from(offset))
    }

    fn size(op: u8) -> Option<usize> {
        match op & 0xf8 {
            0x70 => Some(1),
            0x60 => Some(4),
            0x78 => Some(8),
            _ => None,
        }
    }

    fn load(&mut self, parts: &Parts) -> Option<u64> {
        let address = self.address(parts.src, parts.offset);
        let bytes = self.memory(address, Machine::size(parts.op)?, false)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn store(&mut self, parts: &Parts) -> Option<()> {
        let (address, number) = (self.address(parts.dst, parts.offset), self.registers[parts.src]);
        let len = Machine::size(parts.op)?;
        self.memory(address, len, true)?.copy_from_slice(number.to_le_bytes().get(..len)?);
        Some(())
    }

    /// Adds to what is in memory.
    fn add(&mut self, parts: &Parts) -> Option<()> {
        let (address, number) = (self.address(parts.dst, parts.offset), self.registers[parts.src]);
        let bytes = self.memory(address, 8, true).filter(|_| parts.imm == 0)?;
        let sum = u64::from_le_bytes((*bytes).try_into().ok()?).wrapping_add(number);
        bytes.copy_from_slice(&sum.to_le_bytes());
        Some(())
    }

    /// Where the value of a map is; zero: there is none.
    fn look_up(&mut self, map: u64, key: u64) -> Option<u64> {
        let key = u32::from_le_bytes((*self.memory(key, 4, false)?).try_into().ok()?);
        if map == MAPS + SteeringProgram::SCRATCH as u64 {
            return Some(if key == 0 { SCRATCH } else { 0 });
        }
        let sieve = self.sieve.as_ref()?;
        let (values, base, each) = match map.checked_sub(MAPS)? as i32 {
            SieveProgram::TABLE => (&sieve.table, TABLE, sieve.entry),
            SieveProgram::MEMORY => (&sieve.memory, MEMORY, sieve.each),
            _ => return None,
        };
        let at = each * key as usize;
        Some(if at < values.len() { base + at as u64 } else { 0 })
    }

    fn call(&mut self, function: i32) -> Option<()> {
        let [_, r1, r2, r3, r4, r5, ..] = self.registers;
        let result = match function {
            MAP_LOOKUP_ELEM => self.look_up(r1, r2)?,
            KTIME_GET_NS => self.sieve.as_ref()?.now,
            SKB_LOAD_BYTES_RELATIVE => {
                (r1 == CONTEXT && r5 == FROM_IP as u64).then_some(())?;
                let (from, len) = (usize::try_from(r2).ok()?, usize::try_from(r4).ok()?);
                let bytes = self.sieve.as_ref()?.ip.get(from..from.checked_add(len)?)?.to_vec();
                self.memory(r3, len, true)?.copy_from_slice(&bytes);
                0
            }
            SKB_LOAD_BYTES => {
                (r1 == CONTEXT && r4 > 0).then_some(())?;
                let (from, len) = (usize::try_from(r2).ok()?, usize::try_from(r4).ok()?);
                let bytes = self.packet.get(from..from.checked_add(len)?)?.to_vec();
                self.memory(r3, len, true)?.copy_from_slice(&bytes);
                self.result.copied = true;
                0
            }
            SK_SELECT_REUSEPORT => {
                (r1 == CONTEXT && r2 == MAPS + SteeringProgram::SOCKETS as u64 && r4 == 0).then_some(())?;
                let key: [u8; 4] = (*self.memory(r3, 4, false)?).try_into().ok()?;
                self.result.chosen = Some(u16::try_from(u32::from_le_bytes(key)).ok()?);
                0
            }
            _ => return None,
        };
        // What a call may overwrite, it does.
        self.registers = [
            result,
            u64::MAX,
            u64::MAX,
            u64::MAX,
            u64::MAX,
            u64::MAX,
            self.registers[6],
            self.registers[7],
            self.registers[8],
            self.registers[9],
            self.registers[10],
        ];
        Some(())
    }
}
