//! What is counted of calls that leave and of strangers, and the answers to what is too much or not allowed.

use crate::admitted::Admitted;
use crate::calls::DialogKey;
use crate::server_side::ServerSide;
use crate::services::{Counter, Refusal, Services};
use crate::site::Site;
use crate::step::Step;
use call_limits::{Barred, Rule};
use sip_message::Message;
use sip_transaction::Prepared;
use wire::Flow;

/// What separates caller and number where a refusal is shown.
const ARROW: &[u8] = b" -> ";

impl<S: Services> Step<'_, S> {
    /// Counts the call that was planned last, if its class limits how many there are.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn take_charge(&mut self) -> Result<(), Barred> {
        let Some(charge) = &self.charge else { return Ok(()) };
        let begun = self.site.services().begin_call(charge.account, &charge.limits, charge.moment);
        begun.map_err(|rule| Barred { class: charge.class, rule })
    }

    /// The call that was counted does not begin after all. It counts for hour and day nevertheless.
    #[cold]
    pub(crate) fn give_charge_back(&mut self) {
        if let Some(charge) = self.charge.take().filter(|charge| charge.limits.channels.is_some()) {
            self.site.services().end_call(charge.account);
        }
    }

    /// The call that was counted has begun, and takes its channel until it ends.
    #[inline]
    pub(crate) fn hold_charge(&mut self, key: &DialogKey) {
        if let Some(charge) = self.charge.take().filter(|charge| charge.limits.channels.is_some()) {
            self.calls.charge(key, charge.account);
        }
    }

    /// Answers 403 with the class and the rule, and reports it. `waited`: the server transaction of a request
    /// that has waited.
    #[cold]
    pub(crate) fn bar(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
        barred: Barred,
        waited: Option<ServerSide>,
    ) {
        self.site.services().count(Counter::Forbidden);
        self.site.services().count(counter_of(barred.rule));
        let about = about(self.site, request, a);
        self.site.tell(Refusal::Class(barred), &about, flow, request);
        let warning = format!("Warning: 399 proxy \"{barred}\"\r\n");
        let reason = format!("Refused By Class {}", barred.class);
        match waited {
            None => self.decline(flow, request, a, (403, reason.as_bytes()), warning.as_bytes()),
            Some(server) => self.answer_in(flow, request, server, 403, warning.as_bytes()),
        }
    }
}

/// Who called which number.
fn about<S: Services>(site: &Site<S>, request: &Message<'_>, a: &Admitted<'_>) -> Vec<u8> {
    let number = a.uri.user.unwrap_or(a.uri.host);
    let trunk = a.caller.trunk.and_then(|at| site.settings().trunks.get(at));
    if let Some(trunk) = trunk {
        return [&trunk.name[..], ARROW, number].concat();
    }
    let user = a.caller.account.clone().or_else(|| site.aor_of(request.from_uri()));
    [user.as_ref().map_or(&b"anonymous"[..], |user| user.text()), ARROW, number].concat()
}

/// What a refusal by this rule is counted as.
const fn counter_of(rule: Rule) -> Counter {
    match rule {
        Rule::Denied(_) | Rule::Unlisted => Counter::ClassNumber,
        Rule::Trunk | Rule::Elsewhere => Counter::ClassTrunk,
        Rule::Hours => Counter::ClassHours,
        Rule::Channels(_) => Counter::ClassChannels,
        Rule::Hour(_) => Counter::ClassHour,
        Rule::Day(_) => Counter::ClassDay,
        Rule::Unknown => Counter::ClassUnknown,
        Rule::Room => Counter::ClassRoom,
    }
}
