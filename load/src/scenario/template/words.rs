//! Keywords that stand for one value.

use super::super::facts::{Facts, Run};
use super::super::message;
use super::dates;

/// Keywords that show a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    RemotePort,
    LocalPort,
    MediaPort,
    AutoMediaPort,
    CSeq,
    LastCSeq,
    MessageIndex,
    Pid,
    Users,
    UserId,
    ClockTick,
    DynamicId,
}

/// Keywords that show a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    Service,
    RemoteHost,
    RemoteIp,
    Transport,
    /// The same behind `transport=`.
    UriTransport,
    LocalIp,
    LocalIpType,
    MediaIp,
    MediaIpType,
    CallId,
    NextUrl,
    PeerTag,
    Version,
    Date,
    Timestamp,
    LastMessage,
    LastUri,
}

impl Number {
    /// What it is for a call.
    pub fn of(self, facts: &mut Facts<'_>) -> i64 {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match self {
            Number::RemotePort => i64::from(facts.run.remote_port),
            Number::LocalPort => i64::from(facts.local_port),
            Number::MediaPort => i64::from(facts.run.media_port),
            // As SIPp: four ports for each call, over 10,000.
            Number::AutoMediaPort => {
                i64::from(facts.run.media_port)
                    + whole(facts.call_number.saturating_sub(1).wrapping_mul(4) % 10_000)
            }
            Number::CSeq => i64::from(facts.cseq),
            Number::LastCSeq => message::request_cseq(facts.last).map_or(0, i64::from),
            Number::MessageIndex => facts.step as i64,
            Number::Pid => i64::from(facts.run.pid),
            Number::Users => facts.run.users,
            Number::UserId => whole(facts.user),
            Number::ClockTick => whole(facts.tick_ms),
            Number::DynamicId => {
                let id = facts.desk.dynamic_id;
                facts.desk.dynamic_id = id.wrapping_add(1);
                whole(id)
            }
        }
    }

    /// Its value where it is the same in all calls.
    pub fn constant(self, run: &Run) -> Option<i64> {
        Some(match self {
            Number::RemotePort => i64::from(run.remote_port),
            Number::MediaPort => i64::from(run.media_port),
            Number::Pid => i64::from(run.pid),
            Number::LocalPort => i64::from(run.local_port?),
            Number::Users => run.users,
            _ => return None,
        })
    }
}

impl Text {
    /// Writes it for a call.
    #[inline]
    pub fn write(self, facts: &Facts<'_>, out: &mut Vec<u8>) {
        match self {
            Text::LocalIp => out.extend_from_slice(facts.local_ip),
            Text::CallId => out.extend_from_slice(facts.call_id),
            Text::NextUrl => out.extend_from_slice(facts.next_url),
            Text::PeerTag if facts.peer_tag.is_empty() => {}
            Text::PeerTag => {
                out.extend_from_slice(b";tag=");
                out.extend_from_slice(facts.peer_tag);
            }
            Text::LocalIpType => out.push(ip_type(facts.local_ip)),
            Text::Date => dates::write_date(facts.wall_micros, out),
            Text::Timestamp => dates::write_timestamp(facts.wall_micros, out),
            Text::LastMessage => out.extend_from_slice(facts.last),
            Text::LastUri => out.extend_from_slice(message::to_uri(facts.last)),
            constant => {
                constant.constant(facts.run, out);
            }
        }
    }

    /// Writes it where it is the same in all calls; false otherwise.
    pub fn constant(self, run: &Run, out: &mut Vec<u8>) -> bool {
        match self {
            Text::Service => out.extend_from_slice(run.service.as_bytes()),
            Text::RemoteHost => out.extend_from_slice(run.remote_host.as_bytes()),
            Text::RemoteIp => out.extend_from_slice(run.remote_ip.as_bytes()),
            Text::Transport => out.extend_from_slice(run.transport.as_bytes()),
            // Over TLS as well (RFC 7118 section 5).
            Text::UriTransport if run.transport.starts_with("WS") => out.extend_from_slice(b"ws"),
            Text::UriTransport => out.extend_from_slice(run.transport.as_bytes()),
            Text::MediaIp => out.extend_from_slice(run.media_ip.as_bytes()),
            Text::MediaIpType => out.push(ip_type(run.media_ip.as_bytes())),
            Text::Version => out.extend_from_slice(run.version.as_bytes()),
            Text::LocalIp | Text::LocalIpType => match &run.local_ip {
                Some(ip) if self == Text::LocalIp => out.extend_from_slice(ip.as_bytes()),
                Some(ip) => out.push(ip_type(ip.as_bytes())),
                None => return false,
            },
            _ => return false,
        }
        true
    }
}

/// 4 or 6.
fn ip_type(address: &[u8]) -> u8 {
    if memchr::memchr(b':', address).is_some() { b'6' } else { b'4' }
}

/// `-step`, the end of `z9hG4bK-pid-call-step`, as SIPp has it; in a loop, with the number of the round.
pub(super) fn write_branch_end(facts: &Facts<'_>, add: i64, out: &mut Vec<u8>) {
    out.push(b'-');
    push_signed(facts.step as i64 + add, out);
    if facts.round > 0 {
        out.push(b'-');
        push_signed(i64::from(facts.round), out);
    }
}

/// A number with its sign.
pub(super) fn push_signed(number: i64, out: &mut Vec<u8>) {
    // Steps and the like.
    if let 0..=9 = number {
        out.push(b'0' + number as u8);
        return;
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(Digits::new().of(number.unsigned_abs()));
}

/// The decimal digits of a number. The number of the call stands in most messages more than once, and
/// is made into digits once.
#[derive(Debug)]
pub(in super::super) struct Digits {
    room: [u8; 20],
    start: usize,
}

/// `00` to `99`.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

impl Digits {
    pub fn new() -> Digits {
        Digits { room: [0; 20], start: 20 }
    }

    /// Those of `number`.
    pub fn of(&mut self, mut number: u64) -> &[u8] {
        let mut at = self.room.len();
        while number >= 10 {
            at -= 2;
            self.room[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
            number /= 100;
        }
        if number > 0 || at == self.room.len() {
            at -= 1;
            self.room[at] = b'0' + number as u8;
        }
        self.start = at;
        &self.room[at..]
    }

    /// Those of `number`, which must be the same each time.
    pub fn once(&mut self, number: u64) -> &[u8] {
        if self.start == self.room.len() {
            self.of(number);
        }
        &self.room[self.start..]
    }

    /// Writes these.
    pub fn write(&mut self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.once(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn numbers_are_shown_in_decimal(number in any::<i64>(), shift in 0..64u32) {
            for number in [number >> shift, number, i64::from(number as u8)] {
                let mut out = Vec::new();
                push_signed(number, &mut out);
                prop_assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
            }
        }
    }

    #[test]
    fn the_largest_number_fits() {
        assert_eq!(Digits::new().of(u64::MAX), b"18446744073709551615");
        let mut digits = Digits::new();
        let mut out = Vec::new();
        (0..2).for_each(|_| digits.write(100, &mut out));
        assert_eq!(out, b"100100");
    }
}
