//! Writing the header lines of an answer.

use crate::types::{BindingView, Config, Reply};
use sip_message::push_u64;
use wire::Time;

/// A refusal without headers of its own.
pub(crate) const fn refuse(status: u16, reason: &'static [u8]) -> Reply {
    Reply { status, reason, headers: Vec::new() }
}

/// 423 with the interval that would do (RFC 3261 sections 20.23 and 21.4.17).
pub(crate) fn too_brief(least: u32) -> Reply {
    let mut headers = b"Min-Expires: ".to_vec();
    push_u64(u64::from(least), &mut headers);
    headers.extend_from_slice(b"\r\n");
    Reply { status: 423, reason: b"Interval Too Brief", headers }
}

/// 420 for a Path that the client does not know was added (RFC 3327 section 5.3).
pub(crate) fn path_unsupported() -> Reply {
    Reply { status: 420, reason: b"Bad Extension", headers: b"Unsupported: path\r\n".to_vec() }
}

/// The 200 under construction.
pub(crate) struct Success {
    headers: Vec<u8>,
    now: Time,
}

impl Success {
    pub(crate) fn new(now: Time) -> Success {
        Success { headers: Vec::with_capacity(256), now }
    }

    /// One Contact line. The interval is rounded down, so that the client is back before the binding
    /// ends, but 0 would say that it has ended.
    pub(crate) fn contact(&mut self, b: &BindingView<'_>) {
        let out = &mut self.headers;
        out.extend_from_slice(b"Contact: <");
        out.extend_from_slice(b.contact);
        out.extend_from_slice(b">;expires=");
        push_u64(b.expires.since(self.now).as_secs().max(1), out);
        if b.q < 1000 {
            push_q(b.q, out);
        }
        if !b.instance.is_empty() {
            out.extend_from_slice(b";+sip.instance=\"");
            out.extend_from_slice(b.instance);
            out.push(b'"');
        }
        if b.reg_id != 0 {
            out.extend_from_slice(b";reg-id=");
            push_u64(u64::from(b.reg_id), out);
        }
        out.extend_from_slice(b.params);
        out.extend_from_slice(b"\r\n");
    }

    /// The Path as received (RFC 3327 section 5.3).
    pub(crate) fn path(&mut self, path: &[u8]) {
        self.line(b"Path: ", path);
    }

    /// What the configuration adds; `outbound`: RFC 5626 was applied and the client knows of it. `connected`:
    /// by a connection of its own.
    pub(crate) fn finish(mut self, config: &Config, outbound: bool, connected: bool) -> Reply {
        self.line(b"Service-Route: ", &config.service_route);
        if outbound {
            self.line(b"Require: ", b"outbound");
            if config.flow_timer > 0 && connected {
                self.headers.extend_from_slice(b"Flow-Timer: ");
                push_u64(u64::from(config.flow_timer), &mut self.headers);
                self.headers.extend_from_slice(b"\r\n");
            }
        }
        Reply { status: 200, reason: b"OK", headers: self.headers }
    }

    /// A header line, unless the value is empty.
    fn line(&mut self, name: &[u8], value: &[u8]) {
        if !value.is_empty() {
            self.headers.extend_from_slice(name);
            self.headers.extend_from_slice(value);
            self.headers.extend_from_slice(b"\r\n");
        }
    }
}

/// `;q=0.ddd` without trailing zeros; `q` is below 1000.
fn push_q(q: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b";q=0");
    let digits = [q / 100 % 10, q / 10 % 10, q % 10];
    let used = digits.iter().rposition(|d| *d != 0).map_or(0, |last| last + 1);
    if used > 0 {
        out.push(b'.');
    }
    out.extend(digits[..used].iter().map(|d| b'0' + *d as u8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_is_written_short() {
        for (q, want) in [(0, ";q=0"), (500, ";q=0.5"), (50, ";q=0.05"), (999, ";q=0.999"), (120, ";q=0.12")]
        {
            let mut out = Vec::new();
            push_q(q, &mut out);
            assert_eq!(out, want.as_bytes());
        }
    }
}
