//! `[random length= of=]`: random characters, which SIPp cannot make.

use crate::population::Rng;

/// Longest random text.
const LONGEST: u16 = 1_000;

/// A text of random characters of an alphabet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Random {
    /// The fewest characters, and the most.
    length: (u16, u16),
    alphabet: Box<[u8]>,
}

impl Random {
    /// Of the parameters of the keyword: `length` is `16` or `4-60`, `of` has characters and ranges of them.
    ///
    /// # Errors
    /// What is wrong with them, and what to write.
    pub fn new(length: Option<&str>, of: Option<&str>) -> Result<Random, (String, &'static str)> {
        const LENGTH: &str = "write length=16, or length=4-60; at most 1000";
        let written = length.ok_or_else(|| ("it does not say how long".to_owned(), LENGTH))?;
        let (fewest, most) = written.split_once('-').unwrap_or((written, written));
        let length = fewest.parse().ok().zip(most.parse().ok());
        let length = length.filter(|(fewest, most)| (1..=LONGEST).contains(most) && fewest <= most);
        let length = length.ok_or_else(|| (format!("`{written}' is no length"), LENGTH))?;
        let alphabet = alphabet(of.unwrap_or("0-9a-z"))
            .ok_or_else(|| ("`of' is no set of ASCII characters".to_owned(), "write of=0-9a-f"))?;
        Ok(Random { length, alphabet })
    }

    /// Appends one.
    pub fn write(&self, rng: &mut Rng, out: &mut Vec<u8>) {
        let (fewest, most) = self.length;
        let length = fewest + rng.below(u64::from(most - fewest) + 1) as u16;
        for _ in 0..length {
            let nth = rng.below(self.alphabet.len() as u64) as usize;
            out.extend(self.alphabet.get(nth));
        }
    }
}

/// The characters of `0-9a-f.`; a hyphen at an end stands for itself. `None` if there are none.
fn alphabet(of: &str) -> Option<Box<[u8]>> {
    let (mut all, mut rest) = (Vec::new(), of.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let last = match after {
            [b'-', last, ..] => *last,
            _ => first,
        };
        rest = if last == first { after } else { after.get(2..)? };
        if !first.is_ascii() || last < first {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all.into_boxed_slice()).filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_text_has_the_length_and_alphabet() {
        let random = Random::new(Some("2-5"), Some("0-2x-")).expect("it can be read");
        let (mut rng, mut lengths) = (Rng::new(1, 1), [false; 6]);
        for _ in 0..200 {
            let mut out = Vec::new();
            random.write(&mut rng, &mut out);
            lengths[out.len()] = true;
            assert!(out.iter().all(|byte| b"012x-".contains(byte)), "{out:?}");
        }
        assert_eq!(lengths, [false, false, true, true, true, true]);
    }

    #[test]
    fn wrong_lengths_and_alphabets_are_refused() {
        for length in [None, Some(""), Some("0"), Some("5-4"), Some("1001"), Some("x")] {
            assert!(Random::new(length, None).is_err(), "{length:?}");
        }
        for of in ["", "9-0", "ä"] {
            assert!(Random::new(Some("4"), Some(of)).is_err(), "{of}");
        }
    }
}
