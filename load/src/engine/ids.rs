//! The Call-IDs of calls begun here. They name worker and slot, so that whatever comes back finds its
//! call without a search, and a worker that gets another's message knows whose it is.
//!
//! Form: `wwwwssssssssgggggggg-rrrrrrrr@address`, hexadecimal digits of worker, slot, generation and the
//! run, which tells late messages of an earlier run from ours.

/// A call begun here: which worker's, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallName {
    /// The worker.
    pub worker: u16,
    /// Its slot there.
    pub slot: u32,
    /// Distinguishes the calls that used the slot one after the other.
    pub generation: u32,
}

/// Digits before the dash.
const NAME: usize = 4 + 8 + 8;

impl CallName {
    /// Appends the Call-ID.
    pub fn write(self, run: u32, address: &[u8], out: &mut Vec<u8>) {
        push_hex(self.worker.into(), 4, out);
        push_hex(self.slot, 8, out);
        push_hex(self.generation, 8, out);
        out.push(b'-');
        push_hex(run, 8, out);
        out.push(b'@');
        out.extend_from_slice(address);
    }

    /// Reads a Call-ID. `None`: it is not one of this run.
    pub fn read(call_id: &[u8], run: u32) -> Option<CallName> {
        let (name, rest) = call_id.split_at_checked(NAME)?;
        if hex(rest.strip_prefix(b"-")?)? != run {
            return None;
        }
        // Worker and the upper half of the slot, the slot, the generation.
        let (upper, slot) = (hex(name)?, hex(name.get(4..)?)?);
        Some(CallName { worker: (upper >> 16) as u16, slot, generation: hex(name.get(12..)?)? })
    }
}

/// Appends the last `digits` (8 at most) hexadecimal digits of a number.
pub fn push_hex(number: u32, digits: u32, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 8];
    for (i, place) in text.iter_mut().enumerate().take(digits as usize) {
        *place = DIGITS[(number >> (4 * (digits - 1 - i as u32)) & 15) as usize];
    }
    out.extend_from_slice(&text[..digits as usize]);
}

/// The number that eight lower-case hexadecimal digits are, all at once: each is a byte of one word.
pub fn hex(text: &[u8]) -> Option<u32> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let digits = u64::from_be_bytes(*text.first_chunk()?);
    let letters = digits >> 6 & ONES;
    // No carry from byte to byte: each is 15 + 9 at most.
    let values = (digits & (ONES * 15)) + letters * 9;
    // Written as digits again it must be the same, or some byte was none.
    let above_nine = (values + ONES * 6) >> 4 & ONES;
    if values & (ONES * 0xf0) != 0 || values + ONES * 48 + above_nine * 39 != digits {
        return None;
    }
    let pairs = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let quads = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    Some((quads | quads >> 16) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(worker: u16, slot: u32, generation: u32, run: u32) {
            let name = CallName { worker, slot, generation };
            let mut text = Vec::new();
            name.write(run, b"[::1]", &mut text);
            prop_assert_eq!(CallName::read(&text, run), Some(name));
            prop_assert_eq!(CallName::read(&text, run.wrapping_add(1)), None, "another run's");
        }

        #[test]
        fn a_number_is_what_its_digits_say(text in "[0-9a-f]{8}", at in 0..8_usize, byte: u8) {
            prop_assert_eq!(hex(text.as_bytes()), u32::from_str_radix(&text, 16).ok());
            let mut other = text.into_bytes();
            other[at] = byte;
            let want = matches!(byte, b'0'..=b'9' | b'a'..=b'f')
                .then(|| u32::from_str_radix(core::str::from_utf8(&other).unwrap(), 16).unwrap());
            prop_assert_eq!(hex(&other), want);
        }

        #[test]
        fn nothing_else_is_taken_for_one(text: Vec<u8>) {
            prop_assert_eq!(CallName::read(&text, 7), None);
        }
    }
}
