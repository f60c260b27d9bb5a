//! User-Agent texts, each kept once: a million phones are a few dozen models.

use std::collections::BTreeMap;

/// Different texts in one table; a text beyond is not kept, so that invented ones cost nothing.
const MAX_AGENTS: usize = 1024;
/// Longer texts are not kept.
const MAX_LEN: usize = 128;

#[derive(Default)]
pub(crate) struct Agents {
    numbers: BTreeMap<Box<[u8]>, u16>,
    /// Text and number of users, by number less one.
    texts: Vec<(Box<[u8]>, u32)>,
    vacant: Vec<u16>,
}

impl Agents {
    /// Different texts kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The text of a number; empty for 0.
    pub(crate) fn text(&self, number: u16) -> &[u8] {
        match usize::from(number).checked_sub(1).and_then(|at| self.texts.get(at)) {
            Some((text, _)) => text,
            None => b"",
        }
    }

    /// A number for `text` with one user more; 0 if it is not kept.
    pub(crate) fn acquire(&mut self, text: &[u8]) -> u16 {
        if text.is_empty() || text.len() > MAX_LEN {
            return 0;
        }
        if let Some(&number) = self.numbers.get(text) {
            self.texts[usize::from(number) - 1].1 += 1;
            return number;
        }
        if self.numbers.len() >= MAX_AGENTS {
            return 0;
        }
        let entry = (Box::from(text), 1);
        let number = match self.vacant.pop() {
            Some(number) => {
                self.texts[usize::from(number) - 1] = entry;
                number
            }
            None => {
                self.texts.push(entry);
                self.texts.len() as u16
            }
        };
        self.numbers.insert(text.into(), number);
        number
    }

    /// One user less.
    pub(crate) fn release(&mut self, number: u16) {
        let Some(at) = usize::from(number).checked_sub(1) else { return };
        let Some((text, users)) = self.texts.get_mut(at) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.numbers.remove(&std::mem::take(text));
            self.vacant.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_lives_as_long_as_its_users() {
        let mut agents = Agents::default();
        let a = agents.acquire(b"Phone/1.0");
        assert_eq!(agents.acquire(b"Phone/1.0"), a);
        let b = agents.acquire(b"Other");
        assert_ne!(a, b);
        agents.release(a);
        assert_eq!(agents.text(a), b"Phone/1.0");
        agents.release(a);
        assert_eq!(agents.text(a), b"");
        assert_eq!(agents.text(b), b"Other");
        assert_eq!(agents.acquire(b"Third"), a, "a vacant number is used again");
    }

    #[test]
    fn invented_texts_stop_costing() {
        let mut agents = Agents::default();
        let numbers: Vec<u16> =
            (0..MAX_AGENTS + 10).map(|n| agents.acquire(n.to_string().as_bytes())).collect();
        assert!(numbers[..MAX_AGENTS].iter().all(|n| *n != 0));
        assert!(numbers[MAX_AGENTS..].iter().all(|n| *n == 0));
        assert_eq!(agents.acquire(&[b'x'; MAX_LEN + 1]), 0);
        agents.release(0);
        agents.release(numbers[3]);
        assert_eq!(agents.acquire(b"room again"), numbers[3]);
    }
}
