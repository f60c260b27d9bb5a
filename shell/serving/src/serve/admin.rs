//! The control side of a running server: what the admin API and signals reach.

use super::refusals::Refusals;
use super::routes::Routes;
use super::users::UserBook;
use super::{build, carriers, limits, lines, live, searches, trunks};
use crate::METHODS;
use crate::certificates::{self, Certificates, refuse_unusable};
use crate::operator::{self, Reloads, lock, no_file, post_all, silence};
use crate::steering::Grade;
use crate::{bugs, connections, counters};
use call_log::Remote;
use control::admin::{
    Admin, Binding, Call, CertificateStatus, Connection, ConnectionFilter, Listing, Live, Logins,
    NumberRoute, Page, RefusedFilter, RefusedRequest, Role, ServeStatus, State, Status, StoreStatus,
    TrunkTarget,
};
use control::config::{Config, ConfigError, HostPort, Loaded, Overrides, ReloadReport, plan_reload};
use control::log::LogHandle;
use control::metrics::{Kind, Registry, Text};
use sip_auth::Secret;
use sip_message::canonical_user;
use sip_node::{Algorithm, Counter, Gateways, Notice, Report, Standings};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{CredentialCache, Cursor, Health, SharedLocation};
use wire::{Time, Transport};
use worker_runtime::{RuntimeHandle, monotonic_now};

/// Addresses-of-record looked at in one portion of a listing.
const PORTION: usize = 1_000;

/// Everything about the running server that the control side needs.
pub struct Running {
    pub loaded: Loaded,
    pub overrides: Overrides,
    pub handle: RuntimeHandle<Notice>,
    pub location: Arc<SharedLocation>,
    pub registry: Arc<Registry>,
    pub listeners: Vec<(Transport, SocketAddr, Option<HostPort>)>,
    pub secret: Secret,
    pub gateways: Gateways,
    pub standings: Standings,
    pub routes: Routes,
    pub workers: usize,
    pub grade: Grade,
    pub log: LogHandle,
    pub certificates: Option<Certificates>,
    /// Call records, if they are kept.
    pub records: Option<Remote>,
    pub refusals: Arc<Refusals>,
    pub users: UserBook,
    /// The users, for findings about them.
    pub credentials: Arc<CredentialCache>,
}

/// The control side.
pub struct Control {
    running: Running,
    config: Mutex<Arc<Config>>,
    gateways: Mutex<Gateways>,
    standings: Mutex<Standings>,
    state: AtomicU8,
    started: Time,
    reloads: Reloads,
}

const STATES: [State; 3] = [State::Starting, State::Ready, State::Draining];

impl Control {
    pub fn new(running: Running) -> Control {
        let config = Mutex::new(Arc::new(running.loaded.config.clone()));
        Control {
            gateways: Mutex::new(running.gateways.clone()),
            standings: Mutex::new(running.standings.clone()),
            running,
            config,
            state: AtomicU8::new(0),
            started: monotonic_now(),
            reloads: Reloads::default(),
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&lock(&self.config))
    }

    /// The users in the database.
    pub fn user_book(&self) -> &UserBook {
        &self.running.users
    }

    /// The server answers from now on.
    pub fn ready(&self) {
        // A drain that was asked for already stays.
        let _ = self.state.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The listeners as people write them.
    pub fn listeners(&self) -> Vec<String> {
        self.running.listeners.iter().map(|(t, a, _)| format!("{t}:{a}")).collect()
    }

    /// No new calls or registrations from now on.
    pub fn begin_drain(&self) {
        self.state.store(2, Ordering::Relaxed);
        post_all(&self.running.handle, || Notice::Drain);
    }

    /// Forwarded requests without a final answer.
    pub fn pending(&self) -> usize {
        self.reports().iter().map(|r| r.pending).sum()
    }

    /// Looks whether files of certificates have changed.
    pub fn look_at_certificates(&self) {
        self.running.certificates.iter().for_each(Certificates::look);
    }

    /// How long a request may be under way without an answer: timers B and F (RFC 3261 section 17.1).
    pub fn patience(&self) -> Duration {
        self.config().timers.t1 * 64
    }

    fn state(&self) -> State {
        let at = usize::from(self.state.load(Ordering::Relaxed));
        STATES.get(at).copied().unwrap_or(State::Ready)
    }

    /// What every worker is doing, in numbers.
    fn reports(&self) -> Vec<Report> {
        self.ask(0..self.running.handle.workers(), 0, 0).into_iter().map(|(_, report)| report).collect()
    }

    /// What some workers are doing, each with at most `most` of its calls, from number `from` on.
    fn ask(&self, workers: Range<u16>, from: usize, most: usize) -> Vec<(u16, Report)> {
        operator::ask(&self.running.handle, workers, |show| Notice::Report { from, most, show })
    }

    /// As [`Admin::status`], from reports that are here already.
    fn status_of(&self, reports: &[Report]) -> Status {
        let counts = self.running.handle.counts();
        Status {
            role: Role::Serve(self.own_status(reports)),
            state: self.state(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: monotonic_now().since(self.started).as_secs(),
            workers: self.running.workers,
            steering: self.running.grade.text().into(),
            config_file: self.running.loaded.file.as_ref().map(|f| f.display().to_string()),
            listeners: self.listeners(),
            calls: reports.iter().map(|r| r.call_count as u64).sum(),
            connections: counts.tcp_open,
            messages_received: counts.udp_in + counts.tcp_messages_in,
            messages_sent: counts.udp_out + counts.tcp_messages_out,
            alarms: self.alarms(reports),
        }
    }

    /// What only this kind of server has.
    fn own_status(&self, reports: &[Report]) -> ServeStatus {
        let config = self.config();
        let (aors, bindings, _) = self.running.location.size();
        let sum = |f: fn(&sip_transaction::Counts) -> usize| {
            reports.iter().map(|r| f(&r.transactions)).sum::<usize>() as u64
        };
        ServeStatus {
            domains: config.server.domains.clone(),
            auth: config.auth.enabled,
            logins: config.auth.enabled.then(|| self.logins()),
            registered: aors as u64,
            bindings: bindings as u64,
            server_transactions: sum(|counts| counts.server),
            client_transactions: sum(|counts| counts.client),
            store: self.store_status(),
            overload: self.overload(reports),
            memory: crate::room::memory(reports),
        }
    }

    /// What came of credentials since the start.
    fn logins(&self) -> Logins {
        let total = |counter| self.running.registry.total(counter);
        Logins {
            passed: total(Counter::Authenticated),
            failed: total(Counter::WrongCredentials),
            held_off: total(Counter::Throttled),
        }
    }

    /// Whether new work is refused, in words.
    fn overload(&self, reports: &[Report]) -> String {
        let overloaded: Vec<f32> =
            reports.iter().filter(|r| r.overload.overloaded).map(|r| r.overload.loss).collect();
        let loss = overloaded.iter().sum::<f32>() / overloaded.len().max(1) as f32 * 100.0;
        let own = match (self.config().overload.enabled, overloaded.len()) {
            (false, _) => "not looked for".into(),
            (true, 0) => "none".into(),
            (true, n) => format!("{n} of {} workers refuse {loss:.0} % of new work", self.running.workers),
        };
        own + &asking(reports.iter().flat_map(|report| report.asking.iter().copied()))
    }

    /// What the operator should look at.
    fn alarms(&self, reports: &[Report]) -> Vec<String> {
        let (mut alarms, answering) = (crate::room::alarms(reports), reports.len());
        if let Health::Failing { error, .. } = self.running.location.health() {
            alarms.push(format!("the store cannot be written: {error}"));
        }
        let (handle, workers) = (&self.running.handle, self.running.workers);
        alarms.extend(operator::worker_alarms(handle, workers, answering));
        let short = self.running.handle.short_of_streams();
        alarms.extend(crate::room::streams_alarm(short, monotonic_now(), self.config().limits.connections));
        if !self.config().auth.enabled {
            alarms.push("authentication is off".into());
        }
        let targets = self.targets();
        alarms.extend(trunks::alarms(&targets));
        alarms.extend(lines::alarms(&targets));
        alarms.extend(carriers::alarms(&self.registrations()));
        alarms.extend(self.running.routes.alarm());
        alarms.extend(self.running.certificates.iter().flat_map(Certificates::alarms));
        let records = self.running.records.iter();
        alarms.extend(records.filter_map(|records| super::records::alarm(records.counts())));
        alarms.extend(bugs::alarm());
        alarms
    }

    /// The targets of all lists, as they are.
    fn targets(&self) -> Vec<TrunkTarget> {
        let client = self.running.certificates.as_ref().map(Certificates::client);
        trunks::targets(&self.config(), &lock(&self.gateways), client.as_ref(), monotonic_now())
    }

    /// The registrations at trunks, as they are.
    fn registrations(&self) -> Vec<TrunkTarget> {
        carriers::rows(&self.config(), &lock(&self.standings), monotonic_now())
    }

    /// What the status says, in numbers.
    fn gauges(&self, reports: &[Report], text: &mut Text<'_>) {
        if let Some(records) = &self.running.records {
            super::records::metrics(records.counts(), text);
        }
        let own = self.own_status(reports);
        let calls = reports.iter().map(|report| report.call_count as u64).sum();
        let rows: [(&str, &str, u64); 8] = [
            (
                "strowger_up",
                "1 while the server takes new calls; 0 while it starts or drains, or is about to end.",
                u64::from(self.state() == State::Ready),
            ),
            ("strowger_registered_users", "Addresses-of-record with a binding.", own.registered),
            ("strowger_bindings", "Bindings.", own.bindings),
            ("strowger_calls", "Calls being set up or under way.", calls),
            ("strowger_store_pending", "Changed bindings not yet on disk.", own.store.pending),
            (
                "strowger_store_healthy",
                "1 while changed bindings can be written to disk.",
                u64::from(own.store.healthy),
            ),
            ("strowger_route_rows", "Rows of the route table.", self.running.routes.rows() as u64),
            ("strowger_workers", "Worker threads.", self.running.workers as u64),
        ];
        for (name, help, value) in rows {
            text.family(name, help, Kind::Gauge);
            text.sample(name, &[], value);
        }
    }

    fn store_status(&self) -> StoreStatus {
        let location = &self.running.location;
        let (healthy, detail) = match location.health() {
            Health::Good => (true, "sqlite".to_owned()),
            Health::Failing { error, .. } => (false, format!("sqlite: {error}")),
        };
        StoreStatus { healthy, pending: location.pending() as u64, detail }
    }

    fn try_reload(&self) -> Result<ReloadReport, Vec<ConfigError>> {
        let running = &self.running;
        let Some(file) = running.loaded.file.as_deref() else { return Err(vec![no_file()]) };
        let new = Config::load(Some(file), &running.overrides, METHODS)?;
        refuse_unusable(&new)?;
        plan_reload(&self.config(), &new)?;
        // Files are read before anything is held that others wait for.
        let certificates = running.certificates.as_ref().map(|held| (held, held.prepare(&new.config)));
        let table = running.routes.read(&new)?;
        let passwords = carriers::passwords(&new)?;
        // Held to the end, so that of two reloads at once one comes wholly after the other.
        let mut config = lock(&self.config);
        let mut report = plan_reload(&config, &new)?;
        let settings = build::settings(
            &new.config,
            &running.listeners,
            new.config.admin.listen,
            &running.secret,
            running.workers,
            &lock(&self.gateways),
        );
        let standings = carriers::standings(&new.config, &lock(&self.standings));
        let settings = carriers::with_accounts(settings, &new.config, &passwords, &standings);
        let settings = Arc::new(settings);
        let told =
            post_all(&self.running.handle, || Notice::Renewed(Arc::clone(&settings), Arc::clone(&table)));
        if told < usize::from(running.handle.workers()) {
            let message =
                format!("only {told} of {} workers took the new settings", running.handle.workers());
            let mend = "reload again; until then they differ".to_owned();
            return Err(vec![ConfigError { file: "reload".into(), line: 0, column: 0, message, mend }]);
        }
        // A report comes after the settings in a worker's queue: once all are here, all are in force.
        self.reports();
        running.log.set_level(new.config.log.level);
        if let Some(records) = &running.records {
            records.set_limits(super::records::limits(&new.config));
        }
        if let Some((held, new)) = certificates {
            held.follow(new);
        }
        if running.routes.follow(&new.config, table) && !report.changed.iter().any(|name| name == "routes") {
            report.changed.push("routes".to_owned());
        }
        *config = Arc::new(new.config);
        *lock(&self.gateways) = settings.gateways.clone();
        *lock(&self.standings) = standings;
        Ok(report)
    }
}

impl Admin for Control {
    fn status(&self) -> Status {
        self.status_of(&self.reports())
    }

    fn live(&self) -> Live {
        let reports = self.reports();
        let at = monotonic_now().since(self.started);
        live::of(at, self.status_of(&reports), &reports, &self.running.registry)
    }

    fn ready(&self) -> Result<(), String> {
        match self.state() {
            State::Ready => {}
            other => return Err(other.name().to_owned()),
        }
        let workers = self.running.handle.workers();
        let answering: Vec<u16> = self.ask(0..workers, 0, 0).into_iter().map(|(worker, _)| worker).collect();
        silence(workers, &answering).map_or(Ok(()), Err)
    }

    fn bindings(&self, aor: Option<&str>, page: &Page) -> Option<Listing<Binding>> {
        let now = monotonic_now();
        let mut items = Vec::new();
        if let Some(aor) = aor.map(canonical_aor) {
            self.running.location.lookup(&aor, now, |b| items.push(show_binding(&aor, &b, now)));
            return Some(Listing { items, next: None });
        }
        let mut cursor = page.after.as_deref().map_or(Some(Cursor::default()), parse_cursor)?;
        let mut looked_at = 0;
        loop {
            let portion = PORTION.min(page.limit.max(1));
            let next = self.running.location.list(cursor, portion, now, |aor, b| {
                if searches::takes_binding(&page.search, aor, &b) {
                    items.push(show_binding(aor, &b, now));
                }
            });
            looked_at += portion;
            let is_enough = !page.search.is_empty() && looked_at >= searches::BINDINGS;
            match next {
                None => return Some(Listing { items, next: None }),
                Some(next) if items.len() >= page.limit || is_enough => {
                    let next = Some(format!("{}.{}", next.stripe, next.from));
                    return Some(Listing { items, next });
                }
                Some(next) => cursor = next,
            }
        }
    }

    fn calls(&self, page: &Page) -> Option<Listing<Call>> {
        let after: usize = page.after.as_deref().map_or(Some(0), |after| after.parse().ok())?;
        if !page.search.is_empty() {
            let ask =
                |worker: u16, from, most| self.ask(worker..worker + 1, from, most).pop().map(|(_, r)| r);
            return Some(searches::calls(self.running.handle.workers(), page, after, ask));
        }
        let (mut items, mut skip, one_more) = (Vec::new(), after, page.limit + 1);
        for worker in 0..self.running.handle.workers() {
            for (_, report) in self.ask(worker..worker + 1, skip, one_more - items.len()) {
                skip = skip.saturating_sub(report.call_count);
                items.extend(report.calls.into_iter().map(|call| searches::show_call(call, worker)));
            }
            if items.len() == one_more {
                break;
            }
        }
        let more = items.len() > page.limit;
        items.truncate(page.limit);
        Some(Listing { next: more.then(|| (after + items.len()).to_string()), items })
    }

    fn trunks(&self, page: &Page) -> Option<Listing<TrunkTarget>> {
        let after: usize = page.after.as_deref().map_or(Some(0), |after| after.parse().ok())?;
        let all = self.targets().into_iter().chain(self.registrations());
        let mut rest = all.filter(|target| searches::takes_target(&page.search, target)).skip(after);
        let items: Vec<TrunkTarget> = rest.by_ref().take(page.limit).collect();
        Some(Listing { next: rest.next().map(|_| (after + items.len()).to_string()), items })
    }

    fn number(&self, number: &str) -> Option<NumberRoute> {
        Some(self.running.routes.of_number(&self.config(), &self.targets(), number))
    }

    fn connections(&self, filter: &ConnectionFilter, page: &Page) -> Option<Listing<Connection>> {
        connections::list(&self.running.handle, filter, page)
    }

    fn refused(&self, filter: &RefusedFilter, most: usize) -> Vec<RefusedRequest> {
        self.running.refusals.list(monotonic_now(), filter, most)
    }

    fn certificates(&self) -> Vec<CertificateStatus> {
        self.running.certificates.as_ref().map(Certificates::list).unwrap_or_default()
    }

    fn users(&self) -> Option<&dyn control::admin::Users> {
        Some(self)
    }

    fn reload(&self) -> Result<ReloadReport, Vec<ConfigError>> {
        // Whatever is wrong with the configuration.
        self.running.certificates.iter().for_each(Certificates::look_now);
        let result = self.try_reload();
        self.reloads.note(result.as_ref().map_err(|errors| (&errors[..], "nothing was changed")));
        if result.is_ok() {
            limits::say_findings(&self.config(), &self.running.credentials);
        }
        result
    }

    fn drain(&self) {
        log_events::process::draining_by_request();
        self.begin_drain();
    }

    fn metrics(&self, out: &mut String) {
        self.running.registry.render(out);
        let reports = self.reports();
        let mut text = Text::new(out);
        self.gauges(&reports, &mut text);
        let (_, _, bytes) = self.running.location.size();
        text.family("strowger_location_bytes", "Memory of the location table, bytes, room for growth included; by `strowger_registered_users` it is what a user takes.", Kind::Gauge);
        text.sample("strowger_location_bytes", &[], bytes as u64);
        let overloaded = reports.iter().filter(|r| r.overload.overloaded).count();
        text.family(
            "strowger_overloaded_workers",
            "Workers that refuse new work because of overload.",
            Kind::Gauge,
        );
        text.sample("strowger_overloaded_workers", &[], overloaded as u64);
        let targets = self.targets();
        trunks::metrics(&targets, &mut text);
        lines::metrics(&targets, &mut text);
        carriers::metrics(&self.registrations(), &mut text);
        crate::process::metrics(&mut text);
        transactions(&reports, &mut text);
        crate::room::metrics(&reports, &mut text);
        counters::metrics(&self.running.handle.counts(), &mut text);
        self.running.grade.metric(&mut text);
        counters::reloads(self.reloads.counts(), &mut text);
        certificates::metrics(self.running.certificates.as_ref(), &mut text);
        bugs::metrics(&mut text);
    }
}

fn transactions(reports: &[Report], text: &mut Text<'_>) {
    type Pick = fn(&sip_transaction::Counts) -> u64;
    let sum = |pick: Pick| reports.iter().map(|r| pick(&r.transactions)).sum::<u64>();
    text.family("strowger_transactions", "Transactions alive: `server`, `client`.", Kind::Gauge);
    text.sample("strowger_transactions", &[("side", "server")], sum(|c| c.server as u64));
    text.sample("strowger_transactions", &[("side", "client")], sum(|c| c.client as u64));
    let rows: [(&str, &str, Pick); 11] = [
        ("server_transactions", "Server transactions begun.", |c| c.servers_created),
        ("client_transactions", "Client transactions begun.", |c| c.clients_created),
        ("transactions_refused", "Transactions refused because of a limit.", |c| c.refused),
        (
            "responses_withheld",
            "Responses not sent because they exceed three times what an unproven sender sent.",
            |c| c.withheld,
        ),
        ("requests_absorbed", "Retransmitted requests received.", |c| c.requests_absorbed),
        ("responses_absorbed", "Retransmitted responses received.", |c| c.responses_absorbed),
        ("requests_resent", "Requests sent again.", |c| c.requests_resent),
        ("responses_resent", "Responses sent again.", |c| c.responses_resent),
        ("client_timeouts", "Client transactions that got no final response.", |c| c.client_timeouts),
        ("ack_timeouts", "Failures that were never acknowledged.", |c| c.ack_timeouts),
        (
            "transactions_undeliverable",
            "Messages of transactions that the transport could not deliver.",
            |c| c.undeliverable,
        ),
    ];
    for (name, help, pick) in rows {
        let name = format!("strowger_{name}_total");
        text.family(&name, help, Kind::Counter);
        text.sample(&name, &[], sum(pick));
    }
}

/// Trunks named that ask for less.
const NAMED: usize = 4;

/// Which next hops ask for less, in words that go on after others; nothing if none does. Workers hear of it
/// one by one: the most that any of them heard counts.
fn asking(heard: impl Iterator<Item = (SocketAddr, Algorithm, u32)>) -> String {
    let mut hops: Vec<_> = heard.collect();
    let least = |&(_, algorithm, value): &(SocketAddr, Algorithm, u32)| match algorithm {
        Algorithm::Loss => (1, u32::MAX - value),
        Algorithm::Rate => (0, value),
    };
    hops.sort_by_key(|hop| (hop.0, least(hop)));
    hops.dedup_by_key(|hop| hop.0);
    let named = hops.iter().take(NAMED).map(|(address, algorithm, value)| match algorithm {
        Algorithm::Loss => format!("; {address} asks for {value} % less"),
        Algorithm::Rate => format!("; {address} asks for {value} requests a second at most"),
    });
    let more = match hops.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!("; and {n} more ask for less"),
    };
    named.chain([more]).collect()
}

fn parse_cursor(text: &str) -> Option<Cursor> {
    let (stripe, from) = text.split_once('.')?;
    Some(Cursor { stripe: stripe.parse().ok()?, from: from.parse().ok()? })
}

/// An address-of-record as it is kept, of one as people write it.
fn canonical_aor(written: &str) -> Vec<u8> {
    match written.rsplit_once('@') {
        Some((user, domain)) => {
            [&canonical_user(user.as_bytes())[..], b"@", domain.to_ascii_lowercase().as_bytes()].concat()
        }
        None => written.to_ascii_lowercase().into_bytes(),
    }
}

fn show_binding(aor: &[u8], b: &sip_registrar::BindingView<'_>, now: Time) -> Binding {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let some = |bytes: &[u8]| (!bytes.is_empty()).then(|| text(bytes));
    Binding {
        aor: text(aor),
        contact: text(b.contact),
        q: f32::from(b.q) / 1000.0,
        expires_s: b.expires.since(now).as_secs(),
        received: format!("{}:{}", b.flow.transport, b.flow.remote),
        path: some(b.path),
        instance: some(b.instance),
        user_agent: some(b.user_agent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_less_is_named() {
        let hop = |n: u8| SocketAddr::from(([192, 0, 2, n], 5060));
        let text =
            |heard: &[(u8, Algorithm, u32)]| asking(heard.iter().map(|&(n, by, value)| (hop(n), by, value)));
        assert_eq!(text(&[]), "");
        assert_eq!(
            text(&[
                (2, Algorithm::Rate, 120),
                (1, Algorithm::Loss, 20),
                (1, Algorithm::Loss, 40),
                (2, Algorithm::Rate, 90)
            ]),
            "; 192.0.2.1:5060 asks for 40 % less; 192.0.2.2:5060 asks for 90 requests a second at most"
        );
        let many: Vec<_> = (1..=7).map(|n| (n, Algorithm::Loss, 10)).collect();
        assert!(text(&many).ends_with("; 192.0.2.4:5060 asks for 10 % less; and 3 more ask for less"));
    }

    #[test]
    fn a_mark_of_a_page_is_two_numbers() {
        assert!(parse_cursor("3.17").is_some());
        assert!(["", "3", "x.1", "3.", "3.1.2"].iter().all(|mark| parse_cursor(mark).is_none()));
    }
}
