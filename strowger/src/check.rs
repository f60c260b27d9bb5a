//! `strowger check`: a configuration and its consequences, without starting.

use crate::file::ConfigFile;
use crate::{fail, say_errors};
use control::config::{Config, ConfigError, Overrides};
use control::say;
use serving::METHODS;
use std::path::Path;
use std::process::ExitCode;

pub fn run(file: &ConfigFile) -> ExitCode {
    let Some(file) = file.path() else { return fail(&"no configuration file; name it") };
    match Config::load(Some(file), &Overrides::default(), METHODS) {
        Ok(loaded) => {
            let certificates = loaded.check_certificates(wall_seconds());
            let nodes = serving::check_nodes(&loaded);
            let routes = serving::check_routes(&loaded);
            let errors = [loaded.check_files(), certificates.errors, nodes.errors, routes].concat();
            if !errors.is_empty() {
                return refuse(&errors, file);
            }
            let warnings = [loaded.warnings.clone(), certificates.warnings, nodes.warnings].concat();
            say::out(format_args!("# {} is good; this is what it means\n", file.display()));
            say::out(format_args!("{}", loaded.with_whole_paths().render_effective()));
            // Last, so that they stay in view.
            for warning in warnings {
                say::err(format_args!("warning: {warning}"));
            }
            ExitCode::SUCCESS
        }
        Err(errors) => refuse(&errors, file),
    }
}

#[allow(clippy::disallowed_methods, reason = "whether a certificate has expired is a matter of today")]
fn wall_seconds() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

fn refuse(errors: &[ConfigError], file: &Path) -> ExitCode {
    say_errors(errors);
    let count = errors.len();
    let errors = if count == 1 { "error" } else { "errors" };
    say::err(format_args!("{count} {errors} in {}", file.display()));
    ExitCode::FAILURE
}
