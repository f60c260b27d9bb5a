//! `strowger serve`.

use crate::cli::ServeArgs;
use crate::{fail, file};
use control::config::Overrides;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &ServeArgs) -> ExitCode {
    let overrides = overrides(args);
    let loaded = match file::load(args.config.path(), &overrides) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let data_dir = loaded.config.server.data_dir.clone();
    let fresh = !data_dir.exists();
    match serving::serve(loaded, overrides) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if fresh {
                // Made for nothing. What has a file in it stays: this only removes an empty folder.
                let _ = std::fs::remove_dir(&data_dir);
            }
            fail(&error)
        }
    }
}

fn overrides(args: &ServeArgs) -> Overrides {
    Overrides {
        listen: args.listen.clone(),
        tls_cert: args.tls_cert.clone(),
        tls_key: args.tls_key.clone(),
        domains: args.domain.clone(),
        data_dir: args.data_dir.clone(),
        workers: args.workers,
        steering: args.steering.clone(),
        admin: args.admin.clone(),
        auth: args.auth.map(|s| s == load_runner::Switch::On),
        ..Overrides::default()
    }
}
