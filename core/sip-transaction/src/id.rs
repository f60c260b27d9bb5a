//! Names of transactions: slot and unguessable generation.

use sip_message::unhex16;
use siphasher::sip::SipHasher13;

/// Marks a transmit token as this layer's; tokens of others have the bit clear.
const OURS: u64 = 1 << 63;
/// In a token of ours: a server transaction.
const SERVER: u64 = 1 << 62;

/// A client transaction. Its text form goes into the branch of the Via that we add, so that a
/// response names its transaction itself (RFC 3261 17.1.3): no table, no hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl ClientId {
    /// Bytes of the text form.
    pub const TEXT_LEN: usize = 16;

    /// The text form: 16 lower-case hexadecimal digits.
    pub fn encode(self) -> [u8; ClientId::TEXT_LEN] {
        sip_message::hex16(self.as_u64())
    }

    /// Back from text of exactly [`ClientId::TEXT_LEN`] digits. Branches are tokens and tokens are
    /// case-insensitive (RFC 3261 7.3.1), so capitals are taken too. Whether there is such a
    /// transaction is another question.
    pub fn decode(text: &[u8]) -> Option<ClientId> {
        let number = unhex16(text)?;
        Some(ClientId { slot: (number >> 32) as u32, generation: number as u32 })
    }

    /// The id as an integer.
    pub const fn as_u64(self) -> u64 {
        (self.slot as u64) << 32 | self.generation as u64
    }

    /// What its transmits carry.
    pub(crate) const fn token(self) -> u64 {
        OURS | self.as_u64()
    }
}

/// A server transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl ServerId {
    /// The id as an integer.
    pub const fn as_u64(self) -> u64 {
        (self.slot as u64) << 32 | self.generation as u64
    }

    /// What its transmits carry.
    pub(crate) const fn token(self) -> u64 {
        OURS | SERVER | self.as_u64()
    }
}

/// Which transaction sent something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender {
    Client(ClientId),
    Server(ServerId),
}

/// Reads a transmit token; `None` if it is not one of this layer.
pub(crate) fn sender(token: u64) -> Option<Sender> {
    if token & OURS == 0 {
        return None;
    }
    let (slot, generation) = ((token & !(OURS | SERVER)) >> 32, token as u32);
    let slot = slot as u32;
    Some(if token & SERVER == 0 {
        Sender::Client(ClientId { slot, generation })
    } else {
        Sender::Server(ServerId { slot, generation })
    })
}

/// Source of generations: SipHash of a counter under a secret key. One who sees any number of them
/// learns nothing about the others, so that a branch cannot be guessed by those off the path.
pub(crate) struct Generations {
    key: SipHasher13,
    counter: u64,
    spare: Option<u32>,
}

impl Generations {
    pub(crate) fn new(seed: [u64; 2]) -> Generations {
        Generations { key: SipHasher13::new_with_keys(seed[0], seed[1]), counter: 0, spare: None }
    }

    /// The next generation. One hash serves two.
    pub(crate) fn next(&mut self) -> u32 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        self.counter += 1;
        let hash = self.key.hash(&self.counter.to_le_bytes());
        self.spare = Some((hash >> 32) as u32);
        hash as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_there_and_back() {
        for number in [0u64, 1, 0x0fff_ffff_ffff_ffff, 0x0123_4567_89ab_cdef] {
            let id = ClientId { slot: (number >> 32) as u32, generation: number as u32 };
            let text = id.encode();
            assert_eq!(ClientId::decode(&text), Some(id));
            assert_eq!(ClientId::decode(&text.to_ascii_uppercase()), Some(id));
            assert_eq!(text, format!("{number:016x}").as_bytes());
        }
    }

    #[test]
    fn other_text_is_no_id() {
        for text in
            [&b""[..], b"0123456789abcde", b"0123456789abcdef0", b"0123456789abcdeg", b"-123456789abcdef"]
        {
            assert_eq!(ClientId::decode(text), None);
        }
    }

    #[test]
    fn tokens_tell_client_from_server_and_ours_from_others() {
        let (slot, generation) = ((1 << 28) - 1, u32::MAX);
        let (client, server) = (ClientId { slot, generation }, ServerId { slot, generation });
        assert_eq!(sender(client.token()), Some(Sender::Client(client)));
        assert_eq!(sender(server.token()), Some(Sender::Server(server)));
        assert_eq!((sender(0), sender(client.as_u64())), (None, None));
    }

    #[test]
    fn generations_depend_on_the_seed_and_hardly_repeat() {
        let draw = |seed| {
            let mut source = Generations::new(seed);
            (0..1000).map(|_| source.next()).collect::<Vec<u32>>()
        };
        let mut one = draw([1, 2]);
        assert_eq!(one, draw([1, 2]), "a seed replays");
        assert_ne!(one, draw([1, 3]));
        one.sort_unstable();
        one.dedup();
        assert!(one.len() > 990);
    }
}
