//! One registration as a machine: when a REGISTER is due, and what its answers mean.

use crate::reply;
use core::time::Duration;
use sip_auth::client::{Asked, is_stale};
use sip_auth::{Held, Login, Tries};
use sip_message::Message;
use wire::Time;

/// The least time from one REGISTER to the next while it is in force, however short the interval that is
/// granted.
pub const FLOOR: Duration = Duration::from_secs(4);
/// How long it rests after nobody has answered: at first, and at most (RFC 5626 section 4.5).
const REST: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(1_800));
/// The same after the registrar has refused it: a wrong password must not block the account.
const REFUSED: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(3_600));
/// Redirections that are followed one after the other.
const MAX_MOVES: u8 = 3;
/// How long the end of a registration is waited for when this server ends.
const GOODBYE: Duration = Duration::from_secs(4);

/// What a final response means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is in force for this number of seconds.
    Registered(u32),
    /// It is sent again at once, to the same address.
    Again,
    /// It is sent at once to where this URI leads.
    Moved(Vec<u8>),
    /// Another address may take it, so [`Plan::failed`] has to be called.
    Elsewhere,
    /// It is refused for this reason, and tried again seldom.
    Refused(&'static str),
    /// It has ended.
    Gone,
}

/// What is known of the REGISTER that a response is for.
#[derive(Clone, Copy)]
pub struct Sent<'a> {
    /// Our Contact in it, a URI.
    pub contact: &'a [u8],
    /// It went over TLS, so a redirection into the clear is not followed.
    pub secure: bool,
    /// What proves us.
    pub login: Login<'a>,
}

/// What has happened since the last success, at one address.
#[derive(Clone, Copy, Debug, Default)]
struct Attempt {
    tries: Tries,
    /// The interval was raised because of a 423.
    raised: bool,
    moves: u8,
}

/// One registration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The interval that is asked for, seconds.
    interval: u32,
    cseq: u32,
    /// A REGISTER is under way.
    waits: bool,
    /// When the next one leaves.
    next: Time,
    /// How long it is in force.
    until: Option<Time>,
    /// It is to end, and its end is waited for until then.
    leaving: Option<Time>,
    gone: bool,
    /// Failures one after the other.
    failures: u32,
    /// The longest Retry-After of this round.
    wait: Duration,
    attempt: Attempt,
    /// The challenges that are answered: of a server, and of a proxy.
    held: [Option<Held>; 2],
}

impl Plan {
    /// One that asks for `interval` seconds, and begins at `now`.
    pub fn new(now: Time, interval: u32) -> Plan {
        Plan {
            interval,
            cseq: 0,
            waits: false,
            next: now,
            until: None,
            leaving: None,
            gone: false,
            failures: 0,
            wait: Duration::ZERO,
            attempt: Attempt::default(),
            held: [None, None],
        }
    }

    /// When [`Plan::tick`] wants to be called.
    pub fn wakes(&self) -> Time {
        let next = if self.waits { Time::FAR } else { self.next };
        match self.gone {
            true => Time::ZERO,
            false => next.min(self.until.unwrap_or(Time::FAR)).min(self.leaving.unwrap_or(Time::FAR)),
        }
    }

    /// Time has passed. Whether the registration has run out.
    pub fn tick(&mut self, now: Time) -> bool {
        self.gone |= self.leaving.is_some_and(|leaving| leaving <= now);
        let over = self.until.is_some_and(|until| until <= now);
        if over {
            self.until = None;
        }
        over
    }

    /// Whether a REGISTER is to leave now.
    pub fn is_due(&self, now: Time) -> bool {
        !self.gone && !self.waits && self.next <= now
    }

    /// Whether it is over, and can be forgotten.
    pub const fn is_gone(&self) -> bool {
        self.gone
    }

    /// Whether it is to end.
    pub const fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// How long it is in force.
    pub const fn until(&self) -> Option<Time> {
        self.until
    }

    /// When the next REGISTER leaves; `None`: one is under way.
    pub fn next(&self) -> Option<Time> {
        Some(self.next).filter(|_| !self.waits)
    }

    /// The realm that is answered.
    pub fn realm(&self) -> &[u8] {
        self.held.iter().flatten().next().map_or(b"", Held::realm)
    }

    /// The interval that the next REGISTER asks for, seconds.
    pub const fn expires(&self) -> u32 {
        match self.leaving {
            Some(_) => 0,
            None => self.interval,
        }
    }

    /// Nothing can be sent before `at`: a name has to be looked up.
    pub fn postpone(&mut self, at: Time) {
        self.next = at;
    }

    /// A REGISTER leaves now: the number in its CSeq.
    pub fn begin(&mut self) -> u32 {
        self.waits = true;
        self.cseq = self.cseq.checked_add(1).filter(|cseq| *cseq < 1 << 31).unwrap_or(1);
        self.cseq
    }

    /// Appends the credentials of a REGISTER to `uri`, if a challenge is known.
    pub fn credentials(&mut self, user: &[u8], uri: &[u8], cnonce: u64, out: &mut Vec<u8>) {
        for held in self.held.iter_mut().flatten() {
            held.write(&Asked { user, method: b"REGISTER", uri }, cnonce, out);
        }
    }

    /// A final response came.
    pub fn answered(&mut self, now: Time, response: &Message<'_>, sent: &Sent<'_>, random: u64) -> Verdict {
        self.waits = false;
        let status = response.status();
        match status {
            401 | 407 => self.challenged(now, response, sent, random),
            _ if self.is_leaving() => self.end(),
            200..=299 => self.accepted(now, response, sent, random),
            300..=399 => match reply::moved(response, sent.secure) {
                Some(uri) if self.attempt.moves < MAX_MOVES => {
                    self.attempt = Attempt { moves: self.attempt.moves + 1, ..Attempt::default() };
                    self.next = now;
                    Verdict::Moved(uri)
                }
                _ => self.refused(now, response, random, "it sends us elsewhere, and not to a usable place"),
            },
            423 => match reply::least(response).filter(|least| *least > self.interval) {
                Some(least) if !self.attempt.raised => {
                    (self.interval, self.attempt.raised, self.next) = (least, true, now);
                    Verdict::Again
                }
                _ => self.refused(now, response, random, "it demands an interval that it does not grant"),
            },
            403 => {
                self.refused(now, response, random, "it says 403: account or password are wrong, or blocked")
            }
            404 => self.refused(now, response, random, "it says 404: it has no such account"),
            408 | 480 | 500.. if status < 600 => {
                self.wait = self.wait.max(reply::retry_after(response));
                Verdict::Elsewhere
            }
            _ => self.refused(now, response, random, "it refuses the registration"),
        }
    }

    /// No answer came, nobody is there, or another address may do better. `more`: another one is tried at
    /// once.
    pub fn failed(&mut self, now: Time, more: bool, random: u64) {
        (self.waits, self.attempt) = (false, Attempt::default());
        if self.is_leaving() {
            self.gone = true;
        } else if more {
            self.next = now;
        } else {
            self.rest(now, REST, random);
            // It is still in force, and has time.
            if let Some(until) = self.until {
                let soon = now + FLOOR.max(until.since(now) / 2).max(self.wait);
                self.next = self.next.min(soon);
            }
            self.wait = Duration::ZERO;
        }
    }

    /// It is to end: by a last REGISTER if it may be in force. What was under way is no longer waited for.
    pub fn leave(&mut self, now: Time) {
        let known = self.until.is_some() || self.waits;
        (self.waits, self.next, self.attempt) = (false, now, Attempt::default());
        self.gone |= !known;
        self.leaving = self.leaving.or(Some(now + GOODBYE));
    }

    fn end(&mut self) -> Verdict {
        self.gone = true;
        Verdict::Gone
    }

    fn accepted(&mut self, now: Time, response: &Message<'_>, sent: &Sent<'_>, random: u64) -> Verdict {
        let Some(seconds) = reply::granted(response, sent.contact, self.interval) else {
            return Verdict::Elsewhere;
        };
        (self.failures, self.wait, self.attempt) = (0, Duration::ZERO, Attempt::default());
        let granted = Duration::from_secs(seconds.into());
        // Three quarters of the interval and a little more, which differs from one server to the next.
        let part = granted / 4 * 3 + granted / 1_000 * (random % 100) as u32;
        self.next = now + part.max(FLOOR);
        self.until = Some(now + granted.max(FLOOR + Duration::from_secs(1)));
        Verdict::Registered(seconds)
    }

    fn challenged(&mut self, now: Time, response: &Message<'_>, sent: &Sent<'_>, random: u64) -> Verdict {
        let why = match Held::of(response, &sent.login) {
            _ if !self.attempt.tries.take(response) => "its user or password is wrong",
            Err(why) => why.text(),
            Ok(held) => {
                let place = usize::from(held.is_of_proxy());
                let again =
                    self.held.get(place).and_then(Option::as_ref).is_some_and(|old| old.is_again(&held));
                if !again || is_stale(response) {
                    if let Some(known) = self.held.get_mut(place) {
                        *known = Some(held);
                    }
                    self.next = now;
                    return Verdict::Again;
                }
                "its user or password is wrong"
            }
        };
        match self.is_leaving() {
            true => self.end(),
            false => self.refused(now, response, random, why),
        }
    }

    fn refused(&mut self, now: Time, response: &Message<'_>, random: u64, why: &'static str) -> Verdict {
        self.wait = self.wait.max(reply::retry_after(response));
        self.attempt = Attempt::default();
        self.held = [None, None];
        self.rest(now, REFUSED, random);
        self.wait = Duration::ZERO;
        Verdict::Refused(why)
    }

    /// Rests, longer after each failure, with a random part (RFC 5626 section 4.5).
    fn rest(&mut self, now: Time, (first, most): (Duration, Duration), random: u64) {
        let span = first.saturating_mul(1 << self.failures.min(10)).min(most);
        self.failures = self.failures.saturating_add(1);
        let rest = span / 2 + span / 2_000 * (random % 1_000) as u32;
        self.next = now + rest.max(self.wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sip_message::{Index, Limits, Parsed, parse};

    const CONTACT: &[u8] = b"sip:4930555@198.51.100.1:5060";
    const LOGIN: Login<'static> = Login { user: b"4930555", password: b"secret", realm: None };
    const SENT: Sent<'static> = Sent { contact: CONTACT, secure: false, login: LOGIN };
    const START: Time = Time::from_secs(1_000);
    const CHALLENGE: &str = "WWW-Authenticate: Digest realm=\"c\", nonce=\"n\", qop=\"auth\"\r\n";

    fn respond(plan: &mut Plan, now: Time, status: u16, lines: &str, random: u64) -> Verdict {
        let text = format!(
            "SIP/2.0 {status} Answer\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:a@b>;tag=2\r\nCall-ID: i\r\nCSeq: 1 REGISTER\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        let mut index = Box::<Index>::default();
        match parse(text.as_bytes(), &mut index, &Limits::default()) {
            Parsed::Good(message) => plan.answered(now, &message, &SENT, random),
            _ => panic!("{text}"),
        }
    }

    fn contact(expires: u32) -> String {
        format!(
            "Contact: <sip:other@192.0.2.1>;expires=9, <sip:4930555@198.51.100.1:5060>;expires={expires}\r\n"
        )
    }

    /// A REGISTER that leaves at `now`, and its answer.
    fn ask(plan: &mut Plan, now: Time, status: u16, lines: &str) -> Verdict {
        assert!(plan.is_due(now));
        plan.begin();
        assert!(!plan.is_due(now + Duration::from_secs(10_000)), "one at a time");
        respond(plan, now, status, lines, 50)
    }

    fn seconds_to_next(plan: &Plan, now: Time) -> u64 {
        plan.next().expect("nothing is under way").since(now).as_secs()
    }

    #[test]
    fn challenge_is_answered_and_the_granted_interval_counts() {
        let mut plan = Plan::new(START, 600);
        assert_eq!(ask(&mut plan, START, 401, CHALLENGE), Verdict::Again);
        let mut line = Vec::new();
        plan.credentials(b"4930555", b"sip:c", 1, &mut line);
        assert!(line.starts_with(b"Authorization: Digest username=\"4930555\",realm=\"c\""));
        assert_eq!(ask(&mut plan, START, 200, &contact(120)), Verdict::Registered(120));
        assert_eq!(plan.until(), Some(START + Duration::from_secs(120)));
        let next = seconds_to_next(&plan, START);
        assert!((90..102).contains(&next), "{next}");
        assert!(!plan.tick(START + Duration::from_secs(119)) && plan.tick(START + Duration::from_secs(120)));
        assert_eq!(plan.until(), None);
    }

    #[test]
    fn interval_of_ten_seconds_works_and_one_of_a_second_is_longer() {
        let mut plan = Plan::new(START, 600);
        ask(&mut plan, START, 200, &contact(10));
        assert!((7..9).contains(&seconds_to_next(&plan, START)));
        let mut plan = Plan::new(START, 600);
        ask(&mut plan, START, 200, &contact(1));
        assert_eq!(plan.next(), Some(START + FLOOR));
        assert!(plan.until() > plan.next(), "it does not seem to end before it is refreshed");
    }

    #[test]
    fn expires_counts_where_no_contact_is_ours() {
        let mut plan = Plan::new(START, 600);
        assert_eq!(ask(&mut plan, START, 200, "Expires: 300\r\n"), Verdict::Registered(300));
        let mut plan = Plan::new(START, 600);
        assert_eq!(ask(&mut plan, START, 200, ""), Verdict::Registered(600));
        let mut plan = Plan::new(START, 600);
        assert_eq!(ask(&mut plan, START, 200, &contact(0)), Verdict::Elsewhere);
    }

    #[test]
    fn too_brief_interval_is_raised_once() {
        let mut plan = Plan::new(START, 60);
        assert_eq!(ask(&mut plan, START, 423, "Min-Expires: 1800\r\n"), Verdict::Again);
        assert_eq!(plan.expires(), 1_800);
        let verdict = ask(&mut plan, START, 423, "Min-Expires: 3600\r\n");
        assert!(matches!(verdict, Verdict::Refused(_)));
        for lines in ["", "Min-Expires: 60\r\n", "Min-Expires: x\r\n", "Min-Expires: 4000000000\r\n"] {
            let mut plan = Plan::new(START, 60);
            assert!(matches!(ask(&mut plan, START, 423, lines), Verdict::Refused(_)), "{lines}");
        }
    }

    #[test]
    fn refusal_rests_long_and_longer_each_time() {
        let (mut plan, mut now, mut rests) = (Plan::new(START, 600), START, Vec::new());
        for _ in 0..8 {
            assert!(matches!(ask(&mut plan, now, 403, ""), Verdict::Refused(_)));
            rests.push(seconds_to_next(&plan, now));
            now = plan.next().unwrap();
        }
        assert!(rests[0] >= 150 && rests.is_sorted() && rests[7] >= 1_800, "{rests:?}");
        assert!(rests.iter().all(|rest| *rest <= 3_600), "{rests:?}");
    }

    #[test]
    fn challenge_for_ever_is_refused() {
        let mut plan = Plan::new(START, 600);
        let fresh = |n: u8| format!("WWW-Authenticate: Digest realm=\"c\", nonce=\"{n}\"\r\n");
        assert_eq!(ask(&mut plan, START, 401, &fresh(1)), Verdict::Again);
        assert!(matches!(ask(&mut plan, START, 401, &fresh(2)), Verdict::Refused(_)));
        let mut plan = Plan::new(START, 600);
        assert_eq!(ask(&mut plan, START, 401, CHALLENGE), Verdict::Again);
        assert_eq!(ask(&mut plan, START, 401, CHALLENGE), Verdict::Refused("its user or password is wrong"));
        for lines in ["", "WWW-Authenticate: Negotiate\r\n", "WWW-Authenticate: Digest realm=\"\r\n"] {
            let mut plan = Plan::new(START, 600);
            let verdict = ask(&mut plan, START, 401, lines);
            assert_eq!(verdict, Verdict::Refused("its challenge cannot be answered"), "{lines}");
        }
    }

    #[test]
    fn refresh_with_an_old_nonce_is_challenged_again() {
        let mut plan = Plan::new(START, 600);
        ask(&mut plan, START, 401, CHALLENGE);
        ask(&mut plan, START, 200, &contact(60));
        let now = plan.next().unwrap();
        let stale = "WWW-Authenticate: Digest realm=\"c\", nonce=\"m\", stale=true\r\n";
        assert_eq!(ask(&mut plan, now, 401, stale), Verdict::Again);
        assert_eq!(ask(&mut plan, now, 200, &contact(60)), Verdict::Registered(60));
    }

    #[test]
    fn redirection_is_followed_three_times() {
        let mut plan = Plan::new(START, 600);
        let lines = "Contact: <tel:+49>, <sip:192.0.2.9:5070>\r\n";
        for _ in 0..MAX_MOVES {
            assert_eq!(ask(&mut plan, START, 302, lines), Verdict::Moved(b"sip:192.0.2.9:5070".to_vec()));
        }
        assert!(matches!(ask(&mut plan, START, 302, lines), Verdict::Refused(_)));
        let mut plan = Plan::new(START, 600);
        assert!(matches!(ask(&mut plan, START, 302, "Contact: <tel:+49>\r\n"), Verdict::Refused(_)));
    }

    #[test]
    fn silence_is_tried_elsewhere_then_rests() {
        let mut plan = Plan::new(START, 600);
        plan.begin();
        plan.failed(START, true, 0);
        assert!(plan.is_due(START));
        let mut now = START;
        let mut rests = Vec::new();
        for _ in 0..8 {
            plan.begin();
            plan.failed(now, false, 999);
            rests.push(seconds_to_next(&plan, now));
            now = plan.next().unwrap();
        }
        assert_eq!((rests[0], rests[7]), (29, 1_799), "{rests:?}");
    }

    #[test]
    fn registration_in_force_is_refreshed_in_time_after_a_failure() {
        let mut plan = Plan::new(START, 600);
        ask(&mut plan, START, 200, &contact(60));
        let now = START + Duration::from_secs(46);
        let next = plan.next().unwrap();
        assert_eq!(ask(&mut plan, next, 500, ""), Verdict::Elsewhere);
        plan.failed(now, false, 999);
        assert_eq!(seconds_to_next(&plan, now), 7);
        let mut plan = Plan::new(START, 600);
        ask(&mut plan, START, 200, &contact(60));
        let next = plan.next().unwrap();
        assert_eq!(ask(&mut plan, next, 503, "Retry-After: 40 (busy)\r\n"), Verdict::Elsewhere);
        plan.failed(now, false, 0);
        assert_eq!(seconds_to_next(&plan, now), 40, "as long as it was told");
    }

    #[test]
    fn end_is_sent_if_it_is_in_force_and_not_waited_for_long() {
        let mut plan = Plan::new(START, 600);
        plan.leave(START);
        assert!(plan.is_gone(), "it never was");
        let mut plan = Plan::new(START, 600);
        ask(&mut plan, START, 200, &contact(60));
        plan.leave(START);
        assert!(plan.is_due(START) && plan.expires() == 0);
        assert_eq!(ask(&mut plan, START, 401, CHALLENGE), Verdict::Again);
        assert_eq!(ask(&mut plan, START, 401, CHALLENGE), Verdict::Gone);
        let mut plan = Plan::new(START, 600);
        ask(&mut plan, START, 200, &contact(60));
        plan.leave(START);
        plan.begin();
        plan.tick(START + GOODBYE);
        assert!(plan.is_gone());
    }

    proptest! {
        /// Whatever comes: it is never due twice in less than a moment without an answer that allows it, and
        /// rests in the end.
        #[test]
        fn any_answers_lead_to_a_rest(
            answers in proptest::collection::vec((100u16..700, 0usize..6, any::<u64>()), 1..200),
        ) {
            let lines = [
                "", CHALLENGE, "Min-Expires: 900\r\n", "Contact: <sip:192.0.2.9>\r\n", "Retry-After: 7\r\n",
                "Expires: 1\r\nProxy-Authenticate: Digest realm=\"c\", nonce=\"n\", stale=true\r\n",
            ];
            let (mut plan, mut now, mut at_once) = (Plan::new(START, 600), START, 0);
            for (status, which, random) in answers {
                plan.begin();
                match respond(&mut plan, now, status.max(200), lines[which], random) {
                    Verdict::Again | Verdict::Moved(_) => at_once += 1,
                    Verdict::Elsewhere => plan.failed(now, false, random),
                    _ => {}
                }
                let next = plan.next().expect("an answer came");
                prop_assert!(next >= now);
                at_once = if next > now { 0 } else { at_once };
                prop_assert!(at_once <= 24, "{at_once}");
                now = next;
            }
        }
    }
}
