//! `strowger balance` in front of the servers of a test.

use crate::server::run;
use crate::{Authority, Beside, Link, Via};
use std::net::{Ipv4Addr, SocketAddr};

/// A balancer with a listener of each transport.
pub struct Front {
    authority: Authority,
    ip: Ipv4Addr,
    workers: &'static str,
    balancer: Beside,
}

impl Front {
    /// In front of these nodes, with these keys of `[balance]`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(
        authority: Authority,
        ip: Ipv4Addr,
        workers: &'static str,
        nodes: &[String],
        keys: &str,
    ) -> Front {
        authority.issue("front", &["example.com", &ip.to_string()]);
        let nodes: Vec<String> = nodes.iter().map(|node| format!("\"{node}\"")).collect();
        let places = [("udp", 5060), ("tcp", 5060), ("tls", 5061), ("ws", 5080), ("wss", 5443)];
        let listen = places.map(|(transport, port)| format!("\"{transport}:{ip}:{port}\"")).join(", ");
        let config = format!(
            "listen = [{listen}]\ndata_dir = \"data\"\n[admin]\nlisten = \"{ip}:8080\"\n{}[balance]\nnodes = [{}]\n{keys}",
            authority.section("front"),
            nodes.join(", "),
        );
        let file = authority.folder().join("front.toml");
        std::fs::write(&file, config).unwrap();
        let balancer = Beside::start(&["balance", &file.display().to_string(), "--workers", workers]);
        Front { authority, ip, workers, balancer }
    }

    /// Killed, and started again.
    pub fn restart(&mut self) {
        self.balancer.kill();
        let file = self.authority.folder().join("front.toml").display().to_string();
        self.balancer = Beside::start(&["balance", &file, "--workers", self.workers]);
    }

    /// A phone or a caller of its own address, connected to it.
    pub fn link(&self, via: Via) -> Link {
        let at = |port: u16| SocketAddr::from((self.ip, port));
        match via {
            Via::Udp | Via::Tcp => Link::open(via, at(5060)),
            Via::Tls => Link::secure(via, at(5061), self.authority.root()),
            Via::Ws => Link::secure(via, at(5080), self.authority.root()),
            Via::Wss => Link::secure(via, at(5443), self.authority.root()),
        }
    }

    /// `strowger ctl ARGS`: its output.
    ///
    /// # Panics
    /// If it is refused.
    pub fn ctl(&self, args: &[&str]) -> String {
        let out = run([&["ctl"], args, &["--admin", &format!("{}:8080", self.ip)]].concat());
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// A figure of its `/metrics`, written as there.
    ///
    /// # Panics
    /// If there is none.
    pub fn metric(&self, name: &str) -> u64 {
        let page = crate::http((self.ip, 8080).into(), "GET", "/metrics").body;
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}")).parse::<f64>().unwrap() as u64
    }

    /// The authority of its certificate.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }
}
