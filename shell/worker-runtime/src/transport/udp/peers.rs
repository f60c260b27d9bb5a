//! Peers that much is sent to, and the sockets that are connected to them.
//!
//! A send from a connected socket spares the kernel the search for a route and for the owner of the next hop.
//! The sockets are there from the start; one gets a peer when there is a peer that is worth it, and another
//! peer when that one is much less so. With the peer it gets its listener's address, and what comes from the
//! peer comes by it, unless it is one that only sends ([`Mutes`](crate::sys::Mutes)).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use wire::{Flow, ListenerId, Time};

/// Places for peers that are counted, and how many of them each peer may have.
const PLACES: usize = 64;
const WAYS: usize = 2;
/// How long is counted.
const WINDOW: Duration = Duration::from_secs(1);
/// Datagrams to a peer in that time from which on a socket of its own pays: the two system calls that make it
/// one cost less than a tenth of what these sends save.
const BUSY: u32 = 100;
/// Peers remembered that could not be connected to.
const DENIED: usize = 8;
/// Windows after which such a peer is tried again, at most: one, and twice as many each further time.
const REST: u8 = 60;

/// A peer that something was sent to.
#[derive(Clone, Copy)]
struct Place {
    peer: SocketAddr,
    listener: ListenerId,
    /// Datagrams to it in this window; while it has no socket, less those to others that have the same place.
    sent: u32,
    /// The socket connected to it.
    socket: Option<u16>,
}

/// A peer that could not be connected to.
#[derive(Clone, Copy)]
struct Denied {
    peer: SocketAddr,
    listener: ListenerId,
    /// Windows until it is tried again, and how many they were at first.
    rest: u8,
    last: u8,
}

/// Which peer gets a socket connected to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wish {
    pub listener: ListenerId,
    pub peer: SocketAddr,
    /// The place that it is kept in.
    place: usize,
    /// The socket to take from another peer that gets less than half as much; `None`: one that has none yet.
    pub instead: Option<u16>,
}

/// The busiest peers of one worker. Peers whose places are those of busier ones, or of ones that have a
/// socket, are not found, and get what they are sent from the socket that is for all.
pub(super) struct Peers {
    /// None where there are no sockets to give.
    places: Vec<Place>,
    /// Sockets without a peer, of their listeners.
    spare: Vec<(ListenerId, u16)>,
    denied: Vec<Denied>,
    next_look: Time,
}

impl Peers {
    pub fn new() -> Peers {
        Peers { places: Vec::new(), spare: Vec::new(), denied: Vec::new(), next_look: Time::ZERO }
    }

    /// A socket of this number can be connected for this listener.
    pub fn add_spare(&mut self, listener: ListenerId, number: u16) {
        let peer = SocketAddr::new(IpAddr::from([0; 4]), 0);
        if self.places.is_empty() {
            self.places = vec![Place { peer, listener, sent: 0, socket: None }; PLACES];
        }
        self.spare.push((listener, number));
    }

    /// The socket that is connected to where a datagram goes; it is counted.
    #[inline]
    pub fn count(&mut self, flow: &Flow) -> Option<u16> {
        if self.places.is_empty() || flow.remote.port() == 0 {
            return None;
        }
        let [one, two] = self.ways(&flow.remote)?;
        let is_it = |place: &Place| place.peer == flow.remote && place.listener == flow.listener;
        let place = match (is_it(one), is_it(two)) {
            (true, _) => one,
            (_, true) => two,
            _ => {
                self.strange(flow);
                return None;
            }
        };
        place.sent = place.sent.saturating_add(1);
        place.socket
    }

    /// The places that a peer may have.
    #[inline]
    fn ways(&mut self, peer: &SocketAddr) -> Option<&mut [Place; WAYS]> {
        let first = place_of(peer);
        self.places.get_mut(first..first + WAYS)?.try_into().ok()
    }

    /// Counts a datagram to a peer without a place. A peer keeps its place if it is sent more than all others
    /// that share the place together.
    fn strange(&mut self, flow: &Flow) {
        let ways = self.ways(&flow.remote).into_iter().flatten();
        let Some(least) = ways.filter(|place| place.socket.is_none()).min_by_key(|place| place.sent) else {
            return;
        };
        match least.sent.checked_sub(1) {
            Some(less) => least.sent = less,
            None => *least = Place { peer: flow.remote, listener: flow.listener, sent: 1, socket: None },
        }
    }

    /// The peers that are to get a socket, once in a window. `busy` says whether a socket cannot be taken
    /// from its peer now, `lost` whether it has lost its peer. Who was sent nothing in the window has none
    /// any more.
    pub fn wishes(&mut self, now: Time, busy: impl Fn(u16) -> bool, lost: impl Fn(u16) -> bool) -> Vec<Wish> {
        if self.places.is_empty() || now < self.next_look {
            return Vec::new();
        }
        self.next_look = now + WINDOW;
        self.denied.iter_mut().for_each(|denied| denied.rest = denied.rest.saturating_sub(1));
        for place in &mut self.places {
            let over = |socket: &mut u16| !busy(*socket) && (lost(*socket) || place.sent == 0);
            if let Some(socket) = place.socket.take_if(over) {
                self.spare.push((place.listener, socket));
            }
        }
        let mut wishes: Vec<Wish> = Vec::new();
        let mut spare = self.spare.clone();
        for (number, place) in self.places.iter().enumerate() {
            let fit = place.sent >= BUSY && !is_of_one_link(&place.peer) && !self.rests(place);
            if place.socket.is_some() || !fit {
                continue;
            }
            let wish = |instead| Wish { listener: place.listener, peer: place.peer, place: number, instead };
            if let Some(at) = spare.iter().position(|(listener, _)| *listener == place.listener) {
                spare.swap_remove(at);
                wishes.push(wish(None));
                continue;
            }
            let taken = |socket| wishes.iter().any(|wish| wish.instead == Some(socket));
            let others = self.places.iter().filter(|other| other.listener == place.listener);
            let least = others
                .filter_map(|other| Some((other.sent, other.socket?)))
                .filter(|&(_, socket)| !taken(socket) && !busy(socket))
                .min();
            if let Some((_, socket)) = least.filter(|(sent, _)| *sent < place.sent / 2) {
                wishes.push(wish(Some(socket)));
            }
        }
        self.places.iter_mut().for_each(|place| place.sent = 0);
        wishes
    }

    /// Takes a socket without a peer for this listener.
    pub fn take_spare(&mut self, listener: ListenerId) -> Option<u16> {
        let at = self.spare.iter().position(|(of, _)| *of == listener)?;
        Some(self.spare.swap_remove(at).1)
    }

    /// The wish came true with this socket.
    pub fn granted(&mut self, wish: &Wish, number: u16) {
        for place in self.places.iter_mut().filter(|place| place.socket == Some(number)) {
            place.socket = None;
        }
        self.denied.retain(|d| (d.peer, d.listener) != (wish.peer, wish.listener));
        if let Some(place) = self.places.get_mut(wish.place) {
            place.socket = Some(number);
        }
    }

    /// The wish cannot come true: there is no way to the peer. A socket that was to be taken from another is
    /// without a peer.
    pub fn denied(&mut self, wish: &Wish) {
        let known = self.denied.iter_mut().find(|d| (d.peer, d.listener) == (wish.peer, wish.listener));
        if let Some(denied) = known {
            denied.last = denied.last.saturating_mul(2).min(REST);
            denied.rest = denied.last;
            return;
        }
        if self.denied.len() == DENIED
            && let Some(least) = (0..DENIED).min_by_key(|&at| self.denied.get(at).map(|d| (d.rest, d.last)))
        {
            self.denied.remove(least);
        }
        self.denied.push(Denied { peer: wish.peer, listener: wish.listener, rest: 1, last: 1 });
    }

    fn rests(&self, place: &Place) -> bool {
        let is_it = |d: &Denied| d.rest > 0 && (d.peer, d.listener) == (place.peer, place.listener);
        self.denied.iter().any(is_it)
    }
}

/// Whether an address is good on one link only: a socket that was connected there stays with that link.
fn is_of_one_link(peer: &SocketAddr) -> bool {
    matches!(peer.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// The first of a peer's places. The hash is not keyed. An attacker with colliding addresses and more traffic
/// can keep a peer from getting a socket of its own, which costs only processor time.
#[inline]
pub(super) fn place_of(peer: &SocketAddr) -> usize {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    const SHIFT: u32 = 64 - (PLACES / WAYS).ilog2();
    let address = match peer.ip() {
        IpAddr::V4(ip) => u64::from(ip.to_bits()),
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            (bits >> 64) as u64 ^ (bits as u64).rotate_left(29)
        }
    };
    ((address << 16 ^ u64::from(peer.port())).wrapping_mul(SPREAD) >> SHIFT) as usize * WAYS % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Flow {
        Flow::udp(ListenerId(0), SocketAddr::from(([192, 0, 2, number], 5060)))
    }

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    fn sent(peers: &mut Peers, number: u8, times: u32) -> Option<u16> {
        (0..times).map(|_| peers.count(&peer(number))).last().flatten()
    }

    /// Grants what is wished for, and says who got which.
    fn look(peers: &mut Peers, seconds: u64) -> Vec<(SocketAddr, u16)> {
        let wishes = peers.wishes(at(seconds), |_| false, |_| false);
        let grant = |wish: &Wish| {
            let number = wish.instead.or_else(|| peers.take_spare(wish.listener))?;
            peers.granted(wish, number);
            Some((wish.peer, number))
        };
        wishes.iter().filter_map(grant).collect()
    }

    /// Peers with places of their own.
    fn apart() -> [u8; 3] {
        let place = |number: u8| place_of(&peer(number).remote);
        let second = (2..).find(|&n| place(n) != place(1)).unwrap();
        let third = (second + 1..).find(|&n| place(n) != place(1) && place(n) != place(second)).unwrap();
        [1, second, third]
    }

    /// Others that have the same places as this one.
    fn twins(number: u8) -> [u8; WAYS + 1] {
        let same = |&n: &u8| n != number && place_of(&peer(n).remote) == place_of(&peer(number).remote);
        let mut found = (2..=u8::MAX).filter(same);
        core::array::from_fn(|_| found.next().unwrap())
    }

    #[test]
    fn without_sockets_to_give_nobody_is_counted() {
        let mut peers = Peers::new();
        assert_eq!(sent(&mut peers, 1, 1_000), None);
        assert_eq!(look(&mut peers, 1), []);
    }

    #[test]
    fn who_is_sent_much_gets_a_socket_and_who_is_not_does_not() {
        let mut peers = Peers::new();
        peers.add_spare(ListenerId(0), 7);
        let [one, two, _] = apart();
        assert_eq!((sent(&mut peers, one, BUSY), sent(&mut peers, two, BUSY - 1)), (None, None));
        assert_eq!(look(&mut peers, 1), [(peer(one).remote, 7)]);
        assert_eq!((sent(&mut peers, one, 1), sent(&mut peers, two, 1)), (Some(7), None));
        let other = Flow { listener: ListenerId(1), ..peer(one) };
        assert_eq!(peers.count(&other), None, "another listener's");
    }

    #[test]
    fn a_socket_goes_to_who_is_sent_twice_as_much() {
        let mut peers = Peers::new();
        peers.add_spare(ListenerId(0), 7);
        let [one, two, three] = apart();
        sent(&mut peers, one, 300);
        assert_eq!(look(&mut peers, 1), [(peer(one).remote, 7)]);
        sent(&mut peers, one, 300);
        sent(&mut peers, two, 600);
        assert_eq!(look(&mut peers, 2), []);
        sent(&mut peers, one, 300);
        sent(&mut peers, two, 700);
        sent(&mut peers, three, 700);
        assert_eq!(look(&mut peers, 3).len(), 1, "one socket for two");
        assert_eq!(sent(&mut peers, one, 1), None);
        // Not while something waits in it.
        sent(&mut peers, one, 700);
        assert_eq!(peers.wishes(at(4), |_| true, |_| false), []);
    }

    #[test]
    fn who_falls_silent_or_is_lost_gives_its_socket_back() {
        let mut peers = Peers::new();
        peers.add_spare(ListenerId(0), 7);
        sent(&mut peers, 1, BUSY);
        assert_eq!(look(&mut peers, 1), [(peer(1).remote, 7)]);
        assert_eq!(sent(&mut peers, 1, 1), Some(7));
        assert_eq!(look(&mut peers, 2), []);
        // Nothing in this window, but something waits in it; then nothing waits any more.
        assert_eq!(peers.wishes(at(3), |_| true, |_| false), []);
        assert_eq!(sent(&mut peers, 1, 0), None);
        assert_eq!(look(&mut peers, 4), []);
        assert_eq!(sent(&mut peers, 1, BUSY), None);
        assert_eq!(look(&mut peers, 5), [(peer(1).remote, 7)]);
        // Lost, but something waits in it; then connected anew at once, for it is still sent much.
        sent(&mut peers, 1, BUSY);
        assert_eq!(peers.wishes(at(6), |_| true, |_| true), []);
        assert_eq!(sent(&mut peers, 1, BUSY), Some(7));
        assert_eq!(peers.wishes(at(7), |_| false, |_| true).len(), 1);
        assert_eq!(sent(&mut peers, 1, 1), None);
    }

    /// Though another peer takes its place in between. It is tried again after one window, two, four and so
    /// on, up to 60.
    #[test]
    fn who_cannot_be_reached_keeps_no_socket_from_others() {
        let mut peers = Peers::new();
        peers.add_spare(ListenerId(0), 7);
        let [one, two, _] = apart();
        let twins = twins(one);
        let (mut tried, mut others) = (Vec::new(), 0);
        for second in 1..=303 {
            twins.iter().for_each(|&twin| _ = sent(&mut peers, twin, 1));
            sent(&mut peers, one, 3 * BUSY);
            sent(&mut peers, two, BUSY);
            for wish in peers.wishes(at(second), |_| false, |_| false) {
                if wish.peer == peer(one).remote {
                    tried.push(second);
                    peers.denied(&wish);
                } else {
                    let number = peers.take_spare(wish.listener).unwrap();
                    peers.granted(&wish, number);
                    others += 1;
                }
            }
        }
        assert_eq!(tried, [1, 2, 4, 8, 16, 32, 64, 124, 184, 244]);
        assert_eq!(others, 1, "who can be reached gives it up to nobody");
        // And then there is a way.
        sent(&mut peers, one, 3 * BUSY);
        assert_eq!(look(&mut peers, 304), [(peer(one).remote, 7)]);
        assert!(peers.denied.is_empty());
    }

    #[test]
    fn few_are_remembered_that_could_not_be_reached() {
        let mut peers = Peers::new();
        let wish = |n| Wish { listener: ListenerId(0), peer: peer(n).remote, place: 0, instead: None };
        (0..100).for_each(|n| peers.denied(&wish(n)));
        // Of those tried as often the last.
        let kept: Vec<SocketAddr> = peers.denied.iter().map(|denied| denied.peer).collect();
        assert_eq!(kept, (92..100).map(|n| peer(n).remote).collect::<Vec<_>>());
    }

    #[test]
    fn no_socket_for_port_0_or_an_address_of_one_link() {
        let mut peers = Peers::new();
        peers.add_spare(ListenerId(0), 7);
        for strange in ["192.0.2.1:0", "[fe80::1]:5060"] {
            let flow = Flow::udp(ListenerId(0), strange.parse().unwrap());
            (0..BUSY * 2).for_each(|_| assert_eq!(peers.count(&flow), None));
        }
        assert_eq!(look(&mut peers, 1), []);
    }

    #[test]
    fn a_window_is_a_second() {
        let mut peers = Peers::new();
        peers.add_spare(ListenerId(0), 7);
        assert_eq!(look(&mut peers, 1), []);
        sent(&mut peers, 1, BUSY);
        assert_eq!(peers.wishes(Time::from_micros(1_900_000), |_| false, |_| false), []);
        assert_eq!(look(&mut peers, 2).len(), 1);
    }

    #[test]
    fn of_those_in_one_place_the_busier_ones_are_counted() {
        let mut peers = Peers::new();
        (7..10).for_each(|number| peers.add_spare(ListenerId(0), number));
        let [other, less, ..] = twins(1);
        for _ in 0..BUSY {
            sent(&mut peers, less, 1);
            sent(&mut peers, 1, 3);
            sent(&mut peers, other, 3);
        }
        let got = look(&mut peers, 1);
        assert_eq!(got.len(), 2);
        assert!([1, other].iter().all(|&n| got.iter().any(|(to, _)| *to == peer(n).remote)), "{got:?}");
        assert!([1, other].iter().all(|&n| sent(&mut peers, n, BUSY).is_some()));
        assert_eq!(sent(&mut peers, less, BUSY), None);
        assert_eq!(look(&mut peers, 2), []);
    }
}
