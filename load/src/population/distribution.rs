//! Random durations, as SIPp's `<pause>` and `<sample>` parameterise them.
//!
//! Most laws are sampled by inversion: one number of the stream for one sample, so that two runs with
//! one seed stay in step whatever the parameters are. Only gamma and negative binomial reject.

mod sample;
pub(super) use sample::to_micros;
pub(super) use text::milliseconds;
mod text;

use super::special::{gamma_p, ln_gamma, normal_cdf, normal_quantile};
use core::fmt;
use serde::{Deserialize, Serialize};

/// A law of random durations, in milliseconds. Parameters have SIPp's names and meaning.
///
/// As text (in configurations, on the command line): `exponential(mean=3600s)`. Plain numbers are
/// milliseconds; times may carry `us`, `ms`, `s`, `m` or `h`. `lognormal(mean_time=300s,sigma=1)` is the
/// log-normal law of that mean. Build with [`Distribution::checked`] or by parsing: a law with impossible
/// parameters samples nonsense, though it never panics.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Distribution {
    /// Always `value`.
    Fixed {
        /// The value.
        value: f64,
    },
    /// Uniform from `min` to `max`.
    Uniform {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Log-normal: the natural logarithm of the milliseconds is normal.
    LogNormal {
        /// Mean of the logarithm.
        mean: f64,
        /// Standard deviation of the logarithm.
        stdev: f64,
    },
    /// Normal; what falls below zero is a pause of zero, but a `<sample>` keeps it.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        stdev: f64,
    },
    /// Weibull.
    Weibull {
        /// Scale.
        lambda: f64,
        /// Shape.
        k: f64,
    },
    /// Pareto: the probability to exceed x is (x_m / x)^k.
    Pareto {
        /// Exponent. The mean is infinite up to 1.
        k: f64,
        /// Smallest value.
        x_m: f64,
    },
    /// Generalised Pareto (SIPp's `gpareto`).
    GeneralizedPareto {
        /// Shape; 0 is the exponential law. The mean is infinite from 1 on.
        shape: f64,
        /// Scale.
        scale: f64,
        /// Smallest value.
        location: f64,
    },
    /// Gamma.
    Gamma {
        /// Shape.
        k: f64,
        /// Scale.
        theta: f64,
    },
    /// Negative binomial: failures before the n-th success. Whole numbers.
    NegativeBinomial {
        /// Probability of a success.
        p: f64,
        /// Successes; need not be whole.
        n: f64,
    },
}

/// Why there is no such distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible(String);

impl Impossible {
    pub(super) fn new(message: impl Into<String>) -> Impossible {
        Impossible(message.into())
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Impossible {}

impl Distribution {
    /// Always `ms` milliseconds.
    pub const fn fixed(ms: f64) -> Distribution {
        Distribution::Fixed { value: ms }
    }

    /// Exponential with a mean of `ms` milliseconds.
    pub const fn exponential(ms: f64) -> Distribution {
        Distribution::Exponential { mean: ms }
    }

    /// The log-normal law with a mean of `ms` milliseconds and the shape `sigma` (the standard deviation
    /// of the logarithm): its median is `ms` · exp(-sigma²/2), its coefficient of variation
    /// √(exp(sigma²) - 1).
    pub fn log_normal_mean(ms: f64, sigma: f64) -> Distribution {
        Distribution::LogNormal { mean: ms.ln() - 0.5 * sigma * sigma, stdev: sigma }
    }

    /// The gamma law with a mean of `ms` milliseconds and shape `k`.
    pub fn gamma_mean(ms: f64, k: f64) -> Distribution {
        Distribution::Gamma { k, theta: ms / k }
    }

    /// The Weibull law with a mean of `ms` milliseconds and shape `k`.
    pub fn weibull_mean(ms: f64, k: f64) -> Distribution {
        Distribution::Weibull { lambda: ms / ln_gamma(1.0 + 1.0 / k).exp(), k }
    }

    /// The same, if its parameters are possible; the message names the parameter and what it may be.
    pub fn checked(self) -> Result<Distribution, Impossible> {
        use Distribution::*;
        let name = self.name();
        for (parameter, value) in self.parameters() {
            if !value.is_finite() {
                return Err(Impossible(format!("{name}: {parameter}={value} must be a finite number")));
            }
        }
        let positive = |parameter: &str, value: f64| {
            let message = || Impossible(format!("{name}: {parameter}={value} must be greater than 0"));
            if value > 0.0 { Ok(()) } else { Err(message()) }
        };
        let at_least_0 = |parameter: &str, value: f64| {
            let message = || Impossible(format!("{name}: {parameter}={value} must not be negative"));
            if value >= 0.0 { Ok(()) } else { Err(message()) }
        };
        match self {
            Fixed { .. } => {}
            Uniform { min, max } if max < min => {
                return Err(Impossible(format!("{name}: max={max} must not be below min={min}")));
            }
            Uniform { .. } => {}
            Exponential { mean } => positive("mean", mean)?,
            Normal { stdev, .. } => at_least_0("stdev", stdev)?,
            LogNormal { mean, stdev } => {
                at_least_0("stdev", stdev)?;
                // The largest sample that `open` can lead to is at about 8.2 standard deviations.
                if mean + 8.3 * stdev > 700.0 {
                    return Err(Impossible(format!(
                        "{name}: mean={mean} and stdev={stdev} are those of the logarithm of the \
                         milliseconds; exp({mean}) overflows. For a mean time write mean_time=...,sigma=..."
                    )));
                }
            }
            Weibull { lambda, k } => positive("lambda", lambda).and(positive("k", k))?,
            Pareto { k, x_m } => positive("k", k).and(positive("x_m", x_m))?,
            GeneralizedPareto { scale, .. } => positive("scale", scale)?,
            Gamma { k, theta } => positive("k", k).and(positive("theta", theta))?,
            NegativeBinomial { p, n } => {
                positive("n", n)?;
                if !(p > 0.0 && p <= 1.0) {
                    return Err(Impossible(format!("{name}: p={p} must be above 0 and at most 1")));
                }
            }
        }
        Ok(self)
    }

    /// Mean in milliseconds; infinite where the law has none.
    pub fn mean(&self) -> f64 {
        use Distribution::*;
        match *self {
            Fixed { value } => value,
            Uniform { min, max } => 0.5 * (min + max),
            Exponential { mean } | Normal { mean, .. } => mean,
            LogNormal { mean, stdev } => (mean + 0.5 * stdev * stdev).exp(),
            Weibull { lambda, k } => lambda * ln_gamma(1.0 + 1.0 / k).exp(),
            Pareto { k, .. } if k <= 1.0 => f64::INFINITY,
            Pareto { k, x_m } => k * x_m / (k - 1.0),
            GeneralizedPareto { shape, .. } if shape >= 1.0 => f64::INFINITY,
            GeneralizedPareto { shape, scale, location } => location + scale / (1.0 - shape),
            Gamma { k, theta } => k * theta,
            NegativeBinomial { p, n } => n * (1.0 - p) / p,
        }
    }

    /// The probability of at most `x` milliseconds; none for the negative binomial law, which is discrete.
    pub fn cdf(&self, x: f64) -> Option<f64> {
        use Distribution::*;
        let step = |at: f64| if x < at { 0.0 } else { 1.0 };
        Some(match *self {
            Fixed { value } => step(value),
            Uniform { min, max } if max <= min => step(min),
            Uniform { min, max } => ((x - min) / (max - min)).clamp(0.0, 1.0),
            Exponential { mean } => -(-x.max(0.0) / mean).exp_m1(),
            Normal { mean, stdev: 0.0 } => step(mean),
            Normal { mean, stdev } => normal_cdf((x - mean) / stdev),
            LogNormal { .. } if x <= 0.0 => 0.0,
            LogNormal { mean, stdev: 0.0 } => step(mean.exp()),
            LogNormal { mean, stdev } => normal_cdf((x.ln() - mean) / stdev),
            Weibull { lambda, k } => -(-(x.max(0.0) / lambda).powf(k)).exp_m1(),
            Pareto { k, x_m } => 1.0 - (x_m / x.max(x_m)).powf(k),
            GeneralizedPareto { shape, scale, location } => {
                let z = ((x - location) / scale).max(0.0);
                if shape == 0.0 {
                    -(-z).exp_m1()
                } else {
                    1.0 - (1.0 + shape * z).max(0.0).powf(-1.0 / shape)
                }
            }
            Gamma { k, theta } => gamma_p(k, x / theta),
            NegativeBinomial { .. } => return None,
        })
    }

    /// What is not exceeded with probability `p`, 0 < p < 1, in milliseconds; none for the negative
    /// binomial law. (SIPp refuses a pause whose 99 % quantile overflows.)
    pub fn quantile(&self, p: f64) -> Option<f64> {
        use Distribution::*;
        Some(match *self {
            Fixed { value } => value,
            Uniform { min, max } => min + p * (max - min),
            Exponential { mean } => -mean * (-p).ln_1p(),
            Normal { mean, stdev } => mean + stdev * normal_quantile(p),
            LogNormal { mean, stdev } => (mean + stdev * normal_quantile(p)).exp(),
            Weibull { lambda, k } => lambda * (-(-p).ln_1p()).powf(1.0 / k),
            Pareto { k, x_m } => x_m * (1.0 - p).powf(-1.0 / k),
            GeneralizedPareto { shape: 0.0, scale, location } => location - scale * (-p).ln_1p(),
            GeneralizedPareto { shape, scale, location } => {
                location + scale * ((1.0 - p).powf(-shape) - 1.0) / shape
            }
            Gamma { .. } => self.search_quantile(p),
            NegativeBinomial { .. } => return None,
        })
    }

    /// Bisection, for laws whose quantile has no formula.
    fn search_quantile(&self, p: f64) -> f64 {
        let below = |x: f64| self.cdf(x).unwrap_or(1.0) < p;
        let (mut low, mut high) = (0.0, self.mean().max(f64::MIN_POSITIVE));
        while below(high) && high < 1e300 {
            high *= 2.0;
        }
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if below(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::Distribution::*;
    use super::*;

    pub(super) const ALL: [Distribution; 12] = [
        Fixed { value: 250.0 },
        Uniform { min: 2_000.0, max: 5_000.0 },
        Exponential { mean: 900_000.0 },
        LogNormal { mean: 12.28, stdev: 1.0 },
        Normal { mean: 60_000.0, stdev: 15_000.0 },
        Weibull { lambda: 3.0, k: 4.0 },
        Pareto { k: 3.0, x_m: 2.0 },
        GeneralizedPareto { shape: 0.25, scale: 100.0, location: 20.0 },
        GeneralizedPareto { shape: 0.0, scale: 100.0, location: 20.0 },
        Gamma { k: 9.0, theta: 2.0 },
        Gamma { k: 0.4, theta: 1_000.0 },
        NegativeBinomial { p: 0.1, n: 2.0 },
    ];

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "{got} is not {want}");
    }

    #[test]
    fn means_are_those_of_the_formulas() {
        let want = [
            250.0,
            3_500.0,
            900_000.0,
            (12.28f64 + 0.5).exp(),
            60_000.0,
            3.0 * 0.906_402_477_055_477,
            3.0,
            20.0 + 100.0 / 0.75,
            120.0,
            18.0,
            400.0,
            18.0,
        ];
        for (law, want) in ALL.iter().zip(want) {
            near(law.mean(), want);
        }
        assert!(Pareto { k: 1.0, x_m: 2.0 }.mean().is_infinite());
        assert!(GeneralizedPareto { shape: 1.0, scale: 1.0, location: 0.0 }.mean().is_infinite());
    }

    #[test]
    fn laws_can_be_given_by_their_mean() {
        for law in [
            Distribution::log_normal_mean(300_000.0, 1.0),
            Distribution::gamma_mean(300_000.0, 2.5),
            Distribution::weibull_mean(300_000.0, 0.7),
            Distribution::exponential(300_000.0),
            Distribution::fixed(300_000.0),
        ] {
            near(law.checked().expect("possible").mean(), 300_000.0);
        }
    }

    #[test]
    fn cdf_and_quantile_undo_each_other() {
        for law in ALL {
            for p in [1e-6, 0.01, 0.3, 0.5, 0.9, 0.99, 0.999_999] {
                let Some(x) = law.quantile(p) else { continue };
                if matches!(law, Fixed { .. }) {
                    assert_eq!((x, law.cdf(x), law.cdf(x - 1.0)), (250.0, Some(1.0), Some(0.0)));
                } else {
                    near(law.cdf(x).expect("has one"), p);
                }
            }
            assert!(law.cdf(-1e6).unwrap_or(0.0) < 1e-12 && law.cdf(1e12).unwrap_or(1.0) > 0.999_999);
        }
        // Bounded above where the shape is negative.
        assert_eq!(GeneralizedPareto { shape: -0.5, scale: 1.0, location: 0.0 }.cdf(2.5), Some(1.0));
    }

    #[test]
    fn impossible_laws_are_refused_with_the_reason() {
        let refused = |law: Distribution| law.checked().expect_err("impossible").to_string();
        assert_eq!(refused(Exponential { mean: 0.0 }), "exponential: mean=0 must be greater than 0");
        assert_eq!(refused(Fixed { value: f64::NAN }), "fixed: value=NaN must be a finite number");
        assert_eq!(refused(Uniform { min: 5.0, max: 2.0 }), "uniform: max=2 must not be below min=5");
        assert_eq!(refused(Normal { mean: 5.0, stdev: -2.0 }), "normal: stdev=-2 must not be negative");
        assert_eq!(
            refused(NegativeBinomial { p: 1.5, n: 2.0 }),
            "negbin: p=1.5 must be above 0 and at most 1"
        );
        assert!(refused(LogNormal { mean: 300_000.0, stdev: 1.0 }).contains("mean_time="));
        for law in [
            Weibull { lambda: 1.0, k: 0.0 },
            Pareto { k: 1.0, x_m: -1.0 },
            Gamma { k: 0.0, theta: 1.0 },
            GeneralizedPareto { shape: 1.0, scale: 0.0, location: 0.0 },
            NegativeBinomial { p: 0.0, n: 1.0 },
        ] {
            refused(law);
        }
        for law in ALL {
            assert_eq!(law.checked(), Ok(law));
        }
    }
}
