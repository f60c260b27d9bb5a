//! Users over HTTP, with tokens.

use super::*;

/// A server whose tokens are in a file of its own; the file, and the text of a token for users.
fn start_with_token() -> (Arc<Pretend>, Server, String) {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let name = format!("strowger-users-{}-{}", std::process::id(), NUMBER.fetch_add(1, SeqCst));
    let path = std::env::temp_dir().join(name);
    let (token, text) = Token::make("portal", Rights::USERS).unwrap();
    write_tokens(&path, &[token]).unwrap();
    let pretend = Arc::new(Pretend::default());
    let bound = Bound::new(&access()).unwrap().unwrap().with_tokens(path.clone());
    let server = bound.start(Arc::clone(&pretend) as Arc<dyn Admin>).unwrap();
    (pretend, server, text)
}

/// Sends a request with a token and returns the status and the body.
fn send(server: &Server, token: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let head = format!("{head}Authorization: Bearer {token}\r\nContent-Length: {length}\r\n{JSON}\r\n{body}");
    let (status, answer) = raw(server.address(), &head);
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or("");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn users_are_made_changed_and_removed() {
    let (pretend, server, token) = start_with_token();
    let user = "/v1/users/ann%40example.com";
    let ask = |method: &str, path: &str, body: &str| send(&server, &token, method, path, body);
    assert_eq!(ask("GET", user, "").0, 404);
    let (status, answer) = ask("PUT", user, "{}");
    assert_eq!((status, &answer["field"]), (400, &"password".into()));
    let (status, made) =
        ask("PUT", user, r#"{"password":"secret","forwarding":{"busy":"+4930"},"ring_time":25}"#);
    assert_eq!((status, &made["aor"], &made["ring_time"]), (201, &"ann@example.com".into(), &25.into()));
    let (status, changed) =
        ask("PATCH", user, r#"{"do_not_disturb":true,"also_ring":["1","2"],"class":"office"}"#);
    assert_eq!(
        (status, &changed["forwarding"]["busy"], &changed["do_not_disturb"]),
        (200, &"+4930".into(), &true.into())
    );
    assert_eq!(changed["class"], "office");
    assert_eq!(ask("PATCH", user, "{}").1["class"], "office");
    // What a PUT does not name is not set; the password stays.
    let (status, anew) = ask("PUT", user, r#"{"ring_time":null}"#);
    assert_eq!((status, &anew["forwarding"]["busy"], &anew["ring_time"]), (200, &Value::Null, &Value::Null));
    assert_eq!(anew["class"], Value::Null);
    assert_eq!(pretend.users.0.lock().unwrap()["ann@example.com"].0, "secret");
    assert_eq!(ask("DELETE", &format!("{user}/bindings"), "").0, 204);
    assert_eq!((ask("DELETE", user, "").0, ask("DELETE", user, "").0), (204, 404));
    assert_eq!(ask("DELETE", &format!("{user}/bindings"), "").0, 404);
    assert_eq!(ask("PATCH", user, "{}").0, 404);
    pretend.balances.store(true, SeqCst);
    assert_eq!(ask("GET", "/v1/users", "").0, 404);
}

#[test]
fn users_are_listed_page_by_page() {
    let (pretend, server, token) = start_with_token();
    for n in 0..5 {
        pretend.users.write(&format!("u{n}@example.com"), &UserChange::default()).unwrap();
    }
    let (_, first) = send(&server, &token, "GET", "/v1/users?limit=3", "");
    assert_eq!((first["items"].as_array().unwrap().len(), &first["next"]), (3, &"u2@example.com".into()));
    let (_, last) = send(&server, &token, "GET", "/v1/users?limit=3&after=u2@example.com", "");
    assert_eq!((last["items"].as_array().unwrap().len(), &last["next"]), (2, &Value::Null));
    let (_, found) = send(&server, &token, "GET", "/v1/users?search=u4", "");
    assert_eq!(found["items"][0]["aor"], "u4@example.com");
    for (query, field) in [("limit=0", "limit"), ("after=x", "after"), ("colour=red", "query")] {
        let (status, answer) = send(&server, &token, "GET", &format!("/v1/users?{query}"), "");
        assert_eq!((status, &answer["field"]), (400, &field.into()), "{query}");
    }
}

#[test]
fn wrong_fields_of_a_user_are_named() {
    let (_, server, token) = start_with_token();
    for (body, field) in [
        ("nonsense", "body"),
        ("[]", "body"),
        (r#"{"colour":1}"#, "colour"),
        (r#"{"password":1}"#, "password"),
        (r#"{"class":1}"#, "class"),
        (r#"{"forwarding":1}"#, "forwarding"),
        (r#"{"forwarding":{"often":"1"}}"#, "forwarding.often"),
        (r#"{"forwarding":{"busy":"a b"}}"#, "forwarding.busy"),
        (r#"{"also_ring":["1","2","3","4","5"]}"#, "also_ring"),
        (r#"{"also_ring":[1]}"#, "also_ring"),
        (r#"{"ring_time":601}"#, "ring_time"),
        (r#"{"ring_time":0}"#, "ring_time"),
        (r#"{"do_not_disturb":"yes"}"#, "do_not_disturb"),
    ] {
        let (status, answer) = send(&server, &token, "PUT", "/v1/users/ann@example.com", body);
        assert_eq!((status, &answer["field"]), (400, &field.into()), "{body}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|error| error.starts_with(field)), "{answer}");
    }
    let (status, answer) = send(&server, &token, "GET", "/v1/users/ann", "");
    assert_eq!((status, &answer["field"]), (400, &"aor".into()));
    let large = format!(r#"{{"password":"{}"}}"#, "x".repeat(5_000));
    assert_eq!(send(&server, &token, "PUT", "/v1/users/ann@example.com", &large).0, 413);
}

#[test]
fn users_are_changed_with_a_token_alone() {
    let (pretend, server, token) = start_with_token();
    let put = "PUT /v1/users/ann@example.com HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 16\r\n";
    let body = r#"{"password":"p"}"#;
    let with = |headers: &str| raw(server.address(), &format!("{put}{headers}\r\n{body}")).0;
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(with(JSON), 401);
    assert_eq!(with(&bearer), 415);
    assert_eq!(with(&format!("{bearer}{JSON}Origin: http://evil.example\r\n")), 403);
    assert!(pretend.users.0.lock().unwrap().is_empty());
    assert_eq!(with(&format!("{bearer}{JSON}")), 201);
    assert_eq!(get(server.address(), "/v1/users").0, 200, "loopback reads");
}
