//! The Call-IDs of calls begun here. They name worker and slot, so that whatever comes back finds its
//! call without a search, and a worker that gets another's message knows whose it is.
//!
//! Form: `wwwwssssssssgggggggg-rrrrrrrr@address`, hexadecimal digits of worker, slot, generation and the
//! run, which tells late messages of an earlier run from ours. Anything may stand in place of `@address`.

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
/// Bytes before the `@`.
pub const NAMED: usize = NAME + 1 + 8;

impl CallName {
    /// Appends the beginning of the Call-ID, which is all that is read of it.
    pub fn write(self, run: u32, out: &mut Vec<u8>) {
        let mut text = [b'-'; NAMED];
        let [_, _, _, _, worker @ ..] = digits(self.worker.into());
        let mut rest = text.as_mut_slice();
        for part in [&worker[..], &digits(self.slot), &digits(self.generation), b"-", &digits(run)] {
            let (place, more) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = more;
        }
        out.extend_from_slice(&text);
    }

    /// Reads a Call-ID. `None`: it is not one of this run.
    #[inline]
    pub fn read(call_id: &[u8], run: u32) -> Option<CallName> {
        let (name, rest) = call_id.split_first_chunk::<NAME>()?;
        let (dash, rest) = rest.split_first()?;
        if *dash != b'-' || *rest.first_chunk::<8>()? != digits(run) {
            return None;
        }
        // Worker and the upper half of the slot, the slot, the generation.
        let (upper, slot) = (hex(name)?, hex(name.get(4..)?)?);
        Some(CallName { worker: (upper >> 16) as u16, slot, generation: hex(name.get(12..)?)? })
    }
}

/// What stands behind `///` in a Call-ID, by which SIPp knows a call whose scenario writes something before.
pub fn behind(call_id: &[u8]) -> Option<&[u8]> {
    let at = memchr::memmem::find(call_id, b"///")?;
    call_id.get(at + 3..)
}

/// The slot that a Call-ID names if it is one of ours. Of any other it is some number: the call in that slot
/// tells.
#[inline(always)]
pub fn slot_named(call_id: &[u8]) -> Option<u32> {
    let text = call_id.get(4..)?.first_chunk()?;
    Some(joined(values(u64::from_be_bytes(*text))))
}

/// Whether two Call-IDs are of one call that began here: the same in all that stands before the `@`.
#[inline(always)]
pub fn is_same_name(one: &[u8], other: &[u8]) -> bool {
    matches!((one.first_chunk::<NAMED>(), other.first_chunk::<NAMED>()), (Some(one), Some(other)) if one == other)
}

/// Appends the last `digits` (8 at most) hexadecimal digits of a number.
pub fn push_hex(number: u32, digits: u32, out: &mut Vec<u8>) {
    let text = self::digits(number);
    out.extend_from_slice(&text[text.len() - (digits as usize).min(text.len())..]);
}

/// A byte of each digit, all at once: the most significant first.
#[inline]
fn digits(number: u32) -> [u8; 8] {
    let number = u64::from(number);
    let quads = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let pairs = (quads | quads << 8) & 0x00ff_00ff_00ff_00ff;
    let values = (pairs | pairs << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // No carry from byte to byte.
    let above_nine = (values + ONES * 6) >> 4 & ONES;
    (values + ONES * 48 + above_nine * 39).to_be_bytes()
}

/// The number that eight lower-case hexadecimal digits are, all at once: each is a byte of one word.
#[inline(always)]
pub fn hex(text: &[u8]) -> Option<u32> {
    let digits = u64::from_be_bytes(*text.first_chunk()?);
    let values = values(digits);
    // Written as digits again it must be the same, or some byte was none.
    let above_nine = (values + ONES * 6) >> 4 & ONES;
    if values & (ONES * 0xf0) != 0 || values + ONES * 48 + above_nine * 39 != digits {
        return None;
    }
    Some(joined(values))
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// What each digit stands for, a byte each; of other bytes, something.
#[inline(always)]
fn values(digits: u64) -> u64 {
    let letters = digits >> 6 & ONES;
    // No carry from byte to byte: each is 15 + 9 at most.
    (digits & (ONES * 15)) + letters * 9
}

/// The number of these digits, a byte each.
#[inline(always)]
fn joined(values: u64) -> u32 {
    let pairs = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let quads = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    (quads | quads >> 16) as u32
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
            name.write(run, &mut text);
            text.extend_from_slice(b"@[::1]");
            prop_assert_eq!(CallName::read(&text, run), Some(name));
            prop_assert_eq!(CallName::read(&text, run.wrapping_add(1)), None, "another run's");
            prop_assert_eq!(slot_named(&text), Some(slot));
            let mut other = Vec::new();
            name.write(run, &mut other);
            other.extend_from_slice(b"-x@192.0.2.9");
            prop_assert!(is_same_name(&text, &other), "whatever is behind the @");
            let mut next = Vec::new();
            CallName { generation: generation.wrapping_add(1), ..name }.write(run, &mut next);
            prop_assert!(!is_same_name(&text, &next) && !is_same_name(&text, &text[..NAMED - 1]));
        }

        #[test]
        fn digits_are_those_of_the_number(number: u32, few in 0..9_u32) {
            let mut text = Vec::new();
            push_hex(number, few, &mut text);
            prop_assert_eq!(String::from_utf8(text).unwrap(), &format!("{number:08x}")[8 - few as usize..]);
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
