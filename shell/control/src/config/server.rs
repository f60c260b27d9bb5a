//! The keys at the top of the file: what the server is called, where it listens, and its workers.

use super::error::Fault;
use super::form::*;
use super::load::{Context, Overrides};
use super::reader::{At, Reader, Section};
use super::schema::{Checks, section};
use super::types::{HostPort, Listener, named};
use super::values::{domain, host, host_port, is_digits, listener, shown};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeValue;
use wire::Transport;

/// Most workers.
const MOST_WORKERS: u64 = 1_024;
/// The highest number that a CPU can have in a set of the C library's size.
const LAST_CPU: u64 = 1_023;

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

/// What `advertise` says: for each listener that has one, the name and port to write into messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertise(Vec<(String, HostPort)>);

section! {
    /// The keys outside all sections.
    pub struct Server = "" {
        /// Domains this server is responsible for. The first is the default one: a URI with the server's
        /// address or an alias counts as it. Empty: the domains of the subscribers in the store. Digits
        /// alone, as GB/T 28181 cameras use them, are accepted with a warning.
        domains: Vec<String> = Vec::new(), list(text("host name", domain)).once("domain"), live;
        /// Further host names and addresses that mean this server.
        aliases: Vec<String> = Vec::new(), list(text("host name or address", host)).once("alias"), live;
        /// Where to listen: `"udp:ADDRESS:PORT"`, or `tcp`, `tls`, `ws` (WebSocket without encryption),
        /// `wss`, `sctp`. A `wss` listener at the address and port of a `tls` listener shares that port: what
        /// a client sends first says which of the two it is. An unspecified address is replaced by every
        /// address of the machine at start. What goes to a public address leaves from a listener that has
        /// one, or that advertises something, if there is any; else from the one that the request came to.
        /// In the default list the IPv6 ones may be missing. A listener of SCTP may have several addresses of
        /// one family, so that an association survives the failure of a network:
        /// `"sctp:192.0.2.1,198.51.100.1:5060"`.
        listen: Vec<Listener> =
            everywhere(), list(text("`TRANSPORT:ADDRESS:PORT`", listener)), restart;
        /// `"host"` or `"host:port"` to write into Via and Record-Route instead of the bound address; or a
        /// table with one entry for each listener: `advertise = { "udp:10.0.0.1:5060" = "sip.example.com" }`.
        advertise: Advertise = Advertise::default(), Advertised, restart;
        /// Worker threads. 0: one for each core.
        workers: usize = 0, number(0..=MOST_WORKERS), restart;
        /// How a datagram comes to the worker that owns its call. `"kernel"`: a program in the kernel chooses
        /// the worker's socket (Linux 6.1 or later, CAP_BPF and CAP_PERFMON), and if that is not available
        /// the server does not start. `"ring"`: workers hand over what is not theirs. `"auto"`: the kernel if
        /// it is available; otherwise the log says why not, what is lost, and what to allow. Nothing to steer
        /// with one worker.
        steering: Steering = Steering::Auto, choice(Steering::ALL), restart;
        /// Which CPUs the workers run on. `"auto"`: each on one of its own where the process may use exactly
        /// as many CPUs as there are workers, and more than one; otherwise on any. `"off"`: on any. `[0, 2]`:
        /// on these, in turn; a worker that cannot have its CPU runs on any and a warning is logged. Memory
        /// that a worker uses is taken where it runs; the server does not look at NUMA nodes, so name CPUs of
        /// the network card's node here.
        pin: Pin = Pin::Auto, pin(), restart;
        /// How long a worker with nothing to do looks for more before it sleeps: `"50us"`, at most `"10ms"`.
        /// What comes then need not wait for a processor to wake, which takes tens of microseconds, more on
        /// virtual machines; the price is processor time: a worker that looks seems busy. It looks only where
        /// the next message usually comes within that time, so a quiet server sleeps.
        /// `strowger_busy_polled_us_total` counts it. 0: never.
        busy_poll: Duration = Duration::ZERO, length(Duration::ZERO..=Duration::from_millis(10)), restart;
        /// Whether consecutive datagrams of one length to one peer go through the kernel as one, which is cut
        /// where it leaves the machine (`UDP_SEGMENT`, Linux 4.18 or later). Messages that come together are
        /// then answered together. With `true`, thousands of messages a second from one trunk, gateway or
        /// balancer cost up to a quarter less processor time. Nothing changes where messages come one by one.
        /// With `true` a capture on this machine (`tcpdump`, `sngrep`) may show several messages as one
        /// packet, of which most tools read the first; a capture on the network shows each. Leave it `false`
        /// where the kernel rewrites SIP for address translation (`nf_nat_sip`), because that reads the first
        /// message only. If the kernel cannot cut for a peer (a narrow path, IPsec, a device that leaves
        /// checksums to the kernel), each datagram is sent alone, and the log says so.
        /// `strowger_udp_segmented_total` counts.
        udp_segmentation: bool = false, flag(), restart;
        /// Folder of the database and of the server's secret. Made if it does not exist, readable only by its
        /// owner. A relative one starts from where the file is; without a file, and with `--data-dir`, from
        /// where the command runs. `strowger user ... --config FILE` follows the same rule, and the first
        /// line that `serve` logs has the whole path.
        data_dir: PathBuf = PathBuf::from("data"), path(), restart;
    }
}

/// UDP and TCP on port 5060 of every address. The IPv6 ones may be missing.
fn everywhere() -> Vec<Listener> {
    let mut all = Vec::new();
    for ip in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
        for transport in [Transport::Udp, Transport::Tcp] {
            let address = SocketAddr::new(ip, transport.default_port());
            all.push(Listener {
                transport,
                address,
                more: Vec::new(),
                advertise: None,
                optional: ip.is_ipv6(),
            });
        }
    }
    all
}

/// `"auto"`, `"off"`, or numbers of CPUs.
fn pin() -> One<Pin> {
    let parse = |value: &DeValue<'_>| match value {
        DeValue::String(text) if text == "auto" => Ok(Pin::Auto),
        DeValue::String(text) if text == "off" => Ok(Pin::Off),
        DeValue::Array(list) if !list.is_empty() && list.len() <= 1024 => {
            let one = number(0..=LAST_CPU);
            list.iter().map(|cpu| one.read(cpu.get_ref())).collect::<Result<_, _>>().map(Pin::Cpus)
        }
        _ => {
            let mend = "\"auto\", \"off\", or a list of CPU numbers such as [0, 2]";
            Err(Fault::new("no placement of workers", mend))
        }
    };
    One::new("`\"auto\"`, `\"off\"`, or list of CPU numbers", parse, |pin| match pin {
        Pin::Auto => quoted("auto"),
        Pin::Off => quoted("off"),
        Pin::Cpus(cpus) => format!("{cpus:?}"),
    })
}

/// The form of `advertise`: `"host:port"` for all listeners, or a table of them by listener. What is written
/// is read when the listeners are known.
struct Advertised;

impl Advertised {
    fn take(
        &self,
        section: &mut Section<'_, '_>,
        reader: &mut Reader<'_>,
        key: &'static str,
        _: &mut Advertise,
    ) {
        section.read(reader, key, |_| Ok(()));
    }

    fn show(&self, advertise: &Advertise) -> Option<String> {
        let each = |(listener, name): &(String, HostPort)| format!("{} = {}", quoted(listener), quoted(name));
        let all: Vec<String> = advertise.0.iter().map(each).collect();
        (!all.is_empty()).then(|| format!("{{ {} }}", all.join(", ")))
    }

    fn values(&self, _: &Advertise) -> Values {
        Values { text: "`HOST[:PORT]`, or table of them by listener".to_owned(), is_length: false }
    }
}

impl Checks for Server {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        let written = section.places("domains", &text("", domain));
        for At { value, span } in written.iter().filter(|at| is_digits(&at.value)) {
            let mend = "right for cameras of GB/T 28181; otherwise write a host name or an address";
            reader.warn(span, Fault::new(format!("domain \"{value}\" is no host name"), mend));
        }
        self.apply(reader, context.overrides);
        self.check_listeners(section, reader, &context.overrides.listen);
        self.name_listeners(section, reader, context.overrides.listen.is_empty());
        let named = self.listen.iter().filter_map(|l| Some((l.to_string(), l.advertise.clone()?)));
        self.advertise = Advertise(named.collect());
    }
}

impl Server {
    /// The command line.
    fn apply(&mut self, reader: &mut Reader<'_>, over: &Overrides) {
        if !over.domains.is_empty() {
            self.domains.clear();
            for written in &over.domains {
                match domain(written) {
                    Ok(name) if self.domains.contains(&name) => {}
                    Ok(name) => self.domains.push(name),
                    Err(fault) => reader.option_error("--domain", fault),
                }
            }
        }
        if let Some(workers) = over.workers {
            self.workers = workers;
            if workers as u64 > MOST_WORKERS {
                reader.option_error("--workers", Fault::new("out of range", "from 0 to 1024"));
            }
        }
        if let Some(written) = &over.steering {
            match Steering::ALL.iter().find(|(name, _)| name == written) {
                Some((_, steering)) => self.steering = *steering,
                None => {
                    let fault = Fault::new("unknown value", "one of auto, kernel, ring");
                    reader.option_error("--steering", fault);
                }
            }
        }
        if let Some(dir) = &over.data_dir {
            self.data_dir.clone_from(dir);
        }
    }

    fn check_listeners(&mut self, section: &Section<'_, '_>, reader: &mut Reader<'_>, over: &[String]) {
        if section.is_empty_list("listen") && over.is_empty() {
            let mend = "name at least one, or leave the key out for UDP and TCP on port 5060";
            reader.error(&section.span_of("listen"), Fault::new("no listener", mend));
        }
        // Port 0 is a different port each time.
        let mut fixed = section.places("listen", &text("", listener));
        fixed.retain(|at| at.value.address.port() != 0);
        no_twice(reader, &fixed, "listener");
        for At { value, span } in fixed.iter().filter(|at| is_no_port_of_browsers(&at.value)) {
            let mend = "choose another port for it, such as 443 or 8443";
            reader.warn(span, Fault::new(format!("browsers do not connect to \"{value}\""), mend));
        }
        let mut chosen = Vec::new();
        for written in over {
            match listener(written) {
                Ok(one) if one.address.port() != 0 && chosen.contains(&one) => {
                    let fault = Fault::new(format!("duplicate listener \"{written}\""), "remove one");
                    reader.option_error("--listen", fault);
                }
                Ok(one) => chosen.push(one),
                Err(fault) => reader.option_error("--listen", fault),
            }
        }
        if !chosen.is_empty() {
            self.listen = chosen;
        } else if self.listen.is_empty() {
            self.listen = everywhere();
        }
    }

    /// Reads `advertise`. A `strict` table names no listener that is not there; the command line may have
    /// replaced the list that a table was written for.
    fn name_listeners(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, strict: bool) {
        let advertised = text("", reachable);
        let is_table = |value: &DeValue<'_>| Ok(matches!(value, DeValue::Table(_)));
        let Some(table) = section.read(reader, "advertise", is_table) else { return };
        if !table.value {
            if let Some(at) = section.read(reader, "advertise", |value| advertised.read(value)) {
                for listener in &mut self.listen {
                    listener.advertise = Some(at.value.clone());
                }
            }
            return;
        }
        let table = section.section(reader, "advertise", "advertise");
        for (key, value, value_span) in table.entries() {
            let advertised = match advertised.read(value) {
                Ok(advertised) => advertised,
                Err(fault) => {
                    reader.error(&value_span, fault);
                    continue;
                }
            };
            let meant = listener(key.value);
            let is = |l: &&mut Listener| {
                meant.as_ref().is_ok_and(|m| (m.transport, m.address) == (l.transport, l.address))
            };
            match (self.listen.iter_mut().find(is), &meant) {
                (Some(listener), _) => listener.advertise = Some(advertised),
                (None, Err(fault)) => reader.error(&key.span, fault.clone()),
                (None, Ok(_)) if strict => {
                    let all: Vec<String> = self.listen.iter().map(|l| format!("\"{l}\"")).collect();
                    let message = format!("\"{}\" is not among the listeners", shown(key.value));
                    let mend = format!("one of {}", all.join(", "));
                    reader.error(&key.span, Fault::new(message, mend));
                }
                (None, Ok(_)) => {}
            }
        }
    }
}

/// Whether browsers refuse the port of this WebSocket listener, because it is a SIP port (Fetch Standard,
/// bad ports).
fn is_no_port_of_browsers(listener: &Listener) -> bool {
    matches!(listener.transport, Transport::Ws | Transport::Wss)
        && matches!(listener.address.port(), 5060 | 5061)
}

/// What may stand in messages as our address.
fn reachable(written: &str) -> Result<HostPort, Fault> {
    let advertised = host_port(written)?;
    if matches!(advertised.host.as_str(), "0.0.0.0" | "[::]") {
        return Err(Fault::new("nobody can send to this address", "write the address that others use"));
    }
    Ok(advertised)
}
