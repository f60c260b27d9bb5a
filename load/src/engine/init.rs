//! `<init>`: what a scenario does once, before the first call.
//!
//! Each worker does it for itself, all with the same random numbers and at the same time, so that all begin
//! with the same variables; what it logs and counts is said once. SIPp's runs as a call that is not counted.

use super::run::PATIENT_STEPS;
use super::{Engine, Stop};
use crate::population::Rng;
use crate::scenario::{Facts, Outcome, Scenario, Scope, Side, Values, Vars, run};

/// Tells the random numbers of `<init>` from those of the workers, who are numbered from 0.
const STREAM: u64 = u64::MAX;

impl Engine {
    /// Runs the `<init>` of each scenario.
    pub(super) fn prelude(&mut self) {
        for side in [Side::Client, Side::Server] {
            let Some(scenario) = self.settings.scenario(side).cloned() else { continue };
            if !scenario.init.is_empty()
                && let Err(why) = self.init(side, &scenario)
            {
                self.trouble = Some(format!("<init> of {}: {why}", scenario.name));
                self.quit(self.settings.start);
            }
        }
    }

    fn init(&mut self, side: Side, scenario: &Scenario) -> Result<(), String> {
        let mut own = scenario.variables.values(Scope::Call);
        let mut user = scenario.variables.values(Scope::User);
        let mut rng = Rng::new(self.settings.seed, STREAM);
        let mut at = 0;
        for _ in 0..PATIENT_STEPS {
            let Some(step) = scenario.init.get(at) else {
                self.callers.begin_with(side, &user);
                return Ok(());
            };
            let skipped = step.condition.is_some_and(|condition| {
                let vars = Vars { call: &mut own, user: &mut user, global: &mut self.global[side as usize] };
                vars.is_set(condition.test) == condition.inverse
            });
            if skipped {
                at += 1;
                continue;
            }
            if self.settings.worker == 0 {
                self.count(side, step.counter);
            }
            let outcome = self.act_once(side, (at, step), (&mut own, &mut user), &mut rng);
            let vars = Vars { call: &mut own, user: &mut user, global: &mut self.global[side as usize] };
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
            match outcome {
                Outcome::StopGracefully => self.stop(self.settings.start, Stop::Gracefully),
                Outcome::StopNow => self.stop(self.settings.start, Stop::Now),
                _ => {}
            }
        }
        Err("it goes round for ever".to_owned())
    }

    /// The actions of a step.
    fn act_once(
        &mut self,
        side: Side,
        (at, step): (usize, &crate::scenario::Step),
        (call, user): (&mut Values, &mut Values),
        rng: &mut Rng,
    ) -> Outcome {
        let Engine { settings, locals, desk, global, effects, lines, .. } = self;
        let nowhere = (b"localhost".to_vec(), 0);
        let local = settings.own.first().and_then(|own| locals.get(usize::from(own.0))).unwrap_or(&nowhere);
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
            cseq: settings.base_cseq,
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
        let mut vars = Vars { call, user, global: &mut global[side as usize] };
        let outcome = run(&step.actions, &mut vars, &mut facts, rng, effects);
        if settings.worker == 0 {
            lines.append(&mut effects.lines);
        }
        effects.clear();
        outcome
    }
}
