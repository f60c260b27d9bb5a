//! Phones that register, refresh and remove while the server is killed at any instant, and again while it
//! starts, moves its log and stops; and files of the log that lose their end. What was on the disk is there
//! afterwards, and of what came later any part, for each user up to some point. After a kill alone that is at
//! least what was answered with 200.
//!
//! Random, from a seed that is said. `STROWGER_CRASH_SEED` repeats it, `STROWGER_CRASH_ROUNDS` and
//! `STROWGER_CRASH_USERS` make it longer.

use live::{Credentials, Link, Msg, Random, Req, Server, Setup, Via, eventually, http, seed, setting};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Contacts of one user.
const CONTACTS: usize = 3;
/// Phones that register users of their own, one request after the other.
const PHONES: usize = 4;
/// Bytes of a log file before its first batch; a file without them is refused and not read in part.
const HEADER: u64 = 40;

/// The version of each contact of a user that is bound.
type State = [Option<u32>; CONTACTS];

/// What became of a user's bindings in one run of the server.
struct User {
    name: String,
    /// At first, and after each request that was sent.
    states: Vec<State>,
    /// When the answer to each of these came.
    answered: Vec<Option<Instant>>,
    cseq: u32,
    version: u32,
}

impl User {
    fn new(name: String) -> User {
        User { name, states: vec![State::default()], answered: vec![None], cseq: 0, version: 0 }
    }

    fn last(&self) -> State {
        self.states.last().copied().unwrap_or_default()
    }

    /// What was found is where the next run begins.
    fn begin(&mut self, state: State) {
        (self.states, self.answered) = (vec![state], vec![None]);
    }

    fn register(&mut self, link: &Link, lines: &[String]) -> Req {
        let mut req = Req::new("REGISTER", "sip:example.com", link).user(&self.name);
        req.to = format!("<sip:{}@example.com>", self.name);
        req.call_id = format!("call-of-{}", self.name);
        self.cseq += 2;
        req.cseq = self.cseq;
        lines.iter().fold(req, |req, line| req.with(line))
    }

    /// A change of some bindings: what to send, and the state after it.
    fn change(&mut self, random: &mut Random) -> (Vec<String>, State) {
        let mut state = self.last();
        if random.below(20) == 0 {
            return (vec!["Contact: *".to_owned(), "Expires: 0".to_owned()], State::default());
        }
        let mut lines = Vec::new();
        let first = random.below(CONTACTS as u64) as usize;
        for (at, contact) in state.iter_mut().enumerate() {
            // Mostly one, sometimes two in one request, which count together.
            if at != first && random.below(6) != 0 {
                continue;
            }
            let uri = format!("<sip:{}@192.0.2.{}:5070>", self.name, at + 1);
            if random.below(4) == 0 {
                *contact = None;
                lines.push(format!("Contact: {uri};expires=0"));
            } else {
                self.version += 1;
                *contact = Some(self.version);
                lines.push(format!(
                    "Contact: {uri};v={};expires={}",
                    self.version,
                    600 + random.below(3_000)
                ));
            }
        }
        (lines, state)
    }
}

/// The bindings in an answer.
fn state_of(answer: &Msg) -> State {
    let mut state = State::default();
    for value in answer.all("Contact").into_iter().flat_map(|value| value.split(',')) {
        let number = |from: &str, to: &[char]| -> Option<u32> {
            value.split_once(from)?.1.split(to).next()?.trim().parse().ok()
        };
        let (at, version) = (number("@192.0.2.", &[':']), number(";v=", &[';']));
        let at = at.and_then(|at| usize::try_from(at).ok()?.checked_sub(1)).expect("no contact of ours");
        *state.get_mut(at).expect("no contact of ours") = Some(version.expect("it lost its version"));
    }
    state
}

/// Sends until an answer comes or `stop`.
fn ask(link: &mut Link, req: &Req, stop: &AtomicBool) -> Option<Msg> {
    loop {
        link.send(&req.bytes());
        let answer = link.response_within(req, Duration::from_millis(500));
        if answer.is_some() || stop.load(Ordering::Acquire) {
            return answer;
        }
    }
}

/// As [`ask`] with the user's password.
fn ask_as(link: &mut Link, req: &Req, user: &str, stop: &AtomicBool) -> Option<Msg> {
    let challenged = ask(link, req, stop)?;
    if challenged.status() != Some(401) {
        return Some(challenged);
    }
    let line = live::answer(&challenged, &Credentials::new(user, "pw"), &req.method, &req.uri);
    ask(link, &req.again(link, &line), stop)
}

/// What phones and the one that kills tell each other.
#[derive(Default)]
struct Signals {
    stop: AtomicBool,
    /// The server was told to end: it takes no more registrations.
    draining: AtomicBool,
    pause: AtomicBool,
    resting: AtomicUsize,
}

/// One phone until `stop`.
fn phone(users: &mut [User], link: &mut Link, mut random: Random, signals: &Signals) {
    while !signals.stop.load(Ordering::Acquire) {
        if signals.pause.load(Ordering::Acquire) {
            signals.resting.fetch_add(1, Ordering::AcqRel);
            while signals.pause.load(Ordering::Acquire) && !signals.stop.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            signals.resting.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let user = random.below(users.len() as u64) as usize;
        let user = users.get_mut(user).unwrap();
        let (lines, state) = user.change(&mut random);
        let req = user.register(link, &lines);
        // It may be in force from here on, whether the answer comes or not.
        user.states.push(state);
        user.answered.push(None);
        let name = user.name.clone();
        let Some(answer) = ask_as(link, &req, &name, &signals.stop) else { continue };
        if answer.status() == Some(503) && signals.draining.load(Ordering::Acquire) {
            user.states.pop();
            user.answered.pop();
            continue;
        }
        assert_eq!((answer.status(), state_of(&answer)), (Some(200), state), "{name}");
        *user.answered.last_mut().unwrap() = Some(Instant::now());
    }
}

/// All that was answered up to here is on the disk: the number of states of each user, and the lengths of the
/// logs.
struct Mark {
    states: BTreeMap<String, usize>,
    logs: BTreeMap<PathBuf, u64>,
}

fn logs(server: &Server) -> BTreeMap<PathBuf, u64> {
    let entries = std::fs::read_dir(server.data()).unwrap().map(|entry| entry.unwrap().path());
    let is_log = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("location.").and_then(|name| name.strip_suffix(".log"));
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    // One that is deleted meanwhile is none.
    entries.filter(is_log).filter_map(|path| Some((path.clone(), path.metadata().ok()?.len()))).collect()
}

/// The log with the highest number.
fn newest_log(server: &Server) -> (PathBuf, u64) {
    let number = |path: &PathBuf| -> u64 {
        path.file_name().unwrap().to_str().unwrap().split('.').nth(1).unwrap().parse().unwrap()
    };
    logs(server).into_iter().max_by_key(|(path, _)| number(path)).expect("there is always one")
}

fn nothing_pending(server: &Server) {
    eventually("all is written", || {
        http(server.admin(), "GET", "/v1/status").body.contains("\"pending\":0").then_some(())
    });
}

/// How a file of the log is hurt.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Hurt {
    Cut,
    Garbage,
    Flip,
}

/// Hurts the end of `bytes` from `at` on; answers whether that can be seen at all.
fn hurt(bytes: &mut Vec<u8>, at: usize, how: Hurt, random: &mut Random) -> bool {
    match how {
        Hurt::Cut => {
            // Between two batches nothing is missing that anybody could know of.
            let seen = !bytes[at..].starts_with(b"StwgBat\n");
            bytes.truncate(at);
            seen
        }
        Hurt::Garbage => {
            bytes[at..].iter_mut().for_each(|byte| *byte ^= 1 + random.below(255) as u8);
            true
        }
        Hurt::Flip => {
            let length = bytes.len() - at;
            bytes[at + random.below(length as u64) as usize] ^= 1 << random.below(8);
            true
        }
    }
}

struct Soak {
    server: Server,
    users: Vec<User>,
    links: Vec<Link>,
    random: Random,
}

impl Soak {
    fn new(seed: u64) -> Soak {
        let users: Vec<User> =
            (0..setting("STROWGER_CRASH_USERS", 60)).map(|n| User::new(format!("user{n}"))).collect();
        let setup = users.iter().fold(Setup::new().workers(2), |setup, user| setup.user(&user.name, "pw"));
        let server = setup.start();
        let links = (0..PHONES).map(|_| server.link(Via::Udp)).collect();
        Soak { server, users, links, random: Random::new(seed) }
    }

    /// One run of the server that ends by a kill; answers the marks that were made in it.
    fn run(&mut self, gently: bool) -> Vec<Mark> {
        let (share, signals) = (self.users.len().div_ceil(PHONES), Signals::default());
        let mut marks = vec![Mark { states: BTreeMap::new(), logs: BTreeMap::new() }];
        // States that a pause found are counted by the phones' own lists, which they hold: counted after the
        // run.
        let mut pauses: Vec<(Instant, BTreeMap<PathBuf, u64>)> = Vec::new();
        let (server, random) = (&mut self.server, &mut self.random);
        std::thread::scope(|scope| {
            let phones: Vec<_> = self
                .users
                .chunks_mut(share)
                .zip(&mut self.links)
                .map(|(users, link)| {
                    let (random, signals) = (random.fork(), &signals);
                    scope.spawn(move || phone(users, link, random, signals))
                })
                .collect();
            for _ in 0..random.below(4) {
                std::thread::sleep(Duration::from_millis(random.below(500)));
                signals.pause.store(true, Ordering::Release);
                eventually("all phones rest", || {
                    let gone = phones.iter().any(|phone| phone.is_finished());
                    (gone || signals.resting.load(Ordering::Acquire) == phones.len()).then_some(())
                });
                nothing_pending(server);
                pauses.push((Instant::now(), logs(server)));
                signals.pause.store(false, Ordering::Release);
            }
            std::thread::sleep(Duration::from_millis(random.below(900)));
            if gently {
                signals.draining.store(true, Ordering::Release);
                server.signal("TERM");
                std::thread::sleep(Duration::from_millis(random.below(400)));
            }
            server.kill();
            signals.stop.store(true, Ordering::Release);
            for phone in phones {
                phone.join().expect("a phone met something unexpected");
            }
        });
        for (at, logs) in pauses {
            let before =
                |user: &User| user.answered.iter().flatten().filter(|answer| **answer < at).count() + 1;
            let states = self.users.iter().map(|user| (user.name.clone(), before(user))).collect();
            marks.push(Mark { states, logs });
        }
        marks
    }

    /// Starts again and compares. `sure`: of each user so many states were on the disk. `whole`: a batch is
    /// there as a whole or not at all.
    fn check(&mut self, sure: impl Fn(&User) -> usize, whole: bool, what: &str) {
        self.server.restart();
        let stop = AtomicBool::new(false);
        let link = self.links.first_mut().unwrap();
        for user in &mut self.users {
            let (req, name) = (user.register(link, &[]), user.name.clone());
            let answer = ask_as(link, &req, &name, &stop).unwrap();
            assert_eq!(answer.status(), Some(200));
            let found = state_of(&answer);
            let possible = user.states.get(sure(user).saturating_sub(1)..).unwrap();
            let each = |at: usize| possible.iter().any(|state| state[at] == found[at]);
            let good = if whole { possible.contains(&found) } else { (0..CONTACTS).all(each) };
            assert!(
                good,
                "{what}: {name} has {found:?} and not one of {possible:?}\nthe server said:\n{}",
                self.server.log_text()
            );
            user.begin(found);
        }
    }

    /// Hurts the end of the newest log behind the last thing that one of the marks knows of it; answers that
    /// mark, and what was done if it can be seen.
    fn hurt_log<'m>(&mut self, marks: &'m [Mark]) -> (&'m Mark, Hurt, bool) {
        let (path, length) = newest_log(&self.server);
        let random = &mut self.random;
        let how = [Hurt::Cut, Hurt::Garbage, Hurt::Flip][random.below(3) as usize];
        let at = HEADER + random.below(length.saturating_sub(HEADER));
        let mark = marks.iter().rev().find(|mark| mark.logs.get(&path).is_some_and(|known| *known <= at));
        let mut bytes = std::fs::read(&path).unwrap();
        let seen = (at as usize) < bytes.len() && hurt(&mut bytes, at as usize, how, random);
        std::fs::write(&path, bytes).unwrap();
        (mark.unwrap_or(&marks[0]), how, seen)
    }
}

#[test]
fn whatever_was_answered_outlives_any_kill() {
    let seed = seed("STROWGER_CRASH_SEED");
    println!("STROWGER_CRASH_SEED={seed}");
    let mut soak = Soak::new(seed);
    let (mut requests, mut lost) = (0, 0);
    for round in 0..setting("STROWGER_CRASH_ROUNDS", 6) {
        let kind = soak.random.below(4);
        let marks = soak.run(kind == 1);
        let sent: usize = soak.users.iter().map(|user| user.states.len() - 1).sum();
        let what = format!("seed {seed}, round {round} of kind {kind}, {sent} requests");
        requests += sent;
        if kind == 2 {
            let (mark, how, seen) = soak.hurt_log(&marks);
            let known = |user: &User| mark.states.get(&user.name).copied().unwrap_or(1);
            // A start that found a mark in no file has all of it from before, which is in the table or in
            // older files.
            soak.check(known, how != Hurt::Flip, &format!("{what}, {how:?}"));
            let said = soak.server.log_has("is no whole batch") || soak.server.log_has("damaged there");
            assert!(said || !seen, "{what}, {how:?}: not said:\n{}", soak.server.log_text());
            lost += usize::from(said);
            continue;
        }
        // Each user has one request at a time: only the last can lack its answer.
        let sure = |user: &User| 1 + user.answered.iter().flatten().count();
        soak.check(sure, true, &what);
    }
    println!("{requests} requests, {lost} logs with a lost end that was said");
    assert!(requests != 0);
}
