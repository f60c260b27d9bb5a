//! What steps of scenarios do with variables, injection files and texts: conditions, actions, messages.

use super::call::Call;
use super::ids::CallName;
use super::run::PATIENT_STEPS;
use super::variables::Variables;
use super::{CallIds, Moment, Origin, Recorder, Settings, Stop};
use crate::population::Rng;
use crate::scenario::{
    self, Branch, Brief, Desk, Effects, Facts, Fault, Level, Model, Outcome, Pause, Scenario, Scope, Send,
    Side, Slot, Step, Values, Vars,
};
use core::time::Duration;
use std::mem;
use wire::ListenerId;

/// Tells the random numbers of `<init>` from those of the workers, who are numbered from 0.
const STREAM: u64 = u64::MAX;

/// Lines of scenarios' logs kept until they are asked for.
const LINES: usize = 10_000;

/// What the steps of all calls of a worker work with.
pub(super) struct Interpreter {
    desk: Desk,
    variables: Variables,
    rng: Rng,
    effects: Effects,
    lines: Vec<(Level, Vec<u8>)>,
    /// Addresses of listeners as messages show them.
    locals: Vec<(Vec<u8>, u16)>,
    /// What the steps of the caller's and of the callee's scenario have sent last.
    models: [Vec<Model>; 2],
}

impl Interpreter {
    /// At the beginning of a run.
    pub fn new(settings: &Settings, desk: Desk, rng: Rng) -> Interpreter {
        let models = |side| {
            let steps = settings.scenario(side).map_or(0, |own| own.steps.len());
            core::iter::repeat_with(Model::default).take(steps).collect()
        };
        Interpreter {
            desk,
            variables: Variables::new(settings),
            rng,
            effects: Effects::default(),
            lines: Vec::new(),
            locals: settings.addresses.texts(),
            models: [Side::Client, Side::Server].map(models),
        }
    }

    /// What scenarios logged since this was last asked.
    pub fn take_lines(&mut self) -> Vec<(Level, Vec<u8>)> {
        mem::take(&mut self.lines)
    }

    /// The injection files.
    #[cfg(test)]
    pub fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    /// The variables that a call sees.
    #[inline]
    fn vars<'v>(&'v mut self, call: &'v mut Call) -> Vars<'v> {
        let (user, global) = self.variables.of(call.identity.side, call.identity.user);
        Vars { call: &mut call.data.values, user, global }
    }

    fn is_set(&mut self, call: &mut Call, test: Slot) -> bool {
        self.vars(call).is_set(test)
    }

    /// Whether a step is not for a call (`condexec`).
    pub fn skips(&mut self, call: &mut Call, step: &Step) -> bool {
        let Some(condition) = step.condition else { return false };
        self.is_set(call, condition.test) == condition.inverse
    }

    /// Whether the `next` of a step is to be followed, and where to.
    pub fn branch(&mut self, call: &mut Call, step: &Step) -> Option<usize> {
        let branch = step.next?;
        let goes = branch.test.is_none_or(|test| self.is_set(call, test)) && self.draws(branch);
        goes.then_some(branch.to)
    }

    /// Whether the `chance` of a `next` lets it be followed.
    fn draws(&mut self, branch: Branch) -> bool {
        branch.chance >= 1.0 || self.rng.chance(branch.chance)
    }

    /// Where an optional message leads its call, once its actions are done; without a `next`, or where its
    /// `test` does not hold, nowhere. As in SIPp, a `chance` that is not drawn leads to the step behind.
    pub fn led(&mut self, call: &mut Call, (step, at): (&Step, usize)) -> Option<usize> {
        let branch = step.next?;
        let holds = branch.test.is_none_or(|test| self.is_set(call, test));
        holds.then(|| if self.draws(branch) { branch.to } else { at + 1 })
    }

    /// Whether a message is lost on purpose, with the chance of its step if that has one.
    #[inline]
    pub fn loses(&mut self, settings: &Settings, own: Option<f64>) -> bool {
        let lost = own.unwrap_or(settings.conduct.lost);
        lost > 0.0 && self.rng.chance(lost)
    }

    /// How long a call pauses. `<timewait>` is no pause.
    pub fn pause(&mut self, call: &mut Call, pause: &Pause) -> Duration {
        let micros = |ms: f64| Duration::from_micros((ms.max(0.0) * 1_000.0) as u64);
        match pause {
            Pause::Default | Pause::TimeWait(_) => Duration::ZERO,
            Pause::Fixed(ms) => Duration::from_millis((*ms).into()),
            Pause::Random(distribution) => micros(distribution.sample(&mut self.rng)),
            Pause::Variable(variable) => {
                let vars = self.vars(call);
                micros(vars.get(*variable).and_then(scenario::Value::number).unwrap_or(0.0))
            }
        }
    }

    /// Makes a variable a number.
    pub fn set_number(&mut self, call: &mut Call, variable: Slot, number: usize) {
        if let Some(value) = self.vars(call).get_mut(variable) {
            value.set_number(number as f64);
        }
    }

    /// Chooses the lines of a call that begins here.
    pub fn choose_lines(&mut self, call: &mut Call) {
        let user = call.identity.user;
        self.desk.injections.choose(Side::Client, user, &mut self.rng, &mut call.data.lines);
    }

    /// The next lines of the callees, who have them in an order of their own.
    pub fn choose_callee_lines(&mut self, lines: &mut Vec<u32>) {
        self.desk.injections.choose(Side::Server, 0, &mut self.rng, lines);
    }

    /// The listener that the line of a call names, if it is to name one.
    pub fn listener(&self, call: &Call, origin: &Origin) -> Option<ListenerId> {
        let Origin::Field { field, listeners } = origin else { return None };
        let line = call.data.lines.first().copied()?;
        let mut text = Vec::new();
        self.desk.injections.write(0, line, *field, &mut text).then_some(())?;
        let address = core::str::from_utf8(&text).ok()?.trim().parse().ok()?;
        listeners.get(&address).copied()
    }

    /// Writes the Call-ID of a call that begins here. False if its line has none.
    pub fn write_call_id(&self, settings: &Settings, slot: u32, call: &mut Call) -> bool {
        match &settings.conduct.call_ids {
            CallIds::Named(end) => {
                let host = self.local(call.flow.listener).map_or(&b"localhost"[..], |(ip, _)| ip);
                let generation = (call.identity.name >> 32) as u32;
                let name = CallName { worker: settings.worker, slot, generation };
                name.write(settings.run_id, &mut call.identity.call_id);
                write_end(end, host, &mut call.identity.call_id);
                true
            }
            CallIds::Field(field) => {
                let line = call.data.lines.first().copied().unwrap_or(0);
                let text = &mut call.identity.call_id;
                self.desk.injections.write(0, line, *field, text) && !text.is_empty()
            }
        }
    }

    fn local(&self, listener: ListenerId) -> Option<&(Vec<u8>, u16)> {
        self.locals.get(usize::from(listener.0))
    }

    /// Runs the actions of a step.
    pub fn act(&mut self, moment: Moment<'_>, call: &mut Call, step: &Step) -> Outcome {
        let Interpreter { desk, variables, rng, effects, lines, locals, .. } = self;
        let lender = Lender { desk, variables, locals };
        let Some((mut facts, mut vars)) = lender.lend(moment, call) else { return Outcome::GoOn };
        let outcome = scenario::run(&step.actions, &mut vars, &mut facts, rng, effects);
        let room = LINES.saturating_sub(lines.len());
        lines.extend(effects.lines.drain(..).take(room));
        effects.clear();
        outcome
    }

    /// Makes the message of a step as the last one of that step was made. False if it is to be made anew.
    #[inline(always)]
    pub fn render_again(&mut self, call: &mut Call) -> bool {
        let Interpreter { desk, locals, models, .. } = self;
        let Call { identity, cursor, received, sent, peer, flow, .. } = call;
        let Some(local) = locals.get(usize::from(flow.listener.0)) else { return false };
        let Some(model) = models.get_mut(identity.side as usize).and_then(|own| own.get_mut(cursor.step))
        else {
            return false;
        };
        let brief = Brief {
            desk,
            call_number: identity.number,
            call_id: &identity.call_id,
            local_ip: &local.0,
            next_url: peer.target(),
            peer_tag: peer.tag(),
            routes: peer.routes(),
            step: cursor.step,
            round: cursor.round,
            last: received.last(),
            outline: Some(received.outline()),
        };
        let text = sent.last_mut();
        text.clear();
        model.again(brief, text)
    }

    /// Makes the message of a step. False if there is no address for it.
    #[inline(never)]
    pub fn render(&mut self, moment: Moment<'_>, call: &mut Call, send: &Send) -> Result<bool, Fault> {
        let Interpreter { desk, variables, locals, models, .. } = self;
        let model = models.get_mut(call.identity.side as usize).and_then(|own| own.get_mut(call.cursor.step));
        let mut bytes = mem::take(call.sent.last_mut());
        bytes.clear();
        let lender = Lender { desk, variables, locals };
        let Some((mut facts, vars)) = lender.lend(moment, call) else { return Ok(false) };
        let rendered = match model {
            Some(model) => send.template.render_unlike(model, &mut facts, &vars, &mut bytes),
            None => send.template.render(&mut facts, &vars, &mut bytes),
        };
        *call.sent.last_mut() = bytes;
        rendered.map(|()| true)
    }
}

/// `<init>`: what a scenario does once, before the first call.
///
/// Each worker does it for itself, all with the same random numbers and at the same time, so that all begin
/// with the same variables; what it logs and counts is said once. SIPp's runs as a call that is not counted.
impl Interpreter {
    /// Runs the `<init>` of a scenario. Answers whether it wants the run to end.
    pub fn init(
        &mut self,
        settings: &Settings,
        side: Side,
        scenario: &Scenario,
        recorder: &mut Recorder,
    ) -> Result<Option<Stop>, String> {
        let mut own = scenario.variables.values(Scope::Call);
        let mut user = scenario.variables.values(Scope::User);
        let mut rng = Rng::new(settings.seed, STREAM);
        let (mut at, mut stop) = (0, None);
        for _ in 0..PATIENT_STEPS {
            let Some(step) = scenario.init.get(at) else {
                self.variables.begin_with(side, &user);
                return Ok(stop);
            };
            let skipped = step.condition.is_some_and(|condition| {
                let vars = Vars { call: &mut own, user: &mut user, global: self.variables.global(side) };
                vars.is_set(condition.test) == condition.inverse
            });
            if skipped {
                at += 1;
                continue;
            }
            if settings.worker == 0 {
                recorder.count(side, step.counter);
            }
            let outcome = self.act_once(settings, side, (at, step), (&mut own, &mut user), &mut rng);
            let vars = Vars { call: &mut own, user: &mut user, global: self.variables.global(side) };
            let next = step.next.filter(|next| {
                next.test.is_none_or(|test| vars.is_set(test))
                    && (next.chance >= 1.0 || rng.chance(next.chance))
            });
            at = match outcome {
                Outcome::Jump(to) => to,
                Outcome::Fail(line) => return Err(format!("the action in line {line} did not hold")),
                Outcome::StopCall => scenario.init.len(),
                Outcome::GoOn | Outcome::StopGracefully | Outcome::StopNow => {
                    next.map_or(at + 1, |next| next.to)
                }
            };
            stop = stop.max(match outcome {
                Outcome::StopGracefully => Some(Stop::Gracefully),
                Outcome::StopNow => Some(Stop::Now),
                _ => None,
            });
        }
        Err("it goes round for ever".to_owned())
    }

    /// The actions of a step.
    fn act_once(
        &mut self,
        settings: &Settings,
        side: Side,
        (at, step): (usize, &Step),
        (call, user): (&mut Values, &mut Values),
        rng: &mut Rng,
    ) -> Outcome {
        let Interpreter { desk, variables, effects, lines, locals, .. } = self;
        let nowhere = (b"localhost".to_vec(), 0);
        let own = settings.addresses.own.first();
        let local = own.and_then(|own| locals.get(usize::from(own.0))).unwrap_or(&nowhere);
        // `[field0]` is that of the first line, which is left for a call.
        let first = vec![0; desk.injections.files.len()];
        let mut facts = Facts {
            run: &settings.run,
            desk,
            call_number: 0,
            call_id: b"///main-init",
            local_ip: &local.0,
            local_port: local.1,
            step: at,
            round: 0,
            cseq: settings.conduct.base_cseq,
            last: b"",
            outline: None,
            peer_tag: b"",
            routes: b"",
            next_url: b"",
            challenge: None,
            lines: &first,
            user: 0,
            wall_micros: settings.wall(settings.start),
            tick_ms: 0,
        };
        let mut vars = Vars { call, user, global: variables.global(side) };
        let outcome = scenario::run(&step.actions, &mut vars, &mut facts, rng, effects);
        if settings.worker == 0 {
            lines.append(&mut effects.lines);
        }
        effects.clear();
        outcome
    }
}

/// What of an interpreter rendering and actions may see.
struct Lender<'e> {
    desk: &'e mut Desk,
    variables: &'e mut Variables,
    locals: &'e [(Vec<u8>, u16)],
}

impl<'e> Lender<'e> {
    /// With what they may see of a call. Inlined, for it is large.
    #[inline(always)]
    fn lend(self, moment: Moment<'e>, call: &'e mut Call) -> Option<(Facts<'e>, Vars<'e>)> {
        let Lender { desk, variables, locals } = self;
        let Moment { settings, now, .. } = moment;
        let Call { identity, cursor, received, peer, data, flow, .. } = call;
        let local = locals.get(usize::from(flow.listener.0))?;
        let cseq = peer.cseq();
        let ([peer_tag, routes, next_url], challenge) = peer.parts();
        let facts = Facts {
            run: &settings.run,
            desk,
            call_number: identity.number,
            call_id: &identity.call_id,
            local_ip: &local.0,
            local_port: local.1,
            step: cursor.step,
            round: cursor.round,
            cseq,
            last: received.last(),
            outline: Some(received.outline()),
            peer_tag,
            routes,
            next_url,
            challenge,
            lines: &data.lines,
            user: if settings.users.is_some() { identity.user + 1 } else { 0 },
            wall_micros: settings.wall(now),
            tick_ms: now.as_micros().saturating_sub(settings.start.as_micros()) / 1_000,
        };
        let (user, global) = variables.of(identity.side, identity.user);
        Some((facts, Vars { call: &mut data.values, user, global }))
    }
}

/// What stands behind the name of a call in its Call-ID.
fn write_end(parts: &[Vec<u8>], host: &[u8], out: &mut Vec<u8>) {
    let Some((first, rest)) = parts.split_first() else {
        out.push(b'@');
        return out.extend_from_slice(host);
    };
    out.extend_from_slice(first);
    for part in rest {
        out.extend_from_slice(host);
        out.extend_from_slice(part);
    }
}
