//! What an operator does wrong, and what the program says then: the thing, the place and the mend.

use live::{PATIENCE, Req, Server, Setup, Via, binary, eventually, fresh_ip, http, run, signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("strowger-op-{}-{}", std::process::id(), fresh_ip()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::create_dir_all(self.0.join(name).parent().unwrap()).unwrap();
        std::fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command that must fail, and gives what it said. One that goes on instead is ended.
fn refused(args: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() > end => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let status = status.unwrap_or_else(|| panic!("{args:?} did not end:\n{said}"));
    assert!(!status.success(), "{args:?} was taken:\n{said}");
    said
}

fn output(args: &[&str]) -> String {
    let out = run(args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

#[test]
fn commands_that_only_look_make_no_data_directory() {
    let folder = Folder::new();
    let typo = folder.path("typo");
    let commands: [&[&str]; 3] = [&["list"], &["export"], &["remove", "ann@example.com"]];
    for command in commands {
        let said = refused(&[&["user"], command, &["--data-dir", &typo]].concat());
        assert!(said.contains("no data directory") && said.contains(&typo), "{said}");
        assert!(said.contains("--data-dir") && said.contains("--config"), "{said}");
        assert!(!folder.has("typo"), "{command:?} made the folder");
    }
    let file = folder.path("missing.csv");
    let said = refused(&["user", "import", &file, "--data-dir", &typo]);
    assert!(said.contains(&file) && said.contains("CSV"), "{said}");
    assert!(!folder.has("typo"), "an import of nothing made the folder");
    let file = folder.path("bad.csv");
    std::fs::write(&file, "username,domain,password\nann,example.com,x\nben,,x\n").unwrap();
    let said = refused(&["user", "import", &file, "--data-dir", &typo]);
    assert!(said.contains("bad.csv:3:") && said.contains("nothing imported: 1 of 2"), "{said}");
    assert!(!folder.has("typo"), "an import of bad lines made the folder");
    // It has no writer, so a blocking open would never return.
    let file = folder.path("fifo.csv");
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let said = refused(&["user", "import", &file, "--data-dir", &typo]);
    assert!(said.contains("fifo.csv: is a FIFO, not a regular file"), "{said}");
    std::fs::create_dir(folder.path("empty")).unwrap();
    let said = refused(&["user", "list", "--data-dir", &folder.path("empty")]);
    assert!(said.contains("nothing was ever stored") && said.contains("empty;"), "{said}");
    let said = output(&["user", "add", "ann@example.com", "--password", "x", "--data-dir", &typo]);
    assert!(said.contains(&format!("made the data directory {typo}")), "{said}");
    let said = output(&["user", "add", "ben@example.com", "--password", "x", "--data-dir", &typo]);
    assert!(!said.contains("made"), "{said}");
}

/// A `user add` that asks for the password on a terminal. Dropping it ends nothing.
struct Typing {
    keyboard: File,
    child: Child,
}

impl Typing {
    /// Starts it, and waits until it asks.
    fn begin(data: &str) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut command = Command::new(binary());
        command.args(["user", "add", "ann@example.com", "--data-dir", data]).stdin(terminal);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let typing = Self { keyboard: keyboard.into(), child };
        eventually("it hides what is typed", || (!typing.shows()).then_some(()));
        typing
    }

    fn shows(&self) -> bool {
        tcgetattr(&self.keyboard).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    /// Types this. Gives whether the command succeeded, and what it and the terminal showed.
    fn ends_after(mut self, typed: &str) -> (bool, String) {
        self.keyboard.write_all(typed.as_bytes()).unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let good = self.child.wait().unwrap().success();
        assert!(self.shows(), "the terminal is as it was");
        let mut shown = [0; 100];
        let length = self.keyboard.read(&mut shown).unwrap();
        (good, said + &String::from_utf8_lossy(&shown[..length]))
    }
}

#[test]
fn user_add_hides_the_password_and_asks_twice() {
    let folder = Folder::new();
    let data = folder.path("data");
    let (good, said) = Typing::begin(&data).ends_after("secret1\nsecret2\n");
    assert!(!good && said.contains("the two passwords differ") && !folder.has("data"), "{said}");
    let (good, said) = Typing::begin(&data).ends_after("\n");
    assert!(!good && said.contains("no password"), "{said}");
    let (good, said) = Typing::begin(&data).ends_after("secret1\nsecret1\n");
    assert!(good && said.contains("again") && !said.contains("secret1"), "{said}");
    assert!(output(&["user", "list", "--data-dir", &data]).contains("ann@example.com"));
}

#[test]
fn user_add_restores_the_terminal_when_interrupted() {
    let folder = Folder::new();
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let mut typing = Typing::begin(&folder.path("data"));
        signal(typing.child.id(), name);
        assert_eq!(typing.child.wait().unwrap().signal(), Some(number));
        assert!(typing.shows(), "{name}");
    }
}

#[test]
fn user_commands_and_the_server_mean_the_same_folder_by_one_file() {
    let folder = Folder::new();
    let config = folder.write("etc/strowger.toml", "data_dir = \"store\"\n");
    let said = output(&["user", "add", "ann@example.com", "--password", "x", "--config", &config]);
    assert!(said.contains("/etc/store; if the server has --data-dir, give the same"), "{said}");
    assert!(folder.has("etc/store/strowger.db"));
    assert_eq!(output(&["user", "list", "--config", &config]), "ann@example.com\n");
    // As with `serve`, the option wins.
    let other = folder.path("other");
    let ben =
        ["user", "add", "ben@example.com", "--password", "x", "--config", &config, "--data-dir", &other];
    assert_eq!(
        output(&ben).matches("data directory").count(),
        1,
        "it is made, and named on the command line"
    );
    assert_eq!(output(&["user", "list", "--data-dir", &other]), "ben@example.com\n");
    let said = refused(&["user", "list", "--config", &folder.path("none.toml")]);
    assert!(said.contains("none.toml") && said.contains("cannot read"), "{said}");
}

#[test]
fn user_add_reports_a_domain_that_is_not_served() {
    let folder = Folder::new();
    let config =
        folder.write("strowger.toml", "data_dir = \"store\"\ndomains = [\"one.example\", \"two.example\"]\n");
    let add = |name: &str| output(&["user", "add", name, "--password", "x", "--config", &config]);
    let said = add("ann@three.example");
    assert!(said.contains("three.example is none of the domains") && said.contains(&config), "{said}");
    assert!(said.contains("one.example, two.example") && said.contains("`domains`"), "{said}");
    assert!(!add("ann@Two.Example").contains("domains"));
    assert_eq!(
        output(&["user", "del", "ann@three.example", "--config", &config]),
        "removed ann@three.example\n"
    );
    let import = |lines: &str| {
        let file = folder.write("users.csv", &format!("username,domain,password\n{lines}"));
        output(&["user", "import", &file, "--config", &config])
    };
    let said = import("a,one.example,x\nb,Five.example,x\nc,six.example,x\nd,five.example,x\n");
    assert!(
        said.contains("five.example is none of the domains") && said.contains("nor is six.example:"),
        "{said}"
    );
    let said = import("a,five.example,x\nb,six.example,x\nc,seven.example,x\n");
    assert!(
        said.contains("five.example is none") && said.contains("nor are seven.example and others:"),
        "{said}"
    );
    assert!(!import("a,one.example,x\nb,TWO.example,x\n").contains("none of"));
    // Without names in the file the domains are those of the subscribers.
    let config = folder.write("strowger.toml", "data_dir = \"store\"\n");
    assert!(
        !output(&["user", "add", "ann@four.example", "--password", "x", "--config", &config])
            .contains("domains")
    );
}

#[test]
fn a_server_that_nobody_can_log_in_to_says_so() {
    let server = Setup::new().start();
    let (log, data) = (server.log_text(), server.data().canonicalize().unwrap());
    assert!(log.contains("no subscribers yet") && log.contains(data.to_str().unwrap()), "{log}");
    let free = Setup::new().config("[auth]\nchallenge = [\"INVITE\"]\n");
    for usable in [Setup::new().user("ann", "x"), Setup::open(), free] {
        let log = usable.start().log_text();
        assert!(!log.contains("no subscribers yet"), "{log}");
    }
}

#[test]
fn server_reports_subscribers_of_unserved_domains() {
    let mut server = Setup::new().user("ann", "x").start();
    let data = server.data().display().to_string();
    let told =
        |server: &Server| server.log_text().matches("subscribers of domains that are not served").count();
    let add = |name: &str| output(&["user", "add", name, "--password", "x", "--data-dir", &data]);
    assert_eq!(told(&server), 0, "{}", server.log_text());
    add("zed@nowhere.example");
    eventually("the first is reported", || server.log_has("subscribers=1 served=1").then_some(()));
    add("zoe@elsewhere.example");
    add("ben@example.com");
    eventually("the second is reported", || server.log_has("subscribers=2 served=1").then_some(()));
    assert_eq!(told(&server), 2, "{}", server.log_text());
    server.restart();
    assert!(server.log_has("subscribers=2 served=1"), "{}", server.log_text());
}

#[test]
fn the_server_says_which_data_directory_it_uses() {
    let server = Setup::open().start();
    let data = server.data().canonicalize().unwrap();
    assert!(server.log_has(&format!("data_dir={}", data.display())), "{}", server.log_text());
}

#[test]
fn that_nobody_is_asked_for_a_password_is_said_once() {
    let server = Setup::open().start();
    assert_eq!(server.log_text().matches("authentication is off").count(), 1, "{}", server.log_text());
}

/// A start that must fail, on an address of its own, with a data directory that is not there yet.
fn failed_start(folder: &Folder, more: &[&str]) -> String {
    let data = folder.path("data");
    let said = refused(&[&["serve", "--data-dir", &data], more].concat());
    assert!(!folder.has("data"), "a data directory was left behind:\n{said}");
    said
}

#[test]
fn a_taken_sip_port_leaves_nothing_behind() {
    let folder = Folder::new();
    let taken = UdpSocket::bind((fresh_ip(), 0)).unwrap();
    let address = taken.local_addr().unwrap();
    let said = failed_start(&folder, &["--listen", &format!("udp:{address}"), "--admin", "off"]);
    assert!(said.contains(&address.to_string()) && said.contains("another port"), "{said}");
}

#[test]
fn a_taken_admin_port_is_named_with_the_mend_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let taken = TcpListener::bind((fresh_ip(), 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let listen = format!("udp:{}:0", fresh_ip());
    let said = failed_start(&folder, &["--listen", &listen, "--admin", &address]);
    assert!(said.contains(&format!("admin API on {address}")), "{said}");
    assert!(said.contains("in use") && said.contains("--admin") && said.contains("--admin off"), "{said}");
}

#[test]
fn a_bad_file_leaves_nothing_behind() {
    let folder = Folder::new();
    let config = folder.write("bad.toml", "[proxxy]\n");
    let said = failed_start(&folder, &["--config", &config]);
    assert!(said.contains("bad.toml:1:"), "{said}");
}

#[test]
fn a_file_that_is_no_configuration_is_told_briefly() {
    let folder = Folder::new();
    let lines: String = (0..3_000).map(|i| format!("key{i} = 1\n")).collect();
    let config = folder.write("odd.toml", &lines);
    for args in [&["check", &config][..], &["serve", "--config", &config]] {
        let said = refused(args);
        assert!(said.lines().count() < 25, "{} lines", said.lines().count());
        assert!(said.contains("odd.toml:1:1") && said.contains("and 2980 more"), "{said}");
    }
}

/// What a command says in a folder, and whether it succeeded.
fn inside(folder: &Folder, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary());
    let out = command.args(args).current_dir(&folder.0).stdin(Stdio::null()).output().unwrap();
    (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

#[test]
fn file_is_an_argument_or_config_for_each_command() {
    let folder = Folder::new();
    let good = folder.write("good.toml", "domains = [\"one.example\"]\n");
    let odd = folder.write("odd.toml", "colour = 1\n");
    assert_eq!(output(&["check", &good]), output(&["check", "--config", &good]));
    for command in ["check", "serve", "balance"] {
        let said = refused(&[command, &odd]);
        assert!(said.contains("odd.toml:1:1: unknown key `colour`"), "{command}: {said}");
        assert_eq!(said, refused(&[command, "--config", &odd]), "{command}");
        let said = refused(&[command, &odd, "--config", &good]);
        assert!(said.contains("cannot be used with"), "{command}: {said}");
    }
    assert!(refused(&["check"]).contains("FILE"), "a command line without a file");
    for command in
        [&["user", "add", "ann@one.example", "--password", "x"][..], &["user", "list"], &["ctl", "status"]]
    {
        let said = refused(&[command, &["--config", &odd]].concat());
        assert!(said.contains("odd.toml:1:1: unknown key `colour`"), "{command:?}: {said}");
    }
}

#[test]
fn ctl_finds_address_and_token_in_the_file() {
    let folder = Folder::new();
    let token = folder.write("token", "0123456789abcdef\n");
    Command::new("chmod").args(["600", &token]).status().unwrap();
    let text = format!("[admin]\nlisten = \"{{IP}}:8080\"\ntoken_file = \"{token}\"\n");
    let server = Setup::open().config(&text).start();
    let file = server.config_file().display().to_string();
    let status = |args: &[&str]| output(&[&["ctl", "status"], args].concat());
    assert!(status(&["--config", &file]).contains("ready"));
    // Options come first.
    let elsewhere = folder.write("elsewhere.toml", "[admin]\nlisten = \"127.0.0.1:9\"\n");
    let admin = server.admin().to_string();
    assert!(status(&["--config", &elsewhere, "--admin", &admin, "--token-file", &token]).contains("ready"));
    let said = refused(&["ctl", "status", "--config", &elsewhere]);
    assert!(said.contains("cannot reach 127.0.0.1:9"), "{said}");
    for (listen, what) in [("off", "the admin API is off"), ("127.0.0.1:0", "names no port")] {
        let file = folder.write("other.toml", &format!("[admin]\nlisten = \"{listen}\"\n"));
        let said = refused(&["ctl", "status", "--config", &file]);
        assert!(said.contains(&file) && said.contains(what) && said.contains("--admin"), "{said}");
    }
}

#[test]
fn user_commands_make_no_unnamed_data_directory() {
    let folder = Folder::new();
    let csv = folder.write("users.csv", "username,domain,password\nben,example.com,x\n");
    let add = ["user", "add", "ann@example.com", "--password", "x"];
    for command in [&add[..], &["user", "import", &csv]] {
        let (done, said) = inside(&folder, command);
        assert!(!done, "{command:?} was taken: {said}");
        assert!(said.contains(&format!("there is no data directory {}", folder.path("data"))), "{said}");
        assert!(said.contains("--config FILE") && said.contains("--data-dir DIR"), "{said}");
        assert!(!folder.has("data"), "{command:?} made the folder");
    }
    // The folder of a server that was started here: that is the one.
    std::fs::create_dir(folder.path("data")).unwrap();
    for command in [&add[..], &["user", "import", &csv]] {
        let (done, said) = inside(&folder, command);
        assert!(done, "{command:?}: {said}");
    }
}

#[test]
fn warning_about_an_option_names_no_file() {
    let server = Setup::open().start();
    assert!(server.log_has("--auth: authentication is off"), "{}", server.log_text());
    assert!(!server.log_has("(defaults)"), "{}", server.log_text());
    let said = refused(&["serve", "--admin", "192.0.2.1:80"]);
    assert!(said.contains("of the configuration file (--config FILE)"), "{said}");
}

#[test]
fn a_reload_without_a_file_says_so() {
    let server = Setup::open().start();
    let answer = http(server.admin(), "POST", "/v1/reload");
    assert_eq!(answer.status, 409, "{}", answer.body);
    let out = server.ctl(&["reload"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success());
    assert!(said.contains("without a configuration file") && said.contains("--config"), "{said}");
    server.assert_alive("a reload without a file");
}

#[test]
fn a_token_file_that_is_not_there_is_named() {
    let file = Folder::new().path("token");
    let said = refused(&["ctl", "status", "--token-file", &file]);
    assert!(said.contains(&file) && said.contains("token_file"), "{said}");
}

/// The expiry that a registration for a day is granted. Each call has a Call-ID of its own, which
/// picks the worker.
fn granted(link: &mut live::Link, user: &str) -> u32 {
    let mut req = Req::new("REGISTER", "sip:example.com", link).user(user).with("Expires: 86400");
    req.to = format!("<sip:{user}@example.com>");
    let answer = link.ask(&req.with(&format!("Contact: <sip:{user}@192.0.2.1>")));
    let contact = answer.header("Contact").unwrap_or_default();
    let value = contact.split(';').find_map(|p| p.strip_prefix("expires="));
    value.and_then(|v| v.trim_end_matches('>').parse().ok()).unwrap()
}

#[test]
fn a_reload_answers_when_it_is_in_force_on_every_worker() {
    let config = |seconds: u32| format!("[registrar]\nmax_expires = {seconds}\n");
    let server = Setup::open().config(&config(600)).workers(4).start();
    let mut links: Vec<_> = (0..4).map(|_| server.link(Via::Udp)).collect();
    for round in 0..20 {
        let seconds = 700 + round;
        server.write_config(Some(&config(seconds)));
        // Work for every worker, so that some are busy when the settings come.
        let mut flood = server.link(Via::Udp);
        for _ in 0..200 {
            flood.send(&Req::new("OPTIONS", "sip:example.com", &flood).bytes());
        }
        assert_eq!(http(server.admin(), "POST", "/v1/reload").status, 200);
        // Many Call-IDs reach every worker.
        for i in 0..16_usize {
            let link = &mut links[i % 4];
            assert_eq!(granted(link, "ann"), seconds, "round {round}: a worker still has the old settings");
        }
    }
}

#[test]
fn every_metric_has_a_help_of_its_own() {
    let server: Server = Setup::open().start();
    server.link(Via::Udp).register("ann");
    let text = http(server.admin(), "GET", "/metrics").body;
    let helps: Vec<&str> =
        text.lines().filter_map(|l| l.strip_prefix("# HELP ")?.split_once(' ').map(|(_, h)| h)).collect();
    let distinct: BTreeSet<&str> = helps.iter().copied().collect();
    assert!(helps.len() > 50);
    assert_eq!(helps.len(), distinct.len(), "two metrics share a text");
}
