//! Who gets a new call.

pub(crate) mod algorithm;
pub(crate) mod candidates;
pub(crate) mod choice;
pub(crate) mod least_loaded;
pub(crate) mod maglev;
pub(crate) mod overload;
pub(crate) mod refusal_rate;
pub(crate) mod round_robin;
pub(crate) mod rwma;
