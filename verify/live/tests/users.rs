//! A small population of users against a running server.

use live::{Setup, Via, figure, fresh_ips, run, text};

const USERS: u32 = 300;

/// Runs 300 users, a hundred times faster than in life, and checks that nothing failed.
fn live_for_a_while(workers: usize, transport: &str, more: &[&str]) {
    let [here, mailbox] = fresh_ips();
    let target = format!("sip:voicemail@{mailbox}:5090;transport={transport}");
    // Where other tests leave it no processor for a moment, a server that refuses some would be right.
    let config =
        format!("[voicemail]\ntarget = \"{target}\"\non = [\"busy\"]\n[overload]\ndelay = \"10s\"\n");
    let mut setup = Setup::new().workers(workers).config(&config);
    for n in 0..USERS {
        setup = setup.user(&format!("u{}", 1_000_000 + n), &format!("p{}", 1_000_000 + n));
    }
    let server = setup.start();
    let (target, here, mailbox) = (server.sip().to_string(), here.to_string(), format!("{mailbox}:5090"));
    let users = USERS.to_string();
    // A machine that is busy with other tests makes it late; that is not what is tested here.
    let args = ["load", "--quiet", "--lateness", "60000", "--users", &users, "--domain", "example.com"];
    let args = args.into_iter().chain(["--compress", "100", "--measure", "8s", "--with", "warm_up=100"]);
    let args = args.chain(["--with", "hold=lognormal(mean_time=60s,sigma=0.5)", "--with", "think=10m"]);
    let args = args.chain(["--mailbox", &mailbox, "-i", &here, &target]);
    let out = run(args.chain(more.iter().copied()));
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    assert!(figure(&said, "Calls begun") > 50.0, "{said}");
    for name in ["Calls failed", "Unexpected messages"] {
        assert_eq!(figure(&said, name), 0.0, "{said}");
    }
    assert_eq!(figure(&said, "Successful registrations"), 100.0, "{said}");
    assert!(figure(&said, "Calls that ended in voicemail") > 5.0, "{said}");
    assert!(said.contains("TIME COMPRESSED x100") && said.contains("server: process: strowger"), "{said}");
}

#[test]
fn users_live_with_one_worker() {
    live_for_a_while(1, "udp", &["--workers", "1"]);
}

#[test]
fn users_live_with_several_workers_and_keep_their_nonces() {
    live_for_a_while(2, "udp", &["--workers", "2", "--reuse-nonces"]);
}

#[test]
fn users_live_over_streams() {
    live_for_a_while(1, "tcp", &["--workers", "1", "-t", "t1"]);
}

#[test]
fn users_live_behind_a_websocket() {
    let [here] = fresh_ips();
    let mut setup = Setup::new().workers(2).config("[overload]\ndelay = \"10s\"\n").secure();
    for n in 0..100 {
        setup = setup.user(&format!("u{}", 1_000_000 + n), &format!("p{}", 1_000_000 + n));
    }
    let server = setup.start();
    let target = format!("wss:{}", server.place(Via::Wss));
    let args = ["load", "--quiet", "--lateness", "60000", "--users", "100", "--domain", "example.com"];
    let args = args.into_iter().chain(["--compress", "100", "--measure", "4s", "--with", "warm_up=100"]);
    let here = here.to_string();
    let out = run(args.chain(["-t", "wss1", "--workers", "2", "-i", &here, &target]));
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    // All calls are answered over the connection that registered.
    assert!(figure(&said, "Calls begun") > 5.0, "{said}");
    assert!(said.contains("TLS handshakes: 1 (1 full, 0 resumed), failed: 0"), "{said}");
}

#[test]
fn users_of_a_domain_that_is_not_served_are_told_so() {
    let [here] = fresh_ips();
    let server = Setup::new().start();
    let (target, here) = (server.sip().to_string(), here.to_string());
    let users = ["load", "--quiet", "--users", "20", "--domain", "elsewhere.test", "--compress", "600"];
    let out = run(users.into_iter().chain(["--measure", "2s", "--with", "warm_up=60", "-i", &here, &target]));
    let said = text(&out);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains(&format!("{target} answered 40")), "{said}");
    assert!(said.contains("does not serve elsewhere.test") && said.contains("user import"), "{said}");
}

#[test]
fn a_search_for_users_stands_beside_the_literature() {
    let [here] = fresh_ips();
    // It may take its time; what is asked is what is said of it.
    let mut setup = Setup::new().config("[overload]\ndelay = \"10s\"\n");
    for n in 0..40 {
        setup = setup.user(&format!("u{}", 1_000_000 + n), &format!("p{}", 1_000_000 + n));
    }
    let server = setup.start();
    let (target, here) = (server.sip().to_string(), here.to_string());
    let json =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("users-{}.json", std::process::id()));
    let json = json.to_str().expect("a name");
    let users = ["load", "--lateness", "60000", "--users", "40", "--domain", "example.com", "--workers", "1"];
    let life = ["--compress", "600", "--with", "think=10m", "--with", "cool_down=2", "--with", "warm_up=60"];
    // No more than 40 are tried, and whatever becomes of their calls conforms.
    let search = ["--find-peak", "-rate_max", "40", "--trial", "2s", "--response", "0", "--success", "0"];
    let files = ["--json", json, "-i", &here, &target];
    let out = run(users.iter().chain(&life).chain(&search).chain(&files));
    let said = text(&out);
    assert!(out.status.success() && said.contains("peak: at least 40 users"), "{said}");
    let out = run(["load", "compare", json, json]);
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    let plain = said.replace([',', '\u{202f}', '\u{a0}'], "");
    for words in ["Largest load", "Users in life", "at least 40 users", "24000", "OpenSER", "350000"] {
        assert!(plain.contains(words), "{words}: {said}");
    }
}

#[test]
fn what_is_written_for_the_server_is_what_users_say() {
    let file = std::env::temp_dir().join(format!("strowger-users-{}.csv", std::process::id()));
    let file = file.to_str().expect("a name");
    let args = ["load", "--users", "3", "--domain", "example.com", "--write-users", file];
    let out = run(args.into_iter().chain(["--first-user", "phone08", "--first-password", "s-1"]));
    assert!(out.status.success(), "{}", text(&out));
    let expected = "username,domain,password\nphone08,example.com,s-1\nphone09,example.com,s-2\n\
                    phone10,example.com,s-3\n";
    assert_eq!(std::fs::read_to_string(file).ok().as_deref(), Some(expected));
}

#[test]
fn what_cannot_be_is_refused_before_the_first_message() {
    let [here] = fresh_ips();
    let here = here.to_string();
    let cases: [(&[&str], &str); 9] = [
        (&["--users", "0"], "not in"),
        (&["--users", "10", "-rate_max", "5"], "--find-peak"),
        (&["--users", "1"], "at least 2"),
        (&["--users", "10", "--with", "hold"], "KEY=VALUE"),
        (&["--users", "10", "--with", "holt=5s"], "no parameter \"holt\""),
        (&["--users", "10", "--with", "voicemail=0.5"], "sum to 1"),
        (&["--users", "10", "--first-user", "alice"], "end with a number"),
        (&["--users", "10", "-r", "5"], "cannot be used"),
        (&["--compress", "60"], "--users"),
    ];
    for (args, expected) in cases {
        let out = run(["load", "--quiet", &here].iter().chain(args));
        let said = text(&out);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}
