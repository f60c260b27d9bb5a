//! The connections of one worker, by identifier.

use super::conn::Conn;
use wire::ConnId;

/// Connections per allocation, so that growth never moves what is there.
const CHUNK: usize = 256;
/// Bits of a connection's sequence number that name its slot; the rest count the slot's uses.
const SLOT_BITS: u32 = 22;
const MAX_SLOTS: u32 = 1 << SLOT_BITS;
/// A slot used so often is never used again, so that an identifier is unique for ever.
const MAX_GENERATION: u32 = 1 << (48 - SLOT_BITS);

struct Entry {
    generation: u32,
    conn: Option<Conn>,
}

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

    fn id(&self, slot: u32, generation: u32) -> ConnId {
        ConnId::new(self.worker, (u64::from(generation) << SLOT_BITS) | u64::from(slot))
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
        let Some(slot) = self.free.pop() else { return Err(conn) };
        let Some(entry) = self.entry_mut(slot) else { return Err(conn) };
        entry.conn = Some(conn);
        let generation = entry.generation;
        self.open += 1;
        Ok(self.id(slot, generation))
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
        if self.id(Table::slot_of(id), entry.generation) == id { entry.conn.as_ref() } else { None }
    }

    /// The connection `id`, if it is still there.
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.get(id)?;
        self.entry_mut(Table::slot_of(id))?.conn.as_mut()
    }

    /// The identifier of the connection in a slot.
    pub fn at_slot(&self, slot: u32) -> Option<ConnId> {
        let entry = self.entry(slot)?;
        entry.conn.as_ref().map(|_| self.id(slot, entry.generation))
    }
}
