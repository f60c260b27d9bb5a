//! Who calls, as trunks are told (RFC 3325), and whose word is believed.

use super::{Aor, Rules, Sender};
use crate::services::Services;
use call_rules::{Identity, NumberPlan};
use sip_message::{Message, Name, NameAddr, Splices, Uri, canonical_user};
use std::borrow::Cow;

/// The line before an asserted identity.
const ASSERTED: &[u8] = b"P-Asserted-Identity: <";

impl<S: Services> Rules<'_, S> {
    /// Whether what this trunk says of its callers is believed (RFC 3325 section 5).
    #[inline]
    pub(crate) fn believes(&self, trunk: Option<usize>) -> bool {
        let rules = || self.site.settings.trunks.get(trunk?)?.headers.as_ref()?.identity();
        !self.site.has_rules || rules() != Some(Identity::Withheld)
    }

    /// Tells a trunk who calls, where it looks for that: the edits of a request of a user of ours, by its
    /// credentials, or of one that a user of ours forwards. Without any From counts. Whether From is another
    /// one now.
    pub(super) fn identify_to(
        &self,
        (identity, numbers): (Identity, Option<&NumberPlan>),
        sender: &Sender<'_>,
        request: &Message<'_>,
        splices: &mut Splices,
    ) -> bool {
        let from = self.site.aor_of(request.from_uri()).filter(|aor| aor.user() != b"anonymous");
        let Some(account) = sender.account.or(from.as_ref()) else { return false };
        // Who forwards asks for no number, and what the caller wrote hides nothing of it.
        let (named, asks) = match sender.forwards {
            true => (true, None),
            false => (from.is_some(), Some(request)),
        };
        match identity {
            Identity::Asserted => {
                let end = request.head_len().saturating_sub(2);
                splices.replace_with(end..end, |text| {
                    text.extend_from_slice(ASSERTED);
                    self.push_identity(account, numbers, asks, text);
                    text.extend_from_slice(b">\r\n");
                    // A caller without a name in From does not want this one shown (RFC 3325 section 9.3).
                    if !named && request.header(Name::Privacy).is_none() {
                        text.extend_from_slice(b"Privacy: id\r\n");
                    }
                });
                false
            }
            Identity::From if named => {
                let uri = request.range_of(request.from_uri());
                splices.replace_with(uri, |text| self.push_identity(account, numbers, asks, text));
                true
            }
            Identity::From | Identity::Withheld => false,
        }
    }

    /// Appends the URI that stands for a user: with the number that it may present and asks for in its
    /// `request`, with its main number, or with its name if it has no number.
    fn push_identity(
        &self,
        account: &Aor<'_>,
        numbers: Option<&NumberPlan>,
        request: Option<&Message<'_>>,
        text: &mut Vec<u8>,
    ) {
        let plan = self.number_plan(None, account.domain());
        let domain = self.site.settings.domain_rules.iter().find(|rules| rules.name == account.domain());
        let allowed = domain.and_then(|domain| domain.callers.of(account.user()));
        let wanted = request.and_then(|request| wanted(request, plan));
        let own = || normal(account.user().into(), plan);
        let number: Cow<'_, [u8]> = match allowed {
            Some(allowed) => allowed.presented(wanted.as_deref()).into(),
            None => own(),
        };
        text.extend_from_slice(b"sip:");
        match numbers {
            Some(numbers) => numbers.write(&number, text),
            None => text.extend_from_slice(&number),
        }
        text.push(b'@');
        text.extend_from_slice(account.domain());
    }
}

/// The number that a caller asks for: in P-Preferred-Identity (RFC 3325 section 9.2), or in From.
fn wanted<'a>(request: &Message<'a>, plan: Option<&NumberPlan>) -> Option<Cow<'a, [u8]>> {
    let mut preferred = request.values(Name::PPreferredIdentity).filter_map(|v| NameAddr::parse(v).ok());
    let uri = preferred.next().map_or(request.from_uri(), |preferred| preferred.uri);
    let user = Uri::parse(uri).ok()?.user?;
    Some(normal(canonical_user(user), plan))
}

/// A number in E.164, if it is one by this plan.
fn normal<'a>(user: Cow<'a, [u8]>, plan: Option<&NumberPlan>) -> Cow<'a, [u8]> {
    match plan.and_then(|plan| plan.read(&user)) {
        Some(number) => number.to_vec().into(),
        None => user,
    }
}
