//! How many connections there may be, counted over all workers.

use hashbrown::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const STRIPES: usize = 16;

/// Caps on connections, of the process and of each source. Touched when a connection comes or goes,
/// never for a message.
pub struct Caps {
    max: usize,
    max_per_source: u32,
    open: AtomicUsize,
    hasher: RandomState,
    stripes: [Mutex<HashMap<u64, u32, RandomState>>; STRIPES],
}

/// What counts as one source: an IPv4 address, or the /64 that an IPv6 site chooses from freely.
fn source(ip: IpAddr) -> u64 {
    match ip {
        IpAddr::V4(v4) => u64::from(u32::from(v4)),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => u64::from(u32::from(v4)),
            // No global IPv6 prefix begins with 32 zero bits, so the two kinds do not meet.
            None => (u128::from(v6) >> 64) as u64,
        },
    }
}

impl Caps {
    /// Nothing open yet.
    pub fn new(max: usize, max_per_source: u32) -> Caps {
        let hasher = RandomState::new();
        let stripes = std::array::from_fn(|_| Mutex::new(HashMap::with_hasher(hasher.clone())));
        Caps { max, max_per_source, open: AtomicUsize::new(0), hasher, stripes }
    }

    fn stripe(&self, source: u64) -> &Mutex<HashMap<u64, u32, RandomState>> {
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

    /// Counts one connection accepted from `ip`; `false` if it or the process has too many.
    pub fn admit(&self, ip: IpAddr) -> bool {
        if !self.open() {
            return false;
        }
        let source = source(ip);
        // A poisoned lock holds counts that are still good: nothing in here can panic half way.
        let mut stripe = self.stripe(source).lock().unwrap_or_else(|e| e.into_inner());
        let count = stripe.entry(source).or_insert(0);
        if *count >= self.max_per_source {
            if *count == 0 {
                stripe.remove(&source);
            }
            drop(stripe);
            self.close();
            return false;
        }
        *count += 1;
        true
    }

    /// Takes back one [`Caps::admit`].
    pub fn release(&self, ip: IpAddr) {
        self.close();
        let source = source(ip);
        let mut stripe = self.stripe(source).lock().unwrap_or_else(|e| e.into_inner());
        match stripe.get_mut(&source) {
            Some(count) if *count > 1 => *count -= 1,
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
        assert!(caps.admit(a) && caps.admit(a));
        assert!(!caps.admit(a), "the source's cap");
        assert!(caps.admit(b));
        assert!(!caps.admit(b), "the cap of all");
        caps.release(a);
        assert!(caps.admit(b));
        for ip in [a, b, b] {
            caps.release(ip);
        }
        assert!(caps.stripes.iter().all(|s| s.lock().expect("not poisoned").is_empty()));
        assert_eq!(caps.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_ipv6_site_is_one_source() {
        let [a, b, c]: [IpAddr; 3] =
            ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"].map(|ip| ip.parse().expect("an address"));
        assert_eq!(source(a), source(b));
        assert_ne!(source(a), source(c));
        assert_eq!(
            source("::ffff:10.0.0.1".parse().expect("an address")),
            source("10.0.0.1".parse().expect("an address"))
        );
    }
}
