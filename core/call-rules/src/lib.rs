//! What an operator has changed in requests that leave for a trunk or for the phones of a domain.
//!
//! [`HeaderRules`] removes, sets and adds header fields. What it writes comes from templates with a few named
//! values of the request, which are escaped for the place where they stand. A rule that could break a message
//! is refused when it is read, with what is wrong and a mend ([`Wrong`]).
//!
//! [`Identity`] says where a trunk learns who calls, and [`Callers`] which numbers a user may present.
//!
//! [`NumberPlan`] reads dialled numbers by the rules of a country, and writes them as a trunk wants them.
#![forbid(unsafe_code)]

mod headers;
mod identity;
mod numbers;
mod owned;
mod template;

pub use headers::{HeaderRules, LONGEST_NAME, MOST_RULES, check_field, check_pattern};
pub use identity::{Callers, Identity, Numbers, check_number};
pub use numbers::{E164, NumberFormat, NumberPlan, PlanParts};
pub use template::{LONGEST_TEMPLATE, LONGEST_VALUE, Values};

/// Why a rule is refused, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// What is wrong.
    pub what: String,
    /// What would do; empty if nothing can be said.
    pub mend: String,
}

impl Wrong {
    fn new(what: impl Into<String>, mend: impl Into<String>) -> Wrong {
        Wrong { what: what.into(), mend: mend.into() }
    }
}
