//! Accounts at trunks: which one a flow is of, and what makes a request one of a trunk that this server has
//! registered at.

use super::{Site, domain};
use crate::access::Holder;
use crate::account::Account;
use crate::services::Services;
use core::hash::Hasher;
use sip_message::{Uri, hex16};
use std::sync::Arc;
use wire::Flow;

/// The parameter of our Contact at a trunk. Its value is known to nobody else.
pub(crate) const LINE: &[u8] = b"line";
/// Its length.
const LINE_LEN: usize = 32;

/// The account at the trunk that a flow leads to.
pub(crate) fn account_at<S: Services>(site: &Site<S>, flow: Flow) -> Option<Arc<Account>> {
    if site.settings.trunks.iter().all(|trunk| trunk.account.is_none()) {
        return None;
    }
    let by_address = || match site.places.at(&site.settings, flow.remote) {
        Some(Holder::Trunk(at)) => Some(at),
        _ => None,
    };
    let at = site.trunk_of(flow).or_else(by_address)?;
    site.settings.trunks.get(at)?.account.clone()
}

/// What the Contact that is registered at a trunk says. It is a keyed hash, so it is the same after a
/// restart, and nobody can work it out.
pub(crate) fn line_of<S: Services>(site: &Site<S>, trunk: &[u8]) -> [u8; LINE_LEN] {
    let half = |half: u8| {
        let mut hash = site.keyed(domain::LINE);
        hash.write_u8(half);
        hash.write(trunk);
        hex16(hash.finish())
    };
    let [low, high] = [half(0), half(1)];
    core::array::from_fn(|n| if n < 16 { low[n] } else { high[n - 16] })
}

/// The trunk whose registered Contact a Request-URI is. Only who got the REGISTER can write it.
pub(crate) fn trunk_of_line<S: Services>(site: &Site<S>, uri: &Uri<'_>) -> Option<usize> {
    let line = uri.param(LINE).filter(|line| line.len() == LINE_LEN)?;
    site.settings.trunks.iter().position(|trunk| {
        let registers = trunk.account.as_ref().is_some_and(|account| account.rules.is_some());
        registers && line_of(site, &trunk.name) == *line
    })
}
