//! `strowger load --backend`: servers whose capacity is modelled, on several addresses.

use super::args::LoadArgs;
use super::ending::{stopped, time};
use super::output::write;
use super::plan::{fresh_seed, grain, streams};
use super::watch::duration;
use super::{STOPPED, VOID, lost, say, shown, sockets};
use clap::Args;
use control::signals::Signal;
use load::backend::{Backend, BackendReport, Model, Notice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use wire::{Time, Transport};
use worker_runtime::{Bound, GeneratorOptions, Listener, RuntimeConfig, RuntimeHandle, monotonic_now};

/// Options of a run that only serves.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Back ends")]
pub struct BackendArgs {
    /// Be servers behind a load balancer: one at each address of -i, port -p, over UDP and TCP. They answer
    /// calls; what a request costs them is modelled, so that many of them fit on one machine
    #[arg(long, conflicts_with_all = [
        "target", "sn", "sf", "answer", "inf", "rate", "poisson", "trace", "most", "limit", "find_peak", "self_test",
        "users", "html", "csv", "pcap", "warm_up", "lost", "pause", "key", "callers", "max_socket", "ip_field"])]
    pub backend: bool,
    /// Calls a second that a server can do, each of an INVITE, which costs 1.75 times a BYE, and a BYE: one
    /// number for all, or one for each
    #[arg(long, value_name = "CALLS[,..]", default_value = "300", requires = "backend")]
    pub capacity: String,
    /// Requests that share a server's processor at a time; others wait in order. 1: one after the other
    #[arg(long, value_name = "N", default_value_t = 4, requires = "backend")]
    pub sharing: usize,
    /// Requests that may wait at a server; what comes beyond gets 503
    #[arg(long, value_name = "N", default_value_t = 1_000, requires = "backend")]
    pub room: usize,
    /// What a request that has come before costs beside a BYE: 0 nothing, 1 as much
    #[arg(long, value_name = "X", default_value_t = 0.0, requires = "backend")]
    pub repeat_cost: f64,
    /// How much the cost of a request varies, its coefficient of variation (gamma): 0 never, 1 exponential
    #[arg(long, value_name = "X", default_value_t = 0.5, requires = "backend")]
    pub variation: f64,
    /// Servers stand still at random: how far apart on average, and for how long, such as 40s,1s [default:
    /// never]
    #[arg(long, value_name = "EVERY,LENGTH", requires = "backend")]
    pub stall: Option<String>,
}

/// How often signals and the time are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the worker may take to say what was done.
const PATIENCE: Duration = Duration::from_secs(10);
/// Back ends of one program.
const MOST: usize = 1_000;
/// Requests that may share its processor: each look at it goes through all of them.
const MOST_SHARING: usize = 10_000;
/// Seconds between two stalls at least: a server that was not asked for a day catches up with all of them.
const OFTEN: f64 = 0.1;
/// Requests that may wait at one of them.
const MOST_ROOM: usize = 100_000;

/// Serves until a signal or the end of `--timeout`.
pub fn serve(args: &LoadArgs, signals: &Receiver<Signal>) -> Result<u8, String> {
    let limit = args.timeout.as_deref().map(duration).transpose()?;
    if args.workers > 1 {
        return Err("--backend: all back ends of a program are of one worker; start several programs".into());
    }
    let addresses = addresses(args)?;
    let models = models(&args.backends, addresses.len())?;
    let listen = |transport| addresses.iter().map(move |&address| Listener { transport, address });
    let config = RuntimeConfig {
        listeners: listen(Transport::Udp).chain(listen(Transport::Tcp)).collect(),
        first: args.realtime,
        generator: GeneratorOptions {
            exact_deadlines: true,
            grain: grain(args),
            stamps: true,
            ..GeneratorOptions::default()
        },
        streams: streams(),
        ..RuntimeConfig::default()
    };
    let bound = Bound::new(config, 1).map_err(|error| error.to_string())?;
    // Listeners for datagrams come first, with the ports that they were given.
    let backends: Vec<_> = bound.listeners().iter().map(|l| l.address).zip(models).collect();
    let started = monotonic_now();
    let streams = bound.listeners().iter().map(|l| l.address).skip(backends.len());
    let machine =
        Backend::new(&backends, args.seed.unwrap_or_else(fresh_seed), started).with_streams(streams);
    let runtime = bound.start_generator(vec![machine]).map_err(|error| error.to_string())?;
    let handle = runtime.handle();
    // Scripts wait for this line.
    say::err(format_args!(
        "strowger load ready: {} back ends at {}",
        backends.len(),
        shown(handle.listeners())
    ));
    let stop = until_the_end(&handle, limit, started, signals)?;
    let mut report = ask(&handle)?;
    report.judge((args.lateness * 1_000.0) as u64);
    if let Some((wish, at)) = stop {
        report.stopped = stopped(wish, at.since(started));
        // Without a limit a signal is the end that they are to have.
        report.unfinished = limit.is_some();
        report.stopped += &limit.map_or_else(String::new, |limit| format!("; planned: {}", time(limit)));
    }
    handle.shutdown();
    runtime.join().map_err(|panics| format!("the worker failed: {panics:?}"))?;
    let written = args.json.as_ref().map_or(Ok(()), |path| {
        write(path, &serde_json::to_string(&report).map_err(|error| error.to_string())?)
    });
    if !args.quiet {
        say::out(format_args!("{}", report.text()));
    }
    written?;
    Ok(match (report.unfinished, report.void.is_empty()) {
        (true, _) => STOPPED,
        (false, true) => 0,
        (false, false) => VOID,
    })
}

/// Waits for the end; the signal that was it, and when it came.
fn until_the_end(
    handle: &RuntimeHandle<Notice>,
    limit: Option<Duration>,
    started: Time,
    signals: &Receiver<Signal>,
) -> Result<Option<(Signal, Time)>, String> {
    loop {
        match signals.recv_timeout(LOOK) {
            Ok(wish @ (Signal::Stop | Signal::Interrupt)) => return Ok(Some((wish, monotonic_now()))),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Ok(Signal::Reload) | Err(RecvTimeoutError::Timeout) => {}
        }
        if handle.live_workers() == 0 {
            return Err("the worker failed; see the messages above".into());
        }
        if limit.is_some_and(|limit| monotonic_now().since(started) >= limit) {
            return Ok(None);
        }
    }
}

fn ask(handle: &RuntimeHandle<Notice>) -> Result<BackendReport, String> {
    let (send, receive) = mpsc::channel();
    let take = Notice::Report(Box::new(move |report| {
        let _ = send.send(report);
    }));
    handle.post(0, take).map_err(|_| "the worker takes no more notices".to_owned())?;
    let report = receive.recv_timeout(PATIENCE).map_err(|_| "the worker did not say what was done")?;
    Ok(BackendReport { drops: lost(&handle.counts()).all(), ..report })
}

/// Where they listen.
fn addresses(args: &LoadArgs) -> Result<Vec<SocketAddr>, String> {
    let ips = match (&args.sipp.from, args.local_ip) {
        (Some(text), _) => sockets::addresses(text)?,
        (None, ip) => vec![ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))],
    };
    if ips.len() > MOST {
        return Err(format!("-i: {} addresses; at most {MOST} back ends in one program", ips.len()));
    }
    if let Some(ip) = ips.iter().find(|ip| ip.is_unspecified()) {
        return Err(format!("-i {ip}: callers are told this address; name one that they can send to"));
    }
    Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, args.local_port.unwrap_or(5060))).collect())
}

/// What each is like.
fn models(args: &BackendArgs, count: usize) -> Result<Vec<Model>, String> {
    let number = |text: &str| {
        let wrong =
            || format!("--capacity {text}: calls a second, from 0.01 to 1000000, one number or one for each");
        text.trim().parse().ok().filter(|calls| (0.01..=1e6).contains(calls)).ok_or_else(wrong)
    };
    let capacities = args.capacity.split(',').map(number).collect::<Result<Vec<f64>, _>>()?;
    if capacities.len() != 1 && capacities.len() != count {
        return Err(format!("--capacity: {} numbers for {count} addresses (-i)", capacities.len()));
    }
    if args.sharing == 0 {
        return Err("--sharing 0: at least one request is worked on; 1 is one after the other".into());
    }
    if args.sharing > MOST_SHARING {
        return Err(format!("--sharing {}: at most {MOST_SHARING}", args.sharing));
    }
    if args.room > MOST_ROOM {
        return Err(format!("--room {}: at most {MOST_ROOM}", args.room));
    }
    if !(0.0..=10.0).contains(&args.repeat_cost) {
        return Err(format!("--repeat-cost {}: from 0 to 10", args.repeat_cost));
    }
    if !(0.0..=10.0).contains(&args.variation) {
        return Err(format!("--variation {}: from 0 to 10", args.variation));
    }
    let stalls = args.stall.as_deref().map(stalls).transpose()?;
    let model = |nth: usize| Model {
        capacity: capacities.get(nth).or(capacities.first()).copied().unwrap_or(1.0),
        repeat_cost: args.repeat_cost,
        sharing: args.sharing,
        room: args.room,
        variation: args.variation,
        stalls,
        ..Model::default()
    };
    Ok((0..count).map(model).collect())
}

fn stalls(text: &str) -> Result<(f64, f64), String> {
    let wrong = || format!("--stall {text}: two times, at least 100ms and 1ms, such as 40s,1s");
    let (every, length) = text.split_once(',').ok_or_else(wrong)?;
    let seconds = |text: &str| Ok::<_, String>(duration(text.trim())?.as_secs_f64());
    let (every, length) = (seconds(every)?, seconds(length)?);
    if every < OFTEN || length < 0.001 { Err(wrong()) } else { Ok((every, length)) }
}

/// Whether it could serve.
#[cfg(test)]
pub(super) fn check(args: &LoadArgs) -> Result<(), String> {
    let addresses = addresses(args)?;
    models(&args.backends, addresses.len()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn of(words: &str, count: usize) -> Result<Vec<Model>, String> {
        #[derive(Parser)]
        struct Whole {
            #[command(flatten)]
            load: LoadArgs,
        }
        let words = ["load", "--backend"].into_iter().chain(words.split_whitespace());
        let whole = Whole::try_parse_from(words).map_err(|error| error.to_string())?;
        models(&whole.load.backends, count)
    }

    #[test]
    fn each_has_its_capacity_or_all_have_one() {
        let capacities = |words, count| {
            of(words, count).map(|all| all.iter().map(|model| model.capacity).collect::<Vec<_>>())
        };
        assert_eq!(capacities("", 2), Ok(vec![300.0; 2]));
        assert_eq!(capacities("--capacity 300,150", 2), Ok(vec![300.0, 150.0]));
        for (words, count) in
            [("--capacity 1,2", 3), ("--capacity 0", 1), ("--capacity x", 1), ("--capacity NaN", 1)]
        {
            assert!(capacities(words, count).is_err(), "{words}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let stalls = of("--stall 40s,500ms", 1).map(|all| all[0].stalls);
        assert_eq!(stalls, Ok(Some((40.0, 0.5))));
        for words in [
            "--stall 40s",
            "--stall 0,1s",
            "--stall 1ms,1ms",
            "--sharing 0",
            "--sharing 100000",
            "--room 1000000",
            "--variation -1",
            "--repeat-cost NaN",
            "-r 5",
            "-m 1",
        ] {
            assert!(of(words, 1).is_err(), "{words}");
        }
    }
}
