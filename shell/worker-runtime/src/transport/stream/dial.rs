//! Connections that we open, and the names that their peers prove.

use super::asking;
use super::conn::Conn;
use super::link::Link;
use super::phase::Reason;
use super::secure::Secure;
use super::told::Told;
use super::{Key, Streams, socket_options};
use crate::counters::Counters;
use crate::sys::{self, Poller};
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tls::{Client, Fault};
use wire::{ConnId, ListenerId, Time, Transport};

/// What a worker remembers of the connections that it could not open.
pub struct Dial {
    told: Told,
}

impl Dial {
    /// Nothing so far.
    pub fn new() -> Dial {
        Dial { told: Told::new() }
    }

    /// Logs that a server did not prove its name, if the last such line is old enough.
    fn log(&mut self, remote: SocketAddr, name: &str, why: &dyn Display, now: Time) {
        if let Some(times) = self.told.again(now) {
            log_events::workers::tls_connect_failed(&remote, name, why, times);
        }
    }

    /// The layer that a connection with this key begins with.
    fn layer(
        &mut self,
        key: &Key<'_>,
        client: Option<&Client>,
        counters: &Counters,
        now: Time,
    ) -> io::Result<Option<Secure>> {
        let place = key.place();
        if !place.transport().is_secure() {
            return Ok(None);
        }
        let why: &dyn Display = match (client, key.name()) {
            (None, _) => &"no authorities and certificates are configured for connections to servers",
            (Some(client), name) => match Secure::begun(client, name) {
                Ok(secure) => return Ok(Some(secure)),
                Err(error) => {
                    client.failed(name, &error);
                    &error.to_string()
                }
            },
        };
        counters.tls_unproven.one();
        self.log(place.remote(), key.name(), why, now);
        Err(io::ErrorKind::InvalidInput.into())
    }
}

impl Streams {
    /// Begins a connection from the address `local` to the peer of this key, which has until
    /// [`connect`](crate::StreamLimits::connect) for the handshakes of all layers.
    pub fn connect(
        &mut self,
        (local, listener): (IpAddr, ListenerId),
        key: &Key<'_>,
        poller: &Poller,
        now: Time,
    ) -> io::Result<ConnId> {
        let client = self.shared.tls_client.as_ref();
        let secure = self.dial.layer(key, client, &self.counters, now)?;
        if self.acceptor.is_held_up() || !self.shared.caps.open() {
            self.counters.tcp_refused.one();
            self.counters.tcp_exhausted.one();
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.counters.tcp_connects.one();
        let web = asking::layer(self, key.place().transport());
        let (options, remote) = (socket_options(&self.limits), key.place().remote());
        let link = match key.place().transport() {
            Transport::Sctp => {
                let made = self.shared.sctp.connect((local, listener), remote, &options);
                made.map(|fd| Link::begun(fd, None, None).with_records())
            }
            _ => sys::tcp_connect(local, remote, &options).map(|fd| Link::begun(fd, secure, web)),
        };
        let made = link.and_then(|link| {
            let conn = Conn::begun(link, remote, listener, now + self.limits.connect, now);
            self.add(conn, poller).map_err(|_| io::ErrorKind::OutOfMemory.into())
        });
        if let Err(error) = &made {
            self.shared.caps.close();
            self.counters.tcp_connect_failures.one();
            self.counters.tcp_exhausted.add(u64::from(is_shortage(error)));
            self.counters.tcp_connects_refused.add(u64::from(is_refused(error)));
        }
        made
    }

    /// A connection that we opened ends in its handshake, or the peer refuses us before it has
    /// [accepted](Secure::is_accepted) us. The peer has read nothing that was queued or sent.
    pub(super) fn give_up(&mut self, id: ConnId, why: &dyn Display, now: Time) {
        let Some(conn) = self.table.get(id) else { return };
        match (conn.link().web(), &self.shared.websocket_client) {
            (Some(web), Some(client)) if web.asked().is_some() => client.failed(why),
            _ if conn.link().transport().is_secure() => {
                self.counters.tls_unproven.one();
                self.shared.note_failure(conn, why);
                self.dial.log(conn.remote(), conn.link().name(), why, now);
            }
            _ => tracing::debug!(remote = %conn.remote(), %why, "a handshake failed"),
        }
        self.close(id, Reason::Connect);
    }
}

/// Whether the peer of a connection says that it refuses us, for our certificate above all.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    let fault = error.get_ref().and_then(|error| error.downcast_ref::<Fault>());
    fault.is_some_and(Fault::is_refusal)
}

/// Whether the other side has refused a connection.
pub(super) fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Whether a connection could not be begun because something lacks here: ports, descriptors, memory.
fn is_shortage(error: &io::Error) -> bool {
    let wants = [libc::EADDRNOTAVAIL, libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.kind() == io::ErrorKind::OutOfMemory || wants.contains(&sys::errno(error))
}
