//! Back ends with a modelled capacity, alone and behind the load balancer.

use live::{Beside, figure, fresh_ip, fresh_ips, load, run, text};
use std::path::PathBuf;

/// Back ends at these addresses, and where they write what they have done.
struct Backends {
    beside: Beside,
    report: PathBuf,
}

impl Backends {
    fn start(addresses: &str, more: &[&str]) -> Backends {
        let report = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("backends-{}-{addresses}.json", std::process::id()));
        let path = report.display().to_string();
        let args = [
            "load",
            "--backend",
            "-i",
            addresses,
            "-p",
            "5060",
            "--quiet",
            "--lateness",
            "60000",
            "--json",
            &path,
        ];
        let args: Vec<&str> = args.iter().chain(more).copied().collect();
        Backends { beside: Beside::start(&args), report }
    }

    /// Ends them and sums up this figure of all of them.
    fn end(self, keys: &[&str]) -> Vec<Vec<u64>> {
        self.beside.signal("TERM");
        assert_eq!(self.beside.end().1, Some(0));
        let text = std::fs::read_to_string(&self.report).expect("a report");
        let digits =
            |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().to_owned();
        let of = |key: &str| {
            let name = format!("\"{key}\":");
            text.split(&name).skip(1).map(|rest| digits(rest).parse().expect("a number")).collect()
        };
        keys.iter().map(|key| of(key)).collect()
    }
}

#[test]
fn a_back_end_answers_calls_over_udp_and_tcp() {
    let address = fresh_ip().to_string();
    let backends = Backends::start(&address, &["--capacity", "500"]);
    for transport in ["u1", "t1"] {
        let caller = fresh_ip().to_string();
        let args =
            ["-sn", "uac", "-i", &caller, &address, "-t", transport, "-r", "50", "-m", "50", "-d", "100"];
        let said = text(&load(&args));
        assert!(said.contains("PASS") && figure(&said, "Calls begun") as u64 == 50, "{said}");
    }
    let counts = backends.end(&["invites", "byes", "refused", "unknown", "garbage"]);
    assert_eq!(counts, [vec![100], vec![100], vec![0], vec![0], vec![0]]);
}

#[test]
fn what_a_back_end_has_no_room_for_is_refused_with_503() {
    let address = fresh_ip().to_string();
    // A call takes a second; one is worked on, one waits.
    let args = ["--capacity", "1", "--sharing", "1", "--room", "1", "--variation", "0"];
    let backends = Backends::start(&address, &args);
    let caller = fresh_ip().to_string();
    let said = text(&load(&["-sn", "uac", "-i", &caller, &address, "-r", "100", "-m", "6", "-d", "4000"]));
    assert!(said.contains("FAIL") && figure(&said, "Calls failed") as u64 == 4, "{said}");
    assert!(said.contains("503"), "{said}");
    let counts = backends.end(&["invites", "refused"]);
    assert_eq!(counts, [vec![2], vec![4]]);
}

#[test]
fn what_is_cancelled_while_it_waits_is_terminated() {
    let address = fresh_ip().to_string();
    let backends = Backends::start(&address, &["--capacity", "0.01", "--sharing", "1"]);
    let caller = fresh_ip().to_string();
    // Whoever hears 100 and no more for so long takes it back.
    let said = text(&load(&["-sn", "uac", "-i", &caller, &address, "-m", "2", "-recv_timeout", "5000"]));
    assert!(said.contains("FAIL"), "{said}");
    let counts = backends.end(&["invites", "cancelled"]);
    assert_eq!(counts, [vec![0], vec![2]], "{said}");
}

#[test]
fn several_share_what_the_balancer_gives_them() {
    let [one, two] = fresh_ips();
    let backends = Backends::start(&format!("{one},{two}"), &["--capacity", "400,200"]);
    let (front, caller) = (fresh_ip().to_string(), fresh_ip().to_string());
    let data = std::env::temp_dir().join(format!("strowger-backends-{}", std::process::id()));
    let (listen, admin, path) =
        (format!("udp:{front}:5060"), format!("{front}:8080"), data.display().to_string());
    let nodes = [format!("sip:{one}:5060"), format!("sip:{two}:5060")];
    let balancer = Beside::start(&[
        "balance",
        "--listen",
        &listen,
        "--admin",
        &admin,
        "--data-dir",
        &path,
        "--node",
        &nodes[0],
        "--node",
        &nodes[1],
        "--algorithm",
        "round-robin",
        // Each worker goes round by itself.
        "--workers",
        "1",
    ]);
    let said = text(&load(&["-sn", "uac", "-i", &caller, &front, "-r", "100", "-m", "100", "-d", "50"]));
    assert!(said.contains("PASS"), "{said}");
    let counts = backends.end(&["invites", "byes", "unknown", "refused"]);
    assert_eq!(counts, [vec![50, 50], vec![50, 50], vec![0, 0], vec![0, 0]]);
    drop(balancer);
    let _ = std::fs::remove_dir_all(data);
}

#[test]
fn back_ends_that_were_late_end_with_void() {
    let (address, caller) = (fresh_ip().to_string(), fresh_ip().to_string());
    // Later than not at all.
    let backends = Beside::start(&["load", "--backend", "-i", &address, "--lateness", "0"]);
    let said = text(&load(&["-sn", "uac", "-i", &caller, &address, "-r", "50", "-m", "10"]));
    assert!(said.contains("PASS"), "{said}");
    backends.signal("TERM");
    let (said, code) = backends.end();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("VOID\n  responses later than modelled"), "{said}");
}

#[test]
fn what_back_ends_cannot_be_is_said() {
    let address = fresh_ip().to_string();
    for (args, says) in [
        (&["--capacity", "1,2"][..], "2 numbers for 1 addresses"),
        (&["--stall", "never"], "two times"),
        (&["--workers", "2"], "one worker"),
        (&["-sn", "uac"], "cannot be used with"),
    ] {
        let args: Vec<&str> = ["load", "--backend", "-i", &address].iter().chain(args).copied().collect();
        let output = run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output).contains(says), "{args:?}: {}", text(&output));
    }
    let output = run(["load", "--backend", "-i", "0.0.0.0"].iter());
    assert!(output.status.code() == Some(2) && text(&output).contains("name one"), "{}", text(&output));
}
