//! `strowger backup` and `strowger restore`: a data directory in one file.

use crate::cli::DataDir;
use crate::owner::become_owner;
use crate::{fail, file};
use control::config::Overrides;
use control::say;
use serving::absolute;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

/// The data directory that the options mean.
fn data_dir(data: &DataDir) -> Result<PathBuf, ExitCode> {
    let overrides = Overrides { data_dir: data.data_dir.clone(), ..Overrides::default() };
    Ok(file::load(data.config(), &overrides)?.config.server.data_dir)
}

/// Copies the data directory into `file`.
pub fn write(file: &Path, data: &DataDir) -> ExitCode {
    let dir = match data_dir(data) {
        Ok(dir) => dir,
        Err(code) => return code,
    };
    let written = match file.to_str() {
        Some("-") => copy_as_owner(file, &dir, io::stdout()),
        _ => whole(file, &dir),
    };
    match written {
        Ok(subscribers) => {
            let dir = absolute(&dir);
            say::err(format_args!("copied {} with {subscribers} subscribers", dir.display()));
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

/// Copies `dir` into `output` as the user who owns `dir`: root must not follow links that this user makes
/// there.
fn copy_as_owner(file: &Path, dir: &Path, output: impl Write + Send) -> Result<u64, String> {
    let copy = || {
        become_owner(dir).map_err(|error| no_owner(dir, &error))?;
        store::backup(dir, output, file).map_err(|error| error.to_string())
    };
    // Only this thread becomes that user; what it opened before stays open.
    thread::scope(|scope| scope.spawn(copy).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

fn no_owner(dir: &Path, error: &io::Error) -> String {
    format!("cannot become the owner of {}: {error}; run this as that user", dir.display())
}

/// Writes under another name, so that an earlier copy of this name stays if this one fails.
fn whole(file: &Path, dir: &Path) -> Result<u64, String> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let problem = |error: io::Error| {
        format!(
            "cannot write {}: {error}; name a file in a folder that this user may write to",
            file.display()
        )
    };
    // One that is there may be another user's, or a link.
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(problem(error)),
        _ => {}
    }
    let output = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part).map_err(problem)?;
    let named = || {
        output.sync_all()?;
        fs::rename(&part, file)?;
        File::open(file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new(".")))?
            .sync_all()
    };
    let written =
        copy_as_owner(file, dir, &output).and_then(|count| named().map_err(problem).map(|()| count));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// Makes the data directory of the copy in `file`.
pub fn read(file: &Path, data: &DataDir, replace: bool) -> ExitCode {
    let dir = match data_dir(data) {
        Ok(dir) => dir,
        Err(code) => return code,
    };
    // Before the change of user: the copy may be root's.
    let input = match regular_file::open(file) {
        Ok(input) => input,
        Err(error) => {
            return fail(&format_args!(
                "cannot read {}: {error}; name a file that `strowger backup` wrote",
                file.display()
            ));
        }
    };
    let restored = become_owner(&dir)
        .map_err(|error| no_owner(&dir, &error))
        .and_then(|()| store::restore(&dir, input, file, replace).map_err(|error| error.to_string()));
    match restored {
        Ok(restored) => {
            let dir = absolute(&dir);
            say::err(format_args!("made {} with {} subscribers", dir.display(), restored.subscribers));
            if let Some(folder) = restored.moved_to {
                say::err(format_args!("what was there is in {}", absolute(&folder).display()));
            }
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}
