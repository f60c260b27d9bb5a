//! The load balancer, from the configuration to the last goodbye.

mod admin;
mod build;
mod live;
mod lookup;
mod metrics;
mod names;

use crate::absolute;
use crate::bugs::Bugs;
use crate::memory::Room;
use crate::startup::{self, Failure, Startup, say_ready};
use admin::{Control, Running};
pub use build::check_nodes;
use control::config::{Loaded, LogFormat, Overrides};
use control::signals::Signal;
use control::systemd::Notifier;
use names::Names;
use sip_balancer::{Balancer, Cluster, Notice, Setup};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use store::load_or_create_secret;
use wire::Time;
use worker_runtime::{Runtime, monotonic_now};

/// How often it is looked whether nodes have gone down or come back, to log it.
const LOOK: Duration = Duration::from_millis(250);

/// The names of the algorithms that choose a node, for display.
pub fn balancing_algorithms() -> String {
    sip_balancer::Algorithm::names()
}

/// Balances until it is told to end.
///
/// # Errors
/// What keeps it from starting, or that a worker has failed.
pub fn balance(loaded: Loaded, overrides: Overrides) -> Result<(), Failure> {
    let startup = Startup::begin(&loaded, "starting to balance")?;
    let (config, workers) = (&loaded.config, startup.workers);
    // Names first: what is sent to a socket that nobody reads yet waits there, and could go elsewhere.
    let near = build::expected(&startup.listeners);
    let cluster = Cluster::new(build::nodes(config, &near)?, workers as u16);
    build::prove_listed(&cluster, &config.balance.nodes);
    let mut names = Names::new(build::resolver(config));
    names.set(monotonic_now(), &config.balance.nodes)?;
    // Two stages, each with its time limit; who cannot be found by then is later.
    let patience = 2 * config.dns.timeout + LOOK;
    let listed = |node: &sip_balancer::Node| build::is_listed(config, node);
    names.settle(monotonic_now, patience, &cluster, (&near[..], listed));
    let sockets = startup.bind(config)?;
    let listeners = build::listeners(&sockets.bound, &startup.listeners);
    let keys = build::keys(
        load_or_create_secret(&absolute(&config.server.data_dir))?,
        config.balance.previous_secret.as_deref(),
    )?;
    let settings = Arc::new(build::settings(config, listeners));
    let (bound, grade) = startup
        .helmsman
        .steer(sockets.bound, keys.ownership(), (config.server.steering, false), workers)?
        .finish()?;
    let room = Room::of(&config.limits);
    let life = build::seed() as u32;
    let machine = |worker| {
        let setup = Setup {
            worker,
            workers: workers as u16,
            cluster: Arc::clone(&cluster),
            keys: keys.clone(),
            calls: room.calls.div_ceil(workers),
            seed: build::seed(),
            life,
        };
        Balancer::new(setup, Arc::clone(&settings))
    };
    let runtime: Runtime<Notice> = bound.start((0..workers as u16).map(machine).collect())?;
    let handle = runtime.handle();
    let (format, certificates) = (config.log.format, sockets.certificates);
    let running =
        Running { loaded, overrides, handle, cluster, workers, grade, log: startup.log, certificates };
    let control = Arc::new(Control::new(running, settings, names));
    let admin = startup::start_admin(sockets.admin, control.clone())?;
    let notifier = Notifier::from_env();
    announce(&control, &notifier, format);
    wait(&startup.signals, &control, &notifier);
    startup::end(admin, runtime, || Ok(()))
}

fn announce(control: &Control, notifier: &Notifier, format: LogFormat) {
    let status = format!("ready: {}", control.summary());
    notifier.ready(&status);
    say_ready(&status, format);
}

/// Why a balancer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// It was asked to.
    Asked,
    /// The same, without `stop_delay`.
    AtOnce,
    /// A worker has failed. Nobody serves its share of the calls, and the others cannot: whoever starts the
    /// program again brings all of them back, which are known by their tokens.
    Broken,
}

/// Waits for the end. There is nothing to drain: the next balancer knows its calls by their tokens. Until one
/// takes over, serving is better than refusing. So after SIGTERM it goes on for `stop_delay`, and its status
/// says meanwhile that it is about to end.
fn wait(signals: &Receiver<Signal>, control: &Control, notifier: &Notifier) {
    let (mut seen, mut bugs) = (Vec::new(), Bugs::default());
    let mut look = || {
        worker_runtime::give_back_memory();
        control.look_up();
        control.tell_changes(&mut seen);
        control.look_at_certificates();
        bugs.look();
        control.is_whole()
    };
    let reload = || {
        notifier.reloading(monotonic_now().as_micros());
        // It logs what came of it.
        let _ = control::admin::Admin::reload(control);
        notifier.ready("ready");
    };
    let mut end = serve_on(signals, None, &mut look, reload);
    notifier.stopping("about to end; serving until then");
    if end == Some(End::Asked) {
        let delay = control.stop_delay();
        log_events::balancer::ending_later(&format_args!("{delay:?}"));
        control.begin_stop();
        end = serve_on(signals, Some(monotonic_now() + delay), &mut look, || {});
    }
    if end == Some(End::Broken) {
        log_events::balancer::ending_broken();
    }
}

/// Serves until something ends that, which it says, or until a time. `look` is called regularly and says
/// whether all is well.
fn serve_on(
    signals: &Receiver<Signal>,
    until: Option<Time>,
    mut look: impl FnMut() -> bool,
    reload: impl Fn(),
) -> Option<End> {
    loop {
        let left = until.map_or(LOOK, |until| LOOK.min(until.since(monotonic_now())));
        if left.is_zero() {
            return None;
        }
        match signals.recv_timeout(left) {
            Ok(Signal::Reload) => reload(),
            Ok(Signal::Stop) => return Some(End::Asked),
            Ok(Signal::Interrupt) | Err(RecvTimeoutError::Disconnected) => return Some(End::AtOnce),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if !look() {
            return Some(End::Broken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    #[test]
    fn it_serves_until_it_is_asked_to_end() {
        let (send, signals) = channel();
        let (looks, reloads) = (Cell::new(0), Cell::new(0));
        let serve = |until| {
            let look = || {
                looks.set(looks.get() + 1);
                true
            };
            serve_on(&signals, until, look, || reloads.set(reloads.get() + 1))
        };
        for (wish, end) in [(Signal::Stop, End::Asked), (Signal::Interrupt, End::AtOnce)] {
            send.send(Signal::Reload).unwrap();
            send.send(wish).unwrap();
            assert_eq!(serve(None), Some(end));
        }
        assert_eq!((looks.get(), reloads.get()), (2, 2));
        // Its time is over, or there is none.
        assert_eq!(serve(Some(monotonic_now() + Duration::from_millis(1))), None);
        assert_eq!(serve(Some(monotonic_now())), None);
        drop(send);
        assert_eq!(serve(None), Some(End::AtOnce));
    }

    #[test]
    fn it_ends_when_a_worker_has_failed() {
        let (_send, signals) = channel();
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            looks.get() < 3
        };
        assert_eq!(serve_on(&signals, None, look, || {}), Some(End::Broken));
        assert_eq!(looks.get(), 3);
    }
}
