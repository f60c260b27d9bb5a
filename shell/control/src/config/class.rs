//! `[[class]]`: what a group of callers may call.

use super::Config;
use super::claims::{Claims, cap, claim};
use super::class_hours::{intervals, time_zone, zone};
use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{At, Reader, Section, Span};
use super::schema::{self, Checks, section};
use super::trunk::Trunk;
use super::values::{plain, shown};
use sip_node::Mode;
use sip_node::call_limits::{
    self, Classes, Hours, LONGEST_NAME, Limits, MOST_PREFIXES, Number, Prefixes, is_of_name,
};
use sip_node::number_routes::{BadDigit, Digits};

/// Numbers that are dear or a usual target of fraud: a beginning, and what is there.
const DEAR: [(&str, &str); 14] = [
    ("+870", "satellite"),
    ("+881", "satellite"),
    ("+882", "international networks"),
    ("+883", "international networks"),
    ("+979", "international premium"),
    ("+1900", "premium"),
    ("+1976", "premium"),
    ("+3389", "premium"),
    ("+34803", "premium"),
    ("+39899", "premium"),
    ("+41900", "premium"),
    ("+43900", "premium"),
    ("+449", "premium"),
    ("+49900", "premium"),
];

section! {
    /// `[[class]]`: what a group of callers may call. See [guide/classes.md](../guide/classes.md).
    pub struct Class = "class" {
        /// Its name: letters, digits, `-`, `_` and `.`, at most 31. Required, unique. `class` in `[[domain]]`
        /// and `[[trunk]]` names it, and `strowger user class`.
        name: String = String::new(), text("name", class_name).no_default(), live;
        /// Beginnings of the numbers that may be called: `["+49", "+43"]`. Without this key all may that are
        /// not denied. The longest prefix of both lists decides. A number is compared as it leaves and as it
        /// was dialled, in E.164 where `country` is set in `[[domain]]`.
        allow: Vec<String> = Vec::new(), list(text("prefix", prefix)).once("prefix").no_default(), live;
        /// Beginnings of the numbers that may not be called.
        deny: Vec<String> = Vec::new(), list(text("prefix", prefix)).once("prefix").no_default(), live;
        /// Trunks that calls may leave over. Without this key they may leave over all, and to other hosts.
        trunks: Vec<String> = Vec::new(), list(text("trunk name", plain)).once("trunk").no_default(), live;
        /// When calls may begin: `["mon-fri 07:00-19:00", "sat,sun 09:00-13:00"]`, or `"daily 06:00-22:00"`.
        /// An end before its beginning is on the next day. Without this key always.
        times: Vec<String> = Vec::new(), list(text("days and hours", times)).once("time").no_default(), live;
        /// The time zone of `times`, and of the hours and days of the limits below: `"Europe/Berlin"`. It is
        /// read from the system's zone files. Without this key the zone of the system.
        time_zone: Option<String> = None, text("time zone", time_zone).optional(), live;
        /// Calls of one user or trunk at a time that leave. Without this key any number.
        channels: Option<u32> = None, number(1..=100_000).optional(), live;
        /// Calls of one user or trunk in an hour that leave, answered or not.
        calls_per_hour: Option<u32> = None, number(1..=10_000_000).optional(), live;
        /// Calls of one user or trunk on a day that leave, answered or not. The day begins at midnight of
        /// `time_zone`. A restart begins to count anew.
        calls_per_day: Option<u32> = None, number(1..=10_000_000).optional(), live;
    }
}

/// The name of a class.
pub(super) fn class_name(written: &str) -> Result<String, Fault> {
    let fits = (1..=LONGEST_NAME).contains(&written.len()) && written.bytes().all(is_of_name);
    if !fits {
        let what = format!("\"{}\" is not the name of a class", shown(written));
        return Err(Fault::new(
            what,
            format!("letters, digits, \"-\", \"_\" and \".\", at most {LONGEST_NAME}"),
        ));
    }
    Ok(written.to_owned())
}

/// The form of the key `class` in other sections.
pub(super) fn class() -> One<String> {
    text("name of a class", class_name).no_default()
}

/// The beginning of a called number.
fn prefix(written: &str) -> Result<String, Fault> {
    let not = |what: &str| {
        Fault::new(format!("\"{}\" {what}", shown(written)), "digits, as in \"+49\" or \"0900\"")
    };
    match Digits::parse(written.as_bytes()) {
        Ok(_) if *Number::of(written.as_bytes()) != *written.as_bytes() => {
            Err(Fault::new("no country code begins with a zero", "write the country code behind \"+\""))
        }
        Ok(_) => Ok(written.to_owned()),
        Err(BadDigit::Empty) => Err(Fault::new("empty prefix", "leave the key out to allow all numbers")),
        Err(BadDigit::At(_)) => Err(not("has characters that cannot be dialled")),
        Err(BadDigit::TooLong) => Err(not("is too long")),
    }
}

/// Days and hours.
fn times(written: &str) -> Result<String, Fault> {
    intervals(written).map(|_| written.to_owned())
}

/// A trunk that a class names, with its place.
pub(super) type Named = At<String>;

/// Every `[[class]]`, and the trunks that they name.
pub(super) fn classes(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    context: &Context<'_>,
) -> (Vec<Class>, Vec<Named>) {
    let mut sections = top.sections(reader, "class", "class");
    cap(reader, &mut sections, &top.span_of("class"), "classes");
    let (mut claims, mut classes, mut named) = (Claims::new(), Vec::new(), Vec::new());
    for mut section in sections {
        let class: Class = schema::read(&mut section, reader, context);
        if !class.name.is_empty() {
            let span = section.span_of("name");
            claim(reader, &mut claims, format!("class \"{}\"", class.name), &span, "give it another name");
            let place = reader.place(span.start);
            reader.places.insert(place_of(&class.name), place);
        }
        named.extend(section.places("trunks", &text("", plain)));
        section.finish(reader);
        classes.push(class);
    }
    (classes, named)
}

/// What stands for the place of a class among those of the file.
pub(super) fn place_of(class: &str) -> String {
    format!("class {class}")
}

/// Reports trunks of classes that there are not.
pub(super) fn check_trunks(reader: &mut Reader<'_>, named: &[Named], trunks: &[Trunk]) {
    for At { value, span } in named.iter().filter(|named| trunks.iter().all(|t| t.name != named.value)) {
        let mend = "correct the name, or add the [[trunk]]";
        reader.error(span, Fault::new(format!("there is no trunk \"{}\"", shown(value)), mend));
    }
}

/// Reports a class that a section names and that there is not.
pub(super) fn check_named(
    section: &Section<'_, '_>,
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    class: &str,
) {
    if !class.is_empty() && !context.classes.iter().any(|name| name == class) {
        let fault =
            Fault::new(format!("there is no class \"{class}\""), "correct the name, or add the [[class]]");
        reader.error(&section.span_of("class"), fault);
    }
}

impl Checks for Class {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, _context: &Context<'_>) {
        if !section.has("name") {
            reader.error(section.span(), Fault::new("class without name", "add name = \"...\""));
        }
        if self.allow.len() + self.deny.len() > MOST_PREFIXES {
            let mend = "shorter prefixes stand for many longer ones";
            let fault = Fault::new(format!("a class has more than {MOST_PREFIXES} prefixes"), mend);
            reader.error(section.span(), fault);
            return;
        }
        match self.prefixes() {
            Ok(prefixes) => self.warn_if_open(section, reader, &prefixes),
            Err(call_limits::Twice(prefix)) => {
                let fault =
                    Fault::new(format!("{prefix} is allowed and denied"), "remove it from one of them");
                reader.error(&section.span_of("deny"), fault);
            }
        }
    }
}

impl Class {
    /// Its prefixes.
    fn prefixes(&self) -> Result<Prefixes, call_limits::Twice> {
        let digits = |list: &[String]| -> Vec<Digits> {
            list.iter().filter_map(|prefix| Digits::parse(prefix.as_bytes()).ok()).collect()
        };
        Prefixes::new(&digits(&self.allow), &digits(&self.deny))
    }

    /// Warns of a class that a stolen password makes dear.
    fn warn_if_open(&self, section: &Section<'_, '_>, reader: &mut Reader<'_>, prefixes: &Prefixes) {
        let everywhere = prefixes.allows(Digits::dialled(b"+")) && prefixes.denies_nothing();
        if everywhere && self.channels.is_none() && self.calls_per_day.is_none() {
            let message = format!("class \"{}\" lets its callers call every number without limit", self.name);
            let fault = Fault::new(message, "add channels and calls_per_day, or allow or deny prefixes");
            reader.warn(section.span(), fault);
            return;
        }
        let dear = DEAR.iter().filter(|(prefix, _)| prefixes.allows(Digits::dialled(prefix.as_bytes())));
        let dear: Vec<String> = dear.map(|(prefix, what)| format!("{prefix} ({what})")).collect();
        let Some(first) = dear.first() else { return };
        let more = match dear.len() {
            1 => String::new(),
            more => format!(" and {} more such prefixes", more - 1),
        };
        let message = format!("class \"{}\" allows {first}{more}", self.name);
        let fault = Fault::new(message, "deny them; docs/guide/classes.md has a list");
        let key = if section.has("allow") { "allow" } else { "name" };
        reader.warn(&section.span_of(key), fault);
    }

    /// Whether it counts calls.
    fn counts(&self) -> bool {
        self.channels.is_some() || self.calls_per_hour.is_some() || self.calls_per_day.is_some()
    }

    /// What the core needs of it.
    fn settings(&self) -> call_limits::Class {
        let all: Vec<(u16, u16)> =
            self.times.iter().flat_map(|text| intervals(text).unwrap_or_default()).collect();
        call_limits::Class {
            prefixes: self.prefixes().unwrap_or_default(),
            trunks: (!self.trunks.is_empty()).then(|| super::types::bytes_of(&self.trunks)),
            hours: Hours::new(&all),
            zone: zone(self.time_zone.as_deref()),
            limits: Limits {
                channels: self.channels,
                per_hour: self.calls_per_hour,
                per_day: self.calls_per_day,
            },
            ..call_limits::Class::open(self.name.as_bytes())
        }
    }
}

/// Reports what does not go together with classes, and domains that have none.
pub(super) fn check_across(reader: &mut Reader<'_>, top: &Section<'_, '_>, config: &Config) {
    if config.classes.is_empty() {
        return;
    }
    let span = top.span_of("class");
    let counting = config.classes.iter().find(|class| class.counts());
    let unseen = match (config.proxy.mode, config.proxy.record_route) {
        (Mode::Stateful, true) => None,
        (Mode::Stateful, false) => Some("record_route = false: the end of a call does not come by here"),
        (Mode::Stateless, _) => Some("mode = \"stateless\": it knows no calls"),
        (Mode::Redirect, _) => Some("mode = \"redirect\": calls do not come by here"),
    };
    if let (Some(class), Some(why)) = (counting, unseen) {
        let message = format!("class \"{}\" counts calls, but [proxy] has {why}", class.name);
        reader.error(&span, Fault::new(message, "remove channels and calls_per_…, or that key of [proxy]"));
    }
    if !config.auth.enabled {
        let mend = "remove `enabled = false` from [auth]";
        let fault =
            Fault::new("without authentication a caller chooses a class by the name that it writes", mend);
        reader.warn(&span, fault);
    }
    let has_class =
        |domain: &&String| config.domain_rules.iter().any(|d| d.name == **domain && !d.class.is_empty());
    for domain in config.server.domains.iter().filter(|domain| !has_class(domain)) {
        let message = format!("users of \"{domain}\" without a class of their own have no limits");
        let mend = format!("add class = \"...\" to the [[domain]] \"{domain}\"");
        reader.warn(&top.span_of("domains"), Fault::new(message, mend));
    }
    warn_of_emergency_users(reader, top, config);
}

/// Warns of emergency numbers that are users: a call to such a user goes to the emergency targets.
fn warn_of_emergency_users(reader: &mut Reader<'_>, top: &Section<'_, '_>, config: &Config) {
    let dialled = config.emergency.iter().flat_map(|emergency| &emergency.numbers);
    let span: Span = top.span_of("emergency");
    for number in dialled {
        let named =
            |caller: &&super::Caller| caller.user.split_once('@').is_some_and(|(user, _)| user == number);
        if let Some(caller) = config.callers.iter().find(named) {
            let message = format!("emergency number {number} is also the user {}", caller.user);
            reader.warn(&span, Fault::new(message, "give that user another name"));
        }
    }
}

impl Config {
    /// What the core needs of `[[class]]`, and of `class` in `[[domain]]` and `[[trunk]]`.
    pub fn class_settings(&self) -> Classes {
        let mut classes = Classes::new(self.classes.iter().map(Class::settings).collect());
        for domain in self.domain_rules.iter().filter(|domain| !domain.class.is_empty()) {
            classes.of_users_at(domain.name.as_bytes(), domain.class.as_bytes());
        }
        for trunk in self.trunks.iter().filter(|trunk| !trunk.class.is_empty()) {
            classes.of_calls_from(trunk.name.as_bytes(), trunk.class.as_bytes());
        }
        classes
    }
}
