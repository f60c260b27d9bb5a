//! Experiments in an emulated machine, whose clock counts instructions: for machines that hide the counters
//! of their processor.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::process::Process;
use crate::run::Stop;

/// The script that starts the machine.
const SCRIPT: &str = include_str!("emulated.sh");
/// Set inside the machine.
const INSIDE: &str = "STROWGER_EMULATED";
/// Where the kernel is kept, instead of the cache of the user.
const CACHE: &str = "STROWGER_KERNEL_CACHE";
/// Between two looks at what the machine wrote.
const LOOK: Duration = Duration::from_millis(500);
/// How long the machine may take to end when the person asked to.
const STOP: Duration = Duration::from_secs(4);
/// The exit status of wrong usage, or of a part that did not start.
const USAGE: i32 = 2;

/// Whether this program runs in such a machine.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this program with `arguments` in an emulated machine, where it can write to `out` only. What it says
/// is passed on.
///
/// # Errors
/// If the machine does not start, or the program says that something did not; nothing if the person asked to
/// end.
pub fn run(
    own: &Path,
    arguments: &[String],
    out: &Path,
    stop: &dyn Stop,
    tell: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let out = fs::canonicalize(out).map_err(|error| failed(out, error))?;
    let script = out.join("emulated.sh");
    fs::write(&script, SCRIPT).map_err(|error| failed(&script, error))?;
    let mut command = Command::new("bash");
    command.arg(&script).arg(cache()?).arg(&out).arg(own).args(arguments);
    let mut machine = Process::start(&mut command, &[]).map_err(|error| format!("bash: {error}"))?;
    let mut ended = None;
    while ended.is_none() && !stop.is_asked() {
        ended = machine.status();
        if ended.is_none() {
            thread::sleep(LOOK);
        }
        told(&mut machine, tell);
    }
    machine.stop(STOP);
    told(&mut machine, tell);
    let _ = fs::remove_file(&script);
    match ended.map(|status| status.code()) {
        None => Ok(()),
        // A verdict is judged here.
        Some(Some(code)) if code != USAGE && output_is_whole(&machine) => Ok(()),
        _ => Err(format!("the emulated machine failed: {}", machine.tail(5))),
    }
}

/// Passes on what the machine wrote since the last time.
fn told(machine: &mut Process, tell: &mut dyn FnMut(&str)) {
    for line in machine.news() {
        tell(&format!("emulated: {}", line.trim_end()));
    }
}

/// Whether the program in the machine came to its end.
fn output_is_whole(machine: &Process) -> bool {
    machine.output().lines().any(|line| line.starts_with("job: ended with"))
}

/// Where the kernel of the machine is kept.
fn cache() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os(CACHE) {
        return Ok(PathBuf::from(folder));
    }
    let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folder = folder.ok_or_else(|| format!("no place for the kernel: set HOME, or {CACHE}"))?;
    Ok(folder.join("strowger/kernel"))
}
