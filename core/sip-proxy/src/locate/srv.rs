//! The order in which servers are tried (RFC 2782 "Usage rules" and the algorithm under "Weight").

use super::dns::Srv;

/// Most SRV records that are looked at; a hostile zone may answer with thousands.
const MAX_RECORDS: usize = 512;

/// A small seeded generator (SplitMix64), so that the choice can be repeated.
pub(super) struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..=max`, up to a bias below 2^-32.
    fn upto(&mut self, max: u32) -> u32 {
        let wide = (self.next() >> 32) * (u64::from(max) + 1);
        u32::try_from(wide >> 32).unwrap_or(max)
    }
}

/// Indices of priorities and weights, in the order in which to try what has them. The same seed gives the
/// same order.
pub fn order_of(ranks: &[(u16, u16)], seed: u64) -> Vec<usize> {
    arrange((0..ranks.len()).collect(), |i| ranks[i], ranks.len(), &mut Dice::new(seed))
}

/// Indices of at most `limit` records in the order in which to try them: priorities in turn, and within
/// one priority drawn by weight. Records that name no host are left out.
pub(super) fn order(records: &[Srv], limit: usize, dice: &mut Dice) -> Vec<usize> {
    let records = records.get(..MAX_RECORDS).unwrap_or(records);
    let usable = (0..records.len()).filter(|&i| is_usable(&records[i])).collect();
    arrange(usable, |i| (records[i].priority, records[i].weight), limit, dice)
}

/// At most `limit` of these indices, in the order of what `rank` says of their priority and weight.
fn arrange(
    mut rest: Vec<usize>,
    rank: impl Fn(usize) -> (u16, u16) + Copy,
    limit: usize,
    dice: &mut Dice,
) -> Vec<usize> {
    let priority = |i| rank(i).0;
    // Weight 0 first within a priority, as RFC 2782 wants for its running sums.
    rest.sort_by_key(|&i| (priority(i), rank(i).1 != 0));
    let mut chosen = Vec::with_capacity(limit.min(rest.len()));
    let mut rest = rest.as_slice();
    while let Some(&first) = rest.first() {
        let level = rest.partition_point(|&i| priority(i) <= priority(first));
        let (mut group, others) = (rest[..level].to_vec(), &rest[level..]);
        while !group.is_empty() {
            if chosen.len() >= limit {
                return chosen;
            }
            chosen.push(draw(|i| u32::from(rank(i).1), &mut group, dice));
        }
        rest = others;
    }
    chosen
}

/// Takes one out of a group of equal priority that is not empty.
fn draw(weight: impl Fn(usize) -> u32, group: &mut Vec<usize>, dice: &mut Dice) -> usize {
    let total = group.iter().map(|&i| weight(i)).sum();
    let mark = dice.upto(total);
    let mut sum = 0;
    let place = group.iter().position(|&i| {
        sum += weight(i);
        sum >= mark
    });
    // `remove`, not `swap_remove`: weight 0 has to stay in front.
    group.remove(place.unwrap_or(group.len() - 1))
}

fn is_usable(record: &Srv) -> bool {
    !is_absent(record) && record.port != 0
}

/// Whether a record says that the service is decidedly not there.
pub(super) fn is_absent(record: &Srv) -> bool {
    matches!(&*record.target, b"" | b".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn srv(priority: u16, weight: u16) -> Srv {
        Srv { priority, weight, port: 5060, target: b"host.example"[..].into() }
    }

    #[test]
    fn weights_share_the_load() {
        let records = [srv(0, 1), srv(0, 3), srv(0, 0)];
        let mut first = [0_u32; 3];
        for seed in 0..10_000 {
            first[order(&records, 3, &mut Dice::new(seed))[0]] += 1;
        }
        // By the letter of RFC 2782: marks 0..=4, of which 0 goes to weight zero, 1 to the first,
        // 2 to 4 to the second.
        assert!((1_700..2_300).contains(&first[2]), "{first:?}");
        assert!((1_700..2_300).contains(&first[0]), "{first:?}");
        assert!((5_700..6_300).contains(&first[1]), "{first:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let records: Vec<Srv> = (0..50).map(|w| srv(w % 3, w)).collect();
        let once = order(&records, 50, &mut Dice::new(7));
        assert_eq!(once, order(&records, 50, &mut Dice::new(7)));
        assert_ne!(once, order(&records, 50, &mut Dice::new(8)));
    }

    #[test]
    fn a_dot_and_port_zero_are_left_out() {
        let dot = Srv { target: b"."[..].into(), ..srv(0, 0) };
        let zero = Srv { port: 0, ..srv(0, 0) };
        assert_eq!(order(&[dot.clone(), srv(1, 1), zero], 9, &mut Dice::new(0)), [1]);
        assert!(is_absent(&dot));
    }

    proptest! {
        #[test]
        fn every_record_once_and_priorities_never_fall(
            list in prop::collection::vec((0_u16..4, any::<u16>()), 0..100), limit in 0_usize..120, seed: u64,
        ) {
            let records: Vec<Srv> = list.iter().map(|&(p, w)| srv(p, w)).collect();
            let order = order(&records, limit, &mut Dice::new(seed));
            prop_assert_eq!(order.len(), limit.min(records.len()));
            prop_assert!(order.windows(2).all(|w| records[w[0]].priority <= records[w[1]].priority));
            let mut seen = order.clone();
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), order.len());
        }
    }
}
