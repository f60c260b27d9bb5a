//! Files that are written while a run goes on: SIPp's statistics, what scenarios log, and messages.

use super::args::LoadArgs;
use super::plan::wall_micros;
use super::say;
use super::statistics::Statistics;
use super::watch::duration;
use load::engine::{Progress, Traced};
use load::scenario::{Level, timestamp};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::{Time, Transport};
use worker_runtime::monotonic_now;

/// Bytes of the file of messages at most; what comes later is left out, and the file says so.
const MOST_MESSAGES: u64 = 1 << 30;

/// A file and what is to be known to write it.
struct Log {
    path: PathBuf,
    /// None where it could not be written any more.
    file: Option<BufWriter<File>>,
}

impl Log {
    fn new(path: &Path) -> Result<Log, String> {
        let file = File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(Log { path: path.to_path_buf(), file: Some(BufWriter::new(file)) })
    }

    /// Writes a text. The run is more important: where that fails it is said, once.
    fn write(&mut self, text: &[u8]) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write_all(text) {
            say::err(format_args!("cannot write {}: {error}", self.path.display()));
            self.file = None;
        }
    }

    fn flush(&mut self) {
        if let Some(Err(error)) = self.file.as_mut().map(BufWriter::flush) {
            say::err(format_args!("cannot write {}: {error}", self.path.display()));
            self.file = None;
        }
    }
}

/// The files of a run.
#[derive(Default)]
pub struct Traces {
    statistics: Option<(Log, Statistics)>,
    /// How often a line of statistics is written, and when the next one is due.
    every: Duration,
    due: Option<Time>,
    logs: Option<Log>,
    messages: Option<Log>,
    /// Bytes that the messages may still have.
    left: u64,
    /// Microseconds since 1970 at [`Time::ZERO`].
    wall: u64,
    missed: u64,
}

/// Where a file goes: to the given name, or SIPp's for this scenario.
fn path(on: bool, given: Option<&PathBuf>, workload: &str, end: &str) -> Option<PathBuf> {
    let name: String =
        workload.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(64).collect();
    let default = || PathBuf::from(format!("{name}_{}_{end}", std::process::id()));
    given.cloned().or_else(|| on.then(default))
}

impl Traces {
    /// The files that are asked for, empty.
    pub fn new(args: &LoadArgs, workload: &str, started: Time) -> Result<Traces, String> {
        let own = &args.sipp.traces;
        let log = |path: Option<PathBuf>| path.as_deref().map(Log::new).transpose();
        let statistics = log(path(own.trace_stat, own.stf.as_ref(), workload, ".csv"))?;
        let wall = wall_micros().saturating_sub(monotonic_now().as_micros());
        let datagrams = args.over() == Transport::Udp;
        let statistics = statistics.map(|log| (log, Statistics::new(target(args), datagrams, started, wall)));
        Ok(Traces {
            statistics,
            every: own.every()?,
            due: None,
            logs: log(path(own.trace_logs, own.log_file.as_ref(), workload, "logs.log"))?,
            messages: log(path(own.trace_msg, own.message_file.as_ref(), workload, "messages.log"))?,
            left: MOST_MESSAGES,
            wall,
            missed: 0,
        })
    }

    /// Writes what there is to be written; `done`: the run is over.
    pub fn look(&mut self, now: Time, all: &[Progress], done: bool) {
        self.pass(all);
        if let Some((log, statistics)) = &mut self.statistics
            && (done || self.due.is_none_or(|due| due <= now))
        {
            self.due = Some(self.due.unwrap_or(now) + self.every);
            log.write(statistics.line(now, all).as_bytes());
            log.flush();
        }
    }

    /// A line of a scenario. Whether it has gone to a file.
    pub fn line(&mut self, level: Level, text: &[u8]) -> bool {
        let Some(log) = self.logs.as_mut().filter(|_| level == Level::Log) else { return false };
        log.write(text);
        log.write(b"\n");
        true
    }

    /// Messages of all workers, in the order in which they passed.
    fn pass(&mut self, all: &[Progress]) {
        if let Some(log) = &mut self.logs {
            log.flush();
        }
        let Some(log) = &mut self.messages else { return };
        let mut messages: Vec<&Traced> = all.iter().flat_map(|one| &one.messages.0).collect();
        messages.sort_by_key(|message| message.at);
        self.missed += all.iter().map(|one| one.messages.1).sum::<u64>();
        for message in messages {
            let text = shown(self.wall, message);
            match self.left.checked_sub(text.len() as u64) {
                Some(left) if self.missed == 0 || left > 0 => {
                    self.left = left;
                    log.write(&text);
                }
                _ => (self.left, self.missed) = (0, self.missed + 1),
            }
        }
        log.flush();
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Some(log) = self.messages.as_mut().filter(|_| self.missed > 0) {
            log.write(format!("{} messages more had no room here\n", self.missed).as_bytes());
            log.flush();
        }
    }
}

/// A message as SIPp writes it.
fn shown(wall: u64, message: &Traced) -> Vec<u8> {
    let at = timestamp(wall + message.at.as_micros());
    let mut parts = at.split('\t');
    let (date, time) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let over = message.transport.via_name();
    let length = message.bytes.len();
    let what = match message.sent {
        true => format!("sent ({length} bytes):"),
        false => format!("received [{length}] bytes :"),
    };
    let mut text =
        format!("----------------------------------------------- {date} {time}\n{over} message {what}\n\n")
            .into_bytes();
    text.extend_from_slice(&message.bytes);
    text.push(b'\n');
    text
}

/// SIPp's TargetRate, where it is one number for the whole run.
fn target(args: &LoadArgs) -> Option<f64> {
    if let Some(users) = args.sipp.callers {
        return Some(users as f64);
    }
    let other = args.trace.is_some() || args.arrivals.is_some() || args.rate_increase > 0.0;
    (!other).then(|| args.rate())
}

/// How often a line or a frame of the display comes, and one of statistics.
pub fn seconds(text: Option<&String>, usual: u64) -> Result<Duration, String> {
    let length = text.map_or(Ok(Duration::from_secs(usual)), |text| duration(text))?;
    // A shorter one is not looked for.
    Ok(length.max(Duration::from_millis(200)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_look_as_sipps() {
        let of = |sent| {
            let message = Traced {
                at: Time::from_secs(1),
                sent,
                transport: Transport::Udp,
                bytes: b"OPTIONS sip:x SIP/2.0\r\n\r\n".to_vec(),
            };
            String::from_utf8_lossy(&shown(1_795_569_484_217_317, &message)).into_owned()
        };
        let head = "----------------------------------------------- 2026-11-25 01:18:05.217317\nUDP message ";
        assert_eq!(of(true), format!("{head}sent (25 bytes):\n\nOPTIONS sip:x SIP/2.0\r\n\r\n\n"));
        assert!(of(false).starts_with(&format!("{head}received [25] bytes :\n\nOPTIONS")));
    }

    #[test]
    fn files_have_sipps_names_unless_told() {
        let pid = std::process::id();
        let own = path(true, None, "uac + x", "messages.log").map(|path| path.display().to_string());
        assert_eq!(own, Some(format!("uac___x_{pid}_messages.log")));
        assert_eq!(path(false, Some(&"y".into()), "uac", ""), Some("y".into()));
        assert_eq!(path(false, None, "uac", ""), None);
    }

    #[test]
    fn a_target_rate_is_one_number() {
        let of = |line: &str| target(&LoadArgs::of(line.split_whitespace()));
        assert_eq!((of("-r 5"), of(""), of("--callers 7")), (Some(5.0), Some(10.0), Some(7.0)));
        assert_eq!((of("-r 5 --rate-increase 2"), of("--arrivals burst:5/1s")), (None, None));
    }
}
