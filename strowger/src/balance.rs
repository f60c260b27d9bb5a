//! `strowger balance`.

use crate::cli::BalanceArgs;
use crate::{fail, file};
use control::config::Overrides;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &BalanceArgs) -> ExitCode {
    let overrides = Overrides {
        listen: args.listen.clone(),
        tls_cert: args.tls_cert.clone(),
        tls_key: args.tls_key.clone(),
        nodes: args.node.clone(),
        algorithm: args.algorithm.clone(),
        workers: args.workers,
        admin: args.admin.clone(),
        data_dir: args.data_dir.clone(),
        ..Overrides::default()
    };
    let loaded = match file::load(args.config.path(), &overrides) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    match serving::balance(loaded, overrides) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}
