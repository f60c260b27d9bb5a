//! The calls and transactions of one worker, and which node a request goes to.

pub(crate) mod connections;
pub(crate) mod dispatch;
pub(crate) mod index;
pub(crate) mod lifetime;
pub(crate) mod replies;
pub(crate) mod retargeting;
pub(crate) mod table;
