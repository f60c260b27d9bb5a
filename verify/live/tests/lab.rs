//! `strowger lab` on real systems: from an experiment to a verdict, and the runs that say nothing.

use live::{binary, eventually, run};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A machine with other tests on it makes the generator late; these tests are not about that.
const CALM: &str = "[workload]\nrate = 50\ncallees = 5\noptions = [\"--lateness\", \"60000\"]\n";

/// These tests run at the same time.
const SHARED: &str = "--share-machine";

/// An empty folder with an experiment in it.
fn experiment(name: &str, text: &str) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("experiment.toml");
    fs::write(&file, text).unwrap();
    (file, folder.join("out"))
}

fn lab(arguments: &[&str], paths: &[&Path]) -> Output {
    let paths = paths.iter().map(|path| path.to_str().unwrap());
    run(["lab"].into_iter().chain(arguments.iter().copied()).chain(paths))
}

/// The outcome of `lab run`, and its exit status.
fn outcome(file: &Path, out: &Path) -> (Value, Option<i32>) {
    let done = lab(&["run", SHARED, "--output", "json", "--out"], &[out, file]);
    let said = String::from_utf8_lossy(&done.stderr);
    let found = serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (found, done.status.code())
}

fn archives(out: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(".run.tgz")).collect();
    all.sort();
    all
}

fn text<'a>(found: &'a Value, key: &str) -> &'a str {
    found[key].as_str().unwrap_or_default()
}

/// An experiment of two short blocks with `more` in it.
fn short(more: &str) -> String {
    format!("question = \"?\"\nrepetitions = 2\nwarm_up = \"1s\"\nmeasure = \"2s\"\n{more}")
}

#[test]
fn experiment_ends_with_report_archives_and_figures() {
    let (file, out) = experiment("whole", &short(CALM));
    let (found, status) = outcome(&file, &out);
    assert_eq!((text(&found, "verdict"), status), ("MEASURED", Some(0)), "{found}");
    assert_eq!(archives(&out).len(), 4);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("MEASURED") && page.contains("<svg"), "the page has no plots");
    let calls = found["figures"].as_array().unwrap().iter().find(|figure| figure["quantity"] == "calls/s");
    assert!(calls.and_then(|figure| figure["median"].as_f64()).is_some_and(|rate| rate > 20.0), "{found}");
    // The report is made again from the archives alone.
    fs::remove_file(&file).unwrap();
    fs::remove_file(out.join("report.html")).unwrap();
    let again = lab(&["report"], &[&out]);
    assert!(again.status.success() && out.join("report.html").is_file(), "{again:?}");
    let compared = lab(&["compare"], &[&out, &out]);
    assert!(String::from_utf8_lossy(&compared.stdout).contains("MEASURED"), "{compared:?}");
    let history = lab(&["history"], &[&out, &out, &out]);
    assert_eq!(history.status.code(), Some(0), "{history:?}");
}

#[test]
fn archived_run_is_reproduced() {
    let (file, out) = experiment("again", &short(CALM).replace("repetitions = 2", "repetitions = 1"));
    outcome(&file, &out);
    let archive = archives(&out).first().cloned().expect("a run");
    // It has options for the generator.
    let refused = lab(&["reproduce", SHARED], &[&archive]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("--trust"), "{refused:?}");
    let done = lab(&["reproduce", SHARED, "--trust", "--times", "1", "--output", "json"], &[&archive]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    let figures = found["figures"].as_array().unwrap();
    let calls = figures.iter().find(|figure| figure["quantity"] == "calls/s").expect("calls");
    assert!(calls["then"].as_f64().is_some() && calls["now"][0].as_f64().is_some(), "{calls}");
    // The same program on the same machine.
    assert_eq!(found["differs"], Value::Array(Vec::new()), "{found}");
    let mut bytes = fs::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes).unwrap();
    let damaged = lab(&["reproduce", SHARED, "--trust"], &[&archive]);
    assert_eq!(damaged.status.code(), Some(2), "{damaged:?}");
}

#[test]
fn starved_generator_makes_runs_void() {
    // More calls than a debug build can make on one processor. Failed calls are not waited for.
    let starving =
        "[workload]\nrate = 200000\ncallees = 5\noptions = [\"--nd\", \"--recv-timeout\", \"2000\"]\n";
    let (file, out) = experiment("starved", &short(starving).replace("repetitions = 2", "repetitions = 1"));
    let (found, status) = outcome(&file, &out);
    assert_eq!((text(&found, "verdict"), status), ("VOID", Some(3)), "{found}");
    assert!(text(&found, "reason").contains("generator"), "{found}");
}

#[test]
fn lost_messages_make_runs_void() {
    let lossy = CALM.replace("options = [", "options = [\"--lost\", \"10\", ");
    let (file, out) = experiment("lossy", &short(&lossy));
    let (found, status) = outcome(&file, &out);
    assert_eq!((text(&found, "verdict"), status), ("VOID", Some(3)), "{found}");
    assert!(text(&found, "reason").contains("again"), "{found}");
}

/// A program in place of the server that runs it with these shell commands around.
fn wrapper(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("wrapper.sh");
    fs::write(&path, format!("#!/bin/sh\n{}\n", script.replace("STROWGER", binary().to_str().unwrap())))
        .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn server_that_ends_within_a_run_makes_it_void() {
    let (file, out) = experiment("ending", "");
    let program = wrapper(file.parent().unwrap(), "exec timeout -s KILL 3 STROWGER \"$@\"");
    let system = format!("[system.dying]\nbinary = \"{}\"\n", program.display());
    let hasty = CALM.replace("options = [", "options = [\"--nd\", \"--recv-timeout\", \"2000\", ");
    fs::write(&file, short(&format!("{hasty}{system}")).replace("repetitions = 2", "repetitions = 1"))
        .unwrap();
    let (found, status) = outcome(&file, &out);
    assert_eq!((text(&found, "verdict"), status), ("VOID", Some(3)), "{found}");
    let void = found["runs"][0]["void"].to_string();
    assert!(void.contains("ended during the run") || void.contains("failed"), "{found}");
}

#[test]
fn server_that_does_not_start_is_named_with_its_words() {
    let (file, out) = experiment("broken", "");
    let program = wrapper(file.parent().unwrap(), "echo no such port >&2; exit 7");
    let system = format!("[system.broken]\nbinary = \"{}\"\n", program.display());
    fs::write(&file, short(&format!("{CALM}{system}"))).unwrap();
    let done = lab(&["run", SHARED, "--out"], &[&out, &file]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("broken") && said.contains("no such port"), "{said}");
}

#[test]
fn interrupted_experiment_goes_on_where_it_was() {
    let (file, out) = experiment("interrupted", &short(CALM));
    let mut running = Command::new(binary())
        .args(["lab", "run", SHARED, "--output", "json", "--out"])
        .args([&out, &file])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the first run is kept", || (!archives(&out).is_empty()).then_some(()));
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = eventually("it ends", || running.try_wait().unwrap());
    let kept = archives(&out);
    if kept.len() < 4 {
        assert_eq!(status.code(), Some(3), "it was stopped");
    }
    let done = lab(&["run", SHARED, "--out"], &[&out, &file]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    // A block has two runs. One that was cut is made again whole.
    let (whole, cut) = (kept.len() / 2 * 2, kept.len() % 2);
    assert_eq!(said.contains(&format!("resumed: {whole} of 4 runs")), whole > 0, "{said}");
    assert_eq!(archives(&out).len(), 4 + cut);
    assert!(kept.iter().all(|path| archives(&out).contains(path)), "runs were made again");
}

/// Process groups that a program started.
fn groups_of(parent: u32) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_child = |stat: &str| {
        stat.rsplit_once(')').and_then(|(_, after)| after.split_whitespace().nth(1))
            == Some(parent.to_string().as_str())
    };
    entries
        .filter(|entry| fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| is_child(&stat)))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn signals_leave_no_process_of_an_experiment_behind() {
    for signals in [&["-HUP"][..], &["-QUIT"], &["-INT", "-INT"]] {
        let (file, out) =
            experiment("signals", &short(CALM).replace("measure = \"2s\"", "measure = \"60s\""));
        let mut running = Command::new(binary())
            .args(["lab", "run", SHARED, "--out"])
            .args([&out, &file])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = running.id();
        // The system and the generator.
        let groups =
            eventually("both are started", || Some(groups_of(pid)).filter(|groups| groups.len() >= 2));
        for signal in signals {
            assert!(Command::new("kill").args([*signal, &pid.to_string()]).status().unwrap().success());
        }
        let status = eventually("it ends", || running.try_wait().unwrap());
        assert!(matches!(status.code(), Some(3 | 130)), "{signals:?}: {status}");
        for group in groups {
            eventually("it is gone", || (!is_running(&group)).then_some(()));
        }
    }
}

/// Whether a process is there, and not only waits for its parent to hear of its end.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, after)| !after.trim_start().starts_with('Z'))
}

#[test]
fn errors_of_an_experiment_are_all_said_with_their_places() {
    let (file, _) = experiment("wrong", "repetitions = 0\nmeasur = \"1s\"\n[workload]\nrate = \"fast\"\n");
    let done = lab(&["plan"], &[&file]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    for place in ["experiment.toml:1:", "experiment.toml:2:", "experiment.toml:4:"] {
        assert!(said.contains(place), "{place}: {said}");
    }
}

#[test]
fn program_that_is_not_there_is_named_before_the_first_run() {
    let (file, out) =
        experiment("missing", &short("[system.A]\n[system.B]\nbinary = \"/no/such/program\"\n"));
    let done = lab(&["run", SHARED, "--out"], &[&out, &file]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("experiment.toml:7:") && said.contains("`binary` of [system.B]"), "{said}");
    assert!(!out.exists(), "there is a folder without a run");
    let planned = lab(&["plan"], &[&file]);
    let said = String::from_utf8_lossy(&planned.stdout);
    assert!(planned.status.success() && said.contains("It cannot be run here"), "{said}");
}

#[test]
fn server_that_is_killed_and_comes_back_is_no_void_run() {
    // Calls that the kill ends are not waited for.
    let hasty = CALM.replace("options = [", "options = [\"--nd\", \"--recv-timeout\", \"2000\", ");
    let faulty = format!("{hasty}[[fault]]\nkind = \"kill\"\nat = \"500ms\"\nlasts = \"200ms\"\n");
    let once = short(&faulty).replace("measure = \"2s\"", "measure = \"6s\"");
    let (file, out) = experiment("killed", &once.replace("repetitions = 2", "repetitions = 1"));
    let (found, status) = outcome(&file, &out);
    assert_eq!((text(&found, "verdict"), status), ("MEASURED", Some(0)), "{found}");
}

#[test]
fn server_that_ends_before_its_kill_makes_a_run_void() {
    let (file, out) = experiment("early", "");
    let program = wrapper(file.parent().unwrap(), "exec timeout -s KILL 2 STROWGER \"$@\"");
    let hasty = CALM.replace("options = [", "options = [\"--nd\", \"--recv-timeout\", \"1000\", ");
    let system = format!("[system.early]\nbinary = \"{}\"\n", program.display());
    let kill = "[[fault]]\nkind = \"kill\"\nat = \"5s\"\nlasts = \"200ms\"\n";
    let long = short(&format!("{hasty}{system}{kill}")).replace("measure = \"2s\"", "measure = \"6s\"");
    fs::write(&file, long.replace("repetitions = 2", "repetitions = 1")).unwrap();
    let (found, status) = outcome(&file, &out);
    assert_eq!((text(&found, "verdict"), status), ("VOID", Some(3)), "{found}");
    assert!(text_of_run(&found, "void").contains("ended during the run"), "{found}");
}

#[test]
fn folder_in_use_or_of_another_experiment_is_refused() {
    let (file, out) = experiment("taken", &short(CALM).replace("measure = \"2s\"", "measure = \"5s\""));
    let mut running = Command::new(binary())
        .args(["lab", "run", SHARED, "--out"])
        .args([&out, &file])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it begins", || out.join("experiment.json").exists().then_some(()));
    let second = lab(&["run", SHARED, "--out"], &[&out, &file]);
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("in use by another `strowger lab` (process {})", running.id())), "{said}");
    assert!(Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap().success());
    eventually("it ends", || running.try_wait().unwrap());
    // Another rate is another experiment.
    let before = fs::read(out.join("experiment.json")).unwrap();
    let other = lab(&["run", SHARED, "--set", "workload.rate=60", "--out"], &[&out, &file]);
    let said = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(2), "{said}");
    assert!(said.contains("results of another experiment"), "{said}");
    assert_eq!(fs::read(out.join("experiment.json")).unwrap(), before);
}

#[test]
fn report_does_not_replace_a_verdict_by_one_of_fewer_runs() {
    let (file, out) = experiment("fewer", &short(CALM));
    assert_eq!(outcome(&file, &out).1, Some(0));
    let before = fs::read(out.join("outcome.json")).unwrap();
    fs::rename(&archives(&out)[0], out.join("aside")).unwrap();
    let again = lab(&["report"], &[&out]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2), "{said}");
    assert!(said.contains("archives of 1 of them are not here"), "{said}");
    assert_eq!(fs::read(out.join("outcome.json")).unwrap(), before);
}

#[test]
fn reproduction_that_is_interrupted_says_stopped() {
    let (file, out) = experiment("halted", &short(CALM).replace("repetitions = 2", "repetitions = 1"));
    outcome(&file, &out);
    let archive = archives(&out).first().cloned().expect("a run");
    let mut running = Command::new(binary())
        .args(["lab", "reproduce", SHARED, "--trust"])
        .arg(&archive)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = running.id();
    eventually("its system is started", || Some(groups_of(pid)).filter(|groups| !groups.is_empty()));
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
    assert_eq!(eventually("it ends", || running.try_wait().unwrap()).code(), Some(3));
}

#[test]
fn server_that_does_not_come_back_makes_its_run_void() {
    let (file, out) = experiment("gone", "");
    // $5 is the folder of the run's data.
    let once = "[ -e \"$5.begun\" ] && exit 1; touch \"$5.begun\"; exec STROWGER \"$@\"";
    let program = wrapper(file.parent().unwrap(), once);
    let hasty = CALM.replace("options = [", "options = [\"--nd\", \"--recv-timeout\", \"2000\", ");
    let system = format!("[system.gone]\nbinary = \"{}\"\n", program.display());
    let text =
        short(&format!("{hasty}{system}[[fault]]\nkind = \"kill\"\nat = \"500ms\"\nlasts = \"200ms\"\n"));
    fs::write(&file, text.replace("repetitions = 2", "repetitions = 1")).unwrap();
    let (found, status) = outcome(&file, &out);
    assert_eq!((found["verdict"].as_str(), status), (Some("VOID"), Some(3)), "{found}");
    assert!(text_of_run(&found, "void").contains("the system did not come back after a kill"), "{found}");
}

fn text_of_run(found: &Value, key: &str) -> String {
    found["runs"][0][key].to_string()
}

/// A balancer with this algorithm, which is the name of the system.
fn balancer(algorithm: &str) -> String {
    let config = format!("config = \"[balance]\\nalgorithm = \\\"{algorithm}\\\"\"");
    format!("[system.{algorithm}]\nkind = \"balance\"\n{config}\n")
}

#[test]
fn back_ends_answer_as_slowly_as_their_capacity_says() {
    // An INVITE takes 64 ms at a server that does 10 calls/s. So few calls have no p99.
    let workload =
        CALM.replace("rate = 50", "rate = 4").replace("callees = 5", "capacity = 10\nvariation = 0");
    let systems = [balancer("hash"), balancer("tlwl")].concat();
    let (file, out) = experiment("capacity", &short(&format!("{workload}scenario = \"uac\"\n{systems}")));
    let (found, status) = outcome(&file, &out);
    assert_eq!((text(&found, "verdict"), status), ("MEASURED", Some(0)), "{found}");
    let figures = found["figures"].as_array().unwrap();
    let setup = figures.iter().filter(|figure| figure["quantity"] == "p50 of setup");
    let times: Vec<f64> = setup.filter_map(|figure| figure["median"].as_f64()).collect();
    assert!(!times.is_empty() && times.iter().all(|ms| *ms >= 60.0), "{times:?}");
}

#[test]
fn runs_of_a_program_that_changed_are_made_again() {
    let (file, out) = experiment("rebuilt", "");
    let program = wrapper(file.parent().unwrap(), "exec STROWGER \"$@\"");
    let system = format!("[system.one]\nbinary = \"{}\"\n", program.display());
    fs::write(&file, short(&format!("{CALM}{system}")).replace("repetitions = 2", "repetitions = 1"))
        .unwrap();
    assert_eq!(outcome(&file, &out).1, Some(0));
    wrapper(file.parent().unwrap(), "# anew\nexec STROWGER \"$@\"");
    let done = lab(&["run", SHARED, "--out"], &[&out, &file]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && said.contains("left out: 2 runs of a program that has changed"),
        "{said}"
    );
    assert_eq!(archives(&out).len(), 4);
    // What counts is the later one of two archives.
    assert!(lab(&["report"], &[&out]).status.success());
}

/// The files of an archive, unpacked.
fn unpacked(archive: &Path) -> PathBuf {
    let folder = archive.with_extension("files");
    fs::create_dir_all(&folder).unwrap();
    let mut tar = Command::new("tar");
    assert!(tar.arg("xzf").arg(archive).arg("-C").arg(&folder).status().unwrap().success());
    folder
}

fn record_in(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("record.json")).unwrap()).unwrap()
}

#[test]
fn archive_has_captures_witness_and_report_of_the_machine() {
    let (file, out) = experiment("seen", &short(CALM).replace("repetitions = 2", "repetitions = 1"));
    let (found, status) = outcome(&file, &out);
    assert_eq!(status, Some(0), "{found}");
    let folder = unpacked(archives(&out).first().expect("a run"));
    let record = record_in(&folder);
    let (checks, unobserved) = (&record["checks"], record["checks"]["unobserved"].to_string());
    assert!(record["machine"].to_string().contains("processor counters"), "{}", record["machine"]);
    assert_eq!(checks["connectivity"].as_array().unwrap().len(), 2, "{checks}");
    let tune: Value = serde_json::from_slice(&fs::read(folder.join("tune.json")).unwrap()).unwrap();
    assert!(tune["findings"].is_array(), "{tune}");
    // Without the right to see packets the record says so.
    if unobserved.contains("CAP_NET_RAW") {
        return;
    }
    let witness = &checks["witness"];
    let (sent, received) = (witness["sent"].as_u64().unwrap(), witness["received"].as_u64().unwrap());
    assert!(sent > 100 && witness["packets"].as_u64().unwrap().abs_diff(sent + received) < 5, "{witness}");
    for name in ["before.pcap", "after.pcap"] {
        let Ok(read) = Command::new("tcpdump").arg("-nr").arg(folder.join(name)).output() else { return };
        let text = String::from_utf8_lossy(&read.stdout);
        assert!(read.status.success() && text.contains("SIP: INVITE sip:"), "{name}: {read:?}");
    }
}

#[test]
fn packets_lost_on_the_wire_make_runs_void() {
    let hasty = CALM.replace("options = [", "options = [\"--nd\", \"--recv-timeout\", \"2000\", ");
    let (file, out) = experiment("wire", &short(&hasty).replace("repetitions = 2", "repetitions = 1"));
    // A loopback interface that drops what exceeds its rate, in a network of its own.
    const SLOW: &str =
        "ip link set lo up && tc qdisc add dev lo root tbf rate 2mbit burst 3kb limit 6kb || exit 77
        exec \"$0\" lab run --share-machine --output json --out \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", SLOW]).arg(binary()).args([&out, &file]);
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    // No right to make a network, or no `tc`.
    if said.contains("unshare") || done.status.code() == Some(77) {
        return;
    }
    let found: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!((text(&found, "verdict"), done.status.code()), ("VOID", Some(3)), "{found}");
    let void = text_of_run(&found, "void");
    assert!(void.contains("packets were lost between generator and system"), "{void}");
}

#[test]
fn population_is_measured_from_registrations_to_a_verdict() {
    // Sixty times as fast as in life each of them registers every ten seconds.
    let people = "[workload]\nusers = 300\ncompress = 60\nauthenticate = true\nmailbox = true\n\
                  with = [\"ramp=120\", \"cool_down=2\", \"think=200s\"]\n\
                  options = [\"--lateness\", \"60000\", \"--response\", \"0\"]\n";
    let claims = ["registered at least 99%", "refreshes/s at least 5", "sessions/s at least 1"];
    let claims: String = claims.iter().map(|claim| format!("[[claim]]\nthat = \"{claim}\"\n")).collect();
    let whole = short(&format!("{people}{claims}")).replace("measure = \"2s\"", "measure = \"5s\"");
    let (file, out) = experiment("people", &whole.replace("repetitions = 2", "repetitions = 8"));
    let (found, status) = outcome(&file, &out);
    assert_eq!((text(&found, "verdict"), status), ("PASS", Some(0)), "{found}");
    let figure = |quantity: &str| {
        let figures = found["figures"].as_array().unwrap();
        figures
            .iter()
            .find(|figure| figure["quantity"] == quantity)
            .and_then(|figure| figure["median"].as_f64())
    };
    // 300 users register every 10 s, and the measured window has processor time of its own.
    assert!(figure("refreshes/s").is_some_and(|rate| (15.0..=45.0).contains(&rate)), "{found}");
    assert!(figure("users/core").is_some_and(|users| users > 300.0), "{found}");
    assert!(figure("p99 of rrd-refresh").is_some(), "{found}");
}
