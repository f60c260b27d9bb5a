//! Runs actions.

use super::super::facts::Facts;
use super::super::message;
use super::super::template::{Fault, Template, line_number};
use super::super::variables::{Slot, Value, Vars};
use super::{
    Action, Arithmetic, Compare, Deed, Effects, Ereg, Level, Look, Operand, Outcome, TextOperand, Verdict,
};
use crate::population::Rng;

/// Runs a step's actions in order, until one ends the call. After a `jump` the further ones still run,
/// as with SIPp.
pub fn run(
    actions: &[Action],
    vars: &mut Vars<'_>,
    facts: &mut Facts<'_>,
    rng: &mut Rng,
    effects: &mut Effects,
) -> Outcome {
    let mut outcome = Outcome::GoOn;
    for action in actions {
        let own = match act(action, vars, facts, rng, effects) {
            Ok(own) => own,
            Err(fault) => {
                effects.warn(action.line, fault.reason());
                Outcome::Fail(action.line)
            }
        };
        match own {
            Outcome::GoOn => {}
            Outcome::Jump(_) => outcome = own,
            _ => return own,
        }
    }
    outcome
}

fn act(
    action: &Action,
    vars: &mut Vars<'_>,
    facts: &mut Facts<'_>,
    rng: &mut Rng,
    effects: &mut Effects,
) -> Result<Outcome, Fault> {
    let line = action.line;
    match &action.deed {
        Deed::Ereg(ereg) => return Ok(search(ereg, vars, facts, line)),
        Deed::Say(level, text) => {
            let mut out = Vec::new();
            text.render(facts, vars, &mut out)?;
            effects.lines.push((*level, out));
            if *level == Level::Error {
                return Ok(Outcome::Fail(line));
            }
        }
        Deed::Assign(to, value) => set(vars, *to, |own, number| own.set_number(number), value),
        Deed::Arithmetic(to, operation, by) => arithmetic(vars, *to, *operation, by, (line, effects)),
        Deed::AssignText(to, text) => {
            rendered(text, vars, facts, |text, vars, _| put(vars, *to, |own| own.set_text(text)))?;
        }
        Deed::Sample(to, law) => put(vars, *to, |own| own.set_number(law.sample(rng))),
        Deed::ToNumber(to, from) => match vars.get(*from).and_then(Value::number) {
            Some(number) => put(vars, *to, |own| own.set_number(number)),
            None => effects.warn(line, "todouble: the variable is no number"),
        },
        Deed::Test { left, compare, right, verdict } => {
            let holds = compare.holds(number(vars, *left), value(vars, right));
            return Ok(judge(verdict, vars, holds, |own| own.set_truth(holds), line));
        }
        Deed::CompareText { left, right, verdict } => {
            let difference = match right {
                TextOperand::Text(text) => {
                    rendered(text, vars, facts, |text, vars, facts| compare_text(vars, facts, *left, text))?
                }
                TextOperand::Variable(right) => {
                    let mut text = facts.desk.take();
                    if let Some(value) = vars.get(*right) {
                        value.write(&mut text);
                    }
                    let difference = compare_text(vars, facts, *left, &text);
                    facts.desk.give(text);
                    difference
                }
            };
            return Ok(judge(verdict, vars, difference == 0.0, |own| own.set_number(difference), line));
        }
        Deed::Trim(slot) => {
            change_text(vars, facts, *slot, |text, out| out.extend_from_slice(text.trim_ascii()))
        }
        Deed::UrlEncode(slot) => change_text(vars, facts, *slot, url_encode),
        Deed::UrlDecode(slot) => change_text(vars, facts, *slot, url_decode),
        Deed::Jump { to, steps } => return Ok(jump(value(vars, to), *steps, (line, effects))),
        Deed::VerifyAuth { .. } | Deed::Lookup { .. } | Deed::Insert { .. } | Deed::Replace { .. } => {
            consult(&action.deed, vars, facts)?;
        }
        Deed::TimeOfDay(seconds, micros) => {
            let now = facts.wall_micros;
            put(vars, *seconds, |own| own.set_number((now / 1_000_000) as f64));
            put(vars, *micros, |own| own.set_number((now % 1_000_000) as f64));
        }
        Deed::Stop(outcome) => return Ok(*outcome),
    }
    Ok(Outcome::GoOn)
}

fn jump(to: f64, steps: usize, (line, effects): (u32, &mut Effects)) -> Outcome {
    if is_step(to, steps) {
        return Outcome::Jump(to as usize);
    }
    effects.warn(line, &format!("jump: there is no step {to}, they go from 0 to {steps}"));
    Outcome::Fail(line)
}

/// Whether a call may go on there: at one of so many steps, or at the end.
pub fn is_step(to: f64, steps: usize) -> bool {
    (0.0..=steps as f64).contains(&to) && to.fract() == 0.0
}

/// The deeds that look into the worker's desk: secrets and injection files.
fn consult(deed: &Deed, vars: &mut Vars<'_>, facts: &mut Facts<'_>) -> Result<(), Fault> {
    match deed {
        Deed::VerifyAuth { to, user, password } => {
            let right = rendered(user, vars, facts, |user, vars, facts| {
                rendered(password, vars, facts, |password, _, facts| {
                    facts.desk.credentials.verify(facts.last, user, password)
                })
            })??;
            put(vars, *to, |own| own.set_truth(right));
        }
        Deed::Lookup { to, file, key } => {
            let found = rendered(key, vars, facts, |key, _, facts| {
                facts.desk.injections.files.get(*file).and_then(|file| file.lookup(key))
            })?;
            put(vars, *to, |own| own.set_number(found.map_or(-1.0, f64::from)));
        }
        Deed::Insert { file, value } => {
            let done = rendered(value, vars, facts, |text, _, facts| {
                facts.desk.injections.files.get_mut(*file).is_some_and(|file| file.insert(text))
            })?;
            return done.then_some(()).ok_or(Fault::NoField);
        }
        Deed::Replace { file, line, value } => {
            let line = rendered(line, vars, facts, |text, _, _| line_number(text))?.ok_or(Fault::NoField)?;
            let done = rendered(value, vars, facts, |text, _, facts| {
                facts.desk.injections.files.get_mut(*file).is_some_and(|file| file.replace(line, text))
            })?;
            return done.then_some(()).ok_or(Fault::NoField);
        }
        _ => {}
    }
    Ok(())
}

/// Renders a text and gives it to `then`.
fn rendered<T>(
    template: &Template,
    vars: &mut Vars<'_>,
    facts: &mut Facts<'_>,
    then: impl FnOnce(&[u8], &mut Vars<'_>, &mut Facts<'_>) -> T,
) -> Result<T, Fault> {
    let mut text = facts.desk.take();
    let result = template.render(facts, vars, &mut text).map(|()| then(&text, vars, facts));
    facts.desk.give(text);
    result
}

fn put(vars: &mut Vars<'_>, slot: Slot, change: impl FnOnce(&mut Value)) {
    if let Some(own) = vars.get_mut(slot) {
        change(own);
    }
}

fn set(vars: &mut Vars<'_>, slot: Slot, change: impl FnOnce(&mut Value, f64), operand: &Operand) {
    let number = value(vars, operand);
    put(vars, slot, |own| change(own, number));
}

/// A variable as a number: 0 if it is none.
fn number(vars: &Vars<'_>, slot: Slot) -> f64 {
    vars.get(slot).and_then(Value::number).unwrap_or(0.0)
}

fn value(vars: &Vars<'_>, operand: &Operand) -> f64 {
    match operand {
        Operand::Number(number) => *number,
        Operand::Variable(slot) => number(vars, *slot),
    }
}

fn arithmetic(
    vars: &mut Vars<'_>,
    to: Slot,
    operation: Arithmetic,
    by: &Operand,
    (line, effects): (u32, &mut Effects),
) {
    let (left, right) = (number(vars, to), value(vars, by));
    let result = match operation {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide if right == 0.0 => return effects.warn(line, "divide: the divisor is 0"),
        Arithmetic::Divide => left / right,
    };
    put(vars, to, |own| own.set_number(result));
}

impl Compare {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Compare::Equal => left == right,
            Compare::NotEqual => left != right,
            Compare::Greater => left > right,
            Compare::Less => left < right,
            Compare::GreaterOrEqual => left >= right,
            Compare::LessOrEqual => left <= right,
        }
    }
}

/// Stores the result of a comparison, and lets the call fail where it is checked and wrong.
fn judge(
    verdict: &Verdict,
    vars: &mut Vars<'_>,
    holds: bool,
    store: impl Fn(&mut Value),
    line: u32,
) -> Outcome {
    for slot in &verdict.to {
        put(vars, *slot, &store);
    }
    checked(verdict, holds, line)
}

fn checked(verdict: &Verdict, holds: bool, line: u32) -> Outcome {
    if verdict.check.is_some_and(|wanted| wanted != holds) { Outcome::Fail(line) } else { Outcome::GoOn }
}

/// The difference of the first bytes that differ, as C's `strcmp`.
fn compare_text(vars: &Vars<'_>, facts: &mut Facts<'_>, left: Slot, right: &[u8]) -> f64 {
    let mut text = facts.desk.take();
    if let Some(value) = vars.get(left) {
        value.write(&mut text);
    }
    let end = core::iter::once(&0);
    let pairs = text.iter().chain(end.clone()).zip(right.iter().chain(end));
    let difference = pairs.map(|(a, b)| f64::from(*a) - f64::from(*b)).find(|difference| *difference != 0.0);
    facts.desk.give(text);
    difference.unwrap_or(0.0)
}

/// Rewrites the text of a variable.
fn change_text(vars: &mut Vars<'_>, facts: &mut Facts<'_>, slot: Slot, change: fn(&[u8], &mut Vec<u8>)) {
    let Some(own) = vars.get_mut(slot) else { return };
    let Some(text) = own.text() else { return };
    let mut new = facts.desk.take();
    change(text, &mut new);
    own.set_text(&new);
    facts.desk.give(new);
}

/// RFC 3986 section 2.1: all but unreserved characters as `%XX`.
fn url_encode(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

fn url_decode(text: &[u8], out: &mut Vec<u8>) {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => out.push(byte),
        }
    }
}

/// `ereg`: what it finds goes into the variables; where it finds nothing, they stay as they are.
fn search(ereg: &Ereg, vars: &mut Vars<'_>, facts: &mut Facts<'_>, line: u32) -> Outcome {
    let last = facts.last;
    let found = match &ereg.scope {
        Look::Message => find(ereg, Some(last), vars),
        Look::Body => find(ereg, Some(message::body(last)), vars),
        Look::Header { name, ignore_case, line_start, occurrence } => {
            let rest = after_name(last, name.as_bytes(), *ignore_case, *line_start, *occurrence);
            find(ereg, rest, vars)
        }
        Look::Variable(slot) => {
            let mut text = facts.desk.take();
            if let Some(value) = vars.get(*slot) {
                value.write(&mut text);
            }
            let found = find(ereg, Some(&text), vars);
            facts.desk.give(text);
            found
        }
    };
    checked(&ereg.verdict, found, line)
}

fn find(ereg: &Ereg, text: Option<&[u8]>, vars: &mut Vars<'_>) -> bool {
    let Some(text) = text else { return false };
    ereg.pattern.find(text, |group, found| {
        if let (Some(slot), Some(found)) = (ereg.verdict.to.get(group), found) {
            put(vars, *slot, |own| own.set_text(found));
        }
    })
}

/// The rest of the line after the given occurrence of a text.
fn after_name<'m>(
    message: &'m [u8],
    name: &[u8],
    ignore_case: bool,
    line_start: bool,
    occurrence: u32,
) -> Option<&'m [u8]> {
    let first = *name.first()?;
    let both = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    let is_here = |&at: &usize| {
        let Some(text) = message.get(at..at + name.len()) else { return false };
        let same = if ignore_case { text.eq_ignore_ascii_case(name) } else { text == name };
        same && (!line_start || at == 0 || message.get(at - 1) == Some(&b'\n'))
    };
    let at = if ignore_case {
        memchr::memchr2_iter(both.0, both.1, message).filter(is_here).nth(occurrence as usize - 1)?
    } else {
        memchr::memchr_iter(first, message).filter(is_here).nth(occurrence as usize - 1)?
    };
    let rest = message.get(at + name.len()..)?;
    let end = rest.iter().position(|&b| b == b'\r' || b == b'\n').unwrap_or(rest.len());
    rest.get(..end)
}
