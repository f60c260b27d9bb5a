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
/// Digits after it.
const RUN: usize = 8;

impl CallName {
    /// Appends the Call-ID.
    pub fn write(self, run: u32, address: &[u8], out: &mut Vec<u8>) {
        push_hex(self.worker.into(), 4, out);
        push_hex(self.slot, 8, out);
        push_hex(self.generation, 8, out);
        out.push(b'-');
        push_hex(run, RUN as u32, out);
        out.push(b'@');
        out.extend_from_slice(address);
    }

    /// Reads a Call-ID. `None`: it is not one of this run.
    pub fn read(call_id: &[u8], run: u32) -> Option<CallName> {
        let (name, rest) = call_id.split_at_checked(NAME)?;
        let digits = rest.strip_prefix(b"-")?.split_at_checked(RUN)?.0;
        if hex(digits)? != run {
            return None;
        }
        let (worker, rest) = name.split_at_checked(4)?;
        let (slot, generation) = rest.split_at_checked(8)?;
        Some(CallName { worker: hex(worker)? as u16, slot: hex(slot)?, generation: hex(generation)? })
    }
}

fn push_hex(number: u32, digits: u32, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 8];
    for (i, place) in text.iter_mut().enumerate().take(digits as usize) {
        *place = DIGITS[(number >> (4 * (digits - 1 - i as u32)) & 15) as usize];
    }
    out.extend_from_slice(&text[..digits as usize]);
}

fn hex(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |number: u32, &digit| match digit {
        b'0'..=b'9' => Some(number << 4 | u32::from(digit - b'0')),
        b'a'..=b'f' => Some(number << 4 | u32::from(digit - b'a' + 10)),
        _ => None,
    })
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
        fn nothing_else_is_taken_for_one(text: Vec<u8>) {
            prop_assert_eq!(CallName::read(&text, 7), None);
        }
    }
}
