//! Changes not yet on disk, one per binding: a later change of a binding takes the place of an
//! earlier one, so that there are never more than there are bindings, present and removed.

use hashbrown::HashTable;
use sip_registrar::Change;
use siphasher::sip128::SipHasher13;

use super::row::key_of;
use crate::names::in_one_piece;

/// The changes of one stripe that wait to be written.
#[derive(Default)]
pub(crate) struct Journal {
    table: HashTable<Waiting>,
}

/// A change under the keyed hash of its binding's key, which stands for the key.
struct Waiting {
    key: (u64, u64),
    change: Change,
}

impl Journal {
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Adds the latest change of a binding; answers whether there was none before.
    pub(crate) fn push(&mut self, seed: &[u8; 16], change: Change) -> bool {
        let key = hash(seed, &change);
        match self.table.find_mut(key.0, |waiting| waiting.key == key) {
            Some(waiting) => {
                waiting.change = change;
                false
            }
            None => {
                self.table.insert_unique(key.0, Waiting { key, change }, |waiting| waiting.key.0);
                true
            }
        }
    }

    /// Adds a change that is older than what may be here; answers whether it was still needed.
    pub(crate) fn push_older(&mut self, seed: &[u8; 16], change: Change) -> bool {
        let key = hash(seed, &change);
        if self.table.find(key.0, |waiting| waiting.key == key).is_some() {
            return false;
        }
        self.table.insert_unique(key.0, Waiting { key, change }, |waiting| waiting.key.0);
        true
    }

    /// Moves all changes to `out`, in no order. Keeps its room.
    pub(crate) fn drain_into(&mut self, out: &mut Vec<Change>) {
        out.extend(self.table.drain().map(|waiting| waiting.change));
    }
}

fn hash(seed: &[u8; 16], change: &Change) -> (u64, u64) {
    let key = key_of(change);
    let hash = in_one_piece(
        &[
            &key.aor.len().to_le_bytes(),
            key.aor,
            &key.contact.len().to_le_bytes(),
            key.contact,
            &key.instance.len().to_le_bytes(),
            key.instance,
            &key.reg_id.to_le_bytes(),
        ],
        |bytes| SipHasher13::new_with_key(seed).hash(bytes),
    );
    (hash.h1, hash.h2)
}

#[cfg(test)]
mod tests {
    use wire::Time;

    use super::*;
    use crate::location::row::tests::record;

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
