//! `strowger balance`: the load balancer, from the configuration to the last goodbye.

mod admin;
mod build;
mod lookup;
mod metrics;
mod names;

use crate::build::METHODS;
use crate::cli::BalanceArgs;
use crate::memory::Room;
use crate::serve::{Failure, bind_admin, raise_descriptor_limit, runtime_config, wait_for_the_rest};
use crate::signals::{self, Wish};
use crate::steering::Helmsman;
use crate::{absolute, fail, interfaces, say_errors};
use admin::{Control, Running};
use control::config::{Config, Loaded, Overrides};
use control::systemd::Notifier;
use names::Names;
use sip_balancer::{Balancer, Cluster, Notice, Setup};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use store::load_or_create_secret;
use worker_runtime::{Bound, Runtime, monotonic_now};

/// How often it is looked whether nodes have gone down or come back, to log it.
const LOOK: Duration = Duration::from_millis(250);

/// Runs the command.
pub fn run(args: &BalanceArgs) -> ExitCode {
    let overrides = Overrides {
        listen: args.listen.clone(),
        nodes: args.node.clone(),
        algorithm: args.algorithm.clone(),
        workers: args.workers,
        admin: args.admin.clone(),
        data_dir: args.data_dir.clone(),
        ..Overrides::default()
    };
    let loaded = match Config::load(args.config.as_deref(), &overrides, METHODS) {
        Ok(loaded) => loaded,
        Err(errors) => {
            say_errors(&errors);
            return ExitCode::FAILURE;
        }
    };
    match balance(loaded, overrides) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn balance(loaded: Loaded, overrides: Overrides) -> Result<(), Failure> {
    let helmsman = Helmsman::appoint()?;
    let signals = signals::listen()?;
    let log = control::log::init(loaded.config.log.level, loaded.config.log.format)?;
    let config = &loaded.config;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        config = loaded.file.as_deref().map_or("none".into(), |f| absolute(f).display().to_string()),
        "starting to balance"
    );
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let workers = match config.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let listeners = interfaces::expand(&config.listen)?;
    raise_descriptor_limit();
    // Names first: what is sent to a socket that nobody reads yet waits there, and could go elsewhere.
    let near = build::expected(&listeners);
    let cluster = Cluster::new(build::nodes(config, &near)?, workers as u16);
    let mut names = Names::new(build::resolver(config));
    names.set(monotonic_now(), &config.balance.nodes)?;
    // Two stages, each with its time limit; who cannot be found by then is later.
    let patience = 2 * config.dns.timeout + LOOK;
    let listed = |node: &sip_balancer::Node| build::is_listed(config, node);
    names.settle(monotonic_now, patience, &cluster, (&near[..], listed));
    let bound = Bound::new(runtime_config(config, &listeners, workers), workers)?;
    let listeners = build::listeners(&bound, &listeners);
    let admin = bind_admin(&config.admin)?;
    let keys =
        build::keys(load_or_create_secret(&config.data_dir)?, config.balance.previous_secret.as_deref())?;
    let settings = Arc::new(build::settings(config, listeners));
    let (bound, grade) =
        helmsman.steer(bound, keys.ownership(), (config.steering, false), workers)?.finish()?;
    let room = Room::of(&config.limits);
    let machine = |worker| {
        let setup = Setup {
            worker,
            workers: workers as u16,
            cluster: Arc::clone(&cluster),
            keys: keys.clone(),
            calls: room.calls.div_ceil(workers),
            seed: build::seed(),
        };
        Balancer::new(setup, Arc::clone(&settings))
    };
    let runtime: Runtime<Notice> = bound.start((0..workers as u16).map(machine).collect())?;
    let handle = runtime.handle();
    let running = Running { loaded, overrides, handle, cluster, workers, grade, log };
    let control = Arc::new(Control::new(running, settings, names));
    let admin = admin.map(|bound| bound.start(control.clone())).transpose()?;
    if let Some(admin) = &admin {
        tracing::info!(address = %admin.address(), "admin API");
    }
    let notifier = Notifier::from_env();
    announce(&control, &notifier);
    wait(&signals, &control, &notifier);
    drop(admin);
    runtime.handle().shutdown();
    let ended = runtime.join();
    tracing::info!("stopped");
    ended.map_err(|panics| format!("{} of the workers failed; see the log", panics.len()).into())
}

fn announce(control: &Control, notifier: &Notifier) {
    let status = format!("ready: {}", control.summary());
    notifier.ready(&status);
    // Scripts wait for this line; it is not a log line, so that no log level hides it.
    eprintln!("strowger {} {status}", env!("CARGO_PKG_VERSION"));
}

/// Waits for the end: a first stop drains, a second one, or nothing left to wait for, ends. Calls that are up need
/// nobody to wait for them: whoever takes over knows them by their tokens.
fn wait(signals: &Receiver<Wish>, control: &Control, notifier: &Notifier) {
    let mut seen = Vec::new();
    loop {
        match signals.recv_timeout(LOOK) {
            Ok(Wish::Reload) => {
                notifier.reloading(monotonic_now().as_micros());
                // It logs what came of it.
                let _ = control::admin::Admin::reload(control);
                notifier.ready("ready");
            }
            Ok(Wish::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        control.look_up();
        control.tell_changes(&mut seen);
    }
    notifier.stopping("finishing transactions under way");
    tracing::info!("draining: no new calls; a second signal stops at once");
    control.begin_drain();
    control.stop_accepting();
    wait_for_the_rest(signals, || control.pending());
}
