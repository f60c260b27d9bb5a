//! Writing a message as the received bytes plus edits.

use core::ops::Range;

/// One edit: the bytes `remove` of the source give way to `text` of the arena.
#[derive(Clone, Debug)]
struct Edit {
    remove: Range<u32>,
    text: Range<u32>,
}

/// A list of edits on received bytes. Reused for every message; keeps its memory.
///
/// Edits may come in any order but must not overlap; several insertions at one place keep the order
/// in which they were made.
#[derive(Debug, Default)]
pub struct Splices {
    edits: Vec<Edit>,
    text: Vec<u8>,
}

impl Splices {
    /// No edits.
    pub fn new() -> Splices {
        Splices::default()
    }

    /// Forgets all edits.
    pub fn clear(&mut self) {
        self.edits.clear();
        self.text.clear();
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Inserts `text` before the byte at `at`.
    pub fn insert(&mut self, at: usize, text: &[u8]) {
        self.replace(at..at, text);
    }

    /// Removes a range.
    pub fn remove(&mut self, range: Range<usize>) {
        self.replace(range, b"");
    }

    /// Puts `text` in place of a range.
    pub fn replace(&mut self, range: Range<usize>, text: &[u8]) {
        self.replace_with(range, |out| out.extend_from_slice(text));
    }

    /// Puts what `write` appends in place of a range.
    pub fn replace_with(&mut self, range: Range<usize>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        write(&mut self.text);
        let text = start as u32..self.text.len() as u32;
        let remove = range.start as u32..range.end as u32;
        // Nearly sorted already: most edits are made from the top of a message downwards.
        let sorted = self.edits.last().is_none_or(|last| last.remove.start <= remove.start);
        if sorted {
            return self.edits.push(Edit { remove, text });
        }
        let place = self.edits.iter().rposition(|e| e.remove.start <= remove.start).map_or(0, |i| i + 1);
        self.edits.insert(place, Edit { remove, text });
    }

    /// Appends the edits in a form that is small and needs no other memory: [`apply_packed`] reads it.
    pub fn pack(&self, out: &mut Vec<u8>) {
        let numbers = self.edits.len() * 12;
        out.reserve(numbers + self.text.len());
        for Edit { remove, text } in &self.edits {
            for number in [remove.start, remove.end, text.end - text.start] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(self.text.get(text.start as usize..text.end as usize).unwrap_or(b""));
        }
    }

    /// Appends the edited copy of `source`.
    pub fn apply(&self, source: &[u8], out: &mut Vec<u8>) {
        out.reserve(source.len() + self.text.len());
        let mut at = 0;
        for edit in &self.edits {
            let (from, to) = (edit.remove.start as usize, edit.remove.end as usize);
            // An edit that overlaps its predecessor would be a defect of the caller; it must still
            // not panic or repeat bytes.
            if let Some(kept) = source.get(at..from.max(at)) {
                out.extend_from_slice(kept);
            }
            out.extend_from_slice(&self.text[edit.text.start as usize..edit.text.end as usize]);
            at = at.max(to);
        }
        out.extend_from_slice(source.get(at..).unwrap_or(b""));
    }
}

/// Appends the copy of `source` that the edits of [`Splices::pack`] make.
pub fn apply_packed(mut packed: &[u8], source: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some((numbers, rest)) = packed.split_first_chunk::<12>() {
        let number = |n: usize| {
            let bytes = numbers.get(4 * n..4 * n + 4).and_then(|b| b.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes) as usize
        };
        let Some((text, rest)) = rest.split_at_checked(number(2)) else { break };
        out.extend_from_slice(source.get(at..number(0).max(at)).unwrap_or(b""));
        out.extend_from_slice(text);
        at = at.max(number(1));
        packed = rest;
    }
    out.extend_from_slice(source.get(at..).unwrap_or(b""));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_apply_in_place_whatever_their_order() {
        let mut s = Splices::new();
        s.replace(6..11, b"there");
        s.insert(0, b"1");
        s.insert(0, b"2");
        s.remove(5..6);
        s.insert(11, b"!");
        let mut out = b"> ".to_vec();
        s.apply(b"hello world", &mut out);
        assert_eq!(out, b"> 12hellothere!");
        let (mut packed, mut again) = (Vec::new(), b"> ".to_vec());
        s.pack(&mut packed);
        apply_packed(&packed, b"hello world", &mut again);
        assert_eq!(again, out);
        s.clear();
        out.clear();
        s.apply(b"as it was", &mut out);
        assert_eq!(out, b"as it was");
    }

    #[test]
    fn overlapping_edits_do_not_panic() {
        let mut s = Splices::new();
        s.replace(0..5, b"a");
        s.replace(3..8, b"b");
        s.remove(20..30);
        let mut out = Vec::new();
        s.apply(b"0123456789", &mut out);
        assert!(out.starts_with(b"ab"));
        let (mut packed, mut again) = (Vec::new(), Vec::new());
        s.pack(&mut packed);
        apply_packed(&packed, b"0123456789", &mut again);
        assert_eq!(again, out);
        apply_packed(&packed[..20], b"0123456789", &mut again);
    }
}
