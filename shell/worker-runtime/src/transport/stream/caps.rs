//! How many connections there may be, counted over all workers.

use hashbrown::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use wire::Time;

const STRIPES: usize = 16;

/// Caps on connections, of the process and of each source. Touched when a connection comes or goes,
/// never for a message.
pub struct Caps {
    max: usize,
    max_per_source: u32,
    open: AtomicUsize,
    /// Of these such as never mattered.
    loose: AtomicUsize,
    /// Of these such as are in use.
    spared: AtomicUsize,
    /// When there was no room last, microseconds; zero: never.
    short: AtomicU64,
    hasher: RandomState,
    /// Handshakes of TLS that are not over, of all and of one source at most.
    handshakes: (usize, u32),
    /// Of these now.
    half_made: AtomicUsize,
    stripes: [Mutex<HashMap<u64, Counted, RandomState>>; STRIPES],
}

/// The connections of one source.
#[derive(Clone, Copy, Default)]
struct Counted {
    open: u32,
    /// Of these, those whose handshake of TLS is not over.
    half_made: u32,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The process has too many, or too many that never mattered.
    Process,
    /// Its source has too many.
    Source,
}

/// What counts as one source: an IPv4 address, or the /56 that an IPv6 customer is given.
pub fn source(ip: IpAddr) -> u64 {
    match ip {
        IpAddr::V4(v4) => u64::from(u32::from(v4)),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => u64::from(u32::from(v4)),
            // No global IPv6 prefix begins with 32 zero bits, so the two kinds do not meet.
            None => (u128::from(v6) >> 72) as u64,
        },
    }
}

impl Caps {
    /// Nothing open yet.
    pub fn new(max: usize, max_per_source: u32) -> Caps {
        let hasher = RandomState::new();
        let stripes = std::array::from_fn(|_| Mutex::new(HashMap::with_hasher(hasher.clone())));
        Caps {
            max,
            max_per_source,
            open: AtomicUsize::new(0),
            loose: AtomicUsize::new(0),
            spared: AtomicUsize::new(0),
            short: AtomicU64::new(0),
            hasher,
            handshakes: (max, max_per_source),
            half_made: AtomicUsize::new(0),
            stripes,
        }
    }

    /// With no more handshakes of TLS at a time than this, of all and of one source.
    #[must_use]
    pub fn with_handshakes(mut self, max: usize, max_per_source: u32) -> Caps {
        self.handshakes = (max, max_per_source);
        self
    }

    /// Counts the handshake of a connection accepted from `ip`. `beyond`: even above the cap of the process.
    ///
    /// # Errors
    /// The cap that is reached.
    pub fn begin_handshake(&self, ip: IpAddr, beyond: bool) -> Result<(), Full> {
        let (max, of_source) = self.handshakes;
        let more = |n| if n < max || beyond { Some(n + 1) } else { None };
        if self.half_made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return Err(Full::Process);
        }
        let source = source(ip);
        let mut stripe = self.stripe(source).lock().unwrap_or_else(|e| e.into_inner());
        let counted = stripe.get_mut(&source).filter(|counted| counted.half_made < of_source);
        let admitted = counted.map(|counted| counted.half_made += 1).is_some();
        drop(stripe);
        if admitted {
            return Ok(());
        }
        self.half_made.fetch_sub(1, Ordering::Relaxed);
        Err(Full::Source)
    }

    /// The handshakes from the source of `ip` that are not finished.
    pub fn half_made_of(&self, ip: IpAddr) -> u32 {
        let source = source(ip);
        let stripe = self.stripe(source).lock().unwrap_or_else(|e| e.into_inner());
        stripe.get(&source).map_or(0, |counted| counted.half_made)
    }

    /// A handshake is over, in one way or another.
    pub fn end_handshake(&self, ip: IpAddr) {
        self.half_made.fetch_sub(1, Ordering::Relaxed);
        let source = source(ip);
        let mut stripe = self.stripe(source).lock().unwrap_or_else(|e| e.into_inner());
        if let Some(counted) = stripe.get_mut(&source) {
            counted.half_made = counted.half_made.saturating_sub(1);
        }
    }

    fn stripe(&self, source: u64) -> &Mutex<HashMap<u64, Counted, RandomState>> {
        &self.stripes[(self.hasher.hash_one(source) >> 60) as usize % STRIPES]
    }

    /// Counts one connection of the process; `false` if there are too many.
    pub fn open(&self) -> bool {
        let more = |n| if n < self.max { Some(n + 1) } else { None };
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Takes back one [`Caps::open`].
    pub fn close(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts one connection accepted from `ip`, `loose` until it [matters](Caps::tie).
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn admit(&self, ip: IpAddr, loose: bool) -> Result<(), Full> {
        let most = self.max - self.max / 4;
        let more = |n| if n < most { Some(n + 1) } else { None };
        let taken = loose && self.loose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err();
        if taken {
            return Err(Full::Process);
        }
        let full = self.count(ip).err();
        if loose && full.is_some() {
            self.tie();
        }
        full.map_or(Ok(()), Err)
    }

    fn count(&self, ip: IpAddr) -> Result<(), Full> {
        if !self.open() {
            return Err(Full::Process);
        }
        let source = source(ip);
        // A poisoned lock holds counts that are still good: nothing in here can panic half way.
        let mut stripe = self.stripe(source).lock().unwrap_or_else(|e| e.into_inner());
        let count = &mut stripe.entry(source).or_default().open;
        if *count >= self.max_per_source {
            if *count == 0 {
                stripe.remove(&source);
            }
            drop(stripe);
            self.close();
            return Err(Full::Source);
        }
        *count += 1;
        Ok(())
    }

    /// A loose connection matters, or is gone.
    pub fn tie(&self) {
        self.loose.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a loose connection in use, which does not have to make room; `false` if there are too many of
    /// them: others, and phones that have not registered yet, need room as well.
    pub fn spare(&self) -> bool {
        let most = self.max / 2;
        let more = |n| if n < most { Some(n + 1) } else { None };
        self.spared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Takes back one [`Caps::spare`].
    pub fn bare(&self) {
        self.spared.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes that there was no room.
    pub fn note_short(&self, now: Time) {
        self.short.store(now.as_micros(), Ordering::Relaxed);
    }

    /// When there was no room last.
    pub fn short(&self) -> Option<Time> {
        Some(self.short.load(Ordering::Relaxed)).filter(|at| *at > 0).map(Time::from_micros)
    }

    /// Takes back one [`Caps::admit`].
    pub fn release(&self, ip: IpAddr, loose: bool) {
        self.close();
        if loose {
            self.tie();
        }
        let source = source(ip);
        let mut stripe = self.stripe(source).lock().unwrap_or_else(|e| e.into_inner());
        match stripe.get_mut(&source) {
            Some(count) if count.open > 1 => count.open -= 1,
            _ => {
                stripe.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_hold_for_a_source_and_for_all_and_are_given_back() {
        let caps = Caps::new(3, 2);
        let [a, b]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
        assert!(caps.admit(a, false).is_ok() && caps.admit(a, false).is_ok());
        assert_eq!(caps.admit(a, false), Err(Full::Source));
        assert!(caps.admit(b, false).is_ok());
        assert_eq!(caps.admit(b, false), Err(Full::Process));
        caps.release(a, false);
        assert!(caps.admit(b, false).is_ok());
        for ip in [a, b, b] {
            caps.release(ip, false);
        }
        assert!(caps.stripes.iter().all(|s| s.lock().expect("not poisoned").is_empty()));
        assert_eq!(caps.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn handshakes_have_caps_of_their_own() {
        let caps = Caps::new(9, 9).with_handshakes(3, 2);
        let [a, b]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
        let begin = |ip| {
            assert!(caps.admit(ip, false).is_ok());
            let begun = caps.begin_handshake(ip, false);
            if begun.is_err() {
                caps.release(ip, false);
            }
            begun
        };
        assert_eq!([begin(a), begin(a), begin(a)], [Ok(()), Ok(()), Err(Full::Source)]);
        assert_eq!([begin(b), begin(b)], [Ok(()), Err(Full::Process)]);
        assert_eq!((caps.half_made_of(a), caps.half_made_of(b)), (2, 1));
        caps.end_handshake(a);
        assert_eq!(begin(b), Ok(()), "one is over, and its connection goes on");
        assert_eq!(
            (caps.begin_handshake(b, true), caps.begin_handshake(a, true)),
            (Err(Full::Source), Ok(()))
        );
        caps.end_handshake(a);
        caps.end_handshake(a);
        [b, b].into_iter().for_each(|ip| caps.end_handshake(ip));
        [a, a, b, b].into_iter().for_each(|ip| caps.release(ip, false));
        assert_eq!(caps.half_made.load(Ordering::Relaxed), 0);
        assert!(caps.stripes.iter().all(|s| s.lock().expect("not poisoned").is_empty()));
    }

    #[test]
    fn loose_connections_leave_a_quarter_to_those_that_matter() {
        let caps = Caps::new(8, 8);
        let ip: IpAddr = "10.0.0.1".parse().expect("an address");
        assert!((0..6).all(|_| caps.admit(ip, true).is_ok()));
        assert_eq!(caps.admit(ip, true), Err(Full::Process));
        caps.tie();
        assert!(caps.admit(ip, true).is_ok());
        caps.tie();
        assert!(caps.admit(ip, true).is_ok());
        assert_eq!((caps.admit(ip, true), caps.admit(ip, false)), (Err(Full::Process), Err(Full::Process)));
        (0..6).for_each(|_| caps.release(ip, true));
        (0..2).for_each(|_| caps.release(ip, false));
        assert_eq!((caps.open.load(Ordering::Relaxed), caps.loose.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn loose_connections_in_use_leave_half_to_others() {
        let caps = Caps::new(8, 8);
        assert!((0..4).all(|_| caps.spare()) && !caps.spare());
        caps.bare();
        assert!(caps.spare());
    }

    #[test]
    fn an_ipv6_customer_is_one_source() {
        let [a, b, c]: [IpAddr; 3] = ["2001:db8:0:1200::1", "2001:db8:0:12ff::ffff:1", "2001:db8:0:1300::1"]
            .map(|ip| ip.parse().expect("an address"));
        assert_eq!(source(a), source(b));
        assert_ne!(source(a), source(c));
        assert_eq!(
            source("::ffff:10.0.0.1".parse().expect("an address")),
            source("10.0.0.1".parse().expect("an address"))
        );
    }
}
