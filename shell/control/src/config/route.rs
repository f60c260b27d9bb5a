//! `[[route]]`: a static route.

use super::claims::{Claims, cap, claim};
use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{self, Checks, section};
use super::types::{SILENT_AFTER, Target, check_targets, millis, silence, targets, uris, user_bytes};
use super::values::{domain, user_part};
use std::time::Duration;

section! {
    /// `[[route]]`: a static route. What it matches on is and-ed; an empty match is refused.
    pub struct Route = "route" {
        /// Host of the Request-URI.
        domain: Option<String> = None, text("host name", domain).optional(), live;
        /// Beginning of its user part. Escapes are compared as the characters they stand for.
        prefix: Option<String> = None, text("part of a user", user_part).optional(), live;
        /// The whole user part, compared likewise.
        user: Option<String> = None, text("part of a user", user_part).optional(), live;
        /// Forward to these SIP URIs, in failover order. One without a user part gets the called user: it
        /// leads out if `user` is not given and its host is not one of our domains or this server. One that
        /// names a user of ours rings the user's phones.
        targets: Vec<Target> = Vec::new(), targets(), live;
        /// Or answer 302 with these contacts.
        redirect: Vec<Target> = Vec::new(), targets(), live;
        /// As in `[[trunk]]`; only with `targets`.
        silent_after: Duration = SILENT_AFTER, silence(), live;
    }
}

/// Every `[[route]]`.
pub(super) fn routes(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    context: &Context<'_>,
) -> Vec<Route> {
    let mut sections = top.sections(reader, "route", "route");
    cap(reader, &mut sections, &top.span_of("route"), "routes");
    let (mut claims, mut routes) = (Claims::new(), Vec::new());
    for mut section in sections {
        let route: Route = schema::read(&mut section, reader, context);
        if section.is_sound() && route.targets.is_empty() != route.redirect.is_empty() {
            let mend = "the first always wins; remove one";
            claim(reader, &mut claims, route.matched(), section.span(), mend);
        }
        section.finish(reader);
        routes.push(route);
    }
    routes
}

impl Checks for Route {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, _: &Context<'_>) {
        let faults = reader.errors.len();
        check_targets(section, reader, "targets");
        check_targets(section, reader, "redirect");
        if !section.is_sound() || reader.errors.len() > faults {
            return;
        }
        if self.prefix.is_some() && self.user.is_some() {
            let fault = Fault::new("a route matches a prefix or a whole user, not both", "remove one");
            reader.error(&section.span_of("prefix"), fault);
        }
        if self.targets.is_empty() && section.has("silent_after") {
            let fault = Fault::new("a route without `targets` waits for nobody", "remove silent_after");
            reader.error(&section.span_of("silent_after"), fault);
        }
        if self.domain.is_none() && self.prefix.is_none() && self.user.is_none() {
            let mend = "add domain, prefix or user";
            reader.error(section.span(), Fault::new("a route that matches everything", mend));
        }
        match (self.targets.is_empty(), self.redirect.is_empty()) {
            (false, false) => {
                let fault =
                    Fault::new("a route forwards or redirects, not both", "remove targets or redirect");
                reader.error(&section.span_of("redirect"), fault);
            }
            (true, true) => {
                let fault = Fault::new("route without target", "add targets = [...] or redirect = [...]");
                reader.error(section.span(), fault);
            }
            _ => {}
        }
    }

    fn shows(&self, key: &str) -> bool {
        // Only a route that forwards waits for a target.
        key != "silent_after" || !self.targets.is_empty()
    }
}

impl Route {
    /// What it matches on, in words.
    fn matched(&self) -> String {
        let part = |name: &str, value: &Option<String>| {
            value.as_ref().map_or(String::new(), |value| format!(" {name} \"{value}\""))
        };
        let parts = [part("domain", &self.domain), part("prefix", &self.prefix), part("user", &self.user)];
        format!("route for{}", parts.concat())
    }

    /// What the core needs of it.
    pub fn settings(&self) -> sip_node::Route {
        sip_node::Route {
            domain: self.domain.clone().map(String::into_bytes),
            prefix: self.prefix.as_deref().map(user_bytes),
            user: self.user.as_deref().map(user_bytes),
            silent_after_ms: millis(self.silent_after),
            action: match self.redirect.is_empty() {
                true => sip_node::RouteAction::Forward(uris(&self.targets)),
                false => sip_node::RouteAction::Redirect(uris(&self.redirect)),
            },
        }
    }
}
