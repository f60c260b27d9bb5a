//! Popularity: the k-th most popular of n users has a probability proportional to k^-s.

use super::rng::{Rng, mix};

/// Samples by rejection-inversion (Hörmann and Derflinger, 1996): constant time, no table.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    users: u64,
    exponent: f64,
    /// The integral of the density at 1.5, less 1, and at n + 0.5.
    low: f64,
    high: f64,
    /// Distance up to which a rank is accepted without a test.
    near: f64,
    /// A factor without a common divisor with `users`, which spreads the ranks over the numbers.
    spread: u64,
}

impl Zipf {
    /// For `users` users, at least one, and an exponent of at least 0.
    pub(super) fn new(users: u64, exponent: f64) -> Zipf {
        let mut zipf = Zipf { users, exponent, low: 0.0, high: 0.0, near: 0.0, spread: 1 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(users as f64 + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf.spread = (mix(users) % users).max(1);
        while common_divisor(zipf.spread, users) != 1 {
            zipf.spread += 1;
        }
        zipf
    }

    /// A user.
    pub(super) fn sample(&self, rng: &mut Rng) -> u64 {
        let rank = self.rank(rng) - 1;
        (u128::from(rank) * u128::from(self.spread) % u128::from(self.users)) as u64
    }

    /// A rank from 1 on.
    fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.high + rng.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.users as f64);
            if k - x <= self.near || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        ratio_expm1((1.0 - self.exponent) * log) * log
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        (ratio_ln1p(t) * y).exp()
    }
}

/// (exp(x) - 1) / x, also at 0.
fn ratio_expm1(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + 0.5 * x }
}

/// ln(1 + x) / x, also at 0.
fn ratio_ln1p(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - 0.5 * x }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::chi_square;
    use super::*;

    #[test]
    fn ranks_follow_zipf() {
        for (users, exponent) in [(50u64, 1.0), (50, 0.0), (7, 2.5), (1_000, 0.8), (1, 1.0), (2, 1.0)] {
            let zipf = Zipf::new(users, exponent);
            let mut rng = Rng::new(3, users);
            let mut counts = vec![0; users as usize];
            for _ in 0..100_000 {
                counts[zipf.rank(&mut rng) as usize - 1] += 1;
            }
            let weights: Vec<f64> = (1..=users).map(|k| (k as f64).powf(-exponent)).collect();
            let sum: f64 = weights.iter().sum();
            let shares: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
            let fit = chi_square(&counts, &shares);
            assert!(fit.p > 1e-3, "{users} {exponent} {fit:?}");
        }
    }

    #[test]
    fn each_rank_is_a_user_of_its_own() {
        for users in [1u64, 2, 10, 97, 1_000, 4_096] {
            let zipf = Zipf::new(users, 1.0);
            let mut seen: Vec<u64> = (0..users).map(|rank| rank * zipf.spread % users).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..users).collect::<Vec<_>>());
        }
    }
}
