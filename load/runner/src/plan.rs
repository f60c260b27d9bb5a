//! From the command line to engines that are ready to run. Everything that can be wrong is found here,
//! before the first message.

use super::args::{LoadArgs, Switch};
use super::injections::injections;
use super::is_client;
use super::known::{known_keys, known_limit, known_variables};
use super::say;
use super::schedule::Schedule;
use super::secure::{self, Secure};
use super::sipp;
use super::sockets::{self, Needs, Sockets};
use super::target::{find, host_of, remote};
use super::watch::duration;
use super::ways::{self, Way};
use load::engine::{Addresses, Conduct, Engine, Retransmission, Settings, Users};
use load::metrics::{Setup, Window};
use load::population::{Arrivals, RateOptions, Spacing, Times};
use load::report::Fact;
use load::scenario::{self, Desk, Injections, Pause, Problem, Run, Scenario, Side, Surroundings};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::{Time, Transport};
use worker_runtime::{Bound, GeneratorOptions, RuntimeConfig, StreamLimits};

/// A run that can begin.
pub struct Plan {
    pub title: String,
    pub workload: String,
    pub parameters: Vec<Fact>,
    pub seed: u64,
    pub client: Option<Arc<Scenario>>,
    pub bound: Bound,
    server: Option<Arc<Scenario>>,
    run: Arc<Run>,
    injections: Injections,
    arrivals: Option<Arrivals>,
    transport: Transport,
    pub remote: SocketAddr,
    workers: usize,
    sockets: Sockets,
    self_test: bool,
    options: Options,
}

/// What is taken over from the command line as it is.
struct Options {
    limit: Option<usize>,
    most: Option<u64>,
    conduct: Conduct,
    warm_up: Duration,
    ladders: usize,
    callers: Option<u64>,
    set: Vec<(String, Vec<u8>)>,
    figures: bool,
    traces: bool,
}

/// Calls under way at a time where nothing else is said, and those that can be answered at least.
const MOST_CALLS: usize = 1_000_000;

/// Memory of a call that is answered, bytes: its variables and last messages, some 4 KiB, and the caller's
/// where that is the same program.
const EACH_CALLEE: u64 = 8 << 10;

/// As many calls as there is memory for, [`MOST_CALLS`] at least.
fn fitting(memory: Option<u64>) -> usize {
    let fit = memory.unwrap_or(0) / EACH_CALLEE;
    usize::try_from(fit).unwrap_or(MOST_CALLS).clamp(MOST_CALLS, 1 << 30)
}

/// Calls that can be answered at a time: as many as there is memory for, and those that begin here in any
/// case.
fn most_callees(limit: Option<usize>, callers: Option<u64>) -> usize {
    let callers = callers.map(|users| usize::try_from(users).unwrap_or(usize::MAX));
    [limit, callers].into_iter().flatten().fold(fitting(control::memory::usable()), usize::max)
}

/// A worker's share of `all`.
fn share(all: usize, worker: usize, workers: usize) -> usize {
    all / workers + usize::from(all % workers > worker)
}

/// A worker's share of the users of `-users`, and of their calls.
fn share_of(callers: u64, most: Option<u64>, worker: usize, workers: usize) -> Option<Users> {
    let (worker, workers) = (worker as u64, workers as u64);
    let share = |all: u64| all / workers + u64::from(all % workers > worker);
    let users = Users { numbers: (worker, workers), count: share(callers), calls: most.map(share) };
    Some(users)
}

/// Whether it has been said why there is one worker.
static SAID: AtomicBool = AtomicBool::new(false);

/// How many workers there are to be: one where the calls share something that each worker would have for
/// itself, and none that could begin no call.
fn workers(args: &LoadArgs, [client, server]: [&Option<Scenario>; 2]) -> Result<usize, String> {
    let shares =
        |own: &Option<Scenario>| Some((own.as_ref()?.name.clone(), own.as_ref()?.shares()?.to_owned()));
    let counted = || {
        let answers = client.is_none() && args.most.is_some();
        answers.then(|| ("-m".to_owned(), "calls are counted as they come in".to_owned()))
    };
    let named = args
        .sipp
        .traces
        .cid_field
        .map(|_| ("-cid_field".to_owned(), "a Call-ID of a file does not tell whose it is".to_owned()));
    let alone = shares(client).or_else(|| shares(server)).or_else(counted).or(named);
    let workers = match (args.workers, alone) {
        (0 | 1, Some((name, why))) => {
            // Trials of a search are quiet; it is said before the first one.
            let shown = args.workers == 0 && (!args.quiet || args.find_peak);
            if shown && !SAID.swap(true, Ordering::Relaxed) {
                say::err(format_args!("strowger load: one worker: {name}: {why}"));
            }
            1
        }
        (n, Some((name, why))) => {
            return Err(format!(
                "--workers {n}: {name}: {why}, so one worker is to have them all; leave --workers out"
            ));
        }
        (0, None) => std::thread::available_parallelism().map_or(1, usize::from),
        (n, None) => n,
    };
    let most = args.limit.filter(|_| client.is_some()).unwrap_or(usize::MAX);
    // A worker without a user would make none of the calls that are its share.
    let users = args.sipp.callers.map_or(usize::MAX, |users| usize::try_from(users).unwrap_or(usize::MAX));
    Ok(workers.min(most).min(users))
}

impl Plan {
    /// Checks everything and opens the sockets.
    pub fn new(args: &LoadArgs) -> Result<Plan, String> {
        let injections = injections(args)?;
        let (mut client, mut server) = scenarios(args, &injections)?;
        let transport = Way::of(args)?.transport;
        if client.is_some()
            && args.rate() <= 0.0
            && args.trace.is_none()
            && !args.self_test
            && !args.find_peak
        {
            return Err(
                "-r 0: no call would ever begin; give a rate, or only a scenario that answers (-sn uas)"
                    .into(),
            );
        }
        known_limit(args, client.is_some())?;
        sockets::known_options(args, client.is_some())?;
        let remote = remote(args, client.is_some() && !args.self_test)?;
        let sent_to = match &args.sipp.rsa {
            Some(address) => find(address, transport).map_err(|why| format!("-rsa {why}"))?,
            None => remote,
        };
        let local = local_address(args, sent_to)?;
        let workers = workers(args, [&client, &server])?;
        let needs = Needs {
            transport,
            local,
            workers,
            client: client.is_some(),
            // In a self-test each worker calls itself.
            server: server.is_some() && !args.self_test,
        };
        let sockets = Sockets::new(args, needs, &injections)?;
        let workers = sockets.workers;
        // With a socket for each call there are enough of them.
        let peer = (client.is_some() && !args.self_test && args.transport == "u1").then_some(sent_to);
        let config = secured(args, server.is_some(), runtime(args, &sockets, peer))?;
        let bound = Bound::new(config, workers).map_err(|error| error.to_string())?;
        let seed = args.seed.unwrap_or_else(fresh_seed);
        let run = Arc::new(facts(args, (transport, client.is_some()), remote, local, &bound));
        for scenario in [&mut client, &mut server].into_iter().flatten() {
            scenario.bind(&run);
        }
        known_variables(args, [&client, &server])?;
        known_keys(args, [&client, &server])?;
        let (title, workload) = named(args, [&client, &server]);
        // In a closed loop calls begin when others have ended, at no rate.
        let open = client.is_some() && args.sipp.callers.is_none();
        let arrivals = open.then(|| arrivals(args)).transpose()?;
        let parameters = parameters(args, arrivals.as_ref(), workers);
        Ok(Plan {
            title,
            workload,
            parameters,
            seed,
            client: client.map(Arc::new),
            server: server.map(Arc::new),
            bound,
            run,
            injections,
            arrivals,
            transport,
            remote: sent_to,
            workers,
            sockets,
            self_test: args.self_test,
            options: options(args)?,
        })
    }

    /// What the run is going to do.
    pub fn schedule(&self, args: &LoadArgs) -> Result<Schedule, String> {
        let timeout = args.timeout.as_deref().map(duration).transpose()?;
        Ok(Schedule::of_calls(args, timeout, self.client.is_some(), self.arrivals.as_ref()))
    }

    /// One engine for each worker.
    pub fn engines(&self, start: Time) -> Result<Vec<Engine>, String> {
        (0..self.workers).map(|worker| self.engine(worker, start)).collect()
    }

    fn engine(&self, worker: usize, start: Time) -> Result<Engine, String> {
        let o = &self.options;
        let listeners: Vec<SocketAddr> = self.bound.listeners().iter().map(|l| l.address).collect();
        let own = self.sockets.own(worker);
        let itself = own.first().and_then(|own| listeners.get(usize::from(own.0))).copied();
        let remote = if self.self_test { itself.unwrap_or(self.remote) } else { self.remote };
        let settings = Settings {
            worker: u16::try_from(worker).map_err(|_| "too many workers")?,
            run: Arc::clone(&self.run),
            run_id: self.seed as u32 ^ std::process::id(),
            client: self.client.clone(),
            server: self.server.clone(),
            addresses: Addresses {
                transport: self.transport,
                remote,
                listeners,
                own,
                alias: self.run.local_ip.clone().filter(|_| ways::is_web(self.transport)),
                origin: self.sockets.origin.clone(),
            },
            conduct: o.conduct.clone(),
            users: o.callers.and_then(|callers| share_of(callers, o.most, worker, self.workers)),
            set: o.set.clone(),
            most_calls: o
                .limit
                .map_or(MOST_CALLS.div_ceil(self.workers), |all| share(all, worker, self.workers)),
            most_callees: most_callees(o.limit, o.callers).div_ceil(self.workers),
            callees: o.most.filter(|_| self.client.is_none()),
            numbers: (worker as u64 + 1, self.workers as u64),
            seed: self.seed,
            start,
            wall_origin: wall_micros().saturating_sub(start.as_micros()),
            metrics: Setup {
                origin: start,
                window: Window { from: start + o.warm_up, until: Time::FAR },
                figures: o.figures,
                ..Setup::default()
            },
            ladders: o.ladders,
            traces: o.traces,
        };
        let desk = Desk::new(
            self.injections.for_worker(worker as u32, self.workers as u32),
            self.seed.wrapping_add(worker as u64),
            10,
        );
        let times =
            |a: &Arrivals| -> Times { a.times(self.seed, worker as u32, self.workers as u32, o.most) };
        let engine = Engine::new(settings, desk, self.arrivals.as_ref().map(times));
        match engine.trouble() {
            Some(why) => Err(why.to_owned()),
            None => Ok(engine),
        }
    }
}

/// Settings of a runtime, with those of TLS and WebSocket. `answers`: calls come in.
pub(super) fn secured(
    args: &LoadArgs,
    answers: bool,
    config: RuntimeConfig,
) -> Result<RuntimeConfig, String> {
    let config = RuntimeConfig { websocket_client: ways::websocket(args)?, ..config };
    Ok(Secure::new(args, answers)?.put_into(config))
}

/// What the runtime is to do with these sockets; `peer`: where all datagrams go, if that is one address.
fn runtime(args: &LoadArgs, sockets: &Sockets, peer: Option<SocketAddr>) -> RuntimeConfig {
    let plain = RuntimeConfig::default();
    let buffer = args.sipp.traces.buff_size;
    RuntimeConfig {
        // Where calls come in, which all workers serve; then one or more for each worker's own calls.
        listeners: sockets.listeners.clone(),
        own_from: sockets.shared,
        first: args.realtime,
        generator: GeneratorOptions { peer, ..generator(args) },
        segment: segment(args),
        own_connections: sockets.connections,
        streams: streams(),
        udp_buffer: buffer.map_or(plain.udp_buffer, |bytes| bytes as usize),
        // Whoever says how large they are gets them so.
        udp_hold: if buffer.is_some() { Duration::ZERO } else { plain.udp_hold },
        ..plain
    }
}

/// What the run is called, and what it plays.
fn named(args: &LoadArgs, [client, server]: [&Option<Scenario>; 2]) -> (String, String) {
    let names = [client, server].into_iter().flatten().map(|own| own.name.as_str());
    let workload = names.collect::<Vec<_>>().join(" + ");
    let title = match (&args.target, client.is_some()) {
        _ if args.self_test => "self-test".to_owned(),
        (Some(target), true) => format!("{workload} against {target}"),
        _ => workload.clone(),
    };
    (title, workload)
}

/// How long messages may wait for each other, to the microsecond.
pub(super) fn grain(args: &LoadArgs) -> Duration {
    Duration::from_micros((args.grain.clamp(0.0, 1_000.0) * 1_000.0) as u64)
}

/// How the workers of a generator take what comes. What counts is when a call was meant to begin, so a late
/// sleeper would measure itself.
pub(super) fn generator(args: &LoadArgs) -> GeneratorOptions {
    let grain = grain(args);
    GeneratorOptions {
        exact_deadlines: true,
        grain,
        stamps: true,
        together: !grain.is_zero(),
        ..GeneratorOptions::default()
    }
}

/// Whether messages of one length to one address go through the kernel together.
pub(super) fn segment(args: &LoadArgs) -> bool {
    args.udp_segmentation.map_or(!grain(args).is_zero(), |wish| wish == Switch::On)
}

fn options(args: &LoadArgs) -> Result<Options, String> {
    let all = args.sipp.max_retrans.unwrap_or(u32::MAX);
    let retransmission = Retransmission {
        on: !args.nr,
        // Without a time between them repetitions would have no end.
        t2: Duration::from_millis(args.sipp.t2.max(1)),
        invite: args.max_invite_retrans.min(all),
        other: args.max_non_invite_retrans.min(all),
    };
    let conduct = Conduct {
        base_cseq: args.sipp.base_cseq,
        call_ids: args.sipp.traces.call_ids()?,
        pause: Pause::Fixed(args.pause),
        // As in SIPp, 0 is none.
        recv_timeout: args.recv_timeout.filter(|&ms| ms > 0).map(Duration::from_millis),
        retransmission,
        defaults: args.sipp.defaults()?,
        lost: args.lost / 100.0,
    };
    let pairs = args.sipp.set.chunks_exact(2);
    Ok(Options {
        limit: args.limit,
        most: args.most,
        conduct,
        warm_up: Duration::from_secs_f64(args.warm_up.clamp(0.0, 1e9)),
        ladders: args.ladders,
        callers: args.sipp.callers,
        set: pairs.map(|pair| (pair[0].clone(), pair[1].clone().into_bytes())).collect(),
        figures: args.sipp.traces.has_statistics(),
        traces: args.sipp.traces.has_messages(),
    })
}

/// The keyword that built-in scenarios ask for.
pub(super) const DOMAIN: &str = "domain";

/// A file of the command line; `wanted` says what it should be.
pub(super) fn read(path: &Path, wanted: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}; {wanted}", path.display()))
}

/// Findings of a file that are shown one by one.
const SHOWN: usize = 20;

/// All findings of a file, one on each line.
pub(super) fn listed(problems: &[Problem]) -> String {
    let shown = problems.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>();
    let more = problems.len().saturating_sub(shown.len());
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    format!("{}{more}", shown.join("\n"))
}

/// The scenario of each side: calls that begin here, calls that come in.
type Sides = (Option<Scenario>, Option<Scenario>);

fn scenarios(args: &LoadArgs, injections: &Injections) -> Result<Sides, String> {
    if args.self_test {
        return Ok((Some(built_in(args, "uac", injections)?), Some(built_in(args, "uas", injections)?)));
    }
    let first = match (&args.sn, &args.sf) {
        (Some(name), _) => built_in(args, name, injections)?,
        (None, Some(path)) => from_file(args, path, injections)?,
        (None, None) => built_in(args, "uac", injections)?,
    };
    let second = match &args.answer {
        None => None,
        Some(name) if scenario::builtin(name).is_some() => Some(built_in(args, name, injections)?),
        Some(path) => Some(from_file(args, Path::new(path), injections)?),
    };
    if second.as_ref().is_some_and(|s| is_client(s.side)) {
        return Err("--answer: this scenario begins calls; one that begins with a <recv> is wanted".into());
    }
    match (first.side, second) {
        (Side::Client, second) => Ok((Some(first), second)),
        (Side::Server, None) => Ok((None, Some(first))),
        (Side::Server, Some(_)) => Err("--answer: the scenario itself answers calls already".into()),
    }
}

fn built_in(args: &LoadArgs, name: &str, injections: &Injections) -> Result<Scenario, String> {
    let Some(text) = scenario::builtin(name) else {
        if let Some(why) = sipp::no_such_builtin(name) {
            return Err(format!("-sn {name}: {why}"));
        }
        return Err(format!("-sn {name}: no such scenario; `strowger load -sn list` shows them"));
    };
    parse(args, name, text.as_bytes(), injections)
}

/// What is said where a scenario's file cannot be read.
const NO_SCENARIO: &str = "name a scenario file; `strowger load -sn list` shows the built-in ones, and -sd NAME prints one to begin with";

fn from_file(args: &LoadArgs, path: &Path, injections: &Injections) -> Result<Scenario, String> {
    parse(args, &path.display().to_string(), &read(path, NO_SCENARIO)?, injections)
}

fn parse(args: &LoadArgs, name: &str, text: &[u8], injections: &Injections) -> Result<Scenario, String> {
    let mut keys: Vec<(String, String)> =
        args.key.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    if keys.iter().all(|(key, _)| key != DOMAIN) {
        keys.push((DOMAIN.to_owned(), host_of(args.target.as_deref().unwrap_or("localhost"))));
    }
    let around = Surroundings { keys: &keys, injections, read_file: &|name| std::fs::read(name) };
    scenario::parse(name, text, &around).map_err(|problems| listed(&problems))
}

/// The address that messages leave from: the given one, or the one that the route to the target has.
pub(super) fn local_address(args: &LoadArgs, remote: SocketAddr) -> Result<IpAddr, String> {
    let given = match (args.local_ip, &args.sipp.from) {
        (Some(ip), _) => Some(ip),
        (None, Some(text)) => {
            Some(sockets::addresses(text)?.first().copied().ok_or_else(|| "-i: no address".to_owned())?)
        }
        (None, None) => None,
    };
    if let Some(ip) = given {
        if remote.port() != 0 && !args.self_test && ip.is_ipv4() != remote.is_ipv4() {
            let family = if remote.is_ipv4() { "IPv4" } else { "IPv6" };
            return Err(format!("-i {ip}: {remote} cannot be reached from there; give an {family} address"));
        }
        return Ok(ip);
    }
    if args.self_test {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    if remote.port() == 0 {
        return Ok(IpAddr::from([0, 0, 0, 0]));
    }
    let any = if remote.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let routed = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(remote)?;
        socket.local_addr()
    });
    routed.map(|a| a.ip()).map_err(|error| format!("there is no way to {remote}: {error}"))
}

/// Connections here are our own and the server's; none is an attacker's.
pub(super) fn streams() -> StreamLimits {
    StreamLimits { max_per_source: u32::MAX, idle: Duration::from_secs(86_400), ..StreamLimits::default() }
}

fn facts(
    args: &LoadArgs,
    (transport, calls): (Transport, bool),
    remote: SocketAddr,
    local: IpAddr,
    bound: &Bound,
) -> Run {
    let text = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let host = host_of(args.target.as_deref().unwrap_or_default());
    let ips: Vec<IpAddr> = bound.listeners().iter().map(|l| l.address.ip()).collect();
    let one_ip = ips.iter().all(|ip| *ip == local);
    let ports: Vec<u16> = bound.listeners().iter().map(|l| l.address.port()).collect();
    let one_port = ports.first().copied().filter(|port| ports.iter().all(|other| other == port));
    Run {
        service: args.service.clone(),
        remote_host: host,
        remote_ip: text(remote.ip()),
        remote_port: remote.port(),
        transport: transport.via_name(),
        media_ip: args.mi.unwrap_or(local).to_string(),
        media_port: args.mp,
        pid: std::process::id(),
        auth_user: args.au.clone().unwrap_or_else(|| args.service.clone()).into_bytes(),
        auth_password: args.ap.clone().into_bytes(),
        auth_uri: args.sipp.auth_uri.as_deref().map(with_scheme),
        users: args.sipp.callers.map_or(-1, |users| users.try_into().unwrap_or(i64::MAX)),
        local_ip: ways::alias(transport, calls, fresh_seed() as u32).or(one_ip.then(|| text(local))),
        local_port: one_port,
        version: concat!("strowger ", env!("CARGO_PKG_VERSION")),
    }
}

/// The uri of credentials. SIPp's is given without a scheme.
fn with_scheme(uri: &str) -> Vec<u8> {
    let is = |scheme: &str| uri.get(..scheme.len()).is_some_and(|own| own.eq_ignore_ascii_case(scheme));
    let known = ["sip:", "sips:", "tel:"].into_iter().any(is);
    format!("{}{uri}", if known { "" } else { "sip:" }).into_bytes()
}

pub(super) fn arrivals(args: &LoadArgs) -> Result<Arrivals, String> {
    let wrong = |error: load::population::Impossible| error.to_string();
    let searching = args.find_peak || args.self_test;
    if args.rate_max > 0.0 && args.rate_increase == 0.0 && !searching {
        return Err(format!(
            "-rate_max {}: nothing raises the rate. Add -rate_increase CALLS (each -rate_interval), or --find-peak",
            args.rate_max
        ));
    }
    if let Some(path) = &args.trace {
        let bytes = read(path, "--trace wants a file with a time in seconds on each line")?;
        return Arrivals::trace(&String::from_utf8_lossy(&bytes), &path.display().to_string()).map_err(wrong);
    }
    if let Some(arrivals) = &args.arrivals {
        let mut ever = arrivals.times(0, 0, 1, None);
        return match ever.next() {
            Some(_) => Ok(arrivals.clone()),
            None => Err("--arrivals: no call would ever begin; give a rate above 0".into()),
        };
    }
    let options = RateOptions {
        r: args.rate(),
        rp: args.rp,
        rate_increase: args.rate_increase,
        rate_interval: args.rate_interval,
        rate_max: args.rate_max,
        no_rate_quit: args.no_rate_quit,
    };
    let spacing = if args.poisson { Spacing::Poisson } else { Spacing::Even };
    Arrivals::at_rate(options.profile().map_err(wrong)?, spacing).map_err(wrong)
}

fn parameters(args: &LoadArgs, arrivals: Option<&Arrivals>, workers: usize) -> Vec<Fact> {
    let mut facts = vec![Fact::new("workers", workers), Fact::new("transport", &args.transport)];
    facts.extend(secure::fact(args));
    match args.sipp.callers {
        Some(1) => facts.push(Fact::new(
            "arrivals",
            "closed loop: one user, which begins a call when its last one is over",
        )),
        Some(users) => {
            let loops = format!(
                "closed loop: {users} users, each begins a call when its last one is over; at first {} a second",
                Users::RATE
            );
            facts.push(Fact::new("arrivals", loops));
        }
        None => facts.extend(arrivals.map(|arrivals| Fact::new("arrivals", arrivals))),
    }
    if let Some(most) = args.most {
        facts.push(Fact::new("calls", most));
    }
    if args.sipp.callers.is_none() {
        facts.push(Fact::new("calls at a time, at most", args.limit.unwrap_or(MOST_CALLS)));
    }
    facts.push(waiting(args));
    facts.extend(sockets::unnoted(args));
    if args.lost > 0.0 {
        facts.push(Fact::new("messages lost on purpose, sent and received", format!("{} %", args.lost)));
    }
    facts.push(Fact::new("pause where none is given, ms", args.pause));
    facts
}

/// How long messages may wait for each other. Over TCP and TLS nobody notes when one came, so none waits.
pub(super) fn waiting(args: &LoadArgs) -> Fact {
    let waits = if args.over() == Transport::Udp { grain(args) } else { Duration::ZERO };
    let waits = if waits.is_zero() {
        "nothing".to_owned()
    } else {
        format!("{} ms, after a silence twice that", args.grain)
    };
    Fact::new("frequent messages wait for each other, at most", waits)
}

pub(super) fn fresh_seed() -> u64 {
    // Nothing depends on its being secret.
    wall_micros().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id())
}

#[allow(clippy::disallowed_methods, reason = "the wall clock for [date], and for a seed")]
pub fn wall_micros() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| d.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The workers of a run of a scenario of these actions, or why there is none.
    fn workers_of(line: &str, action: &str) -> Result<usize, String> {
        let load = LoadArgs::of(["--quiet"].into_iter().chain(line.split_whitespace()));
        let text = scenario::builtin("uac").unwrap_or_default();
        let own = format!("<Global variables=\"g\"/><nop><action>{action}</action></nop><send retrans");
        let text = text.replacen("<send retrans", &own, 1);
        let scenario = Some(parse(&load, "x", text.as_bytes(), &Injections::default())?);
        workers(&load, [&scenario, &None])
    }

    #[test]
    fn messages_leave_together_unless_switched_off() {
        let together = |line: &str| segment(&LoadArgs::of(line.split_whitespace()));
        assert!(together("") && together("--udp-segmentation on --grain 0"));
        assert!(!together("--grain 0") && !together("--udp-segmentation off"));
    }

    #[test]
    fn what_calls_share_is_one_workers() {
        const ADD: &str = "<add assign_to=\"g\" value=\"1\"/>";
        assert_eq!(workers_of("--workers 4", "<log message=\"[$g]\"/>"), Ok(4));
        assert_eq!((workers_of("", ADD), workers_of("--workers 1", ADD)), (Ok(1), Ok(1)));
        assert!(workers_of("--workers 2", ADD).is_err_and(|why| why.contains("<Global>")));
    }

    #[test]
    fn who_begins_more_calls_than_usual_can_answer_them() {
        let usual = most_callees(None, None);
        assert!(usual >= MOST_CALLS && most_callees(Some(5), Some(5)) == usual);
        assert_eq!(most_callees(Some(usual + 1), None), usual + 1);
        assert_eq!(most_callees(None, Some(usual as u64 + 2)), usual + 2);
    }

    #[test]
    fn a_closed_loop_is_called_one() {
        let arrivals_of = |line: &str| {
            let load = LoadArgs::of(line.split_whitespace());
            let open = load.sipp.callers.is_none();
            let arrivals = open.then(|| arrivals(&load)).transpose().expect("possible");
            let facts = parameters(&load, arrivals.as_ref(), 1);
            facts
                .into_iter()
                .filter(|fact| fact.name == "arrivals")
                .map(|fact| fact.value)
                .collect::<Vec<_>>()
        };
        let loops = ["--callers 5", "--callers 50"].map(arrivals_of);
        assert!(loops[0][0].starts_with("closed loop: 5 users"), "{loops:?}");
        assert_ne!(loops[0], loops[1], "a comparison has to warn");
        assert_eq!((loops[0].len(), arrivals_of("-r 10").len()), (1, 1));
        assert!(!arrivals_of("-r 10")[0].contains("closed"));
    }

    #[test]
    fn a_limit_is_shared_to_the_last_call() {
        assert_eq!(workers_of("-l 2 --workers 8", ""), Ok(2));
        for (all, workers) in [(1, 1), (5, 3), (8, 3), (1_000_000, 7)] {
            assert_eq!((0..workers).map(|worker| share(all, worker, workers)).sum::<usize>(), all);
        }
    }

    #[test]
    fn credentials_have_a_uri_with_a_scheme() {
        for (given, want) in [
            ("foo", "sip:foo"),
            ("example.com:5060", "sip:example.com:5060"),
            ("sip:foo", "sip:foo"),
            ("SIPS:a@b", "SIPS:a@b"),
            ("", "sip:"),
        ] {
            assert_eq!(with_scheme(given), want.as_bytes());
        }
    }
}
