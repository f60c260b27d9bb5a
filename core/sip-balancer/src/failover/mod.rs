//! Requests that may have to be sent once more, and what becomes of who had them first.

pub(crate) mod cancel_fanout;
pub(crate) mod late_answers;
pub(crate) mod lost_nodes;
pub(crate) mod rejections;
pub(crate) mod retransmission;
pub(crate) mod store;
