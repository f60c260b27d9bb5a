//! The program that the kernel runs for each datagram.
//!
//! It looks for line ends eight bytes at a time, looks at the beginning of each line, and hashes what
//! follows `Call-ID:`. It reads the packet where it lies. If a packet ends before the answer is found, or
//! goes on in another part of memory (network drivers put the payload elsewhere), the rest is copied
//! from the last line on and the same search goes on there; so it is written once and assembled twice.
//!
//! The kernel checks before it takes a program that every path ends and stays inside the packet. What
//! is peculiar here is for its sake:
//!
//! - a place in the packet is a number of bytes from its beginning, bounded again after each step, and the
//!   address is made from it anew with each look;
//! - the first place is mixed with a number that the kernel does not know, so that all places are the same
//!   to it and what follows is checked once, not once for each;
//! - one counter of steps ([`STEPS`]) bounds all loops together.

use crate::asm::Reg::{self, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::asm::{Alu, Assembler, If, Label, Size};
use crate::hash::{FINISH, LAST_END, Ownership, SHIFTS, WORDS};
use kernel_programs::SteeringProgram;

/// How far inside a message the line of the Call-ID may begin, in bytes.
pub const REACH: usize = 3_900;
/// Looks at a line, at 64 bytes or at a space, before the program gives up.
pub const STEPS: i32 = 300;

/// The UDP header, at which the packet begins.
pub(crate) const HEADER: i32 = 8;
/// Places in a packet are below this, a power of two.
pub(crate) const PLACES: i32 = 4_096;
/// Furthest place at which a step may begin.
const FURTHEST: i32 = REACH as i32 + HEADER;
/// Words looked at in one step of the search: most lines are no longer.
const BLOCK: i16 = 8;
/// Words of a Call-ID that are checked at once to be there.
const CHECKED: i32 = 4;
/// Bytes copied at most: what follows them is in reach.
pub(crate) const COPIED: i32 = FURTHEST - 64;
/// Memory for the copy: no look from a place below [`PLACES`] goes further.
pub(crate) const SCRATCH: u32 = PLACES as u32 + 8 * WORDS as u32 + 64;

/// Fields of `struct sk_reuseport_md` (`include/uapi/linux/bpf.h`).
const MD_DATA: i16 = 0;
const MD_DATA_END: i16 = 8;
const MD_LEN: i16 = 16;
/// Numbers of the kernel's functions (`enum bpf_func_id`).
pub(crate) const MAP_LOOKUP_ELEM: i32 = 1;
pub(crate) const SKB_LOAD_BYTES: i32 = 26;
pub(crate) const SK_SELECT_REUSEPORT: i32 = 82;
/// The program's result: go on, with the chosen socket or, if none is chosen, as without a program.
const SK_PASS: i32 = 1;

/// Where on the stack a number is kept, from its end.
pub(crate) const KEY: i16 = -8;
const PLACE: i16 = -16;
const STATE: i16 = -24;
pub(crate) const CONTEXT: i16 = -32;
/// Steps left before a sum, where they are wanted after it; as whole multiples of [`COARSE`], so that the
/// kernel's check does not go through what follows for each number of them.
pub(crate) const LEFT: i16 = -40;
const COARSE: i32 = 64;
/// What the search was at when the packet ended.
const IN_LEAD: i32 = 0;
const IN_LINE: i32 = 1;
const AT_LINE: i32 = 2;

const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

pub(crate) const NEWLINE: i32 = b'\n' as i32;
const RETURN: i32 = b'\r' as i32;
pub(crate) const SPACE: i32 = b' ' as i32;
pub(crate) const TAB: i32 = b'\t' as i32;
/// The bit in which upper and lower case differ.
pub(crate) const CASE: u8 = 0x20;
/// The long name in lower case, seven bytes shifted up by one; and the letters in it.
const LONG_NAME: u64 = u64::from_le_bytes([0, b'c', b'a', b'l', b'l', b'-', b'i', b'd']);
const LONG_CASE: u64 = u64::from_le_bytes([0, CASE, CASE, CASE, CASE, 0, CASE, CASE]);
const LONG_LEN: i32 = 7;
/// Follows what was copied: a line end and an empty line; and, since a search that has met line ends alone
/// goes on through more of them, a line that is none and an empty line again. So every search ends there.
pub(crate) const END: u64 = u64::from_le_bytes(*b"\n\r\n\xff\n\r\n\r");
/// Follows a copy that is not to the end of the message: no part of any Call-ID that is read here, then
/// the same.
const CUT: u64 = u64::from_le_bytes(*b"\xff\xff\n\r\n\r\n\r");

impl Ownership {
    /// The program that names the owner in the kernel, for as many workers. `None` on a big-endian machine:
    /// the program reads words of bytes with the first lowest.
    pub fn program(&self, workers: u16) -> Option<SteeringProgram> {
        if cfg!(target_endian = "big") { None } else { assemble(self, workers) }
    }
}

/// The program for `workers` workers.
fn assemble(ownership: &Ownership, workers: u16) -> Option<SteeringProgram> {
    let mut asm = Assembler::new();
    let (pass, chosen) = (asm.label(), asm.label());
    let spill = Spill { lead: asm.label(), inside: asm.label(), line: asm.label(), again: asm.label() };
    asm.store(Size::U64, R10, CONTEXT, R1);
    asm.load(Size::U64, R7, R1, MD_DATA);
    asm.load(Size::U64, R8, R1, MD_DATA_END);
    asm.load(Size::U32, R9, R1, MD_LEN);
    begin(&mut asm, HEADER);
    Search::new(&mut asm, pass, chosen, Some(spill)).emit(&mut asm, ownership);
    let copied = Search::new(&mut asm, pass, chosen, None);
    copy_rest(&mut asm, spill, &copied);
    copied.emit(&mut asm, ownership);
    asm.place(chosen);
    choose(&mut asm, workers);
    asm.place(pass);
    asm.mov(R0, SK_PASS);
    asm.exit();
    Some(SteeringProgram { code: asm.finish()?, scratch: SCRATCH })
}

/// Begins a search at this place. In R9 is a number that the kernel does not know.
fn begin(asm: &mut Assembler, place: i32) {
    asm.mov(R5, place);
    asm.alu(Alu::Xor, R5, R9);
    asm.alu(Alu::Xor, R5, R9);
    asm.alu(Alu::And, R5, PLACES - 1);
    constants(asm);
    asm.mov(R9, STEPS);
}

/// What the search has in R1 to R3.
pub(crate) fn constants(asm: &mut Assembler) {
    asm.mov64(R1, each(b'\n'));
    asm.mov64(R2, each(0x01));
    asm.mov64(R3, each(0x80));
}

/// Where a search goes whose packet ends too early.
#[derive(Clone, Copy)]
pub(crate) struct Spill {
    /// Before the message, at the place in R5.
    lead: Label,
    /// Inside a line, at the place in R5.
    inside: Label,
    /// At the beginning of a line, at the place in R5.
    line: Label,
    /// At the beginning of a line, whose place is on the stack.
    again: Label,
}

/// Copies the packet from the place reached on, and goes on there.
fn copy_rest(asm: &mut Assembler, spill: Spill, search: &Search) {
    let (copy, cut, ready) = (asm.label(), asm.label(), asm.label());
    for (label, state) in [(spill.lead, IN_LEAD), (spill.inside, IN_LINE), (spill.line, AT_LINE)] {
        asm.place(label);
        asm.store(Size::U64, R10, PLACE, R5);
        asm.mov(R0, state);
        asm.jump(copy);
    }
    asm.place(spill.again);
    asm.mov(R0, AT_LINE);
    asm.place(copy);
    asm.store(Size::U64, R10, STATE, R0);
    asm.mov(R0, 0);
    asm.store(Size::U64, R10, KEY, R0);
    asm.map(R1, SteeringProgram::SCRATCH);
    asm.mov(R2, R10);
    asm.alu(Alu::Add, R2, i32::from(KEY));
    asm.call(MAP_LOOKUP_ELEM);
    asm.jump_if(R0, If::Equal, 0, search.pass);
    asm.mov(R7, R0);
    asm.load(Size::U64, R1, R10, CONTEXT);
    asm.load(Size::U64, R2, R10, PLACE);
    asm.load(Size::U32, R9, R1, MD_LEN);
    asm.jump_if(R2, If::NotLess, R9, search.pass);
    asm.alu(Alu::Sub, R9, R2);
    asm.mov64(R8, CUT);
    asm.jump_if(R9, If::Greater, COPIED, cut);
    asm.jump_if(R9, If::Less, 1, search.pass);
    asm.mov64(R8, END);
    asm.jump(ready);
    asm.place(cut);
    asm.mov(R9, COPIED);
    asm.place(ready);
    asm.mov(R3, R7);
    asm.mov(R4, R9);
    asm.call(SKB_LOAD_BYTES);
    asm.jump_if(R0, If::NotEqual, 0, search.pass);
    asm.mov(R4, R7);
    asm.alu(Alu::Add, R4, R9);
    asm.store(Size::U64, R4, 0, R8);
    asm.load(Size::U64, R0, R10, STATE);
    asm.load(Size::U64, R1, R10, CONTEXT);
    asm.load(Size::U32, R9, R1, MD_LEN);
    begin(asm, 0);
    asm.jump_if(R0, If::Equal, AT_LINE, search.line);
    asm.jump_if(R0, If::Equal, IN_LINE, search.inside);
}

/// Chooses the socket of the worker that the sum in R9 belongs to.
fn choose(asm: &mut Assembler, workers: u16) {
    finish(asm);
    owner(asm, R9, workers);
    asm.store(Size::U64, R10, KEY, R9);
    asm.load(Size::U64, R1, R10, CONTEXT);
    asm.map(R2, SteeringProgram::SOCKETS);
    asm.mov(R3, R10);
    asm.alu(Alu::Add, R3, i32::from(KEY));
    asm.mov(R4, 0);
    asm.call(SK_SELECT_REUSEPORT);
    // If that fails there is no such socket, and the kernel deals the datagram out itself.
}

/// Makes the hash in R9 of the sum there. R0 is lost.
pub(crate) fn finish(asm: &mut Assembler) {
    for (shift, factor) in SHIFTS.into_iter().zip([Some(FINISH[0]), Some(FINISH[1]), None]) {
        asm.mov(R0, R9);
        asm.alu(Alu::ShiftRight, R0, shift);
        asm.alu(Alu::Xor, R9, R0);
        if let Some(factor) = factor {
            asm.mov64(R0, factor);
            asm.alu(Alu::Mul, R9, R0);
        }
    }
}

/// The owner among so many workers, of the hash in a register, there.
pub(crate) fn owner(asm: &mut Assembler, hash: Reg, workers: u16) {
    asm.alu(Alu::ShiftRight, hash, 32);
    asm.alu(Alu::Mul, hash, i32::from(workers.max(1)));
    asm.alu(Alu::ShiftRight, hash, 32);
}

/// The search in one kind of memory.
///
/// R0: what is looked at. R1 to R3: constants. R4: the address of the place. R5: the place. R6: for use.
/// R7: where the memory begins. R8: where the packet ends. R9: steps left, and at last the sum.
pub(crate) struct Search {
    /// Where to go when the packet ends; none where the memory is known to be long enough.
    spill: Option<Spill>,
    /// Where lines go that begin like To, if that is looked for as well; R1 to R3 and R9 are wanted back
    /// then.
    to: Option<Label>,
    /// Decides nothing.
    pass: Label,
    /// Has the sum.
    chosen: Label,
    /// At a line.
    pub line: Label,
    /// Inside a line.
    pub inside: Label,
    /// Past the name.
    name: Label,
    /// At the value.
    value: Label,
}

impl Search {
    fn new(asm: &mut Assembler, pass: Label, chosen: Label, spill: Option<Spill>) -> Search {
        let [line, inside, name, value] = core::array::from_fn(|_| asm.label());
        Search { spill, to: None, pass, chosen, line, inside, name, value }
    }

    /// One in memory that is long enough, which also sends lines that begin like To to `to`. How many steps
    /// are left is in [`LEFT`] when the sum is there.
    pub fn with_to(asm: &mut Assembler, pass: Label, chosen: Label, to: Label) -> Search {
        Search { to: Some(to), ..Search::new(asm, pass, chosen, None) }
    }

    /// From inside a line, at the place in R5, to the sum in R9.
    pub fn emit_inside(&self, asm: &mut Assembler, ownership: &Ownership) {
        asm.jump(self.inside);
        self.lines(asm);
        self.name(asm);
        self.value(asm);
        asm.mov(R0, R9);
        asm.alu(Alu::And, R0, -COARSE);
        asm.store(Size::U64, R10, LEFT, R0);
        self.sum(asm, ownership);
    }

    /// From the place in R5 to the sum in R9.
    fn emit(&self, asm: &mut Assembler, ownership: &Ownership) {
        self.lead(asm);
        self.lines(asm);
        self.name(asm);
        self.value(asm);
        self.sum(asm, ownership);
    }

    /// Takes one step, if there are any left, to the place in R5, and has its address in R4. `len` bytes
    /// may be read there.
    pub fn step(&self, asm: &mut Assembler, len: i32, to: impl Fn(Spill) -> Label) {
        asm.alu(Alu::Sub, R9, 1);
        asm.jump_if(R9, If::Equal, 0, self.pass);
        asm.jump_if(R5, If::Greater, FURTHEST, self.pass);
        self.look(asm, len, to);
    }

    /// The address of the place, where `len` bytes may be read.
    fn look(&self, asm: &mut Assembler, len: i32, to: impl Fn(Spill) -> Label) {
        asm.mov(R4, R7);
        asm.alu(Alu::Add, R4, R5);
        self.check(asm, len, to);
    }

    /// `len` bytes may be read from the address in R4 on.
    fn check(&self, asm: &mut Assembler, len: i32, to: impl Fn(Spill) -> Label) {
        if let Some(spill) = self.spill {
            asm.mov(R0, R4);
            asm.alu(Alu::Add, R0, len);
            asm.jump_if(R0, If::Greater, R8, to(spill));
        }
    }

    /// To a later place.
    pub fn advance(&self, asm: &mut Assembler, bytes: i32) {
        asm.alu(Alu::Add, R5, bytes);
        asm.alu(Alu::And, R5, PLACES - 1);
    }

    /// Passes over line ends before the message (RFC 3261 section 7.5).
    fn lead(&self, asm: &mut Assembler) {
        let (lead, more) = (asm.label(), asm.label());
        asm.place(lead);
        self.step(asm, 1, |spill| spill.lead);
        asm.load(Size::U8, R0, R4, 0);
        asm.jump_if(R0, If::Equal, RETURN, more);
        asm.jump_if(R0, If::NotEqual, NEWLINE, self.inside);
        asm.place(more);
        self.advance(asm, 1);
        asm.jump(lead);
    }

    /// Goes from line to line until one begins with the name.
    fn lines(&self, asm: &mut Assembler) {
        let (search, found, doubt) = (asm.label(), asm.label(), asm.label());
        let (long, short) = (asm.label(), asm.label());
        asm.place(self.line);
        self.step(asm, i32::from(8 * BLOCK), |spill| spill.line);
        asm.load(Size::U64, R0, R4, 0);
        asm.load(Size::U8, R6, R4, 0);
        asm.jump_if(R6, If::Equal, RETURN, self.pass);
        asm.alu(Alu::Or, R6, i32::from(CASE));
        asm.jump_if(R6, If::Equal, i32::from(b'c'), long);
        asm.jump_if(R6, If::Equal, i32::from(b'i'), short);
        if let Some(to) = self.to {
            asm.jump_if(R6, If::Equal, i32::from(b't'), to);
        }
        asm.place(search);
        let ends: Vec<Label> = (0..BLOCK).map(|_| asm.label()).collect();
        for (word, &end) in (0..).zip(&ends) {
            if word > 0 {
                asm.load(Size::U64, R0, R4, 8 * word);
            }
            // The highest bit of a byte is set now if it was a line end, which became zero, or if it was set
            // before.
            asm.alu(Alu::Xor, R0, R1);
            asm.alu(Alu::Sub, R0, R2);
            asm.jump_if(R0, If::Shared, R3, end);
        }
        self.advance(asm, i32::from(8 * BLOCK));
        asm.place_loop(self.inside);
        self.step(asm, i32::from(8 * BLOCK), |spill| spill.inside);
        asm.load(Size::U64, R0, R4, 0);
        asm.jump(search);
        for (word, end) in (0..i32::from(BLOCK)).zip(ends).rev() {
            asm.place(end);
            if word > 0 {
                asm.alu(Alu::Add, R5, 8 * word);
                asm.jump(found);
            }
        }
        asm.place(found);
        asm.mov(R4, R0);
        asm.alu(Alu::Add, R4, R2);
        asm.alu(Alu::And, R0, R3);
        // All bits up to the lowest that is set; one of each byte; their sum: how many bytes.
        asm.mov(R6, R0);
        asm.alu(Alu::Sub, R6, 1);
        asm.alu(Alu::Xor, R0, R6);
        asm.alu(Alu::And, R0, R2);
        asm.alu(Alu::Mul, R0, R2);
        asm.alu(Alu::ShiftRight, R0, 56);
        asm.jump_if(R4, If::Shared, R3, doubt);
        asm.alu(Alu::Add, R5, R0);
        asm.alu(Alu::And, R5, PLACES - 1);
        asm.jump(self.line);
        self.doubt(asm, doubt);
        self.long(asm, long);
        asm.place(short);
        asm.store(Size::U64, R10, PLACE, R5);
        self.advance(asm, 1);
    }

    /// There are bytes beyond ASCII among these, so what looks like a line end may be one of them.
    fn doubt(&self, asm: &mut Assembler, here: Label) {
        let end = asm.label();
        asm.place(here);
        asm.alu(Alu::Add, R5, R0);
        asm.alu(Alu::Sub, R5, 1);
        asm.alu(Alu::And, R5, PLACES - 1);
        self.step(asm, 1, |spill| spill.inside);
        asm.load(Size::U8, R0, R4, 0);
        self.advance(asm, 1);
        asm.jump_if(R0, If::Equal, NEWLINE, end);
        asm.jump(self.inside);
        asm.place(end);
        asm.jump(self.line);
    }

    /// A line that begins like the long name.
    fn long(&self, asm: &mut Assembler, here: Label) {
        asm.place(here);
        asm.store(Size::U64, R10, PLACE, R5);
        asm.alu(Alu::ShiftLeft, R0, 8);
        asm.mov64(R6, LONG_CASE);
        asm.alu(Alu::Or, R0, R6);
        asm.mov64(R6, LONG_NAME);
        asm.jump_if(R0, If::NotEqual, R6, self.inside);
        self.advance(asm, LONG_LEN);
        asm.jump(self.name);
    }

    /// White space, then the colon (RFC 3261 section 7.3.1).
    fn name(&self, asm: &mut Assembler) {
        let (more, colon) = (asm.label(), asm.label());
        asm.place_loop(self.name);
        self.step(asm, 1, |spill| spill.again);
        asm.load(Size::U8, R0, R4, 0);
        asm.jump_if(R0, If::Equal, i32::from(b':'), colon);
        asm.jump_if(R0, If::Equal, SPACE, more);
        asm.jump_if(R0, If::NotEqual, TAB, self.inside);
        asm.place(more);
        self.advance(asm, 1);
        asm.jump(self.name);
        asm.place(colon);
        self.advance(asm, 1);
    }

    /// White space and folds before the value.
    fn value(&self, asm: &mut Assembler) {
        let (one, fold, sum) = (asm.label(), asm.label(), asm.label());
        asm.place_loop(self.value);
        self.step(asm, 3, |spill| spill.again);
        asm.load(Size::U8, R0, R4, 0);
        asm.jump_if(R0, If::Equal, SPACE, one);
        asm.jump_if(R0, If::Equal, TAB, one);
        asm.jump_if(R0, If::NotEqual, RETURN, sum);
        // A line end here is part of a fold, or there is no value.
        asm.load(Size::U8, R0, R4, 1);
        asm.jump_if(R0, If::NotEqual, NEWLINE, self.pass);
        asm.load(Size::U8, R0, R4, 2);
        asm.jump_if(R0, If::Equal, SPACE, fold);
        asm.jump_if(R0, If::NotEqual, TAB, self.pass);
        asm.place(fold);
        asm.alu(Alu::Add, R5, 2);
        asm.place(one);
        self.advance(asm, 1);
        asm.jump(self.value);
        asm.place(sum);
    }

    /// Sums up the value as [`Ownership`] does.
    fn sum(&self, asm: &mut Assembler, ownership: &Ownership) {
        asm.mov64(R2, each(LAST_END + 1));
        asm.mov(R9, 0);
        let lasts: Vec<Label> = ownership.sums.iter().map(|_| asm.label()).collect();
        for ((word, keys), &last) in (0..).zip(&ownership.sums).zip(&lasts) {
            if word % CHECKED == 0 {
                self.check(asm, 8 * (word + CHECKED), |spill| spill.again);
            }
            asm.load(Size::U64, R0, R4, 8 * word as i16);
            asm.mov(R1, R0);
            asm.alu(Alu::Sub, R1, R2);
            asm.jump_if(R1, If::Shared, R3, last);
            add(asm, keys);
        }
        asm.jump(self.pass);
        for ((word, keys), last) in ownership.sums.iter().enumerate().zip(lasts) {
            asm.place(last);
            asm.alu(Alu::And, R1, R3);
            // The lowest byte that is below the limit, or is beyond ASCII, as none in a Call-ID is.
            asm.mov(R6, R1);
            asm.alu(Alu::Neg, R6, 0);
            asm.alu(Alu::And, R1, R6);
            asm.jump_if(R1, If::Shared, R0, self.pass);
            asm.alu(Alu::ShiftRight, R1, 7);
            asm.alu(Alu::Sub, R1, 1);
            asm.alu(Alu::And, R0, R1);
            if word == 0 {
                // There is none.
                asm.jump_if(R0, If::Equal, 0, self.pass);
            }
            add(asm, keys);
            asm.jump(self.chosen);
        }
    }
}

/// Adds the product of the two halves of R0, each with its part of the key, to R9.
pub(crate) fn add(asm: &mut Assembler, [low, high]: &[u32; 2]) {
    asm.alu32(Alu::Mov, R1, R0);
    asm.alu32(Alu::Add, R1, *low as i32);
    asm.alu(Alu::ShiftRight, R0, 32);
    asm.alu32(Alu::Add, R0, *high as i32);
    asm.alu(Alu::Mul, R1, R0);
    asm.alu(Alu::Add, R9, R1);
}
