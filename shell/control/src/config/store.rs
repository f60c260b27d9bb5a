//! `[store]`: the store.

use super::form::*;
use super::schema::{Checks, section};
use super::types::named;

named! {
    /// What a registration gets while the store cannot be written.
    OnStoreFailure {
        /// A server error: no binding is promised that a crash would lose.
        Refuse = "refuse",
        /// Success: the binding lives in memory only.
        Accept = "accept",
    }
}

section! {
    /// `[store]`: the store.
    pub struct Store = "store" {
        /// What happens to registrations while the disk cannot be written, or a write takes more than two
        /// seconds: `"refuse"` with 503, or `"accept"` in memory only. Otherwise a 200 survives `kill -9` of
        /// the server at once, and a power cut one second later ([durability](../design/durability.md)).
        on_failure: OnStoreFailure = OnStoreFailure::Refuse, choice(OnStoreFailure::ALL), restart;
    }
}

impl Checks for Store {}
