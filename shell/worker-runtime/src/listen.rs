//! Opening the listening sockets of every worker.

use crate::config::{Listener, RuntimeConfig, StartError};
use crate::sys::{self, SocketOptions};
use crate::{Runtime, streams};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use wire::{ListenerId, Machine, Transport};

/// The sockets of one worker.
#[derive(Default)]
pub struct WorkerSockets {
    /// Datagram sockets.
    pub udp: Vec<(ListenerId, Arc<OwnedFd>)>,
    /// Listening stream sockets.
    pub tcp: Vec<(ListenerId, OwnedFd)>,
}

/// Listening sockets that are open and not yet served: the actual addresses are known, and machines
/// can be made that need them.
pub struct Bound {
    pub(crate) config: RuntimeConfig,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) sockets: Vec<WorkerSockets>,
}

impl Bound {
    /// Opens every listener once per worker.
    ///
    /// # Errors
    /// A listener that cannot be opened, or one of a transport that this version does not have.
    pub fn new(config: RuntimeConfig, workers: usize) -> Result<Bound, StartError> {
        if workers == 0 || workers > usize::from(u16::MAX) {
            return Err(StartError::Unusable("there must be at least one worker and at most 65535"));
        }
        if config.listeners.is_empty() || config.listeners.len() > usize::from(u16::MAX) {
            return Err(StartError::Unusable("there must be at least one listener and at most 65535"));
        }
        let mut sockets: Vec<WorkerSockets> = (0..workers).map(|_| WorkerSockets::default()).collect();
        let mut listeners = Vec::with_capacity(config.listeners.len());
        for (index, &listener) in config.listeners.iter().enumerate() {
            let id = ListenerId(index as u16);
            let open = match listener.transport {
                Transport::Udp => open_udp,
                Transport::Tcp => open_tcp,
                _ => return Err(StartError::NotInThisVersion(listener)),
            };
            let actual = open(&config, listener, id, &mut sockets)
                .map_err(|error| StartError::Listen { listener, error })?;
            tracing::info!(transport = %actual.transport, address = %actual.address, workers, "listening");
            listeners.push(actual);
        }
        Ok(Bound { config, listeners, sockets })
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
        Runtime::run(self, machines)
    }
}

/// Opens a datagram socket per worker; the first decides the port if any will do.
fn open_udp(
    config: &RuntimeConfig,
    mut listener: Listener,
    id: ListenerId,
    workers: &mut [WorkerSockets],
) -> io::Result<Listener> {
    if listener.address.port() != 0 && !config.share_ports {
        sys::udp_probe(listener.address)?;
    }
    let options = SocketOptions {
        receive_buffer: config.udp_buffer,
        send_buffer: config.udp_buffer,
        ..SocketOptions::default()
    };
    for (index, worker) in workers.iter_mut().enumerate() {
        let (fd, receive, send) = sys::udp_bind(listener.address, &options)?;
        listener.address = sys::local_addr(fd.as_fd())?;
        if index == 0 {
            tracing::info!(
                address = %listener.address,
                receive_kb = receive >> 10,
                send_kb = send >> 10,
                wanted_kb = config.udp_buffer >> 10,
                "datagram socket buffers"
            );
        }
        worker.udp.push((id, Arc::new(fd)));
    }
    Ok(listener)
}

/// Opens a listening stream socket per worker; the first decides the port if any will do.
fn open_tcp(
    config: &RuntimeConfig,
    mut listener: Listener,
    id: ListenerId,
    workers: &mut [WorkerSockets],
) -> io::Result<Listener> {
    if listener.address.port() != 0 && !config.share_ports {
        sys::tcp_probe(listener.address)?;
    }
    let options = streams::socket_options(&config.streams);
    for worker in workers {
        let fd = sys::tcp_listen(listener.address, &options)?;
        listener.address = sys::local_addr(fd.as_fd())?;
        worker.tcp.push((id, fd));
    }
    Ok(listener)
}
