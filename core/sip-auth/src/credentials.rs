//! What a server keeps of one account's secret.

use crate::algorithm::ha1;
use crate::{Algorithm, Ha1, NameForm};
use core::fmt;

/// The hashes known for one account, packed: 40 bytes for an account that has only the MD5 hash of
/// its bare user name, which is what imported tables hold.
///
/// A hash exists per algorithm and per [`NameForm`] (`ha1` and `ha1b` of Kamailio's and OpenSIPS's
/// subscriber tables). Offer an algorithm in challenges only if all accounts have a hash for it:
/// a client takes the first one it knows, and nobody can tell it that this account lacks it without
/// telling a stranger that the account exists.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The hash of slot 0, kept inline because nearly every account has it.
    md5: [u8; 16],
    /// Bit n: slot n is known.
    known: u8,
    /// The other known slots, in slot order.
    more: Box<[u8]>,
}

/// Slots in order of their bits: algorithm and form.
const SLOTS: [(Algorithm, NameForm); 6] = [
    (Algorithm::Md5, NameForm::Bare),
    (Algorithm::Md5, NameForm::Full),
    (Algorithm::Sha256, NameForm::Bare),
    (Algorithm::Sha256, NameForm::Full),
    (Algorithm::Sha512_256, NameForm::Bare),
    (Algorithm::Sha512_256, NameForm::Full),
];

impl Credentials {
    /// An account of which nothing is known, so that nobody can log in to it.
    pub fn new() -> Credentials {
        Credentials::default()
    }

    /// The hashes of `password` for both forms of the name (`user` and `user@domain`), by each of
    /// `algorithms`.
    pub fn from_password(
        user: &[u8],
        domain: &[u8],
        realm: &[u8],
        password: &[u8],
        algorithms: &[Algorithm],
    ) -> Credentials {
        let full = [user, b"@", domain].concat();
        let mut made = Credentials::new();
        for &algorithm in algorithms {
            made.set(NameForm::Bare, ha1(algorithm, user, realm, password));
            made.set(NameForm::Full, ha1(algorithm, &full, realm, password));
        }
        made
    }

    /// Whether no hash is known.
    pub fn is_empty(&self) -> bool {
        self.known == 0
    }

    /// The hash for `algorithm` and a name written in `form`.
    pub fn get(&self, form: NameForm, algorithm: Algorithm) -> Option<Ha1> {
        let slot = slot_of(form, algorithm);
        if self.known & (1 << slot) == 0 {
            return None;
        }
        if slot == 0 {
            return Some(Ha1::Md5(self.md5));
        }
        let start = self.offset(slot);
        Ha1::from_bytes(algorithm, self.more.get(start..start + algorithm.digest_len())?)
    }

    /// A number that another password hardly shares (once in two thousand million times). Not zero. Parts of
    /// the hashes, which are as good as random already: it takes the same time for all.
    pub fn mark(&self) -> u32 {
        let [a, b, c, d, ..] = self.md5;
        let last = self.more.last_chunk().copied().unwrap_or_default();
        (u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes(last) ^ (u32::from(self.known) << 24)) | 1
    }

    /// Sets or replaces one hash.
    pub fn set(&mut self, form: NameForm, ha1: Ha1) {
        let slot = slot_of(form, ha1.algorithm());
        if let (0, Ha1::Md5(bytes)) = (slot, ha1) {
            self.md5 = bytes;
        } else {
            let start = self.offset(slot);
            let old = if self.known & (1 << slot) == 0 { start } else { start + ha1.as_bytes().len() };
            let before = self.more.get(..start).unwrap_or_default();
            let after = self.more.get(old..).unwrap_or_default();
            self.more = [before, ha1.as_bytes(), after].concat().into_boxed_slice();
        }
        self.known |= 1 << slot;
    }

    /// Where `slot` starts, or would start, in `more`.
    fn offset(&self, slot: usize) -> usize {
        let earlier = SLOTS.iter().enumerate().take(slot).skip(1);
        earlier.filter(|(i, _)| self.known & (1 << i) != 0).map(|(_, (a, _))| a.digest_len()).sum()
    }
}

fn slot_of(form: NameForm, algorithm: Algorithm) -> usize {
    let pair = match algorithm {
        Algorithm::Md5 => 0,
        Algorithm::Sha256 => 2,
        Algorithm::Sha512_256 => 4,
    };
    pair + usize::from(form == NameForm::Full)
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({} known, hidden)", self.known.count_ones())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn value(slot: usize, seed: u8) -> Ha1 {
        let bytes = [seed; 32];
        let algorithm = SLOTS[slot].0;
        Ha1::from_bytes(algorithm, &bytes[..algorithm.digest_len()]).expect("the right length")
    }

    #[test]
    fn another_password_has_another_mark() {
        let realm = &b"example.com"[..];
        for algorithms in
            [&[Algorithm::Md5][..], &[Algorithm::Sha256], &[Algorithm::Md5, Algorithm::Sha512_256]]
        {
            let of = |p: &[u8]| Credentials::from_password(b"alice", realm, realm, p, algorithms).mark();
            let marks: BTreeSet<u32> = (0..200u8).map(|p| of(&[p])).collect();
            assert_eq!(marks.len(), 200);
            assert!(!marks.contains(&0) && of(b"x") == of(b"x"));
        }
        // One hash alone, of each kind, as imports have them.
        let alone = |slot: usize, seed| {
            let mut one = Credentials::new();
            one.set(SLOTS[slot].1, value(slot, seed));
            one.mark()
        };
        let marks = (0..SLOTS.len()).flat_map(|slot| [alone(slot, 0x12), alone(slot, 0x56)]);
        assert_eq!(marks.collect::<BTreeSet<u32>>().len(), 2 * SLOTS.len());
        assert_ne!(Credentials::new().mark(), 0);
    }

    #[test]
    fn the_common_account_is_small() {
        assert!(size_of::<Credentials>() <= 40);
    }

    #[test]
    fn a_password_serves_both_forms() {
        let c = Credentials::from_password(b"al", b"b.c", b"r", b"pw", &[Algorithm::Sha256]);
        assert_eq!(
            c.get(NameForm::Full, Algorithm::Sha256),
            Some(ha1(Algorithm::Sha256, b"al@b.c", b"r", b"pw"))
        );
        assert_eq!(
            c.get(NameForm::Bare, Algorithm::Sha256),
            Some(ha1(Algorithm::Sha256, b"al", b"r", b"pw"))
        );
        assert_eq!(c.get(NameForm::Bare, Algorithm::Md5), None);
        assert!(Credentials::new().is_empty() && !c.is_empty());
    }

    proptest! {
        /// Any order of setting and replacing reads back as a plain array of slots does.
        #[test]
        fn packing_loses_nothing(sets in proptest::collection::vec((0usize..6, any::<u8>()), 0..40)) {
            let mut packed = Credentials::new();
            let mut model = [None; 6];
            for (slot, seed) in sets {
                packed.set(SLOTS[slot].1, value(slot, seed));
                model[slot] = Some(value(slot, seed));
            }
            for (slot, want) in model.into_iter().enumerate() {
                prop_assert_eq!(packed.get(SLOTS[slot].1, SLOTS[slot].0), want);
            }
        }
    }
}
