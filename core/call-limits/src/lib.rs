//! Which calls may leave, and how many.
//!
//! A [`Class`] has the limits of a group of callers: called numbers, trunks, hours, and counts of calls.
//! [`Classes`] has all of them, and which domains and trunks have which. [`Usage`] counts the calls of each
//! account in bounded memory. [`Buckets`] limit how often unknown senders may call.
//!
//! Nothing here reads a clock: a [`Moment`] comes from a [`Zone`] and the seconds since 1970.
#![forbid(unsafe_code)]

mod class;
mod hours;
mod number;
mod prefixes;
mod rate;
mod rule;
mod usage;

pub use class::{Class, Classes, Limits};
pub use hours::{Hours, MINUTES_OF_WEEK, Moment, Zone};
pub use number::{Number, Readings};
pub use prefixes::{MOST_PREFIXES, Prefixes, Twice};
pub use rate::{Buckets, Held, Pace, StrangerRate};
pub use rule::{Barred, ClassName, LONGEST_NAME, Rule, is_of_name};
pub use usage::Usage;
