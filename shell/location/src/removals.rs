//! How far the removals of subscribers are in force.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// The numbers of changes of subscribers that the watcher and the writer tell each other.
#[derive(Clone, Debug)]
pub struct Removals {
    /// The last one whose effect on bindings is in the journal, or was.
    pub applied: Arc<AtomicI64>,
    /// The last one whose effect is on disk. Those before it may be forgotten.
    pub durable: Arc<AtomicI64>,
}

impl Removals {
    /// With these numbers.
    pub fn new(applied: i64, durable: i64) -> Removals {
        Removals { applied: Arc::new(AtomicI64::new(applied)), durable: Arc::new(AtomicI64::new(durable)) }
    }
}
