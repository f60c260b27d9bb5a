//! A finished record.

use crate::event::{Answered, Began, NO_BRANCH, Party};
use crate::name::CallName;
use core::net::SocketAddr;

/// Targets that a record names. Further ones are counted.
pub(crate) const TARGETS_MAX: usize = 16;

/// An attempt to call, from its INVITE to its end. Texts are as the messages had them, cut to
/// [`TEXT_MAX`](crate::TEXT_MAX) bytes; they are seldom, but may be, other than UTF-8. Times are microseconds
/// since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The name of the call. An INVITE may come again with the same name when its call has failed: the name
    /// and [`Record::started`] together are unique.
    pub name: CallName,
    /// What the INVITE said, and who sent it.
    pub source: Source,
    /// When the INVITE was accepted for handling.
    pub started: u64,
    /// When the caller was first told that a callee rings.
    pub ringing: Option<u64>,
    /// When the call was first answered.
    pub answered: Option<u64>,
    /// When it was over.
    pub ended: u64,
    /// The final status of the INVITE: 487 of a call that was cancelled.
    pub status: u16,
    /// Who ended the call, or refused it.
    pub ended_by: Party,
    /// Who has answered, and where.
    pub callee: Callee,
    /// Where the INVITE was sent, in this order; 16 at most.
    pub targets: Vec<Vec<u8>>,
    /// How often it was sent to a target.
    pub tried: u32,
    /// How often the INVITE came again after a restart of this server.
    pub joined: u32,
    /// How often users have forwarded the call.
    pub forwardings: u32,
}

/// The side of the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Call-ID.
    pub call_id: Vec<u8>,
    /// The URI in From.
    pub from: Vec<u8>,
    /// The tag in From.
    pub caller_tag: Vec<u8>,
    /// The URI in To.
    pub to: Vec<u8>,
    /// The Request-URI as it was received.
    pub request_uri: Vec<u8>,
    /// See [`Began::asserted`].
    pub asserted: Vec<u8>,
    /// See [`Began::user`].
    pub user: Vec<u8>,
    /// See [`Began::trunk`].
    pub trunk: Vec<u8>,
    /// Where the INVITE came from.
    pub address: SocketAddr,
    /// See [`Began::transport`].
    pub transport: Vec<u8>,
}

impl Source {
    pub(crate) fn of(began: &Began<'_>) -> Source {
        Source {
            call_id: began.call_id.to_vec(),
            from: began.from.to_vec(),
            caller_tag: began.caller_tag.to_vec(),
            to: began.to.to_vec(),
            request_uri: began.request_uri.to_vec(),
            asserted: began.asserted.to_vec(),
            user: began.user.to_vec(),
            trunk: began.trunk.to_vec(),
            address: began.source,
            transport: began.transport.to_vec(),
        }
    }

    /// Whether an INVITE of this source with the same name is the same one that came again.
    pub(crate) fn repeats(&self, other: &Source) -> bool {
        let same = |text: fn(&Source) -> &Vec<u8>| text(self) == text(other);
        same(|source| &source.user)
            && same(|source| &source.trunk)
            && same(|source| &source.from)
            && same(|source| &source.to)
            && same(|source| &source.request_uri)
            && self.address.ip().to_canonical() == other.address.ip().to_canonical()
    }

    /// Whether the caller is neither one of our users nor behind a trunk.
    pub(crate) fn is_stranger(&self) -> bool {
        self.user.is_empty() && self.trunk.is_empty()
    }

    /// Bytes of its texts.
    pub(crate) fn length(&self) -> usize {
        let names = [&self.call_id, &self.from, &self.caller_tag, &self.to, &self.request_uri];
        let others = [&self.asserted, &self.user, &self.trunk, &self.transport];
        names.into_iter().chain(others).map(Vec::len).sum()
    }

    pub(crate) fn began(&self, within: bool) -> Began<'_> {
        Began {
            call_id: &self.call_id,
            from: &self.from,
            caller_tag: &self.caller_tag,
            to: &self.to,
            request_uri: &self.request_uri,
            asserted: &self.asserted,
            user: &self.user,
            trunk: &self.trunk,
            source: self.address,
            transport: &self.transport,
            within,
        }
    }
}

/// The side of the callee. Empty texts if nobody has answered.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Callee {
    /// The tag in To.
    pub tag: Vec<u8>,
    /// See [`Answered::target`].
    pub target: Vec<u8>,
    /// See [`Answered::trunk`].
    pub trunk: Vec<u8>,
    /// See [`Answered::codec`].
    pub codec: Vec<u8>,
}

impl Callee {
    /// Bytes of its texts.
    pub(crate) fn length(&self) -> usize {
        [&self.tag, &self.target, &self.trunk, &self.codec].into_iter().map(Vec::len).sum()
    }

    pub(crate) fn of(answered: &Answered<'_>) -> Callee {
        Callee {
            tag: answered.callee_tag.to_vec(),
            target: answered.target.to_vec(),
            trunk: answered.trunk.to_vec(),
            codec: answered.codec.to_vec(),
        }
    }

    pub(crate) fn answered(&self, status: u16, dialog: u64) -> Answered<'_> {
        Answered {
            status,
            dialog,
            branch: NO_BRANCH,
            callee_tag: &self.tag,
            target: &self.target,
            trunk: &self.trunk,
            codec: &self.codec,
        }
    }
}
