//! Responses to a caller on datagrams, whose address may be forged (RFC 3261 section 26.1.5).
//!
//! The balancer cannot tell who is proven, and what a node repeats may be needed where datagrams are lost. So a
//! response is withheld only when it exceeds three times the bytes received *and* others like it have gone before.

use crate::Tag;
use crate::dispatch::Dispatcher;
use crate::sessions::CallKey;
use core::time::Duration;
use wire::{Credit, Time};

/// Final responses that go for each transmission of the request, however long they are.
const FINALS: u8 = 3;
/// Beyond the credit one provisional response goes in this time: a proxy gives up a call that it hears nothing of for
/// three minutes (RFC 3261 section 16.6, timer C).
const PROVISIONAL: Duration = Duration::from_secs(60);

/// What has been sent in one transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replies {
    credit: Credit,
    finals: u8,
    last: Time,
}

impl Replies {
    /// Nothing yet, for so many bytes received.
    pub fn new(received: usize) -> Replies {
        Replies { credit: Credit::of(received), finals: 0, last: Time::ZERO }
    }

    /// The request came once more.
    pub fn received(&mut self, bytes: usize) {
        self.credit.grant(bytes);
        if bytes > 0 {
            self.finals = 0;
        }
    }

    /// Whether a response may go, which is then noted.
    fn pays(&mut self, now: Time, status: u16, len: usize) -> bool {
        let last = status >= 200;
        let goes = self.credit.pays(len, 0)
            || if last { self.finals < FINALS } else { now.since(self.last) >= PROVISIONAL };
        if goes {
            self.finals = self.finals.saturating_add(last.into());
            self.last = now;
        }
        goes
    }
}

impl Dispatcher {
    /// Whether a response of `len` bytes may go to the sender of a request, which is then noted. Of one without a record
    /// nothing is known.
    pub(crate) fn pays(
        &mut self,
        now: Time,
        (call, id, tag): (CallKey, u64, Tag),
        (status, len): (u16, usize),
    ) -> bool {
        let found = self.sessions.find(call).and_then(|at| self.sessions.find_txn(at, id, tag));
        let mut pays = true;
        if let Some(place) = found {
            self.sessions.note(place, |txn| pays = txn.replies.pays(now, status, len));
        }
        pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_responses_go_three_times_whatever_their_length() {
        let (mut replies, now) = (Replies::new(100), Time::from_secs(100));
        let sent = |replies: &mut Replies| (0..10).filter(|_| replies.pays(now, 200, 1_000)).count();
        assert_eq!(sent(&mut replies), 3);
        replies.received(0);
        assert_eq!(sent(&mut replies), 0, "it was the balancer that repeated the request");
        replies.received(100);
        assert_eq!(sent(&mut replies), 3);
    }

    #[test]
    fn short_responses_go_as_long_as_they_are_paid_for() {
        let (mut replies, now) = (Replies::new(100), Time::from_secs(100));
        assert_eq!((0..10).filter(|_| replies.pays(now, 486, 50)).count(), 6);
        assert!(!replies.pays(now, 486, 50));
    }

    #[test]
    fn provisional_responses_are_few_beyond_what_is_paid_for() {
        let (mut replies, start) = (Replies::new(100), Time::from_secs(100));
        let mut sent = |from: u64| {
            (from..from + 60).filter(|s| replies.pays(start + Duration::from_secs(*s), 180, 200)).count()
        };
        assert_eq!((sent(0), sent(60), sent(120)), (1, 1, 1));
    }
}
