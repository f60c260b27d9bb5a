//! From XML to a scenario.

mod action;
mod keep;
mod limits;
mod loose;
mod message;
mod tag;
#[cfg(test)]
pub(super) mod tests;

use super::actions::{Deed, Operand, is_step};
use super::context::{Context, MOST_TIMERS, Place};
use super::inject::Injections;
use super::problem::Problem;
use super::steps::{Branch, Condition, Op, Pause, Scenario, Side, Step, Unexpected};
use super::template::Seeker;
use super::variables::{Scope, Variables};
use crate::population::Distribution;
use loose::Loose;
use roxmltree::{Document, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use tag::Tag;

/// What a scenario file may refer to.
pub struct Surroundings<'a> {
    /// Names and values of `-key`: further keywords.
    pub keys: &'a [(String, String)],
    /// The injection files: `[field0]` and so on are checked against them.
    pub injections: &'a Injections,
    /// Reads the files of `[file name=...]`.
    pub read_file: &'a dyn Fn(&str) -> io::Result<Vec<u8>>,
}

/// The elements of a scenario; [`Reader::steps`] takes them.
const ELEMENTS: &str = "there are send, recv, pause, timewait, nop, label, init, Global, User, Reference, \
    ResponseTimeRepartition and CallLengthRepartition";

/// Distributions that a `<pause>` may name by an attribute (`normal="true"`), in the order in which SIPp asks
/// for them.
const OLD: [&str; 6] = ["normal", "exponential", "lognormal", "weibull", "pareto", "gamma"];

/// Largest scenario file, in bytes.
const MOST_BYTES: usize = 4 << 20;

/// Reads a scenario file. `bytes` are UTF-8, or else taken for ISO-8859-1. No external entity is read.
///
/// # Errors
/// Everything wrong in it, in the order of the file.
pub fn parse(file_name: &str, bytes: &[u8], around: &Surroundings<'_>) -> Result<Scenario, Vec<Problem>> {
    let (text, latin) = match core::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), false),
        Err(_) => (bytes.iter().map(|&byte| char::from(byte)).collect(), true),
    };
    let variables = Variables::default();
    let context = Context {
        file: file_name,
        around,
        problems: Vec::new(),
        variables,
        latin,
        uses: BTreeMap::new(),
        in_init: false,
        keys: BTreeSet::new(),
        fields: None,
    };
    let mut reader = Reader::new(context);
    let scenario = if bytes.len() > MOST_BYTES {
        let nowhere = Place { line: 0, column: 0 };
        reader.context.complain(
            nowhere,
            "",
            format!("the file is larger than {MOST_BYTES} bytes"),
            "split it",
        );
        None
    } else {
        reader.file(&text)
    };
    reader.context.miss_fields();
    let mut problems = reader.context.problems;
    match scenario {
        Some(scenario) if problems.is_empty() => Ok(scenario),
        _ => {
            problems.sort_by_key(|problem| (problem.line, problem.column));
            Err(problems)
        }
    }
}

/// Labels of one list of steps: name to step.
type Labels = BTreeMap<String, usize>;

/// What is gathered while the elements are read.
struct Reader<'a> {
    context: Context<'a>,
    timers: Vec<String>,
    counters: Vec<String>,
    transactions: Vec<String>,
    /// For each transaction: started by an INVITE, answered, acknowledged; where it is first named.
    uses: Vec<TransactionUse>,
    /// Methods of the requests sent so far that begin no named transaction.
    methods: Vec<Box<str>>,
    /// Where requests have Call-IDs that name no call.
    nameless: Vec<Place>,
    prefixes_call_ids: bool,
    response_times_ms: Vec<u32>,
    call_lengths_ms: Vec<u32>,
}

#[derive(Clone, Copy)]
struct TransactionUse {
    place: Place,
    started: bool,
    by_invite: bool,
    answered: bool,
    acknowledged: bool,
}

impl<'a> Reader<'a> {
    fn new(context: Context<'a>) -> Reader<'a> {
        Reader {
            context,
            timers: Vec::new(),
            counters: Vec::new(),
            transactions: Vec::new(),
            uses: Vec::new(),
            methods: Vec::new(),
            nameless: Vec::new(),
            prefixes_call_ids: false,
            response_times_ms: Vec::new(),
            call_lengths_ms: Vec::new(),
        }
    }

    /// The whole file.
    fn file(&mut self, text: &str) -> Option<Scenario> {
        let loose = loose::loosen(text);
        if let Some(at) = loose.entity {
            let mend = "write what it stands for";
            self.context.complain(loose.place(text, at), "<!ENTITY>", "entities are not read", mend);
        }
        if let Some(at) = loose.no_character {
            let mend = "write the number of a character, such as &#34; for a quotation mark";
            self.context.complain(loose.place(text, at), "", "`&#...;' is no character of XML", mend);
        }
        let document = match Document::parse(&loose.text) {
            Ok(document) => document,
            Err(error) => {
                self.malformed(text, &loose, &error);
                return None;
            }
        };
        let places = |node: Node<'_, '_>| loose.place(text, node.range().start);
        let places: &dyn Fn(Node<'_, '_>) -> Place = &places;
        let root = Tag::new(document.root_element(), places);
        if root.name() != "scenario" {
            let mend = "put everything into <scenario name=\"...\"> </scenario>";
            root.complain(&mut self.context, "the outermost element is not <scenario>", mend);
            return None;
        }
        let name = root.get("name").unwrap_or(self.context.file).to_owned();
        root.finish(&mut self.context);
        self.scenario(name, &root)
    }

    /// What is not XML. Of an element that another one ends in its place it is the beginning that is to be
    /// found, not where that was noticed; of one that the file ends in, both.
    fn malformed(&mut self, text: &str, loose: &Loose, error: &roxmltree::Error) {
        let position = error.pos();
        let at = loose.offset(position.row, position.col);
        let place = loose.place(text, at);
        let (place, reason, mend) = match error {
            roxmltree::Error::UnexpectedCloseTag(open, closed, _) => {
                let begins = loose.open_at(at).map_or(place, |(_, from)| loose.place(text, from));
                let mend = format!("add </{open}>, or write it so");
                (begins, format!("<{open}> has no end before </{closed}> of line {}", place.line), mend)
            }
            roxmltree::Error::UnclosedRootNode => {
                let end = loose.place(text, loose.text.trim_end().len());
                let (name, begins) = loose
                    .open_at(loose.text.len())
                    .map_or(("scenario", place), |(name, from)| (name, loose.place(text, from)));
                let reason = format!("the file ends here, and <{name}> of line {} has no end", begins.line);
                (end, reason, format!("add </{name}>"))
            }
            other => {
                let reason = other.to_string();
                let reason = reason.rsplit_once(" at ").map_or(reason.as_str(), |(reason, _)| reason);
                (place, reason.to_owned(), "mend the element there".to_owned())
            }
        };
        self.context.complain(place, "", format!("not well-formed XML: {reason}"), mend);
    }

    fn scenario(&mut self, name: String, root: &Tag<'_, '_>) -> Option<Scenario> {
        self.declarations(root);
        let mut inits = root.children().filter(|child| child.name() == "init");
        let init = inits.next();
        for more in inits {
            more.complain(&mut self.context, "there is an <init> already", "put everything into the first");
        }
        let mut init = init.map_or_else(Vec::new, |init| {
            init.finish(&mut self.context);
            self.context.in_init = true;
            let steps = self.steps(&init, true).0;
            self.context.in_init = false;
            steps
        });
        let (mut steps, labels) = self.steps(root, false);
        self.check_transactions();
        self.check_variables();
        self.check_jumps(&mut init);
        self.check_jumps(&mut steps);
        if !steps.iter().any(|step| matches!(step.op, Op::Send(_) | Op::Recv(_))) {
            root.complain(&mut self.context, "there is no message in it", "add <send> and <recv>");
            return None;
        }
        let first = steps.iter().find(|step| matches!(step.op, Op::Send(_) | Op::Recv(_)));
        let side = match first.map(|step| &step.op) {
            Some(Op::Send(_)) => Side::Client,
            _ => Side::Server,
        };
        let answered = steps.iter().any(|step| matches!(step.op, Op::Recv(_)));
        if side == Side::Client && answered {
            self.check_call_ids();
        }
        let unexpected = labels
            .get("_unexp.main")
            .map(|&to| Unexpected { to, return_to: self.context.variables.find("_unexp.retaddr") });
        limits::share(&mut steps);
        let keeps_messages = keep::mark(&mut steps, unexpected.is_some());
        let is_started = |timer: u16| steps.iter().any(|step: &Step| step.start_timer == Some(timer));
        let running_timers = (0..self.timers.len() as u16).filter(|&timer| !is_started(timer)).collect();
        let mut scenario = Scenario {
            prefixes_call_ids: self.prefixes_call_ids,
            running_timers,
            keys: core::mem::take(&mut self.context.keys),
            headers: Seeker::default(),
            name,
            side,
            init,
            steps,
            variables: core::mem::take(&mut self.context.variables),
            timers: core::mem::take(&mut self.timers),
            counters: core::mem::take(&mut self.counters),
            transactions: core::mem::take(&mut self.transactions),
            response_times_ms: core::mem::take(&mut self.response_times_ms),
            call_lengths_ms: core::mem::take(&mut self.call_lengths_ms),
            unexpected,
            keeps_messages,
        };
        scenario.join_headers();
        Some(scenario)
    }

    /// What holds for the whole scenario, wherever it stands.
    fn declarations(&mut self, root: &Tag<'_, '_>) {
        for tag in root.children() {
            let scope = match tag.name() {
                "Global" | "Globals" => Scope::Global,
                "User" => Scope::User,
                "Reference" => Scope::Call,
                "ResponseTimeRepartition" => {
                    self.response_times_ms = self.bounds(&tag);
                    continue;
                }
                "CallLengthRepartition" => {
                    self.call_lengths_ms = self.bounds(&tag);
                    continue;
                }
                _ => continue,
            };
            let Some(names) = tag.need("variables", &mut self.context) else { continue };
            for name in names.split(',') {
                if scope == Scope::Call {
                    self.context.refer(name.trim());
                } else {
                    self.context.declare(name, scope, tag.place, &tag.shown());
                }
            }
            tag.finish(&mut self.context);
        }
    }

    /// `value="10, 20, 30"`, ascending.
    fn bounds(&mut self, tag: &Tag<'_, '_>) -> Vec<u32> {
        let value = tag.need("value", &mut self.context).unwrap_or_default();
        tag.finish(&mut self.context);
        let numbers: Option<Vec<u32>> = value.split(',').map(|word| word.trim().parse().ok()).collect();
        let mut numbers = numbers.unwrap_or_else(|| {
            let mend = "write milliseconds parted by commas: value=\"10, 20, 50\"";
            tag.complain(&mut self.context, "value is no list of numbers", mend);
            Vec::new()
        });
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// The steps in an element, and its labels.
    fn steps(&mut self, parent: &Tag<'_, '_>, in_init: bool) -> (Vec<Step>, Labels) {
        let labels = self.labels(parent);
        let mut steps = Vec::new();
        let mut waited: Option<Place> = None;
        for tag in parent.children() {
            match tag.name() {
                "label"
                | "init"
                | "Global"
                | "Globals"
                | "User"
                | "Reference"
                | "ResponseTimeRepartition"
                | "CallLengthRepartition" => continue,
                name if in_init && name != "nop" => {
                    tag.complain(
                        &mut self.context,
                        "it cannot stand in <init>",
                        "only <nop> and <label> can",
                    );
                    continue;
                }
                _ => {}
            }
            if let Some(place) = waited {
                let what = format!("a step follows <timewait> of line {}", place.line);
                tag.complain(&mut self.context, what, "make <timewait> the last step");
            }
            if tag.name() == "timewait" {
                waited = Some(tag.place);
            }
            if let Some(step) = self.step(&tag, &labels) {
                steps.push(step);
            }
        }
        (steps, labels)
    }

    /// Where the labels point.
    fn labels(&mut self, parent: &Tag<'_, '_>) -> Labels {
        let mut labels = Labels::new();
        let mut at = 0;
        for tag in parent.children() {
            match tag.name() {
                "label" => {
                    let Some(id) = tag.need("id", &mut self.context) else { continue };
                    if labels.insert(id.to_owned(), at).is_some() {
                        tag.complain(
                            &mut self.context,
                            format!("the label `{id}' is there twice"),
                            "rename one",
                        );
                    }
                    tag.finish(&mut self.context);
                }
                "send" | "recv" | "pause" | "timewait" | "nop" => at += 1,
                _ => {}
            }
        }
        labels
    }

    /// One step.
    fn step(&mut self, tag: &Tag<'_, '_>, labels: &Labels) -> Option<Step> {
        let op = match tag.name() {
            "send" => self.send(tag, labels).map(Op::Send),
            "recv" => self.recv(tag, labels).map(Op::Recv),
            "pause" => self.pause(tag).map(Op::Pause),
            "timewait" => {
                let milliseconds = self.milliseconds(tag, "milliseconds").unwrap_or(0);
                if tag.get("next").is_some() {
                    tag.complain(
                        &mut self.context,
                        "the call ends here, `next' leads nowhere",
                        "take it out",
                    );
                }
                Some(Op::Pause(Pause::TimeWait(milliseconds)))
            }
            "nop" => Some(Op::Nop),
            _ => {
                self.refuse(tag);
                return None;
            }
        };
        let next = self.branch(tag, labels);
        let condition = tag.get("condexec").map(|name| Condition {
            test: self.context.read(name, tag.place, &tag.shown()),
            inverse: tag.flag("condexec_inverse", false, &mut self.context),
        });
        let start_timer = self.timer(tag, "start_rtd");
        let stop_timer = self.timer(tag, "rtd");
        let repeat_timer = tag.flag("repeat_rtd", false, &mut self.context);
        if repeat_timer && stop_timer.is_none() {
            tag.complain(&mut self.context, "`repeat_rtd' without `rtd'", "add rtd=, or take it out");
        }
        let counter = tag
            .get("counter")
            .map(|name| self.context.intern(&mut self.counters, name, tag.place, &tag.shown()));
        let hidden = tag.flag("hide", false, &mut self.context);
        let display = tag.get("display").map(str::to_owned);
        // A blank line in SIPp's screen.
        tag.flag("crlf", false, &mut self.context);
        let actions = self.actions(tag);
        tag.finish(&mut self.context);
        let line = tag.place.line;
        op.map(|op| Step {
            line,
            op,
            next,
            condition,
            start_timer,
            stop_timer,
            repeat_timer,
            counter,
            actions,
            hidden,
            display,
        })
    }

    fn refuse(&mut self, tag: &Tag<'_, '_>) {
        let (what, mend) = match tag.name() {
            "sendCmd" | "recvCmd" => (
                "third-party call control (-3pcc) is not supported",
                "run the two sides as scenarios of their own",
            ),
            "DefaultMessage" => {
                ("default messages cannot be changed", "handle the case with an optional <recv>")
            }
            _ => ("unknown element", ELEMENTS),
        };
        tag.complain(&mut self.context, what, mend);
    }

    /// `next`, `test`, `chance`.
    fn branch(&mut self, tag: &Tag<'_, '_>, labels: &Labels) -> Option<Branch> {
        let test = tag.get("test").map(|name| self.context.read(name, tag.place, &tag.shown()));
        let chance = tag.get("chance");
        let chance = chance.map_or(1.0, |text| match text.trim().parse::<f64>() {
            Ok(chance) if (0.0..=1.0).contains(&chance) => chance,
            _ => {
                let what = format!("chance=\"{text}\" is no probability");
                tag.complain(&mut self.context, what, "write a number from 0 to 1");
                1.0
            }
        });
        let Some(to) = self.target(tag, "next", labels) else {
            if (test.is_some() || chance < 1.0) && tag.get("next").is_none() {
                tag.complain(&mut self.context, "`test' or `chance' without `next'", "add next=LABEL");
            }
            return None;
        };
        Some(Branch { to, test, chance })
    }

    /// The step that an attribute's label stands for.
    fn target(&mut self, tag: &Tag<'_, '_>, attribute: &str, labels: &Labels) -> Option<usize> {
        let label = tag.get(attribute)?;
        let found = labels.get(label).copied();
        if found.is_none() {
            let what = format!("{attribute}=\"{label}\" is no label of this scenario");
            tag.complain(&mut self.context, what, format!("add <label id=\"{label}\"/> where it leads"));
        }
        found
    }

    /// A timer: a name, or `true` for the one called 1.
    fn timer(&mut self, tag: &Tag<'_, '_>, attribute: &str) -> Option<u16> {
        let name = match tag.get(attribute)? {
            "false" => return None,
            "true" => "1",
            name => name,
        };
        if self.timers.len() >= MOST_TIMERS && !self.timers.iter().any(|own| own == name) {
            let what = format!("more than {MOST_TIMERS} different response timers");
            self.context.complain(tag.place, &tag.shown(), what, "use fewer");
            return None;
        }
        Some(self.context.intern(&mut self.timers, name, tag.place, &tag.shown()))
    }

    /// A number of milliseconds.
    fn milliseconds(&mut self, tag: &Tag<'_, '_>, attribute: &str) -> Option<u32> {
        let text = tag.get(attribute)?;
        match text.trim().parse::<f64>() {
            Ok(number) if (0.0..=f64::from(i32::MAX)).contains(&number) => Some(number.round() as u32),
            _ => {
                let what = format!("{attribute}=\"{text}\" is no number of milliseconds");
                tag.complain(&mut self.context, what, "write a number from 0 to 2147483647, without a unit");
                None
            }
        }
    }

    fn pause(&mut self, tag: &Tag<'_, '_>) -> Option<Pause> {
        let sane = tag.flag("sanity_check", true, &mut self.context);
        // SIPp's first form named the distribution by an attribute of its own.
        let old = OLD.into_iter().find(|name| tag.flag(name, false, &mut self.context));
        let mut given =
            ["milliseconds", "variable", "distribution", "min"].map(|name| tag.get(name).is_some());
        given[3] |= old.is_some() || tag.get("max").is_some();
        if given.iter().filter(|given| **given).count() > 1 && !(given[2] && !given[0] && !given[1]) {
            tag.complain(&mut self.context, "more than one length is given", "keep one");
            return None;
        }
        if let Some(name) = tag.get("variable") {
            return Some(Pause::Variable(self.context.read(name, tag.place, &tag.shown())));
        }
        if given[0] {
            return self.milliseconds(tag, "milliseconds").map(Pause::Fixed);
        }
        if !given[2] && !given[3] {
            return Some(Pause::Default);
        }
        let law = self.distribution(tag, old)?;
        let late = law.quantile(0.99).is_some_and(|q| q > f64::from(i32::MAX));
        if sane && late {
            let mend = "take other parameters, or add sanity_check=\"false\"";
            tag.complain(&mut self.context, "one pause in a hundred is longer than 24 days", mend);
        }
        Some(match law {
            Distribution::Fixed { value } if (0.0..4e9).contains(&value) => {
                Pause::Fixed(value.round() as u32)
            }
            law => Pause::Random(law),
        })
    }

    /// `distribution`, or the `old` form of it, and its parameters.
    fn distribution(&mut self, tag: &Tag<'_, '_>, old: Option<&str>) -> Option<Distribution> {
        let kind = tag.get("distribution").or(old).unwrap_or("uniform");
        let mut missing = false;
        let mut get = |name: &str| {
            let number = tag.get(name).and_then(|text| text.trim().parse::<f64>().ok());
            if number.is_none() {
                let what = format!("the {kind} distribution needs a number in `{name}'");
                tag.complain(&mut self.context, what, format!("add {name}=\"...\""));
                missing = true;
            }
            number.unwrap_or(1.0)
        };
        let law = match kind {
            "fixed" => Distribution::Fixed { value: get("value") },
            "uniform" => Distribution::Uniform { min: get("min"), max: get("max") },
            "normal" => Distribution::Normal { mean: get("mean"), stdev: get("stdev") },
            "lognormal" => Distribution::LogNormal { mean: get("mean"), stdev: get("stdev") },
            "exponential" => Distribution::Exponential { mean: get("mean") },
            "weibull" => Distribution::Weibull { lambda: get("lambda"), k: get("k") },
            "pareto" => Distribution::Pareto { k: get("k"), x_m: get("x_m") },
            "gpareto" => {
                let (shape, scale, location) = (get("shape"), get("scale"), get("location"));
                Distribution::GeneralizedPareto { shape, scale, location }
            }
            "gamma" => Distribution::Gamma { k: get("k"), theta: get("theta") },
            "negbin" => Distribution::NegativeBinomial { p: get("p"), n: get("n") },
            _ => {
                let mend = "write fixed, uniform, normal, lognormal, exponential, weibull, pareto, gpareto, gamma or negbin";
                tag.complain(&mut self.context, format!("unknown distribution `{kind}'"), mend);
                return None;
            }
        };
        if missing {
            return None;
        }
        match law.checked() {
            Ok(law) => Some(law),
            Err(error) => {
                tag.complain(&mut self.context, error.to_string(), "change the parameter");
                None
            }
        }
    }

    /// Every transaction is begun, answered and, for an INVITE, acknowledged.
    fn check_transactions(&mut self) {
        for (name, own) in self.transactions.iter().zip(&self.uses) {
            let (what, mend) = if !own.started {
                ("is never begun", "add start_txn= to the <send> of its request")
            } else if !own.answered {
                ("has no response", "add response_txn= to a <recv>")
            } else if own.by_invite && !own.acknowledged {
                ("is an INVITE's and has no ACK", "add ack_txn= to the <send> of its ACK")
            } else if !own.by_invite && own.acknowledged {
                ("is no INVITE's and has an ACK", "take ack_txn= out")
            } else {
                continue;
            };
            self.context.complain(own.place, "", format!("the transaction `{name}' {what}"), mend);
        }
    }

    /// No `jump` with a fixed target leads out of the steps. The others are told how many there are.
    fn check_jumps(&mut self, list: &mut [Step]) {
        let last = list.len();
        for action in list.iter_mut().flat_map(|step| &mut step.actions) {
            let Deed::Jump { to, steps } = &mut action.deed else { continue };
            *steps = last;
            if let Operand::Number(to) = *to
                && !is_step(to, last)
            {
                let place = Place { line: action.line, column: 0 };
                let mend = format!("write a number from 0 to {last}, or use next= and a label");
                self.context.complain(place, "<jump>", format!("there is no step {to}"), mend);
            }
        }
    }

    /// What comes back to a call finds it by its Call-ID.
    fn check_call_ids(&mut self) {
        for place in core::mem::take(&mut self.nameless) {
            // What is wrong within the line says more: mended, it may be a [call_id].
            if self.context.problems.iter().any(|problem| problem.line == place.line) {
                continue;
            }
            let what = "no answer would find its call by this Call-ID";
            let mend = "write Call-ID: [call_id], or a text and ///[call_id]";
            self.context.complain(place, "<send>", what, mend);
        }
    }

    /// No variable of a call is read that nothing ever writes.
    fn check_variables(&mut self) {
        let problems: Vec<_> = self.context.unwritten().collect();
        for (name, place, element) in problems {
            let what = format!("the variable `{name}' is never given a value");
            self.context.complain(
                place,
                &element,
                what,
                "mend its name, or list it in <Reference variables=\"\"/>",
            );
        }
    }
}

/// What a step does to the transactions it names; used by the message elements.
impl Reader<'_> {
    fn transaction(
        &mut self,
        name: &str,
        tag: &Tag<'_, '_>,
        note: impl FnOnce(&mut TransactionUse),
    ) -> Option<u16> {
        if name.is_empty() || name.contains(['$', ',']) {
            tag.complain(
                &mut self.context,
                format!("`{name}' is no name of a transaction"),
                "use letters and digits",
            );
            return None;
        }
        let at = self.context.intern(&mut self.transactions, name, tag.place, &tag.shown());
        if self.uses.len() < self.transactions.len() {
            let place = tag.place;
            self.uses.push(TransactionUse {
                place,
                started: false,
                by_invite: false,
                answered: false,
                acknowledged: false,
            });
        }
        if let Some(own) = self.uses.get_mut(usize::from(at)) {
            note(own);
        }
        Some(at)
    }
}
