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
    /// Where it is connected to, if it is: only the generator's twin of the listener's socket is.
    pub peer: Option<SocketAddr>,
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
    if let ([worker], Some(peer)) = (&mut sockets[..], config.generator.peer) {
        worker.extend(opening.twin(peer)?);
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
            log_events::workers::datagram_buffers(&address, receive_kb, send_kb, wanted_kb);
        }
        sockets.into_iter().map(|(fd, _, _)| Ok(vec![self.socket(fd, None)?])).collect()
    }

    /// The generator's second socket at the same address, connected to `peer`.
    fn twin(&self, peer: SocketAddr) -> io::Result<Option<UdpSocket>> {
        let address = self.address;
        if peer.is_ipv4() != address.is_ipv4() {
            return Ok(None);
        }
        let (fd, _, _) = sys::udp_bind(address, &self.options)?;
        match sys::udp_connect(fd.as_fd(), peer) {
            Ok(()) => self.socket(fd, Some(peer)).map(Some),
            // The other socket will say so with each datagram, or find that there is a way by then.
            Err(error) => {
                tracing::debug!(%address, %peer, %error, "no connected socket");
                Ok(None)
            }
        }
    }

    /// An open socket, which tells what is asked of all.
    fn socket(&self, fd: OwnedFd, peer: Option<SocketAddr>) -> io::Result<UdpSocket> {
        let address = self.address;
        if self.config.generator.are_stamped() {
            sys::ask_for_stamps(fd.as_fd())?;
        }
        if self.config.generator.together
            && let Err(error) = sys::ask_to_join(fd.as_fd())
        {
            tracing::debug!(%address, %error, "the kernel joins no datagrams here; each is taken alone");
        }
        Ok(UdpSocket { id: self.id, fd: Arc::new(fd), peer })
    }
}
