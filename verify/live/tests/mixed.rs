//! The mixed traffic of `lab/calls/mixed`: the messages of 29 kinds of clients go through the server.

use live::{Setup, figure, fresh_ip, load, text};

/// A file of the folder.
fn own(name: &str) -> String {
    format!("{}/../../lab/calls/mixed/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn mixed_flows_complete_through_the_server() {
    let server = Setup::open().domain("lab.test").workers(1).config("[proxy]\nmtu = 65535\n").start();
    let (target, here) = (server.sip().to_string(), fresh_ip().to_string());
    let (caller, callee) = (own("caller.xml"), own("callee.xml"));
    let (calls, registrations) = (own("calls.csv"), own("registrations.csv"));
    let common =
        ["--sf", &caller, "-i", &here, "-p", "5060", "--key", "domain", "lab.test", "--workers", "1"];
    let run = |own: &[&str]| {
        let out = load(&[&common[..], own, &[target.as_str()]].concat());
        let said = text(&out);
        assert!(out.status.success(), "{said}");
        assert_eq!(figure(&said, "Calls failed"), 0.0, "{said}");
        said
    };
    run(&["--inf", &registrations, "-r", "200", "-m", "1000"]);
    // Every kind calls and is called in the first lines.
    let said = run(&["--inf", &calls, "--answer", &callee, "-r", "50", "-m", "400"]);
    assert_eq!(figure(&said, "Calls begun"), 400.0, "{said}");
    assert_eq!(figure(&said, "Unexpected messages"), 0.0, "{said}");
}
