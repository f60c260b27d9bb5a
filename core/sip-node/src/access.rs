//! Who may reach what: the one rule for where a request may go, by who asks, how the target is named and what
//! is there. The table in `docs/design/access.md` is this function.

use crate::named_targets::NamedTargets;
use crate::settings::{Bounds, Settings};
use crate::uris::leads_to;
use core::net::{IpAddr, SocketAddr};
use sip_message::{Uri, host_ip};
use sip_proxy::token::Role;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// A sender that this server does not know, or a name of ours in From without proof.
    Stranger,
    /// A trunk whose calls may not leave again.
    Trunk,
    /// A trunk whose calls may.
    Transit,
    /// A user of ours, by digest or by the address of a registered phone.
    Proven,
    /// An end of a dialog by its sealed token, and by nothing else.
    End,
}

/// How the target is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// By an address-of-record of ours.
    Aor,
    /// By an address or name in the Request-URI.
    Address,
    /// By a Route that is not ours.
    Route,
}

/// What is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// A registered phone: the URI is equivalent to a Contact bound there.
    Phone,
    /// A registered phone or gateway, but the URI is none of its Contacts.
    Gateway,
    /// A trunk.
    Trunk,
    /// An emergency or voicemail target.
    Service,
    /// This server or its admin API.
    Own,
    /// Somewhere else.
    Elsewhere,
}

/// What the asker gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// It goes there, within the bounds of addresses.
    Open,
    /// What the trunk's prefixes allow for that number, as if it was dialled here.
    Rules,
    /// The target's own URI and no other.
    Exact,
    /// To the address that the token has for the other end.
    Sealed,
    /// This server answers it.
    Here,
    /// 403.
    Closed,
}

/// What an `asker` gets that names `place` in this way.
pub(crate) const fn access(asker: Asker, by: By, place: Place) -> Access {
    use {Access::*, Asker::*};
    match (by, place, asker) {
        // A name of ours stands for what is bound to it; a trunk is reached by a number, a service by the
        // operator's rules.
        (By::Aor, Place::Phone | Place::Gateway, End) => Sealed,
        (By::Aor, Place::Phone | Place::Gateway, _) => Open,
        (By::Aor, Place::Trunk | Place::Service, Transit | Proven) => Rules,
        (By::Aor, Place::Own, _) => Here,
        (By::Aor, Place::Elsewhere, Transit | Proven) => Open,
        (By::Aor, _, End) => Sealed,
        (By::Aor, _, _) => Closed,
        // An address that spells a Contact out is another name of that phone.
        (By::Address, Place::Phone, _) => Open,
        (By::Address, Place::Gateway, Transit | Proven) => Open,
        (By::Address | By::Route, Place::Trunk, Transit | Proven) => Rules,
        (By::Address, Place::Service, Proven) => Exact,
        (By::Address, Place::Elsewhere, Proven) => Open,
        (By::Address, _, End) => Sealed,
        (By::Address, _, _) => Closed,
        (By::Route, Place::Phone | Place::Gateway | Place::Elsewhere, Transit | Proven) => Open,
        // The Route would stay on the request.
        (By::Route, _, _) => Closed,
    }
}

/// Whose an address is that the operator has named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// The trunk's with this index.
    Trunk(usize),
    /// That of an emergency or voicemail target.
    Service,
}

/// The addresses and names of the operator's targets, found without reading them again.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// In order of addresses.
    addresses: Vec<(SocketAddr, Holder)>,
    names: Vec<(Vec<u8>, Holder)>,
    /// Where the names lead, by their numbers.
    pub(crate) by_name: NamedTargets,
}

impl Places {
    /// Those of the trunks, of `[emergency]` and of `[voicemail]`.
    pub fn of(settings: &Settings) -> Places {
        let mut places = Places::default();
        for (at, trunk) in settings.trunks.iter().enumerate() {
            trunk.targets.iter().for_each(|target| places.add(settings, target, Holder::Trunk(at)));
        }
        let emergency = settings.emergency.iter().flat_map(|emergency| &emergency.targets);
        let voicemail = settings.voicemail.iter().map(|voicemail| &voicemail.uri);
        emergency.chain(voicemail).for_each(|target| places.add(settings, target, Holder::Service));
        places.addresses.sort_by_key(|(address, _)| *address);
        places
    }

    /// Those of new settings. What the DNS has said of the same names goes on.
    pub fn renew(&mut self, settings: &Settings) {
        let before = core::mem::replace(self, Places::of(settings));
        self.by_name.keep(before.by_name);
    }

    fn add(&mut self, settings: &Settings, target: &[u8], holder: Holder) {
        let Ok(uri) = Uri::parse(target) else { return };
        let (host, port) = leads_to(&uri);
        match host_ip(host) {
            Some(ip) => self.addresses.push((SocketAddr::new(ip.to_canonical(), port), holder)),
            // A mailbox that registers like a phone is no place.
            None if settings.is_own_route(&uri) => {}
            None => {
                self.names.push((host.to_ascii_lowercase(), holder));
                self.by_name.add(target);
            }
        }
    }

    /// Whether the operator has named no target.
    const fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.names.is_empty()
    }

    /// Whose target is at this address, or lately was by its name: at any port of it, but on our own machine,
    /// where there are others, at this one.
    pub fn target_at(&self, settings: &Settings, address: SocketAddr) -> Option<Holder> {
        let shared = is_shared(settings, address.ip());
        let mut there = self.targets_at(address.ip());
        there.find(|(a, _)| !shared || a.port() == address.port()).map(|(_, holder)| holder)
    }

    /// The targets at any port of an address.
    fn targets_at(&self, ip: IpAddr) -> impl Iterator<Item = (SocketAddr, Holder)> {
        let ip = ip.to_canonical();
        let from = self.addresses.partition_point(|(a, _)| a.ip() < ip);
        let there = self.addresses.iter().skip(from).take_while(move |(a, _)| a.ip() == ip).copied();
        let named = self.by_name.at(ip).filter_map(|(a, at)| Some((a, self.names.get(at)?.1)));
        there.chain(named)
    }

    /// Whether a target of the operator's leads to the trunk `at`: to a target of it, or to its source, at
    /// the usual port if no target of it is there.
    pub fn leads_to_trunk(&self, settings: &Settings, target: &[u8], at: usize) -> bool {
        let Ok(uri) = Uri::parse(target) else { return false };
        let (host, port) = leads_to(&uri);
        let there = |address: SocketAddr| {
            let ip = address.ip().to_canonical();
            let mut ports = self.targets_at(ip).filter(|(_, holder)| *holder == Holder::Trunk(at)).peekable();
            match ports.peek() {
                Some(_) => ports.any(|(a, _)| a.port() == address.port()),
                None => settings.trunk_of(ip) == Some(at) && matches!(address.port(), 5060 | 5061),
            }
        };
        if let Some(ip) = host_ip(host) {
            return there(SocketAddr::new(ip, port));
        }
        let same = |(name, _): &&(Vec<u8>, Holder)| name.eq_ignore_ascii_case(crate::uris::undotted(host));
        let mut names = self.names.iter().enumerate().filter(|(_, named)| same(named));
        names.any(|(number, (_, holder))| *holder == Holder::Trunk(at) || self.by_name.of(number).any(there))
    }

    /// Whose target or source is at this address.
    pub fn at(&self, settings: &Settings, address: SocketAddr) -> Option<Holder> {
        let source = || settings.trunk_of(address.ip()).filter(|_| !is_shared(settings, address.ip()));
        self.target_at(settings, address).or_else(|| source().map(Holder::Trunk))
    }

    /// The name of the target that is at this very address, if it is known by a name.
    pub fn name_at(&self, address: SocketAddr) -> Option<&[u8]> {
        let ip = address.ip().to_canonical();
        let (_, at) = self.by_name.at(ip).find(|(there, _)| there.port() == address.port())?;
        self.names.get(at).map(|(name, _)| &name[..])
    }

    /// Whose target has this name.
    pub fn named(&self, host: &[u8]) -> Option<Holder> {
        let host = crate::uris::undotted(host);
        self.names.iter().find(|(name, _)| name.eq_ignore_ascii_case(host)).map(|(_, holder)| *holder)
    }

    /// Whose place a URI names, as far as it shows without being looked up.
    pub fn of_uri(&self, settings: &Settings, uri: &Uri<'_>) -> Option<Holder> {
        let (host, port) = leads_to(uri);
        match host_ip(host) {
            Some(ip) => self.at(settings, SocketAddr::new(ip, port)),
            None => self.named(host),
        }
    }

    /// Whether a target that plays `role` may be at `remote`: at a trunk or service only what was sent there
    /// by the rules, or in a dialog with it.
    pub fn let_through(&self, settings: &Settings, bounds: Bounds, role: Role, remote: SocketAddr) -> bool {
        let by_rules = role == Role::Trunk || !matches!(bounds, Bounds::Inside | Bounds::Outside);
        settings.allows(bounds, remote) && (by_rules || self.at(settings, remote).is_none())
    }

    /// Whose place a REGISTER from `source` claims with this URI of a Contact or Path; `None`: nobody's, or
    /// it came from there.
    pub fn claimed(&self, settings: &Settings, uri: &Uri<'_>, source: SocketAddr) -> Option<Holder> {
        if !uri.is_sip() || self.is_empty() && settings.trunks.is_empty() {
            return None;
        }
        let (host, port) = leads_to(uri);
        let Some(ip) = host_ip(host).map(|ip| ip.to_canonical()) else { return self.named(host) };
        let address = SocketAddr::new(ip, port);
        // What such a phone says leads nowhere: it is in a network of its own.
        if !settings.may_register(address, source.ip()) {
            return None;
        }
        self.claimed_at(settings, address, source)
    }

    /// Whose place a Contact at `address` claims that was registered from `source`; `None`: nobody's, or it
    /// came from there.
    pub fn claimed_at(&self, settings: &Settings, address: SocketAddr, source: SocketAddr) -> Option<Holder> {
        let ip = address.ip().to_canonical();
        let near = source.ip().to_canonical() == ip;
        let from_there = near && (!is_shared(settings, ip) || source.port() == address.port());
        let trunk = settings.trunk_of(ip);
        let of_trunk = near || settings.trunk_of(source.ip()) == trunk;
        let target = self.target_at(settings, address).filter(|_| !from_there);
        target.or_else(|| trunk.filter(|_| !of_trunk).map(Holder::Trunk))
    }
}

/// Whether several programs share an address with this server: a port of it is one of them.
fn is_shared(settings: &Settings, ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || settings.listeners.iter().any(|l| l.address.ip().to_canonical() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [Place; 6] =
        [Place::Phone, Place::Gateway, Place::Trunk, Place::Service, Place::Own, Place::Elsewhere];

    /// The cells of a row: o open, r rules, e exact, s sealed, h here, - closed.
    fn row(asker: Asker, by: By) -> String {
        let cell = |place| match access(asker, by, place) {
            Access::Open => 'o',
            Access::Rules => 'r',
            Access::Exact => 'e',
            Access::Sealed => 's',
            Access::Here => 'h',
            Access::Closed => '-',
        };
        PLACES.map(cell).iter().collect()
    }

    #[test]
    fn every_cell_of_the_table_is_as_documented() {
        let page = include_str!("../../../docs/design/access.md");
        for (asker, name, aor, address, route) in [
            (Asker::Stranger, "stranger", "oo--h-", "o-----", "------"),
            (Asker::Stranger, "unproven user", "oo--h-", "o-----", "------"),
            (Asker::Trunk, "trunk that may not transit", "oo--h-", "o-----", "------"),
            (Asker::Transit, "trunk that may transit", "oorrho", "oor---", "oor--o"),
            (Asker::Proven, "proven user", "oorrho", "oore-o", "oor--o"),
            (Asker::End, "end of a dialog", "sssshs", "osssss", "------"),
        ] {
            for (by, way, cells) in
                [(By::Aor, "AOR", aor), (By::Address, "address", address), (By::Route, "Route", route)]
            {
                assert_eq!(row(asker, by), cells, "{name} by {way}");
                let words = cells.chars().map(|cell| match cell {
                    'o' => " open |",
                    'r' => " rules |",
                    'e' => " exact |",
                    's' => " sealed |",
                    'h' => " here |",
                    _ => " 403 |",
                });
                let line = format!("| {name} | {way} |{}", words.collect::<String>());
                assert!(page.contains(&line), "docs/design/access.md lacks: {line}");
            }
        }
    }
}
