//! `strowger lab` between network namespaces, and with a DNS server of its own.

use live::{binary, eventually, without_capabilities};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A machine with other tests on it makes the generator late; calls that fail are not waited for.
const CALM: &str = "[workload]\nrate = 50\ncallees = 5\n\
                    options = [\"--lateness\", \"60000\", \"--nd\", \"--recv-timeout\", \"1000\"]\n";
/// Other tests run at the same time.
const SHARED: &str = "--share-machine";
const NAMESPACES: &str = "[network]\nkind = \"namespaces\"\n";

/// An empty folder with an experiment of one block in it.
fn experiment(name: &str, seconds: u32, more: &str) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("net-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("experiment.toml");
    let text = format!(
        "question = \"?\"\nrepetitions = 1\nwarm_up = \"1s\"\nmeasure = \"{seconds}s\"\n{CALM}{more}"
    );
    fs::write(&file, text).unwrap();
    (file, folder.join("out"))
}

/// The program with what comes before it so that it may make namespaces; nothing where that is not possible.
fn lab(file: &Path) -> Option<impl Fn(&[&str]) -> Command> {
    for before in [&[][..], &["unshare", "-Urn"]] {
        let command = move |arguments: &[&str]| {
            let mut words = before.iter().copied().map(Path::new).chain([binary()]);
            let mut command = Command::new(words.next().unwrap());
            command.args(words).arg("lab").args(arguments).stdin(Stdio::null());
            command
        };
        let planned = command(&["plan", file.to_str().unwrap()]).output();
        if planned.is_ok_and(|planned| planned.status.success()) {
            return Some(command);
        }
    }
    eprintln!(
        "a network of namespaces: NOT CHECKED, this user may not make them, or the kernel lacks a part"
    );
    None
}

/// Runs the experiment; its outcome.
fn outcome(lab: &impl Fn(&[&str]) -> Command, file: &Path, out: &Path) -> Value {
    let (out, file) = (out.to_str().unwrap(), file.to_str().unwrap());
    let done: Output = lab(&["run", SHARED, "--output", "json", "--out", out, file]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// A figure of the system, the median of its runs.
fn figure(found: &Value, quantity: &str) -> f64 {
    let all = found["figures"].as_array().unwrap();
    let figure = all.iter().find(|figure| figure["quantity"] == quantity);
    figure.and_then(|figure| figure["median"].as_f64()).unwrap_or_else(|| panic!("{quantity}: {found}"))
}

fn void(found: &Value) -> String {
    let runs = found["runs"].as_array().unwrap();
    runs.iter().map(|run| run["void"].to_string()).filter(|void| void != "[]").collect()
}

#[test]
fn partition_fails_calls_until_it_is_over() {
    let fault = "[[fault]]\nkind = \"partition\"\nat = \"3s\"\nlasts = \"3s\"\n";
    let claim = "[[claim]]\nthat = \"recovery at most 20 s\"\n";
    let (file, out) = experiment("partition", 12, &format!("{NAMESPACES}{fault}{claim}"));
    let Some(lab) = lab(&file) else { return };
    let found = outcome(&lab, &file, &out);
    assert_eq!(void(&found), "", "a planned fault makes no run void");
    // Cut for three seconds of twelve. Calls of the last second before its end fail up to a second later.
    let (success, recovery) = (figure(&found, "success"), figure(&found, "recovery"));
    assert!((40.0..90.0).contains(&success), "{success} % succeeded");
    assert!((3.0..9.0).contains(&recovery), "{recovery} s");
}

#[test]
fn losses_that_are_declared_make_no_run_void_and_others_do() {
    let fault = "[[fault]]\nkind = \"loss\"\nat = \"0s\"\nlasts = \"5s\"\nshare = 20\n";
    let (file, out) = experiment("loss", 6, &format!("{NAMESPACES}{fault}"));
    let Some(lab) = lab(&file) else { return };
    let found = outcome(&lab, &file, &out);
    assert_eq!(void(&found), "", "a planned fault makes no run void");
    assert!(figure(&found, "retransmissions") > 10.0, "{found}");
    // A queue of two packets before a narrow link loses some, which nobody asked for.
    let (file, out) = experiment("queue", 4, &format!("{NAMESPACES}rate = 0.5\nqueue = 2\n"));
    let narrow = outcome(&lab, &file, &out);
    assert_eq!(narrow["verdict"], "VOID", "{narrow}");
    assert!(void(&narrow).contains("had no room for"), "{narrow}");
    // One percent of the packets does not explain that the generator drops every second message.
    let (file, out) = experiment("more", 4, &format!("{NAMESPACES}loss = 1\n"));
    let text = fs::read_to_string(&file).unwrap().replace("\"--nd\"", "\"--lost\", \"50\", \"--nd\"");
    fs::write(&file, text).unwrap();
    let lossy = outcome(&lab, &file, &out);
    assert_eq!(lossy["verdict"], "VOID", "{lossy}");
    assert!(
        lossy.to_string().contains("sent again") || lossy.to_string().contains("calls failed"),
        "{lossy}"
    );
}

#[test]
fn network_loses_its_share_of_datagrams() {
    let claim = "[[claim]]\nthat = \"lost at most 50%\"\n";
    let (file, out) = experiment("share", 6, &format!("{NAMESPACES}loss = 10\n{claim}"));
    let Some(lab) = lab(&file) else { return };
    let found = outcome(&lab, &file, &out);
    assert_eq!(void(&found), "", "a planned loss makes no run void");
    let lost = figure(&found, "lost");
    // Some 4,000 datagrams.
    assert!((6.0..14.0).contains(&lost), "{lost} %");
}

/// Processes that a program started, and that run.
fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// The parent of a process that has not ended.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut after = stat.rsplit_once(')')?.1.split_whitespace();
    let state = after.next()?;
    after.next().filter(|_| state != "Z")?.parse().ok()
}

/// Processes that have the mark of a lab in their environment.
fn started_by(lab: u32) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_of = |environment: Vec<u8>| {
        String::from_utf8_lossy(&environment)
            .split('\0')
            .any(|variable| variable.starts_with("STROWGER_LAB=") && variable.contains(&format!("/{lab}/")))
    };
    entries.filter(|entry| fs::read(entry.path().join("environ")).is_ok_and(is_of)).count()
}

#[test]
fn killed_lab_leaves_nothing_behind_after_the_next_start() {
    let (file, out) = experiment("killed", 60, NAMESPACES);
    let Some(lab) = lab(&file) else { return };
    let mut command = lab(&["run", SHARED, "--out", out.to_str().unwrap(), file.to_str().unwrap()]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // `unshare` becomes the program itself. The system and the generator have a namespace each.
    let parts =
        eventually("both are started", || Some(children_of(running.id())).filter(|all| all.len() >= 2));
    let lab_pid = running.id();
    eventually("its processes have its mark", || (started_by(lab_pid) >= 2).then_some(()));
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(parts.iter().any(|pid| parent_of(*pid).is_some()), "nobody ended them yet");
    let (file, out) = experiment("next", 1, "");
    outcome(&lab, &file, &out);
    for pid in parts {
        eventually("it is gone", || parent_of(pid).is_none().then_some(()));
    }
    // A namespace without processes is gone, and its cards with it.
    assert_eq!(started_by(lab_pid), 0);
}

#[test]
fn network_that_may_not_be_made_is_refused_by_the_plan() {
    let (file, _) = experiment("refused", 1, NAMESPACES);
    let mut plan = without_capabilities();
    let Ok(done) = plan.args(["lab", "plan"]).arg(&file).output() else { return };
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("unshare -Urn") && said.contains("experiment.toml:10:"), "{said}");
}

#[test]
fn names_that_are_withheld_fail_calls_until_they_come() {
    let names = "contacts = \"name\"\nname_ttl = 0\n[system.this]\n\
                 config = \"[dns]\\nservers = [\\\"${resolver}\\\"]\\n\"\n";
    let fault = "[[fault]]\nkind = \"withhold_dns\"\nat = \"2s\"\nlasts = \"3s\"\n";
    let claim = "[[claim]]\nthat = \"recovery at most 20 s\"\n";
    let (file, out) = experiment("names", 18, &format!("{names}{fault}{claim}"));
    let lab = |arguments: &[&str]| {
        let mut command = Command::new(binary());
        command.arg("lab").args(arguments);
        command
    };
    let found = outcome(&lab, &file, &out);
    assert_eq!(void(&found), "", "a planned fault makes no run void");
    let (success, recovery) = (figure(&found, "success"), figure(&found, "recovery"));
    // The server keeps for some seconds that a name could not be looked up.
    assert!((20.0..90.0).contains(&success), "{success} % succeeded");
    assert!((3.0..15.0).contains(&recovery), "{recovery} s");
    assert!(found["runs"][0]["notes"].to_string().contains("was asked"), "{found}");
}
