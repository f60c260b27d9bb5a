//! What was on the wire: a hash over all of it, and the last messages for people.

use core::fmt::Write;
use core::hash::Hasher;
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use std::net::SocketAddr;
use wire::Time;

/// How a message ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Sent,
    Lost,
    Note,
}

struct Line {
    at: Time,
    from: String,
    to: String,
    text: String,
    fate: Fate,
}

/// The trace of one run.
pub(crate) struct Trace {
    hash: SipHasher13,
    messages: u64,
    last: VecDeque<Line>,
    keep: usize,
}

impl Trace {
    pub fn new(keep: usize) -> Trace {
        Trace { hash: SipHasher13::new_with_keys(0, 0), messages: 0, last: VecDeque::new(), keep }
    }

    /// A message was handed to the network.
    pub fn message(&mut self, at: Time, from: SocketAddr, to: SocketAddr, bytes: &[u8], fate: Fate) {
        self.messages += 1;
        self.hash.write_u64(at.as_micros());
        self.hash.write_u16(from.port() ^ to.port().rotate_left(3));
        self.hash.write(bytes);
        self.push(at, from.to_string(), to.to_string(), summary(bytes), fate);
    }

    /// Something happened that is no message.
    pub fn note(&mut self, at: Time, text: String) {
        self.hash.write_u64(at.as_micros());
        self.hash.write(text.as_bytes());
        self.push(at, String::new(), String::new(), text, Fate::Note);
    }

    fn push(&mut self, at: Time, from: String, to: String, text: String, fate: Fate) {
        if self.keep == 0 {
            return;
        }
        if self.last.len() == self.keep {
            self.last.pop_front();
        }
        self.last.push_back(Line { at, from, to, text, fate });
    }

    /// The hash of everything so far.
    pub fn hash(&self) -> u64 {
        self.hash.clone().finish()
    }

    /// Messages so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The last messages as a ladder. `name` says who has an address.
    pub fn ladder(&self, name: impl Fn(&str) -> String) -> String {
        let mut out = String::new();
        for line in &self.last {
            let arrow = match line.fate {
                Fate::Sent => "->",
                Fate::Lost => "-x",
                Fate::Note => "  ",
            };
            let time = format!("{:?}", line.at);
            let _ = match line.fate {
                Fate::Note => writeln!(out, "{time:>14}  ** {}", line.text),
                _ => {
                    let (from, to) = (name(&line.from), name(&line.to));
                    writeln!(out, "{time:>14}  {from:>10} {arrow} {to:<10} {}", line.text)
                }
            };
        }
        out
    }
}

/// The start line, CSeq and Call-ID of a message, whatever state it is in.
fn summary(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..bytes.len().min(4_096)).unwrap_or(b""));
    let first: String = text.lines().next().unwrap_or("").chars().take(72).collect();
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or("").trim().to_string();
    let branch = text.find("branch=").and_then(|at| text.get(at + 7..)).unwrap_or("");
    let branch: String =
        branch.chars().take_while(|c| !matches!(c, ';' | ',' | '\r' | '\n')).take(40).collect();
    format!("{first}  [{}] {} {branch} ({} B)", field("CSeq:"), field("Call-ID:"), bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_sees_every_byte_and_every_microsecond() {
        let address: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let hash = |at: u64, text: &[u8]| {
            let mut trace = Trace::new(4);
            trace.message(Time::from_micros(at), address, address, text, Fate::Sent);
            trace.hash()
        };
        assert_eq!(hash(1, b"a"), hash(1, b"a"));
        assert_ne!(hash(1, b"a"), hash(2, b"a"));
        assert_ne!(hash(1, b"a"), hash(1, b"b"));
    }

    #[test]
    fn the_ladder_keeps_the_last_ones() {
        let address: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let mut trace = Trace::new(2);
        for text in [&b"ONE"[..], b"TWO", b"THREE"] {
            trace.message(Time::ZERO, address, address, text, Fate::Lost);
        }
        let ladder = trace.ladder(|_| "p".into());
        assert!(!ladder.contains("ONE") && ladder.contains("TWO") && ladder.contains("-x"));
        assert_eq!(trace.messages(), 3);
    }
}
