//! Registrations at trunks (RFC 3261 section 10.2). One worker has all of them.
//!
//! A registration is made at the first of its places that takes it: the registrar that the operator names, or
//! the targets of the trunk in their order. Each REGISTER looks the place up anew, so a registrar that moves
//! is followed. [`Plan`] decides when one leaves and what its answer means.

use super::prober::{is_probe, own_call_id};
use super::resolver::Resolver;
use crate::account::Account;
use crate::services::{RegistrationNews, Services};
use crate::settings::{Settings, Trunk};
use crate::site::{LINE, Site, line_of};
use crate::step::Step;
use core::mem;
use core::time::Duration;
use sip_message::{Message, Method, Scheme, Uri, hex16, push_u64};
use sip_proxy::locate::Destinations;
use sip_proxy::loops::write_branch;
use sip_registration::{FLOOR, Identity, Plan, Register, Rules, Sent, Shown, State, Verdict};
use sip_transaction::{ClientId, ClientRequest, Payer};
use std::sync::Arc;
use wire::{Delivery, Flow, ListenerId, Time};

/// How long an answer of the DNS may take until the question is put again.
const PATIENCE: Duration = Duration::from_secs(5);
/// From the first REGISTER of one trunk to that of the next one, at the start.
const SPREAD: Duration = Duration::from_millis(20);
/// Marks the user of a transaction as one of these.
const MARK: u64 = 1 << 63;

/// One registration.
struct Job {
    number: u32,
    serial: u16,
    account: Arc<Account>,
    /// URIs of registrars, tried in order.
    places: Vec<Vec<u8>>,
    /// The place in use.
    at: usize,
    /// Where that one sends us.
    moved: Option<Vec<u8>>,
    /// What has not taken it since the last success.
    tried: Vec<Flow>,
    /// Where it went last.
    flow: Option<Flow>,
    /// Our Contact in what went there.
    contact: Vec<u8>,
    plan: Plan,
    client: Option<ClientId>,
    call_id: Vec<u8>,
    tag: [u8; 16],
    /// A question to the DNS is open.
    asks: bool,
}

/// The registrations of this server, on the worker that has them.
pub(super) struct Registering {
    jobs: Vec<Job>,
    next_number: u32,
    worker: u16,
    wakes: Time,
    /// The settings may be others than those of the jobs.
    changed: bool,
    draining: bool,
}

impl Registering {
    /// None yet.
    pub fn new(worker: u16) -> Registering {
        Registering {
            jobs: Vec::new(),
            next_number: 0,
            worker,
            wakes: Time::FAR,
            changed: false,
            draining: false,
        }
    }

    /// The trunks may be others now.
    pub fn look(&mut self, settings: &Settings) {
        let registers = |trunk: &Trunk| trunk.account.as_ref().is_some_and(|account| account.rules.is_some());
        let any = !self.jobs.is_empty() || settings.trunks.iter().any(registers);
        if self.worker == 0 && any {
            (self.changed, self.wakes) = (true, Time::ZERO);
        }
    }

    /// The DNS has answered something.
    pub fn name_found(&mut self, now: Time) {
        for job in self.jobs.iter_mut().filter(|job| job.asks) {
            job.plan.postpone(now);
            self.wakes = Time::ZERO;
        }
    }

    /// Ends all of them: the server ends.
    pub fn leave<S: Services>(&mut self, step: &mut Step<'_, S>) {
        self.draining = true;
        self.jobs.iter_mut().for_each(|job| job.leave(step));
        self.wakes = Time::ZERO;
    }

    /// How many are being ended.
    pub fn leaving(&self) -> usize {
        self.jobs.iter().filter(|job| job.plan.is_leaving()).count()
    }

    /// When [`Registering::run`] wants to be called.
    pub const fn wakes(&self) -> Time {
        self.wakes
    }

    /// Sends the REGISTERs whose time has come.
    pub fn run<S: Services>(&mut self, step: &mut Step<'_, S>, resolver: &mut Resolver) {
        if self.wakes > step.now {
            return;
        }
        if mem::take(&mut self.changed) && !self.draining {
            self.follow(step);
        }
        let mut jobs = mem::take(&mut self.jobs);
        for job in &mut jobs {
            job.run(step, resolver, self.worker);
        }
        jobs.retain(|job| !job.plan.is_gone());
        self.wakes = jobs.iter().map(|job| job.plan.wakes()).min().unwrap_or(Time::FAR);
        self.jobs = jobs;
    }

    /// A response to a REGISTER.
    #[cold]
    pub fn answered<S: Services>(&mut self, step: &mut Step<'_, S>, user: u64, response: &Message<'_>) {
        if response.status() >= 200
            && let Some(job) = self.jobs.iter_mut().find(|job| job.user() == user)
        {
            job.answered(step, response);
            self.wakes = Time::ZERO;
        }
    }

    /// A REGISTER was not answered, or the network cannot deliver it.
    #[cold]
    pub fn lost<S: Services>(&mut self, step: &mut Step<'_, S>, user: u64, unreachable: bool) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.user() == user) {
            job.client = None;
            job.note_trouble(step.now, if unreachable { "unreachable" } else { "no response" });
            job.plan.failed(step.now, true, step.random.next());
            self.wakes = Time::ZERO;
        }
    }

    /// Takes over the settings: registrations whose account has changed are ended, and begun anew.
    fn follow<S: Services>(&mut self, step: &mut Step<'_, S>) {
        let settings = Arc::clone(step.site.settings());
        let wanted = |trunk: &Trunk| {
            let account = trunk.account.clone()?;
            let registrar = account.rules.as_ref()?.registrar.clone();
            let places = registrar.map_or_else(|| trunk.targets.clone(), |uri| vec![uri]);
            Some((account, places))
        };
        let mut wanted: Vec<(Arc<Account>, Vec<Vec<u8>>)> =
            settings.trunks.iter().filter_map(wanted).filter(|(_, places)| !places.is_empty()).collect();
        for job in self.jobs.iter_mut().filter(|job| !job.plan.is_leaving()) {
            let same = |(account, places): &(Arc<Account>, Vec<Vec<u8>>)| {
                account.is_same(&job.account) && *places == job.places
            };
            match wanted.iter().position(same) {
                Some(at) => job.account = wanted.swap_remove(at).0,
                None => job.leave(step),
            }
        }
        for (account, places) in wanted {
            let Some(rules) = &account.rules else { continue };
            let begin = step.now + SPREAD * self.jobs.len().min(1_000) as u32;
            let plan = Plan::new(begin, rules.expires);
            let number = self.next_number;
            self.next_number = number.wrapping_add(1) & (u32::MAX >> 1);
            let tag = hex16(step.random.next());
            account.standing.set(None, |shown| *shown = Shown { since: Some(step.now), ..Shown::default() });
            self.jobs.push(Job {
                number,
                serial: 0,
                account,
                places,
                at: 0,
                moved: None,
                tried: Vec::new(),
                flow: None,
                contact: Vec::new(),
                plan,
                client: None,
                call_id: Vec::new(),
                tag,
                asks: false,
            });
        }
    }
}

impl Job {
    /// The user of its transaction.
    fn user(&self) -> u64 {
        MARK | u64::from(self.number) << 32 | u64::from(self.serial)
    }

    /// Where it is to be registered now.
    fn place(&self) -> &[u8] {
        let place = self.places.get(self.at).map_or(&b""[..], |place| place);
        self.moved.as_deref().unwrap_or(place)
    }

    fn leave<S: Services>(&mut self, step: &mut Step<'_, S>) {
        if let Some(client) = self.client.take() {
            step.layer.abandon(client);
        }
        self.plan.leave(step.now);
    }

    fn run<S: Services>(&mut self, step: &mut Step<'_, S>, resolver: &mut Resolver, worker: u16) {
        if self.plan.tick(step.now) {
            self.show(step.now, Some(State::Failing), |_| {});
        }
        // Each of its places once at most.
        for _ in 0..=self.places.len() {
            if !self.plan.is_due(step.now) {
                break;
            }
            if let Some(flow) = self.choose(step, resolver) {
                self.send(step, flow, worker);
                break;
            }
        }
        if self.plan.is_gone() {
            if let Some(client) = self.client.take() {
                step.layer.abandon(client);
            }
            step.site.services().registration(&self.account.trunk, &RegistrationNews::Ended);
        }
    }

    /// The address for the next REGISTER: the one that took the last one, if it is still there. `None`: the
    /// DNS is asked, or the place has no other address.
    fn choose<S: Services>(&mut self, step: &mut Step<'_, S>, resolver: &mut Resolver) -> Option<Flow> {
        if self.plan.is_leaving() {
            // Where it is in force.
            return self.flow;
        }
        self.asks = false;
        let (uri, seed) = (self.place().to_vec(), step.random.next());
        let found = match Uri::parse(&uri) {
            Ok(uri) => resolver.locate_now(step, &uri, false, seed),
            Err(_) => Some(Destinations::new()),
        };
        let Some(found) = found else {
            self.asks = true;
            self.plan.postpone(step.now + PATIENCE);
            return None;
        };
        let settings = step.site.settings();
        let flows = found.as_slice().iter().filter_map(|d| {
            let listener = settings.listener_for(d.transport, d.address, ListenerId(0))?;
            Some(Flow { transport: d.transport, listener, remote: d.address, conn: None })
        });
        let flows: Vec<Flow> = flows.filter(|flow| !self.tried.contains(flow)).collect();
        let known = self.flow.filter(|flow| flows.contains(flow));
        let chosen = known.or_else(|| flows.first().copied());
        if chosen.is_none() {
            self.next_place(step, found.is_empty());
        }
        chosen
    }

    /// The place has no other address.
    fn next_place<S: Services>(&mut self, step: &mut Step<'_, S>, is_nowhere: bool) {
        if is_nowhere {
            self.note_trouble(step.now, "its name leads to no address");
        }
        self.moved = None;
        self.tried.clear();
        self.at += 1;
        let more = self.at < self.places.len();
        if !more {
            self.at = 0;
        }
        self.plan.failed(step.now, more, step.random.next());
        if more {
            return;
        }
        let before = self.account.standing.shown();
        // What is still in force is said to be so.
        let state = self.plan.until().is_none().then_some(State::Failing);
        self.show(step.now, state, |shown| shown.failed += 1);
        if before.state != State::Failing || before.failed == 0 {
            let news = RegistrationNews::Failing { why: self.account.standing.shown().trouble };
            step.site.services().registration(&self.account.trunk, &news);
        }
    }

    fn send<S: Services>(&mut self, step: &mut Step<'_, S>, flow: Flow, worker: u16) {
        if self.call_id.is_empty() {
            // An answer must come to this worker.
            self.call_id = own_call_id(step, worker, b"register-");
        }
        let account = Arc::clone(&self.account);
        let client = step.layer.reserve_client(Payer::PROVEN);
        let rules = account.rules.as_ref();
        let (Some(client), Some(rules)) = (client, rules) else {
            return self.plan.postpone(step.now + FLOOR);
        };
        let Some(names) = Names::of(step.site, self.place(), &self.places, self.at, (rules, flow), &account)
        else {
            step.layer.abandon(client);
            return self.plan.postpone(step.now + FLOOR);
        };
        let mut via = names.via;
        write_branch(&client.encode(), 0, &mut via);
        via.extend_from_slice(b";rport");
        let cseq = self.plan.begin();
        self.serial = cseq as u16;
        let mut credentials = Vec::new();
        let cnonce = step.random.next();
        self.plan.credentials(&account.user, &names.registrar, cnonce, &mut credentials);
        let identity = Identity {
            registrar: &names.registrar,
            aor: &names.aor,
            contact: &names.contact,
            bulk: rules.bulk,
            tag: &self.tag,
            call_id: &self.call_id,
        };
        let expires = self.plan.expires();
        let register = Register { identity, via: &via, cseq, expires, credentials: &credentials };
        let name = step.site.name_at(flow, self.place()).into_owned();
        let request = ClientRequest {
            id: client,
            method: Method::Register,
            flow,
            user: self.user(),
            delivery: Delivery::default(),
            name: &name,
        };
        let sent = step.layer.send_request(step.now, &request, step.out, |buf| register.write(buf));
        invariant::holds!(sent, "the transaction was reserved a moment ago");
        if !self.tried.contains(&flow) {
            self.tried.push(flow);
        }
        (self.client, self.flow, self.contact) = (Some(client), Some(flow), names.contact);
        self.show(step.now, None, |shown| shown.sent += 1);
    }

    fn answered<S: Services>(&mut self, step: &mut Step<'_, S>, response: &Message<'_>) {
        self.client = None;
        let Some(flow) = self.flow else { return };
        let account = Arc::clone(&self.account);
        let secure = flow.transport.is_secure();
        let sent = Sent { contact: &self.contact, secure, login: account.login() };
        let (status, random) = (response.status(), step.random.next());
        let leaving = self.plan.is_leaving();
        let verdict = self.plan.answered(step.now, response, &sent, random);
        let before = account.standing.shown().state;
        match verdict {
            Verdict::Registered(seconds) => {
                self.tried.clear();
                self.show(step.now, Some(State::Registered), |_| {});
                if before != State::Registered {
                    let news = RegistrationNews::Registered { at: flow, seconds };
                    step.site.services().registration(&account.trunk, &news);
                }
            }
            Verdict::Again => self.tried.retain(|tried| *tried != flow),
            Verdict::Moved(uri) => {
                self.moved = Some(uri);
                self.tried.clear();
            }
            Verdict::Elsewhere => {
                self.note_trouble(step.now, &status.to_string());
                self.plan.failed(step.now, true, random);
            }
            Verdict::Refused(why) if !leaving => {
                self.tried.clear();
                self.moved = None;
                self.note_trouble(step.now, why);
                self.show(step.now, Some(State::Refused(status)), |shown| shown.failed += 1);
                let news = RegistrationNews::Refused { at: flow, status, why };
                step.site.services().registration(&account.trunk, &news);
            }
            Verdict::Refused(_) | Verdict::Gone => {}
        }
    }

    fn note_trouble(&self, now: Time, why: &str) {
        if !self.plan.is_leaving() {
            self.show(now, None, |shown| (shown.trouble, shown.trouble_at) = (why.to_owned(), Some(now)));
        }
    }

    /// Says how it is: in this state, or in the same as before.
    fn show(&self, now: Time, state: Option<State>, change: impl FnOnce(&mut Shown)) {
        // Of an account that is left the next registration may speak already.
        if self.plan.is_leaving() {
            return;
        }
        let reached = self.plan.until().and(self.flow).map(|flow| flow.remote.ip());
        self.account.standing.set(reached, |shown| {
            let state = state.unwrap_or(shown.state);
            if state != shown.state || shown.since.is_none() {
                (shown.state, shown.since) = (state, Some(now));
            }
            (shown.until, shown.next) = (self.plan.until(), self.plan.next());
            shown.at = self.flow.map(|flow| (flow.transport, flow.remote));
            shown.realm = self.plan.realm().to_vec();
            change(shown);
        });
    }
}

/// The texts of a REGISTER that depend on where it goes.
struct Names {
    via: Vec<u8>,
    registrar: Vec<u8>,
    aor: Vec<u8>,
    contact: Vec<u8>,
}

impl Names {
    /// Those for a REGISTER to `place`. The domain of the address-of-record is that of the registrar, also
    /// where it sends us elsewhere.
    fn of<S: Services>(
        site: &Site<S>,
        place: &[u8],
        places: &[Vec<u8>],
        at: usize,
        (rules, flow): (&Rules, Flow),
        account: &Account,
    ) -> Option<Names> {
        let listener = site.settings().listener(flow.listener)?;
        let (uri, home) = (Uri::parse(place).ok()?, Uri::parse(places.get(at)?).ok()?);
        let scheme = |uri: &Uri<'_>| if uri.scheme == Scheme::Sips { &b"sips:"[..] } else { b"sip:" };
        let mut registrar = [scheme(&uri), uri.host].concat();
        if let Some(port) = uri.port {
            registrar.push(b':');
            push_u64(port.into(), &mut registrar);
        }
        let aor = [scheme(&home), &rules.user, b"@", home.host].concat();
        let own = listener.record_route_prefix(uri.scheme == Scheme::Sips);
        let own = own.strip_prefix(b"Record-Route: <")?.strip_suffix(b";lr")?;
        let colon = own.iter().position(|&b| b == b':')? + 1;
        let (own_scheme, own_host) = own.split_at(colon);
        let user = if rules.bulk { Vec::new() } else { [&rules.contact[..], b"@"].concat() };
        let line = line_of(site, &account.trunk);
        let contact = [own_scheme, &user, own_host, b";", LINE, b"=", &line].concat();
        Some(Names { via: listener.via_prefix().to_vec(), registrar, aor, contact })
    }
}

/// Whether the user of a client transaction is a registration.
pub(super) const fn is_registration(user: u64) -> bool {
    is_probe(user) && user & MARK != 0
}
