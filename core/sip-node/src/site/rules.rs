//! What the operator has changed in requests to a trunk, or to the phones of a domain, and how numbers are
//! dialled.

use super::{Aor, Rules};
use crate::access::Holder;
use crate::services::Services;
use call_rules::{HeaderRules, Identity, NumberPlan, Values};
use sip_message::{Message, Splices, Uri};
use sip_proxy::rewrite::strip_identity;
use sip_proxy::token::{End, Role};
use std::sync::Arc;
use wire::Flow;

impl<'a, S: Services> Rules<'a, S> {
    /// Those for the phones of a domain of ours.
    #[inline]
    pub(crate) fn of_domain(&self, domain: &[u8]) -> Option<Arc<HeaderRules>> {
        if !self.site.has_rules {
            return None;
        }
        self.site.settings.domain_rules.iter().find(|rules| rules.name == domain)?.headers.clone()
    }

    /// Those for a URI of the operator's, if it leads to a trunk.
    pub(crate) fn of_place(&self, uri: &[u8]) -> Option<Arc<HeaderRules>> {
        if !self.site.has_rules {
            return None;
        }
        match self.site.places.of_uri(&self.site.settings, &Uri::parse(uri).ok()?)? {
            Holder::Trunk(at) => self.site.settings.trunks.get(at)?.headers.clone(),
            Holder::Service => None,
        }
    }

    /// Those for a request within a dialog to its other end, which To names (RFC 3261 section 12.2.1.1).
    #[inline]
    pub(crate) fn within(&self, peer: &End, request: &Message<'_>) -> Option<Arc<HeaderRules>> {
        if !self.site.has_rules {
            return None;
        }
        match peer.role {
            Role::Local => self.of_domain(self.site.aor_of(request.to_uri())?.domain()),
            Role::Trunk => {
                let by_address = || match self.site.places.at(&self.site.settings, peer.remote) {
                    Some(Holder::Trunk(at)) => Some(at),
                    _ => None,
                };
                let at = self.site.trunk_of(peer.flow()).or_else(by_address)?;
                self.site.settings.trunks.get(at)?.headers.clone()
            }
            Role::Stranger => None,
        }
    }

    /// How numbers are dialled at this trunk; if there is none, in this domain.
    pub(crate) fn number_plan(&self, trunk: Option<usize>, domain: &[u8]) -> Option<&'a NumberPlan> {
        match trunk {
            Some(at) => self.site.settings.trunks.get(at)?.numbers.as_ref(),
            None => {
                self.site.settings.domain_rules.iter().find(|rules| rules.name == domain)?.numbers.as_ref()
            }
        }
    }

    /// Adds the edits of `rules` to those that a request leaves with. Whether From is another one now.
    pub(crate) fn edit(
        &self,
        rules: &HeaderRules,
        sender: &Sender<'_>,
        request: &Message<'_>,
        splices: &mut Splices,
    ) -> bool {
        let from = sender.source;
        let trunk =
            Some(from).filter(|_| sender.role == Role::Trunk).and_then(|from| self.site.trunk_of(from));
        let name =
            trunk.and_then(|at| self.site.settings.trunks.get(at)).map_or(&b""[..], |trunk| &trunk.name);
        let source = self.site.settings.auth.source(from.remote.ip(), request);
        rules.edit(request, &Values::of(request, source, name), splices);
        match rules.identity() {
            Some(Identity::Withheld) => {
                strip_identity(request, splices);
                false
            }
            // Within a dialog the ends know each other (RFC 3261 section 12.2.1.1).
            Some(identity) if sender.is_ours() && request.to_tag().is_empty() => {
                self.identify_to((identity, rules.numbers()), sender, request, splices)
            }
            _ => false,
        }
    }
}

/// Who sent a request.
pub(crate) struct Sender<'a> {
    /// Where it came from.
    pub source: Flow,
    /// Its standing.
    pub role: Role,
    /// The user of ours whose credentials proved it.
    pub account: Option<&'a Aor<'a>>,
    /// `account` is another user than the caller: it has forwarded the request.
    pub forwards: bool,
}

impl Sender<'_> {
    /// Whether a user of ours is behind it.
    fn is_ours(&self) -> bool {
        self.role == Role::Local || self.forwards
    }
}
