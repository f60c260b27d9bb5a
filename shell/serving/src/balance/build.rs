//! From the configuration to the settings of the balancer.

use crate::keys::derive;
use crate::serve::wall_micros;
use crate::startup::Failure;
use control::config as c;
use resolver::ResolverConfig;
use sip_balancer::token::{Key, Keys};
use sip_balancer::{Cluster, Listener, MOST_NODES, Node, NotAdded, Settings};
use std::path::Path;
use wire::Transport;
use worker_runtime::{Bound, monotonic_now};

/// What to do about a node whose transport no listener has.
const LISTEN: &str = "add one, or leave out its transport";

/// What `strowger check` finds about the nodes.
#[derive(Debug, Default)]
pub struct NodeFindings {
    /// What a start is refused for.
    pub errors: Vec<c::ConfigError>,
    /// What it is not refused for.
    pub warnings: Vec<c::ConfigError>,
}

/// The listeners as they are bound, with the names to advertise.
pub fn listeners(bound: &Bound, wanted: &[c::Listener]) -> Vec<Listener> {
    let advertise = |l: &c::Listener| l.advertise.as_ref().map(|a| (a.host.clone().into_bytes(), a.port));
    let pairs = bound.listeners().iter().zip(wanted);
    pairs.map(|(bound, wanted)| Listener::new(bound.transport, bound.address, advertise(wanted))).collect()
}

/// The same before they are bound; a port that the system is to choose is not known yet.
pub fn expected(wanted: &[c::Listener]) -> Vec<Listener> {
    wanted.iter().map(|l| Listener::new(l.transport, l.address, None)).collect()
}

/// The nodes that are written with their addresses. None at all, by address or name, or one that is the
/// balancer itself, is a mistake.
pub fn nodes(config: &c::Config, listeners: &[Listener]) -> Result<Vec<Node>, Failure> {
    let balance = &config.balance;
    if balance.nodes.is_empty() {
        return Err(
            "no node to balance to; name them with --node sip:HOST:PORT, or `nodes` in [balance]".into()
        );
    }
    let mut nodes: Vec<Node> = Vec::with_capacity(balance.nodes.len());
    for node in balance.nodes.iter().filter(|node| matches!(node.place, c::NodePlace::Address(_))) {
        let one = self::node(node, listeners)?;
        if let Some(other) = nodes.iter().find(|other| other.id() == one.id()) {
            return Err(alike(&other.name(), &one.name()).into());
        }
        nodes.push(one);
    }
    Ok(nodes)
}

/// The nodes in the file that none of its listeners reaches. A start is refused for one with an address, and
/// goes on without one by name.
pub fn check_nodes(loaded: &c::Loaded) -> NodeFindings {
    let config = &loaded.config;
    let listeners = expected(&config.server.listen);
    let mut found = NodeFindings::default();
    for (number, node) in config.balance.nodes.iter().enumerate() {
        match (&node.place, node.transport) {
            (c::NodePlace::Address(_), _) => {
                let error = self::node(node, &listeners).err();
                found.errors.extend(error.map(|message| loaded.at_node(number, message)));
            }
            (c::NodePlace::Name(name), Some(over)) if !listeners.iter().any(|l| l.transport == over) => {
                let host = &name.host;
                let what = format!("node {host} cannot be reached: there is no listener over {over}");
                let message = format!("{what}; {LISTEN}");
                found.warnings.push(loaded.at_node(number, message));
            }
            (c::NodePlace::Name(_), _) => {}
        }
    }
    found
}

/// What is said of two nodes whose names in tokens are the same by chance.
pub fn alike(one: &str, other: &str) -> String {
    format!("nodes {one} and {other} look the same in tokens; change one's port")
}

/// What is said where a node cannot be added.
pub fn not_added(cluster: &Cluster, node: &Node, why: NotAdded) -> String {
    let name = node.name();
    match why {
        NotAdded::There => format!("node {name} is there already"),
        NotAdded::Alike(at) => {
            let other = cluster.node(at).map_or_else(String::new, |other| other.name());
            alike(&other, &name)
        }
        NotAdded::Full => format!(
            "no room for node {name}: there are {MOST_NODES}, counting removed ones that still have calls"
        ),
    }
}

/// One node, which must be another than the balancer itself, and within reach of one of its listeners.
pub fn node(node: &c::BalanceNode, listeners: &[Listener]) -> Result<Node, String> {
    let &c::NodePlace::Address(address) = &node.place else {
        return Err(format!("{node} is a name; write the node's address here, or the name into the file"));
    };
    let ip = address.ip().to_canonical();
    let same = |l: &Listener| l.address.ip().to_canonical() == ip;
    if listeners.iter().any(|l| same(l) && l.address.port() == address.port()) {
        return Err(format!("node {address} is this balancer itself; give it another address or port"));
    }
    let near = |l: &Listener| l.address.is_ipv4() == ip.is_ipv4();
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    if !listeners.iter().any(near) {
        return Err(format!("node {address} cannot be reached: there is no {family} listener; add one"));
    }
    if let Some(transport) = node.transport
        && !listeners.iter().any(|l| near(l) && l.transport == transport)
    {
        let what =
            format!("node {address} cannot be reached: there is no {family} listener over {transport}");
        return Err(format!("{what}; {LISTEN}"));
    }
    Ok(Node { address, transport: node.transport, weight: node.weight })
}

/// The keys: from the secret that balancers of one cluster share, and the one before it.
pub fn keys(secret: [u8; 32], previous: Option<&Path>) -> Result<Keys, Failure> {
    let key = |secret: &[u8; 32]| Key {
        epoch: derive(secret, "balance epoch")[0],
        secret: derive(secret, "balance seal"),
    };
    let previous = previous.map(read_secret).transpose()?;
    let keys = Keys {
        current: key(&secret),
        previous: previous.as_ref().map(key).filter(|_| previous != Some(secret)),
        hash: derive(&secret, "balance hash"),
    };
    if keys.previous.is_some_and(|previous| previous.epoch == keys.current.epoch) {
        return Err("the secret and `previous_secret` have the same mark; make another secret".into());
    }
    Ok(keys)
}

fn read_secret(path: &Path) -> Result<[u8; 32], Failure> {
    let mend = "name a file that was `secret` in a data_dir";
    let bytes = regular_file::read(path, 32);
    let bytes = bytes.map_err(|error| format!("previous_secret {}: {error}; {mend}", path.display()))?;
    let bytes = <[u8; 32]>::try_from(bytes);
    Ok(bytes.map_err(|_| format!("previous_secret {}: not 32 octets; {mend}", path.display()))?)
}

/// Whether a node is in the list by its address.
pub fn is_listed(config: &c::Config, node: &Node) -> bool {
    config.balance.nodes.iter().any(|listed| match listed.place {
        c::NodePlace::Address(address) => Node::new(address).id() == node.id(),
        c::NodePlace::Name(_) => false,
    })
}

/// The name that a node with this transport must prove; none except over TLS.
pub fn proof(transport: Option<Transport>, name: String) -> String {
    if transport == Some(Transport::Tls) { name } else { String::new() }
}

/// Sets the names that the nodes must prove which are listed by address.
pub fn prove_listed(cluster: &Cluster, list: &[c::BalanceNode]) {
    let one = |node: &c::BalanceNode| match node.place {
        c::NodePlace::Address(address) => {
            Some((Node::new(address), proof(node.transport, node.name_to_prove())))
        }
        c::NodePlace::Name(_) => None,
    };
    let all: Vec<(Node, String)> = list.iter().filter_map(one).collect();
    cluster.names().prove(&all, |id| cluster.by_id(id).is_some());
}

/// How nodes by name are looked up.
pub fn resolver(config: &c::Config) -> ResolverConfig {
    ResolverConfig {
        nameservers: config.dns.servers.clone(),
        timeout: config.dns.timeout,
        ..ResolverConfig::default()
    }
}

/// Spreads the choices of balancers and workers. It need not be secret.
pub fn seed() -> u64 {
    wall_micros() as u64 ^ monotonic_now().as_micros().rotate_left(32)
}

/// The settings of every worker.
pub fn settings(config: &c::Config, listeners: Vec<Listener>) -> Settings {
    Settings {
        max_forwards: config.proxy.max_forwards,
        mtu: config.proxy.mtu,
        message: config.limits.message(),
        ..config.balance.settings(listeners)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_balancer::{Algorithm, Probing, Rules};

    #[test]
    fn the_defaults_of_the_file_are_those_of_the_core() {
        let made = settings(&c::Config::default(), Vec::new());
        assert_eq!(made.algorithm, Algorithm::default());
        assert_eq!(made.rules, Rules::default());
        assert_eq!(made.probing, Probing { down_after: 3, ..Probing::default() });
    }

    #[test]
    fn keys_differ_by_their_use_and_their_secret() {
        let (one, other) = (keys([1; 32], None).unwrap(), keys([2; 32], None).unwrap());
        assert_ne!(one.current.secret, one.hash);
        assert_ne!(one.current, other.current);
    }

    #[test]
    fn a_balancer_is_no_node_of_its_own() {
        let parse = |node: &str| {
            let overrides = c::Overrides { nodes: vec![node.to_owned()], ..c::Overrides::default() };
            c::Config::parse("t", "", &overrides, &[]).unwrap().config
        };
        let own = [Listener::new(Transport::Udp, "192.0.2.1:5060".parse().unwrap(), None)];
        let said = |node: &str| nodes(&parse(node), &own).map(|n| n.len()).map_err(|e| e.to_string());
        assert!(said("sip:192.0.2.1").unwrap_err().contains("this balancer itself"));
        assert!(said("sip:[2001:db8::1]").unwrap_err().contains("no IPv6 listener"));
        for transport in ["tcp", "tls", "sctp"] {
            let lacks = format!("no IPv4 listener over {transport}");
            assert!(said(&format!("sip:192.0.2.2;transport={transport}")).unwrap_err().contains(&lacks));
        }
        assert_eq!(said("sip:192.0.2.1:5070"), Ok(1));
        assert!(nodes(&c::Config::default(), &own).unwrap_err().to_string().contains("--node"));
    }
}
