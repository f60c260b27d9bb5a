//! The ACKs of a call: a final response to an INVITE that comes again is answered with that INVITE's.

use crate::scenario::request_cseq;

/// INVITE transactions of a call whose ACKs are kept, the latest ones.
const MOST: usize = 4;
/// One that grew beyond this does not stay with a freed call.
const LARGE: usize = 8 << 10;

#[derive(Debug, Default)]
struct Ack {
    /// The transaction that the scenario says it ends (`ack_txn`).
    transaction: Option<u16>,
    bytes: Vec<u8>,
}

/// The ACKs that a call has sent. The places keep their memory.
#[derive(Debug, Default)]
pub struct Acks {
    places: Vec<Ack>,
    /// How many INVITEs have been acknowledged.
    sent: usize,
    /// An INVITE has gone out since the last one.
    invited: bool,
}

impl Acks {
    /// An INVITE goes out: the next ACK is that of another transaction.
    #[inline]
    pub fn invite(&mut self) {
        self.invited = true;
    }

    /// An ACK has gone out.
    #[inline]
    pub fn keep(&mut self, transaction: Option<u16>, bytes: &[u8]) {
        let same = !self.invited && self.latest().is_some_and(|last| last.transaction == transaction);
        self.sent += usize::from(!same);
        self.invited = false;
        let at = self.sent.wrapping_sub(1) % MOST;
        if at >= self.places.len() {
            self.places.resize_with(at + 1, Ack::default);
        }
        if let Some(place) = self.places.get_mut(at) {
            place.transaction = transaction;
            place.bytes.clear();
            place.bytes.extend_from_slice(bytes);
        }
    }

    fn latest(&self) -> Option<&Ack> {
        self.places.get(self.sent.checked_sub(1)? % MOST)
    }

    /// The one sent last; empty if there is none.
    pub fn last(&self) -> &[u8] {
        self.latest().map_or(b"", |ack| &ack.bytes)
    }

    /// The one that belongs to a response: of this transaction, if it is one that the scenario names,
    /// otherwise the one with its number (RFC 3261 section 13.2.2.4: the CSeq of an ACK is that of its
    /// INVITE). Where a scenario writes other numbers it is the last one, if that is of the last INVITE.
    pub fn of(&self, transaction: Option<u16>, cseq: u32) -> Option<&[u8]> {
        let mut kept = (0..self.sent.min(MOST)).filter_map(|n| self.places.get((self.sent - 1 - n) % MOST));
        let own = kept.find(|ack| match transaction {
            Some(_) => ack.transaction == transaction,
            None => request_cseq(&ack.bytes) == Some(cseq),
        });
        let last = || self.latest().filter(|_| transaction.is_none() && !self.invited);
        own.or_else(last).map(|ack| ack.bytes.as_slice())
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        (self.sent, self.invited) = (0, false);
        self.places
            .iter_mut()
            .filter(|ack| ack.bytes.capacity() > LARGE)
            .for_each(|ack| ack.bytes = Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(cseq: u32) -> Vec<u8> {
        format!("ACK sip:b SIP/2.0\r\nCSeq: {cseq} ACK\r\n\r\n").into_bytes()
    }

    #[test]
    fn each_response_has_the_ack_of_its_invite() {
        let mut acks = Acks::default();
        assert_eq!((acks.of(None, 1), acks.last()), (None, &b""[..]));
        acks.invite();
        assert_eq!(acks.of(None, 1), None, "before the first one");
        for cseq in 1..=6 {
            acks.invite();
            acks.keep(None, &ack(cseq));
            acks.keep(None, &ack(cseq));
        }
        assert_eq!(acks.last(), ack(6));
        for cseq in 3..=6 {
            assert_eq!(acks.of(None, cseq), Some(&ack(cseq)[..]));
        }
        assert_eq!(acks.of(None, 2), Some(&ack(6)[..]), "only so many are kept");
        acks.invite();
        assert_eq!(acks.of(None, 7), None, "it has not been acknowledged");
        assert_eq!(acks.places.len(), MOST);
        acks.clear();
        assert_eq!((acks.of(None, 6), acks.last()), (None, &b""[..]));
    }

    #[test]
    fn named_transactions_come_before_numbers() {
        let mut acks = Acks::default();
        acks.invite();
        acks.invite();
        acks.keep(Some(1), &ack(1));
        acks.keep(Some(0), &[&ack(1)[..], b"x"].concat());
        assert_eq!(acks.of(Some(1), 1), Some(&ack(1)[..]));
        assert!(acks.of(Some(0), 1).is_some_and(|own| own.ends_with(b"x")));
        assert_eq!(acks.of(Some(2), 1), None, "whose ACK is still to come");
    }
}
