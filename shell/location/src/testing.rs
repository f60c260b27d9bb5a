//! What tests of this crate and of those above it share: bindings, directories, and files with faults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proptest::prelude::*;
use sip_registrar::Record;
use wire::{ConnId, Flow, ListenerId, Time, Transport};

use crate::clock::ClockPair;
use crate::error::Result;
use crate::files::{Access, File, Files, LogDir, SystemFiles};
use crate::key::{Key, split_aor};
use crate::load::Filling;
use crate::log::record::Put;
use crate::stage::Says;
use crate::table::{BindingTable, RowSeen, TableRead, Word};

/// A directory that goes away with the value.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// A new one.
    #[expect(clippy::new_without_default, clippy::unwrap_used, reason = "it makes a directory, for tests")]
    pub fn new() -> TempDir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("strowger-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The directory `path` of this machine, with the faults that are set.
pub fn log_dir(path: &Path) -> LogDir {
    LogDir::new(Arc::new(FaultyFiles), path)
}

/// What a file does from now on.
#[derive(Clone, Default, Debug)]
pub struct Faults {
    /// Bytes that cannot be read.
    pub unreadable: Range<u64>,
    /// A write of more than this many bytes fails, with this error.
    pub write: Option<(usize, i32)>,
    /// Bringing it to the disk fails with this error.
    pub sync: Option<i32>,
    /// Deleting and renaming it fails with this error.
    pub remove: Option<i32>,
    /// Writes that succeed before.
    pub writes_before: usize,
}

/// Faults that tests ask for, by the path of the file.
pub mod faults {
    use super::{Faults, Path, all};

    /// From now on the file with this name does this.
    pub fn set(path: &Path, faults: Faults) {
        all().insert(path.to_path_buf(), faults);
    }

    /// It does as it should.
    pub fn clear(path: &Path) {
        all().remove(path);
    }
}

static ALL: Mutex<BTreeMap<PathBuf, Faults>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<PathBuf, Faults>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fail(error: Option<i32>) -> io::Result<()> {
    error.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
}

fn fail_sync(path: &Path) -> io::Result<()> {
    fail(all().get(path).and_then(|faults| faults.sync))
}

fn fail_remove(path: &Path) -> io::Result<()> {
    fail(all().get(path).and_then(|faults| faults.remove))
}

/// The files of this machine, but for what [`faults::set`] says.
#[derive(Clone, Copy, Default, Debug)]
pub struct FaultyFiles;

/// With the name by which its faults are known.
#[derive(Debug)]
struct FaultyFile(Box<dyn File>, PathBuf);

impl Files for FaultyFiles {
    fn create(&self, path: &Path, becomes: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(FaultyFile(SystemFiles.create(path, becomes)?, becomes.to_path_buf())))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        Ok(Box::new(FaultyFile(SystemFiles.open(path, access)?, path.to_path_buf())))
    }

    fn identity(&self, path: &Path) -> io::Result<(u64, u64)> {
        SystemFiles.identity(path)
    }

    fn exists(&self, path: &Path) -> bool {
        SystemFiles.exists(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        SystemFiles.list(dir)
    }

    fn rename(&self, path: &Path, to: &Path) -> io::Result<()> {
        fail_remove(path)?;
        SystemFiles.rename(path, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fail_remove(path)?;
        SystemFiles.remove(path)
    }

    fn sync_names(&self, dir: &Path) -> io::Result<()> {
        fail_sync(dir)?;
        SystemFiles.sync_names(dir)
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        SystemFiles.random(bytes)
    }
}

impl File for FaultyFile {
    fn identity(&self) -> io::Result<(u64, u64)> {
        self.0.identity()
    }

    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let bad = all().get(&self.1).map(|faults| faults.unreadable.clone()).unwrap_or_default();
        let hit = at < bad.end && bad.start < at + bytes.len() as u64;
        fail(hit.then_some(libc::EIO))?;
        self.0.read(bytes, at)
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut all = all();
        let Some(faults) = all.get_mut(&self.1) else {
            drop(all);
            return self.0.write(bytes, at);
        };
        let fault = faults.write.filter(|_| faults.writes_before == 0);
        if faults.write.is_some() {
            faults.writes_before = faults.writes_before.saturating_sub(1);
        }
        drop(all);
        match fault {
            Some((kept, error)) => {
                self.0.write(bytes.get(..kept.min(bytes.len())).unwrap_or_default(), at)?;
                fail(Some(error))
            }
            None => self.0.write(bytes, at),
        }
    }

    fn sync(&self) -> io::Result<()> {
        fail_sync(&self.1)?;
        self.0.sync()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_length(length)
    }
}

/// A binding of `user@example.com`.
pub fn record(user: &str, contact: &str, expires: Time) -> Record {
    Record {
        aor: format!("{user}@example.com").into_bytes().into(),
        contact: contact.as_bytes().into(),
        params: b";methods=\"INVITE\""[..].into(),
        q: 700,
        expires,
        call_id: b"call@host"[..].into(),
        cseq: 7,
        flow: Flow {
            transport: Transport::Tcp,
            listener: ListenerId(1),
            remote: ([192, 0, 2, 7], 40_000).into(),
            conn: None,
        },
        path: b"<sip:edge;lr>"[..].into(),
        instance: Box::default(),
        reg_id: 0,
        user_agent: b"Phone/1"[..].into(),
    }
}

/// A table in memory that outlives what moves a log into it: clones are the same table.
#[derive(Clone, Default, Debug)]
pub struct MemoryTable {
    rows: Arc<Mutex<BTreeMap<RowKey, MemoryRow>>>,
    /// The last key that the purge of this clone has looked at.
    purged: Option<RowKey>,
}

/// Address of record, Contact, instance and number.
type RowKey = (Vec<u8>, Vec<u8>, Vec<u8>, u32);

/// What is not key of a row.
#[derive(Clone, Debug)]
struct MemoryRow {
    written: i64,
    expires: i64,
    q: u16,
    cseq: u32,
    transport: Transport,
    remote: SocketAddr,
    socket: Vec<u8>,
    params: Vec<u8>,
    call_id: Vec<u8>,
    path: Vec<u8>,
    user_agent: Vec<u8>,
}

/// Rows that one step of a purge looks at.
const PURGE_STEP: usize = 100;

impl MemoryTable {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<RowKey, MemoryRow>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows in it.
    pub fn len(&self) -> usize {
        self.rows().len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rows().is_empty()
    }
}

fn row_key(key: &Key<'_>) -> RowKey {
    (key.aor.to_vec(), key.contact.to_vec(), key.instance.to_vec(), key.reg_id)
}

impl MemoryRow {
    fn new(put: &Put<'_>, socket: &[u8]) -> MemoryRow {
        MemoryRow {
            written: put.written,
            expires: put.expires,
            q: put.q,
            cseq: put.cseq,
            transport: put.transport,
            remote: put.remote,
            socket: socket.to_vec(),
            params: put.params.to_vec(),
            call_id: put.call_id.to_vec(),
            path: put.path.to_vec(),
            user_agent: put.user_agent.to_vec(),
        }
    }

    fn put<'a>(&'a self, key: Key<'a>) -> Put<'a> {
        let MemoryRow { written, expires, q, cseq, transport, remote, .. } = *self;
        let (params, call_id, path, user_agent) = (&self.params, &self.call_id, &self.path, &self.user_agent);
        Put {
            key,
            written,
            expires,
            q,
            cseq,
            transport,
            remote,
            socket: 0,
            params,
            call_id,
            path,
            user_agent,
        }
    }
}

impl BindingTable for MemoryTable {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn read(&mut self, to: &Filling<'_>) -> Result<TableRead> {
        let (mut stage, mut ahead, rows) = (to.stage(), false, self.rows());
        for ((aor, contact, instance, reg_id), row) in rows.iter() {
            let key = Key { aor, contact, instance, reg_id: *reg_id };
            match to.clock().revive(row.written, row.expires) {
                Some(expires) => stage.put(aor, &row.put(key).view(expires, &row.socket, to.sockets())),
                None => stage.end(Says::Over, &key),
            }
            ahead |= row.written > to.clock().wall_seconds();
        }
        stage.finish(0);
        Ok(TableRead { bad: stage.refused(), ahead })
    }

    fn write<'w>(&mut self, words: &mut dyn Iterator<Item = Word<'w>>) -> Result<()> {
        let words: Vec<Word<'_>> = words.collect();
        let mut rows = self.rows();
        for word in words {
            match word {
                Word::Put(put, socket) => {
                    rows.insert(row_key(&put.key), MemoryRow::new(&put, socket));
                }
                Word::Delete(key) => {
                    rows.remove(&row_key(&key));
                }
            }
        }
        Ok(())
    }

    fn pull_back(&mut self, clock: ClockPair) -> Result<()> {
        let now = clock.wall_seconds();
        for row in self.rows().values_mut().filter(|row| row.written > now) {
            if row.expires != i64::MAX {
                row.expires = row.expires - row.written + now;
            }
            row.written = now;
        }
        Ok(())
    }

    fn begin_purge(&mut self) {
        self.purged = None;
    }

    fn purge(&mut self, is_gone: &mut dyn FnMut(&RowSeen<'_>) -> bool) -> Result<bool> {
        let from = self.purged.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rows = self.rows();
        let next: Vec<RowKey> =
            rows.range((from, Bound::Unbounded)).take(PURGE_STEP).map(|(key, _)| key.clone()).collect();
        for key in &next {
            let Some(row) = rows.get(key) else { continue };
            let (user, domain) = split_aor(&key.0);
            let MemoryRow { written, expires, .. } = *row;
            let (contact, instance, reg_id) = (&key.1, &key.2, Some(key.3));
            if is_gone(&RowSeen { user, domain, contact, instance, reg_id, written, expires }) {
                rows.remove(key);
            }
        }
        drop(rows);
        let more = !next.is_empty();
        self.purged = next.into_iter().next_back().or(self.purged.take());
        Ok(more)
    }
}

fn bytes(length: usize) -> impl Strategy<Value = Box<[u8]>> {
    proptest::collection::vec(any::<u8>(), 0..length).prop_map(Vec::into_boxed_slice)
}

prop_compose! {
    /// Any binding.
    pub fn any_record()(
        user in "[a-z';@\u{e9}]{1,8}", contact in bytes(20), params in bytes(9), q in 0u16..=1000,
        expires in 60u64..1_000_000, call_id in bytes(9), cseq in any::<u32>(), port in 1u16..,
        v6 in any::<[u8; 16]>(), path in bytes(20), instance in bytes(9), reg_id in any::<u32>(),
        user_agent in bytes(9), conn in any::<u64>(),
    ) -> Record {
        let contact = [b"sip:", &contact[..]].concat().into();
        let remote = SocketAddr::new(IpAddr::from(v6), port);
        let conn = Some(ConnId::from_u64(conn));
        let flow = Flow { transport: Transport::Tcp, listener: ListenerId(2), remote, conn };
        let aor = format!("{user}@example.com").into_bytes().into();
        Record { aor, contact, params, q, expires: Time::from_secs(expires), call_id, cseq, flow, path, instance, reg_id, user_agent }
    }
}
