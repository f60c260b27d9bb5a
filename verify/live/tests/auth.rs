//! Digest authentication as phones use it: RFC 3261 section 22, RFC 7616, RFC 8760.

use live::{Credentials, Link, Listener, Req, Server, Setup, Via, answer, run, sha256_answer};
use std::time::Instant;

fn server(config: &str) -> Server {
    Setup::new().user("alice", "secret-a").user("bob", "secret-b").config(config).start()
}

fn alice() -> Credentials<'static> {
    Credentials::new("alice", "secret-a")
}

#[test]
fn one_nonce_serves_many_requests_in_order() {
    let server = server("");
    let mut link = server.link(Via::Udp);
    let first = Req::register("alice", &link);
    let challenged = link.ask(&first);
    let mut last = first;
    for nc in 1..=5 {
        let line = answer(&challenged, &Credentials { nc, ..alice() }, "REGISTER", "sip:example.com");
        last = last.again(&link, &line);
        assert_eq!(link.status(&last), 200, "nc={nc}");
    }
    let line = answer(&challenged, &Credentials { nc: 3, ..alice() }, "REGISTER", "sip:example.com");
    assert_eq!(link.status(&last.again(&link, &line)), 401, "a count that was used");
}

#[test]
fn both_challenges_have_their_own_headers() {
    let server = server("");
    let mut link = server.link(Via::Udp);
    let register = link.ask(&Req::register("alice", &link));
    assert_eq!(register.status(), Some(401));
    assert!(
        register
            .header("WWW-Authenticate")
            .is_some_and(|v| v.starts_with("Digest ") && v.contains("qop=\"auth\""))
    );
    let invite = Req::invite("sip:bob@example.com", &link).user("alice");
    let call = link.ask(&invite);
    assert_eq!(call.status(), Some(407));
    assert!(call.header("Proxy-Authenticate").is_some_and(|v| v.contains("realm=\"example.com\"")));
}

#[test]
fn sha256_is_offered_first_and_works() {
    let config = "[auth]\nalgorithms = [\"SHA-256\", \"MD5\"]\n";
    let server = server(config);
    let mut link = server.link(Via::Udp);
    let req = Req::register("alice", &link);
    let challenged = link.ask(&req);
    let offers = challenged.all("WWW-Authenticate");
    assert_eq!(offers.len(), 2, "one header field for each algorithm (RFC 8760 section 2.4)");
    assert!(offers[0].contains("SHA-256"), "the most preferred first");
    let line = sha256_answer(&challenged, &alice(), "REGISTER", "sip:example.com");
    assert_eq!(link.status(&req.again(&link, &line)), 200);
    let mut link = server.link(Via::Udp);
    let req = Req::register("alice", &link);
    let challenged = link.ask(&req);
    let line = answer(&challenged, &alice(), "REGISTER", "sip:example.com");
    assert_eq!(link.status(&req.again(&link, &line)), 200, "MD5 for phones that know nothing else");
}

#[test]
fn a_phone_that_was_held_off_is_let_in_once_its_account_is_mended() {
    let server = server("");
    let data = server.data();
    let try_with = |link: &mut Link, user: &str, password: &str| {
        let req = Req::register(user, link);
        link.ask_as(&req, &Credentials::new(user, password)).status()
    };
    // The one will be added, of the other the password is mended.
    for (user, wrong) in [("carol", "mended"), ("bob", "typed wrongly")] {
        // So many wrong answers from everywhere that a strange phone waits half a minute after its first.
        for tries in [5, 5, 5, 4] {
            let mut link = server.link(Via::Udp);
            assert!((0..tries).all(|_| try_with(&mut link, user, wrong) == Some(401)));
        }
        let mut phone = server.link(Via::Udp);
        assert_eq!(try_with(&mut phone, user, wrong), Some(403));
        assert_eq!(try_with(&mut phone, user, "mended"), Some(403), "{user} has to wait");
        let name = format!("{user}@example.com");
        let added = run(["user", "add", &name, "--password", "mended", "--data-dir", data.to_str().unwrap()]);
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        // Which is less than half a minute.
        live::eventually("the account is mended", || {
            (try_with(&mut phone, user, "mended") == Some(200)).then_some(())
        });
    }
}

#[test]
fn right_password_passes_at_an_address_that_guesses() {
    let server = server("");
    let mut link = server.link(Via::Udp);
    let mut attempt = |user: &str, password: &str| {
        let req = Req::register(user, &link);
        link.ask_as(&req, &Credentials::new(user, password))
    };
    for n in 0..80 {
        let answer = attempt(&format!("guest{n}"), "guess");
        match answer.status() {
            Some(401) => {}
            // How many wrong answers are forgiven by now depends on the time.
            Some(403) if n >= 50 => assert!(answer.header("Retry-After").is_some()),
            other => panic!("{other:?} to guess {n}"),
        }
    }
    assert_eq!(attempt("alice", "secret-a").status(), Some(200));
    // Its own wrong answers: five are free.
    let statuses: Vec<_> = (0..6).map(|_| attempt("alice", "guess").status()).collect();
    assert_eq!(statuses, [401, 401, 401, 401, 401, 403].map(Some));
}

#[test]
fn failed_logins_are_reported_without_naming_users() {
    let told: Vec<String> = ["alice", "mallory"].map(reported_guesses_at).to_vec();
    assert_eq!(told[0].replace("alice", "mallory"), told[1]);
}

/// What the log of a new server says after wrong passwords for `user`, from where it says why.
fn reported_guesses_at(user: &str) -> String {
    let server = server("");
    let mut link = server.link(Via::Udp);
    let mut attempt = |user: &str, password: &str| {
        let req = Req::register(user, &link);
        link.ask_as(&req, &Credentials::new(user, password)).status()
    };
    assert_eq!(attempt("alice", "secret-a"), Some(200));
    let began = Instant::now();
    for _ in 0..3 {
        assert_eq!(attempt(user, "guess"), Some(401));
    }
    let line = live::eventually("a failed login in the log", || {
        let log = server.log_text();
        log.lines().find(|line| line.contains("login refused")).map(str::to_owned)
    });
    // The others within ten seconds are counted only.
    let most = 1 + began.elapsed().as_secs() as usize / 10;
    assert!(server.log_text().matches("login refused").count() <= most, "{}", server.log_text());
    let name = format!("{user}@example.com");
    assert!(line.contains(&name) && line.contains(&format!("source={} ", link.local().ip())), "{line}");
    assert!(!line.contains("guess"), "{line}");
    let status = String::from_utf8(server.ctl(&["status"]).stdout).unwrap();
    assert!(status.contains("on; since the start 1 right credentials, 3 wrong, 0 held off"), "{status}");
    let said = line.split_once("login refused").unwrap().1;
    said.replace(&link.local().ip().to_string(), "ADDRESS")
}

#[test]
fn what_a_stranger_wrote_takes_no_more_than_the_end_of_a_line_of_the_log() {
    let server = server("");
    let mut link = server.link(Via::Tcp);
    let long = format!("x;source=192.0.2.66{}", "x".repeat(2_000));
    let req = Req::register(&long, &link);
    assert_eq!(link.ask_as(&req, &Credentials::new("alice", "guess")).status(), Some(401));
    let line = live::eventually("a failed login in the log", || {
        let log = server.log_text();
        log.lines().find(|line| line.contains("login refused")).map(str::to_owned)
    });
    assert!(line.len() < 1_000 && line.contains("more)"), "{line}");
    let first = line.split_once("source=").unwrap().1;
    assert!(first.starts_with(&format!("{} ", link.local().ip())), "{line}");
}

#[test]
fn a_nonce_of_before_is_stale_not_wrong() {
    let mut server = server("");
    let mut link = server.link(Via::Udp);
    let req = Req::register("alice", &link);
    let challenged = link.ask(&req);
    // However long the server was up or away.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    server.restart();
    let line = answer(&challenged, &alice(), "REGISTER", "sip:example.com");
    let again = req.again(&link, &line);
    let told = link.ask(&again);
    // The phone is told to try again without asking its user: some ask nobody and give up.
    let challenge = told.header("WWW-Authenticate").unwrap_or_default().to_lowercase();
    assert!(
        told.status() == Some(401) && challenge.contains("stale=true"),
        "{:?} {challenge}",
        told.status()
    );
    let line = answer(&told, &alice(), "REGISTER", "sip:example.com");
    assert_eq!(link.status(&again.again(&link, &line)), 200);
}

#[test]
fn requests_in_a_dialog_are_challenged_only_when_configured() {
    hang_up("", false);
    hang_up("[auth]\nin_dialog = true\n", true);
}

/// A call of alice's, who has not registered, and its BYE, which is challenged or not.
fn hang_up(config: &str, asked: bool) {
    let server = server(config);
    let mut bob = Listener::open(server.sip());
    let req = Req::register("bob", &bob.udp);
    assert_eq!(bob.udp.ask_as(&req, &Credentials::new("bob", "secret-b")).status(), Some(200));
    let mut link = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &link).user("alice");
    let challenged = link.ask(&invite);
    let line = answer(&challenged, &alice(), "INVITE", "sip:bob@example.com");
    let invite = invite.again(&link, &line);
    link.send(&invite.bytes());
    let (received, phone) = bob.request_within(live::PATIENCE).expect("the call");
    let contact = format!("Contact: <sip:bob@{}>", phone.local());
    phone.send(&received.reply(200, "b", &[&contact]));
    let answered = link.response(&invite);
    assert_eq!(answered.status(), Some(200));
    link.send(&invite.in_dialog("ACK", &answered, &link).bytes());
    let (ack, _) = bob.request_within(live::PATIENCE).expect("the ACK is not challenged");
    assert_eq!(ack.method(), "ACK");
    let mut bye = invite.in_dialog("BYE", &answered, &link);
    if asked {
        let challenged = link.ask(&bye);
        assert_eq!(challenged.status(), Some(407), "BYE of a local user");
        let line = answer(&challenged, &alice(), "BYE", &bye.uri);
        bye = bye.again(&link, &line);
    }
    link.send(&bye.bytes());
    let (received, phone) = bob.request_within(live::PATIENCE).expect("the BYE");
    phone.send(&received.reply(200, "", &[]));
    assert_eq!(link.response(&bye).status(), Some(200));
}

#[test]
fn the_list_of_challenged_methods_is_the_operators() {
    let server = server("[auth]\nchallenge = [\"REGISTER\"]\n");
    let mut bob = Listener::open(server.sip());
    let req = Req::register("bob", &bob.udp);
    assert_eq!(bob.udp.ask_as(&req, &Credentials::new("bob", "secret-b")).status(), Some(200));
    let mut link = server.link(Via::Udp);
    let req = Req::new("MESSAGE", "sip:bob@example.com", &link).user("alice");
    link.send(&req.bytes());
    let (message, phone) = bob.request_within(live::PATIENCE).expect("MESSAGE is not on the list");
    phone.send(&message.reply(200, "b", &[]));
    assert_eq!(link.response(&req).status(), Some(200));
}

#[test]
fn a_changed_password_counts_within_a_second_or_so() {
    let server = server("");
    let mut link = server.link(Via::Udp);
    let req = Req::register("alice", &link);
    assert_eq!(link.ask_as(&req, &alice()).status(), Some(200));
    let data = server.data();
    let out = run([
        "user",
        "add",
        "alice@example.com",
        "--password",
        "changed",
        "--data-dir",
        data.to_str().unwrap(),
    ]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    live::eventually("the new password works", || {
        let mut link = server.link(Via::Udp);
        let req = Req::register("alice", &link);
        (link.ask_as(&req, &Credentials::new("alice", "changed")).status() == Some(200)).then_some(())
    });
    let mut link = server.link(Via::Udp);
    let req = Req::register("alice", &link);
    assert_ne!(link.ask_as(&req, &alice()).status(), Some(200), "the old password still works");
}

#[test]
fn without_challenges_the_log_warns() {
    let server = Setup::open().start();
    live::eventually("a warning that anyone may register", || {
        server.log_text().to_lowercase().contains("auth").then_some(())
    });
    assert!(server.log_text().to_uppercase().contains("WARN"));
}

#[test]
fn credentials_never_reach_the_log() {
    let server = server("[log]\nlevel = \"debug\"\n");
    let mut link = server.link(Via::Udp);
    let req = Req::register("alice", &link);
    let challenged = link.ask(&req);
    let line = answer(&challenged, &alice(), "REGISTER", "sip:example.com");
    link.ask(&req.again(&link, &line));
    let response = line.split("response=\"").nth(1).unwrap().split('"').next().unwrap();
    server.assert_alive("registering");
    let log = server.log_text();
    assert!(!log.contains("secret-a") && !log.contains(response), "credentials in the log");
}

/// RFC 3261 section 10.3 step 5: escapes are removed before names are compared.
#[test]
fn users_beyond_ascii_register_and_are_called_by_escapes() {
    let names = [("j\u{f6}rg", "j%C3%B6rg"), ("100#", "100%23")];
    let server = names.iter().fold(Setup::new(), |setup, (name, _)| setup.user(name, "pw")).start();
    for (name, escaped) in names {
        let mut link = server.link(Via::Udp);
        // As the RFC has it, in lower case, and with escapes that are not needed.
        let longer = escaped.bytes().fold(String::new(), |text, b| match b {
            b'r' | b'1' => text + &format!("%{b:02x}"),
            b => text + &char::from(b).to_string(),
        });
        for written in [escaped, &escaped.to_lowercase(), &longer] {
            let req = Req::register(written, &link).contact(&link);
            assert_eq!(link.ask_as(&req, &Credentials::new(name, "pw")).status(), Some(200), "{written}");
            let found = server.ctl(&["bindings", "--aor", &format!("{name}@example.com")]);
            let found = String::from_utf8_lossy(&found.stdout).into_owned();
            assert!(found.contains(&format!("{escaped}@example.com")), "{found}");
        }
    }
    // Nobody else gets at them.
    let mut link = server.link(Via::Udp);
    let req = Req::register("j%C3%B6rg", &link).contact(&link);
    assert_eq!(link.ask_as(&req, &Credentials::new("100#", "pw")).status(), Some(403));
    // Removed, they are called no longer.
    let data = server.data();
    let removed = run(["user", "remove", "100#@example.com", "--data-dir", data.to_str().unwrap()]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    live::eventually("the binding is gone", || {
        let found = server.ctl(&["bindings", "--aor", "100%23@example.com"]);
        String::from_utf8_lossy(&found.stdout).contains("no binding of 100%23@").then_some(())
    });
}

#[test]
fn feature_codes_are_routed_however_they_are_written() {
    let [pbx] = live::fresh_ips();
    let config = format!("[[route]]\nprefix = \"*21#\"\ntargets = [\"sip:{pbx}:5060\"]\n");
    let server = Setup::open().config(&config).start();
    let mut gateway = Link::udp_at((pbx, 5060).into(), server.sip());
    let mut link = server.link(Via::Udp);
    for dialled in ["*21%23123", "%2A21%23123", "*21#123"] {
        link.send(&Req::invite(&format!("sip:{dialled}@example.com"), &link).user("alice").bytes());
        let sent = gateway.request("INVITE");
        assert_eq!(sent.uri(), format!("sip:*21%23123@{pbx}:5060"));
        gateway.send(&sent.reply(486, "busy", &[]));
    }
}
