//! An archive may be from elsewhere: nothing that it names runs unless the operator says so, and its files
//! are in a folder that nobody else can enter.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use lab::experiment::{Setup, System, SystemKind};

use crate::owner;

/// How often another name is tried where one is taken.
const TRIES: u32 = 100;

/// Refuses a run that starts another program than this build, or that steers a program by texts of the
/// archive.
///
/// # Errors
/// What the run would start, and how to allow it.
pub fn check(archive: &Path, system: &str, setup: &Setup) -> Result<(), String> {
    let Some(own) = setup.systems.get(system) else { return Ok(()) };
    let mut found = of_system(own);
    let mut add = |name: &str, value: &str| found.push(format!("{name} = {value:?}"));
    if !setup.workload.options.is_empty() {
        add("options of the generator", &setup.workload.options.join(" "));
    }
    for scenario in [Some(&setup.workload.scenario), setup.workload.answer.as_ref()].into_iter().flatten() {
        if scenario.contains(['/', '.']) {
            add("scenario", scenario);
        }
    }
    let files = [("rows", &setup.workload.rows), ("registrations", &setup.workload.registrations)];
    for (name, path) in files {
        if let Some(path) = path {
            add(name, &path.display().to_string());
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}: it names what is run; look at it, and write --trust if it is yours:\n  {}",
        archive.display(),
        found.join("\n  ")
    ))
}

/// What a system runs besides this build with its defaults, each as a line.
fn of_system(system: &System) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |name: &str, value: &str| found.push(format!("{name} = {value:?}"));
    if !system.command.is_empty() {
        add("command", &system.command.join(" "));
    }
    match (&system.binary, system.kind) {
        (Some(binary), _) => add("binary", &binary.display().to_string()),
        (None, SystemKind::Kamailio) => add("binary", "kamailio"),
        _ => {}
    }
    if !system.environment.is_empty() {
        add("environment", &system.environment.join(" "));
    }
    if !system.database_options.is_empty() {
        add("database_options", &system.database_options.join(" "));
    }
    if !system.config.is_empty() {
        add("config", &system.config);
    }
    found
}

/// A text that nobody can guess, of letters and digits.
///
/// # Errors
/// If the kernel has no random numbers.
pub fn secret() -> Result<String, String> {
    let mut octets = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut octets));
    read.map_err(|error| format!("/dev/urandom: {error}"))?;
    Ok(octets.iter().map(|octet| format!("{octet:02x}")).collect())
}

/// Makes a folder with a name that nobody can guess, for this user alone.
///
/// # Errors
/// If it cannot be made.
pub fn private_folder(parent: &Path) -> Result<PathBuf, String> {
    for _ in 0..TRIES {
        let path = parent.join(owner::name(&secret()?)?);
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Err(format!("{}: no free name for a folder", parent.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn checked(system: System, options: &[&str]) -> Result<(), String> {
        let mut setup = Setup::default();
        setup.systems.insert("A".to_owned(), system);
        setup.workload.options = options.iter().map(|option| (*option).to_owned()).collect();
        check(Path::new("one.run.tgz"), "A", &setup)
    }

    #[test]
    fn archive_that_names_a_program_is_refused() {
        assert_eq!(checked(System::default(), &[]), Ok(()));
        let command = ["sh", "-c", "rm -r ~"].map(str::to_owned).to_vec();
        let of = [
            System { kind: SystemKind::Command, command, ..System::default() },
            System { binary: Some(PathBuf::from("/tmp/x")), ..System::default() },
            System { environment: vec!["LD_PRELOAD=/tmp/x.so".to_owned()], ..System::default() },
            System { config: "[control]\n".to_owned(), ..System::default() },
            System { kind: SystemKind::Kamailio, ..System::default() },
            System { database_options: vec!["--plugin-load-add=/tmp/x.so".to_owned()], ..System::default() },
        ];
        for system in of {
            let shown = format!("{system:?}");
            let error = checked(system, &[]).expect_err(&shown);
            assert!(error.contains("--trust"), "{error}");
        }
        let server = System {
            kind: SystemKind::Kamailio,
            database_options: vec!["--init-file=/tmp/x.sql".to_owned()],
            ..System::default()
        };
        let error = checked(server, &[]).expect_err("it is named");
        assert!(error.contains("database_options = \"--init-file=/tmp/x.sql\""), "{error}");
        assert!(checked(System::default(), &["--json", "/etc/passwd"]).is_err());
        let error = checked(System { binary: Some(PathBuf::from("/tmp/x")), ..System::default() }, &[]);
        assert!(error.expect_err("it is named").contains("binary = \"/tmp/x\""));
    }

    #[test]
    fn folder_is_for_its_owner_alone_and_new_each_time() {
        let parent = tempfile::tempdir().expect("a folder");
        let one = private_folder(parent.path()).expect("made");
        let other = private_folder(parent.path()).expect("made");
        assert_ne!(one, other);
        assert_eq!(fs::metadata(&one).expect("there").permissions().mode() & 0o777, 0o700);
    }
}
