//! Nonces that carry their own memory.
//!
//! A nonce is 14 bytes of facts and a 7-byte tag, 28 characters of URL-safe base64. The facts are
//! when it was issued, under which epoch, a serial number, and a keyed hash of the network it was
//! sent to. The tag is a MAC over facts and realm; the facts are masked with a hash of the tag
//! (synthetic-IV style), so a nonce shows strangers neither uptime nor how busy we are.
//!
//! It is short because it is part of what is hashed for each check: with it, and a client nonce of ten
//! characters, MD5 has two blocks to do and not three. A tag of 56 bits is enough, as every guess at it
//! is a request to us, and of the few that hit only one in 2^16 has the epoch of this process, and of
//! these few have a time that is not over. What is gained then is the right to guess a password.

use core::fmt;
use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;
use siphasher::sip::{SipHasher13, SipHasher24};
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher13Wide, SipHasher24 as SipHasher24Wide};
use subtle::ConstantTimeEq;
use wire::Time;

/// Length of a nonce as text.
pub(crate) const TEXT_LEN: usize = 28;
const FACTS_LEN: usize = 14;
const TAG_LEN: usize = 7;
const SEALED_LEN: usize = FACTS_LEN + TAG_LEN;

/// Past this age a nonce counts as foreign, so that nobody hoards nonces of many networks to charge
/// guesses to them.
const HOARD_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// What all nonces of a server are sealed with. `Debug` hides the key.
///
/// With a key that survives a restart and an epoch that no two starts share, phones that hold a nonce
/// of an earlier life are told `stale=true` and come back at once, instead of taking a plain
/// challenge for a wrong password. The replay memory is lost with the process, which is why such
/// nonces are recognised but never accepted. A new random key for each start is safe too.
#[derive(Clone, Copy)]
pub struct Secret {
    /// 128 random bits.
    pub key: [u8; 16],
    /// Another one with each start of the process, which is also each change of the time's origin.
    pub epoch: u16,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret(epoch {}, key hidden)", self.epoch)
    }
}

/// A worker's source of serial numbers: what makes two nonces of the same millisecond differ.
#[derive(Clone, Copy, Debug)]
pub struct NonceSerial {
    worker: u32,
    count: u32,
}

impl NonceSerial {
    const COUNT_BITS: u32 = 14;

    /// The source of worker `worker` (its low ten bits).
    pub const fn new(worker: u16) -> NonceSerial {
        NonceSerial { worker: (worker as u32) << NonceSerial::COUNT_BITS, count: 0 }
    }

    /// The next serial number, of 24 bits. Comes round after sixteen thousand, more than a millisecond holds.
    pub const fn next(&mut self) -> u32 {
        self.count = self.count.wrapping_add(1) & ((1 << NonceSerial::COUNT_BITS) - 1);
        self.worker | self.count
    }
}

/// The facts in a nonce.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Nonce {
    pub epoch: u16,
    /// Milliseconds.
    pub issued: u64,
    pub serial: u32,
    /// Keyed hash of the network that the nonce was sent to.
    pub network: u32,
}

/// A nonce just given out, as [`Recent::note`](crate::Recent::note) takes it.
#[derive(Clone, Copy)]
pub struct Minted {
    pub(crate) text: [u8; TEXT_LEN],
    pub(crate) nonce: Nonce,
}

impl fmt::Debug for Minted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Minted(hidden)")
    }
}

/// How a nonce that is ours stands now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Age {
    Live,
    Expired,
    /// So old that it is treated as if it were not ours.
    Ancient,
}

/// Bits of the time in a nonce: 34 years.
const ISSUED_BITS: u32 = 40;
const SERIAL_BITS: u32 = 24;
const NETWORK_BITS: u32 = 32;

impl Nonce {
    fn to_bytes(self) -> [u8; FACTS_LEN] {
        let low = |value: u64, bits: u32| u128::from(value & ((1 << bits) - 1));
        let mut all = u128::from(self.epoch);
        all = all << ISSUED_BITS | low(self.issued, ISSUED_BITS);
        all = all << SERIAL_BITS | low(self.serial.into(), SERIAL_BITS);
        all = all << NETWORK_BITS | u128::from(self.network);
        let mut facts = [0; FACTS_LEN];
        facts.copy_from_slice(&all.to_le_bytes()[..FACTS_LEN]);
        facts
    }

    fn from_bytes(facts: [u8; FACTS_LEN]) -> Nonce {
        let all = wide(&facts);
        let (serial, issued) = (all >> NETWORK_BITS, all >> (NETWORK_BITS + SERIAL_BITS));
        Nonce {
            epoch: (issued >> ISSUED_BITS) as u16,
            issued: issued as u64 & ((1 << ISSUED_BITS) - 1),
            serial: serial as u32 & ((1 << SERIAL_BITS) - 1),
            network: all as u32,
        }
    }
}

/// Up to sixteen bytes as a number, the first one lowest.
fn wide<const N: usize>(bytes: &[u8; N]) -> u128 {
    let mut all = [0; 16];
    all[..N].copy_from_slice(bytes);
    u128::from_le_bytes(all)
}

/// The keys derived from a [`Secret`].
#[derive(Clone)]
pub(crate) struct Sealer {
    seal: SipHasher24,
    /// Hides when a nonce was given out, and how many were. What it hides is guarded by the seal, so the
    /// lighter variant will do.
    mask: SipHasher13Wide,
    network: SipHasher24,
    /// For keys of tables, where a collision costs a user one more challenge at worst.
    table: SipHasher13,
    epoch: u16,
}

impl Sealer {
    pub fn new(secret: &Secret) -> Sealer {
        let master = SipHasher24Wide::new_with_key(&secret.key);
        let derive = |label: &[u8]| {
            let mut hasher = master;
            hasher.write(label);
            hasher.finish128().as_bytes()
        };
        Sealer {
            seal: SipHasher24::new_with_key(&derive(b"nonce seal")),
            mask: SipHasher13Wide::new_with_key(&derive(b"nonce mask")),
            network: SipHasher24::new_with_key(&derive(b"network")),
            table: SipHasher13::new_with_key(&derive(b"table keys")),
            epoch: secret.epoch,
        }
    }

    /// A nonce for a challenge sent to `network` (see [`Sealer::network`]).
    pub fn mint(&self, realm: &[u8], network: u32, serial: u32, now: Time) -> Minted {
        let nonce = Nonce { epoch: self.epoch, issued: now.as_millis(), serial, network };
        let facts = nonce.to_bytes();
        let tag = self.tag(&facts, realm);
        let mut sealed = [0; SEALED_LEN];
        sealed[..FACTS_LEN].copy_from_slice(&self.masked(facts, &tag));
        sealed[FACTS_LEN..].copy_from_slice(&tag);
        Minted { text: encode(&sealed), nonce }
    }

    /// The facts of a nonce that this secret sealed for `realm`; `None` for any other text.
    pub fn open(&self, text: &[u8], realm: &[u8]) -> Option<Nonce> {
        let sealed = decode(text)?;
        let (facts, tag) = sealed.split_first_chunk::<FACTS_LEN>()?;
        let tag: &[u8; TAG_LEN] = tag.first_chunk()?;
        let facts = self.masked(*facts, tag);
        let right = self.tag(&facts, realm);
        let right = ((wide(&right) ^ wide(tag)) as u64).ct_eq(&0);
        if bool::from(right) { Some(Nonce::from_bytes(facts)) } else { None }
    }

    /// How a nonce that comes from `source` stands at `now`. One of another epoch is expired, whatever its
    /// time says: the process that gave it has ended. How long ago nobody knows, so it counts only where it
    /// was sent: a phone is there still, and whoever was there once charges no guesses to it from afar. One
    /// that was sent to another network is expired, too: who answers it has not shown that it is at `source`,
    /// which may be forged.
    pub fn age(&self, nonce: &Nonce, source: IpAddr, now: Time, lifetime: Duration) -> Age {
        let here = nonce.network == self.network(source);
        if nonce.epoch != self.epoch {
            return if here { Age::Expired } else { Age::Ancient };
        }
        // Workers read the clock at different moments: slightly in the future is new.
        let age = now.since(Time::from_millis(nonce.issued));
        if age <= lifetime && here {
            Age::Live
        } else if age <= HOARD_LIMIT.max(lifetime) {
            Age::Expired
        } else {
            Age::Ancient
        }
    }

    /// The number that stands for the network of `address` in nonces and back-off: an IPv4 address,
    /// or the /56 of an IPv6 address, which is what one customer is given.
    pub fn network(&self, address: IpAddr) -> u32 {
        let hash = match address.to_canonical() {
            IpAddr::V4(v4) => self.network.hash(&v4.octets()),
            IpAddr::V6(v6) => self.network.hash(v6.octets().get(..7).unwrap_or_default()),
        };
        hash as u32
    }

    /// A key for the tables: a hash of `kind`, `numbers` and `texts` that no outsider can aim.
    pub fn table_key(&self, kind: u8, numbers: [u64; 2], texts: [&[u8]; 2]) -> u64 {
        // `numbers[0]` is below 2^48, so the kind has a place above it.
        let first = numbers[0] | u64::from(kind) << 56;
        let [a, b] = texts;
        // No text holds a NUL, so it keeps the two apart.
        in_one_piece(&[&first.to_le_bytes(), &numbers[1].to_le_bytes(), a, b"\0", b], |bytes| {
            self.table.hash(bytes)
        })
    }

    fn tag(&self, facts: &[u8; FACTS_LEN], realm: &[u8]) -> [u8; TAG_LEN] {
        let hash = in_one_piece(&[facts, realm], |bytes| self.seal.hash(bytes));
        let [tag @ .., _] = hash.to_le_bytes();
        tag
    }

    /// Masks or unmasks facts: the mask depends on the tag, so hardly any two nonces share one.
    fn masked(&self, facts: [u8; FACTS_LEN], tag: &[u8; TAG_LEN]) -> [u8; FACTS_LEN] {
        let mask = u128::from_le_bytes(self.mask.hash(tag).as_bytes());
        let mut masked = [0; FACTS_LEN];
        masked.copy_from_slice(&(wide(&facts) ^ mask).to_le_bytes()[..FACTS_LEN]);
        masked
    }
}

/// Gives `parts` to `hash` one after the other without a break: hashing one piece is far cheaper than
/// hashing many small ones.
fn in_one_piece<R>(parts: &[&[u8]], hash: impl FnOnce(&[u8]) -> R) -> R {
    let mut room = [0; 128];
    let mut len = 0;
    for part in parts {
        let Some(place) = room.get_mut(len..len + part.len()) else { return hash(&parts.concat()) };
        place.copy_from_slice(part);
        len += part.len();
    }
    hash(room.get(..len).unwrap_or_default())
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The value of each character, with a bit of its own for those that are none.
const VALUES: [u32; 256] = {
    let mut values = [NONE; 256];
    let mut i = 0;
    while i < 64 {
        values[ALPHABET[i] as usize] = i as u32;
        i += 1;
    }
    values
};

/// Above the six bits of any value.
const NONE: u32 = 1 << 24;

fn encode(sealed: &[u8; SEALED_LEN]) -> [u8; TEXT_LEN] {
    let mut text = [0; TEXT_LEN];
    for (&[a, b, c], four) in sealed.as_chunks::<3>().0.iter().zip(text.as_chunks_mut::<4>().0) {
        let bits = u32::from_be_bytes([0, a, b, c]);
        *four = [18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift) as usize & 63]);
    }
    text
}

fn decode(text: &[u8]) -> Option<[u8; SEALED_LEN]> {
    if text.len() != TEXT_LEN {
        return None;
    }
    let mut sealed = [0; SEALED_LEN];
    let mut seen = 0;
    for (four, three) in text.as_chunks::<4>().0.iter().zip(sealed.as_chunks_mut::<3>().0) {
        let [a, b, c, d] = four.map(|c| VALUES[usize::from(c)]);
        seen |= a | b | c | d;
        let [_, bytes @ ..] = (a << 18 | b << 12 | c << 6 | d).to_be_bytes();
        *three = bytes;
    }
    if seen & NONE == 0 { Some(sealed) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sealer(key: u8, epoch: u16) -> Sealer {
        Sealer::new(&Secret { key: [key; 16], epoch })
    }

    proptest! {
        /// What was sealed is read back, under the same realm and key only, and no flipped bit
        /// passes.
        #[test]
        fn sealing(millis in 0u64..1 << ISSUED_BITS, serial in 0u32..1 << SERIAL_BITS, network: u32, epoch: u16, at in 0..TEXT_LEN, to in 0usize..64) {
            let s = sealer(1, epoch);
            let Minted { text, nonce } = s.mint(b"example.com", network, serial, Time::from_millis(millis));
            let want = Nonce { epoch, issued: millis, serial, network };
            prop_assert_eq!((s.open(&text, b"example.com"), nonce), (Some(want), want));
            prop_assert_eq!(sealer(1, 0).open(&text, b"example.com"), Some(want));
            prop_assert_eq!(s.open(&text, b"example.net"), None);
            prop_assert_eq!(sealer(2, epoch).open(&text, b"example.com"), None);
            let mut forged = text;
            forged[at] = ALPHABET[to];
            prop_assert_eq!(s.open(&forged, b"example.com").is_some(), forged == text);
        }

        /// Any text gets an answer, and none of it passes for ours.
        #[test]
        fn strangers_text(text in proptest::collection::vec(any::<u8>(), TEXT_LEN - 2..TEXT_LEN + 2)) {
            prop_assert_eq!(sealer(1, 0).open(&text, b""), None);
        }
    }

    #[test]
    fn ages() {
        let s = sealer(1, 7);
        let life = Duration::from_secs(300);
        let home = IpAddr::from([192, 0, 2, 1]);
        let nonce = Nonce { epoch: 7, issued: 1_000_000, serial: 0, network: s.network(home) };
        let forged = s.age(&nonce, [192, 0, 2, 2].into(), Time::from_secs(1_000), life);
        assert_eq!(forged, Age::Expired);
        let at = |secs| s.age(&nonce, home, Time::from_secs(secs), life);
        assert_eq!([at(999), at(1_000), at(1_300)], [Age::Live; 3]);
        assert_eq!([at(1_301), at(80_000)], [Age::Expired; 2]);
        assert_eq!(at(1_000 + 86_401), Age::Ancient);
        let network = s.network(home);
        let of_epoch =
            |epoch, source| s.age(&Nonce { epoch, network, ..nonce }, source, Time::from_secs(1_000), life);
        assert_eq!([6, 5, 8].map(|epoch| of_epoch(epoch, home)), [Age::Expired; 3]);
        assert_eq!([6, 5, 8].map(|epoch| of_epoch(epoch, [192, 0, 2, 2].into())), [Age::Ancient; 3]);
    }

    #[test]
    fn serial_numbers_of_workers_differ() {
        let (mut a, mut b) = (NonceSerial::new(0), NonceSerial::new(1));
        let seen = [a.next(), a.next(), b.next(), b.next()];
        let distinct: std::collections::BTreeSet<u32> = seen.into_iter().collect();
        assert_eq!(distinct.len(), 4);
        a.count = (1 << NonceSerial::COUNT_BITS) - 1;
        assert_eq!(a.next() >> NonceSerial::COUNT_BITS, 0);
    }

    #[test]
    fn networks() {
        let s = sealer(1, 0);
        let n = |text: &str| s.network(text.parse().expect("an address"));
        assert_eq!(n("::ffff:192.0.2.1"), n("192.0.2.1"));
        assert_ne!(n("192.0.2.1"), n("192.0.2.2"));
        assert_eq!(n("2001:db8:1:200::1"), n("2001:db8:1:2ff::2"));
        assert_ne!(n("2001:db8:1:200::1"), n("2001:db8:1:300::1"));
    }
}
