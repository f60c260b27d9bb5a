//! The program that the kernel runs for each datagram to an overloaded worker.
//!
//! It drops what the worker would leave unanswered, before the worker has to pay for it: new work of calls
//! whose lot is not below the share of its source. So it has to know as much as the worker does when it
//! leaves something unanswered: the method, whether there is a tag in To, the Call-ID, and the address that
//! it came from. Where it is not certain of any of these it lets the datagram pass, and the worker judges. So
//! it does with calls to emergency services: those named by a URN, and those to one of the numbers in the
//! table, or to what begins as they do where there are too many of them.
//!
//! The shares stand in a map that the worker writes ([`SieveProgram`]). They are good until the time
//! written beside them, so that a worker that stands still has nothing dropped for long.
//!
//! Shares move. An INVITE that it has dropped it drops again when it is repeated, wherever the threshold is
//! by then: nobody is connected when it is too late. It remembers those near the threshold by two bits each.
//! And what the worker has taken on passes, wherever the threshold is by then: that is a repetition of what
//! was accepted, or comes with the credentials that it was asked for. The worker says so by two bits each.
//!
//! The message is copied, as a program of this kind must not look at a packet where it lies: its beginning
//! first, and the rest where that is of a request that may be dropped. Then the search of [`crate::program`]
//! goes on in it.

use crate::asm::Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::asm::{Alu, Assembler, If, Label, Size};
use crate::hash::{FINISH, LOT_BITS, Ownership};
use crate::memory::{BIT_SHIFT, GENERATION};
use crate::program::{
    CASE, CONTEXT, COPIED, END, HEADER, KEY, LEFT, MAP_LOOKUP_ELEM, NEWLINE, PLACES, SCRATCH, SKB_LOAD_BYTES,
    SPACE, Search, TAB, add, constants, finish, owner,
};
use crate::table::{BEGINNING, BUCKETS, NUMBERS, NUMBERS_AT, OTHERS, ROWS, SALTS, SHIFT, Threshold, WORDS};
use kernel_programs::SieveProgram;

/// Looks at a line, at 64 bytes of it or at a byte of To, before the program gives up.
pub const SIEVE_STEPS: i32 = 448;

/// Fields of `struct __sk_buff` (`include/uapi/linux/bpf.h`).
const SKB_LEN: i16 = 0;
/// Numbers of the kernel's functions (`enum bpf_func_id`).
pub(crate) const KTIME_GET_NS: i32 = 5;
pub(crate) const SKB_LOAD_BYTES_RELATIVE: i32 = 68;
/// From the beginning of the IP header (`enum bpf_hdr_start_off`).
pub(crate) const FROM_IP: i32 = 1;
/// The program's result: the whole datagram, or nothing of it.
const PASS: i32 = -1;
const DROP: i32 = 0;

/// Where behind the message a number is kept: the sum, what was found, which bits of the shift are added to
/// the lot and of the sender turned, none or all ([`LOTS`]), and the beginning of the called user. The
/// kernel's check does not follow what is there, so that what comes behind is checked once, and not for each
/// way there.
const SUM: i16 = SCRATCH as i16;
const FOUND: i16 = SUM + 8;
const SHIFTED: i16 = FOUND + 8;
const CALLED: i16 = SHIFTED + 8;
/// Where that ends.
const END_OF_SCRATCH: u32 = SCRATCH + 32;
/// Where on the stack a number is kept, besides those of the search: the bits for requests other than INVITE,
/// first and last; the number of the call; the threshold, and what is near to it; and the first eight bytes
/// of the user that an INVITE or MESSAGE calls.
const OTHER_BITS: i16 = -48;
const CALL: i16 = -56;
const THRESHOLD: i16 = -88;
const USER: i16 = -96;
const NEAR: i16 = -104;
/// The beginning of the message, and later in the same place that of the IP header.
const HEAD: i16 = -80;
const HEAD_LEN: i32 = 24;
const ADDRESSES: i16 = -80;
/// How much of it, and where the sender's address is in either version: of one of IPv6 its first half.
const ADDRESSES_LEN: i32 = 16;
const SENDER_V4: i16 = ADDRESSES + 12;
const SENDER_V6: i16 = ADDRESSES + 8;

/// Bytes of a word of the table.
const BYTES: i32 = 4;
/// The highest lot.
const LOTS: i32 = 0xffff;
const _: () = assert!(OTHERS == LOTS as u64);
/// What was found, as bits.
const HAS_CALL_ID: i32 = 1;
const HAS_TO: i32 = 2;

/// The beginnings of requests that may be dropped, if there is no tag in To: those of eight bytes.
/// Not OPTIONS, of which some are answered whatever there is.
const METHODS: [&[u8; 8]; 3] = [b"REGISTER", b"SUBSCRIB", b"PUBLISH "];
const MESSAGE: &[u8; 8] = b"MESSAGE ";
/// The same with the last byte first, and a zero in its place.
const INVITE: &[u8; 8] = b"\0INVITE ";
/// The beginning of a Request-URI that is never dropped: emergency services are named so (RFC 5031).
const URN: i32 = i32::from_le_bytes(*b"urn:");
const LOWER: i32 = i32::from_le_bytes([CASE; 4]);
/// What is looked for in To.
const TAG: i32 = (b't' as i32) << 16 | (b'a' as i32) << 8 | b'g' as i32;

impl Ownership {
    /// The program that drops in the kernel what an overloaded worker would leave unanswered, for as many
    /// workers. `None` as for [`Ownership::program`].
    pub fn sieve(&self, workers: u16) -> Option<SieveProgram> {
        if cfg!(target_endian = "big") { None } else { assemble(self, workers) }
    }
}

/// The program for `workers` workers.
fn assemble(ownership: &Ownership, workers: u16) -> Option<SieveProgram> {
    let mut asm = Assembler::new();
    let [pass, chosen, to, decide] = core::array::from_fn(|_| asm.label());
    let search = Search::with_to(&mut asm, pass, chosen, to);
    head(&mut asm, pass);
    method(&mut asm, pass);
    copy(&mut asm, pass);
    begin(&mut asm);
    search.emit_inside(&mut asm, ownership);
    call_id_found(&mut asm, chosen, pass, decide, &search);
    look_at_to(&mut asm, to, pass, decide, &search);
    asm.place(decide);
    shares(&mut asm, workers, pass);
    source(&mut asm, ownership, pass);
    judge(&mut asm, pass);
    asm.place(pass);
    asm.mov(R0, PASS);
    asm.exit();
    Some(SieveProgram {
        code: asm.finish()?,
        scratch: END_OF_SCRATCH,
        words: WORDS as u32,
        memory: GENERATION as u32,
    })
}

/// Copies the beginning of the message to the stack: most are none that could be dropped.
fn head(asm: &mut Assembler, pass: Label) {
    asm.store(Size::U64, R10, CONTEXT, R1);
    asm.load(Size::U32, R9, R1, SKB_LEN);
    asm.jump_if(R9, If::Less, HEADER + HEAD_LEN, pass);
    asm.mov(R2, HEADER);
    asm.mov(R3, R10);
    asm.alu(Alu::Add, R3, i32::from(HEAD));
    asm.mov(R4, HEAD_LEN);
    asm.call(SKB_LOAD_BYTES);
    asm.jump_if(R0, If::NotEqual, 0, pass);
}

/// Copies the message, whose length with [`HEADER`] is in R9, to where R7 points then. A longer one passes.
fn copy(asm: &mut Assembler, pass: Label) {
    asm.alu(Alu::Sub, R9, HEADER);
    asm.jump_if(R9, If::Greater, COPIED, pass);
    asm.mov(R0, 0);
    asm.store(Size::U64, R10, KEY, R0);
    lookup(asm, SieveProgram::SCRATCH, pass);
    asm.mov(R7, R0);
    asm.load(Size::U64, R1, R10, CONTEXT);
    asm.mov(R2, HEADER);
    asm.mov(R3, R7);
    asm.mov(R4, R9);
    asm.call(SKB_LOAD_BYTES);
    asm.jump_if(R0, If::NotEqual, 0, pass);
    asm.mov(R4, R7);
    asm.alu(Alu::Add, R4, R9);
    asm.mov64(R0, END);
    asm.store(Size::U64, R4, 0, R0);
    asm.load(Size::U64, R0, R10, OTHER_BITS);
    asm.store(Size::U64, R7, SHIFTED, R0);
    asm.load(Size::U64, R0, R10, USER);
    asm.store(Size::U64, R7, CALLED, R0);
    asm.mov(R0, 0);
    asm.store(Size::U64, R10, OTHER_BITS, R0);
    asm.store(Size::U64, R10, USER, R0);
}

/// The value of this map at the key on the stack, in R0.
fn lookup(asm: &mut Assembler, map: i32, pass: Label) {
    asm.map(R1, map);
    asm.mov(R2, R10);
    asm.alu(Alu::Add, R2, i32::from(KEY));
    asm.call(MAP_LOOKUP_ELEM);
    asm.jump_if(R0, If::Equal, 0, pass);
}

/// Goes on with new work only, and notes whom it calls. What names emergency services by a URN passes.
fn method(asm: &mut Assembler, pass: Label) {
    let [new, other, message, invite] = core::array::from_fn(|_| asm.label());
    asm.load(Size::U64, R0, R10, HEAD);
    asm.mov(R1, R0);
    asm.alu(Alu::ShiftLeft, R1, 8);
    asm.mov64(R2, u64::from_le_bytes(*INVITE));
    asm.jump_if(R1, If::Equal, R2, invite);
    asm.mov64(R2, u64::from_le_bytes(*MESSAGE));
    asm.jump_if(R0, If::Equal, R2, message);
    for name in METHODS {
        asm.mov64(R2, u64::from_le_bytes(*name));
        asm.jump_if(R0, If::Equal, R2, other);
    }
    asm.jump(pass);
    asm.place(message);
    asm.load(Size::U32, R0, R10, HEAD + 8);
    asm.alu(Alu::Or, R0, LOWER);
    asm.jump_if(R0, If::Equal, URN, pass);
    called(asm, b"MESSAGE sip:");
    asm.mov(R0, LOTS);
    asm.jump(new);
    asm.place(other);
    asm.mov(R1, 0);
    asm.mov(R0, LOTS);
    asm.jump(new);
    asm.place(invite);
    asm.load(Size::U32, R0, R10, HEAD + 8);
    asm.alu(Alu::ShiftLeft, R0, 8);
    asm.load(Size::U8, R1, R10, HEAD + 7);
    asm.alu(Alu::Or, R0, R1);
    asm.alu32(Alu::Or, R0, LOWER);
    asm.jump_if(R0, If::Equal, URN, pass);
    called(asm, b"INVITE sip:");
    asm.mov(R0, 0);
    asm.place(new);
    asm.store(Size::U64, R10, OTHER_BITS, R0);
    asm.store(Size::U64, R10, USER, R1);
}

/// Eight bytes of the beginning of the message behind what is as long as this, in R1: the user, where the
/// scheme is `sip` or `tel`. Of the stack the kernel lets whole words be read only. R2 is lost.
fn called(asm: &mut Assembler, before: &[u8]) {
    let inside = 8 * (before.len() as i32 - 8);
    asm.load(Size::U64, R1, R10, HEAD + 8);
    asm.load(Size::U64, R2, R10, HEAD + 16);
    asm.alu(Alu::ShiftRight, R1, inside);
    asm.alu(Alu::ShiftLeft, R2, 64 - inside);
    asm.alu(Alu::Or, R1, R2);
}

/// Begins the search: nothing is found yet.
fn begin(asm: &mut Assembler) {
    asm.mov(R0, 0);
    asm.store(Size::U64, R7, FOUND, R0);
    // Mixed with a number that the kernel does not know, as in the steering program.
    asm.mov(R5, 0);
    asm.alu(Alu::Xor, R5, R9);
    asm.alu(Alu::Xor, R5, R9);
    asm.alu(Alu::And, R5, PLACES - 1);
    constants(asm);
    asm.mov(R9, SIEVE_STEPS);
}

/// Notes that this was found, and goes on if there is all.
fn note(asm: &mut Assembler, what: i32, decide: Label) {
    asm.load(Size::U64, R0, R7, FOUND);
    asm.alu(Alu::Or, R0, what);
    asm.store(Size::U64, R7, FOUND, R0);
    asm.jump_if(R0, If::Equal, HAS_CALL_ID | HAS_TO, decide);
}

/// The sum of the Call-ID is there. A second one is not looked at.
fn call_id_found(asm: &mut Assembler, here: Label, pass: Label, decide: Label, search: &Search) {
    asm.place(here);
    asm.load(Size::U64, R0, R7, FOUND);
    asm.jump_if(R0, If::Shared, HAS_CALL_ID, pass);
    asm.store(Size::U64, R7, SUM, R9);
    note(asm, HAS_CALL_ID, decide);
    constants(asm);
    asm.load(Size::U64, R9, R10, LEFT);
    asm.jump_if(R9, If::Equal, 0, pass);
    asm.jump(search.inside);
}

/// A line that begins with a T. If it is To, no three letters of it are "tag", in any case, or the message
/// passes; where they are no parameter's name the worker finds out.
fn look_at_to(asm: &mut Assembler, here: Label, pass: Label, decide: Label, search: &Search) {
    let [name, more, value, next, end, fold] = core::array::from_fn(|_| asm.label());
    let never = |_| pass;
    asm.place(here);
    asm.load(Size::U64, R0, R7, FOUND);
    asm.jump_if(R0, If::Shared, HAS_TO, search.inside);
    search.advance(asm, 1);
    search.step(asm, 1, never);
    asm.load(Size::U8, R0, R4, 0);
    asm.alu(Alu::Or, R0, i32::from(CASE));
    asm.jump_if(R0, If::NotEqual, i32::from(b'o'), name);
    search.advance(asm, 1);
    asm.place_loop(name);
    search.step(asm, 1, never);
    asm.load(Size::U8, R0, R4, 0);
    asm.jump_if(R0, If::Equal, i32::from(b':'), value);
    asm.jump_if(R0, If::Equal, SPACE, more);
    asm.jump_if(R0, If::NotEqual, TAB, search.inside);
    asm.place(more);
    search.advance(asm, 1);
    asm.jump(name);
    asm.place(value);
    asm.mov(R6, 0);
    asm.place_loop(next);
    search.advance(asm, 1);
    search.step(asm, 1, never);
    asm.load(Size::U8, R0, R4, 0);
    asm.jump_if(R0, If::Equal, NEWLINE, end);
    // The last three letters.
    asm.alu(Alu::Or, R0, i32::from(CASE));
    asm.alu(Alu::ShiftLeft, R6, 8);
    asm.alu(Alu::Or, R6, R0);
    asm.alu(Alu::And, R6, 0xff_ffff);
    asm.jump_if(R6, If::Equal, TAG, pass);
    asm.jump(next);
    asm.place(end);
    search.advance(asm, 1);
    search.step(asm, 1, never);
    asm.load(Size::U8, R0, R4, 0);
    asm.jump_if(R0, If::Equal, SPACE, fold);
    asm.jump_if(R0, If::Equal, TAB, fold);
    note(asm, HAS_TO, decide);
    asm.jump(search.line);
    asm.place(fold);
    asm.mov(R6, 0);
    asm.jump(next);
}

/// Finds the table that the owner of the call has written, for R8, if it is still good; and the lot of the
/// call, for R7.
fn shares(asm: &mut Assembler, workers: u16, pass: Label) {
    asm.load(Size::U64, R0, R7, SHIFTED);
    asm.store(Size::U64, R10, OTHER_BITS, R0);
    asm.load(Size::U64, R0, R7, CALLED);
    asm.store(Size::U64, R10, USER, R0);
    asm.load(Size::U64, R9, R7, SUM);
    finish(asm);
    asm.mov(R7, R9);
    asm.alu(Alu::ShiftLeft, R7, 64 - LOT_BITS as i32);
    asm.alu(Alu::ShiftRight, R7, 64 - LOT_BITS as i32);
    asm.store(Size::U64, R10, CALL, R7);
    owner(asm, R9, workers);
    asm.store(Size::U64, R10, KEY, R9);
    lookup(asm, SieveProgram::TABLE, pass);
    asm.mov(R8, R0);
    asm.call(KTIME_GET_NS);
    asm.load(Size::U64, R1, R8, SieveProgram::UNTIL as i16);
    asm.jump_if(R0, If::NotLess, R1, pass);
    // Good for longer than any worker says: its clock is another one (a time namespace).
    asm.alu(Alu::Sub, R1, R0);
    asm.mov64(R2, SieveProgram::LONGEST.as_nanos() as u64);
    asm.jump_if(R1, If::Greater, R2, pass);
    emergency(asm, pass);
    asm.load(Size::U32, R0, R8, word(SHIFT));
    asm.load(Size::U64, R1, R10, OTHER_BITS);
    asm.alu(Alu::And, R0, R1);
    asm.alu(Alu::Add, R7, R0);
    asm.alu(Alu::And, R7, LOTS);
}

/// Goes to `pass` with a call to one of the numbers in the table in R8 if no digit follows: the worker reads
/// other characters itself. Also with a call to a number that begins like one of the prefixes in that table.
fn emergency(asm: &mut Assembler, pass: Label) {
    let none = asm.label();
    for number in 0..NUMBERS {
        let [text, next] = [asm.label(), asm.label()];
        asm.load(Size::U64, R1, R8, word(NUMBERS_AT + 2 * number));
        asm.jump_if(R1, If::Equal, 0, none);
        asm.mov(R2, R1);
        asm.alu(Alu::ShiftRight, R2, 56);
        asm.mov(R5, R2);
        asm.alu(Alu::And, R5, BEGINNING as i32);
        asm.alu(Alu::And, R2, 0x38);
        asm.load(Size::U64, R3, R10, USER);
        // The beginning of everything: of requests that are no calls there is none.
        asm.jump_if(R2, If::NotEqual, 0, text);
        asm.jump_if(R3, If::NotEqual, 0, pass);
        asm.jump(next);
        asm.place(text);
        asm.alu(Alu::Xor, R1, R3);
        // What is behind it goes away.
        asm.mov(R4, 64);
        asm.alu(Alu::Sub, R4, R2);
        asm.alu(Alu::ShiftLeft, R1, R4);
        asm.jump_if(R1, If::NotEqual, 0, next);
        asm.jump_if(R5, If::NotEqual, 0, pass);
        asm.alu(Alu::ShiftRight, R3, R2);
        asm.alu(Alu::And, R3, 0xff);
        asm.alu(Alu::Sub, R3, i32::from(b'0'));
        asm.jump_if(R3, If::Greater, 9, pass);
        asm.place(next);
    }
    asm.place(none);
}

/// Where in an entry a word of the table is.
const fn word(at: usize) -> i16 {
    (SieveProgram::WORDS + BYTES as usize * at) as i16
}

/// The number of the sender, or of the part of it that other requests than INVITE are ([`crate::part`]), in
/// R9.
fn source(asm: &mut Assembler, ownership: &Ownership, pass: Label) {
    let sum = asm.label();
    asm.load(Size::U64, R1, R10, CONTEXT);
    asm.mov(R2, 0);
    asm.mov(R3, R10);
    asm.alu(Alu::Add, R3, i32::from(ADDRESSES));
    asm.mov(R4, ADDRESSES_LEN);
    asm.mov(R5, FROM_IP);
    asm.call(SKB_LOAD_BYTES_RELATIVE);
    asm.jump_if(R0, If::NotEqual, 0, pass);
    asm.load(Size::U8, R1, R10, ADDRESSES);
    asm.alu(Alu::ShiftRight, R1, 4);
    asm.load(Size::U32, R0, R10, SENDER_V4);
    asm.jump_if(R1, If::Equal, 4, sum);
    asm.jump_if(R1, If::NotEqual, 6, pass);
    asm.load(Size::U64, R0, R10, SENDER_V6);
    asm.place(sum);
    asm.mov(R9, 0);
    add(asm, &ownership.source);
    asm.load(Size::U64, R0, R10, OTHER_BITS);
    asm.alu(Alu::Xor, R9, R0);
}

/// Drops the message if its lot is not below the share of its sender in either row, or if it was not before;
/// unless the worker knows it.
fn judge(asm: &mut Assembler, pass: Label) {
    let [below, remembers, drop, unknown] = core::array::from_fn(|_| asm.label());
    threshold(asm);
    // Who is served in full is never hit by what others are remembered for.
    asm.jump_if(R1, If::Greater, LOTS, pass);
    asm.store(Size::U64, R10, THRESHOLD, R1);
    lookup(asm, SieveProgram::MEMORY, pass);
    asm.mov(R6, R0);
    remembered(asm, SieveProgram::KNOWN as i32, unknown);
    asm.jump(pass);
    asm.place(unknown);
    asm.load(Size::U64, R1, R10, THRESHOLD);
    asm.load(Size::U64, R2, R10, OTHER_BITS);
    asm.jump_if(R7, If::Less, R1, below);
    asm.jump_if(R2, If::NotEqual, 0, drop);
    // A threshold that is far below does not come up to it as long as it is repeated.
    asm.load(Size::U64, R1, R10, NEAR);
    asm.jump_if(R7, If::NotLess, R1, drop);
    asm.jump(remembers);
    asm.place(below);
    asm.jump_if(R2, If::NotEqual, 0, pass);
    remembered(asm, 0, pass);
    asm.place(remembers);
    remember(asm);
    asm.place(drop);
    asm.mov(R1, 1);
    asm.add_to(R8, SieveProgram::DROPPED as i16, R1);
    asm.mov(R0, DROP);
    asm.exit();
}

/// The higher threshold of the source in R9, in R1; and the higher of what is near, at [`NEAR`]. R6 is lost.
fn threshold(asm: &mut Assembler) {
    asm.mov(R6, R9);
    asm.mov(R1, 0);
    asm.mov(R3, 0);
    for row in 0..ROWS {
        let [less, farther] = core::array::from_fn(|_| asm.label());
        asm.load(Size::U64, R9, R8, word(SALTS + 2 * row));
        asm.alu(Alu::Xor, R9, R6);
        finish(asm);
        asm.alu(Alu::And, R9, BUCKETS as i32 - 1);
        asm.alu(Alu::Mul, R9, BYTES);
        asm.alu(Alu::Add, R9, R8);
        asm.load(Size::U32, R2, R9, word(row * BUCKETS));
        asm.mov(R4, R2);
        asm.alu(Alu::ShiftRight, R4, Threshold::NEAR_SHIFT as i32);
        asm.jump_if(R3, If::NotLess, R4, farther);
        asm.mov(R3, R4);
        asm.place(farther);
        asm.alu(Alu::And, R2, (1 << Threshold::NEAR_SHIFT) - 1);
        asm.jump_if(R1, If::NotLess, R2, less);
        asm.mov(R1, R2);
        asm.place(less);
    }
    asm.alu(Alu::ShiftLeft, R3, Threshold::NEAR_UNIT as i32);
    asm.store(Size::U64, R10, NEAR, R3);
}

/// Goes to `otherwise` with what is in neither of two generations, from this one on, of the memory in R6.
fn remembered(asm: &mut Assembler, first: i32, otherwise: Label) {
    asm.mov(R3, 1);
    asm.mov(R9, 1);
    for factor in FINISH {
        bit(asm, factor);
        asm.alu(Alu::Add, R1, first * GENERATION);
        for found in [R3, R9] {
            asm.load(Size::U64, R4, R1, 0);
            asm.alu(Alu::ShiftRight, R4, R2);
            asm.alu(Alu::And, found, R4);
            asm.alu(Alu::Add, R1, GENERATION);
        }
    }
    asm.alu(Alu::Or, R9, R3);
    asm.jump_if(R9, If::Equal, 0, otherwise);
}

/// Puts the call into the young generation of what was dropped, in the memory in R6.
fn remember(asm: &mut Assembler) {
    asm.load(Size::U64, R5, R8, SieveProgram::YOUNG as i16);
    asm.alu(Alu::And, R5, 1);
    asm.alu(Alu::Mul, R5, GENERATION);
    for factor in FINISH {
        bit(asm, factor);
        asm.alu(Alu::Add, R1, R5);
        asm.mov(R3, 1);
        asm.alu(Alu::ShiftLeft, R3, R2);
        // Somebody else may write there at the same time, and a bit be lost: one call is judged anew then.
        asm.load(Size::U64, R4, R1, 0);
        asm.alu(Alu::Or, R4, R3);
        asm.store(Size::U64, R1, 0, R4);
    }
}

/// One of the bits of the call in the memory in R6: the address of its word in R1, its number there in R2.
fn bit(asm: &mut Assembler, factor: u64) {
    asm.load(Size::U64, R1, R10, CALL);
    asm.mov64(R2, factor);
    asm.alu(Alu::Mul, R1, R2);
    asm.alu(Alu::ShiftRight, R1, BIT_SHIFT);
    asm.mov(R2, R1);
    asm.alu(Alu::And, R2, 63);
    asm.alu(Alu::ShiftRight, R1, 6);
    asm.alu(Alu::ShiftLeft, R1, 3);
    asm.alu(Alu::Add, R1, R6);
}
