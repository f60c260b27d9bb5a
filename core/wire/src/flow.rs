//! Where a message came from and where one goes.

use core::fmt;
use core::net::SocketAddr;

/// The transport protocols of SIP (RFC 3261 section 18, RFC 7118, RFC 4168).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Byte stream.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// WebSocket over TCP.
    Ws,
    /// WebSocket over TLS.
    Wss,
    /// Stream Control Transmission Protocol.
    Sctp,
}

impl Transport {
    /// Reliable transports need no retransmission by the transaction layer (RFC 3261 17.1.1.1).
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Transport::Udp)
    }

    /// Whether what is received is a whole message: a datagram, a record (RFC 4168), a message of WebSocket
    /// (RFC 7118). Of the others it is a stream of bytes, in which the messages have to be found.
    pub const fn keeps_boundaries(self) -> bool {
        !matches!(self, Transport::Tcp | Transport::Tls)
    }

    /// Whether its connections are encrypted, and their peers may prove who they are.
    pub const fn is_secure(self) -> bool {
        matches!(self, Transport::Tls | Transport::Wss)
    }

    /// The name in a Via header (RFC 3261 section 25.1, `transport`), upper case.
    pub const fn via_name(self) -> &'static str {
        match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
            Transport::Tls => "TLS",
            Transport::Ws => "WS",
            Transport::Wss => "WSS",
            Transport::Sctp => "SCTP",
        }
    }

    /// The name in a `transport=` URI parameter, lower case.
    pub const fn uri_name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
            Transport::Ws => "ws",
            Transport::Wss => "wss",
            Transport::Sctp => "sctp",
        }
    }

    /// Reads a transport name of either form, in any case; `None` if it is none of ours.
    pub fn from_name(name: &[u8]) -> Option<Transport> {
        const ALL: [Transport; 6] =
            [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss, Transport::Sctp];
        ALL.into_iter().find(|t| t.uri_name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The port used when a URI names none (RFC 3261 section 19.1.2): 5061 for TLS, 5060 for others
    /// (80 and 443 for WebSocket, RFC 7118).
    pub const fn default_port(self) -> u16 {
        match self {
            Transport::Udp | Transport::Tcp | Transport::Sctp => 5060,
            Transport::Tls => 5061,
            Transport::Ws => 80,
            Transport::Wss => 443,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.uri_name())
    }
}

/// Index of a listening socket in the list of listeners that node and runtime were both given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenerId(pub u16);

/// A stream connection, unique for the life of the process. The top 16 bits name the worker that
/// owns it, the next one says whether the peer opened it; the rest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(u64);

impl ConnId {
    const ACCEPTED: u64 = 1 << 47;

    /// The connection number `sequence` (48 bits) of `worker`.
    pub const fn new(worker: u16, sequence: u64) -> ConnId {
        ConnId(((worker as u64) << 48) | (sequence & 0xffff_ffff_ffff))
    }

    /// The same, of a connection that the peer opened (`sequence` has 47 bits).
    pub const fn accepted(worker: u16, sequence: u64) -> ConnId {
        ConnId(ConnId::new(worker, sequence).0 | ConnId::ACCEPTED)
    }

    /// Whether the peer opened it.
    pub const fn is_accepted(self) -> bool {
        self.0 & ConnId::ACCEPTED != 0
    }

    /// The worker that owns the connection.
    pub const fn worker(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The whole identifier as an integer.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Back from [`ConnId::as_u64`].
    pub const fn from_u64(id: u64) -> ConnId {
        ConnId(id)
    }
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conn {}/{}", self.worker(), self.0 & 0xffff_ffff_ffff)
    }
}

/// A path between this server and a peer.
///
/// For a received message: the listener it came in on, the address it came from and, for streams,
/// the connection. For a message to send: the listener whose address it leaves from, the address it
/// goes to and, for streams, the connection to use. With `conn: None` on a stream transport the
/// runtime reuses any open connection to `remote` over that transport, or opens one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// The transport protocol.
    pub transport: Transport,
    /// Our end.
    pub listener: ListenerId,
    /// The peer's end.
    pub remote: SocketAddr,
    /// The stream connection, if one is meant.
    pub conn: Option<ConnId>,
}

/// Flows are copied with every message.
const _: () = assert!(size_of::<Flow>() == 56);

impl Flow {
    /// Whether nothing but this flow leads to `remote`: the peer opened the connection, and listens at
    /// another address or at none (RFC 5626 section 1).
    pub fn is_only_way(&self) -> bool {
        self.conn.is_some_and(ConnId::is_accepted)
    }

    /// A datagram flow.
    pub const fn udp(listener: ListenerId, remote: SocketAddr) -> Flow {
        Flow { transport: Transport::Udp, listener, remote, conn: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_says_who_opened_it() {
        let [ours, theirs] = [ConnId::new(3, 77), ConnId::accepted(3, 77)];
        assert!(ours != theirs && !ours.is_accepted() && theirs.is_accepted());
        assert_eq!((theirs.worker(), ConnId::from_u64(theirs.as_u64())), (3, theirs));
        let flow = Flow::udp(ListenerId(0), SocketAddr::from(([192, 0, 2, 1], 5060)));
        let by = |conn| Flow { transport: Transport::Tcp, conn, ..flow }.is_only_way();
        assert_eq!([None, Some(ours), Some(theirs)].map(by), [false, false, true]);
    }
}
