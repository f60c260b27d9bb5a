//! Opening the datagram sockets of a listener.

use crate::config::RuntimeConfig;
use crate::sys::{self, SocketOptions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use wire::ListenerId;

/// A datagram socket.
pub struct UdpSocket {
    /// Whose address it has.
    pub id: ListenerId,
    /// The socket.
    pub fd: Arc<OwnedFd>,
    /// Where it is connected to, if it is.
    pub peer: Option<SocketAddr>,
    /// Whether it is one of those that get a peer when much is sent to one.
    pub lent: Lent,
}

/// Whether a socket is one that peers get in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lent {
    /// It is its listener's, or connected for good.
    No,
    /// It has no address yet. What comes from its peer comes by it.
    Unbound,
    /// It has its address.
    Bound,
    /// It only sends ([`Mutes`](crate::sys::Mutes)).
    Mute,
}

impl Lent {
    /// Whether datagrams can come by such a socket.
    pub fn hears(self) -> bool {
        self != Lent::Mute
    }
}

/// Opens a listener's sockets for this number of workers, all or none, and answers those of each.
pub fn open(
    config: &RuntimeConfig,
    address: SocketAddr,
    id: ListenerId,
    workers: usize,
) -> io::Result<Vec<Vec<UdpSocket>>> {
    let options = SocketOptions {
        receive_buffer: config.udp_buffer,
        send_buffer: config.udp_buffer,
        ..SocketOptions::default()
    };
    let opening = Opening { config, address, id, options };
    let mut sockets = opening.listening(workers)?;
    // Of several connected to one peer the kernel would use one.
    if let ([worker], Some(peer)) = (&mut sockets[..], config.peer) {
        worker.extend(opening.connected(peer)?);
    }
    if address.ip().is_unspecified() || config.connected == 0 {
        return Ok(sockets);
    }
    // They only save work. What speaks against one speaks against all.
    if let Err(error) = opening.lend(&mut sockets)? {
        tracing::debug!(%address, %error, "no sockets to connect to who is sent much");
    }
    Ok(sockets)
}

/// A listener whose sockets are being opened.
struct Opening<'a> {
    config: &'a RuntimeConfig,
    address: SocketAddr,
    id: ListenerId,
    options: SocketOptions,
}

impl Opening<'_> {
    /// The socket of each worker that takes what comes from everywhere.
    fn listening(&self, workers: usize) -> io::Result<Vec<Vec<UdpSocket>>> {
        let bind = |_| sys::udp_bind(self.address, &self.options);
        let sockets: Vec<_> = (0..workers).map(bind).collect::<Result<_, _>>()?;
        if let Some((_, receive, send)) = sockets.first() {
            let (receive_kb, send_kb, wanted_kb) = (receive >> 10, send >> 10, self.config.udp_buffer >> 10);
            let address = self.address;
            tracing::info!(%address, receive_kb, send_kb, wanted_kb, "datagram socket buffers");
        }
        sockets.into_iter().map(|(fd, _, _)| Ok(vec![self.socket(fd, None, Lent::No)?])).collect()
    }

    /// A socket at the same address that is connected to `peer` for good.
    fn connected(&self, peer: SocketAddr) -> io::Result<Option<UdpSocket>> {
        let address = self.address;
        if peer.is_ipv4() != address.is_ipv4() {
            return Ok(None);
        }
        let (fd, _, _) = sys::udp_bind(address, &self.options)?;
        match sys::udp_connect(fd.as_fd(), peer) {
            Ok(()) => self.socket(fd, Some(peer), Lent::No).map(Some),
            // The other socket will say so with each datagram, or find that there is a way by then.
            Err(error) => {
                tracing::debug!(%address, %peer, %error, "no connected socket");
                Ok(None)
            }
        }
    }

    /// Adds to each worker's sockets those that peers get in turn; the inner error says why there are no
    /// more of them.
    fn lend(&self, sockets: &mut [Vec<UdpSocket>]) -> io::Result<io::Result<()>> {
        // One that takes what comes from its peer would keep it from the other workers.
        let alone = sockets.len() == 1 && !self.config.share_ports;
        let mutes = match (!alone).then(|| sys::Mutes::new(self.address)).transpose() {
            Ok(mutes) => mutes,
            Err(error) => return Ok(Err(error)),
        };
        for worker in sockets {
            for _ in 0..self.config.connected {
                let made = match &mutes {
                    Some(mutes) => mutes.open(self.options.send_buffer).map(|fd| (fd, Lent::Mute)),
                    None => {
                        sys::udp_socket(self.address, &self.options).map(|(fd, _, _)| (fd, Lent::Unbound))
                    }
                };
                match made {
                    Ok((fd, lent)) => worker.push(self.socket(fd, None, lent)?),
                    Err(error) => return Ok(Err(error)),
                }
            }
        }
        Ok(Ok(()))
    }

    /// An open socket, which tells what is asked of all.
    fn socket(&self, fd: OwnedFd, peer: Option<SocketAddr>, lent: Lent) -> io::Result<UdpSocket> {
        let address = self.address;
        if self.config.generator.are_stamped() {
            sys::ask_for_stamps(fd.as_fd())?;
        }
        if self.config.generator.together
            && let Err(error) = sys::ask_to_join(fd.as_fd())
        {
            tracing::debug!(%address, %error, "the kernel joins no datagrams here; each is taken alone");
        }
        Ok(UdpSocket { id: self.id, fd: Arc::new(fd), peer, lent })
    }
}
