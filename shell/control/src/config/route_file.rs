//! `[routes]`: the route table.

use super::form::*;
use super::schema::{Checks, section};
use std::path::PathBuf;

section! {
    /// `[routes]`: a table of called numbers and the trunks that serve them
    /// ([number routes](../guide/number-routes.md)).
    pub struct RouteFile = "routes" {
        /// A CSV file with the columns `prefix` and `trunk`, and `priority` and `cost` if they are wanted.
        /// The longest prefix of a number decides, also beside `prefixes` of trunks. A file with a wrong row
        /// is refused as a whole. A reload reads it again.
        file: Option<PathBuf> = None, path().optional(), live;
    }
}

impl Checks for RouteFile {}
