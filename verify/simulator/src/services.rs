//! What the workers of one simulated server share: a location table, subscribers, a ledger; and the
//! store behind the table, whose commits come late and whose unwritten rest a crash takes away.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use sip_auth::{
    Algorithm, Authenticator, Backoff, BackoffRules, Credentials, Decision, Ha1, LocalLedger, Lookup, Name,
    NonceCounts,
};
use sip_message::Method;
use sip_node::{Counter, Question, Services, Span, StoreDown};
use sip_registrar::{BindingView, Change, ContactAt, Expected, Record, Reply, Table};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use store::ClockPair;
use wire::Time;

/// How long a nonce is good.
pub(crate) const NONCE_LIFETIME: Duration = Duration::from_secs(40);

/// The state that all workers of a server reach through [`SimServices`].
pub(crate) struct Shared {
    pub table: RefCell<Table>,
    /// Changes that the store has not been given yet.
    pub changes: RefCell<Vec<Change>>,
    pub asked: RefCell<Vec<(u16, Question)>>,
    /// Whether the store takes changes.
    pub accepting: Cell<bool>,
    ledger: RefCell<LocalLedger>,
    users: Rc<Users>,
}

/// Subscribers by user and domain.
pub(crate) type Users = BTreeMap<(Vec<u8>, Vec<u8>), Credentials>;

impl Shared {
    pub fn new(seed: [u64; 2], users: Rc<Users>) -> Shared {
        Shared {
            table: RefCell::new(Table::new(seed, 1_000, true)),
            changes: RefCell::default(),
            asked: RefCell::default(),
            accepting: Cell::new(true),
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
}

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
        self.shared.table.borrow().bindings(&aor, self.now, |b| found |= is_there(b.flow.remote));
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
    fn bindings(&self, aor: &[u8], now: Time, each: &mut dyn FnMut(&BindingView<'_>)) {
        self.shared.table.borrow().bindings(aor, now, |binding| each(&binding));
    }

    fn expect(&self, aor: &[u8]) -> Option<Expected> {
        Some(Expected { part: 0, hash: self.shared.table.borrow().expect(aor) })
    }

    fn fetch(&self, expected: Expected) {
        self.shared.table.borrow().fetch(expected.hash);
    }

    fn register(
        &self,
        _aor: &[u8],
        changes: bool,
        work: &mut dyn FnMut(&mut Table, &mut Vec<Change>) -> Reply,
    ) -> Result<Reply, StoreDown> {
        if changes && !self.shared.accepting.get() {
            return Err(StoreDown { retry_after: 5 });
        }
        Ok(work(&mut self.shared.table.borrow_mut(), &mut self.shared.changes.borrow_mut()))
    }

    fn has_contact(&self, address: SocketAddr) -> bool {
        self.shared.table.borrow().has_contact_address(address)
    }

    fn contacts(&self, contact: &ContactAt<'_>, each: &mut dyn FnMut(&BindingView<'_>) -> bool) -> bool {
        self.shared.table.borrow().contacts(contact, each)
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

    fn count(&self, _counter: Counter) {}

    fn count_method(&self, _method: Method<'_>) {}

    fn observe(&self, _what: Span, _micros: u64) {}
}

/// The key of a row.
type Key = (Vec<u8>, Vec<u8>, Vec<u8>, u32);

/// A stored binding: its end on the wall clock, and when that was written.
struct Row {
    record: Record,
    expires: i64,
    written: i64,
}

/// The file that survives a crash. Times are kept as the real store keeps them ([`ClockPair`]).
#[derive(Default)]
pub(crate) struct Disk {
    rows: BTreeMap<Key, Row>,
}

impl Disk {
    /// Commits changes.
    pub fn commit(&mut self, changes: Vec<Change>, clock: ClockPair) {
        for change in changes {
            match change {
                Change::Put(record) => {
                    let key = key(&record.aor, &record.contact, &record.instance, record.reg_id);
                    let (expires, written) = (clock.to_wall_seconds(record.expires), clock.wall_seconds());
                    self.rows.insert(key, Row { record, expires, written });
                }
                Change::Delete { aor, contact, instance, reg_id } => {
                    self.rows.remove(&key(&aor, &contact, &instance, reg_id));
                }
            }
        }
    }

    /// The wall clock was set: all rows have to say their end in terms of the new one.
    pub fn rewrite(&mut self, before: ClockPair, after: ClockPair) {
        for row in self.rows.values_mut() {
            // The table knows the true end; the row's is that, to the second.
            let shift = after.wall_seconds() - before.wall_seconds();
            (row.expires, row.written) = (row.expires + shift, after.wall_seconds());
        }
    }

    /// The bindings that live, as a starting server reads them.
    pub fn load(&self, clock: ClockPair) -> Vec<Record> {
        let live = |row: &Row| {
            let expires = clock.revive(row.written, row.expires)?;
            let flow = wire::Flow { conn: None, ..row.record.flow };
            Some(Record { expires, flow, ..row.record.clone() })
        };
        self.rows.values().filter_map(live).collect()
    }
}

fn key(aor: &[u8], contact: &[u8], instance: &[u8], reg_id: u32) -> Key {
    (aor.to_vec(), contact.to_vec(), instance.to_vec(), reg_id)
}
