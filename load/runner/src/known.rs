//! Options that have something to do in this run, and are refused otherwise.

use super::args::LoadArgs;
use super::plan::DOMAIN;
use load::scenario::{self, Scenario, Scope};

/// Whether `-l` has anything to limit, and `-users` anything to do.
pub fn known_limit(args: &LoadArgs, begins: bool) -> Result<(), String> {
    if let Some(users) = args.sipp.callers.filter(|_| !begins) {
        return Err(format!(
            "-users {users}: users begin calls, and this scenario only answers; leave it out"
        ));
    }
    let Some(limit) = args.limit else { return Ok(()) };
    if !begins {
        return Err(format!(
            "-l {limit}: it limits calls that begin here, and this scenario only answers; leave it out"
        ));
    }
    match args.sipp.callers {
        Some(users) => {
            Err(format!("-l {limit}: with -users {users} each user has one call under way; leave -l out"))
        }
        None => Ok(()),
    }
}

/// Whether the variables of `-set` are there to be set.
pub fn known_variables(args: &LoadArgs, scenarios: [&Option<Scenario>; 2]) -> Result<(), String> {
    for name in args.sipp.set.iter().step_by(2) {
        let known = |s: &&Scenario| s.variables.names(Scope::Global).contains(name);
        if !scenarios.into_iter().flatten().any(|s| known(&s)) {
            return Err(format!(
                "-set {name}: the scenario has no global variable of that name; declare it with <Global \
                 variables=\"{name}\"/>"
            ));
        }
    }
    Ok(())
}

/// Whether the keywords of `-key` are asked for.
pub fn known_keys(args: &LoadArgs, scenarios: [&Option<Scenario>; 2]) -> Result<(), String> {
    for key in args.key.iter().step_by(2) {
        if scenario::is_keyword(key) {
            return Err(format!(
                "-key {key}: [{key}] is a keyword of the language, which this cannot change; take another name, in the \
                 scenario too"
            ));
        }
        // Scripts give it to all scenarios, and every run has it.
        let used = key == DOMAIN || scenarios.into_iter().flatten().any(|own| own.keys.contains(key));
        if !used {
            return Err(format!("-key {key}: the scenario has no [{key}]; mend the name, or leave it out"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::scenario::{Injections, Surroundings};

    #[test]
    fn keywords_that_nobody_asks_for_are_refused() {
        let of = |line: &str| {
            let load = LoadArgs::of(line.split(' '));
            let text = scenario::builtin("uac").unwrap_or_default().replace("[service]", "[who][service]");
            let around = Surroundings {
                keys: &[("who".to_owned(), "x".to_owned())],
                injections: &Injections::default(),
                read_file: &|_| Err(std::io::ErrorKind::NotFound.into()),
            };
            let own = scenario::parse("x", text.as_bytes(), &around).expect("a scenario");
            known_keys(&load, [&Some(own), &None])
        };
        assert_eq!((of("--key who x"), of("--key domain x"), of("h")), (Ok(()), Ok(()), Ok(())));
        assert!(of("--key whom x").is_err_and(|why| why.contains("no [whom]")));
        for own in ["service", "call_id", "cseq", "field0", "last_From", "authentication", "branch", "$v"] {
            assert!(of(&format!("--key {own} x")).is_err_and(|why| why.contains("of the language")), "{own}");
        }
    }
}
