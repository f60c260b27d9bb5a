//! Registrations of callees that the scenario of a workload makes, before the calls of a run.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use load::scenario::Injection;

use crate::generator::Generator;
use crate::process::Process;
use crate::run::{NoRun, Stop};
use crate::sip::{self, DOMAIN};

/// Registrations a second.
const RATE: u32 = 500;
/// The generator may take this much longer.
const ENDS: Duration = Duration::from_secs(90);
/// The registrations are not measured, so they may be late.
const LATENESS: &str = "10000";

impl Generator<'_> {
    /// Plays the scenario over UDP once for each of these lines, from where calls are answered; what the
    /// generator wrote.
    ///
    /// # Errors
    /// If the file cannot be read or a registration failed: what the generator says of it. If the person
    /// asked to end.
    pub fn register(&self, lines: &Path, server: SocketAddr, stop: &dyn Stop) -> Result<String, NoRun> {
        let count = count(lines)?;
        let mut command = Command::new(self.own);
        command.args(["load", &server.to_string(), "--sf", &self.workload.scenario, "--inf"]).arg(lines);
        command.args(["-i", &self.place.ip().to_string(), "-p", &self.place.port().to_string()]);
        command.args(["--key", "domain", DOMAIN, "-s", &sip::user(0), "--seed", &self.seed.to_string()]);
        // One worker: one port, that of the contact.
        command.args(["--workers", "1", "-r", &RATE.to_string(), "-m", &count.to_string()]);
        command.args(["--lateness", LATENESS, "--quiet"]);
        let limit = ENDS + Duration::from_secs(u64::from(count / RATE));
        let done = Process::finish(&mut command, limit, || stop.is_asked());
        if stop.is_asked() {
            return Err(NoRun::Stopped);
        }
        done.map_err(|why| {
            NoRun::Failed(format!("callees could not be registered by {}: {why}", lines.display()))
        })
    }
}

/// How many lines an injection file has, those that it makes (`PRINTF`) among them.
fn count(path: &Path) -> Result<u32, String> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.display().to_string();
    let file = Injection::parse(&name, &text);
    let file =
        file.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    Ok(file.lines())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use lab::experiment::Workload;

    use super::*;

    /// A person who asked to end, or did not.
    #[derive(Debug)]
    struct Asks(bool);

    impl Stop for Asks {
        fn is_asked(&self) -> bool {
            self.0
        }
    }

    /// Registers by a program that does this in place of the generator.
    fn register(script: &str, stop: &Asks) -> Result<String, NoRun> {
        let folder = tempfile::tempdir().expect("a folder");
        let (own, lines) = (folder.path().join("own"), folder.path().join("lines.csv"));
        // By another process: what this one writes, a test beside this one may hold open.
        let write = format!("printf '#!/bin/sh\\n%s\\n' '{script}' >\"$0\"; chmod +x \"$0\"");
        assert!(Command::new("sh").args(["-c", &write]).arg(&own).status().is_ok_and(|done| done.success()));
        fs::write(&lines, "SEQUENTIAL\na\n").expect("written");
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, 5060));
        let generator = Generator {
            own: &own,
            folder: folder.path(),
            workload: &Workload::default(),
            population: None,
            place,
            target: place,
            system: None,
            seed: 1,
            certificates: None,
        };
        generator.register(&lines, place, stop)
    }

    #[test]
    fn registering_program_is_ended_and_heard_like_others() {
        // It has the mark by which a later lab ends what this one leaves.
        let said = register("echo mark $STROWGER_LAB", &Asks(false)).expect("it ends well");
        assert!(said.contains(&format!("/{}/", std::process::id())), "{said}");
        let failed = register("echo no server; exit 1", &Asks(false)).expect_err("it fails");
        assert!(matches!(&failed, NoRun::Failed(why) if why.contains("no server")), "{failed:?}");
        assert_eq!(register("sleep 66", &Asks(true)), Err(NoRun::Stopped));
    }

    #[test]
    fn lines_of_an_injection_file_are_counted() {
        let path = std::env::temp_dir().join(format!("strowger-registrations-{}.csv", std::process::id()));
        for (text, lines) in [("SEQUENTIAL\na;b\n# c\nd;e\n", 2), ("SEQUENTIAL,PRINTF=1000\nu%d\n", 1_000)] {
            fs::write(&path, text).expect("written");
            assert_eq!(count(&path), Ok(lines));
        }
        fs::write(&path, "none\n").expect("written");
        assert!(count(&path).is_err_and(|why| why.contains("registrations")));
        fs::remove_file(&path).expect("removed");
    }
}
