//! `[[caller]]`: the numbers that a user may present.

use super::claims::{Claims, cap, claim};
use super::domain::is_anothers;
use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{self, Checks, section};
use super::types::user_bytes;
use super::values::{domain, shown, user_part};
use sip_node::call_rules::{Callers, Numbers, check_number};

section! {
    /// `[[caller]]`: the numbers that a user may present.
    pub struct Caller = "caller" {
        /// The user: `"alice@example.com"`. Required, unique.
        user: String = String::new(), text("user and domain", account).no_default(), live;
        /// Numbers in E.164 that the user may present. The first is presented if the user asks for no number,
        /// or for one that is not in the list. `"+4930123*"` allows all numbers with this prefix. Required.
        numbers: Vec<String> = Vec::new(), allowed().no_default(), live;
    }
}

/// Numbers that may be presented.
pub(super) fn allowed() -> Many<String> {
    list(text("number", number)).once("number")
}

fn number(written: &str) -> Result<String, Fault> {
    check_number(written).map(|()| written.to_owned()).map_err(|wrong| Fault::new(wrong.what, wrong.mend))
}

fn account(written: &str) -> Result<String, Fault> {
    let Some((user, host)) = written.rsplit_once('@') else {
        let what = format!("\"{}\" is not a user with a domain", shown(written));
        return Err(Fault::new(what, "write it as \"alice@example.com\""));
    };
    Ok(format!("{}@{}", user_part(user)?, domain(host)?))
}

/// Every `[[caller]]`.
pub(super) fn callers(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    context: &Context<'_>,
) -> Vec<Caller> {
    let mut sections = top.sections(reader, "caller", "caller");
    cap(reader, &mut sections, &top.span_of("caller"), "callers");
    let (mut claims, mut callers) = (Claims::new(), Vec::new());
    for mut section in sections {
        let caller: Caller = schema::read(&mut section, reader, context);
        if !caller.user.is_empty() {
            let mend = "write all its numbers in one section";
            claim(reader, &mut claims, format!("user \"{}\"", caller.user), &section.span_of("user"), mend);
        }
        section.finish(reader);
        callers.push(caller);
    }
    callers
}

/// Reports a list of numbers without a main number.
pub(super) fn check(section: &Section<'_, '_>, reader: &mut Reader<'_>, key: &str, numbers: &[String]) {
    if let (true, true, Err(wrong)) = (section.is_sound(), section.has(key), Numbers::parse(numbers)) {
        reader.error(&section.span_of(key), Fault::new(wrong.what, wrong.mend));
    }
}

impl Checks for Caller {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        for (key, mend) in
            [("user", "add user = \"alice@example.com\""), ("numbers", "add numbers = [\"+493012345\"]")]
        {
            if !section.has(key) {
                reader.error(section.span(), Fault::new(format!("caller without {key}"), mend));
            }
        }
        let host = self.domain();
        if is_anothers(host, context) {
            let message = format!("\"{host}\" is not a domain of this server");
            reader.error(
                &section.span_of("user"),
                Fault::new(message, "add it to `domains`, or remove the section"),
            );
        }
        check(section, reader, "numbers", &self.numbers);
    }
}

impl Caller {
    /// Its domain.
    pub(super) fn domain(&self) -> &str {
        self.user.rsplit_once('@').map_or("", |(_, host)| host)
    }

    /// Gives the user the numbers.
    pub(super) fn add_to(&self, callers: &mut Callers) {
        let user = self.user.rsplit_once('@').map_or("", |(user, _)| user);
        if let Ok(numbers) = Numbers::parse(&self.numbers) {
            callers.add(&user_bytes(user), numbers);
        }
    }
}
