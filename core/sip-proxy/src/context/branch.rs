//! One branch of a response context.

use wire::Time;

/// One attempt at one target of a response context.
///
/// A target keeps its slot for the life of the context; each further address of the same target
/// (RFC 3263 section 4.3) is a further attempt and so a new identifier, because it is a new client
/// transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BranchId {
    pub(super) slot: u8,
    pub(super) attempt: u8,
}

impl BranchId {
    /// Which target, in the order of [`super::Context::add_target`].
    pub const fn target(self) -> u8 {
        self.slot
    }

    /// Which of the target's addresses: 0 is the first.
    pub const fn attempt(self) -> u8 {
        self.attempt
    }

    /// As a small integer, for the user data of a client transaction.
    pub const fn as_u16(self) -> u16 {
        (self.attempt as u16) << 8 | self.slot as u16
    }

    /// Back from [`BranchId::as_u16`]. Any value is harmless: a context ignores what it does not know.
    pub const fn from_u16(id: u16) -> BranchId {
        BranchId { slot: id as u8, attempt: (id >> 8) as u8 }
    }
}

/// Where a branch stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// In the target set, not tried yet.
    #[default]
    Waiting,
    /// Its client transaction runs (or its address is being looked up).
    Running,
    /// Told to cancel; its final response is still to come.
    Cancelling,
    /// Over. `status` says how; 0: without a word, because it was never tried or was recursed on.
    Ended,
}

/// Bits of [`Branch::flags`].
pub(super) mod flag {
    /// Some provisional response came.
    pub const PROVISIONAL: u8 = 1;
    /// A provisional response other than 100 came: somebody is being alerted.
    pub const ALERTED: u8 = 2;
    /// `status` was made here, not received (or nothing of the response is kept).
    pub const GENERATED: u8 = 4;
    /// Cancelled because nobody answered in time; its 487 reads 408 to the caller.
    pub const NO_ANSWER: u8 = 8;
    /// The caller was asked to keep this branch's final response.
    pub const KEPT: u8 = 16;
    /// `deadline` is when the caller of the context wants to know that nothing has come.
    pub const WATCHED: u8 = 32;
    /// An earlier address was left because nothing came from it; it may answer yet.
    pub const LEFT: u8 = 64;
    /// Cancelled because it had rung for too long (timer C, RFC 3261 section 16.8).
    pub const EXPIRED: u8 = 128;
}

/// One slot of a context: 24 bytes, so that a context with four in place stays below 200.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    /// Timer C, or the end of patience with a silent branch that was cancelled. [`Time::FAR`]: none.
    pub deadline: Time,
    /// Preference, 0..=1000.
    pub q: u16,
    /// The final status; 0 while there is none.
    pub status: u16,
    pub state: State,
    pub flags: u8,
    /// Max-Breadth given to the request on this branch.
    pub breadth: u8,
    /// Index of the address in use, and how many addresses there are.
    pub attempt: u8,
    pub addresses: u8,
}

impl Default for Branch {
    fn default() -> Branch {
        Branch {
            deadline: Time::FAR,
            q: 0,
            status: 0,
            state: State::Waiting,
            flags: 0,
            breadth: 0,
            attempt: 0,
            addresses: 1,
        }
    }
}

impl Branch {
    pub fn has(&self, bit: u8) -> bool {
        self.flags & bit != 0
    }

    /// Whether a final response is still to come.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Running | State::Cancelling)
    }
}
