//! The configuration as the rest of the server sees it: plain typed values, defaults filled in,
//! nothing left to check.

use super::balance::Balance;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use wire::Transport;

/// An enum whose variants have a name in the file; the names are read and written from one table.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every name the file may use, with its meaning.
            pub const ALL: &'static [(&'static str, $name)] = &[$(($text, $name::$variant)),+];

            /// The name in the file.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }
    };
}
pub(super) use named;

named! {
    /// A digest algorithm (RFC 7616, RFC 8760).
    Algorithm {
        /// MD5, which every phone knows.
        Md5 = "MD5",
        /// SHA-256.
        Sha256 = "SHA-256",
        /// SHA-512/256.
        Sha512_256 = "SHA-512-256",
    }
}

named! {
    /// How requests are forwarded.
    ProxyMode {
        /// With transactions, forking and failover (RFC 3261 section 16).
        Stateful = "stateful",
        /// Without memory of a request (section 16.11).
        Stateless = "stateless",
        /// Not at all: the caller is told where to go (section 8.3).
        Redirect = "redirect",
    }
}

named! {
    /// The order in which targets of one q value are tried (RFC 3261 16.6). Targets of different q
    /// are always tried in groups, highest first.
    Fork {
        /// All of a group at once.
        Parallel = "parallel",
        /// One after the other.
        Serial = "serial",
    }
}

named! {
    /// What becomes of requests of senders that are no user and no trunk.
    Strangers {
        /// They are forwarded to our users.
        Allow = "allow",
        /// 403.
        Refuse = "refuse",
    }
}

named! {
    /// Why a call goes to voicemail.
    Divert {
        /// The callee is busy.
        Busy = "busy",
        /// Nobody answered in time.
        NoAnswer = "no-answer",
        /// The callee declined.
        Rejected = "rejected",
        /// The callee exists and has no binding.
        Unregistered = "unregistered",
        /// No binding of the callee could be reached.
        Unreachable = "unreachable",
    }
}

named! {
    /// What is logged.
    Level {
        /// What stops service.
        Error = "error",
        /// What the operator should look at.
        Warn = "warn",
        /// The life of the server.
        Info = "info",
        /// Single messages.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

named! {
    /// The shape of log lines.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

named! {
    /// What a registration gets while the store cannot be written.
    OnStoreFailure {
        /// A server error: no binding is promised that a crash would lose.
        Refuse = "refuse",
        /// Success: the binding lives in memory only.
        Accept = "accept",
    }
}

named! {
    /// How a datagram comes to the worker that owns it.
    Steering {
        /// By the kernel if it may be told, otherwise over the rings.
        Auto = "auto",
        /// By the kernel, or there is no start.
        Kernel = "kernel",
        /// Over the rings between workers.
        Ring = "ring",
    }
}

named! {
    /// Whether datagrams to one peer go through the kernel together (udp(7), `UDP_SEGMENT`).
    Segmentation {
        /// Unless packets are captured on the machine, or the kernel rewrites SIP there.
        Auto = "auto",
        /// Always.
        On = "on",
        /// Each alone.
        Off = "off",
    }
}

/// Which CPUs the workers run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Each on one of its own if there are exactly as many as workers, and more than one; otherwise on any.
    Auto,
    /// Each on any.
    Off,
    /// Each on one of these, in turn.
    Cpus(Vec<usize>),
}

/// The whole configuration. Immutable once built: a reload builds a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The domains this server is responsible for, lower case. Empty: the addresses it listens on.
    pub domains: Vec<String>,
    /// Further host names and addresses that mean this server, lower case, IPv6 in brackets.
    pub aliases: Vec<String>,
    /// Where to listen, in the order given.
    pub listen: Vec<Listener>,
    /// Worker threads; 0 means one for each core.
    pub workers: usize,
    /// How a datagram comes to the worker that owns it.
    pub steering: Steering,
    /// Which CPUs the workers run on.
    pub pin: Pin,
    /// How long a worker looks for more before it sleeps, where more usually comes within that time.
    pub busy_poll: Duration,
    /// Whether datagrams to one peer go through the kernel together.
    pub udp_segmentation: Segmentation,
    /// Where the store keeps its files.
    pub data_dir: PathBuf,
    /// Digest authentication.
    pub auth: Auth,
    /// The registrar.
    pub registrar: Registrar,
    /// Forwarding.
    pub proxy: Proxy,
    /// Where unanswered calls go, if anywhere.
    pub voicemail: Option<Voicemail>,
    /// `[emergency]`; without it emergency calls are like any other.
    pub emergency: Option<Emergency>,
    /// Other servers that calls are exchanged with.
    pub trunks: Vec<Trunk>,
    /// Static routes, first match wins.
    pub routes: Vec<Route>,
    /// Transaction timers.
    pub timers: Timers,
    /// Caps.
    pub limits: Limits,
    /// `[overload]`.
    pub overload: Overload,
    /// Name resolution.
    pub dns: Dns,
    /// The admin API.
    pub admin: AdminAccess,
    /// Logging.
    pub log: Log,
    /// The store.
    pub store: Store,
    /// The load balancer.
    pub balance: Balance,
}

/// One listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The transport protocol; UDP or TCP in this version.
    pub transport: Transport,
    /// The address to bind; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The name and port to write into messages instead of the address.
    pub advertise: Option<HostPort>,
    /// Only in the default list: do without this listener when the system lacks the address family.
    pub optional: bool,
}

/// `host` or `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or address, lower case, IPv6 in brackets.
    pub host: String,
    /// The port, if given.
    pub port: Option<u16>,
}

/// `[auth]`: digest authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Whether requests are challenged at all.
    pub enabled: bool,
    /// Which requests are challenged.
    pub challenge: Challenge,
    /// The realm; `None` means the domain of the request.
    pub realm: Option<String>,
    /// Algorithms offered, in this order.
    pub algorithms: Vec<Algorithm>,
    /// Refuse credentials without qop (RFC 2069 style).
    pub require_qop: bool,
    /// How long a nonce is good for.
    pub nonce_lifetime: Duration,
    /// The From user must be the authenticated user.
    pub bind_from: bool,
    /// Users are challenged within dialogs too.
    pub in_dialog: bool,
    /// Proxies and balancers in front of this server.
    pub fronts: Vec<Cidr>,
}

/// Which methods are challenged. ACK and CANCEL cannot be (RFC 3261 22.1), whatever is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// Every method. This is the default and what `["*"]` says.
    All,
    /// Only these, as written in the file.
    Only(Vec<String>),
}

/// `[registrar]`: registrations (RFC 3261 section 10). Durations are whole seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrar {
    /// Shorter requests are refused with Min-Expires.
    pub min_expires: Duration,
    /// Longer requests are cut to this.
    pub max_expires: Duration,
    /// Used where the request says nothing.
    pub default_expires: Duration,
    /// Bindings one address-of-record may have.
    pub max_bindings: usize,
    /// URIs for the Service-Route header (RFC 3608), in order.
    pub service_route: Vec<String>,
}

/// `[proxy]`: forwarding (RFC 3261 section 16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// How requests are forwarded.
    pub mode: ProxyMode,
    /// How equal targets are tried.
    pub fork: Fork,
    /// Stay in the path of later requests of a dialog.
    pub record_route: bool,
    /// Follow 3xx answers instead of passing them on.
    pub recurse_redirects: bool,
    /// Max-Breadth for requests that carry none (RFC 5393 section 5).
    pub max_breadth: u32,
    /// Max-Forwards for requests that carry none.
    pub max_forwards: u8,
    /// How long a branch may ring (16.6 item 11).
    pub timer_c: Duration,
    /// Requests that would be longer than this, with some 200 octets that forwarding adds, leave over TCP
    /// where they can (18.1.1); octets.
    pub mtu: usize,
    /// Whether senders that are no user and no trunk may send anything.
    pub strangers: Strangers,
    /// Which methods they may send outside calls; `"*"` for all.
    pub stranger_methods: Vec<String>,
}

/// `[voicemail]`: where calls go that the callee does not take (RFC 4458).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voicemail {
    /// The voicemail server.
    pub target: Target,
    /// When.
    pub on: Vec<Divert>,
    /// How long a callee may ring first.
    pub no_answer_timeout: Duration,
    /// How long the voicemail server may say nothing at all.
    pub silent_after: Duration,
}

/// `[emergency]`: where emergency calls go (RFC 5031).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emergency {
    /// In failover order.
    pub targets: Vec<Target>,
    /// What people dial, besides `urn:service:sos`.
    pub numbers: Vec<String>,
    /// Whether strangers may make emergency calls.
    pub strangers: bool,
    /// How long a target may say nothing at all before the next one is tried.
    pub silent_after: Duration,
}

impl Emergency {
    /// Numbers that may be named: each is compared with the target of each new call.
    pub const MOST_NUMBERS: usize = 100;
    /// The longest of them, characters: E.164 has 15 digits, to which prefixes may come.
    pub const LONGEST_NUMBER: usize = 32;
}

/// `[[trunk]]`: another server that calls are exchanged with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// Its name, unique, for logs and metrics.
    pub name: String,
    /// Where calls go, in failover order.
    pub targets: Vec<Target>,
    /// Requests from these addresses are trusted as coming from this trunk. Defaults to those of
    /// the targets that are addresses.
    pub sources: Vec<Cidr>,
    /// Called numbers it serves, by their beginning.
    pub prefixes: Vec<String>,
    /// Domains it serves, lower case.
    pub domains: Vec<String>,
    /// Characters taken from the front of the called user.
    pub strip: usize,
    /// Characters then put in front.
    pub prepend: String,
    /// Calls from this trunk may leave over another trunk.
    pub may_transit: bool,
    /// It is sent less when it asks for less (RFC 7339, RFC 7415). Only for one that writes `oc` itself: it
    /// is read from any response, and one that passes on what others wrote lets them ask in its name.
    pub overload_control: bool,
    /// Response statuses, 400 to 699, after which the next target is tried as after 503.
    pub retry_on: Vec<u16>,
    /// How long a target may say nothing at all before the next one is tried.
    pub silent_after: Duration,
}

/// How long a target may say nothing at all, where the file does not say.
pub const SILENT_AFTER: Duration = Duration::from_secs(2);
/// The same of a target of emergency calls.
pub const SILENT_AFTER_EMERGENCY: Duration = Duration::from_secs(1);

/// `[[route]]`: a static route. What it matches on is and-ed; an empty match is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Host of the Request-URI, lower case.
    pub domain: Option<String>,
    /// Beginning of the user part.
    pub prefix: Option<String>,
    /// The whole user part.
    pub user: Option<String>,
    /// How long a target may say nothing at all before the next one is tried.
    pub silent_after: Duration,
    /// What to do.
    pub action: RouteAction,
}

/// What a static route does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteAction {
    /// Forward to the first target that works.
    Forward(Vec<Target>),
    /// Answer with these contacts (RFC 3261 21.3.3).
    Redirect(Vec<Target>),
}

/// A `sip:` URI to send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The URI as written.
    pub uri: String,
    /// Its user part.
    pub user: Option<String>,
    /// Its host, lower case, IPv6 in brackets.
    pub host: String,
    /// Its port.
    pub port: Option<u16>,
    /// Its `transport` parameter.
    pub transport: Option<Transport>,
}

/// A block of addresses, `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The first address of the block.
    pub address: IpAddr,
    /// Leading bits that count.
    pub length: u8,
}

/// When the caller of an INVITE gets a 100 (RFC 3261 section 17.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trying {
    /// `"auto"`: at once, unless the target has recently answered soon; then after 200 ms without a response.
    Learned,
    /// After so long without a response, at most 200 ms; nothing: at once.
    After(Duration),
}

/// `[timers]`: RFC 3261 table 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Round-trip estimate.
    pub t1: Duration,
    /// Longest interval between retransmissions.
    pub t2: Duration,
    /// Longest life of a message in the network.
    pub t4: Duration,
    /// When an INVITE gets a 100.
    pub trying: Trying,
}

/// `[limits]`: caps of the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest message, in octets.
    pub message_bytes: usize,
    /// Header lines in a message.
    pub headers: usize,
    /// Transactions of either kind at one time; `None`: as many as there is memory for.
    pub transactions: Option<usize>,
    /// Calls at one time; `None`: as many as there is memory for.
    pub calls: Option<usize>,
    /// Memory that the process may use, MiB; `None`: what the machine or the container has.
    pub memory_mib: Option<u64>,
    /// Stream connections at one time.
    pub connections: usize,
    /// Stream connections of one source address.
    pub connections_per_source: usize,
    /// How long a started message may take to arrive on a stream.
    pub tcp_head_timeout: Duration,
    /// How long a stream may be silent.
    pub tcp_idle_timeout: Duration,
}

/// `[overload]`: what is done when there is more to do than time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// Whether new work is refused then.
    pub enabled: bool,
    /// Having more to do than time for so long is an overload.
    pub delay: Duration,
    /// When those refused may come back.
    pub retry_after: Duration,
    /// Whether load is told and heard of by RFC 7339 between this server and its trunks.
    pub feedback: bool,
    /// Whether the kernel, if it can, drops what would be left unanswered.
    pub kernel: bool,
}

/// `[dns]`: name resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// Servers to ask; empty means those of the system.
    pub servers: Vec<SocketAddr>,
    /// How long one question may take.
    pub timeout: Duration,
    /// Names kept.
    pub cache: usize,
}

/// `[admin]`: the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminAccess {
    /// Where it listens; `None` is off.
    pub listen: Option<SocketAddr>,
    /// Permit a listen address that other machines can reach.
    pub allow_remote: bool,
    /// Further names that a Host header may carry, lower case.
    pub hosts: Vec<String>,
    /// A file whose first line every request must present as bearer token.
    pub token_file: Option<PathBuf>,
}

/// `[log]`: logging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// What is logged.
    pub level: Level,
    /// In which shape.
    pub format: LogFormat,
}

/// `[store]`: the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// What registrations get while it cannot be written.
    pub on_failure: OnStoreFailure,
}

impl Challenge {
    /// Whether requests of this method are challenged. Method names are case-sensitive.
    pub fn covers(&self, method: &[u8]) -> bool {
        match self {
            Challenge::All => true,
            Challenge::Only(list) => list.iter().any(|m| m.as_bytes() == method),
        }
    }
}

impl Target {
    /// The host as an address, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

impl Cidr {
    /// The block of one address.
    pub fn single(address: IpAddr) -> Cidr {
        let address = address.to_canonical();
        Cidr { address, length: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Whether `address` is in the block. An IPv4 address mapped into IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
                net.to_bits() & mask == ip.to_bits() & mask
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
                net.to_bits() & mask == ip.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.address)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}
