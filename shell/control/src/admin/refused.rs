//! What the admin API says of requests that were refused.

use super::search::Search;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A request that was refused because of who sent it or where it would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRequest {
    /// Seconds since then.
    pub ago_s: u64,
    /// The address that it came from, or behind `auth.fronts` the one that they name.
    pub source: String,
    /// The address-of-record that it claimed to be of, or the target that it may not reach.
    pub about: String,
    /// Why, in words.
    pub reason: String,
    /// How many refusals of this source the entry stands for: of one that is refused very often, only the
    /// latest is kept.
    pub times: u64,
    /// The worker that refused it.
    pub worker: usize,
}

/// Which refused requests are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedFilter {
    /// Those from this address.
    pub source: Option<IpAddr>,
    /// Those whose address-of-record or target contains this, in any case of letters.
    pub about: Option<String>,
    /// Those whose source, address-of-record or target contains this.
    pub search: Search,
}

impl RefusedFilter {
    /// Of what an operator wrote.
    ///
    /// # Errors
    /// What is wrong with it, and the mend.
    pub fn parse(source: Option<&str>, about: Option<&str>) -> Result<RefusedFilter, String> {
        let address =
            |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().map(|ip| ip.to_canonical());
        let source =
            source.map(address).transpose().map_err(|_| "source is an address, such as 192.0.2.1")?;
        Ok(RefusedFilter { source, about: about.map(str::to_owned), search: Search::default() })
    }

    /// Whether a refused request is asked for.
    #[must_use]
    pub fn takes(&self, source: IpAddr, about: &str) -> bool {
        self.source.is_none_or(|wanted| wanted == source)
            && self.about.as_ref().is_none_or(|part| about.to_lowercase().contains(&part.to_lowercase()))
            && (self.search.is_empty()
                || self.search.takes(&[source.to_string().as_bytes(), about.as_bytes()]))
    }
}
