//! The challenges of trunks that this worker has answered. They are kept, so the next request to that address
//! carries credentials at once.

use crate::account::Account;
use core::net::SocketAddr;
use sip_auth::Held;
use sip_auth::client::Asked;
use sip_message::{Message, Splices};
use std::sync::Arc;

/// Challenges that one worker keeps. Of more the one goes that was used longest ago.
const MOST: usize = 256;

/// About how much credentials add to a request, bytes.
pub(super) const GROWTH: usize = 360;

/// A challenge of one address for one account.
struct Entry {
    account: Arc<Account>,
    remote: SocketAddr,
    held: Held,
    /// When it was used last, counted.
    used: u64,
}

/// The challenges that this worker has answered.
#[derive(Default)]
pub(super) struct Logins {
    entries: Vec<Entry>,
    uses: u64,
}

impl Logins {
    /// Adds credentials to the edits of a request to this address, if its challenge is known. `uri` is its
    /// new Request-URI.
    pub fn add(
        &mut self,
        (account, remote): (&Account, SocketAddr),
        (request, uri): (&Message<'_>, &[u8]),
        cnonce: u64,
        splices: &mut Splices,
    ) {
        let mut lines = Vec::new();
        let asked = Asked { user: &account.user, method: request.method().as_bytes(), uri };
        for entry in self.entries.iter_mut().filter(|entry| entry.is_for(account, remote)) {
            self.uses += 1;
            entry.used = self.uses;
            entry.held.write(&asked, cnonce, &mut lines);
        }
        if !lines.is_empty() {
            let end = request.head_len().saturating_sub(2);
            splices.insert(end, &lines);
        }
    }

    /// Keeps a challenge. `false`: it is the one that was answered last, so the answer was wrong.
    pub fn keep(&mut self, account: &Arc<Account>, remote: SocketAddr, held: Held, stale: bool) -> bool {
        let proxy = held.is_of_proxy();
        let same = |entry: &Entry| entry.is_for(account, remote) && entry.held.is_of_proxy() == proxy;
        if let Some(at) = self.entries.iter().position(same) {
            let known = self.entries.swap_remove(at);
            if !stale && known.held.is_again(&held) {
                return false;
            }
        }
        if self.entries.len() >= MOST
            && let Some(oldest) = (0..self.entries.len()).min_by_key(|at| self.entries[*at].used)
        {
            self.entries.swap_remove(oldest);
        }
        self.uses += 1;
        self.entries.push(Entry { account: Arc::clone(account), remote, held, used: self.uses });
        true
    }

    /// Forgets the challenges of an address: their answers were not accepted.
    pub fn forget(&mut self, account: &Account, remote: SocketAddr) {
        self.entries.retain(|entry| !entry.is_for(account, remote));
    }
}

impl Entry {
    fn is_for(&self, account: &Account, remote: SocketAddr) -> bool {
        self.remote == remote && self.account.is_same(account)
    }
}
