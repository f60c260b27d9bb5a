//! Opening the listening sockets of every worker.

use crate::Runtime;
use crate::config::{Listener, RuntimeConfig, StartError};
use crate::sieve::Sieves;
use crate::sys;
use crate::transport::sctp::{self, Associations};
use crate::transport::stream;
use crate::transport::udp::{self, UdpSocket};
use crate::worker::{Generating, Serving};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use wire::{Generator, ListenerId, Machine, Transport};

/// Free ports tried where any will do.
const PORT_ATTEMPTS: u32 = 16;
/// Descriptors that a process has open beside its listening sockets and connections: files, event queues,
/// wake-ups. A server with few more is slow to take connections, but serves.
const OTHER_DESCRIPTORS: usize = 32;

/// The sockets of one worker.
#[derive(Default)]
pub struct WorkerSockets {
    /// Datagram sockets.
    pub udp: Vec<UdpSocket>,
    /// Listening stream sockets.
    pub tcp: Vec<(ListenerId, Transport, OwnedFd)>,
}

/// Listening sockets that are open and not yet served: the actual addresses are known, and machines
/// can be made that need them.
pub struct Bound {
    pub(crate) config: RuntimeConfig,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) sockets: Vec<WorkerSockets>,
    /// Whether the kernel was told who owns what.
    pub(crate) steered: bool,
    /// What has the kernel drop datagrams in an overload, once it is there.
    pub(crate) sieves: Arc<OnceLock<Sieves>>,
}

impl Bound {
    /// Opens every listener once per worker, those from [`RuntimeConfig::own_from`] on for one only.
    ///
    /// # Errors
    /// Too few descriptors, a listener that cannot be opened, or one of a transport that this version does
    /// not have.
    pub fn new(config: RuntimeConfig, workers: usize) -> Result<Bound, StartError> {
        if workers == 0 || workers > usize::from(u16::MAX) {
            return Err(StartError::Unusable("there must be at least one worker and at most 65535"));
        }
        if config.listeners.is_empty() || config.listeners.len() > usize::from(u16::MAX) {
            return Err(StartError::Unusable("there must be at least one listener and at most 65535"));
        }
        let shared = config.listeners.len().min(config.own_from);
        let listening = shared * workers + (config.listeners.len() - shared);
        let needed = listening + config.own_connections + OTHER_DESCRIPTORS + 2 * workers;
        let allowed = sys::raise_descriptor_limit();
        if let Some(allowed) = allowed.filter(|&allowed| allowed < needed as u64) {
            return Err(StartError::Descriptors { needed, allowed });
        }
        let mut sockets: Vec<WorkerSockets> = (0..workers).map(|_| WorkerSockets::default()).collect();
        let mut listeners = Vec::with_capacity(config.listeners.len());
        for (index, &listener) in config.listeners.iter().enumerate() {
            let id = ListenerId(index as u16);
            match listener.transport {
                Transport::Udp | Transport::Tcp | Transport::Ws | Transport::Sctp => {}
                Transport::Tls | Transport::Wss if config.tls.is_some() => {}
                Transport::Tls | Transport::Wss => return Err(StartError::NoCertificate(listener)),
            }
            if shares_socket(&config.listeners, listener) {
                log_events::workers::listening(&listener.transport, &listener.address, workers);
                listeners.push(listener);
                continue;
            }
            let owner = index.checked_sub(config.own_from).map(|nth| nth % workers);
            let opening = match owner.and_then(|owner| sockets.get_mut(owner..=owner)) {
                Some(one) => one,
                None => &mut sockets[..],
            };
            let actual = open(&config, listener, id, opening).map_err(|error| refused(listener, error))?;
            log_events::workers::listening(&actual.transport, &actual.address, workers);
            listeners.push(actual);
        }
        Ok(Bound { config, listeners, sockets, steered: false, sieves: Arc::default() })
    }

    /// The listeners in the order of their ids, with the addresses and ports they got.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Starts one thread per machine.
    ///
    /// # Errors
    /// If there are not as many machines as workers were bound for, or the system gives no thread.
    pub fn start<M: Machine + Send + 'static>(
        self,
        machines: Vec<M>,
    ) -> Result<Runtime<M::Notice>, StartError> {
        Runtime::run(self, machines.into_iter().map(Serving).collect())
    }

    /// As [`Bound::start`], for the machines of a load generator, which are told when messages came if
    /// [`GeneratorOptions`](crate::GeneratorOptions) ask for that.
    ///
    /// # Errors
    /// As those of [`Bound::start`].
    pub fn start_generator<G: Generator + Send + 'static>(
        self,
        machines: Vec<G>,
    ) -> Result<Runtime<G::Notice>, StartError> {
        Runtime::run(self, machines.into_iter().map(Generating).collect())
    }
}

/// Whether a WebSocket listener shares the socket of a TLS listener.
fn shares_socket(listeners: &[Listener], listener: Listener) -> bool {
    let twin = Listener { transport: Transport::Tls, ..listener };
    listener.transport == Transport::Wss && listener.address.port() != 0 && listeners.contains(&twin)
}

/// For each listener the WebSocket listener that shares its socket.
pub fn sharers(listeners: &[Listener]) -> Vec<Option<ListenerId>> {
    let sharer = |listener: &Listener| {
        let twin = Listener { transport: Transport::Wss, ..*listener };
        let at = listeners.iter().position(|other| *other == twin)?;
        (listener.transport == Transport::Tls).then_some(ListenerId(at as u16))
    };
    listeners.iter().map(sharer).collect()
}

/// Why a listener cannot be opened.
fn refused(listener: Listener, error: io::Error) -> StartError {
    let unknown = [libc::EPROTONOSUPPORT, libc::ESOCKTNOSUPPORT].contains(&sys::errno(&error));
    match listener.transport {
        Transport::Sctp if unknown => StartError::NoSctp { listener, missing: sctp::missing() },
        _ => StartError::Listen { listener, error },
    }
}

/// The address to open for every worker: the listener's, with a free port if any will do.
fn settle_address(config: &RuntimeConfig, listener: Listener, id: ListenerId) -> io::Result<SocketAddr> {
    let address = listener.address;
    match listener.transport {
        _ if address.port() != 0 && config.share_ports => Ok(address),
        Transport::Udp => sys::udp_probe(address),
        Transport::Sctp => Associations::new(&config.sctp).settle(id, address),
        _ => sys::tcp_probe(address),
    }
}

/// Opens a listener once per worker.
fn open(
    config: &RuntimeConfig,
    mut listener: Listener,
    id: ListenerId,
    workers: &mut [WorkerSockets],
) -> io::Result<Listener> {
    let any_port = listener.address.port() == 0;
    let mut attempts = if any_port { PORT_ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        let address = settle_address(config, listener, id)?;
        let opened = match listener.transport {
            Transport::Udp => open_udp(config, address, id, workers),
            transport => open_tcp(config, (transport, address), id, workers),
        };
        match opened {
            Ok(()) => {
                listener.address = address;
                return Ok(listener);
            }
            // Somebody was quicker between the choice of a port and its use.
            Err(error) if attempts > 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
}

/// Opens a listener's datagram sockets for each worker, all or none.
fn open_udp(
    config: &RuntimeConfig,
    address: SocketAddr,
    id: ListenerId,
    workers: &mut [WorkerSockets],
) -> io::Result<()> {
    let opened = udp::open(config, address, id, workers.len())?;
    for (worker, sockets) in workers.iter_mut().zip(opened) {
        worker.udp.extend(sockets);
    }
    Ok(())
}

/// Opens a listening stream socket per worker, all or none.
fn open_tcp(
    config: &RuntimeConfig,
    (transport, address): (Transport, SocketAddr),
    id: ListenerId,
    workers: &mut [WorkerSockets],
) -> io::Result<()> {
    let options = stream::socket_options(&config.streams);
    let associations = Associations::new(&config.sctp);
    let listen = || match transport {
        Transport::Sctp => associations.listen(id, address, &options),
        _ => sys::tcp_listen(address, &options),
    };
    let sockets: Vec<_> = workers.iter().map(|_| listen()).collect::<Result<_, _>>()?;
    if transport == Transport::Sctp {
        associations.advise(address);
    }
    for (worker, fd) in workers.iter_mut().zip(sockets) {
        worker.tcp.push((id, transport, fd));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_of_one_worker_are_served_by_it_alone() {
        let any = || Listener { transport: Transport::Udp, address: "127.0.0.1:0".parse().unwrap() };
        let config =
            RuntimeConfig { listeners: vec![any(), any(), any()], own_from: 1, ..RuntimeConfig::default() };
        let bound = Bound::new(config, 2).unwrap();
        let ids: Vec<Vec<u16>> = bound
            .sockets
            .iter()
            .map(|worker| worker.udp.iter().map(|socket| socket.id.0).collect())
            .collect();
        assert_eq!(ids, [[0, 1], [0, 2]]);
    }
}
