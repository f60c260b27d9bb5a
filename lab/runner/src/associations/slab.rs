//! The kernel's memory by slab cache, as /proc/slabinfo has it for root.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use lab::associations::Cache;

/// Objects for each association below which a cache has nothing to do with them.
const FEWEST: f64 = 0.05;
/// Memory is freed some time after sockets are closed.
const SETTLES: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(300);
/// A part of all slab memory: smaller changes are those of an idle kernel.
const STEADY: f64 = 0.000_2;

/// Objects in use and their size, by name of the cache.
pub type Slab = BTreeMap<String, (u64, u32)>;

/// The state of now; nothing if it cannot be read.
pub fn read() -> Option<Slab> {
    fs::read_to_string("/proc/slabinfo").ok().map(|text| parse(&text))
}

/// The state once it no longer changes, or after some seconds.
pub fn settled() -> Option<Slab> {
    let until = Instant::now() + SETTLES;
    let mut before = read()?;
    loop {
        thread::sleep(LOOK);
        let now = read()?;
        let (was, is) = (bytes(&before), bytes(&now));
        if (is - was).abs() <= STEADY * was || Instant::now() > until {
            return Some(now);
        }
        before = now;
    }
}

fn bytes(slab: &Slab) -> f64 {
    slab.values().map(|(objects, size)| *objects as f64 * f64::from(*size)).sum()
}

fn parse(text: &str) -> Slab {
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let active = words.next()?.parse().ok()?;
        let size = words.nth(1)?.parse().ok()?;
        Some((name, (active, size)))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(entry).collect()
}

/// What `count` associations take of each cache: before them, with them, and once only the server's part is
/// left.
pub fn caches(before: &Slab, with: &Slab, server: Option<&Slab>, count: u64) -> Vec<Cache> {
    let each = |after: &Slab, name: &String| {
        let objects = |slab: &Slab| slab.get(name).map_or(0, |(objects, _)| *objects) as f64;
        (objects(after) - objects(before)) / count.max(1) as f64
    };
    let of_cache = |(name, (_, size)): (&String, &(u64, u32))| {
        let (both, server) = (each(with, name), server.map(|slab| each(slab, name)));
        let matters = both.max(server.unwrap_or(0.0)) >= FEWEST;
        matters.then(|| Cache { name: name.clone(), size: *size, both, server })
    };
    let mut all: Vec<Cache> = with.iter().filter_map(of_cache).collect();
    all.sort_by(|a, b| (b.both * f64::from(b.size)).total_cmp(&(a.both * f64::from(a.size))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize> ...\n\
        TCP      0      0   2240   14    8 : tunables    0    0    0 : slabdata      0      0      0\n\
        filp    66     80    256   16    1 : tunables    0    0    0 : slabdata      5      5      0\n";

    #[test]
    fn slabinfo_is_read_by_name() {
        let slab = parse(TEXT);
        assert_eq!(slab.len(), 2);
        assert_eq!(slab.get("filp"), Some(&(66, 256)));
    }

    #[test]
    fn caches_have_objects_for_each_association() {
        let before = parse(TEXT);
        let (mut with, mut server) = (before.clone(), before.clone());
        with.insert("TCP".to_owned(), (2_000, 2240));
        server.insert("TCP".to_owned(), (1_000, 2240));
        with.insert("filp".to_owned(), (76, 256));
        let [tcp] = &caches(&before, &with, Some(&server), 1_000)[..] else { panic!("one cache matters") };
        assert_eq!((tcp.name.as_str(), tcp.both, tcp.server), ("TCP", 2.0, Some(1.0)));
    }
}
