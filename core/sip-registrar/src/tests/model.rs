//! Random sequences of REGISTER, time and sweeping, against a model too simple to be wrong.

use super::{lines_of, request};
use crate::{Change, Config, PathPolicy, Record, Registration, Table};
use proptest::prelude::*;
use sip_message::{Index, Limits, Parsed, parse};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{Flow, ListenerId, Time};

/// One contact of a request: which phone, interval (`None`: not said), q in tenths, reg-id.
#[derive(Clone, Debug)]
struct Contact {
    phone: u8,
    expires: Option<u32>,
    q: Option<u8>,
    reg_id: u32,
}

#[derive(Clone, Debug)]
enum Step {
    Register { user: u8, call: u8, cseq: u32, contacts: Vec<Contact>, port: u16 },
    Clear { user: u8, call: u8, cseq: u32 },
    Pass(u64),
    Sweep(usize),
    Restart,
}

fn contact() -> impl Strategy<Value = Contact> {
    let expires = prop_oneof![Just(None), Just(Some(0)), (1u32..9000).prop_map(Some)];
    (0u8..6, expires, prop::option::of(0u8..=10), prop_oneof![3 => Just(0u32), 1 => 1u32..3])
        .prop_map(|(phone, expires, q, reg_id)| Contact { phone, expires, q, reg_id })
}

fn step() -> impl Strategy<Value = Step> {
    let register = (0u8..5, 0u8..3, 0u32..40, prop::collection::vec(contact(), 0..4), 1u16..4)
        .prop_map(|(user, call, cseq, contacts, port)| Step::Register { user, call, cseq, contacts, port });
    prop_oneof![
        12 => register,
        1 => (0u8..5, 0u8..3, 0u32..60).prop_map(|(user, call, cseq)| Step::Clear { user, call, cseq }),
        3 => prop_oneof![1u64..100, 1000u64..6000].prop_map(Step::Pass),
        2 => (0usize..6).prop_map(Step::Sweep),
        1 => Just(Step::Restart),
    ]
}

/// What tells two bindings apart: the phone for plain ones, instance and reg-id for flows. A phone's
/// instance is its number, so the phone and the reg-id are both.
type Key = (u8, u32);

#[derive(Clone, Debug, PartialEq)]
struct Held {
    q: u16,
    expires: Time,
    call: String,
    cseq: u32,
    port: u16,
}

#[derive(Default)]
struct Model {
    users: BTreeMap<u8, BTreeMap<Key, Held>>,
}

impl Model {
    /// Answers the status; on 200 the model has changed, else it has not.
    fn register(&mut self, step: &Step, now: Time, config: &Config) -> u16 {
        let (user, call, cseq) = match step {
            Step::Register { user, call, cseq, .. } | Step::Clear { user, call, cseq } => {
                (*user, *call, *cseq)
            }
            _ => return 0,
        };
        let before = self.users.get(&user).cloned().unwrap_or_default();
        let mut after: BTreeMap<Key, Held> =
            before.into_iter().filter(|(_, held)| held.expires > now).collect();
        let stored = after.clone();
        let call = format!("call{call}");
        let stale = |key: &Key, written: &[Key]| {
            !written.contains(key)
                && stored.get(key).is_some_and(|held| held.call == call && cseq <= held.cseq)
        };
        let status = match step {
            Step::Register { contacts, .. } if contacts.is_empty() => return 200,
            Step::Register { contacts, port, .. } => {
                let lasting = |c: &&Contact| c.expires != Some(0);
                if contacts.iter().any(|c| c.expires.is_some_and(|e| e > 0 && e < config.min_expires)) {
                    return 423;
                }
                if contacts.iter().filter(lasting).count() > 1
                    && contacts.iter().filter(lasting).any(|c| c.reg_id > 0)
                {
                    return 400;
                }
                let mut written = Vec::new();
                for c in contacts {
                    let mut keys = vec![(c.phone, c.reg_id)];
                    if c.expires == Some(0) && c.reg_id == 0 && !after.contains_key(&keys[0]) {
                        keys = after.keys().filter(|(phone, _)| *phone == c.phone).copied().collect();
                    }
                    for key in keys {
                        if after.contains_key(&key) && stale(&key, &written) {
                            return 500;
                        }
                        after.remove(&key);
                        if c.expires == Some(0) {
                            continue;
                        }
                        let seconds = c.expires.unwrap_or(config.default_expires).min(config.max_expires);
                        let held = Held {
                            q: c.q.map_or(1000, |q| u16::from(q) * 100),
                            expires: now + Duration::from_secs(u64::from(seconds)),
                            call: call.clone(),
                            cseq,
                            port: *port,
                        };
                        after.insert(key, held);
                        written.push(key);
                    }
                }
                let added = after.keys().any(|key| !stored.contains_key(key));
                if added && after.len() > config.max_bindings { 403 } else { 200 }
            }
            _ => {
                if after.keys().any(|key| stale(key, &[])) {
                    return 500;
                }
                after.clear();
                200
            }
        };
        if status == 200 {
            self.users.insert(user, after);
        }
        status
    }

    fn live(&self, user: u8, now: Time) -> Vec<(Key, Held)> {
        let mut live: Vec<_> = self.users.get(&user).into_iter().flatten().collect();
        live.retain(|(_, held)| held.expires > now);
        live.sort_by_key(|(_, held)| std::cmp::Reverse(held.q));
        live.into_iter().map(|(key, held)| (*key, held.clone())).collect()
    }
}

/// What a store would hold after following the changes.
type Store = BTreeMap<(Vec<u8>, Vec<u8>, Vec<u8>, u32), Record>;

fn follow(store: &mut Store, changes: &mut Vec<Change>) {
    for change in changes.drain(..) {
        match change {
            Change::Put(r) => {
                store.insert((r.aor.to_vec(), r.contact.to_vec(), r.instance.to_vec(), r.reg_id), r);
            }
            Change::Delete { aor, contact, instance, reg_id } => {
                let key = (aor.to_vec(), contact.to_vec(), instance.to_vec(), reg_id);
                assert!(store.remove(&key).is_some(), "deleted what was never put: {key:?}");
            }
        }
    }
}

fn aor(user: u8) -> Vec<u8> {
    format!("user{user}@example.com").into_bytes()
}

fn text_of(step: &Step) -> Option<(u8, u16, String)> {
    match step {
        Step::Register { user, call, cseq, contacts, port } => {
            let lines: Vec<String> = contacts
                .iter()
                .map(|c| {
                    let mut line = format!("Contact: <sip:p@192.0.2.{}:5070;x={}>", c.phone, cseq % 2);
                    if let Some(expires) = c.expires {
                        line += &format!(";expires={expires}");
                    }
                    if let Some(q) = c.q {
                        line += &format!(";q={}.{}", q / 10, q % 10);
                    }
                    if c.reg_id > 0 {
                        line += &format!(";reg-id={};+sip.instance=\"<urn:uuid:{}>\"", c.reg_id, c.phone);
                    }
                    // The x parameter changes the text, and not the URI as long as one side lacks it.
                    if c.phone % 2 == 0 {
                        line.replace(&format!(";x={}", cseq % 2), "")
                    } else {
                        line.replace(";x=1", "").replace(";x=0", ";y")
                    }
                })
                .collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            Some((*user, *port, request("sip:example.com", &format!("call{call}"), *cseq, &lines)))
        }
        Step::Clear { user, call, cseq } => Some((
            *user,
            1,
            request("sip:example.com", &format!("call{call}"), *cseq, &["Contact: *", "Expires: 0"]),
        )),
        _ => None,
    }
}

fn received_from(port: u16) -> Flow {
    Flow::udp(ListenerId(0), ([198, 51, 100, 1], port).into())
}

fn check(table: &Table, model: &Model, now: Time) -> Result<(), TestCaseError> {
    let mut ports = Vec::new();
    for user in 0..5 {
        let want = model.live(user, now);
        let mut got = Vec::new();
        table.bindings(&aor(user), now, |b| {
            let phone = b.contact[b"sip:p@192.0.2.".len()] - b'0';
            let call = String::from_utf8_lossy(b.call_id).into_owned();
            got.push((phone, b.reg_id, b.q, b.expires, call, b.cseq, b.flow));
        });
        // The order among equals is nobody's business.
        prop_assert!(got.is_sorted_by_key(|g| std::cmp::Reverse(g.2)));
        got.sort_by_key(|g| (std::cmp::Reverse(g.2), g.0, g.1));
        let want: Vec<_> = want
            .into_iter()
            .map(|((phone, reg_id), h)| {
                ports.push(h.port);
                (phone, reg_id, h.q, h.expires, h.call, h.cseq, received_from(h.port))
            })
            .collect();
        prop_assert_eq!(got, want, "user {}", user);
    }
    for port in ports {
        prop_assert!(table.has_contact_address(received_from(port).remote));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_table_does_what_the_model_does(steps in prop::collection::vec(step(), 1..120)) {
        let config = Config { max_bindings: 4, ..Config::default() };
        let (mut table, mut model) = (Table::new([3, 4], 1000, true), Model::default());
        let (mut store, mut changes) = (Store::new(), Vec::new());
        let mut now = Time::from_secs(50_000);
        let mut index = Index::new();
        for step in &steps {
            if let Some((user, port, text)) = text_of(step) {
                let Parsed::Good(message) = parse(text.as_bytes(), &mut index, &Limits::default()) else {
                    panic!("not a good message: {text}")
                };
                let aor = aor(user);
                let read = Registration::read(&message, &aor, received_from(port), &config, PathPolicy::Refuse);
                let reply = match read {
                    Ok(registration) => registration.apply(now, &config, &mut table, &mut changes),
                    Err(refusal) => refusal,
                };
                prop_assert_eq!(reply.status, model.register(step, now, &config), "{:?}", step);
                if reply.status == 200 {
                    prop_assert_eq!(lines_of(&reply).len(), model.live(user, now).len());
                } else {
                    prop_assert!(changes.is_empty());
                }
            }
            match step {
                Step::Pass(seconds) => now = now + Duration::from_secs(*seconds),
                Step::Sweep(max) => { table.expire(now, *max, &mut changes); }
                Step::Restart => {
                    follow(&mut store, &mut changes);
                    table = Table::new([now.as_secs(), 9], 1000, true);
                    for record in store.values() {
                        table.restore(record).expect("room");
                    }
                }
                _ => {}
            }
            follow(&mut store, &mut changes);
            check(&table, &model, now)?;
        }
        // The store knows every live binding as the table does.
        let mut live = BTreeMap::new();
        table.scan(0, usize::MAX, now, |aor, b| {
            live.insert((aor.to_vec(), b.contact.to_vec(), b.instance.to_vec(), b.reg_id), b.to_record(aor));
        });
        store.retain(|_, record| record.expires > now);
        prop_assert_eq!(&store, &live);
        // And at the end of all time nothing is left behind.
        now = now + Duration::from_secs(20_000);
        while table.expire(now, 3, &mut changes) {}
        prop_assert!(table.is_empty() && table.aors() == 0);
        for port in 1..4 {
            prop_assert!(!table.has_contact_address(received_from(port).remote));
        }
    }
}
