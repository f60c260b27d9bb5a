//! What the workers of one simulated server share: the location service, subscribers, a ledger.

use crate::records::Book;
use crate::scenario::Location;
use core::cell::RefCell;
use core::time::Duration;
use location::{Keeper, LocationLimits, OnFailure, SharedLocation};
use sip_auth::{
    Algorithm, Authenticator, Backoff, BackoffRules, Credentials, Decision, Ha1, LocalLedger, Lookup, Name,
    NonceCounts,
};
use sip_message::Method;
use sip_node::{CallName, Counter, Coverage, Question, Services, Span, StoreDown, What};
use sip_registrar::{BindingView, Change, ContactAt, Expected, Reply, Table};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use wire::Time;

/// How long a nonce is good.
pub(crate) const NONCE_LIFETIME: Duration = Duration::from_secs(40);

/// The state that all workers of a server reach through [`SimServices`].
pub(crate) struct Shared {
    pub location: Arc<SharedLocation>,
    pub asked: RefCell<Vec<(u16, Question)>>,
    /// Where bindings are.
    others: Location,
    ledger: RefCell<LocalLedger>,
    users: Rc<Users>,
}

/// Subscribers by user and domain.
pub(crate) type Users = BTreeMap<(Vec<u8>, Vec<u8>), Credentials>;

impl Shared {
    pub fn new(seed: [u64; 2], users: Rc<Users>, others: Location) -> Shared {
        let limits = LocationLimits { stripes: 4, max_aors: 1_000, ..LocationLimits::default() };
        let mut key = [0; 16];
        let bytes = seed.into_iter().flat_map(u64::to_le_bytes);
        key.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Shared {
            location: Arc::new(SharedLocation::new(key, limits, OnFailure::Refuse)),
            asked: RefCell::default(),
            others,
            ledger: RefCell::new(LocalLedger {
                nonces: NonceCounts::new(256, NONCE_LIFETIME),
                backoff: Backoff::new(256, BackoffRules::default()),
                recent: Some(sip_auth::Recent::new()),
            }),
            users,
        }
    }
}

/// One worker's view.
pub(crate) struct SimServices {
    pub worker: u16,
    pub shared: Rc<Shared>,
    pub keeper: Keeper,
    pub book: Rc<RefCell<Book>>,
}

/// Where bindings may not be changed now.
const STORE_DOWN: StoreDown = StoreDown { retry_after: 5 };

struct Secrets<'a> {
    shared: &'a Shared,
    home: &'a [u8],
    now: Time,
}

impl Secrets<'_> {
    fn key(&self, user: &Name) -> (Vec<u8>, Vec<u8>) {
        (user.user().to_vec(), user.domain().unwrap_or(self.home).to_ascii_lowercase())
    }

    fn has_binding(&self, user: &Name, is_there: impl Fn(SocketAddr) -> bool) -> bool {
        let (user, domain) = self.key(user);
        let aor = [&user[..], b"@", &domain].concat();
        let mut found = false;
        self.shared.location.lookup(&aor, self.now, |b| found |= is_there(b.flow.remote));
        found
    }
}

impl Lookup for Secrets<'_> {
    fn ha1(&mut self, user: &Name, algorithm: Algorithm) -> Option<Ha1> {
        self.shared.users.get(&self.key(user))?.get(user.form(), algorithm)
    }

    fn familiar(&mut self, user: &Name, source: IpAddr) -> bool {
        self.has_binding(user, |remote| remote.ip() == source)
    }

    fn registered(&mut self, user: &Name, peer: SocketAddr) -> bool {
        self.has_binding(user, |remote| remote == peer)
    }

    fn mark(&mut self, user: &Name) -> u32 {
        self.shared.users.get(&self.key(user)).map_or(0, Credentials::mark)
    }
}

impl Services for SimServices {
    fn bindings(&self, aor: &[u8], now: Time, each: &mut dyn FnMut(&BindingView<'_>)) -> Coverage {
        let others = aor.first().is_some_and(|first| first % 2 == 0);
        let (copies, patience) = match Some(self.shared.others).filter(|_| others) {
            None | Some(Location::Here) => (true, None),
            Some(Location::Punctual) => (false, Some(200)),
            Some(Location::Late { copies }) => (copies, Some(30)),
        };
        if copies {
            self.shared.location.lookup(aor, now, |binding| each(&binding));
        }
        match patience {
            None => Coverage::Complete,
            Some(millis) => Coverage::Partial { until: now + Duration::from_millis(millis) },
        }
    }

    fn expect(&self, aor: &[u8]) -> Option<Expected> {
        self.shared.location.expect(aor)
    }

    fn fetch(&self, expected: Expected) {
        self.shared.location.fetch(expected);
    }

    fn register(
        &self,
        aor: &[u8],
        changes: bool,
        work: &mut dyn FnMut(&mut Table, &mut Vec<Change>) -> Reply,
    ) -> Result<Reply, StoreDown> {
        if changes && !self.shared.location.accepting() {
            return Err(STORE_DOWN);
        }
        let work = |table: &mut Table, changes: &mut Vec<Change>| work(table, changes);
        match changes {
            true => self.keeper.register(aor, work).ok_or(STORE_DOWN),
            false => self.shared.location.register(aor, work).ok_or(STORE_DOWN),
        }
    }

    fn keep(&self) -> Result<(), StoreDown> {
        if self.keeper.keep() { Ok(()) } else { Err(STORE_DOWN) }
    }

    fn has_contact(&self, address: SocketAddr) -> bool {
        self.shared.location.has_contact_address(address)
    }

    fn contacts(&self, contact: &ContactAt<'_>, each: &mut dyn FnMut(&BindingView<'_>) -> bool) -> bool {
        self.shared.location.contacts(contact, each)
    }

    fn is_user(&self, user: &[u8], domain: &[u8]) -> bool {
        self.shared.users.contains_key(&(user.to_vec(), domain.to_vec()))
    }

    fn is_domain(&self, domain: &[u8]) -> bool {
        self.shared.users.keys().any(|(_, d)| d == domain)
    }

    fn check(
        &self,
        authenticator: &Authenticator,
        request: &sip_auth::Request<'_>,
        values: &mut dyn Iterator<Item = &[u8]>,
    ) -> Decision {
        let mut secrets = Secrets { shared: &self.shared, home: request.home, now: request.now };
        authenticator.check(request, values, &mut secrets, &mut *self.shared.ledger.borrow_mut())
    }

    fn challenged(&self, realm: &[u8], minted: sip_auth::Minted) {
        self.shared.ledger.borrow_mut().note(realm, minted);
    }

    fn ask(&self, question: Question) {
        self.shared.asked.borrow_mut().push((self.worker, question));
    }

    fn record(&self, now: Time, name: CallName, what: What<'_>) {
        let event = call_records::Event { name, at: now.as_micros(), ahead: 0, what };
        self.book.borrow_mut().apply(&event);
    }

    fn count(&self, _counter: Counter) {}

    fn count_method(&self, _method: Method<'_>) {}

    fn observe(&self, _what: Span, _micros: u64) {}
}
