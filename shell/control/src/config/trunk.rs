//! `[[trunk]]`: another server that calls are exchanged with.

use super::capacity::{check_ranks, limits, ranked_targets, weights};
use super::carrier::{self, Registration};
use super::claims::{Claims, cap, claim};
use super::class;
use super::error::Fault;
use super::form::*;
use super::header_rules::{self, removed, written};
use super::load::Context;
use super::numbers::{
    self, USUAL_SHORT, area, country, format, international, national, usual_international, usual_national,
};
use super::reader::{At, Reader, Section, Span, kind};
use super::schema::{self, Checks, section};
use super::tls::{CertificateFiles, pair};
use super::types::{
    Cidr, SILENT_AFTER, Source, Target, bytes_of, check_targets, millis, silence, uris, user_bytes,
};
use super::values::{domain, host, plain, shown, source, user_part};
use sip_node::Mode;
use sip_node::call_rules::{Identity, NumberFormat, PlanParts};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tls::ClientCertificates;
use toml::de::DeValue;
use wire::Transport;

section! {
    /// `[[trunk]]`: another server that calls are exchanged with.
    pub struct Trunk = "trunk" {
        /// Its name. Required, unique.
        name: String = String::new(), text("text", plain).no_default(), live;
        /// SIP URIs in failover order, or tables: `{ uri = "sip:192.0.2.1", priority = 1, weight = 30 }`.
        /// Tables are tried in the order of their priorities. Those of one priority are tried in a random
        /// order by weight (RFC 2782). The default of both keys is 1. See
        /// [guide/trunk-limits.md](../guide/trunk-limits.md). Required.
        targets: Vec<Target> = Vec::new(), ranked_targets(), live;
        /// Most calls at one time over it, in both directions together. A further call to it goes to the
        /// next trunk; without one its caller gets 503. A further call from it gets 486. Emergency calls
        /// count and are never refused. Without this key there is no limit. See
        /// [guide/trunk-limits.md](../guide/trunk-limits.md).
        channels: Option<u32> = None, number(1..=1_000_000).optional(), live;
        /// Most new calls to it in a second, as a bucket that holds the calls of one second. Further ones are
        /// handled as with `channels`. Without this key there is no limit.
        calls_per_second: Option<u32> = None, number(1..=10_000).optional(), live;
        /// The sources whose requests are trusted as this trunk's: addresses, blocks, and names in
        /// certificates as `"tls:NAME"`. A request needs to match only one of them. `"tls:NAME"` matches at
        /// any address and needs `client_certificates` in `[tls]`. The DNS is not used: for a target that is
        /// a host name, list its addresses or the name in its certificate. Otherwise its requests are treated
        /// as a stranger's. See [guide/trunks.md](../guide/trunks.md). Default: the targets
        /// that are addresses.
        sources: Vec<Source> =
            Vec::new(), list(text("address, block, or `tls:` and a name", source)).once("source"), live;
        /// The certificate that is sent to the trunk's servers over TLS, if they ask for one: `{ chain =
        /// "chain.pem", key = "key.pem" }`, in PEM. Without this key it is the first one in `[tls]`. The
        /// files are read again at each reload and when they change.
        certificate: Option<CertificateFiles> = None, pair().optional(), live;
        /// The name that the certificate of the trunk's servers must have (RFC 5922), and that is sent as
        /// SNI. Without this key it is the host of each target.
        verify: Option<String> = None, text("host name", host).optional(), live;
        /// A file with the authorities, in PEM, that are trusted for this trunk in place of those of `[tls]`.
        /// They apply to its servers, and to peers with a name in its `sources`.
        roots: Option<PathBuf> = None, path().optional(), live;
        /// Beginnings of the called numbers it serves. The longest prefix of all trunks wins. How a character
        /// is written does not matter: `*21#` and `*21%23` are the same.
        prefixes: Vec<String> = Vec::new(), list(text("part of a user", user_part)), live;
        /// Domains it serves.
        domains: Vec<String> = Vec::new(), list(text("host name", domain)), live;
        /// Characters taken from the front of the called user. An escape such as `%23` is one character.
        strip: usize = 0, number(0..=64), live;
        /// Characters then put in front.
        prepend: String = String::new(), text("part of a user", user_part).no_default(), live;
        /// Its calls may leave over another trunk, and over a `[[route]]` that leads out. Without it they get
        /// 403, with a log line at level info. Two trunks whose `sources` overlap must have the same value.
        may_transit: bool = false, flag(), live;
        /// The `[[class]]` that limits its calls that leave again.
        class: String = String::new(), class::class(), live;
        /// Requests to it say that it may ask for less (`oc`, RFC 7339 and RFC 7415), and it gets less when
        /// it does. Only for one that knows these and writes `oc` itself: one that passes the parameters of
        /// others on lets them ask in its name.
        overload_control: bool = false, flag(), live;
        /// Further statuses after which the next target is tried, 400 to 699. 503, no response and a failed
        /// transport always count and are refused here.
        retry_on: Vec<u16> = Vec::new(), list(retry()).once("reason"), live;
        /// How long a target may send nothing at all, not even 100, before the next one is tried. 100 ms to
        /// 30 s. For a request other than INVITE it is at least 5 s. See
        /// [guide/trunks.md](../guide/trunks.md).
        silent_after: Duration = SILENT_AFTER, silence(), live;
        /// Header fields that are removed from requests to it: `["X-Internal", "P-*"]`. Those that the
        /// protocol needs are not removed. See [guide/header-rules.md](../guide/header-rules.md).
        remove_headers: Vec<String> = Vec::new(), removed(), live;
        /// Header fields that replace those with the same name: `["X-Caller: {user}@{domain}"]`. Values:
        /// `{user}`, `{domain}`, `{display-name}` (From), `{number}` (called), `{trunk}`, `{source}` (the
        /// address that the request came from) and `{call-id}`.
        set_headers: Vec<String> = Vec::new(), written(), live;
        /// Header fields that are added to those with the same name, in the same form.
        add_headers: Vec<String> = Vec::new(), written(), live;
        /// Country code of the trunk's location, such as `"49"`. Called numbers are then looked up in E.164:
        /// `03012345`, `00493012345` and `+493012345` all as `+493012345`. See
        /// [guide/numbers.md](../guide/numbers.md).
        country: String = String::new(), country(), live;
        /// Prefix that is dialled before an area code. The first of several is written. `""`: no prefix.
        national_prefix: Vec<String> = usual_national(), national(), live;
        /// Prefix that is dialled before a country code.
        international_prefix: String = usual_international(), international(), live;
        /// Area code without its prefix. Numbers without a prefix belong to this area.
        area: String = String::new(), area(), live;
        /// Numbers with at most this number of digits are not changed.
        short_numbers: usize = USUAL_SHORT, number(0..=15), live;
        /// Format of called numbers in requests to it, after `strip` and `prepend`: `+493012345`,
        /// `493012345`, `03012345` or `00493012345`. Without this key they are not changed. Requests from it
        /// may use the same format.
        number_format: Option<NumberFormat> = None, format(), live;
        /// Where requests to it have the number of the caller: `"pai"`: in P-Asserted-Identity (RFC 3325);
        /// `"from"`: in From, which is rewritten; `"none"`: nowhere, and identities that it asserts are
        /// removed. Without this key requests are not changed, and no identity is asserted. See
        /// [guide/caller-identity.md](../guide/caller-identity.md).
        identity: Option<Identity> = None, choice(IDENTITIES).optional(), live;
        /// The user name of this server's account there. Its challenges (401, 407) are then answered here,
        /// and calls carry credentials. Needs `password_file`. See
        /// [guide/trunks-registration.md](../guide/trunks-registration.md).
        user: Option<String> = None, carrier::name().optional(), live;
        /// A file with the password of the account in its first line. It is read again at each reload.
        password_file: Option<PathBuf> = None, path().optional(), live;
        /// The only realm whose challenges are answered. Without it any challenge of the trunk is answered,
        /// even one that comes from an element behind it.
        realm: Option<String> = None, carrier::name().optional(), live;
        /// A request that leaves again with credentials has a higher CSeq, and so has what follows in its
        /// dialog. Only for a carrier that rejects it otherwise.
        raise_cseq: bool = false, flag(), live;
        /// Whether this server registers there. `registrar` is the registrar; without it the first of
        /// `targets` that takes it. `user` and `contact` are the users of the address-of-record and of the
        /// Contact, `expires` the seconds that are asked for. `bulk = true` registers all numbers of the
        /// account (RFC 6140). While the registration is in force, requests from the address that took it are
        /// the trunk's, as if it stood in `sources`; so are those to the Contact that was registered.
        register: Option<Registration> = None, carrier::registration(), live;
    }
}

/// Where a trunk learns who calls.
const IDENTITIES: &[(&str, Identity)] =
    &[("from", Identity::From), ("pai", Identity::Asserted), ("none", Identity::Withheld)];

/// Reports a trunk for which From is rewritten, where no responses can be rewritten back.
pub(super) fn check_identities(
    reader: &mut Reader<'_>,
    top: &Section<'_, '_>,
    trunks: &[Trunk],
    proxy: &super::Proxy,
) {
    let from = trunks.iter().find(|trunk| trunk.identity == Some(Identity::From));
    if let Some(trunk) = from.filter(|_| proxy.mode == Mode::Stateless) {
        let message =
            format!("trunk \"{}\" has identity = \"from\", which a stateless proxy cannot do", trunk.name);
        let fault = Fault::new(message, "write identity = \"pai\", or mode = \"stateful\" in [proxy]");
        reader.error(&top.span_of("trunk"), fault);
    }
}

/// A status after which the next target is tried: `"486"` or `486`.
fn retry() -> One<u16> {
    One::new("400 to 699 but 503", status, |status| quoted(status))
}

fn status(value: &DeValue<'_>) -> Result<u16, Fault> {
    let written = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        other => return Err(Fault::new(format!("expected a string, found {}", kind(other)), "")),
    };
    let status = written.parse().ok().filter(|status| (400..700).contains(status));
    match (written.to_ascii_lowercase().as_str(), status) {
        (always @ ("503" | "timeout" | "unreachable"), _) => {
            let mend = "remove it; list other statuses, or leave `retry_on` out";
            Err(Fault::new(format!("\"{always}\" always makes the next target be tried"), mend))
        }
        (_, Some(status)) => Ok(status),
        _ => {
            let mend = "a status from 400 to 699, but not 503, which always counts";
            Err(Fault::new(format!("\"{}\" is no reason to retry", shown(&written)), mend))
        }
    }
}

/// Every `[[trunk]]`; `listed` are the targets of routes, voicemail and emergency calls. `in_file`: there is
/// a route table, which may have rows of any trunk.
pub(super) fn trunks(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    context: &Context<'_>,
    (listed, in_file): (&[&Target], bool),
) -> Vec<Trunk> {
    let mut sections = top.sections(reader, "trunk", "trunk");
    cap(reader, &mut sections, &top.span_of("trunk"), "trunks");
    let (mut claims, mut blocks, mut peers) = (Claims::new(), Vec::new(), Peers::new());
    let mut trunks = Vec::new();
    for mut section in sections {
        let trunk: Trunk = schema::read(&mut section, reader, context);
        trunk.claim(&section, reader, &mut claims, &context.server.domains);
        if !in_file {
            trunk.warn_if_unused(&section, reader, listed);
        }
        peers.add(reader, &section, &trunk);
        let key = if section.has("sources") { "sources" } else { "targets" };
        let span = section.span_of(key);
        blocks.extend(trunk.blocks().map(|block| Block::new(block, &trunk, span.clone())));
        section.finish(reader);
        trunks.push(trunk);
    }
    report_overlaps(reader, blocks);
    trunks
}

impl Checks for Trunk {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        if !section.has("name") {
            let fault = Fault::new("trunk without name", "add name = \"...\"");
            reader.error(section.span(), fault);
        }
        check_targets(section, reader, "targets");
        check_ranks(section, reader, &self.targets);
        let listens = context.server.listen.iter().any(|l| l.transport == Transport::Tls);
        if !listens && self.targets.iter().any(|target| target.transport == Some(Transport::Tls)) {
            let mend = "add one, such as \"tls:0.0.0.0:5061\", to `listen`, with a certificate in [tls]";
            let fault = Fault::new("a target over tls needs a tls listener", mend);
            reader.error(&section.span_of("targets"), fault);
        }
        class::check_named(section, reader, context, &self.class);
        check_tls_keys(self, section, reader);
        carrier::check(self, section, reader);
        header_rules::check(section, reader);
        numbers::check(section, reader, &self.numbers());
        if !section.has("targets") {
            let mend = "add targets = [\"sip:192.0.2.1:5060\"]";
            reader.error(section.span(), Fault::new("trunk without target", mend));
        }
        if section.has("sources") {
            for At { value, span } in section.places("sources", &text("", source)) {
                if let Some(fault) = source_fault(&value, context) {
                    reader.error(&span, fault);
                }
            }
            return;
        }
        for target in self.targets.iter().filter(|target| target.ip().is_none() && self.register.is_none()) {
            let message = format!("requests from \"{}\" are treated as a stranger's", target.host);
            let mend = "the target is a host name; list its addresses in `sources`, or \"tls:NAME\" if it sends \
                        a certificate";
            reader.warn(&section.span_of("targets"), Fault::new(message, mend));
        }
        let addresses = self.targets.iter().filter_map(Target::ip);
        self.sources = addresses.map(|ip| Source::Block(Cidr::single(ip))).collect();
        self.sources.dedup();
    }

    fn shows(&self, key: &str) -> bool {
        numbers::shows(key, &self.numbers())
    }

    fn has_default(key: &str) -> bool {
        key != "sources"
    }
}

/// Why a source is not usable, if it is not.
fn source_fault(source: &Source, context: &Context<'_>) -> Option<Fault> {
    match source {
        Source::Block(block) if block.length == 0 => {
            let message = format!("{source} would trust every sender as this trunk");
            Some(Fault::new(message, "list the addresses of the trunk"))
        }
        Source::Name(_) if context.tls.client_certificates == ClientCertificates::Off => {
            let message = format!("no peer can prove \"{source}\": peers are not asked for a certificate");
            Some(Fault::new(message, "set client_certificates = \"offered\" in [tls]"))
        }
        Source::Name(_) if !context.server.listen.iter().any(|l| l.transport.is_secure()) => {
            let message = format!("no peer can prove \"{source}\": there is no tls listener");
            Some(Fault::new(message, "add one, such as \"tls:0.0.0.0:5061\", to `listen`"))
        }
        _ => None,
    }
}

impl Trunk {
    /// The addresses that its requests come from.
    fn blocks(&self) -> impl Iterator<Item = Cidr> {
        self.sources.iter().filter_map(|source| match source {
            Source::Block(block) => Some(*block),
            Source::Name(_) => None,
        })
    }

    /// The names in certificates that make a peer this trunk.
    pub fn source_names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().filter_map(|source| match source {
            Source::Block(_) => None,
            Source::Name(name) => Some(name.as_str()),
        })
    }

    /// Claims its name, prefixes and domains; `own` are the domains of this server.
    fn claim(&self, section: &Section<'_, '_>, reader: &mut Reader<'_>, claims: &mut Claims, own: &[String]) {
        for At { value, span } in section.places("name", &text("", plain)) {
            claim(reader, claims, format!("trunk name \"{value}\""), &span, "give it another name");
        }
        for At { value, span } in section.places("sources", &text("", source)) {
            if let Source::Name(_) = value {
                let mend = "a name can belong to one trunk only; remove it from the others";
                claim(reader, claims, format!("source \"{value}\""), &span, mend);
            }
        }
        let mend = "a number or domain can have one trunk; put more targets into that trunk";
        for At { value, span } in section.places("prefixes", &text("", user_part)) {
            claim(reader, claims, format!("prefix \"{value}\""), &span, mend);
        }
        for At { value, span } in section.places("domains", &text("", domain)) {
            if own.contains(&value) {
                let mend =
                    "remove it here if its users register with this server, else from `domains` (--domain)";
                reader.error(&span, Fault::new(format!("domain \"{value}\" is one of our own"), mend));
            }
            claim(reader, claims, format!("domain \"{value}\""), &span, mend);
        }
    }

    /// Warns of a trunk that no request leads to.
    fn warn_if_unused(&self, section: &Section<'_, '_>, reader: &mut Reader<'_>, listed: &[&Target]) {
        let leads_here = |other: &&Target| self.targets.iter().any(|target| target.is_server_of(other));
        if section.has("prefixes") || section.has("domains") || listed.iter().any(leads_here) {
            return;
        }
        let fault = Fault::new(
            "this trunk serves no prefix, no domain and no route: nothing is sent to it",
            "add prefixes = [\"+\"] or domains = [\"example.net\"] unless it only sends to us",
        );
        reader.warn(section.span(), fault);
    }

    /// The name of the roots that are trusted for it; empty: those of the whole server.
    pub fn authority(&self) -> String {
        self.roots.as_ref().map_or_else(String::new, |file| file.display().to_string())
    }

    /// The names that its servers must prove over TLS, written like hosts in URIs.
    pub fn proven_names(&self) -> Vec<&str> {
        if let Some(name) = &self.verify {
            return vec![name];
        }
        self.targets
            .iter()
            .filter(|target| target.may_be_secure())
            .map(|target| target.host.as_str())
            .collect()
    }

    /// Whether its connections over TLS differ from those to other servers.
    pub fn has_own_tls(&self) -> bool {
        self.certificate.is_some() || self.roots.is_some()
    }

    /// How its numbers are dialled and written.
    fn numbers(&self) -> PlanParts<'_> {
        PlanParts {
            country: &self.country,
            national: &self.national_prefix,
            international: &self.international_prefix,
            area: &self.area,
            short: self.short_numbers,
            format: self.number_format,
        }
    }

    /// What the core needs of it.
    pub fn settings(&self) -> sip_node::Trunk {
        let headers = header_rules::settings(&self.remove_headers, &self.set_headers, &self.add_headers);
        let numbers = numbers::settings(&self.numbers());
        let headers = match self.identity {
            None => headers,
            Some(identity) => Some(headers.unwrap_or_default().with_identity(identity, numbers.clone())),
        };
        sip_node::Trunk {
            name: self.name.clone().into_bytes(),
            targets: uris(&self.targets),
            weights: weights(&self.targets),
            limits: limits(self),
            line: None,
            sources: self.blocks().map(|c| (c.address, c.length)).collect(),
            source_names: self.source_names().map(|name| name.as_bytes().to_vec()).collect(),
            authority: self.authority().into_bytes(),
            verify: self.verify.as_deref().map(|name| name.as_bytes().to_vec()),
            prefixes: self.prefixes.iter().map(|prefix| user_bytes(prefix)).collect(),
            domains: bytes_of(&self.domains),
            strip: self.strip,
            prepend: user_bytes(&self.prepend),
            may_transit: self.may_transit,
            overload_control: self.overload_control,
            retry_on: self.retry_on.clone(),
            silent_after_ms: millis(self.silent_after),
            // Of what is in files: see [`Passwords`](super::Passwords).
            account: None,
            numbers,
            headers: headers.map(|rules| Arc::new(rules.of_trunk(self.name.as_bytes()))),
        }
    }
}

/// Calls `act` with each path of a trunk.
pub(super) fn each_path(trunk: &mut Trunk, mut act: impl FnMut(&mut PathBuf)) {
    if let Some(files) = &mut trunk.certificate {
        act(&mut files.chain);
        act(&mut files.key);
    }
    trunk.roots.iter_mut().chain(&mut trunk.password_file).for_each(act);
}

/// Reports TLS keys of a trunk without a target over TLS.
fn check_tls_keys(trunk: &Trunk, section: &Section<'_, '_>, reader: &mut Reader<'_>) {
    if trunk.targets.iter().any(Target::may_be_secure) {
        return;
    }
    for key in ["certificate", "verify"].into_iter().filter(|key| section.has(key)) {
        let message = format!("`{key}` is for TLS, but no target of this trunk uses TLS");
        let mend = "write ;transport=tls after the target, or remove the key";
        reader.error(&section.span_of(key), Fault::new(message, mend));
    }
}

/// The TLS settings for connections to a server of a trunk.
#[derive(PartialEq)]
struct Peer {
    verify: Option<String>,
    certificate: Option<CertificateFiles>,
    roots: Option<PathBuf>,
}

/// Servers of trunks, by host and by the name that they must prove. The settings for a server must not depend
/// on the trunk that a call uses.
struct Peers(BTreeMap<String, (Peer, Span)>);

impl Peers {
    fn new() -> Peers {
        Peers(BTreeMap::new())
    }

    /// Reports settings that differ from those of an earlier trunk with the same server, and notes where the
    /// files are named.
    fn add(&mut self, reader: &mut Reader<'_>, section: &Section<'_, '_>, trunk: &Trunk) {
        let keys = ["certificate", "roots", "verify"];
        for key in keys.iter().filter(|key| section.has(key)) {
            let place = reader.place(section.span_of(key).start);
            reader.places.insert(format!("trunk {} {key}", trunk.name), place);
        }
        let key = keys.into_iter().find(|key| section.has(key)).unwrap_or("targets");
        let hosts = trunk.targets.iter().filter(|target| target.may_be_secure()).map(|target| &target.host);
        let names: BTreeSet<&String> = hosts.chain(&trunk.verify).collect();
        for name in names {
            let Trunk { verify, certificate, roots, .. } = trunk.clone();
            let (peer, span) = (Peer { verify, certificate, roots }, section.span_of(key));
            match self.0.get(name) {
                Some((first, at)) if *first != peer => {
                    let (line, column) = reader.place(at.start);
                    let message = format!(
                        "connections to {name} differ from those of the trunk at {line}:{column} in verify, \
                         certificate or roots"
                    );
                    let mend = "use the same values in both trunks, because they share connections; for a second \
                                account name another host that the certificate of the carrier has, or use one \
                                certificate that has the names of both accounts";
                    reader.error(&span, Fault::new(message, mend));
                }
                Some(_) => {}
                None => {
                    self.0.insert(name.clone(), (peer, span));
                }
            }
        }
    }
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
        warn_of_shared(reader, furthest[own].as_ref(), &block);
        if furthest[own].as_ref().is_none_or(|there| there.last < block.last) {
            furthest[own] = Some(block);
        }
    }
}

/// Warns of addresses that are of two trunks: requests from there count as those of the first.
fn warn_of_shared(reader: &mut Reader<'_>, there: Option<&Block>, block: &Block) {
    let Some(there) = there.filter(|there| there.last >= block.first && there.trunk != block.trunk) else {
        return;
    };
    let (first, second) = if there.span.start < block.span.start { (there, block) } else { (block, there) };
    let (line, column) = reader.place(first.span.start);
    let message = format!(
        "{} of trunk \"{}\" overlaps {} of trunk \"{}\" at {line}:{column}: requests from there are taken for \
         those of \"{}\"",
        second.written, second.trunk, first.written, first.trunk, first.trunk
    );
    let mend = "give each its own `sources`, or put the targets into one trunk";
    reader.warn(&second.span, Fault::new(message, mend));
}
