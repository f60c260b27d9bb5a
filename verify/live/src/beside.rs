//! Programs that run beside a test, and what those say that have ended.

use crate::server::{binary, run};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// `strowger` with some job, until the test drops it.
pub struct Beside {
    child: Child,
}

impl Beside {
    /// Starts it and waits until it says that it is ready.
    ///
    /// # Panics
    /// With what it said, if it ends before.
    pub fn start(args: &[&str]) -> Beside {
        let mut command = Command::new(binary());
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("its messages")).lines();
        let mut said = Vec::new();
        loop {
            let line = lines.next().unwrap_or_else(|| panic!("it ended: {said:#?}")).expect("text");
            let ready = line.contains("ready");
            said.push(line);
            if ready {
                break;
            }
        }
        std::thread::spawn(move || lines.for_each(drop));
        Beside { child }
    }

    /// Starts a generator.
    pub fn load(args: &[&str]) -> Beside {
        Beside::start(&[&["load", "--quiet"], args].concat())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name, as `kill` knows it.
    pub fn signal(&self, name: &str) {
        crate::signal(self.pid(), name);
        if name == "STOP" {
            // A thread on another processor runs on until it hears of it.
            crate::eventually("all threads stand still", || self.stands_still().then_some(()));
        }
    }

    fn stands_still(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("its threads");
        let state = |thread: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['T', 't']))
        };
        threads.flatten().all(state)
    }

    /// Ends it without a chance to say goodbye.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is there to be killed");
        self.child.wait().expect("its end");
    }

    /// Waits for its end: its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("its end").code()
    }

    /// Waits for its end: what it says there, and its exit code.
    pub fn end(mut self) -> (String, Option<i32>) {
        let mut said = String::new();
        self.child.stdout.take().expect("what it says").read_to_string(&mut said).expect("text");
        (said, self.child.wait().expect("it ends").code())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a generator to its end. A machine that is busy with other tests makes it late, which is not what is
/// tested.
pub fn load(args: &[&str]) -> Output {
    run(["load", "--quiet", "--lateness", "60000"].iter().chain(args))
}

/// All that a program has said.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The number after a name in what a generator says.
///
/// # Panics
/// If there is none.
pub fn figure(said: &str, name: &str) -> f64 {
    let line = said.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no {name} in {said}"))
}

/// A file with this content in `folder`: the `CARGO_TARGET_TMPDIR` of a test. Tests of other programs have
/// others.
pub fn file(folder: &str, name: &str, content: &str) -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let program = program.file_stem().expect("a name").to_string_lossy();
    let path = Path::new(folder).join(format!("{program}-{}-{name}", std::process::id()));
    std::fs::write(&path, content).expect("a file of ours");
    path
}
