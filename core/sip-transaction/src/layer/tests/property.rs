//! Random peers, transaction user, transport and time, against what must always hold:
//!
//! - a server transaction sends one final response (of an INVITE: one failure, or successes);
//! - nothing is sent anywhere but to its transaction's own flow;
//! - what is delivered to the transaction user follows the same rule, and goes to the right user;
//! - each transaction ends with exactly one event, and none is heard of before it began;
//! - the layer's limits hold, and it empties by itself when traffic stops.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const METHODS: [&str; 5] = ["INVITE", "BYE", "OPTIONS", "ACK", "CANCEL"];
const STATUSES: [u16; 9] = [100, 180, 183, 200, 202, 302, 408, 487, 603];
const LIMIT: usize = 12;

#[derive(Clone, Debug)]
enum Op {
    Receive { method: usize, via: u8, call: u8, from: u8, reliable: bool },
    Respond { which: usize, status: usize },
    Send { invite: bool, to: u8, reliable: bool },
    Reserve,
    Hear { which: usize, status: usize, cancel: bool, tag: bool },
    Cancel { which: usize },
    Fail { which: usize },
    Abandon { which: usize, server: bool },
    Pass { micros: u64 },
    Poll,
}

fn op() -> impl Strategy<Value = Op> {
    let which = 0..64usize;
    let status = 0..STATUSES.len();
    prop_oneof![
        8 => (0..METHODS.len(), 0..6u8, 0..2u8, 0..3u8, any::<bool>())
            .prop_map(|(method, via, call, from, reliable)| Op::Receive { method, via, call, from, reliable }),
        6 => (which.clone(), status.clone()).prop_map(|(which, status)| Op::Respond { which, status }),
        4 => (any::<bool>(), 0..3u8, any::<bool>())
            .prop_map(|(invite, to, reliable)| Op::Send { invite, to, reliable }),
        1 => Just(Op::Reserve),
        8 => (which.clone(), status, any::<bool>(), any::<bool>())
            .prop_map(|(which, status, cancel, tag)| Op::Hear { which, status, cancel, tag }),
        3 => which.clone().prop_map(|which| Op::Cancel { which }),
        1 => which.clone().prop_map(|which| Op::Fail { which }),
        1 => (which, any::<bool>()).prop_map(|(which, server)| Op::Abandon { which, server }),
        6 => prop_oneof![0..5_000u64, 0..2_000_000u64, 0..40_000_000u64, 0..300_000_000u64]
            .prop_map(|micros| Op::Pass { micros }),
        2 => Just(Op::Poll),
    ]
}

/// What is known of a server transaction.
struct ServerModel {
    request: Request,
    flow: Flow,
    failures: u32,
    successes: u32,
    over: bool,
}

/// What is known of a client transaction.
struct ClientModel {
    text: String,
    invite: bool,
    flow: Flow,
    user: u64,
    failures: u32,
    successes: u32,
    cancelled: bool,
    provisional: bool,
    over: bool,
}

struct World {
    bench: Bench,
    servers: BTreeMap<ServerId, ServerModel>,
    clients: BTreeMap<ClientId, ClientModel>,
    /// Order of birth, for picking.
    server_ids: Vec<ServerId>,
    client_ids: Vec<ClientId>,
    tokens: Vec<u64>,
    users: u64,
}

impl World {
    fn new() -> World {
        World {
            bench: Bench::with(Timers::default(), Limits { server: LIMIT, client: LIMIT, bytes: 1 << 20 }),
            servers: BTreeMap::new(),
            clients: BTreeMap::new(),
            server_ids: Vec::new(),
            client_ids: Vec::new(),
            tokens: Vec::new(),
            users: 0,
        }
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Receive { method, via, call, from, reliable } => {
                self.receive(METHODS[method], via, call, if reliable { tcp(from) } else { udp(from) })?;
            }
            Op::Respond { which, status } => self.respond(which, STATUSES[status])?,
            Op::Send { invite, to, reliable } => self.send(invite, if reliable { tcp(to) } else { udp(to) }),
            Op::Reserve => {
                self.bench.layer.reserve_client(Payer::PROVEN);
            }
            Op::Hear { which, status, cancel, tag } => self.hear(which, STATUSES[status], cancel, tag)?,
            Op::Cancel { which } => {
                if let Some(id) = pick(&self.client_ids, which) {
                    self.bench.layer.cancel(self.bench.now, id, b"", &mut self.bench.out);
                    self.clients.entry(id).and_modify(|client| client.cancelled = true);
                }
            }
            Op::Fail { which } => {
                if let Some(token) = pick(&self.tokens, which) {
                    self.bench.layer.undeliverable(token, &mut self.bench.events);
                }
            }
            Op::Abandon { which, server } => self.abandon(which, server),
            Op::Pass { micros } => self.bench.pass(Duration::from_micros(micros)),
            Op::Poll => {
                let Bench { layer, now, out, events } = &mut self.bench;
                layer.handle_timeout(*now, out, events);
            }
        }
        self.check_transmits()?;
        self.check_events()?;
        self.check_counts()
    }

    fn receive(&mut self, method: &'static str, via: u8, call: u8, from: Flow) -> Result<(), TestCaseError> {
        let cookie = if via == 0 { "" } else { "z9hG4bK" };
        let request =
            Request { call_id: format!("call-{call}"), ..Request::new(method, &format!("{cookie}b{via}")) };
        let inbound = self.bench.receive(&request, from);
        let (Inbound::New(id) | Inbound::Cancel { id, .. }) = inbound else { return Ok(()) };
        prop_assert!(!matches!((inbound, method), (Inbound::New(_), "ACK" | "CANCEL")));
        if let Inbound::Cancel { invite: Some(invite), .. } = inbound {
            let target = &self.servers[&invite];
            prop_assert!(target.request.method == "INVITE" && !target.over);
            prop_assert_eq!(&target.request.call_id, &request.call_id);
        }
        let model = ServerModel { request, flow: from, failures: 0, successes: 0, over: false };
        prop_assert!(self.servers.insert(id, model).is_none(), "an id given twice");
        self.server_ids.push(id);
        self.bench.layer.set_user(id, id.as_u64());
        Ok(())
    }

    fn respond(&mut self, which: usize, status: u16) -> Result<(), TestCaseError> {
        let Some(id) = pick(&self.server_ids, which) else { return Ok(()) };
        let Some(model) = self.servers.get_mut(&id) else { return Ok(()) };
        let sent = self.bench.respond(id, &model.request.clone(), status);
        prop_assert!(!(sent && model.over), "a response of a transaction that is over");
        if sent && status >= 200 {
            *(if status < 300 { &mut model.successes } else { &mut model.failures }) += 1;
        }
        let invite = model.request.method == "INVITE";
        prop_assert!(model.failures <= 1 && (model.failures == 0 || model.successes == 0));
        prop_assert!(invite || model.failures + model.successes <= 1);
        if !model.over && invite && status >= 300 && model.failures + model.successes == 0 {
            return Err(TestCaseError::fail("the first final response was refused"));
        }
        Ok(())
    }

    fn send(&mut self, invite: bool, to: Flow) {
        if self.bench.layer.counts().client - self.bench.layer.counts().cancels >= LIMIT {
            assert_eq!(self.bench.layer.reserve_client(Payer::PROVEN), None);
            return;
        }
        self.users += 1;
        let user = self.users;
        let (id, text) = self.bench.send(if invite { Method::Invite } else { Method::Bye }, to, user);
        let model = ClientModel {
            text,
            invite,
            flow: to,
            user,
            failures: 0,
            successes: 0,
            cancelled: false,
            provisional: false,
            over: false,
        };
        self.clients.insert(id, model);
        self.client_ids.push(id);
    }

    fn hear(&mut self, which: usize, status: u16, cancel: bool, tag: bool) -> Result<(), TestCaseError> {
        let Some(id) = pick(&self.client_ids, which) else { return Ok(()) };
        let Some(model) = self.clients.get_mut(&id) else { return Ok(()) };
        let method = if cancel {
            "CANCEL"
        } else if model.invite {
            "INVITE"
        } else {
            "BYE"
        };
        let outcome = self.bench.hear(id, &model.text, status, method, if tag { "one" } else { "two" });
        let Outcome::Deliver { user } = outcome else { return Ok(()) };
        prop_assert_eq!(user, model.user);
        prop_assert!(!model.over && !cancel);
        match status {
            100..=199 => model.provisional = true,
            200..=299 => model.successes += 1,
            _ => model.failures += 1,
        }
        prop_assert!(model.failures <= 1 && (model.failures == 0 || model.successes == 0));
        prop_assert!(model.invite || model.failures + model.successes <= 1);
        Ok(())
    }

    fn abandon(&mut self, which: usize, server: bool) {
        if server {
            let Some(id) = pick(&self.server_ids, which) else { return };
            self.bench.layer.abandon_server(id);
            self.servers.entry(id).and_modify(|model| model.over = true);
        } else {
            let Some(id) = pick(&self.client_ids, which) else { return };
            self.bench.layer.abandon(id);
            self.clients.entry(id).and_modify(|model| model.over = true);
        }
    }

    /// Each message sent goes where its transaction's messages go.
    fn check_transmits(&mut self) -> Result<(), TestCaseError> {
        for transmit in self.bench.out.transmits() {
            let text = String::from_utf8_lossy(self.bench.out.message(transmit));
            match sender(transmit.token) {
                Some(Sender::Server(id)) => {
                    prop_assert_eq!(transmit.flow, self.servers[&id].flow, "{}", text);
                }
                Some(Sender::Client(_)) => {
                    // A CANCEL has an id of its own; the branch names the INVITE.
                    let (_, branch) = text.split_once("branch=z9hG4bK").expect("a branch");
                    let id = ClientId::decode(&branch.as_bytes()[..16]).expect("our branch");
                    let model = &self.clients[&id];
                    prop_assert_eq!(transmit.flow, model.flow, "{}", text);
                    if text.starts_with("CANCEL") {
                        prop_assert!(model.cancelled && model.provisional && model.invite);
                    }
                    if text.starts_with("ACK") {
                        prop_assert!(model.invite && model.successes == 0);
                    }
                }
                None => prop_assert!(false, "a token of nobody"),
            }
            self.tokens.push(transmit.token);
        }
        self.bench.out.clear();
        Ok(())
    }

    /// Each transaction ends once.
    fn check_events(&mut self) -> Result<(), TestCaseError> {
        for event in self.bench.happened() {
            match event {
                Event::ServerGone { id, user } => {
                    prop_assert_eq!(user, id.as_u64());
                    let model = self.servers.get_mut(&id).expect("a server transaction");
                    prop_assert!(!mem::replace(&mut model.over, true), "{:?} twice", event);
                }
                Event::AckTimeout { id, .. } | Event::ServerUnreachable { id, .. } => {
                    prop_assert!(!self.servers[&id].over);
                }
                Event::ClientTimeout { id, user }
                | Event::ClientUnreachable { id, user }
                | Event::ClientGone { id, user } => {
                    let model = self.clients.get_mut(&id).expect("a client transaction");
                    prop_assert_eq!(user, model.user);
                    prop_assert!(!mem::replace(&mut model.over, true), "{:?} twice", event);
                    let answered = model.failures + model.successes > 0;
                    match event {
                        Event::ClientTimeout { .. } => prop_assert!(!answered),
                        Event::ClientGone { .. } => prop_assert!(answered),
                        _ => {}
                    }
                }
                Event::User { .. } => prop_assert!(false, "no timer was scheduled"),
            }
        }
        Ok(())
    }

    fn check_counts(&mut self) -> Result<(), TestCaseError> {
        let counts = self.bench.layer.counts();
        prop_assert!(counts.server <= LIMIT && counts.client - counts.cancels <= LIMIT);
        prop_assert!(counts.cancels <= LIMIT);
        prop_assert_eq!(counts.server, self.servers.values().filter(|model| !model.over).count());
        // One timer runs for each transaction, in every state.
        prop_assert_eq!(counts.timers, counts.server + counts.client);
        prop_assert!(counts.timers == 0 || self.bench.layer.next_deadline().is_some());
        Ok(())
    }

    /// Silence: everything ends, with an event each.
    fn fall_silent(&mut self) -> Result<(), TestCaseError> {
        // The longest a state may last is the lifetime, and then 64*T1 after a CANCEL or a failure.
        self.bench.pass(Timers::default().lifetime + T1_X64 * 2);
        self.check_transmits()?;
        self.check_events()?;
        self.check_counts()?;
        self.bench.assert_empty();
        prop_assert!(self.servers.values().all(|model| model.over), "a server transaction without an end");
        prop_assert!(self.clients.values().all(|model| model.over), "a client transaction without an end");
        self.bench.pass(Duration::from_secs(3_600));
        prop_assert_eq!(self.bench.layer.next_deadline(), None);
        Ok(())
    }
}

/// Mostly one of the latest, sometimes an old one.
fn pick<T: Copy>(from: &[T], which: usize) -> Option<T> {
    let back = if which < 48 { which % 8 } else { which };
    from.len().checked_sub(1 + back % from.len().max(1)).and_then(|at| from.get(at)).copied()
}

proptest! {
    #[test]
    fn what_must_hold_holds(ops in prop::collection::vec(op(), 1..150)) {
        let mut world = World::new();
        for op in &ops {
            world.apply(op)?;
        }
        world.fall_silent()?;
    }

    #[test]
    fn a_seed_replays(ops in prop::collection::vec(op(), 1..60)) {
        let run = || {
            let mut world = World::new();
            for op in &ops {
                world.apply(op)?;
            }
            Ok::<_, TestCaseError>((world.server_ids, world.client_ids, world.tokens))
        };
        prop_assert_eq!(run()?, run()?);
    }
}
