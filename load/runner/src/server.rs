//! What the run costs the server, where that is a process on this machine: its processor time, memory and
//! the packets that its sockets lost, read from /proc.

use super::scrape::Scrape;
use load::report::Fact;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use wire::Time;
use worker_runtime::monotonic_now;

/// The processes of a server.
pub struct Server {
    pids: Vec<u32>,
    /// What the first of them is called.
    name: String,
    /// Its UDP sockets at the target's address.
    datagrams: BTreeSet<u64>,
    /// What its threads have used.
    threads: Mutex<Threads>,
}

/// Processor time of threads. What a thread had used stays counted when it has ended.
#[derive(Debug, Default)]
struct Threads {
    /// Nanoseconds by process and thread, as last read.
    seen: BTreeMap<(u32, String), f64>,
    /// Of threads whose number another one has.
    replaced: f64,
}

impl Threads {
    /// Notes what a thread has used so far.
    fn note(&mut self, pid: u32, thread: String, nanos: f64) {
        let before = self.seen.insert((pid, thread), nanos).unwrap_or(0.0);
        if nanos < before {
            self.replaced += before;
        }
    }

    /// Reads those of a process; whether it still is.
    fn read(&mut self, pid: u32) -> bool {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
        for task in tasks.flatten() {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            if let Some(nanos) = text.split_whitespace().next().and_then(|word| word.parse().ok()) {
                self.note(pid, task.file_name().to_string_lossy().into_owned(), nanos);
            }
        }
        true
    }

    /// Of all, seconds.
    fn seconds(&self) -> f64 {
        (self.replaced + self.seen.values().sum::<f64>()) / 1e9
    }
}

/// Readings of the kernel's lists of sockets without anything new, after which nothing is missing. The lists
/// come a page at a time, and each page begins at a count of sockets: where one before it has been closed
/// since the page before, another is left out. Beside a program that does nothing but open and close sockets
/// that is one reading of six.
const FRUITLESS: usize = 8;
/// No longer than this, for lists of a hundred thousand sockets; twice in any case.
const READING_MAX: Duration = Duration::from_secs(1);

/// Reads until nothing new comes. `read` reads once more and says how much is known by now; `all`: more than
/// that there cannot be.
fn read_all(all: usize, mut read: impl FnMut() -> usize) {
    let (begun, mut known, mut fruitless) = (monotonic_now(), 0, 0);
    for readings in 1.. {
        let now = read();
        fruitless = if now > known { 0 } else { fruitless + 1 };
        known = now;
        if known >= all
            || fruitless >= FRUITLESS
            || (readings > 1 && monotonic_now().since(begun) > READING_MAX)
        {
            return;
        }
    }
}

/// What it had used at some moment.
#[derive(Clone, Copy, Default, Debug)]
struct Used {
    cpu_seconds: f64,
    drops: u64,
    /// How many of its processes there still are. What has ended takes its figures with it.
    alive: usize,
}

impl Server {
    /// The process with this id and its children; without an id, the one that has the socket at `target`.
    /// None: it is not on this machine, or belongs to another user.
    pub fn find(pid: Option<u32>, target: SocketAddr) -> Option<Server> {
        let Sockets { datagrams, listeners } = sockets(target);
        let pids = match pid {
            Some(pid) => family(pid),
            None => owners(&datagrams.union(&listeners).copied().collect()),
        };
        let name = name(*pids.first()?);
        Some(Server { pids, name, datagrams, threads: Mutex::default() })
    }

    fn used(&self) -> Used {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = self.pids.iter().filter(|pid| threads.read(**pid)).count();
        Used { cpu_seconds: threads.seconds(), drops: self.drops(), alive }
    }

    fn drops(&self) -> u64 {
        let mut drops: BTreeMap<u64, u64> = BTreeMap::new();
        // One that has been closed meanwhile is looked for in vain.
        read_all(self.datagrams.len(), || {
            for path in ["/proc/net/udp", "/proc/net/udp6"] {
                let text = fs::read_to_string(path).unwrap_or_default();
                let found = text.lines().filter_map(inode_and_drops);
                drops.extend(found.filter(|(inode, _)| self.datagrams.contains(inode)));
            }
            drops.len()
        });
        drops.values().sum()
    }

    /// Memory in bytes, what processes share counted once; and whether that is so.
    fn memory(&self) -> (u64, bool) {
        let of = |pid: &u32, file: &str, key: &str| {
            let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
        };
        let shared: Option<u64> = self.pids.iter().map(|pid| of(pid, "smaps_rollup", "Pss:")).sum();
        match shared {
            Some(bytes) => (bytes, true),
            None => (self.pids.iter().filter_map(|pid| of(pid, "status", "VmRSS:")).sum(), false),
        }
    }
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| String::new(), |s| s.trim().to_owned())
}

/// Whether an address is one of this machine's: a packet to it would leave from it. (That a socket can be
/// bound there says nothing where `ip_nonlocal_bind` is set.)
fn is_here(ip: IpAddr) -> bool {
    let any = if ip.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let routed = || {
        let socket = UdpSocket::bind(any)?;
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    ip.is_loopback() || routed().is_ok_and(|local| local.ip() == ip)
}

/// A socket of a line of /proc/net/udp, by its inode, and how many packets it has lost.
fn inode_and_drops(line: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Some((words.get(9)?.parse().ok()?, words.last()?.parse().ok()?))
}

/// Inodes of sockets at an address: UDP sockets bound there, TCP sockets that listen there.
#[derive(Default)]
struct Sockets {
    datagrams: BTreeSet<u64>,
    listeners: BTreeSet<u64>,
}

/// The sockets at an address. One at the unspecified address counts if the address is this machine's.
fn sockets(target: SocketAddr) -> Sockets {
    let mut found = Sockets::default();
    let here_too = is_here(target.ip());
    let is_target = |text: &str| {
        local_address(text).is_some_and(|(ip, port)| {
            port == target.port() && (ip == target.ip() || (here_too && ip.is_unspecified()))
        })
    };
    read_all(usize::MAX, || {
        for (path, listening) in [("udp", false), ("udp6", false), ("tcp", true), ("tcp6", true)] {
            let text = fs::read_to_string(format!("/proc/net/{path}")).unwrap_or_default();
            for line in text.lines().skip(1) {
                let words: Vec<&str> = line.split_whitespace().collect();
                let (Some(local), Some(state), Some(inode)) = (words.get(1), words.get(3), words.get(9))
                else {
                    continue;
                };
                if is_target(local) && (!listening || *state == "0A") {
                    let kind = if listening { &mut found.listeners } else { &mut found.datagrams };
                    kind.extend(inode.parse::<u64>());
                }
            }
        }
        found.datagrams.len() + found.listeners.len()
    });
    found
}

/// An address as /proc/net writes it: words of the host's byte order in hexadecimal digits.
fn local_address(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok();
    match address.len() {
        8 => Some((IpAddr::from(word(0)?.to_ne_bytes()), port)),
        32 => {
            let mut bytes = [0; 16];
            for (at, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            Some((IpAddr::from(bytes), port))
        }
        _ => None,
    }
}

fn all_pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The processes that have one of these sockets open.
fn owners(sockets: &BTreeSet<u64>) -> Vec<u32> {
    let has = |pid: &u32| {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        files.flatten().any(|file| {
            let Ok(target) = fs::read_link(file.path()) else { return false };
            let text = target.to_string_lossy();
            let inode = text.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
            inode.and_then(|inode| inode.parse().ok()).is_some_and(|inode| sockets.contains(&inode))
        })
    };
    if sockets.is_empty() { Vec::new() } else { all_pids().into_iter().filter(has).collect() }
}

/// A process and those that it started, directly or not.
fn family(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all_pids()
        .into_iter()
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name may hold anything, but no further parenthesis follows it.
            let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut all: Vec<u32> = parents.iter().filter(|(own, _)| *own == pid).map(|(own, _)| *own).collect();
    let mut at = 0;
    while let Some(&parent) = all.get(at) {
        all.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(own, _)| *own));
        at += 1;
    }
    all
}

/// Looks at the server when the measured window begins and when it ends.
pub struct Watch {
    server: Option<Server>,
    metrics: Option<Scrape>,
    window: (Time, Time),
    /// What the calls cost is known to the end of the run: none was there before the window.
    whole: bool,
    begin: Option<(Time, Used)>,
    end: Option<(Time, Used)>,
}

impl Watch {
    /// Of this window. A server that cannot be found is not watched.
    pub fn new(server: Option<Server>, window: (Time, Time)) -> Watch {
        Watch { server, metrics: None, window, whole: false, begin: None, end: None }
    }

    /// The window begins with the run: each call costs its share of all that the run does, what is done after
    /// the window included. Otherwise calls of before end in the window as others of it end later, and its
    /// own processor time is what they cost.
    pub fn over_the_whole_run(&mut self) {
        self.whole = true;
    }

    /// The window ends now, if it has not.
    pub fn close(&mut self, now: Time) {
        if now > self.window.0 {
            self.window.1 = self.window.1.min(now);
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.close(now);
        }
    }

    /// Its metrics endpoint is asked, too.
    pub fn ask(&mut self, metrics: Option<Scrape>) {
        self.metrics = metrics;
    }

    /// To be called often.
    pub fn look(&mut self, now: Time) {
        if let Some(metrics) = &mut self.metrics {
            metrics.look(now);
        }
        let Some(server) = &self.server else { return };
        if self.begin.is_none() && now >= self.window.0 {
            self.begin = Some((now, server.used()));
        }
        if self.end.is_none() && now >= self.window.1 {
            self.end = Some((now, server.used()));
        }
    }

    /// The run is over: waits for what the metrics endpoint has to say.
    pub fn finish(&mut self) {
        if let Some(metrics) = &mut self.metrics {
            metrics.finish();
        }
    }

    /// The server's processor time in the window, per cent of one core: by the kernel where the process is on
    /// this machine, otherwise by its metrics.
    pub fn cpu_percent(&self, now: Time) -> Option<f64> {
        let by_kernel = self.between(now).map(|(seconds, used)| used.cpu_seconds / seconds * 100.0);
        by_kernel.or_else(|| self.metrics.as_ref()?.cpu_percent())
    }

    /// The server's memory at the end, MiB, likewise.
    pub fn memory_mib(&self) -> Option<f64> {
        let by_kernel =
            self.server.as_ref().map(|server| server.memory().0 as f64).filter(|&bytes| bytes > 0.0);
        let bytes = by_kernel.or_else(|| self.metrics.as_ref()?.memory())?;
        Some(bytes / f64::from(1 << 20))
    }

    /// The window's beginning and its end so far, if both were seen.
    fn moments(&self, now: Time) -> Option<[(Time, Used); 2]> {
        Some([self.begin?, self.end.or_else(|| Some((now, self.server.as_ref()?.used())))?])
    }

    /// Seconds of the window, and what was used in it; none if a process ended in between.
    fn between(&self, now: Time) -> Option<(f64, Used)> {
        let [(from, before), (until, after)] = self.moments(now)?;
        let seconds = until.since(from).as_secs_f64();
        let used = Used {
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            drops: after.drops.saturating_sub(before.drops),
            alive: after.alive,
        };
        (seconds > 0.0 && after.alive == before.alive).then_some((seconds, used))
    }

    /// What the report says of the server; `calls` began in the window.
    pub fn facts(&self, now: Time, calls: u64) -> Vec<Fact> {
        let mut facts = self.process_facts(now, calls);
        facts.extend(self.metrics.iter().flat_map(Scrape::facts));
        facts
    }

    fn process_facts(&self, now: Time, calls: u64) -> Vec<Fact> {
        let Some(server) = &self.server else { return Vec::new() };
        if let Some([(_, before), (_, after)]) = self.moments(now).filter(|[a, b]| b.1.alive < a.1.alive) {
            let (ended, all) = (before.alive - after.alive, before.alive);
            let text =
                format!("{}: {ended} of {all} ended during the run, so it has no figures", server.name);
            return vec![Fact::new("process", text)];
        }
        let Some((seconds, used)) = self.between(now) else { return Vec::new() };
        let (memory, shared) = server.memory();
        let mut facts = vec![
            Fact::new("process", format!("{} ({} in all)", server.name, server.pids.len())),
            Fact::new("processor time, measured window", format!("{:.2} s", used.cpu_seconds)),
            Fact::new("share of one core", format!("{:.1} %", used.cpu_seconds / seconds * 100.0)),
        ];
        let all = self.begin.filter(|_| self.whole).map(|(_, at)| server.used().cpu_seconds - at.cpu_seconds);
        if calls > 0 {
            let each = all.unwrap_or(used.cpu_seconds) * 1e6 / calls as f64;
            facts.push(Fact::new(
                "processor time for each call, registrations included",
                format!("{each:.0} us"),
            ));
        }
        let kind = if shared { "memory at the end (PSS)" } else { "memory at the end (RSS)" };
        facts.push(Fact::new(kind, format!("{:.1} MiB", memory as f64 / f64::from(1 << 20))));
        facts.push(Fact::new("packets lost by its sockets, measured window", used.drops));
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn a_socket_leads_to_its_process() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let target = socket.local_addr().expect("its address");
        let server = Server::find(None, target).expect("this process");
        assert_eq!(server.pids, [std::process::id()]);
        assert!(server.used().cpu_seconds > 0.0 && server.memory().0 > 0);
        drop(socket);
        assert!(Server::find(None, target).is_none());
    }

    #[test]
    fn threads_that_ended_stay_counted() {
        let mut threads = Threads::default();
        threads.note(1, "1".to_owned(), 2e9);
        threads.note(1, "2".to_owned(), 3e9);
        // The second has ended, and a later one has its number.
        threads.note(1, "1".to_owned(), 4e9);
        assert_eq!(threads.seconds(), 7.0);
        threads.note(1, "2".to_owned(), 1e9);
        assert_eq!(threads.seconds(), 8.0);
    }

    #[test]
    fn reading_ends_when_nothing_new_comes() {
        let readings = |all: usize, known: &[usize]| {
            let mut made = 0;
            read_all(all, || {
                made += 1;
                *known.get(made - 1).or(known.last()).expect("a number")
            });
            made
        };
        assert_eq!(readings(usize::MAX, &[0]), FRUITLESS);
        assert_eq!(readings(usize::MAX, &[1]), 1 + FRUITLESS);
        // The last that may bring something does.
        assert_eq!(readings(usize::MAX, &[0, 0, 0, 0, 0, 0, 0, 2]), 8 + FRUITLESS);
        assert_eq!(readings(2, &[1, 1, 2]), 3);
        assert_eq!(readings(0, &[0]), 1);
    }

    /// The kernel's list of sockets leaves some out while others come and go.
    #[test]
    fn all_sockets_of_a_server_are_found_while_others_come_and_go() {
        // A port may be free for the one and not for the other.
        let pair = || {
            let listener = TcpListener::bind("127.0.0.1:0").ok()?;
            let target = listener.local_addr().ok()?;
            Some((listener, target, UdpSocket::bind(target).ok()?))
        };
        let (_listener, target, first) = (0..20).find_map(|_| pair()).expect("two sockets of one port");
        let second = UdpSocket::bind(("0.0.0.0", 0)).expect("a sender");
        let own = [&first as &dyn std::os::fd::AsRawFd, &second].map(|socket| {
            let name = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).expect("its name");
            name.to_string_lossy()
                .trim_matches(|c: char| !c.is_ascii_digit())
                .parse::<u64>()
                .expect("its inode")
        });
        let server = Server {
            pids: vec![std::process::id()],
            name: String::new(),
            datagrams: BTreeSet::from(own),
            threads: Mutex::default(),
        };
        // The first is filled until it loses some; others may be under way then.
        while server.drops() == 0 {
            for _ in 0..1_000 {
                let _ = second.send_to(&[0; 1_000], target);
            }
        }
        let mut lost = server.drops();
        while server.drops() != lost {
            lost = server.drops();
        }
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(Relaxed) {
                    drop([0; 60].map(|port| UdpSocket::bind(("127.0.0.1", port))));
                }
            });
            let found = (0..40).filter(|_| {
                let sockets = sockets(target);
                (sockets.datagrams.len(), sockets.listeners.len()) == (1, 1) && server.drops() == lost
            });
            let found = found.count();
            end.store(true, Relaxed);
            assert_eq!(found, 40);
        });
    }

    #[test]
    fn a_socket_of_all_addresses_is_no_other_machines() {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let port = socket.local_addr().expect("its address").port();
        assert!(Server::find(None, SocketAddr::from(([127, 0, 0, 9], port))).is_some());
        assert!(
            Server::find(None, SocketAddr::from(([192, 0, 2, 1], port))).is_none(),
            "a documentation address"
        );
        assert!(is_here(IpAddr::from([127, 0, 0, 9])) && !is_here(IpAddr::from([192, 0, 2, 1])));
    }

    #[test]
    fn a_process_is_found_with_its_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        let family = family(std::process::id());
        assert!(family.contains(&std::process::id()) && family.contains(&child.id()));
        let _ = child.kill();
        let _ = child.wait();
        assert!(super::family(u32::MAX).is_empty());
    }

    #[test]
    fn a_server_that_ends_has_no_figures() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        let server = Server::find(Some(child.id()), "127.0.0.1:1".parse().expect("an address"));
        assert!(server.is_some());
        let mut watch = Watch::new(server, (Time::from_secs(10), Time::FAR));
        watch.look(Time::from_secs(10));
        assert!(watch.cpu_percent(Time::from_secs(11)).is_some());
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!(watch.cpu_percent(Time::from_secs(12)), None);
        assert_eq!(watch.memory_mib(), None);
        let facts = watch.facts(Time::from_secs(12), 1);
        assert_eq!(facts.len(), 1, "{facts:?}");
        assert!(facts.iter().any(|fact| fact.value.contains("1 of 1 ended during the run")), "{facts:?}");
    }

    #[test]
    fn a_window_that_is_closed_ends_there() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let server = Server::find(None, socket.local_addr().expect("its address"));
        let mut watch = Watch::new(server, (Time::from_secs(10), Time::FAR));
        watch.look(Time::from_secs(10));
        watch.close(Time::from_secs(15));
        watch.look(Time::from_secs(15));
        watch.close(Time::from_secs(30));
        watch.look(Time::from_secs(30));
        assert_eq!(watch.between(Time::from_secs(99)).map(|(seconds, _)| seconds), Some(5.0));
        // What the calls cost later is theirs too.
        let each = |watch: &Watch| {
            let facts = watch.facts(Time::from_secs(99), 1);
            let fact = facts.iter().find(|fact| fact.name.contains("each call")).expect("the cost");
            fact.value.trim_end_matches(" us").parse::<f64>().expect("a number")
        };
        let of_window = each(&watch);
        watch.over_the_whole_run();
        let before = watch.begin.map(|(_, used)| used.cpu_seconds).unwrap_or_default();
        while watch.server.as_ref().is_some_and(|s| s.used().cpu_seconds < before + of_window / 1e6 + 0.01) {}
        assert!(each(&watch) > of_window);
    }

    #[test]
    fn a_window_has_a_begin_and_an_end() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let server = Server::find(None, socket.local_addr().expect("its address"));
        let mut watch = Watch::new(server, (Time::from_secs(10), Time::from_secs(20)));
        watch.look(Time::from_secs(9));
        assert!(watch.facts(Time::from_secs(9), 1).is_empty());
        watch.look(Time::from_secs(10));
        watch.look(Time::from_secs(21));
        watch.look(Time::from_secs(99));
        assert_eq!(watch.between(Time::from_secs(99)).map(|(seconds, _)| seconds), Some(11.0));
        let facts = watch.facts(Time::from_secs(99), 1);
        assert!(facts.iter().any(|fact| fact.name.starts_with("memory")), "{facts:?}");
    }
}
