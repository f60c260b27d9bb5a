//! How a worker makes what it changed outlive the process.

use std::cell::RefCell;
use std::sync::Arc;

use sip_registrar::{Change, Table};

use crate::clock::Clock;
use crate::error::Result;
use crate::health::OnFailure;
use crate::service::SharedLocation;

/// Where changes of bindings are written so that they outlive the process: the files of this machine
/// ([`Appender`](crate::Appender)), or some other service.
pub trait BindingLog: Send + Sync {
    /// Writes what waits in the journals of these parts of the location service.
    ///
    /// # Errors
    /// It may not outlive the process. What was not written is in the journals again.
    fn keep(&self, parts: &[u32]) -> Result<()>;
}

/// One thread's way to change bindings so that a change outlives the process before its response leaves.
pub struct Keeper {
    location: Arc<SharedLocation>,
    log: Arc<dyn BindingLog>,
    clock: Clock,
    /// Stripes that were changed since the last call of [`Keeper::keep`].
    touched: RefCell<Vec<u32>>,
}

impl Keeper {
    /// Of changes in `location`, written to `log`.
    pub fn new(location: Arc<SharedLocation>, log: Arc<dyn BindingLog>, clock: Clock) -> Keeper {
        Keeper { location, log, clock, touched: RefCell::default() }
    }

    /// As [`SharedLocation::register`]; what it changes is to be kept.
    pub fn register<R>(&self, aor: &[u8], f: impl FnOnce(&mut Table, &mut Vec<Change>) -> R) -> Option<R> {
        let location = &self.location;
        let index = location.index(aor);
        let mut changed = false;
        let done = location.register_at(index, |table, changes| {
            let done = f(table, changes);
            changed = !changes.is_empty();
            done
        });
        let mut touched = self.touched.borrow_mut();
        if changed && touched.last() != Some(&(index as u32)) {
            touched.push(index as u32);
        }
        done
    }

    /// Writes what was changed since the last call, so that it outlives the process. Answers whether that may
    /// be promised now; by policy also where it could not be written.
    pub fn keep(&self) -> bool {
        let mut touched = self.touched.borrow_mut();
        let health = &self.location.health;
        let promised = health.policy() == OnFailure::Accept;
        if touched.is_empty() || health.is_failing() {
            // The writer tries again.
            let nothing = touched.is_empty();
            touched.clear();
            return nothing || promised;
        }
        let kept = self.log.keep(&touched);
        touched.clear();
        match kept {
            Ok(()) => true,
            Err(error) => {
                health.failing(self.clock.now(), error.to_string());
                promised
            }
        }
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keeper")
    }
}
