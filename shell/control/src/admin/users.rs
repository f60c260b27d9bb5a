//! `/v1/users`: the users of a server, as a customer portal reads and changes them.

use super::model::{Listing, NO_LISTS, Page};
use super::routes::{Entry, QUERY_BYTES, Shared, ask};
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{delete, get, patch, put};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sip_node::call_forwarding::{Rules, When};
use std::collections::BTreeMap;

/// The paths of users, beside those of the server.
pub(super) const USER_ROUTES: &[Entry] = &[
    ("get", "/v1/users", || get(list)),
    ("get", "/v1/users/{aor}", || get(one)),
    ("put", "/v1/users/{aor}", || put(replace)),
    ("patch", "/v1/users/{aor}", || patch(change)),
    ("delete", "/v1/users/{aor}", || delete(remove)),
    ("delete", "/v1/users/{aor}/bindings", || delete(unbind)),
];

/// The users of a server.
pub trait Users: Send + Sync {
    /// Users in order of name and domain, after the one that ended the last page. `None` if the mark of the
    /// page is none.
    ///
    /// # Errors
    /// Why they cannot be read.
    fn list(&self, search: &UserSearch, page: &Page) -> Result<Option<Listing<User>>, UserFault>;

    /// One of them; `None`: there is no such user.
    ///
    /// # Errors
    /// The name is wrong, or the user cannot be read.
    fn get(&self, aor: &str) -> Result<Option<User>, UserFault>;

    /// Changes a user, or makes one. Without a password the user must be there.
    ///
    /// # Errors
    /// Something is wrong with what is given, or it cannot be written.
    fn write(&self, aor: &str, change: &UserChange) -> Result<(), UserFault>;

    /// Removes a user with its bindings; false: there was none.
    ///
    /// # Errors
    /// The name is wrong, or it cannot be written.
    fn remove(&self, aor: &str) -> Result<bool, UserFault>;

    /// Removes the bindings of a user.
    ///
    /// # Errors
    /// The name is wrong.
    fn unbind(&self, aor: &str) -> Result<(), UserFault>;
}

/// What a user is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserChange {
    /// Its password; `None`: it stays.
    pub password: Option<String>,
    /// Its class, or none of its own; `None`: it stays.
    pub class: Option<Option<String>>,
    /// What it has set for calls to it.
    pub rules: Rules,
}

/// Which users are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSearch {
    /// Those of this domain.
    pub domain: Option<String>,
    /// Those whose name contains this.
    pub text: Option<String>,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// `user@domain`.
    pub aor: String,
    /// When it was made, UTC.
    pub created: String,
    /// When its password was last changed, UTC.
    pub modified: String,
    /// How many bindings it has.
    pub bindings: usize,
    /// Its class; `None`: that of its domain.
    pub class: Option<String>,
    /// Where its calls are forwarded to: `always`, `busy`, `no_answer`, `unreachable`.
    pub forwarding: BTreeMap<String, Option<String>>,
    /// Targets that ring together with its phones.
    pub also_ring: Vec<String>,
    /// Seconds that they ring; `None`: as the server has it.
    pub ring_time: Option<u16>,
    /// No phone rings.
    pub do_not_disturb: bool,
}

impl User {
    /// Shows these rules.
    #[must_use]
    pub fn with_rules(mut self, rules: &Rules) -> User {
        let target = |when: When| (when.name().to_owned(), rules.target(when).map(str::to_owned));
        self.forwarding = When::ALL.into_iter().map(target).collect();
        self.also_ring = rules.also().map(str::to_owned).collect();
        (self.ring_time, self.do_not_disturb) = (rules.ring_time(), rules.do_not_disturb());
        self
    }

    /// The rules that it shows.
    fn rules(&self) -> Rules {
        let mut rules = Rules::default();
        // They were checked when they were set.
        for when in When::ALL {
            let target = self.forwarding.get(when.name()).cloned().flatten();
            _ = rules.set_target(when, target.as_deref().unwrap_or(""));
        }
        _ = rules.set_also(self.also_ring.iter().map(String::as_str));
        _ = rules.set_ring_time(self.ring_time.unwrap_or(0));
        rules.set_do_not_disturb(self.do_not_disturb);
        rules
    }
}

/// Why nothing was done for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserFault {
    /// This field is wrong, and why.
    Field(String, String),
    /// There is no such user.
    Unknown,
    /// This server has no users.
    NoUsers,
    /// The database says so.
    Failed(String),
}

impl UserFault {
    fn field(field: impl Into<String>, why: impl Into<String>) -> UserFault {
        UserFault::Field(field.into(), why.into())
    }
}

impl IntoResponse for UserFault {
    fn into_response(self) -> Response {
        let (status, body) = match self {
            UserFault::Field(field, why) => {
                (StatusCode::BAD_REQUEST, json!({ "error": format!("{field} {why}"), "field": field }))
            }
            UserFault::Unknown => (StatusCode::NOT_FOUND, json!({ "error": "there is no such user" })),
            UserFault::NoUsers => (StatusCode::NOT_FOUND, json!({ "error": NO_LISTS })),
            UserFault::Failed(why) => (StatusCode::SERVICE_UNAVAILABLE, json!({ "error": why })),
        };
        (status, Json(body)).into_response()
    }
}

/// Does something with the users of the server.
async fn with_users<T: Send + 'static>(
    shared: &Shared,
    work: impl FnOnce(&dyn Users) -> Result<T, UserFault> + Send + 'static,
) -> Result<T, UserFault> {
    let done = ask(shared, move |admin| admin.users().map(work)).await;
    // The log has it.
    let done = done.map_err(|_| UserFault::Failed("the server failed to answer; see its log".to_owned()))?;
    done.ok_or(UserFault::NoUsers)?
}

/// What lists of users may be asked with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    domain: Option<String>,
    search: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

async fn list(
    State(shared): State<Shared>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, UserFault> {
    let bad = |field: &str, why: &str| UserFault::field(field, why);
    let Query(Asked { domain, search, after, limit }) =
        asked.map_err(|error| bad("query", &error.body_text()))?;
    let limit = limit.unwrap_or(Page::USUAL);
    if !(1..=Page::MOST).contains(&limit) {
        return Err(bad("limit", "must be from 1 to 1000"));
    }
    for (name, text) in [("domain", &domain), ("search", &search), ("after", &after)] {
        if text.as_ref().is_some_and(|text| text.len() > QUERY_BYTES) {
            return Err(bad(name, "is too long"));
        }
    }
    let search = UserSearch { domain, text: search };
    let page =
        with_users(&shared, move |users| users.list(&search, &Page { after, limit, ..Page::default() }))
            .await?;
    Ok(Json(page.ok_or_else(|| bad("after", "must be the `next` of an earlier page"))?).into_response())
}

/// The user in a path, or why it cannot be read.
type Named = Result<Path<String>, PathRejection>;

fn named(path: Named) -> Result<String, UserFault> {
    let unreadable = |error: PathRejection| UserFault::field("aor", error.body_text());
    path.map(|Path(aor)| aor).map_err(unreadable)
}

async fn one(State(shared): State<Shared>, path: Named) -> Result<Response, UserFault> {
    let aor = named(path)?;
    let user = with_users(&shared, move |users| users.get(&aor)?.ok_or(UserFault::Unknown)).await?;
    Ok(Json(user).into_response())
}

/// Makes a user, or gives one other rules and, if there is one, another password. What is not named is not
/// set.
async fn replace(State(shared): State<Shared>, path: Named, body: Bytes) -> Result<Response, UserFault> {
    let aor = named(path)?;
    let done = with_users(&shared, move |users| {
        let mut change = UserChange { class: Some(None), ..UserChange::default() };
        apply(&mut change, &fields(&body)?)?;
        let known = users.get(&aor)?.is_some();
        if !known && change.password.is_none() {
            return Err(UserFault::field("password", "is missing: there is no such user yet"));
        }
        users.write(&aor, &change)?;
        Ok((known, users.get(&aor)?.ok_or(UserFault::Unknown)?))
    });
    let (known, user) = done.await?;
    let status = if known { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(user)).into_response())
}

/// Changes what is named.
async fn change(State(shared): State<Shared>, path: Named, body: Bytes) -> Result<Response, UserFault> {
    let aor = named(path)?;
    let done = with_users(&shared, move |users| {
        let rules = users.get(&aor)?.ok_or(UserFault::Unknown)?.rules();
        let mut change = UserChange { rules, ..UserChange::default() };
        apply(&mut change, &fields(&body)?)?;
        users.write(&aor, &change)?;
        users.get(&aor)?.ok_or(UserFault::Unknown)
    });
    Ok(Json(done.await?).into_response())
}

async fn remove(State(shared): State<Shared>, path: Named) -> Result<Response, UserFault> {
    let aor = named(path)?;
    match with_users(&shared, move |users| users.remove(&aor)).await? {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(UserFault::Unknown),
    }
}

async fn unbind(State(shared): State<Shared>, path: Named) -> Result<Response, UserFault> {
    let aor = named(path)?;
    let done = with_users(&shared, move |users| {
        users.get(&aor)?.ok_or(UserFault::Unknown)?;
        users.unbind(&aor)
    });
    done.await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The fields of a body.
fn fields(body: &[u8]) -> Result<Map<String, Value>, UserFault> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| UserFault::field("body", format!("is no JSON: {error}")))?;
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(UserFault::field("body", "is no JSON object")),
    }
}

/// Sets what is named; null removes it.
fn apply(change: &mut UserChange, fields: &Map<String, Value>) -> Result<(), UserFault> {
    let UserChange { password, class, rules } = change;
    for (name, value) in fields {
        let wrong = |why: &str| UserFault::field(name, why);
        match (name.as_str(), value) {
            ("password", Value::String(text)) => *password = Some(text.clone()),
            ("password", _) => return Err(wrong("is no text")),
            ("class", Value::String(name)) => *class = Some(Some(name.clone())),
            ("class", Value::Null) => *class = Some(None),
            ("class", _) => return Err(wrong("is no text")),
            ("forwarding", Value::Object(targets)) => set_targets(rules, targets)?,
            ("forwarding", Value::Null) => clear_targets(rules),
            ("forwarding", _) => return Err(wrong("is no object")),
            ("also_ring", Value::Null) => rules.set_also(std::iter::empty()).map_err(wrong)?,
            ("also_ring", Value::Array(list)) => {
                let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                let texts = texts.ok_or_else(|| wrong("holds something else than texts"))?;
                rules
                    .set_also(texts.into_iter())
                    .map_err(|why| wrong(&format!("has a target that {why}")))?;
            }
            ("also_ring", _) => return Err(wrong("is no list")),
            ("ring_time", Value::Null) => rules.set_ring_time(0).map_err(wrong)?,
            ("ring_time", Value::Number(seconds)) => {
                let seconds = seconds.as_u64().and_then(|seconds| u16::try_from(seconds).ok());
                let seconds = seconds.filter(|seconds| *seconds > 0);
                let seconds = seconds.ok_or_else(|| wrong("is no number of seconds from 1 to 600"))?;
                rules.set_ring_time(seconds).map_err(wrong)?;
            }
            ("ring_time", _) => return Err(wrong("is no number")),
            ("do_not_disturb", Value::Bool(on)) => rules.set_do_not_disturb(*on),
            ("do_not_disturb", Value::Null) => rules.set_do_not_disturb(false),
            ("do_not_disturb", _) => return Err(wrong("is neither true nor false")),
            _ => {
                let known = "is no field of a user: password, class, forwarding, also_ring, ring_time, \
                             do_not_disturb";
                return Err(wrong(known));
            }
        }
    }
    Ok(())
}

fn set_targets(rules: &mut Rules, targets: &Map<String, Value>) -> Result<(), UserFault> {
    for (name, value) in targets {
        let wrong = |why: &str| UserFault::field(format!("forwarding.{name}"), why);
        let when = When::ALL.into_iter().find(|when| when.name() == name);
        let when = when.ok_or_else(|| wrong("is none of always, busy, no_answer, unreachable"))?;
        let target = match value {
            Value::String(text) => text.as_str(),
            Value::Null => "",
            _ => return Err(wrong("is no text")),
        };
        rules.set_target(when, target).map_err(wrong)?;
    }
    Ok(())
}

fn clear_targets(rules: &mut Rules) {
    for when in When::ALL {
        // Nothing is wrong with no target.
        _ = rules.set_target(when, "");
    }
}
