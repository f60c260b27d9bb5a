//! The location service that all workers share: tables under short locks, and the journal of what is
//! not yet on disk.

use std::fmt;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use sip_registrar::{BindingView, Change, ContactAt, Expected, Table};
use siphasher::sip::SipHasher13;
use wire::Time;

use crate::addresses::Addresses;
use crate::health::{Health, HealthState, OnFailure};
use crate::journal::Journal;
use crate::key::{Key, key_of};
use crate::turns;

/// Addresses of record looked at for expiry under one hold of a lock: some tens of microseconds.
const EXPIRE_STEP: usize = 32;
/// Addresses of record copied to the journal under one hold of a lock.
const RESCAN_STEP: usize = 64;
/// A writing round that takes longer than this counts as a failure of the disk, because a 200 is a
/// promise of one second.
const STALLED: Duration = Duration::from_secs(2);

/// Sizes of a [`SharedLocation`].
#[derive(Clone, Copy, Debug)]
pub struct LocationLimits {
    /// Parts with a lock of their own.
    pub stripes: usize,
    /// Addresses of record in all.
    pub max_aors: usize,
    /// Changes that may wait to be written. Beyond it no binding may change, whatever the policy.
    pub max_pending: usize,
}

impl LocationLimits {
    /// For so many threads that look up and register. Of few parts the processor keeps what a look-up reads
    /// before it comes to the binding (the lock, and where the buckets and pages are: seven lines of its
    /// cache each); threads meet in few of many.
    pub fn for_threads(threads: usize) -> LocationLimits {
        let stripes = threads.saturating_mul(32).next_power_of_two().clamp(64, 256);
        LocationLimits { stripes, ..LocationLimits::default() }
    }
}

impl Default for LocationLimits {
    fn default() -> LocationLimits {
        LocationLimits { stripes: 256, max_aors: 50_000_000, max_pending: 4_000_000 }
    }
}

/// Bindings of all users, read and changed by any thread.
pub struct SharedLocation {
    pub(crate) stripes: Box<[Lined]>,
    /// Where the bindings of all stripes stand.
    pub(crate) addresses: Arc<Addresses>,
    /// Keys the choice of the stripe and the hashes of the journal; the tables have keys of their own.
    seed: [u8; 16],
    /// Addresses of record that one table may have.
    share: usize,
    pending: AtomicUsize,
    max_pending: usize,
    /// Microseconds at which the running round of writing began; 0 between rounds.
    pub(crate) round_began: AtomicU64,
    pub(crate) health: HealthState,
}

/// From a line of the processor's cache on: lock and what a look-up needs first are in it.
#[repr(align(64))]
pub(crate) struct Lined(RwLock<Stripe>);

#[repr(C)]
pub(crate) struct Stripe {
    pub(crate) table: Table,
    pub(crate) journal: Journal,
    /// Room for the changes of one update.
    changes: Vec<Change>,
}

/// Where a listing stands; the default is the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cursor {
    /// Index of the stripe.
    pub stripe: usize,
    /// Position in its table.
    pub from: usize,
}

impl fmt::Debug for SharedLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedLocation({} stripes)", self.stripes.len())
    }
}

impl SharedLocation {
    /// An empty service; `seed` must be unguessable.
    pub fn new(seed: [u8; 16], limits: LocationLimits, policy: OnFailure) -> SharedLocation {
        let count = limits.stripes.clamp(1, 65_536);
        // Some room over the even share: stripes fill a little unevenly.
        let share = (limits.max_aors / count).saturating_add(limits.max_aors / count / 8).saturating_add(64);
        let addresses = Arc::new(Addresses::new());
        let stripe = |index: usize| {
            Lined(RwLock::new(Stripe {
                table: new_table(&seed, index, share, &addresses),
                journal: Journal::default(),
                changes: Vec::new(),
            }))
        };
        SharedLocation {
            stripes: (0..count).map(stripe).collect(),
            addresses,
            seed,
            share,
            pending: AtomicUsize::new(0),
            max_pending: limits.max_pending,
            round_began: AtomicU64::new(0),
            health: HealthState::new(policy),
        }
    }

    /// Calls `visit` with each live binding of `aor`, highest q first; answers how many there were.
    /// A reader's lock on one stripe is held meanwhile: copy, and ask nothing of the service.
    pub fn lookup(&self, aor: &[u8], now: Time, visit: impl FnMut(BindingView<'_>)) -> usize {
        match self.stripes.get(self.index(aor)) {
            Some(stripe) => read(stripe).table.bindings(aor, now, visit),
            None => 0,
        }
    }

    /// Asks the processor for what a look-up of `aor` reads first, and once that is here, with
    /// [`SharedLocation::fetch`], for the bindings. Both are mostly in no cache, and a look-up that follows
    /// some other work need not wait for them. `None`: somebody changes that part just now, and a hint is not
    /// worth waiting for him.
    pub fn expect(&self, aor: &[u8]) -> Option<Expected> {
        let index = self.index(aor);
        let hash = self.stripes.get(index)?.0.try_read().ok()?.table.expect(aor);
        Some(Expected { part: index as u32, hash })
    }

    /// See [`SharedLocation::expect`].
    pub fn fetch(&self, expected: Expected) {
        let stripe = self.stripes.get(expected.part as usize).and_then(|stripe| stripe.0.try_read().ok());
        if let Some(stripe) = stripe {
            stripe.table.fetch(expected.hash);
        }
    }

    /// Lets `f` change the bindings of `aor` and report what it changed; the changes are on disk within a
    /// second, and a [`Keeper`](crate::Keeper) writes them so that they outlive the process at once. `f` must
    /// touch no other address of record than `aor`. The stripe is locked meanwhile.
    ///
    /// Ask [`accepting`](SharedLocation::accepting) before.
    pub fn register<R>(&self, aor: &[u8], f: impl FnOnce(&mut Table, &mut Vec<Change>) -> R) -> Option<R> {
        self.register_at(self.index(aor), f)
    }

    pub(crate) fn register_at<R>(
        &self,
        index: usize,
        f: impl FnOnce(&mut Table, &mut Vec<Change>) -> R,
    ) -> Option<R> {
        let mut stripe = write(self.stripes.get(index)?);
        Some(self.change(&mut stripe, f))
    }

    /// Removes all bindings of `aor`; answers how many there were.
    pub fn remove(&self, aor: &[u8]) -> usize {
        self.register(aor, |table, changes| table.remove(aor, changes)).unwrap_or(0)
    }

    /// Removes all bindings of every address of record that `gone` tells; answers how many there were. `gone`
    /// is asked under a reader's lock on one stripe, some tens of names at a time.
    pub fn remove_where(&self, gone: &dyn Fn(&[u8]) -> bool) -> usize {
        let (mut removed, mut found) = (0, Vec::<Box<[u8]>>::new());
        let mut next = Some(Cursor::default());
        while let Some(from) = next {
            next = self.list(from, RESCAN_STEP, Time::ZERO, |aor, _| {
                if found.last().is_none_or(|last| **last != *aor) && gone(aor) {
                    found.push(aor.into());
                }
            });
            removed += found.drain(..).map(|aor| self.remove(&aor)).sum::<usize>();
        }
        removed
    }

    /// Whether the binding with this key lives.
    pub(crate) fn has_binding(&self, key: &Key<'_>, now: Time) -> bool {
        let mut live = false;
        self.lookup(key.aor, now, |view| {
            live |= view.contact == key.contact && view.instance == key.instance && view.reg_id == key.reg_id;
        });
        live
    }

    /// Whether some binding has this address in its Contact or had its REGISTER from it. Takes one lock.
    pub fn has_contact_address(&self, address: SocketAddr) -> bool {
        self.addresses.contains(address)
    }

    /// Visits live bindings that have this Contact, until `visit` answers that it has seen enough; as with
    /// [`SharedLocation::lookup`], under a reader's lock. Takes one lock, and one for each part that has a
    /// Contact with that address and user part: mostly none or one, at most
    /// [`MOST_CANDIDATES`](sip_registrar::MOST_CANDIDATES). Answers whether there are more, which were not
    /// looked at.
    pub fn contacts(&self, contact: &ContactAt<'_>, visit: &mut dyn FnMut(&BindingView<'_>) -> bool) -> bool {
        let candidates = self.addresses.candidates(contact);
        for owners in candidates.by_part() {
            let stripe = owners.first().and_then(|owner| self.stripes.get(usize::from(owner.part)));
            let enough = stripe.is_some_and(|stripe| {
                let table = &read(stripe).table;
                owners.iter().any(|owner| table.contacts_of(owner.hash, contact, visit))
            });
            if enough {
                break;
            }
        }
        candidates.has_more()
    }

    /// Visits live bindings in portions of about `max` addresses of record; go on with what is
    /// answered until that is `None`. The listing is not a snapshot.
    pub fn list(
        &self,
        from: Cursor,
        max: usize,
        now: Time,
        visit: impl FnMut(&[u8], BindingView<'_>),
    ) -> Option<Cursor> {
        let stripe = self.stripes.get(from.stripe)?;
        let next = Cursor { stripe: from.stripe + 1, from: 0 };
        match read(stripe).table.scan(from.from, max, now, visit) {
            Some(position) => Some(Cursor { stripe: from.stripe, from: position }),
            None => (next.stripe < self.stripes.len()).then_some(next),
        }
    }

    /// Addresses of record, bindings, and bytes of memory they take.
    pub fn size(&self) -> (usize, usize, usize) {
        self.stripes.iter().fold((0, 0, self.addresses.bytes()), |(aors, bindings, bytes), stripe| {
            let table = &read(stripe).table;
            (aors + table.aors(), bindings + table.len(), bytes + table.bytes())
        })
    }

    /// Whether bindings may change now. If not, answer 503 with Retry-After to what would change one.
    pub fn accepting(&self) -> bool {
        self.health.accepting() && self.pending() < self.max_pending
    }

    /// Whether bindings reach the disk.
    pub fn health(&self) -> Health {
        self.health.get()
    }

    /// Changes that are not on disk yet. 0 means that everything accepted so far would survive a crash.
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Forgets bindings that are over, looking at about `budget` addresses of record at most; answers
    /// whether there is more to do. The store's own thread calls it.
    pub fn expire(&self, now: Time, budget: usize) -> bool {
        let mut left = budget;
        let due = |stripe: &Lined| read(stripe).table.next_expire().is_some_and(|due| due <= now);
        for stripe in &self.stripes {
            while due(stripe) {
                if left == 0 {
                    return true;
                }
                turns::offer();
                left = left.saturating_sub(EXPIRE_STEP);
                let mut stripe = write(stripe);
                if !self.change(&mut stripe, |table, changes| table.expire(now, EXPIRE_STEP, changes)) {
                    break;
                }
            }
        }
        false
    }

    /// Turns a disk that does not answer into a failure.
    pub fn check_stall(&self, now: Time) {
        let began = self.round_began.load(Ordering::Relaxed);
        if began != 0 && now.since(Time::from_micros(began)) > STALLED {
            self.health.failing(now, "writing takes more than two seconds".to_owned());
        }
    }

    /// The thread that writes has ended by a fault of ours.
    pub fn writer_died(&self, now: Time) {
        self.health.failing(now, "the thread that writes them has failed; restart the server".to_owned());
    }

    /// Tells tables that are empty the time, so that they file each binding under its end at once.
    pub(crate) fn tell_time(&self, now: Time) {
        for stripe in &self.stripes {
            let mut stripe = write(stripe);
            self.change(&mut stripe, |table, changes| table.expire(now, EXPIRE_STEP, changes));
        }
    }

    /// Forgets all that was put back from disk.
    pub(crate) fn clear(&self) {
        for (index, stripe) in self.stripes.iter().enumerate() {
            write(stripe).table = new_table(&self.seed, index, self.share, &self.addresses);
        }
        self.addresses.clear();
    }

    fn change<R>(&self, stripe: &mut Stripe, f: impl FnOnce(&mut Table, &mut Vec<Change>) -> R) -> R {
        let result = f(&mut stripe.table, &mut stripe.changes);
        let mut fresh = 0;
        for change in stripe.changes.drain(..) {
            fresh += usize::from(stripe.journal.push(&self.seed, change));
        }
        if fresh != 0 {
            self.pending.fetch_add(fresh, Ordering::Relaxed);
        }
        result
    }

    /// Takes the journal of stripe `index` if there is something in it or it has more room than it needs,
    /// leaving `empty` in its place.
    pub(crate) fn take_journal(&self, index: usize, empty: Journal) -> Result<Journal, Journal> {
        let Some(stripe) = self.stripes.get(index) else { return Err(empty) };
        let (none, roomy) = {
            let journal = &read(stripe).journal;
            (journal.is_empty(), journal.is_roomy())
        };
        if none && !roomy {
            return Err(empty);
        }
        Ok(std::mem::replace(&mut write(stripe).journal, empty))
    }

    /// `count` changes that were taken are on disk.
    pub(crate) fn written(&self, count: usize) {
        self.pending.fetch_sub(count, Ordering::Relaxed);
    }

    /// Parts with a lock of their own.
    pub(crate) fn parts(&self) -> usize {
        self.stripes.len()
    }

    /// Gives back changes that could not be written, unless there is news about their bindings.
    pub(crate) fn put_back(&self, changes: &mut Vec<Change>) {
        // The last first: it may be about the same binding as one before it.
        for change in changes.drain(..).rev() {
            let Some(stripe) = self.stripes.get(self.index(key_of(&change).aor)) else { continue };
            if !write(stripe).journal.push_older(&self.seed, change) {
                self.pending.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Journals a portion of all live bindings, as if they had just been made; answers as
    /// [`list`](SharedLocation::list).
    pub(crate) fn rescan(&self, from: Cursor, now: Time) -> Option<Cursor> {
        let mut stripe = write(self.stripes.get(from.stripe)?);
        let stripe = &mut *stripe;
        let mut fresh = 0;
        let position = stripe.table.scan(from.from, RESCAN_STEP, now, |aor, view| {
            fresh += usize::from(stripe.journal.push_older(&self.seed, Change::Put(view.to_record(aor))));
        });
        self.pending.fetch_add(fresh, Ordering::Relaxed);
        match position {
            Some(position) => Some(Cursor { stripe: from.stripe, from: position }),
            None => Some(Cursor { stripe: from.stripe + 1, from: 0 }),
        }
    }

    pub(crate) fn index(&self, aor: &[u8]) -> usize {
        let hash = SipHasher13::new_with_key(&self.seed).hash(aor);
        let count = self.stripes.len() as u64;
        usize::try_from(hash % count.max(1)).unwrap_or(0)
    }
}

fn new_table(seed: &[u8; 16], index: usize, share: usize, addresses: &Arc<Addresses>) -> Table {
    let mut hasher = SipHasher13::new_with_key(seed);
    hasher.write(b"table");
    hasher.write_usize(index);
    let low = hasher.finish();
    hasher.write_u8(1);
    let addresses: Arc<Addresses> = Arc::clone(addresses);
    // There are at most as many stripes as a part has numbers.
    Table::sharing([low, hasher.finish()], share, true, index as u16, addresses)
}

pub(crate) fn read(stripe: &Lined) -> RwLockReadGuard<'_, Stripe> {
    #[cfg(test)]
    crate::locks::note();
    stripe.0.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write(stripe: &Lined) -> RwLockWriteGuard<'_, Stripe> {
    #[cfg(test)]
    crate::locks::note();
    stripe.0.write().unwrap_or_else(PoisonError::into_inner)
}
