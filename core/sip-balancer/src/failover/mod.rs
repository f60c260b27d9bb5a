//! Requests that may have to be sent once more, and what becomes of who had them first.

pub(crate) mod cancel_fanout;
pub(crate) mod endings;
pub(crate) mod fanout_limit;
pub(crate) mod keeping;
pub(crate) mod late_answers;
pub(crate) mod lost_nodes;
pub(crate) mod rejections;
pub(crate) mod retransmission;
pub(crate) mod search;
pub(crate) mod state;
pub(crate) mod store;
pub(crate) mod stream_responses;
