//! What a runtime is told at its start, and why it may refuse.

use crate::transport::sctp::Missing;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use websocket::{ClientRequest, Key};
use wire::{ListenerId, Transport};

/// One address to listen on. Its place in [`RuntimeConfig::listeners`] is its
/// [`ListenerId`](wire::ListenerId).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Any. A WebSocket listener over TLS at the address of a TLS
    /// listener shares its socket: what a connection begins with says which of the two it is.
    pub transport: Transport,
    /// The address. Port 0 takes any free one; [`Bound::listeners`](crate::Bound::listeners) says
    /// which. An IPv6 address takes no IPv4 traffic.
    pub address: SocketAddr,
}

/// Told about a worker that ended by a panic. Runs on the worker's thread.
pub type PanicHook = Arc<dyn Fn(&WorkerPanic) + Send + Sync>;

/// A worker that ended by a panic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerPanic {
    /// Which worker.
    pub worker: u16,
    /// What the panic said.
    pub message: String,
}

/// Settings of the runtime. The defaults are meant for production.
#[derive(Clone)]
pub struct RuntimeConfig {
    /// The addresses to listen on, in the order of their ids.
    pub listeners: Vec<Listener>,
    /// Listeners from this place on are of one worker each, in turn: what arrives there needs no hop,
    /// and only that worker can send from there. None by default: every worker serves every listener.
    pub own_from: usize,
    /// Connections that this program will open itself at a time, if that is known: a start without
    /// descriptors for them is refused. None by default.
    pub own_connections: usize,
    /// CPUs to bind the workers to, in turn. Empty: the scheduler decides.
    pub pin: Vec<usize>,
    /// Whether the workers run before all other programs ([`run_first`](crate::run_first), at
    /// [`RUN_FIRST`](crate::RUN_FIRST)); where the system forbids it they say so and run as others do. Off by
    /// default. Who looks after the workers must not run so: it would wait for a worker that never rests.
    pub first: bool,
    /// What the workers of a load generator do otherwise.
    pub generator: GeneratorOptions,
    /// How long a worker with nothing to do looks for more before it sleeps, at most a second, where the next
    /// message usually comes within that time: whatever comes then need not wait for a sleeping processor to
    /// wake. It takes processor time that nobody else needs just then, and the power. Zero, the default:
    /// never.
    pub busy_poll: Duration,
    /// Whether datagrams of one length to one address, sent one after the other, go through the kernel as one
    /// and are cut on their way out (udp(7), `UDP_SEGMENT`). Then what comes together is answered together.
    /// Cheaper by a third or more where many come together, but a capture on this machine may show one, and
    /// one ICMP message may report several. Off by default.
    pub segment: bool,
    /// Whether another process may serve the same ports at the same time, as in a rolling restart.
    /// Otherwise a port in use is an error even where `SO_REUSEPORT` would share it.
    pub share_ports: bool,
    /// Datagrams taken or sent in one system call, at most.
    pub batch: usize,
    /// Kernel buffer asked for each datagram socket and direction, in bytes. Less is not an error.
    pub udp_buffer: usize,
    /// Receive buffers of datagram sockets grow beyond that with what comes, up to so much, and shrink again.
    pub udp_buffer_most: usize,
    /// They hold what comes in so long; zero: they stay as they are.
    pub udp_hold: Duration,
    /// Datagrams a worker keeps per socket while the kernel's send buffer is full.
    pub udp_send_queue: usize,
    /// Messages that may wait for a worker in the ring from the others.
    pub ring: usize,
    /// Notices that may wait for a worker.
    pub notices: usize,
    /// How long the sender of a message waits for what it asks for, and repeats it meanwhile, each time after
    /// at most half of that. Default 32 s, at most an hour.
    pub patience: Duration,
    /// Stream connections.
    pub streams: StreamLimits,
    /// What TLS listeners serve with. They need it.
    pub tls: Option<tls::Server>,
    /// What TLS connections begin with that we open. None can be opened without.
    pub tls_client: Option<tls::Client>,
    /// What WebSocket listeners accept.
    pub websocket: WebSocket,
    /// The settings of WebSocket connections that we open. Only a load generator opens any.
    pub websocket_client: Option<WebSocketClient>,
    /// Associations of SCTP.
    pub sctp: SctpSettings,
    /// Called when a worker panics.
    pub on_panic: Option<PanicHook>,
}

/// How the kernel makes and watches associations of SCTP. The defaults are those of RFC 9260 section 16.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SctpSettings {
    /// Between two heartbeats of an idle path; zero: none are sent, and a path that fails is noticed when
    /// something is sent over it.
    pub heartbeat: Duration,
    /// The retransmission timeout before a round trip was measured.
    pub rto_initial: Duration,
    /// The shortest retransmission timeout. After the first one, data goes over another path if there is one.
    pub rto_min: Duration,
    /// The longest.
    pub rto_max: Duration,
    /// Retransmissions in a row after which a path counts as unreachable.
    pub path_retransmissions: u16,
    /// Retransmissions in a row, over all paths, after which an association ends.
    pub retransmissions: u16,
    /// Streams that a peer may use towards us. Messages are accepted on each (RFC 4168 section 5.1).
    pub streams: u16,
    /// Whether the associations that peers open share the listening sockets (RFC 6458 section 3, one-to-many
    /// style), instead of having sockets of their own (section 4, one-to-one style).
    pub many: bool,
    /// Addresses that a listener has besides its own, of the same family.
    pub more: Vec<(ListenerId, Vec<IpAddr>)>,
}

impl Default for SctpSettings {
    fn default() -> SctpSettings {
        SctpSettings {
            heartbeat: Duration::from_secs(30),
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            path_retransmissions: 5,
            retransmissions: 10,
            streams: 64,
            many: false,
            more: Vec::new(),
        }
    }
}

impl Default for RuntimeConfig {
    fn default() -> RuntimeConfig {
        RuntimeConfig {
            listeners: Vec::new(),
            own_from: usize::MAX,
            own_connections: 0,
            pin: Vec::new(),
            first: false,
            generator: GeneratorOptions::default(),
            busy_poll: Duration::ZERO,
            segment: false,
            share_ports: false,
            batch: 64,
            udp_buffer: 4 << 20,
            udp_buffer_most: 64 << 20,
            udp_hold: Duration::from_millis(500),
            udp_send_queue: 256,
            ring: 2_048,
            notices: 4_096,
            patience: Duration::from_secs(32),
            streams: StreamLimits::default(),
            tls: None,
            tls_client: None,
            websocket: WebSocket::default(),
            websocket_client: None,
            sctp: SctpSettings::default(),
            on_panic: None,
        }
    }
}

impl fmt::Debug for RuntimeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeConfig")
            .field("listeners", &self.listeners)
            .field("pin", &self.pin)
            .field("batch", &self.batch)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}

/// How workers take what comes where their machines measure it
/// ([`Bound::start_generator`](crate::Bound::start_generator)). All off by default.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GeneratorOptions {
    /// Whether a worker is woken at its machine's deadlines to the microsecond. Otherwise it sleeps
    /// in whole milliseconds, which lets near deadlines share a wake-up.
    pub exact_deadlines: bool,
    /// Where traffic is dense, a worker sleeps to the next multiple of this and takes what has come, and
    /// what was due, in one go; messages are handed over with the time at which the kernel took them
    /// ([`Arrival::at`](wire::Arrival::at)). At most a second; zero: each message
    /// wakes its worker, as it does wherever a worker has no datagram sockets.
    pub grain: Duration,
    /// Whether messages in datagrams come with that time also where there is no grain: for a machine that has
    /// to know how long they lay there while it did something else, or stood still. All are taken in batches
    /// then, and the wall clock is read for each.
    pub stamps: bool,
    /// Whether datagrams that were handed to the kernel as one are received as one (`UDP_GRO`). All of them
    /// go to the worker of the first, and the kernel drops none of them in an overload. What is sent does not
    /// depend on it.
    pub together: bool,
    /// The target, if all datagrams go to one address. A listener of one worker alone gets a twin: a second
    /// socket at its address, connected to the target, which receives the target's datagrams. It saves
    /// the look-up of the route in the kernel, about a seventh of a send. A server has no such sockets.
    pub peer: Option<SocketAddr>,
}

impl GeneratorOptions {
    /// Whether the kernel notes when datagrams come.
    pub(crate) fn are_stamped(&self) -> bool {
        self.stamps || !self.grain.is_zero()
    }
}

/// Bounds on stream connections: how many, how long in each state, how much memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamLimits {
    /// Connections of the whole process, both directions. The descriptors that the process may have
    /// are a further cap, which the runtime raises as far as it is allowed.
    pub max_connections: usize,
    /// Accepted connections from one source: an IPv4 address or an IPv6 /56.
    pub max_per_source: u32,
    /// The time from accept to the end of a TLS handshake, without waiting in this server.
    pub handshake: Duration,
    /// The largest number of TLS handshakes with clients at a time, for the whole process. If more begin,
    /// handshakes that have made no progress for the longest time are closed.
    pub max_handshakes: usize,
    /// The same from one source.
    pub max_handshakes_per_source: u32,
    /// From accept to the first whole message.
    pub first_message: Duration,
    /// From the first byte of a message to its last. A long message gets more, see
    /// [`min_bytes_per_second`](StreamLimits::min_bytes_per_second).
    pub message: Duration,
    /// A begun message is given one more second for each so many bytes received of it, so that a
    /// long body on a slow link is no attack and a trickle is one.
    pub min_bytes_per_second: u32,
    /// Without traffic in either direction.
    pub idle: Duration,
    /// Without a message on an accepted connection that never [mattered](wire::Outbox::keeps). Such
    /// connections have at most three quarters of [`max_connections`](StreamLimits::max_connections), and
    /// where room is short the oldest of them makes room for a new one. `None`: all connections matter.
    pub idle_loose: Option<Duration>,
    /// For an outgoing connection to be accepted.
    pub connect: Duration,
    /// The same where what waits for it has another way to go ([`wire::Transmit::hurries`]).
    pub connect_hurried: Duration,
    /// For a peer to take something of what is queued for it.
    pub write_stall: Duration,
    /// How long a peer that has ended its own direction may still be answered, and how long a connection that
    /// ends waits for the answers of other workers.
    pub half_closed: Duration,
    /// From our end of stream to the peer's, before the connection is reset.
    pub linger: Duration,
    /// Shortest time between two answers to keepalive pings of one connection.
    pub pong_interval: Duration,
    /// Longest message, in bytes. The machine's framing normally refuses earlier.
    pub max_message: usize,
    /// Bytes queued for a peer that does not read, before the connection is closed.
    pub max_queued: usize,
    /// Bytes queued for a peer that does not read, beyond which no message is queued that
    /// [yields](wire::Transmit::yields), if something has been waiting for
    /// [`queue_patience`](StreamLimits::queue_patience); eight times as many in any case.
    pub max_queued_yielding: usize,
    /// What is queued for shorter is a burst: it leaves within a round trip or two.
    pub queue_patience: Duration,
    /// Bytes queued for a connection that is not yet made.
    pub max_queued_connecting: usize,
    /// Bytes that all connections of one worker may hold in their buffers, received or queued. The
    /// connection that would hold more is closed.
    pub max_held: usize,
    /// Messages (or keepalives) of one connection handled before others get their turn.
    pub work_budget: u32,
    /// Kernel receive buffer of a connection, in bytes; zero leaves it to the kernel. Small buffers
    /// make the sender wait instead of the message (Shen and Schulzrinne, CUCS-048-09).
    pub receive_buffer: usize,
    /// Connections that may wait to be accepted.
    pub backlog: i32,
}

impl Default for StreamLimits {
    fn default() -> StreamLimits {
        StreamLimits {
            max_connections: 100_000,
            max_per_source: 16_384,
            handshake: Duration::from_secs(10),
            max_handshakes: 10_000,
            max_handshakes_per_source: 1_000,
            first_message: Duration::from_secs(20),
            message: Duration::from_secs(10),
            min_bytes_per_second: 2_048,
            idle: Duration::from_secs(900),
            idle_loose: None,
            connect: Duration::from_secs(4),
            connect_hurried: Duration::from_millis(500),
            write_stall: Duration::from_secs(20),
            half_closed: Duration::from_secs(2),
            linger: Duration::from_secs(2),
            pong_interval: Duration::from_secs(1),
            max_message: 256 << 10,
            max_queued: 4 << 20,
            max_queued_yielding: 64 << 10,
            queue_patience: Duration::from_millis(200),
            max_queued_connecting: 64 << 10,
            max_held: 256 << 20,
            work_budget: 64,
            receive_buffer: 128 << 10,
            backlog: 4_096,
        }
    }
}

/// Called with the query of a request.
type Judge = dyn Fn(&[u8]) -> bool + Send + Sync;

/// Decides by the query of a client's request whether it may connect, after path and origin were checked.
#[derive(Clone)]
pub struct Admission(Arc<Judge>);

impl Admission {
    /// Called on the threads of the workers, for each client that connects: it must return at once.
    pub fn new(judge: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Admission {
        Admission(Arc::new(judge))
    }

    /// Whether a client with this query may connect.
    pub(crate) fn admits(&self, query: &[u8]) -> bool {
        (self.0)(query)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admission")
    }
}

/// What is accepted of WebSocket (RFC 7118).
#[derive(Clone, Debug)]
pub struct WebSocket {
    /// The path that requests must name; `None`: any.
    pub path: Option<String>,
    /// Web pages that may connect, by their origins as browsers write them (RFC 6454 section 6.2); none: all.
    /// A client that sends no Origin is no browser and is not asked.
    pub origins: Vec<String>,
    /// The check of the query; `None`: no check.
    pub admission: Option<Admission>,
    /// Longest message, in bytes. A longer one ends the connection with the code 1009.
    pub max_message: u32,
}

impl Default for WebSocket {
    fn default() -> WebSocket {
        WebSocket { path: None, origins: Vec::new(), admission: None, max_message: 256 << 10 }
    }
}

/// The request of a load generator to a WebSocket server (RFC 6455 section 4.1).
#[derive(Clone, Debug)]
pub struct WebSocketClient {
    /// Host, and the port if it is not the default of the scheme.
    host: String,
    /// Path and query.
    path: String,
    /// Why the first connection failed that did.
    fault: Arc<OnceLock<String>>,
}

impl WebSocketClient {
    /// For connections to this host and path.
    pub fn new(host: &str, path: &str) -> WebSocketClient {
        WebSocketClient { host: host.to_owned(), path: path.to_owned(), fault: Arc::default() }
    }

    /// Appends the request with this key. `false`: there is none with this host and path.
    pub(crate) fn ask(&self, key: Key, out: &mut Vec<u8>) -> bool {
        let request =
            ClientRequest { host: &self.host, target: &self.path, origin: None, authorization: None, key };
        request.write(out).is_ok()
    }

    /// A connection has failed.
    pub(crate) fn failed(&self, why: &dyn fmt::Display) {
        self.fault.get_or_init(|| why.to_string());
    }

    /// Why the first connection failed that did.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }
}

/// Why a runtime did not start.
#[derive(Debug)]
pub enum StartError {
    /// There is nothing to listen on, or no worker, or more than fit an identifier.
    Unusable(&'static str),
    /// A TLS listener has no certificate to show.
    NoCertificate(Listener),
    /// An address could not be listened on.
    Listen {
        /// The address asked for.
        listener: Listener,
        /// What the system said.
        error: io::Error,
    },
    /// The kernel has no SCTP.
    NoSctp {
        /// The listener.
        listener: Listener,
        /// Why.
        missing: Missing,
    },
    /// The listeners need more descriptors than the process may have.
    Descriptors {
        /// What they need, with what else a process has open.
        needed: usize,
        /// What the system allows, once the limit is raised as far as it may be.
        allowed: u64,
    },
    /// The system gave no thread, no event queue or no descriptor.
    System {
        /// What was being made.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl StartError {
    /// What a person can do about a failed listen.
    fn mend(error: &io::Error) -> &'static str {
        match error.raw_os_error() {
            Some(libc::EADDRINUSE) => {
                "another process or listener has this port: end it (`ss -lntup` names it) or choose another port"
            }
            Some(libc::EADDRNOTAVAIL) => {
                "no interface of this machine has this address: see `ip addr`, or listen on 0.0.0.0 or [::]"
            }
            Some(libc::EACCES | libc::EPERM) => {
                "ports below 1024 need a privilege: use a higher port or grant CAP_NET_BIND_SERVICE"
            }
            Some(libc::EAFNOSUPPORT) => "this machine has no such address family: is IPv6 disabled?",
            Some(libc::EMFILE | libc::ENFILE) => "no descriptors left: raise `ulimit -n` (LimitNOFILE=)",
            _ => "check the address and the machine's limits",
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Unusable(why) => f.write_str(why),
            StartError::NoCertificate(l) => {
                write!(f, "cannot listen on {}:{}: there is no certificate to show", l.transport, l.address)
            }
            StartError::NoSctp { listener: l, missing } => {
                write!(f, "cannot listen on {}:{}: {missing}", l.transport, l.address)
            }
            StartError::Listen { listener: l, error } => {
                let mend = StartError::mend(error);
                write!(f, "cannot listen on {}:{}: {error}; {mend}", l.transport, l.address)
            }
            StartError::Descriptors { needed, allowed } => write!(
                f,
                "{needed} descriptors are needed for all sockets and this process may have {allowed}: raise the \
                 limit (`ulimit -n {needed}`, LimitNOFILE=) or open fewer sockets"
            ),
            StartError::System { what, error } => write!(f, "cannot create {what}: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Listen { error, .. } | StartError::System { error, .. } => Some(error),
            StartError::Unusable(_)
            | StartError::NoCertificate(_)
            | StartError::NoSctp { .. }
            | StartError::Descriptors { .. } => None,
        }
    }
}
