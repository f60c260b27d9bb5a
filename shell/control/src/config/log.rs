//! `[log]`: logging.

use super::form::*;
use super::schema::{Checks, section};
use super::types::named;

named! {
    /// What is logged.
    Level {
        /// What stops service.
        Error = "error",
        /// What the operator should look at.
        Warn = "warn",
        /// The life of the server.
        Info = "info",
        /// Single messages.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

named! {
    /// The shape of log lines.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

section! {
    /// `[log]`: logging.
    pub struct Log = "log" {
        /// `"error"`, `"warn"`, `"info"`, `"debug"`, `"trace"`. Nothing is logged per message above debug,
        /// and credentials never. Failed logins are logged at info, one in ten seconds at most (`before` is
        /// the number of others since the last line). The line has the name in From or To and the address
        /// that the request came from, or behind `auth.fronts` the one that they name. Over UDP that address
        /// may be forged: wrong credentials count against the network that their challenge was sent to. At
        /// debug there is a line for each, and for each 403, with the reason.
        level: Level = Level::Info, choice(Level::ALL), live;
        /// `"text"` or `"json"`, one object a line.
        format: LogFormat = LogFormat::Text, choice(LogFormat::ALL), restart;
    }
}

impl Checks for Log {}
