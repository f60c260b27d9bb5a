//! The location service and its log on a disk that fails, tears and loses: random histories, from one seed.
//! The process ends in the midst of any operation.
//!
//! After each end, the run checks what a 200 promises. After a kill, bindings are as they were last
//! confirmed. After a power cut, they are as they were when all was last on the disk, or newer.

use crate::disk::{Disk, End, Faults, Table};
use crate::rng::Rng;
use core::fmt;
use core::time::Duration;
use location::testing::MemoryTable;
use location::{
    Clock, Health, INTERVAL, Keeper, LoadOptions, LocationLimits, LogDir, LogLimits, Mover, OnFailure,
    SharedLocation, Start, Steps, Writer, WriterOptions, finish, load,
};
use sip_registrar::{Change, Record};
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use wire::{Flow, ListenerId, Time, Transport};

const WALL: i64 = 1_800_000_000;
/// Users, and Contacts of each.
const USERS: u64 = 12;
const CONTACTS: u64 = 3;
/// Events of a run.
const EVENTS: u64 = 150;

/// What a run without a violation did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoreOutcome {
    /// A hash of all that was found, and of when.
    pub hash: u64,
    /// Times that the process ended in the midst of something.
    pub ends: u64,
    /// Bindings found after these.
    pub found: u64,
    /// Registrations that could not be promised.
    pub refused: u64,
}

/// A run with a violation.
#[derive(Clone, Debug)]
pub struct StoreFailure {
    /// The seed.
    pub seed: u64,
    /// What did not hold, and what happened before.
    pub detail: String,
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store seed {}: {}", self.seed, self.detail)
    }
}

/// The Contacts of a user and their ends, in seconds of monotonic time.
type Bindings = BTreeMap<String, u64>;

/// What a user's bindings were one after the other, and which of these must not be lost.
#[derive(Clone, Default, Debug)]
struct History {
    versions: Vec<Bindings>,
    /// The last one that was confirmed.
    confirmed: usize,
    /// The one that was there when all was on the disk last.
    durable: usize,
}

impl History {
    fn last(&self) -> Bindings {
        self.versions.last().cloned().unwrap_or_default()
    }
}

/// A process that serves.
struct Process {
    location: Arc<SharedLocation>,
    writer: Writer,
    mover: Mover,
    keepers: Vec<Keeper>,
}

struct Run {
    rng: Rng,
    disk: Disk,
    rows: MemoryTable,
    monotonic: Arc<AtomicU64>,
    wall: Arc<AtomicI64>,
    histories: BTreeMap<u64, History>,
    faults: Faults,
    hash: SipHasher13,
    outcome: StoreOutcome,
    log: Vec<String>,
    mistake: Option<StoreMistake>,
}

/// A deliberate mistake, to see that the check can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreMistake {
    /// What is appended to a file is not there, though the system says so.
    Lies,
    /// A sync does nothing.
    Unsynced,
    /// A worker answers before it has written.
    Unkept,
}

/// Plays a history, with a mistake or without.
///
/// # Errors
/// A promise was broken.
pub fn run_store(seed: u64, mistake: Option<StoreMistake>) -> Result<StoreOutcome, Box<StoreFailure>> {
    let mut rng = Rng::new(seed ^ 0x0073_746f_7265);
    let mut run = Run {
        disk: Disk::new(rng.fork()),
        rng,
        rows: MemoryTable::default(),
        monotonic: Arc::new(AtomicU64::new(1_000)),
        wall: Arc::new(AtomicI64::new(WALL)),
        histories: BTreeMap::new(),
        faults: Faults::default(),
        hash: SipHasher13::new_with_keys(0, 0),
        outcome: StoreOutcome::default(),
        log: Vec::new(),
        mistake,
    };
    match mistake {
        Some(StoreMistake::Lies) => run.disk.lie(),
        Some(StoreMistake::Unsynced) => run.disk.never_sync(),
        Some(StoreMistake::Unkept) | None => {}
    }
    match run.play() {
        Ok(()) => Ok(StoreOutcome { hash: run.hash.finish(), ..run.outcome }),
        Err(problem) => {
            let before = run.log.len().saturating_sub(40);
            let detail = format!("{problem}\n{}", run.log.get(before..).unwrap_or_default().join("\n"));
            Err(Box::new(StoreFailure { seed, detail }))
        }
    }
}

impl Run {
    fn now(&self) -> Time {
        Time::from_secs(self.monotonic.load(Ordering::Relaxed))
    }

    fn clock(&self) -> Clock {
        let (monotonic, wall) = (Arc::clone(&self.monotonic), Arc::clone(&self.wall));
        Clock::new(
            move || Time::from_secs(monotonic.load(Ordering::Relaxed)),
            move || wall.load(Ordering::Relaxed) * 1_000_000,
        )
    }

    fn note(&mut self, text: String) {
        self.log.push(text);
    }

    fn play(&mut self) -> Result<(), String> {
        let mut process = self.begin(End::Kill)?;
        for _ in 0..EVENTS {
            self.happen(&mut process)?;
            if self.disk.is_dead() {
                drop(process);
                process = self.end()?;
            }
        }
        self.heal();
        let clock = self.clock();
        finish(&mut process.writer, &mut process.mover, &process.location, &clock);
        if process.location.pending() != 0 {
            return Err("the orderly end left changes".to_owned());
        }
        self.settled();
        drop(process);
        self.begin(End::Power)?;
        if self.disk.has(location::DAMAGED) {
            return Err("a file was called damaged that never was".to_owned());
        }
        Ok(())
    }

    /// The process ends, and another one begins, which may end while it reads.
    fn end(&mut self) -> Result<Process, String> {
        // What the system gave up is on no disk, and with the process nobody has it any more.
        let power = self.rng.chance(500) || self.disk.gave_up();
        let how = if power { End::Power } else { End::Kill };
        self.outcome.ends += 1;
        self.note(format!("end: {how:?}"));
        self.begin(how)
    }

    /// Begins a process after such an end of the one before, and looks at what it finds.
    fn begin(&mut self, how: End) -> Result<Process, String> {
        let mut how = how;
        loop {
            self.disk.end(how);
            self.faults = Faults::default();
            if self.rng.chance(150) {
                self.disk.end_after(self.rng.below(60));
            }
            match self.open() {
                Ok(process) if !self.disk.is_dead() => {
                    self.compare(&process, how)?;
                    return Ok(process);
                }
                Err(problem) if !self.disk.is_dead() => return Err(format!("a start failed: {problem}")),
                _ => {
                    // A kill after a power cut brings nothing back.
                    let again = if self.rng.chance(500) { End::Power } else { End::Kill };
                    self.note(format!("end at the start: {again:?}"));
                    how = if how == End::Power { how } else { again };
                }
            }
        }
    }

    fn open(&mut self) -> Result<Process, String> {
        let clock = self.clock();
        let (dir, pair) = (LogDir::new(Arc::new(self.disk.clone()), Path::new("/data")), clock.pair());
        let limits = LocationLimits { stripes: 4, ..LocationLimits::default() };
        let mut seed = [0; 16];
        seed.iter_mut().for_each(|byte| *byte = self.rng.next() as u8);
        let location = Arc::new(SharedLocation::new(seed, limits, OnFailure::Refuse));
        let mut table = Table::new(self.disk.clone(), self.rows.clone());
        let sockets = vec!["udp:0.0.0.0:5060".to_owned()];
        let options = LoadOptions { side_by_side: false, ..LoadOptions::new(&dir, &sockets, pair, 0) };
        let start = load(options, &mut table, &location).map_err(|error| error.to_string())?;
        let Start { report, log, sealed, .. } = start;
        if report.bad != 0 {
            return Err(format!("{} records make no sense", report.bad));
        }
        let mut writer = Writer::new(WriterOptions {
            location: Arc::clone(&location),
            log,
            sealed: Arc::clone(&sealed),
            sockets,
            clock: clock.clone(),
            loaded: pair,
            table_there: Box::new(|| Ok(())),
        });
        let bytes = self.rng.pick(&[600, 2_000, 100_000], 2_000);
        let age = Duration::from_secs(self.rng.pick(&[60, 100_000], 60));
        writer.set_limits(LogLimits { bytes: (bytes, bytes), age, batch: 3 });
        let expired = (report.expired != 0).then_some(pair);
        let mut mover =
            Mover::new(Arc::clone(&location), Box::new(table), dir, sealed, clock.clone(), expired);
        *mover.steps() = Steps { read: self.rng.pick(&[300, 10_000], 300), rows: 2 };
        let keeper = |_| Keeper::new(Arc::clone(&location), writer.appender(), clock.clone());
        let keepers = (0..2).map(keeper).collect();
        Ok(Process { location, writer, mover, keepers })
    }

    fn happen(&mut self, process: &mut Process) -> Result<(), String> {
        match self.rng.below(20) {
            0..=6 => self.register(process),
            7 => self.forget(process),
            8 | 9 => self.pass(process),
            10..=13 => self.round(process)?,
            14 | 15 => self.step(process),
            16 => {
                self.faults = Faults {
                    full: self.rng.chance(400),
                    write: self.rng.pick(&[0, 0, 300, 1_000], 0),
                    sync: self.rng.pick(&[0, 0, 300, 1_000], 0),
                    unreadable: None,
                };
                self.disk.set_faults(self.faults);
                self.note(format!("{:?}", self.faults));
            }
            17 => {
                self.faults = Faults::default();
                self.disk.set_faults(self.faults);
            }
            18 => {
                let operations = self.rng.below(30);
                self.note(format!("ends after {operations} operations"));
                self.disk.end_after(operations);
            }
            _ => self.spoil(process)?,
        }
        Ok(())
    }

    fn history(&mut self, user: u64) -> &mut History {
        let history = self.histories.entry(user).or_default();
        if history.versions.is_empty() {
            history.versions.push(Bindings::new());
        }
        history
    }

    /// A phone registers, or takes its binding away; perhaps in the place of another of its user.
    fn register(&mut self, process: &Process) {
        let (user, contact) = (self.rng.below(USERS), self.rng.below(CONTACTS));
        let seconds = if self.rng.chance(700) { 100_000 } else { self.rng.between(20, 90) };
        let (removes, keeper) = (self.rng.chance(200), self.rng.index(process.keepers.len()));
        let end = self.now() + Duration::from_secs(seconds);
        if !process.location.accepting() {
            self.outcome.refused += 1;
            return;
        }
        let aor = aor(user);
        let (name, others) = (contact_of(contact), self.rng.chance(200));
        let mut bindings = self.history(user).last();
        let keeper = &process.keepers[keeper];
        keeper.register(aor.as_bytes(), |table, changes| {
            let gone: Vec<String> = bindings
                .keys()
                .filter(|contact| if removes { **contact == name } else { others && **contact != name })
                .cloned()
                .collect();
            for contact in gone {
                table.take_back(aor.as_bytes(), contact.as_bytes(), b"", 0);
                changes.push(Change::Delete {
                    aor: aor.as_bytes().into(),
                    contact: contact.as_bytes().into(),
                    instance: Box::default(),
                    reg_id: 0,
                });
                bindings.remove(&contact);
            }
            if !removes {
                let record = record(&aor, &name, end);
                // A run has room for all of them.
                let _ = table.restore(&record);
                changes.push(Change::Put(record));
                bindings.insert(name.clone(), end.as_micros() / 1_000_000);
            }
        });
        let kept = self.mistake == Some(StoreMistake::Unkept) || keeper.keep();
        self.note(format!("user {user} registers {name}: {bindings:?}, promised: {kept}"));
        self.outcome.refused += u64::from(!kept);
        let history = self.history(user);
        // What changes nothing says nothing of changes that others made and that wait.
        if history.last() == bindings {
            return;
        }
        history.versions.push(bindings);
        if kept {
            history.confirmed = history.versions.len() - 1;
        }
    }

    /// An operator removes a user's bindings. That is promised for the next round only.
    fn forget(&mut self, process: &Process) {
        let user = self.rng.below(USERS);
        process.location.remove(aor(user).as_bytes());
        self.history(user).versions.push(Bindings::new());
        self.note(format!("user {user} is removed"));
    }

    fn pass(&mut self, process: &Process) {
        let seconds = self.rng.between(1, 20);
        self.monotonic.fetch_add(seconds, Ordering::Relaxed);
        self.wall.fetch_add(seconds.cast_signed(), Ordering::Relaxed);
        while process.location.expire(self.now(), 10) {}
    }

    /// All is on the disk.
    fn settled(&mut self) {
        for history in self.histories.values_mut() {
            history.durable = history.versions.len().saturating_sub(1);
            history.confirmed = history.durable;
        }
    }

    fn round(&mut self, process: &mut Process) -> Result<(), String> {
        let pause = process.writer.round();
        if self.disk.is_dead() {
            return Ok(());
        }
        let (health, left) = (process.location.health(), process.location.pending());
        self.note(format!("round: {left} left, {health:?}"));
        if left == 0 && health == Health::Good {
            self.settled();
        } else if self.faults == Faults::default() && pause != INTERVAL {
            return Err(format!("a round failed on a disk that works: {health:?}"));
        }
        Ok(())
    }

    fn step(&mut self, process: &mut Process) {
        for _ in 0..self.rng.between(1, 8) {
            let outcome = process.mover.try_step().map_err(|error| error.to_string());
            self.note(format!("step: {outcome:?}"));
        }
    }

    /// The disk works again, and nothing ends the process.
    fn heal(&mut self) {
        self.faults = Faults::default();
        self.disk.end_after(u64::MAX);
        self.disk.set_faults(self.faults);
    }

    /// Some sectors of full files cannot be read any more. Memory has what they said, and all of it is
    /// written anew before anything else happens.
    fn spoil(&mut self, process: &mut Process) -> Result<(), String> {
        self.heal();
        self.round(process)?;
        if process.writer.seal().is_err() {
            return Ok(());
        }
        let from = self.rng.between(100, 1_500);
        self.note(format!("unreadable from {from}"));
        self.disk.set_faults(Faults { unreadable: Some((from, from + 512)), ..Faults::default() });
        for _ in 0..5 {
            let _ = process.mover.try_step();
        }
        self.disk.set_faults(Faults::default());
        let sealed = process.mover.sealed();
        let done = (0..1_000).any(|_| {
            process.writer.round();
            let moved = process.mover.try_step();
            moved.is_ok() && sealed.is_empty() && !sealed.needs_repair() && !process.writer.rescanning()
        });
        if !done {
            return Err(format!("damage is not made good: {:?}", sealed.trouble()));
        }
        self.disk.forget(location::DAMAGED);
        self.round(process)
    }

    /// Holds what a start found against what was promised; from here on that is what counts.
    fn compare(&mut self, process: &Process, how: End) -> Result<(), String> {
        let now = self.now();
        let seconds = now.as_micros() / 1_000_000;
        for user in 0..USERS {
            let mut found = Bindings::new();
            process.location.lookup(aor(user).as_bytes(), now, |binding| {
                let contact = String::from_utf8_lossy(binding.contact).into_owned();
                found.insert(contact, binding.expires.as_micros() / 1_000_000);
            });
            self.outcome.found += found.len() as u64;
            self.hash.write(format!("{user} {seconds} {found:?}").as_bytes());
            let history = self.history(user).clone();
            let least = if how == End::Power { history.durable } else { history.confirmed };
            let allowed = history.versions.get(least..).unwrap_or_default();
            if !allowed.iter().any(|version| is_as(&found, version, seconds)) {
                return Err(format!(
                    "after {how:?} at {seconds} user {user} has {found:?}, and may have {allowed:?} \
                     (all: {:?}, confirmed {}, durable {})",
                    history.versions, history.confirmed, history.durable
                ));
            }
            // What was found is on the disk by now.
            self.histories.insert(user, History { versions: vec![found], confirmed: 0, durable: 0 });
        }
        Ok(())
    }
}

/// Whether these are the bindings of a version, but for those that end about now.
fn is_as(found: &Bindings, version: &Bindings, now: u64) -> bool {
    let kept = version.iter().all(|(contact, end)| {
        found.get(contact).is_some_and(|until| until.abs_diff(*end) <= 2)
            || !found.contains_key(contact) && *end <= now + 2
    });
    kept && found.keys().all(|contact| version.contains_key(contact))
}

fn aor(user: u64) -> String {
    format!("user{user}@example.com")
}

fn contact_of(contact: u64) -> String {
    format!("sip:c{contact}@192.0.2.9")
}

fn record(aor: &str, contact: &str, expires: Time) -> Record {
    Record {
        aor: aor.as_bytes().into(),
        contact: contact.as_bytes().into(),
        params: Box::default(),
        q: 1_000,
        expires,
        call_id: b"call@host"[..].into(),
        cseq: 7,
        flow: Flow {
            transport: Transport::Udp,
            listener: ListenerId(0),
            remote: ([192, 0, 2, 7], 5060).into(),
            conn: None,
        },
        path: Box::default(),
        instance: Box::default(),
        reg_id: 0,
        user_agent: b"Phone/1"[..].into(),
    }
}
