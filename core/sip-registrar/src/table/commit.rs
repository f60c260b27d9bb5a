//! Replacing the bindings of one address of record, all at once.

use super::binding::{Binding, Bindings};
use super::bytes::put_u32;
use super::cell::{self, CHAIN, HASH, HEAD};
use super::{MAX_BINDINGS, Table, TableFull, key_of};
use crate::types::Change;
use sip_message::Uri;
use wire::Time;

/// The state of an address of record before an update: where its cell is, and a copy of its body, so
/// that the update can be worked out while nothing is borrowed from the table.
pub(crate) struct Snapshot {
    hash: u32,
    handle: Option<u32>,
    /// Whatever follows the links of the cell; empty if there is none.
    pub(crate) body: Vec<u8>,
}

impl Snapshot {
    /// Whether there is none yet.
    pub(crate) fn is_new(&self) -> bool {
        self.handle.is_none()
    }

    /// The bindings in `body`, which the caller took out of this snapshot to borrow from.
    pub(crate) fn bindings<'a>(&self, body: &'a [u8]) -> Bindings<'a> {
        cell::open_body(body).1
    }
}

/// One binding as an update would leave it.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) binding: Binding<'a>,
    /// What it was in the table; `None`: the update made it.
    pub(crate) was: Option<Binding<'a>>,
    /// User-Agent of the update that wrote it; `None`: not touched.
    agent: Option<&'a [u8]>,
    /// The contact of a binding that the update made, taken apart, if it is at hand.
    uri: Option<&'a Uri<'a>>,
}

impl<'a> Draft<'a> {
    /// A binding of the table that stays as it is.
    pub(crate) fn kept(binding: Binding<'a>) -> Draft<'a> {
        Draft { binding, was: Some(binding), agent: None, uri: None }
    }

    /// A binding that the table does not have.
    pub(crate) fn new(binding: Binding<'a>, agent: &'a [u8]) -> Draft<'a> {
        Draft { binding, was: None, agent: Some(agent), uri: None }
    }

    /// The same, with its contact taken apart.
    pub(crate) fn read(binding: Binding<'a>, uri: &'a Uri<'a>, agent: &'a [u8]) -> Draft<'a> {
        Draft { uri: Some(uri), ..Draft::new(binding, agent) }
    }

    /// Writes over a binding.
    pub(crate) fn replace(&mut self, binding: Binding<'a>, agent: &'a [u8]) {
        self.binding = binding;
        self.agent = Some(agent);
        self.uri = None;
    }

    /// Whether the update wrote this binding.
    pub(crate) fn is_touched(&self) -> bool {
        self.agent.is_some()
    }
}

impl Table {
    /// Copies the state of `aor`. Hand the snapshot back with [`Table::give_back`]: its memory is
    /// used again.
    pub(crate) fn snapshot(&mut self, aor: &[u8]) -> Snapshot {
        let hash = self.index.hash(aor);
        match self.index.find(&self.slab, hash, aor) {
            Some(handle) => self.snapshot_of(handle),
            None => {
                let mut body = std::mem::take(&mut self.scratch.0);
                body.clear();
                Snapshot { hash, handle: None, body }
            }
        }
    }

    pub(super) fn snapshot_of(&mut self, handle: u32) -> Snapshot {
        let mut body = std::mem::take(&mut self.scratch.0);
        body.clear();
        let cell = self.slab.get(handle);
        body.extend_from_slice(cell.get(HEAD..).unwrap_or_default());
        Snapshot { hash: super::bytes::u32_at(cell, HASH), handle: Some(handle), body }
    }

    pub(crate) fn give_back(&mut self, snapshot: Snapshot) {
        self.scratch.0 = snapshot.body;
    }

    /// Makes `drafts` the bindings of `aor`. `gone` are those of the snapshot that are not among
    /// them. Either everything is done or, with `TableFull`, nothing. Removals are reported before
    /// insertions, so that a key given up by one binding and taken by another ends up present.
    pub(crate) fn commit(
        &mut self,
        snapshot: &Snapshot,
        aor: &[u8],
        drafts: &mut [Draft<'_>],
        gone: &[Binding<'_>],
        changes: &mut Vec<Change>,
    ) -> Result<(), TableFull> {
        let new = snapshot.is_new();
        let grows = drafts.iter().any(Draft::is_touched);
        if grows
            && (drafts.len() > MAX_BINDINGS
                || !self.slab.has_room()
                || (new && self.index.len() >= self.max_aors))
        {
            return Err(TableFull);
        }
        self.number_agents(drafts);
        // The newest first among equals: of several flows of one phone it is the likeliest to work.
        drafts.sort_by_key(|d| (core::cmp::Reverse(d.binding.q), !d.is_touched()));
        self.write(snapshot, aor, drafts)?;
        gone.iter().for_each(|binding| self.report_delete(aor, binding, changes));
        for draft in drafts.iter() {
            self.settle(snapshot.hash, draft);
            if let Some(was) = draft.was.filter(|was| key_of(was) != key_of(&draft.binding)) {
                self.report_delete(aor, &was, changes);
            }
        }
        // After what is new, so that an address that both have is in the index all the time.
        gone.iter().for_each(|binding| self.forget(snapshot.hash, binding));
        self.report_puts(aor, drafts, changes);
        let added = drafts.iter().filter(|d| d.was.is_none()).count();
        self.bindings = self.bindings + added - gone.len();
        Ok(())
    }

    /// Replaces User-Agent texts by numbers.
    fn number_agents(&mut self, drafts: &mut [Draft<'_>]) {
        for draft in drafts {
            let Some(text) = draft.agent else { continue };
            let before = draft.was.map_or(0, |was| was.agent);
            let same = before != 0 && self.agents.text(before) == text;
            draft.binding.agent = if same { before } else { self.agents.acquire(text) };
        }
    }

    /// Writes, moves or removes the cell.
    fn write(&mut self, snapshot: &Snapshot, aor: &[u8], drafts: &[Draft<'_>]) -> Result<(), TableFull> {
        let Some(earliest) = drafts.iter().map(|d| d.binding.expires).min() else {
            if let Some(handle) = snapshot.handle {
                self.drop_cell(handle);
            }
            return Ok(());
        };
        let mut body = std::mem::take(&mut self.scratch.1);
        body.clear();
        cell::begin(&mut body, drafts.len() as u8, aor);
        for draft in drafts {
            draft.binding.encode(&mut body);
        }
        let done = self.write_body(snapshot, &body, earliest);
        self.scratch.1 = body;
        done
    }

    fn write_body(&mut self, snapshot: &Snapshot, body: &[u8], earliest: Time) -> Result<(), TableFull> {
        let len = HEAD + body.len();
        let handle = match snapshot.handle {
            Some(handle) if self.slab.fits(handle, len) => handle,
            old => {
                let handle = self.slab.alloc(len).ok_or(TableFull)?;
                match old {
                    Some(old) => self.move_cell(old, handle),
                    None => {
                        put_u32(self.slab.get_mut(handle), HASH, snapshot.hash);
                        put_u32(self.slab.get_mut(handle), CHAIN, super::slab::NONE);
                        self.index.insert(&mut self.slab, handle);
                        self.wheel.insert(&mut self.slab, handle, earliest);
                    }
                }
                handle
            }
        };
        self.slab.get_mut(handle)[HEAD..len].copy_from_slice(body);
        self.wheel.adjust(&mut self.slab, handle, earliest);
        Ok(())
    }

    /// Makes cell `new` stand where `old` stood.
    fn move_cell(&mut self, old: u32, new: u32) {
        let mut links = [0; HEAD];
        links.copy_from_slice(&self.slab.get(old)[..HEAD]);
        self.slab.get_mut(new)[..HEAD].copy_from_slice(&links);
        self.index.moved(&mut self.slab, old, new);
        self.wheel.moved(&mut self.slab, old, new);
        self.slab.free(old);
    }

    fn drop_cell(&mut self, handle: u32) {
        self.index.remove(&mut self.slab, handle);
        self.wheel.remove(&mut self.slab, handle);
        self.slab.free(handle);
    }

    /// Brings counts of addresses and agents in line with a written draft.
    fn settle(&mut self, aor: u32, draft: &Draft<'_>) {
        let new = &draft.binding;
        match &draft.was {
            _ if !draft.is_touched() => {}
            None => match draft.uri {
                Some(uri) => self.addresses.add_read(aor, new, Some(uri)),
                None => self.addresses.add(aor, new),
            },
            Some(was) => {
                if was.contact != new.contact || was.flow.remote != new.flow.remote {
                    self.addresses.add(aor, new);
                    self.addresses.remove(aor, was);
                }
                if was.agent != new.agent {
                    self.agents.release(was.agent);
                }
            }
        }
    }

    fn forget(&mut self, aor: u32, binding: &Binding<'_>) {
        self.addresses.remove(aor, binding);
        self.agents.release(binding.agent);
    }

    fn report_delete(&self, aor: &[u8], b: &Binding<'_>, changes: &mut Vec<Change>) {
        if self.journal {
            changes.push(Change::Delete {
                aor: aor.into(),
                contact: b.contact.into(),
                instance: b.instance.into(),
                reg_id: b.reg_id,
            });
        }
    }

    fn report_puts(&self, aor: &[u8], drafts: &[Draft<'_>], changes: &mut Vec<Change>) {
        if self.journal {
            for draft in drafts.iter().filter(|d| d.is_touched()) {
                changes.push(Change::Put(self.view(&draft.binding).to_record(aor)));
            }
        }
    }
}
