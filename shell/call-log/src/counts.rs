//! What operators are shown.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What was counted since the start.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) records: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) untracked: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) backlog: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failing: AtomicBool,
    pub(crate) unsent: AtomicBool,
    pub(crate) sent: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) set_aside: AtomicU64,
}

impl Counts {
    /// Records that were written.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Events for which there was no room in a ring.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Attempts to write that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Calls without a record because too many were open.
    pub fn untracked(&self) -> u64 {
        self.untracked.load(Ordering::Relaxed)
    }

    /// Calls of strangers without a record because there were too many of them.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Records that there was no room for until the HTTP server takes some again.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the last attempt to write failed.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Whether the last attempt to send records by HTTP failed.
    pub fn is_unsent(&self) -> bool {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Records that the HTTP server has accepted.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Attempts to send records by HTTP that failed.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Records that the HTTP server never accepts, in a file of their own.
    pub fn set_aside(&self) -> u64 {
        self.set_aside.load(Ordering::Relaxed)
    }

    /// Calls that have begun and have no record yet.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Bytes of records that wait for an output.
    pub fn backlog(&self) -> u64 {
        self.backlog.load(Ordering::Relaxed)
    }
}
