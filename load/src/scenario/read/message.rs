//! `<send>` and `<recv>`.

use super::super::context::Place;
use super::super::regexp::Pattern;
use super::super::steps::{Code, Expect, Kind, Optional, Recv, Send};
use super::super::template::Cutter;
use super::tag::Tag;
use super::{Labels, Reader};
use crate::metrics::Method;

impl Reader<'_> {
    pub(super) fn send(&mut self, tag: &Tag<'_, '_>, labels: &Labels) -> Option<Send> {
        let retrans_ms = self.milliseconds(tag, "retrans").filter(|&t1| t1 > 0);
        if self.milliseconds(tag, "timeout").is_some_and(|timeout| timeout > 0) {
            let mend = "take it out; for a limit on the answer put timeout= on the <recv>";
            tag.complain(&mut self.context, "`timeout' of <send>: no message waits to be sent here", mend);
        }
        let on_timeout = self.target(tag, "ontimeout", labels);
        let lost = self.lost(tag);
        let start = tag.get("start_txn");
        let ack = tag.get("ack_txn");
        if tag.get("response_txn").is_some() {
            tag.complain(&mut self.context, "`response_txn' belongs to <recv>", "move it");
        }
        let (place, text) = self.text(tag)?;
        let Some((template, kind)) = Cutter::message(&mut self.context, &text, place) else {
            tag.complain(&mut self.context, "the message is empty", "write it into <![CDATA[ ]]>");
            return None;
        };
        if matches!(kind, Kind::Request(_)) {
            self.call_id(&text, place);
        }
        if matches!(kind, Kind::Response(_)) && (start.is_some() || ack.is_some()) {
            tag.complain(
                &mut self.context,
                "a response begins and acknowledges no transaction",
                "take it out",
            );
        } else if start.is_some() && kind.is_request("ACK") {
            tag.complain(&mut self.context, "an ACK begins no transaction", "write ack_txn=");
        } else if ack.is_some() && !kind.is_request("ACK") {
            tag.complain(&mut self.context, "`ack_txn' is for an ACK only", "write start_txn=");
        }
        let invite = kind.is_request("INVITE");
        let start_txn = start.and_then(|name| {
            self.transaction(name, tag, |own| (own.started, own.by_invite) = (true, own.by_invite || invite))
        });
        let ack_txn = ack.and_then(|name| self.transaction(name, tag, |own| own.acknowledged = true));
        if let Kind::Request(method) = &kind
            && start_txn.is_none()
            && ack_txn.is_none()
            && !self.methods.contains(method)
        {
            self.methods.push(method.clone());
        }
        let method = match &kind {
            Kind::Request(name) => Some(Method::named(name)),
            Kind::Response(_) => None,
        };
        Some(Send { template, kind, method, retrans_ms, lost, start_txn, ack_txn, on_timeout })
    }

    /// How a request names its call: with `[call_id]`, or behind `///` as in SIPp. What a variable or the
    /// last message has there is not known.
    fn call_id(&mut self, text: &str, place: Place) {
        let head = text.trim_start().split('\n').take_while(|line| !line.trim().is_empty());
        let before = text.len() - text.trim_start().len();
        let first = text.get(..before).map_or(0, |blank| blank.matches('\n').count());
        let found = head.enumerate().find_map(|(at, line)| Some((at, call_id_in(line)?)));
        let Some((at, (lead, value))) = found else { return };
        if value.starts_with("[call_id]") {
            return;
        }
        let behind = value.split_once("///").is_some_and(|(_, name)| name.starts_with("[call_id]"));
        if behind || value.contains("[$") || value.contains("[last_") {
            self.prefixes_call_ids = true;
        } else {
            self.nameless.push(Place { line: place.line + (first + at) as u32, column: lead as u32 + 1 });
        }
    }

    /// The message in a `<send>`, with its place: what stands in the CDATA section. Blanks around that are
    /// layout.
    fn text(&mut self, tag: &Tag<'_, '_>) -> Option<(Place, String)> {
        let mut texts = tag.texts();
        let Some((node, text)) = texts.next() else {
            tag.complain(&mut self.context, "there is no message in it", "write one into <![CDATA[ ]]>");
            return None;
        };
        let place = tag.place_of(node);
        let Some((from, section)) = tag.section() else {
            let mend = "write it into <![CDATA[ ]]>";
            tag.complain(&mut self.context, "the message is not in a CDATA section", mend);
            return Some((place, text.to_owned()));
        };
        let more = texts.next().map(|(node, _)| tag.place_of(node));
        if let Some(place) = more.or((text.trim() != section.trim()).then_some(place)) {
            let what = "there is more text than the message";
            self.context.complain(place, "<send>", what, "keep the message in one <![CDATA[ ]]>");
        }
        // The parser joins a section with the blanks before it.
        let document = tag.node.document();
        let before = document.input_text().get(node.range().start..from).unwrap_or_default();
        Some((place.after(before), section))
    }

    /// `lost`, a percentage.
    fn lost(&mut self, tag: &Tag<'_, '_>) -> Option<f64> {
        let text = tag.get("lost")?;
        match text.trim().parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Some(percent / 100.0),
            _ => {
                tag.complain(
                    &mut self.context,
                    format!("lost=\"{text}\" is no percentage"),
                    "write a number from 0 to 100",
                );
                None
            }
        }
    }

    pub(super) fn recv(&mut self, tag: &Tag<'_, '_>, labels: &Labels) -> Option<Recv> {
        let optional = match tag.get("optional") {
            None | Some("false") => Optional::No,
            Some("true") => Optional::Yes,
            Some("global") => Optional::Global,
            Some(other) => {
                let what = format!("optional=\"{other}\" is not understood");
                tag.complain(&mut self.context, what, "write true, false or global");
                Optional::No
            }
        };
        let advance = tag.flag("advance_state", true, &mut self.context);
        if !advance && optional == Optional::No {
            tag.complain(&mut self.context, "`advance_state' is for optional messages only", "take it out");
        }
        // Media are not sent, so that no description of them has any effect.
        tag.flag("ignoresdp", false, &mut self.context);
        for name in ["start_txn", "ack_txn"] {
            if tag.get(name).is_some() {
                tag.complain(&mut self.context, format!("`{name}' belongs to <send>"), "write response_txn=");
            }
        }
        let timeout_ms = self.milliseconds(tag, "timeout").filter(|&timeout| timeout > 0);
        let on_timeout = self.target(tag, "ontimeout", labels);
        let lost = self.lost(tag);
        let rrs = tag.flag("rrs", false, &mut self.context);
        let auth = tag.flag("auth", false, &mut self.context);
        let expect = self.expect(tag)?;
        let methods = expect.methods();
        Some(Recv {
            expect,
            methods,
            optional,
            advance,
            timeout_ms,
            on_timeout,
            rrs,
            auth,
            lost,
            keep: false,
        })
    }

    fn expect(&mut self, tag: &Tag<'_, '_>) -> Option<Expect> {
        let as_expression = tag.flag("regexp_match", false, &mut self.context);
        let transaction = tag.get("response_txn");
        let element = tag.shown();
        match (tag.get("response"), tag.get("request")) {
            (Some(code), None) => {
                let code = self.code(tag, code, as_expression)?;
                let transaction =
                    transaction.and_then(|name| self.transaction(name, tag, |own| own.answered = true));
                let methods = if transaction.is_some() { Vec::new() } else { self.methods.clone() };
                Some(Expect::Response { code, transaction, methods })
            }
            (None, Some(method)) => {
                if transaction.is_some() {
                    tag.complain(&mut self.context, "`response_txn' is for responses only", "take it out");
                }
                if as_expression {
                    match Pattern::parse(method) {
                        Ok(pattern) => return Some(Expect::Matching(pattern)),
                        Err((what, mend)) => self.context.complain(tag.place, &element, what, mend),
                    }
                    return None;
                }
                if method.is_empty()
                    || !method.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&b))
                {
                    let what = format!("request=\"{method}\" is no method");
                    tag.complain(&mut self.context, what, "write a method, or add regexp_match=\"true\"");
                }
                Some(Expect::Request(method.into()))
            }
            (Some(_), Some(_)) => {
                tag.complain(&mut self.context, "it waits for a response and a request", "keep one of both");
                None
            }
            // It is said to be unknown.
            (None, None) if tag.has_misspelt(&["response", "request"]) => None,
            (None, None) => {
                let mend = "add response=\"CODE\" or request=\"METHOD\"";
                tag.complain(&mut self.context, "it does not say what for", mend);
                None
            }
        }
    }
}

impl Reader<'_> {
    /// The codes that `response` stands for: one, or those that an expression matches. What is no number is
    /// one, with `regexp_match` or without.
    fn code(&mut self, tag: &Tag<'_, '_>, text: &str, as_expression: bool) -> Option<Code> {
        let number = text.trim().bytes().all(|byte| byte.is_ascii_digit());
        if number && !as_expression {
            let code = text.trim().parse().ok().filter(|code| CODES.contains(code));
            if code.is_none() {
                let what = format!("response=\"{text}\" is no response code");
                let mend = "write a code from 100 to 699, or for several an expression such as ^18.$";
                tag.complain(&mut self.context, what, mend);
            }
            return code.map(Code::One);
        }
        let pattern = match Pattern::parse(text) {
            Ok(pattern) => pattern,
            Err((what, mend)) => {
                self.context.complain(tag.place, &tag.shown(), what, mend);
                return None;
            }
        };
        let codes: Box<[u16]> = CODES.filter(|code| pattern.matches(code.to_string().as_bytes())).collect();
        if codes.is_empty() {
            let what = format!("response=\"{text}\" matches no response code");
            let mend = "write a code from 100 to 699, or for several an expression such as ^18.$";
            tag.complain(&mut self.context, what, mend);
            return None;
        }
        Some(Code::OneOf(codes))
    }
}

/// Codes of responses.
const CODES: core::ops::Range<u16> = 100..700;

/// The value of a Call-ID line, and how much white space stands before the line.
fn call_id_in(line: &str) -> Option<(usize, &str)> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim();
    let own = name.eq_ignore_ascii_case("call-id") || name.eq_ignore_ascii_case("i");
    let lead = line.chars().take_while(|c| c.is_whitespace()).count();
    own.then(|| (lead, value.trim()))
}
