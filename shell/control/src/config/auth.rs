//! `[auth]`: digest authentication.

use super::error::{Fault, closest};
use super::form::*;
use super::load::Context;
use super::reader::{At, Reader, Section};
use super::schema::{Checks, section};
use super::types::Cidr;
use super::values::{cidr, plain, token};
use sip_auth::{Algorithm, Authenticator, Secret, UriRule};
use sip_node::Challenge;
use std::sync::Arc;
use std::time::Duration;

/// Names of digest algorithms (RFC 7616, RFC 8760).
const ALGORITHMS: &[(&str, Algorithm)] =
    &[("MD5", Algorithm::Md5), ("SHA-256", Algorithm::Sha256), ("SHA-512-256", Algorithm::Sha512_256)];

section! {
    /// `[auth]`: digest authentication.
    pub struct Auth = "auth" {
        /// Challenge local users. Off is for a test bench; a warning is logged.
        enabled: bool = true, flag(), live;
        /// Methods that are challenged, `"*"` for all. ACK and CANCEL never are (RFC 3261 section 22.1). A
        /// method that is left out counts as its user's only from the address of a registered phone, with one
        /// Via and not from `fronts`. Otherwise it counts as a stranger's.
        challenge: Challenge = Challenge::All, Challenged, live;
        /// One realm for all. Without it the realm is the user's domain. The stored hashes cover the domain,
        /// so a realm of its own works only with imported hashes that were made for it. A user name without a
        /// domain is of the domain in To (REGISTER) or From, whatever the realm.
        realm: Option<String> = None, text("text", plain).optional(), live;
        /// Offered and accepted, most preferred first. Some phones fail if there are several
        /// (docs/guide/passwords.md). Values: `"MD5"`, `"SHA-256"`, `"SHA-512-256"`. Offer more than MD5 only
        /// if every account has a hash for it: `user add` and imports with passwords make all three, a table
        /// of HA1 values holds MD5 alone.
        algorithms: Vec<Algorithm> = vec![Algorithm::Md5], list(choice(ALGORITHMS)).once("algorithm"), live;
        /// Refuse credentials without qop (RFC 2069).
        require_qop: bool = false, flag(), live;
        /// How long a nonce is good. 1 s to 1 d.
        nonce_lifetime: Duration = Duration::from_secs(300), seconds(1..=86_400), live;
        /// The user of From (of To in a REGISTER) must be the one who authenticated; otherwise 403.
        /// Exception: `anonymous` in From if there is no such user ([anonymous.md](../design/anonymous.md)).
        bind_from: bool = true, flag(), live;
        /// Challenge users within dialogs too (BYE, re-INVITE and others). Without it a request passes
        /// unchallenged if it comes from the address and port that our sealed Record-Route names for a user
        /// in that dialog, and goes to the other end. Many gateways cannot answer a challenge there. Any
        /// other request of a dialog is always challenged. Calls without Record-Route of ours
        /// (`proxy.record_route = false`) are always challenged.
        in_dialog: bool = false, flag(), live;
        /// Addresses and blocks of proxies and balancers in front of this server. Wrong credentials that come
        /// through one count against the network that the Via below its own names (`received`, or its
        /// address). So one guesser does not block all users behind it. Chains of such proxies are followed.
        /// They must overwrite a `received` that the client wrote itself; otherwise the client chooses the
        /// network. Those that ask for it are sent the server's load (`overload.feedback`). List an edge
        /// proxy that writes itself into Path by a name: behind another one an account may register one
        /// Contact until that proxy has answered a request. A phone whose REGISTER comes through one over
        /// TCP, without a Path, is called at its Contact if that is an address, and not on the connection of
        /// the proxy. List the proxies only, not the network that phones are in, because in an overload more
        /// of their probes are answered than strangers'. The key gives no other rights, unlike `sources` of a
        /// trunk.
        fronts: Vec<Cidr> = Vec::new(), list(text("address or block", cidr)).once("front"), live;
    }
}

/// The form of `challenge`: methods, or `"*"` for all.
struct Challenged;

impl Challenged {
    fn take(
        &self,
        section: &mut Section<'_, '_>,
        reader: &mut Reader<'_>,
        key: &'static str,
        to: &mut Challenge,
    ) {
        let method = text("", token);
        let Some(list) = section.list(reader, key, |value| method.read(value)) else { return };
        no_twice(reader, &list, "method");
        *to = match list.iter().any(|at| at.value == "*") {
            true => Challenge::All,
            false => Challenge::Only(list.into_iter().map(|at| at.value.into_bytes()).collect()),
        };
    }

    fn show(&self, challenge: &Challenge) -> Option<String> {
        let methods = match challenge {
            Challenge::All => vec![quoted("*")],
            Challenge::Only(list) => list.iter().map(|m| quoted(String::from_utf8_lossy(m))).collect(),
        };
        Some(format!("[{}]", methods.join(", ")))
    }

    fn values(&self, _: &Challenge) -> Values {
        Values { text: "list: method, or `\"*\"`".to_owned(), is_length: false }
    }
}

impl Checks for Auth {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        if let Some(on) = context.overrides.auth {
            self.enabled = on;
        }
        check_challenge(section, reader, context.methods);
        if section.is_empty_list("algorithms") {
            let fault = Fault::new("no algorithm", "to switch authentication off, write enabled = false");
            reader.error(&section.span_of("algorithms"), fault);
        }
        if self.enabled && self.algorithms.len() > 1 {
            let message = "several algorithms: a challenge has a header field for each, and some phones (baresip 1.0) give up";
            let mend = "try each kind of phone, or keep one algorithm; see docs/guide/passwords.md";
            reader.warn(&section.span_of("algorithms"), Fault::new(message, mend));
        }
        for At { value, span } in
            section.places("fronts", &text("", cidr)).iter().filter(|at| at.value.length == 0)
        {
            let message = format!("{value} would have every sender write where its wrong answers count");
            let mend = "list the addresses of the proxies in front of this server";
            reader.error(span, Fault::new(message, mend));
        }
        if !self.enabled {
            let fault = Fault::new("authentication is off: anyone may register and call as anyone", "");
            match context.overrides.auth {
                Some(_) => reader.option_warn("--auth", fault),
                None => reader.warn(&section.span_of("enabled"), fault),
            }
        }
    }
}

/// Reports a list of challenged methods that is doubtful.
fn check_challenge(section: &Section<'_, '_>, reader: &mut Reader<'_>, methods: &[&str]) {
    let list = section.places("challenge", &text("", token));
    if list.iter().any(|at| at.value == "*") {
        if list.len() > 1 {
            let fault = Fault::new("\"*\" already means every method", "leave the others out");
            reader.error(&section.span_of("challenge"), fault);
        }
        return;
    }
    if list.is_empty() && section.has("challenge") {
        let fault = Fault::new("no method is challenged: authentication is off in effect", "");
        reader.warn(&section.span_of("challenge"), fault);
    }
    known_methods(reader, &list, methods);
}

/// Reports methods that this server does not know.
pub(super) fn known_methods(reader: &mut Reader<'_>, list: &[At<String>], methods: &[&str]) {
    for at in list {
        let name = at.value.as_str();
        if methods.is_empty() || name == "*" || methods.contains(&name) {
            continue;
        }
        match closest(name, methods.iter().copied()) {
            // A slip of the pen here would leave a method open that was meant to be closed.
            Some(meant) => {
                let fault =
                    Fault::new(format!("unknown method `{name}`"), format!("did you mean `{meant}`?"));
                reader.error(&at.span, fault);
            }
            None => {
                let fault = Fault::new(format!("`{name}` is a method this server does not know"), "");
                reader.warn(&at.span, fault);
            }
        }
    }
}

impl Auth {
    /// What the core needs of it; `secret` is the server's.
    pub fn settings(&self, secret: &Secret) -> sip_node::Auth {
        let config = sip_auth::Config {
            algorithms: self.algorithms.clone(),
            lifetime: self.nonce_lifetime,
            require_qop: self.require_qop,
            uri: UriRule::Equivalent,
            opaque: None,
        };
        sip_node::Auth {
            enabled: self.enabled,
            challenge: self.challenge.clone(),
            realm: self.realm.clone().map(String::into_bytes),
            bind_from: self.bind_from,
            in_dialog: self.in_dialog,
            fronts: self.fronts.iter().map(|c| (c.address, c.length)).collect(),
            authenticator: Arc::new(Authenticator::new(secret, config)),
        }
    }
}
