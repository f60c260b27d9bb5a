//! The common parts of the control sides of server and balancer.

use crate::SHOWN_ERRORS;
use crate::throttle::Throttle;
use control::config::{ConfigError, ReloadReport};
use sip_health::Why;
use std::ops::Range;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use worker_runtime::{RuntimeHandle, monotonic_now};

/// How long a worker may take to report. It answers between two batches, so this is never reached
/// unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Posts a notice to every worker; returns how many accepted it.
pub(crate) fn post_all<N: Send + 'static>(handle: &RuntimeHandle<N>, notice: impl Fn() -> N) -> usize {
    (0..handle.workers()).filter(|&worker| handle.post(worker, notice()).is_ok()).count()
}

/// The reports of these workers, by their numbers. `notice` asks one worker, which passes its report to the
/// closure. A worker that hangs is omitted.
pub(crate) fn ask<N: Send + 'static, R: Send + 'static>(
    handle: &RuntimeHandle<N>,
    workers: Range<u16>,
    notice: impl Fn(Box<dyn FnOnce(R) + Send>) -> N,
) -> Vec<(u16, R)> {
    let (send, receive) = sync_channel(workers.len());
    for worker in workers.clone() {
        let send = send.clone();
        let show = Box::new(move |report| {
            let _ = send.try_send((worker, report));
        });
        if handle.post(worker, notice(show)).is_err() {
            static FULL: Throttle = Throttle::new();
            if let Some(before) = FULL.pass(monotonic_now()) {
                log_events::admin::worker_not_asked(worker, before);
            }
        }
    }
    drop(send);
    let mut all: Vec<(u16, R)> =
        std::iter::from_fn(|| receive.recv_timeout(PATIENCE).ok()).take(workers.len()).collect();
    all.sort_by_key(|(worker, _)| *worker);
    all
}

/// The alarms about workers, of which `answering` report.
pub(crate) fn worker_alarms<N: Send + 'static>(
    handle: &RuntimeHandle<N>,
    workers: usize,
    answering: usize,
) -> impl Iterator<Item = String> {
    let live = handle.live_workers();
    let failed = (live < workers).then(|| format!("{} of {workers} workers have failed", workers - live));
    let silent =
        (answering < live).then(|| format!("{} of {workers} workers do not answer", live - answering));
    failed.into_iter().chain(silent)
}

/// Says which of `workers` are not among those `answering`, if any.
pub(crate) fn silence(workers: u16, answering: &[u16]) -> Option<String> {
    let silent: Vec<String> =
        (0..workers).filter(|worker| !answering.contains(worker)).map(|worker| worker.to_string()).collect();
    match silent.as_slice() {
        [] => None,
        [one] => Some(format!("worker {one} does not answer")),
        many => Some(format!("workers {} do not answer", many.join(", "))),
    }
}

/// The answer to a reload of a server that was started without a file.
pub(crate) fn no_file() -> ConfigError {
    ConfigError {
        file: "reload".into(),
        line: 0,
        column: 0,
        message: "the server was started without a configuration file, so there is none to read again".into(),
        mend: "restart it with --config FILE".into(),
    }
}

/// How many reloads were done and refused.
#[derive(Default)]
pub(crate) struct Reloads(Mutex<(u64, u64)>);

impl Reloads {
    /// Counts and logs the result of a reload. An error says what was changed nevertheless.
    pub(crate) fn note(&self, result: Result<&ReloadReport, (&[ConfigError], &str)>) {
        let mut counts = lock(&self.0);
        match result {
            Ok(report) => {
                counts.0 += 1;
                for warning in &report.warnings {
                    log_events::process::configuration_warning(warning);
                }
                log_events::process::reloaded(&format_args!("{:?}", report.changed));
            }
            Err((errors, changed)) => {
                counts.1 += 1;
                for error in errors.iter().take(SHOWN_ERRORS) {
                    log_events::process::configuration_error(error);
                }
                if let more @ 1.. = errors.len().saturating_sub(SHOWN_ERRORS) {
                    log_events::process::configuration_errors_left(more);
                }
                log_events::process::not_reloaded(changed);
            }
        }
    }

    /// Reloads that were done, and those refused.
    pub(crate) fn counts(&self) -> (u64, u64) {
        *lock(&self.0)
    }
}

/// Why a server is as it is; `fault` says why its connections for TLS fail.
pub(crate) fn cause(why: Why, fault: impl FnOnce() -> Option<String>) -> String {
    match why {
        Why::Unreachable => fault(),
        _ => None,
    }
    .unwrap_or_else(|| why.text().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_workers_are_named() {
        assert_eq!(silence(2, &[0, 1]), None);
        assert_eq!(silence(2, &[0]).as_deref(), Some("worker 1 does not answer"));
        assert_eq!(silence(4, &[2]).as_deref(), Some("workers 0, 1, 3 do not answer"));
    }

    #[test]
    fn reloads_are_counted_by_result() {
        let reloads = Reloads::default();
        reloads.note(Ok(&ReloadReport::default()));
        reloads.note(Err((&[no_file()], "nothing was changed")));
        reloads.note(Err((&[], "nothing was changed")));
        assert_eq!(reloads.counts(), (1, 2));
    }
}
