//! Judges the credentials of a request.

use crate::backoff::Kind;
use crate::digest::{Proof, digest};
use crate::nonce::{Age, Nonce, Sealer};
use crate::params::{Params, Text, Unusable, parse};
use crate::{Algorithm, Ha1, Ledger, Lookup, Minted, Name, Recent, Secret, UriRule, hex};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use wire::Time;

/// How many header values of a request are looked at; further ones are passed over.
pub const MAX_VALUES: usize = 8;

/// Policy of an [`Authenticator`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The algorithms to offer and accept, most preferred first; repetitions are dropped. Default:
    /// MD5 alone, because imported tables hold nothing else. See [`Credentials`](crate::Credentials)
    /// before offering more.
    pub algorithms: Vec<Algorithm>,
    /// How long a nonce is good. Default 300 s.
    pub lifetime: Duration,
    /// Refuse responses without qop (RFC 2069), as RFC 8760 wants of new clients. Default false:
    /// they are accepted, and their nonces are good for a single use.
    pub require_qop: bool,
    /// How the `uri` parameter is compared with the Request-URI.
    pub uri: UriRule,
    /// A fixed `opaque` parameter for challenges. Default none. It is not looked at when it returns.
    pub opaque: Option<Box<[u8]>>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            algorithms: vec![Algorithm::Md5],
            lifetime: Duration::from_secs(300),
            require_qop: false,
            uri: UriRule::default(),
            opaque: None,
        }
    }
}

/// What of a request matters to authentication.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The method of the request line.
    pub method: &'a [u8],
    /// The Request-URI as received.
    pub uri: &'a [u8],
    /// The realm that the request has to be authenticated in.
    pub realm: &'a [u8],
    /// The domain that a user name without one is of: that of the user whom the request is about. It need
    /// not be the realm; one realm may serve several domains, and a name be somebody else's in each.
    pub home: &'a [u8],
    /// Where the request came from. Behind a trusted proxy or balancer this should be the address
    /// that it reports, or all its users share one network in back-off.
    pub source: IpAddr,
    /// The address and port that it came from, if these are the sender's own: what tells a phone from
    /// others behind the same address translation.
    pub peer: Option<SocketAddr>,
    /// The time.
    pub now: Time,
    /// Whether a `uri` parameter that is not the Request-URI's names this server, as several clients
    /// write it: the address they send to. It says no less about who was meant to be asked. Such
    /// a parameter is good whatever [`Config::uri`] says.
    pub names_server: &'a dyn Fn(&[u8]) -> bool,
}

impl<'a> Request<'a> {
    /// For [`Request::names_server`]: no URI but the Request-URI will do.
    pub const NOT_BY_ADDRESS: &'a dyn Fn(&[u8]) -> bool = &|_| false;
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { method, uri, realm, home, source, peer, now, .. } = self;
        f.debug_struct("Request")
            .field("method", method)
            .field("uri", uri)
            .field("realm", realm)
            .field("home", home)
            .field("source", source)
            .field("peer", peer)
            .field("now", now)
            .finish_non_exhaustive()
    }
}

/// The outcome of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The request is from this user of the realm, for the first time with this nonce count.
    Accepted {
        /// Who.
        user: Name,
    },
    /// No usable credentials: answer with a challenge.
    Challenge {
        /// The digest was right but its nonce is too old or used up; say so.
        stale: bool,
    },
    /// Unreadable or contradictory credentials: answer 400 with this reason phrase.
    Bad(&'static str),
    /// The digest is not right, or there is no such user.
    Wrong {
        /// Zero: answer with a challenge that is not stale, exactly as for no credentials. Otherwise another
        /// answer would not be checked for this number of seconds: answer 403 with `Retry-After`.
        retry_after: u32,
    },
    /// Too many wrong answers: nothing was computed. Answer 403 with `Retry-After`.
    Throttled {
        /// Whole seconds to wait, at least one.
        retry_after: u32,
    },
}

/// Issues challenges and judges credentials. Immutable, so all workers share one.
#[derive(Clone)]
pub struct Authenticator {
    config: Config,
    sealer: Sealer,
}

/// Credentials of our realm over a nonce of ours, ready to be judged.
struct Claim<'a> {
    user: Name,
    nonce_text: &'a [u8],
    nonce: Nonce,
    age: Age,
    algorithm: Algorithm,
    uri: &'a [u8],
    /// Response without and with counting.
    proof: Option<Proof<'a>>,
    nc: Option<u32>,
    response: [u8; 32],
}

/// Why there is no claim to judge.
enum Refusal {
    /// Nothing usable: challenge.
    Plain,
    /// 400 with this reason phrase.
    Bad(&'static str),
}

/// Kinds of table key, so that no two meanings share one.
mod key {
    pub const NONCE: u8 = 0;
    pub const PAIR: u8 = 1;
    pub const ACCOUNT: u8 = 2;
    pub const HOME: u8 = 3;
}

/// How a claim stands that may be judged.
#[derive(Clone, Copy, Default)]
struct Standing {
    /// The key of its pair, if there was a wrong answer since the start.
    pair: Option<u64>,
    /// Whether wrong answers of the network are remembered.
    watched: bool,
}

/// Seconds that an account which is not at home is told to wait where a network has had the most wrong
/// answers that are counted.
const CROWDED: u32 = 60;

const MALFORMED: Refusal = Refusal::Bad("Malformed Credentials");

impl Authenticator {
    /// An authenticator with this secret and policy. An empty list of algorithms becomes MD5 alone.
    pub fn new(secret: &Secret, mut config: Config) -> Authenticator {
        let mut kept = Vec::new();
        for algorithm in config.algorithms.drain(..) {
            if !kept.contains(&algorithm) {
                kept.push(algorithm);
            }
        }
        if kept.is_empty() {
            kept.push(Algorithm::Md5);
        }
        config.algorithms = kept;
        Authenticator { config, sealer: Sealer::new(secret) }
    }

    /// Judges the values of all Authorization header lines of `request` (Proxy-Authorization for a
    /// proxy), one value per line.
    pub fn check<'v>(
        &self,
        request: &Request<'_>,
        values: impl IntoIterator<Item = &'v [u8]>,
        lookup: &mut impl Lookup,
        ledger: &mut impl Ledger,
    ) -> Decision {
        let claim = match self.pick(request, values, ledger.recent().as_deref()) {
            Ok(claim) => claim,
            Err(Refusal::Bad(reason)) => return Decision::Bad(reason),
            Err(Refusal::Plain) => return Decision::Challenge { stale: false },
        };
        let standing = match self.wait(request, &claim, lookup, ledger) {
            Ok(standing) => standing,
            Err(retry_after) => return Decision::Throttled { retry_after },
        };
        if !prove(request, &claim, lookup, ledger.recent()) {
            return Decision::Wrong { retry_after: self.charge(request, &claim, standing, lookup, ledger) };
        }
        if claim.age != Age::Live {
            return Decision::Challenge { stale: true };
        }
        let nonce_key = self.nonce_key(&claim);
        let (issued, nc) = (claim.nonce.issued, claim.nc);
        if !ledger.nonces(nonce_key, |n| n.admit(nonce_key, issued, nc, request.now)) {
            return Decision::Challenge { stale: true };
        }
        // The source is not eased: a guesser with one account of his own could pay with it.
        if let Some(pair) = standing.pair {
            let home = standing.watched.then(|| self.home_key(request, &claim));
            ledger.backoff(source_key(&claim), |b| {
                b.clear(pair);
                if let Some(home) = home {
                    b.welcome(home, request.now);
                }
            });
        }
        Decision::Accepted { user: claim.user }
    }

    pub(crate) fn algorithms(&self) -> &[Algorithm] {
        &self.config.algorithms
    }

    pub(crate) fn opaque(&self) -> Option<&[u8]> {
        self.config.opaque.as_deref()
    }

    pub(crate) fn mint(&self, request: &Request<'_>, serial: u32) -> Minted {
        self.sealer.mint(request.realm, self.sealer.network(request.source), serial, request.now)
    }

    /// Finds the credentials to judge: of those for our realm, with an algorithm we offer and a nonce
    /// we sealed, the ones with the newest nonce (some clients add new credentials to the old ones).
    fn pick<'v>(
        &self,
        request: &Request<'_>,
        values: impl IntoIterator<Item = &'v [u8]>,
        recent: Option<&Recent>,
    ) -> Result<Claim<'v>, Refusal> {
        let mut bad = None;
        let mut best: Option<(&'v [u8], Nonce, Algorithm)> = None;
        // Those of the best so far, and those being read: parameters are long to move, so the two change
        // places by reference.
        let (mut kept, mut read) = (&mut Params::default(), &mut Params::default());
        for value in values.into_iter().take(MAX_VALUES) {
            match parse(value, read) {
                Ok(()) => {
                    let found = self.recognise(request, read, recent);
                    if let Some((_, nonce, _)) = found
                        && best.is_none_or(|(_, other, _)| nonce.issued > other.issued)
                    {
                        best = found;
                        core::mem::swap(&mut kept, &mut read);
                    }
                }
                Err(Unusable::OtherScheme) => {}
                Err(Unusable::Bad(reason)) => bad = bad.or(Some(reason)),
            }
            *read = Params::default();
        }
        match (best, bad) {
            (Some((text, nonce, algorithm)), _) => self.claim(request, kept, text, nonce, algorithm),
            (None, Some(reason)) => Err(Refusal::Bad(reason)),
            (None, None) => Err(Refusal::Plain),
        }
    }

    /// Nonce and algorithm of credentials that are ours to judge.
    fn recognise<'v>(
        &self,
        request: &Request<'_>,
        params: &Params<'v>,
        recent: Option<&Recent>,
    ) -> Option<(&'v [u8], Nonce, Algorithm)> {
        if !params.realm?.is(request.realm) {
            return None;
        }
        let algorithm = match params.algorithm {
            None => Algorithm::Md5,
            Some(name) => Algorithm::from_name(name.plain()?)?,
        };
        if !self.config.algorithms.contains(&algorithm) {
            return None;
        }
        let text = params.nonce?.plain()?;
        let known = recent.and_then(|recent| recent.nonce(text, request.realm));
        let nonce = known.or_else(|| self.sealer.open(text, request.realm))?;
        Some((text, nonce, algorithm))
    }

    /// Checks the form of the parameters and turns them into a claim.
    fn claim<'v>(
        &self,
        request: &Request<'_>,
        params: &Params<'v>,
        nonce_text: &'v [u8],
        nonce: Nonce,
        algorithm: Algorithm,
    ) -> Result<Claim<'v>, Refusal> {
        let age = self.sealer.age(&nonce, request.source, request.now, self.config.lifetime);
        let response_text = params.response.ok_or(MALFORMED)?;
        // An empty response is how a client shows its name before it was challenged (RFC 8760 2.7).
        if age == Age::Ancient || response_text.is(b"") || (params.qop.is_none() && self.config.require_qop) {
            return Err(Refusal::Plain);
        }
        // We offer neither hashed nor extended user names, nor any qop but "auth".
        let hashed =
            params.userhash.is_some_and(|u| u.plain().is_some_and(|u| u.eq_ignore_ascii_case(b"true")));
        if hashed || params.username_extended.is_some() {
            return Err(Refusal::Bad("User Name In A Form Not Offered"));
        }
        if params.qop.is_some_and(|q| !q.plain().is_some_and(|q| q.eq_ignore_ascii_case(b"auth"))) {
            return Err(Refusal::Plain);
        }
        let (proof, nc) = proof(params).ok_or(MALFORMED)?;
        let mut response = [0; 32];
        let digits = response_text.plain().ok_or(MALFORMED)?;
        if !response.get_mut(..algorithm.digest_len()).is_some_and(|bytes| hex::decode(digits, bytes)) {
            return Err(MALFORMED);
        }
        let user = params.username.and_then(name).ok_or(MALFORMED)?;
        // A URI holds no character that needs an escape in a quoted string.
        let uri = params.uri.and_then(Text::plain).ok_or(MALFORMED)?;
        if uri != request.uri && !(request.names_server)(uri) && !self.config.uri.allows(uri, request.uri) {
            return Err(Refusal::Bad("Credentials For Another URI"));
        }
        Ok(Claim { user, nonce_text, nonce, age, algorithm, uri, proof, nc, response })
    }

    /// The key of an account as tried from the network of the nonce. Its score is kept in the shard
    /// of [`source_key`].
    fn pair_key(&self, request: &Request<'_>, claim: &Claim<'_>) -> u64 {
        self.user_key(key::PAIR, [0, claim.nonce.network], request, claim)
    }

    /// The same as tried from the very address and port that the account is registered from.
    fn own_pair_key(&self, port: u16, request: &Request<'_>, claim: &Claim<'_>) -> u64 {
        self.user_key(key::PAIR, [u32::from(port) + 1, claim.nonce.network], request, claim)
    }

    /// The key of an account's being at home at the network of the nonce, kept beside the pair.
    fn home_key(&self, request: &Request<'_>, claim: &Claim<'_>) -> u64 {
        self.user_key(key::HOME, [0, claim.nonce.network], request, claim)
    }

    /// The key of an account, as seen from a place. Spellings that a lookup may take for one account
    /// share it.
    fn user_key(&self, kind: u8, place: [u32; 2], request: &Request<'_>, claim: &Claim<'_>) -> u64 {
        let user = claim.user.to_lower();
        let domain = user.domain().unwrap_or(request.home);
        self.sealer.table_key(kind, place.map(u64::from), [user.user(), domain])
    }

    /// One nonce serves several users of a gateway, each with its own counts.
    fn nonce_key(&self, claim: &Claim<'_>) -> u64 {
        let Nonce { issued, serial, network, .. } = claim.nonce;
        let place = u64::from(serial) << 32 | u64::from(network);
        self.sealer.table_key(key::NONCE, [issued, place], [claim.user.as_bytes(), b""])
    }

    /// Whole seconds that the claim has to wait, as an error.
    fn wait(
        &self,
        request: &Request<'_>,
        claim: &Claim<'_>,
        lookup: &mut impl Lookup,
        ledger: &mut impl Ledger,
    ) -> Result<Standing, u32> {
        let now = request.now;
        let source = source_key(claim);
        let (used, watched, (_, crowded)) =
            ledger.backoff(source, |b| (b.is_used(), b.wait(source, now).is_some(), b.debt(source, now)));
        if !used {
            return Ok(Standing::default());
        }
        let mut pair = self.pair_key(request, claim);
        let mut wait = ledger.backoff(source, |b| b.wait(pair, now)).unwrap_or_default();
        // Looked at by those alone who would have to wait.
        if !wait.is_zero() {
            let mark = mark(claim, lookup);
            if ledger.backoff(source, |b| b.forget_other(pair, mark)) {
                wait = Duration::ZERO;
            } else if let Some(own) = self.own_pair(request, claim, lookup) {
                (pair, wait) = (own, ledger.backoff(source, |b| b.wait(own, now)).unwrap_or_default());
            }
        }
        if !wait.is_zero() {
            return Err(seconds(wait));
        }
        if crowded && !self.familiar(request, claim, lookup, ledger) {
            return Err(CROWDED);
        }
        Ok(Standing { pair: Some(pair), watched })
    }

    /// The separate pair of a phone that sends from the address and port that it is registered at. No other
    /// device behind the same address translation has that port, so guesses of others do not count against
    /// the phone.
    fn own_pair(&self, request: &Request<'_>, claim: &Claim<'_>, lookup: &mut impl Lookup) -> Option<u64> {
        let peer = request.peer.filter(|_| self.sealer.network(request.source) == claim.nonce.network)?;
        lookup.registered(&claim.user, peer).then(|| self.own_pair_key(peer.port(), request, claim))
    }

    /// Notes a wrong answer; whole seconds that the pair has to wait now.
    fn charge(
        &self,
        request: &Request<'_>,
        claim: &Claim<'_>,
        standing: Standing,
        lookup: &mut impl Lookup,
        ledger: &mut impl Ledger,
    ) -> u32 {
        let now = request.now;
        let source = source_key(claim);
        let pair = standing.pair.unwrap_or_else(|| self.pair_key(request, claim));
        let account = self.user_key(key::ACCOUNT, [0, 0], request, claim);
        let attacked = ledger.backoff(account, |b| b.fail(account, Kind::Account, 0, now));
        let stranger = !self.familiar(request, claim, lookup, ledger);
        let kind = if attacked && stranger { Kind::Stranger } else { Kind::Pair };
        let mark = mark(claim, lookup);
        let wait = ledger.backoff(source, |b| {
            b.fail(pair, kind, mark, now);
            if stranger {
                b.fail(source, Kind::Source, 0, now);
                let (debt, _) = b.debt(source, now);
                b.hold(pair, debt, now);
            }
            b.wait(pair, now)
        });
        wait.map_or(0, seconds)
    }

    /// Whether the user is at home where the request came from, and the nonce was sent there too.
    fn familiar(
        &self,
        request: &Request<'_>,
        claim: &Claim<'_>,
        lookup: &mut impl Lookup,
        ledger: &mut impl Ledger,
    ) -> bool {
        let home = self.home_key(request, claim);
        self.sealer.network(request.source) == claim.nonce.network
            && (ledger.backoff(source_key(claim), |b| b.is_home(home, request.now))
                || lookup.familiar(&claim.user, request.source))
    }
}

/// Whole seconds, none forgotten.
fn seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_micros().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

/// The mark of the account's secrets. Asked for by one spelling of those that share a score: if it were
/// asked for as written, whoever takes turns between two of them would begin anew with each try.
fn mark(claim: &Claim<'_>, lookup: &mut impl Lookup) -> u32 {
    lookup.mark(&claim.user.to_lower())
}

/// The key of the claim's network in the back-off table.
fn source_key(claim: &Claim<'_>) -> u64 {
    // A secret hash already; it fills both halves, as the tables want.
    let network = u64::from(claim.nonce.network);
    network << 32 | network
}

fn name(text: Text<'_>) -> Option<Name> {
    match text.plain() {
        Some(plain) => Name::from_slice(plain),
        None => Name::from_bytes(text.bytes()),
    }
}

/// The counted part of a response. `Some((None, None))` for one without qop, `None` if it is malformed.
fn proof<'v>(params: &Params<'v>) -> Option<(Option<Proof<'v>>, Option<u32>)> {
    let Some(qop) = params.qop else { return Some((None, None)) };
    let digits = params.nc?.plain()?;
    let nc = hex::count(digits)?;
    let proof = Proof { nc: digits, cnonce: params.cnonce?, qop: qop.plain()? };
    Some((Some(proof), Some(nc)))
}

/// Whether the response is right. Does the same work for users who do not exist.
fn prove(
    request: &Request<'_>,
    claim: &Claim<'_>,
    lookup: &mut impl Lookup,
    recent: Option<&mut Recent>,
) -> bool {
    let found = lookup.ha1(&claim.user, claim.algorithm).filter(|h| h.algorithm() == claim.algorithm);
    let known = found.is_some();
    let secret = found.unwrap_or(match claim.algorithm {
        Algorithm::Md5 => Ha1::Md5([0; 16]),
        Algorithm::Sha256 => Ha1::Sha256([0; 32]),
        Algorithm::Sha512_256 => Ha1::Sha512_256([0; 32]),
    });
    let right = digest(&secret, (request.method, claim.uri), claim.nonce_text, claim.proof, recent);
    let given = claim.response.get(..claim.algorithm.digest_len()).unwrap_or_default();
    let equal = hex::same(right.as_bytes(), given);
    // Both are computed by now: no early way out for unknown users.
    equal & known
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
