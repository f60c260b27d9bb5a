//! The other end of the admin API: what `strowger ctl` does.

mod numbers;
mod streams;

use crate::admin::{
    Audit, BalancedNode, Binding, Call, CertificateStatus, Connection, Draining, Listing, NodeOrder, Nodes,
    NumberRoute, Page, Refusal, RefusedRequest, Role, State, Status, TrunkLoad, TrunkTarget, uptime,
};
use crate::config::{ConfigError, ReloadReport};
use crate::log::{LONGEST_SHOWN, Safe};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

/// How long one exchange may take. The server gives up a little earlier and says so.
const TIMEOUT: Duration = Duration::from_secs(35);
/// Largest answer read, octets.
const ANSWER_BYTES: u64 = 64 << 20;
/// Findings of a refused reload that are shown one by one.
const FINDINGS: usize = 20;
/// Longest cell of a table, characters.
const CELL: usize = 60;

/// What to ask or tell the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Its state.
    Status,
    /// All bindings, or those of one address-of-record.
    Bindings {
        /// `user@domain`.
        aor: Option<String>,
    },
    /// Calls in progress.
    Calls,
    /// Targets of trunks and other lists.
    Trunks,
    /// Where calls to a number go.
    Route {
        /// As people write it.
        number: String,
    },
    /// Stream connections.
    Connections {
        /// Those of this transport.
        transport: Option<String>,
        /// Those to this address, with a port or without.
        peer: Option<String>,
        /// How many at most.
        limit: usize,
    },
    /// Requests that were refused.
    Refused {
        /// Those from this address.
        source: Option<String>,
        /// Those whose address-of-record or target contains this.
        about: Option<String>,
        /// How many at most, 1 to 1000.
        limit: usize,
    },
    /// Certificates of TLS listeners.
    Certificates,
    /// Read the configuration again.
    Reload,
    /// Take no new calls.
    Drain {
        /// Also where that is a load balancer, which is hardly ever meant by who names no node.
        all: bool,
    },
    /// Adds a node to a load balancer.
    AddNode {
        /// As it is written in the configuration.
        node: String,
    },
    /// Whether the counters of a load balancer are what its records say.
    Audit,
    /// The nodes of a load balancer.
    Nodes,
    /// What is wanted of a node, by its name.
    Order {
        /// `HOST:PORT`.
        node: String,
        /// What is wanted.
        order: NodeOrder,
    },
    /// Another algorithm.
    Algorithm {
        /// Its name.
        name: String,
    },
}

/// How to show the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Table,
    /// For programs: an object, or an array for lists.
    Json,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// The address is not `HOST:PORT`.
    Address(String),
    /// Nobody answers there.
    Unreachable {
        /// The address tried.
        address: String,
        /// What went wrong.
        why: String,
    },
    /// The server said no.
    Refused {
        /// The HTTP status.
        status: u16,
        /// Why, in the server's words.
        error: String,
        /// Findings in the configuration, for a reload.
        findings: Vec<ConfigError>,
    },
    /// What answers there is not this server's API.
    Strange(String),
    /// A load balancer was to drain as a whole, and nobody said that this is meant.
    WholeBalancer {
        /// The nodes that could have been meant.
        nodes: Vec<String>,
    },
    /// It answers, and is about to end: scripts that move an address by its state are to move it now.
    Stopping,
    /// The answer could not be written out.
    Output(io::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Address(address) => {
                write!(f, "\"{address}\" is not an address; write it as 127.0.0.1:8080")
            }
            ClientError::Unreachable { address, why } => {
                write!(
                    f,
                    "cannot reach {address}: {why}; is `strowger serve` or `balance` running with --admin {address}?"
                )
            }
            ClientError::Refused { status, error, findings } => {
                write!(f, "refused ({status}): {}", Safe(error.as_bytes()))?;
                findings.iter().take(FINDINGS).try_for_each(|finding| write!(f, "\n  {finding}"))?;
                match findings.len().saturating_sub(FINDINGS) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            ClientError::Strange(why) => {
                write!(f, "what answers there is not the admin API of this version: {why}")
            }
            ClientError::WholeBalancer { nodes } => {
                let nodes: Vec<String> = nodes.iter().map(|node| cell(node)).collect();
                write!(
                    f,
                    "this is a balancer: name the node to drain, one of {}; to have the balancer itself refuse all new \
                     calls, which only a restart takes back, say --all",
                    nodes.join(", ")
                )
            }
            ClientError::Stopping => f.write_str("it is about to end; send nothing new there"),
            ClientError::Output(error) => write!(f, "cannot write the answer: {error}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        ClientError::Output(error)
    }
}

/// A client of one server.
pub struct Client {
    agent: ureq::Agent,
    address: String,
    token: Option<String>,
}

impl Client {
    /// For the server whose admin API listens on `address` (`HOST:PORT`), with its bearer token if it
    /// asks for one.
    pub fn new(address: &str, token: Option<&str>) -> Result<Client, ClientError> {
        let port = address.rsplit_once(':').and_then(|(host, port)| {
            let good = |b: u8| b.is_ascii_alphanumeric() || b"-.:[]_".contains(&b);
            (!host.is_empty() && host.bytes().all(good)).then(|| port.parse::<u16>().ok()).flatten()
        });
        if port.is_none_or(|port| port == 0) {
            return Err(ClientError::Address(address.to_owned()));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // Never over a proxy of the environment: this talks to the machine itself.
            .proxy(None)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .build();
        let token = token.map(|token| format!("Bearer {token}"));
        Ok(Client { agent: config.new_agent(), address: address.to_owned(), token })
    }

    /// The server's state.
    pub fn status(&self) -> Result<Status, ClientError> {
        self.get("/v1/status", &[])
    }

    /// One page of bindings.
    pub fn bindings(&self, aor: Option<&str>, page: &Page) -> Result<Listing<Binding>, ClientError> {
        let mut query = paging(page);
        query.extend(aor.map(|aor| ("aor", aor.to_owned())));
        self.get("/v1/bindings", &query)
    }

    /// One page of calls.
    pub fn calls(&self, page: &Page) -> Result<Listing<Call>, ClientError> {
        self.get("/v1/calls", &paging(page))
    }

    /// One page of the targets of trunks and other lists.
    pub fn trunks(&self, page: &Page) -> Result<Listing<TrunkTarget>, ClientError> {
        self.get("/v1/trunks", &paging(page))
    }

    /// Where calls to a number go.
    pub fn number(&self, number: &str) -> Result<NumberRoute, ClientError> {
        self.get("/v1/routes", &[("number", number.to_owned())])
    }

    /// One page of stream connections.
    pub fn connections(
        &self,
        transport: Option<&str>,
        peer: Option<&str>,
        page: &Page,
    ) -> Result<Listing<Connection>, ClientError> {
        let mut query = paging(page);
        query.extend(transport.map(|transport| ("transport", transport.to_owned())));
        query.extend(peer.map(|peer| ("peer", peer.to_owned())));
        self.get("/v1/connections", &query)
    }

    /// The latest requests that were refused.
    pub fn refused(
        &self,
        source: Option<&str>,
        about: Option<&str>,
        limit: usize,
    ) -> Result<Listing<RefusedRequest>, ClientError> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(source.map(|source| ("source", source.to_owned())));
        query.extend(about.map(|about| ("about", about.to_owned())));
        self.get("/v1/refused", &query)
    }

    /// The certificates of TLS listeners.
    pub fn certificates(&self) -> Result<Listing<CertificateStatus>, ClientError> {
        self.get("/v1/certificates", &[])
    }

    /// Has the configuration read again.
    pub fn reload(&self) -> Result<ReloadReport, ClientError> {
        self.post("/v1/reload", &[])
    }

    /// Lets the server run dry.
    pub fn drain(&self) -> Result<Draining, ClientError> {
        self.post("/v1/drain", &[])
    }

    /// The nodes of a load balancer.
    pub fn nodes(&self) -> Result<Nodes, ClientError> {
        self.get("/v1/nodes", &[])
    }

    /// Tells a node what is wanted of it.
    pub fn order(&self, node: &str, order: NodeOrder) -> Result<BalancedNode, ClientError> {
        let path = match order {
            NodeOrder::Serve => "/v1/nodes/undrain",
            NodeOrder::Drain => "/v1/nodes/drain",
            NodeOrder::Maintenance => "/v1/nodes/maintain",
            NodeOrder::Removed => "/v1/nodes/remove",
        };
        self.post(path, &[("name", node.to_owned())])
    }

    /// Adds a node, written as in the configuration.
    pub fn add_node(&self, node: &str) -> Result<BalancedNode, ClientError> {
        self.post("/v1/nodes/add", &[("name", node.to_owned())])
    }

    /// Whether the counters are what the records say.
    pub fn audit(&self) -> Result<Audit, ClientError> {
        self.get("/v1/nodes/audit", &[])
    }

    /// Changes the algorithm.
    pub fn set_algorithm(&self, name: &str) -> Result<Nodes, ClientError> {
        self.post("/v1/nodes/algorithm", &[("name", name.to_owned())])
    }

    fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, String)]) -> Result<T, ClientError> {
        let mut request = self.agent.get(format!("http://{}{path}", self.address));
        for (name, value) in query {
            request = request.query(name, value);
        }
        if let Some(token) = &self.token {
            request = request.header("Authorization", token);
        }
        self.read(request.call())
    }

    fn post<T: DeserializeOwned>(&self, path: &str, query: &[(&str, String)]) -> Result<T, ClientError> {
        let mut request = self.agent.post(format!("http://{}{path}", self.address));
        for (name, value) in query {
            request = request.query(name, value);
        }
        if let Some(token) = &self.token {
            request = request.header("Authorization", token);
        }
        self.read(request.header("Content-Type", "application/json").send("{}"))
    }

    fn read<T: DeserializeOwned>(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, ClientError> {
        let unreachable = |why: String| ClientError::Unreachable { address: self.address.clone(), why };
        let mut answer = answer.map_err(|error| match error {
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                unreachable("connection refused".into())
            }
            ureq::Error::Io(error) => unreachable(error.to_string()),
            ureq::Error::HostNotFound => unreachable("no such host".into()),
            ureq::Error::Timeout(_) => unreachable("no answer in time".into()),
            ureq::Error::ConnectionFailed => unreachable("connection failed".into()),
            other => ClientError::Strange(other.to_string()),
        })?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES).read_to_vec();
        let body = body.map_err(|error| unreachable(error.to_string()))?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| ClientError::Strange(error.to_string()));
        }
        match serde_json::from_slice(&body) {
            Ok(Refusal { error, findings }) => {
                Err(ClientError::Refused { status: status.as_u16(), error, findings })
            }
            Err(_) => Err(ClientError::Strange(format!("status {}", status.as_u16()))),
        }
    }
}

/// The query parameters of a page.
fn paging(page: &Page) -> Vec<(&'static str, String)> {
    let mut query = vec![("limit", page.limit.to_string())];
    query.extend(page.after.clone().map(|after| ("after", after)));
    query
}

/// Does one `ctl` command and writes the answer to `out`. Lists are fetched and written page by
/// page, however long they are.
pub fn run(
    client: &Client,
    command: &Command,
    output: Output,
    out: &mut dyn Write,
) -> Result<(), ClientError> {
    match command {
        Command::Status => {
            let status = client.status()?;
            show(&status, output, out, status_table)?;
            if status.state == State::Stopping { Err(ClientError::Stopping) } else { Ok(()) }
        }
        Command::Reload => show(&client.reload()?, output, out, reload_text),
        Command::Drain { all } => {
            let balancer = client.status()?.is_balancer();
            if balancer && !all {
                let nodes = client.nodes()?.items.into_iter().map(|node| node.name).collect();
                return Err(ClientError::WholeBalancer { nodes });
            }
            show(&client.drain()?, output, out, if balancer { balancer_drain_text } else { drain_text })
        }
        Command::Nodes => show(&client.nodes()?, output, out, nodes_table),
        Command::Order { node, order } => show(&client.order(node, *order)?, output, out, order_text),
        Command::AddNode { node } => show(&client.add_node(node)?, output, out, order_text),
        Command::Audit => show(&client.audit()?, output, out, audit_text),
        Command::Algorithm { name } => show(&client.set_algorithm(name)?, output, out, nodes_table),
        Command::Bindings { aor } => {
            let fetch = |page: &Page| client.bindings(aor.as_deref(), page);
            let head = ["AOR", "CONTACT", "Q", "EXPIRES", "RECEIVED", "USER AGENT"];
            let listed = list(fetch, head, binding_row, (output, usize::MAX), out)?;
            match aor.as_deref().filter(|_| listed.shown == 0 && output == Output::Table) {
                Some(aor) => Ok(out.write_all(no_bindings(aor).as_bytes())?),
                None => Ok(()),
            }
        }
        Command::Calls => {
            let head =
                ["CALL-ID", "FROM", "TO", "STATE", "AGE", "SESSION", "INTERVAL", "REFRESHED", "WORKER"];
            list(|page| client.calls(page), head, call_row, (output, usize::MAX), out).map(drop)
        }
        Command::Trunks => {
            list(|page| client.trunks(page), TRUNKS, trunk_row, (output, usize::MAX), out).map(drop)
        }
        Command::Route { number } => show(&client.number(number)?, output, out, numbers::number_text),
        Command::Connections { transport, peer, limit } => {
            let fetch = |page: &Page| client.connections(transport.as_deref(), peer.as_deref(), page);
            let listed = list(fetch, streams::CONNECTIONS, streams::connection_row, (output, *limit), out)?;
            match listed.more && output == Output::Table {
                true => {
                    Ok(writeln!(out, "there are more; raise --limit, or ask for a --transport or a --peer")?)
                }
                false => Ok(()),
            }
        }
        Command::Refused { source, about, limit } => {
            let fetch = |_: &Page| client.refused(source.as_deref(), about.as_deref(), *limit);
            let head = ["AGO", "SOURCE", "ABOUT", "TIMES", "REASON"];
            list(fetch, head, refused_row, (output, *limit), out).map(drop)
        }
        Command::Certificates => show_certificates(client, output, out),
    }
}

/// Writes a single answer.
fn show<T: Serialize>(
    answer: &T,
    output: Output,
    out: &mut dyn Write,
    text: impl FnOnce(&T) -> String,
) -> Result<(), ClientError> {
    match output {
        Output::Table => out.write_all(text(answer).as_bytes())?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, answer).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

fn refused_row(refused: &RefusedRequest) -> [String; 5] {
    let ago = uptime(refused.ago_s);
    // A reason is a sentence of ours that tells what to do, so it is shown whole.
    [ago, cell(&refused.source), cell(&refused.about), refused.times.to_string(), refused.reason.clone()]
}

fn show_certificates(client: &Client, output: Output, out: &mut dyn Write) -> Result<(), ClientError> {
    let fetch = |_: &Page| client.certificates();
    let listed = list(fetch, streams::CERTIFICATES, streams::certificate_row, (output, usize::MAX), out)?;
    if output == Output::Table {
        if listed.shown == 0 {
            writeln!(out, "no certificate: name one in [tls], or by --tls-cert and --tls-key")?;
        }
        for certificate in &client.certificates()?.items {
            if let Some(fault) = &certificate.fault {
                writeln!(out, "FAULT: {}", whole(fault))?;
            }
        }
    }
    Ok(())
}

/// The output for an address-of-record without binding.
fn no_bindings(aor: &str) -> String {
    let form = if aor.contains('@') { "" } else { "; an address-of-record is written USER@DOMAIN" };
    format!("no binding of {}{form}\n", cell(aor))
}

/// What was written of a list.
struct Listed {
    /// Items.
    shown: usize,
    /// Whether there are more.
    more: bool,
}

/// Writes a list, page after page, up to `most` items.
fn list<T: Serialize, const N: usize>(
    fetch: impl Fn(&Page) -> Result<Listing<T>, ClientError>,
    head: [&str; N],
    row: impl Fn(&T) -> [String; N],
    (output, most): (Output, usize),
    out: &mut dyn Write,
) -> Result<Listed, ClientError> {
    let mut page = Page { limit: Page::MOST.min(most).max(1), ..Page::default() };
    let (mut written, mut more) = (0_usize, false);
    loop {
        let listing = fetch(&page)?;
        match output {
            Output::Table => {
                let mut rows = Vec::with_capacity(listing.items.len() + 1);
                if page.after.is_none() {
                    rows.push(head.map(str::to_owned));
                }
                rows.extend(listing.items.iter().map(&row));
                out.write_all(table(&rows).as_bytes())?;
            }
            Output::Json => {
                for (i, item) in listing.items.iter().enumerate() {
                    out.write_all(if written + i == 0 { b"[\n " } else { b",\n " })?;
                    serde_json::to_writer(&mut *out, item).map_err(io::Error::from)?;
                }
            }
        }
        written += listing.items.len();
        // The same mark twice would ask the same page for ever.
        if listing.next.is_none() || listing.next == page.after {
            break;
        }
        if written >= most {
            more = true;
            break;
        }
        page = Page { after: listing.next, limit: Page::MOST.min(most - written), ..Page::default() };
    }
    match (output, written) {
        (Output::Json, 0) => writeln!(out, "[]")?,
        (Output::Json, _) => writeln!(out, "\n]")?,
        (Output::Table, _) => {}
    }
    Ok(Listed { shown: written, more })
}

/// Columns, each as wide as its widest cell; the last is not padded.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A cell: text that came from strangers, made safe and cut.
fn cell(text: &str) -> String {
    let safe = Safe(text.as_bytes()).to_string();
    match safe.char_indices().nth(CELL) {
        Some((cut, _)) => format!("{}...", safe.get(..cut).unwrap_or_default()),
        None if safe.is_empty() => "-".into(),
        None => safe,
    }
}

/// What the server says itself, made safe: nothing is cut from it.
fn whole(text: &str) -> String {
    match text {
        "" => "-".into(),
        // Of a longer piece it would show the beginning.
        text => text.as_bytes().chunks(LONGEST_SHOWN).map(|piece| Safe(piece).to_string()).collect(),
    }
}

fn binding_row(binding: &Binding) -> [String; 6] {
    [
        cell(&binding.aor),
        cell(&binding.contact),
        format!("{:.1}", binding.q),
        format!("{} s", binding.expires_s),
        cell(&binding.received),
        cell(binding.user_agent.as_deref().unwrap_or_default()),
    ]
}

fn call_row(call: &Call) -> [String; 9] {
    [
        cell(&call.call_id),
        cell(&call.from),
        cell(&call.to),
        cell(&call.state),
        uptime(call.age_s),
        cell(call.session.as_deref().unwrap_or_default()),
        call.session_interval_s.map_or(String::new(), |seconds| format!("{seconds} s")),
        format!("{} ago", uptime(call.refreshed_s)),
        call.worker.to_string(),
    ]
}

/// The head of the table of trunks and other lists.
const TRUNKS: [&str; 11] =
    ["LIST", "TARGET", "STATE", "WHY", "SINCE", "CALLS", "FAILED", "LAST ERROR", "NOW", "CALLS/S", "ASR 1H"];

fn trunk_row(target: &TrunkTarget) -> [String; 11] {
    let last = target.last_error.as_ref().map(|error| match target.last_error_s {
        Some(ago) => format!("{error}, {} ago", uptime(ago)),
        None => error.clone(),
    });
    let load = |text: fn(&TrunkLoad) -> String| target.trunk.as_ref().map_or("-".into(), text);
    [
        cell(&target.list),
        cell(&target.target),
        cell(&target.state),
        whole(&target.why),
        target.since_s.map_or("-".into(), uptime),
        target.calls.to_string(),
        target.failures.to_string(),
        whole(&last.unwrap_or_default()),
        load(TrunkLoad::calls_text),
        load(TrunkLoad::rate_text),
        load(TrunkLoad::ratio_text),
    ]
}

fn status_table(status: &Status) -> String {
    let mut rows: Vec<[String; 2]> = vec![
        ["state".into(), status.state.name().into()],
        ["version".into(), cell(&status.version)],
        ["process".into(), status.pid.to_string()],
        ["running for".into(), uptime(status.uptime_s)],
        ["workers".into(), format!("{} ({})", status.workers, whole(&status.steering))],
        ["configuration".into(), whole(status.config_text())],
    ];
    if let Role::Serve(own) = &status.role {
        rows.push(["domains".into(), cell(&own.domains_text())]);
    }
    rows.extend(status.listeners.iter().map(|listener| ["listens on".into(), whole(listener)]));
    if let Role::Serve(own) = &status.role {
        rows.extend([
            ["authentication".into(), own.auth_text()],
            ["users registered".into(), own.registered.to_string()],
            ["bindings".into(), own.bindings.to_string()],
        ]);
    }
    rows.extend([
        ["calls".into(), status.calls_text()],
        ["transactions".into(), status.transactions_text()],
        ["connections".into(), status.connections.to_string()],
        ["messages".into(), format!("{} received, {} sent", status.messages_received, status.messages_sent)],
    ]);
    if let Role::Serve(own) = &status.role {
        rows.extend([
            ["store".into(), whole(&own.store_text())],
            ["memory".into(), whole(&own.memory)],
            ["overload".into(), whole(&own.overload)],
        ]);
    }
    rows.extend(status.alarms.iter().map(|alarm| ["ALARM".into(), whole(alarm)]));
    table(&rows)
}

fn nodes_table(nodes: &Nodes) -> String {
    let head =
        ["NODE", "WEIGHT", "ORDER", "HEALTH", "CALLS", "OPEN", "WORK", "ASSIGNED", "P50", "P99", "WHY"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(nodes.items.iter().map(node_row));
    format!("algorithm: {}\n{}", cell(&nodes.algorithm), table(&rows))
}

fn node_row(node: &BalancedNode) -> [String; 11] {
    // Of the kind that came most often.
    let times = node.times.iter().max_by_key(|times| times.count).filter(|times| times.count > 0);
    let time = |ms: Option<f64>| ms.map_or("-".into(), |ms| format!("{ms:.1} ms"));
    [
        cell(&node.name),
        node.weight.to_string(),
        node.order.name().into(),
        cell(&node.health),
        node.calls.to_string(),
        node.transactions.to_string(),
        format!("{:.2}", node.work),
        node.assigned.to_string(),
        time(times.map(|t| t.p50_ms)),
        time(times.map(|t| t.p99_ms)),
        whole(&node.why),
    ]
}

fn order_text(node: &BalancedNode) -> String {
    format!("{}: {}; {} calls\n", cell(&node.name), node.order.name(), node.calls)
}

fn audit_text(audit: &Audit) -> String {
    let verdict = match (audit.exact, audit.unanswered) {
        (true, _) => "every counter is what the records say".to_owned(),
        (false, 0) => format!("counters of workers {:?} are WRONG: please report this", audit.wrong),
        (false, n) => format!("{n} workers do not answer; counters of workers {:?} are wrong", audit.wrong),
    };
    let Audit { workers, alive, ended, transactions, .. } = audit;
    format!(
        "{verdict}; {workers} workers, {alive} calls and dialogs, {ended} ended, {transactions} transactions\n"
    )
}

fn drain_text(answer: &Draining) -> String {
    let calls = match answer.calls {
        0 => "no call is left".to_owned(),
        1 => "waiting for 1 call".to_owned(),
        n => format!("waiting for {n} calls"),
    };
    format!("{}; {calls}; SIGTERM ends the server\n", answer.state.name())
}

/// A balancer waits for nobody: whoever comes after it knows its calls.
fn balancer_drain_text(answer: &Draining) -> String {
    let (state, calls) = (answer.state.name(), answer.calls);
    format!("{state}; {calls} calls go on, and new ones get 503; only a restart takes this back\n")
}

fn reload_text(report: &ReloadReport) -> String {
    let mut text = match report.changed.as_slice() {
        [] => "nothing changed\n".to_owned(),
        changed => format!("in force now: {}\n", changed.join(", ")),
    };
    for warning in &report.warnings {
        text.push_str(&format!("warning: {}\n", Safe(warning.as_bytes())));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::State;

    #[test]
    fn missing_bindings_are_reported_with_the_form_of_an_aor() {
        assert_eq!(
            no_bindings("alice"),
            "no binding of alice; an address-of-record is written USER@DOMAIN\n"
        );
        assert_eq!(no_bindings("alice@example.com"), "no binding of alice@example.com\n");
    }

    #[test]
    fn draining_is_told_in_words() {
        let text = |calls| drain_text(&Draining { state: State::Draining, calls });
        assert_eq!(text(0), "draining; no call is left; SIGTERM ends the server\n");
        assert_eq!(text(1), "draining; waiting for 1 call; SIGTERM ends the server\n");
        assert_eq!(text(2), "draining; waiting for 2 calls; SIGTERM ends the server\n");
    }

    #[test]
    fn what_the_server_says_itself_is_shown_whole() {
        let long = "the store cannot be written: ".repeat(30);
        assert_eq!(whole(&long), long);
        assert_eq!(whole(""), "-");
        assert_eq!(whole("a\x1bb"), "a\\x1bb");
        assert!(cell(&long).len() < 100);
    }

    #[test]
    fn a_hopeless_file_is_told_briefly() {
        let finding = |line| ConfigError {
            file: "f".into(),
            line,
            column: 1,
            message: "no".into(),
            mend: String::new(),
        };
        let refused = |n| ClientError::Refused {
            status: 409,
            error: "bad".into(),
            findings: (0..n).map(finding).collect(),
        };
        assert_eq!(refused(20).to_string().lines().count(), 21);
        let long = refused(3_000).to_string();
        assert_eq!(long.lines().count(), 22);
        assert!(long.ends_with("\n  and 2980 more"), "{long}");
    }
}
