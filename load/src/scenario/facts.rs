//! What the engine lends for one message or one list of actions.

use super::credentials::{Challenge, Credentials};
use super::inject::Injections;
use super::template::{Brief, Digits, Outline};
use crate::population::Rng;

/// What stays the same for a whole run; [`super::Scenario::bind`] writes it into the templates.
#[derive(Clone, Debug)]
pub struct Run {
    /// `-s`: `[service]`.
    pub service: String,
    /// `[remote_host]`: the host as it was given.
    pub remote_host: String,
    /// `[remote_ip]`: its address, an IPv6 address in brackets.
    pub remote_ip: String,
    /// `[remote_port]`.
    pub remote_port: u16,
    /// `[transport]`: `UDP`, `TCP` or `TLS`.
    pub transport: &'static str,
    /// `-mi`: `[media_ip]`, without brackets.
    pub media_ip: String,
    /// `-mp`: `[media_port]`; nothing listens there.
    pub media_port: u16,
    /// `[pid]`: tells the calls of this run from those of others.
    pub pid: u32,
    /// `-au`; `-s` if not given.
    pub auth_user: Vec<u8>,
    /// `-ap`; `password` if not given.
    pub auth_password: Vec<u8>,
    /// `-auth_uri`: the `uri` of all credentials, in place of the request's own.
    pub auth_uri: Option<Vec<u8>>,
    /// `-users`: `[users]`; -1 if calls are not made by users.
    pub users: i64,
    /// The local address, an IPv6 address in brackets, if all calls have the same.
    pub local_ip: Option<String>,
    /// The local port, if all calls have the same.
    pub local_port: Option<u16>,
    /// `[sipp_version]`.
    pub version: &'static str,
}

/// The stream of `[random]` under a worker's seed.
const RANDOM: u64 = 0x7261_6e64_6f6d;

/// What one worker keeps for its calls.
#[derive(Debug)]
pub struct Desk {
    /// The injection files.
    pub injections: Injections,
    /// Secrets and what makes cnonces.
    pub credentials: Credentials,
    /// `[dynamic_id]`: goes up by one with each use (`-dynamicStart`).
    pub dynamic_id: u64,
    /// What `[random]` draws from.
    pub(super) random: Rng,
    /// The `[call_number]` that was shown last, and its digits.
    pub(super) number: (u64, Digits),
    /// Room for texts under way.
    pub(super) scratch: Vec<Vec<u8>>,
}

impl Desk {
    /// A worker's desk. `seed` makes cnonces; `dynamic_start` is the first `[dynamic_id]`.
    pub fn new(injections: Injections, seed: u64, dynamic_start: u64) -> Desk {
        Desk {
            injections,
            credentials: Credentials::new(seed),
            dynamic_id: dynamic_start,
            random: Rng::new(seed, RANDOM),
            number: (0, Digits::new()),
            scratch: Vec::new(),
        }
    }
}

impl Desk {
    /// An empty text that keeps its memory from use to use.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.scratch.pop().unwrap_or_default()
    }

    /// Gives it back.
    pub(super) fn give(&mut self, mut text: Vec<u8>) {
        text.clear();
        self.scratch.push(text);
    }
}

/// What is true of one call at one moment. All texts are as they stand in messages.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The run.
    pub run: &'a Run,
    /// The worker's own.
    pub desk: &'a mut Desk,
    /// `[call_number]`, from 1.
    pub call_number: u64,
    /// `[call_id]`.
    pub call_id: &'a [u8],
    /// `[local_ip]`, `[server_ip]`: an IPv6 address in brackets.
    pub local_ip: &'a [u8],
    /// `[local_port]`.
    pub local_port: u16,
    /// `[msg_index]`, and part of `[branch]`: the number of the step.
    pub step: usize,
    /// How often the call went back to an earlier step; it makes the branches of loops differ.
    pub round: u32,
    /// `[cseq]`: the number of the CSeq for the request that is sent now, or that was received last.
    pub cseq: u32,
    /// The last message received that was no retransmission; empty if there was none.
    pub last: &'a [u8],
    /// Where the headers that the scenario asks for stand in `last`. `None`: each text that asks for any
    /// finds them anew, which costs about 2,000 instructions.
    pub outline: Option<&'a Outline>,
    /// The tag of the To of the last response; empty if there was none.
    pub peer_tag: &'a [u8],
    /// `[routes]`: the value of Route, without the name; empty if there is none.
    pub routes: &'a [u8],
    /// `[next_url]`: empty before a message came with `rrs`.
    pub next_url: &'a [u8],
    /// What `[authentication]` answers, if a message came with `auth`.
    pub challenge: Option<&'a mut Challenge>,
    /// The line of each injection file that this call uses, in the order of [`Injections`].
    pub lines: &'a [u32],
    /// `[userid]`: 0 if calls are not made by users.
    pub user: u64,
    /// Microseconds since 1970-01-01 00:00 UTC: `[date]`, `[timestamp]`, `gettimeofday`.
    pub wall_micros: u64,
    /// `[clock_tick]`: milliseconds since the run began.
    pub tick_ms: u64,
}

impl Facts<'_> {
    /// What most texts show.
    pub(super) fn brief(&mut self) -> Brief<'_> {
        Brief {
            desk: self.desk,
            call_number: self.call_number,
            call_id: self.call_id,
            local_ip: self.local_ip,
            next_url: self.next_url,
            peer_tag: self.peer_tag,
            routes: self.routes,
            step: self.step,
            round: self.round,
            last: self.last,
            outline: self.outline,
        }
    }
}
