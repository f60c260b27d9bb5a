//! `[[domain]]`: settings of one of this server's domains.

use super::caller::{self, allowed};
use super::claims::{Claims, cap, claim};
use super::class;
use super::error::Fault;
use super::form::*;
use super::header_rules::{self, removed, written};
use super::load::Context;
use super::numbers::{
    self, USUAL_SHORT, area, country, international, national, usual_international, usual_national,
};
use super::reader::{Reader, Section};
use super::schema::{self, Checks, section};
use super::values::domain;
use super::{Caller, Config};
use sip_node::call_rules::{Callers, Numbers, PlanParts};
use std::sync::Arc;

section! {
    /// `[[domain]]`: settings of one of this server's domains.
    pub struct Domain = "domain" {
        /// The domain, one of `domains`. Required, unique.
        name: String = String::new(), text("host name", domain).no_default(), live;
        /// The `[[class]]` of its users that have none of their own. Without this key they have no limits.
        class: String = String::new(), class::class(), live;
        /// As in `[[trunk]]`, for requests to the phones of users of this domain.
        remove_headers: Vec<String> = Vec::new(), removed(), live;
        /// As in `[[trunk]]`. `{trunk}` is the trunk that the request came from.
        set_headers: Vec<String> = Vec::new(), written(), live;
        /// As in `[[trunk]]`.
        add_headers: Vec<String> = Vec::new(), written(), live;
        /// As in `[[trunk]]`, for numbers that users of this domain dial.
        country: String = String::new(), country(), live;
        /// As in `[[trunk]]`.
        national_prefix: Vec<String> = usual_national(), national(), live;
        /// As in `[[trunk]]`.
        international_prefix: String = usual_international(), international(), live;
        /// As in `[[trunk]]`.
        area: String = String::new(), area(), live;
        /// As in `[[trunk]]`.
        short_numbers: usize = USUAL_SHORT, number(0..=15), live;
        /// Numbers that users without `[[caller]]` may present, in the form of that section.
        numbers: Vec<String> = Vec::new(), allowed().no_default(), live;
    }
}

/// Every `[[domain]]`.
pub(super) fn domains(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    context: &Context<'_>,
) -> Vec<Domain> {
    let mut sections = top.sections(reader, "domain", "domain");
    cap(reader, &mut sections, &top.span_of("domain"), "domains");
    let (mut claims, mut domains) = (Claims::new(), Vec::new());
    for mut section in sections {
        let domain: Domain = schema::read(&mut section, reader, context);
        if !domain.name.is_empty() {
            let what = format!("domain \"{}\"", domain.name);
            claim(reader, &mut claims, what, &section.span_of("name"), "write all its keys in one section");
        }
        section.finish(reader);
        domains.push(domain);
    }
    domains
}

impl Config {
    /// What the core needs of `[[domain]]` and `[[caller]]`.
    pub fn domain_settings(&self) -> Vec<sip_node::Domain> {
        let mut domains: Vec<sip_node::Domain> = self.domain_rules.iter().map(Domain::settings).collect();
        for caller in &self.callers {
            add_caller(caller, &mut domains);
        }
        domains
    }
}

fn add_caller(caller: &Caller, domains: &mut Vec<sip_node::Domain>) {
    let name = caller.domain().as_bytes();
    match domains.iter_mut().find(|domain| domain.name == name) {
        Some(domain) => caller.add_to(&mut domain.callers),
        None => {
            let mut domain = sip_node::Domain { name: name.to_vec(), ..sip_node::Domain::default() };
            caller.add_to(&mut domain.callers);
            domains.push(domain);
        }
    }
}

/// Whether a domain is none of this server's, as the file has them.
pub(super) fn is_anothers(name: &str, context: &Context<'_>) -> bool {
    let own = &context.server.domains;
    // `--domain` may leave out some of the file.
    let is_listed = own.is_empty() || own.iter().any(|domain| domain == name);
    !name.is_empty() && context.overrides.domains.is_empty() && !is_listed
}

impl Checks for Domain {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        if !section.has("name") {
            let fault = Fault::new("domain without name", "add name = \"example.com\"");
            reader.error(section.span(), fault);
        } else if is_anothers(&self.name, context) {
            let message = format!("\"{}\" is not a domain of this server", self.name);
            let fault = Fault::new(message, "add it to `domains`, or remove the section");
            reader.error(&section.span_of("name"), fault);
        }
        class::check_named(section, reader, context, &self.class);
        header_rules::check(section, reader);
        numbers::check(section, reader, &self.dialled());
        caller::check(section, reader, "numbers", &self.numbers);
    }

    fn shows(&self, key: &str) -> bool {
        numbers::shows(key, &self.dialled())
    }
}

impl Domain {
    /// How numbers are dialled in it.
    fn dialled(&self) -> PlanParts<'_> {
        PlanParts {
            country: &self.country,
            national: &self.national_prefix,
            international: &self.international_prefix,
            area: &self.area,
            short: self.short_numbers,
            format: None,
        }
    }

    /// What the core needs of it alone.
    fn settings(&self) -> sip_node::Domain {
        let rules = header_rules::settings(&self.remove_headers, &self.set_headers, &self.add_headers);
        sip_node::Domain {
            name: self.name.clone().into_bytes(),
            headers: rules.map(Arc::new),
            numbers: numbers::settings(&self.dialled()),
            callers: Callers::new(Numbers::parse(&self.numbers).ok()),
        }
    }
}
