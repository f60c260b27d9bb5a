//! Servers behind a balancer: processes that answer calls, or one process of servers whose capacity is
//! modelled. They share the generator's processor.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lab::experiment::Workload;
use load::backend::{BackendReport, NodeReport};

use crate::addresses::{Addresses, PORT};
use crate::generator::lateness;
use crate::process::Process;

/// How long they may take to start.
const START: Duration = Duration::from_secs(10);

/// Where back ends are started.
#[derive(Debug)]
pub struct Stand<'a> {
    /// The program that is this build.
    pub own: &'a Path,
    /// A folder that this run may fill.
    pub folder: &'a Path,
    /// The processors that they share with the generator; empty: all.
    pub cpus: &'a [u32],
    /// What is random follows from this number.
    pub seed: u64,
}

/// Running back ends.
#[derive(Default, Debug)]
pub struct Backends {
    places: Vec<SocketAddr>,
    /// One for each, or one for all of them.
    processes: Vec<Process>,
    /// The report that those of a modelled capacity write at their end.
    report: Option<PathBuf>,
}

impl Backends {
    /// Starts them.
    ///
    /// # Errors
    /// If one does not start.
    pub fn start(
        workload: &Workload,
        stand: &Stand<'_>,
        addresses: &mut Addresses,
    ) -> Result<Backends, String> {
        let mut backends = Backends::default();
        for _ in 0..workload.backends {
            backends.places.push(SocketAddr::new(addresses.far()?, PORT));
        }
        let mut commands = Vec::new();
        if workload.has_capacity() {
            let report = stand.folder.join("backends.json");
            commands.push(modelled(workload, stand, &backends.places, &report));
            backends.report = Some(report);
        } else {
            commands.extend(backends.places.iter().map(|place| plain(workload, stand, *place)));
        }
        for mut command in commands {
            let mut process =
                Process::start(&mut command, stand.cpus).map_err(|error| format!("a back end: {error}"))?;
            process.wait_until_ready(START).map_err(|error| format!("a back end: {error}"))?;
            backends.processes.push(process);
        }
        Ok(backends)
    }

    /// Where they are.
    pub fn places(&self) -> &[SocketAddr] {
        &self.places
    }

    /// All processes.
    pub fn processes(&mut self) -> &mut [Process] {
        &mut self.processes
    }

    /// The process of a back end, from 1.
    pub fn nth(&mut self, number: u32) -> Option<&mut Process> {
        self.processes.get_mut(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// What those of a modelled capacity did, and why the run says nothing of the system because of them;
    /// after their end.
    pub fn report(&self) -> (Vec<NodeReport>, Vec<String>) {
        let Some(path) = &self.report else { return (Vec::new(), Vec::new()) };
        let read = fs::read_to_string(path).map_err(|error| error.to_string());
        let report = read
            .and_then(|text| serde_json::from_str::<BackendReport>(&text).map_err(|error| error.to_string()));
        match report {
            Ok(BackendReport { nodes, void, .. }) => {
                (nodes, void.iter().map(|why| format!("the back ends: {why}")).collect())
            }
            Err(error) => (Vec::new(), vec![format!("the back ends left no report: {error}")]),
        }
    }
}

/// A back end that answers calls at once.
fn plain(workload: &Workload, stand: &Stand<'_>, place: SocketAddr) -> Command {
    let mut command = Command::new(stand.own);
    command.args(["load", "--sn", workload.answer.as_deref().unwrap_or("uas"), "--quiet"]);
    command.args(["--lateness", "1000", "--workers", "1"]);
    command.args(["-i", &place.ip().to_string(), "-p", &place.port().to_string()]);
    command
}

/// All back ends of a modelled capacity.
fn modelled(workload: &Workload, stand: &Stand<'_>, places: &[SocketAddr], report: &Path) -> Command {
    let joined = |words: Vec<String>| words.join(",");
    let mut command = Command::new(stand.own);
    command.args(["load", "--backend", "--quiet", "--seed", &stand.seed.to_string()]);
    command.args(["-i", &joined(places.iter().map(|place| place.ip().to_string()).collect())]);
    command.args(["-p", &PORT.to_string(), "--lateness", lateness(workload)]);
    command.args(["--capacity", &joined(workload.capacity.iter().map(f64::to_string).collect())]);
    command.args(["--sharing", &workload.sharing.to_string(), "--room", &workload.room.to_string()]);
    command.args(["--variation", &workload.variation.to_string()]);
    command.args(["--repeat-cost", &workload.repeat_cost.to_string()]);
    if !workload.stall.is_zero() {
        let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
        command.args([
            "--stall",
            &joined(vec![milliseconds(workload.stall_every), milliseconds(workload.stall)]),
        ]);
    }
    command.arg("--json").arg(report);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(workload: &Workload) -> Vec<String> {
        let stand = Stand { own: Path::new("strowger"), folder: Path::new("/run"), cpus: &[], seed: 7 };
        let places = ["127.0.0.1:5060", "127.0.0.2:5060"].map(|place| place.parse().expect("an address"));
        let command = modelled(workload, &stand, &places, Path::new("/run/backends.json"));
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn modelled_back_ends_get_what_the_workload_says() {
        let mut workload = Workload { capacity: vec![300.0, 150.5], sharing: 1, ..Workload::default() };
        workload.options = vec!["--lateness".to_owned(), "60000".to_owned()];
        let line = words(&workload).join(" ");
        for part in [
            "-i 127.0.0.1,127.0.0.2 ",
            "--capacity 300,150.5 ",
            "--sharing 1 ",
            "--lateness 60000 ",
            "--seed 7 ",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains("--stall"), "{line}");
        workload.stall = Duration::from_secs(1);
        let line = words(&workload).join(" ");
        assert!(line.contains("--stall 40000ms,1000ms "), "{line}");
    }

    #[test]
    fn back_ends_without_report_make_a_run_void() {
        let report = Some(PathBuf::from("/nothing/backends.json"));
        assert_eq!(Backends { report, ..Backends::default() }.report().1.len(), 1);
        assert_eq!(Backends::default().report(), (Vec::new(), Vec::new()));
    }
}
