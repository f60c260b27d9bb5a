//! Call records: from the configuration to the log of calls.

use super::wall_micros;
use crate::absolute;
use crate::memory::Room;
use crate::startup::Failure;
use call_log::{
    CallLog, Counts, FileOptions, Format, HttpOptions, Options, RING_BYTES, Rotation, Sources, Teller,
    without_query,
};
use call_records::Limits;
use control::config::{Config, RecordFormat};
use control::metrics::{Kind, Text};
use std::fs;
use std::time::Duration;

/// A call without an answer, of which nothing was heard, is over after this: longer than timer C and
/// voicemail.
const SETUP: Duration = Duration::from_secs(900);
/// Beyond the time that transactions last: for what is on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(8);

/// Names the start of the system.
const START: &str = "/proc/sys/kernel/random/boot_id";

/// Begins to keep records, if there is to be a file of them. One teller for each worker.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn start(
    config: &Config,
    workers: usize,
) -> Result<(Option<CallLog>, Vec<Option<Teller>>), Failure> {
    let records = &config.records;
    if !records.are_kept() {
        return Ok((None, (0..workers).map(|_| None).collect()));
    }
    let format = match records.format {
        RecordFormat::Json => Format::Json,
        RecordFormat::Csv => Format::Csv,
    };
    let rotate_at = records.rotate_mb.saturating_mul(1_000_000);
    let token = records.token_file.as_deref().map(control::admin::read_secret).transpose()?;
    let http = records.url.as_ref().map(|url| HttpOptions {
        url: url.clone(),
        token: token.map(|(token, _)| token),
        spool: records.spool_mb.saturating_mul(1_000_000),
    });
    let options = Options {
        folder: absolute(&config.server.data_dir).join("records"),
        workers: u16::try_from(workers)?,
        file: records.file.as_ref().map(|file| FileOptions {
            path: absolute(file),
            format,
            rotate_at,
            rotation: Rotation::Renamed(records.keep),
        }),
        http,
        limits: limits(config),
        ring_bytes: RING_BYTES,
        clock: Sources {
            steady: || worker_runtime::monotonic_now().as_micros(),
            wall: || u64::try_from(wall_micros()).unwrap_or(0),
            start: fs::read_to_string(START).unwrap_or_default().trim().to_owned(),
        },
        on_thread: worker_runtime::take_turns_beside_workers,
    };
    let (log, tellers) = CallLog::start(&options)?;
    let file = options.file.as_ref().map(|file| file.path.display().to_string());
    let places: Vec<String> =
        file.into_iter().chain(records.url.as_deref().map(|url| without_query(url).to_owned())).collect();
    log_events::records::call_records_kept(&places.join(" "), log.counts().open());
    Ok((Some(log), tellers.into_iter().map(Some).collect()))
}

/// How long calls may be open, and how many.
pub(super) fn limits(config: &Config) -> Limits {
    Limits {
        calls: Room::of(&config.limits).calls,
        setup: SETUP,
        session: Some(config.proxy.session_timeout),
        late: 128 * config.timers.t1 + ON_ITS_WAY,
        repeated: 64 * config.timers.t1 + ON_ITS_WAY,
    }
}

/// What was counted, as metrics.
pub(super) fn metrics(counts: &Counts, text: &mut Text<'_>) {
    let rows: [(&str, &str, Kind, u64); 10] = [
        ("strowger_call_records_total", "Call records written.", Kind::Counter, counts.records()),
        (
            "strowger_call_records_sent_total",
            "Call records that the server at `url` has accepted.",
            Kind::Counter,
            counts.sent(),
        ),
        (
            "strowger_call_record_refusals_total",
            "Attempts to send call records that failed.",
            Kind::Counter,
            counts.refused(),
        ),
        (
            "strowger_call_record_events_lost_total",
            "Events of calls for which there was no room because records could not be written.",
            Kind::Counter,
            counts.lost() + counts.dropped(),
        ),
        (
            "strowger_call_record_failures_total",
            "Attempts to write call records that failed.",
            Kind::Counter,
            counts.failures(),
        ),
        (
            "strowger_call_records_untracked_total",
            "Calls without a record because too many were open.",
            Kind::Counter,
            counts.untracked(),
        ),
        (
            "strowger_call_records_strangers_total",
            "Calls of strangers without a record because there were too many of them.",
            Kind::Counter,
            counts.skipped(),
        ),
        (
            "strowger_call_records_set_aside_total",
            "Call records that the server at `url` refuses.",
            Kind::Counter,
            counts.set_aside(),
        ),
        ("strowger_call_records_open", "Calls without a record yet.", Kind::Gauge, counts.open()),
        (
            "strowger_call_records_waiting_bytes",
            "Bytes of call records that wait to be written.",
            Kind::Gauge,
            counts.backlog(),
        ),
    ];
    for (name, help, kind, value) in rows {
        text.family(name, help, kind);
        text.sample(name, &[], value);
    }
}

/// What an operator should look at.
pub(super) fn alarm(counts: &Counts) -> Option<String> {
    let lost = counts.lost() + counts.dropped();
    let (waiting, aside, untracked) = (counts.backlog(), counts.set_aside(), counts.untracked());
    if counts.is_failing() || lost > 0 {
        Some(format!(
            "call records could not be written: {waiting} bytes wait, {lost} events or records are lost"
        ))
    } else if counts.is_unsent() {
        Some("call records cannot be sent and wait on disk; see the log".to_owned())
    } else if untracked > 0 {
        Some(format!("{untracked} calls have no record: too many were open"))
    } else {
        (aside > 0).then(|| format!("the server at `url` refused {aside} call records; see the log"))
    }
}
