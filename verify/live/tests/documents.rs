//! What is written in the documents is what the binary does.

use live::{
    Beside, Credentials, Link, Req, Setup, Via, compare_metrics, eventually, fresh_ip, fresh_ips, http, run,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_example_configuration_passes_the_check() {
    let out = run([Path::new("check"), &root().join("deploy/strowger.toml")]);
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    assert!(out.status.success(), "{said}");
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn warnings_of_a_check_are_what_it_prints_last() {
    let file = std::env::temp_dir().join(format!("strowger-check-{}.toml", std::process::id()));
    std::fs::write(&file, "[balance]\nprobe_timeout = '2s'\n").unwrap();
    let mut check = Command::new("sh");
    check.args(["-c", "\"$0\" check \"$1\" 2>&1"]).arg(live::binary()).arg(&file);
    let said = String::from_utf8(check.output().unwrap().stdout).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(said.lines().next().unwrap().contains(" is good"), "{said}");
    assert!(said.lines().last().unwrap().starts_with("warning: "), "{said}");
}

#[test]
fn every_metric_is_described_once_and_no_other() {
    // Some are there only with the section that they are about. A relative path is in the folder of the file.
    let server = Setup::open().config("[records]\nfile = \"calls.jsonl\"\n").start();
    server.link(Via::Udp).register("ann");
    let text = http(server.admin(), "GET", "/metrics").body;
    compare_metrics("metrics.md", &text, |_| true);
}

#[test]
fn every_command_of_the_guides_exists() {
    let guides = std::fs::read_dir(root().join("docs/guide")).unwrap().flatten().map(|entry| entry.path());
    let guides = guides.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let pages = guides.chain([root().join("README.md")]);
    let text: String = pages.map(|page| std::fs::read_to_string(page).unwrap()).collect();
    let mut seen = 0;
    let commands = text.lines().filter_map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("sudo -u strowger ").unwrap_or(line);
        line.strip_prefix("target/release/strowger ").or_else(|| line.strip_prefix("strowger "))
    });
    for line in commands {
        // The command and its options; values differ from machine to machine.
        let words: Vec<&str> = line.split_whitespace().collect();
        let plain = words.iter().take_while(|w| !w.starts_with('-') && !w.contains(['.', '@', '/']));
        let help = run(plain.copied().chain(["--help"]));
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.status.success(), "{line}");
        for option in words.iter().filter(|w| w.starts_with("--")) {
            assert!(text.contains(option), "{line}: no {option} in\n{text}");
        }
        seen += 1;
    }
    assert!(seen > 20, "the guides show no commands");
}

/// The block of this language that follows a heading of a guide.
fn block(guide: &str, heading: &str, language: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/guide").join(guide)).unwrap();
    let (_, part) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let (_, rest) = part.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn authority_of_the_tls_guide_is_believed_by_clients() {
    let folder = std::env::temp_dir().join(format!("strowger-live-guide-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let commands = block("tls.md", "With an authority of your own", "sh");
    let out = Command::new("sh").args(["-e", "-c", &commands]).current_dir(&folder).output().unwrap();
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    assert!(out.status.success() && said.contains("chain.pem: OK"), "{said}");

    // The configuration of the guide, with these files.
    let shown = |name: &str| folder.join(name).display().to_string();
    let config = block("browsers.md", "1. Listen", "toml")
        .replace("/etc/letsencrypt/live/sip/fullchain.pem", &shown("chain.pem"))
        .replace("/etc/letsencrypt/live/sip/privkey.pem", &shown("key.pem"));
    let restricted = config.clone() + &block("browsers.md", "4. Restrict who connects", "toml");
    std::fs::write(folder.join("strowger.toml"), &restricted).unwrap();
    let out = run([Path::new("check"), &folder.join("strowger.toml")]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));

    let server = Setup::open().listen("tls:5061").listen("wss:8443").config(&config).start();
    let root = CertificateDer::from_pem_file(folder.join("ca.pem")).unwrap();
    let place = |port: u16| (server.ip(), port).into();
    Link::secure(Via::Tls, place(5061), &root).register("ann");
    Link::secure(Via::Wss, place(8443), &root).register("bob");
    let mut probe = Link::bare(Via::Wss, place(8443), &root);
    assert!(probe.ask_upgrade("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 200 "));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn files_of_the_guide_on_nodes_over_tls_serve_a_phone() {
    let page = "balance-nodes-tls.md";
    let folder = std::env::temp_dir().join(format!("strowger-live-nodes-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let [front, node] = fresh_ips().map(|ip| ip.to_string());
    let placed = |text: String| text.replace("127.0.0.11", &front).replace("127.0.0.21", &node);
    let commands = placed(block(page, "What to type", "sh"));
    let out = Command::new("sh").args(["-e", "-c", &commands]).current_dir(&folder).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(root().join("docs/guide").join(page)).unwrap();
    let files: Vec<String> = text
        .split("```toml\n")
        .skip(1)
        .map(|rest| placed(rest.split("```").next().unwrap().into()))
        .collect();
    let paths = ["lb.toml", "node1.toml"].map(|name| folder.join(name).display().to_string());
    for (path, text) in paths.iter().zip(&files) {
        std::fs::write(path, text).unwrap();
        let out = run(["check", path]);
        assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    let data = folder.join("node1").display().to_string();
    let user = ["user", "add", "alice@example.com", "--password", "secret1", "--data-dir", &data];
    assert!(run(user).status.success());
    let _node = Beside::start(&["serve", "--config", &paths[1]]);
    let _front = Beside::start(&["balance", "--config", &paths[0]]);
    let admin = format!("{front}:8080");
    let nodes = || run(["ctl", "nodes", "--admin", &admin]).stdout;
    eventually("the node is up", || String::from_utf8_lossy(&nodes()).contains(" up ").then_some(()));
    let mut phone = Link::udp_at((fresh_ip(), 5060).into(), format!("{front}:5060").parse().unwrap());
    let register = Req::register("alice", &phone);
    let answer = phone.ask_as(&register, &Credentials::new("alice", "secret1"));
    assert_eq!(answer.status(), Some(200), "{answer:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Appends the text of every source file below `folder`.
fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && !["target", ".git", ".cache"].iter().any(|n| name == *n) {
            sources(&path, text);
        } else if path.extension().is_some_and(|e| e == "rs" || e == "py") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_test_that_the_coverage_page_names_exists() {
    let page = std::fs::read_to_string(root().join("docs/rfc-coverage.md")).unwrap();
    let mut text = String::new();
    for folder in ["core", "shell", "strowger", "verify"] {
        sources(&root().join(folder), &mut text);
    }
    let mut named = BTreeSet::new();
    for line in page.lines().filter(|l| l.starts_with("| ") || l.starts_with('`')) {
        let shown = line.trim_end_matches('|').rsplit(" | ").next().unwrap();
        let words = shown.split('`').skip(1).step_by(2).filter(|w| w.contains('_'));
        named.extend(words);
    }
    let missing: Vec<&&str> = named
        .iter()
        .filter(|n| !text.contains(&format!("fn {n}(")) && !text.contains(&format!("def {n}(")))
        .filter(|n| !root().join("verify/fuzz/fuzz_targets").join(format!("{n}.rs")).exists())
        .collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
    assert!(named.len() > 100);
}
