//! `[routes]`: the route table.

use super::form::*;
use super::schema::{Checks, section};
use std::path::PathBuf;

section! {
    /// `[routes]`: a table of called numbers and the trunks that serve them
    /// ([number routes](../guide/number-routes.md)).
    pub struct RouteFile = "routes" {
        /// A CSV file with the columns `prefix` and `trunk`, and optionally `priority` and `cost`. The
        /// longest prefix in this file and in `prefixes` of trunks decides. A file with a wrong row is
        /// refused as a whole. A reload reads it again.
        file: Option<PathBuf> = None, path().optional(), live;
    }
}

impl Checks for RouteFile {}
