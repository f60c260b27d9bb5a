//! `strowger ctl` against the API.

use super::*;

#[test]
fn ctl_shows_the_status() {
    let (pretend, server) = start();
    let table = ctl(server.address(), &Command::Status, Output::Table).unwrap();
    for line in [
        "state             ready",
        "running for       1 d 1 h",
        "authentication    on; since the start 41 right credentials, 3 wrong, 2 held off for those",
        "store             healthy, 0 pending; sqlite",
    ] {
        assert!(table.lines().any(|l| l == line), "{line} not in\n{table}");
    }
    let json = ctl(server.address(), &Command::Status, Output::Json).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&json).unwrap(), pretend.status());
}

#[test]
fn ctl_fetches_every_page() {
    let (_, server) = start();
    let all = Command::Bindings { aor: None };
    let json: Value = serde_json::from_str(&ctl(server.address(), &all, Output::Json).unwrap()).unwrap();
    let aors: BTreeSet<&str> = json.as_array().unwrap().iter().map(|b| b["aor"].as_str().unwrap()).collect();
    assert_eq!(aors.len(), BINDINGS);
    let table = ctl(server.address(), &all, Output::Table).unwrap();
    assert_eq!(table.lines().count(), BINDINGS + 1);
    assert!(!table.contains('\u{1b}') && table.contains("Evil\\x1b[31m"));
    let one = Command::Bindings { aor: Some("user0042@example.com".into()) };
    let table = ctl(server.address(), &one, Output::Table).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("AOR ") && lines[1].starts_with("user0042@example.com  "), "{table}");
    let none = Command::Bindings { aor: Some("user+name&x@example.com".into()) };
    assert_eq!(ctl(server.address(), &none, Output::Json).unwrap(), "[]\n");
    assert_eq!(ctl(server.address(), &Command::Calls, Output::Json).unwrap(), "[]\n");
}

#[test]
fn ctl_shows_connections_up_to_a_limit() {
    let (_, server) = start();
    let ask = |transport: Option<&str>, peer: Option<&str>, limit| Command::Connections {
        transport: transport.map(str::to_owned),
        peer: peer.map(str::to_owned),
        limit,
    };
    let text = ctl(server.address(), &ask(None, None, 1_200), Output::Table).unwrap();
    assert_eq!(text.lines().count(), 1 + 1_200 + 1, "head, rows, and that there are more");
    assert!(text.ends_with("ask for a --transport or a --peer\n"), "{text}");
    let text = ctl(server.address(), &ask(None, None, 1_500), Output::Json).unwrap();
    let all: Vec<Connection> = serde_json::from_str(&text).unwrap();
    assert_eq!(all, (0..CONNECTIONS).map(connection).collect::<Vec<_>>());
    let text = ctl(server.address(), &ask(Some("tls"), Some("192.0.2.1:10007"), 9), Output::Table).unwrap();
    let row = text.lines().nth(1).unwrap();
    let words =
        "tls 192.0.2.1:10007 peer.example peer open 1 min 15 s 3 s 4000 5000 1.3 TLS13_AES_256_GCM_SHA384 1";
    assert_eq!(row.split_whitespace().collect::<Vec<_>>().join(" "), words);
    assert_eq!(text.lines().count(), 2);
    let wrong = ctl(server.address(), &ask(Some("udp"), None, 9), Output::Table).unwrap_err();
    assert_eq!(wrong.to_string(), "refused (400): transport is one of tcp, tls, ws, wss");
}

#[test]
fn ctl_shows_certificates_and_their_faults() {
    let (_, server) = start();
    let text = ctl(server.address(), &Command::Certificates, Output::Table).unwrap();
    assert!(text.contains("example.com; all others") && text.contains("ECDSA P-256"), "{text}");
    assert!(text.ends_with("FAULT: privkey.pem: is not the key\n"), "{text}");
    let text = ctl(server.address(), &Command::Certificates, Output::Json).unwrap();
    assert_eq!(serde_json::from_str::<Vec<CertificateStatus>>(&text).unwrap(), [certificate()]);
}

#[test]
fn ctl_reloads_and_drains() {
    let (pretend, server) = start();
    let done = ctl(server.address(), &Command::Reload, Output::Table).unwrap();
    assert_eq!(done, "in force now: proxy\nwarning: mind the gap\n");
    pretend.bad_config.store(true, SeqCst);
    let refused = ctl(server.address(), &Command::Reload, Output::Table).unwrap_err();
    let expected = "refused (409): the configuration was not changed\n  s.toml:3:4: unknown key `x`";
    assert_eq!(refused.to_string(), expected);
    let drained = ctl(server.address(), &Command::Drain { all: false }, Output::Table).unwrap();
    assert_eq!(drained, "draining; waiting for 3 calls; SIGTERM ends the server\n");
}

#[test]
fn a_balancer_has_no_calls_to_list_and_drains_by_node() {
    let (pretend, server) = start();
    let table = |command: &Command| ctl(server.address(), command, Output::Table);
    pretend.balances.store(true, SeqCst);
    let no_lists = "refused (404): this is a balancer: see `strowger ctl nodes` and `strowger ctl audit`";
    for command in [Command::Calls, Command::Bindings { aor: None }] {
        assert_eq!(table(&command).unwrap_err().to_string(), no_lists);
    }
    let status = table(&Command::Status).unwrap();
    for line in [
        "configuration  defaults and options",
        "calls          3; in memory 3 calls and dialogs, 40 ended",
        "transactions   4 unfinished; in memory 90",
    ] {
        assert!(status.lines().any(|l| l == line), "{line} not in\n{status}");
    }
    let refused = table(&Command::Drain { all: false }).unwrap_err().to_string();
    assert!(refused.contains("name the node to drain, one of 192.0.2.1:5060; "), "{refused}");
    assert!(refused.ends_with("say --all") && !pretend.drained.load(SeqCst), "{refused}");
    let drained = table(&Command::Drain { all: true }).unwrap();
    assert_eq!(drained, "draining; 3 calls go on, and new ones get 503; only a restart takes this back\n");
}

#[test]
fn scripts_see_by_the_status_that_a_server_is_about_to_end() {
    let (pretend, server) = start();
    // A server that an operator drains and watches has not failed.
    pretend.drained.store(true, SeqCst);
    ctl(server.address(), &Command::Status, Output::Table).unwrap();
    pretend.stops.store(true, SeqCst);
    let mut out = Vec::new();
    let client = Client::new(&server.address().to_string(), None).unwrap();
    let ended = run(&client, &Command::Status, Output::Json, &mut out);
    assert_eq!(ended.unwrap_err().to_string(), "it is about to end; send nothing new there");
    assert!(String::from_utf8(out).unwrap().contains("\"state\": \"stopping\""));
}

#[test]
fn ctl_says_what_to_do_when_nobody_answers() {
    let (_, server) = start();
    let address = server.address();
    drop(server);
    let error = ctl(address, &Command::Status, Output::Table).unwrap_err().to_string();
    let expected = format!(
        "cannot reach {address}: connection refused; is `strowger serve` or `balance` running with --admin {address}?"
    );
    assert_eq!(error, expected);
    for bad in ["", "localhost", ":80", "localhost:0", "a b:80", "http://localhost:80", "x@y:80", "h:80/p"] {
        assert!(matches!(Client::new(bad, None), Err(ClientError::Address(_))), "{bad}");
    }
}

#[test]
fn ctl_knows_a_stranger() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stranger = std::thread::Builder::new().spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    });
    let error = ctl(address, &Command::Status, Output::Table).unwrap_err();
    assert!(matches!(error, ClientError::Strange(_)), "{error}");
    stranger.unwrap().join().unwrap();
}

#[test]
fn nodes_are_shown_and_told_what_is_wanted_of_them() {
    let (pretend, server) = start();
    let ask = |command: &Command| ctl(server.address(), command, Output::Table);
    let table = ask(&Command::Nodes).unwrap();
    assert!(table.starts_with("algorithm: tlwl\nNODE "), "{table}");
    let row = table.lines().nth(2).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..8], ["192.0.2.1:5060", "2", "serve", "up", "12", "3", "4.50", "99"]);
    assert!(row.contains("7.0 ms  3.0 ms  answers"), "{row}");
    let node = |name: &str, order| Command::Order { node: name.into(), order };
    for order in [NodeOrder::Drain, NodeOrder::Serve, NodeOrder::Maintenance, NodeOrder::Removed] {
        let said = ask(&node("192.0.2.1:5060", order)).unwrap();
        assert_eq!(said, format!("192.0.2.1:5060: {}; 12 calls\n", order.name()));
    }
    let none = ask(&node("x", NodeOrder::Drain)).unwrap_err().to_string();
    assert!(none.contains("refused (404): no node \"x\""), "{none}");
    let added = ask(&Command::AddNode { node: "sip:192.0.2.1".into() }).unwrap();
    assert_eq!(added, "192.0.2.1:5060: serve; 12 calls\n");
    let none = ask(&Command::AddNode { node: "x".into() }).unwrap_err().to_string();
    assert!(none.contains("refused (409): is there already"), "{none}");
    let audit = ask(&Command::Audit).unwrap();
    let counts = "2 workers, 3 calls and dialogs, 4 ended, 5 transactions\n";
    assert_eq!(audit, format!("every counter is what the records say; {counts}"));
    pretend.drained.store(true, SeqCst);
    assert!(ask(&Command::Audit).unwrap().starts_with("counters of workers [1] are WRONG"));
    // Another server than a balancer.
    pretend.bad_config.store(true, SeqCst);
    for command in [Command::Nodes, Command::Audit, Command::Algorithm { name: "tjsq".into() }] {
        let none = ask(&command).unwrap_err().to_string();
        assert!(none.contains("refused (404): this server is no load balancer"), "{none}");
    }
}
