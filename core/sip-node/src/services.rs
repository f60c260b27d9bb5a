//! What a node asks of the world around it, answered at once from memory.

pub use crate::counters::{Counter, Span};
pub use crate::located::{Coverage, Question, StoreDown};
use crate::shortage::Shortage;
use crate::watch::List;
use call_forwarding::Rules;
use call_limits::{Barred, ClassName, Held, Limits, Moment, Rule, StrangerRate};
use call_records::{CallName, What};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use sip_auth::{Authenticator, Decision, Minted};
use sip_health::{Failure, LineFull, LineLimits};
use sip_message::Method;
use sip_proxy::locate;
use sip_registrar::{BindingView, Change, ContactAt, Expected, Reply, Table};
use std::sync::Arc;
use wire::{Flow, Identity, Time};

/// State shared by all workers: location, credentials, name resolution, counters. Every call returns
/// at once; whatever locks an implementation takes are released before it returns.
pub trait Services {
    /// Calls `each` for every live binding of an address-of-record that is known here, in order of falling q.
    /// Returns whether these are all.
    fn bindings(&self, aor: &[u8], now: Time, each: &mut dyn FnMut(&BindingView<'_>)) -> Coverage;

    /// Told that the bindings of an address-of-record are likely to be asked for soon, and a little later
    /// with [`Services::fetch`] once more: whoever has them where they take long to read begins to fetch
    /// them.
    fn expect(&self, aor: &[u8]) -> Option<Expected> {
        let _ = aor;
        None
    }

    /// See [`Services::expect`].
    fn fetch(&self, expected: Expected) {
        let _ = expected;
    }

    /// Runs `work` on the table that holds `aor`; the changes it reports are kept by [`Services::keep`].
    /// `changes`: whether it may report any.
    ///
    /// # Errors
    /// If it may, the store is failing, and policy is to refuse; `work` was not run.
    fn register(
        &self,
        aor: &[u8],
        changes: bool,
        work: &mut dyn FnMut(&mut Table, &mut Vec<Change>) -> Reply,
    ) -> Result<Reply, StoreDown>;

    /// Makes the changes of all calls of [`Services::register`] since the last call of this outlive the
    /// process. Their answers leave only after it.
    ///
    /// # Errors
    /// They may be lost with the process, and policy is to refuse then.
    fn keep(&self) -> Result<(), StoreDown> {
        Ok(())
    }

    /// Whether some live binding is reached at this address.
    fn has_contact(&self, address: SocketAddr) -> bool;

    /// Calls `each` with live bindings that have this Contact, a bounded number, until it answers that it has
    /// seen enough. Answers whether some were not looked at because there are too many.
    fn contacts(&self, contact: &ContactAt<'_>, each: &mut dyn FnMut(&BindingView<'_>) -> bool) -> bool;

    /// Whether there is such a subscriber.
    fn is_user(&self, user: &[u8], domain: &[u8]) -> bool;

    /// Whether some subscriber belongs to this domain.
    fn is_domain(&self, domain: &[u8]) -> bool;

    /// Whether some subscriber has rules for calls to it. If none has, [`Services::rules`] is not asked.
    fn has_rules(&self) -> bool {
        false
    }

    /// The rules of a subscriber for calls to it; `None`: it has none.
    fn rules(&self, user: &[u8], domain: &[u8]) -> Option<Arc<Rules>> {
        let _ = (user, domain);
        None
    }

    /// Judges credentials (see [`Authenticator::check`]) with the subscribers' secrets and the shared
    /// memory of nonces and failures.
    fn check(
        &self,
        authenticator: &Authenticator,
        request: &sip_auth::Request<'_>,
        values: &mut dyn Iterator<Item = &[u8]>,
    ) -> Decision;

    /// Told of a nonce just given out in a challenge for `realm`, which whoever keeps [`sip_auth::Recent`]
    /// notes there.
    fn challenged(&self, realm: &[u8], minted: Minted) {
        let _ = (realm, minted);
    }

    /// Sends a question. Its answer, if one comes, is a [`Notice`](crate::Notice).
    fn ask(&self, question: Question);

    /// Counts something that happened on this worker.
    fn count(&self, counter: Counter);

    /// Counts a request by its method.
    fn count_method(&self, method: Method<'_>);

    /// Told why a request was refused or challenged again, for whoever looks for the reason of a 401 or
    /// 403. `about` is the address-of-record that the request claims to be of, or for [`Refusal::Target`]
    /// and [`Refusal::Elsewhere`] its Request-URI. `source` is where the request says that it came from:
    /// the sender, or beyond fronts whom they name; over UDP that may be made up. Nothing of this may show
    /// in an answer, nor in the time it takes, unless an operator asked for it.
    fn refused(&self, why: Refusal, about: &[u8], source: IpAddr) {
        let _ = (why, about, source);
    }

    /// Told when an overload begins, after the worker was behind for so long, and when it is over.
    fn overloaded(&self, begins: bool, behind: Duration) {
        let _ = (begins, behind);
    }

    /// Appends the value of Date (RFC 3261 section 20.17), or nothing if there is no wall clock.
    fn date(&self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Called when there is too little of something for a new request, with its sender; not again for a
    /// minute.
    fn crowded(&self, what: Shortage, source: IpAddr) {
        let _ = (what, source);
    }

    /// Told that an address of a target does not answer, where that was not known.
    fn target_lost(&self, uri: &[u8], address: &Flow, failure: Failure) {
        let _ = (uri, address, failure);
    }

    /// Told that such an address answers again.
    fn target_back(&self, uri: &[u8], address: &Flow) {
        let _ = (uri, address);
    }

    /// Called for a request over TLS that belongs to no trunk. The certificate of a trunk has one of the
    /// names `wanted`. `found`: what the peer has proven, if it sent a certificate.
    fn unproven(&self, source: SocketAddr, wanted: &[&[u8]], found: Option<&Identity>) {
        let _ = (source, wanted, found);
    }

    /// Called for a request that failed because no target of its list answered.
    fn targets_exhausted(&self, troubled: &Troubled<'_>) {
        let _ = troubled;
    }

    /// Called when a trunk does not accept the account of this server in a forwarded request, and says so
    /// with this status.
    fn account_refused(&self, trunk: &[u8], address: &Flow, status: u16, why: &'static str) {
        let _ = (trunk, address, status, why);
    }

    /// Told what has become of the registration at a trunk, where that is news.
    fn registration(&self, trunk: &[u8], news: &RegistrationNews) {
        let _ = (trunk, news);
    }

    /// Called for a call that the trunk of this name does not take, with what it may have.
    fn trunk_full(&self, trunk: &[u8], why: LineFull, limits: LineLimits) {
        let _ = (trunk, why, limits);
    }

    /// Called for a host name to which no request can be sent because of what the DNS says.
    fn unresolved(&self, name: &[u8], why: locate::Error) {
        let _ = (name, why);
    }

    /// Notes what happens to a call, for its record, if [`Settings::records`](crate::Settings::records) is
    /// set. The implementation adds the time.
    fn record(&self, now: Time, call: CallName, what: What<'_>) {
        let _ = (now, call, what);
    }

    /// The class of a user, if it has one of its own.
    fn class_of(&self, user: &[u8], domain: &[u8]) -> Option<ClassName> {
        let _ = (user, domain);
        None
    }

    /// Counts a call of an account, which is a keyed hash, if its limits let it begin.
    ///
    /// # Errors
    /// The limit that is reached.
    fn begin_call(&self, account: u64, limits: &Limits, now: Moment) -> Result<(), Rule> {
        let _ = (account, limits, now);
        Ok(())
    }

    /// A call of an account has ended that was limited by channels.
    fn end_call(&self, account: u64) {
        let _ = account;
    }

    /// Whether an unknown sender may begin something now. The network is a keyed hash.
    ///
    /// # Errors
    /// How long it has to wait.
    fn admit_stranger(&self, network: u64, rate: StrangerRate, now: Time) -> Result<(), Held> {
        let _ = (network, rate, now);
        Ok(())
    }

    /// Seconds since 1970, for the hours of classes.
    fn unix_seconds(&self) -> i64 {
        0
    }

    /// Notes how long something took.
    fn observe(&self, what: Span, micros: u64);
}

/// What has become of the registration at a trunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistrationNews {
    /// It is in force.
    Registered {
        /// Where.
        at: Flow,
        /// The interval that was granted, seconds.
        seconds: u32,
    },
    /// It was refused with this status, and is tried again seldom.
    Refused {
        /// Where.
        at: Flow,
        /// The status.
        status: u16,
        /// Why, in words.
        why: &'static str,
    },
    /// Nobody takes it.
    Failing {
        /// Why, in words.
        why: String,
    },
    /// It has been ended.
    Ended,
}

/// A request that failed because no target of its list answered.
#[derive(Clone, Debug)]
pub struct Troubled<'a> {
    /// The list.
    pub list: List,
    /// Its name, of a trunk.
    pub name: Option<&'a [u8]>,
    /// The targets that were tried, as the operator wrote them.
    pub targets: Vec<&'a [u8]>,
    /// What the caller was answered.
    pub status: u16,
}

/// Why a request was refused or challenged again, as far as its sender and its target go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The digest is not right, or there is no such user: 401 or 407, or 403 with Retry-After.
    WrongCredentials,
    /// The digest is right and its nonce too old or used up: 401 or 407 with `stale=true`.
    Stale,
    /// The credentials are right and those of another user: 403.
    OtherUser,
    /// Too many wrong answers before: 403 with Retry-After.
    Throttled,
    /// The credentials cannot be read or contradict the request: 400 with this reason phrase.
    Unreadable(&'static str),
    /// A REGISTER for an address-of-record that is not of this server: 404, or 403 where its Request-URI is
    /// of another domain.
    NotOurs,
    /// A REGISTER by someone who has not proven to be one of our users: 403.
    Unproven,
    /// A REGISTER whose Contact or Path is at the address of a trunk or of an emergency or voicemail target,
    /// and that did not come from there: 403.
    Claimed,
    /// A call of a trunk that may not transit, to where only one that may is let through: 403.
    Transit,
    /// A user names a trunk's address with a number that the trunk's prefixes do not allow: 403.
    Rules,
    /// A call of a trunk that would go back to that trunk: 404.
    Loop,
    /// A call of a trunk to a target that is no user and has no route or trunk: 404.
    NotFound,
    /// Strangers may send nothing here: 403.
    Stranger,
    /// Strangers may not send this method: 403.
    Method,
    /// A stranger's request has a To tag and no token of ours, and strangers may not begin anything with its
    /// method: 481.
    NoDialog,
    /// An INVITE, MESSAGE or REFER with our token, in a dialog that this server would know: 403.
    UnknownDialog,
    /// A stranger's INVITE would have a phone answer by itself or take over a call, by what cannot be taken
    /// off it: 403.
    Commands,
    /// The sender may not reach what the Request-URI names: 403.
    Target,
    /// The same of a sender who is neither one of our users nor a trunk that may transit, and the Request-URI
    /// is of none of our domains: 403.
    Elsewhere,
    /// A request for a `sips:` URI would go on in the clear, or to a `sip:` URI: 480 with Warning 380 (RFC
    /// 5630 section 5.3).
    Downgrade,
    /// A request for a `sip:` URI would go in the clear to a phone that is registered as `sips:`: 480 with
    /// Warning 381.
    Clear,
    /// A request for a `sips:` URI has come in the clear: 400.
    InTheClear,
    /// The class of the caller does not let the call leave: 403 with Warning 399. What it is about is the
    /// caller and the called number, as `alice@example.com -> +49301234`.
    Class(Barred),
    /// Strangers have begun too much lately: 503 with Retry-After. All together, or from one network.
    Rate(Held),
}
