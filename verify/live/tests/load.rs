//! The load generator: against itself, through a server, and where it cannot do what it is asked.

use live::{Beside, Link, PATIENCE, Setup, figure, fresh_ip, load, run, text};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

fn file(name: &str, content: &str) -> PathBuf {
    live::file(env!("CARGO_TARGET_TMPDIR"), name, content)
}

#[test]
fn one_generator_calls_another() {
    for transport in ["u1", "t1", "tn"] {
        let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
        let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060", "-t", transport]);
        let out = load(&["-sn", "uac", "-i", &caller, &callee, "-t", transport, "-r", "100", "-m", "50"]);
        let said = text(&out);
        assert!(out.status.success(), "{transport}: {said}");
        assert_eq!((figure(&said, "Calls begun"), figure(&said, "Calls failed")), (50.0, 0.0), "{said}");
    }
}

#[test]
fn both_ends_meet_through_a_server() {
    let server = Setup::open().workers(2).start();
    let here = fresh_ip();
    // The server knows where calls for `service` go: to where the generator will answer.
    Link::udp_at((here, 5070).into(), server.sip()).register("service");
    let target = server.sip().to_string();
    let here = here.to_string();
    let args =
        ["-sn", "uac", "--answer", "uas", "-i", &here, "-p", "5070", &target, "-r", "100", "-m", "100"];
    let out = load(&args);
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    assert_eq!(figure(&said, "Calls begun"), 100.0, "{said}");
}

#[test]
fn a_server_is_asked_for_its_own_figures() {
    let server = Setup::open().workers(1).start();
    let (caller, target) = (fresh_ip().to_string(), server.sip().to_string());
    let url = format!("http://{}/metrics", server.admin());
    // It refuses the calls; what it says of itself is there all the same.
    let args = ["-sn", "uac", "-i", &caller, &target, "-r", "50", "-m", "10"];
    let said = text(&load(&[&args[..], &["--server-metrics", &url]].concat()));
    for words in
        ["processor time by its metrics", "memory by its metrics (RSS): ", "packets lost by its sockets, by"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    // One that has none spoils no run.
    let callee = fresh_ip().to_string();
    let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060"]);
    let nothing = format!("http://{callee}:1/metrics");
    let args = ["-sn", "uac", "-i", &caller, &callee, "-r", "50", "-m", "10", "--server-metrics", &nothing];
    let out = load(&args);
    let said = text(&out);
    assert!(out.status.success() && said.contains("its metrics: no figures: "), "{said}");
    let out = load(&["-sn", "uac", &callee, "--server-metrics", "127.0.0.1:9100"]);
    assert!(out.status.code() == Some(2) && text(&out).contains("http://"), "{}", text(&out));
}

#[test]
fn a_server_that_stands_still_shows_in_the_latencies() {
    let both = ["u1", "t1"].map(|transport| std::thread::spawn(|| stands_still(transport)));
    for test in both {
        test.join().expect("it holds");
    }
}

/// Over UDP the kernel notes when a message came, over TCP nobody does; the wait shows either way.
fn stands_still(transport: &'static str) {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let beside = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060", "-t", transport]);
    let calls = std::thread::spawn(move || {
        load(&["-sn", "uac", "-i", &caller, &callee, "-t", transport, "-r", "50", "-m", "200", "-nr"])
    });
    std::thread::sleep(Duration::from_secs(1));
    beside.signal("STOP");
    std::thread::sleep(Duration::from_secs(2));
    beside.signal("CONT");
    let said = text(&calls.join().expect("the calls end"));
    // Half of the calls fell into the two seconds; no caller was spared because others waited.
    let line = said.lines().find(|line| line.starts_with("response")).expect("its latencies");
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [_, p90, _, _, max, _] = numbers[..] else { panic!("{line}") };
    assert!(p90 > 500.0 && max > 1_000.0 && max < PATIENCE.as_secs_f64() * 1_000.0, "{said}");
}

#[test]
fn nobody_at_the_other_end_fails_the_calls() {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let target = format!("{callee}:5999");
    let capture = file("failed.pcap", "");
    let capture = capture.to_str().expect("a name");
    let retrans = ["-max_invite_retrans", "1", "--pcap", capture];
    let args = ["-sn", "uac", "-i", &caller, &target, "-r", "10", "-m", "3"];
    let out = load(&[&args[..], &retrans[..]].concat());
    let said = text(&out);
    assert_eq!((out.status.code(), figure(&said, "Calls failed")), (Some(1), 3.0), "{said}");
    let capture = std::fs::read(capture).expect("the flows that failed");
    assert_eq!(
        capture.windows(7).filter(|w| *w == b"INVITE ").count(),
        6,
        "each as it was first sent, and once again"
    );
}

#[test]
fn what_cannot_be_run_is_refused_before_the_first_message() {
    let broken = file("broken.xml", "<scenario name=\"x\">\n  <send>\n    <exec/>\n  </send>\n</scenario>\n");
    let media = file(
        "media.xml",
        "<scenario name=\"x\">\n <nop>\n  <action>\n   <exec play_pcap_audio=\"a.pcap\"/>\n  </action>\n </nop>\n</scenario>\n",
    );
    let ip = fresh_ip().to_string();
    let broken = broken.to_str().expect("a name");
    let media = media.to_str().expect("a name");
    let cases: [(&[&str], &str); 9] = [
        (&["-sf", broken, &ip], "broken.xml:2"),
        (&["-sf", media, &ip], "media.xml:4"),
        (&["-sf", "/nonexistent.xml", &ip], "/nonexistent.xml"),
        (&["-sn", "nothing", &ip], "-sn list"),
        (&["-sn", "uac"], "HOST:PORT"),
        (&["-sn", "uac", &ip, "-t", "c1"], "not in this version"),
        (&["-sn", "uac", "256.1.1.1:x"], "no port"),
        (&["-sn", "uac", &ip, "-inf", "/nonexistent.csv"], "/nonexistent.csv"),
        (&["-sn", "uac", &ip, "-rate_max", "100"], "-rate_increase"),
    ];
    for (args, expected) in cases {
        let out = load(args);
        let said = text(&out);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn reports_can_be_read_again_and_compared() {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060"]);
    let (json, html) = (file("a.json", ""), file("a.html", ""));
    let (json, html) = (json.to_str().expect("a name"), html.to_str().expect("a name"));
    let args =
        ["-sn", "uac", "-i", &caller, &callee, "-r", "100", "-m", "20", "--json", json, "--html", html];
    let out = load(&args);
    assert!(out.status.success(), "{}", text(&out));
    assert!(std::fs::read_to_string(html).is_ok_and(|page| page.contains("PASS")));
    let both = format!("{json},{json}");
    let out = run(["load", "compare", &both, &both]);
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    // A run and itself: every figure is equal, and nothing is known of chance.
    for words in ["A: ", "B: ", "runs that count: 2 (PASS PASS)", "same seed", "WARNING: "] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let begun = said.lines().find(|line| line.starts_with("calls.begun")).expect("a line for each figure");
    assert!(begun.matches("20").count() == 2 && begun.contains("equal in every run"), "{said}");
    assert!(!said.contains("better") && !said.contains("worse:"), "{said}");
    let out = run(["load", "compare", json, json, "--confidence", "100"]);
    assert!(out.status.code() == Some(2) && text(&out).contains("from 50 to 99.9"), "{}", text(&out));
    let out = run(["load", "compare", json, html]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out));
}

#[test]
fn a_search_is_reported_and_compared() {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060"]);
    let (json, html) = (file("peak.json", ""), file("peak.html", ""));
    let (json, html) = (json.to_str().expect("a name"), html.to_str().expect("a name"));
    let search =
        ["--find-peak", "-r", "50", "-rate_max", "100", "--trial", "1s", "--json", json, "--html", html];
    let out = load(&[&["-sn", "uac", "-i", &caller, &callee], &search[..]].concat());
    let said = text(&out);
    assert!(out.status.success() && said.contains("peak: at least 100 calls/s"), "{said}");
    let report = std::fs::read_to_string(json).expect("its report");
    assert!(report.contains("\"outcome\":\"at_least\"") && report.contains("\"key\":\"peak\""), "{report}");
    assert!(std::fs::read_to_string(html).is_ok_and(|page| page.contains("<dt>Largest load</dt>")));
    let page = file("both.html", "");
    let page = page.to_str().expect("a name");
    let out = run(["load", "compare", json, json, "--html", page]);
    let said = text(&out);
    let heads = |line: &&str| line.starts_with("Server ") && line.contains("Largest load");
    let table = said.lines().skip_while(|line| !heads(line)).collect::<Vec<_>>();
    assert!(table.get(1).is_some_and(|line| line.contains("at least 100 calls/s")), "{said}");
    // It is a process of this machine.
    assert!(table.get(1).is_some_and(|line| line.contains(" %") && line.contains(" MiB")), "{said}");
    let page = std::fs::read_to_string(page).expect("the page of both");
    for words in ["Largest load", "Processor time against load", "Memory against load"] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn a_search_where_nothing_conforms_is_reported_too() {
    let (caller, target) = (fresh_ip().to_string(), format!("{}:5999", fresh_ip()));
    let (json, html) = (file("none.json", ""), file("none.html", ""));
    let (json, html) = (json.to_str().expect("a name"), html.to_str().expect("a name"));
    let search = ["--find-peak", "-r", "2", "--trial", "1s", "-nr", "-recv_timeout", "50"];
    let files = ["--json", json, "--html", html];
    let out = load(&[&["-sn", "uac", "-i", &caller, &target], &search[..], &files].concat());
    let said = text(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("no peak: even 1 calls/s do not conform"), "{said}");
    let report = std::fs::read_to_string(json).expect("its report");
    assert!(
        report.contains("\"outcome\":\"nothing\"") && report.contains("\"verdict\":\"FAIL\""),
        "{report}"
    );
    assert!(std::fs::read_to_string(html).is_ok_and(|page| page.contains("no peak: even 1 calls/s")));
}

/// `strowger load ... | head`: who reads it has read enough, and the run goes on.
#[test]
fn a_report_is_written_though_nobody_reads_what_is_said() {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060"]);
    let json = file("unread.json", "");
    let json = json.to_str().expect("a name");
    let args =
        ["load", "--lateness", "60000", "-sn", "uac", "-i", &caller, &callee, "-m", "3", "--json", json];
    let mut child = Command::new(live::binary())
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().expect("its end").code(), Some(0));
    assert!(std::fs::read_to_string(json).is_ok_and(|report| report.contains("\"word\":\"PASS\"")));
}

#[test]
fn a_report_is_written_though_another_file_cannot_be() {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060"]);
    let json = file("kept.json", "");
    let json = json.to_str().expect("a name");
    // It can be opened, and takes nothing.
    let files = ["--pcap", "/dev/full", "--json", json];
    let out = load(&[&["-sn", "uac", "-i", &caller, &callee, "-m", "3"], &files[..]].concat());
    let said = text(&out);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("PASS") && said.contains("cannot write /dev/full"), "{said}");
    assert!(std::fs::read_to_string(json).is_ok_and(|report| report.contains("\"word\":\"PASS\"")));
}

#[test]
fn numbers_that_are_none_are_refused() {
    let ip = fresh_ip().to_string();
    for (option, value) in [
        ("--warm-up", "nan"),
        ("--lateness", "nan"),
        ("--lateness", "-1"),
        ("-lost", "200"),
        ("--success", "101"),
        ("--response", "inf"),
        ("-r", "nan"),
        ("-l", "0"),
        ("-users", "0"),
    ] {
        let with_sign = format!("{option}={value}");
        let out = match option.starts_with("--") {
            true => run(["load", "--quiet", "-sn", "uac", &ip, &with_sign]),
            false => run(["load", "--quiet", "-sn", "uac", &ip, option, value]),
        };
        let said = text(&out);
        assert_eq!(out.status.code(), Some(2), "{option} {value}: {said}");
        assert!(said.contains("wanted") || said.contains("not in"), "{option} {value}: {said}");
    }
}
