//! Datagrams and streams between addresses, in virtual time.

use crate::rng::Rng;
use crate::scenario::Net;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wire::{ConnId, Time, Transport};

/// Who is at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Site(usize),
    Phone(usize),
    Attacker,
}

/// To whom it is told that a message could not be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    pub site: usize,
    pub life: u32,
    pub worker: usize,
    pub token: u64,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub place: Place,
    pub address: SocketAddr,
    /// The server's own name for it, and the life in which it was given.
    pub conn: Option<(ConnId, u32)>,
    /// Bytes that are not a whole message yet.
    pub buffer: Vec<u8>,
    pub resume: usize,
    /// When the last byte towards this end arrives.
    pub clear: Time,
}

/// A stream connection.
pub(crate) struct Conn {
    pub ends: [End; 2],
    pub transport: Transport,
}

/// The network's state.
pub(crate) struct Network {
    pub net: Net,
    pub conns: BTreeMap<u64, Conn>,
    pub next_conn: u64,
    pub next_port: u16,
    /// Connections of TLS that broke.
    pub broken: u64,
    places: BTreeMap<SocketAddr, Place>,
    cuts: Vec<(IpAddr, Time)>,
    rng: Rng,
}

impl Network {
    pub fn new(net: Net, rng: Rng) -> Network {
        Network {
            net,
            conns: BTreeMap::new(),
            next_conn: 1,
            next_port: 50_000,
            broken: 0,
            places: BTreeMap::new(),
            cuts: Vec::new(),
            rng,
        }
    }

    pub fn put(&mut self, address: SocketAddr, place: Place) {
        self.places.insert(address, place);
    }

    pub fn at(&self, address: SocketAddr) -> Option<Place> {
        self.places.get(&address).copied()
    }

    pub fn cut(&mut self, ip: IpAddr, until: Time) {
        self.cuts.push((ip, until));
    }

    /// Whether nothing gets from one address to the other now.
    pub fn is_cut(&self, now: Time, a: IpAddr, b: IpAddr) -> bool {
        self.cuts.iter().any(|&(ip, until)| now < until && (ip == a || ip == b))
    }

    /// How long a message takes.
    pub fn delay(&mut self) -> Duration {
        let Net { low_ms, high_ms, late, late_ms, .. } = self.net;
        let usual = self.rng.millis(low_ms, high_ms);
        if self.rng.chance(late) { usual + self.rng.millis(1, late_ms) } else { usual }
    }

    /// The times after which copies of a datagram arrive; none: it is lost.
    pub fn copies(&mut self) -> Vec<Duration> {
        if self.rng.chance(self.net.loss) {
            return Vec::new();
        }
        let mut copies = vec![self.delay()];
        if self.rng.chance(self.net.duplicate) {
            copies.push(self.delay());
        }
        copies
    }

    /// True `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.rng.chance(per_mille)
    }

    /// The number of an open connection between two places, by the address that one of them has.
    pub fn find(&self, from: Place, to: SocketAddr) -> Option<(u64, usize)> {
        self.conns.iter().find_map(|(&id, c)| {
            let side = (0..2).find(|&s| c.ends[s].place == from && c.ends[1 - s].address == to)?;
            Some((id, side))
        })
    }

    /// The connection that a server knows by this name.
    pub fn find_own(&self, site: usize, conn: ConnId) -> Option<(u64, usize)> {
        self.conns.iter().find_map(|(&id, c)| {
            let own = |s: &usize| {
                c.ends[*s].place == Place::Site(site) && c.ends[*s].conn.is_some_and(|(n, _)| n == conn)
            };
            Some((id, (0..2).find(own)?))
        })
    }

    /// When a message given to a stream now arrives: after all that was given before.
    pub fn arrival(&mut self, now: Time, id: u64, to: usize) -> Time {
        let delay = self.delay();
        let Some(conn) = self.conns.get_mut(&id) else { return now };
        let end = &mut conn.ends[to];
        // A microsecond later than the one before, so that their order is that of their times.
        end.clear = (now + delay).max(end.clear + Duration::from_micros(1));
        end.clear
    }
}
