//! Programs that a run starts: each in a process group of its own, with its output kept. Only these groups
//! are ended.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::owner;

/// Lines of output kept; with more, those in the middle are counted only.
const FIRST_LINES: usize = 2_000;
const LAST_LINES: usize = 2_000;
/// A longer line is cut.
const LINE_MAX: u64 = 4_096;
/// Between two looks at a program that is waited for.
const LOOK: Duration = Duration::from_millis(20);
/// How long the rest of a program's output is waited for.
const DRAIN: Duration = Duration::from_secs(1);

/// What a program wrote, standard output and error together.
#[derive(Default, Debug)]
struct Lines {
    first: Vec<String>,
    last: VecDeque<String>,
    left_out: u64,
}

impl Lines {
    fn push(&mut self, line: String) {
        if self.first.len() < FIRST_LINES {
            self.first.push(line);
            return;
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
            self.left_out += 1;
        }
        self.last.push_back(line);
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.first.iter().chain(&self.last)
    }

    /// Lines so far, those left out among them.
    fn count(&self) -> u64 {
        self.left_out + u64::try_from(self.first.len() + self.last.len()).unwrap_or(u64::MAX)
    }

    /// The lines from this one on, and how many before them are kept no more.
    fn since(&self, line: u64) -> (u64, Vec<String>) {
        let first = u64::try_from(self.first.len()).unwrap_or(u64::MAX);
        // Where the last ones begin; those between are left out.
        let last = first + self.left_out;
        let skip = |line: u64| usize::try_from(line).unwrap_or(usize::MAX);
        let head = self.first.iter().skip(skip(line));
        let tail = self.last.iter().skip(skip(line.saturating_sub(last)));
        let lost = last.saturating_sub(line.max(first));
        (lost, head.chain(tail).cloned().collect())
    }
}

/// A started program. Dropped, it is ended.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Pid,
    lines: Arc<Mutex<Lines>>,
    readers: Vec<JoinHandle<()>>,
    ended: Option<ExitStatus>,
    /// Lines that [`Process::news`] has told.
    told: u64,
}

impl Process {
    /// Starts a program in a process group of its own, so that Ctrl-C at the keyboard does not reach it. It
    /// may use these processors; empty: all.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(command: &mut Command, cpus: &[u32]) -> io::Result<Process> {
        owner::mark(command);
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut groups = groups();
        let mut child = spawn_on(piped.process_group(0), cpus)?;
        groups.insert(child.id());
        drop(groups);
        let group = Pid::from_child(&child);
        let lines = Arc::new(Mutex::new(Lines::default()));
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|output| Box::new(output) as Box<dyn Read + Send>),
            child.stderr.take().map(|output| Box::new(output) as Box<dyn Read + Send>),
        ];
        let readers =
            outputs.into_iter().flatten().map(|output| reader(output, Arc::clone(&lines))).collect();
        Ok(Process { child, group, lines, readers, ended: None, told: 0 })
    }

    /// Runs a program to its end, like all others; what it wrote.
    ///
    /// # Errors
    /// That it did not start, did not end in time, was ended because of `stop`, or failed: with its last
    /// lines.
    pub fn finish(
        command: &mut Command,
        limit: Duration,
        stop: impl FnMut() -> bool,
    ) -> Result<String, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut process = Process::start(command, &[]).map_err(|error| format!("{name}: {error}"))?;
        let status = process.wait_until(Instant::now() + limit, stop);
        process.kill();
        match status {
            Some(status) if status.success() => Ok(process.output()),
            Some(_) => Err(process.tail(5)),
            None => Err(format!("it was ended before its end, with {limit:?} allowed: {}", process.tail(5))),
        }
    }

    /// Whether it has not ended by itself.
    pub fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    /// Its exit status, if it has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Waits for the line with which Strowger says that it is ready. A program that has ended is not ready.
    ///
    /// # Errors
    /// What went wrong, with the program's last lines.
    pub fn wait_until_ready(&mut self, limit: Duration) -> Result<(), String> {
        let until = Instant::now() + limit;
        loop {
            if !self.is_running() {
                self.drain();
                return Err(format!("it ended before it was ready: {}", self.tail(5)));
            }
            if self.locked().all().any(|line| is_ready(line)) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("it was not ready within {limit:?}: {}", self.tail(5)));
            }
            thread::sleep(LOOK);
        }
    }

    /// When a generator that is ready has its first message, by its line.
    pub fn begins(&self) -> Instant {
        let of_line = |line: &String| {
            let (_, after) = line.split_once("; begins in ").filter(|_| is_ready(line))?;
            Duration::try_from_secs_f64(after.split_whitespace().next()?.parse().ok()?).ok()
        };
        Instant::now() + self.locked().all().find_map(of_line).unwrap_or_default()
    }

    /// Waits for its end; nothing if it still runs at `until` or `stop` says so.
    pub fn wait_until(&mut self, until: Instant, mut stop: impl FnMut() -> bool) -> Option<ExitStatus> {
        loop {
            if let Some(status) = self.status() {
                return Some(status);
            }
            if Instant::now() >= until || stop() {
                return None;
            }
            thread::sleep(LOOK);
        }
    }

    /// Its output, one string; a line says how many were left out.
    pub fn output(&self) -> String {
        let lines = self.locked();
        let mut text = String::new();
        for line in &lines.first {
            text.push_str(line);
            text.push('\n');
        }
        if lines.left_out > 0 {
            text.push_str(&format!("[{} lines left out]\n", lines.left_out));
        }
        for line in &lines.last {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// What it wrote since the last call, whole lines. A line says how many were too many to be kept.
    pub fn news(&mut self) -> Vec<String> {
        let told = self.told;
        let lines = self.locked();
        let (lost, mut news) = lines.since(told);
        let count = lines.count();
        drop(lines);
        self.told = count;
        if lost > 0 {
            news.insert(0, format!("[{lost} lines left out]"));
        }
        news
    }

    /// The last lines of its output, on one line.
    pub fn tail(&self, lines: usize) -> String {
        let all: Vec<String> = self.locked().all().cloned().collect();
        let from = all.len().saturating_sub(lines);
        if all.is_empty() { "it wrote nothing".to_owned() } else { all[from..].join(" | ") }
    }

    /// All processes of its group, itself first.
    pub fn pids(&self) -> Vec<u32> {
        let own = self.child.id();
        let mut pids = vec![own];
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            if pid != own && group_of(pid) == Some(own) {
                pids.push(pid);
            }
        }
        pids
    }

    /// Sends a signal to the whole group.
    pub fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            // A group that has ended meanwhile needs no signal.
            let _ = kill_process_group(self.group, signal);
        }
    }

    /// Ends it: SIGTERM, again after half of `limit`, SIGKILL after all of it.
    pub fn stop(&mut self, limit: Duration) -> Option<ExitStatus> {
        for _ in 0..2 {
            if self.status().is_none() {
                self.signal(Signal::TERM);
                self.wait_until(Instant::now() + limit / 2, || false);
            }
        }
        self.kill();
        self.status()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        // Children may outlive the first process of the group. Where a process has its number again, that is
        // another program, and the group is gone.
        if self.ended.is_none() || group_of(self.child.id()).is_none() {
            let _ = kill_process_group(self.group, Signal::KILL);
        }
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
        groups().remove(&self.child.id());
        self.drain();
    }

    /// Waits for the rest of the output. A process that left the group may keep it open.
    fn drain(&mut self) {
        let until = Instant::now() + DRAIN;
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its children may still run where it ended by itself.
        self.kill();
    }
}

/// "strowger 0.1.0 ready: ...", as text or within a line of JSON; not "Address already in use".
fn is_ready(line: &str) -> bool {
    (line.starts_with("strowger ") || line.starts_with('{')) && line.contains(" ready: ")
}

/// Process groups that run. A group is started with this locked, so none is missed by [`end_all`].
static GROUPS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn groups() -> std::sync::MutexGuard<'static, BTreeSet<u32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every group, and ends this program with `status`.
pub fn end_all(status: i32) -> ! {
    let groups = groups();
    for number in groups.iter().filter(|number| is_ours(**number)) {
        let group = i32::try_from(*number).ok().and_then(Pid::from_raw);
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    }
    // Still locked: nothing starts any more.
    std::process::exit(status)
}

/// Whether the process of this number is our child, or gone. Else its number was given to another program.
fn is_ours(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    let parent = stat.rsplit_once(')').and_then(|(_, after)| after.split_whitespace().nth(1)?.parse().ok());
    parent == Some(std::process::id())
}

/// A child inherits the processors of the thread that starts it.
fn spawn_on(command: &mut Command, cpus: &[u32]) -> io::Result<Child> {
    if cpus.is_empty() {
        return command.spawn();
    }
    let mut set = CpuSet::new();
    for cpu in cpus {
        let cpu = usize::try_from(*cpu).unwrap_or(usize::MAX);
        if cpu < CpuSet::MAX_CPU {
            set.set(cpu);
        }
    }
    thread::scope(|scope| {
        let spawning = scope.spawn(|| {
            sched_setaffinity(None, &set)?;
            command.spawn()
        });
        spawning.join().unwrap_or_else(|_| Err(io::Error::other("the starting thread ended")))
    })
}

/// The process group of a process that has not ended.
fn group_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut after = stat.rsplit_once(')')?.1.split_whitespace();
    let state = after.next()?;
    let group = after.nth(1)?.parse().ok()?;
    (state != "Z").then_some(group)
}

fn reader(output: Box<dyn Read + Send>, lines: Arc<Mutex<Lines>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            match output.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                    lines.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Process {
        /// Waits until a line of its output contains `word`.
        fn wait_for(&mut self, word: &str, limit: Duration) -> Result<(), String> {
            let until = Instant::now() + limit;
            while !self.locked().all().any(|line| line.contains(word)) {
                if Instant::now() > until {
                    return Err(self.tail(5));
                }
                thread::sleep(LOOK);
            }
            Ok(())
        }
    }

    /// Waits until a process has left a group: one that was killed may need a moment to end.
    fn left(pid: u32, group: u32) -> bool {
        let until = Instant::now() + Duration::from_secs(20);
        while group_of(pid) == Some(group) && Instant::now() < until {
            thread::sleep(LOOK);
        }
        group_of(pid) != Some(group)
    }

    fn shell(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script]), &[]).expect("sh starts")
    }

    #[test]
    fn process_is_waited_for_by_a_word_of_its_output() {
        let mut process = shell("echo begun; echo ready >&2; exec sleep 60");
        process.wait_for("ready", Duration::from_secs(20)).expect("it says so");
        assert!(process.is_running());
        process.stop(Duration::from_secs(20));
        assert!(!process.is_running());
    }

    #[test]
    fn process_that_ends_before_it_is_ready_is_an_error() {
        let error = shell("echo no such file; exit 3")
            .wait_until_ready(Duration::from_secs(20))
            .expect_err("it ends");
        assert!(error.contains("no such file"), "{error}");
    }

    #[test]
    fn children_of_a_process_that_ended_are_ended_too() {
        let mut process = shell("sleep 62 & echo child $!");
        process.wait_for("child", Duration::from_secs(20)).expect("it says so");
        assert!(process.wait_until(Instant::now() + Duration::from_secs(20), || false).is_some());
        let output = process.output();
        let child: u32 = output.trim().rsplit(' ').next().and_then(|pid| pid.parse().ok()).expect("a number");
        let leader = process.child.id();
        assert_eq!(group_of(child), Some(leader));
        assert!(groups().contains(&leader));
        drop(process);
        assert!(left(child, leader), "{child} still runs");
        assert!(!groups().contains(&leader));
    }

    #[test]
    fn program_that_finds_its_port_in_use_is_not_ready() {
        let limit = Duration::from_secs(20);
        let mut taken = shell("echo 'strowger: udp:127.0.0.1:5060: Address already in use'; exit 2");
        assert!(taken.wait_until_ready(limit).is_err());
        let mut ended = shell("echo 'strowger 0.1.0 ready: udp:127.0.0.1:5060'; exit 2");
        ended.wait_until(Instant::now() + limit, || false);
        assert!(ended.wait_until_ready(limit).is_err());
        let mut good = shell("echo 'strowger 0.1.0 ready: udp:127.0.0.1:5060'; exec sleep 63");
        assert_eq!(good.wait_until_ready(limit), Ok(()));
    }

    #[test]
    fn stop_ends_the_whole_group() {
        let mut process = shell("trap '' TERM; sleep 61 & echo ready; wait; wait; sleep 61");
        process.wait_for("ready", Duration::from_secs(20)).expect("it says so");
        let pids = process.pids();
        assert!(pids.len() >= 2, "{pids:?}");
        process.stop(Duration::from_millis(200));
        for pid in pids {
            assert!(left(pid, process.child.id()), "{pid} still runs");
        }
    }

    #[test]
    fn process_runs_on_the_processors_it_was_given() {
        let mut command = Command::new("grep");
        let mut process = Process::start(command.args(["Cpus_allowed_list", "/proc/self/status"]), &[0])
            .expect("grep starts");
        process.wait_for("Cpus_allowed_list:\t0", Duration::from_secs(20)).expect("only the first one");
        let status = fs::read_to_string("/proc/thread-self/status").expect("read");
        assert!(
            !status.contains("Cpus_allowed_list:\t0\n")
                || thread::available_parallelism().is_ok_and(|n| n.get() == 1)
        );
    }

    #[test]
    fn program_that_is_run_to_its_end_is_one_of_ours() {
        let limit = Duration::from_secs(20);
        let run = |script: &str, limit, stop: bool| {
            Process::finish(Command::new("sh").args(["-c", script]), limit, || stop)
        };
        assert_eq!(run("echo done", limit, false), Ok("done\n".to_owned()));
        assert!(run("echo wrong; exit 3", limit, false).is_err_and(|why| why.contains("wrong")));
        // Its children are ended with it, when time is over and when the person asks for it.
        for (limit, stop) in [(Duration::from_millis(100), false), (limit, true)] {
            let begun = Instant::now();
            assert!(run("sleep 65", limit, stop).is_err());
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
    }

    #[test]
    fn news_of_long_output_are_told_to_its_end() {
        let mut lines = Lines::default();
        let (mut told, mut said, mut lost) = (0, Vec::new(), 0);
        for number in 0..10_000 {
            lines.push(number.to_string());
            // Looked at now and then, as an emulated machine is.
            if number % 700 == 0 || number == 9_999 {
                let (left_out, news) = lines.since(told);
                told = lines.count();
                lost += left_out;
                said.extend(news);
            }
        }
        assert_eq!((said.len(), lost), (10_000, 0));
        assert!(said.iter().enumerate().all(|(nth, line)| *line == nth.to_string()));
        // Nobody looked for more lines than are kept.
        let mut late = Lines::default();
        (0..10_000).for_each(|number| late.push(number.to_string()));
        let (left_out, news) = late.since(1_000);
        assert_eq!((left_out, news.len(), news[0].as_str()), (6_000, 3_000, "1000"));
        let (left_out, news) = late.since(7_000);
        assert_eq!((left_out, news.len(), news[0].as_str()), (1_000, 2_000, "8000"));
    }

    #[test]
    fn long_output_keeps_its_beginning_and_its_end() {
        let mut lines = Lines::default();
        for number in 0..10_000 {
            lines.push(number.to_string());
        }
        assert_eq!(lines.first[0], "0");
        assert_eq!(lines.last.back().map(String::as_str), Some("9999"));
        assert_eq!(lines.left_out, 6_000);
        lines.push("more".to_owned());
        assert_eq!(lines.left_out, 6_001);
    }
}
