//! Where a history of values changes its level.

use load::population::Rng;
use serde::{Deserialize, Serialize};

use super::ranks::doubled_ranks;
use super::sample::{median, usable};

/// A change of level.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// The first value of the new level, counted from 0 in the whole history.
    pub index: usize,
    /// Median of the values between the change before and this one.
    pub before: f64,
    /// Median of the values from here to the next change.
    pub after: f64,
    /// Probability of a split at least this sharp among the same values in random order.
    pub p: f64,
}

/// What counts as a change.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ChangeRule {
    confidence: f64,
    least: f64,
    seed: u64,
}

/// Older values than this number are not looked at.
pub const LONGEST_HISTORY: usize = 1_000;
/// Values on either side of a change at least: a single one may be an outlier.
const FEWEST: usize = 3;
/// Random orders that a split is compared with: the fewest and the most. The smaller the error is to be, the
/// more it takes to show it.
const ORDERS: (usize, usize) = (999, 99_999);
/// Orders that are as sharp by chance at the limit of the error: with fewer, chance would decide.
const BY_CHANCE: f64 = 10.0;

/// More than [`ORDERS`] can show is not asked for.
const MOST_CONFIDENCE: f64 = 0.999_9;

impl ChangeRule {
    /// Changes with this confidence (0.5 to 0.9999), and by at least this part of the level before: 0.02 for
    /// 2 %.
    pub fn new(confidence: f64, least: f64, seed: u64) -> ChangeRule {
        let confidence = if confidence.is_nan() { 0.99 } else { confidence.clamp(0.5, MOST_CONFIDENCE) };
        ChangeRule { confidence, least: if least.is_nan() { 0.0 } else { least.max(0.0) }, seed }
    }

    /// The rule for each of several histories, such that all together have the confidence of this one
    /// (Bonferroni).
    #[must_use]
    pub fn among(self, histories: usize) -> ChangeRule {
        let each = (1.0 - self.confidence) / histories.max(1) as f64;
        ChangeRule { confidence: (1.0 - each).min(MOST_CONFIDENCE), ..self }
    }

    /// How many random orders are drawn.
    fn orders(&self) -> usize {
        ((BY_CHANCE / (1.0 - self.confidence)) as usize).clamp(ORDERS.0, ORDERS.1)
    }
}

/// The changes of level in a history, oldest value first.
///
/// The history is split where the ranks of both parts differ most, and each part is split again (binary
/// segmentation). A split counts if few random orders of the same values have one as sharp (Pettitt 1979 has
/// the statistic, here divided by its deviation). E-divisive means (Matteson and James 2014), which Apache
/// Otava uses, differ in comparing distances in place of ranks. Ranks make outliers harmless, and a
/// permutation linear in the number of values.
pub fn changes(history: &[f64], rule: &ChangeRule) -> Vec<Change> {
    let skipped = history.len().saturating_sub(LONGEST_HISTORY);
    let known: Vec<(usize, f64)> =
        (0..).zip(history).skip(skipped).filter_map(|(at, v)| Some((at, usable(*v)?))).collect();
    let values: Vec<f64> = known.iter().map(|(_, v)| *v).collect();
    let mut splits: Vec<(usize, f64)> = Vec::new();
    // Parts that are not yet searched, as begin and end.
    let mut parts = vec![(0, values.len())];
    while let Some((begin, end)) = parts.pop() {
        let Some(within) = values.get(begin..end) else { continue };
        let stream = (begin * (LONGEST_HISTORY + 1) + end) as u64;
        if let Some((at, p)) = split(within, rule, stream) {
            splits.push((begin + at, p));
            parts.extend([(begin, begin + at), (begin + at, end)]);
        }
    }
    splits.sort_unstable_by_key(|(at, _)| *at);
    let ends: Vec<usize> = splits.iter().map(|(at, _)| *at).chain([values.len()]).collect();
    let mut begin = 0;
    let mut out = Vec::new();
    for ((at, p), end) in splits.into_iter().zip(ends.into_iter().skip(1)) {
        let level = |from: usize, to: usize| values.get(from..to).and_then(median).unwrap_or(0.0);
        let index = known.get(at).map_or(at, |(index, _)| *index);
        out.push(Change { index, before: level(begin, at), after: level(at, end), p });
        begin = at;
    }
    out
}

/// The sharpest split, if it is a change.
fn split(values: &[f64], rule: &ChangeRule, stream: u64) -> Option<(usize, f64)> {
    let mut ranks: Vec<f64> = doubled_ranks(values).into_iter().map(|rank| rank as f64 / 2.0).collect();
    let (at, sharpness) = sharpest(&ranks)?;
    let (first, second) = values.split_at_checked(at)?;
    let (before, after) = (median(first)?, median(second)?);
    if before == after || (after - before).abs() < rule.least * before.abs() {
        return None;
    }
    let mut rng = Rng::new(rule.seed, stream);
    let (mut as_sharp, orders) = (0_usize, rule.orders());
    let most = (1.0 - rule.confidence + 1e-12) * (orders + 1) as f64;
    for _ in 0..orders {
        shuffle(&mut ranks, &mut rng);
        // The order of summation differs, so equal splits may differ in the last bit.
        as_sharp += usize::from(sharpest(&ranks).is_some_and(|(_, s)| s >= sharpness * (1.0 - 1e-9)));
        // Whatever the other orders are, this is no change.
        if (as_sharp + 1) as f64 > most {
            return None;
        }
    }
    Some((at, (as_sharp + 1) as f64 / (orders + 1) as f64))
}

/// Where the ranks of both parts differ most: the split, and by how many deviations of the rank sum.
fn sharpest(ranks: &[f64]) -> Option<(usize, f64)> {
    let n = ranks.len();
    let last = n.checked_sub(FEWEST)?;
    let (mut sum, mut best) = (0.0, None::<(usize, f64)>);
    for (done, rank) in (1..=last).zip(ranks) {
        sum += rank;
        if done < FEWEST {
            continue;
        }
        let (first, second) = (done as f64, (n - done) as f64);
        let away =
            (sum - first * (n as f64 + 1.0) / 2.0).abs() / (first * second * (n as f64 + 1.0) / 12.0).sqrt();
        if best.is_none_or(|(_, most)| away > most) {
            best = Some((done, away));
        }
    }
    best
}

/// A random order (Fisher and Yates).
fn shuffle(values: &mut [f64], rng: &mut Rng) {
    for last in (1..values.len()).rev() {
        values.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use load::population::Rng;
    use load::population::statistics::normal_quantile;
    use proptest::prelude::*;

    use super::super::hostile::{sample, value};
    use super::*;

    const RULE: ChangeRule = ChangeRule { confidence: 0.99, least: 0.02, seed: 1 };

    fn history(seed: u64, levels: &[(usize, f64)]) -> Vec<f64> {
        let mut rng = Rng::new(seed, 0);
        let of = |(count, level): &(usize, f64)| vec![*level; *count];
        levels.iter().flat_map(of).map(|level| level * (1.0 + 0.02 * normal_quantile(rng.open()))).collect()
    }

    #[test]
    fn changes_are_found_where_they_were_planted() {
        let found = changes(&history(5, &[(20, 100.0), (20, 110.0), (20, 95.0)]), &RULE);
        let at: Vec<usize> = found.iter().map(|c| c.index).collect();
        assert!(at.len() == 2 && at[0].abs_diff(20) <= 1 && at[1].abs_diff(40) <= 1, "{found:?}");
        assert!((found[0].after - 110.0).abs() < 2.0 && (found[1].before - 110.0).abs() < 2.0, "{found:?}");
        assert!(found.iter().all(|c| c.p <= 0.01));
    }

    #[test]
    fn many_histories_share_the_error_of_one() {
        let rule = ChangeRule::new(0.95, 0.0, 1);
        let experiments = |rule: ChangeRule| {
            let any = |nth: &u64| {
                (0..20).any(|one| !changes(&history(nth * 20 + one, &[(24, 100.0)]), &rule).is_empty())
            };
            (0..20).filter(any).count()
        };
        // Each with a confidence of 95 %, most experiments of 20 figures would have a change.
        assert!(experiments(rule) >= 8, "{}", experiments(rule));
        assert!(experiments(rule.among(20)) <= 3, "{}", experiments(rule.among(20)));
        let planted = history(5, &[(15, 100.0), (15, 110.0)]);
        assert_eq!(changes(&planted, &rule.among(20)).len(), 1);
    }

    #[test]
    fn history_without_a_change_has_none_in_95_of_100() {
        let found =
            (0..100).filter(|seed| !changes(&history(*seed, &[(30, 100.0)]), &RULE).is_empty()).count();
        assert!(found <= 5, "{found}");
    }

    #[test]
    fn recent_change_is_found_after_a_few_values() {
        let found = changes(&history(2, &[(30, 100.0), (5, 120.0)]), &RULE);
        assert_eq!(found.iter().map(|c| c.index).collect::<Vec<_>>(), [30], "{found:?}");
    }

    #[test]
    fn single_outlier_and_small_change_are_none() {
        let mut values = history(3, &[(40, 100.0)]);
        values[20] = 1e9;
        values[25] = f64::NAN;
        assert!(changes(&values, &RULE).is_empty());
        let small = history(3, &[(40, 100.0), (40, 104.0)]);
        assert_eq!(changes(&small, &ChangeRule::new(0.99, 0.1, 1)), []);
        assert_eq!(changes(&small, &RULE).len(), 1);
    }

    #[test]
    fn index_counts_values_that_are_no_numbers() {
        let mut values = vec![f64::NAN; 4];
        values.extend(history(8, &[(15, 10.0), (15, 20.0)]));
        assert_eq!(changes(&values, &RULE).iter().map(|c| c.index).collect::<Vec<_>>(), [19]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn changes_of_anything_are_in_order(values in sample(40),
                                           confidence in value(), least in value()) {
            let found = changes(&values, &ChangeRule::new(confidence, least, 1));
            prop_assert!(found.is_sorted_by(|a, b| a.index < b.index));
            prop_assert!(found.iter().all(|c| c.index < values.len() && c.before.is_finite()));
        }
    }
}
