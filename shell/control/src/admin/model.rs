//! What the admin API says, as values: the server fills them in, the client reads them back.

use super::live::Live;
use super::load::TrunkLoad;
use super::numbers::NumberRoute;
use super::refused::{RefusedFilter, RefusedRequest};
use super::search::Search;
use super::streams::{CertificateStatus, Connection, ConnectionFilter};
use super::users::Users;
use crate::config::{ConfigError, ReloadReport};
use serde::{Deserialize, Serialize};

/// What the running server can tell and do. The binary implements it; the API only carries it.
///
/// Calls come from a helper thread, one or two at a time, never from a worker. They may wait for a
/// short lock, not for the network.
pub trait Admin: Send + Sync + 'static {
    /// The state of the server at large.
    fn status(&self) -> Status;

    /// What the dashboard shows as it changes; asked for each second while a browser shows it.
    fn live(&self) -> Live;

    /// Whether new calls should be sent here; if not, why, in a few words.
    fn ready(&self) -> Result<(), String>;

    /// Bindings, of one address-of-record or of all, in an order that stays the same from page to
    /// page. A search that has looked at many ends its page early: only one without [`Listing::next`] is
    /// the last. `None` if [`Page::after`] is nothing that a page could have ended with.
    fn bindings(&self, aor: Option<&str>, page: &Page) -> Option<Listing<Binding>>;

    /// Calls in progress, oldest page order left to the server. Searches and `None` as for bindings.
    fn calls(&self, page: &Page) -> Option<Listing<Call>>;

    /// The targets of trunks and other lists, in the order of the configuration. `None` as for bindings.
    fn trunks(&self, page: &Page) -> Option<Listing<TrunkTarget>> {
        let _ = page;
        None
    }

    /// Where calls to a number go; `None` if this is a load balancer.
    fn number(&self, number: &str) -> Option<NumberRoute> {
        let _ = number;
        None
    }

    /// Stream connections, worker by worker. `None` as for bindings.
    fn connections(&self, filter: &ConnectionFilter, page: &Page) -> Option<Listing<Connection>>;

    /// The latest requests that were refused because of their sender or target, at most `most`.
    fn refused(&self, filter: &RefusedFilter, most: usize) -> Vec<RefusedRequest> {
        let _ = (filter, most);
        Vec::new()
    }

    /// The certificates of TLS listeners, in the order of the configuration.
    fn certificates(&self) -> Vec<CertificateStatus>;

    /// Reads the configuration again and brings it into force, all of it or nothing.
    fn reload(&self) -> Result<ReloadReport, Vec<ConfigError>>;

    /// Stops taking new calls; calls in progress go on. Calling it again changes nothing.
    fn drain(&self);

    /// Appends the metrics in Prometheus text format.
    fn metrics(&self, out: &mut String);

    /// Whether this is a load balancer, which has nodes and neither bindings nor calls that it could list.
    fn is_balancer(&self) -> bool {
        false
    }

    /// The users of a server; `None` if this is a load balancer.
    fn users(&self) -> Option<&dyn Users> {
        None
    }

    /// The nodes of a load balancer; `None` if this is none.
    fn nodes(&self) -> Option<Nodes> {
        None
    }

    /// Tells a node of a load balancer, by its name, what is wanted of it.
    ///
    /// # Errors
    /// Why that cannot be: there is no such node, or this is no load balancer.
    fn order(&self, node: &str, order: NodeOrder) -> Result<BalancedNode, String> {
        let _ = (node, order);
        Err(NO_BALANCER.to_owned())
    }

    /// Adds a node to a load balancer, written as in its configuration, until it is restarted.
    ///
    /// # Errors
    /// Why that cannot be: it is badly written, there already, out of reach, or this is no load balancer.
    fn add_node(&self, node: &str) -> Result<BalancedNode, String> {
        let _ = node;
        Err(NO_BALANCER.to_owned())
    }

    /// Counts anew what the counters of a load balancer count; `None` if this is none.
    fn audit(&self) -> Option<Audit> {
        None
    }

    /// Changes the algorithm of a load balancer, until it is restarted or reloaded.
    ///
    /// # Errors
    /// Why that cannot be: there is no such algorithm, or this is no load balancer.
    fn set_algorithm(&self, name: &str) -> Result<Nodes, String> {
        let _ = name;
        Err(NO_BALANCER.to_owned())
    }
}

/// What is said to who asks another server for nodes.
pub(super) const NO_BALANCER: &str = "this server is no load balancer: it has no nodes";

/// What is said to who asks a balancer for bindings or calls: an empty list would say that there are none.
pub(super) const NO_LISTS: &str = "this is a balancer: see `strowger ctl nodes` and `strowger ctl audit`";

/// What an operator wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeOrder {
    /// Calls.
    Serve,
    /// No new calls; those it has go on.
    Drain,
    /// Nothing at all.
    Maintenance,
    /// It is no longer in the list: no new calls; those it has go on.
    Removed,
}

impl NodeOrder {
    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            NodeOrder::Serve => "serve",
            NodeOrder::Drain => "drain",
            NodeOrder::Maintenance => "maintenance",
            NodeOrder::Removed => "removed",
        }
    }
}

/// The nodes of a load balancer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nodes {
    /// Who gets a new call.
    pub algorithm: String,
    /// The nodes in their order.
    pub items: Vec<BalancedNode>,
}

/// Whether the counters of a load balancer are what its records say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// All of them are. If not, it is a defect of this program.
    pub exact: bool,
    /// Workers that were asked and answered.
    pub workers: usize,
    /// Workers that did not answer.
    pub unanswered: usize,
    /// Workers whose counters are wrong.
    pub wrong: Vec<u16>,
    /// Records of calls and dialogs that are alive.
    pub alive: u64,
    /// Records of calls that are over and remembered.
    pub ended: u64,
    /// Records of transactions.
    pub transactions: u64,
}

/// A node of a load balancer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalancedNode {
    /// `HOST:PORT`.
    pub name: String,
    /// Its share beside the others'.
    pub weight: u32,
    /// What is wanted of it.
    pub order: NodeOrder,
    /// `unknown`, `up` or `down`.
    pub health: String,
    /// Why, in a few words.
    pub why: String,
    /// Whether new calls go there now.
    pub takes_calls: bool,
    /// Calls it has.
    pub calls: u64,
    /// Transactions it has not finished.
    pub transactions: u64,
    /// What these cost, in BYEs.
    pub work: f64,
    /// Transactions ever given to it.
    pub assigned: u64,
    /// How often it has gone down.
    pub falls: u64,
    /// Time to the first response that shows work, by kind of transaction.
    pub times: Vec<AnswerTimes>,
}

/// Times to the first response of one kind of transaction that shows work (of an INVITE any but 100, of
/// others the final one), of the last minute or two, milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerTimes {
    /// The kind: `invite`, `bye`, `register`, `other`.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// The mean.
    pub mean_ms: f64,
    /// The median; as the others at most a quarter too long.
    pub p50_ms: f64,
    /// 95 % are not longer.
    pub p95_ms: f64,
    /// 99 % are not longer.
    pub p99_ms: f64,
}

/// Which part of a list is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where the last page ended: its [`Listing::next`]. `None` asks for the first page.
    pub after: Option<String>,
    /// Most items wanted, 1 to [`Page::MOST`].
    pub limit: usize,
    /// What they must contain. The list of connections has it in its filter.
    pub search: Search,
}

impl Page {
    /// Most items of one page.
    pub const MOST: usize = 1000;
    /// Items of a page if the request does not say.
    pub const USUAL: usize = 100;
}

impl Status {
    /// Where the configuration comes from, for people.
    pub(crate) fn config_text(&self) -> &str {
        self.config_file.as_deref().unwrap_or("defaults and options")
    }

    /// Whether this is a load balancer.
    pub(crate) fn is_balancer(&self) -> bool {
        matches!(self.role, Role::Balance(_))
    }

    /// Calls in progress, for people.
    pub(crate) fn calls_text(&self) -> String {
        match &self.role {
            Role::Serve(_) => self.calls.to_string(),
            Role::Balance(BalanceStatus { records: Records { alive, ended, .. }, .. }) => {
                format!("{}; in memory {alive} calls and dialogs, {ended} ended", self.calls)
            }
        }
    }

    /// Transactions, for people. A balancer has no two sides: it has what its nodes have not finished, and
    /// what it remembers.
    pub(crate) fn transactions_text(&self) -> String {
        match &self.role {
            Role::Serve(own) => {
                format!("{} server, {} client", own.server_transactions, own.client_transactions)
            }
            Role::Balance(own) => {
                format!("{} unfinished; in memory {}", own.unfinished_transactions, own.records.transactions)
            }
        }
    }
}

impl ServeStatus {
    /// The domains served, for people.
    pub(crate) fn domains_text(&self) -> String {
        match self.domains.as_slice() {
            [] => "those of the subscribers (`strowger user list` names them)".to_owned(),
            domains => domains.join(", "),
        }
    }

    /// Whether requests are challenged and what came of it, for people.
    pub(crate) fn auth_text(&self) -> String {
        match (self.auth, self.logins) {
            (false, _) => "OFF".to_owned(),
            (true, None) => "on".to_owned(),
            (true, Some(Logins { passed, failed, held_off })) => {
                format!(
                    "on; since the start {passed} right credentials, {failed} wrong, {held_off} held off for those"
                )
            }
        }
    }

    /// The store, for people.
    pub(crate) fn store_text(&self) -> String {
        let health = if self.store.healthy { "healthy" } else { "FAILING" };
        format!("{health}, {} pending; {}", self.store.pending, self.store.detail)
    }
}

impl Default for Page {
    fn default() -> Page {
        Page { after: None, limit: Page::USUAL, search: Search::default() }
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing<T> {
    /// The items.
    pub items: Vec<T>,
    /// What to ask for next; `None` after the last page.
    pub next: Option<String>,
}

/// Where the server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Loading; does not answer yet.
    Starting,
    /// Answers.
    Ready,
    /// Finishes what it has and takes nothing new.
    Draining,
    /// Takes everything, and ends in a moment: whoever sends to it should send elsewhere from now on.
    Stopping,
}

impl State {
    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Ready => "ready",
            State::Draining => "draining",
            State::Stopping => "stopping",
        }
    }
}

/// The state of a server at large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// What this server is, and what it has by that.
    #[serde(flatten)]
    pub role: Role,
    /// Where the server is in its life.
    pub state: State,
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Worker threads.
    pub workers: usize,
    /// How messages find their worker, and why that way.
    pub steering: String,
    /// The configuration file, if any.
    pub config_file: Option<String>,
    /// Sockets listened on, with the ports really bound.
    pub listeners: Vec<String>,
    /// Calls in progress.
    pub calls: u64,
    /// Stream connections open.
    pub connections: u64,
    /// Messages received since start.
    pub messages_received: u64,
    /// Messages sent since start.
    pub messages_sent: u64,
    /// What the operator should act on now; empty when all is well.
    pub alarms: Vec<String>,
}

/// What a server is; `role` in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Role {
    /// A proxy and registrar.
    Serve(ServeStatus),
    /// A load balancer.
    Balance(BalanceStatus),
}

/// What only `strowger serve` has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServeStatus {
    /// Domains served; if there are none, those of the subscribers are.
    pub domains: Vec<String>,
    /// Whether requests are challenged.
    pub auth: bool,
    /// What came of the credentials that were brought; none if requests are not challenged.
    #[serde(default)]
    pub logins: Option<Logins>,
    /// Addresses-of-record with a binding.
    pub registered: u64,
    /// Bindings.
    pub bindings: u64,
    /// Server transactions alive.
    pub server_transactions: u64,
    /// Client transactions alive.
    pub client_transactions: u64,
    /// The store.
    pub store: StoreStatus,
    /// Whether new work is refused because the server is behind, in words.
    pub overload: String,
    /// Memory that messages take, in words.
    pub memory: String,
}

/// What only `strowger balance` has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceStatus {
    /// Transactions that the nodes have not finished; an earlier version does not say it.
    #[serde(default)]
    pub unfinished_transactions: u64,
    /// What is in memory, as the audit counts it.
    pub records: Records,
}

/// Requests with credentials since the start, by what came of them. Not among them are those with right ones
/// that were not let through, of another user or of a nonce that is too old or used up, and those that could
/// not be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logins {
    /// The credentials were right, and those of a user who may send this.
    pub passed: u64,
    /// They were wrong, or there is no such user.
    pub failed: u64,
    /// They were not judged, right or wrong: too many wrong ones had come before.
    pub held_off: u64,
}

/// What a balancer has in memory: what is over is remembered for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// Records of calls and dialogs that are alive.
    pub alive: u64,
    /// Records of calls that are over and remembered.
    pub ended: u64,
    /// Records of transactions, finished ones included.
    pub transactions: u64,
}

/// The state of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Whether the last write succeeded.
    pub healthy: bool,
    /// Changes not yet written.
    pub pending: u64,
    /// Which store, and the last failure if any.
    pub detail: String,
}

/// One binding of an address-of-record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// `user@domain`.
    pub aor: String,
    /// The Contact URI.
    pub contact: String,
    /// Its priority, 0.0 to 1.0.
    pub q: f32,
    /// Seconds left.
    pub expires_s: u64,
    /// Transport and address the registration came from, `udp:192.0.2.1:5060`.
    pub received: String,
    /// Path header, if any.
    pub path: Option<String>,
    /// `+sip.instance`, if any.
    pub instance: Option<String>,
    /// User-Agent, if any.
    pub user_agent: Option<String>,
}

/// One call in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its Call-ID.
    pub call_id: String,
    /// The caller's URI.
    pub from: String,
    /// The callee's URI.
    pub to: String,
    /// What it is doing, in a word.
    pub state: String,
    /// Seconds since it began.
    pub age_s: u64,
    /// What is known of it once it is answered. `live`: its session interval is not over. `lost`: that is
    /// over without a refresh and without a BYE. `unknown`: it has no session timer.
    pub session: Option<String>,
    /// Its session interval, if it has a session timer (RFC 4028).
    pub session_interval_s: Option<u32>,
    /// Seconds since an INVITE or UPDATE of it was last answered.
    pub refreshed_s: u64,
    /// The worker that owns it.
    pub worker: u16,
}

/// A target of a trunk, a route, voicemail or `[emergency]`, or a registration at a trunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrunkTarget {
    /// The list it stands in: `trunk NAME`, `route ...`, `voicemail`, `emergency`.
    pub list: String,
    /// Its URI.
    pub target: String,
    /// `up`, `down` or `unknown`; of a registration `registered`, `trying`, `refused` or `failing`.
    pub state: String,
    /// Why, in a few words.
    pub why: String,
    /// Seconds since it is so; none: since the start.
    pub since_s: Option<u64>,
    /// Requests sent to it.
    pub calls: u64,
    /// Those of them that failed there, so that the next target was tried.
    pub failures: u64,
    /// How the last of these failed: `no response`, `unreachable` or a status.
    pub last_error: Option<String>,
    /// Seconds since then.
    pub last_error_s: Option<u64>,
    /// Its addresses that do not answer, `udp:192.0.2.1:5060`.
    pub silent: Vec<String>,
    /// The calls of its trunk; at the first target of a trunk alone.
    pub trunk: Option<TrunkLoad>,
}

/// Why the API refused, in its answer's body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// In a sentence.
    pub error: String,
    /// Findings of a refused reload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<ConfigError>,
}

/// What `drain` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    /// The state now.
    pub state: State,
    /// Calls that are waited for.
    pub calls: u64,
}
