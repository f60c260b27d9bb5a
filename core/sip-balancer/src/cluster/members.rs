//! Who the nodes are. Places in the list are filled and emptied while it runs, by one thread at a time, and
//! read by all workers with every message; so a place is a handful of atomics and there is no lock.
//!
//! A place is written before it is said to be known, and it is taken for another node only when nothing
//! refers to it any more (see [`Cluster::add`](crate::Cluster::add)), so nobody ever reads half of one
//! address and half of another.

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use wire::Transport;

/// A node by its place in the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u16);

/// One back-end server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// Where it is reached.
    pub address: SocketAddr,
    /// Its transport: UDP, TCP, TLS or SCTP. `None`: UDP, and TCP for messages that are too long for a
    /// datagram (RFC 3261 section 18.1.1). Over TLS it must prove a name: see
    /// [`NodeNames`](crate::NodeNames).
    pub transport: Option<Transport>,
    /// Its share of the calls beside the others', 1 to 1000.
    pub weight: u32,
}

impl Node {
    /// A node over UDP with an ordinary share.
    pub const fn new(address: SocketAddr) -> Node {
        Node { address, transport: None, weight: 1 }
    }

    /// Its name for people: `HOST:PORT`.
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// What tokens call it; never zero. It depends on the address alone, so that every balancer with this
    /// node in its list, in whatever place, reads the same token the same way, and so that the id of a node
    /// that was removed never comes to mean another one.
    pub fn id(&self) -> u32 {
        let ip = match self.address.ip().to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let hash = crate::hash::fnv1a(&ip.octets());
        let hash = self
            .address
            .port()
            .to_be_bytes()
            .iter()
            .fold(hash, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        ((hash ^ (hash >> 32)) as u32).max(1)
    }
}

/// Of [`Place::rest`]: the port below, then how it is reached, then whether there is a node.
const TRANSPORT: u32 = 16;
const KNOWN: u32 = 1 << 31;

#[derive(Debug, Default)]
struct Place {
    high: AtomicU64,
    low: AtomicU64,
    scope: AtomicU32,
    rest: AtomicU32,
}

fn rest(node: &Node) -> u32 {
    let transport = match node.transport {
        None => 0,
        Some(Transport::Udp) => 1,
        Some(Transport::Tcp) => 2,
        Some(Transport::Tls) => 3,
        Some(Transport::Sctp) => 4,
        // Connections to SIP servers are never WebSocket.
        Some(Transport::Ws) => 5,
        Some(Transport::Wss) => 6,
    };
    KNOWN | transport << TRANSPORT | u32::from(node.address.port())
}

/// Places of nodes.
#[derive(Debug)]
pub(crate) struct Members {
    places: Box<[Place]>,
    /// What tokens call them, close together: every message asks.
    ids: Box<[AtomicU32]>,
    /// Places that have ever been used; all of them are at the beginning.
    used: AtomicU32,
}

impl Members {
    /// `most` empty places.
    pub fn new(most: usize) -> Members {
        Members {
            places: (0..most).map(|_| Place::default()).collect(),
            ids: (0..most).map(|_| AtomicU32::new(0)).collect(),
            used: AtomicU32::new(0),
        }
    }

    /// Places that have ever been used.
    pub fn used(&self) -> usize {
        self.used.load(Acquire) as usize
    }

    /// Places there are.
    pub fn most(&self) -> usize {
        self.places.len()
    }

    /// Puts a node into a place, of which `used` is not more than the first unused one.
    pub fn put(&self, at: NodeIndex, node: &Node) {
        let Some(place) = self.places.get(usize::from(at.0)) else { return };
        let bits = match node.address.ip().to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let scope = match node.address {
            SocketAddr::V6(v6) => v6.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        place.rest.store(0, Release);
        place.high.store((bits >> 64) as u64, Relaxed);
        place.low.store(bits as u64, Relaxed);
        place.scope.store(scope, Relaxed);
        if let Some(id) = self.ids.get(usize::from(at.0)) {
            id.store(node.id(), Relaxed);
        }
        place.rest.store(rest(node), Release);
        self.used.fetch_max(u32::from(at.0) + 1, Release);
    }

    /// Takes the node out of a place.
    pub fn take(&self, at: NodeIndex) {
        let at = usize::from(at.0);
        if let (Some(id), Some(place)) = (self.ids.get(at), self.places.get(at)) {
            id.store(0, Relaxed);
            place.rest.store(0, Release);
        }
    }

    /// Changes how the node in a place is reached.
    pub fn change(&self, at: NodeIndex, node: &Node) {
        if let Some(place) = self.places.get(usize::from(at.0)) {
            place.rest.store(rest(node), Release);
        }
    }

    /// The node in a place; its share is left to the caller.
    pub fn get(&self, at: NodeIndex) -> Option<Node> {
        let place = self.places.get(usize::from(at.0))?;
        let rest = place.rest.load(Acquire);
        if rest & KNOWN == 0 {
            return None;
        }
        let bits = u128::from(place.high.load(Relaxed)) << 64 | u128::from(place.low.load(Relaxed));
        let v6 = Ipv6Addr::from_bits(bits);
        let port = rest as u16;
        let address = match v6.to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(v4.into(), port),
            None => SocketAddr::V6(SocketAddrV6::new(v6, port, 0, place.scope.load(Relaxed))),
        };
        let transport = match rest >> TRANSPORT & 7 {
            1 => Some(Transport::Udp),
            2 => Some(Transport::Tcp),
            3 => Some(Transport::Tls),
            4 => Some(Transport::Sctp),
            5 => Some(Transport::Ws),
            6 => Some(Transport::Wss),
            _ => None,
        };
        Some(Node { address, transport, weight: 1 })
    }

    /// What tokens call the node in a place; zero: nobody is there.
    pub fn id(&self, at: NodeIndex) -> u32 {
        self.ids.get(usize::from(at.0)).map_or(0, |id| id.load(Relaxed))
    }

    /// The node that tokens call `id`.
    pub fn by_id(&self, id: u32) -> Option<NodeIndex> {
        let used = self.ids.get(..self.used())?;
        let at = used.iter().position(|own| own.load(Relaxed) == id).filter(|_| id != 0)?;
        Some(NodeIndex(at as u16))
    }
}
