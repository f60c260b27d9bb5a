//! A new configuration while the server runs: all of it or nothing, and no call notices.

use live::{Link, Req, Server, Setup, Via, eventually, http};
use std::time::Duration;

fn reload(server: &Server) -> live::Answer {
    http(server.admin(), "POST", "/v1/reload")
}

/// The expiry that a registration for a day is granted.
fn granted(server: &Server) -> u32 {
    let mut link = server.link(Via::Udp);
    let mut req = Req::new("REGISTER", "sip:example.com", &link).user("a").with("Expires: 86400");
    req.to = "<sip:a@example.com>".into();
    let answer = link.ask(&req.with("Contact: <sip:a@192.0.2.1>"));
    let contact = answer.header("Contact").unwrap_or_default();
    contact
        .split(';')
        .find_map(|p| p.strip_prefix("expires="))
        .and_then(|v| v.trim_end_matches('>').parse().ok())
        .unwrap()
}

fn max_expires(seconds: u32) -> String {
    format!("[registrar]\nmax_expires = {seconds}\n")
}

#[test]
fn a_good_file_is_in_force_at_once() {
    let server = Setup::open().config(&max_expires(600)).start();
    assert!(granted(&server) <= 600);
    server.write_config(Some(&max_expires(1200)));
    let answer = reload(&server);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!((600..=1200).contains(&granted(&server)));
    server.write_config(Some(&max_expires(900)));
    assert!(server.ctl(&["reload"]).status.success());
    assert!((600..=900).contains(&granted(&server)));
}

#[test]
fn a_bad_file_changes_nothing() {
    let server = Setup::open().config(&max_expires(600)).start();
    server.write_config(Some("[registrar]\nmax_expires = 1200\nmin_expires = \"soon\"\n[nonsense]\n"));
    let answer = reload(&server);
    assert!(answer.status >= 400, "{}", answer.body);
    assert!(
        answer.body.contains("\"line\":3") && answer.body.contains("nonsense"),
        "every error: {}",
        answer.body
    );
    assert!(granted(&server) <= 600, "half of a bad file came into force");
    assert!(!server.ctl(&["reload"]).status.success());
    server.assert_alive("a refused reload");
}

#[test]
fn bindings_and_calls_survive_a_reload() {
    let server = Setup::open().config(&max_expires(600)).workers(2).start();
    let mut bob = server.link(Via::Tcp);
    bob.register("bob");
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    server.write_config(Some(&max_expires(1200)));
    assert_eq!(reload(&server).status, 200);
    let contact = format!("Contact: <sip:bob@{};transport=tcp>", bob.local());
    bob.send(&received.reply(200, "b", &[&contact]));
    let answered = caller.response(&invite);
    assert_eq!(answered.status(), Some(200), "a call was lost in the reload");
    caller.send(&invite.in_dialog("ACK", &answered, &caller).bytes());
    bob.request("ACK");
}

#[test]
fn reloads_under_load_lose_no_request() {
    let server = Setup::open().config(&max_expires(600)).workers(2).start();
    let mut bob = server.link(Via::Udp);
    bob.register("bob");
    let admin = server.admin();
    let mut links: Vec<_> =
        (0..4).map(|i| server.link(if i % 2 == 0 { Via::Udp } else { Via::Tcp })).collect();
    for round in 0..25 {
        server.write_config(Some(&max_expires(600 + round)));
        let reloading = std::thread::spawn(move || http(admin, "POST", "/v1/reload").status);
        for _ in 0..20 {
            let asked: Vec<Req> =
                links.iter().map(|l| Req::new("MESSAGE", "sip:bob@example.com", l)).collect();
            for (link, req) in links.iter_mut().zip(&asked) {
                link.send(&req.bytes());
            }
            for _ in &asked {
                let message = bob.request("MESSAGE");
                bob.send(&message.reply(200, "b", &[]));
            }
            for (link, req) in links.iter_mut().zip(&asked) {
                let answer = link.response_within(req, Duration::from_secs(10));
                assert_eq!(answer.and_then(|m| m.status()), Some(200), "round {round}");
            }
        }
        assert_eq!(reloading.join().unwrap(), 200, "round {round}");
    }
    eventually("the last file is in force", || (granted(&server) <= 624).then_some(()));
}

/// `[emergency]` comes into force and goes with a reload, and `check` says where a mistake is.
#[test]
fn where_help_is_can_be_said_while_the_server_runs() {
    let server = Setup::open().config("").start();
    let help = live::fresh_ip();
    let mut psap = Link::udp_at((help, 5060).into(), server.sip());
    let mut caller = server.link(Via::Udp);
    let call = |caller: &Link, uri: &str| Req::invite(uri, caller);
    assert_eq!(caller.status(&call(&caller, "urn:service:sos")), 416);
    let section = format!("[emergency]\ntargets = [\"sip:{help}\"]\nnumbers = [\"112\"]\n");
    server.write_config(Some(&section.replace("\"112\"", "\"112\", \"one\"")));
    let answer = reload(&server);
    assert!(answer.status >= 400 && answer.body.contains("no number for emergencies"), "{}", answer.body);
    let said = live::run(["check".as_ref(), server.config_file().as_os_str()]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains(":3:19: \"one\" is no number for emergencies; 2 to 32 digits"), "{said}");
    assert_eq!(caller.status(&call(&caller, "urn:service:sos")), 416);
    server.write_config(Some(&section));
    let answer = reload(&server);
    assert!(answer.status == 200 && answer.body.contains("emergency"), "{}", answer.body);
    for uri in ["urn:service:sos", "URN:service:SOS.fire", "sip:112@example.com"] {
        let invite = call(&caller, uri);
        caller.send(&invite.bytes());
        let received = psap.request("INVITE");
        let arrives = if uri.starts_with("sip") { format!("sip:112@{help}") } else { uri.to_owned() };
        assert_eq!(received.uri(), arrives);
        psap.send(&received.reply(486, "p", &[]));
        caller.expect(&invite, 486);
    }
    server.write_config(Some(""));
    assert_eq!(reload(&server).status, 200);
    assert_eq!(caller.status(&call(&caller, "urn:service:sos")), 416);
}
