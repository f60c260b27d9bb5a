//! The dashboard: pages, styles and programs for browsers, as files of this crate.
//!
//! The files say nothing about the server, so they need no token. What they show they read from `/v1`.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::LazyLock;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file: its path, its type, its text.
struct File(&'static str, &'static str, &'static str);

/// The page at `/`.
static PAGE: File = File("/", HTML, include_str!("index.html"));

/// What that page loads, and the style of the page without scripts.
static FILES: &[File] = &[
    File("/dashboard/style.css", CSS, include_str!("style.css")),
    File("/dashboard/plain.css", CSS, include_str!("plain.css")),
    File("/dashboard/icon.svg", SVG, include_str!("icon.svg")),
    File("/dashboard/app.js", SCRIPT, include_str!("app.js")),
    File("/dashboard/dom.js", SCRIPT, include_str!("dom.js")),
    File("/dashboard/net.js", SCRIPT, include_str!("net.js")),
    File("/dashboard/words.js", SCRIPT, include_str!("words.js")),
    File("/dashboard/live.js", SCRIPT, include_str!("live.js")),
    File("/dashboard/chart.js", SCRIPT, include_str!("chart.js")),
    File("/dashboard/table.js", SCRIPT, include_str!("table.js")),
    File("/dashboard/overview.js", SCRIPT, include_str!("overview.js")),
    File("/dashboard/lists.js", SCRIPT, include_str!("lists.js")),
    File("/dashboard/details.js", SCRIPT, include_str!("details.js")),
];

/// The marks by which browsers ask whether a file has changed, the page's first.
static MARKS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| all().map(mark).collect());

fn all() -> impl Iterator<Item = &'static File> {
    std::iter::once(&PAGE).chain(FILES)
}

/// Whether a path is a file of the dashboard, or would be one.
pub(super) fn is_file(path: &str) -> bool {
    path == PAGE.0 || path.starts_with("/dashboard/")
}

/// The page.
pub(super) async fn page(headers: HeaderMap) -> Response {
    answer(0, &headers)
}

/// Adds the paths of the files.
pub(super) fn add<S: Clone + Send + Sync + 'static>(mut router: Router<S>) -> Router<S> {
    for (at, file) in all().enumerate().skip(1) {
        router = router.route(file.0, get(move |headers: HeaderMap| async move { answer(at, &headers) }));
    }
    router
}

/// A file, or that it has not changed (RFC 9110 section 13.1.2).
fn answer(at: usize, headers: &HeaderMap) -> Response {
    let (Some(File(_, kind, text)), Some(mark)) = (all().nth(at), MARKS.get(at)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let known = headers.get_all(header::IF_NONE_MATCH).iter().any(|held| names(held, mark));
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, *kind)], Body::from(*text)).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, mark.clone());
    // Kept, and asked about each time: after an upgrade no browser runs yesterday's program.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Whether a list of marks names this one. A weak mark will do, as no part of a file is asked for.
fn names(held: &HeaderValue, mark: &HeaderValue) -> bool {
    let (Ok(held), Ok(mark)) = (held.to_str(), mark.to_str()) else { return false };
    held.split(',').map(str::trim).any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == mark)
}

/// The mark of a file: a hash of its text (FNV-1a), which changes whenever the text does.
fn mark(file: &File) -> HeaderValue {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = file.2.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    HeaderValue::from_str(&format!("\"{hash:016x}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(name: &str) -> &'static str {
        all().find(|file| file.0.ends_with(name)).unwrap().2
    }

    #[test]
    fn marks_differ_from_file_to_file() {
        let mut marks: Vec<&HeaderValue> = MARKS.iter().collect();
        marks.sort();
        marks.dedup();
        assert_eq!(marks.len(), FILES.len() + 1);
    }

    #[test]
    fn unchanged_file_is_not_sent_again() {
        let mark = MARKS[0].to_str().unwrap();
        let asked = |held: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(held).unwrap());
            answer(0, &headers)
        };
        for held in [mark, &format!("W/{mark}"), &format!("\"x\", {mark}"), "*"] {
            let response = asked(held);
            assert_eq!(response.status(), StatusCode::NOT_MODIFIED, "{held}");
            assert_eq!(response.headers()[header::ETAG], MARKS[0]);
        }
        for held in ["\"x\"", "", &mark[1..]] {
            assert_eq!(asked(held).status(), StatusCode::OK, "{held}");
        }
        assert_eq!(answer(99, &HeaderMap::new()).status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn files_load_only_files_that_are_served() {
        let served = |path: &str| all().any(|file| file.0 == path);
        for File(path, _, text) in all() {
            for quoted in text.split(['"', '\'']).skip(1) {
                if let Some(name) = quoted.strip_prefix("./").filter(|name| name.ends_with(".js")) {
                    assert!(served(&format!("/dashboard/{name}")), "{path} imports {name}");
                }
                if quoted.starts_with("/dashboard/") {
                    assert!(served(quoted), "{path} names {quoted}");
                }
            }
            let namespace = "http://www.w3.org/2000/svg";
            let text = text.replace(namespace, "");
            assert!(
                !text.contains("http://") && !text.contains("https://"),
                "{path}: something from elsewhere"
            );
        }
    }

    #[test]
    fn scripts_never_make_markup_of_text() {
        for File(path, kind, text) in all() {
            for word in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
            {
                assert!(!text.contains(word), "{path} has {word}");
            }
            if *kind == HTML {
                assert!(!text.contains("style=") && !text.contains("<style"), "{path}: a style in the page");
                assert_eq!(
                    text.matches("<script").count(),
                    text.matches("<script type=\"module\" src=").count()
                );
            }
        }
        assert!(script("dom.js").contains("textContent"));
    }

    #[test]
    fn colours_are_those_of_reports() {
        let report = include_str!("../../../../../load/src/report/style.css");
        let (colours, _) = report.split_once("* { box-sizing").unwrap();
        assert!(script("style.css").contains(colours), "copy the head of load/src/report/style.css");
    }
}
