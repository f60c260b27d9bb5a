//! Moves full files of the log into the table of bindings, and deletes rows of it that are over.
//!
//! The writer never waits for it: it has a connection of its own, and what it does not get done stays in the
//! log, where it is as durable. It works in steps of some ten milliseconds, so that it can be stopped, and
//! faster when the next file of the log fills faster.
//!
//! What becomes of full files ([`Stage`], and [`Repair`] where the writer is needed):
//!
//! ```text
//!               read, then written             whole: deleted
//!  no files --> Moving -------------> Moved ------------------------------> no files
//!                                       | something of them is lost            ^
//!                                       v                                      |
//!                                     Mending: Repair::Wanted                  |
//!                                       | the writer begins: UnderWay          |
//!                                       | all bindings are on the disk: Done   |
//!                                       | and rows without a binding deleted   |
//!                                       +--------------------------------------+
//! ```

use std::sync::Arc;
use std::time::Duration;

use wire::Time;

use crate::clock::{Clock, ClockPair};
use crate::error::{Kind, Result, StoreError};
use crate::files::LogDir;
use crate::fold::Fold;
use crate::key::{Key, join_aor};
use crate::log::{Full, dispose};
use crate::sealed::{Repair, Sealed};
use crate::service::SharedLocation;
use crate::table::{BindingTable, RowSeen};

/// Between two looks for something to do, and between two steps when there is time.
const REST: Duration = Duration::from_millis(250);
/// Pause after the table could not be written.
const RETRY: Duration = Duration::from_secs(5);
/// How long another program may keep the database locked before that is said.
const PATIENT: Duration = Duration::from_secs(10);
/// When the next file is this full (in thousandths), the purge takes no rest.
const BUSY: u64 = 250;

/// How much is done in one step.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// Bytes of the log that are read.
    pub read: u64,
    /// Bindings written, in one transaction.
    pub rows: usize,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { read: 8 << 20, rows: 2_000 }
    }
}

/// What moves the log into the table.
pub struct Mover {
    location: Arc<SharedLocation>,
    table: Box<dyn BindingTable>,
    dir: LogDir,
    clock: Clock,
    sealed: Arc<Sealed>,
    steps: Steps,
    moving: Option<(Fold, Stage)>,
    purge: Option<Purge>,
    /// Since when another process has the database locked.
    locked: Option<Time>,
}

/// How far full files are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Being read, and their words being written to the table.
    Moving,
    /// The table has all that they say.
    Moved,
    /// The same, and something of them is lost. They stay until all bindings are written anew and rows are
    /// deleted that memory does not have.
    Mending,
}

/// Which rows are deleted, unless memory holds the binding.
#[derive(Clone, Copy, Debug)]
enum Purge {
    /// Those that had expired when the table was loaded. The clocks of that moment judge: they may have been
    /// set since.
    OverAt(ClockPair),
    /// All, because words about them were lost.
    All,
}

impl Purge {
    /// Whether a row is one of those, as far as its end tells.
    fn concerns(self, row: &RowSeen<'_>) -> bool {
        match self {
            Purge::OverAt(loaded) => loaded.revive(row.written, row.expires).is_none(),
            Purge::All => true,
        }
    }
}

impl Mover {
    /// Of the files in `sealed`, which are in `dir`. `expired`: the loading at that moment met rows that were
    /// over.
    pub fn new(
        location: Arc<SharedLocation>,
        mut table: Box<dyn BindingTable>,
        dir: LogDir,
        sealed: Arc<Sealed>,
        clock: Clock,
        expired: Option<ClockPair>,
    ) -> Mover {
        table.begin_purge();
        let purge = expired.map(Purge::OverAt);
        Mover {
            location,
            table,
            dir,
            clock,
            sealed,
            steps: Steps::default(),
            moving: None,
            purge,
            locked: None,
        }
    }

    /// The files that it moves.
    pub fn sealed(&self) -> Arc<Sealed> {
        Arc::clone(&self.sealed)
    }

    /// One step. Answers how long to wait for the next.
    pub fn step(&mut self) -> Duration {
        match self.try_step() {
            Ok(more) => {
                self.locked = None;
                if self.sealed.succeed() {
                    log_events::bindings::table_written_again();
                }
                if more && self.is_behind() { Duration::ZERO } else { REST }
            }
            Err(error) => self.say(&error),
        }
    }

    /// Steps without a pause until all is moved, the writer is needed, a step fails or `until`; answers
    /// whether all is moved.
    ///
    /// # Errors
    /// Of the step that failed.
    pub fn run(&mut self, until: Time) -> Result<bool> {
        while self.clock.now() < until {
            if !self.try_step()? {
                return Ok(self.sealed.is_empty());
            }
        }
        Ok(false)
    }

    fn say(&mut self, error: &StoreError) -> Duration {
        let now = self.clock.now();
        if error.kind == Kind::Busy {
            let since = *self.locked.get_or_insert(now);
            if now.since(since) >= PATIENT && self.sealed.fail(error.to_string()) {
                log_events::bindings::table_locked(&error);
            }
            return REST;
        }
        if self.sealed.fail(error.to_string()) {
            log_events::bindings::table_unwritten(&error);
        }
        RETRY
    }

    /// Whether the log grows faster than it is moved: it is to be done when the next file is half full. The
    /// purge has the time after that.
    fn is_behind(&self) -> bool {
        let filled = self.sealed.filled();
        match &self.moving {
            Some((fold, Stage::Moving)) => fold.progress() < filled.saturating_mul(2),
            // What waits for the purge alone waits with all its words.
            Some((_, Stage::Moved | Stage::Mending)) => self.purge.is_some(),
            // Later there is no time for it.
            None => self.purge.is_some() && filled >= BUSY,
        }
    }

    /// A step without its pause; answers whether there is more to do.
    ///
    /// # Errors
    /// It failed, and may be tried again.
    pub fn try_step(&mut self) -> Result<bool> {
        if self.moving.is_none() {
            let files = self.sealed.files();
            if files.is_empty() {
                // Rows that are over hurt nobody; a log that is not moved does.
                return self.purge();
            }
            let fold = Fold::new(self.dir.clone(), files, self.dir.random_key()?);
            self.moving = Some((fold, Stage::Moving));
        }
        let Some((fold, stage)) = &mut self.moving else { return Ok(false) };
        if *stage == Stage::Moving {
            if fold.read(self.steps.read)? {
                self.table.check()?;
                let pair = self.clock.pair();
                if fold.write(self.steps.rows, &mut *self.table, &self.location, pair)? {
                    *stage = Stage::Moved;
                }
            }
            return Ok(true);
        }
        // What was committed must be where the next start looks for it.
        self.table.check()?;
        if *stage == Stage::Moved && !fold.hurt().is_empty() {
            log_events::bindings::bindings_written_anew();
            *stage = Stage::Mending;
            self.purge = Some(Purge::All);
            self.table.begin_purge();
            self.sealed.set_repair(Repair::Wanted);
        }
        self.dispose()
    }

    /// Deletes the files that are in the table, the oldest first, as far as they are not needed any more.
    fn dispose(&mut self) -> Result<bool> {
        let Some((fold, stage)) = &self.moving else { return Ok(true) };
        if *stage == Stage::Mending {
            self.delete(fold.whole(), &[])?;
            // Until then the file stays: what it still says, or says again, is better than nothing.
            if self.purge.is_some() {
                return self.purge();
            }
            if !self.sealed.is_repaired() {
                return Ok(false);
            }
        }
        self.delete(fold.files(), fold.hurt())?;
        self.sealed.set_repair(Repair::Unneeded);
        self.moving = None;
        Ok(true)
    }

    /// Deletes those of `files` that are still there, in their order; those with the numbers `hurt` are kept
    /// aside.
    fn delete(&self, files: &[Full], hurt: &[u64]) -> Result<()> {
        for file in files.iter().filter(|file| self.sealed.has(file.number)) {
            dispose(&self.dir, &file.path, hurt.contains(&file.number))?;
            self.sealed.remove(file.number);
        }
        Ok(())
    }

    /// A step of the purge.
    fn purge(&mut self) -> Result<bool> {
        let Some(purge) = self.purge else { return Ok(false) };
        self.table.check()?;
        let (location, now) = (&self.location, self.clock.now());
        if !self.table.purge(&mut |row| purge.concerns(row) && !is_live(row, location, now))? {
            self.purge = None;
        }
        Ok(true)
    }

    /// How much is done in one step from now on, for simulations and tests.
    pub fn steps(&mut self) -> &mut Steps {
        &mut self.steps
    }

    /// Whether a file is on its way, and whether all of it is in the table.
    pub fn moving(&self) -> (bool, bool) {
        let stage = self.moving.as_ref().map(|(_, stage)| *stage);
        (stage.is_some(), stage.is_some_and(|stage| stage != Stage::Moving))
    }
}

/// Whether memory holds the binding of a row.
fn is_live(row: &RowSeen<'_>, location: &SharedLocation, now: Time) -> bool {
    let Some(reg_id) = row.reg_id else { return false };
    let aor = join_aor(row.user, row.domain);
    location.has_binding(&Key { aor: &aor, contact: row.contact, instance: row.instance, reg_id }, now)
}
