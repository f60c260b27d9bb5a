//! What a run leaves behind: files, and the essence of its report on standard output.

use super::args::LoadArgs;
use super::{advice, ending, plan, say, secure};
use load::metrics::Ladder;
use load::report::{Report, plain};
use std::fmt::Write as _;
use std::path::Path;
use wire::Time;

/// How a note begins that says why a file of a run's flows could not be written.
const UNWRITTEN: &str = "cannot write ";

/// The report was more important; now it is said that another file could not be written.
pub(super) fn unwritten(report: &Report) -> Result<(), String> {
    report.notes.iter().find(|note| note.starts_with(UNWRITTEN)).map_or(Ok(()), |why| Err(why.clone()))
}

/// `--pcap`: writes the first failing flows as a capture file.
pub(super) fn capture(args: &LoadArgs, end: Time, flows: &[Ladder]) -> Result<(), String> {
    let Some(path) = &args.pcap else { return Ok(()) };
    // Where the clock of flows begins.
    let epoch = plan::wall_micros().saturating_sub(end.as_micros());
    let bytes = load::metrics::pcap(flows, epoch);
    std::fs::write(path, bytes).map_err(|error| format!("{UNWRITTEN}{}: {error}", path.display()))
}

/// `-trace_err`: writes the first failing flows.
pub(super) fn trace_errors(args: &LoadArgs, workload: &str, flows: &[Ladder]) -> Result<(), String> {
    if !args.sipp.trace_err && args.sipp.error_file.is_none() {
        return Ok(());
    }
    let name: String =
        workload.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(64).collect();
    let default = || format!("{name}_{}_errors.log", std::process::id()).into();
    let path = args.sipp.error_file.clone().unwrap_or_else(default);
    let mut text = String::new();
    for flow in flows {
        text += &flow.text();
        for step in &flow.steps {
            let _ = writeln!(text, "\n{}", String::from_utf8_lossy(&step.bytes));
        }
        text.push('\n');
    }
    write(&path, &text)
}

/// Writes one file.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{UNWRITTEN}{}: {error}", path.display()))
}

/// Whether no two files to be written are one.
pub(super) fn apart(files: &[&Path]) -> Result<(), String> {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    // A device, such as /dev/null, takes as many as there are.
    let files: Vec<&&Path> =
        files.iter().filter(|path| path.metadata().map_or(true, |own| own.is_file())).collect();
    let twice =
        files.iter().enumerate().find(|(at, path)| files.iter().take(*at).any(|o| whole(o) == whole(path)));
    match twice {
        Some((_, path)) => {
            Err(format!("{}: two reports cannot go to one file; name another one", path.display()))
        }
        None => Ok(()),
    }
}

/// Whether a file can be written. One that was not there is not there afterwards.
pub(super) fn try_file(path: &Path) -> Result<(), String> {
    // Where a link leads nowhere, the file that it would make is new.
    let new = !path.exists();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| {
        format!("cannot write {}: {error}; name a file in a folder that is there", path.display())
    })?;
    if new {
        let _ = std::fs::remove_file(path.canonicalize().as_deref().unwrap_or(path));
    }
    Ok(())
}

/// Writes what was asked for to files, and the essence to standard output, whose reader may be gone by then.
pub(super) fn deliver(args: &LoadArgs, report: &Report) -> Result<(), String> {
    // One that cannot be written does not keep the others from it.
    let json = args.json.as_ref().map(|path| write(path, &report.to_json()));
    let html = args.html.as_ref().map(|path| write(path, &load::report::html(report)));
    let csv = args.csv.as_ref().map(|path| write(path, &load::report::csv(report)));
    say::out(format_args!("{}", plain(&essence(report))));
    let target = advice::target(args);
    let domain = args.people.users.map(|_| args.people.domain(args));
    say::out(format_args!("{}", advice::nothing_measured(report, target.as_deref(), domain.as_deref())));
    if let Some(line) = advice::lines(report, args) {
        say::out(format_args!("{line}\n"));
    }
    // Where the verdict has the words already they are not repeated.
    let shown = |note: &&String| {
        let own =
            [advice::EXHAUSTED, advice::UNCONNECTED, secure::HANDSHAKES, ending::TIMED_OUT, ending::STOPPED];
        own.iter().any(|own| note.starts_with(own)) && !report.verdict.why.contains(note)
    };
    for note in report.notes.iter().filter(shown) {
        say::out(format_args!("{note}\n"));
    }
    [json, html, csv].into_iter().flatten().collect()
}

/// Figures that a person wants to know at once; the report has all.
const FIRST: [&str; 22] = [
    "calls.begun",
    "calls.failed",
    "calls.unfinished",
    "calls.rate",
    "calls.success",
    "callee.begun",
    "callee.success",
    "transactions.success",
    "retransmissions",
    "unexpected",
    "ser",
    "seer",
    "scr",
    "voicemails",
    "registrations.success",
    "registrations.rate",
    "reregistrations.rate",
    "cpu",
    "waited",
    "queue.p99",
    "queue.max",
    "steal",
];

/// The essence of a report as text.
fn essence(report: &Report) -> String {
    let mut out = String::new();
    let calls = |side: &str| report.metric(&format!("{side}.begun")).unwrap_or(0.0);
    let answers_only = calls("callee") > 0.0 && calls("calls") == 0.0;
    let wanted = |key: &str| FIRST.contains(&key) || key.starts_with("counter-");
    let first = |key: &str| wanted(key) && !(answers_only && key.starts_with("calls."));
    for row in report.metrics.iter().filter(|row| first(&row.key)) {
        if let Some(value) = row.value {
            let _ = writeln!(out, "{:<46} {:>12} {}", row.name, figure(value, &row.unit), row.unit);
        }
    }
    let ms = |micros: u64| micros as f64 / 1_000.0;
    let _ = writeln!(
        out,
        "{:<14} {:>9} {:>9} {:>9} {:>9} {:>9}  of",
        "milliseconds", "p50", "p90", "p99", "p99.9", "max"
    );
    let latencies = report.latencies.iter().map(|l| (l.key.as_str(), l.main()));
    for (name, d) in latencies.chain([("lateness", &report.lateness)]).filter(|(_, d)| d.count > 0) {
        let _ = writeln!(
            out,
            "{name:<14} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3}  {}",
            ms(d.p50),
            ms(d.p90),
            ms(d.p99),
            ms(d.p999),
            ms(d.max),
            d.count
        );
    }
    for fact in &report.server {
        let _ = writeln!(out, "server: {}: {}", fact.name, fact.value);
    }
    if report.compression != 1.0 {
        let _ = writeln!(out, "TIME COMPRESSED x{}", report.compression);
    }
    // A verdict may be about this program alone; what a person must mend may be another thing.
    for ladder in report.ladders.iter().take(3) {
        let last = ladder.messages.iter().rev().find(|m| !m.sent);
        let last = last.map_or("nothing", |m| m.label.as_str());
        let _ = writeln!(out, "failed at {:.3} s: {} (last received: {last})", ladder.at, ladder.why);
    }
    let _ = writeln!(out, "{}", report.verdict.word);
    for why in report.verdict.why.iter().cloned().chain(report.verdict.unjudged()) {
        let _ = writeln!(out, "  {why}");
    }
    out
}

/// A figure on the terminal: what has no unit is a count, unless it is a mean.
fn figure(value: f64, unit: &str) -> String {
    let digits = if unit.is_empty() && value == value.trunc() { 0 } else { 3 };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_no_decimals() {
        assert_eq!((figure(1_000.0, ""), figure(0.0, "")), ("1000".to_owned(), "0".to_owned()));
        assert_eq!((figure(100.0, "%"), figure(0.25, "1/s")), ("100.000".to_owned(), "0.250".to_owned()));
    }

    #[test]
    fn files_are_tried_without_a_trace() {
        let folder = std::env::temp_dir().join(format!("strowger-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (link, target, plain) = (folder.join("link"), folder.join("target"), folder.join("plain"));
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        assert_eq!((try_file(&link), try_file(&plain)), (Ok(()), Ok(())));
        assert!(link.symlink_metadata().is_ok() && !target.exists() && !plain.exists());
        let null = Path::new("/dev/null");
        assert_eq!(apart(&[null, &plain, null]), Ok(()));
        assert!(apart(&[&plain, null, &plain]).is_err_and(|why| why.contains("plain")));
        std::fs::remove_dir_all(&folder).expect("it goes");
    }
}
