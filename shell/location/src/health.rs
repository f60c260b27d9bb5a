//! Whether bindings reach the disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::Time;

/// State of the write-behind, as shown to operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Health {
    /// Everything accepted is on disk within a second.
    Good,
    /// Changes cannot be written; they are kept in memory and tried again.
    Failing {
        /// Since when, monotonic.
        since: Time,
        /// What the last attempt said.
        error: String,
    },
}

/// What to do with new and changed bindings while they cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OnFailure {
    /// Refuse them (503 with Retry-After): a 200 means that the binding outlives the process.
    #[default]
    Refuse,
    /// Accept them: service goes on, and a crash before recovery loses them.
    Accept,
}

/// Health shared between the writer, which sets it, and the workers, which ask.
#[derive(Debug)]
pub(crate) struct HealthState {
    policy: OnFailure,
    accepting: AtomicBool,
    failing: AtomicBool,
    state: Mutex<Health>,
}

impl HealthState {
    pub(crate) fn new(policy: OnFailure) -> HealthState {
        HealthState {
            policy,
            accepting: AtomicBool::new(true),
            failing: AtomicBool::new(false),
            state: Mutex::new(Health::Good),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Health {
        self.lock().clone()
    }

    /// Whether bindings may change. One atomic read.
    pub(crate) fn accepting(&self) -> bool {
        self.accepting.load(Ordering::Relaxed)
    }

    /// Whether they cannot be written. One atomic read.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    pub(crate) fn policy(&self) -> OnFailure {
        self.policy
    }

    /// The last attempt failed. Logs when that is news.
    pub(crate) fn failing(&self, now: Time, error: String) {
        let mut state = self.lock();
        match &mut *state {
            Health::Failing { error: last, .. } => *last = error,
            Health::Good => {
                let answer = match self.policy {
                    OnFailure::Refuse => "refusing registrations until it works again",
                    OnFailure::Accept => "accepting registrations that a crash would lose",
                };
                log_events::bindings::bindings_unwritten(&error, answer);
                *state = Health::Failing { since: now, error };
                self.accepting.store(self.policy == OnFailure::Accept, Ordering::Relaxed);
                self.failing.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The last attempt succeeded. Logs when that is news.
    pub(crate) fn good(&self, now: Time) {
        if !matches!(*self.lock(), Health::Failing { .. }) {
            return;
        }
        let mut state = self.lock();
        if let Health::Failing { since, .. } = &*state {
            log_events::bindings::bindings_written_again(now.since(*since).as_secs());
        }
        *state = Health::Good;
        self.failing.store(false, Ordering::Relaxed);
        self.accepting.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusing_ends_with_the_failure_and_its_beginning_is_kept() {
        let health = HealthState::new(OnFailure::Refuse);
        health.failing(Time::from_secs(5), "full".to_owned());
        health.failing(Time::from_secs(9), "still full".to_owned());
        assert_eq!(
            health.get(),
            Health::Failing { since: Time::from_secs(5), error: "still full".to_owned() }
        );
        assert!(!health.accepting());
        health.good(Time::from_secs(10));
        assert!(health.accepting() && health.get() == Health::Good);
    }

    #[test]
    fn the_other_policy_goes_on() {
        let health = HealthState::new(OnFailure::Accept);
        health.failing(Time::ZERO, "full".to_owned());
        assert!(health.accepting() && health.get() != Health::Good);
    }
}
