//! `[websocket]`: which web pages may connect, and where.

use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::values::{host_port, shown};
use std::path::PathBuf;

section! {
    /// `[websocket]`: what `ws:` and `wss:` listeners accept (RFC 7118).
    pub struct WebSocket = "websocket" {
        /// Web pages that may connect, by origin: `"https://phone.example.com"`, as the browser's address
        /// line has it, without a path. Another page gets 403. Empty: every page. A page cannot use what
        /// the browser remembers: this server sets no cookies, and each request proves the user's
        /// password (digest authentication). Name the origins where calls need no password. A client that
        /// sends no Origin is no browser and is not asked for one.
        origins: Vec<String> = Vec::new(), list(text("origin", origin)).once("origin"), restart;
        /// The path that clients must name, such as `"/ws"`. Others get 404. Without it any path will do.
        /// `GET /healthz` is answered in any case: 200, or 503 while the server stops.
        path: Option<String> = None, text("path", path_of_url).optional(), restart;
        /// A file with a secret of at least 16 characters. With it a client can connect only with a token of
        /// a subscriber in the query of its request: `?user=alice@example.com&expires=1767225600&token=HEX`.
        /// HEX is the HMAC-SHA-256 of `alice@example.com:1767225600` with this secret as the key; `expires`
        /// is in seconds since 1970. Other clients get 403. Registrations and calls still need the password.
        token_secret: Option<PathBuf> = None, path().optional(), restart;
    }
}

/// `https://phone.example.com`, as browsers send it (RFC 6454 section 6.2).
fn origin(written: &str) -> Result<String, Fault> {
    let example = "write it as \"https://phone.example.com\", with a port if it is not the usual one";
    let wrong = || Fault::new(format!("\"{}\" is not an origin", shown(written)), example);
    let (scheme, place) = written.split_once("://").ok_or_else(wrong)?;
    let usual = match scheme.to_ascii_lowercase().as_str() {
        "https" => Some(443),
        "http" => Some(80),
        // Of applications that are made of web pages.
        other
            if !other.is_empty()
                && other.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) =>
        {
            None
        }
        _ => return Err(wrong()),
    };
    let place = host_port(place).map_err(|_| wrong())?;
    if place.port.is_some() && place.port == usual {
        let mend = format!("browsers leave the usual port out: write \"{scheme}://{}\"", place.host);
        return Err(Fault::new(format!("\"{}\" is sent by no browser", shown(written)), mend));
    }
    Ok(format!("{}://{place}", scheme.to_ascii_lowercase()))
}

/// `/ws`.
fn path_of_url(written: &str) -> Result<String, Fault> {
    let fits = written.starts_with('/')
        && written.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
    match fits {
        true if written == "/healthz" => {
            Err(Fault::new("this path tells whether the server serves", "choose another, such as \"/ws\""))
        }
        true => Ok(written.to_owned()),
        false => Err(Fault::new(
            format!("\"{}\" is not a path", shown(written)),
            "write it as \"/ws\", without a host, a query or blanks",
        )),
    }
}

impl Checks for WebSocket {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        let is_web = |transport| matches!(transport, wire::Transport::Ws | wire::Transport::Wss);
        if section.is_written() && !context.server.listen.iter().any(|l| is_web(l.transport)) {
            let mend = "add \"wss:0.0.0.0:443\" to listen, or remove the section";
            reader.warn(section.span(), Fault::new("no listener is of WebSocket", mend));
        }
    }
}
