//! Laws as text: by SIPp's attributes, in configurations and reports.

use super::{Distribution, Impossible};
use core::fmt;
use core::str::FromStr;

/// SIPp's name of each law, and its parameters.
const LAWS: [(&str, &[&str]); 10] = [
    ("fixed", &["value"]),
    ("uniform", &["min", "max"]),
    ("exponential", &["mean"]),
    ("lognormal", &["mean", "stdev"]),
    ("normal", &["mean", "stdev"]),
    ("weibull", &["lambda", "k"]),
    ("pareto", &["k", "x_m"]),
    ("gpareto", &["shape", "scale", "location"]),
    ("gamma", &["k", "theta"]),
    ("negbin", &["p", "n"]),
];

impl Distribution {
    /// SIPp's name of the law, as in `distribution="lognormal"`.
    pub const fn name(&self) -> &'static str {
        match self {
            Distribution::Fixed { .. } => "fixed",
            Distribution::Uniform { .. } => "uniform",
            Distribution::Exponential { .. } => "exponential",
            Distribution::LogNormal { .. } => "lognormal",
            Distribution::Normal { .. } => "normal",
            Distribution::Weibull { .. } => "weibull",
            Distribution::Pareto { .. } => "pareto",
            Distribution::GeneralizedPareto { .. } => "gpareto",
            Distribution::Gamma { .. } => "gamma",
            Distribution::NegativeBinomial { .. } => "negbin",
        }
    }

    /// The parameters that the law `name` needs, all of them; none if there is no such law.
    pub fn parameters_of(name: &str) -> Option<&'static [&'static str]> {
        LAWS.iter().find(|(law, _)| *law == name).map(|(_, parameters)| *parameters)
    }

    /// The law `name` with the parameters that `get` has. Refuses unknown laws, missing parameters and
    /// impossible values.
    pub fn named(name: &str, mut get: impl FnMut(&str) -> Option<f64>) -> Result<Distribution, Impossible> {
        let mut need = |parameter: &str| {
            get(parameter).ok_or_else(|| Impossible::new(format!("{name}: {parameter} is missing")))
        };
        let law = match name {
            "fixed" => Distribution::Fixed { value: need("value")? },
            "uniform" => Distribution::Uniform { min: need("min")?, max: need("max")? },
            "exponential" => Distribution::Exponential { mean: need("mean")? },
            "lognormal" => Distribution::LogNormal { mean: need("mean")?, stdev: need("stdev")? },
            "normal" => Distribution::Normal { mean: need("mean")?, stdev: need("stdev")? },
            "weibull" => Distribution::Weibull { lambda: need("lambda")?, k: need("k")? },
            "pareto" => Distribution::Pareto { k: need("k")?, x_m: need("x_m")? },
            "gpareto" => Distribution::GeneralizedPareto {
                shape: need("shape")?,
                scale: need("scale")?,
                location: need("location")?,
            },
            "gamma" => Distribution::Gamma { k: need("k")?, theta: need("theta")? },
            "negbin" => Distribution::NegativeBinomial { p: need("p")?, n: need("n")? },
            _ => {
                let laws: Vec<&str> = LAWS.iter().map(|(law, _)| *law).collect();
                let laws = laws.join(", ");
                return Err(Impossible::new(format!(
                    "no distribution is called \"{name}\"; there are {laws}"
                )));
            }
        };
        law.checked()
    }

    /// Each parameter and its value, in the order of [`Distribution::parameters_of`].
    pub(super) fn parameters(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let values = match *self {
            Distribution::Fixed { value } => [value, 0.0, 0.0],
            Distribution::Uniform { min, max } => [min, max, 0.0],
            Distribution::Exponential { mean } => [mean, 0.0, 0.0],
            Distribution::LogNormal { mean, stdev } | Distribution::Normal { mean, stdev } => {
                [mean, stdev, 0.0]
            }
            Distribution::Weibull { lambda, k } => [lambda, k, 0.0],
            Distribution::Pareto { k, x_m } => [k, x_m, 0.0],
            Distribution::GeneralizedPareto { shape, scale, location } => [shape, scale, location],
            Distribution::Gamma { k, theta } => [k, theta, 0.0],
            Distribution::NegativeBinomial { p, n } => [p, n, 0.0],
        };
        Distribution::parameters_of(self.name()).unwrap_or_default().iter().copied().zip(values)
    }
}

impl fmt::Display for Distribution {
    /// What [`Distribution::from_str`] reads back, exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name())?;
        for (i, (parameter, value)) in self.parameters().enumerate() {
            write!(f, "{}{parameter}={value}", if i == 0 { "" } else { "," })?;
        }
        f.write_str(")")
    }
}

impl FromStr for Distribution {
    type Err = Impossible;

    /// `name(parameter=value,...)`, or a plain time for a fixed one.
    fn from_str(text: &str) -> Result<Distribution, Impossible> {
        let text = text.trim();
        let Some((name, rest)) = text.split_once('(') else {
            return Distribution::Fixed { value: milliseconds(text)? }.checked();
        };
        let name = name.trim();
        let inside = rest.strip_suffix(')').ok_or_else(|| {
            Impossible::new(format!(
                "\"{text}\": the parenthesis is not closed; write name(parameter=value,...)"
            ))
        })?;
        let mut given = Vec::new();
        for part in inside.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (parameter, value) = part
                .split_once('=')
                .ok_or_else(|| Impossible::new(format!("\"{text}\": \"{part}\" must be parameter=value")))?;
            let parameter = parameter.trim();
            if given.iter().any(|(other, _)| *other == parameter) {
                return Err(Impossible::new(format!("\"{text}\": {parameter} is given twice")));
            }
            given.push((parameter, milliseconds(value)?));
        }
        if name == "lognormal" && given.iter().any(|(parameter, _)| *parameter == "mean_time") {
            return log_normal_by_mean(text, &given);
        }
        let wanted = Distribution::parameters_of(name).unwrap_or_default();
        if let Some((extra, _)) = given.iter().find(|(parameter, _)| !wanted.contains(parameter))
            && !wanted.is_empty()
        {
            return Err(Impossible::new(format!("{name} has no {extra}; it has {}", wanted.join(", "))));
        }
        Distribution::named(name, |wanted| {
            given.iter().find(|(parameter, _)| *parameter == wanted).map(|(_, value)| *value)
        })
    }
}

/// `lognormal(mean_time=300s,sigma=1)`.
fn log_normal_by_mean(text: &str, given: &[(&str, f64)]) -> Result<Distribution, Impossible> {
    let [mean, sigma] = ["mean_time", "sigma"].map(|wanted| given.iter().find(|(p, _)| *p == wanted));
    match (mean, sigma) {
        (Some((_, mean)), Some((_, sigma))) if given.len() == 2 && *mean > 0.0 => {
            Distribution::log_normal_mean(*mean, *sigma).checked()
        }
        _ => Err(Impossible::new(format!(
            "\"{text}\": with mean_time, which must be above 0, belongs sigma and nothing else"
        ))),
    }
}

/// Milliseconds of `250`, `250ms`, `1.5s`, `10m`, `1h`.
pub(in super::super) fn milliseconds(text: &str) -> Result<f64, Impossible> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" | "ms" => 1.0,
        "us" => 1e-3,
        "s" => 1e3,
        "m" => 60e3,
        "h" => 3_600e3,
        _ => 0.0,
    };
    match digits.trim().parse::<f64>() {
        Ok(value) if unit > 0.0 => Ok(value * unit),
        _ => Err(Impossible::new(format!(
            "\"{text}\" is no number or time; write a number of milliseconds, or one with us, ms, s, m or h"
        ))),
    }
}

impl TryFrom<String> for Distribution {
    type Error = Impossible;

    fn try_from(text: String) -> Result<Distribution, Impossible> {
        text.parse()
    }
}

impl From<Distribution> for String {
    fn from(law: Distribution) -> String {
        law.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::ALL;
    use super::*;

    fn parsed(text: &str) -> Result<Distribution, String> {
        text.parse::<Distribution>().map_err(|refused| refused.to_string())
    }

    #[test]
    fn what_is_written_is_read_back() {
        for law in ALL {
            assert_eq!(parsed(&law.to_string()), Ok(law));
        }
        assert_eq!(ALL[1].to_string(), "uniform(min=2000,max=5000)");
    }

    #[test]
    fn people_may_write_units() {
        assert_eq!(parsed("exponential(mean=1h)"), Ok(Distribution::exponential(3_600_000.0)));
        assert_eq!(
            parsed(" uniform( min = 2s , max = 0.5m )"),
            Ok(Distribution::Uniform { min: 2e3, max: 3e4 })
        );
        assert_eq!(parsed("250us"), Ok(Distribution::fixed(0.25)));
        assert_eq!(
            parsed("lognormal(mean_time=300s,sigma=1)"),
            Ok(Distribution::log_normal_mean(300_000.0, 1.0))
        );
    }

    #[test]
    fn refusals_say_what_to_write() {
        let refused = |text: &str| parsed(text).expect_err("refused");
        assert_eq!(
            refused("zipf(k=1)"),
            "no distribution is called \"zipf\"; there are fixed, uniform, exponential, lognormal, normal, \
             weibull, pareto, gpareto, gamma, negbin"
        );
        assert_eq!(refused("uniform(min=1)"), "uniform: max is missing");
        assert_eq!(refused("uniform(min=1,max=2,mean=3)"), "uniform has no mean; it has min, max");
        assert_eq!(refused("uniform(min=1,min=2)"), "\"uniform(min=1,min=2)\": min is given twice");
        assert!(refused("uniform(min=1,max=2").contains("not closed"));
        assert!(refused("uniform(1,2)").contains("\"1\" must be parameter=value"));
        assert!(refused("soon").contains("is no number or time"));
        assert!(refused("5 days").contains("is no number or time"));
        assert!(refused("").contains("is no number or time"));
        assert!(refused("lognormal(mean_time=300s)").contains("sigma"));
        assert!(refused("lognormal(mean_time=-1s,sigma=1)").contains("above 0"));
        assert!(refused("exponential(mean=inf)").contains("is no number or time"));
    }
}
