//! Address translation between a phone and the rest: the four kinds of RFC 3489 section 5, with mappings that time out.

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
}

impl Translator {
    pub fn new(rules: Translation, public: SocketAddr) -> Translator {
        Translator { rules, public, mappings: Vec::new() }
    }

    /// Where a datagram of the phone to `to` seems to come from.
    pub fn leave(&mut self, now: Time, to: SocketAddr) -> SocketAddr {
        let Translation { kind, idle } = self.rules;
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
            let mut translator = Translator::new(Translation { kind, idle }, address("203.0.113.9:40000"));
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
            assert_ne!(translator.leave(at(60), server), seen, "{kind:?}: another port");
        }
    }
}
