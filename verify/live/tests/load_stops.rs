//! The load generator when it is stopped before its end.

use live::{Beside, Setup, figure, fresh_ip, fresh_ips, run, text};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

fn file(name: &str, content: &str) -> PathBuf {
    live::file(env!("CARGO_TARGET_TMPDIR"), name, content)
}

/// A generator whose display is read.
struct Generator {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Generator {
    fn start(args: &[&str]) -> Generator {
        let mut command = Command::new(live::binary());
        command.args(["load", "--lateness", "60000"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the generator starts");
        let lines = BufReader::new(child.stderr.take().expect("its display"));
        Generator { child, lines }
    }

    /// Waits for a line that begins so.
    fn says(&mut self, begin: &str) -> String {
        let line = self.lines.by_ref().lines().map_while(Result::ok).find(|line| line.starts_with(begin));
        line.unwrap_or_else(|| panic!("no line begins with {begin:?}"))
    }

    /// Sends it a signal, and waits for its end: what it says then, and its exit code.
    fn stop(mut self, signal: &str) -> (String, Option<i32>) {
        live::signal(self.child.id(), signal);
        let mut said = String::new();
        self.child.stdout.take().expect("its answer").read_to_string(&mut said).expect("text");
        self.lines.read_to_string(&mut said).expect("text");
        (said, self.child.wait().expect("its end").code())
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answering side, and its address.
fn callee() -> (Beside, String) {
    let ip = fresh_ip().to_string();
    (Beside::load(&["-sn", "uas", "-i", &ip, "-p", "5060"]), ip)
}

/// The number behind a key of a report.
fn number(report: &str, key: &str) -> f64 {
    let rest = report.split(&format!("\"{key}\":")).nth(1).expect("the key");
    rest.split([',', '}']).next().and_then(|text| text.parse().ok()).expect("a number")
}

#[test]
fn stopped_users_have_the_window_that_there_was() {
    let here = fresh_ip().to_string();
    let mut setup = Setup::new().config("[overload]\ndelay = \"10s\"\n");
    for n in 1_000_000..1_000_040 {
        setup = setup.user(&format!("u{n}"), &format!("p{n}"));
    }
    let server = setup.start();
    let (target, json) = (server.sip().to_string(), file("users.json", ""));
    let report = json.to_str().expect("a name");
    // Calls last three seconds of the clock; they begin at once.
    let mut users = Generator::start(&[
        "--users",
        "40",
        "--domain",
        "example.com",
        "--compress",
        "600",
        "--measure",
        "120s",
        "--with",
        "ramp=60",
        "--with",
        "warm_up=0",
        "--with",
        "think=10m",
        "--with",
        "completed=1",
        "--with",
        "voicemail=0",
        "--with",
        "cancelled=0",
        "--with",
        "hold=30m",
        "--with",
        "ring=0",
        "-i",
        &here,
        &target,
        "--json",
        report,
    ]);
    let plan = users.says("plan: ");
    assert!(
        plan.contains("measured 120 s, cool-down 35 s; until 20") && plan.contains("in 155 s; "),
        "{plan}"
    );
    users.says("strowger load ready");
    users.says("5 s of 155 s, measured: ");
    let (said, code) = users.stop("INT");
    assert_eq!(code, Some(4), "{said}");
    let verdict: Vec<&str> = said.lines().skip_while(|line| *line != "STOPPED").collect();
    assert!(verdict.get(1).is_some_and(|why| why.starts_with("  stopped by the user after ")), "{said}");
    assert!(!said.contains("PASS"), "{said}");
    let report = std::fs::read_to_string(&json).expect("its report");
    assert!(report.contains("\"word\":\"STOPPED\",\"exit_code\":4"), "{report}");
    let [measured, cool_down] = ["measured", "cool_down"].map(|key| {
        let windows = report.split("\"windows\":").nth(1).expect("its windows");
        number(windows, key)
    });
    // The calls under way took some time to end, which is in no rate.
    assert!(measured > 4.0 && cool_down > 1.0, "{measured} {cool_down}");
    let rate = figure(&said, "Calls begun per second");
    assert!((rate * measured - figure(&said, "Calls begun")).abs() < 1.0, "{rate} {measured} {said}");
}

#[test]
fn stopped_calls_are_no_pass() {
    for (signal, words) in [("INT", "stopped by the user after"), ("TERM", "stopped by SIGTERM after")] {
        let (_callee, target) = callee();
        let (ip, json, page) = (fresh_ip().to_string(), file("calls.json", ""), file("calls.html", ""));
        let (report, html) = (json.to_str().expect("a name"), page.to_str().expect("a name"));
        let planned = ["-r", "20", "-m", "10000", "--json", report, "--html", html];
        let mut calls = Generator::start(&[&["-sn", "uac", "-i", &ip, &target], &planned[..]].concat());
        calls.says("2 s");
        let (said, code) = calls.stop(signal);
        assert!(code == Some(4) && said.contains("STOPPED\n") && said.contains(words), "{said}");
        assert!(!said.contains("PASS"), "{said}");
        let html = std::fs::read_to_string(&page).expect("its page");
        assert!(html.contains("<strong>STOPPED</strong>") && html.contains(words), "the page says it");
        let compared = run(["load", "compare", report, report]);
        let said = text(&compared);
        assert!(compared.status.code() == Some(3) && said.contains("1 of 1 runs are STOPPED"), "{said}");
    }
}

#[test]
fn run_without_an_end_is_judged_when_it_is_stopped() {
    let (_callee, target) = callee();
    let ip = fresh_ip().to_string();
    let mut calls = Generator::start(&["-sn", "uac", "-i", &ip, &target, "-r", "20"]);
    calls.says("2 s");
    let (said, code) = calls.stop("INT");
    assert!(code == Some(0) && said.contains("PASS\n"), "{said}");
    assert!(said.contains("\nstopped by the user after "), "{said}");
}

#[test]
fn run_that_is_stopped_before_its_first_call_sent_nothing() {
    let [ip, target] = fresh_ips::<2>().map(|ip| ip.to_string());
    let times = file("late.txt", "1000\n1001\n");
    let times = times.to_str().expect("a name");
    let mut calls = Generator::start(&["-sn", "uac", "-i", &ip, &target, "--trace", times]);
    calls.says("strowger load ready");
    let (said, code) = calls.stop("INT");
    assert!(code == Some(4) && said.contains(&format!("nothing was sent to {target}:5060\n")), "{said}");
    assert!(!said.contains("does a server listen"), "{said}");
}

#[test]
fn timeout_before_the_last_call_is_said() {
    let (_callee, target) = callee();
    let ip = fresh_ip().to_string();
    let few = ["-r", "10", "-m", "100000", "--timeout", "1s"];
    let out = live::load(&[&["-sn", "uac", "-i", &ip, &target], &few[..]].concat());
    let said = text(&out);
    assert!(said.contains("\nended by --timeout 1s: ") && said.contains(" of 100000 calls (-m)"), "{said}");
}

#[test]
fn stopped_callee_has_not_answered_its_calls() {
    let ip = fresh_ip().to_string();
    let mut callee = Generator::start(&["-sn", "uas", "-i", &ip, "-p", "5060", "-m", "10"]);
    callee.says("strowger load ready");
    let (said, code) = callee.stop("INT");
    assert!(code == Some(4) && said.contains("STOPPED\n"), "{said}");
}

#[test]
fn stopped_self_test_says_who_stopped_it() {
    let mut test = Generator::start(&["--self-test", "--workers", "1", "-r", "100", "--trial", "60s"]);
    test.says("rates from");
    // Not before it looks for signals.
    test.says("strowger load ready");
    let (said, code) = test.stop("INT");
    assert!(code == Some(4) && said.contains("STOPPED\n  stopped by the user after "), "{said}");
}

#[test]
fn stopped_back_ends_have_not_served_to_their_end() {
    for (more, stopped) in [(&["--timeout", "10m"][..], true), (&[], false)] {
        let ip = fresh_ip().to_string();
        let mut servers = Generator::start(&[&["--backend", "-i", &ip], more].concat());
        servers.says("strowger load ready");
        let (said, code) = servers.stop("INT");
        assert_eq!(
            (code, said.contains("STOPPED\n")),
            (Some(if stopped { 4 } else { 0 }), stopped),
            "{said}"
        );
        assert!(said.contains("stopped by the user after "), "{said}");
    }
}
