//! Which call a message belongs to.
//!
//! A call that begins here has a Call-ID that names its slot, unless Call-IDs come from a file. All others
//! are found by the hash of their Call-ID.

use super::call::{Call, Calls};
use super::ids::{self, is_same_name, slot_named};
use super::{CallIds, Settings};
use crate::scenario::Side;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Who began a call of a [`Directory`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The other side.
    Theirs,
    /// This one.
    Ours,
}

/// Slots of calls by the hash of their Call-IDs. The hash is kept: a table that grows does not look at the
/// calls, which takes milliseconds.
#[derive(Debug)]
pub struct Directory {
    /// Calls that the other side began.
    answering: HashTable<(u64, u32)>,
    /// Calls begun here whose Call-IDs come from a file ([`super::CallIds::Field`]).
    begun: HashTable<(u64, u32)>,
    hasher: FixedState,
    /// A scenario writes something before the Call-IDs of its calls.
    prefixed: bool,
    /// Call-IDs of calls that begin here come from a file.
    listed: bool,
}

impl Directory {
    /// Nobody yet.
    pub fn new(settings: &Settings, hasher: FixedState) -> Directory {
        let prefixes = |side| settings.scenario(side).is_some_and(|own| own.prefixes_call_ids);
        Directory {
            answering: HashTable::new(),
            begun: HashTable::new(),
            hasher,
            prefixed: prefixes(Side::Client) || prefixes(Side::Server),
            listed: matches!(settings.conduct.call_ids, CallIds::Field(_)),
        }
    }

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

    /// Whether a scenario writes something before the Call-IDs of its calls.
    pub fn is_prefixed(&self) -> bool {
        self.prefixed
    }

    /// Whether Call-IDs of calls that begin here come from a file.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    pub fn hash(&self, call_id: &[u8]) -> u64 {
        self.hasher.hash_one(call_id)
    }

    /// The part of a Call-ID that names the call where scenarios write something before it.
    #[inline]
    pub fn name_in<'m>(&self, call_id: &'m [u8]) -> &'m [u8] {
        if self.prefixed { ids::behind(call_id).unwrap_or(call_id) } else { call_id }
    }

    /// The call of this hash for which `is_it` holds.
    pub fn find(&self, whose: Whose, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let table = self.table(whose);
        if table.is_empty() {
            return None;
        }
        table.find(hash, |&(own, slot)| own == hash && is_it(slot)).map(|&(_, slot)| slot)
    }

    /// The call that began here and has this Call-ID.
    #[inline]
    pub fn begun_here(&self, call_id: &[u8], calls: &Calls) -> Option<u32> {
        if self.listed {
            return self.find(Whose::Ours, self.hash(call_id), |slot| has_call_id(calls, slot, call_id));
        }
        let is_its = |&slot: &u32| {
            calls.get(slot).is_some_and(|call| {
                call.identity.side == Side::Client && is_same_name(&call.identity.call_id, call_id)
            })
        };
        slot_named(call_id).filter(is_its)
    }

    /// The call that the other side began and that has this Call-ID.
    pub fn answered_here(&self, call_id: &[u8], calls: &Calls) -> Option<u32> {
        if self.answering() == 0 {
            return None;
        }
        self.find(Whose::Theirs, self.hash(call_id), |slot| has_call_id(calls, slot, call_id))
    }

    /// The call whose scenario has written something before its Call-ID.
    pub fn prefixed(&self, call_id: &[u8], calls: &Calls) -> Option<u32> {
        if !self.prefixed {
            return None;
        }
        let name = ids::behind(call_id)?;
        self.begun_here(name, calls).or_else(|| self.answered_here(name, calls))
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

    /// Forgets a call that is freed, if it is there.
    pub fn forget(&mut self, slot: u32, call: &Call) {
        let theirs = call.identity.side == Side::Server;
        if theirs || self.listed {
            let whose = if theirs { Whose::Theirs } else { Whose::Ours };
            self.remove(whose, call.identity.hash, slot);
        }
    }
}

fn has_call_id(calls: &Calls, slot: u32, call_id: &[u8]) -> bool {
    calls.get(slot).is_some_and(|call| call.identity.call_id == call_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_hash_are_told_apart_by_slot_and_side() {
        let mut directory = Directory {
            answering: HashTable::new(),
            begun: HashTable::new(),
            hasher: FixedState::with_seed(1),
            prefixed: false,
            listed: false,
        };
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
