//! The metrics of RFC 6076, "Basic Telephony SIP End-to-End Performance Metrics", over the measured
//! window.
//!
//! Where the text leaves something open, the choice is said at the method. Two hold for all:
//!
//! - A session or registration request that is challenged and comes again with credentials is one
//!   request (sections 4.1, 4.3.2 and 5.3: 401, 402 and 407 are no failures, and the time runs on).
//! - Delays begin when the first bit is sent (section 3, t1). The same delays from the intended time are
//!   in [`Metrics::latency`]; they differ when the generator was late.

use super::events::Measure;
use super::hist::Hist;
use super::record::Metrics;

/// A ratio of counts. Section 4: "When the denominator of this ratio is 0, the metric is undefined."
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ratio {
    /// Numerator.
    pub part: u64,
    /// Denominator.
    pub of: u64,
}

impl Ratio {
    /// In percent; `None` if undefined.
    pub fn percent(self) -> Option<f64> {
        (self.of > 0).then(|| self.part as f64 * 100.0 / self.of as f64)
    }
}

/// RFC 6076's view of a record.
#[derive(Clone, Copy, Debug)]
pub struct Performance<'a>(pub &'a Metrics);

impl<'a> Performance<'a> {
    /// Registration Request Delay, section 4.1: time of the final response minus time of the REGISTER
    /// request, of successful registrations only, the expected challenge included. Microseconds (the RFC
    /// reports milliseconds). First registrations and refreshes together.
    pub fn rrd(self) -> Hist {
        let mut h = self.0.latency(Measure::RrdFirst).sent.clone();
        h.merge(&self.0.latency(Measure::RrdRefresh).sent);
        h
    }

    /// Ineffective Registration Attempts, section 4.2: failed attempts (4xx other than 401, 402 and 407;
    /// 5xx; 6xx; timer F) over all REGISTER requests, where neither retransmissions nor the repetition
    /// with credentials count. Removals of bindings are REGISTER requests too. An attempt that ends with a
    /// challenge, because the credentials were wrong, failed: what the section excludes are challenges on
    /// the way.
    pub fn ira(self) -> Ratio {
        let c = &self.0.measured;
        Ratio {
            part: c.registrations_failed + c.refreshes_failed + c.removals_failed,
            of: c.registrations + c.refreshes + c.removals,
        }
    }

    /// Session Request Delay of established sessions, section 4.3.1: time of the first provisional
    /// response other than 100, or of the 200 if there was none before, minus time of the first INVITE;
    /// redirects and challenges included. Microseconds (the RFC reports seconds).
    pub fn srd_success(self) -> &'a Hist {
        &self.0.latency(Measure::SrdSuccess).sent
    }

    /// Session Request Delay of failed session requests, section 4.3.2: to the first provisional response
    /// (other than 100, as for successful ones) or the failure response. Requests that nobody answered have
    /// no response and so no delay.
    pub fn srd_failed(self) -> &'a Hist {
        &self.0.latency(Measure::SrdFailed).sent
    }

    /// Session Disconnect Delay, section 4.4: time of the 2xx minus time of the BYE, at whichever end sent
    /// it. BYEs that ran into timer F are excluded, as the section asks. Microseconds.
    pub fn sdd_success(self) -> &'a Hist {
        &self.0.latency(Measure::SddSuccess).sent
    }

    /// Session Disconnect Delay of BYEs that got another final response; section 4.4 forbids to combine
    /// them with the successful ones.
    pub fn sdd_failed(self) -> &'a Hist {
        &self.0.latency(Measure::SddFailed).sent
    }

    /// Session Duration Time of completed sessions, section 4.5.1: time of the BYE minus time of the 200 to
    /// the INVITE, at the caller's end; the metric is the mean. Microseconds (the RFC reports seconds).
    pub fn sdt_success(self) -> &'a Hist {
        &self.0.latency(Measure::SdtSuccess).sent
    }

    /// Session Duration Time of sessions whose BYE nobody answered, section 4.5.2: until timer F.
    pub fn sdt_failed(self) -> &'a Hist {
        &self.0.latency(Measure::SdtFailed).sent
    }

    /// INVITE requests for new sessions less those answered with 3xx: the denominator of SER and SEER.
    fn invites_not_redirected(self) -> u64 {
        self.0.measured.invites.saturating_sub(self.0.measured.invites_redirected)
    }

    /// Session Establishment Ratio, section 4.6: INVITE requests with an associated 200, over all INVITE
    /// requests less those with a 3xx response. (Any 2xx counts; calls cancelled as planned count against
    /// it, as the formula has it.)
    pub fn ser(self) -> Ratio {
        Ratio { part: self.0.measured.sessions_established, of: self.invites_not_redirected() }
    }

    /// Session Establishment Effectiveness Ratio, section 4.7: as SER, with 480, 486, 600 and 603 in the
    /// numerator too.
    pub fn seer(self) -> Ratio {
        let c = &self.0.measured;
        let users: u64 = [480, 486, 600, 603].into_iter().map(|s| c.session_finals.of(s)).sum();
        Ratio { part: c.sessions_established + users, of: self.invites_not_redirected() }
    }

    /// Ineffective Session Attempts, section 4.8: session requests that ended with 408, 500, 503 or 504,
    /// over all session requests. One that nobody answered is a 408 (RFC 3261 section 8.1.3.1).
    pub fn isa(self) -> Ratio {
        let c = &self.0.measured;
        let failed: u64 = [408, 500, 503, 504].into_iter().map(|s| c.session_finals.of(s)).sum();
        Ratio { part: failed + c.sessions_timed_out, of: c.sessions_requested }
    }

    /// Session Completion Ratio, section 4.9: sessions completed over all session requests. A session is
    /// completed when it was established and its BYE answered; sessions that are still up count in the
    /// denominator only.
    pub fn scr(self) -> Ratio {
        Ratio { part: self.0.measured.sessions_completed, of: self.0.measured.sessions_requested }
    }
}

#[cfg(test)]
mod tests {
    use wire::Time;

    use super::*;
    use crate::metrics::{Began, Bye, Registering, Setup};

    fn ms(t: u64) -> Time {
        Time::from_millis(t)
    }

    fn record() -> Metrics {
        Metrics::new(&Setup::default())
    }

    /// One session that rings after 40 ms, is answered after 100 ms and is ended at 5,100 ms.
    fn complete(m: &mut Metrics) {
        let began = Began::at(ms(0));
        m.session_requested(began);
        m.session_progress(ms(40), began);
        m.session_established(ms(100), began, Some(ms(40)), 200);
        m.session_ended(ms(5_130), began, ms(100), Bye::Answered(Began::at(ms(5_100))));
    }

    #[test]
    fn section_4_1_registration_with_a_challenge() {
        // t1 REGISTER, 401, REGISTER, 200 at t4: one delay, over both transactions.
        let mut m = record();
        let began = Began::at(ms(10));
        m.registration_begun(began, Registering::First);
        m.challenged(ms(13));
        m.registered(ms(17), began, Registering::First);
        let rrd = Performance(&m).rrd();
        assert_eq!((rrd.count(), rrd.max()), (1, 7_000));
        assert_eq!(Performance(&m).ira(), Ratio { part: 0, of: 1 });
    }

    #[test]
    fn section_4_2_timeout_and_503() {
        let mut m = record();
        let began = Began::at(ms(0));
        for _ in 0..4 {
            m.registration_begun(began, Registering::Refresh);
        }
        // Retransmissions do not count.
        m.request_repeated(ms(500), crate::metrics::Method::Register);
        m.registration_failed(ms(32_000), began, Registering::Refresh);
        m.registered(ms(5), began, Registering::Refresh);
        m.registered(ms(5), began, Registering::Refresh);
        m.registered(ms(5), began, Registering::Refresh);
        assert_eq!(Performance(&m).ira().percent(), Some(25.0));
        // The failed one has no RRD.
        assert_eq!(Performance(&m).rrd().count(), 3);
    }

    #[test]
    fn section_4_3_1_delay_to_the_180_also_over_a_redirect() {
        let mut m = record();
        complete(&mut m);
        let p = Performance(&m);
        assert_eq!((p.srd_success().count(), p.srd_success().max()), (1, 40_000));
        // INVITE, 302, ACK, INVITE, 180: from the first INVITE.
        let mut m = record();
        let began = Began::at(ms(0));
        m.session_requested(began);
        m.session_redirected(began);
        m.redirect_followed(began);
        m.session_progress(ms(70), began);
        m.session_established(ms(90), began, Some(ms(70)), 200);
        assert_eq!(Performance(&m).srd_success().max(), 70_000);
        // No provisional response: the 200 ends it.
        let mut m = record();
        m.session_requested(began);
        m.session_established(ms(90), began, None, 200);
        assert_eq!(Performance(&m).srd_success().max(), 90_000);
        assert_eq!(m.latency(Measure::Response).sent.count(), 1);
    }

    #[test]
    fn section_4_3_2_failures_are_kept_apart() {
        let mut m = record();
        complete(&mut m);
        let began = Began::at(ms(0));
        m.session_requested(began);
        m.session_refused(ms(20), began, None, 480);
        m.session_requested(began);
        m.session_timed_out(began);
        let p = Performance(&m);
        assert_eq!((p.srd_failed().count(), p.srd_failed().max()), (1, 20_000));
        assert_eq!(p.srd_success().count(), 1);
    }

    #[test]
    fn section_4_4_and_4_5_disconnect_and_duration() {
        let mut m = record();
        complete(&mut m);
        let began = Began::at(ms(0));
        // BYE received at 4,100 ms: a duration of 4 s, no disconnect delay at this end.
        m.session_ended(ms(4_100), began, ms(100), Bye::Received);
        // No answer to the BYE: timer F 32 s after it. Not in SDD; failed SDT.
        m.session_ended(ms(37_100), began, ms(100), Bye::Timeout);
        m.session_ended(ms(1_150), began, ms(100), Bye::Refused(Began::at(ms(1_100))));
        m.callee_bye(ms(60), Began::at(ms(50)), true);
        let p = Performance(&m);
        assert_eq!(
            (p.sdd_success().min(), p.sdd_success().max(), p.sdd_success().count()),
            (10_000, 30_000, 2)
        );
        assert_eq!((p.sdd_failed().count(), p.sdd_failed().max()), (1, 50_000));
        assert_eq!((p.sdt_success().max(), p.sdt_success().count()), (5_000_000, 3));
        assert_eq!((p.sdt_failed().count(), p.sdt_failed().max()), (1, 37_000_000));
    }

    #[test]
    fn section_4_6_redirects_are_neither_success_nor_failure() {
        // The section's two flows: INVITE 180 200, and INVITE 302 INVITE 180 200.
        let mut m = record();
        complete(&mut m);
        let began = Began::at(ms(0));
        m.session_requested(began);
        m.session_redirected(began);
        m.redirect_followed(began);
        m.session_established(ms(90), began, None, 200);
        // 2 session requests, 3 INVITEs, 1 of them with 3xx: 2 / (3 - 1).
        assert_eq!(Performance(&m).ser(), Ratio { part: 2, of: 2 });
        // A redirect that is not followed leaves nothing in the denominator either.
        m.session_requested(began);
        m.session_redirected(began);
        assert_eq!(Performance(&m).ser(), Ratio { part: 2, of: 2 });
    }

    #[test]
    fn sections_4_6_to_4_9_by_hand() {
        let mut m = record();
        let began = Began::at(ms(0));
        for _ in 0..6 {
            complete(&mut m);
        }
        // One established whose BYE is never answered, one still up.
        for _ in 0..2 {
            m.session_requested(began);
            m.session_established(ms(90), began, None, 200);
        }
        m.session_ended(ms(32_090), began, ms(90), Bye::Timeout);
        for status in [480, 486, 600, 603, 408, 500, 503, 504, 404, 487, 420] {
            m.session_requested(began);
            m.session_refused(ms(20), began, None, status);
        }
        m.session_requested(began);
        m.session_timed_out(began);
        let p = Performance(&m);
        assert_eq!(p.ser(), Ratio { part: 8, of: 20 });
        assert_eq!(p.seer(), Ratio { part: 12, of: 20 });
        assert_eq!(p.isa(), Ratio { part: 5, of: 20 });
        assert_eq!(p.scr(), Ratio { part: 6, of: 20 });
        assert_eq!(p.ser().percent(), Some(40.0));
    }

    #[test]
    fn nothing_asked_for_is_undefined() {
        let m = record();
        let p = Performance(&m);
        for r in [p.ira(), p.ser(), p.seer(), p.isa(), p.scr()] {
            assert_eq!(r.percent(), None);
        }
    }
}
