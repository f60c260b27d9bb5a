//! An assembler for eBPF: a line of Rust for each instruction, and labels for jumps.
//!
//! The instruction set is that of RFC 9669. An instruction is 64 bits: operation, two registers of four
//! bits each (destination below source), a signed offset of 16 bits and a signed immediate of 32.

/// One of the machine's registers. R0 holds results; R1 to R5 carry arguments and do not survive a
/// call; R10 points at the end of the stack and cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named by number")]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The second operand of an instruction.
#[derive(Clone, Copy, Debug)]
pub enum Src {
    /// A register.
    Reg(Reg),
    /// A number, extended with its sign to the width of the operation.
    Imm(i32),
}

impl From<Reg> for Src {
    fn from(reg: Reg) -> Src {
        Src::Reg(reg)
    }
}

impl From<i32> for Src {
    fn from(number: i32) -> Src {
        Src::Imm(number)
    }
}

/// Arithmetic (RFC 9669 section 4.1).
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
#[repr(u8)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    And = 0x50,
    Or = 0x40,
    ShiftRight = 0x70,
    ShiftLeft = 0x60,
    Neg = 0x80,
    Xor = 0xa0,
    Mov = 0xb0,
}

/// When to jump (RFC 9669 section 4.3). Comparisons take both sides as unsigned.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum If {
    /// They are equal.
    Equal = 0x10,
    /// They differ.
    NotEqual = 0x50,
    /// The first is greater.
    Greater = 0x20,
    /// The first is not less.
    NotLess = 0x30,
    /// The first is less.
    Less = 0xa0,
    /// They have a bit in common.
    Shared = 0x40,
}

/// How much is loaded or stored (RFC 9669 section 5).
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
#[repr(u8)]
pub enum Size {
    U8 = 0x10,
    U32 = 0x00,
    U64 = 0x18,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

const CLASS_LOAD: u8 = 0x00;
const CLASS_LOAD_REG: u8 = 0x01;
const CLASS_STORE_REG: u8 = 0x03;
const CLASS_ALU32: u8 = 0x04;
const CLASS_JUMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
const FROM_REG: u8 = 0x08;
const MODE_IMM64: u8 = 0x18;
const MODE_MEM: u8 = 0x60;
/// Arithmetic on memory that several CPUs may do at a time (RFC 9669 section 5.3); the operation is the
/// immediate.
const MODE_ATOMIC: u8 = 0xc0;
const JUMP_ALWAYS: u8 = 0x00;
const JUMP_CALL: u8 = 0x80;
const JUMP_EXIT: u8 = 0x90;
/// The source of a 64-bit load whose immediate is the descriptor of a map (RFC 9669 section 5.4).
const SOURCE_MAP: u8 = 1;

/// A program being written.
#[derive(Default)]
pub struct Assembler {
    code: Vec<u64>,
    /// Where each label is, once it is placed.
    labels: Vec<Option<usize>>,
    /// Instructions whose offset is the way to a label.
    jumps: Vec<(usize, Label)>,
}

fn encode(op: u8, dst: Reg, src: u8, offset: i16, imm: i32) -> u64 {
    let registers = u64::from(src << 4 | dst as u8);
    u64::from(op) | registers << 8 | u64::from(offset as u16) << 16 | u64::from(imm as u32) << 32
}

impl Assembler {
    /// Nothing written yet.
    pub fn new() -> Assembler {
        Assembler::default()
    }

    fn put(&mut self, op: u8, dst: Reg, src: impl Into<Src>, offset: i16) {
        self.code.push(match src.into() {
            Src::Reg(src) => encode(op | FROM_REG, dst, src as u8, offset, 0),
            Src::Imm(imm) => encode(op, dst, 0, offset, imm),
        });
    }

    /// `dst = dst op src`, 64 bits wide. `Neg` takes no second operand: give it 0.
    pub fn alu(&mut self, op: Alu, dst: Reg, src: impl Into<Src>) {
        self.put(CLASS_ALU64 | op as u8, dst, src, 0);
    }

    /// The same in 32 bits; the upper half of the result is zero.
    pub fn alu32(&mut self, op: Alu, dst: Reg, src: impl Into<Src>) {
        self.put(CLASS_ALU32 | op as u8, dst, src, 0);
    }

    /// `dst = src`.
    pub fn mov(&mut self, dst: Reg, src: impl Into<Src>) {
        self.alu(Alu::Mov, dst, src);
    }

    /// `dst = number`, all 64 bits. Two instructions long.
    pub fn mov64(&mut self, dst: Reg, number: u64) {
        self.code.push(encode(CLASS_LOAD | MODE_IMM64, dst, 0, 0, number as i32));
        self.code.push(encode(0, Reg::R0, 0, 0, (number >> 32) as i32));
    }

    /// `dst` = the map of this number. Two instructions long.
    pub fn map(&mut self, dst: Reg, number: i32) {
        self.code.push(encode(CLASS_LOAD | MODE_IMM64, dst, SOURCE_MAP, 0, number));
        self.code.push(0);
    }

    /// `dst = [base + offset]`.
    pub fn load(&mut self, size: Size, dst: Reg, base: Reg, offset: i16) {
        self.code.push(encode(CLASS_LOAD_REG | MODE_MEM | size as u8, dst, base as u8, offset, 0));
    }

    /// `[base + offset] = src`.
    pub fn store(&mut self, size: Size, base: Reg, offset: i16, src: Reg) {
        self.code.push(encode(CLASS_STORE_REG | MODE_MEM | size as u8, base, src as u8, offset, 0));
    }

    /// `[base + offset] += src`, 64 bits wide, whoever else does so at the same time.
    pub fn add_to(&mut self, base: Reg, offset: i16, src: Reg) {
        let op = CLASS_STORE_REG | MODE_ATOMIC | Size::U64 as u8;
        self.code.push(encode(op, base, src as u8, offset, i32::from(Alu::Add as u8)));
    }

    /// A place to jump to, to be placed by [`Assembler::place`].
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// The label is here, and code that comes here in a loop does so by a jump, of no length: older kernels
    /// take no loop that is closed by an instruction which only happens to be followed by its beginning.
    pub fn place_loop(&mut self, label: Label) {
        self.jump(label);
        self.place(label);
    }

    /// Goes to the label.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(CLASS_JUMP | JUMP_ALWAYS, Reg::R0, 0, 0);
    }

    /// Goes to the label if the comparison holds.
    pub fn jump_if(&mut self, dst: Reg, comparison: If, src: impl Into<Src>, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(CLASS_JUMP | comparison as u8, dst, src, 0);
    }

    /// Calls a function of the kernel by its number.
    pub fn call(&mut self, function: i32) {
        self.put(CLASS_JUMP | JUMP_CALL, Reg::R0, function, 0);
    }

    /// Ends the program with the result in R0.
    pub fn exit(&mut self) {
        self.put(CLASS_JUMP | JUMP_EXIT, Reg::R0, 0, 0);
    }

    /// The finished program. `None` if a label was never placed or is too far away, which is a mistake
    /// of whoever wrote the program and depends on no input.
    pub fn finish(mut self) -> Option<Vec<u64>> {
        for (at, Label(label)) in self.jumps {
            let to = (*self.labels.get(label)?)?;
            let way = i16::try_from(to as i64 - at as i64 - 1).ok()?;
            *self.code.get_mut(at)? |= u64::from(way as u16) << 16;
        }
        Some(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each against the encoding that `llvm-mc` and the kernel's headers give it.
    #[test]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        let mut asm = Assembler::new();
        let (back, on) = (asm.label(), asm.label());
        asm.place(back);
        asm.mov(Reg::R0, 1);
        asm.mov(Reg::R9, Reg::R1);
        asm.alu32(Alu::Add, Reg::R2, -1);
        asm.load(Size::U8, Reg::R0, Reg::R4, 1);
        asm.load(Size::U64, Reg::R7, Reg::R1, 8);
        asm.load(Size::U32, Reg::R3, Reg::R6, 16);
        asm.store(Size::U32, Reg::R10, -4, Reg::R0);
        asm.mov64(Reg::R1, 0x0a0a_0a0a_0b0b_0b0b);
        asm.jump_if(Reg::R0, If::Shared, Reg::R3, on);
        asm.jump(back);
        asm.place(on);
        asm.call(82);
        asm.map(Reg::R2, 1);
        asm.add_to(Reg::R8, 8, Reg::R1);
        asm.exit();
        assert_eq!(
            asm.finish().unwrap(),
            [
                0x0000_0001_0000_00b7,
                0x0000_0000_0000_19bf,
                0xffff_ffff_0000_0204,
                0x0000_0000_0001_4071,
                0x0000_0000_0008_1779,
                0x0000_0000_0010_6361,
                0x0000_0000_fffc_0a63,
                0x0b0b_0b0b_0000_0118,
                0x0a0a_0a0a_0000_0000,
                0x0000_0000_0001_304d,
                0x0000_0000_fff5_0005,
                0x0000_0052_0000_0085,
                0x0000_0001_0000_1218,
                0,
                0x0000_0000_0008_18db,
                0x0000_0000_0000_0095,
            ]
        );
    }

    #[test]
    fn a_label_that_is_nowhere_is_found_out() {
        let mut asm = Assembler::new();
        let nowhere = asm.label();
        asm.jump(nowhere);
        assert_eq!(asm.finish(), None);
    }
}
