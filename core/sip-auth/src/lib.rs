//! Digest authentication for SIP servers (RFC 3261 section 22, RFC 7616, RFC 8760), and in [`client`] for
//! their clients.
//!
//! Everything here is a pure function of its arguments, or a bounded table behind `&mut self`: no
//! clock, no entropy, no lock. The caller gives the time, a secret and a counter.
//!
//! * [`Authenticator`] holds the secret and the policy. It writes challenges and judges credentials,
//!   through `&self`, so all workers share one.
//! * A nonce is a sealed note to ourselves (time, counter, network it was sent to), so a challenge
//!   costs no memory. See [`Secret`].
//! * [`NonceCounts`] remembers which nonce counts were used, only after the digest was proven right.
//! * [`Backoff`] slows guessing down without letting a stranger lock anybody out.
//!
//! The two tables are shards. Requests of one phone may land on any worker, so the shell keeps
//! several shards of each behind short locks and hands them out through [`Ledger`]; a single-threaded
//! program uses [`LocalLedger`]. What a worker may keep for itself, to do less, is [`Recent`].
//!
//! # Rules of the check
//!
//! 1. Header values whose scheme is not Digest, or whose realm is not ours, are passed over; only the
//!    first [`MAX_VALUES`] are looked at, and only one digest is ever computed for a request.
//! 2. A nonce that we did not seal gets a plain challenge. No digest is computed, so it is no guess.
//! 3. The `uri` parameter must name what the Request-URI names ([`UriRule`]).
//! 4. Account and network are asked for back-off before any digest is computed.
//! 5. An unknown user costs the same work and gets the same answer as a wrong password.
//! 6. A right digest over an old, evicted or used-up nonce gets `stale=true`.
//!
//! A proxy that passes a request on removes the credentials of its own realm (RFC 3261 22.3):
//! if the request spirals back, the same nonce count would be a replay.
#![forbid(unsafe_code)]

mod algorithm;
mod backoff;
mod challenge;
mod check;
pub mod client;
mod counts;
mod credentials;
mod digest;
mod hash;
mod held;
mod hex;
mod ledger;
mod md5;
mod name;
mod nonce;
mod params;
mod recent;
mod table;
mod uri;

pub use algorithm::{Algorithm, Ha1, ha1};
pub use backoff::{Backoff, BackoffRules, Rule, SourceRule};
pub use challenge::Status;
pub use check::{Authenticator, Config, Decision, MAX_VALUES, Request};
pub use counts::NonceCounts;
pub use credentials::Credentials;
pub use digest::{Counted, Question, ResponseText, response};
pub use held::{Held, Login, Tries, Unanswerable};
pub use ledger::{Ledger, LocalLedger, Lookup};
pub use name::{MAX_USERNAME, Name, NameForm};
pub use nonce::{Minted, NonceSerial, Secret};
pub use params::MAX_VALUE;
pub use recent::Recent;
pub use table::shard_of;
pub use uri::UriRule;

/// How the user part of an address-of-record is compared; a digest user name may stand for one.
pub use sip_message::canonical_user;
