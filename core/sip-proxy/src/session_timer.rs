//! Session timers as a proxy asks for them (RFC 4028 section 8).
//!
//! A proxy puts an interval into the request. If the UAS supports timers, its 2xx confirms the interval, and
//! one of the user agents refreshes the session. If only the UAC does, the proxy confirms it in the place of
//! the UAS. If neither does, the request has a header field that both ignore.

use sip_message::{Malformed, Message, Method, Name, Splices, parse_u32, push_u64};

/// The shortest session interval that anybody may ask for, seconds (RFC 4028 sections 4 and 5).
pub const SHORTEST: u16 = 90;

/// The option tag.
const TIMER: &[u8] = b"timer";

/// What the operator wants of sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The session interval that is asked for, seconds. A request may ask for a shorter one.
    pub interval: u16,
    /// The shortest session interval that is accepted, seconds: [`SHORTEST`] or more.
    pub shortest: u16,
}

/// What is to be done with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It is forwarded, and asks for this.
    Ask(Asked),
    /// Its interval is too short, and its sender knows how to ask again: 422 with Min-SE.
    TooShort,
}

/// What a forwarded request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Asked {
    /// The session interval, seconds; 0: nothing is asked for.
    interval: u16,
    /// The Min-SE to write, seconds; 0: it stays as it is.
    floor: u16,
    /// Whether the UAC supports session timers.
    supported: bool,
}

impl Policy {
    /// What is to be done with an INVITE or UPDATE (RFC 4028 section 8.1).
    pub fn judge(&self, request: &Message<'_>) -> Decision {
        let supported = request.lists(Name::Supported, TIMER);
        let read = |name| number(request, name).map(|found| found.map(|(_, seconds)| seconds));
        // What cannot be read is passed on unchanged.
        let (Ok(interval), Ok(floor)) = (read(Name::SessionExpires), read(Name::MinSe)) else {
            return Decision::Ask(Asked::default());
        };
        let floor = floor.unwrap_or(0);
        let (shortest, most) = (u32::from(self.shortest), floor.max(self.interval.into()));
        let short = interval.is_some_and(|interval| interval < shortest);
        if short && supported {
            return Decision::TooShort;
        }
        let raised = if short { floor.max(shortest) } else { 0 };
        let interval = match interval {
            None => most,
            Some(_) if short => raised,
            Some(interval) => interval.clamp(floor, most),
        };
        let asked = u16::try_from(interval).ok().zip(u16::try_from(raised).ok());
        // Nobody is asked to keep a session for longer than the numbers here go.
        Decision::Ask(asked.map_or(Asked::default(), |(interval, floor)| Asked {
            interval,
            floor,
            supported,
        }))
    }
}

impl Asked {
    /// The interval that a 2xx without one gets, seconds. 0: none, because the UAC would not know what to do
    /// with it (RFC 4028 section 8.2).
    pub const fn to_confirm(&self) -> u16 {
        if self.supported { self.interval } else { 0 }
    }

    /// Adds the edits of a forwarded request to those that there are.
    #[inline]
    pub fn edit(&self, request: &Message<'_>, splices: &mut Splices) {
        if self.interval == 0 {
            return;
        }
        write_number(request, (Name::SessionExpires, b"Session-Expires: "), self.interval, splices);
        if self.floor > 0 {
            write_number(request, (Name::MinSe, b"Min-SE: "), self.floor, splices);
        }
    }
}

/// Whether a message is a 2xx to a request that may refresh a session.
#[inline]
pub fn refreshes(response: &Message<'_>) -> bool {
    matches!(response.status(), 200..=299) && matches!(response.method(), Method::Invite | Method::Update)
}

/// The session interval that a 2xx which refreshes sets, seconds. `None`: the session has no timer.
pub fn agreed(response: &Message<'_>) -> Option<u32> {
    let (_, seconds) = number(response, Name::SessionExpires).ok()??;
    Some(seconds)
}

/// What is to be added to a response to a request that asked for `to_confirm` seconds: 0 if it is none that
/// refreshes a session, or has an interval (RFC 4028 section 8.2).
#[inline]
pub fn missing(response: &Message<'_>, to_confirm: u16) -> u16 {
    match to_confirm > 0 && refreshes(response) && response.header(Name::SessionExpires).is_none() {
        true => to_confirm,
        false => 0,
    }
}

/// Adds the edits of a 2xx that confirms an interval in the place of the UAS: the UAC refreshes (RFC 4028
/// section 8.2).
pub fn confirm(response: &Message<'_>, seconds: u16, splices: &mut Splices) {
    let required = response.header(Name::Require).filter(|header| !header.value.is_empty());
    if let Some(header) = required.as_ref().filter(|_| !response.lists(Name::Require, TIMER)) {
        splices.insert(response.range_of(header.value).end, b", timer");
    }
    let at = response.head_len().saturating_sub(2);
    splices.replace_with(at..at, |text| {
        text.extend_from_slice(b"Session-Expires: ");
        push_u64(seconds.into(), text);
        text.extend_from_slice(b";refresher=uac\r\n");
        if required.is_none() {
            text.extend_from_slice(b"Require: timer\r\n");
        }
    });
}

/// The number of seconds that a header field begins with, and its text.
fn number<'a>(message: &Message<'a>, name: Name) -> Result<Option<(&'a [u8], u32)>, Malformed> {
    let mut lines = message.headers(name);
    let Some(line) = lines.next() else { return Ok(None) };
    let text = line.value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    match lines.next() {
        // More than 136 years are as good as that.
        None if is_number => Ok(Some((text, parse_u32(text).unwrap_or(u32::MAX)))),
        _ => Err(Malformed),
    }
}

/// Writes the number of a header field, and leaves its parameters as they are.
fn write_number(request: &Message<'_>, (name, line): (Name, &[u8]), seconds: u16, splices: &mut Splices) {
    match number(request, name) {
        Ok(Some((_, there))) if there == u32::from(seconds) => {}
        Ok(Some((text, _))) => {
            splices.replace_with(request.range_of(text), |out| push_u64(seconds.into(), out));
        }
        _ => {
            let at = request.head_len().saturating_sub(2);
            splices.replace_with(at..at, |text| {
                text.extend_from_slice(line);
                push_u64(seconds.into(), text);
                text.extend_from_slice(b"\r\n");
            });
        }
    }
}

#[cfg(test)]
mod tests;
