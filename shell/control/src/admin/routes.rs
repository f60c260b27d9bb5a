//! The paths of the admin API and their answers.

use super::dashboard;
use super::events::{Events, HangUp, LISTENERS};
use super::guard::Guard;
use super::model::{
    Admin, Draining, Listing, NO_BALANCER, NO_LISTS, NodeOrder, Page, Refusal, State as ServerState,
};
use super::page;
use super::refused::RefusedFilter;
use super::search::Search;
use super::streams::ConnectionFilter;
use super::users::USER_ROUTES;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long an answer may take to be made, its request's body included.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest request body, octets. No request needs one.
const BODY_BYTES: usize = 4096;
/// Longest text of a query parameter, octets.
pub(super) const QUERY_BYTES: usize = 512;

/// What pages may load: files of this server, and nothing that stands in a page itself. So a text of a
/// stranger that became markup by a fault of ours would still run nothing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The description of this API.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// What every handler has.
#[derive(Clone)]
pub(super) struct Shared {
    admin: Arc<dyn Admin>,
    /// One reload at a time: two that overlap could each compare with a configuration that the
    /// other is replacing.
    reloading: Arc<Mutex<()>>,
    events: Arc<Events>,
}

/// One path: method, path, handler.
pub(super) type Entry = (&'static str, &'static str, fn() -> MethodRouter<Shared>);

/// Every path there is. The description is held against this list by a test.
pub(super) const ROUTES: &[Entry] = &[
    ("get", "/", || get(dashboard::page)),
    ("get", "/plain", || get(human_page)),
    ("get", "/v1/status", || get(status)),
    ("get", "/v1/events", || get(events)),
    ("get", "/v1/bindings", || get(bindings)),
    ("get", "/v1/calls", || get(calls)),
    ("get", "/v1/trunks", || get(trunks)),
    ("get", "/v1/routes", || get(number)),
    ("get", "/v1/connections", || get(connections)),
    ("get", "/v1/certificates", || get(certificates)),
    ("get", "/v1/refused", || get(refused)),
    ("post", "/v1/reload", || post(reload)),
    ("post", "/v1/drain", || post(drain)),
    ("get", "/v1/nodes", || get(nodes)),
    ("post", "/v1/nodes/drain", || post(node_drain)),
    ("post", "/v1/nodes/undrain", || post(node_undrain)),
    ("post", "/v1/nodes/maintain", || post(node_maintain)),
    ("post", "/v1/nodes/add", || post(node_add)),
    ("post", "/v1/nodes/remove", || post(node_remove)),
    ("get", "/v1/nodes/audit", || get(audit)),
    ("post", "/v1/nodes/algorithm", || post(algorithm)),
    ("get", "/metrics", || get(metrics)),
    ("get", "/openapi.json", || get(openapi)),
    ("get", "/v1/openapi.json", || get(openapi)),
    ("get", "/healthz", || get(healthz)),
    ("get", "/readyz", || get(readyz)),
];

/// Builds the whole service.
pub(super) fn router(admin: Arc<dyn Admin>, guard: Arc<Guard>) -> Router {
    let events = Events::new(Arc::clone(&admin));
    let shared = Shared { admin, reloading: Arc::new(Mutex::new(())), events };
    let mut router = dashboard::add(Router::new());
    for (_, path, handler) in ROUTES.iter().chain(USER_ROUTES) {
        router = router.route(path, handler());
    }
    router
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "no such path; see /openapi.json") })
        .method_not_allowed_fallback(|| async {
            refusal(StatusCode::METHOD_NOT_ALLOWED, "not with this method; see /openapi.json")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(from_fn(bounded))
        .layer(from_fn_with_state(guard, guarded))
        .with_state(shared)
}

/// An answer that says no, and why.
pub(super) struct No {
    status: StatusCode,
    body: Refusal,
}

impl IntoResponse for No {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}

/// Says no.
fn refusal(status: StatusCode, why: &str) -> No {
    No { status, body: Refusal { error: why.to_owned(), findings: Vec::new() } }
}

/// Applies the guard before, and the headers that keep browsers careful after.
async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.check(request.method(), request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err((status, why)) => refusal(status, why).into_response(),
    };
    let unauthorized = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    if unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    for name in ["cross-origin-resource-policy", "cross-origin-opener-policy"] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static("same-origin"));
    }
    response
}

/// Reads the request's body, small as it must be, and bounds the time for the whole answer.
async fn bounded(request: Request, next: Next) -> Response {
    let answer = async {
        let (head, body) = request.into_parts();
        match axum::body::to_bytes(body, BODY_BYTES).await {
            Ok(bytes) => next.run(Request::from_parts(head, Body::from(bytes))).await,
            Err(_) => {
                refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large or broken").into_response()
            }
        }
    };
    match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
        Ok(response) => response,
        Err(_) => {
            refusal(StatusCode::SERVICE_UNAVAILABLE, "the server did not answer in time").into_response()
        }
    }
}

/// Asks the server on a helper thread, so that a slow answer does not stop this one.
pub(super) async fn ask<T: Send + 'static>(
    shared: &Shared,
    question: impl FnOnce(&dyn Admin) -> T + Send + 'static,
) -> Result<T, No> {
    let admin = Arc::clone(&shared.admin);
    let answer = tokio::task::spawn_blocking(move || question(&*admin)).await;
    answer.map_err(|error| {
        log_events::admin::admin_request_failed(&error);
        refusal(StatusCode::INTERNAL_SERVER_ERROR, "the server failed to answer; see its log")
    })
}

async fn status(State(shared): State<Shared>) -> Result<Response, No> {
    Ok(Json(ask(&shared, |admin| admin.status()).await?).into_response())
}

async fn human_page(State(shared): State<Shared>) -> Result<Response, No> {
    let (status, nodes) = ask(&shared, |admin| {
        let nodes = admin.is_balancer().then(|| admin.nodes()).flatten();
        (admin.status(), nodes)
    })
    .await?;
    Ok(Html(page::render(&status, nodes.as_ref())).into_response())
}

/// Live values for as long as the browser takes them.
async fn events(State(shared): State<Shared>, Extension(hang_up): Extension<HangUp>) -> Response {
    match shared.events.listen(hang_up) {
        Some(feed) => ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(feed)).into_response(),
        None => {
            let why =
                format!("{LISTENERS} pages show live values already; close one, then this page follows");
            ([(header::RETRY_AFTER, "10")], refusal(StatusCode::SERVICE_UNAVAILABLE, &why)).into_response()
        }
    }
}

/// What lists may be asked with.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    aor: Option<String>,
    q: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

impl Asked {
    /// The parameters within their bounds, or the refusal.
    fn checked(asked: AskedQuery) -> Result<(Option<String>, Page), No> {
        let bad = |why: &str| refusal(StatusCode::BAD_REQUEST, why);
        let Query(Asked { aor, q, after, limit }) = asked.map_err(|error| bad(&error.body_text()))?;
        if aor.iter().chain(&after).chain(&q).any(|text| text.len() > QUERY_BYTES) {
            return Err(bad("a parameter is too long"));
        }
        let limit = limit.unwrap_or(Page::USUAL);
        if !(1..=Page::MOST).contains(&limit) {
            return Err(bad("limit must be from 1 to 1000"));
        }
        let search = q.as_deref().map(Search::new).unwrap_or_default();
        Ok((aor, Page { after, limit, search }))
    }
}

/// A query string, or why it does not parse.
type AskedQuery = Result<Query<Asked>, QueryRejection>;

async fn bindings(State(shared): State<Shared>, asked: AskedQuery) -> Result<Response, No> {
    let (aor, page) = Asked::checked(asked)?;
    listed(&shared, move |admin| admin.bindings(aor.as_deref(), &page)).await
}

async fn calls(State(shared): State<Shared>, asked: AskedQuery) -> Result<Response, No> {
    let (aor, page) = Asked::checked(asked)?;
    if aor.is_some() {
        return Err(refusal(StatusCode::BAD_REQUEST, "calls cannot be filtered by aor"));
    }
    listed(&shared, move |admin| admin.calls(&page)).await
}

async fn trunks(State(shared): State<Shared>, asked: AskedQuery) -> Result<Response, No> {
    let (aor, page) = Asked::checked(asked)?;
    if aor.is_some() {
        return Err(refusal(StatusCode::BAD_REQUEST, "trunks cannot be filtered by aor"));
    }
    listed(&shared, move |admin| admin.trunks(&page)).await
}

/// Which number is meant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedNumber {
    number: String,
}

async fn number(
    State(shared): State<Shared>,
    asked: Result<Query<AskedNumber>, QueryRejection>,
) -> Result<Response, No> {
    let bad = |why: &str| refusal(StatusCode::BAD_REQUEST, why);
    let Query(AskedNumber { number }) = asked.map_err(|error| bad(&error.body_text()))?;
    if number.len() > QUERY_BYTES {
        return Err(bad("a parameter is too long"));
    }
    let route = ask(&shared, move |admin| admin.number(&number)).await?;
    Ok(Json(route.ok_or_else(|| refusal(StatusCode::NOT_FOUND, NO_LISTS))?).into_response())
}

/// What connections may be asked with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedConnections {
    transport: Option<String>,
    peer: Option<String>,
    q: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

async fn connections(
    State(shared): State<Shared>,
    asked: Result<Query<AskedConnections>, QueryRejection>,
) -> Result<Response, No> {
    let bad = |why: &str| refusal(StatusCode::BAD_REQUEST, why);
    let Query(AskedConnections { transport, peer, q, after, limit }) =
        asked.map_err(|error| bad(&error.body_text()))?;
    let filter = ConnectionFilter::parse(transport.as_deref(), peer.as_deref()).map_err(|why| bad(&why))?;
    let (_, page) = Asked::checked(Ok(Query(Asked { aor: None, q, after, limit })))?;
    let filter = ConnectionFilter { search: page.search.clone(), ..filter };
    let page = ask(&shared, move |admin| admin.connections(&filter, &page)).await?;
    Ok(Json(page.ok_or_else(|| bad(NO_SUCH_MARK))?).into_response())
}

async fn certificates(State(shared): State<Shared>) -> Result<Response, No> {
    let items = ask(&shared, |admin| admin.certificates()).await?;
    Ok(Json(Listing { items, next: None }).into_response())
}

/// What refused requests may be asked with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedRefused {
    source: Option<String>,
    about: Option<String>,
    q: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

async fn refused(
    State(shared): State<Shared>,
    asked: Result<Query<AskedRefused>, QueryRejection>,
) -> Result<Response, No> {
    let bad = |why: &str| refusal(StatusCode::BAD_REQUEST, why);
    let Query(AskedRefused { source, about, q, after, limit }) =
        asked.map_err(|error| bad(&error.body_text()))?;
    let filter = RefusedFilter::parse(source.as_deref(), about.as_deref()).map_err(|why| bad(&why))?;
    let (_, page) = Asked::checked(Ok(Query(Asked { aor: about, q, after, limit })))?;
    let filter = RefusedFilter { search: page.search.clone(), ..filter };
    listed(&shared, move |admin| {
        let from: usize = page.after.as_deref().map_or(Some(0), |after| after.parse().ok())?;
        // As many are kept as the server says, so a mark beyond them gets an empty page.
        let wanted = from.saturating_add(page.limit).saturating_add(1);
        let mut rest = admin.refused(&filter, wanted).into_iter().skip(from);
        let items: Vec<_> = rest.by_ref().take(page.limit).collect();
        Some(Listing { next: rest.next().map(|_| (from + items.len()).to_string()), items })
    })
    .await
}

/// What is said to who asks for a page by a mark that ends none.
const NO_SUCH_MARK: &str = "after must be the `next` of an earlier page";

/// A page of a list, of a server that has such lists.
async fn listed<T: Serialize + Send + 'static>(
    shared: &Shared,
    list: impl FnOnce(&dyn Admin) -> Option<Listing<T>> + Send + 'static,
) -> Result<Response, No> {
    let page = ask(shared, |admin| (!admin.is_balancer()).then(|| list(admin))).await?;
    let page = page.ok_or_else(|| refusal(StatusCode::NOT_FOUND, NO_LISTS))?;
    let no_such_mark = || refusal(StatusCode::BAD_REQUEST, NO_SUCH_MARK);
    Ok(Json(page.ok_or_else(no_such_mark)?).into_response())
}

async fn reload(State(shared): State<Shared>) -> Result<Response, No> {
    let turn = Arc::clone(&shared.reloading);
    let done = ask(&shared, move |admin| {
        // A reload that panicked left nothing half done that this one could trip over.
        let _turn = turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        admin.reload()
    });
    match done.await? {
        Ok(report) => Ok(Json(report).into_response()),
        Err(findings) => {
            let error = "the configuration was not changed".to_owned();
            Err(No { status: StatusCode::CONFLICT, body: Refusal { error, findings } })
        }
    }
}

async fn drain(State(shared): State<Shared>) -> Result<Response, No> {
    let status = ask(&shared, |admin| {
        admin.drain();
        admin.status()
    })
    .await?;
    let body = Draining { state: ServerState::Draining, calls: status.calls };
    Ok((StatusCode::ACCEPTED, Json(body)).into_response())
}

async fn nodes(State(shared): State<Shared>) -> Result<Response, No> {
    let nodes = ask(&shared, |admin| admin.nodes()).await?;
    Ok(Json(nodes.ok_or_else(|| refusal(StatusCode::NOT_FOUND, NO_BALANCER))?).into_response())
}

/// Which node or algorithm is meant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

/// A query string, or why it does not parse.
type NamedQuery = Result<Query<Named>, QueryRejection>;

fn named(query: NamedQuery) -> Result<String, No> {
    let bad = |why: &str| refusal(StatusCode::BAD_REQUEST, why);
    let Query(Named { name }) = query.map_err(|error| bad(&error.body_text()))?;
    if name.len() > QUERY_BYTES { Err(bad("a parameter is too long")) } else { Ok(name) }
}

async fn order(shared: &Shared, query: NamedQuery, order: NodeOrder) -> Result<Response, No> {
    let name = named(query)?;
    let node = ask(shared, move |admin| admin.order(&name, order)).await?;
    Ok(Json(node.map_err(|why| refusal(StatusCode::NOT_FOUND, &why))?).into_response())
}

async fn node_drain(State(shared): State<Shared>, query: NamedQuery) -> Result<Response, No> {
    order(&shared, query, NodeOrder::Drain).await
}

async fn node_undrain(State(shared): State<Shared>, query: NamedQuery) -> Result<Response, No> {
    order(&shared, query, NodeOrder::Serve).await
}

async fn node_maintain(State(shared): State<Shared>, query: NamedQuery) -> Result<Response, No> {
    order(&shared, query, NodeOrder::Maintenance).await
}

async fn node_remove(State(shared): State<Shared>, query: NamedQuery) -> Result<Response, No> {
    order(&shared, query, NodeOrder::Removed).await
}

async fn node_add(State(shared): State<Shared>, query: NamedQuery) -> Result<Response, No> {
    let name = named(query)?;
    let node = ask(&shared, move |admin| admin.add_node(&name)).await?;
    Ok(Json(node.map_err(|why| refusal(StatusCode::CONFLICT, &why))?).into_response())
}

async fn audit(State(shared): State<Shared>) -> Result<Response, No> {
    let audit = ask(&shared, |admin| admin.audit()).await?;
    Ok(Json(audit.ok_or_else(|| refusal(StatusCode::NOT_FOUND, NO_BALANCER))?).into_response())
}

async fn algorithm(State(shared): State<Shared>, query: NamedQuery) -> Result<Response, No> {
    let name = named(query)?;
    let nodes = ask(&shared, move |admin| admin.set_algorithm(&name)).await?;
    Ok(Json(nodes.map_err(|why| refusal(StatusCode::NOT_FOUND, &why))?).into_response())
}

async fn metrics(State(shared): State<Shared>) -> Result<Response, No> {
    let text = ask(&shared, |admin| {
        let mut text = String::with_capacity(32 * 1024);
        admin.metrics(&mut text);
        text
    })
    .await?;
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// The process lives and its admin thread answers.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether new calls should be sent here.
async fn readyz(State(shared): State<Shared>) -> Result<Response, No> {
    Ok(match ask(&shared, |admin| admin.ready()).await? {
        Ok(()) => "ready\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    })
}
