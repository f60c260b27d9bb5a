//! `[[trunk]]`, `[[route]]` and `[emergency]`: where calls may leave to.
//!
//! These decide who is trusted, so what looks like a mistake is refused rather than guessed.

use super::error::Fault;
use super::reader::{At, Reader, Section, Span};
use super::sections::no_twice;
use super::types::*;
use super::values::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Trunks and routes a file may have; more belongs in a database.
const MOST: usize = 10_000;

/// What is already taken, and where it was written, to refuse a second claim.
type Claims = BTreeMap<String, Span>;

/// Reports that `what` was claimed before; otherwise claims it.
fn claim(reader: &mut Reader<'_>, claims: &mut Claims, what: String, at: &Span, mend: &str) {
    if let Some(first) = claims.get(&what) {
        let (line, column) = reader.place(first.start);
        reader.error(at, Fault::new(format!("{what} is already taken at {line}:{column}"), mend));
    } else {
        claims.insert(what, at.clone());
    }
}

/// Reports a list that is too long and cuts it.
fn cap<T>(reader: &mut Reader<'_>, list: &mut Vec<T>, at: &Span, what: &str) {
    if list.len() > MOST {
        reader.error(at, Fault::new(format!("more than {MOST} {what}"), ""));
        list.truncate(MOST);
    }
}

/// Every `[[trunk]]`.
pub(super) fn trunks(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, config: &mut Config) {
    let mut sections = top.sections(reader, "trunk", "trunk");
    cap(reader, &mut sections, &top.span_of("trunk"), "trunks");
    let mut claims = Claims::new();
    let mut blocks = Vec::new();
    for mut section in sections {
        if let Some(trunk) = trunk(reader, &mut section, &mut claims, config) {
            let key = if section.has("sources") { "sources" } else { "targets" };
            let span = section.span_of(key);
            blocks.extend(trunk.sources.iter().map(|block| Block::new(*block, &trunk, span.clone())));
            config.trunks.push(trunk);
        }
        section.finish(reader);
    }
    report_overlaps(reader, blocks);
}

/// A block of addresses that a trunk's requests come from.
#[derive(Clone)]
struct Block {
    first: u128,
    last: u128,
    written: Cidr,
    may_transit: bool,
    trunk: String,
    span: Span,
}

impl Block {
    fn new(written: Cidr, trunk: &Trunk, span: Span) -> Block {
        let (bits, length) = match written.address {
            IpAddr::V4(ip) => (ip.to_ipv6_mapped().to_bits(), 96 + u32::from(written.length)),
            IpAddr::V6(ip) => (ip.to_bits(), u32::from(written.length)),
        };
        let host = u128::MAX.checked_shr(length).unwrap_or(0);
        let (may_transit, trunk) = (trunk.may_transit, trunk.name.clone());
        Block { first: bits & !host, last: bits | host, written, may_transit, trunk, span }
    }
}

/// Reports addresses that are of two trunks of which one may transit: their order would decide who may call
/// out.
fn report_overlaps(reader: &mut Reader<'_>, mut blocks: Vec<Block>) {
    blocks.sort_by_key(|block| (block.first, block.span.start));
    // The block of each kind that reaches furthest.
    let mut furthest: [Option<Block>; 2] = [None, None];
    for block in blocks {
        let [own, other] = if block.may_transit { [1, 0] } else { [0, 1] };
        if let Some(there) = furthest[other].as_ref().filter(|there| there.last >= block.first) {
            let (first, second) =
                if there.span.start < block.span.start { (there, &block) } else { (&block, there) };
            let (line, column) = reader.place(first.span.start);
            let message = format!(
                "{} of trunk \"{}\" overlaps {} of trunk \"{}\" at {line}:{column}, and one of them has may_transit",
                second.written, second.trunk, first.written, first.trunk
            );
            let mend = "give each its own `sources`, or both the same may_transit";
            reader.error(&second.span, Fault::new(message, mend));
        }
        if furthest[own].as_ref().is_none_or(|there| there.last < block.last) {
            furthest[own] = Some(block);
        }
    }
}

fn trunk(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    claims: &mut Claims,
    config: &Config,
) -> Option<Trunk> {
    let name = section.read(reader, "name", text(plain));
    match &name {
        Some(At { value, span }) => {
            claim(reader, claims, format!("trunk name \"{value}\""), span, "give it another name");
        }
        None if !section.has("name") => {
            let fault = Fault::new("trunk without name", "add name = \"...\"");
            reader.error(section.span(), fault);
        }
        None => {}
    }
    let targets = targets(reader, section, "targets").unwrap_or_default();
    if !section.has("targets") {
        let mend = "add targets = [\"sip:192.0.2.1:5060\"]";
        reader.error(section.span(), Fault::new("trunk without target", mend));
    }
    let sources = sources(reader, section, &targets);
    let (prefixes, domains) = served(reader, section, claims, &config.domains);
    let mut strip = 0;
    section.set(reader, "strip", &mut strip, number(0..=64));
    let prepend = section.read(reader, "prepend", text(user_part)).map(|at| at.value).unwrap_or_default();
    let mut may_transit = false;
    section.set(reader, "may_transit", &mut may_transit, flag);
    let mut overload_control = false;
    section.set(reader, "overload_control", &mut overload_control, flag);
    let mut retry_on = Vec::new();
    if let Some(list) = section.list(reader, "retry_on", retry) {
        no_twice(reader, &list, "reason");
        retry_on = list.into_iter().map(|at| at.value).collect();
    }
    let mut silent_after = SILENT_AFTER;
    section.set(reader, "silent_after", &mut silent_after, silence());
    let name = name?.value;
    Some(Trunk {
        name,
        targets,
        sources,
        prefixes,
        domains,
        strip,
        prepend,
        may_transit,
        overload_control,
        retry_on,
        silent_after,
    })
}

/// `[emergency]`; without a target there is none.
pub(super) fn emergency(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    written: bool,
    config: &Config,
) -> Option<Emergency> {
    let targets = targets(reader, section, "targets");
    let own = &config.domains;
    not_ourselves(reader, section, targets.as_ref(), config);
    if written && !section.has("targets") {
        let mend = "add targets = [\"sip:192.0.2.1:5060\"], or remove the section";
        reader.error(section.span(), Fault::new("emergency calls without target", mend));
    }
    for target in targets.iter().flatten().filter(|target| own.contains(&target.host)) {
        let message = format!("emergency calls to \"{}\", our own domain, would come back here", target.host);
        let mend = "name the server that takes them";
        reader.error(&section.span_of("targets"), Fault::new(message, mend));
    }
    let numbers = section.list(reader, "numbers", text(dialled)).unwrap_or_default();
    no_twice(reader, &numbers, "number");
    if numbers.len() > Emergency::MOST_NUMBERS {
        let message = format!("more than {} numbers for emergencies", Emergency::MOST_NUMBERS);
        let mend = "remove some of them; others can have a [[route]]";
        reader.error(&section.span_of("numbers"), Fault::new(message, mend));
    }
    let mut strangers = false;
    section.set(reader, "strangers", &mut strangers, flag);
    let mut silent_after = SILENT_AFTER_EMERGENCY;
    section.set(reader, "silent_after", &mut silent_after, silence());
    let numbers = numbers.into_iter().map(|at| at.value).collect();
    targets.map(|targets| Emergency { targets, numbers, strangers, silent_after })
}

/// Reports emergency targets that are this server itself: a call to one would come back.
fn not_ourselves(
    reader: &mut Reader<'_>,
    section: &Section<'_, '_>,
    targets: Option<&Vec<Target>>,
    config: &Config,
) {
    for target in targets.into_iter().flatten() {
        let port = target.port.unwrap_or(5060);
        let listens = config.listen.iter().any(|listener| {
            let (address, name) = (listener.address, listener.advertise.as_ref());
            let named =
                name.is_some_and(|name| name.host == target.host && name.port.unwrap_or(5060) == port);
            named || (target.ip() == Some(address.ip()) && port == address.port())
        });
        let alias = config.aliases.contains(&target.host)
            && (target.port.is_none()
                || config.listen.iter().any(|listener| listener.address.port() == port));
        if listens || alias {
            let message = format!("the target \"{}\" is this server, calls would come back here", target.uri);
            reader.error(&section.span_of("targets"), Fault::new(message, "name another server"));
        }
    }
}

/// A list of URIs to send to; empty is an error.
fn targets(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, key: &'static str) -> Option<Vec<Target>> {
    let faults = reader.errors.len();
    let list = section.list(reader, key, text(target))?;
    no_twice(reader, &list, "target");
    if list.is_empty() && reader.errors.len() == faults {
        let mend = "name at least one, such as \"sip:192.0.2.1:5060\"";
        reader.error(&section.span_of(key), Fault::new(format!("`{key}` is empty"), mend));
    }
    Some(list.into_iter().map(|at| at.value).collect())
}

/// The addresses a trunk's requests come from.
fn sources(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, targets: &[Target]) -> Vec<Cidr> {
    if let Some(list) = section.list(reader, "sources", text(cidr)) {
        no_twice(reader, &list, "source");
        for At { value, span } in &list {
            if value.length == 0 {
                let message = format!("{value} would trust every sender as this trunk");
                reader.error(span, Fault::new(message, "list the addresses of the trunk"));
            }
        }
        return list.into_iter().map(|at| at.value).collect();
    }
    for target in targets.iter().filter(|target| target.ip().is_none()) {
        let message = format!("requests from \"{}\" are treated as a stranger's", target.host);
        let mend = "its target is a name; list its addresses in `sources`";
        reader.warn(&section.span_of("targets"), Fault::new(message, mend));
    }
    let mut sources: Vec<Cidr> = targets.iter().filter_map(Target::ip).map(Cidr::single).collect();
    sources.dedup();
    sources
}

/// The prefixes and domains a trunk serves.
fn served(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    claims: &mut Claims,
    own: &[String],
) -> (Vec<String>, Vec<String>) {
    let mend = "a number or domain can have one trunk; put more targets into that trunk";
    let prefixes = section.list(reader, "prefixes", text(user_part)).unwrap_or_default();
    for At { value, span } in &prefixes {
        claim(reader, claims, format!("prefix \"{value}\""), span, mend);
    }
    let domains = section.list(reader, "domains", text(domain)).unwrap_or_default();
    for At { value, span } in &domains {
        if own.contains(value) {
            let mend =
                "remove it here if its users register with this server, else from `domains` (--domain)";
            reader.error(span, Fault::new(format!("domain \"{value}\" is one of our own"), mend));
        }
        claim(reader, claims, format!("domain \"{value}\""), span, mend);
    }
    if !section.has("prefixes") && !section.has("domains") {
        let fault = Fault::new(
            "this trunk serves no prefix and no domain: nothing is sent to it",
            "add prefixes = [\"+\"] or domains = [\"example.net\"] unless it only sends to us",
        );
        reader.warn(section.span(), fault);
    }
    let values = |list: Vec<At<String>>| list.into_iter().map(|at| at.value).collect();
    (values(prefixes), values(domains))
}

/// Every `[[route]]`.
pub(super) fn routes(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, config: &mut Config) {
    let mut sections = top.sections(reader, "route", "route");
    cap(reader, &mut sections, &top.span_of("route"), "routes");
    let mut claims = Claims::new();
    for mut section in sections {
        if let Some(route) = route(reader, &mut section, &mut claims) {
            config.routes.push(route);
        }
        section.finish(reader);
    }
}

fn route(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, claims: &mut Claims) -> Option<Route> {
    let faults = reader.errors.len();
    let domain = section.read(reader, "domain", text(domain)).map(|at| at.value);
    let prefix = section.read(reader, "prefix", text(user_part)).map(|at| at.value);
    let user = section.read(reader, "user", text(user_part)).map(|at| at.value);
    let forward = targets(reader, section, "targets");
    let redirect = targets(reader, section, "redirect");
    let mut silent_after = SILENT_AFTER;
    section.set(reader, "silent_after", &mut silent_after, silence());
    if reader.errors.len() > faults {
        return None;
    }
    if prefix.is_some() && user.is_some() {
        let fault = Fault::new("a route matches a prefix or a whole user, not both", "remove one");
        reader.error(&section.span_of("prefix"), fault);
    }
    if forward.is_none() && section.has("silent_after") {
        let fault = Fault::new("a route without `targets` waits for nobody", "remove silent_after");
        reader.error(&section.span_of("silent_after"), fault);
    }
    if domain.is_none() && prefix.is_none() && user.is_none() {
        let mend = "add domain, prefix or user";
        reader.error(section.span(), Fault::new("a route that matches everything", mend));
    }
    let action = match (forward, redirect) {
        (Some(targets), None) => RouteAction::Forward(targets),
        (None, Some(contacts)) => RouteAction::Redirect(contacts),
        (Some(_), Some(_)) => {
            let fault = Fault::new("a route forwards or redirects, not both", "remove targets or redirect");
            reader.error(&section.span_of("redirect"), fault);
            return None;
        }
        (None, None) => {
            let fault = Fault::new("route without target", "add targets = [...] or redirect = [...]");
            reader.error(section.span(), fault);
            return None;
        }
    };
    let part = |name: &str, value: &Option<String>| {
        value.as_ref().map_or(String::new(), |value| format!(" {name} \"{value}\""))
    };
    let matched =
        format!("route for{}{}{}", part("domain", &domain), part("prefix", &prefix), part("user", &user));
    claim(reader, claims, matched, &section.span().clone(), "the first always wins; remove one");
    Some(Route { domain, prefix, user, silent_after, action })
}
