//! Fixed and variable-length integers in cells.

pub(crate) fn u32_at(cell: &[u8], at: usize) -> u32 {
    match cell.get(at..at + 4) {
        Some(b) => u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        None => 0,
    }
}

pub(crate) fn put_u32(cell: &mut [u8], at: usize, value: u32) {
    if let Some(b) = cell.get_mut(at..at + 4) {
        b.copy_from_slice(&value.to_le_bytes());
    }
}

pub(crate) fn u16_at(cell: &[u8], at: usize) -> u16 {
    match cell.get(at..at + 2) {
        Some(b) => u16::from_le_bytes([b[0], b[1]]),
        None => 0,
    }
}

pub(crate) fn put_u16(cell: &mut [u8], at: usize, value: u16) {
    if let Some(b) = cell.get_mut(at..at + 2) {
        b.copy_from_slice(&value.to_le_bytes());
    }
}

/// Appends seven bits a byte, low ones first.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut n: u32) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

pub(crate) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

/// Reads what the `push_` functions wrote. Reading past the end gives zeros and empty slices.
#[derive(Clone)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        match self.0.split_at_checked(len) {
            Some((head, rest)) => {
                self.0 = rest;
                head
            }
            None => std::mem::take(&mut self.0),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().unwrap_or([0; N])
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn varint(&mut self) -> u32 {
        let mut n = 0u32;
        for shift in (0..35).step_by(7) {
            let b = self.byte();
            n |= u32::from(b & 0x7f).wrapping_shl(shift);
            if b & 0x80 == 0 {
                break;
            }
        }
        n
    }

    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let len = self.varint() as usize;
        self.take(len)
    }
}
