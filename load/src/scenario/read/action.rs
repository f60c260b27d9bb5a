//! `<action>`.

use super::super::actions::{
    Action, Arithmetic, Compare, Deed, Ereg, Level, Look, Operand, Outcome, TextOperand, Verdict,
};
use super::super::regexp::Pattern;
use super::super::template::{Cutter, Template};
use super::super::variables::Slot;
use super::Reader;
use super::tag::Tag;

/// The actions; [`Reader::deed`] takes them.
pub(super) const ACTIONS: &str = "there are ereg, log, warning, error, assign, assignstr, add, subtract, multiply, divide, sample, \
    todouble, test, strcmp, trim, urlencode, urldecode, jump, verifyauth, lookup, insert, replace, gettimeofday and \
    exec int_cmd";

impl Reader<'_> {
    /// The actions of a step.
    pub(super) fn actions(&mut self, step: &Tag<'_, '_>) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut seen = false;
        for list in step.children() {
            if list.name() != "action" {
                list.complain(
                    &mut self.context,
                    format!("it cannot stand in {}", step.shown()),
                    "move it, or take it out",
                );
                continue;
            }
            if seen {
                list.complain(
                    &mut self.context,
                    "a second <action> in one step",
                    "put all actions into the first",
                );
            }
            seen = true;
            list.finish(&mut self.context);
            for tag in list.children() {
                if let Some(deed) = self.deed(&tag) {
                    actions.push(Action { line: tag.place.line, deed });
                }
            }
        }
        actions
    }

    /// One action. `None` if it is wrong, which has been noted.
    fn deed(&mut self, tag: &Tag<'_, '_>) -> Option<Deed> {
        let deed = match tag.name() {
            "ereg" => self.ereg(tag).map(Deed::Ereg),
            "log" => self.say(tag, Level::Log),
            "warning" => self.say(tag, Level::Warning),
            "error" => self.say(tag, Level::Error),
            "assign" => self.assigned(tag, Deed::Assign),
            "add" => self.assigned(tag, |to, by| Deed::Arithmetic(to, Arithmetic::Add, by)),
            "subtract" => self.assigned(tag, |to, by| Deed::Arithmetic(to, Arithmetic::Subtract, by)),
            "multiply" => self.assigned(tag, |to, by| Deed::Arithmetic(to, Arithmetic::Multiply, by)),
            "divide" => self.assigned(tag, |to, by| Deed::Arithmetic(to, Arithmetic::Divide, by)),
            "assignstr" => self
                .template(tag, "value")
                .zip(self.target_variable(tag))
                .map(|(text, to)| Deed::AssignText(to, text)),
            "sample" => self
                .distribution(tag, None)
                .zip(self.target_variable(tag))
                .map(|(law, to)| Deed::Sample(to, law)),
            "todouble" => self
                .variable(tag, "variable")
                .zip(self.target_variable(tag))
                .map(|(from, to)| Deed::ToNumber(to, from)),
            "test" => self.test(tag),
            "strcmp" => self.strcmp(tag),
            "trim" => self.target_variable(tag).map(Deed::Trim),
            "urlencode" => self.variable(tag, "variable").map(Deed::UrlEncode),
            "urldecode" => self.variable(tag, "variable").map(Deed::UrlDecode),
            // Of how many steps is known at the end.
            "jump" => self.operand(tag).map(|to| Deed::Jump { to, steps: 0 }),
            "verifyauth" => self.verify(tag),
            "lookup" | "insert" | "replace" | "index" => self.injected(tag),
            "gettimeofday" => self.time_of_day(tag),
            "exec" => self.exec(tag),
            _ => {
                self.refuse_action(tag);
                return None;
            }
        };
        tag.finish(&mut self.context);
        deed
    }

    fn refuse_action(&mut self, tag: &Tag<'_, '_>) {
        let (what, mend) = match tag.name() {
            "setdest" => {
                ("a call cannot change where it sends", "let the proxy route it, or run two scenarios")
            }
            "closecon" => (
                "no connection is closed while its call goes on",
                "take it out; with -t tn it is closed when the call is over",
            ),
            "pauserestore" => ("a pause cannot be taken up again", "write <pause variable=\"...\"/>"),
            "rtp_echo" | "play_dtmf" => ("media are not sent", "take it out; signalling goes on without"),
            _ => ("unknown action", ACTIONS),
        };
        tag.complain(&mut self.context, what, mend);
    }

    fn exec(&mut self, tag: &Tag<'_, '_>) -> Option<Deed> {
        if let Some(command) = tag.get("int_cmd") {
            return match command {
                "stop_call" => Some(Deed::Stop(Outcome::StopCall)),
                "stop_gracefully" => Some(Deed::Stop(Outcome::StopGracefully)),
                "stop_now" => Some(Deed::Stop(Outcome::StopNow)),
                _ => {
                    let what = format!("unknown internal command `{command}'");
                    tag.complain(&mut self.context, what, "write stop_call, stop_gracefully or stop_now");
                    None
                }
            };
        }
        let media =
            ["play_pcap_audio", "play_pcap_video", "play_pcap_image", "play_dtmf", "rtp_stream", "rtp_echo"];
        if tag.get("command").is_some() {
            let what = "no programs are run: one start of a program costs more than a thousand calls";
            tag.complain(&mut self.context, what, "write <log message=\"...\"/> and work on the log");
        } else if let Some(name) = media.iter().find(|name| tag.get(name).is_some()) {
            let mend = "take it out; for the duration of the media put <pause milliseconds=\"...\"/>";
            tag.complain(&mut self.context, format!("{name}: media are not sent"), mend);
        } else {
            tag.complain(&mut self.context, "it does not say what to do", "add int_cmd=\"stop_call\"");
        }
        None
    }

    fn say(&mut self, tag: &Tag<'_, '_>, level: Level) -> Option<Deed> {
        self.template(tag, "message").map(|text| Deed::Say(level, text))
    }

    /// A text with keywords in an attribute.
    fn template(&mut self, tag: &Tag<'_, '_>, attribute: &str) -> Option<Template> {
        let text = tag.need(attribute, &mut self.context)?;
        Some(Cutter::text(&mut self.context, text, tag.place))
    }

    /// The variable that is read.
    fn variable(&mut self, tag: &Tag<'_, '_>, attribute: &str) -> Option<Slot> {
        let name = tag.need(attribute, &mut self.context)?;
        Some(self.context.read(name, tag.place, &tag.shown()))
    }

    /// The variable that is written: `assign_to`.
    fn target_variable(&mut self, tag: &Tag<'_, '_>) -> Option<Slot> {
        let name = tag.need("assign_to", &mut self.context)?;
        Some(self.context.write(name, tag.place, &tag.shown()))
    }

    /// `value` or `variable`.
    fn operand(&mut self, tag: &Tag<'_, '_>) -> Option<Operand> {
        match (tag.get("value"), tag.get("variable")) {
            (Some(text), None) => self.number(tag, text).map(Operand::Number),
            (None, Some(name)) => Some(Operand::Variable(self.context.read(name, tag.place, &tag.shown()))),
            (None, None) => {
                tag.complain(&mut self.context, "neither `value' nor `variable' is given", "add one");
                None
            }
            (Some(_), Some(_)) => {
                tag.complain(&mut self.context, "both `value' and `variable' are given", "keep one");
                None
            }
        }
    }

    fn number(&mut self, tag: &Tag<'_, '_>, text: &str) -> Option<f64> {
        let number = text.trim().parse().ok();
        if number.is_none() {
            tag.complain(
                &mut self.context,
                format!("value=\"{text}\" is no number"),
                "write a number, or use variable=",
            );
        }
        number
    }

    fn assigned(&mut self, tag: &Tag<'_, '_>, deed: impl Fn(Slot, Operand) -> Deed) -> Option<Deed> {
        let operand = self.operand(tag)?;
        if tag.name() == "divide" && operand == Operand::Number(0.0) {
            tag.complain(&mut self.context, "division by zero", "write another value");
        }
        // Arithmetic starts from 0 where the variable is not set.
        self.target_variable(tag).map(|to| deed(to, operand))
    }

    /// `check_it`, `check_it_inverse`.
    fn check(&mut self, tag: &Tag<'_, '_>) -> Option<bool> {
        let check = tag.flag("check_it", false, &mut self.context);
        let inverse = tag.flag("check_it_inverse", false, &mut self.context);
        if check && inverse {
            tag.complain(&mut self.context, "both `check_it' and `check_it_inverse' are given", "keep one");
        }
        (check || inverse).then_some(check)
    }

    /// `assign_to` and the checks of a comparison.
    fn verdict(&mut self, tag: &Tag<'_, '_>) -> Verdict {
        let check = self.check(tag);
        let to: Vec<Slot> = match tag.get("assign_to") {
            Some(name) => vec![self.context.write(name, tag.place, &tag.shown())],
            None => Vec::new(),
        };
        if to.is_empty() && check.is_none() {
            tag.complain(
                &mut self.context,
                "nothing is made of the result",
                "add assign_to= or check_it=\"true\"",
            );
        }
        Verdict { to, check }
    }

    fn test(&mut self, tag: &Tag<'_, '_>) -> Option<Deed> {
        let verdict = self.verdict(tag);
        let left = self.variable(tag, "variable")?;
        let right = match (tag.get("value"), tag.get("variable2")) {
            (Some(text), None) => Operand::Number(self.number(tag, text)?),
            (None, Some(name)) => Operand::Variable(self.context.read(name, tag.place, &tag.shown())),
            _ => {
                tag.complain(&mut self.context, "it needs `value' or `variable2'", "give one of them");
                return None;
            }
        };
        let compare = match tag.need("compare", &mut self.context)? {
            "equal" => Compare::Equal,
            "not_equal" => Compare::NotEqual,
            "greater_than" => Compare::Greater,
            "less_than" => Compare::Less,
            "greater_than_equal" => Compare::GreaterOrEqual,
            "less_than_equal" => Compare::LessOrEqual,
            other => {
                let mend =
                    "write equal, not_equal, greater_than, less_than, greater_than_equal or less_than_equal";
                tag.complain(&mut self.context, format!("unknown comparison `{other}'"), mend);
                return None;
            }
        };
        Some(Deed::Test { left, compare, right, verdict })
    }

    fn strcmp(&mut self, tag: &Tag<'_, '_>) -> Option<Deed> {
        let verdict = self.verdict(tag);
        let left = self.variable(tag, "variable")?;
        let right = match (tag.get("value"), tag.get("variable2")) {
            (Some(text), None) => TextOperand::Text(Cutter::text(&mut self.context, text, tag.place)),
            (None, Some(name)) => TextOperand::Variable(self.context.read(name, tag.place, &tag.shown())),
            _ => {
                tag.complain(&mut self.context, "it needs `value' or `variable2'", "give one of them");
                return None;
            }
        };
        Some(Deed::CompareText { left, right, verdict })
    }

    fn ereg(&mut self, tag: &Tag<'_, '_>) -> Option<Ereg> {
        let check = self.check(tag);
        let names = tag.need("assign_to", &mut self.context).unwrap_or_default();
        let to = names.split(',').filter(|name| !name.trim().is_empty());
        let to: Vec<Slot> = to.map(|name| self.context.write(name, tag.place, &tag.shown())).collect();
        let scope = self.look(tag);
        let text = tag.need("regexp", &mut self.context)?;
        let pattern = match Pattern::parse(text) {
            Ok(pattern) => pattern,
            Err((what, mend)) => {
                tag.complain(&mut self.context, what, mend);
                return None;
            }
        };
        if to.len() > pattern.groups() + 1 {
            let what = format!("{} variables for a match and {} group(s)", to.len(), pattern.groups());
            tag.complain(&mut self.context, what, "name at most one more variable than there are groups");
        }
        Some(Ereg { pattern, scope: scope?, verdict: Verdict { to, check } })
    }

    /// Where an expression looks.
    fn look(&mut self, tag: &Tag<'_, '_>) -> Option<Look> {
        let ignore_case = tag.flag("case_indep", false, &mut self.context);
        let line_start = tag.flag("start_line", false, &mut self.context);
        let occurrence = tag.get("occurrence").or(tag.get("occurence"));
        let occurrence = occurrence.map_or(Some(1), |text| text.trim().parse().ok().filter(|&n| n > 0));
        let occurrence = occurrence.unwrap_or_else(|| {
            tag.complain(&mut self.context, "`occurrence' is no number from 1", "write 1, 2, ...");
            1
        });
        let (header, variable) = (tag.get("header"), tag.get("variable"));
        match tag.get("search_in").unwrap_or("msg") {
            "msg" => Some(Look::Message),
            "body" => Some(Look::Body),
            "hdr" => {
                let Some(name) = header.filter(|name| !name.is_empty()) else {
                    tag.complain(
                        &mut self.context,
                        "search_in=\"hdr\" without `header'",
                        "add header=\"Contact:\"",
                    );
                    return None;
                };
                Some(Look::Header { name: name.into(), ignore_case, line_start, occurrence })
            }
            "var" => {
                let Some(name) = variable else {
                    tag.complain(
                        &mut self.context,
                        "search_in=\"var\" without `variable'",
                        "add variable=NAME",
                    );
                    return None;
                };
                Some(Look::Variable(self.context.read(name, tag.place, &tag.shown())))
            }
            other => {
                let what = format!("search_in=\"{other}\" is not understood");
                tag.complain(&mut self.context, what, "write msg, hdr, body or var");
                None
            }
        }
    }

    fn verify(&mut self, tag: &Tag<'_, '_>) -> Option<Deed> {
        let (user, password) = (self.template(tag, "username"), self.template(tag, "password"));
        let to = self.target_variable(tag)?;
        Some(Deed::VerifyAuth { to, user: user?, password: password? })
    }

    /// The actions on injection files.
    fn injected(&mut self, tag: &Tag<'_, '_>) -> Option<Deed> {
        let name = tag.need("file", &mut self.context)?;
        let file = self.context.around.injections.find(name);
        if file.is_none() {
            tag.complain(
                &mut self.context,
                format!("there is no injection file `{name}'"),
                "give it with -inf",
            );
        }
        match tag.name() {
            "lookup" => {
                let key = self.template(tag, "key");
                let to = self.target_variable(tag)?;
                let indexed = file.and_then(|file| self.context.around.injections.files.get(file));
                if indexed.is_some_and(|file| !file.is_indexed()) {
                    tag.complain(
                        &mut self.context,
                        format!("`{name}' has no index"),
                        format!("add -infindex {name} FIELD"),
                    );
                }
                Some(Deed::Lookup { to, file: file?, key: key? })
            }
            "insert" => Some(Deed::Insert { value: self.template(tag, "value")?, file: file? }),
            "replace" => {
                let (line, value) = (self.template(tag, "line"), self.template(tag, "value"));
                Some(Deed::Replace { file: file?, line: line?, value: value? })
            }
            _ => {
                let mend = format!("take it out and add -infindex {name} FIELD");
                tag.complain(&mut self.context, "indexes are made before the run", mend);
                None
            }
        }
    }

    fn time_of_day(&mut self, tag: &Tag<'_, '_>) -> Option<Deed> {
        let names = tag.need("assign_to", &mut self.context)?;
        let Some((seconds, micros)) = names.split_once(',') else {
            let mend = "write assign_to=\"seconds,microseconds\"";
            tag.complain(&mut self.context, "it needs two variables", mend);
            return None;
        };
        let seconds = self.context.write(seconds, tag.place, &tag.shown());
        let micros = self.context.write(micros, tag.place, &tag.shown());
        Some(Deed::TimeOfDay(seconds, micros))
    }
}
