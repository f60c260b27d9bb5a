//! The keys of a trunk or domain that change header fields of requests.

use super::claims::{Claims, claim};
use super::error::Fault;
use super::form::*;
use super::reader::{At, Reader, Section};
use sip_node::call_rules::{HeaderRules, MOST_RULES, Wrong, check_field, check_pattern};

/// Names of header fields to remove.
pub(super) fn removed() -> Many<String> {
    list(text("header name, or its beginning and `*`", pattern)).once("name")
}

/// Header fields to write.
pub(super) fn written() -> Many<String> {
    list(text("`Name: value`", field)).once("header field")
}

fn pattern(written: &str) -> Result<String, Fault> {
    check_pattern(written).map(|()| written.to_owned()).map_err(fault)
}

fn field(written: &str) -> Result<String, Fault> {
    check_field(written).map(|()| written.to_owned()).map_err(fault)
}

fn fault(wrong: Wrong) -> Fault {
    Fault::new(wrong.what, wrong.mend)
}

/// Reports too many rules, and a header field that is set twice.
pub(super) fn check(section: &Section<'_, '_>, reader: &mut Reader<'_>) {
    for key in ["remove_headers", "set_headers", "add_headers"] {
        if section.places(key, &text("", any)).len() > MOST_RULES {
            let fault = Fault::new(format!("more than {MOST_RULES} rules in `{key}`"), "remove some of them");
            reader.error(&section.span_of(key), fault);
        }
    }
    let mut claims = Claims::new();
    for At { value, span } in section.places("set_headers", &text("", field)) {
        let name = value.split(':').next().unwrap_or("").trim().to_ascii_lowercase();
        let mend = "set it once; further ones are for `add_headers`";
        claim(reader, &mut claims, format!("header field \"{name}\""), &span, mend);
    }
}

fn any(written: &str) -> Result<String, Fault> {
    Ok(written.to_owned())
}

/// What the core needs of them; `None`: nothing is changed.
pub(super) fn settings(remove: &[String], set: &[String], add: &[String]) -> Option<HeaderRules> {
    let rules = HeaderRules::parse(remove, set, add);
    debug_assert!(rules.is_ok(), "each rule was read when the file was");
    rules.ok().filter(|rules| !rules.is_empty())
}
