//! Registrations of callees that the scenario of a workload makes, before the calls of a run.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use load::scenario::Injection;

use crate::generator::Generator;
use crate::sip::{self, DOMAIN};

/// Registrations a second.
const RATE: &str = "500";
/// The registrations are not measured, so they may be late.
const LATENESS: &str = "10000";

impl Generator<'_> {
    /// Plays the scenario over UDP once for each of these lines, from where calls are answered.
    ///
    /// # Errors
    /// If the file cannot be read or a registration failed: what the generator says of it.
    pub fn register(&self, lines: &Path, server: SocketAddr) -> Result<(), String> {
        let count = count(lines)?;
        let mut command = Command::new(self.own);
        command.args(["load", &server.to_string(), "--sf", &self.workload.scenario, "--inf"]).arg(lines);
        command.args(["-i", &self.place.ip().to_string(), "-p", &self.place.port().to_string()]);
        command.args(["--key", "domain", DOMAIN, "-s", &sip::user(0), "--seed", &self.seed.to_string()]);
        // One worker: one port, that of the contact.
        command.args(["--workers", "1", "-r", RATE, "-m", &count.to_string()]);
        command.args(["--lateness", LATENESS, "--quiet"]);
        let done = command.stdin(Stdio::null()).output();
        let done = done.map_err(|error| format!("{}: {error}", self.own.display()))?;
        if done.status.success() {
            return Ok(());
        }
        let said =
            [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        Err(format!(
            "callees could not be registered by {}: {}",
            lines.display(),
            last.into_iter().rev().collect::<Vec<_>>().join("\n")
        ))
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
    use super::*;

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
