//! `[balance]`: the load balancer.

use super::error::Fault;
use super::load::Context;
use super::reader::{At, Reader, Section};
use super::sections::no_twice;
use super::types::{HostPort, named};
use super::values::*;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use wire::Transport;

/// Most nodes.
const MOST: usize = 256;

named! {
    /// Who gets a new call.
    BalanceBy {
        /// The fewest calls.
        Cjsq = "cjsq",
        /// The fewest unfinished transactions.
        Tjsq = "tjsq",
        /// The least unfinished work.
        Tlwl = "tlwl",
        /// The same by costs that are measured.
        TlwlAdaptive = "tlwl-adaptive",
        /// OpenSER's hash of the Call-ID.
        Hash = "hash",
        /// FNV-1a of the Call-ID.
        FnvHash = "fnv-hash",
        /// Each in turn.
        RoundRobin = "round-robin",
        /// The one that was quickest recently.
        Rwma = "rwma",
        /// The less loaded of two.
        TwoChoices = "two-choices",
        /// Consistent hashing.
        Maglev = "maglev",
    }
}

named! {
    /// Where registrations go.
    RegisterBy {
        /// To the home of the address-of-record.
        Aor = "aor",
        /// As calls do.
        Any = "any",
    }
}

named! {
    /// When the balancer puts itself into the Path of a registration.
    PathBy {
        /// For phones behind address translation that know of it.
        Auto = "auto",
        /// For everybody.
        Always = "always",
        /// For nobody.
        Never = "never",
    }
}

named! {
    /// What becomes of calls whose node has failed.
    FailedDialogs {
        /// Their requests go to another node.
        Move = "move",
        /// They are refused.
        Refuse = "refuse",
    }
}

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePlace {
    /// There.
    Address(SocketAddr),
    /// Where the DNS says, which may name several: by SRV records, or with a port by addresses alone (RFC
    /// 3263 section 4.2).
    Name(HostPort),
}

impl fmt::Display for NodePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodePlace::Address(address) => address.fmt(f),
            NodePlace::Name(HostPort { host, port: None }) => f.write_str(host),
            NodePlace::Name(HostPort { host, port: Some(port) }) => write!(f, "{host}:{port}"),
        }
    }
}

/// A node, or several by one name: `sip:HOST[:PORT][;weight=N][;transport=udp|tcp]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceNode {
    /// Where it is.
    pub place: NodePlace,
    /// How it is reached, UDP or TCP; `None`: over UDP, and over TCP what is too long for a datagram.
    pub transport: Option<Transport>,
    /// Its share beside the others', 1 to 1000.
    pub weight: u32,
}

impl BalanceNode {
    /// Reads one as it is written in the file.
    ///
    /// # Errors
    /// What is wrong, and how it is written.
    pub fn parse(written: &str) -> Result<BalanceNode, String> {
        node(written).map_err(|fault| match fault.mend.as_str() {
            "" => fault.message,
            mend => format!("{}; {mend}", fault.message),
        })
    }
}

impl fmt::Display for BalanceNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sip:{}", self.place)?;
        if self.weight != 1 {
            write!(f, ";weight={}", self.weight)?;
        }
        self.transport.map_or(Ok(()), |transport| write!(f, ";transport={transport}"))
    }
}

/// `[balance]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// The nodes.
    pub nodes: Vec<BalanceNode>,
    /// Who gets a new call.
    pub algorithm: BalanceBy,
    /// Stay in the path of dialogs.
    pub record_route: bool,
    /// What goes to nodes leaves from the first listener that fits.
    pub own_source: bool,
    /// Where registrations go.
    pub register: RegisterBy,
    /// When it puts itself into the Path of a registration.
    pub path: PathBy,
    /// What becomes of calls whose node has failed.
    pub failed_dialogs: FailedDialogs,
    /// A call without any message for so long is over.
    pub session_timeout: Duration,
    /// An INVITE that rang and then said nothing for so long is given up.
    pub ring_timeout: Duration,
    /// From one probe to the next; zero: none.
    pub probe_interval: Duration,
    /// How long an answer to a probe may take.
    pub probe_timeout: Duration,
    /// Statuses that count as a good answer; empty: all below 500 but 408.
    pub probe_codes: Vec<u16>,
    /// An INVITE whose node says nothing at all for so long goes to another one; zero: it waits for its
    /// sender.
    pub silent_after: Duration,
    /// For how long the share of a node grows that has come up or was added.
    pub slow_start: Duration,
    /// How many of a hundred nodes may be left out because they are far worse than the others; zero: none.
    pub outlier_share: u8,
    /// Whether nodes may say that they want less (RFC 7339).
    pub overload_control: bool,
    /// How long such a node is left out.
    pub outlier_rest: Duration,
    /// Failures, one after the other, until a node is down.
    pub down_after: u32,
    /// Good answers, one after the other, until it is up.
    pub up_after: u32,
    /// When callers may come back to a balancer without nodes or room.
    pub retry_after: Duration,
    /// For how long it serves on after SIGTERM, so that others see that it is going to end.
    pub stop_delay: Duration,
    /// The secret before the present one.
    pub previous_secret: Option<PathBuf>,
}

impl Default for Balance {
    fn default() -> Balance {
        Balance {
            nodes: Vec::new(),
            algorithm: BalanceBy::Tlwl,
            record_route: true,
            own_source: false,
            register: RegisterBy::Aor,
            path: PathBy::Auto,
            failed_dialogs: FailedDialogs::Move,
            session_timeout: Duration::from_secs(4 * 3_600),
            ring_timeout: Duration::from_secs(200),
            probe_interval: Duration::from_secs(1),
            probe_timeout: Duration::from_millis(500),
            probe_codes: Vec::new(),
            silent_after: Duration::from_millis(400),
            slow_start: Duration::from_secs(5),
            outlier_share: 10,
            overload_control: true,
            outlier_rest: Duration::from_secs(30),
            down_after: 3,
            up_after: 2,
            retry_after: Duration::from_secs(5),
            stop_delay: Duration::from_secs(3),
            previous_secret: None,
        }
    }
}

/// `[balance]`.
pub(super) fn balance(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    b: &mut Balance,
    context: &Context<'_>,
) {
    nodes(reader, section, b, context);
    section.set(reader, "algorithm", &mut b.algorithm, choice(BalanceBy::ALL));
    if let Some(written) = &context.overrides.algorithm {
        match BalanceBy::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(written)) {
            Some((_, meant)) => b.algorithm = *meant,
            None => {
                let names: Vec<&str> = BalanceBy::ALL.iter().map(|(name, _)| *name).collect();
                let message = format!("unknown algorithm \"{}\"", shown(written));
                reader
                    .option_error("--algorithm", Fault::new(message, format!("one of {}", names.join(", "))));
            }
        }
    }
    section.set(reader, "record_route", &mut b.record_route, flag);
    section.set(reader, "own_source", &mut b.own_source, flag);
    section.set(reader, "register", &mut b.register, choice(RegisterBy::ALL));
    section.set(reader, "path", &mut b.path, choice(PathBy::ALL));
    section.set(reader, "failed_dialogs", &mut b.failed_dialogs, choice(FailedDialogs::ALL));
    let long = || Duration::from_secs(60)..=Duration::from_secs(7 * 86_400);
    section.set(reader, "session_timeout", &mut b.session_timeout, duration(long()));
    let ring = Duration::from_secs(60)..=Duration::from_secs(3_600);
    section.set(reader, "ring_timeout", &mut b.ring_timeout, duration(ring));
    let hour = Duration::from_secs(3_600);
    section.set(reader, "probe_interval", &mut b.probe_interval, duration(Duration::ZERO..=hour));
    if !b.probe_interval.is_zero() && b.probe_interval < Duration::from_millis(50) {
        let fault = Fault::new("more than 20 probes a second and node", "\"50ms\" or more, or 0 for none");
        reader.error(&section.span_of("probe_interval"), fault);
    }
    let wait = Duration::from_millis(10)..=Duration::from_secs(30);
    section.set(reader, "probe_timeout", &mut b.probe_timeout, duration(wait));
    longer_than_interval(reader, section, b);
    if let Some(list) = section.list(reader, "probe_codes", number::<u16>(200..=699)) {
        no_twice(reader, &list, "status");
        b.probe_codes = list.into_iter().map(|at| at.value).collect();
    }
    let silence = Duration::ZERO..=Duration::from_secs(30);
    section.set(reader, "silent_after", &mut b.silent_after, duration(silence));
    if !b.silent_after.is_zero() && b.silent_after < Duration::from_millis(50) {
        let fault = Fault::new("no server answers so quickly every time", "\"50ms\" or more, or 0 for never");
        reader.error(&section.span_of("silent_after"), fault);
    }
    let ramp = Duration::ZERO..=Duration::from_secs(600);
    section.set(reader, "slow_start", &mut b.slow_start, duration(ramp));
    section.set(reader, "outlier_share", &mut b.outlier_share, number(0..=100));
    section.set(reader, "overload_control", &mut b.overload_control, flag);
    let rest = Duration::from_secs(1)..=hour;
    section.set(reader, "outlier_rest", &mut b.outlier_rest, duration(rest));
    section.set(reader, "down_after", &mut b.down_after, number(1..=100));
    section.set(reader, "up_after", &mut b.up_after, number(1..=100));
    section.set(reader, "retry_after", &mut b.retry_after, seconds(1..=3_600));
    // Service managers kill what has not ended after a minute and more.
    let delay = Duration::ZERO..=Duration::from_secs(40);
    section.set(reader, "stop_delay", &mut b.stop_delay, duration(delay));
    if let Some(at) = section.read(reader, "previous_secret", text(super::sections::path)) {
        b.previous_secret = Some(at.value);
    }
}

/// A probe that is written to wait for longer than until the next one does not.
fn longer_than_interval(reader: &mut Reader<'_>, section: &Section<'_, '_>, b: &Balance) {
    if !section.has("probe_timeout") || b.probe_interval.is_zero() || b.probe_timeout <= b.probe_interval {
        return;
    }
    let (timeout, interval) = (show_duration(b.probe_timeout), show_duration(b.probe_interval));
    let message = format!("probe_timeout ({timeout}) is longer than probe_interval: {interval} applies");
    reader.warn(&section.span_of("probe_timeout"), Fault::new(message, "raise probe_interval, or lower it"));
}

/// `nodes`, or `--node`.
fn nodes(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, b: &mut Balance, context: &Context<'_>) {
    let from_file = section.list(reader, "nodes", text(node)).unwrap_or_default();
    let span = section.span_of("nodes");
    twice(reader, &from_file);
    b.nodes = from_file.into_iter().map(|at| at.value).collect();
    if b.nodes.len() > MOST {
        reader.error(
            &span,
            Fault::new(format!("more than {MOST} nodes"), "put balancers in front of balancers"),
        );
    }
    let over = &context.overrides.nodes;
    if over.is_empty() {
        return;
    }
    b.nodes.clear();
    for written in over.iter().take(MOST + 1) {
        match node(written) {
            Ok(one) if b.nodes.iter().any(|n| n.place == one.place) => {
                let fault = Fault::new(format!("duplicate node \"{}\"", shown(written)), "remove one");
                reader.option_error("--node", fault);
            }
            Ok(one) => b.nodes.push(one),
            Err(fault) => reader.option_error("--node", fault),
        }
    }
    if over.len() > MOST {
        reader.option_error("--node", Fault::new(format!("more than {MOST} nodes"), ""));
    }
}

/// Reports every node whose address was there before.
fn twice(reader: &mut Reader<'_>, list: &[At<BalanceNode>]) {
    for (i, at) in list.iter().enumerate() {
        if let Some(first) = list.iter().take(i).find(|other| other.value.place == at.value.place) {
            let (line, column) = reader.place(first.span.start);
            let mend = format!("the first is at {line}:{column}; remove one, or add up their weights");
            reader.error(&at.span, Fault::new("duplicate node", mend));
        }
    }
}

/// `sip:192.0.2.1:5060;weight=2`.
fn node(written: &str) -> Result<BalanceNode, Fault> {
    let example = "write it as \"sip:192.0.2.1:5060\", \"sip:[2001:db8::1]:5060;weight=2\" or \"sip:cluster.example.com\"";
    let not = |what: &str| Fault::new(format!("\"{}\" {what}", shown(written)), example);
    let rest = match written.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("sip") => rest,
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("sips") => {
            return Err(Fault::new("sips: not in this version", "use sip"));
        }
        _ => return Err(not("is not a SIP URI")),
    };
    let (place, params) = rest.split_once(';').unwrap_or((rest, ""));
    if place.contains('@') {
        return Err(not("names a user: a node is a host and a port"));
    }
    let bare = place.strip_prefix('[').and_then(|p| p.strip_suffix(']')).unwrap_or(place);
    let alone = || bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 5060));
    let place = match place.parse::<SocketAddr>().ok().or_else(alone) {
        Some(address)
            if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() =>
        {
            return Err(not("is nowhere to send to"));
        }
        Some(address) => NodePlace::Address(address),
        None => NodePlace::Name(host_port(place).map_err(|_| not("has no usable address"))?),
    };
    let (mut weight, mut transport) = (1, None);
    for param in params.split(';').filter(|param| !param.is_empty()) {
        let (name, value) = param.split_once('=').unwrap_or((param, ""));
        match name.to_ascii_lowercase().as_str() {
            "weight" => {
                let number = value.parse().ok().filter(|n| (1..=1_000).contains(n));
                weight = number.ok_or_else(|| Fault::new("weight is out of range", "from 1 to 1000"))?;
            }
            "transport" => match Transport::from_name(value.as_bytes()) {
                Some(found @ (Transport::Udp | Transport::Tcp)) => transport = Some(found),
                Some(other) => {
                    let what = format!("nodes over {other}: not in this version");
                    return Err(Fault::new(what, "use transport=udp or transport=tcp, or leave it out"));
                }
                None => return Err(not("names an unknown transport")),
            },
            _ => {
                return Err(Fault::new(
                    format!("unknown parameter \"{}\"", shown(name)),
                    "weight and transport",
                ));
            }
        }
    }
    Ok(BalanceNode { place, transport, weight })
}
