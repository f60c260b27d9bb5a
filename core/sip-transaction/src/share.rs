//! How much of a limited amount proven and unproven senders hold.
//!
//! Proven senders may use all of it. Unproven ones share what is left below half of it, and one source has at
//! most an eighth, so that neither many strangers nor one keep proven senders out.

/// Accounts of unproven sources. With more of them at one time, some share one.
const ACCOUNTS: usize = 1_024;
/// The flag of [`Payer::known`].
const KNOWN: u16 = 1 << 15;

/// On whose account something is held.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Payer(u16);

impl Payer {
    /// Senders who have proven who they are.
    pub const PROVEN: Payer = Payer(0);

    /// A sender who has not; `source` is a keyed hash of the address.
    pub const fn unproven(source: u64) -> Payer {
        Payer(1 + (source % ACCOUNTS as u64) as u16)
    }

    /// The same sender within something that was admitted before, such as a dialog: the limit of one source
    /// holds, the half does not.
    pub const fn known(source: u64) -> Payer {
        Payer(Payer::unproven(source).0 | KNOWN)
    }

    fn account(self) -> usize {
        usize::from(self.0 & !KNOWN)
    }
}

/// Something of which there is a limited amount.
#[derive(Debug)]
pub struct Share {
    limit: usize,
    held: usize,
    /// Held besides by what gives way to everybody: it counts against nobody.
    yielding: usize,
    /// By account. The first is that of all proven senders.
    accounts: Box<[usize]>,
}

impl Share {
    /// At most `limit` of it.
    pub fn new(limit: usize) -> Share {
        Share { limit, held: 0, yielding: 0, accounts: vec![0; ACCOUNTS + 1].into() }
    }

    /// Changes the limit. What is held stays.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Whether `payer` may have `amount` more.
    #[inline]
    pub fn admits(&self, payer: Payer, amount: usize) -> bool {
        let total = self.held.saturating_add(amount);
        if payer == Payer::PROVEN {
            return total <= self.limit;
        }
        let most = if payer.0 & KNOWN == 0 { self.limit.div_ceil(2) } else { self.limit };
        let own = self.accounts.get(payer.account()).map_or(usize::MAX, |own| own.saturating_add(amount));
        total <= most && own <= self.limit.div_ceil(8)
    }

    /// Whether there is room for `amount` more, whoever wants it.
    pub fn has_room(&self, amount: usize) -> bool {
        self.admits(Payer::PROVEN, amount)
    }

    /// Takes `amount` for `payer`, even beyond what [`Share::admits`].
    #[inline]
    pub fn take(&mut self, payer: Payer, amount: usize) {
        self.held = self.held.saturating_add(amount);
        if let Some(own) = self.accounts.get_mut(payer.account()) {
            *own = own.saturating_add(amount);
        }
    }

    /// Gives back what was taken for `payer`.
    #[inline]
    pub fn give(&mut self, payer: Payer, amount: usize) {
        invariant::holds!(self.held >= amount, "no more is released than was taken");
        self.held = self.held.saturating_sub(amount);
        if let Some(own) = self.accounts.get_mut(payer.account()) {
            *own = own.saturating_sub(amount);
        }
    }

    /// Something that `payer` holds has changed its size.
    #[inline]
    pub fn resize(&mut self, payer: Payer, old: usize, new: usize) {
        if old != new {
            self.give(payer, old);
            self.take(payer, new);
        }
    }

    /// How much is held by what gives way to everybody.
    pub fn set_yielding(&mut self, amount: usize) {
        self.yielding = amount;
    }

    /// How much of that has to go, so that no more is held than there is.
    #[inline]
    pub fn excess(&self) -> usize {
        self.held.saturating_add(self.yielding).saturating_sub(self.limit).min(self.yielding)
    }

    /// How much is held, without what gives way.
    pub fn held(&self) -> usize {
        self.held
    }

    /// How much is held by what gives way.
    pub fn yielding(&self) -> usize {
        self.yielding
    }

    /// How much unproven senders hold.
    pub fn unproven(&self) -> usize {
        self.held.saturating_sub(self.accounts.first().copied().unwrap_or(0))
    }

    /// How much there is.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(share: &mut Share, payer: Payer) -> usize {
        let mut taken = 0;
        while share.admits(payer, 1) {
            share.take(payer, 1);
            taken += 1;
        }
        taken
    }

    #[test]
    fn one_unproven_source_gets_an_eighth() {
        let mut share = Share::new(80);
        assert_eq!(fill(&mut share, Payer::unproven(7)), 10);
        assert_eq!(fill(&mut share, Payer::known(7)), 0, "it is the same source");
        assert_eq!(fill(&mut share, Payer::unproven(8)), 10);
    }

    #[test]
    fn unproven_sources_share_what_proven_ones_leave() {
        let mut share = Share::new(80);
        let strangers: usize = (0..100).map(|n| fill(&mut share, Payer::unproven(n))).sum();
        assert_eq!((strangers, share.unproven()), (40, 40));
        assert_eq!(fill(&mut share, Payer::known(200)), 10, "what was admitted goes on");
        assert_eq!(fill(&mut share, Payer::PROVEN), 30);
        assert_eq!((share.held(), share.unproven()), (80, 50));
        share.give(Payer::unproven(0), 10);
        assert!(!share.admits(Payer::unproven(0), 1), "proven senders need it");
        assert!(share.admits(Payer::PROVEN, 10) && !share.admits(Payer::PROVEN, 11));
    }

    #[test]
    fn small_limits_leave_everybody_something() {
        for limit in [1, 2, 7] {
            let mut share = Share::new(limit);
            assert_eq!(fill(&mut share, Payer::unproven(1)), 1, "{limit}");
        }
        assert!(!Share::new(0).admits(Payer::PROVEN, 1));
    }

    #[test]
    fn what_gives_way_keeps_nobody_out() {
        let mut share = Share::new(80);
        share.set_yielding(80);
        assert_eq!((share.held(), share.yielding(), share.excess()), (0, 80, 0));
        assert!(share.admits(Payer::unproven(1), 10) && share.admits(Payer::PROVEN, 80));
        share.take(Payer::PROVEN, 30);
        assert_eq!(share.excess(), 30);
        share.set_yielding(50);
        assert_eq!(share.excess(), 0);
        share.take(Payer::PROVEN, 60);
        assert_eq!(share.excess(), 50, "no more than there is of it");
    }

    #[test]
    fn sizes_follow_what_is_held() {
        let mut share = Share::new(1_000);
        let payer = Payer::unproven(3);
        share.take(payer, 10);
        share.resize(payer, 10, 100);
        share.resize(payer, 100, 30);
        assert_eq!((share.held(), share.unproven()), (30, 30));
        share.give(payer, 30);
        assert_eq!((share.held(), share.unproven()), (0, 0));
    }
}
