//! Questions that take time to answer. The answer comes back as a [`Notice`](crate::Notice).

use sip_proxy::locate::{Answer, Kind};
use sip_registrar::{BindingView, Record};
use wire::Time;

/// A question whose answer takes time; it comes back as [`Notice::Located`](crate::Notice).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// Records of a name in the DNS.
    Name {
        /// What kind of record.
        kind: Kind,
        /// Of which name.
        name: Box<[u8]>,
    },
    /// All bindings of an address-of-record, wherever they are.
    Bindings {
        /// The address-of-record.
        aor: Box<[u8]>,
    },
}

/// The answer to a [`Question`]. It is ignored if no request waits for it.
#[derive(Clone, Debug)]
pub enum Located {
    /// To [`Question::Name`].
    Name {
        /// What was asked.
        kind: Kind,
        /// About which name.
        name: Box<[u8]>,
        /// What came back.
        answer: Answer,
        /// How long it is good, seconds.
        ttl: u32,
    },
    /// To [`Question::Bindings`].
    Bindings {
        /// The address-of-record.
        aor: Box<[u8]>,
        /// All its bindings, or that the location service cannot tell.
        found: Result<BindingSet, StoreDown>,
    },
}

/// The location service cannot promise to keep a registration, or cannot tell who is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreDown {
    /// Seconds after which the client should try again.
    pub retry_after: u32,
}

/// Whether [`Services::bindings`](crate::Services::bindings) gave all bindings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Coverage {
    /// All of them.
    Complete,
    /// Others may hold more, or newer ones. [`Question::Bindings`] brings all of them, and a request waits
    /// for the answer at most until then. If none comes, the given bindings count.
    Partial {
        /// When waiting ends.
        until: Time,
    },
}

/// The bindings of an address-of-record in an answer: owned, by falling q, bounded in number and size.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct BindingSet(Vec<Record>);

impl BindingSet {
    /// Bindings kept of an answer, at most: as many as one address-of-record can have.
    pub const MOST: usize = 255;
    /// Bytes of text kept of an answer, at most.
    pub const MOST_BYTES: usize = 256 << 10;

    /// The bindings of an answer. Of too many, those with the highest q are kept.
    pub fn new(mut records: Vec<Record>) -> BindingSet {
        records.sort_by_key(|record| core::cmp::Reverse(record.q));
        let mut bytes = 0_usize;
        let fits = |record: &&Record| {
            bytes = bytes.saturating_add(text_of(record));
            bytes <= BindingSet::MOST_BYTES
        };
        let kept = records.iter().take(BindingSet::MOST).take_while(fits).count();
        records.truncate(kept);
        BindingSet(records)
    }

    /// The bindings that have not expired.
    pub fn live(&self, now: Time) -> impl Iterator<Item = BindingView<'_>> {
        self.0.iter().filter(move |record| now < record.expires).map(Record::view)
    }
}

/// Bytes of text of a binding.
fn text_of(record: &Record) -> usize {
    let texts = [
        &record.aor,
        &record.contact,
        &record.params,
        &record.call_id,
        &record.path,
        &record.instance,
        &record.user_agent,
    ];
    texts.iter().map(|text| text.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;
    use wire::{Flow, ListenerId, Transport};

    fn record(q: u16, contact: usize) -> Record {
        let remote = SocketAddr::from(([192, 0, 2, 1], 5060));
        Record {
            aor: b"bob@here.example"[..].into(),
            contact: vec![b'x'; contact].into(),
            params: Box::default(),
            q,
            expires: Time::from_secs(10),
            call_id: Box::default(),
            cseq: 1,
            flow: Flow { transport: Transport::Udp, listener: ListenerId(0), remote, conn: None },
            path: Box::default(),
            instance: Box::default(),
            reg_id: 0,
            user_agent: Box::default(),
        }
    }

    #[test]
    fn binding_set_keeps_the_highest_q_of_too_many() {
        let many = (0..300).map(|q| record(q, 10)).collect();
        let kept: Vec<u16> = BindingSet::new(many).live(Time::from_secs(1)).map(|b| b.q).collect();
        assert!(kept.into_iter().eq((45..300).rev()));
    }

    #[test]
    fn binding_set_is_bounded_in_bytes() {
        let large = vec![record(1, 100_000), record(3, 100_000), record(2, 100_000)];
        let kept: Vec<u16> = BindingSet::new(large).live(Time::from_secs(1)).map(|b| b.q).collect();
        assert_eq!(kept, [3, 2]);
        assert_eq!(BindingSet::new(vec![record(1, 300_000)]), BindingSet::default());
    }

    #[test]
    fn expired_binding_is_not_given() {
        assert_eq!(BindingSet::new(vec![record(1, 10)]).live(Time::from_secs(10)).count(), 0);
    }
}
