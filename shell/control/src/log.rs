//! Logging: lines to standard error, as text or JSON, with a level that a reload can change.
//!
//! Much of what gets logged was sent by strangers. Two things keep it from forging lines or driving
//! a terminal: [`Safe`] for untrusted octets, and, below all formatting, a writer that escapes every
//! control character inside a line whoever put it there.

use crate::config::{Level, LogFormat};
use crate::outlet::Outlet;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::sync::atomic::AtomicU64;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

/// Libraries whose own chatter is kept down to warnings unless everything is asked for.
const CHATTY: &[&str] = &[
    "axum",
    "hickory_net",
    "hickory_proto",
    "hickory_resolver",
    "hyper",
    "hyper_util",
    "mio",
    "tokio",
    "tower",
    "ureq",
];

/// Longest piece of untrusted text that [`Safe`] shows, octets.
pub(crate) const LONGEST_SHOWN: usize = 256;

/// Changes what is logged while the server runs.
#[derive(Clone)]
pub struct LogHandle {
    filter: reload::Handle<Targets, Registry>,
}

impl LogHandle {
    /// Logs what `level` asks for from now on.
    pub fn set_level(&self, level: Level) {
        // Fails only when the subscriber is gone, and then nothing is logged anyway.
        let _ = self.filter.reload(targets(level));
    }
}

/// Starts to log to standard error. To be called once; an error says that logging is set up already.
pub fn init(level: Level, format: LogFormat) -> Result<LogHandle, String> {
    static LOST: AtomicU64 = AtomicU64::new(0);
    let note = match format {
        LogFormat::Text => lost_as_text,
        LogFormat::Json => lost_as_json,
    };
    let outlet = move || Outlet::new(io::stderr().lock(), &LOST, note);
    let (subscriber, handle) = subscriber(level, format, outlet);
    subscriber.try_init().map_err(|error| error.to_string())?;
    Ok(handle)
}

/// A line that is written whatever the level is, as others of this format are.
pub fn line(message: &str, format: LogFormat) -> String {
    if format == LogFormat::Text {
        return message.to_owned();
    }
    let mut at = String::new();
    // It is a string that is written to.
    let _ = SystemTime.format_time(&mut Writer::new(&mut at));
    serde_json::json!({ "timestamp": at, "level": "INFO", "message": message, "target": "strowger" })
        .to_string()
}

const LOST_WHY: &str = "log lines lost: whoever reads standard error was too slow";

fn lost_as_text(lost: u64) -> String {
    format!(" WARN {lost} {LOST_WHY}\n")
}

fn lost_as_json(lost: u64) -> String {
    format!("{{\"level\":\"WARN\",\"message\":\"{LOST_WHY}\",\"lost\":{lost}}}\n")
}

/// Everything [`init`] installs, with a writer to choose.
fn subscriber<W>(level: Level, format: LogFormat, writer: W) -> (impl Subscriber + Send + Sync, LogHandle)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(targets(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(OneLine(writer))
        .log_internal_errors(false);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    (Registry::default().with(filter).with(lines), LogHandle { filter: handle })
}

/// The filter for a level.
fn targets(level: Level) -> Targets {
    let wanted = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let mut targets = Targets::new().with_default(wanted);
    if level != Level::Trace {
        for library in CHATTY {
            targets = targets.with_target(*library, wanted.min(LevelFilter::WARN));
        }
    }
    targets
}

/// Makes writers that keep each event on one line.
struct OneLine<W>(W);

impl<'w, W: MakeWriter<'w>> MakeWriter<'w> for OneLine<W> {
    type Writer = LineWriter<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        LineWriter(self.0.make_writer())
    }
}

/// Escapes control characters; an event comes as one piece that ends with its line break.
struct LineWriter<W>(W);

impl<W: Write> Write for LineWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = event.strip_suffix(b"\n").unwrap_or(event);
        match escaped(line) {
            // In one call, so that lines of several threads do not mix.
            None => self.0.write_all(event)?,
            Some(mut escaped) => {
                escaped.push('\n');
                self.0.write_all(escaped.as_bytes())?;
            }
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The line with every control character in the form that JSON strings have for it; `None` if it
/// has none and may go out as it is.
fn escaped(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    if !text.chars().any(char::is_control) {
        return None;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if c.is_control() {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    Some(escaped)
}

/// Untrusted octets, made fit to be shown: printable ASCII as it is, everything else as `\xNN`, cut
/// after 256 octets.
#[derive(Clone, Copy)]
pub struct Safe<'a>(pub &'a [u8]);

impl Display for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..LONGEST_SHOWN).unwrap_or(self.0);
        for octet in shown {
            match octet {
                b'\\' => f.write_str("\\\\")?,
                b' '..=b'~' => f.write_str(char::from(*octet).encode_utf8(&mut [0; 4]))?,
                other => write!(f, "\\x{other:02x}")?,
            }
        }
        match self.0.len() - shown.len() {
            0 => Ok(()),
            cut => write!(f, "... ({cut} more)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Memory {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn logged(level: Level, format: LogFormat, body: impl FnOnce(&LogHandle)) -> String {
        let memory = Memory::default();
        let writer = memory.clone();
        let (subscriber, handle) = subscriber(level, format, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || body(&handle));
        memory.text()
    }

    #[test]
    fn a_line_stays_a_line_whatever_is_in_it() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged(Level::Info, format, |_| {
                let evil = "a\r\n2026-01-01 ERROR forged\u{1b}[31m\u{7f}\u{9b}";
                tracing::warn!(peer = %evil, "message from {evil}");
            });
            assert_eq!(text.matches('\n').count(), 1, "{text:?}");
            assert!(text.ends_with('\n'));
            assert!(!text.contains(['\r', '\u{1b}', '\u{7f}', '\u{9b}']), "{text:?}");
        }
    }

    #[test]
    fn json_lines_are_json() {
        let evil = "\u{7f}\u{9b}31m\n\"}";
        let text = logged(Level::Info, LogFormat::Json, |_| tracing::warn!(count = 3, evil, "seen"));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["evil"], evil);
        assert_eq!(value["count"], 3);
        assert_eq!(value["level"], "WARN");
    }

    #[test]
    fn line_outside_the_log_has_the_form_of_its_lines() {
        assert_eq!(line("ready: \"x\"", LogFormat::Text), "ready: \"x\"");
        let own: serde_json::Value = serde_json::from_str(&line("ready: \"x\"", LogFormat::Json)).unwrap();
        let text = logged(Level::Info, LogFormat::Json, |_| tracing::info!("ready: \"x\""));
        let logged: serde_json::Value = serde_json::from_str(&text).unwrap();
        for key in ["level", "message"] {
            assert_eq!(own[key], logged[key], "{key}");
        }
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let lengths = |value: &serde_json::Value| value["timestamp"].as_str().map(str::len);
        assert_eq!((keys(&own), lengths(&own)), (keys(&logged), lengths(&logged)));
    }

    #[test]
    fn the_level_can_be_changed() {
        let text = logged(Level::Warn, LogFormat::Text, |handle| {
            tracing::info!("first");
            handle.set_level(Level::Debug);
            tracing::debug!("second");
            tracing::debug!(target: "hyper::proto", "third");
            tracing::warn!(target: "hyper::proto", "fourth");
            handle.set_level(Level::Error);
            tracing::warn!("fifth");
            tracing::warn!(target: "hyper::proto", "sixth");
            handle.set_level(Level::Trace);
            tracing::debug!(target: "hyper::proto", "seventh");
        });
        let seen: Vec<&str> = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh"]
            .into_iter()
            .filter(|w| text.contains(w))
            .collect();
        assert_eq!(seen, ["second", "fourth", "seventh"]);
    }

    #[test]
    fn untrusted_text_is_made_safe() {
        assert_eq!(Safe(b"sip:alice@example.com").to_string(), "sip:alice@example.com");
        assert_eq!(Safe(b"a\r\n\x1b\\\xff").to_string(), "a\\x0d\\x0a\\x1b\\\\\\xff");
        assert_eq!(Safe("é".as_bytes()).to_string(), "\\xc3\\xa9");
        let long = Safe(&[b'a'; 300]).to_string();
        assert!(long.ends_with("aaa... (44 more)"), "{long}");
        assert_eq!(Safe(&[b'a'; 256]).to_string().len(), 256);
    }
}
