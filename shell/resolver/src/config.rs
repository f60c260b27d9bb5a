//! What a resolver is told at its start.

use hickory_resolver::Hosts;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverOpts};
use hickory_resolver::config::{ResolveHosts, ResolverConfig as Servers};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of a resolver.
#[derive(Clone, Debug)]
pub struct ResolverConfig {
    /// Nameservers, asked over UDP and, for long answers, TCP. Empty: those of the system.
    pub nameservers: Vec<SocketAddr>,
    /// Time limit of one look-up.
    pub timeout: Duration,
    /// Most look-ups under way at a time.
    pub concurrency: usize,
    /// Most questions waiting for their turn.
    pub queue: usize,
    /// Most answers kept for all workers together.
    pub cache: u64,
    /// Which hosts file goes before the DNS.
    pub hosts: HostsFile,
}

/// A file of addresses and names that goes before the DNS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostsFile {
    /// The system's own.
    System,
    /// Another one.
    At(PathBuf),
    /// None.
    None,
}

impl Default for ResolverConfig {
    /// The system's nameservers and hosts file, 3 seconds, 256 look-ups at a time, 4096 waiting.
    fn default() -> ResolverConfig {
        ResolverConfig {
            nameservers: Vec::new(),
            timeout: Duration::from_secs(3),
            concurrency: 256,
            queue: 4_096,
            cache: 4_096,
            hosts: HostsFile::System,
        }
    }
}

impl ResolverConfig {
    /// Servers and options in the library's form. A system without a usable configuration has no
    /// nameservers; only the hosts file serves then.
    pub(crate) fn servers(&self) -> (Servers, ResolverOpts) {
        let (servers, mut options) = if self.nameservers.is_empty() {
            hickory_resolver::system_conf::read_system_conf().unwrap_or_else(|error| {
                log_events::dns::nameservers_unknown(&error);
                (Servers::from_name_servers(Vec::new()), ResolverOpts::default())
            })
        } else {
            let servers = self.nameservers.iter().map(|address| name_server(*address)).collect();
            (Servers::from_name_servers(servers), ResolverOpts::default())
        };
        // Two tries fit into the time limit, so that one lost datagram is no failure.
        options.timeout = self.timeout / 2;
        options.attempts = 1;
        options.cache_size = self.cache;
        options.max_active_requests = self.concurrency.max(1);
        // Looked up here, because an entry must also answer for the family that it lacks.
        options.use_hosts_file = ResolveHosts::Never;
        (servers, options)
    }

    /// The hosts file in the library's form. The system's own may be missing.
    pub(crate) fn read_hosts(&self) -> io::Result<Hosts> {
        match &self.hosts {
            HostsFile::None => Ok(Hosts::default()),
            HostsFile::System => Ok(Hosts::from_system().unwrap_or_else(|error| {
                log_events::dns::hosts_file_unreadable(&error);
                Hosts::default()
            })),
            HostsFile::At(path) => {
                let mut hosts = Hosts::default();
                hosts.read_hosts_conf(File::open(path)?)?;
                Ok(hosts)
            }
        }
    }
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    server.connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut server.connections {
        connection.port = address.port();
    }
    server
}
