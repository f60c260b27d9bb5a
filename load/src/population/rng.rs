//! Randomness from a seed, the same in every version.
//!
//! `rand`'s `SmallRng` may change its algorithm with any release, and with it every run that somebody
//! wants to repeat. So the generator is written down here: xoshiro256++ (Blackman and Vigna, 2019),
//! seeded by SplitMix64 (Steele, Lea and Flood, 2014), both in the public domain. The integers are the
//! same on every platform; values that pass through `ln` and `exp` may differ in the last bit between
//! C libraries.

/// A stream of random numbers.
///
/// Streams of different numbers under one seed begin at unrelated points of a period of 2^256 - 1, so
/// that each worker and each purpose can have its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Stream `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Rng {
        // Both pass through the mixer before they meet, so that (1, 2) and (2, 1), or neighbours, have
        // nothing in common.
        let mut from = mix(seed.wrapping_add(GOLDEN)) ^ mix(stream ^ 0x5374_726f_7767_6572).rotate_left(32);
        Rng { state: core::array::from_fn(|_| split_mix(&mut from)) }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * STEP
    }

    /// Uniform in (0, 1): never 0, never 1, so that its logarithm and its normal quantile are finite.
    pub fn open(&mut self) -> f64 {
        ((self.next_u64() >> 12) as f64 + 0.5) * (2.0 * STEP)
    }

    /// Uniform in 0..`limit` without bias (Lemire, 2019); 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let mut wide = u128::from(self.next_u64()) * u128::from(limit);
        if (wide as u64) < limit {
            let short = limit.wrapping_neg() % limit;
            while (wide as u64) < short {
                wide = u128::from(self.next_u64()) * u128::from(limit);
            }
        }
        (wide >> 64) as u64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Exponentially distributed with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.open().ln()
    }
}

/// 2^-53.
const STEP: f64 = 1.0 / 9_007_199_254_740_992.0;
/// 2^64 divided by the golden ratio, the increment of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    mix(*state)
}

/// A bijection of 64 bits in which each bit of the input moves half of those of the output.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::statistics::chi_square;
    use super::*;

    /// The values that the authors' C programs print.
    #[test]
    fn the_generators_are_the_published_ones() {
        let mut state = 1_234_567;
        let got: Vec<u64> = (0..5).map(|_| split_mix(&mut state)).collect();
        let want = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(got, want);
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let got: Vec<u64> = (0..10).map(|_| rng.next_u64()).collect();
        let want = [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
            9_228_616_714_210_784_205,
            9_973_669_472_204_895_162,
            14_011_001_112_246_962_877,
            12_406_186_145_184_390_807,
            15_849_039_046_786_891_736,
            10_450_023_813_501_588_000,
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let mut rng = Rng::new(42, 7);
        let got: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(got, PINNED, "a run with a seed must stay repeatable");
    }

    const PINNED: [u64; 3] =
        [3_313_316_920_480_069_732, 9_471_801_683_620_386_082, 6_607_683_043_896_263_892];

    #[test]
    fn streams_and_seeds_are_unlike() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..64 {
            for stream in 0..64 {
                assert!(seen.insert(Rng::new(seed, stream).next_u64()));
            }
        }
    }

    /// Where four numbers of 64 bits meet three outcomes, plain scaling would take every third one twice
    /// as often.
    #[test]
    fn numbers_below_a_limit_are_all_as_likely() {
        let mut rng = Rng::new(2, 2);
        let mut counts = [0u64; 3];
        (0..30_000).for_each(|_| counts[(rng.below(3 << 62) % 3) as usize] += 1);
        let fit = chi_square(&counts, &[1.0 / 3.0; 3]);
        assert!(fit.p > 1e-3, "{counts:?} {fit:?}");
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::new(1, 1);
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&rng.unit()));
            let open = rng.open();
            assert!(open > 0.0 && open < 1.0);
            assert!(rng.below(7) < 7);
            assert!(rng.exponential() >= 0.0);
        }
        let largest = Rng { state: [0, u64::MAX, 0, u64::MAX] };
        assert!(largest.clone().open() < 1.0 && largest.clone().unit() < 1.0);
    }
}
