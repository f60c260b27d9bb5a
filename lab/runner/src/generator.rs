//! The generator of a run: `strowger load` as a program of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lab::experiment::{ArrivalTimes, Connections, Contacts, Population, Transport, Workload};
use load::report::Report;

use crate::certificates::Certificates;
use crate::emulated::is_inside;
use crate::sip::{self, DOMAIN};

/// Lines of the injection file: callers are used in turn.
const CALLERS: u32 = 10_000;
/// The port of the mailbox of a population, at the generator's address.
const MAILBOX: u16 = 5_090;
/// Calls under way have this time to end beyond their length.
const PATIENCE: Duration = Duration::from_secs(60);
/// A run's own deviation from its schedule is judged by the runner's rules on the report; this is its own
/// limit.
const LATENESS_MS: &str = "5";
/// The same in an emulated machine, where system and generator share the one processor.
const EMULATED_LATENESS_MS: &str = "1000";

/// One use of the generator.
#[derive(Clone, Debug)]
pub struct Generator<'a> {
    /// The program that is this build.
    pub own: &'a Path,
    /// A folder for its files.
    pub folder: &'a Path,
    /// What it does.
    pub workload: &'a Workload,
    /// Its population, if it plays one.
    pub population: Option<&'a Population>,
    /// Where it answers calls. It calls from the ports after this one.
    pub place: SocketAddr,
    /// Where calls go.
    pub target: SocketAddr,
    /// The process of the system, for its processor time; nothing where there is none.
    pub system: Option<u32>,
    /// Seed of everything random.
    pub seed: u64,
    /// Certificates, where the workload needs them.
    pub certificates: Option<&'a Certificates>,
}

impl Generator<'_> {
    /// The command for calls during `warm_up` and `measure`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn command(&self, warm_up: Duration, measure: Duration) -> Result<Command, String> {
        let workload = self.workload;
        let mut command = Command::new(self.own);
        command.arg("load").arg(self.target.to_string());
        command.args(["-i", &self.place.ip().to_string(), "-p", &self.place.port().to_string()]);
        command.args(["-t", way(workload), "--workers", &workload.workers.max(1).to_string()]);
        command.args(["--seed", &self.seed.to_string()]);
        if written_lateness(workload).is_none() {
            command.args(["--lateness", lateness(workload)]);
        }
        command.arg("--json").arg(self.report_file()).arg("--csv").arg(self.folder.join("load.csv"));
        if let Some(pid) = self.system {
            command.args(["--server-pid", &pid.to_string()]);
        }
        match self.population {
            Some(population) => self.people(&mut command, population, measure),
            None => self.scenario(&mut command, warm_up, measure)?,
        }
        if let Some(certificates) = self.certificates {
            command.arg("--tls-cert").arg(certificates.chain()).arg("--tls-key").arg(certificates.key());
        }
        command.args(&workload.options);
        Ok(command)
    }

    fn people(&self, command: &mut Command, population: &Population, measure: Duration) {
        let workload = self.workload;
        command.args(["--users", &workload.users.to_string(), "--domain", DOMAIN]);
        command.args(["--compress", &workload.compress.to_string()]);
        for pair in population.options() {
            command.args(["--with", pair]);
        }
        if workload.mailbox {
            command.args(["--mailbox", &mailbox(self.place).to_string()]);
        }
        if workload.find_peak {
            self.search(command, measure);
            command.args(["-rate_max", &workload.known_users().to_string()]);
        } else {
            command.args(["--measure", &milliseconds(measure)]);
        }
    }

    fn search(&self, command: &mut Command, trial: Duration) {
        command.args(["--find-peak", "--trial", &milliseconds(trial)]);
        if let Some(highest) = self.workload.rate_max {
            command.args(["-rate_max", &highest.to_string()]);
        }
        let resolution = self.workload.resolution;
        if resolution != Workload::default().resolution {
            command.args(["--resolution", &(100.0 * resolution).to_string()]);
        }
    }

    fn scenario(&self, command: &mut Command, warm_up: Duration, measure: Duration) -> Result<(), String> {
        let workload = self.workload;
        let is_file = workload.scenario.contains(['/', '.']);
        command.args([if is_file { "--sf" } else { "--sn" }, &workload.scenario]);
        if let Some(answer) = workload.answer.as_deref().filter(|_| workload.callees > 0) {
            command.args(["--answer", answer]);
        }
        command.arg("--inf").arg(self.rows()?).args(["--key", "domain", DOMAIN]);
        command.args(["-s", &sip::user(0)]);
        if !workload.hold.is_zero() {
            command.args(["-d", &workload.hold.as_millis().to_string()]);
        }
        // -r takes whole numbers: other rates are calls in a thousand seconds.
        let whole = workload.rate.fract() == 0.0 && workload.rate >= 1.0;
        let (calls, period) = if whole { (workload.rate, "1s") } else { (workload.rate * 1e3, "1000s") };
        command.args(["-r", &rate(calls).to_string(), "--rp", period]);
        if workload.find_peak {
            self.search(command, measure);
            return Ok(());
        }
        if !workload.hold.is_zero() {
            command.args(["--cool-down", &milliseconds(workload.hold + PATIENCE)]);
        }
        if workload.arrivals == ArrivalTimes::Poisson {
            command.arg("--poisson");
        }
        command.args(["--warm-up", &warm_up.as_secs_f64().to_string()]);
        command.args(["--timeout", &milliseconds(warm_up + measure)]);
        Ok(())
    }

    /// The injection file, if none is written: caller, its password, callee. Nobody calls themselves.
    fn rows(&self) -> Result<PathBuf, String> {
        if let Some(path) = &self.workload.rows {
            return Ok(path.clone());
        }
        let path = self.folder.join("calls.csv");
        let callees = self.workload.callees.max(1);
        let callers = if self.workload.authenticate { callees } else { CALLERS };
        let mut text = "SEQUENTIAL\n".to_owned();
        for number in 0..callers {
            let caller = callees + number;
            let callee = sip::user(number % callees);
            text.push_str(&format!("{};{};{callee}\n", sip::user(caller), sip::password(caller)));
        }
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Where its report is after its end.
    pub fn report_file(&self) -> PathBuf {
        self.folder.join("load.json")
    }

    /// Its report.
    ///
    /// # Errors
    /// If there is none.
    pub fn report(&self) -> Result<Report, String> {
        let path = self.report_file();
        let text =
            fs::read_to_string(&path).map_err(|error| format!("the generator left no report: {error}"))?;
        Report::from_json(&text).map_err(|error| error.to_string())
    }
}

/// The contact at which callees are registered.
pub fn contact(place: SocketAddr, workload: &Workload) -> String {
    let place = match workload.contacts {
        Contacts::Address => place.to_string(),
        Contacts::Name => format!("{}.{DOMAIN}:{}", sip::USER, place.port()),
    };
    match workload.transport {
        Transport::Udp => place,
        other => format!("{place};transport={}", other.name()),
    }
}

/// Where the mailbox of a population is.
pub fn mailbox(place: SocketAddr) -> SocketAddr {
    SocketAddr::new(place.ip(), MAILBOX)
}

/// How late generator and back ends may be, milliseconds: the option of the workload, or the usual limit.
pub fn lateness(workload: &Workload) -> &str {
    written_lateness(workload).unwrap_or(if is_inside() { EMULATED_LATENESS_MS } else { LATENESS_MS })
}

fn written_lateness(workload: &Workload) -> Option<&str> {
    let mut options = workload.options.iter().map(String::as_str);
    let is_it = |option: &&str| option.trim_start_matches('-').split('=').next() == Some("lateness");
    let option = options.find(is_it)?;
    option.split_once('=').map(|(_, value)| value).or_else(|| options.next())
}

fn rate(rate: f64) -> u64 {
    // At least one, and of a rate that a file may hold.
    rate.round().max(1.0) as u64
}

fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// The option -t.
fn way(workload: &Workload) -> &'static str {
    match (workload.transport, workload.connections) {
        (Transport::Udp, Connections::Shared) => "u1",
        (Transport::Udp, Connections::Each) => "un",
        (Transport::Tcp, Connections::Shared) => "t1",
        (Transport::Tcp, Connections::Each) => "tn",
        (Transport::Tls, Connections::Shared) => "l1",
        (Transport::Tls, Connections::Each) => "ln",
        (Transport::Ws, Connections::Shared) => "w1",
        (Transport::Ws, Connections::Each) => "wn",
        (Transport::Wss, Connections::Shared) => "wss1",
        (Transport::Wss, Connections::Each) => "wssn",
        (Transport::Sctp, Connections::Shared) => "s1",
        (Transport::Sctp, Connections::Each) => "sn",
    }
}
