//! Scenes from RFC 3261 section 16, one by one.

use super::Action::{
    CancelBranch, ClearTimer, Finished, ForwardBest, ForwardFinal, ForwardProvisional, Generate, Keep,
    SetTimer, Silence, StartBranch, StartVoicemail,
};
use super::*;

/// A context, its actions, and a clock that the scene moves.
struct Scene {
    context: Context,
    out: Vec<Action>,
    now: Time,
}

impl Scene {
    /// Targets with these preferences, started; the actions so far are left in `out`.
    fn new(policy: Policy, preferences: &[u16]) -> Scene {
        let mut scene = Scene { context: Context::new(policy), out: Vec::new(), now: Time::from_secs(10) };
        for &q in preferences {
            scene.context.add_target(q).unwrap();
        }
        scene.context.start(scene.now, &mut scene.out);
        scene
    }

    fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }

    /// The actions without timers.
    fn acts(&mut self) -> Vec<Action> {
        let mut acts = self.take();
        acts.retain(|a| !matches!(a, SetTimer(_) | ClearTimer));
        acts
    }

    fn respond(&mut self, branch: BranchId, status: u16) -> Vec<Action> {
        self.context.branch_response(self.now, branch, status, &mut self.out);
        self.acts()
    }

    fn time_out(&mut self, branch: BranchId) -> Vec<Action> {
        self.context.branch_timeout(self.now, branch, &mut self.out);
        self.acts()
    }

    fn unreachable(&mut self, branch: BranchId) -> Vec<Action> {
        self.context.branch_unreachable(self.now, branch, &mut self.out);
        self.acts()
    }

    fn cancel(&mut self) -> Vec<Action> {
        self.context.cancel_all(self.now, &mut self.out);
        self.acts()
    }

    fn pass(&mut self, seconds: u64) -> Vec<Action> {
        self.now = self.now + Duration::from_secs(seconds);
        self.context.timeout(self.now, &mut self.out);
        self.acts()
    }
}

use core::time::Duration;

const fn b(slot: u8) -> BranchId {
    BranchId { slot, attempt: 0 }
}

const fn again(slot: u8, attempt: u8) -> BranchId {
    BranchId { slot, attempt }
}

const fn start(slot: u8, breadth: u8) -> Action {
    StartBranch { branch: b(slot), breadth }
}

#[test]
fn a_context_is_small_and_one_branch_needs_no_heap() {
    assert!(size_of::<Context>() < 200, "{}", size_of::<Context>());
    assert!(size_of::<Action>() <= 16, "{}", size_of::<Action>());
}

#[test]
fn a_plain_call_forwards_180_and_200_and_ends() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    let timer_c = s.now + Duration::from_millis(Policy::TIMER_C_MS.into());
    assert_eq!(s.take(), [start(0, 60), SetTimer(timer_c)]);
    assert_eq!(s.respond(b(0), 100), []);
    assert_eq!(s.respond(b(0), 180), [ForwardProvisional(b(0))]);
    s.context.branch_response(s.now, b(0), 200, &mut s.out);
    assert_eq!(s.take(), [ForwardFinal(b(0)), ClearTimer, Finished]);
}

#[test]
fn a_lone_failure_is_forwarded_from_hand() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.take();
    assert_eq!(s.respond(b(0), 404), [ForwardBest(b(0)), Finished]);
}

#[test]
fn groups_of_equal_q_ring_together_and_lower_ones_after_them() {
    let mut s = Scene::new(Policy::INVITE, &[500, 1000, 500, 1000]);
    assert_eq!(s.acts(), [start(1, 30), start(3, 30)]);
    assert_eq!(s.respond(b(1), 486), [Keep(b(1))]);
    assert_eq!(s.respond(b(3), 480), [start(0, 30), start(2, 30)]);
    assert_eq!(s.respond(b(2), 180), [ForwardProvisional(b(2))]);
    assert_eq!(s.respond(b(2), 200), [ForwardFinal(b(2)), CancelBranch(b(0))]);
    assert_eq!(s.respond(b(0), 487), [Finished]);
}

#[test]
fn in_parallel_q_only_sets_the_order() {
    let mut s = Scene::new(Policy { parallel: true, breadth: 2, ..Policy::INVITE }, &[100, 300, 200]);
    assert_eq!(s.acts(), [start(1, 1), start(2, 1)]);
    assert_eq!(s.respond(b(1), 486), [start(0, 1), Keep(b(1))]);
}

#[test]
fn every_2xx_of_an_invite_goes_on_and_one_of_another_request() {
    let mut s = Scene::new(Policy::INVITE, &[1000, 1000]);
    s.acts();
    assert_eq!(s.respond(b(0), 200), [ForwardFinal(b(0)), CancelBranch(b(1))]);
    assert_eq!(s.respond(b(1), 200), [ForwardFinal(b(1)), Finished]);
    let mut s = Scene::new(Policy::OTHER, &[1000, 1000]);
    s.acts();
    assert_eq!(s.respond(b(0), 200), [ForwardFinal(b(0))]);
    assert_eq!(s.respond(b(1), 200), [Finished]);
}

#[test]
fn after_a_final_no_provisional_goes_on() {
    let mut s = Scene::new(Policy::INVITE, &[1000, 1000]);
    s.acts();
    s.respond(b(0), 200);
    assert_eq!(s.respond(b(1), 180), []);
}

#[test]
fn a_6xx_cancels_the_rest_and_waits_for_it() {
    let mut s = Scene::new(Policy::INVITE, &[1000, 1000, 500]);
    s.acts();
    s.respond(b(1), 180);
    assert_eq!(s.respond(b(0), 603), [CancelBranch(b(1)), Keep(b(0))]);
    assert_eq!(s.respond(b(1), 487), [ForwardBest(b(0)), Finished]);
}

#[test]
fn a_2xx_overtakes_a_waiting_6xx() {
    let mut s = Scene::new(Policy::INVITE, &[1000, 1000]);
    s.acts();
    s.respond(b(1), 180);
    s.respond(b(0), 603);
    assert_eq!(s.respond(b(1), 200), [ForwardFinal(b(1)), Finished]);
}

#[test]
fn challenges_of_all_branches_are_merged() {
    let mut s = Scene::new(Policy::INVITE, &[1000, 1000, 1000]);
    s.acts();
    assert_eq!(s.respond(b(2), 401), [Keep(b(2))]);
    assert_eq!(s.respond(b(1), 486), []);
    assert_eq!(s.respond(b(0), 407), [ForwardBest(b(2)), Finished]);
    assert_eq!(s.context.challenges().collect::<Vec<_>>(), [b(0)]);
}

#[test]
fn what_lost_is_forgotten_but_challenges_stay_until_a_6xx() {
    let mut s = Scene::new(Policy::INVITE, &[1000; 5]);
    s.acts();
    assert_eq!(s.respond(b(0), 500), [Keep(b(0))]);
    assert_eq!(s.respond(b(1), 401), [Action::Forget(b(0)), Keep(b(1))]);
    assert_eq!(s.respond(b(2), 407), [Keep(b(2))]);
    assert_eq!(
        s.respond(b(3), 600),
        [Action::Forget(b(1)), Action::Forget(b(2)), CancelBranch(b(4)), Keep(b(3))]
    );
}

#[test]
fn a_503_reads_500_upstream() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    assert_eq!(s.respond(b(0), 503), [Generate(500), Finished]);
    let mut s = Scene::new(Policy::INVITE, &[1000, 1000]);
    s.acts();
    assert_eq!(s.respond(b(0), 503), []);
    assert_eq!(s.respond(b(1), 501), [ForwardBest(b(1)), Finished]);
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    assert_eq!(s.unreachable(b(0)), [Generate(500), Finished]);
}

#[test]
fn the_next_address_is_tried_on_503_silence_and_transport_errors() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    s.context.branch_located(b(0), 4);
    let next = |n| [StartBranch { branch: again(0, n), breadth: 60 }];
    s.respond(b(0), 100);
    assert_eq!(s.respond(b(0), 503), next(1));
    // That the first address was heard says nothing of the second.
    assert_eq!(s.time_out(again(0, 1)), next(2));
    assert_eq!(s.unreachable(again(0, 2)), next(3));
    // What the earlier attempts still say is nobody's concern...
    assert_eq!(s.respond(again(0, 1), 404), []);
    assert_eq!(s.time_out(again(0, 3)), [Generate(408), Finished]);
}

#[test]
fn a_late_2xx_of_an_earlier_attempt_still_counts() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    s.context.branch_located(b(0), 2);
    s.time_out(b(0));
    assert_eq!(s.respond(b(0), 200), [ForwardFinal(b(0)), CancelBranch(again(0, 1))]);
    assert_eq!(s.time_out(again(0, 1)), [Finished]);
}

#[test]
fn a_branch_that_was_heard_does_not_move_to_the_next_address_on_timeout() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    s.context.branch_located(b(0), 2);
    s.respond(b(0), 180);
    assert_eq!(s.time_out(b(0)), [Generate(408), Finished]);
}

#[test]
fn requests_other_than_invite_get_no_408_and_no_provisional() {
    let mut s = Scene::new(Policy::OTHER, &[1000]);
    assert_eq!(s.take(), [start(0, 60)], "no timer C");
    assert_eq!(s.respond(b(0), 183), []);
    assert_eq!(s.time_out(b(0)), [Silence, Finished]);
    let mut s = Scene::new(Policy::OTHER, &[1000, 1000]);
    s.acts();
    assert_eq!(s.respond(b(0), 408), []);
    assert_eq!(s.respond(b(1), 404), [ForwardBest(b(1)), Finished]);
}

#[test]
fn a_caller_cancels_and_gets_the_487_of_the_phone() {
    let mut s = Scene::new(Policy::INVITE, &[1000, 500]);
    s.acts();
    s.respond(b(0), 180);
    assert_eq!(s.cancel(), [CancelBranch(b(0))]);
    assert_eq!(s.cancel(), [], "twice is once");
    assert_eq!(s.pass(30), [], "a phone that was heard is waited for");
    assert_eq!(s.respond(b(0), 487), [ForwardBest(b(0)), Finished]);
}

#[test]
fn a_200_that_crosses_the_cancel_wins() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    s.respond(b(0), 180);
    s.cancel();
    assert_eq!(s.respond(b(0), 200), [ForwardFinal(b(0)), Finished]);
}

#[test]
fn a_silent_phone_holds_a_cancelled_call_up_for_seconds_only() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    assert_eq!(s.cancel(), [CancelBranch(b(0))]);
    assert_eq!(s.pass(3), []);
    assert_eq!(s.pass(1), [Generate(487), Finished]);
    // To the letter: until its transaction ends.
    let mut s = Scene::new(Policy { silence_ms: 0, ..Policy::INVITE }, &[1000]);
    s.acts();
    s.cancel();
    assert_eq!(s.pass(31), []);
    assert_eq!(s.time_out(b(0)), [Generate(487), Finished]);
}

#[test]
fn a_cancelled_phone_that_speaks_up_is_waited_for() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    s.cancel();
    assert_eq!(s.respond(b(0), 180), [ForwardProvisional(b(0))]);
    assert_eq!(s.pass(20), []);
    assert_eq!(s.respond(b(0), 487), [ForwardBest(b(0)), Finished]);
}

#[test]
fn cancelling_before_any_target_is_known_ends_at_once() {
    let mut s = Scene { context: Context::new(Policy::INVITE), out: Vec::new(), now: Time::ZERO };
    assert_eq!(s.cancel(), [Generate(487), Finished]);
}

#[test]
fn timer_c_cancels_a_ringing_branch_and_each_provisional_resets_it() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    assert_eq!(s.pass(100), []);
    assert_eq!(s.respond(b(0), 180), [ForwardProvisional(b(0))]);
    s.now = s.now + Duration::from_secs(85);
    s.context.timeout(s.now, &mut s.out);
    // The old timer fired; the new deadline is 185 s after the 180.
    assert_eq!(s.take(), [SetTimer(s.now + Duration::from_secs(100))]);
    assert_eq!(s.respond(b(0), 100), [], "a 100 resets nothing");
    assert_eq!(s.pass(99), []);
    assert_eq!(s.pass(1), [CancelBranch(b(0))]);
    assert_eq!(s.respond(b(0), 487), [ForwardBest(b(0)), Finished]);
}

#[test]
fn timer_c_of_a_silent_branch_is_a_408() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    assert_eq!(s.pass(185), [CancelBranch(b(0)), Generate(408), Finished]);
}

#[test]
fn no_targets_is_480() {
    assert_eq!(Scene::new(Policy::INVITE, &[]).acts(), [Generate(480), Finished]);
    assert_eq!(Scene::new(Policy::OTHER, &[]).acts(), [Generate(480), Finished]);
}

#[test]
fn redirected_targets_take_the_place_of_the_3xx() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    assert_eq!(s.context.add_target(700), Some(1));
    s.context.branch_redirected(s.now, b(0), &mut s.out);
    assert_eq!(s.acts(), [start(1, 60)]);
    assert_eq!(s.respond(b(1), 404), [ForwardBest(b(1)), Finished]);
    assert_eq!(s.context.add_target(700), None, "too late");
}

#[test]
fn no_new_targets_after_a_6xx_or_a_cancel() {
    let mut s = Scene::new(Policy::INVITE, &[1000, 1000]);
    s.acts();
    s.respond(b(1), 180);
    s.respond(b(0), 600);
    assert_eq!(s.context.add_target(1), None);
}

#[test]
fn breadth_one_forks_serially_and_zero_is_440() {
    let mut s = Scene::new(Policy { breadth: 1, ..Policy::INVITE }, &[1000, 1000]);
    assert_eq!(s.acts(), [start(0, 1)]);
    assert_eq!(s.respond(b(0), 486), [start(1, 1), Keep(b(0))]);
    let mut s = Scene::new(Policy { breadth: 0, ..Policy::INVITE }, &[1000]);
    assert_eq!(s.acts(), [Generate(440), Finished]);
    let mut s = Scene::new(Policy { breadth: 1, strict_breadth: true, ..Policy::INVITE }, &[1000, 1000]);
    assert_eq!(s.acts(), [Generate(440), Finished]);
    let mut s = Scene::new(Policy { breadth: 1, strict_breadth: true, ..Policy::INVITE }, &[1000]);
    assert_eq!(s.acts(), [start(0, 1)]);
}

#[test]
fn breadth_of_rfc_5393_section_5_5() {
    // Eight targets, breadth four: four run, and each that ends makes room for one.
    let mut s = Scene::new(Policy { breadth: 4, ..Policy::INVITE }, &[1000; 8]);
    assert_eq!(s.acts(), [start(0, 1), start(1, 1), start(2, 1), start(3, 1)]);
    assert_eq!(s.respond(b(2), 486), [start(4, 1), Keep(b(2))]);
}

#[test]
fn there_is_a_limit_to_targets() {
    let mut context = Context::new(Policy::INVITE);
    let accepted = (0..200).filter(|_| context.add_target(1).is_some()).count();
    assert_eq!(accepted, MAX_TARGETS);
}

fn with_voicemail(no_answer_ms: u32) -> Policy {
    Policy { voicemail: Reroute::ALWAYS, no_answer_ms, ..Policy::INVITE }
}

#[test]
fn busy_goes_to_voicemail() {
    let mut s = Scene::new(with_voicemail(0), &[1000]);
    assert_eq!(s.acts(), [start(0, 59)], "one unit of breadth stays for voicemail");
    let voicemail = StartVoicemail { branch: b(1), cause: 486, breadth: 60 };
    assert_eq!(s.respond(b(0), 486), [voicemail, Keep(b(0))]);
    assert_eq!(s.respond(b(1), 200), [ForwardFinal(b(1)), Finished]);
}

#[test]
fn when_voicemail_fails_the_best_of_all_is_forwarded() {
    let mut s = Scene::new(with_voicemail(0), &[1000]);
    s.acts();
    s.respond(b(0), 486);
    assert_eq!(s.respond(b(1), 404), [ForwardBest(b(0)), Finished]);
}

#[test]
fn nobody_answers_and_voicemail_starts_before_the_487() {
    let mut s = Scene::new(with_voicemail(20_000), &[1000, 1000]);
    s.acts();
    s.respond(b(0), 180);
    let voicemail = StartVoicemail { branch: b(2), cause: 408, breadth: 30 };
    // Phone 1 never said a word: it counts as ended and its breadth is free.
    assert_eq!(s.pass(20), [CancelBranch(b(0)), CancelBranch(b(1)), voicemail]);
    assert_eq!(s.respond(b(0), 487), []);
    assert_eq!(s.respond(b(2), 200), [ForwardFinal(b(2)), Finished]);
}

#[test]
fn nobody_answers_and_the_next_group_rings_first() {
    let mut s = Scene::new(with_voicemail(20_000), &[1000, 500]);
    s.acts();
    s.respond(b(0), 180);
    assert_eq!(s.pass(20), [CancelBranch(b(0))]);
    // The breadth comes back with the 487.
    assert_eq!(s.respond(b(0), 487), [start(1, 59)]);
    s.respond(b(1), 180);
    assert_eq!(s.pass(20), [CancelBranch(b(1)), StartVoicemail { branch: b(2), cause: 408, breadth: 1 }]);
}

#[test]
fn an_early_group_that_did_not_answer_is_not_the_reason_when_a_later_one_is_busy() {
    let mut s = Scene::new(with_voicemail(20_000), &[1000, 500]);
    s.acts();
    assert_eq!(s.pass(20), [CancelBranch(b(0)), start(1, 59)]);
    let voicemail = StartVoicemail { branch: b(2), cause: 486, breadth: 60 };
    assert_eq!(s.respond(b(1), 486), [voicemail, Keep(b(1))]);
}

#[test]
fn voicemail_may_take_its_time() {
    let mut s = Scene::new(with_voicemail(20_000), &[1000]);
    s.acts();
    s.respond(b(0), 486);
    s.respond(b(1), 180);
    assert_eq!(s.pass(60), []);
    assert_eq!(s.respond(b(1), 200), [ForwardFinal(b(1)), Finished]);
}

#[test]
fn nobody_answers_without_voicemail_reads_408() {
    let mut s = Scene::new(Policy { no_answer_ms: 20_000, ..Policy::INVITE }, &[1000]);
    s.acts();
    s.respond(b(0), 180);
    assert_eq!(s.pass(20), [CancelBranch(b(0))]);
    assert_eq!(s.respond(b(0), 487), [Generate(408), Finished]);
}

#[test]
fn a_late_word_replaces_the_408_of_a_phone_given_up() {
    let mut s = Scene::new(Policy { no_answer_ms: 20_000, ..Policy::INVITE }, &[1000, 1000]);
    s.acts();
    s.respond(b(0), 180);
    assert_eq!(s.pass(20), [CancelBranch(b(0)), CancelBranch(b(1))]);
    assert_eq!(s.respond(b(1), 487), [], "the echo of our CANCEL says nothing new");
    assert_eq!(s.respond(b(1), 603), [Keep(b(1))]);
    assert_eq!(s.respond(b(0), 487), [ForwardBest(b(1)), Finished]);
}

#[test]
fn the_other_ways_to_voicemail() {
    let unregistered = Scene::new(with_voicemail(0), &[]).acts();
    assert_eq!(unregistered, [StartVoicemail { branch: b(0), cause: 404, breadth: 60 }]);
    for (rings, status, cause) in
        [(true, 603, 487), (false, 603, 480), (true, 480, 408), (false, 480, 404), (false, 504, 503)]
    {
        let mut s = Scene::new(with_voicemail(0), &[1000]);
        s.acts();
        if rings {
            s.respond(b(0), 180);
        }
        let acts = s.respond(b(0), status);
        assert!(
            acts.contains(&StartVoicemail { branch: b(1), cause, breadth: 60 }),
            "{status} gives {acts:?}"
        );
    }
    let mut s = Scene::new(with_voicemail(0), &[1000]);
    s.acts();
    assert_eq!(s.time_out(b(0)), [StartVoicemail { branch: b(1), cause: 503, breadth: 60 }]);
}

#[test]
fn no_voicemail_for_challenges_cancelled_calls_or_reasons_not_asked_for() {
    let mut s = Scene::new(with_voicemail(0), &[1000]);
    s.acts();
    assert_eq!(s.respond(b(0), 407), [ForwardBest(b(0)), Finished]);
    let mut s = Scene::new(with_voicemail(0), &[1000]);
    s.acts();
    s.respond(b(0), 180);
    s.cancel();
    assert_eq!(s.respond(b(0), 486), [ForwardBest(b(0)), Finished]);
    let mut s = Scene::new(Policy { voicemail: Reroute::NO_ANSWER, ..Policy::INVITE }, &[1000]);
    s.acts();
    assert_eq!(s.respond(b(0), 486), [ForwardBest(b(0)), Finished]);
}

#[test]
fn with_breadth_one_voicemail_waits_for_the_cancelled_phone() {
    let mut s = Scene::new(Policy { breadth: 1, ..with_voicemail(20_000) }, &[1000]);
    s.acts();
    s.respond(b(0), 180);
    assert_eq!(s.pass(20), [CancelBranch(b(0))]);
    assert_eq!(s.respond(b(0), 487), [StartVoicemail { branch: b(1), cause: 408, breadth: 1 }]);
}

#[test]
fn nonsense_is_ignored() {
    let mut s = Scene::new(Policy::INVITE, &[1000]);
    s.acts();
    for status in [0, 1, 99, 700, 999, u16::MAX] {
        assert_eq!(s.respond(b(0), status), []);
    }
    assert_eq!(s.respond(b(9), 200), []);
    assert_eq!(s.respond(BranchId::from_u16(u16::MAX), 404), []);
    assert_eq!(s.respond(b(0), 404), [ForwardBest(b(0)), Finished]);
    assert_eq!(s.respond(b(0), 404), []);
    assert_eq!(s.pass(1000), []);
    assert_eq!(BranchId::from_u16(again(7, 3).as_u16()), again(7, 3));
}

#[test]
fn branch_sent_again_may_be_silent_and_left_for_the_next() {
    let mut scene = Scene::new(Policy::INVITE, &[1000, 500]);
    assert_eq!(scene.acts(), [start(0, 60)]);
    scene.respond(b(0), 100);
    assert!(!scene.context.is_silent(b(0)));
    let (now, mut out) = (scene.now, Vec::new());
    assert_eq!(scene.context.branch_again(now, b(0), &mut out), Some(60));
    assert!(scene.context.is_silent(b(0)) && scene.context.is_running(b(0)));
    assert_eq!(scene.context.branch_again(now, b(1), &mut out), None, "it has not begun");
    scene.context.watch(b(0), now + Duration::from_secs(2), &mut scene.out);
    assert_eq!(scene.pass(2), [Action::Silent(b(0))]);
}

#[test]
fn branch_that_is_cancelled_is_not_sent_again() {
    let mut scene = Scene::new(Policy::INVITE, &[1000]);
    scene.respond(b(0), 100);
    scene.cancel();
    let (now, mut out) = (scene.now, Vec::new());
    assert_eq!(scene.context.branch_again(now, b(0), &mut out), None);
}
