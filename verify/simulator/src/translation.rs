//! Address translation between a phone and the rest: the four kinds of RFC 3489 section 5, with mappings that
//! time out.

use core::time::Duration;
use std::net::SocketAddr;
use wire::Time;

/// Which senders a mapping lets in, and whether there is one for each destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    FullCone,
    AddressRestricted,
    PortRestricted,
    Symmetric,
}

/// What is between a phone and the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Translation {
    pub kind: Kind,
    /// How long after the phone last sent by it a mapping ends.
    pub idle: Duration,
}

struct Mapping {
    port: u16,
    /// Addresses that the phone has sent to, and when it did last.
    sent: Vec<(SocketAddr, Time)>,
}

/// The state of one translation.
pub(crate) struct Translator {
    rules: Translation,
    /// The public address; its port is the next to give away.
    public: SocketAddr,
    mappings: Vec<Mapping>,
    lapses: Lapses,
}

/// When what the phone registered led nowhere. Whatever is in doubt counts.
struct Lapses {
    /// The phone's server.
    home: SocketAddr,
    /// When the phone last sent to it.
    sent: Option<Time>,
    /// Since when its binding is of no use.
    since: Option<Time>,
    /// Those that are over.
    over: Vec<(Time, Time)>,
}

impl Translator {
    pub fn new(rules: Translation, public: SocketAddr, home: SocketAddr) -> Translator {
        let lapses = Lapses { home, sent: None, since: None, over: Vec::new() };
        Translator { rules, public, mappings: Vec::new(), lapses }
    }

    /// It loses its memory, as when it is switched off and on.
    pub fn rebind(&mut self, now: Time) {
        self.mappings.clear();
        if self.lapses.sent.is_some() {
            self.lapses.since.get_or_insert(now);
        }
    }

    /// The phone learns that a REGISTER was accepted that it began at `asked`.
    pub fn renewed(&mut self, asked: Time, now: Time) {
        if let Some(since) = self.lapses.since.filter(|since| *since <= asked) {
            self.lapses.over.push((since, now));
            self.lapses.since = None;
        }
    }

    /// Whether the phone could not be reached by what it had registered, at some time between these. Asked
    /// for at the end.
    pub fn lapsed(&self, from: Time, to: Time) -> bool {
        let Lapses { sent, since, over, .. } = &self.lapses;
        let ended = sent.map(|sent| sent + self.rules.idle);
        over.iter().any(|(begin, end)| *begin < to && *end > from)
            || since.or(ended).is_some_and(|since| since < to)
    }

    /// Where a datagram of the phone to `to` seems to come from.
    pub fn leave(&mut self, now: Time, to: SocketAddr) -> SocketAddr {
        let Translation { kind, idle } = self.rules;
        if to == self.lapses.home {
            let ended = self.lapses.sent.replace(now).map(|sent| sent + idle);
            self.lapses.since = self.lapses.since.or(ended.filter(|ended| *ended <= now));
        }
        self.mappings.retain(|m| m.sent.iter().any(|(_, at)| *at + idle > now));
        let fits = |m: &&mut Mapping| kind != Kind::Symmetric || m.sent.iter().any(|(peer, _)| *peer == to);
        let port = match self.mappings.iter_mut().find(fits) {
            Some(mapping) => {
                mapping.sent.retain(|(peer, _)| *peer != to);
                mapping.sent.push((to, now));
                mapping.port
            }
            None => {
                let port = self.public.port();
                self.mappings.push(Mapping { port, sent: vec![(to, now)] });
                // No port is used twice in a run: what is sent to an old one is lost.
                self.public.set_port(port + 1);
                port
            }
        };
        SocketAddr::new(self.public.ip(), port)
    }

    /// Whether a datagram from `from` to this port gets through.
    pub fn admits(&self, now: Time, port: u16, from: SocketAddr) -> bool {
        let Translation { kind, idle } = self.rules;
        let known = |(peer, at): &(SocketAddr, Time)| {
            let same = match kind {
                Kind::FullCone => true,
                Kind::AddressRestricted => peer.ip() == from.ip(),
                Kind::PortRestricted | Kind::Symmetric => *peer == from,
            };
            same && *at + idle > now
        };
        self.mappings.iter().any(|m| m.port == port && m.sent.iter().any(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::address;

    #[test]
    fn translation_lets_in_whom_its_kind_says_until_it_ends() {
        let (server, beside, other) =
            (address("198.51.100.1:5060"), address("198.51.100.1:5070"), address("198.51.100.2:5060"));
        for (kind, port, host) in [
            (Kind::FullCone, true, true),
            (Kind::AddressRestricted, true, false),
            (Kind::PortRestricted, false, false),
            (Kind::Symmetric, false, false),
        ] {
            let idle = Duration::from_secs(30);
            let mut translator =
                Translator::new(Translation { kind, idle }, address("203.0.113.9:40000"), server);
            let at = Time::from_secs;
            let seen = translator.leave(at(1), server);
            let admitted = [server, beside, other].map(|from| translator.admits(at(2), seen.port(), from));
            assert_eq!(admitted, [true, port, host], "{kind:?}");
            let second = translator.leave(at(3), other);
            assert_eq!(second == seen, kind != Kind::Symmetric, "{kind:?}");
            // What comes in keeps nothing open; what goes out does.
            assert_eq!(translator.leave(at(20), server), seen);
            assert!(translator.admits(at(49), seen.port(), server));
            assert!(!translator.admits(at(50), seen.port(), server));
            let third = translator.leave(at(60), server);
            assert_ne!(third, seen, "{kind:?}: another port");
            translator.rebind(at(61));
            assert!(!translator.admits(at(61), third.port(), server), "{kind:?}");
            assert_ne!(translator.leave(at(61), server), third, "{kind:?}: another port");
        }
    }

    #[test]
    fn lapse_lasts_from_the_end_of_a_mapping_to_the_next_register() {
        let rules = Translation { kind: Kind::PortRestricted, idle: Duration::from_secs(30) };
        let server = address("198.51.100.1:5060");
        let mut translator = Translator::new(rules, address("203.0.113.9:40000"), server);
        let at = Time::from_secs;
        let spans = |translator: &Translator, spans: &[(u64, u64)]| {
            spans.iter().map(|&(from, to)| translator.lapsed(at(from), at(to))).collect::<Vec<_>>()
        };
        translator.leave(at(1), server);
        translator.renewed(at(1), at(2));
        assert_eq!(spans(&translator, &[(0, 31), (0, 32)]), [false, true], "nothing keeps it");
        translator.leave(at(50), server);
        // Of a REGISTER that began before it lapsed.
        translator.renewed(at(30), at(51));
        assert_eq!(spans(&translator, &[(0, 31), (40, 41), (60, 61)]), [false, true, true]);
        translator.renewed(at(50), at(52));
        assert_eq!(spans(&translator, &[(40, 41), (52, 80), (60, 81)]), [true, false, true]);
        translator.rebind(at(60));
        translator.leave(at(61), server);
        assert_eq!(spans(&translator, &[(53, 60), (53, 61)]), [false, true]);
    }
}
