//! The response context of a stateful proxy (RFC 3261 16.6 to 16.10) as a pure machine.
//!
//! A context holds the target set of one received request and the branches that try it. It knows
//! nothing of bytes: the caller tells it that a target was added, that a branch got a status, timed
//! out or could not be reached; the context answers with [`Action`]s: start this branch, cancel that
//! one, pass this response on. The caller keeps the URIs, the addresses and, where told, the response
//! bytes.
//!
//! Actions are appended to a caller-owned list. While carrying one out the caller may call the context
//! again (a request that cannot be sent at once); the new actions go to the end of the same list.
//!
//! Time: the context wants one timer. It asks for it as rarely as it can: a deadline that moves later
//! moves nothing, the old timer fires early and [`Context::timeout`] asks again.

mod again;
mod best;
mod branch;
mod diversion;
mod few;
mod policy;
#[cfg(test)]
mod properties;
mod silence;
#[cfg(test)]
mod tests;

pub use branch::BranchId;
pub use few::Few;
pub use policy::{Policy, Reroute};

use branch::{Branch, State, flag};
use wire::Time;

/// Most targets of one context (voicemail not counted). More are refused by
/// [`Context::add_target`]; forking wider than this serves attacks only (RFC 3261 26.1.5).
pub const MAX_TARGETS: usize = 64;

/// What the caller has to do, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send the request to `branch.target()`, at its address number `branch.attempt()`, with this
    /// Max-Breadth value. If that fails at once: [`Context::branch_unreachable`].
    StartBranch {
        /// The branch.
        branch: BranchId,
        /// Its share of Max-Breadth, at least 1.
        breadth: u8,
    },
    /// The same, to the voicemail target; the URI gets this `cause` parameter (RFC 4458 section 2.2).
    /// Further addresses of voicemail are tried with [`Action::StartBranch`].
    StartVoicemail {
        /// The branch; its target number is new.
        branch: BranchId,
        /// The value of the `cause` parameter.
        cause: u16,
        /// Its share of Max-Breadth, at least 1.
        breadth: u8,
    },
    /// The targets are exhausted for a reason that the stage names ([`Context::enter`]): the call may be
    /// forwarded. Call [`Context::enter`] and add targets, or [`Context::stay`], and then [`Context::start`].
    Divert {
        /// Why, one of the reasons of the stage.
        reason: Reroute,
        /// The value of the `cause` parameter (RFC 4458 section 2.2).
        cause: u16,
    },
    /// Cancel the INVITE of this branch; the transaction layer waits for a provisional response before
    /// it sends the CANCEL (RFC 3261 9.1). If the request was not sent yet (its address is still being
    /// looked up), drop it and call [`Context::branch_failed`] with 487.
    CancelBranch(BranchId),
    /// Nothing has come on a branch that is watched ([`Context::watch`]). Call [`Context::branch_silent`] if
    /// something else can be tried, else it goes on.
    Silent(BranchId),
    /// Pass on the provisional response at hand.
    ForwardProvisional(BranchId),
    /// Pass on the 2xx response at hand. Also a second one to the same INVITE. Kept responses may go.
    ForwardFinal(BranchId),
    /// Pass on the response of this branch: the one at hand if it is this branch's, else the one kept.
    /// For a 401 or 407 add the challenges of [`Context::challenges`] (16.7 step 7). Kept responses may
    /// go.
    ForwardBest(BranchId),
    /// Answer with this status, made here. Kept responses may go.
    Generate(u16),
    /// End the server transaction without a response: a 408 never answers a request other than INVITE
    /// (RFC 4320 section 4.2).
    Silence,
    /// Keep the final response at hand; it may be forwarded or merged later.
    Keep(BranchId),
    /// A kept response that is not needed any more.
    Forget(BranchId),
    /// Call [`Context::timeout`] at this time; replaces the timer set before.
    SetTimer(Time),
    /// No timer is wanted any more.
    ClearTimer,
    /// Everything is over: drop the context. Always the last action, and there is only one.
    Finished,
}

/// Bits of [`Context::state`].
mod bit {
    pub const STARTED: u8 = 1;
    /// A final response went upstream.
    pub const FINAL: u8 = 2;
    /// No target of the target set may be tried any more.
    pub const CLOSED: u8 = 4;
    /// The caller cancelled.
    pub const CANCELLED: u8 = 8;
    /// Voicemail was tried.
    pub const VOICEMAIL: u8 = 16;
    /// The last group was given up because nobody answered.
    pub const NO_ANSWER: u8 = 32;
    pub const FINISHED: u8 = 64;
    /// [`super::Action::Divert`] was given, and it is not decided yet.
    pub const DIVERTING: u8 = 128;
}

/// No slot.
const NONE: u8 = u8::MAX;

/// The response context of one request.
#[derive(Clone, Debug)]
pub struct Context {
    branches: Few<Branch, 4>,
    policy: Policy,
    /// When the running group has rung long enough. [`Time::FAR`]: never.
    no_answer_at: Time,
    /// When the caller's timer fires. [`Time::FAR`]: it is not set.
    armed: Time,
    /// Lowest q that may be started now.
    group_q: u16,
    /// Slot and rank of the best final response so far.
    best: u8,
    best_rank: u8,
    state: u8,
    /// The slot at which the targets begin of the user that the call is for now.
    stage: u8,
}

impl Context {
    /// A context with an empty target set.
    pub fn new(policy: Policy) -> Context {
        Context {
            branches: Few::new(),
            policy,
            no_answer_at: Time::FAR,
            armed: Time::FAR,
            group_q: 0,
            best: NONE,
            best_rank: u8::MAX,
            state: 0,
            stage: 0,
        }
    }

    /// Adds a target with preference `q` (0..=1000) and returns its number. It is tried after the next
    /// [`Context::start`] or [`Context::branch_redirected`]. The caller sees to it that no URI is added
    /// twice (RFC 3261 16.5). `None`: too many, or it is too late for new targets.
    pub fn add_target(&mut self, q: u16) -> Option<u8> {
        if self.has(bit::FINAL | bit::CLOSED | bit::VOICEMAIL) || self.branches.len() >= MAX_TARGETS {
            return None;
        }
        let slot = u8::try_from(self.branches.len()).ok()?;
        self.branches.push(Branch { q: q.min(1000), ..Branch::default() });
        Some(slot)
    }

    /// Begins, or goes on after targets were added.
    pub fn start(&mut self, now: Time, out: &mut Vec<Action>) {
        self.state |= bit::STARTED;
        self.settle(now, out);
    }

    /// The address of a branch's target is known: there are `addresses` of them, tried in turn.
    pub fn branch_located(&mut self, branch: BranchId, addresses: usize) {
        if let Some(b) = self.open(branch) {
            b.addresses = u8::try_from(addresses).unwrap_or(u8::MAX).max(1);
        }
    }

    /// A response came on a branch. Statuses below 100 and above 699 are ignored.
    pub fn branch_response(&mut self, now: Time, branch: BranchId, status: u16, out: &mut Vec<Action>) {
        match status {
            100..=199 => self.provisional(now, branch, status, out),
            200..=299 => self.success(now, branch, out),
            300..=699 => self.failure(now, branch, status, out),
            _ => {}
        }
    }

    /// A branch's client transaction ended without a final response (timer B or F, or the wait after a
    /// CANCEL): the next address if nothing at all was heard, else as if a 408 came.
    pub fn branch_timeout(&mut self, now: Time, branch: BranchId, out: &mut Vec<Action>) {
        let silent = self.open(branch).is_some_and(|b| !b.has(flag::PROVISIONAL));
        if !(silent && self.try_next_address(now, branch, out)) {
            self.end(branch, 408, true, out);
        }
        self.settle(now, out);
    }

    /// A branch's request could not be sent, or its host has no address: the next address, else as if a
    /// 503 came (RFC 3261 16.9).
    pub fn branch_unreachable(&mut self, now: Time, branch: BranchId, out: &mut Vec<Action>) {
        if !self.try_next_address(now, branch, out) {
            self.end(branch, 503, true, out);
        }
        self.settle(now, out);
    }

    /// A branch ends with a status that the caller makes up, whatever addresses are left.
    pub fn branch_failed(&mut self, now: Time, branch: BranchId, status: u16, out: &mut Vec<Action>) {
        self.end(branch, status, true, out);
        self.settle(now, out);
    }

    /// A branch got a 3xx (or 416) all of whose targets were taken over by [`Context::add_target`]; its
    /// response does not count (16.7 step 4).
    pub fn branch_redirected(&mut self, now: Time, branch: BranchId, out: &mut Vec<Action>) {
        self.end(branch, 0, true, out);
        self.settle(now, out);
    }

    /// The caller cancelled the request (16.10).
    pub fn cancel_all(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.has(bit::FINAL | bit::CANCELLED) {
            return;
        }
        self.state |= bit::CANCELLED | bit::STARTED;
        self.close(now, out);
        self.settle(now, out);
    }

    /// The timer fired (or the caller thinks so: calling early is harmless).
    pub fn timeout(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.armed <= now {
            self.armed = Time::FAR;
        }
        if self.no_answer_at <= now {
            self.nobody_answered(now, out);
        }
        for slot in 0..self.branches.len() {
            let Some(b) = self.branches.as_slice().get(slot).copied() else { break };
            if b.deadline > now || !b.is_open() {
                continue;
            }
            let id = id_of(slot, &b);
            match b.state {
                // Timer C (16.8): a branch that answered is cancelled, and has to end by itself.
                State::Running if b.has(flag::WATCHED) => self.report_silence(now, id, out),
                State::Running if b.has(flag::PROVISIONAL) => {
                    self.expire(slot);
                    self.cancel(now, slot, out);
                }
                State::Running => self.give_up(id, out),
                _ => self.end(id, 408, true, out),
            }
        }
        self.settle(now, out);
    }

    /// Whether a final response went upstream.
    pub fn is_answered(&self) -> bool {
        self.has(bit::FINAL)
    }

    /// If the best response is a 401 or 407: the other branches whose 401 or 407 carries challenges
    /// that belong into it (16.7 step 7). Their responses were kept, or are at hand.
    pub fn challenges(&self) -> impl Iterator<Item = BranchId> {
        let best = usize::from(self.best);
        let merge = self.branches.as_slice().get(best).is_some_and(|b| best::is_challenge(b.status));
        let others = self.branches.as_slice().iter().enumerate().filter(move |(slot, b)| {
            merge && *slot != best && best::is_challenge(b.status) && !b.has(flag::GENERATED)
        });
        others.map(|(slot, b)| id_of(slot, b))
    }

    /// Whether a final response went upstream.
    pub fn has_answered(&self) -> bool {
        self.has(bit::FINAL)
    }

    /// Whether a branch runs: it was started, has not ended, and was not cancelled.
    pub fn is_running(&self, branch: BranchId) -> bool {
        let slot = self.branches.as_slice().get(usize::from(branch.slot));
        slot.is_some_and(|b| b.attempt == branch.attempt && b.state == State::Running)
    }

    /// Whether a branch runs and not even a provisional response has come.
    pub fn is_silent(&self, branch: BranchId) -> bool {
        let slot = self.branches.as_slice().get(usize::from(branch.slot));
        self.is_running(branch) && slot.is_some_and(|b| !b.has(flag::PROVISIONAL))
    }

    /// Whether the caller cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.has(bit::CANCELLED)
    }

    /// Whether the best response is that of a branch which was cancelled because it had rung for too long.
    pub fn is_expired(&self) -> bool {
        self.branches.as_slice().get(usize::from(self.best)).is_some_and(|b| b.has(flag::EXPIRED))
    }

    /// Whether a branch counts as ended although no final response came: a 2xx still may.
    pub fn gave_up(&self) -> bool {
        self.any(|b| b.has(flag::LEFT) || b.status == 408 && b.has(flag::GENERATED))
    }

    /// Whether [`Action::Finished`] was given.
    pub fn is_finished(&self) -> bool {
        self.has(bit::FINISHED)
    }

    /// The targets, voicemail included, that were added so far.
    pub fn targets(&self) -> usize {
        self.branches.len()
    }

    fn provisional(&mut self, now: Time, id: BranchId, status: u16, out: &mut Vec<Action>) {
        let (invite, timer_c, answered) = (self.policy.invite, self.policy.timer_c(), self.has(bit::FINAL));
        let Some(b) = self.open(id) else { return };
        if b.has(flag::WATCHED) && b.state == State::Running {
            b.deadline = if invite { now + timer_c } else { Time::FAR };
        }
        b.flags = (b.flags | flag::PROVISIONAL) & !flag::WATCHED;
        if b.state == State::Cancelling {
            // It lives: the CANCEL goes out now, and its own answer is worth waiting for.
            b.deadline = Time::FAR;
        }
        if !invite || status == 100 {
            return;
        }
        b.flags |= flag::ALERTED;
        if b.state == State::Running {
            b.deadline = now + timer_c;
        }
        if !answered {
            out.push(Action::ForwardProvisional(id));
        }
    }

    fn success(&mut self, now: Time, id: BranchId, out: &mut Vec<Action>) {
        if self.branches.as_slice().get(usize::from(id.slot)).is_none() {
            return;
        }
        // Every 2xx to an INVITE sets up a dialog of its own, so all go on; a branch that we had given
        // up, or an address that we had left, may answer late (16.7 step 5).
        if self.policy.invite || !self.has(bit::FINAL) {
            self.state |= bit::FINAL;
            out.push(Action::ForwardFinal(id));
        }
        if let Some(b) = self.open(id) {
            (b.state, b.status, b.deadline) = (State::Ended, 200, Time::FAR);
        }
        self.close(now, out);
        self.settle(now, out);
    }

    fn failure(&mut self, now: Time, id: BranchId, status: u16, out: &mut Vec<Action>) {
        let Some(b) = self.open(id) else { return self.late_failure(now, id, status, out) };
        let gave_up = status == 487 && b.has(flag::NO_ANSWER);
        if status == 503 && self.try_next_address(now, id, out) {
            return self.settle(now, out);
        }
        if gave_up {
            // The caller did not cancel; for him nobody answered.
            self.end(id, 408, true, out);
        } else {
            self.end(id, status, false, out);
        }
        self.go_on(now, id, status, out);
    }

    /// A failure on a branch that was given up in silence: it takes the place of the 408 that was
    /// assumed, if it says more. A 487 does not: that one answers our own CANCEL.
    fn late_failure(&mut self, now: Time, id: BranchId, status: u16, out: &mut Vec<Action>) {
        let (final_sent, invite) = (self.has(bit::FINAL), self.policy.invite);
        let says_more = best::rank(status, false, invite) < best::rank(408, true, invite);
        let Some(b) = self.branches.as_mut_slice().get_mut(usize::from(id.slot)) else { return };
        let assumed = b.attempt == id.attempt && b.status == 408 && b.has(flag::GENERATED);
        if final_sent || !assumed || !says_more || status == 487 {
            return;
        }
        b.status = status;
        b.flags &= !flag::GENERATED;
        self.consider(id.slot, status, false, out);
        self.go_on(now, id, status, out);
    }

    /// After a failure was recorded.
    fn go_on(&mut self, now: Time, id: BranchId, status: u16, out: &mut Vec<Action>) {
        if status >= 600 && id.slot >= self.stage {
            // The callee's last word: no new branches, and the others go (16.7 step 5).
            self.close(now, out);
        }
        self.settle(now, out);
        self.keep(id, out);
    }

    /// Asks for the response at hand to be kept if it may still be of use.
    fn keep(&mut self, id: BranchId, out: &mut Vec<Action>) {
        if self.has(bit::FINAL) {
            return;
        }
        let is_best = self.best == id.slot;
        let merged_later = self.best_rank >= best::FIRST_OF_4XX;
        if let Some(b) = self.branches.as_mut_slice().get_mut(usize::from(id.slot))
            && !b.has(flag::GENERATED)
            && best::in_place_of(b.status) == b.status
            && (is_best || merged_later && best::is_challenge(b.status))
        {
            b.flags |= flag::KEPT;
            out.push(Action::Keep(id));
        }
    }

    /// The branch if it is this very attempt and still open.
    fn open(&mut self, id: BranchId) -> Option<&mut Branch> {
        let b = self.branches.as_mut_slice().get_mut(usize::from(id.slot))?;
        (b.attempt == id.attempt && b.is_open()).then_some(b)
    }

    /// RFC 3263 section 4.3: the same request to the next address of the same target.
    fn try_next_address(&mut self, now: Time, id: BranchId, out: &mut Vec<Action>) -> bool {
        let deadline = if self.policy.invite { now + self.policy.timer_c() } else { Time::FAR };
        let Some(b) = self.open(id) else { return false };
        if b.state != State::Running || b.attempt + 1 >= b.addresses {
            return false;
        }
        b.attempt += 1;
        b.flags &= !(flag::PROVISIONAL | flag::WATCHED);
        b.deadline = deadline;
        let branch = BranchId { slot: id.slot, attempt: b.attempt };
        out.push(Action::StartBranch { branch, breadth: b.breadth });
        true
    }

    /// Ends a branch; `status` 0 leaves no response behind.
    fn end(&mut self, id: BranchId, status: u16, generated: bool, out: &mut Vec<Action>) {
        let Some(b) = self.open(id) else { return };
        (b.state, b.status, b.deadline) = (State::Ended, status, Time::FAR);
        if generated {
            b.flags |= flag::GENERATED;
        }
        self.consider(id.slot, status, generated, out);
    }

    /// Compares a branch's final status with the best one so far; forgets what became useless.
    fn consider(&mut self, slot: u8, status: u16, generated: bool, out: &mut Vec<Action>) {
        let Some(rank) = best::rank(status, generated, self.policy.invite) else { return };
        if rank >= self.best_rank {
            return;
        }
        (self.best, self.best_rank) = (slot, rank);
        // A challenge stays for merging, unless a better class came.
        let all = rank < best::FIRST_OF_4XX;
        for (other, b) in self.branches.as_mut_slice().iter_mut().enumerate() {
            if b.has(flag::KEPT) && other != usize::from(slot) && (all || !best::is_challenge(b.status)) {
                b.flags &= !flag::KEPT;
                out.push(Action::Forget(id_of(other, b)));
            }
        }
    }

    /// No new branches of the target set from here; what runs is cancelled.
    fn close(&mut self, now: Time, out: &mut Vec<Action>) {
        self.state |= bit::CLOSED;
        self.no_answer_at = Time::FAR;
        for slot in 0..self.branches.len() {
            let Some(b) = self.branches.as_mut_slice().get_mut(slot) else { break };
            match b.state {
                State::Waiting => b.state = State::Ended,
                State::Running => self.cancel(now, slot, out),
                State::Cancelling | State::Ended => {}
            }
        }
    }

    /// Cancels a running branch and waits for its final response; for one that never said anything,
    /// not for long. Requests other than INVITE cannot be cancelled (9.1): those just run out.
    fn cancel(&mut self, now: Time, slot: usize, out: &mut Vec<Action>) {
        let Policy { invite, silence_ms, .. } = self.policy;
        let patience = now + self.policy.silence();
        let Some(b) = self.branches.as_mut_slice().get_mut(slot) else { return };
        b.state = State::Cancelling;
        b.deadline = Time::FAR;
        if invite {
            if silence_ms > 0 && !b.has(flag::PROVISIONAL) {
                b.deadline = patience;
            }
            out.push(Action::CancelBranch(id_of(slot, b)));
        }
    }

    fn expire(&mut self, slot: usize) {
        if let Some(b) = self.branches.as_mut_slice().get_mut(slot) {
            b.flags |= flag::EXPIRED;
        }
    }

    /// Cancels a branch that was silent for so long that it counts as ended.
    fn give_up(&mut self, id: BranchId, out: &mut Vec<Action>) {
        if self.policy.invite {
            out.push(Action::CancelBranch(id));
        }
        self.end(id, 408, true, out);
    }

    /// The running group rang long enough: cancel it.
    fn nobody_answered(&mut self, now: Time, out: &mut Vec<Action>) {
        self.no_answer_at = Time::FAR;
        if !self.any(|b| b.state == State::Waiting) {
            self.state |= bit::NO_ANSWER;
        }
        for slot in 0..self.branches.len() {
            let Some(b) = self.branches.as_mut_slice().get_mut(slot) else { break };
            if b.state != State::Running {
                continue;
            }
            b.flags |= flag::NO_ANSWER;
            let (id, alive) = (id_of(slot, b), b.has(flag::PROVISIONAL));
            if alive {
                self.cancel(now, slot, out);
            } else {
                self.give_up(id, out);
            }
        }
    }

    /// Whatever can go on now goes on. Called at the end of every input.
    fn settle(&mut self, now: Time, out: &mut Vec<Action>) {
        if !self.has(bit::STARTED) || self.has(bit::FINISHED) {
            return;
        }
        if !self.has(bit::FINAL | bit::CLOSED) {
            self.start_waiting(now, out);
        }
        self.try_diversion(out);
        if self.has(bit::DIVERTING) {
            return;
        }
        self.try_voicemail(now, out);
        if self.any(|b| b.is_open() || b.state == State::Waiting) {
            return self.arm(out);
        }
        if !self.has(bit::FINAL) {
            self.state |= bit::FINAL;
            out.push(self.conclusion());
        }
        if self.armed != Time::FAR {
            self.armed = Time::FAR;
            out.push(Action::ClearTimer);
        }
        self.state |= bit::FINISHED;
        out.push(Action::Finished);
    }

    /// Starts what may run of the waiting targets: the rest of the running group, else the next group,
    /// as far as Max-Breadth reaches (RFC 3261 16.6; RFC 5393 section 5.3.3).
    fn start_waiting(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(top) = self.waiting().map(|b| b.q).max() else { return };
        let running = self.any(|b| b.state == State::Running);
        if running && self.policy.serial {
            return;
        }
        if !running {
            self.group_q = if self.policy.parallel { 0 } else { top };
            if self.policy.invite && self.policy.no_answer_ms > 0 {
                self.no_answer_at = now + self.policy.no_answer();
            }
        }
        let group = self.group_q;
        let wanted = self.waiting().filter(|b| b.q >= group).count();
        let wanted = if self.policy.serial { wanted.min(1) } else { wanted };
        // One unit stays back for voicemail or a forwarding, which would have to wait for the cancelled ones.
        let rerouted = !(self.policy.voicemail.is_never() && self.policy.divert.is_never());
        let reserve = u8::from(rerouted && self.policy.breadth > 1);
        let free = self.free_breadth().saturating_sub(reserve);
        let too_narrow = self.policy.strict_breadth && usize::from(free) < wanted;
        if too_narrow || self.policy.breadth == 0 {
            return self.refuse_waiting(out);
        }
        for index in 0..wanted {
            let share = crate::breadth::share(free, wanted, index);
            if share == 0 {
                break;
            }
            self.start_one(now, share, out);
        }
    }

    /// Starts the waiting target of the highest q, the first of equals.
    fn start_one(&mut self, now: Time, breadth: u8, out: &mut Vec<Action>) {
        let deadline = if self.policy.invite { now + self.policy.timer_c() } else { Time::FAR };
        let slots = self.branches.as_mut_slice().iter_mut().enumerate();
        let waiting = slots.filter(|(_, b)| b.state == State::Waiting);
        // `rev` because the last of equal maxima is the one returned.
        if let Some((slot, b)) = waiting.rev().max_by_key(|(_, b)| b.q) {
            (b.state, b.breadth, b.deadline) = (State::Running, breadth, deadline);
            out.push(Action::StartBranch { branch: id_of(slot, b), breadth });
        }
    }

    /// Ends all waiting targets with 440 (RFC 5393 section 5.3.3).
    fn refuse_waiting(&mut self, out: &mut Vec<Action>) {
        for slot in 0..self.branches.len() {
            let Some(b) = self.branches.as_mut_slice().get_mut(slot) else { break };
            if b.state != State::Waiting {
                continue;
            }
            (b.state, b.status) = (State::Ended, 440);
            b.flags |= flag::GENERATED;
            let slot = id_of(slot, b).slot;
            self.consider(slot, 440, true, out);
        }
    }

    /// Starts voicemail, once, when the target set is exhausted for a reason that the policy names.
    ///
    /// A 6xx forbids new branches (16.7 step 5) and yet 600 and 603 may lead here: voicemail is the
    /// callee's own service, and the operator asked for it by putting the reason into the policy.
    fn try_voicemail(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.policy.voicemail.is_never()
            || self.has(bit::FINAL | bit::CANCELLED | bit::VOICEMAIL)
            || self.any(|b| matches!(b.state, State::Running | State::Waiting))
        {
            return;
        }
        let Some(cause) = self.voicemail_cause() else { return };
        let breadth = self.free_breadth();
        if breadth == 0 {
            // Cancelled branches still hold all of it; this is called again when one ends.
            return;
        }
        let Ok(slot) = u8::try_from(self.branches.len()) else { return };
        self.state |= bit::VOICEMAIL;
        // Voicemail has no bell that could ring for too long.
        self.no_answer_at = Time::FAR;
        let deadline = if self.policy.invite { now + self.policy.timer_c() } else { Time::FAR };
        self.branches.push(Branch { deadline, state: State::Running, breadth, ..Branch::default() });
        out.push(Action::StartVoicemail { branch: BranchId { slot, attempt: 0 }, cause, breadth });
    }

    /// Why the call goes to voicemail. `None`: it does not, or not yet.
    fn voicemail_cause(&self) -> Option<u16> {
        let set = self.policy.voicemail;
        if self.has(bit::NO_ANSWER) && set.has(Reroute::NO_ANSWER) {
            return Some(408);
        }
        if self.any(Branch::is_open) {
            return None;
        }
        if self.branches.is_empty() {
            return set.has(Reroute::UNREGISTERED).then_some(404);
        }
        let best = self.branches.as_slice().get(usize::from(self.best))?;
        let alerted = self.any(|b| b.has(flag::ALERTED));
        let (reason, cause) = policy::reason_of(best.status, best.has(flag::GENERATED), alerted)?;
        set.has(reason).then_some(cause)
    }

    /// The final answer of a context that forwarded none (16.7 step 6).
    fn conclusion(&self) -> Action {
        let best = self.branches.as_slice().get(usize::from(self.best));
        match best {
            Some(b) if !b.has(flag::GENERATED) && best::in_place_of(b.status) == b.status => {
                Action::ForwardBest(id_of(usize::from(self.best), b))
            }
            // What an INVITE gets that was cancelled (9.2), if no branch said better.
            _ if self.has(bit::CANCELLED) => Action::Generate(487),
            Some(b) => Action::Generate(best::in_place_of(b.status)),
            None if self.branches.is_empty() => Action::Generate(480),
            None if self.policy.invite => Action::Generate(408),
            None => Action::Silence,
        }
    }

    /// Asks for the timer if something is due before it fires.
    fn arm(&mut self, out: &mut Vec<Action>) {
        let open = self.branches.as_slice().iter().filter(|b| b.is_open());
        let next = open.map(|b| b.deadline).fold(self.no_answer_at, Time::min);
        if next < self.armed {
            self.armed = next;
            out.push(Action::SetTimer(next));
        }
    }

    /// Incoming Max-Breadth less what open branches hold (RFC 5393 section 5.3.2).
    fn free_breadth(&self) -> u8 {
        let open = self.branches.as_slice().iter().filter(|b| b.is_open());
        open.fold(self.policy.breadth, |free, b| free.saturating_sub(b.breadth))
    }

    fn waiting(&self) -> impl Iterator<Item = &Branch> {
        self.branches.as_slice().iter().filter(|b| b.state == State::Waiting)
    }

    fn any(&self, what: impl Fn(&Branch) -> bool) -> bool {
        self.branches.as_slice().iter().any(what)
    }

    fn has(&self, bits: u8) -> bool {
        self.state & bits != 0
    }
}

fn id_of(slot: usize, b: &Branch) -> BranchId {
    // A context never has more than MAX_TARGETS + 1 slots.
    BranchId { slot: u8::try_from(slot).unwrap_or(NONE), attempt: b.attempt }
}
