//! Actions: what a step does besides its message.

mod run;
#[cfg(test)]
mod tests;

pub(super) use run::is_step;
pub use run::run;

use super::facts::Run;
use super::regexp::Pattern;
use super::template::{Seeker, Template};
use super::variables::Slot;
use crate::population::Distribution;

/// One action.
#[derive(Debug)]
pub struct Action {
    /// Its line in the file.
    pub line: u32,
    /// What it does.
    pub deed: Deed,
}

/// What an action does. Names and meanings are SIPp's.
#[derive(Debug)]
pub enum Deed {
    /// `ereg`.
    Ereg(Ereg),
    /// `log`, `warning` and `error`; the last ends the call as failed.
    Say(Level, Template),
    /// `assign`.
    Assign(Slot, Operand),
    /// `add`, `subtract`, `multiply`, `divide`.
    Arithmetic(Slot, Arithmetic, Operand),
    /// `assignstr`.
    AssignText(Slot, Template),
    /// `sample`.
    Sample(Slot, Distribution),
    /// `todouble`: to, from.
    ToNumber(Slot, Slot),
    /// `test`.
    Test {
        /// The left side.
        left: Slot,
        /// The comparison.
        compare: Compare,
        /// The right side.
        right: Operand,
        /// What becomes of the result.
        verdict: Verdict,
    },
    /// `strcmp`: the result is -1, 0 or 1.
    CompareText {
        /// The left side.
        left: Slot,
        /// The right side.
        right: TextOperand,
        /// What becomes of the result; a check holds where both are equal.
        verdict: Verdict,
    },
    /// `trim`: takes white space off both ends.
    Trim(Slot),
    /// `urlencode`.
    UrlEncode(Slot),
    /// `urldecode`.
    UrlDecode(Slot),
    /// `jump`: to a step, in place of `next`.
    Jump {
        /// Its number.
        to: Operand,
        /// How many steps there are; a number beyond it is none.
        steps: usize,
    },
    /// `verifyauth`.
    VerifyAuth {
        /// Becomes a boolean.
        to: Slot,
        /// The user's name.
        user: Template,
        /// The password.
        password: Template,
    },
    /// `lookup`: the line of `file` whose indexed field is `key`, or -1.
    Lookup {
        /// Becomes a number.
        to: Slot,
        /// The place of the file among the injections.
        file: usize,
        /// What to look for.
        key: Template,
    },
    /// `insert`: one more line.
    Insert {
        /// The place of the file among the injections.
        file: usize,
        /// The line.
        value: Template,
    },
    /// `replace`: another text for a line.
    Replace {
        /// The place of the file among the injections.
        file: usize,
        /// The number of the line, from 0.
        line: Template,
        /// The line.
        value: Template,
    },
    /// `gettimeofday`: seconds, microseconds.
    TimeOfDay(Slot, Slot),
    /// `exec int_cmd`.
    Stop(Outcome),
}

/// A number given, or a variable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Operand {
    /// `value`.
    Number(f64),
    /// `variable`.
    Variable(Slot),
}

/// A text given, or a variable.
#[derive(Debug)]
pub enum TextOperand {
    /// `value`.
    Text(Template),
    /// `variable2`.
    Variable(Slot),
}

/// What becomes of the result of an expression or comparison.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// `assign_to`: the variables that get it; for an expression the whole match and its groups.
    pub to: Vec<Slot>,
    /// `check_it`, `check_it_inverse`: whether the call fails where it is not so.
    pub check: Option<bool>,
}

/// The four operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    /// `add`
    Add,
    /// `subtract`
    Subtract,
    /// `multiply`
    Multiply,
    /// `divide`; by zero it warns and changes nothing.
    Divide,
}

/// The comparisons of `test`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// `equal`
    Equal,
    /// `not_equal`
    NotEqual,
    /// `greater_than`
    Greater,
    /// `less_than`
    Less,
    /// `greater_than_equal`
    GreaterOrEqual,
    /// `less_than_equal`
    LessOrEqual,
}

/// `ereg`.
#[derive(Debug)]
pub struct Ereg {
    /// The expression.
    pub pattern: Pattern,
    /// Where it looks.
    pub scope: Look,
    /// What becomes of what it finds.
    pub verdict: Verdict,
}

/// Where an expression looks.
#[derive(Debug)]
pub enum Look {
    /// In the whole message.
    Message,
    /// After the empty line.
    Body,
    /// In a header, without its name.
    Header {
        /// The text before the value, such as `Contact:`.
        name: Box<str>,
        /// `case_indep`.
        ignore_case: bool,
        /// `start_line`: only at the beginning of a line.
        line_start: bool,
        /// `occurrence`, from 1.
        occurrence: u32,
    },
    /// In a variable.
    Variable(Slot),
}

/// Where a line goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// The log of the scenario (`log`).
    Log,
    /// The log of errors (`warning`).
    Warning,
    /// The log of errors; the call has failed (`error`).
    Error,
}

/// How the call goes on after its actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outcome {
    /// With the next step.
    #[default]
    GoOn,
    /// With this step (`jump`), or as at the end of the last one.
    Jump(usize),
    /// Not at all; the call has failed: a check, an `error`, a text that could not be made. The line of
    /// the action.
    Fail(u32),
    /// Not at all; it ended well (`stop_call`).
    StopCall,
    /// The run ends once the calls under way have ended (`stop_gracefully`).
    StopGracefully,
    /// The run ends at once (`stop_now`).
    StopNow,
}

/// What actions want done outside of the call's variables. Reused: [`Effects::clear`].
#[derive(Debug, Default)]
pub struct Effects {
    /// Lines to be written, with the level of each.
    pub lines: Vec<(Level, Vec<u8>)>,
}

impl Effects {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.lines.clear();
    }

    fn warn(&mut self, line: u32, what: &str) {
        self.lines.push((Level::Warning, format!("line {line}: {what}").into_bytes()));
    }
}

impl Action {
    /// The templates in it.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let (first, second) = match &self.deed {
            Deed::Say(_, one) | Deed::AssignText(_, one) => (Some(one), None),
            Deed::CompareText { right: TextOperand::Text(one), .. } => (Some(one), None),
            Deed::Lookup { key: one, .. } | Deed::Insert { value: one, .. } => (Some(one), None),
            Deed::VerifyAuth { user: one, password: two, .. } => (Some(one), Some(two)),
            Deed::Replace { line: one, value: two, .. } => (Some(one), Some(two)),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    fn templates_mut(&mut self) -> impl Iterator<Item = &mut Template> {
        let (first, second) = match &mut self.deed {
            Deed::Say(_, one) | Deed::AssignText(_, one) => (Some(one), None),
            Deed::CompareText { right: TextOperand::Text(one), .. } => (Some(one), None),
            Deed::Lookup { key: one, .. } | Deed::Insert { value: one, .. } => (Some(one), None),
            Deed::VerifyAuth { user: one, password: two, .. } => (Some(one), Some(two)),
            Deed::Replace { line: one, value: two, .. } => (Some(one), Some(two)),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    pub(super) fn bind(&mut self, run: &Run) {
        self.templates_mut().for_each(|template| template.bind(run));
    }

    pub(super) fn join(&mut self, all: &mut Seeker) {
        self.templates_mut().for_each(|template| template.join(all));
    }

    /// Whether it looks at the last message received.
    pub(super) fn uses_last(&self) -> bool {
        let own = match &self.deed {
            Deed::Ereg(ereg) => !matches!(ereg.scope, Look::Variable(_)),
            Deed::VerifyAuth { .. } => true,
            _ => false,
        };
        own || self.templates().any(Template::uses_last)
    }
}
