//! Searches for a peak that do not come to their answer.

use live::{Beside, fresh_ip, run, text};
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

fn file(name: &str) -> PathBuf {
    live::file(env!("CARGO_TARGET_TMPDIR"), name, "")
}

/// A search that is under way.
struct Search {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Search {
    fn start(args: &[&str]) -> Search {
        let mut child = Command::new(live::binary())
            .args([&["load", "--lateness", "60000", "--find-peak"], args].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the generator starts");
        let lines = BufReader::new(child.stderr.take().expect("its messages"));
        Search { child, lines }
    }

    /// What it says of this trial.
    fn trial(&mut self, number: u32) -> String {
        let begin = format!("trial {number:>2} ");
        let told = self.lines.by_ref().lines().map_while(Result::ok).find(|line| line.starts_with(&begin));
        told.expect("it says so")
    }

    /// Presses Ctrl-C until it ends: what it says then, and its exit code.
    fn stop(mut self) -> (String, Option<i32>) {
        let end = Instant::now() + 3 * live::PATIENCE;
        while self.child.try_wait().expect("its state").is_none() {
            assert!(Instant::now() < end, "it does not end");
            live::signal(self.child.id(), "INT");
            std::thread::sleep(Duration::from_millis(100));
        }
        let mut said = String::new();
        self.child.stdout.take().expect("its answer").read_to_string(&mut said).expect("text");
        self.lines.read_to_string(&mut said).expect("text");
        (said, self.child.wait().expect("its end").code())
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Nothing is retransmitted, and no step of the built-in scenario has a timeout. This trial ends after 64*T1.
/// One with calls that are left with a 100 ends by the same rule after three minutes, as the tests of the
/// engine show.
#[test]
fn a_trial_ends_though_its_calls_are_left() {
    // Bound, and nobody reads.
    let server = UdpSocket::bind((fresh_ip(), 5060)).expect("a socket");
    let (ip, target) = (fresh_ip().to_string(), server.local_addr().expect("its address").to_string());
    let json = file("left.json");
    let json = json.to_str().expect("a name");
    let given = ["--rfc7502", "--attempts", "2", "-r", "20", "-nr", "-sn", "uac", "-i", &ip, &target];
    let args = [&given[..], &["--json", json]].concat();
    let mut search = Search::start(&args);
    let first = search.trial(1);
    assert!(first.contains("  FAIL  successful calls: 0 %"), "{first}");
    let (said, code) = search.stop();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("no peak: no trial conformed") && said.contains("stopped by the user"), "{said}");
    let report = std::fs::read_to_string(json).expect("the trial is not lost");
    assert!(
        report.contains("\"outcome\":\"unknown\"") && report.contains("\"verdict\":\"FAIL\""),
        "{report}"
    );
}

#[test]
fn a_search_that_is_stopped_delivers_what_it_knows() {
    let (callee, ip) = (fresh_ip().to_string(), fresh_ip().to_string());
    let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060"]);
    let json = file("stopped.json");
    let json = json.to_str().expect("a name");
    // Any lateness of a server is fine here.
    let args =
        ["-r", "20", "--trial", "1s", "--response", "0", "-sn", "uac", "-i", &ip, &callee, "--json", json];
    let mut search = Search::start(&args);
    let first = search.trial(1);
    assert!(first.contains("  PASS  "), "{first}");
    let (said, code) = search.stop();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("STOPPED\n  stopped by the user after "), "{said}");
    // Further trials may have been made until it was stopped.
    assert!(said.contains("peak NOT confirmed: ") && said.contains("but the search was stopped"), "{said}");
    let report = std::fs::read_to_string(json).expect("its report");
    assert!(
        report.contains("\"outcome\":\"stopped\"") && report.contains("\"word\":\"STOPPED\""),
        "{report}"
    );
}

#[test]
fn a_search_that_measures_nothing_says_what_to_change() {
    let (callee, ip) = (fresh_ip().to_string(), fresh_ip().to_string());
    let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060"]);
    let search = ["load", "--lateness", "60000", "--find-peak", "-sn", "uac", "-i", &ip, &callee];
    // Its calls begin within a tenth of a second.
    let out = run(search.iter().chain(&["--rfc7502", "--attempts", "2", "-r", "20", "--warm-up", "5"]));
    let said = text(&out);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("trial ")).count(), 1, "{said}");
    for words in ["nothing was measured", "--attempts 2", "--warm-up", "-d"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let out = run(search.iter().chain(&["--warm-up", "10"]));
    let said = text(&out);
    assert!(out.status.code() == Some(2) && said.contains("--trial 5s"), "{said}");
    assert!(!said.contains("ready:"), "{said}");
}
