//! `strowger load --users`: a population of users against a server that they register with.

use super::args::LoadArgs;
use super::injections::NO_LINES;
use super::plan::{fresh_seed, generator, listed, local_address, read, secured, segment, streams, waiting};
use super::say;
use super::secure;
use super::sockets::unnoted;
use super::target::{host_of, remote};
use super::watch::duration;
use super::ways::{self, Sockets as Kind, Way, is_web};
use super::{Course, schedule::Schedule};
use clap::Args;
use load::engine::people::{Names, People, Settings};
use load::metrics::{Setup, Window};
use load::population::{Expected, Parameters, Phase, Phases};
use load::report::{Fact, Windows};
use load::scenario::Injection;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wire::{ListenerId, Time, Transport};
use worker_runtime::{Bound, GeneratorOptions, Listener, RuntimeConfig};

/// Users of a run at most. Each takes some 30 bytes.
pub const MOST: u64 = 100_000_000;

/// Options of a run with users.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Users")]
pub struct UsersArgs {
    /// N users register, call each other and answer; with --find-peak the number to begin with
    #[arg(long, value_name = "N", conflicts_with_all = [
        "sn", "sf", "answer", "self_test", "trace", "most", "rate", "rp", "poisson", "rate_increase",
        "pause", "au", "lost", "nr", "recv_timeout", "warm_up", "timeout", "cool_down", "key",
        "max_invite_retrans", "max_non_invite_retrans", "callers", "from", "rsa", "max_retrans", "set",
        "service", "ap", "auth_uri", "base_cseq", "aa", "nd", "default_behaviors", "t2", "infindex", "max_socket",
        "ip_field", "mi", "mp", "rate_interval", "no_rate_quit"],
        value_parser = clap::value_parser!(u64).range(1..=MOST))]
    pub users: Option<u64>,
    /// Their domain [default: the host of the target]
    #[arg(long, value_name = "NAME", requires = "users")]
    pub domain: Option<String>,
    /// Users act X times faster than in life. Every report states it
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = super::units::amount,
          requires = "users")]
    pub compress: f64,
    /// Length of the measured window on the clock [default: two hours of the users' time; --find-peak:
    /// --trial]
    #[arg(long, value_name = "TIME", requires = "users", conflicts_with = "find_peak")]
    pub measure: Option<String>,
    /// A number of the workload, such as think=30m, hold=lognormal(mean_time=180s,sigma=1) or voicemail=0;
    /// may be repeated. docs/reference/load.md lists them
    #[arg(long, value_name = "KEY=VALUE", requires = "users")]
    pub with: Vec<String>,
    /// Name of the first user; the number at its end counts up. With -inf names and passwords are those of
    /// the file
    #[arg(long, value_name = "NAME", default_value = "u1000000", requires = "users")]
    pub first_user: String,
    /// Its password; a number at the end counts up as well
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "p1000000",
        allow_hyphen_values = true,
        requires = "users"
    )]
    pub first_password: String,
    /// Write names, domain and passwords for `strowger user import`, and end; with --find-peak of as many
    /// users as -rate_max lets it try
    #[arg(long, value_name = "FILE", requires = "users")]
    pub write_users: Option<PathBuf>,
    /// Be the mailbox too, here: the server sends calls on to it when a callee says that its user is away.
    /// Without it the callees take messages themselves
    #[arg(long, value_name = "ADDR:PORT", requires = "users")]
    pub mailbox: Option<SocketAddr>,
    /// What a callee says then
    #[arg(long, value_name = "STATUS", default_value_t = 486, requires = "users",
          value_parser = clap::value_parser!(u16).range(400..700))]
    pub away: u16,
    /// Answer a challenge once and use its nonce for further requests, as many phones do
    #[arg(long, requires = "users")]
    pub reuse_nonces: bool,
    /// The server's process on this machine, for its processor time, memory and lost packets [default: the
    /// one that has the target's socket]
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// The server's metrics in Prometheus' text format, http://HOST:PORT/metrics, read before and after the
    /// measured window: `strowger serve` has them at its admin address
    #[arg(long, value_name = "URL")]
    pub server_metrics: Option<String>,
}

impl UsersArgs {
    /// The transport of the users.
    fn transport(&self, args: &LoadArgs) -> Result<Transport, String> {
        let way = Way::of(args)?;
        if way.sockets != Kind::One {
            return Err(format!(
                "-t {}: users share one connection; use u1 (UDP), t1 (TCP), l1 (TLS), w1, wss1 (WebSocket) or s1 (SCTP)",
                args.transport
            ));
        }
        if let Some(mailbox) = self.mailbox.filter(|_| is_web(way.transport)) {
            return Err(format!(
                "--mailbox {mailbox}: no server connects to a WebSocket client (RFC 7118); leave it out"
            ));
        }
        Ok(way.transport)
    }

    /// The workload's numbers.
    pub fn parameters(&self, trial: Option<Duration>) -> Result<Parameters, String> {
        let mut parameters = Parameters {
            users: self.users.unwrap_or_default(),
            compression: self.compress,
            ..Parameters::default()
        };
        if trial.is_some() {
            // A search makes many runs. Requests without an answer at the end have failed all the same.
            parameters.cool_down = 10.0;
        }
        for pair in &self.with {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("--with {pair}: KEY=VALUE is wanted, such as think=30m"));
            };
            if matches!(key, "users" | "compression") {
                return Err(format!("--with {key}: use --users and --compress"));
            }
            parameters.set(key, value).map_err(|error| format!("--with {error}"))?;
        }
        let measured = match (&self.measure, trial) {
            (Some(text), _) => Some(duration(text)?),
            (None, trial) => trial,
        };
        if let Some(measured) = measured {
            parameters.measure = measured.as_secs_f64() * self.compress;
        }
        parameters.check().map_err(|error| error.to_string())?;
        Ok(parameters)
    }

    /// How long a trial lasts that measures for this time.
    pub fn length(&self, trial: Duration) -> Result<Duration, String> {
        let phases = Phases::of(&self.parameters(Some(trial))?, Time::ZERO);
        Ok(phases.start_of(Phase::Over).since(Time::ZERO))
    }

    fn names(&self, args: &LoadArgs, users: u64) -> Result<Names, String> {
        match args.inf.as_slice() {
            [] => Names::counted(&self.first_user, &self.first_password),
            [path] => Names::listed(listed_in(path)?, users),
            _ => Err("--users: one -inf file holds all names and passwords".to_owned()),
        }
    }

    /// Users that there are names for.
    pub fn most(&self, args: &LoadArgs) -> Result<u64, String> {
        match args.inf.as_slice() {
            [path] => Ok(u64::from(listed_in(path)?.lines()).min(MOST)),
            _ => Ok(MOST),
        }
    }

    pub fn domain(&self, args: &LoadArgs) -> String {
        self.domain.clone().unwrap_or_else(|| host_of(args.target.as_deref().unwrap_or_default()))
    }
}

/// Names and passwords in a file.
fn listed_in(path: &Path) -> Result<Injection, String> {
    let name = path.display().to_string();
    Injection::parse(&name, &read(path, NO_LINES)?).map_err(|problems| listed(&problems))
}

/// How many users `--write-users` writes: all that may be tried.
fn to_write(args: &LoadArgs) -> Result<u64, String> {
    let users = args.people.users.unwrap_or_default();
    match args.find_peak {
        false => Ok(users),
        true if args.rate_max > 0.0 => Ok(users.max((args.rate_max as u64).min(args.people.most(args)?))),
        true => Err(format!(
            "--write-users: --find-peak tries more than --users {users}; give the maximum with -rate_max, which is the \
             number written"
        )),
    }
}

/// `--write-users`: a file that `strowger user import` reads.
pub fn write_users(args: &LoadArgs, path: &Path) -> Result<(), String> {
    let users = to_write(args)?;
    let (names, domain) = (args.people.names(args, users)?, args.people.domain(args));
    if domain.is_empty() {
        return Err("--write-users: name the users' domain with --domain".to_owned());
    }
    let fail = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    let mut file = std::io::BufWriter::new(for_owner(path).map_err(fail)?);
    file.write_all(b"username,domain,password\n").map_err(fail)?;
    let mut line = Vec::new();
    for user in 0..users {
        line.clear();
        names.user(user, &mut line);
        line.push(b',');
        line.extend_from_slice(domain.as_bytes());
        line.push(b',');
        let password = line.len();
        names.password(user, &mut line);
        if line.iter().skip(password).any(|b| matches!(b, b',' | b'"' | b'\r' | b'\n')) {
            return Err(format!("the password of user {} cannot stand in a CSV file as it is", user + 1));
        }
        line.push(b'\n');
        file.write_all(&line).map_err(fail)?;
    }
    file.flush().map_err(fail)?;
    say::out(format_args!("{users} users of {domain} in {}\n", path.display()));
    Ok(())
}

/// A new file, or an old one made empty, that nobody else may read.
fn for_owner(path: &Path) -> std::io::Result<std::fs::File> {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // What is no file of its own, such as a pipe, keeps its mode.
    if file.metadata()?.is_file() {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// The port of the first worker's users if -p names none. A fixed one: what users registered in an earlier
/// run is registered again, instead of a second binding beside one where nobody is any more.
const PORT: u16 = 6_060;

/// A run that can begin.
pub struct UsersPlan {
    pub title: String,
    pub parameters: Parameters,
    pub facts: Vec<Fact>,
    pub seed: u64,
    pub bound: Bound,
    pub remote: SocketAddr,
    settings: Settings,
    workers: u16,
}

impl UsersPlan {
    /// Checks everything and opens the sockets.
    pub fn new(args: &LoadArgs, trial: Option<Duration>) -> Result<UsersPlan, String> {
        let people = &args.people;
        if args.rate_max > 0.0 && trial.is_none() {
            return Err(
                "-rate_max: with --users it is the most users that --find-peak tries; add --find-peak".into(),
            );
        }
        let parameters = people.parameters(trial)?;
        let names = people.names(args, parameters.users)?;
        let transport = people.transport(args)?;
        let remote = remote(args, true)?;
        let local = local_address(args, remote)?;
        let workers = match args.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let workers = u16::try_from(workers).map_err(|_| "too many workers")?;
        let mut listeners = Vec::new();
        listeners.extend(people.mailbox.map(|address| Listener { transport, address }));
        let own_from = listeners.len();
        let first = args.local_port.unwrap_or(PORT);
        for worker in 0..workers {
            let port =
                first.checked_add(worker).ok_or("-p: there are not enough ports; choose a lower one")?;
            listeners.push(Listener { transport, address: SocketAddr::new(local, port) });
        }
        let peer = (transport == Transport::Udp).then_some(remote);
        let config = RuntimeConfig {
            listeners,
            own_from,
            first: args.realtime,
            generator: GeneratorOptions { peer, ..generator(args) },
            segment: segment(args),
            streams: streams(),
            ..RuntimeConfig::default()
        };
        // The server opens the connections to the mailbox.
        let config = secured(args, people.mailbox.is_some(), config)?;
        let bound = Bound::new(config, usize::from(workers)).map_err(|error| error.to_string())?;
        let seed = args.seed.unwrap_or_else(fresh_seed);
        let settings = Settings {
            worker: 0,
            workers,
            run_id: seed as u32 ^ std::process::id(),
            parameters: parameters.clone(),
            names: Arc::new(names),
            domain: people.domain(args),
            transport,
            remote,
            listeners: bound.listeners().iter().map(|listener| listener.address).collect(),
            alias: ways::alias(transport, true, fresh_seed() as u32),
            own_from: own_from as u16,
            mailbox: people.mailbox.map(|_| ListenerId(0)),
            away: people.away,
            reuse_nonces: people.reuse_nonces,
            most_calls: args.limit.unwrap_or(1_000_000).div_ceil(usize::from(workers)),
            seed,
            start: Time::ZERO,
            metrics: Setup::default(),
            ladders: args.ladders,
        };
        let title =
            format!("{} users against {}", parameters.users, args.target.as_deref().unwrap_or_default());
        let facts = facts(args, &parameters, workers);
        Ok(UsersPlan { title, parameters, facts, seed, bound, remote, settings, workers })
    }

    /// One machine for each worker. The run begins at `start`.
    pub fn people(&self, start: Time) -> Result<Vec<People>, String> {
        let phases = Phases::of(&self.parameters, start);
        let (from, until) = phases.window();
        let metrics = Setup {
            origin: start,
            window: Window { from, until },
            ramp: Some(Window { from: start, until: phases.start_of(Phase::WarmUp) }),
            ..Setup::default()
        };
        let one = |worker| {
            let metrics = metrics.clone();
            People::new(Settings { worker, start, metrics, ..self.settings.clone() })
        };
        (0..self.workers).map(one).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    /// How long it takes to prepare these users, with room; the run begins when that is done.
    pub fn preparation(&self) -> Duration {
        Duration::from_secs(1) + Duration::from_micros(4) * (self.parameters.users.min(1 << 30) as u32)
    }

    /// What the run is going to do.
    pub fn schedule(&self) -> Schedule {
        Schedule::of_users(&Phases::of(&self.parameters, Time::ZERO))
    }

    /// The phases on the clock, of a run that took this course.
    pub fn windows(&self) -> Box<dyn Fn(Course) -> Windows> {
        let phases = Phases::of(&self.parameters, Time::ZERO);
        let starts = [Phase::WarmUp, Phase::Measured, Phase::CoolDown, Phase::Over]
            .map(|phase| phases.start_of(phase).since(Time::ZERO).as_secs_f64());
        Box::new(move |course| {
            // When it is stopped, what is under way ends, as in the cool-down.
            let [warm_up, measured, cool_down, _] = starts.map(|at| at.min(course.last()));
            Windows {
                ramp: warm_up,
                warm_up: measured - warm_up,
                measured: cool_down - measured,
                cool_down: starts[3].min(course.seconds) - cool_down,
            }
        })
    }
}

fn facts(args: &LoadArgs, parameters: &Parameters, workers: u16) -> Vec<Fact> {
    let mut facts: Vec<Fact> = (parameters.describe().into_iter())
        .enumerate()
        .map(|(at, line)| Fact::new(format!("workload {}", at + 1), line))
        .collect();
    facts.insert(0, Fact::new("users", parameters.users));
    facts.push(Fact::new("expected in the steady state", expected(&parameters.expected())));
    facts.push(Fact::new(
        "voicemail",
        match args.people.mailbox {
            Some(address) => {
                format!("callees answer {}, the server sends the call to {address}", args.people.away)
            }
            None => "callees take messages themselves".to_owned(),
        },
    ));
    facts.push(Fact::new(
        "nonces",
        match args.people.reuse_nonces {
            true => "used again",
            false => "every REGISTER, INVITE and BYE is challenged",
        },
    ));
    facts.push(Fact::new("workers", workers));
    facts.push(Fact::new("transport", &args.transport));
    facts.extend(secure::fact(args));
    facts.push(waiting(args));
    facts.extend(unnoted(args));
    facts
}

fn expected(expected: &Expected) -> String {
    let mut text = format!("{:.1} registrations/s, {:.1} calls/s", expected.registrations, expected.calls);
    let _ = write!(text, ", {:.0} calls in progress", expected.in_progress());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_users_that_a_search_may_try_are_written() {
        let of = |line: &str| to_write(&LoadArgs::of(line.split(' ')));
        assert_eq!(of("--users 10"), Ok(10));
        assert_eq!(of("--users 10 --find-peak --rate-max 500"), Ok(500));
        assert!(of("--users 10 --find-peak").is_err_and(|why| why.contains("-rate_max")));
    }
}
