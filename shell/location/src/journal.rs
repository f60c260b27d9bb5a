//! Changes not yet on disk, one per binding: a later change of a binding takes the place of an
//! earlier one, so that there are never more than there are bindings, present and removed.

use hashbrown::HashTable;
use sip_registrar::Change;
use siphasher::sip::SipHasher13;

use crate::hash::in_one_piece;
use crate::key::{Key, key_of};

/// Changes that a journal always keeps room for, once it had them: what a hash table of 16 buckets has. Room
/// for more is given back when an eighth of it or less is used: there are many journals, and after everybody
/// has registered at once it is megabytes.
const ROOM: usize = 14;

/// The changes of one stripe that wait to be written.
#[derive(Default)]
pub(crate) struct Journal {
    table: HashTable<Waiting>,
}

/// A change under the keyed hash of its binding's key.
struct Waiting {
    hash: u64,
    change: Change,
}

impl Waiting {
    fn is_about(&self, key: &Key<'_>, hash: u64) -> bool {
        self.hash == hash && key_of(&self.change) == *key
    }
}

impl Journal {
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Adds the latest change of a binding; answers whether there was none before.
    pub(crate) fn push(&mut self, seed: &[u8; 16], change: Change) -> bool {
        let key = key_of(&change);
        let hash = hash(seed, &key);
        match self.table.find_mut(hash, |waiting| waiting.is_about(&key, hash)) {
            Some(waiting) => {
                waiting.change = change;
                false
            }
            None => {
                self.insert(Waiting { hash, change });
                true
            }
        }
    }

    /// Adds a change that is older than what may be here; answers whether it was still needed.
    pub(crate) fn push_older(&mut self, seed: &[u8; 16], change: Change) -> bool {
        let key = key_of(&change);
        let hash = hash(seed, &key);
        if self.table.find(hash, |waiting| waiting.is_about(&key, hash)).is_some() {
            return false;
        }
        self.insert(Waiting { hash, change });
        true
    }

    /// Moves all changes to `out`, in no order. Keeps its room if much of that was used.
    pub(crate) fn drain_into(&mut self, out: &mut Vec<Change>) {
        let used = self.table.len();
        out.extend(self.table.drain().map(|waiting| waiting.change));
        if self.room() > ROOM.max(8 * used) {
            self.table = HashTable::new();
        }
    }

    /// Whether it is empty and has the room of a busier time.
    pub(crate) fn is_roomy(&self) -> bool {
        self.table.is_empty() && self.room() > ROOM
    }

    /// Changes that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.table.capacity()
    }

    fn insert(&mut self, waiting: Waiting) {
        self.table.insert_unique(waiting.hash, waiting, |waiting| waiting.hash);
    }
}

/// Keyed, and with the lengths, so that nobody outside can choose names that fall together.
fn hash(seed: &[u8; 16], key: &Key<'_>) -> u64 {
    let lengths = [key.aor.len().to_le_bytes(), key.contact.len().to_le_bytes()];
    in_one_piece(
        &[lengths.as_flattened(), key.aor, key.contact, key.instance, &key.reg_id.to_le_bytes()],
        |bytes| SipHasher13::new_with_key(seed).hash(bytes),
    )
}

#[cfg(test)]
mod tests {
    use wire::Time;

    use super::*;
    use crate::testing::record;

    const SEED: [u8; 16] = [9; 16];

    fn put(user: &str, cseq: u32) -> Change {
        let mut record = record(user, "sip:x", Time::from_secs(60));
        record.cseq = cseq;
        Change::Put(record)
    }

    fn delete(user: &str) -> Change {
        let record = record(user, "sip:x", Time::ZERO);
        Change::Delete { aor: record.aor, contact: record.contact, instance: record.instance, reg_id: 0 }
    }

    #[test]
    fn the_latest_change_of_a_binding_counts() {
        let mut journal = Journal::default();
        assert!(journal.push(&SEED, put("a", 1)));
        assert!(!journal.push(&SEED, delete("a")));
        assert!(journal.push(&SEED, put("b", 1)));
        assert!(!journal.push(&SEED, put("b", 2)));
        let mut out = Vec::new();
        journal.drain_into(&mut out);
        out.sort_by(|one, other| key_of(one).cmp(&key_of(other)));
        assert_eq!(out, [delete("a"), put("b", 2)]);
        assert!(journal.is_empty());
    }

    #[test]
    fn room_that_is_not_used_any_more_is_given_back() {
        let mut journal = Journal::default();
        let mut out = Vec::new();
        (0..1_000).for_each(|n| assert!(journal.push(&SEED, put(&n.to_string(), 1))));
        journal.drain_into(&mut out);
        assert!(journal.room() >= 1_000 && journal.is_roomy(), "it may be needed again");
        (0..100).for_each(|n| assert!(journal.push(&SEED, put(&n.to_string(), 1))));
        journal.drain_into(&mut out);
        assert!(journal.room() <= ROOM && !journal.is_roomy());
        (0..10).for_each(|n| assert!(journal.push(&SEED, put(&n.to_string(), 1))));
        journal.drain_into(&mut out);
        assert!(journal.room() >= 10 && !journal.is_roomy(), "little is kept");
        assert_eq!(out.len(), 1_110);
    }

    /// Bindings whose keys are the same bytes, cut elsewhere, are two.
    #[test]
    fn keys_cut_in_other_places_are_kept_apart() {
        let with = |contact: &str, instance: &str| {
            let mut record = record("a", contact, Time::from_secs(60));
            record.instance = instance.as_bytes().into();
            Change::Put(record)
        };
        let (one, other) = (with("sip:x", "yz"), with("sip:xy", "z"));
        let mut journal = Journal::default();
        assert!(journal.push(&SEED, one.clone()) && journal.push(&SEED, other.clone()));
        assert!(!journal.push_older(&SEED, one.clone()) && !journal.push(&SEED, other.clone()));
        let mut out = Vec::new();
        journal.drain_into(&mut out);
        assert!(out.contains(&one) && out.contains(&other) && out.len() == 2);
    }

    #[test]
    fn what_comes_back_from_a_failed_write_does_not_undo_news() {
        let mut journal = Journal::default();
        journal.push(&SEED, put("a", 2));
        assert!(!journal.push_older(&SEED, put("a", 1)));
        assert!(journal.push_older(&SEED, delete("b")));
        let mut out = Vec::new();
        journal.drain_into(&mut out);
        assert!(out.contains(&put("a", 2)) && out.contains(&delete("b")) && out.len() == 2);
    }
}
