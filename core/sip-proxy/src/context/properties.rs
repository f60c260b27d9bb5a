//! What must hold whatever the branches do, in whatever order.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a caller of the context knows of one started branch.
#[derive(Clone, Copy, Default)]
struct Seen {
    breadth: u8,
    cancelled: bool,
    /// A final response, a timeout or an error was reported, or the target moved to its next address.
    over: bool,
    /// Nothing came on it, and something else was tried. It may answer late.
    left: bool,
}

/// A caller that carries out actions and checks them.
struct Model {
    context: Context,
    policy: Policy,
    now: Time,
    branches: BTreeMap<BranchId, Seen>,
    kept: Vec<BranchId>,
    successes: usize,
    failures: usize,
    finished: bool,
    closed: bool,
    timer: Option<Time>,
    /// Reported as silent, and not yet decided about.
    silent: Vec<BranchId>,
    /// How often the call was forwarded.
    diverted: usize,
}

impl Model {
    fn new(policy: Policy, preferences: &[u16]) -> Model {
        let mut context = Context::new(policy);
        for &q in preferences {
            context.add_target(q);
        }
        let mut model = Model {
            context,
            policy,
            now: Time::from_secs(1),
            branches: BTreeMap::new(),
            kept: Vec::new(),
            successes: 0,
            failures: 0,
            finished: false,
            closed: false,
            timer: None,
            silent: Vec::new(),
            diverted: 0,
        };
        let mut out = Vec::new();
        model.context.start(model.now, &mut out);
        model.carry_out(&out, None);
        model
    }

    fn open(&self) -> Vec<BranchId> {
        self.branches.iter().filter(|(_, seen)| !seen.over).map(|(&id, _)| id).collect()
    }

    fn started(&mut self, branch: BranchId, breadth: u8, voicemail: bool) {
        assert!(breadth > 0);
        assert!(self.successes + self.failures == 0, "no branch after a final");
        assert!(!self.context.is_cancelled(), "no branch after a cancel");
        assert!(voicemail || !self.closed, "no branch after a 6xx");
        if branch.attempt() > 0 {
            let before = BranchId { attempt: branch.attempt() - 1, ..branch };
            assert!(self.branches[&before].over || self.branches[&before].left, "one attempt at a time");
        }
        assert!(self.branches.insert(branch, Seen { breadth, ..Seen::default() }).is_none());
        let held: u32 =
            self.branches.values().filter(|seen| !seen.over).map(|seen| u32::from(seen.breadth)).sum();
        // A branch that was given up in silence is no longer counted by the context, but is here; it is
        // cancelled.
        let cancelled: u32 = self
            .branches
            .values()
            .filter(|seen| !seen.over && seen.cancelled)
            .map(|seen| u32::from(seen.breadth))
            .sum();
        assert!(held - cancelled <= u32::from(self.policy.breadth), "outgoing breadth above incoming");
    }

    fn carry_out(&mut self, out: &[Action], at_hand: Option<BranchId>) {
        let (mut list, mut at) = (out.to_vec(), 0);
        while let Some(&action) = list.get(at) {
            at += 1;
            assert!(!self.finished || matches!(action, Action::ForwardFinal(_)), "{action:?} after the end");
            match action {
                Action::StartBranch { branch, breadth } => {
                    let voicemail = branch.attempt() > 0;
                    self.started(branch, breadth, voicemail);
                }
                Action::StartVoicemail { branch, breadth, .. } => self.started(branch, breadth, true),
                Action::CancelBranch(id) => {
                    assert!(self.policy.invite, "only an INVITE is cancelled");
                    let seen = self.branches.get_mut(&id).expect("a branch that was started");
                    assert!(!seen.over, "an ended branch is not cancelled");
                    seen.cancelled = true;
                }
                Action::Divert { reason, .. } => {
                    assert!(self.successes + self.failures == 0 && !self.context.is_cancelled());
                    assert!(self.diverted > 0 || self.policy.divert.has(reason));
                    self.divert(&mut list);
                }
                Action::Silent(id) => {
                    assert!(self.context.is_silent(id));
                    self.silent.push(id);
                }
                Action::ForwardProvisional(id) => {
                    assert_eq!(Some(id), at_hand);
                    assert!(self.policy.invite && self.successes + self.failures == 0);
                }
                Action::ForwardFinal(id) => {
                    assert_eq!(Some(id), at_hand);
                    self.successes += 1;
                }
                Action::ForwardBest(id) => {
                    assert!(at_hand == Some(id) || self.kept.contains(&id), "the bytes are there");
                    for other in self.context.challenges() {
                        assert!(at_hand == Some(other) || self.kept.contains(&other));
                    }
                    self.fail();
                }
                Action::Generate(status) => {
                    assert!((400..700).contains(&status) && !matches!(status, 430 | 503));
                    assert!(self.policy.invite || status != 408);
                    self.fail();
                }
                Action::Silence => {
                    assert!(!self.policy.invite);
                    self.fail();
                }
                Action::Keep(id) => {
                    assert_eq!(Some(id), at_hand);
                    assert!(!self.kept.contains(&id));
                    self.kept.push(id);
                }
                Action::Forget(id) => {
                    let place = self.kept.iter().position(|&k| k == id).expect("it was kept");
                    self.kept.remove(place);
                }
                Action::SetTimer(at) => self.timer = Some(at),
                Action::ClearTimer => self.timer = None,
                Action::Finished => {
                    assert!(self.successes + self.failures > 0);
                    assert!(self.timer.is_none(), "no timer outlives the context");
                    for (id, seen) in &self.branches {
                        assert!(seen.over || seen.cancelled, "{id:?} was left alone");
                    }
                    self.finished = true;
                }
            }
        }
    }

    /// The call is forwarded twice, and then stays.
    fn divert(&mut self, list: &mut Vec<Action>) {
        self.diverted += 1;
        if self.diverted > 2 {
            self.context.stay();
        } else {
            self.context.enter(15_000, Reroute::ALWAYS);
            self.closed &= self.context.add_target(1000).is_none();
        }
        self.context.start(self.now, list);
    }

    fn fail(&mut self) {
        assert_eq!(self.successes + self.failures, 0, "one final only");
        self.failures += 1;
    }

    fn respond(&mut self, id: BranchId, status: u16) {
        let mut out = Vec::new();
        if (200..700).contains(&status)
            && let Some(seen) = self.branches.get_mut(&id)
        {
            // One that was cancelled may have been given up before, and for a better response.
            self.closed |= status >= 600 && !seen.over && !seen.cancelled;
            seen.over = true;
        }
        self.context.branch_response(self.now, id, status, &mut out);
        self.carry_out(&out, Some(id));
    }

    fn lose(&mut self, id: BranchId, how: u8) {
        let mut out = Vec::new();
        if let Some(seen) = self.branches.get_mut(&id) {
            seen.over = true;
        }
        match how % 4 {
            0 => self.context.branch_timeout(self.now, id, &mut out),
            1 => self.context.branch_unreachable(self.now, id, &mut out),
            2 => self.context.branch_failed(self.now, id, 487, &mut out),
            _ => {
                self.context.add_target(500);
                self.context.branch_redirected(self.now, id, &mut out);
            }
        }
        self.carry_out(&out, None);
    }

    /// Of the branches reported as silent every other one is left for something else.
    fn leave_silent(&mut self) {
        for id in std::mem::take(&mut self.silent).into_iter().step_by(2) {
            if !self.context.is_silent(id) {
                continue;
            }
            if let Some(seen) = self.branches.get_mut(&id) {
                (seen.left, seen.over) = (true, !self.policy.invite);
            }
            let mut out = Vec::new();
            self.context.branch_silent(self.now, id, &mut out);
            self.carry_out(&out, None);
        }
    }

    fn watch(&mut self, id: BranchId, seconds: u8) {
        let mut out = Vec::new();
        self.context.watch(id, self.now + core::time::Duration::from_secs(seconds.into()), &mut out);
        self.carry_out(&out, None);
    }

    fn pass(&mut self, seconds: u16) {
        let mut out = Vec::new();
        self.now = self.now + core::time::Duration::from_secs(seconds.into());
        if self.timer.is_some_and(|at| at <= self.now) {
            self.timer = None;
        }
        self.context.timeout(self.now, &mut out);
        self.carry_out(&out, None);
    }

    fn cancel(&mut self) {
        let mut out = Vec::new();
        self.context.cancel_all(self.now, &mut out);
        self.carry_out(&out, None);
    }
}

/// One thing that happens. The first number chooses among the branches that are open.
#[derive(Clone, Debug)]
enum Event {
    Respond(u8, u16),
    Stray(u16, u16),
    Lose(u8, u8),
    Locate(u8, u8),
    Watch(u8, u8),
    Pass(u16),
    Cancel,
}

fn event() -> impl Strategy<Value = Event> {
    let status = prop_oneof![
        Just(100_u16),
        Just(180),
        Just(183),
        Just(200),
        Just(302),
        Just(401),
        Just(407),
        Just(408),
        Just(480),
        Just(486),
        Just(487),
        Just(500),
        Just(503),
        Just(603),
        0_u16..1000
    ];
    prop_oneof![
        8 => (any::<u8>(), status).prop_map(|(n, s)| Event::Respond(n, s)),
        1 => (any::<u16>(), 100_u16..700).prop_map(|(n, s)| Event::Stray(n, s)),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(n, how)| Event::Lose(n, how)),
        1 => (any::<u8>(), 0_u8..4).prop_map(|(n, a)| Event::Locate(n, a)),
        2 => (any::<u8>(), 0_u8..5).prop_map(|(n, s)| Event::Watch(n, s)),
        2 => (0_u16..200).prop_map(Event::Pass),
        1 => Just(Event::Cancel),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let voicemail = prop_oneof![Just(Reroute::NEVER), Just(Reroute::ALWAYS), Just(Reroute::BUSY)];
    let no_answer = prop_oneof![Just(0_u32), Just(20_000)];
    let silence = prop_oneof![Just(0_u32), Just(4_000)];
    let divert = prop_oneof![Just(Reroute::NEVER), Just(Reroute::ALWAYS), Just(Reroute::NO_ANSWER)];
    let breadth = prop_oneof![Just(60_u8), 0_u8..5];
    // All at once, equal q at once, one after the other.
    let order = prop_oneof![Just((true, false)), Just((false, false)), Just((false, true))];
    (any::<bool>(), order, any::<bool>(), breadth, no_answer, silence, voicemail, divert).prop_map(
        |(
            invite,
            (parallel, serial),
            strict_breadth,
            breadth,
            no_answer_ms,
            silence_ms,
            voicemail,
            divert,
        )| Policy {
            invite,
            parallel,
            serial,
            breadth,
            strict_breadth,
            timer_c_ms: Policy::TIMER_C_MS,
            no_answer_ms,
            silence_ms,
            voicemail,
            divert,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn one_final_every_branch_ended_and_an_end_in_the_end(
        policy in policy(),
        preferences in prop::collection::vec(prop_oneof![Just(0_u16), Just(500), Just(1000)], 0..7),
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut model = Model::new(policy, &preferences);
        for event in events {
            let open = model.open();
            let chosen = |n: u8| open.get(usize::from(n) % open.len().max(1)).copied();
            match event {
                Event::Respond(n, status) => if let Some(id) = chosen(n) { model.respond(id, status) },
                Event::Stray(id, status) => if !model.finished { model.respond(BranchId::from_u16(id), status) },
                Event::Lose(n, how) => if let Some(id) = chosen(n) { model.lose(id, how) },
                Event::Locate(n, count) => if let Some(id) = chosen(n) {
                    model.context.branch_located(id, count.into());
                },
                Event::Watch(n, seconds) => if let Some(id) = chosen(n) { model.watch(id, seconds) },
                Event::Pass(seconds) => model.pass(seconds),
                Event::Cancel => model.cancel(),
            }
            model.leave_silent();
        }
        // Now every transaction that still runs ends; new ones may start a few times over.
        for _ in 0..1_000 {
            let Some(&id) = model.open().first() else { break };
            model.lose(id, 0);
        }
        prop_assert!(model.open().is_empty());
        prop_assert!(model.finished && model.context.is_finished());
        prop_assert!(model.failures <= 1);
        prop_assert!(model.failures + model.successes >= 1);
        prop_assert!(policy.invite || model.failures + model.successes == 1);
    }

    #[test]
    fn the_timer_alone_ends_a_call_that_nobody_answers(
        preferences in prop::collection::vec(0_u16..=1000, 1..6),
        rings in any::<u8>(),
    ) {
        let policy = Policy { no_answer_ms: 15_000, voicemail: Reroute::NEVER, ..Policy::INVITE };
        let mut model = Model::new(policy, &preferences);
        for _ in 0..100 {
            if model.finished { break }
            for id in model.open() {
                if model.branches[&id].cancelled {
                    model.respond(id, 487);
                } else if rings & 1 << (id.target() % 8) != 0 {
                    model.respond(id, 180);
                }
            }
            if let Some(at) = model.timer {
                let wait = at.since(model.now).as_secs() + 1;
                model.pass(u16::try_from(wait).expect("no timer is that long"));
            }
        }
        prop_assert!(model.finished, "the timer was always set while something was open");
    }
}
