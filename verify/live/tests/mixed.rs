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

#[test]
fn experiment_registers_callees_by_its_scenario() {
    let folder =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mixed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let calls = format!("{}/../../lab/calls/plain", env!("CARGO_MANIFEST_DIR"));
    let file = folder.join("experiment.toml");
    let text = format!(
        "question = \"?\"\nrepetitions = 1\nwarm_up = \"1s\"\nmeasure = \"2s\"\n[system.this]\n[system.relay]\n\
         kind = \"relay\"\nat = {{ arrivals = \"even\" }}\n[factor]\narrivals = [\"even\", \"poisson\"]\n[workload]\nrate = 50\n\
         scenario = \"{calls}/caller.xml\"\nanswer = \"{calls}/callee.xml\"\nrows = \"{calls}/calls.csv\"\n\
         registrations = \"{calls}/registrations.csv\"\noptions = [\"--lateness\", \"60000\"]\n"
    );
    std::fs::write(&file, text).unwrap();
    let out = folder.join("out");
    let arguments = ["lab", "run", "--out", out.to_str().unwrap(), file.to_str().unwrap()];
    let done = live::run(arguments);
    let said = format!("{}{}", text_of(&done.stdout), text_of(&done.stderr));
    assert!(done.status.success() && said.contains("5 of 5 runs count"), "{said}");
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
