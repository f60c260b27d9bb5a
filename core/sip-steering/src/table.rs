//! What an overloaded worker tells the kernel, and how a source is found in it.

use crate::hash::finish;
use std::collections::BTreeSet;

/// Rows in which sources are counted, each with a hash of its own.
pub const ROWS: usize = 2;
/// Buckets in a row, a power of two.
pub const BUCKETS: usize = 512;
/// Where in the table the salts are, each of two words with the lower half first; and what is added to some
/// lots.
pub(crate) const SALTS: usize = ROWS * BUCKETS;
pub(crate) const SHIFT: usize = SALTS + 2 * ROWS;
/// Where the numbers for emergency calls are, each of two words with the lower half first.
pub(crate) const NUMBERS_AT: usize = SHIFT + 2;
/// Words of the table.
pub(crate) const WORDS: usize = NUMBERS_AT + 2 * NUMBERS;

/// Numbers for emergency calls, or beginnings of such numbers, that the program compares.
pub(crate) const NUMBERS: usize = 8;
/// The longest of them, bytes.
const NUMBER_LEN: usize = 7;
/// The bit of an entry that says that it is the beginning of numbers: whatever follows passes.
pub(crate) const BEGINNING: u64 = 1;

/// What is mixed into the number of a source for what it brings besides calls: as many bits as a lot has.
pub(crate) const OTHERS: u64 = u16::MAX as u64;

/// As which source the INVITEs of one ([`Ownership::source`](crate::Ownership::source)) count, or its other
/// requests: as two, each with a share of its own. Phones that are refused a registration ask again, callers
/// do not; so where both come from one address (of a proxy or session border controller) and have one share,
/// those who ask again crowd the callers out. The worker counts OPTIONS and calls for help, which the kernel
/// never drops, with INVITEs.
pub fn part(source: u64, invite: bool) -> u64 {
    if invite { source } else { source ^ OTHERS }
}

/// The bucket of a source, or of a [`part`] of one, in a row with this salt.
pub fn place(source: u64, salt: u64) -> usize {
    finish(source ^ salt) as usize % BUCKETS
}

/// What the sources in a bucket may bring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threshold {
    /// Calls whose lot is below this pass: 0 to 65,536.
    pub below: u32,
    /// Other calls whose lot is below this are remembered as dropped: 0 to 65,536, in steps of four.
    pub near: u32,
}

impl Threshold {
    /// How far the second is shifted in the word, in units of so many lots as powers of two.
    pub(crate) const NEAR_SHIFT: u32 = 17;
    pub(crate) const NEAR_UNIT: u32 = 2;

    fn word(self) -> u32 {
        let near = self.near.min(1 << 16).div_ceil(1 << Threshold::NEAR_UNIT);
        self.below & ((1 << Threshold::NEAR_SHIFT) - 1) | near << Threshold::NEAR_SHIFT
    }

    fn of(word: u32) -> Threshold {
        Threshold {
            below: word & ((1 << Threshold::NEAR_SHIFT) - 1),
            near: word >> Threshold::NEAR_SHIFT << Threshold::NEAR_UNIT,
        }
    }
}

/// The words that the program of [`Ownership::sieve`](crate::Ownership::sieve) goes by: for each bucket a
/// [`Threshold`]. Of a source, the higher one of its buckets in both rows counts.
#[derive(Clone)]
pub struct Table(Box<[u32; WORDS]>);

impl Default for Table {
    /// Nothing passes.
    fn default() -> Table {
        Table(Box::new([0; WORDS]))
    }
}

impl Table {
    /// As the kernel reads it.
    pub fn words(&self) -> &[u32] {
        &*self.0
    }

    /// The thresholds, row after row.
    pub fn set_thresholds(&mut self, thresholds: impl Iterator<Item = Threshold>) {
        self.0.iter_mut().take(SALTS).zip(thresholds).for_each(|(word, threshold)| *word = threshold.word());
    }

    /// What a source may bring.
    pub fn threshold(&self, source: u64) -> Threshold {
        let words = (0..ROWS).filter_map(|row| self.0.get(row * BUCKETS + place(source, self.salt(row))));
        words.fold(Threshold { below: 0, near: 0 }, |most, word| {
            let this = Threshold::of(*word);
            Threshold { below: most.below.max(this.below), near: most.near.max(this.near) }
        })
    }

    /// The salt of a row.
    pub fn salt(&self, row: usize) -> u64 {
        let word = |at: usize| u64::from(self.0.get(SALTS + 2 * row + at).copied().unwrap_or(0));
        word(0) | word(1) << 32
    }

    /// Another salt for a row.
    pub fn set_salt(&mut self, row: usize, salt: u64) {
        let halves = [salt as u32, (salt >> 32) as u32];
        self.0.iter_mut().skip(SALTS + 2 * row).zip(halves).for_each(|(word, half)| *word = half);
    }

    /// What is added to the lots of requests other than INVITE.
    pub fn shift(&self) -> u16 {
        self.0.get(SHIFT).map_or(0, |word| *word as u16)
    }

    /// Another number for that.
    pub fn set_shift(&mut self, shift: u16) {
        if let Some(word) = self.0.get_mut(SHIFT) {
            *word = shift.into();
        }
    }

    /// The numbers whose calls always pass. The program compares a few short ones; where there are more, or
    /// longer ones, it has their beginnings, so that calls to other numbers pass as well, and the worker
    /// judges them.
    pub fn set_numbers<'n>(&mut self, numbers: impl Iterator<Item = &'n [u8]>) {
        let entries = entries(numbers.filter(|number| !number.is_empty()).collect());
        let entries = entries.into_iter().chain(core::iter::repeat(0));
        let halves = entries.flat_map(|entry| [entry as u32, (entry >> 32) as u32]);
        self.0
            .iter_mut()
            .skip(NUMBERS_AT)
            .take(2 * NUMBERS)
            .zip(halves)
            .for_each(|(word, half)| *word = half);
    }
}

/// The entries for these numbers: the numbers themselves, or as much of their beginnings as there is room
/// for.
fn entries(numbers: BTreeSet<&[u8]>) -> Vec<u64> {
    for longest in (0..=NUMBER_LEN).rev() {
        let cut = numbers.iter().filter_map(|number| number.get(..=longest)?.get(..longest));
        let beginnings: BTreeSet<&[u8]> = cut.collect();
        let whole = numbers.iter().filter(|number| number.len() <= longest);
        // What begins as longer ones do is covered by their beginning.
        let whole: Vec<&[u8]> =
            whole.copied().filter(|number| !beginnings.iter().any(|text| number.starts_with(text))).collect();
        if beginnings.len() + whole.len() <= NUMBERS {
            let beginnings = beginnings.into_iter().map(|text| entry(text, BEGINNING));
            return beginnings.chain(whole.into_iter().map(|text| entry(text, 0))).collect();
        }
    }
    Vec::new()
}

/// A number as the program reads it: its text, first byte lowest, and above that its length in bits, and
/// whether it is a beginning. Nothing is 0.
fn entry(text: &[u8], beginning: u64) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(text.iter().take(NUMBER_LEN)).for_each(|(byte, own)| *byte = *own);
    u64::from_le_bytes(bytes) | ((8 * text.len().min(NUMBER_LEN) as u64) | beginning) << (8 * NUMBER_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries, shown as text; a beginning ends with dots.
    fn shown(numbers: &[&str]) -> Vec<String> {
        let all = entries(numbers.iter().map(|number| number.as_bytes()).collect());
        let show = |entry: u64| {
            let text = &entry.to_le_bytes()[..(entry >> 56 & 0xf8) as usize / 8];
            let dots = if entry >> 56 & BEGINNING != 0 { "..." } else { "" };
            format!("{}{dots}", String::from_utf8_lossy(text))
        };
        all.into_iter().map(show).collect()
    }

    #[test]
    fn numbers_that_fit_are_compared_whole() {
        assert_eq!(shown(&["112", "0112000", "112"]), ["0112000", "112"]);
        assert_eq!(shown(&[]), [""; 0]);
    }

    #[test]
    fn numbers_beyond_the_room_are_compared_by_beginnings() {
        assert_eq!(shown(&["112", "01120000", "0112000"]), ["0112000...", "112"]);
        let many = ["110", "111", "112", "113", "114", "115", "116", "117", "118", "15", "911"];
        assert_eq!(shown(&many), ["11...", "91...", "15"], "as long as there is room for");
        let all: Vec<String> = (0..100).map(|n| format!("{n:02}9")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(shown(&all), ["..."], "all calls pass rather than one of them not");
    }
}
