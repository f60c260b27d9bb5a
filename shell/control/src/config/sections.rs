//! The sections with a fixed set of keys.

use super::error::{Fault, closest};
use super::load::Context;
use super::reader::{At, Reader, Section};
use super::types::*;
use super::values::*;
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeValue;

/// The longest expiry the protocol can carry (RFC 3261 20.19), seconds.
const FOREVER: u64 = u32::MAX as u64;

/// The highest number that a CPU can have in a set of the C library's size.
const LAST_CPU: u64 = 1023;

/// A day, the longest that any time-out may be.
const DAY: Duration = Duration::from_secs(86_400);

/// The values without their places.
fn plain_values<T>(list: Option<Vec<At<T>>>) -> Option<Vec<T>> {
    list.map(|list| list.into_iter().map(|at| at.value).collect())
}

/// Reports every value that stands in the list twice.
pub(super) fn no_twice<T: PartialEq>(reader: &mut Reader<'_>, list: &[At<T>], what: &str) {
    for (i, at) in list.iter().enumerate() {
        if let Some(first) = list.iter().take(i).find(|other| other.value == at.value) {
            let (line, column) = reader.place(first.span.start);
            let mend = format!("the first is at {line}:{column}; remove one");
            reader.error(&at.span, Fault::new(format!("duplicate {what}"), mend));
        }
    }
}

/// The keys outside all sections.
pub(super) fn top(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    config: &mut Config,
    context: &Context<'_>,
) {
    if let Some(list) = section.list(reader, "domains", text(domain)) {
        no_twice(reader, &list, "domain");
        for At { value, span } in list.iter().filter(|at| is_digits(&at.value)) {
            let mend = "right for cameras of GB/T 28181; otherwise write a host name or an address";
            reader.warn(span, Fault::new(format!("domain \"{value}\" is no host name"), mend));
        }
        config.domains = plain_values(Some(list)).unwrap_or_default();
    }
    if let Some(list) = section.list(reader, "aliases", text(host)) {
        no_twice(reader, &list, "alias");
        config.aliases = plain_values(Some(list)).unwrap_or_default();
    }
    section.set(reader, "workers", &mut config.workers, number(0..=1024));
    section.set(reader, "steering", &mut config.steering, choice(Steering::ALL));
    section.set(reader, "pin", &mut config.pin, pin);
    let longest = Duration::from_millis(10);
    section.set(reader, "busy_poll", &mut config.busy_poll, duration(Duration::ZERO..=longest));
    section.set(reader, "udp_segmentation", &mut config.udp_segmentation, choice(Segmentation::ALL));
    section.set(reader, "data_dir", &mut config.data_dir, text(path));
    let over = context.overrides;
    if !over.domains.is_empty() {
        config.domains.clear();
        for written in &over.domains {
            match domain(written) {
                Ok(name) if config.domains.contains(&name) => {}
                Ok(name) => config.domains.push(name),
                Err(fault) => reader.option_error("--domain", fault),
            }
        }
    }
    if let Some(workers) = over.workers {
        config.workers = workers;
        if workers > 1024 {
            reader.option_error("--workers", Fault::new("out of range", "from 0 to 1024"));
        }
    }
    if let Some(written) = &over.steering {
        match Steering::ALL.iter().find(|(name, _)| name == written) {
            Some((_, steering)) => config.steering = *steering,
            None => {
                let fault = Fault::new("unknown value", "one of auto, kernel, ring");
                reader.option_error("--steering", fault);
            }
        }
    }
    if let Some(dir) = &over.data_dir {
        config.data_dir.clone_from(dir);
    }
    listeners(reader, section, config, context);
}

/// `"auto"`, `"off"`, or numbers of CPUs.
fn pin(value: &DeValue<'_>) -> Result<Pin, Fault> {
    let mend = "\"auto\", \"off\", or a list of CPU numbers such as [0, 2]";
    match value {
        DeValue::String(text) if text == "auto" => Ok(Pin::Auto),
        DeValue::String(text) if text == "off" => Ok(Pin::Off),
        DeValue::Array(list) if !list.is_empty() && list.len() <= 1024 => {
            let one = number(0..=LAST_CPU);
            list.iter().map(|cpu| one(cpu.get_ref())).collect::<Result<_, _>>().map(Pin::Cpus)
        }
        _ => Err(Fault::new("no placement of workers", mend)),
    }
}

/// A path, which must say something.
pub(super) fn path(written: &str) -> Result<PathBuf, Fault> {
    if written.contains("://") {
        return Err(Fault::new(OTHER_DATABASES, "write a folder's name"));
    }
    match written.is_empty() || written.contains('\0') {
        true => Err(Fault::new("not a path", "")),
        false => Ok(PathBuf::from(written)),
    }
}

/// `listen` and `advertise`.
fn listeners(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    config: &mut Config,
    context: &Context<'_>,
) {
    let faults = reader.errors.len();
    let from_file = section.list(reader, "listen", text(listener));
    let over = &context.overrides.listen;
    let mut chosen = Vec::new();
    for written in over {
        match listener(written) {
            Ok(one) if one.1.port() != 0 && chosen.contains(&one) => {
                let fault = Fault::new(format!("duplicate listener \"{written}\""), "remove one");
                reader.option_error("--listen", fault);
            }
            Ok(one) => chosen.push(one),
            Err(fault) => reader.option_error("--listen", fault),
        }
    }
    if let Some(list) = from_file {
        if list.is_empty() && over.is_empty() && reader.errors.len() == faults {
            let mend = "name at least one, or leave the key out for UDP and TCP on port 5060";
            reader.error(&section.span_of("listen"), Fault::new("no listener", mend));
        }
        // Port 0 is a different port each time.
        let fixed: Vec<_> = list.iter().filter(|at| at.value.1.port() != 0).cloned().collect();
        no_twice(reader, &fixed, "listener");
        if over.is_empty() {
            chosen = list.into_iter().map(|at| at.value).collect();
        }
    }
    if !chosen.is_empty() {
        let plain = |(transport, address)| Listener { transport, address, advertise: None, optional: false };
        config.listen = chosen.into_iter().map(plain).collect();
    }
    advertise(reader, section, config, over.is_empty());
}

/// `advertise = "host:port"` for all listeners, or a table from listener to `host:port`.
fn advertise(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, config: &mut Config, strict: bool) {
    let is_table = |value: &DeValue<'_>| Ok(matches!(value, DeValue::Table(_)));
    let Some(table) = section.read(reader, "advertise", is_table) else { return };
    if !table.value {
        if let Some(at) = section.read(reader, "advertise", text(reachable)) {
            for listener in &mut config.listen {
                listener.advertise = Some(at.value.clone());
            }
        }
        return;
    }
    let table = section.section(reader, "advertise", "advertise");
    for (key, value, value_span) in table.entries() {
        let advertised = match text(reachable)(value) {
            Ok(advertised) => advertised,
            Err(fault) => {
                reader.error(&value_span, fault);
                continue;
            }
        };
        let meant = listener(key.value);
        let found =
            config.listen.iter_mut().find(|l| meant.as_ref().is_ok_and(|m| *m == (l.transport, l.address)));
        match (found, meant) {
            (Some(listener), _) => listener.advertise = Some(advertised),
            (None, Err(fault)) => reader.error(&key.span, fault),
            // The command line may have replaced the list that this table was written for.
            (None, Ok(_)) if strict => {
                let all: Vec<String> = config.listen.iter().map(|l| format!("\"{l}\"")).collect();
                let message = format!("\"{}\" is not among the listeners", shown(key.value));
                let mend = format!("one of {}", all.join(", "));
                reader.error(&key.span, Fault::new(message, mend));
            }
            (None, Ok(_)) => {}
        }
    }
}

/// What may stand in messages as our address.
fn reachable(written: &str) -> Result<HostPort, Fault> {
    let advertised = host_port(written)?;
    if matches!(advertised.host.as_str(), "0.0.0.0" | "[::]") {
        return Err(Fault::new("nobody can send to this address", "write the address that others use"));
    }
    Ok(advertised)
}

/// `[auth]`.
pub(super) fn auth(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    auth: &mut Auth,
    context: &Context<'_>,
) {
    section.set(reader, "enabled", &mut auth.enabled, flag);
    if let Some(on) = context.overrides.auth {
        auth.enabled = on;
    }
    if let Some(list) = section.list(reader, "challenge", text(token)) {
        auth.challenge = challenge(reader, section, list, context.methods);
    }
    if let Some(at) = section.read(reader, "realm", text(plain)) {
        auth.realm = Some(at.value);
    }
    let faults = reader.errors.len();
    if let Some(list) = section.list(reader, "algorithms", choice(Algorithm::ALL)) {
        no_twice(reader, &list, "algorithm");
        if list.is_empty() && reader.errors.len() == faults {
            let fault = Fault::new("no algorithm", "to switch authentication off, write enabled = false");
            reader.error(&section.span_of("algorithms"), fault);
        }
        auth.algorithms = list.into_iter().map(|at| at.value).collect();
        if auth.enabled && auth.algorithms.len() > 1 {
            let message = "several algorithms: a challenge has a header field for each, and some phones (baresip 1.0) give up";
            let mend = "try each kind of phone, or keep one algorithm; see docs/guide/passwords.md";
            reader.warn(&section.span_of("algorithms"), Fault::new(message, mend));
        }
    }
    section.set(reader, "require_qop", &mut auth.require_qop, flag);
    section.set(reader, "nonce_lifetime", &mut auth.nonce_lifetime, seconds(1..=86_400));
    section.set(reader, "bind_from", &mut auth.bind_from, flag);
    section.set(reader, "in_dialog", &mut auth.in_dialog, flag);
    if let Some(list) = section.list(reader, "fronts", text(cidr)) {
        no_twice(reader, &list, "front");
        for At { value, span } in list.iter().filter(|at| at.value.length == 0) {
            let message = format!("{value} would have every sender write where its wrong answers count");
            reader.error(
                span,
                Fault::new(message, "list the addresses of the proxies in front of this server"),
            );
        }
        auth.fronts = list.into_iter().map(|at| at.value).collect();
    }
    if !auth.enabled {
        let fault = Fault::new("authentication is off: anyone may register and call as anyone", "");
        match context.overrides.auth {
            Some(_) => reader.option_warn("--auth", fault),
            None => reader.warn(&section.span_of("enabled"), fault),
        }
    }
}

/// `challenge`: a list of methods, or `["*"]` for all.
fn challenge(
    reader: &mut Reader<'_>,
    section: &Section<'_, '_>,
    list: Vec<At<String>>,
    methods: &[&str],
) -> Challenge {
    no_twice(reader, &list, "method");
    if list.iter().any(|at| at.value == "*") {
        if list.len() > 1 {
            let fault = Fault::new("\"*\" already means every method", "leave the others out");
            reader.error(&section.span_of("challenge"), fault);
        }
        return Challenge::All;
    }
    if list.is_empty() {
        let fault = Fault::new("no method is challenged: authentication is off in effect", "");
        reader.warn(&section.span_of("challenge"), fault);
    }
    known_methods(reader, &list, methods);
    Challenge::Only(list.into_iter().map(|at| at.value).collect())
}

/// Reports methods that this server does not know.
fn known_methods(reader: &mut Reader<'_>, list: &[At<String>], methods: &[&str]) {
    for at in list {
        let name = at.value.as_str();
        if methods.is_empty() || name == "*" || methods.contains(&name) {
            continue;
        }
        match closest(name, methods.iter().copied()) {
            // A slip of the pen here would leave a method open that was meant to be closed.
            Some(meant) => {
                let fault =
                    Fault::new(format!("unknown method `{name}`"), format!("did you mean `{meant}`?"));
                reader.error(&at.span, fault);
            }
            None => {
                let fault = Fault::new(format!("`{name}` is a method this server does not know"), "");
                reader.warn(&at.span, fault);
            }
        }
    }
}

/// `[registrar]`.
pub(super) fn registrar(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, registrar: &mut Registrar) {
    section.set(reader, "min_expires", &mut registrar.min_expires, seconds(1..=FOREVER));
    section.set(reader, "max_expires", &mut registrar.max_expires, seconds(1..=FOREVER));
    section.set(reader, "default_expires", &mut registrar.default_expires, seconds(1..=FOREVER));
    section.set(reader, "max_bindings", &mut registrar.max_bindings, number(1..=1000));
    let uri = |written: &str| target(written).map(|target| target.uri);
    if let Some(list) = plain_values(section.list(reader, "service_route", text(uri))) {
        registrar.service_route = list;
    }
    let Registrar { min_expires, max_expires, default_expires, .. } = *registrar;
    if min_expires > max_expires {
        let at = if section.has("min_expires") { "min_expires" } else { "max_expires" };
        let message = format!(
            "min_expires ({}) is above max_expires ({})",
            show_duration(min_expires),
            show_duration(max_expires)
        );
        reader.error(&section.span_of(at), Fault::new(message, "swap them or move one"));
    } else if section.has("default_expires") && !(min_expires..=max_expires).contains(&default_expires) {
        let message = format!("default_expires ({}) is outside the limits", show_duration(default_expires));
        let mend = format!("from {} to {}", show_duration(min_expires), show_duration(max_expires));
        reader.error(&section.span_of("default_expires"), Fault::new(message, mend));
    } else {
        // Limits moved without the default: the default follows.
        registrar.default_expires = default_expires.clamp(min_expires, max_expires);
    }
}

/// `[proxy]`.
pub(super) fn proxy(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    proxy: &mut Proxy,
    context: &Context<'_>,
) {
    section.set(reader, "mode", &mut proxy.mode, choice(ProxyMode::ALL));
    section.set(reader, "fork", &mut proxy.fork, choice(Fork::ALL));
    section.set(reader, "record_route", &mut proxy.record_route, flag);
    section.set(reader, "recurse_redirects", &mut proxy.recurse_redirects, flag);
    section.set(reader, "max_breadth", &mut proxy.max_breadth, number(1..=1000));
    section.set(reader, "max_forwards", &mut proxy.max_forwards, number(1..=255));
    section.set(reader, "timer_c", &mut proxy.timer_c, duration(Duration::from_secs(1)..=DAY));
    section.set(reader, "mtu", &mut proxy.mtu, number(576..=65_535));
    section.set(reader, "strangers", &mut proxy.strangers, choice(Strangers::ALL));
    if let Some(list) = section.list(reader, "stranger_methods", text(token)) {
        no_twice(reader, &list, "method");
        known_methods(reader, &list, context.methods);
        proxy.stranger_methods = list.into_iter().map(|at| at.value).collect();
    }
    if proxy.timer_c <= Duration::from_secs(180) {
        let message = format!("timer_c ({}) is shorter than RFC 3261 allows", show_duration(proxy.timer_c));
        let fault = Fault::new(message, "calls that ring longer are cancelled; more than 180s");
        reader.warn(&section.span_of("timer_c"), fault);
    }
}

/// `[voicemail]`; without a target there is none.
pub(super) fn voicemail(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    written: bool,
) -> Option<Voicemail> {
    let faults = reader.errors.len();
    let target = section.read(reader, "target", text(target));
    let mut on =
        vec![Divert::Busy, Divert::NoAnswer, Divert::Rejected, Divert::Unregistered, Divert::Unreachable];
    if let Some(list) = section.list(reader, "on", choice(Divert::ALL)) {
        no_twice(reader, &list, "reason");
        on = list.into_iter().map(|at| at.value).collect();
    }
    let mut no_answer_timeout = Duration::from_secs(20);
    let range = Duration::from_secs(1)..=Duration::from_secs(3600);
    section.set(reader, "no_answer_timeout", &mut no_answer_timeout, duration(range));
    let mut silent_after = SILENT_AFTER;
    section.set(reader, "silent_after", &mut silent_after, silence());
    if written && target.is_none() && reader.errors.len() == faults {
        let mend = "add target = \"sip:voicemail@192.0.2.1\", or remove the section";
        reader.error(section.span(), Fault::new("voicemail without target", mend));
    }
    target.map(|target| Voicemail { target: target.value, on, no_answer_timeout, silent_after })
}

/// `"auto"`, or a length of time up to 200 ms (RFC 3261 section 17.2.1).
fn trying(value: &DeValue<'_>) -> Result<Trying, Fault> {
    match value {
        DeValue::String(text) if text == "auto" => Ok(Trying::Learned),
        _ => {
            duration(Duration::ZERO..=Duration::from_millis(200))(value).map(Trying::After).map_err(|fault| {
                let mend = format!("\"auto\", or: {}", fault.mend);
                Fault { mend, ..fault }
            })
        }
    }
}

/// `[timers]`.
pub(super) fn timers(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, timers: &mut Timers) {
    let range = || Duration::from_millis(10)..=Duration::from_secs(60);
    section.set(reader, "t1", &mut timers.t1, duration(range()));
    section.set(reader, "t2", &mut timers.t2, duration(range()));
    section.set(reader, "t4", &mut timers.t4, duration(range()));
    section.set(reader, "trying", &mut timers.trying, trying);
    if timers.t2 < timers.t1 {
        let message = format!("t2 ({}) is below t1 ({})", show_duration(timers.t2), show_duration(timers.t1));
        let at = if section.has("t2") { "t2" } else { "t1" };
        reader.error(&section.span_of(at), Fault::new(message, "t2 is the longest interval, t1 the first"));
    }
}

/// `[limits]`.
pub(super) fn limits(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, limits: &mut Limits) {
    const MANY: u64 = 1 << 30;
    // RFC 3261 18.1.1: messages of up to 65,535 octets must be accepted over UDP; less is for tests.
    section.set(reader, "message_bytes", &mut limits.message_bytes, number(1300..=(16 << 20)));
    section.set(reader, "headers", &mut limits.headers, number(16..=10_000));
    section.set(reader, "transactions", &mut limits.transactions, auto(number(16..=MANY)));
    section.set(reader, "calls", &mut limits.calls, auto(number(1..=MANY)));
    section.set(reader, "memory_mib", &mut limits.memory_mib, auto(number(64..=MANY)));
    section.set(reader, "connections", &mut limits.connections, number(1..=MANY));
    section.set(reader, "connections_per_source", &mut limits.connections_per_source, number(1..=MANY));
    let range = || Duration::from_millis(100)..=DAY;
    section.set(reader, "tcp_head_timeout", &mut limits.tcp_head_timeout, duration(range()));
    section.set(reader, "tcp_idle_timeout", &mut limits.tcp_idle_timeout, duration(range()));
}

/// `[overload]`.
pub(super) fn overload(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, overload: &mut Overload) {
    section.set(reader, "enabled", &mut overload.enabled, flag);
    // One round of a worker counts for 50 ms at most, and is no overload.
    let range = Duration::from_millis(60)..=Duration::from_secs(10);
    section.set(reader, "delay", &mut overload.delay, duration(range));
    section.set(reader, "retry_after", &mut overload.retry_after, seconds(1..=3_600));
    section.set(reader, "feedback", &mut overload.feedback, flag);
    section.set(reader, "kernel", &mut overload.kernel, flag);
}

/// `[dns]`.
pub(super) fn dns(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, dns: &mut Dns) {
    if let Some(list) = section.list(reader, "servers", text(dns_server)) {
        no_twice(reader, &list, "server");
        dns.servers = list.into_iter().map(|at| at.value).collect();
    }
    let range = Duration::from_millis(50)..=Duration::from_secs(60);
    section.set(reader, "timeout", &mut dns.timeout, duration(range));
    section.set(reader, "cache", &mut dns.cache, number(0..=10_000_000));
}

/// `[admin]`.
pub(super) fn admin(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    admin: &mut AdminAccess,
    context: &Context<'_>,
) {
    section.set(reader, "listen", &mut admin.listen, text(admin_listener));
    section.set(reader, "allow_remote", &mut admin.allow_remote, flag);
    if let Some(list) = plain_values(section.list(reader, "hosts", text(host))) {
        admin.hosts = list;
    }
    if let Some(at) = section.read(reader, "token_file", text(path)) {
        admin.token_file = Some(at.value);
    }
    let mut option = None;
    if let Some(written) = &context.overrides.admin {
        option = Some("--admin");
        match admin_listener(written) {
            Ok(listen) => admin.listen = listen,
            Err(fault) => return reader.option_error("--admin", fault),
        }
    }
    let Some(address) = admin.listen.filter(|address| !address.ip().to_canonical().is_loopback()) else {
        return;
    };
    if admin.allow_remote {
        let safe = if admin.token_file.is_some() { "" } else { "set token_file, or anyone may drain it" };
        let message = format!("the admin API listens on {address}, which other machines may reach");
        let fault = Fault::new(message, safe);
        return match option {
            Some(option) => reader.option_warn(option, fault),
            None => reader.warn(&section.span_of("listen"), fault),
        };
    }
    let fault = Fault::new(
        format!("the admin API would listen on {address}, which other machines may reach"),
        "use a loopback address, or set allow_remote = true in [admin] of the configuration file (--config FILE)",
    );
    match option {
        Some(option) => reader.option_error(option, fault),
        None => reader.error(&section.span_of("listen"), fault),
    }
}

/// What only shows when all sections are known.
pub(super) fn across(reader: &mut Reader<'_>, top: &Section<'_, '_>, config: &Config, context: &Context<'_>) {
    let clash = config.admin.listen.filter(|admin| {
        let tcp = |l: &&Listener| l.transport == wire::Transport::Tcp && admin.port() != 0;
        config.listen.iter().filter(tcp).any(|l| {
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
    let dialled = config.emergency.iter().flat_map(|emergency| &emergency.numbers);
    for number in dialled.filter(|number| config.routes.iter().any(|r| r.user.as_ref() == Some(*number))) {
        let message = format!("a route for user \"{number}\" is not used: [emergency] comes first");
        reader.warn(&top.span_of("emergency"), Fault::new(message, "remove one of them"));
    }
    for alias in &config.aliases {
        if config.domains.contains(alias) {
            let fault = Fault::new(format!("\"{alias}\" is already a domain"), "remove it from aliases");
            reader.warn(&top.span_of("aliases"), fault);
        }
    }
}
