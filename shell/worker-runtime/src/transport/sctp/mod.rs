//! Associations of SCTP (RFC 4168, RFC 9260): their addresses, their timers, and what to do where the kernel
//! has none.

mod probe;

pub use probe::{Missing, missing};

use crate::config::SctpSettings;
use crate::sys::{self, SctpOptions, SocketOptions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;
use wire::ListenerId;

/// How associations are made, and from which addresses.
pub struct Associations {
    options: SctpOptions,
    /// Addresses of listeners besides their own.
    more: Vec<(ListenerId, Vec<IpAddr>)>,
}

impl Associations {
    /// As the configuration says.
    pub fn new(settings: &SctpSettings) -> Associations {
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let options = SctpOptions {
            heartbeat: ms(settings.heartbeat),
            rto: (ms(settings.rto_initial), ms(settings.rto_min), ms(settings.rto_max)),
            path_retransmissions: settings.path_retransmissions,
            retransmissions: settings.retransmissions,
            streams: settings.streams,
            many: settings.many,
        };
        Associations { options, more: settings.more.clone() }
    }

    /// Whether the associations that peers open share the listening sockets.
    pub fn share_sockets(&self) -> bool {
        self.options.many
    }

    /// Logs a warning if associations share buffers of the kernel.
    pub fn advise(&self, address: SocketAddr) {
        if self.options.many && sys::sctp_shared_buffers() != (false, false) {
            log_events::workers::sctp_buffers_shared(&address);
        }
    }

    /// The addresses of a listener, each with this port.
    fn addresses(&self, id: ListenerId, address: IpAddr, port: u16) -> Vec<SocketAddr> {
        let more = self.more.iter().filter(|(listener, _)| *listener == id).flat_map(|(_, more)| more);
        std::iter::once(address).chain(more.copied()).map(|ip| SocketAddr::new(ip, port)).collect()
    }

    /// The address of a listener, with a free port if any will do.
    ///
    /// # Errors
    /// What the kernel says, `EPROTONOSUPPORT` if it has no SCTP.
    pub fn settle(&self, id: ListenerId, address: SocketAddr) -> io::Result<SocketAddr> {
        // Of several addresses the kernel names any.
        let port = sys::sctp_probe(&self.addresses(id, address.ip(), address.port()), address)?;
        Ok(SocketAddr::new(address.ip(), port))
    }

    /// A listening socket, for one worker.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn listen(
        &self,
        id: ListenerId,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> io::Result<OwnedFd> {
        sys::sctp_listen(&self.addresses(id, address.ip(), address.port()), address, &self.options, options)
    }

    /// Begins an association from the addresses of a listener and any port.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn connect(
        &self,
        (local, id): (IpAddr, ListenerId),
        remote: SocketAddr,
        options: &SocketOptions,
    ) -> io::Result<OwnedFd> {
        sys::sctp_connect(&self.addresses(id, local, 0), remote, &self.options, options)
    }
}
