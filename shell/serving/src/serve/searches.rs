//! Searches in the lists of the admin API. Each request looks at a bounded number of items; its answer says
//! where the next one goes on.

use control::admin::{Call, Listing, Page, Search, TrunkTarget};
use sip_node::Report;
use sip_registrar::BindingView;
use std::io::Write;

/// Addresses-of-record that one request of a search looks at.
pub(super) const BINDINGS: usize = 50_000;
/// Calls that one request of a search looks at.
const CALLS: usize = 20_000;
/// Calls that a worker shows at a time, between two rounds of its own work.
const PART: usize = 500;

/// Whether a binding has what is searched for: in its address-of-record, its Contact, its User-Agent, or
/// where the registration came from.
pub(super) fn takes_binding(search: &Search, aor: &[u8], binding: &BindingView<'_>) -> bool {
    if search.takes(&[aor, binding.contact, binding.user_agent]) {
        return true;
    }
    // The longest address with its port has 58 characters; what has no room is left out.
    let mut room = [0_u8; 64];
    let mut rest = &mut room[..];
    let _ = write!(rest, "{}", binding.flow.remote);
    let left = rest.len();
    let written = room.len() - left;
    search.takes(&[&room[..written]])
}

/// Whether a target has what is searched for: in its list, its URI or its state.
pub(super) fn takes_target(search: &Search, target: &TrunkTarget) -> bool {
    search.takes(&[target.list.as_bytes(), target.target.as_bytes(), target.state.as_bytes()])
}

/// A call as the API shows it.
pub(super) fn show_call(call: sip_node::Call, worker: u16) -> Call {
    Call {
        call_id: call.call_id,
        from: call.from,
        to: call.to,
        state: if call.answered { "answered" } else { "ringing" }.into(),
        age_s: call.seconds,
        session: call.answered.then(|| call.life.name().to_owned()),
        session_interval_s: (call.session > 0).then_some(call.session),
        refreshed_s: call.refreshed,
        worker,
    }
}

/// Calls with what is searched for in their Call-ID, From or To, from number `after` of all workers on.
/// `ask`: the report of a worker with a number of its calls, from one on; none if it does not answer.
pub(super) fn calls(
    workers: u16,
    page: &Page,
    after: usize,
    ask: impl Fn(u16, usize, usize) -> Option<Report>,
) -> Listing<Call> {
    let (mut items, mut skip, mut at) = (Vec::new(), after, after);
    for worker in 0..workers {
        while let Some(report) = ask(worker, skip, PART) {
            if report.calls.is_empty() {
                skip = skip.saturating_sub(report.call_count);
                break;
            }
            for call in report.calls {
                (skip, at) = (skip + 1, at + 1);
                if page.search.takes(&[call.call_id.as_bytes(), call.from.as_bytes(), call.to.as_bytes()]) {
                    items.push(show_call(call, worker));
                }
                if items.len() >= page.limit || at - after >= CALLS {
                    return Listing { items, next: Some(at.to_string()) };
                }
            }
        }
    }
    Listing { items, next: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two workers, the first with many calls, the second with `b0` to `b9`.
    fn ask(worker: u16, from: usize, most: usize) -> Option<Report> {
        let (letter, count) = [("a", 30_000), ("b", 10)][usize::from(worker)];
        let call = |n: usize| sip_node::Call {
            call_id: format!("{letter}{n}"),
            from: "sip:anne@example.com".into(),
            to: "sip:ben@example.com".into(),
            answered: true,
            seconds: 1,
            session: 0,
            refreshed: 1,
            life: sip_node::Life::Unknown,
        };
        let calls = (from..count).take(most).map(call).collect();
        Some(Report { call_count: count, calls, ..Report::default() })
    }

    fn found(search: &str, limit: usize, after: usize) -> (Vec<String>, Option<String>) {
        let page = Page { search: Search::new(search), limit, ..Page::default() };
        let listing = calls(2, &page, after, ask);
        (listing.items.into_iter().map(|call| call.call_id).collect(), listing.next)
    }

    #[test]
    fn search_of_calls_goes_on_where_it_ended() {
        assert_eq!(found("B7", 10, 0), (Vec::new(), Some("20000".into())), "one request looks at 20,000");
        assert_eq!(found("B7", 10, 20_000), (vec!["b7".into()], None));
        assert_eq!(found("anne@", 2, 29_999), (vec!["a29999".into(), "b0".into()], Some("30001".into())));
        assert_eq!(found("anne@", 9, 30_001).0.len(), 9);
        assert_eq!(found("anne@", 1, 30_010), (Vec::new(), None));
        assert_eq!(found("carl", 10, 30_009), (Vec::new(), None));
    }

    #[test]
    fn silent_worker_hides_no_calls_of_others() {
        let page = Page { search: Search::new("b1"), ..Page::default() };
        let listing =
            calls(2, &page, 0, |worker, from, most| if worker == 0 { None } else { ask(worker, from, most) });
        assert_eq!(listing.items.len(), 1);
    }
}
