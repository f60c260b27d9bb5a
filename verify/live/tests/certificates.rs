//! Certificates that change while the server runs, and what an operator sees of them and of connections.

use live::{Req, Server, Setup, Via, eventually};
use std::path::{Path, PathBuf};

/// A folder with a chain and its key, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("strowger-live-tls-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Puts another file in the place of one, as ACME clients do.
    fn replace(&self, name: &str, text: &str) {
        std::fs::write(self.file("new"), text).unwrap();
        std::fs::rename(self.file("new"), self.file(name)).unwrap();
    }

    fn setup(&self) -> Setup {
        let shown = |path: &Path| path.display().to_string();
        let (chain, key) = (shown(&self.file("chain.pem")), shown(&self.file("key.pem")));
        Setup::open().config(&format!("[tls]\ncertificates = [{{ chain = \"{chain}\", key = \"{key}\" }}]\n"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A chain and its key.
fn pair(name: &str) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn ctl(server: &Server, args: &[&str]) -> String {
    let out = server.ctl(args);
    assert!(out.status.success(), "{args:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn renewed_certificate_is_in_force_by_itself() {
    let folder = Folder::new("renewed");
    let (chain, key) = pair("one.example");
    folder.replace("chain.pem", &chain);
    folder.replace("key.pem", &key);
    let server = folder.setup().start();
    let names = || ctl(&server, &["certificates", "--output", "json"]);
    assert!(names().contains("\"serves\":[\"one.example\"]"), "{}", names());
    let chain_file = folder.file("chain.pem");
    let family = format!("strowger_tls_certificate_expiry_seconds{{chain=\"{}\"}}", chain_file.display());
    assert!(server.metric(&family) > 1_000_000_000);

    // Half of a renewal lasts: the old one stays, and the operator hears of it.
    let (chain, key) = pair("two.example");
    folder.replace("chain.pem", &chain);
    eventually("the fault is told", || server.log_has("from before stays").then_some(()));
    assert!(names().contains("one.example"), "{}", names());
    let table = ctl(&server, &["certificates"]);
    assert!(table.contains("FAULT: ") && table.contains("key.pem: is not the key of"), "{table}");
    assert!(ctl(&server, &["status"]).contains("a certificate cannot be used"));

    folder.replace("key.pem", &key);
    eventually("the new one", || names().contains("two.example").then_some(()));
    assert!(!ctl(&server, &["certificates"]).contains("FAULT"));
    server.assert_alive("renewals");
}

#[test]
fn reload_reads_certificates_at_once() {
    let folder = Folder::new("reload");
    let (chain, key) = pair("one.example");
    folder.replace("chain.pem", &chain);
    folder.replace("key.pem", &key);
    let server = folder.setup().start();
    let (chain, key) = pair("two.example");
    folder.replace("chain.pem", &chain);
    folder.replace("key.pem", &key);
    ctl(&server, &["reload"]);
    let names = ctl(&server, &["certificates", "--output", "json"]);
    assert!(names.contains("two.example"), "{names}");
    folder.replace("key.pem", "nothing");
    server.signal("HUP");
    eventually("the fault is told", || server.log_has("key.pem: no private key").then_some(()));
}

#[test]
fn fifo_for_a_certificate_keeps_nobody_waiting() {
    let folder = Folder::new("fifo");
    let (chain, key) = pair("one.example");
    folder.replace("chain.pem", &chain);
    folder.replace("key.pem", &key);
    let server = folder.setup().start();
    let made = std::process::Command::new("mkfifo").arg(folder.file("new")).status().unwrap();
    assert!(made.success());
    std::fs::rename(folder.file("new"), folder.file("chain.pem")).unwrap();
    eventually("the fault is told", || server.log_has("chain.pem: is a FIFO").then_some(()));
    assert_eq!(live::http(server.admin(), "GET", "/readyz").status, 200);
    assert!(ctl(&server, &["certificates"]).contains("one.example"));
    let refused = server.ctl(&["reload"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("chain.pem: is a FIFO"), "{said}");
    server.assert_alive("a FIFO for a certificate");
}

#[test]
fn reload_with_an_unusable_certificate_changes_nothing() {
    let folder = Folder::new("refused");
    let (chain, key) = pair("one.example");
    let (_, other) = pair("one.example");
    for (name, text) in [("chain.pem", &chain), ("key.pem", &key), ("other.pem", &other)] {
        folder.replace(name, text);
    }
    let server = folder.setup().start();
    let good = std::fs::read_to_string(server.config_file()).unwrap();
    let listed = ctl(&server, &["certificates", "--output", "json"]);
    for (from, to, fault) in [
        ("chain.pem", "none.pem", "none.pem: No such file"),
        ("key.pem", "other.pem", "other.pem: is not the key of the certificate"),
    ] {
        // What else is new in the file is not taken either.
        let bad = good.replace(from, to) + "[log]\nlevel = \"debug\"\n";
        server.write_config(Some(&bad));
        let refused = server.ctl(&["reload"]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(fault), "{said}");
        assert_eq!(ctl(&server, &["certificates", "--output", "json"]), listed);
        let check = live::run(vec!["check", server.config_file().to_str().unwrap()]);
        let said = String::from_utf8_lossy(&check.stderr);
        assert!(!check.status.success() && said.contains(fault), "{said}");
    }
    server.write_config(Some(&good));
    ctl(&server, &["reload"]);
    server.assert_alive("refused reloads");
}

#[test]
fn connections_are_listed_and_filtered() {
    let server = Setup::open().workers(2).start();
    let mut links: Vec<_> = (0..5).map(|_| server.link(Via::Tcp)).collect();
    for link in &mut links {
        let ping = Req::new("OPTIONS", "sip:example.com", link);
        assert_eq!(link.status(&ping), 200);
    }
    let listed = |args: &[&str]| {
        let text = ctl(&server, &[&["connections"], args].concat());
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = listed(&[]);
    assert_eq!(all.len(), 5, "{all:?}");
    assert!(all.iter().all(|line| line.starts_with("tcp ") && line.contains(" open ")), "{all:?}");
    let peer = links[3].local().to_string();
    let one = listed(&["--peer", &peer]);
    assert!(one.len() == 1 && one[0].contains(&peer), "{one:?}");
    assert!(listed(&["--transport", "tls"]).is_empty());
    assert_eq!(listed(&["--limit", "2"]).len(), 3, "two and a line that there are more");
    assert!(!server.ctl(&["connections", "--transport", "udp"]).status.success());
}
