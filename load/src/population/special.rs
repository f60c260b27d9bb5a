//! The few special functions that distributions and their tests need.

/// The natural logarithm of the gamma function for x > 0 (Lanczos, g = 7, nine terms; relative error
/// about 1e-14).
pub(super) fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        // Reflection; the series is for the right half.
        return (core::f64::consts::PI / (core::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum =
        TERMS.iter().zip(1u8..).fold(0.999_999_999_999_809_9, |sum, (t, i)| sum + t / (x + f64::from(i)));
    let t = x + 7.5;
    0.918_938_533_204_672_8 + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The regularised lower incomplete gamma function P(a, x), in [0, 1].
pub(super) fn gamma_p(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if x < a + 1.0 {
        gamma_series(a, x)
    } else {
        1.0 - gamma_fraction(a, x)
    }
}

/// Its complement Q(a, x), exact also where it is tiny.
pub(super) fn gamma_q(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        1.0
    } else if x < a + 1.0 {
        1.0 - gamma_series(a, x)
    } else {
        gamma_fraction(a, x)
    }
}

fn gamma_series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0 / a, 1.0 / a);
    for n in 1..100_000u32 {
        term *= x / (a + f64::from(n));
        sum += term;
        if term < sum * 1e-16 {
            break;
        }
    }
    (sum * (a * x.ln() - x - ln_gamma(a)).exp()).clamp(0.0, 1.0)
}

/// Lentz's evaluation of the continued fraction.
fn gamma_fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut h = d;
    for n in 1..100_000u32 {
        let n = f64::from(n);
        let an = -n * (n - a);
        b += 2.0;
        d = 1.0 / non_zero(an * d + b, TINY);
        c = non_zero(b + an / c, TINY);
        let delta = d * c;
        h *= delta;
        if (delta - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (h * (a * x.ln() - x - ln_gamma(a)).exp()).clamp(0.0, 1.0)
}

fn non_zero(x: f64, tiny: f64) -> f64 {
    if x.abs() < tiny { tiny } else { x }
}

/// The probability that a standard normal variate is at most `z`.
pub fn normal_cdf(z: f64) -> f64 {
    let half = 0.5 * z * z;
    if z < 0.0 { 0.5 * gamma_q(0.5, half) } else { 0.5 + 0.5 * gamma_p(0.5, half) }
}

/// The standard normal variate that is not exceeded with probability `p`, 0 < p < 1 (Wichura's
/// algorithm AS 241, 1988: about 16 digits).
pub fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(&CENTRE, r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = (-tail.ln()).sqrt();
    let z = if r <= 5.0 { ratio(&MIDDLE, r - 1.6) } else { ratio(&FAR, r - 5.0) };
    if q < 0.0 { -z } else { z }
}

/// Numerator and denominator, highest power first.
type Ratio = ([f64; 8], [f64; 8]);

fn ratio((above, below): &Ratio, r: f64) -> f64 {
    let at = |terms: &[f64; 8]| terms.iter().fold(0.0, |sum, t| sum * r + t);
    at(above) / at(below)
}

#[rustfmt::skip]
const CENTRE: Ratio = (
    [2_509.080_928_730_122_7, 33_430.575_583_588_13, 67_265.770_927_008_7, 45_921.953_931_549_87,
     13_731.693_765_509_46, 1_971.590_950_306_551_3, 133.141_667_891_784_38, 3.387_132_872_796_366_5],
    [5_226.495_278_852_854, 28_729.085_735_721_943, 39_307.895_800_092_71, 21_213.794_301_586_597,
     5_394.196_021_424_751, 687.187_007_492_057_9, 42.313_330_701_600_91, 1.0],
);
#[rustfmt::skip]
const MIDDLE: Ratio = (
    [7.745_450_142_783_414e-4, 0.022_723_844_989_269_184, 0.241_780_725_177_450_6, 1.270_458_252_452_368_4,
     3.647_848_324_763_204_5, 5.769_497_221_460_691, 4.630_337_846_156_546, 1.423_437_110_749_683_5],
    [1.050_750_071_644_416_9e-9, 5.475_938_084_995_345e-4, 0.015_198_666_563_616_457, 0.148_103_976_427_480_08,
     0.689_767_334_985_1, 1.676_384_830_183_803_8, 2.053_191_626_637_759, 1.0],
);
#[rustfmt::skip]
const FAR: Ratio = (
    [2.010_334_399_292_288_1e-7, 2.711_555_568_743_487_6e-5, 0.001_242_660_947_388_078_4,
     0.026_532_189_526_576_124, 0.296_560_571_828_504_87, 1.784_826_539_917_291_3, 5.463_784_911_164_114,
     6.657_904_643_501_103],
    [2.044_263_103_389_939_8e-15, 1.421_511_758_316_446e-7, 1.846_318_317_510_054_8e-5,
     7.868_691_311_456_133e-4, 0.014_875_361_290_850_615, 0.136_929_880_922_735_8, 0.599_832_206_555_888, 1.0],
);

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64, error: f64) {
        assert!((got - want).abs() <= error * want.abs().max(1e-300), "{got} is not {want}");
    }

    #[test]
    fn the_logarithm_of_gamma_is_that_of_factorials() {
        near(ln_gamma(1.0) + 1.0, 1.0, 1e-14);
        near(ln_gamma(0.5), core::f64::consts::PI.sqrt().ln(), 1e-13);
        near(ln_gamma(5.0), 24f64.ln(), 1e-13);
        near(ln_gamma(0.1), 2.252_712_651_734_206, 1e-13);
        near(ln_gamma(100.0), 359.134_205_369_575_4, 1e-13);
        near(ln_gamma(1e6), 12_815_504.569_147_77, 1e-13);
    }

    /// P(1, x) is the exponential law; P(2, 2) = 1 - 3 exp(-2); a chi-square of 3.841458820694124 with one
    /// degree of freedom is exceeded with probability 5 %.
    #[test]
    fn incomplete_gamma_has_its_known_values() {
        for x in [0.01, 0.5, 1.0, 3.0, 20.0] {
            near(gamma_p(1.0, x), 1.0 - (-x).exp(), 1e-13);
            near(gamma_q(1.0, x), (-x).exp(), 1e-12);
        }
        near(gamma_p(2.0, 2.0), 1.0 - 3.0 * (-2f64).exp(), 1e-13);
        near(gamma_q(0.5, 3.841_458_820_694_124 / 2.0), 0.05, 1e-12);
        near(gamma_q(50.0, 124.342_113_404_004_2 / 2.0), 0.05, 1e-10);
        assert_eq!((gamma_p(3.0, 0.0), gamma_q(3.0, -1.0)), (0.0, 1.0));
    }

    #[test]
    fn normal_quantiles_are_those_of_the_tables() {
        // The two values that the paper gives as a check, and the usual ones.
        near(normal_quantile(0.25), -0.674_489_750_196_081_7, 1e-14);
        near(normal_quantile(0.001), -3.090_232_306_167_813_6, 1e-14);
        near(normal_quantile(1e-20), -9.262_340_089_798_409, 1e-14);
        near(normal_quantile(0.975), 1.959_963_984_540_054, 1e-14);
        assert!(normal_quantile(0.5).abs() < 1e-16);
        for p in [1e-12, 1e-4, 0.07, 0.3, 0.5, 0.93, 0.999_9] {
            near(normal_cdf(normal_quantile(p)), p, 1e-10);
        }
    }
}
