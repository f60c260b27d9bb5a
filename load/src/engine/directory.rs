//! Which call has a Call-ID that does not name it.

use hashbrown::HashTable;

/// Slots of calls by the hash of their Call-IDs. The hash is kept: a table that grows does not look at the
/// calls, which takes milliseconds.
#[derive(Debug, Default)]
pub struct Directory {
    /// Calls that the other side began.
    answering: HashTable<(u64, u32)>,
    /// Calls begun here whose Call-IDs come from a file ([`super::CallIds::Field`]).
    begun: HashTable<(u64, u32)>,
}

/// Who began a call of a [`Directory`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The other side.
    Theirs,
    /// This one.
    Ours,
}

impl Directory {
    fn table(&self, whose: Whose) -> &HashTable<(u64, u32)> {
        match whose {
            Whose::Theirs => &self.answering,
            Whose::Ours => &self.begun,
        }
    }

    fn table_mut(&mut self, whose: Whose) -> &mut HashTable<(u64, u32)> {
        match whose {
            Whose::Theirs => &mut self.answering,
            Whose::Ours => &mut self.begun,
        }
    }

    /// How many calls the other side began.
    pub fn answering(&self) -> usize {
        self.answering.len()
    }

    /// The call of this hash for which `is_it` holds.
    pub fn find(&self, whose: Whose, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let table = self.table(whose);
        if table.is_empty() {
            return None;
        }
        table.find(hash, |&(own, slot)| own == hash && is_it(slot)).map(|&(_, slot)| slot)
    }

    /// Adds a call.
    pub fn insert(&mut self, whose: Whose, hash: u64, slot: u32) {
        self.table_mut(whose).insert_unique(hash, (hash, slot), |&(hash, _)| hash);
    }

    /// Forgets a call, if it is there.
    pub fn remove(&mut self, whose: Whose, hash: u64, slot: u32) {
        if let Ok(entry) = self.table_mut(whose).find_entry(hash, |&(_, own)| own == slot) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_hash_are_told_apart_by_slot_and_side() {
        let mut directory = Directory::default();
        for (whose, slot) in [(Whose::Theirs, 1), (Whose::Theirs, 2), (Whose::Ours, 1)] {
            directory.insert(whose, 7, slot);
        }
        assert_eq!(directory.answering(), 2);
        assert_eq!(directory.find(Whose::Theirs, 7, |slot| slot == 2), Some(2));
        assert_eq!(directory.find(Whose::Ours, 7, |slot| slot == 2), None);
        assert_eq!(directory.find(Whose::Theirs, 8, |_| true), None);
        directory.remove(Whose::Theirs, 7, 1);
        directory.remove(Whose::Theirs, 7, 1);
        assert_eq!((directory.answering(), directory.find(Whose::Theirs, 7, |_| true)), (1, Some(2)));
        assert_eq!(directory.find(Whose::Ours, 7, |_| true), Some(1));
    }
}
