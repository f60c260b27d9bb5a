//! Channels that calls take of their callers' accounts.

use hashbrown::HashTable;

/// What one call takes of one account.
struct Charge {
    call: u64,
    account: u64,
    /// INVITEs of the call: a caller may send several with one Call-ID and tag.
    count: u32,
}

/// The charges of all calls of a worker. A call keeps them until it ends as a whole, so that INVITEs with one
/// Call-ID and tag are no way round a limit.
#[derive(Default)]
pub(super) struct Charges {
    table: HashTable<Charge>,
    /// Accounts of channels that are free again.
    freed: Vec<u64>,
}

impl Charges {
    /// A call takes a channel of an account; if it does not live, it gives it back at once.
    pub fn take(&mut self, call: u64, account: u64, lives: bool) {
        if !lives {
            return self.freed.push(account);
        }
        match self.table.find_mut(call, |c| c.call == call && c.account == account) {
            Some(charge) => charge.count += 1,
            None => {
                self.table.insert_unique(call, Charge { call, account, count: 1 }, |c| c.call);
            }
        }
    }

    /// A call has ended.
    #[inline]
    pub fn give_back(&mut self, call: u64) {
        if !self.table.is_empty() {
            self.give_all_back(call);
        }
    }

    fn give_all_back(&mut self, call: u64) {
        while let Ok(found) = self.table.find_entry(call, |c| c.call == call) {
            let (charge, _) = found.remove();
            self.freed.extend((0..charge.count).map(|_| charge.account));
        }
    }

    /// The accounts of channels that are free again.
    #[inline]
    pub fn freed(&mut self) -> impl Iterator<Item = u64> {
        self.freed.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_gives_back_all_that_it_took_when_it_ends() {
        let mut charges = Charges::default();
        for (call, account) in [(1, 7), (1, 7), (1, 8), (2, 7)] {
            charges.take(call, account, true);
        }
        charges.give_back(3);
        assert_eq!(charges.freed().count(), 0);
        charges.give_back(1);
        let mut freed: Vec<u64> = charges.freed().collect();
        freed.sort_unstable();
        assert_eq!(freed, [7, 7, 8]);
        charges.take(4, 9, false);
        charges.give_back(2);
        assert_eq!(charges.freed().collect::<Vec<_>>(), [9, 7]);
    }
}
