//! The admin HTTP API: status, lists, reload, drain, metrics, and the dashboard for people.
//!
//! It runs on a thread of its own with its own small runtime, so that nothing it does can hold up a
//! worker, and nothing a worker does can hold up the answer to "are you alive".

mod dashboard;
mod events;
mod guard;
mod live;
mod load;
mod model;
mod numbers;
mod page;
mod refused;
mod routes;
mod search;
mod server;
mod streams;
#[cfg(test)]
mod tests;
mod tokens;
mod users;

pub use live::{Live, LiveBalance, LiveRole, LiveServe, Times};
pub use load::TrunkLoad;
pub use model::{
    Admin, AnswerTimes, Audit, BalanceStatus, BalancedNode, Binding, Call, Draining, Listing, Logins,
    NodeOrder, Nodes, Page, Records, Refusal, Role, ServeStatus, State, Status, StoreStatus, TrunkTarget,
};
pub use numbers::{NumberRoute, NumberTrunk};
pub(crate) use page::uptime;
pub use refused::{RefusedFilter, RefusedRequest};
pub use search::Search;
pub use server::{Bound, Server, read_secret};
pub use streams::{CertificateStatus, Connection, ConnectionFilter};
pub use tokens::{Rights, TOKENS_FILE, TOKENS_MAX, Token, read_tokens, write_tokens};
pub use users::{User, UserChange, UserFault, UserSearch, Users};
