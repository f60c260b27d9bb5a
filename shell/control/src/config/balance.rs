//! `[balance]`: the load balancer.

use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{At, Reader, Section};
use super::schema::{Checks, section};
use super::types::HostPort;
use super::values::{host, host_port, nowhere, show_duration, shown};
use sip_balancer::{Algorithm, FailedDialogs, PathBy, Probing, RegisterBy, Rules, Settings};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use wire::Transport;

/// Most nodes.
const MOST: usize = 256;
const MINUTE: Duration = Duration::from_secs(60);
/// The longest that a node may say nothing.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// Names of the places where registrations go.
const REGISTER: &[(&str, RegisterBy)] = &[("aor", RegisterBy::Aor), ("any", RegisterBy::Any)];
/// Names of the cases in which the balancer is in the Path.
const PATH: &[(&str, PathBy)] =
    &[("auto", PathBy::Auto), ("always", PathBy::Always), ("never", PathBy::Never)];
/// Names of what becomes of calls whose node has failed.
const FAILED_DIALOGS: &[(&str, FailedDialogs)] =
    &[("move", FailedDialogs::Move), ("refuse", FailedDialogs::Refuse)];

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

/// A node, or several by one name: `sip:HOST[:PORT][;weight=N][;transport=udp|tcp|tls|sctp][;verify=NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceNode {
    /// Where it is.
    pub place: NodePlace,
    /// Its transport, never WebSocket; `None`: UDP, and TCP for messages that are too long for a datagram.
    pub transport: Option<Transport>,
    /// The name that it must prove over TLS, if this is not its own name.
    pub verify: Option<String>,
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

    /// The name that it must prove over TLS: `verify`, or the host (RFC 5922 section 4).
    pub fn name_to_prove(&self) -> String {
        match (&self.verify, &self.place) {
            (Some(name), _) => name.clone(),
            (None, NodePlace::Name(name)) => name.host.clone(),
            (None, NodePlace::Address(address)) => address.ip().to_canonical().to_string(),
        }
    }
}

impl fmt::Display for BalanceNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sip:{}", self.place)?;
        if self.weight != 1 {
            write!(f, ";weight={}", self.weight)?;
        }
        self.transport.map_or(Ok(()), |transport| write!(f, ";transport={transport}"))?;
        self.verify.as_ref().map_or(Ok(()), |name| write!(f, ";verify={name}"))
    }
}

section! {
    /// `[balance]`: the load balancer.
    pub struct Balance = "balance" {
        /// The servers behind it: `"sip:192.0.2.1:5060"`, with `;weight=N` (1 to 1000) for a share of N, and
        /// `;transport=` `udp`, `tcp`, `tls` or `sctp`. Each transport needs a listener of the same
        /// transport. Without a transport: UDP, and TCP for messages longer than `mtu`. The certificate of a
        /// node over TLS must have its address or name, or the name in `;verify=NAME`. If such a node asks
        /// for a certificate, the balancer sends the first one of `[tls]` ([nodes over
        /// TLS](../guide/balance-nodes-tls.md)). A name in place of the address means all servers that the
        /// DNS lists for it ([nodes by name](../guide/balance-names.md)). At most 256. A reload adds those
        /// that are new in the list and removes those that are no longer in it.
        nodes: Vec<BalanceNode> = Vec::new(), list(text("SIP URI", node)), live;
        /// Who gets a new call ([algorithms](../design/balance-algorithms.md)).
        algorithm: Algorithm = Algorithm::Tlwl, choice(&Algorithm::ALL), live;
        /// Stay in the path of dialogs, and say in it, sealed, which node has them. Without it later requests
        /// must come here by themselves, and after a restart it is not known where they belong.
        record_route: bool = true, flag(), live;
        /// What goes to nodes leaves from the first of `listen` that has the transport and the port, and the
        /// balancer is called in it as where the request came in. For two balancers that have one common
        /// address at the same time ([two balancers](../guide/balance-failover.md)): answers come back to the
        /// one that asked.
        own_source: bool = false, flag(), live;
        /// A REGISTER goes to the home of its address-of-record, or to `"any"` node as calls do.
        register: RegisterBy = RegisterBy::Aor, choice(REGISTER), live;
        /// Whether the balancer puts itself into the Path of a REGISTER (RFC 3327), so that calls to the
        /// phone come back through it. `"auto"`: if the phone sends `Supported: path`, and is behind address
        /// translation, uses TLS, WebSocket or SCTP, or has flows (`reg-id`, RFC 5626). The Path of a flow
        /// has `ob` if no proxy is before the balancer. `"always"`: for all phones. The nodes must then
        /// accept Path from phones without `Supported: path`, as `strowger serve` does from a balancer in its
        /// `auth.fronts`; others answer 420. `"never"`: for no phone. See [phones behind address
        /// translation](../guide/balance-registrations.md#phones-behind-address-translation).
        path: PathBy = PathBy::Auto, choice(PATH), live;
        /// Requests of calls whose node is down go to another node, or are refused with 503 (`"refuse"`).
        failed_dialogs: FailedDialogs = FailedDialogs::Move, choice(FAILED_DIALOGS), live;
        /// A call without any message for so long is counted as over. 60 s to 7 d.
        session_timeout: Duration = Duration::from_secs(14_400), length(MINUTE..=7 * DAY), live;
        /// An INVITE that has had a provisional response, and no other for so long, is ended with 408 and
        /// CANCEL, also where early media is played all the time. 60 s to 1 h.
        ring_timeout: Duration = Duration::from_secs(200), length(MINUTE..=HOUR), live;
        /// From one OPTIONS to a node to the next. 50 ms to 1 h; 0: none, and a node that fails is left alone
        /// for `retry_after`.
        probe_interval: Duration = Duration::from_secs(1), length(Duration::ZERO..=HOUR), live;
        /// How long an answer may take. 10 ms to 30 s, and never longer than the interval: where more is
        /// written, the interval applies, and `check` warns.
        probe_timeout: Duration =
            Duration::from_millis(500), length(Duration::from_millis(10)..=LONGEST_SILENCE), live;
        /// Statuses that count as a good answer. Empty: every one below 500 but 408. A node that answers with
        /// 503, where that is not in the list, is there and gets no new calls.
        probe_codes: Vec<u16> = Vec::new(), list(number(200..=699)).once("status"), live;
        /// An INVITE whose node says nothing at all for so long, to this or anything else, goes to another
        /// node, and the node is probed at once. 50 ms to 30 s; 0: it waits until its sender repeats it.
        silent_after: Duration = Duration::from_millis(400), length(Duration::ZERO..=LONGEST_SILENCE), live;
        /// How long a node that came up again, or was added, takes to grow from a tenth of its share to all
        /// of it. Hash algorithms ignore this. 0 to 10 min.
        slow_start: Duration =
            Duration::from_secs(5), length(Duration::ZERO..=Duration::from_secs(600)), live;
        /// How many of a hundred nodes may be left out of new calls because they are far worse than the
        /// others, in 5xx and requests never answered or in response time. Rounded down, but one where three
        /// nodes or more serve; 0: none.
        outlier_share: u8 = 10, number(0..=100), live;
        /// Nodes that say in their answers to probes how much less they want (`oc`, RFC 7339) get less, and
        /// others more.
        overload_control: bool = true, flag(), live;
        /// How long an outlier (`outlier_share`) is left out of new calls. 1 s to 1 h.
        outlier_rest: Duration = Duration::from_secs(30), length(Duration::from_secs(1)..=HOUR), live;
        /// Failures in a row. After that number of failed probes a node is down. After that number of INVITEs
        /// without any answer, or of requests that came back by ICMP, it gets no new calls (without probes:
        /// counts as failed for `retry_after`).
        down_after: u32 = 3, number(1..=100), live;
        /// Good answers to probes, one after the other, until it is up again.
        up_after: u32 = 2, number(1..=100), live;
        /// Seconds in the Retry-After of a 503: there is no node, or no room.
        retry_after: Duration = Duration::from_secs(5), seconds(1..=3_600), live;
        /// How long the balancer serves after SIGTERM, new calls included, before it ends. Meanwhile
        /// `/readyz` and `strowger ctl status` say that it is about to end. Set it longer than the program
        /// that moves its address needs to notice. 0 to 40 s.
        stop_delay: Duration = Duration::from_secs(3), length(Duration::ZERO..=Duration::from_secs(40)), live;
        /// The file of the secret before the present one (`secret` in `data_dir`): what was sealed with it is
        /// still read.
        previous_secret: Option<PathBuf> = None, path().optional(), restart;
    }
}

impl Checks for Balance {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        check_nodes(section, reader, &self.nodes);
        if let Some(nodes) = chosen_nodes(reader, &context.overrides.nodes) {
            self.nodes = nodes;
        }
        if let Some(written) = &context.overrides.algorithm {
            match Algorithm::from_name(written) {
                Some(meant) => self.algorithm = meant,
                None => {
                    let message = format!("unknown algorithm \"{}\"", shown(written));
                    let mend = format!("one of {}", Algorithm::names());
                    reader.option_error("--algorithm", Fault::new(message, mend));
                }
            }
        }
        if !self.probe_interval.is_zero() && self.probe_interval < Duration::from_millis(50) {
            let fault =
                Fault::new("more than 20 probes a second and node", "\"50ms\" or more, or 0 for none");
            reader.error(&section.span_of("probe_interval"), fault);
        }
        longer_than_interval(reader, section, self);
        if !self.silent_after.is_zero() && self.silent_after < Duration::from_millis(50) {
            let mend = "\"50ms\" or more, or 0 for never";
            let fault = Fault::new("no server answers so quickly every time", mend);
            reader.error(&section.span_of("silent_after"), fault);
        }
    }
}

impl Balance {
    /// What the core needs of it, with these listeners.
    pub fn settings(&self, listeners: Vec<sip_balancer::Listener>) -> Settings {
        Settings {
            algorithm: self.algorithm,
            rules: Rules {
                failed_dialogs: self.failed_dialogs,
                session_timeout: self.session_timeout,
                ring_timeout: self.ring_timeout,
                down_after: self.down_after,
                probed: !self.probe_interval.is_zero(),
                rest: self.retry_after,
                silent_after: self.silent_after,
                slow_start: self.slow_start,
                outlier_share: self.outlier_share,
                outlier_rest: self.outlier_rest,
            },
            record_route: self.record_route,
            own_source: self.own_source,
            register: self.register,
            path: self.path,
            probing: Probing {
                interval: self.probe_interval,
                timeout: self.probe_timeout,
                down_after: self.down_after,
                up_after: self.up_after,
                good: self.probe_codes.clone(),
            },
            overload_control: self.overload_control,
            retry_after: u32::try_from(self.retry_after.as_secs()).unwrap_or(u32::MAX),
            ..Settings::new(listeners)
        }
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

/// Reports `nodes` that stand twice, or are too many.
fn check_nodes(section: &Section<'_, '_>, reader: &mut Reader<'_>, nodes: &[BalanceNode]) {
    twice(reader, &section.places("nodes", &text("", node)));
    if nodes.len() > MOST {
        let fault = Fault::new(format!("more than {MOST} nodes"), "put balancers in front of balancers");
        reader.error(&section.span_of("nodes"), fault);
    }
}

/// The nodes of `--node`, if there are any.
fn chosen_nodes(reader: &mut Reader<'_>, over: &[String]) -> Option<Vec<BalanceNode>> {
    let mut nodes: Vec<BalanceNode> = Vec::new();
    for written in over.iter().take(MOST + 1) {
        match node(written) {
            Ok(one) if nodes.iter().any(|n| n.place == one.place) => {
                let fault = Fault::new(format!("duplicate node \"{}\"", shown(written)), "remove one");
                reader.option_error("--node", fault);
            }
            Ok(one) => nodes.push(one),
            Err(fault) => reader.option_error("--node", fault),
        }
    }
    if over.len() > MOST {
        reader.option_error("--node", Fault::new(format!("more than {MOST} nodes"), ""));
    }
    (!over.is_empty()).then_some(nodes)
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

/// The form of a node, for messages.
const NODE: &str =
    "write it as \"sip:192.0.2.1:5060\", \"sip:[2001:db8::1]:5060;weight=2\" or \"sip:cluster.example.com\"";

/// `sip:192.0.2.1:5060;weight=2`.
fn node(written: &str) -> Result<BalanceNode, Fault> {
    let not = |what: &str| Fault::new(format!("\"{}\" {what}", shown(written)), NODE);
    let (secure, rest) = match written.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("sip") => (false, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("sips") => (true, rest),
        _ => return Err(not("is not a SIP URI")),
    };
    let (place, params) = rest.split_once(';').unwrap_or((rest, ""));
    if place.contains('@') {
        return Err(not("names a user: a node is a host and a port"));
    }
    let (mut weight, mut transport, mut verify) = (1, secure.then_some(Transport::Tls), None);
    for param in params.split(';').filter(|param| !param.is_empty()) {
        let (name, value) = param.split_once('=').unwrap_or((param, ""));
        match name.to_ascii_lowercase().as_str() {
            "weight" => {
                let number = value.parse().ok().filter(|n| (1..=1_000).contains(n));
                weight = number.ok_or_else(|| Fault::new("weight is out of range", "from 1 to 1000"))?;
            }
            "transport" => {
                transport =
                    Some(node_transport(value, secure)?.ok_or_else(|| not("names an unknown transport"))?)
            }
            "verify" => verify = Some(host(value)?),
            _ => {
                let what = format!("unknown parameter \"{}\"", shown(name));
                return Err(Fault::new(what, "the parameters are weight, transport and verify"));
            }
        }
    }
    if verify.is_some() && transport != Some(Transport::Tls) {
        return Err(Fault::new("verify is only for nodes over TLS", "add transport=tls, or leave it out"));
    }
    let port = transport.unwrap_or(Transport::Udp).default_port();
    let bare = place.strip_prefix('[').and_then(|p| p.strip_suffix(']')).unwrap_or(place);
    let alone = || bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port));
    let place = match place.parse::<SocketAddr>().ok().or_else(alone) {
        Some(address) if address.port() == 0 || nowhere(address.ip()) => {
            return Err(not("is nowhere to send to"));
        }
        Some(address) => NodePlace::Address(address),
        None => NodePlace::Name(host_port(place).map_err(|_| not("has no usable address"))?),
    };
    Ok(BalanceNode { place, transport, verify, weight })
}

/// The transport of a node; `None`: there is no such transport.
fn node_transport(value: &str, secure: bool) -> Result<Option<Transport>, Fault> {
    match Transport::from_name(value.as_bytes()) {
        Some(found @ (Transport::Ws | Transport::Wss)) => {
            let what =
                format!("nodes over {found} are not possible: WebSocket is for clients only (RFC 7118)");
            Err(Fault::new(what, "use transport=tls or transport=tcp"))
        }
        // `sips:` already means TLS (RFC 3261 section 26.2.2).
        Some(Transport::Tcp | Transport::Tls) if secure => Ok(Some(Transport::Tls)),
        Some(found) if secure => {
            Err(Fault::new(format!("sips: means TLS, not {found}"), "use sip:, or leave transport out"))
        }
        found => Ok(found),
    }
}
