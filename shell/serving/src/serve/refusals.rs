//! The last requests that were refused because of who sent them or where they would go: `strowger ctl
//! refused`.

use super::world::{reason, split_aor, without_password};
use control::admin::{RefusedFilter, RefusedRequest};
use sip_node::Refusal;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::Time;

/// Refusals that are kept of each worker.
const KEPT: usize = 1_000;
/// Those of one source among them. A scanner must not hide what happens to others.
const OF_ONE_SOURCE: u16 = 100;
/// Bytes kept of the address-of-record or target.
const TEXT: usize = 96;

/// One refusal, or the last of several of one source.
#[derive(Clone)]
struct Kept {
    at: Time,
    source: IpAddr,
    why: Refusal,
    /// How many refusals this stands for.
    times: u64,
    length: u8,
    about: [u8; TEXT],
}

/// Of one worker: a ring with the oldest entry at `next` once it is full.
#[derive(Default)]
struct Ring {
    kept: Vec<Kept>,
    next: usize,
    /// For each source its entries and the latest of them.
    sources: BTreeMap<IpAddr, (u16, usize)>,
}

impl Ring {
    fn note(&mut self, kept: Kept) {
        if let Some(&(OF_ONE_SOURCE.., latest)) = self.sources.get(&kept.source) {
            let times = self.kept[latest].times + 1;
            self.kept[latest] = Kept { times, ..kept };
            return;
        }
        let at = self.next;
        let source = kept.source;
        if at == self.kept.len() {
            self.kept.push(kept);
        } else {
            let oldest = std::mem::replace(&mut self.kept[at], kept);
            if let Some((count, _)) = self.sources.get_mut(&oldest.source) {
                *count -= 1;
                if *count == 0 {
                    self.sources.remove(&oldest.source);
                }
            }
        }
        let entry = self.sources.entry(source).or_insert((0, at));
        *entry = (entry.0 + 1, at);
        self.next = (at + 1) % KEPT;
    }
}

/// Whether there is such a user: name and domain.
type IsUser = dyn Fn(&[u8], &[u8]) -> bool + Send + Sync;

/// The last refusals of all workers.
pub struct Refusals {
    /// One of each worker: it alone writes there, so it hardly ever waits.
    rings: Vec<Mutex<Ring>>,
    is_user: Box<IsUser>,
}

impl Refusals {
    /// None yet. `is_user` is asked when they are listed.
    pub fn new(workers: usize, is_user: Box<IsUser>) -> Refusals {
        Refusals { rings: (0..workers).map(|_| Mutex::default()).collect(), is_user }
    }

    /// Keeps a refusal of a worker. `about`: an address-of-record or a target.
    pub fn note(&self, worker: u16, at: Time, why: Refusal, about: &[u8], source: IpAddr) {
        let Some(ring) = self.rings.get(usize::from(worker)) else { return };
        let text = without_password(about);
        let length = text.len().min(TEXT);
        let mut about = [0; TEXT];
        about[..length].copy_from_slice(&text[..length]);
        // TEXT fits into a byte.
        let length = length as u8;
        lock(ring).note(Kept { at, source: source.to_canonical(), why, times: 1, length, about });
    }

    /// The latest that match, latest first, at most `most`.
    pub fn list(&self, now: Time, filter: &RefusedFilter, most: usize) -> Vec<RefusedRequest> {
        let mut found = Vec::new();
        for (worker, ring) in self.rings.iter().enumerate() {
            // The worker must not wait for the comparison of texts.
            let copy = lock(ring).kept.clone();
            found.extend(copy.iter().filter_map(|kept| {
                let about = String::from_utf8_lossy(&kept.about[..usize::from(kept.length)]);
                let ago = now.since(kept.at);
                filter
                    .takes(kept.source, &about)
                    .then(|| (ago, worker, kept.source, kept.why, kept.times, about.into_owned()))
            }));
        }
        found.sort_by_key(|(ago, ..)| *ago);
        found.truncate(most);
        let shown = found.into_iter().map(|(ago, worker, source, why, times, about)| {
            let (user, domain) = split_aor(about.as_bytes());
            let known = (self.is_user)(user, domain);
            RefusedRequest {
                ago_s: ago.as_secs(),
                source: source.to_string(),
                reason: reason(why, known).into_owned(),
                about,
                times,
                worker,
            }
        });
        shown.collect()
    }
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals() -> Refusals {
        Refusals::new(2, Box::new(|user, _| user == b"a"))
    }

    fn ip(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn list(refusals: &Refusals, filter: &RefusedFilter) -> Vec<(String, String, u64)> {
        let all = refusals.list(Time::from_secs(100), filter, usize::MAX);
        all.into_iter().map(|refused| (refused.source, refused.about, refused.times)).collect()
    }

    #[test]
    fn latest_refusal_of_all_workers_comes_first() {
        let refusals = refusals();
        for (worker, second, about) in
            [(0, 10, "a@example.com"), (1, 30, "b@example.com"), (0, 20, "c@example.com")]
        {
            refusals.note(
                worker,
                Time::from_secs(second),
                Refusal::WrongCredentials,
                about.as_bytes(),
                ip(1),
            );
        }
        let all = refusals.list(Time::from_secs(100), &RefusedFilter::default(), 2);
        let shown: Vec<(&str, u64, usize)> =
            all.iter().map(|refused| (&refused.about[..], refused.ago_s, refused.worker)).collect();
        assert_eq!(shown, [("b@example.com", 70, 1), ("c@example.com", 80, 0)]);
        assert_eq!(all[0].reason, reason(Refusal::WrongCredentials, false));
        let filter = RefusedFilter { about: Some("A@".into()), ..RefusedFilter::default() };
        let known = refusals.list(Time::from_secs(100), &filter, 1);
        assert_eq!(known[0].reason, reason(Refusal::WrongCredentials, true));
    }

    #[test]
    fn one_source_leaves_room_for_the_others() {
        let refusals = refusals();
        refusals.note(0, Time::from_secs(1), Refusal::Target, b"sip:victim@example.com", ip(7));
        for n in 0..100_000_u64 {
            let about = format!("u{n}@example.com");
            refusals.note(
                0,
                Time::from_micros(2_000_000 + n),
                Refusal::WrongCredentials,
                about.as_bytes(),
                ip(1),
            );
        }
        let all = list(&refusals, &RefusedFilter::default());
        assert_eq!(all.len(), 1 + usize::from(OF_ONE_SOURCE));
        assert_eq!(all.iter().map(|(.., times)| times).sum::<u64>(), 100_001);
        assert_eq!(all[0].1, "u99999@example.com");
        let filter = RefusedFilter { source: Some(ip(7)), ..RefusedFilter::default() };
        assert_eq!(list(&refusals, &filter), [(ip(7).to_string(), "sip:victim@example.com".to_owned(), 1)]);
    }

    #[test]
    fn oldest_entry_makes_room_and_frees_its_source() {
        let refusals = refusals();
        for n in 0..3 * KEPT as u64 {
            let source = IpAddr::from((n as u32 + 1).to_be_bytes());
            refusals.note(1, Time::from_micros(n), Refusal::Method, b"x", source);
        }
        let ring = lock(&refusals.rings[1]);
        assert_eq!((ring.kept.len(), ring.sources.len()), (KEPT, KEPT));
    }

    #[test]
    fn text_is_cut_and_shown_without_password() {
        let refusals = refusals();
        let long = [&b"sip:u:secret@"[..], &[b'x'; 300]].concat();
        refusals.note(0, Time::from_secs(1), Refusal::Target, &long, ip(1));
        let filter = RefusedFilter { about: Some("sip:u@x".into()), ..RefusedFilter::default() };
        let all = list(&refusals, &filter);
        assert_eq!(all[0].1.len(), TEXT);
        assert!(!all[0].1.contains("secret"), "{}", all[0].1);
    }
}
