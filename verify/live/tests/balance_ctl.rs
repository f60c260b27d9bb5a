//! What `strowger ctl` says of a load balancer.

use live::{Beside, fresh_ip, run};
use std::path::PathBuf;
use std::process::Output;

/// A balancer in front of nodes that nobody looks for, whose configuration may be rewritten.
struct Balancer {
    _beside: Beside,
    admin: String,
    file: PathBuf,
}

impl Balancer {
    fn start(config: &str) -> Balancer {
        let ip = fresh_ip();
        let dir = std::env::temp_dir().join(format!("strowger-balance-ctl-{}-{ip}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let file = dir.join("balance.toml");
        std::fs::write(&file, config).expect("a file");
        let (listen, admin) = (format!("udp:{ip}:5060"), format!("{ip}:8080"));
        let path = file.display().to_string();
        let args = ["balance", "--config", &path, "--workers", "1", "--listen", &listen, "--admin", &admin];
        Balancer { _beside: Beside::start(&args), admin, file }
    }

    fn ctl(&self, args: &[&str]) -> Output {
        run([&["ctl"], args, &["--admin", &self.admin]].concat())
    }

    /// What it says, and that it does what is wanted.
    fn done(&self, args: &[&str]) -> String {
        let out = self.ctl(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// What it says where it refuses.
    fn refused(&self, args: &[&str]) -> String {
        let out = self.ctl(args);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&out.stdout));
        String::from_utf8_lossy(&out.stderr).into_owned()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.file.parent().map(std::fs::remove_dir_all);
    }
}

const CONFIG: &str = "[balance]
nodes = [\"sip:127.0.0.1:5991\", \"sip:127.0.0.1:5992;weight=2\"]
probe_interval = 0
";

#[test]
fn a_reload_says_which_orders_it_undoes() {
    let balancer = Balancer::start(CONFIG);
    balancer.done(&["algorithm", "cjsq"]);
    assert_eq!(balancer.done(&["reload"]), "in force now: algorithm: cjsq -> tlwl\n");
    assert_eq!(balancer.done(&["reload"]), "nothing changed\n");
    // The way to another weight without the file.
    balancer.done(&["remove-node", "127.0.0.1:5992"]);
    balancer.done(&["add-node", "sip:127.0.0.1:5992;weight=7"]);
    assert_eq!(balancer.done(&["reload"]), "in force now: weight of 127.0.0.1:5992: 7 -> 2\n");
    // These stay, so there is nothing to say.
    balancer.done(&["add-node", "sip:127.0.0.1:5993"]);
    balancer.done(&["drain", "127.0.0.1:5991"]);
    assert_eq!(balancer.done(&["reload"]), "nothing changed\n");
    let nodes = balancer.done(&["nodes"]);
    assert!(nodes.contains("127.0.0.1:5993") && nodes.contains(" drain "), "{nodes}");
    // What the file changes itself is no order undone.
    let heavier =
        CONFIG.replace("weight=2", "weight=3").replace("[balance]\n", "[balance]\nalgorithm = \"maglev\"\n");
    std::fs::write(&balancer.file, heavier).expect("a file");
    assert_eq!(balancer.done(&["reload"]), "in force now: balance, algorithm: tlwl -> maglev\n");
}

#[test]
fn a_balancer_is_not_drained_by_who_names_no_node() {
    let balancer = Balancer::start(CONFIG);
    let refused = balancer.refused(&["drain"]);
    assert!(
        refused.contains("one of 127.0.0.1:5991, 127.0.0.1:5992; ") && refused.contains("--all"),
        "{refused}"
    );
    assert!(balancer.done(&["status"]).starts_with("state          ready\n"));
    let drained = balancer.done(&["drain", "--all"]);
    assert!(drained.ends_with("only a restart takes this back\n"), "{drained}");
    assert!(balancer.done(&["status"]).starts_with("state          draining\n"));
}

#[test]
fn what_a_balancer_does_not_have_it_does_not_show_as_empty() {
    let balancer = Balancer::start(CONFIG);
    for list in ["calls", "bindings"] {
        let refused = balancer.refused(&[list]);
        let expected = "this is a balancer: see `strowger ctl nodes` and `strowger ctl audit`";
        assert!(refused.contains(expected), "{refused}");
    }
    let status = balancer.done(&["status"]);
    assert!(status.contains("transactions   0 unfinished; in memory 0\n"), "{status}");
}
