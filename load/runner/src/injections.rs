//! The files of `-inf`, read and looked at before the first message.

use super::args::LoadArgs;
use super::plan::{listed, read};
use load::scenario::{Injection, Injections, Order};
use std::path::Path;

/// What is said where an injection file cannot be read.
pub const NO_LINES: &str = "-inf wants a file with SEQUENTIAL in its first line, and the values of a call in each other \
                            one, parted by `;'";

/// The files, with the indexes of `-infindex`.
///
/// # Errors
/// What is wrong with one, or that its order has no meaning in this run.
pub fn injections(args: &LoadArgs) -> Result<Injections, String> {
    let mut files = Vec::new();
    for path in &args.inf {
        let name = path.display().to_string();
        let file = Injection::parse(&name, &read(path, NO_LINES)?).map_err(|problems| listed(&problems))?;
        if file.order == Order::User && args.sipp.callers.is_none() {
            return Err(format!(
                "{name}:1: with USER the calls of user n take line n, and there are no users: write SEQUENTIAL, or \
                 give -users N"
            ));
        }
        files.push(file);
    }
    for pair in args.sipp.infindex.chunks_exact(2) {
        let [name, field] = pair else { continue };
        let same = |file: &&mut Injection| {
            file.name == *name || Path::new(&file.name).file_name().is_some_and(|own| own == name.as_str())
        };
        let Some(file) = files.iter_mut().find(same) else {
            return Err(format!("-infindex {name}: no such file is given with -inf"));
        };
        let field =
            field.parse().map_err(|_| format!("-infindex {name} {field}: the field is a number from 0"))?;
        file.index(field).map_err(|why| format!("-infindex {name} {field}: {why}"))?;
    }
    Ok(Injections { files })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_users_are_for_runs_with_users() {
        let path = std::env::temp_dir().join(format!("strowger-inf-{}.csv", std::process::id()));
        let name = path.to_str().expect("a name");
        let taken = |first: &str, more: &[&str]| {
            std::fs::write(&path, format!("{first}\nann\nbob\n")).expect("a file");
            let load = LoadArgs::of(["--inf", name].into_iter().chain(more.iter().copied()));
            injections(&load).map(|files| files.files.len())
        };
        for more in [&[][..], &["--answer", "uas"], &["--sn", "uas"]] {
            let said = taken("USER", more).expect_err("line 1 for every call");
            assert!(
                said.contains(".csv:1: ") && said.contains("SEQUENTIAL") && said.contains("-users N"),
                "{said}"
            );
            assert_eq!(taken("SEQUENTIAL", more), Ok(1));
        }
        assert_eq!(taken("USER", &["--callers", "2"]), Ok(1));
        std::fs::remove_file(&path).expect("it goes");
    }
}
