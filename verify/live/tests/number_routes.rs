//! The route table: which trunks a number takes, in which order, over reloads and wrong files.

use live::{Answer, Link, Listener, PATIENCE, Req, Server, Setup, Via, http};
use std::fmt::Write;
use std::path::PathBuf;
use tempfile::TempDir;

/// A server with the trunks `a`, `b` and `c`, and the file of its route table.
struct Site {
    server: Server,
    trunks: [Listener; 3],
    folder: TempDir,
}

impl Site {
    fn start(rows: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("routes.csv"), rows).unwrap();
        let mut trunks: [Listener; 3] =
            std::array::from_fn(|_| Listener::open((live::fresh_ip(), 5060).into()));
        let mut config = format!(
            "[auth]\nchallenge = [\"REGISTER\"]\n[routes]\nfile = \"{}/routes.csv\"\n",
            folder.path().display()
        );
        for (name, trunk) in ["a", "b", "c"].iter().zip(&trunks) {
            let _ =
                write!(config, "[[trunk]]\nname = \"{name}\"\ntargets = [\"sip:{}\"]\n", trunk.udp.local());
        }
        let server = Setup::open().workers(2).config(&config).start();
        trunks.iter_mut().for_each(|trunk| trunk.udp.set_server(server.sip()));
        Site { server, trunks, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("routes.csv")
    }

    fn write(&self, rows: &str) {
        std::fs::write(self.file(), rows).unwrap();
    }

    fn reload(&self) -> Answer {
        http(self.server.admin(), "POST", "/v1/reload")
    }

    fn status(&self) -> String {
        String::from_utf8(self.server.ctl(&["status"]).stdout).unwrap()
    }

    /// Calls `uri`. The trunks of these places get the call one after the other; all but the last refuse it
    /// with 503. Answers the Request-URI that the last one saw.
    fn call(&mut self, uri: &str, order: &[usize]) -> String {
        let mut caller = self.server.link(Via::Udp);
        let invite = Req::invite(uri, &caller);
        caller.send(&invite.bytes());
        let mut seen = String::new();
        for (nth, at) in order.iter().enumerate() {
            let link: &mut Link = &mut self.trunks[*at].udp;
            let arrives = |m: &live::Msg| {
                m.method() == "INVITE" && m.header("Call-ID") == Some(invite.call_id.as_str())
            };
            let received = link.find_within(PATIENCE, arrives);
            let received = received.unwrap_or_else(|| panic!("{uri}: trunk {at} is call number {nth}"));
            seen = received.uri().to_owned();
            let contact = format!("Contact: <sip:gw@{}>", link.local());
            match nth + 1 == order.len() {
                true => link.send(&received.reply(200, "gw", &[&contact])),
                false => link.send(&received.reply(503, "gw", &[])),
            }
        }
        assert_eq!(caller.response(&invite).status(), Some(200), "{uri}");
        seen.split(['@', ';']).next().unwrap_or_default().to_owned()
    }
}

#[test]
fn number_is_tried_at_its_trunks_in_order() {
    let mut site = Site::start(
        "prefix,trunk,priority,cost\n+49,a,2,0.1\n+49,b,1,0.3\n+49,c,1,0.2\n+4930,a,1,0.5\n+493055,c,,\n",
    );
    assert_eq!(site.call("sip:+4940123@example.com", &[2, 1, 0]), "sip:+4940123");
    assert_eq!(site.call("sip:+49301@example.com", &[0]), "sip:+49301");
    assert_eq!(site.call("tel:+49-30-(55)1", &[2]), "sip:+4930551");
    assert_eq!(site.call("sip:+49-30-1.2@example.com;user=phone", &[0]), "sip:+493012");
    let mut caller = site.server.link(Via::Udp);
    let other = Req::invite("sip:+44123@example.com", &caller);
    assert_eq!(caller.status(&other), 404, "no row, no trunk");
    let said = site.server.ctl(&["route", "tel:+49-40-123"]);
    let said = String::from_utf8(said.stdout).unwrap();
    let words: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["number", "+4940123"], "{said}");
    assert!(words[1].starts_with(&["prefix", "+49", "in"]) && words[1][3].ends_with("routes.csv"), "{said}");
    let tried: Vec<&[&str]> = words[3..].iter().map(|row| &row[1..5]).collect();
    assert_eq!(tried, [["c", "4", "1", "0.2"], ["b", "3", "1", "0.3"], ["a", "2", "2", "0.1"]], "{said}");
    let none = String::from_utf8(site.server.ctl(&["route", "+44123"]).stdout).unwrap();
    assert!(none.contains("no trunk serves this number"), "{none}");
}

#[test]
fn reload_changes_the_order_and_keeps_calls_under_way() {
    let mut site = Site::start("prefix,trunk\n00,a\n00,b\n");
    assert_eq!(site.server.metric("strowger_route_rows"), 2);
    let mut caller = site.server.link(Via::Udp);
    let invite = Req::invite("sip:0044@example.com", &caller);
    caller.send(&invite.bytes());
    let received = site.trunks[0].udp.request("INVITE");
    // It is not silent, so nothing happens until it refuses the call.
    site.trunks[0].udp.send(&received.reply(100, "", &[]));
    site.write("prefix,trunk\n00,c\n0044,b\n00,a\n");
    let answer = site.reload();
    assert!(answer.status == 200 && answer.body.contains("routes"), "{}", answer.body);
    assert_eq!(site.server.metric("strowger_route_rows"), 3);
    site.call("sip:0044@example.com", &[1]);
    site.call("sip:0049@example.com", &[2, 0]);
    // The call that was under way goes on by the table of its beginning.
    site.trunks[0].udp.send(&received.reply(503, "gw", &[]));
    let second = site.trunks[1].udp.request("INVITE");
    let contact = format!("Contact: <sip:gw@{}>", site.trunks[1].udp.local());
    site.trunks[1].udp.send(&second.reply(200, "gw", &[&contact]));
    assert_eq!(caller.response(&invite).status(), Some(200));
}

#[test]
fn bad_row_among_a_million_leaves_the_table_in_force() {
    let mut site = Site::start("prefix,trunk\n00,a\n");
    let mut rows = "prefix,trunk,priority,cost\n".to_owned();
    for n in 0..1_000_000 {
        let _ = writeln!(rows, "+{:07},b,1,0.01", 1_000_000 + n);
    }
    site.write(&rows.replace("+1777777,b", "+1777777,carrier"));
    let refused = site.server.ctl(&["reload"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("routes.csv:777779:10: there is no trunk \"carrier\""), "{said}");
    assert_eq!(site.server.metric("strowger_route_rows"), 1);
    site.call("sip:0044@example.com", &[0]);
    let status = site.status();
    assert!(
        status.contains("the route table was refused") && status.contains("routes.csv:777779:10"),
        "{status}"
    );
    // Requests are answered while a large table is read.
    site.write(&rows);
    let mut link = site.server.link(Via::Udp);
    let mut asked = 0;
    let reloaded = std::thread::scope(|scope| {
        let reloading = scope.spawn(|| site.server.ctl(&["reload"]).status.success());
        while !reloading.is_finished() {
            assert_eq!(link.status(&Req::new("OPTIONS", "sip:example.com", &link)), 200);
            asked += 1;
        }
        reloading.join().unwrap()
    });
    assert!(reloaded);
    assert!(asked > 1, "a reload that answers nobody");
    assert_eq!(site.server.metric("strowger_route_rows"), 1_000_000);
    site.call("sip:+19999995551234@example.com", &[1]);
    let status = site.status();
    assert!(!status.contains("route table"), "{status}");
}

#[test]
fn check_and_start_name_every_bad_row() {
    let site = Site::start("prefix,trunk\n00,a\n");
    site.write("prefix,trunk\n00,a\n0x,a\n00,a\n1,d\n");
    let checked = live::run(["check".as_ref(), site.server.config_file().as_os_str()]);
    let started = live::run(["serve".as_ref(), "--config".as_ref(), site.server.config_file().as_os_str()]);
    for said in [checked, started] {
        assert!(!said.status.success());
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        for wanted in [
            "routes.csv: 3 findings, nothing of the file is used",
            "routes.csv:3:2: 'x' cannot be in a prefix; write digits",
            "routes.csv:4:1: 00 has trunk \"a\" already, in line 2; remove one of the rows",
            "routes.csv:5:3: there is no trunk \"d\"",
        ] {
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }
    site.write("prefix,trunk\n00,a\n");
    assert!(live::run(["check".as_ref(), site.server.config_file().as_os_str()]).status.success());
    std::fs::remove_file(site.file()).unwrap();
    let checked = live::run(["check".as_ref(), site.server.config_file().as_os_str()]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(
        said.contains("file cannot be used") && said.contains("make the file, or correct the path"),
        "{said}"
    );
    site.server.assert_alive("checks of other files");
}
