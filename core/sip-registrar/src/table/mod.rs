//! The location table: address of record to bindings, in memory.
//!
//! One table is one shard; the shell keeps several, each under a lock of its own, and looks up
//! through a shared reference. Everything about an address of record is one cell of bytes (`cell`,
//! `binding`) in a slab of pages (`slab`), found by linear hashing (`index`) and looked at when
//! something in it may have expired (`wheel`). No operation walks the table, copies it or rehashes
//! it: the longest single step is the allocation of a 16 KiB segment of buckets.

mod addresses;
mod agents;
mod binding;
mod bytes;
mod cell;
mod commit;
mod index;
mod segments;
mod slab;
#[cfg(test)]
mod tests;
mod wheel;

pub(crate) use binding::Binding;
pub(crate) use commit::Draft;

use crate::types::{BindingView, Change, FlowBinding, Record};
use addresses::Addresses;
pub use addresses::{
    AddressIndex, ContactAt, MOST_CANDIDATES, Owner, SharedIndex, Spot, is_outside, is_public,
};
use agents::Agents;
use bytes::u32_at;
use core::net::SocketAddr;
use index::Index;
use slab::Slab;
use std::sync::Arc;
use wheel::Wheel;
use wire::Time;

/// Bindings of one address of record that a cell can hold, whatever the configuration says.
pub(crate) const MAX_BINDINGS: usize = 255;

/// The table has reached its limit of addresses of record, or of memory it can name (64 GiB).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableFull;

/// One shard of the location service. What a look-up needs comes first, as it is in no cache.
#[repr(C)]
pub struct Table {
    index: Index,
    slab: Slab,
    wheel: Wheel,
    agents: Agents,
    addresses: Addresses,
    bindings: usize,
    max_aors: usize,
    journal: bool,
    /// Room for the body of a cell before and after an update, kept between updates.
    scratch: (Vec<u8>, Vec<u8>),
}

impl Table {
    /// An empty table for at most `max_aors` addresses of record. `seed` keys the hash: unguessable,
    /// and not the key by which the shell chooses the shard. With `journal`, updates report the
    /// [`Change`]s that a store needs.
    pub fn new(seed: [u64; 2], max_aors: usize, journal: bool) -> Table {
        Table::with(seed, max_aors, journal, Addresses::Own(AddressIndex::default()))
    }

    /// The same for table `part` of several that share an index of addresses. [`Table::has_contact_address`]
    /// and [`Table::contacts`] are then questions for the index.
    pub fn sharing(
        seed: [u64; 2],
        max_aors: usize,
        journal: bool,
        part: u16,
        index: Arc<dyn SharedIndex>,
    ) -> Table {
        Table::with(seed, max_aors, journal, Addresses::Shared(part, index))
    }

    fn with(seed: [u64; 2], max_aors: usize, journal: bool, addresses: Addresses) -> Table {
        Table {
            index: Index::new(seed),
            slab: Slab::new(),
            wheel: Wheel::new(),
            agents: Agents::default(),
            addresses,
            bindings: 0,
            max_aors,
            journal,
            scratch: Default::default(),
        }
    }

    /// Calls `visit` with each live binding of `aor`, highest q first: equal values in a row are one
    /// group to fork to in parallel (RFC 3261 section 16.6), the most recently registered first.
    /// Answers how many there were.
    pub fn bindings(&self, aor: &[u8], now: Time, visit: impl FnMut(BindingView<'_>)) -> usize {
        match self.index.find(&self.slab, self.index.hash(aor), aor) {
            Some(handle) => self.visit(handle, now, visit),
            None => 0,
        }
    }

    /// Asks the processor for what a search for `aor` begins with, which is mostly in no cache. What it
    /// answers is for [`Table::fetch`], after some other work.
    pub fn expect(&self, aor: &[u8]) -> u32 {
        let hash = self.index.hash(aor);
        self.index.prefetch(hash);
        hash
    }

    /// Asks the processor for the bindings of an address-of-record for which [`Table::expect`] answered this.
    pub fn fetch(&self, expected: u32) {
        if let Some(handle) = self.index.first_of(expected) {
            self.slab.prefetch(handle);
        }
    }

    /// Whether some binding has this address as its Contact's or had its REGISTER from it. Bindings
    /// that expired count until [`Table::expire`] has come to them. For a table with an index of its own.
    pub fn has_contact_address(&self, address: SocketAddr) -> bool {
        invariant::holds!(self.addresses.own().is_some(), "a table that is asked by address has an index");
        self.addresses.own().is_some_and(|index| index.contains(address))
    }

    /// Visits live bindings that have this Contact, until `visit` answers that it has seen enough. Answers
    /// whether some were not looked at ([`AddressIndex::candidates`]). For a table with an index of its own.
    pub fn contacts(&self, contact: &ContactAt<'_>, mut visit: impl FnMut(&BindingView<'_>) -> bool) -> bool {
        invariant::holds!(self.addresses.own().is_some(), "a table that is asked by address has an index");
        let mut enough = false;
        self.addresses.own().is_some_and(|index| {
            index.candidates(contact, |owner| {
                enough = enough || self.contacts_of(owner.hash, contact, &mut visit);
            })
        })
    }

    /// The same of the addresses of record that have this hash, as [`AddressIndex::candidates`] tells it.
    /// Answers what the last visit answered.
    pub fn contacts_of(
        &self,
        hash: u32,
        contact: &ContactAt<'_>,
        visit: &mut dyn FnMut(&BindingView<'_>) -> bool,
    ) -> bool {
        let mut at = self.index.first_of(hash);
        while let Some(handle) = at {
            let c = self.slab.get(handle);
            let same = u32_at(c, cell::HASH) == hash;
            let mut found = cell::open(c).1.filter(|b| same && contact.is(b));
            if found.any(|b| visit(&self.view(&b))) {
                return true;
            }
            at = index::following(&self.slab, handle);
        }
        false
    }

    /// Addresses of record with a binding, expired ones included until swept.
    pub fn aors(&self) -> usize {
        self.index.len()
    }

    /// Bindings, expired ones included until swept.
    pub fn len(&self) -> usize {
        self.bindings
    }

    /// Whether the table holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bindings == 0
    }

    /// Bytes of memory the table holds, room for growth included. The allocator's own overhead, 16
    /// bytes on each page of 8 KiB, is not, and neither is an index that it shares.
    pub fn bytes(&self) -> usize {
        size_of::<Table>()
            + self.slab.bytes()
            + self.index.bytes()
            + self.wheel.bytes()
            + self.addresses.own().map_or(0, AddressIndex::bytes)
            + self.scratch.0.capacity()
            + self.scratch.1.capacity()
    }

    /// Most cells that one step of growth has had to look at.
    pub fn longest_growth_step(&self) -> usize {
        self.index.longest_step
    }

    /// Visits every live binding, in portions: begin with `from` 0, go on with what is answered
    /// until that is `None`. A portion ends after `max` addresses of record. Between portions the
    /// table may change: an address that is there from beginning to end is visited at least once.
    pub fn scan(
        &self,
        from: usize,
        max: usize,
        now: Time,
        mut visit: impl FnMut(&[u8], BindingView<'_>),
    ) -> Option<usize> {
        let mut seen = 0;
        for bucket in from..self.index.buckets() {
            // Empty buckets count too, or a table that emptied would be walked in one go.
            if seen >= max.max(1) {
                return Some(bucket);
            }
            let mut at = self.index.first(bucket);
            seen += usize::from(at.is_none());
            while let Some(handle) = at {
                let aor = cell::open(self.slab.get(handle)).0;
                self.visit(handle, now, |view| visit(aor, view));
                at = index::following(&self.slab, handle);
                seen += 1;
            }
        }
        None
    }

    /// Puts back what a store kept, at start: inserts the record or replaces the one with its key.
    /// Reports no change. A record whose time is over is forgotten by the next [`Table::expire`],
    /// which reports that. A table that was told the time, by an `expire` while it was empty, files
    /// each record under its end at once; else the first sweeps have to look at all of them.
    pub fn restore(&mut self, record: &Record) -> Result<(), TableFull> {
        self.put_back(&record.aor, &record.view(), true).map(|_| ())
    }

    /// As [`restore`](Table::restore), of a binding that is borrowed.
    pub fn restore_view(&mut self, aor: &[u8], binding: &BindingView<'_>) -> Result<(), TableFull> {
        self.put_back(aor, binding, true).map(|_| ())
    }

    /// As [`restore`](Table::restore), of what is older than all that was put back before: only if there is
    /// none with its key. Answers whether it was put back.
    pub fn restore_older(&mut self, aor: &[u8], binding: &BindingView<'_>) -> Result<bool, TableFull> {
        self.put_back(aor, binding, false)
    }

    fn put_back(&mut self, aor: &[u8], view: &BindingView<'_>, replace: bool) -> Result<bool, TableFull> {
        let mut snapshot = self.snapshot(aor);
        let journal = std::mem::take(&mut self.journal);
        let (binding, agent) = (view_binding(view), view.user_agent);
        let old = std::mem::take(&mut snapshot.body);
        let done = if snapshot.is_new() {
            // The usual case at a start needs no list.
            self.commit(&snapshot, aor, &mut [Draft::new(binding, agent)], &[], &mut Vec::new())
                .map(|()| true)
        } else if !replace && snapshot.bindings(&old).any(|b| key_of(&b) == key_of(&binding)) {
            Ok(false)
        } else {
            let mut drafts: Vec<Draft<'_>> = snapshot.bindings(&old).map(Draft::kept).collect();
            match drafts.iter_mut().find(|d| key_of(&d.binding) == key_of(&binding)) {
                Some(there) => there.replace(binding, agent),
                None => drafts.push(Draft::new(binding, agent)),
            }
            self.commit(&snapshot, aor, &mut drafts, &[], &mut Vec::new()).map(|()| true)
        };
        self.journal = journal;
        snapshot.body = old;
        self.give_back(snapshot);
        done
    }

    /// Takes out what was put back under this key, at start, because a later word of the store says so.
    /// Reports no change.
    pub fn take_back(&mut self, aor: &[u8], contact: &[u8], instance: &[u8], reg_id: u32) {
        let mut snapshot = self.snapshot(aor);
        let old = std::mem::take(&mut snapshot.body);
        let (gone, kept): (Vec<_>, Vec<_>) =
            snapshot.bindings(&old).partition(|b| key_of(b) == (contact, instance, reg_id));
        if !gone.is_empty() {
            let mut drafts: Vec<Draft<'_>> = kept.into_iter().map(Draft::kept).collect();
            let journal = std::mem::take(&mut self.journal);
            // A commit that only removes needs no room and cannot fail.
            let _ = self.commit(&snapshot, aor, &mut drafts, &gone, &mut Vec::new());
            self.journal = journal;
        }
        snapshot.body = old;
        self.give_back(snapshot);
    }

    /// Removes every binding of `aor`: an operator's word, or a subscriber deleted. Answers how many
    /// there were.
    pub fn remove(&mut self, aor: &[u8], changes: &mut Vec<Change>) -> usize {
        let mut snapshot = self.snapshot(aor);
        let old = std::mem::take(&mut snapshot.body);
        let gone: Vec<Binding<'_>> = snapshot.bindings(&old).collect();
        let count = gone.len();
        // A commit that only removes needs no room and cannot fail.
        let _ = self.commit(&snapshot, aor, &mut [], &gone, changes);
        snapshot.body = old;
        self.give_back(snapshot);
        count
    }

    /// Removes the binding of a flow that is gone (RFC 5626 section 7). A binding that was registered again
    /// since then stays. Returns whether it was removed.
    pub fn remove_flow(&mut self, flow: &FlowBinding, changes: &mut Vec<Change>) -> bool {
        let mut snapshot = self.snapshot(&flow.aor);
        let old = std::mem::take(&mut snapshot.body);
        let is_it = |b: &Binding<'_>| {
            (b.instance, b.reg_id) == (&*flow.instance, flow.reg_id)
                && (b.call_id, b.cseq) == (&*flow.call_id, flow.cseq)
        };
        let (gone, kept): (Vec<Binding<'_>>, Vec<Binding<'_>>) = snapshot.bindings(&old).partition(is_it);
        let found = !gone.is_empty();
        if found {
            let mut drafts: Vec<Draft<'_>> = kept.into_iter().map(Draft::kept).collect();
            // A commit that only removes needs no room and cannot fail.
            let _ = self.commit(&snapshot, &flow.aor, &mut drafts, &gone, changes);
        }
        snapshot.body = old;
        self.give_back(snapshot);
        found
    }

    /// Forgets bindings that are over, looking at no more than `max` addresses of record. Answers
    /// whether there is more to do now. To be called about once a second: lookups never show an
    /// expired binding, however late this is.
    pub fn expire(&mut self, now: Time, max: usize, changes: &mut Vec<Change>) -> bool {
        self.wake(now);
        for _ in 0..max {
            match self.wheel.due(&mut self.slab, now) {
                Some(handle) => self.look_at(handle, now, changes),
                None => return false,
            }
        }
        self.wheel.next_due() <= now
    }

    /// Tells an empty table the time.
    pub(crate) fn wake(&mut self, now: Time) {
        if self.is_empty() {
            self.wheel.skip_to(now);
        }
    }

    /// When [`Table::expire`] may next find something; `None` while the table is empty.
    pub fn next_expire(&self) -> Option<Time> {
        (!self.is_empty()).then(|| self.wheel.next_due())
    }

    fn visit(&self, handle: u32, now: Time, mut visit: impl FnMut(BindingView<'_>)) -> usize {
        let mut live = 0;
        for binding in cell::open(self.slab.get(handle)).1.filter(|b| b.expires > now) {
            live += 1;
            visit(self.view(&binding));
        }
        live
    }

    pub(crate) fn view<'a>(&'a self, b: &Binding<'a>) -> BindingView<'a> {
        BindingView {
            contact: b.contact,
            params: b.params,
            q: b.q,
            expires: b.expires,
            call_id: b.call_id,
            cseq: b.cseq,
            flow: b.flow,
            path: b.path,
            instance: b.instance,
            reg_id: b.reg_id,
            user_agent: self.agents.text(b.agent),
        }
    }

    /// A cell came out of the wheel: drops what is over and puts it back if something is left.
    fn look_at(&mut self, handle: u32, now: Time, changes: &mut Vec<Change>) {
        let over = |b: &Binding<'_>| b.expires <= now;
        let (_, bindings) = cell::open(self.slab.get(handle));
        let some_over = bindings.clone().any(|b| over(&b));
        let earliest = bindings.map(|b| b.expires).min().unwrap_or(Time::FAR);
        // `commit` expects every cell in the wheel.
        self.wheel.insert(&mut self.slab, handle, earliest.max(now));
        if !some_over {
            return;
        }
        let mut snapshot = self.snapshot_of(handle);
        let old = std::mem::take(&mut snapshot.body);
        let (aor, _) = cell::open_body(&old);
        let (gone, kept): (Vec<_>, Vec<_>) = snapshot.bindings(&old).partition(over);
        let mut drafts: Vec<Draft<'_>> = kept.into_iter().map(Draft::kept).collect();
        // A commit that keeps or drops what was there needs no room and cannot fail.
        let _ = self.commit(&snapshot, aor, &mut drafts, &gone, changes);
        snapshot.body = old;
        self.give_back(snapshot);
    }
}

/// What tells bindings of one address of record apart in a store.
pub(crate) fn key_of<'a>(b: &Binding<'a>) -> (&'a [u8], &'a [u8], u32) {
    (b.contact, b.instance, b.reg_id)
}

fn view_binding<'a>(v: &BindingView<'a>) -> Binding<'a> {
    Binding {
        contact: v.contact,
        params: v.params,
        q: v.q.min(1000),
        expires: v.expires,
        call_id: v.call_id,
        cseq: v.cseq,
        flow: v.flow,
        path: v.path,
        instance: v.instance,
        reg_id: v.reg_id,
        agent: 0,
    }
}
