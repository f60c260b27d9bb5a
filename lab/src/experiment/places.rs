//! Systems that run at some combinations of factors only.

use super::check::at;
use super::layers::Origins;
use super::read::numbered;
use super::{Claim, Limit, Setup};
use toml_form::error::{ConfigError, Fault};

/// Checks that such systems run somewhere, and wherever something is claimed of them.
pub(super) fn check(setups: &[Setup], claims: &[Claim], origins: &Origins, errors: &mut Vec<ConfigError>) {
    let factors = |name: &str| {
        let systems = setups.first().map(|setup| &setup.systems)?;
        systems
            .get(name)?
            .at
            .iter()
            .find(|level| setups.iter().all(|s| s.combination.value(&level.factor).is_none()))
    };
    for name in setups.first().into_iter().flat_map(|setup| setup.systems.keys()) {
        if let Some(level) = factors(name) {
            let what = format!("{name} runs at values of `{}`, which is no factor", level.factor);
            let fault = Fault::new(what, "name one of [factor]: at = { rate = 4000 }");
            errors.push(at(origins, &format!("system.{name}.at"), fault));
        }
    }
    for (nth, claim) in claims.iter().enumerate() {
        // A side with values of its own is judged elsewhere.
        let other = match &claim.limit {
            Limit::Ratio { of, at, .. } if at.is_empty() => Some(of.as_str()),
            _ => None,
        };
        let systems = || std::iter::once(claim.system.as_str()).chain(other);
        let missing = |setup: &&Setup| {
            let runs = |name: &str| setup.systems.get(name).is_none_or(|s| s.runs_at(&setup.combination));
            claim.concerns(&setup.combination) && !systems().all(runs)
        };
        if let Some(setup) = setups.iter().find(missing) {
            let what = format!("a claim on a system that does not run at {}", setup.combination);
            let fault = Fault::new(what, "add `where FACTOR = VALUE` to the claim");
            errors.push(at(origins, &numbered("claim", nth), fault));
        }
    }
}
