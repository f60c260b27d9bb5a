//! What a worker has reckoned a moment ago and is likely to need again.
//!
//! A nonce comes back with credentials soon after it was given out, and phones register with the same method
//! and URI all day. Whether anything is found here changes the work and never the answer: a nonce that is not
//! is opened by its seal, a digest that is not is reckoned.

use crate::nonce::{Minted, Nonce, TEXT_LEN};
use core::fmt;
use subtle::ConstantTimeEq;

/// Nonces remembered; each takes the place of the one before in its place.
const NONCES: usize = 512;
/// Realms that nonces are remembered of.
const REALMS: usize = 8;
/// Digests of method and URI remembered.
const TARGETS: usize = 16;
/// Longer texts are not remembered.
const TARGET: usize = 94;

#[derive(Clone, Copy)]
struct Place {
    minted: Minted,
    /// Of which realm, by number; [`REALMS`] if there is nothing here.
    realm: usize,
}

/// H(A2) by MD5, in hexadecimal, of `method:uri`.
#[derive(Clone, Copy)]
struct Target {
    /// More than there is room for if there is nothing here.
    len: u8,
    text: [u8; TARGET],
    digits: [u8; 32],
}

/// One worker's memory of nonces and digests. About 40 KB.
pub struct Recent {
    nonces: Box<[Place]>,
    realms: Vec<Box<[u8]>>,
    targets: Box<[Target]>,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent::new()
    }
}

impl Recent {
    /// Remembers nothing yet.
    pub fn new() -> Recent {
        let nonce = Nonce { epoch: 0, issued: 0, serial: 0, network: 0 };
        let nowhere = Place { minted: Minted { text: [0; TEXT_LEN], nonce }, realm: REALMS };
        let none = Target { len: u8::MAX, text: [0; TARGET], digits: [0; 32] };
        Recent {
            nonces: vec![nowhere; NONCES].into(),
            realms: Vec::new(),
            targets: vec![none; TARGETS].into(),
        }
    }

    /// Remembers a nonce that was given out in a challenge for `realm`.
    pub fn note(&mut self, realm: &[u8], minted: Minted) {
        let number = match self.number(realm) {
            Some(number) => number,
            None if self.realms.len() < REALMS => {
                self.realms.push(realm.into());
                self.realms.len() - 1
            }
            None => return,
        };
        if let Some(place) = self.nonces.get_mut(place_of(&minted.text)) {
            *place = Place { minted, realm: number };
        }
    }

    /// The facts of this nonce, if it was given out a moment ago for this realm.
    pub(crate) fn nonce(&self, text: &[u8], realm: &[u8]) -> Option<Nonce> {
        let text: &[u8; TEXT_LEN] = text.try_into().ok()?;
        let place = self.nonces.get(place_of(text))?;
        // As with a seal, how far a made-up one is right does not show.
        let words = |text: &[u8; TEXT_LEN]| -> [u32; TEXT_LEN / 4] {
            core::array::from_fn(|n| {
                text.as_chunks::<4>().0.get(n).map_or(0, |word| u32::from_le_bytes(*word))
            })
        };
        let pairs = words(text).into_iter().zip(words(&place.minted.text));
        let differ = pairs.fold(0, |differ, (a, b)| differ | (a ^ b));
        let same =
            bool::from(differ.ct_eq(&0)) && self.realms.get(place.realm).is_some_and(|r| **r == *realm);
        same.then_some(place.minted.nonce)
    }

    fn number(&self, realm: &[u8]) -> Option<usize> {
        self.realms.iter().position(|known| **known == *realm)
    }

    /// The digits of H(A2) of this method and URI by MD5, if they are at hand.
    pub(crate) fn target(&self, method: &[u8], uri: &[u8]) -> Option<&[u8; 32]> {
        let target = self.targets.get(target_of(method, uri))?;
        let known = target.text.get(..usize::from(target.len))?;
        // Wherever the method ends, the same text has the same digest.
        let rest = known.strip_prefix(method)?.strip_prefix(b":")?;
        (rest == uri).then_some(&target.digits)
    }

    /// Remembers them, unless the two are long.
    pub(crate) fn note_target(&mut self, method: &[u8], uri: &[u8], digits: [u8; 32]) {
        let len = method.len() + 1 + uri.len();
        if let Some(target) = self.targets.get_mut(target_of(method, uri))
            && let Some(place) = target.text.get_mut(..len)
            && let Some((front, rest)) = place.split_at_mut_checked(method.len())
            && let Some((colon, rest)) = rest.split_first_mut()
        {
            front.copy_from_slice(method);
            *colon = b':';
            rest.copy_from_slice(uri);
            (target.len, target.digits) = (len as u8, digits);
        }
    }
}

impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recent(hidden)")
    }
}

/// Nonces are sealed, so any of their bytes will do.
fn place_of(text: &[u8; TEXT_LEN]) -> usize {
    let first = text.first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
    (first.wrapping_mul(0x9e37_79b9) >> 16) as usize % NONCES
}

/// By lengths and by the end of the URI: a peer that makes others share a place has digests reckoned again,
/// and no more.
fn target_of(method: &[u8], uri: &[u8]) -> usize {
    let Some(last) = uri.last_chunk::<8>() else { return 0 };
    let mixed = u64::from_le_bytes(*last) ^ ((method.len() << 32) ^ uri.len()) as u64;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % TARGETS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minted(text: u8, serial: u32) -> Minted {
        Minted { text: [text; TEXT_LEN], nonce: Nonce { epoch: 1, issued: 2, serial, network: 3 } }
    }

    #[test]
    fn a_nonce_is_found_under_its_realm_until_another_takes_its_place() {
        let mut recent = Recent::new();
        let text = [b'a'; TEXT_LEN];
        assert_eq!(recent.nonce(&text, b"r"), None);
        recent.note(b"r", minted(b'a', 1));
        assert_eq!(recent.nonce(&text, b"r").map(|n| n.serial), Some(1));
        assert_eq!((recent.nonce(&text, b"s"), recent.nonce(&text[1..], b"r")), (None, None));
        for at in 4..TEXT_LEN {
            let mut other = text;
            other[at] ^= 1;
            assert_eq!(recent.nonce(&other, b"r"), None, "{at}");
        }
        recent.note(b"s", minted(b'a', 2));
        assert_eq!((recent.nonce(&text, b"r"), recent.nonce(&text, b"s").map(|n| n.serial)), (None, Some(2)));
        assert_eq!(recent.nonce(&[0; TEXT_LEN], b""), None, "an empty place is no nonce");
    }

    #[test]
    fn realms_are_few() {
        let mut recent = Recent::new();
        for n in 0..50 {
            recent.note(&[n], minted(n, 1));
        }
        assert_eq!(recent.realms.len(), REALMS);
        assert_eq!(recent.nonce(&[49; TEXT_LEN], &[49]), None);
        assert!(recent.nonce(&[7; TEXT_LEN], &[7]).is_some());
    }

    #[test]
    fn a_digest_is_that_of_its_text() {
        let mut recent = Recent::new();
        assert_eq!(
            (recent.target(b"", b""), recent.target(b"A", &[0; TARGET])),
            (None, None),
            "nothing is there yet"
        );
        for n in 0..100u8 {
            let uri = [b"sip:example", &[n; 3][..]].concat();
            recent.note_target(b"REGISTER", &uri, [n; 32]);
            assert_eq!(recent.target(b"REGISTER", &uri), Some(&[n; 32]));
            assert_eq!(recent.target(b"REGISTES", &uri), None);
            for other in 0..100u8 {
                let uri = [b"sip:example", &[other; 3][..]].concat();
                assert!(recent.target(b"REGISTER", &uri).is_none_or(|digits| *digits == [other; 32]));
            }
        }
        let long = [b'x'; TARGET];
        recent.note_target(b"A", &long, [1; 32]);
        recent.note_target(b"A", &long[2..], [2; 32]);
        assert_eq!((recent.target(b"A", &long), recent.target(b"A", &long[2..])), (None, Some(&[2; 32])));
        assert_eq!((recent.target(b"AB", &long[2..]), recent.target(b"A:", &long[3..])), (None, None));
    }
}
