//! A simulated disk. It loses, tears and reorders unsynced data, fills up, fails, and ends the process in any
//! operation. On it is a database table with atomic transactions.

use crate::rng::Rng;
use location::testing::MemoryTable;
use location::{
    Access, BindingTable, ClockPair, File, Files, Filling, Kind, Result, RowSeen, StoreError, TableRead, Word,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// "No space left on device" and "Input/output error", as Linux numbers them.
const FULL: i32 = 28;
const FAILED: i32 = 5;

/// What ends a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It is killed: what it wrote is there.
    Kill,
    /// The power fails: of what was not synced any part may be there.
    Power,
}

/// What does not work. Chances are per mille, of each operation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Faults {
    /// No file gets longer.
    pub full: bool,
    /// Chance that a write fails.
    pub write: u64,
    /// Chance that a sync fails, after which what it was for may be given up.
    pub sync: u64,
    /// Bytes that cannot be read, in all files from the first on.
    pub unreadable: Option<(u64, u64)>,
}

/// The disk of one machine; clones are the same disk.
#[derive(Clone)]
pub(crate) struct Disk(Arc<Mutex<State>>);

struct State {
    rng: Rng,
    /// The names as the system has them, and as they are on the disk.
    names: BTreeMap<PathBuf, u64>,
    synced_names: BTreeMap<PathBuf, u64>,
    /// Changes of names that are not on the disk, in their order.
    renamed: Vec<Vec<(PathBuf, Option<u64>)>>,
    files: BTreeMap<u64, Content>,
    next: u64,
    faults: Faults,
    /// Operations until the process ends.
    left: Option<u64>,
    dead: bool,
    /// What is appended to a file is not there, though the system says so.
    lies: bool,
    /// A sync does nothing, though the system says that it did.
    unsynced: bool,
}

/// What is in a file.
#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    /// The same on the disk.
    synced: Vec<u8>,
    /// Sectors that differ and that the next sync writes.
    dirty: BTreeSet<usize>,
    /// Sectors that differ and that no sync writes any more.
    given_up: BTreeSet<usize>,
}

const SECTOR: usize = 512;

impl Content {
    fn touch(&mut self, from: usize, to: usize) {
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            self.dirty.insert(sector);
            self.given_up.remove(&sector);
        }
    }

    /// Brings a sector to the disk.
    fn sync(&mut self, sector: usize) {
        let (from, to) = (sector * SECTOR, ((sector + 1) * SECTOR).min(self.bytes.len()));
        if from >= to {
            return;
        }
        if self.synced.len() < to {
            self.synced.resize(to, 0);
        }
        self.synced[from..to].copy_from_slice(&self.bytes[from..to]);
    }

    /// Brings all of it to the disk that is not given up.
    fn sync_all(&mut self) {
        core::mem::take(&mut self.dirty).into_iter().for_each(|sector| self.sync(sector));
        self.synced.resize(self.bytes.len(), 0);
    }

    /// Leaves what a power cut leaves.
    fn lose(&mut self, rng: &mut Rng) {
        let (before, now) = (self.synced.len(), self.bytes.len());
        let share = rng.pick(&[0, 100, 500, 900, 1_000], 500);
        for sector in core::mem::take(&mut self.dirty) {
            if rng.chance(share) {
                self.sync(sector);
            }
        }
        // The length may have reached the disk before the bytes, or after them.
        let length = match rng.below(3) {
            0 => now,
            1 => self.synced.len(),
            _ => rng.between(before.min(now) as u64, before.max(now) as u64) as usize,
        };
        self.synced.resize(length, 0);
        self.given_up.clear();
        self.bytes.clone_from(&self.synced);
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Disk")
    }
}

fn off() -> io::Error {
    io::Error::other("the process has ended")
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Disk {
    pub fn new(rng: Rng) -> Disk {
        Disk(Arc::new(Mutex::new(State {
            rng,
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            renamed: Vec::new(),
            files: BTreeMap::new(),
            next: 1,
            faults: Faults::default(),
            left: None,
            dead: false,
            lies: false,
            unsynced: false,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What does not work from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// From now on what is appended to a file is not there, though the system says so: a deliberate mistake.
    pub fn lie(&self) {
        self.state().lies = true;
    }

    /// From now on a sync does nothing: a deliberate mistake.
    pub fn never_sync(&self) {
        self.state().unsynced = true;
    }

    /// The process ends in the midst of an operation, after this number of others.
    pub fn end_after(&self, operations: u64) {
        self.state().left = Some(operations);
    }

    /// Whether the process has ended.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Ends the process, if it has not ended, and makes the disk ready for the next one.
    pub fn end(&self, how: End) {
        let state = &mut *self.state();
        (state.dead, state.left, state.faults) = (false, None, Faults::default());
        if how == End::Power {
            // A file system keeps the order of changes of names.
            let kept = state.rng.index(state.renamed.len() + 1);
            state.renamed.truncate(kept);
            state.sync_names();
            state.names.clone_from(&state.synced_names);
            state.files.values_mut().for_each(|content| content.lose(&mut state.rng));
        }
        let named: BTreeSet<u64> = state.names.values().chain(state.synced_names.values()).copied().collect();
        state.files.retain(|inode, _| named.contains(inode));
    }

    /// Whether it has bytes that a process wrote and that only memory has for good.
    pub fn gave_up(&self) -> bool {
        self.state().files.values().any(|content| !content.given_up.is_empty())
    }

    /// Deletes the file with this name, for good.
    pub fn forget(&self, name: &str) {
        let state = &mut *self.state();
        state.sync_names();
        state.names.retain(|path, _| !path.ends_with(name));
        state.synced_names.clone_from(&state.names);
    }

    /// Whether there is a file with this name.
    pub fn has(&self, name: &str) -> bool {
        self.state().names.keys().any(|path| path.ends_with(name))
    }
}

impl State {
    /// Whether the next operation takes place: `Ok(false)`, only in part, and it is the last one.
    fn begin(&mut self) -> io::Result<bool> {
        if self.dead {
            return Err(off());
        }
        match &mut self.left {
            Some(0) => {
                self.dead = true;
                Ok(false)
            }
            Some(left) => {
                *left -= 1;
                Ok(true)
            }
            None => Ok(true),
        }
    }

    /// As [`State::begin`], of what takes place as a whole or not at all.
    fn begin_whole(&mut self) -> io::Result<()> {
        match self.begin()? {
            true => Ok(()),
            // It is done, and nobody learns of it.
            false if self.rng.chance(500) => Ok(()),
            false => Err(off()),
        }
    }

    fn name(&mut self, path: &Path, inode: Option<u64>) {
        match inode {
            Some(inode) => self.names.insert(path.to_path_buf(), inode),
            None => self.names.remove(path),
        };
        self.renamed.push(vec![(path.to_path_buf(), inode)]);
    }

    fn sync_names(&mut self) {
        for (path, inode) in self.renamed.drain(..).flatten() {
            match inode {
                Some(inode) => self.synced_names.insert(path, inode),
                None => self.synced_names.remove(&path),
            };
        }
    }

    fn inode(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(not_found)
    }

    fn content(&mut self, inode: u64) -> io::Result<&mut Content> {
        self.files.get_mut(&inode).ok_or_else(not_found)
    }

    fn fails_to_sync(&mut self) -> bool {
        self.rng.chance(self.faults.sync)
    }
}

/// An open file.
#[derive(Debug)]
struct Open {
    disk: Disk,
    inode: u64,
}

impl Files for Disk {
    fn create(&self, path: &Path, _: &Path) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.begin_whole()?;
        let inode = state.next;
        state.next += 1;
        state.files.insert(inode, Content::default());
        state.name(path, Some(inode));
        Ok(Box::new(Open { disk: self.clone(), inode }))
    }

    fn open(&self, path: &Path, _: Access) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.begin()?;
        Ok(Box::new(Open { disk: self.clone(), inode: state.inode(path)? }))
    }

    fn identity(&self, path: &Path) -> io::Result<(u64, u64)> {
        let mut state = self.state();
        state.begin()?;
        Ok((1, state.inode(path)?))
    }

    fn exists(&self, path: &Path) -> bool {
        self.state().names.contains_key(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let mut state = self.state();
        state.begin()?;
        let names = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(names.filter_map(|path| path.file_name()).map(OsString::from).collect())
    }

    fn rename(&self, path: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.inode(path)?;
        state.begin_whole()?;
        // One change: a file never has both names or none.
        state.names.remove(path);
        state.names.insert(to.to_path_buf(), inode);
        state.renamed.push(vec![(path.to_path_buf(), None), (to.to_path_buf(), Some(inode))]);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.inode(path)?;
        state.begin_whole()?;
        state.name(path, None);
        Ok(())
    }

    fn sync_names(&self, _: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin_whole()?;
        if state.fails_to_sync() {
            return Err(error(FAILED));
        }
        state.sync_names();
        Ok(())
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        bytes.iter_mut().for_each(|byte| *byte = state.rng.next() as u8);
        Ok(())
    }
}

impl File for Open {
    fn identity(&self) -> io::Result<(u64, u64)> {
        Ok((1, self.inode))
    }

    fn length(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        Ok(state.content(self.inode)?.bytes.len() as u64)
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin()?;
        let end = at + bytes.len() as u64;
        if state.faults.unreadable.is_some_and(|(from, to)| at < to && from < end) {
            return Err(error(FAILED));
        }
        let content = state.content(self.inode)?;
        match content.bytes.get(at as usize..end as usize) {
            Some(found) => {
                bytes.copy_from_slice(found);
                Ok(())
            }
            None => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let (whole, faults) = (state.begin()?, state.faults);
        let (at, length) = (at as usize, state.content(self.inode)?.bytes.len());
        let room = length.saturating_sub(at).min(bytes.len());
        let (kept, outcome) = match whole {
            true if state.lies && at != 0 => return Ok(()),
            false => (state.rng.index(bytes.len() + 1), Err(off())),
            true if faults.full && room < bytes.len() => {
                (state.rng.between(room as u64, bytes.len() as u64) as usize, Err(error(FULL)))
            }
            true if state.rng.chance(faults.write) => (state.rng.index(bytes.len() + 1), Err(error(FAILED))),
            true => (bytes.len(), Ok(())),
        };
        let content = state.content(self.inode)?;
        let end = at + kept;
        if content.bytes.len() < end {
            content.bytes.resize(end, 0);
        }
        content.bytes[at..end].copy_from_slice(&bytes[..kept]);
        content.touch(at.min(length), end);
        outcome
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin_whole()?;
        if state.unsynced {
            return Ok(());
        }
        if !state.fails_to_sync() {
            state.content(self.inode)?.sync_all();
            return Ok(());
        }
        // The system says so once, and takes what it could not write for written, or not.
        let gives_up = state.rng.chance(500);
        let content = state.content(self.inode)?;
        if gives_up {
            content.given_up.append(&mut content.dirty);
        }
        Err(error(FAILED))
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin_whole()?;
        let content = state.content(self.inode)?;
        let (before, length) = (content.bytes.len(), length as usize);
        content.bytes.resize(length, 0);
        content.dirty.retain(|sector| sector * SECTOR < length);
        content.given_up.retain(|sector| sector * SECTOR < length);
        content.touch(before.min(length), before.max(length).min(length));
        Ok(())
    }
}

/// The table of a database on a disk.
pub(crate) struct Table {
    disk: Disk,
    rows: MemoryTable,
}

impl Table {
    pub fn new(disk: Disk, rows: MemoryTable) -> Table {
        Table { disk, rows }
    }

    fn begin(&self) -> Result<()> {
        let mut state = self.disk.state();
        let failed = match state.begin_whole() {
            Err(error) => Some(error),
            Ok(()) if state.faults.full => Some(error(FULL)),
            Ok(()) => None,
        };
        failed.map_or(Ok(()), |error| Err(StoreError::io(Path::new("table"), "write it", &error)))
    }
}

impl BindingTable for Table {
    fn check(&self) -> Result<()> {
        match self.disk.is_dead() {
            true => {
                Err(StoreError::new(Kind::System, Path::new("table"), "the process has ended", "start one"))
            }
            false => Ok(()),
        }
    }

    fn read(&mut self, to: &Filling<'_>) -> Result<TableRead> {
        self.rows.read(to)
    }

    fn write<'w>(&mut self, words: &mut dyn Iterator<Item = Word<'w>>) -> Result<()> {
        self.begin()?;
        self.rows.write(words)
    }

    fn pull_back(&mut self, clock: ClockPair) -> Result<()> {
        self.begin()?;
        self.rows.pull_back(clock)
    }

    fn begin_purge(&mut self) {
        self.rows.begin_purge();
    }

    fn purge(&mut self, is_gone: &mut dyn FnMut(&RowSeen<'_>) -> bool) -> Result<bool> {
        self.begin()?;
        self.rows.purge(is_gone)
    }
}
