//! The API as a whole, over its socket, with a server behind it that only pretends.

mod ctl;
mod dashboard;
mod users;

use super::routes::{OPENAPI, ROUTES};
use super::users::USER_ROUTES;
use super::*;
use crate::client::{Client, ClientError, Command, Output, run};
use crate::config::{AdminAccess, ConfigError, ReloadReport};
use serde_json::Value;
use sip_node::call_forwarding::Rules;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Bindings that the pretended server has.
const BINDINGS: usize = 2500;

/// Connections that it has.
const CONNECTIONS: usize = 1500;

fn peer(at: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 10_000 + at as u16))
}

fn connection(at: usize) -> Connection {
    Connection {
        transport: "tls".into(),
        peer: peer(at).to_string(),
        names: vec!["peer.example".into()],
        inbound: true,
        state: "open".into(),
        age_s: 75,
        idle_s: 3,
        bytes_in: 4_000,
        bytes_out: 5_000,
        queued: 0,
        tls: Some("1.3".into()),
        suite: Some("TLS13_AES_256_GCM_SHA384".into()),
        worker: 1,
    }
}

/// Refused requests that it has kept.
const REFUSED: usize = 250;

fn refused(at: usize, source: IpAddr) -> RefusedRequest {
    RefusedRequest {
        ago_s: at as u64,
        source: source.to_string(),
        about: format!("user{at:03}@example.com"),
        reason: "wrong credentials".into(),
        times: 1,
        worker: 0,
    }
}

fn certificate() -> CertificateStatus {
    CertificateStatus {
        trunk: None,
        chain: "fullchain.pem".into(),
        key: "privkey.pem".into(),
        names: vec!["example.com".into(), "*.example.com".into()],
        serves: vec!["example.com".into()],
        default: true,
        issuer: Some("CN=Some Authority".into()),
        not_after: Some("Sat, 13 Nov 2027 23:29:00 GMT".into()),
        days_left: Some(12),
        key_kind: Some("ECDSA P-256".into()),
        fault: Some("privkey.pem: is not the key".into()),
    }
}

/// What a balancer has.
fn balance() -> Role {
    let records = Records { alive: 3, ended: 40, transactions: 90 };
    Role::Balance(BalanceStatus { unfinished_transactions: 4, records })
}

#[derive(Default)]
pub(super) struct Pretend {
    balances: AtomicBool,
    drained: AtomicBool,
    stops: AtomicBool,
    bad_config: AtomicBool,
    panics: AtomicBool,
    hangs: AtomicBool,
    users: PretendUsers,
}

/// The password, the rules and the class of a user.
type PretendUser = (String, Rules, Option<String>);

/// Users in memory.
#[derive(Default)]
struct PretendUsers(Mutex<BTreeMap<String, PretendUser>>);

impl PretendUsers {
    fn show(aor: &str, rules: &Rules) -> User {
        let (created, modified) = ("2026-11-30 00:00:00".to_owned(), "2026-11-30 00:00:00".to_owned());
        let forwarding = BTreeMap::new();
        let user = User {
            aor: aor.to_owned(),
            created,
            modified,
            bindings: 0,
            class: None,
            forwarding,
            also_ring: Vec::new(),
            ring_time: None,
            do_not_disturb: false,
        };
        user.with_rules(rules)
    }
}

impl Users for PretendUsers {
    fn list(&self, search: &UserSearch, page: &Page) -> Result<Option<Listing<User>>, UserFault> {
        let users = self.0.lock().unwrap();
        if page.after.as_ref().is_some_and(|after| !users.contains_key(after)) {
            return Ok(None);
        }
        let found = |aor: &str| search.text.as_ref().is_none_or(|text| aor.contains(text));
        let after = |aor: &str| page.after.as_ref().is_none_or(|after| aor > after.as_str());
        let mut all = users.iter().filter(|(aor, _)| found(aor) && after(aor));
        let items: Vec<User> =
            all.by_ref().take(page.limit).map(|(aor, user)| Self::show(aor, &user.1)).collect();
        let next = all.next().and(items.last()).map(|last| last.aor.clone());
        Ok(Some(Listing { items, next }))
    }

    fn get(&self, aor: &str) -> Result<Option<User>, UserFault> {
        if !aor.contains('@') {
            return Err(UserFault::Field("aor".into(), "has no domain".into()));
        }
        let users = self.0.lock().unwrap();
        let shown = |user: &PretendUser| User { class: user.2.clone(), ..Self::show(aor, &user.1) };
        Ok(users.get(aor).map(shown))
    }

    fn write(&self, aor: &str, change: &UserChange) -> Result<(), UserFault> {
        let mut users = self.0.lock().unwrap();
        let user = users.entry(aor.to_owned()).or_default();
        user.1 = change.rules.clone();
        user.2 = change.class.clone().unwrap_or_else(|| user.2.clone());
        user.0 = change.password.clone().unwrap_or_else(|| user.0.clone());
        Ok(())
    }

    fn remove(&self, aor: &str) -> Result<bool, UserFault> {
        Ok(self.0.lock().unwrap().remove(aor).is_some())
    }

    fn unbind(&self, _aor: &str) -> Result<(), UserFault> {
        Ok(())
    }
}

impl Admin for Pretend {
    fn status(&self) -> Status {
        assert!(!self.panics.load(SeqCst), "as the test asked");
        let serve = ServeStatus {
            domains: vec!["example.com".into(), "<script>alert(1)</script>".into()],
            auth: true,
            logins: Some(Logins { passed: 41, failed: 3, held_off: 2 }),
            registered: 7,
            bindings: BINDINGS as u64,
            server_transactions: 4,
            client_transactions: 5,
            store: StoreStatus { healthy: true, pending: 0, detail: "sqlite".into() },
            overload: "none".into(),
            memory: "messages hold 1 MiB of 256 MiB".into(),
        };
        Status {
            role: if self.balances.load(SeqCst) { balance() } else { Role::Serve(serve) },
            state: match (self.stops.load(SeqCst), self.drained.load(SeqCst)) {
                (true, _) => State::Stopping,
                (_, true) => State::Draining,
                _ => State::Ready,
            },
            version: "1.2.3".into(),
            pid: 42,
            uptime_s: 90_061,
            workers: 2,
            steering: "ring between workers".into(),
            config_file: None,
            listeners: vec!["udp:0.0.0.0:5060".into()],
            calls: 3,
            connections: 6,
            messages_received: 100,
            messages_sent: 200,
            alarms: vec!["disk \"full\" & more".into()],
        }
    }

    fn users(&self) -> Option<&dyn Users> {
        (!self.balances.load(SeqCst)).then_some(&self.users as &dyn Users)
    }

    fn live(&self) -> Live {
        let status = self.status();
        let nodes = vec![node(NodeOrder::Serve)];
        let role = match self.balances.load(SeqCst) {
            true => LiveRole::Balance(LiveBalance {
                algorithm: "tlwl".into(),
                assigned: 9,
                requests_refused: 1,
                held_back: 2,
                nodes,
            }),
            false => LiveRole::Serve(LiveServe { answer: Times(vec![(8, 3)]), ..LiveServe::default() }),
        };
        Live {
            role,
            at_ms: 5,
            state: status.state,
            calls: status.calls,
            connections: status.connections,
            messages_received: status.messages_received,
            messages_sent: status.messages_sent,
            // The name of a node may have any text.
            alarms: vec!["two\nlines\r".into()],
        }
    }

    fn ready(&self) -> Result<(), String> {
        match (self.drained.load(SeqCst), self.hangs.load(SeqCst)) {
            (true, _) => Err("draining".into()),
            (_, true) => Err("worker 1 does not answer".into()),
            _ => Ok(()),
        }
    }

    fn bindings(&self, aor: Option<&str>, page: &Page) -> Option<Listing<Binding>> {
        let from = page.after.as_ref().map_or(Some(0), |after| after.parse().ok())?;
        let all = (0..BINDINGS).map(|i| format!("user{i:04}@example.com"));
        let all = all.filter(|a| page.search.takes(&[a.as_bytes()]));
        let mut rest = all.filter(|a| aor.is_none_or(|aor| aor == a)).skip(from);
        let items = rest.by_ref().take(page.limit).map(binding).collect();
        let next = rest.next().map(|_| (from + page.limit).to_string());
        Some(Listing { items, next })
    }

    fn calls(&self, page: &Page) -> Option<Listing<Call>> {
        page.after.is_none().then(|| Listing { items: Vec::new(), next: None })
    }

    fn trunks(&self, page: &Page) -> Option<Listing<TrunkTarget>> {
        page.after.is_none().then(|| Listing { items: vec![trunk_target()], next: None })
    }

    fn number(&self, _number: &str) -> Option<NumberRoute> {
        Some(number_route())
    }

    fn connections(&self, filter: &ConnectionFilter, page: &Page) -> Option<Listing<Connection>> {
        let from = page.after.as_ref().map_or(Some(0), |after| after.parse().ok())?;
        let all = (0..CONNECTIONS).filter(|at| filter.port.is_none_or(|port| port == peer(*at).port()));
        let mut rest = all.filter(|at| filter.search.takes(&[peer(*at).to_string().as_bytes()])).skip(from);
        let items = rest.by_ref().take(page.limit).map(connection).collect();
        Some(Listing { items, next: rest.next().map(|_| (from + page.limit).to_string()) })
    }

    fn refused(&self, filter: &RefusedFilter, most: usize) -> Vec<RefusedRequest> {
        let all = (0..REFUSED).map(|n| refused(n, [192, 0, 2, n as u8].into()));
        all.filter(|one| filter.takes(one.source.parse().unwrap(), &one.about)).take(most).collect()
    }

    fn certificates(&self) -> Vec<CertificateStatus> {
        vec![certificate()]
    }

    fn reload(&self) -> Result<ReloadReport, Vec<ConfigError>> {
        if self.bad_config.load(SeqCst) {
            return Err(vec![ConfigError {
                file: "s.toml".into(),
                line: 3,
                column: 4,
                message: "unknown key `x`".into(),
                mend: String::new(),
            }]);
        }
        Ok(ReloadReport { changed: vec!["proxy".into()], warnings: vec!["mind the gap".into()] })
    }

    fn drain(&self) {
        self.drained.store(true, SeqCst);
    }

    fn metrics(&self, out: &mut String) {
        out.push_str("strowger_up 1\n");
    }

    fn is_balancer(&self) -> bool {
        self.balances.load(SeqCst)
    }

    fn nodes(&self) -> Option<Nodes> {
        let items = vec![node(NodeOrder::Serve)];
        (!self.bad_config.load(SeqCst)).then(|| Nodes { algorithm: "tlwl".into(), items })
    }

    fn add_node(&self, written: &str) -> Result<BalancedNode, String> {
        if written == "x" { Err("is there already".into()) } else { Ok(node(NodeOrder::Serve)) }
    }

    fn audit(&self) -> Option<Audit> {
        let exact = !self.drained.load(SeqCst);
        let wrong = if exact { Vec::new() } else { vec![1] };
        let audit = Audit { exact, workers: 2, unanswered: 0, wrong, alive: 3, ended: 4, transactions: 5 };
        (!self.bad_config.load(SeqCst)).then_some(audit)
    }

    fn set_algorithm(&self, _name: &str) -> Result<Nodes, String> {
        self.nodes().ok_or_else(|| model::NO_BALANCER.to_owned())
    }

    fn order(&self, name: &str, order: NodeOrder) -> Result<BalancedNode, String> {
        let node = node(order);
        if node.name == name { Ok(node) } else { Err(format!("no node \"{name}\"")) }
    }
}

fn node(order: NodeOrder) -> BalancedNode {
    let times = |kind: &str, count| AnswerTimes {
        kind: kind.into(),
        count,
        mean_ms: 1.0,
        p50_ms: count as f64,
        p95_ms: 2.0,
        p99_ms: 3.0,
    };
    BalancedNode {
        name: "192.0.2.1:5060".into(),
        weight: 2,
        order,
        health: "up".into(),
        why: "answers".into(),
        takes_calls: order == NodeOrder::Serve,
        calls: 12,
        transactions: 3,
        work: 4.5,
        assigned: 99,
        falls: 0,
        times: vec![times("invite", 7), times("bye", 6)],
    }
}

fn binding(aor: String) -> Binding {
    Binding {
        aor,
        contact: "sip:x@192.0.2.1;ob".into(),
        q: 0.5,
        expires_s: 60,
        received: "udp:192.0.2.1:5060".into(),
        path: None,
        instance: None,
        user_agent: Some("Evil\u{1b}[31m".into()),
    }
}

fn access() -> AdminAccess {
    AdminAccess { listen: Some("127.0.0.1:0".parse().unwrap()), ..AdminAccess::default() }
}

fn start() -> (Arc<Pretend>, Server) {
    let pretend = Arc::new(Pretend::default());
    let server = Server::start(&access(), Arc::clone(&pretend) as Arc<dyn Admin>).unwrap().unwrap();
    (pretend, server)
}

/// Sends a request as it is and returns status and the whole answer.
fn raw(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer)
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    raw(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

fn post(address: SocketAddr, path: &str, headers: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    raw(address, &format!("{head}Content-Length: {length}\r\n{headers}\r\n{body}"))
}

const JSON: &str = "Content-Type: application/json\r\n";

fn ctl(address: SocketAddr, command: &Command, output: Output) -> Result<String, ClientError> {
    let mut out = Vec::new();
    run(&Client::new(&address.to_string(), None)?, command, output, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn the_description_lists_exactly_the_routes() {
    let described: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut listed = BTreeSet::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        listed.extend(methods.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())));
    }
    let all = ROUTES.iter().chain(USER_ROUTES);
    let served: BTreeSet<_> = all.map(|(m, p, _)| (m.to_string(), p.to_string())).collect();
    assert_eq!(listed, served);
}

#[test]
fn every_route_answers_and_only_with_its_method() {
    let (_, server) = start();
    for (method, path, _) in ROUTES {
        // It goes on for as long as there is a listener.
        if *path == "/v1/events" {
            continue;
        }
        let query = match *path {
            "/v1/routes" => "?number=%2B4930",
            path if path.starts_with("/v1/nodes/") => "?name=192.0.2.1:5060",
            _ => "",
        };
        let asked = format!("{path}{query}");
        let (expected, wrong) = match *method {
            "get" => (get(server.address(), &asked), post(server.address(), &asked, JSON, "{}")),
            _ => (post(server.address(), &asked, JSON, "{}"), get(server.address(), &asked)),
        };
        assert!((200..300).contains(&expected.0) || *path == "/readyz", "{path}: {}", expected.1);
        assert_eq!(wrong.0, 405, "{path}: {}", wrong.1);
        let cache = if *path == "/" { "cache-control: no-cache" } else { "cache-control: no-store" };
        assert!(expected.1.to_lowercase().contains(cache), "{path}");
    }
    let (status, answer) = get(server.address(), "/nowhere");
    assert_eq!(status, 404);
    assert!(answer.ends_with("{\"error\":\"no such path; see /openapi.json\"}"), "{answer}");
}

/// The keys that a schema requires, and those that a value has.
fn keys(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap().keys().cloned().collect()
}

/// A status has the fields of every one, and those of its role.
fn status_keys(schemas: &Value, own: &str, value: &Value) {
    let described = |name: &str| keys(&schemas[name]["properties"]);
    assert_eq!(&described("CommonStatus") | &described(own), keys(value), "{own}");
}

/// Likewise of live values.
fn live_keys(schemas: &Value, own: &str, value: &Value) {
    let described = |name: &str| keys(&schemas[name]["properties"]);
    assert_eq!(&described("CommonLive") | &described(own), keys(value), "{own}");
}

fn same_keys(schemas: &Value, name: &str, value: &Value) {
    assert_eq!(keys(&schemas[name]["properties"]), keys(value), "{name}");
}

fn trunk_target() -> TrunkTarget {
    TrunkTarget {
        list: "trunk carrier".into(),
        target: "sip:192.0.2.9".into(),
        state: "down".into(),
        why: "requests are not answered".into(),
        since_s: Some(75),
        calls: 9,
        failures: 2,
        last_error: Some("no response".into()),
        last_error_s: Some(70),
        silent: vec!["udp:192.0.2.9:5060".into()],
        trunk: Some(TrunkLoad { calls: 7, channels: Some(10), ..TrunkLoad::default() }),
    }
}

fn number_route() -> NumberRoute {
    let trunk = NumberTrunk {
        trunk: "carrier".into(),
        line: Some(2),
        priority: Some(1),
        cost: Some(0.5),
        targets: vec!["sip:192.0.2.9".into()],
        down: Vec::new(),
    };
    NumberRoute {
        number: "+4930".into(),
        prefix: Some("+49".into()),
        source: Some("routes.csv".into()),
        before: None,
        trunks: vec![trunk],
    }
}

#[test]
fn the_description_names_every_field() {
    let described: Value = serde_json::from_str(OPENAPI).unwrap();
    let schemas = &described["components"]["schemas"];
    let pretend = Pretend::default();
    let status = serde_json::to_value(pretend.status()).unwrap();
    status_keys(schemas, "ServeStatus", &status);
    live_keys(schemas, "LiveServe", &serde_json::to_value(pretend.live()).unwrap());
    same_keys(schemas, "StoreStatus", &status["store"]);
    pretend.balances.store(true, SeqCst);
    let status = serde_json::to_value(pretend.status()).unwrap();
    status_keys(schemas, "BalanceStatus", &status);
    live_keys(schemas, "LiveBalance", &serde_json::to_value(pretend.live()).unwrap());
    same_keys(schemas, "Records", &status["records"]);
    same_keys(schemas, "Binding", &serde_json::to_value(binding(String::new())).unwrap());
    let call = Call {
        call_id: String::new(),
        from: String::new(),
        to: String::new(),
        state: String::new(),
        age_s: 0,
        session: None,
        session_interval_s: None,
        refreshed_s: 0,
        worker: 0,
    };
    same_keys(schemas, "Call", &serde_json::to_value(call).unwrap());
    same_keys(schemas, "Calls", &serde_json::to_value(pretend.calls(&Page::default()).unwrap()).unwrap());
    same_keys(schemas, "TrunkTarget", &serde_json::to_value(trunk_target()).unwrap());
    same_keys(schemas, "TrunkLoad", &serde_json::to_value(TrunkLoad::default()).unwrap());
    let trunks = pretend.trunks(&Page::default()).unwrap();
    same_keys(schemas, "TrunkTargets", &serde_json::to_value(trunks).unwrap());
    same_keys(schemas, "NumberRoute", &serde_json::to_value(number_route()).unwrap());
    same_keys(schemas, "NumberTrunk", &serde_json::to_value(&number_route().trunks[0]).unwrap());
    same_keys(schemas, "Connection", &serde_json::to_value(connection(1)).unwrap());
    same_keys(schemas, "RefusedRequest", &serde_json::to_value(refused(1, [192, 0, 2, 1].into())).unwrap());
    same_keys(schemas, "CertificateStatus", &serde_json::to_value(certificate()).unwrap());
    same_keys(schemas, "ReloadReport", &serde_json::to_value(pretend.reload().unwrap()).unwrap());
    pretend.bad_config.store(true, SeqCst);
    let findings = pretend.reload().unwrap_err();
    same_keys(schemas, "Finding", &serde_json::to_value(&findings[0]).unwrap());
    let refusal = Refusal { error: String::new(), findings };
    same_keys(schemas, "Refusal", &serde_json::to_value(refusal).unwrap());
    let user = serde_json::to_value(PretendUsers::show("a@b", &Rules::default())).unwrap();
    same_keys(schemas, "User", &user);
    same_keys(schemas, "UserForwarding", &user["forwarding"]);
    let list = Listing { items: vec![user], next: None };
    same_keys(schemas, "Users", &serde_json::to_value(list).unwrap());
    // What can be changed is what can be read, and the password.
    let mut changed = keys(&schemas["UserChange"]["properties"]);
    assert!(changed.remove("password") && changed.is_subset(&keys(&schemas["User"]["properties"])));
}

#[test]
fn a_foreign_host_or_page_gets_nothing() {
    let (pretend, server) = start();
    let rebound = "GET /v1/status HTTP/1.1\r\nHost: evil.example:8080\r\nConnection: close\r\n\r\n";
    let (status, answer) = raw(server.address(), rebound);
    assert_eq!(status, 403);
    assert!(!answer.contains("1.2.3"), "{answer}");
    for headers in ["", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"]
    {
        assert_eq!(post(server.address(), "/v1/drain", headers, "{}").0, 415, "{headers}");
    }
    let foreign = format!("{JSON}Origin: http://evil.example\r\n");
    assert_eq!(post(server.address(), "/v1/drain", &foreign, "{}").0, 403);
    assert!(!pretend.drained.load(SeqCst));
    assert!(!get(server.address(), "/v1/status").1.to_lowercase().contains("access-control"));
}

#[test]
fn large_bodies_and_heads_are_refused() {
    let (pretend, server) = start();
    assert_eq!(post(server.address(), "/v1/drain", JSON, &"x".repeat(5000)).0, 413);
    assert!(!pretend.drained.load(SeqCst));
    let long = format!("/v1/bindings?aor={}", "a".repeat(600));
    assert_eq!(get(server.address(), &long).0, 400);
    for query in ["limit=0", "limit=1001", "limit=x", "colour=red", "after=x"] {
        assert_eq!(get(server.address(), &format!("/v1/bindings?{query}")).0, 400, "{query}");
    }
    assert_eq!(get(server.address(), "/v1/calls?aor=a").0, 400);
    let (status, answer) = get(server.address(), "/v1/calls?after=x");
    assert_eq!(status, 400);
    assert!(answer.contains("after must be the `next` of an earlier page"), "{answer}");
}

#[test]
fn connections_that_come_and_go_leave_room() {
    let (_, server) = start();
    for _ in 0..3 {
        let idle: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        assert_eq!(get(server.address(), "/healthz").0, 200);
        drop(idle);
    }
    assert_eq!(get(server.address(), "/healthz").0, 200);
}

#[test]
fn readiness_follows_the_state() {
    let (pretend, server) = start();
    assert!(get(server.address(), "/readyz").1.ends_with("ready\n"));
    pretend.hangs.store(true, SeqCst);
    let (status, answer) = get(server.address(), "/readyz");
    assert_eq!(status, 503);
    assert!(answer.ends_with("worker 1 does not answer\n"));
    pretend.hangs.store(false, SeqCst);
    let (status, answer) = post(server.address(), "/v1/drain", JSON, "");
    assert_eq!(status, 202, "{answer}");
    assert!(pretend.drained.load(SeqCst));
    let (status, answer) = get(server.address(), "/readyz");
    assert_eq!(status, 503);
    assert!(answer.ends_with("draining\n"));
    assert_eq!(get(server.address(), "/healthz").0, 200);
}

#[test]
fn a_failing_server_is_a_500_and_the_api_lives_on() {
    let (pretend, server) = start();
    pretend.panics.store(true, SeqCst);
    assert_eq!(get(server.address(), "/v1/status").0, 500);
    pretend.panics.store(false, SeqCst);
    assert_eq!(get(server.address(), "/v1/status").0, 200);
}

#[test]
fn plain_page_shows_text_as_text() {
    let (_, server) = start();
    let (status, page) = get(server.address(), "/plain");
    assert_eq!(status, 200);
    assert!(page.contains("Strowger 1.2.3 is ready"));
    assert!(page.contains("1 d 1 h"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script>"));
    assert!(page.contains("disk &quot;full&quot; &amp; more"));
    assert!(page.contains("http-equiv=\"refresh\""));
    let mut none = Pretend::default().status();
    if let Role::Serve(own) = &mut none.role {
        own.domains.clear();
    }
    assert!(page::render(&none, None).contains("those of the subscribers"), "no domain is no empty cell");
    assert!(page.contains("/v1/bindings") && !page.contains("Nodes, by"), "{page}");
    let balancer = Status { role: balance(), ..Pretend::default().status() };
    let page = page::render(&balancer, Pretend::default().nodes().as_ref());
    let row = "<th scope=\"row\">192.0.2.1:5060</th><td>2</td><td>serve</td><td>up</td><td>12</td><td>3</td><td>answers</td>";
    assert!(page.contains("<h2>Nodes, by tlwl</h2>") && page.contains(row), "{page}");
    assert!(page.contains("/v1/nodes") && !page.contains("/v1/bindings"), "{page}");
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing from elsewhere");
}

#[test]
fn status_page_links_every_path_that_can_be_read() {
    let server = page::render(&Pretend::default().status(), None);
    let status = Status { role: balance(), ..Pretend::default().status() };
    let balancer = page::render(&status, Pretend::default().nodes().as_ref());
    for (method, path, _) in ROUTES {
        let link = format!("<a href=\"{path}\">");
        let linked = server.contains(&link) || balancer.contains(&link);
        // The pages themselves, what cannot be read without naming a number, and what never ends.
        let others = ["/", "/plain", "/v1/routes", "/v1/events"];
        let is_read_alone = *method == "get" && !others.contains(path);
        assert_eq!(linked, is_read_alone, "{method} {path}");
    }
    assert!(server.contains("/v1/trunks") && !balancer.contains("/v1/trunks"));
    assert!(balancer.contains("/v1/nodes/audit") && !server.contains("/v1/nodes"));
}

#[test]
fn a_token_locks_everything_but_the_probes() {
    let path = std::env::temp_dir().join(format!("strowger-token-{}", std::process::id()));
    let with = AdminAccess { token_file: Some(path.clone()), ..access() };
    let begin = |content: &str| {
        std::fs::write(&path, content).unwrap();
        Server::start(&with, Arc::new(Pretend::default()))
    };
    assert!(begin("short\n").is_err());
    let server = begin("0123456789abcdef\nsecond line\n").unwrap().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(Server::start(&with, Arc::new(Pretend::default())).is_err(), "no file, no server");
    let (status, answer) = get(server.address(), "/metrics");
    assert_eq!(status, 401);
    assert!(answer.to_lowercase().contains("www-authenticate: bearer"));
    assert_eq!(get(server.address(), "/readyz").0, 200);
    let address = server.address().to_string();
    assert!(matches!(
        Client::new(&address, None).unwrap().status(),
        Err(ClientError::Refused { status: 401, .. })
    ));
    assert_eq!(Client::new(&address, Some("0123456789abcdef")).unwrap().status().unwrap().pid, 42);
}

#[test]
fn other_machines_are_kept_out_unless_told() {
    let open = AdminAccess { listen: Some("0.0.0.0:0".parse().unwrap()), ..access() };
    let refused = Server::start(&open, Arc::new(Pretend::default())).err().unwrap();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    let told = AdminAccess { allow_remote: true, ..open };
    assert!(Server::start(&told, Arc::new(Pretend::default())).unwrap().is_some());
    let off = AdminAccess { listen: None, ..access() };
    assert!(Server::start(&off, Arc::new(Pretend::default())).unwrap().is_none());
}
