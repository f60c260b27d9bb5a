//! The calls and transactions of one worker, and which node a request goes to.

pub(crate) mod calls;
pub(crate) mod connections;
pub(crate) mod dispatch;
pub(crate) mod index;
pub(crate) mod load_counters;
pub(crate) mod place;
pub(crate) mod reply_credit;
pub(crate) mod retargeting;
pub(crate) mod retry_budget;
pub(crate) mod table;
pub(crate) mod transaction;
