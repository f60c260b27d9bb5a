//! The configuration of an empty file.

use super::balance::Balance;
use super::types::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use wire::Transport;

impl Default for Config {
    fn default() -> Config {
        Config {
            domains: Vec::new(),
            aliases: Vec::new(),
            listen: default_listeners(),
            workers: 0,
            steering: Steering::Auto,
            pin: Pin::Auto,
            busy_poll: Duration::ZERO,
            udp_segmentation: Segmentation::Auto,
            data_dir: PathBuf::from("data"),
            auth: Auth::default(),
            registrar: Registrar::default(),
            proxy: Proxy::default(),
            voicemail: None,
            emergency: None,
            trunks: Vec::new(),
            routes: Vec::new(),
            timers: Timers::default(),
            limits: Limits::default(),
            overload: Overload::default(),
            dns: Dns { servers: Vec::new(), timeout: Duration::from_secs(2), cache: 10_000 },
            admin: AdminAccess::default(),
            log: Log { level: Level::Info, format: LogFormat::Text },
            store: Store { on_failure: OnStoreFailure::Refuse },
            balance: Balance::default(),
        }
    }
}

/// UDP and TCP on port 5060 of every address. The IPv6 ones may be missing.
fn default_listeners() -> Vec<Listener> {
    let mut all = Vec::new();
    for ip in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
        for transport in [Transport::Udp, Transport::Tcp] {
            let address = SocketAddr::new(ip, transport.default_port());
            all.push(Listener { transport, address, advertise: None, optional: ip.is_ipv6() });
        }
    }
    all
}

impl Default for Auth {
    fn default() -> Auth {
        Auth {
            enabled: true,
            challenge: Challenge::All,
            realm: None,
            algorithms: vec![Algorithm::Md5],
            require_qop: false,
            nonce_lifetime: Duration::from_secs(300),
            bind_from: true,
            in_dialog: false,
            fronts: Vec::new(),
        }
    }
}

impl Default for Registrar {
    fn default() -> Registrar {
        Registrar {
            min_expires: Duration::from_secs(60),
            max_expires: Duration::from_secs(7200),
            default_expires: Duration::from_secs(3600),
            max_bindings: 10,
            service_route: Vec::new(),
        }
    }
}

impl Default for Proxy {
    fn default() -> Proxy {
        Proxy {
            mode: ProxyMode::Stateful,
            fork: Fork::Parallel,
            record_route: true,
            recurse_redirects: false,
            max_breadth: 60,
            max_forwards: 70,
            timer_c: Duration::from_secs(185),
            mtu: 1300,
            strangers: Strangers::Allow,
            stranger_methods: ["INVITE", "MESSAGE", "OPTIONS"].map(str::to_owned).to_vec(),
        }
    }
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            trying: Trying::Learned,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message_bytes: 65_535,
            headers: 256,
            transactions: None,
            memory_mib: None,
            calls: None,
            connections: 100_000,
            connections_per_source: 1_000,
            tcp_head_timeout: Duration::from_secs(10),
            // Longer than the longest registration, so that a phone that never sends keepalives
            // still has its connection when a call comes.
            tcp_idle_timeout: Duration::from_secs(7500),
        }
    }
}

impl Default for Overload {
    fn default() -> Overload {
        Overload {
            enabled: true,
            delay: Duration::from_millis(200),
            retry_after: Duration::from_secs(5),
            feedback: true,
            kernel: true,
        }
    }
}

impl Default for AdminAccess {
    fn default() -> AdminAccess {
        AdminAccess {
            listen: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080)),
            allow_remote: false,
            hosts: Vec::new(),
            token_file: None,
        }
    }
}
