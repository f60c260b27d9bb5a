//! All sections together: the configuration.

use super::error::Fault;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{self, Checks, Described};
use super::types::{Listener, Target};
use super::{
    AdminAccess, Auth, Balance, Caller, Class, Dns, Domain, Emergency, Forwarding, Limits, Log, Overload,
    Proxy, Records, Registrar, Route, RouteFile, Sctp, Server, Store, Timers, Tls, Trunk, Voicemail,
    WebSocket, caller, carrier, class, domain, route, trunk,
};
use std::net::IpAddr;

/// The whole configuration. Immutable once built: a reload builds a new one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The keys at the top of the file.
    pub server: Server,
    /// Certificates, and who is believed.
    pub tls: Tls,
    /// What WebSocket listeners accept.
    pub websocket: WebSocket,
    /// Associations of SCTP.
    pub sctp: Sctp,
    /// Digest authentication.
    pub auth: Auth,
    /// The registrar.
    pub registrar: Registrar,
    /// Forwarding.
    pub proxy: Proxy,
    /// Where unanswered calls go, if anywhere.
    pub voicemail: Option<Voicemail>,
    /// Calls that users have forwarded.
    pub forwarding: Forwarding,
    /// `[emergency]`; without it emergency calls are like any other.
    pub emergency: Option<Emergency>,
    /// Other servers that calls are exchanged with.
    pub trunks: Vec<Trunk>,
    /// Static routes, first match wins.
    pub routes: Vec<Route>,
    /// What groups of callers may call.
    pub classes: Vec<Class>,
    /// What is particular to domains of this server.
    pub domain_rules: Vec<Domain>,
    /// The numbers of users.
    pub callers: Vec<Caller>,
    /// The route table.
    pub route_file: RouteFile,
    /// Call records.
    pub records: Records,
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

/// Every section, in the order of the reference page.
pub(super) fn sections() -> Vec<Described> {
    vec![
        Described::of::<Server>(false),
        Described::of::<Tls>(false),
        Described::of::<WebSocket>(false),
        Described::of::<Sctp>(false),
        Described::of::<Auth>(false),
        Described::of::<Registrar>(false),
        Described::of::<Proxy>(false),
        Described::of::<Voicemail>(false),
        Described::of::<Forwarding>(false),
        Described::of::<Emergency>(false),
        Described::of::<Trunk>(true),
        Described::of::<Route>(true),
        Described::of::<Class>(true),
        Described::of::<Domain>(true),
        Described::of::<Caller>(true),
        Described::of::<RouteFile>(false),
        Described::of::<Records>(false),
        Described::of::<Timers>(false),
        Described::of::<Limits>(false),
        Described::of::<Overload>(false),
        Described::of::<Dns>(false),
        Described::of::<AdminAccess>(false),
        Described::of::<Log>(false),
        Described::of::<Store>(false),
        Described::of::<Balance>(false),
    ]
}

/// Does something with each section that every configuration has, and the same section of another one.
pub(super) trait Visit {
    fn section<S: Checks>(&mut self, here: &S, there: &S);
}

impl Config {
    /// Visits the sections that every configuration has, in the order in which they are shown.
    pub(super) fn visit(&self, there: &Config, visit: &mut impl Visit) {
        // Taken apart in full, so that a new section cannot be forgotten here.
        let Config {
            server,
            tls,
            websocket,
            sctp,
            auth,
            registrar,
            proxy,
            forwarding,
            route_file,
            records,
            timers,
            limits,
            overload,
            dns,
            admin,
            log,
            store,
            balance,
            voicemail: _,
            emergency: _,
            trunks: _,
            routes: _,
            classes: _,
            domain_rules: _,
            callers: _,
        } = self;
        visit.section(server, &there.server);
        visit.section(tls, &there.tls);
        visit.section(websocket, &there.websocket);
        visit.section(sctp, &there.sctp);
        visit.section(auth, &there.auth);
        visit.section(registrar, &there.registrar);
        visit.section(proxy, &there.proxy);
        visit.section(forwarding, &there.forwarding);
        visit.section(route_file, &there.route_file);
        visit.section(records, &there.records);
        visit.section(timers, &there.timers);
        visit.section(limits, &there.limits);
        visit.section(overload, &there.overload);
        visit.section(dns, &there.dns);
        visit.section(admin, &there.admin);
        visit.section(log, &there.log);
        visit.section(store, &there.store);
        visit.section(balance, &there.balance);
    }
}

/// Appends sections as TOML.
struct Render(String);

impl Render {
    fn add<S: Checks>(&mut self, section: &S, repeated: bool) {
        let header = Described::of::<S>(repeated).header();
        if !header.is_empty() {
            self.0.extend(["\n", &header, "\n"]);
        }
        schema::render(section, &mut self.0);
    }
}

impl Visit for Render {
    fn section<S: Checks>(&mut self, here: &S, _: &S) {
        self.add(here, false);
    }
}

impl Config {
    /// The configuration in force as a file that would produce it again. It holds no secret: those
    /// are in files that it only names.
    pub fn render_effective(&self) -> String {
        let mut out = Render(String::new());
        self.visit(self, &mut out);
        if let Some(voicemail) = &self.voicemail {
            out.add(voicemail, false);
        }
        if let Some(emergency) = &self.emergency {
            out.add(emergency, false);
        }
        for trunk in &self.trunks {
            out.add(trunk, true);
        }
        for route in &self.routes {
            out.add(route, true);
        }
        for class in &self.classes {
            out.add(class, true);
        }
        for domain in &self.domain_rules {
            out.add(domain, true);
        }
        for caller in &self.callers {
            out.add(caller, true);
        }
        out.0
    }
}

/// Every section in turn; each reports its own faults and leaves defaults behind.
pub(super) fn read(reader: &mut Reader<'_>, mut top: Section<'_, '_>, context: &Context<'_>) -> Config {
    let server: Server = schema::read(&mut top, reader, context);
    let context = &Context { server: &server, ..*context };
    let tls = one(reader, &mut top, context);
    let context = &Context { tls: &tls, ..*context };
    let (classes, named) = class::classes(reader, &mut top, context);
    let names: Vec<String> = classes.iter().map(|class| class.name.clone()).collect();
    let context = &Context { classes: &names, ..*context };
    let routes = route::routes(reader, &mut top, context);
    let voicemail: Option<Voicemail> = written(reader, &mut top, context);
    let emergency: Option<Emergency> = written(reader, &mut top, context);
    let listed = routes.iter().flat_map(|route| &route.targets);
    let listed = listed.chain(voicemail.iter().map(|voicemail| &voicemail.target));
    let listed: Vec<&Target> = listed.chain(emergency.iter().flat_map(|e| &e.targets)).collect();
    let route_file: RouteFile = one(reader, &mut top, context);
    let trunks = trunk::trunks(reader, &mut top, context, (&listed, route_file.file.is_some()));
    class::check_trunks(reader, &named, &trunks);
    let config = Config {
        websocket: one(reader, &mut top, context),
        sctp: one(reader, &mut top, context),
        auth: one(reader, &mut top, context),
        registrar: one(reader, &mut top, context),
        proxy: one(reader, &mut top, context),
        forwarding: one(reader, &mut top, context),
        voicemail,
        emergency,
        route_file,
        records: one(reader, &mut top, context),
        timers: one(reader, &mut top, context),
        limits: one(reader, &mut top, context),
        overload: one(reader, &mut top, context),
        dns: one(reader, &mut top, context),
        admin: one(reader, &mut top, context),
        log: one(reader, &mut top, context),
        store: one(reader, &mut top, context),
        balance: one(reader, &mut top, context),
        domain_rules: domain::domains(reader, &mut top, context),
        callers: caller::callers(reader, &mut top, context),
        trunks,
        routes,
        classes,
        tls: tls.clone(),
        server: server.clone(),
    };
    across(reader, &top, &config, context);
    top.finish(reader);
    config
}

/// A section that counts only if it is written.
fn written<S: Checks>(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    context: &Context<'_>,
) -> Option<S> {
    let read = one(reader, top, context);
    top.has(S::NAME).then_some(read)
}

/// One section.
fn one<S: Checks>(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, context: &Context<'_>) -> S {
    let mut section = top.section(reader, S::NAME, S::NAME);
    let read = schema::read(&mut section, reader, context);
    section.finish(reader);
    read
}

/// What only shows when all sections are known.
fn across(reader: &mut Reader<'_>, top: &Section<'_, '_>, config: &Config, context: &Context<'_>) {
    let clash = config.admin.listen.filter(|admin| {
        let other = [wire::Transport::Udp, wire::Transport::Sctp];
        let tcp = |l: &&Listener| !other.contains(&l.transport) && admin.port() != 0;
        config.server.listen.iter().filter(tcp).any(|l| {
            let wide = l.address.ip().is_unspecified() && l.address.is_ipv4() == admin.is_ipv4();
            l.address.port() == admin.port() && (l.address.ip() == admin.ip() || wide)
        })
    });
    if let Some(address) = clash {
        let fault = Fault::new(format!("a listener takes the admin address {address}"), "move one of them");
        let over = context.overrides;
        match (over.admin.is_some(), over.listen.is_empty()) {
            (true, _) => reader.option_error("--admin", fault),
            (false, false) => reader.option_error("--listen", fault),
            (false, true) => reader.error(&top.span_of("listen"), fault),
        }
    }
    config.records.check_proxy(reader, top, &config.proxy);
    trunk::check_identities(reader, top, &config.trunks, &config.proxy);
    carrier::check_mode(reader, top, &config.trunks, &config.proxy);
    super::capacity::check_limits(reader, top, &config.trunks, &config.proxy);
    super::tls::check_listeners(reader, top, (&config.tls, &config.server), context.overrides);
    let dialled = config.emergency.iter().flat_map(|emergency| &emergency.numbers);
    for number in dialled.filter(|number| config.routes.iter().any(|r| r.user.as_ref() == Some(*number))) {
        let message = format!("a route for user \"{number}\" is not used: [emergency] comes first");
        reader.warn(&top.span_of("emergency"), Fault::new(message, "remove one of them"));
    }
    class::check_across(reader, top, config);
    warn_of_unreached_domains(reader, top, config, context);
    for alias in &config.server.aliases {
        if config.server.domains.contains(alias) {
            let fault = Fault::new(format!("\"{alias}\" is already a domain"), "remove it from aliases");
            reader.warn(&top.span_of("aliases"), fault);
        }
    }
}

/// Warns of domains that are addresses at which nothing listens. A proxy in front may have such an address.
fn warn_of_unreached_domains(
    reader: &mut Reader<'_>,
    top: &Section<'_, '_>,
    config: &Config,
    context: &Context<'_>,
) {
    if !config.auth.fronts.is_empty() {
        return;
    }
    let server = &config.server;
    for domain in &server.domains {
        let Ok(address) = domain.trim_matches(['[', ']']).parse::<IpAddr>() else { continue };
        let is_reached = |l: &Listener| {
            let ip = l.address.ip();
            let is_wide = ip.is_unspecified() && ip.is_ipv4() == address.is_ipv4();
            let is_advertised = l.advertise.as_ref().is_some_and(|shown| shown.host == *domain);
            is_wide || ip == address || is_advertised
        };
        if server.listen.iter().any(is_reached) {
            continue;
        }
        let message = format!("no listener is at the served domain {domain}");
        let mend = format!("add a listener at {domain} to `listen`, or set `advertise` to it");
        let fault = Fault::new(message, mend);
        match context.overrides.domains.is_empty() {
            true => reader.warn(&top.span_of("domains"), fault),
            false => reader.option_warn("--domain", fault),
        }
    }
}
