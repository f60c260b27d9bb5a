//! Questions that take time to answer. The answer comes back as a [`Notice`](crate::Notice).

use sip_proxy::locate::{Answer, Kind};
use sip_registrar::{BindingView, Record};
use wire::{Flow, Time};

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
        /// All its bindings, or that the location service cannot tell. Connections are named by numbers of
        /// this node: [`BindingSet::new`] takes those of other nodes out.
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

    /// The bindings of an answer. `local` were registered with this node, `foreign` with others. The
    /// connections of others are not those of this node, so they are taken out. Of too many bindings, those
    /// with the highest q are kept. One for whose text there is no room is left out.
    pub fn new(local: Vec<Record>, foreign: Vec<Record>) -> BindingSet {
        let mut records = local;
        records.extend(
            foreign.into_iter().map(|record| Record { flow: Flow { conn: None, ..record.flow }, ..record }),
        );
        records.sort_by_key(|record| core::cmp::Reverse(record.q));
        let mut room = BindingSet::MOST_BYTES;
        records.retain(|record| {
            let left = room.checked_sub(text_of(record));
            room = left.unwrap_or(room);
            left.is_some()
        });
        records.truncate(BindingSet::MOST);
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
    use wire::{ConnId, ListenerId, Transport};

    const CONN: ConnId = ConnId::new(0, 7);

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
        let kept: Vec<u16> =
            BindingSet::new(Vec::new(), many).live(Time::from_secs(1)).map(|b| b.q).collect();
        assert!(kept.into_iter().eq((45..300).rev()));
    }

    #[test]
    fn binding_set_is_bounded_in_bytes() {
        let large = vec![record(1, 100_000), record(3, 100_000), record(2, 100_000)];
        let set = BindingSet::new(large, Vec::new());
        assert!(set.live(Time::from_secs(1)).map(|b| b.q).eq([3, 2]));
        assert_eq!(BindingSet::new(vec![record(1, 300_000)], Vec::new()), BindingSet::default());
    }

    #[test]
    fn binding_that_is_too_long_hides_no_other() {
        let records = vec![record(3, 300_000), record(2, 10), record(1, 200_000)];
        let set = BindingSet::new(Vec::new(), records);
        assert!(set.live(Time::from_secs(1)).map(|b| b.q).eq([2, 1]));
    }

    #[test]
    fn connection_of_another_node_is_taken_out() {
        let on_stream = |q| Record { flow: Flow { conn: Some(CONN), ..record(q, 10).flow }, ..record(q, 10) };
        let set = BindingSet::new(vec![on_stream(2)], vec![on_stream(1)]);
        let conns: Vec<_> = set.live(Time::from_secs(1)).map(|b| (b.q, b.flow.conn)).collect();
        assert_eq!(conns, [(2, Some(CONN)), (1, None)]);
    }

    #[test]
    fn expired_binding_is_not_given() {
        assert_eq!(BindingSet::new(vec![record(1, 10)], Vec::new()).live(Time::from_secs(10)).count(), 0);
    }
}
