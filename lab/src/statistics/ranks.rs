//! Tests by ranks, and the laws of their statistics when nothing differs.
//!
//! Benchmark results are not normal, so nothing here assumes that they are (as benchstat decided for Go).

use load::population::statistics::{normal_cdf, normal_quantile};

use super::sample::usable;

/// The result of a test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RankTest {
    /// U of the first sample (Mann-Whitney), or the sum of the ranks of positive differences (Wilcoxon). Ties
    /// count half.
    pub statistic: f64,
    /// Probability of a result at least this far from the middle, on either side, if nothing differs.
    pub p: f64,
    /// By counting all arrangements, not by the normal approximation.
    pub exact: bool,
    /// Values that took part.
    pub used: usize,
}

/// Up to this number of differences the law of signed ranks is counted.
const EXACT_PAIRS: usize = 100;
/// Up to this number of values in both samples the law of the rank sum is counted.
const EXACT_VALUES: usize = 50;

/// Wilcoxon's signed rank test (Wilcoxon 1945) of differences within pairs.
///
/// Differences of zero take no part, as Wilcoxon had it. The law is that of the ranks as they are, with ties.
pub fn signed_rank(differences: &[f64]) -> RankTest {
    let kept: Vec<f64> = differences.iter().copied().filter_map(usable).filter(|d| *d != 0.0).collect();
    let sizes: Vec<f64> = kept.iter().map(|d| d.abs()).collect();
    let ranks = doubled_ranks(&sizes);
    let positive: usize = kept.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    let exact = kept.len() <= EXACT_PAIRS;
    let p = if exact {
        two_sided(&signed_law(&ranks), positive)
    } else {
        let squares: f64 = ranks.iter().map(|r| (*r as f64).powi(2)).sum();
        approximate(positive as f64, ranks.iter().sum::<usize>() as f64 / 2.0, squares / 4.0, 1.0)
    };
    RankTest { statistic: positive as f64 / 2.0, p, exact, used: kept.len() }
}

/// The test of Mann and Whitney (1947), which is Wilcoxon's rank sum test, of two independent samples.
///
/// It is exact, with ties, up to 50 values in both samples; beyond that by the normal approximation with
/// corrections for ties and continuity.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> RankTest {
    let first: Vec<f64> = first.iter().copied().filter_map(usable).collect();
    let second: Vec<f64> = second.iter().copied().filter_map(usable).collect();
    let (m, n) = (first.len(), second.len());
    let all: Vec<f64> = first.iter().chain(&second).copied().collect();
    let ranks = doubled_ranks(&all);
    let sum: usize = ranks.iter().take(m).sum();
    let statistic = (sum as f64 - (m * (m + 1)) as f64) / 2.0;
    if m == 0 || n == 0 {
        return RankTest { statistic: 0.0, p: 1.0, exact: true, used: m + n };
    }
    let exact = m + n <= EXACT_VALUES;
    let p = if exact {
        two_sided(&sum_law(&ranks, m), sum)
    } else {
        // Drawing m of the ranks without replacement.
        let total = (m + n) as f64;
        let mean = ranks.iter().sum::<usize>() as f64 / total;
        let spread: f64 = ranks.iter().map(|r| (*r as f64 - mean).powi(2)).sum();
        let variance = spread * m as f64 * n as f64 / (total * (total - 1.0));
        approximate(sum as f64, mean * m as f64, variance, 1.0)
    };
    RankTest { statistic, p, exact, used: m + n }
}

/// Twice the rank of each value, ascending from 2; ties share the mean of their ranks, so that all are whole
/// numbers.
pub(super) fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0; values.len()];
    let mut before = 0;
    for tied in order.chunk_by(|a, b| a.0 == b.0) {
        let after = before + tied.len();
        for (_, place) in tied {
            if let Some(rank) = ranks.get_mut(*place) {
                *rank = before + 1 + after;
            }
        }
        before = after;
    }
    ranks
}

/// Probabilities of each sum of those weights that got a positive sign, every sign by a fair coin.
fn signed_law(weights: &[usize]) -> Vec<f64> {
    let mut law = vec![0.0; weights.iter().sum::<usize>() + 1];
    law[0] = 1.0;
    let mut reached = 0;
    for weight in weights {
        reached += weight;
        for sum in (0..=reached).rev() {
            let with = sum.checked_sub(*weight).map_or(0.0, |rest| law[rest]);
            law[sum] = 0.5 * (law[sum] + with);
        }
    }
    law
}

/// Probabilities of each sum of `chosen` of the weights, every choice alike.
fn sum_law(weights: &[usize], chosen: usize) -> Vec<f64> {
    let width = weights.iter().sum::<usize>() + 1;
    // Row k: in how many ways k weights have each sum.
    let mut ways = vec![vec![0.0; width]; chosen + 1];
    ways[0][0] = 1.0;
    let mut reached = 0;
    for weight in weights {
        reached += weight;
        for k in (1..=chosen).rev() {
            let (fewer, own) = ways.split_at_mut(k);
            let (Some(fewer), Some(own)) = (fewer.last(), own.first_mut()) else { continue };
            let (Some(fewer), Some(own)) = (fewer.get(..=reached - weight), own.get_mut(*weight..=reached))
            else {
                continue;
            };
            own.iter_mut().zip(fewer).for_each(|(own, fewer)| *own += fewer);
        }
    }
    let law = ways.pop().unwrap_or_default();
    let all: f64 = law.iter().sum();
    law.into_iter().map(|count| count / all.max(1.0)).collect()
}

/// Twice the probability of the nearer tail, at most 1.
fn two_sided(law: &[f64], at: usize) -> f64 {
    let lower: f64 = law.iter().take(at + 1).sum();
    let upper: f64 = law.iter().skip(at).sum();
    (2.0 * lower.min(upper)).min(1.0)
}

/// The same by a normal law, with half a `step` for continuity. Doubled ranks move in steps of 2.
fn approximate(at: f64, mean: f64, variance: f64, half_step: f64) -> f64 {
    if variance <= 0.0 {
        return 1.0;
    }
    let away = ((at - mean).abs() - half_step).max(0.0) / variance.sqrt();
    (2.0 * normal_cdf(-away)).min(1.0)
}

/// How deep the ends of an interval lie among ascending candidates: the k-th from below and the k-th from
/// above.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Depth {
    pub k: usize,
    /// The confidence that this reaches.
    pub confidence: f64,
}

/// The largest k whose two tails P(S <= k - 1) have `alpha` together at most; none if even one candidate is
/// too many.
fn depth_of(law: &[f64], alpha: f64) -> Option<Depth> {
    let (mut tail, mut found) = (0.0, None);
    for (k, probability) in (1..).zip(law) {
        tail += probability;
        if 2.0 * tail > alpha {
            break;
        }
        found = Some(Depth { k, confidence: 1.0 - 2.0 * tail });
    }
    found
}

/// The same by a normal law.
fn depth_near(mean: f64, variance: f64, alpha: f64) -> Option<Depth> {
    let deviation = variance.sqrt();
    let k = (mean + normal_quantile(alpha / 2.0) * deviation + 0.5).floor();
    (k >= 1.0).then(|| {
        let tail = normal_cdf((k - 0.5 - mean) / deviation);
        Depth { k: k as usize, confidence: 1.0 - 2.0 * tail }
    })
}

/// Depth among the n (n + 1) / 2 averages of pairs of n differences (Walsh averages).
pub(super) fn signed_depth(n: usize, alpha: f64) -> Option<Depth> {
    if n <= EXACT_PAIRS {
        return depth_of(&signed_law(&(1..=n).collect::<Vec<_>>()), alpha);
    }
    let n = n as f64;
    depth_near(n * (n + 1.0) / 4.0, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0, alpha)
}

/// Depth among the m n differences of two samples.
pub(super) fn sum_depth(m: usize, n: usize, alpha: f64) -> Option<Depth> {
    if m + n <= EXACT_VALUES {
        let law = sum_law(&(1..=m + n).collect::<Vec<_>>(), m);
        return depth_of(law.get(m * (m + 1) / 2..)?, alpha);
    }
    let (m, n) = (m as f64, n as f64);
    depth_near(m * n / 2.0, m * n * (m + n + 1.0) / 12.0, alpha)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::hostile::sample;
    use super::*;

    fn near(found: f64, want: f64) -> bool {
        (found - want).abs() < 1e-12
    }

    /// Critical values of U, two-sided 5 % (Mann and Whitney's table as in Siegel 1956, table K): reject up
    /// to this U.
    #[test]
    fn mann_whitney_has_the_tables_critical_values() {
        for (m, n, critical) in
            [(4, 4, 0), (5, 5, 2), (6, 6, 5), (8, 8, 13), (10, 10, 23), (5, 8, 6), (20, 20, 127)]
        {
            let depth = sum_depth(m, n, 0.05).unwrap();
            assert_eq!(depth.k, critical + 1, "{m}, {n}");
        }
        assert_eq!(sum_depth(3, 3, 0.05), None);
    }

    /// Critical values of Wilcoxon's T, two-sided 5 % (Wilcoxon and Wilcox 1964).
    #[test]
    fn signed_rank_has_the_tables_critical_values() {
        for (n, critical) in [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89)]
        {
            assert_eq!(signed_depth(n, 0.05).unwrap().k, critical + 1, "{n}");
        }
        assert_eq!(signed_depth(5, 0.05), None);
    }

    /// All arrangements, counted one by one: what R's wilcox.test(exact = TRUE) counts without ties, and the
    /// permutation test of midranks with them.
    #[test]
    fn mann_whitney_is_the_count_of_all_arrangements() {
        let samples: [(&[f64], &[f64]); 4] = [
            (&[0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46], &[1.15, 0.88, 0.90, 0.74, 1.21]),
            (&[1.0, 2.0, 2.0, 3.0], &[2.0, 3.0, 3.0, 4.0, 4.0]),
            (&[1.0, 1.0], &[1.0, 1.0, 1.0]),
            (&[1.0], &[2.0]),
        ];
        for (a, b) in samples {
            let all = [a, b].concat();
            let ranks = doubled_ranks(&all);
            let sum_of = |chosen: u32| -> usize {
                (0..all.len()).filter(|i| chosen >> i & 1 == 1).map(|i| ranks[i]).sum()
            };
            let seen = sum_of((1 << a.len()) - 1);
            let choices: Vec<usize> =
                (0..1_u32 << all.len()).filter(|c| c.count_ones() as usize == a.len()).map(sum_of).collect();
            let share = |holds: &dyn Fn(usize) -> bool| {
                choices.iter().filter(|s| holds(**s)).count() as f64 / choices.len() as f64
            };
            let want = (2.0 * share(&|s| s <= seen).min(share(&|s| s >= seen))).min(1.0);
            assert!(near(mann_whitney(a, b).p, want), "{a:?}, {b:?}: {want}");
        }
        // The first sample is that of R's help page of wilcox.test (Hollander and Wolfe 1973, page 69): W =
        // 35, and p = 0.1272 for "greater", so twice that.
        let found = mann_whitney(samples[0].0, samples[0].1);
        assert_eq!(found.statistic, 35.0);
        assert!((found.p - 0.2544).abs() < 1e-4, "{}", found.p);
    }

    #[test]
    fn signed_rank_is_the_count_of_all_signs() {
        // Depression scores of R's help page of wilcox.test (Hollander and Wolfe 1973, page 29): V = 40, and
        // p = 0.01953 for "greater".
        let first = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let second = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.06 + 0.08, 1.29];
        let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
        let found = signed_rank(&differences);
        assert_eq!((found.statistic, found.exact), (40.0, true));
        assert!((found.p - 2.0 * 0.019_53).abs() < 1e-4, "{}", found.p);
        for sample in [&[1.0, -1.0, 2.0, 2.0, 3.0, -0.5, 0.0][..], &differences] {
            let kept: Vec<f64> = sample.iter().copied().filter(|d| *d != 0.0).collect();
            let ranks = doubled_ranks(&kept.iter().map(|d| d.abs()).collect::<Vec<_>>());
            let sum_of = |signs: u32| -> usize {
                (0..kept.len()).filter(|i| signs >> i & 1 == 1).map(|i| ranks[i]).sum()
            };
            let signs = (0..kept.len()).filter(|i| kept[*i] > 0.0).map(|i| 1 << i).sum();
            let all = 1_u32 << kept.len();
            let share = |holds: &dyn Fn(usize) -> bool| {
                (0..all).filter(|s| holds(sum_of(*s))).count() as f64 / f64::from(all)
            };
            let seen = sum_of(signs);
            let want = (2.0 * share(&|s| s <= seen).min(share(&|s| s >= seen))).min(1.0);
            assert!(near(signed_rank(sample).p, want));
        }
    }

    #[test]
    fn approximation_meets_the_count_where_it_begins() {
        let law = sum_law(&(1..=50).collect::<Vec<_>>(), 25);
        let exact = depth_of(&law[325..], 0.05).unwrap().k as f64;
        let near = depth_near(312.5, 25.0 * 25.0 * 51.0 / 12.0, 0.05).unwrap().k as f64;
        assert!((exact - near).abs() <= 1.0, "{exact}, {near}");
        let exact = signed_depth(100, 0.05).unwrap().k as f64;
        let near = depth_near(2_525.0, 100.0 * 101.0 * 201.0 / 24.0, 0.05).unwrap().k as f64;
        assert!((exact - near).abs() <= 2.0, "{exact}, {near}");
        let values: Vec<f64> = (0..51).map(f64::from).collect();
        let found = mann_whitney(&values[..26], &values[26..]);
        assert!(!found.exact && found.p < 1e-8, "{found:?}");
        let signed = signed_rank(&(1..=101).map(f64::from).collect::<Vec<_>>());
        assert!(!signed.exact && signed.p < 1e-12, "{signed:?}");
    }

    proptest! {
        #[test]
        fn tests_of_anything_give_a_probability(a in sample(16),
                                               b in sample(16)) {
            let (one, other) = (mann_whitney(&a, &b), mann_whitney(&b, &a));
            prop_assert!((0.0..=1.0).contains(&one.p));
            prop_assert!((one.p - other.p).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&signed_rank(&a).p));
        }

        #[test]
        fn laws_sum_to_one(weights in prop::collection::vec(1..40_usize, 1..20), chosen in 0..20_usize) {
            let chosen = chosen.min(weights.len());
            prop_assert!((signed_law(&weights).iter().sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert!((sum_law(&weights, chosen).iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}
