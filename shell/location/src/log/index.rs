//! Where in the logs the latest word about each binding stands.

use hashbrown::HashTable;
use siphasher::sip128::SipHasher13;

#[cfg(test)]
use crate::key::Key;
#[cfg(test)]
use crate::log::record::encoded_key;
use crate::turns;

/// Tables of an index.
const TABLES: usize = 256;

/// The latest record about each binding, by a keyed 128-bit hash of its key: 2^64 bindings would be needed
/// for two to meet by chance. 48 bytes for each binding that the logs speak of.
pub(crate) struct Index {
    key: [u8; 16],
    /// Many, so that none takes long to grow.
    tables: Box<[HashTable<Latest>]>,
}

/// One binding of an [`Index`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latest {
    hash: [u64; 2],
    /// The first bytes of the address of record as numbers of the same order: so that rows that are
    /// neighbours on disk are written together, whatever else is the order.
    beginning: [u64; 2],
    pub(crate) place: Place,
}

/// Where a record stands, without its length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    /// Offset in its file.
    pub(crate) at: u64,
    pub(crate) length: u32,
    /// Position of the file among the logs.
    pub(crate) file: u32,
}

impl Index {
    /// `key` must be unguessable.
    pub(crate) fn new(key: [u8; 16]) -> Index {
        Index { key, tables: (0..TABLES).map(|_| HashTable::new()).collect() }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.tables.iter().map(HashTable::len).sum()
    }

    /// The latest about the binding with this key, as [`encoded_key`] has it, stands at `place`. To be
    /// called in the order of the records.
    pub(crate) fn note(&mut self, key: &[u8], aor: &[u8], place: Place) {
        let hash = self.hash(key);
        let Some(table) = self.tables.get_mut(table_of(hash)) else { return };
        match table.find_mut(hash[0], |latest| latest.hash == hash) {
            Some(latest) => latest.place = place,
            None => {
                let latest = Latest { hash, beginning: beginning(aor), place };
                table.insert_unique(hash[0], latest, |latest| latest.hash[0]);
            }
        }
    }

    /// Whether the logs speak of this binding.
    #[cfg(test)]
    pub(crate) fn has(&self, key: &Key<'_>) -> bool {
        if self.len() == 0 {
            return false;
        }
        let hash = self.hash(&encoded_key(key));
        self.tables[table_of(hash)].find(hash[0], |latest| latest.hash == hash).is_some()
    }

    /// All places in the order of the table's rows, as nearly as the beginnings of the keys tell it.
    pub(crate) fn in_order_of_rows(&self) -> Vec<Place> {
        let all = self.tables.iter().flatten().inspect(|_| turns::offer_often());
        let mut all: Vec<&Latest> = all.collect();
        all.sort_unstable_by_key(|latest| {
            turns::offer_often();
            (latest.beginning, latest.hash)
        });
        all.into_iter().inspect(|_| turns::offer_often()).map(|latest| latest.place).collect()
    }

    #[cfg(test)]
    /// All places in file `file` in the order in which they stand there.
    pub(crate) fn in_order_of_file(&self, file: u32) -> Vec<Place> {
        let mut all: Vec<Place> = self
            .tables
            .iter()
            .flatten()
            .map(|latest| latest.place)
            .filter(|place| place.file == file)
            .collect();
        all.sort_unstable();
        all
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        let hash = SipHasher13::new_with_key(&self.key).hash(key);
        [hash.h1, hash.h2]
    }
}

/// Which table a binding is in.
fn table_of(hash: [u64; 2]) -> usize {
    hash[1] as usize % TABLES
}

/// The first sixteen bytes.
fn beginning(name: &[u8]) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
    let number = u128::from_be_bytes(bytes);
    [(number >> 64) as u64, number as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(aor: &str) -> Key<'_> {
        Key { aor: aor.as_bytes(), contact: b"sip:x", instance: b"", reg_id: 0 }
    }

    fn note(index: &mut Index, key: &Key<'_>, place: Place) {
        index.note(&encoded_key(key), key.aor, place);
    }

    fn place(file: u32, at: u64) -> Place {
        Place { at, length: 9, file }
    }

    #[test]
    fn the_latest_word_counts_and_rows_come_in_their_order() {
        let mut index = Index::new([1; 16]);
        assert!(!index.has(&key("b@x")));
        for (aor, at) in [("b@x", 10), ("a@x", 20), ("c@x", 30), ("a@x", 40)] {
            note(&mut index, &key(aor), place(0, at));
        }
        note(&mut index, &key("b@x"), place(1, 5));
        assert!(index.has(&key("b@x")) && !index.has(&key("d@x")));
        assert_eq!(index.len(), 3);
        assert_eq!(index.in_order_of_file(0), [place(0, 30), place(0, 40)]);
        assert_eq!(index.in_order_of_rows(), [place(0, 40), place(1, 5), place(0, 30)]);
    }

    #[test]
    fn keys_cut_in_other_places_are_kept_apart() {
        let mut index = Index::new([1; 16]);
        note(&mut index, &Key { aor: b"a", contact: b"bc", instance: b"", reg_id: 0 }, place(0, 1));
        assert!(!index.has(&Key { aor: b"ab", contact: b"c", instance: b"", reg_id: 0 }));
        assert!(!index.has(&Key { aor: b"a", contact: b"b", instance: b"c", reg_id: 0 }));
        assert!(!index.has(&Key { aor: b"a", contact: b"bc", instance: b"", reg_id: 1 }));
    }
}
