//! The admin API, `strowger ctl`, `strowger check`, metrics, and the life of the process.

use live::{Req, Server, Setup, Via, eventually, http, run};
use std::io::Write;
use std::net::TcpStream;

fn registered() -> Server {
    let server = Setup::open().workers(2).start();
    for user in ["ann", "ben"] {
        server.link(Via::Udp).register(user);
    }
    server
}

/// The value of a metric summed over its labels.
fn metric(server: &Server, name: &str) -> f64 {
    let text = http(server.admin(), "GET", "/metrics").body;
    let lines = text.lines().filter(|l| !l.starts_with('#') && l.starts_with(name));
    lines.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn status_and_bindings_by_http_and_by_ctl() {
    let server = registered();
    let status = http(server.admin(), "GET", "/v1/status");
    assert_eq!(status.status, 200);
    assert!(status.body.contains("\"bindings\":2"), "{}", status.body);
    assert!(status.body.contains("\"workers\":2"), "{}", status.body);
    let bindings = http(server.admin(), "GET", "/v1/bindings");
    assert!(
        bindings.body.contains("ann@example.com") && bindings.body.contains("ben@example.com"),
        "{}",
        bindings.body
    );
    let found = http(server.admin(), "GET", "/v1/bindings?q=ANN@").body;
    assert!(found.contains("ann@example.com") && !found.contains("ben@example.com"), "{found}");
    for (command, part) in [("status", "ready"), ("bindings", "ann@example.com"), ("calls", "")] {
        let text = server.ctl(&[command]);
        assert!(text.status.success(), "ctl {command}: {}", String::from_utf8_lossy(&text.stderr));
        assert!(String::from_utf8_lossy(&text.stdout).contains(part), "ctl {command}");
        let json = server.ctl(&[command, "--output", "json"]);
        assert!(json.status.success());
        let out = String::from_utf8_lossy(&json.stdout).into_owned();
        assert!(out.trim_start().starts_with(['{', '[']), "ctl {command} --output json: {out}");
    }
}

#[test]
fn a_call_in_progress_is_listed() {
    let server = Setup::open().start();
    let mut bob = server.link(Via::Udp);
    bob.register("bob");
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(180, "b", &[]));
    caller.expect(&invite, 180);
    eventually("the call is listed", || {
        http(server.admin(), "GET", "/v1/calls").body.contains(&invite.call_id).then_some(())
    });
    let search = |text: &str| http(server.admin(), "GET", &format!("/v1/calls?q={text}")).body;
    assert!(search(&invite.call_id).contains(&invite.call_id));
    assert!(!search("carol").contains(&invite.call_id));
    bob.send(&received.reply(486, "b", &[]));
    let answer = caller.response(&invite);
    caller.send(&invite.ack(&answer).bytes());
    eventually("the call is gone", || {
        (!http(server.admin(), "GET", "/v1/calls").body.contains(&invite.call_id)).then_some(())
    });
}

#[test]
fn metrics_count_and_the_api_describes_itself() {
    let server = registered();
    let text = http(server.admin(), "GET", "/metrics");
    assert_eq!(text.status, 200);
    assert!(text.body.contains("# TYPE"), "{}", text.body);
    assert!(text.body.lines().any(|l| l.contains("_bucket{")), "no latency histogram");
    assert!(metric(&server, "strowger_") >= 2.0);
    let described = http(server.admin(), "GET", "/openapi.json");
    assert!(described.body.contains("\"openapi\"") && described.body.contains("/v1/bindings"));
    assert_eq!(http(server.admin(), "GET", "/nothing").status, 404);
    assert_eq!(http(server.admin(), "GET", "/v1/reload").status, 405);
    assert_eq!(http(server.admin(), "GET", "/readyz").status, 200);
}

#[test]
fn the_api_survives_nonsense() {
    let server = registered();
    for nonsense in [&b"\0\0\0\0\r\n\r\n"[..], b"GET / HTTP/9.9\r\n\r\n", b"GET ", &[b'A'; 100_000]] {
        let mut stream = TcpStream::connect(server.admin()).unwrap();
        let _ = stream.write_all(nonsense);
    }
    assert_eq!(http(server.admin(), "GET", "/v1/status").status, 200);
    server.assert_alive("nonsense at the admin port");
}

#[test]
fn check_tells_every_error_with_its_place() {
    let dir = std::env::temp_dir().join(format!("strowger-check-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("bad.toml");
    std::fs::write(&file, "workers = \"many\"\n[timers]\nt1 = -5\n[proxxy]\nmode = \"stateful\"\n").unwrap();
    let out = run(["check", file.to_str().unwrap()]);
    let said = [out.stdout, out.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(!out.status.success());
    for place in ["1:", "3:", "4:"] {
        assert!(said.contains(&format!("bad.toml:{place}")), "{place} is missing in {said}");
    }
    std::fs::write(&file, "domains = [\"example.com\"]\n").unwrap();
    // From where it is, and whole: it means the same in a file elsewhere.
    let binary = std::path::absolute(live::binary()).unwrap();
    let out = std::process::Command::new(binary).args(["check", "bad.toml"]).current_dir(&dir).output();
    let out = out.unwrap();
    assert!(out.status.success());
    let (said, data) = (String::from_utf8(out.stdout).unwrap(), dir.canonicalize().unwrap().join("data"));
    assert!(said.contains(&format!("data_dir = \"{}\"", data.display())), "{said}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn output_to_a_closed_pipe_is_no_failure() {
    let dir = std::env::temp_dir().join(format!("strowger-pipe-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("good.toml");
    std::fs::write(&file, "domains = [\"example.com\"]\n").unwrap();
    let (file, data) = (file.to_str().unwrap(), dir.join("data").to_str().unwrap().to_owned());
    let add = ["user", "add", "ann@example.com", "--password", "secret", "--data-dir", &data];
    for args in [&["check", file][..], &add, &["user", "list", "--data-dir", &data], &["load", "-sn", "list"]]
    {
        // Its other end is gone.
        let pipe = || std::io::pipe().unwrap().1;
        let program = std::path::absolute(live::binary()).unwrap();
        let status = std::process::Command::new(program).args(args).stdout(pipe()).stderr(pipe()).status();
        assert_eq!(status.unwrap().code(), Some(0), "{args:?}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn users_are_added_and_imported() {
    let server = Setup::new().user("ann", "pw").start();
    let data = server.data();
    let data = data.to_str().unwrap();
    let out = run(["user", "add", "ben@example.com", "--password", "b", "--data-dir", data]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    // ha1 = MD5("carl:example.com:c"), as Kamailio and OpenSIPS keep it.
    let csv = server.data().join("more.csv");
    std::fs::write(&csv, "username,domain,ha1\ncarl,example.com,91eb7965ed2a3a19d12d8c354f36d2e7\n").unwrap();
    let out = run(["user", "import", csv.to_str().unwrap(), "--data-dir", data]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    for (user, password) in [("ann", "pw"), ("ben", "b"), ("carl", "c")] {
        eventually("the new user registers", || {
            let mut link = server.link(Via::Udp);
            let req = Req::register(user, &link);
            (link.ask_as(&req, &live::Credentials::new(user, password)).status() == Some(200)).then_some(())
        });
    }
    let bad = server.data().join("bad.csv");
    std::fs::write(&bad, "name,secret\nx,y\n").unwrap();
    assert!(!run(["user", "import", bad.to_str().unwrap(), "--data-dir", data]).status.success());
}

#[test]
fn sigterm_drains_and_a_second_one_stops() {
    let mut server = Setup::open().start();
    let mut bob = server.link(Via::Udp);
    bob.register("bob");
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(180, "b", &[]));
    caller.expect(&invite, 180);
    server.signal("TERM");
    // The ringing call goes on; a new one is turned away.
    eventually("new calls are refused", || {
        let mut late = server.link(Via::Udp);
        let second = Req::invite("sip:bob@example.com", &late);
        late.send(&second.bytes());
        let told = late.response_within(&second, std::time::Duration::from_secs(2))?;
        (told.status() == Some(503)).then_some(())
    });
    assert!(server.ended().is_none(), "ended with a call in progress");
    let contact = format!("Contact: <sip:bob@{}>", bob.local());
    bob.send(&received.reply(200, "b", &[&contact]));
    assert_eq!(caller.response(&invite).status(), Some(200), "a ringing call is completed while draining");
    server.signal("TERM");
    let status = eventually("the second SIGTERM stops it", || server.ended());
    assert!(status.success() || status.code().is_none(), "{status}");
}

#[test]
fn drain_by_ctl_then_it_ends_by_itself() {
    let mut server = Setup::open().start();
    assert!(server.ctl(&["drain"]).status.success());
    server.signal("TERM");
    let status = eventually("an idle server that drains ends", || server.ended());
    assert!(status.success(), "{status}");
}

#[test]
fn sigterm_without_calls_ends_it_at_once() {
    let mut server = registered();
    server.signal("TERM");
    let status = eventually("it ends", || server.ended());
    assert!(status.success(), "{status}");
}

#[test]
fn command_without_its_subcommand_shows_the_help() {
    let out = run(["lab"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("Usage: strowger lab"), "{said}");
    let help = run(["--help"]);
    assert!(help.status.success());
    assert!(run(["serve", "--help"]).status.success());
}

#[test]
fn two_servers_do_not_share_a_port() {
    let server = Setup::open().start();
    let listen = format!("udp:{}", server.sip());
    let other = std::env::temp_dir().join(format!("strowger-second-{}", std::process::id()));
    let out = run(["serve", "--listen", &listen, "--data-dir", other.to_str().unwrap(), "--admin", "off"]);
    assert!(!out.status.success());
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("5060"),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let _ = std::fs::remove_dir_all(other);
    server.assert_alive("a second server tried to start");
}
