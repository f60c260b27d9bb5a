//! What all workers share, as one worker sees it: the services of a node over the shell.

use super::carriers;
use super::limits::Limited;
use super::lines;
use super::refusals::Refusals;
use super::trunks;
use crate::METHODS;
use crate::throttle::Throttle;
use call_log::Teller;
use control::log::Safe;
use control::metrics::Recorder;
use sip_auth::{
    Algorithm, Authenticator, Backoff, BackoffRules, Credentials, Decision, Ha1, Ledger, Lookup, Minted,
    Name, NonceCounts, Recent, shard_of,
};
use sip_health::{Failure, LineFull, LineLimits};
use sip_message::{DateText, Method, canonical_user};
use sip_node::call_forwarding::Rules;
use sip_node::call_limits::{ClassName, Held, Limits, Moment, Rule, StrangerRate};
use sip_node::{
    CallName, Counter, Coverage, Question, Refusal, RegistrationNews, Services, Shortage, Span, StoreDown,
    Troubled, What,
};
use sip_proxy::locate;
use sip_registrar::{BindingView, Change, ContactAt, Expected, Reply, Table};
use std::borrow::Cow;
use std::cell::{RefCell, RefMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{CredentialCache, Keeper, SharedLocation};
use wire::{Flow, Identity, Time};

/// Parts of the ledger, each behind a lock of its own.
const SHARDS: usize = 256;
/// Nonces remembered, and addresses and accounts with wrong answers.
const NONCES: usize = 1 << 20;
const FAILURES: usize = 1 << 18;

/// Which nonce counts were used and who guessed wrong: shared, because the requests of one phone land
/// on any worker.
pub struct SharedLedger {
    nonces: Vec<Mutex<NonceCounts>>,
    backoff: Vec<Mutex<Backoff>>,
}

impl SharedLedger {
    /// An empty ledger; nonces are good for `lifetime`.
    pub fn new(lifetime: Duration) -> SharedLedger {
        SharedLedger {
            nonces: (0..SHARDS).map(|_| Mutex::new(NonceCounts::new(NONCES / SHARDS, lifetime))).collect(),
            backoff: (0..SHARDS)
                .map(|_| Mutex::new(Backoff::new(FAILURES / SHARDS, BackoffRules::default())))
                .collect(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ledger, and what this worker keeps besides.
struct OwnLedger<'a> {
    shared: &'a SharedLedger,
    recent: RefMut<'a, Recent>,
}

impl Ledger for OwnLedger<'_> {
    fn nonces<R>(&mut self, key: u64, use_it: impl FnOnce(&mut NonceCounts) -> R) -> R {
        use_it(&mut lock(&self.shared.nonces[shard_of(key, SHARDS)]))
    }

    fn backoff<R>(&mut self, key: u64, use_it: impl FnOnce(&mut Backoff) -> R) -> R {
        use_it(&mut lock(&self.shared.backoff[shard_of(key, SHARDS)]))
    }

    fn recent(&mut self) -> Option<&mut Recent> {
        Some(&mut self.recent)
    }
}

/// Sends questions to the resolver.
pub type Ask = Arc<dyn Fn(u16, Question) + Send + Sync>;

/// One worker's view of what is shared.
pub struct World {
    pub worker: u16,
    pub location: Arc<SharedLocation>,
    pub keeper: Keeper,
    pub credentials: Arc<CredentialCache>,
    pub ledger: Arc<SharedLedger>,
    pub recent: RefCell<Recent>,
    pub date: RefCell<DateText>,
    pub ask: Ask,
    pub recorder: Recorder,
    pub refusals: Arc<Refusals>,
    /// What is counted of calls that leave, and of strangers.
    pub limited: Arc<Limited>,
    /// Of call records, if they are kept.
    pub teller: Option<RefCell<Teller>>,
}

/// Where bindings may not be changed now: seconds until the client should try again.
const STORE_DOWN: StoreDown = StoreDown { retry_after: 5 };

/// Where the secrets of users come from.
struct Secrets<'a> {
    world: &'a World,
    home: &'a [u8],
    now: Time,
}

impl Secrets<'_> {
    /// Whether `user` has a live binding that was registered from such a place.
    fn has_binding(&self, user: &Name, is_there: impl Fn(SocketAddr) -> bool) -> bool {
        let domain = user.domain().unwrap_or(self.home);
        let aor = [&canonical_user(user.user())[..], b"@", &domain.to_ascii_lowercase()].concat();
        let mut found = false;
        self.world.location.lookup(&aor, self.now, |binding| found |= is_there(binding.flow.remote));
        found
    }
}

impl Lookup for Secrets<'_> {
    fn ha1(&mut self, user: &Name, algorithm: Algorithm) -> Option<Ha1> {
        let domain = user.domain().unwrap_or(self.home);
        self.world.credentials.get(user.user(), domain, |c| c.get(user.form(), algorithm)).flatten()
    }

    fn familiar(&mut self, user: &Name, source: IpAddr) -> bool {
        self.has_binding(user, |remote| remote.ip().to_canonical() == source)
    }

    fn registered(&mut self, user: &Name, peer: SocketAddr) -> bool {
        let peer = (peer.ip().to_canonical(), peer.port());
        self.has_binding(user, |remote| (remote.ip().to_canonical(), remote.port()) == peer)
    }

    fn mark(&mut self, user: &Name) -> u32 {
        let domain = user.domain().unwrap_or(self.home);
        self.world.credentials.get(user.user(), domain, Credentials::mark).unwrap_or(0)
    }
}

impl Services for World {
    fn bindings(&self, aor: &[u8], now: Time, each: &mut dyn FnMut(&BindingView<'_>)) -> Coverage {
        self.location.lookup(aor, now, |binding| each(&binding));
        Coverage::Complete
    }

    fn expect(&self, aor: &[u8]) -> Option<Expected> {
        self.location.expect(aor)
    }

    fn fetch(&self, expected: Expected) {
        self.location.fetch(expected);
    }

    fn register(
        &self,
        aor: &[u8],
        changes: bool,
        work: &mut dyn FnMut(&mut Table, &mut Vec<Change>) -> Reply,
    ) -> Result<Reply, StoreDown> {
        if changes && !self.location.accepting() {
            return Err(STORE_DOWN);
        }
        let work = |table: &mut Table, changes: &mut Vec<Change>| work(table, changes);
        match changes {
            true => self.keeper.register(aor, work).ok_or(STORE_DOWN),
            false => self.location.register(aor, work).ok_or(STORE_DOWN),
        }
    }

    fn keep(&self) -> Result<(), StoreDown> {
        if self.keeper.keep() { Ok(()) } else { Err(STORE_DOWN) }
    }

    fn has_contact(&self, address: SocketAddr) -> bool {
        self.location.has_contact_address(address)
    }

    fn contacts(&self, contact: &ContactAt<'_>, each: &mut dyn FnMut(&BindingView<'_>) -> bool) -> bool {
        self.location.contacts(contact, each)
    }

    fn is_user(&self, user: &[u8], domain: &[u8]) -> bool {
        self.credentials.is_local_user(user, domain)
    }

    fn has_rules(&self) -> bool {
        self.credentials.has_rules()
    }

    fn rules(&self, user: &[u8], domain: &[u8]) -> Option<Arc<Rules>> {
        self.credentials.rules(user, domain)
    }

    fn is_domain(&self, domain: &[u8]) -> bool {
        self.credentials.is_local_domain(domain)
    }

    fn class_of(&self, user: &[u8], domain: &[u8]) -> Option<ClassName> {
        self.credentials.class_of(user, domain, ClassName::new)
    }

    fn begin_call(&self, account: u64, limits: &Limits, now: Moment) -> Result<(), Rule> {
        self.limited.begin_call(account, limits, now)
    }

    fn end_call(&self, account: u64) {
        self.limited.end_call(account);
    }

    fn admit_stranger(&self, network: u64, rate: StrangerRate, now: Time) -> Result<(), Held> {
        self.limited.admit_stranger(network, rate, now)
    }

    fn unix_seconds(&self) -> i64 {
        super::wall_micros().div_euclid(1_000_000)
    }

    fn check(
        &self,
        authenticator: &Authenticator,
        request: &sip_auth::Request<'_>,
        values: &mut dyn Iterator<Item = &[u8]>,
    ) -> Decision {
        let mut secrets = Secrets { world: self, home: request.home, now: request.now };
        let mut ledger = OwnLedger { shared: &self.ledger, recent: self.recent.borrow_mut() };
        authenticator.check(request, values, &mut secrets, &mut ledger)
    }

    fn challenged(&self, realm: &[u8], minted: Minted) {
        self.recent.borrow_mut().note(realm, minted);
    }

    fn record(&self, _now: Time, call: CallName, what: What<'_>) {
        if let Some(teller) = &self.teller {
            teller.borrow_mut().tell(call, what);
        }
    }

    fn ask(&self, question: Question) {
        (self.ask)(self.worker, question);
    }

    fn count(&self, counter: Counter) {
        self.recorder.add(counter, 1);
    }

    fn count_method(&self, method: Method<'_>) {
        self.recorder.count_method(number(method));
    }

    fn refused(&self, why: Refusal, about: &[u8], source: IpAddr) {
        self.refusals.note(self.worker, worker_runtime::monotonic_now(), why, about, source);
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return match why {
                Refusal::Transit => say_no_transit(about, source),
                Refusal::Loop => say_loop(about, source),
                Refusal::NotFound => say_not_found(about, source),
                Refusal::Class(_) => say_class(why, about, source),
                Refusal::Rate(_) => say_rate(why, source),
                Refusal::Downgrade | Refusal::Clear | Refusal::InTheClear => say_insecure(why, about, source),
                _ => say_failed_login(why, about, source),
            };
        }
        let (user, domain) = split_aor(about);
        let reason = reason(why, self.is_user(user, domain));
        // What the peer wrote last: it may have the form of a field.
        tracing::debug!(%source, about = %Safe(&without_password(about)), "refused: {reason}");
    }

    fn overloaded(&self, begins: bool, behind: Duration) {
        // Workers come and go together, and load may swing.
        static BEGINNINGS: Throttle = Throttle::new();
        static ENDS: Throttle = Throttle::new();
        let often = if begins { &BEGINNINGS } else { &ENDS };
        let Some(before) = often.pass(worker_runtime::monotonic_now()) else { return };
        let worker = self.worker;
        if begins {
            log_events::server::overloaded(worker, before, behind.as_millis());
        } else {
            log_events::server::overload_over(worker, before);
        }
    }

    #[allow(clippy::disallowed_methods, reason = "the wall clock is what is asked for")]
    fn date(&self, out: &mut Vec<u8>) {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        if let Ok(since) = since {
            out.extend_from_slice(self.date.borrow_mut().at(since.as_secs()));
        }
    }

    fn target_lost(&self, uri: &[u8], address: &Flow, failure: Failure) {
        let (address, why) = (format!("{}:{}", address.transport, address.remote), trunks::text(failure));
        log_events::server::target_down(&Safe(uri), &address, &why);
    }

    fn target_back(&self, uri: &[u8], address: &Flow) {
        let address = format!("{}:{}", address.transport, address.remote);
        log_events::server::target_up(&Safe(uri), &address);
    }

    fn account_refused(&self, trunk: &[u8], address: &Flow, status: u16, why: &'static str) {
        static REFUSED: Throttle = Throttle::new();
        if let Some(before) = REFUSED.pass(worker_runtime::monotonic_now()) {
            let address = format!("{}:{}", address.transport, address.remote);
            log_events::carriers::trunk_account_refused(&Safe(trunk), &address, status, before, why);
        }
    }

    fn registration(&self, trunk: &[u8], news: &RegistrationNews) {
        carriers::say(trunk, news);
    }

    fn unproven(&self, source: SocketAddr, wanted: &[&[u8]], found: Option<&Identity>) {
        static UNPROVEN: Throttle = Throttle::new();
        if tracing::enabled!(tracing::Level::INFO)
            && let Some(before) = UNPROVEN.pass(worker_runtime::monotonic_now())
        {
            let wanted: Vec<String> = wanted.iter().map(|name| Safe(name).to_string()).collect();
            log_events::server::trunk_not_proven(&source, &wanted.join(" "), &names_in(found), before);
        }
    }

    fn unresolved(&self, name: &[u8], why: locate::Error) {
        static UNRESOLVED: Throttle = Throttle::new();
        if tracing::enabled!(tracing::Level::INFO)
            && let Some(before) = UNRESOLVED.pass(worker_runtime::monotonic_now())
        {
            log_events::server::name_unresolved(&Safe(name), before, unresolved(why));
        }
    }

    fn trunk_full(&self, trunk: &[u8], why: LineFull, limits: LineLimits) {
        static FULL: Throttle = Throttle::new();
        if let Some(before) = FULL.pass(worker_runtime::monotonic_now()) {
            let LineLimits { channels, calls_per_second } = limits;
            log_events::server::trunk_full(
                &Safe(trunk),
                lines::reason(why),
                channels,
                calls_per_second,
                before,
            );
        }
    }

    fn targets_exhausted(&self, troubled: &Troubled<'_>) {
        static LOST: Throttle = Throttle::new();
        if let Some(before) = LOST.pass(worker_runtime::monotonic_now()) {
            let targets: Vec<String> = troubled.targets.iter().map(|uri| Safe(uri).to_string()).collect();
            log_events::server::targets_exhausted(
                troubled.list.name(),
                &Safe(name_of(troubled)),
                &targets.join(", "),
                troubled.status,
                before,
            );
        }
    }

    fn crowded(&self, what: Shortage, source: IpAddr) {
        static SHORT: Throttle = Throttle::new();
        if let Some(before) = SHORT.pass(worker_runtime::monotonic_now()) {
            log_events::server::no_room(self.worker, &source, before, crate::room::words(what));
        }
    }

    fn observe(&self, what: Span, micros: u64) {
        self.recorder.observe(what, micros);
    }
}

/// The names in a certificate, a few of them.
fn names_in(found: Option<&Identity>) -> String {
    const SHOWN: usize = 8;
    let Some(identity) = found else { return "no certificate".to_owned() };
    let mut names: Vec<String> =
        identity.names().take(SHOWN).map(|name| Safe(name.as_bytes()).to_string()).collect();
    let more = identity.names().skip(SHOWN).count();
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    if names.is_empty() { "a certificate without SIP domain".to_owned() } else { names.join(" ") }
}

/// Why a host name leads nowhere, in words.
const fn unresolved(why: locate::Error) -> &'static str {
    match why {
        locate::Error::NotFound => "the DNS has no address for it",
        locate::Error::NoService => "its SRV record says that it has no such service",
        locate::Error::Unavailable => "the DNS does not answer",
        locate::Error::Full => "too many questions wait for the DNS",
        locate::Error::BadHost | locate::Error::NoTransport => "it cannot be reached over this transport",
    }
}

/// The name of a list of targets: the trunk's, or the first target, since other lists have no name.
fn name_of<'a>(troubled: &Troubled<'a>) -> &'a [u8] {
    troubled.name.or(troubled.targets.first().copied()).unwrap_or(b"-")
}

/// Reports now and then a call of a trunk that would leave again: with the key that lets it.
fn say_no_transit(about: &[u8], source: IpAddr) {
    static REFUSED: Throttle = Throttle::new();
    if tracing::enabled!(tracing::Level::INFO)
        && let Some(before) = REFUSED.pass(worker_runtime::monotonic_now())
    {
        let target = without_password(about);
        log_events::server::trunk_call_not_carried(&source, before, &Safe(&target));
    }
}

/// Tells now and then of a trunk's calls that would go back to that trunk.
fn say_loop(about: &[u8], source: IpAddr) {
    static REFUSED: Throttle = Throttle::new();
    if tracing::enabled!(tracing::Level::INFO)
        && let Some(before) = REFUSED.pass(worker_runtime::monotonic_now())
    {
        let target = without_password(about);
        log_events::server::trunk_call_looped(&source, before, &Safe(&target));
    }
}

/// Logs calls of a trunk without a target, at most once per interval.
fn say_not_found(about: &[u8], source: IpAddr) {
    static REFUSED: Throttle = Throttle::new();
    if tracing::enabled!(tracing::Level::INFO)
        && let Some(before) = REFUSED.pass(worker_runtime::monotonic_now())
    {
        let target = without_password(about);
        log_events::server::trunk_call_not_found(&source, before, &Safe(&target));
    }
}

/// Logs requests that were refused because of what `sips:` asks for, at most once per interval.
fn say_insecure(why: Refusal, about: &[u8], source: IpAddr) {
    static REFUSED: Throttle = Throttle::new();
    if tracing::enabled!(tracing::Level::INFO)
        && let Some(before) = REFUSED.pass(worker_runtime::monotonic_now())
    {
        let target = without_password(about);
        log_events::server::insecure_refused(&source, before, &Safe(&target), &reason(why, false));
    }
}

/// Logs calls that a class does not let leave, at most once per interval: with the caller and the rule.
fn say_class(why: Refusal, about: &[u8], source: IpAddr) {
    static REFUSED: Throttle = Throttle::new();
    if tracing::enabled!(tracing::Level::INFO)
        && let Some(before) = REFUSED.pass(worker_runtime::monotonic_now())
    {
        log_events::server::class_refused(&source, before, &Safe(about), &reason(why, false));
    }
}

/// Logs strangers that have to wait, at most once per interval.
fn say_rate(why: Refusal, source: IpAddr) {
    static HELD: Throttle = Throttle::new();
    if tracing::enabled!(tracing::Level::INFO)
        && let Some(before) = HELD.pass(worker_runtime::monotonic_now())
    {
        log_events::server::strangers_held(&source, before, &reason(why, false));
    }
}

/// Tells now and then of logins that failed, for whoever watches the usual log: there may be thousands a
/// second. Whether there is such a user is not looked up for it.
fn say_failed_login(why: Refusal, about: &[u8], source: IpAddr) {
    let what = match why {
        Refusal::WrongCredentials => "wrong password or unknown user",
        Refusal::Throttled => "held off after too many wrong passwords",
        _ => return,
    };
    // A line that nobody is shown does not count as one.
    if !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    static FAILED: Throttle = Throttle::new();
    if let Some(before) = FAILED.pass(worker_runtime::monotonic_now()) {
        log_events::server::login_refused(&source, before, &Safe(about), what);
    }
}

/// User and domain of an address-of-record; no user where there is no `@`.
pub(super) fn split_aor(about: &[u8]) -> (&[u8], &[u8]) {
    let at = about.iter().rposition(|byte| *byte == b'@');
    at.map_or((&b""[..], about), |at| (&about[..at], &about[at + 1..]))
}

/// A URI or address-of-record without the password that a URI may have (RFC 3261 section 19.1.1).
pub(super) fn without_password(about: &[u8]) -> Cow<'_, [u8]> {
    let parts = about.iter().rposition(|byte| *byte == b'@').and_then(|at| {
        let scheme = about.iter().position(|byte| *byte == b':').filter(|colon| {
            [&b"sip"[..], b"sips"].iter().any(|scheme| scheme.eq_ignore_ascii_case(&about[..*colon]))
        });
        let user = scheme.map_or(0, |colon| colon + 1);
        let colon = about.get(user..at)?.iter().position(|byte| *byte == b':')?;
        Some((user + colon, at))
    });
    parts.map_or(Cow::Borrowed(about), |(colon, at)| Cow::Owned([&about[..colon], &about[at..]].concat()))
}

/// What an operator reads of a refusal; `known`: there is such a user.
pub(super) fn reason(why: Refusal, known: bool) -> Cow<'static, str> {
    let text = match why {
        Refusal::Class(barred) => return barred.to_string().into(),
        Refusal::WrongCredentials if known => {
            "wrong password, or its hash is for another realm than the one asked for"
        }
        Refusal::WrongCredentials => "no such user",
        Refusal::Stale => "the nonce is too old or used up; told to try again with a new one",
        Refusal::OtherUser => "the credentials are those of another user",
        Refusal::Throttled => "too many wrong passwords from there; told to wait",
        Refusal::Unreadable(why) => why,
        Refusal::NotOurs => {
            "the domain to register in is not served: add it to `domains`, or have the phone register in one that is"
        }
        Refusal::Unproven => "only our own users may register",
        Refusal::Claimed => {
            "a Contact or Path is at the address of a trunk, an emergency or a voicemail target, and the REGISTER did not come \
             from there"
        }
        Refusal::Transit => {
            "the call would leave again: if this trunk's calls may, set `may_transit = true` in its [[trunk]]"
        }
        Refusal::Loop => "the call would go back to the trunk that it came from",
        Refusal::NotFound => {
            "the trunk's call is to no user, [[route]] or prefix: a number must be written as the trunk sends it, with or \
             without `+`"
        }
        Refusal::Rules => "the called number is none of the `prefixes` of the trunk at that address",
        Refusal::Stranger => "strangers may send nothing here: `strangers` in [proxy]",
        Refusal::Method => "strangers may not send this method: `stranger_methods` in [proxy]",
        Refusal::NoDialog => {
            "a stranger's request has a To tag and none of our Record-Route: its program must send back the route set of the call"
        }
        Refusal::UnknownDialog => "there is no such call here: its dialog has ended or never was",
        Refusal::Commands => {
            "a stranger's INVITE tells phones to answer by themselves, or requires to take over a call"
        }
        Refusal::Target => "the sender may not send requests there",
        Refusal::Elsewhere => {
            "this is of none of our domains; only our own users, and trunks that may transit, may send requests there"
        }
        Refusal::Downgrade => {
            "sips: asks for TLS up to the phone, and nothing that it leads to is registered as sips: over TLS"
        }
        Refusal::Clear => {
            "the phone is registered as sips:, and no TLS connection leads there: it has to register again"
        }
        Refusal::InTheClear => "sips: has come in the clear: the sender must use TLS, or sip:",
        Refusal::Rate(Held { by_total: true, .. }) => {
            "all strangers together have begun too much: `stranger_calls_total` in [proxy]"
        }
        Refusal::Rate(_) => "strangers of this network have begun too much: `stranger_calls` in [proxy]",
    };
    text.into()
}

/// The place of a method in [`METHODS`]; past its end if it is not there.
const fn number(method: Method<'_>) -> usize {
    match method.number() {
        Some(number) => number as usize,
        None => METHODS.len(),
    }
}

/// The resolver's answer in the core's words.
pub fn answer_of(outcome: resolver::Outcome) -> locate::Answer {
    use resolver::Outcome;
    match outcome {
        Outcome::Naptr(list) => locate::Answer::Naptr(
            list.into_iter()
                .map(|r| locate::Naptr {
                    order: r.order,
                    preference: r.preference,
                    flags: r.flags,
                    service: r.service,
                    replacement: r.replacement,
                })
                .collect(),
        ),
        Outcome::Srv(list) => locate::Answer::Srv(
            list.into_iter()
                .map(|r| locate::Srv {
                    priority: r.priority,
                    weight: r.weight,
                    port: r.port,
                    target: r.target,
                })
                .collect(),
        ),
        Outcome::A(list) => locate::Answer::A(list),
        Outcome::Aaaa(list) => locate::Answer::Aaaa(list),
        Outcome::Nothing => locate::Answer::Nothing,
        Outcome::Failed(_) => locate::Answer::Failed,
    }
}

/// The core's kind of question in the resolver's words.
pub const fn kind_of(kind: locate::Kind) -> resolver::Kind {
    match kind {
        locate::Kind::Naptr => resolver::Kind::Naptr,
        locate::Kind::Srv => resolver::Kind::Srv,
        locate::Kind::A => resolver::Kind::A,
        locate::Kind::Aaaa => resolver::Kind::Aaaa,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_uris_are_not_shown() {
        for (about, shown) in [
            ("sip:bob:secret@far.example", "sip:bob@far.example"),
            ("SIPS:bob:a:b@far.example:5061;x=y", "SIPS:bob@far.example:5061;x=y"),
            ("bob:secret@far.example", "bob@far.example"),
            ("sip:bob@far.example:5060", "sip:bob@far.example:5060"),
            ("alice@here.example", "alice@here.example"),
            ("sip:far.example:5060", "sip:far.example:5060"),
            ("tel:+49", "tel:+49"),
            ("@", "@"),
            ("", ""),
        ] {
            assert_eq!(without_password(about.as_bytes()), shown.as_bytes(), "{about}");
        }
    }

    #[test]
    fn methods_are_counted_in_their_places() {
        for (place, name) in METHODS.iter().enumerate() {
            assert_eq!(number(Method::from_bytes(name.as_bytes())), place, "{name}");
        }
        assert_eq!(number(Method::from_bytes(b"PUNCH")), METHODS.len());
    }
}
