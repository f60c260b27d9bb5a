//! Who may use the admin API.
//!
//! It listens on loopback, but every web page that a person on this machine visits can make the
//! browser send requests there. Three things stop that: the Host header must name this server by
//! address or by a listed name (a name that an attacker re-points here does not match), a request
//! that changes something must carry a content type that no foreign page may send without asking,
//! and an Origin of another site is refused. There are no cookies that a browser would send by itself.
//! Browsers that say where a request comes from (`Sec-Fetch-Site`) are believed when they name another site:
//! it may only link to a page here.
//!
//! A token may do what its rights say. Without one, loopback reads everything and operates the server unless
//! a token file is configured, and changes no user.

use super::dashboard;
use super::tokens::{Rights, Tokens};
use axum::http::{HeaderMap, Method, StatusCode, header};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use subtle::ConstantTimeEq;

/// The rules for one server.
pub(super) struct Guard {
    listen: IpAddr,
    hosts: Vec<String>,
    token: Option<String>,
    tokens: Option<Tokens>,
}

/// Headers that proxies add (RFC 7239, RFC 9110 section 7.6.3, and by custom).
const PROXIES: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// Why a request is refused.
pub(super) type Refused = (StatusCode, &'static str);

impl Guard {
    pub fn new(listen: SocketAddr, hosts: &[String], token: Option<String>) -> Guard {
        Guard { listen: listen.ip(), hosts: hosts.to_vec(), token, tokens: None }
    }

    /// The tokens of this file may do what their rights say.
    pub fn with_tokens(self, path: PathBuf) -> Guard {
        Guard { tokens: Some(Tokens::new(path)), ..self }
    }

    /// Whether the request may go on.
    pub fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refused> {
        let mut host = headers.get_all(header::HOST).iter();
        match (host.next().map(|value| value.to_str()), host.next()) {
            (Some(Ok(host)), None) if self.is_us(host) => {}
            (Some(Ok(_)), None) => {
                let why = "this Host is not served; list it in admin.hosts if it should be";
                return Err((StatusCode::FORBIDDEN, why));
            }
            _ => return Err((StatusCode::BAD_REQUEST, "exactly one Host header is needed")),
        }
        check_site(method, headers)?;
        if method != Method::GET && method != Method::HEAD {
            self.check_change(headers)?;
        }
        // Probes come from tools that hold no token, and say nothing but a word. A browser sends none for
        // the files of the dashboard, and they say nothing of this server.
        let is_open = matches!(path, "/healthz" | "/readyz") || dashboard::is_file(path);
        if is_open { Ok(()) } else { self.check_token(method, path, headers) }
    }

    /// A request that changes something must come from a program, not from a foreign page.
    fn check_change(&self, headers: &HeaderMap) -> Result<(), Refused> {
        if let Some(origin) = headers.get(header::ORIGIN) {
            let ours = origin
                .to_str()
                .ok()
                .and_then(|origin| origin.split_once("://"))
                .is_some_and(|(_, host)| self.is_us(host));
            if !ours {
                return Err((StatusCode::FORBIDDEN, "requests from other sites are refused"));
            }
        }
        let json = headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
        if json {
            return Ok(());
        }
        Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send Content-Type: application/json"))
    }

    fn check_token(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refused> {
        let given = headers
            .get(header::AUTHORIZATION)
            .map(|value| value.as_bytes())
            .and_then(|value| value.split_at_checked(7))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "))
            .map(|(_, token)| token.trim_ascii());
        let reads = method == Method::GET || method == Method::HEAD;
        let of_users = path == "/v1/users" || path.starts_with("/v1/users/");
        let Some(given) = given else {
            // Without a token file loopback is trusted, as far as users are not changed. What a proxy passes
            // on comes from somewhere else.
            let is_passed_on = PROXIES.iter().any(|name| headers.contains_key(*name));
            let open = self.token.is_none()
                && !is_passed_on
                && (!of_users || reads && self.listen.to_canonical().is_loopback());
            return if open { Ok(()) } else { Err((StatusCode::UNAUTHORIZED, "a bearer token is needed")) };
        };
        // Compared without telling by its duration where the first difference is.
        if self.token.as_ref().is_some_and(|token| given.ct_eq(token.as_bytes()).into()) {
            return Ok(());
        }
        let rights = self.tokens.as_ref().and_then(|tokens| tokens.rights_of(given));
        let rights = rights.ok_or((StatusCode::UNAUTHORIZED, "a bearer token is needed"))?;
        let may = match (reads, of_users) {
            (true, true) => rights.has(Rights::READ) || rights.has(Rights::USERS),
            (true, false) => rights.has(Rights::READ),
            (false, true) => rights.has(Rights::USERS),
            (false, false) => rights.has(Rights::OPERATE),
        };
        if may { Ok(()) } else { Err((StatusCode::FORBIDDEN, "this token has no right to do that")) }
    }

    /// Whether a Host value names this server. An address cannot be re-pointed, so the one listened
    /// on will do, and any of ours when listening on all.
    fn is_us(&self, host: &str) -> bool {
        let name = without_port(host);
        if let Ok(ip) = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            let ip = ip.to_canonical();
            return ip.is_loopback() || ip == self.listen.to_canonical() || self.listen.is_unspecified();
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        name.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(|h| h.eq_ignore_ascii_case(name))
    }
}

/// A page of another site, or of another port of this machine, may lead a person here and do nothing else
/// (W3C Fetch Metadata). Programs that are no browsers say nothing of this.
fn check_site(method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
    let says = |name: &str| headers.get(name).map(|value| value.as_bytes());
    let is_foreign = says("sec-fetch-site").is_some_and(|site| site != b"same-origin" && site != b"none");
    let is_link = method == Method::GET && says("sec-fetch-mode").is_some_and(|mode| mode == b"navigate");
    match is_foreign && !is_link {
        true => Err((StatusCode::FORBIDDEN, "requests from other sites are refused")),
        false => Ok(()),
    }
}

/// `name` of `name:port`; brackets stay.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(list: &[(header::HeaderName, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in list {
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn guard(listen: &str) -> Guard {
        Guard::new(listen.parse().unwrap(), &["pbx.example.com".into()], None)
    }

    #[test]
    fn only_our_own_host_names_pass() {
        let guard = guard("127.0.0.1:8080");
        let good = [
            "127.0.0.1",
            "127.0.0.1:8080",
            "localhost:8080",
            "LOCALHOST",
            "[::1]:8080",
            "[::1]",
            "pbx.example.com:80",
            "localhost.",
        ];
        for host in good {
            let map = headers(&[(header::HOST, host)]);
            assert_eq!(guard.check(&Method::GET, "/", &map), Ok(()), "{host}");
        }
        let bad = [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "192.0.2.1",
            "",
            ":8080",
            "1",
        ];
        for host in bad {
            let map = headers(&[(header::HOST, host)]);
            assert_eq!(guard.check(&Method::GET, "/", &map).unwrap_err().0, StatusCode::FORBIDDEN, "{host}");
        }
        let none = headers(&[]);
        assert_eq!(guard.check(&Method::GET, "/", &none).unwrap_err().0, StatusCode::BAD_REQUEST);
        let two = headers(&[(header::HOST, "localhost"), (header::HOST, "localhost")]);
        assert_eq!(guard.check(&Method::GET, "/", &two).unwrap_err().0, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn listening_everywhere_takes_every_address_but_no_name() {
        let guard = guard("0.0.0.0:8080");
        let ip = headers(&[(header::HOST, "192.0.2.1:8080")]);
        assert_eq!(guard.check(&Method::GET, "/", &ip), Ok(()));
        let name = headers(&[(header::HOST, "evil.example")]);
        assert!(guard.check(&Method::GET, "/", &name).is_err());
    }

    #[test]
    fn a_change_needs_json_and_no_foreign_origin() {
        let guard = guard("127.0.0.1:8080");
        let host = (header::HOST, "localhost");
        let plain = headers(&[host.clone(), (header::CONTENT_TYPE, "text/plain")]);
        let refused = guard.check(&Method::POST, "/v1/drain", &plain).unwrap_err();
        assert_eq!(refused.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        let json = (header::CONTENT_TYPE, "application/json; charset=utf-8");
        let good = headers(&[host.clone(), json.clone()]);
        assert_eq!(guard.check(&Method::POST, "/v1/drain", &good), Ok(()));
        for (origin, allowed) in
            [("http://localhost:8080", true), ("http://evil.example", false), ("null", false)]
        {
            let map = headers(&[host.clone(), json.clone(), (header::ORIGIN, origin)]);
            assert_eq!(guard.check(&Method::POST, "/v1/drain", &map).is_ok(), allowed, "{origin}");
        }
    }

    #[test]
    fn page_of_another_site_may_link_and_nothing_else() {
        let guard = guard("127.0.0.1:8080");
        let named = header::HeaderName::from_static;
        let check = |method: &Method, site: &str, mode: &str| {
            let (site, mode) = ((named("sec-fetch-site"), site), (named("sec-fetch-mode"), mode));
            let json = (header::CONTENT_TYPE, "application/json");
            guard.check(method, "/v1/drain", &headers(&[(header::HOST, "localhost"), json, site, mode]))
        };
        for site in ["same-origin", "none"] {
            assert_eq!(check(&Method::GET, site, "cors"), Ok(()), "{site}");
            assert_eq!(check(&Method::POST, site, "cors"), Ok(()), "{site}");
        }
        // Another port of the same machine is the same site and another origin.
        for site in ["cross-site", "same-site", "x"] {
            assert_eq!(check(&Method::GET, site, "navigate"), Ok(()), "{site}");
            for (method, mode) in [
                (Method::GET, "no-cors"),
                (Method::GET, "cors"),
                (Method::POST, "navigate"),
                (Method::POST, "cors"),
            ] {
                let refused = check(&method, site, mode).unwrap_err();
                assert_eq!(refused.0, StatusCode::FORBIDDEN, "{method} {site} {mode}");
            }
        }
    }

    #[test]
    fn the_token_is_asked_for_except_by_probes() {
        let token = Some("0123456789abcdef".to_owned());
        let guard = Guard::new("127.0.0.1:1".parse().unwrap(), &[], token);
        let host = (header::HOST, "localhost");
        let cases = [
            ("Bearer 0123456789abcdef", true),
            ("bearer  0123456789abcdef", true),
            ("Bearer 0123456789abcdeX", false),
            ("Bearer 0123456789abcdef0", false),
            ("Basic 0123456789abcdef", false),
            ("Bearer", false),
        ];
        for (value, allowed) in cases {
            let map = headers(&[host.clone(), (header::AUTHORIZATION, value)]);
            assert_eq!(guard.check(&Method::GET, "/metrics", &map).is_ok(), allowed, "{value}");
        }
        let without = headers(&[host]);
        assert!(guard.check(&Method::GET, "/v1/status", &without).is_err());
        assert!(guard.check(&Method::GET, "/plain", &without).is_err());
        for open in ["/readyz", "/", "/dashboard/app.js"] {
            assert_eq!(guard.check(&Method::GET, open, &without), Ok(()), "{open}");
        }
    }

    #[test]
    fn request_that_a_proxy_passes_on_needs_a_token() {
        let guard = guard("127.0.0.1:8080");
        for name in PROXIES {
            let name = header::HeaderName::from_static(name);
            let map = headers(&[(header::HOST, "localhost"), (name, "198.51.100.7")]);
            let refused = guard.check(&Method::GET, "/v1/status", &map).unwrap_err();
            assert_eq!(refused.0, StatusCode::UNAUTHORIZED);
            assert_eq!(guard.check(&Method::GET, "/readyz", &map), Ok(()));
        }
    }

    #[test]
    fn rights_of_a_token_decide_what_it_may_do() {
        use crate::admin::{Token, write_tokens};
        let path = std::env::temp_dir().join(format!("strowger-guard-{}", std::process::id()));
        let made: Vec<(Token, String)> = ["read", "users", "operate"]
            .map(|right| Token::make(right, Rights::parse(right).unwrap()).unwrap())
            .into();
        let tokens: Vec<Token> = made.iter().map(|(token, _)| token.clone()).collect();
        write_tokens(&path, &tokens).unwrap();
        let guard = guard("127.0.0.1:8080").with_tokens(path.clone());
        let json = (header::CONTENT_TYPE, "application/json");
        let check = |guard: &Guard, method: Method, asked: &str, token: Option<&str>| {
            let bearer = token.map(|token| format!("Bearer {token}"));
            let mut list = vec![(header::HOST, "localhost"), json.clone()];
            list.extend(bearer.as_deref().map(|bearer| (header::AUTHORIZATION, bearer)));
            guard.check(&method, asked, &headers(&list)).map_err(|(status, _)| status.as_u16())
        };
        for (method, asked, expected) in [
            (Method::GET, "/v1/status", [Ok(()), Err(403), Err(403)]),
            (Method::GET, "/v1/users", [Ok(()), Ok(()), Err(403)]),
            (Method::PUT, "/v1/users/a@b", [Err(403), Ok(()), Err(403)]),
            (Method::DELETE, "/v1/users/a@b/bindings", [Err(403), Ok(()), Err(403)]),
            (Method::POST, "/v1/drain", [Err(403), Err(403), Ok(())]),
        ] {
            let found = [0, 1, 2].map(|at| check(&guard, method.clone(), asked, Some(&made[at].1)));
            assert_eq!(found, expected, "{method} {asked}");
            assert_eq!(check(&guard, method, asked, Some("stw_0")), Err(401));
        }
        // Without a token loopback changes no user.
        assert_eq!(check(&guard, Method::GET, "/v1/users", None), Ok(()));
        assert_eq!(check(&guard, Method::PATCH, "/v1/users/a@b", None), Err(401));
        assert_eq!(check(&guard, Method::POST, "/v1/reload", None), Ok(()));
        let remote = self::guard("0.0.0.0:8080").with_tokens(path.clone());
        assert_eq!(check(&remote, Method::GET, "/v1/users", None), Err(401));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(check(&guard, Method::GET, "/v1/status", Some(&made[0].1)), Err(401));
    }
}
