//! The connections of one worker, by identifier.

use super::conn::Conn;
use wire::ConnId;

/// Connections per allocation, so that growth never moves what is there.
const CHUNK: usize = 256;
/// Bits of a connection's sequence number that name its slot. One says whether it was accepted, and the rest
/// count the slot's uses.
const SLOT_BITS: u32 = 22;
const MAX_SLOTS: u32 = 1 << SLOT_BITS;
/// A slot used so often is never used again, so that an identifier is unique for ever.
const MAX_GENERATION: u32 = 1 << (47 - SLOT_BITS);

struct Entry {
    generation: u32,
    conn: Option<Conn>,
}

const _: () = assert!(size_of::<Entry>() <= 128);

/// A slab of connections.
pub struct Table {
    worker: u16,
    chunks: Vec<Box<[Entry]>>,
    free: Vec<u32>,
    open: usize,
}

impl Table {
    /// An empty table of `worker`.
    pub fn new(worker: u16) -> Table {
        Table { worker, chunks: Vec::new(), free: Vec::new(), open: 0 }
    }

    /// Connections in the table.
    pub fn len(&self) -> usize {
        self.open
    }

    /// Whether an insert can succeed.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.slots() < MAX_SLOTS
    }

    /// Slots ever made.
    pub fn slots(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// The slot that an identifier of this worker names.
    pub fn slot_of(id: ConnId) -> u32 {
        (id.as_u64() as u32) & (MAX_SLOTS - 1)
    }

    fn id(&self, slot: u32, generation: u32, accepted: bool) -> ConnId {
        let sequence = (u64::from(generation) << SLOT_BITS) | u64::from(slot);
        match accepted {
            true => ConnId::accepted(self.worker, sequence),
            false => ConnId::new(self.worker, sequence),
        }
    }

    fn entry(&self, slot: u32) -> Option<&Entry> {
        self.chunks.get(slot as usize / CHUNK)?.get(slot as usize % CHUNK)
    }

    fn entry_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.chunks.get_mut(slot as usize / CHUNK)?.get_mut(slot as usize % CHUNK)
    }

    /// Puts a connection in. Gives it back if the table is full.
    pub fn insert(&mut self, conn: Conn) -> Result<ConnId, Conn> {
        if self.free.is_empty() {
            if !self.has_room() {
                return Err(conn);
            }
            let first = self.slots();
            self.chunks.push((0..CHUNK).map(|_| Entry { generation: 0, conn: None }).collect());
            self.free.extend((first..first + CHUNK as u32).rev());
        }
        let free = self.free.pop();
        let Some(slot) = invariant::some!(free, "a table with room has free slots") else { return Err(conn) };
        let accepted = conn.is_inbound();
        let Some(entry) = self.entry_mut(slot) else { return Err(conn) };
        entry.conn = Some(conn);
        let generation = entry.generation;
        self.open += 1;
        Ok(self.id(slot, generation, accepted))
    }

    /// Takes a connection out.
    pub fn remove(&mut self, id: ConnId) -> Option<Conn> {
        self.get(id)?;
        let slot = Table::slot_of(id);
        let entry = self.entry_mut(slot)?;
        let conn = entry.conn.take()?;
        entry.generation += 1;
        if entry.generation < MAX_GENERATION {
            self.free.push(slot);
        }
        self.open -= 1;
        Some(conn)
    }

    /// The connection `id`, if it is still there.
    pub fn get(&self, id: ConnId) -> Option<&Conn> {
        let entry = self.entry(Table::slot_of(id))?;
        let conn = entry.conn.as_ref()?;
        (self.id(Table::slot_of(id), entry.generation, conn.is_inbound()) == id).then_some(conn)
    }

    /// The connection `id`, if it is still there.
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.get(id)?;
        self.entry_mut(Table::slot_of(id))?.conn.as_mut()
    }

    /// The identifier of the connection in a slot.
    pub fn at_slot(&self, slot: u32) -> Option<ConnId> {
        let entry = self.entry(slot)?;
        entry.conn.as_ref().map(|conn| self.id(slot, entry.generation, conn.is_inbound()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::Link;
    use super::*;
    use crate::sys::null_descriptor;
    use wire::{ListenerId, Time};

    fn conn() -> Conn {
        let fd = null_descriptor().expect("a descriptor");
        let remote = "10.0.0.1:5060".parse().expect("an address");
        Conn::accepted(Link::accepted(fd, None, None), remote, ListenerId(0), Time::ZERO, Time::ZERO)
    }

    #[test]
    fn an_identifier_names_one_connection_only() {
        let mut table = Table::new(7);
        let first = table.insert(conn()).ok().expect("room");
        assert!(first.worker() == 7 && first.is_accepted());
        assert!(table.get(first).is_some() && table.at_slot(Table::slot_of(first)) == Some(first));
        assert!(table.remove(first).is_some());
        let second = table.insert(conn()).ok().expect("room");
        assert_eq!(Table::slot_of(first), Table::slot_of(second), "the slot is used again");
        assert!(table.get(first).is_none() && table.remove(first).is_none());
        assert!(table.get(second).is_some());
        assert!(table.get(ConnId::new(8, second.as_u64())).is_none(), "another worker's");
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_slot_used_too_often_is_retired() {
        let mut table = Table::new(0);
        let id = table.insert(conn()).ok().expect("room");
        let slot = Table::slot_of(id);
        table.entry_mut(slot).expect("its entry").generation = MAX_GENERATION - 1;
        let last = table.at_slot(slot).expect("still there");
        assert!(table.remove(last).is_some());
        for _ in 0..CHUNK {
            let id = table.insert(conn()).ok().expect("room");
            assert_ne!(Table::slot_of(id), slot);
        }
    }
}
