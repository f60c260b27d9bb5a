//! Where the ends of calls are, as far as records of calls depend on it: where they want requests sent (RFC
//! 3261 section 12.1), and where calls came from. Nothing is noted of this unless records are kept.

use super::{Calls, DialogKey};
use crate::callees::Named;
use crate::uris::leads_to;
use core::net::{IpAddr, SocketAddr};
use sip_message::{Message, Uri, canonical_user};
use sip_proxy::token::Dialog;
use wire::Time;

impl Calls {
    /// What the URIs of a Record-Route or Route and of a Contact or request say.
    pub fn named_by(&self, route: Option<&Uri<'_>>, contact: Option<&Uri<'_>>) -> Named {
        let hash = |uri: &Uri<'_>, user: &[u8]| {
            let (host, port) = leads_to(uri);
            let mut text = host.to_ascii_lowercase();
            text.extend_from_slice(&port.to_be_bytes());
            text.extend_from_slice(&canonical_user(user));
            (self.hash.hash(&text) as u32).max(1)
        };
        Named {
            route: route.map_or(0, |uri| hash(uri, b"")),
            contact: contact.map_or(0, |uri| hash(uri, uri.user.unwrap_or(b""))),
        }
    }

    /// An INVITE with this key has begun a call. It came from the host `origin`, and its sender wants
    /// requests sent where `named` says.
    pub fn caller_is(&mut self, key: &DialogKey, origin: IpAddr, named: Named) {
        let origin = self.host(origin);
        if let Some(entry) = self.table.find_mut(key.from, |e| e.hash == key.from)
            && entry.origin == 0
        {
            (entry.origin, entry.named) = (origin, named);
        }
    }

    /// A callee wants requests sent where `named` says. This is its answer to an INVITE with this key, which
    /// went to `place`.
    pub fn callee_is(&mut self, response: &Message<'_>, key: &DialogKey, place: SocketAddr, named: Named) {
        let dialog = (self.hash(response.call_id(), response.to_tag()), self.place(place));
        if let Some(entry) = self.table.find_mut(key.from, |e| e.hash == key.from) {
            entry.callees.name(dialog, named, false);
        }
    }

    /// An end has a new Contact: the sender of a request with this key, which had our token, or the one who
    /// has answered it.
    pub fn end_is(&mut self, key: &DialogKey, sender: bool, contact: Named) {
        let Some(within) = key.within else { return };
        let (caller, callee) = if within.by_caller { (key.from, key.to) } else { (key.to, key.from) };
        let place = self.place(within.callee);
        let Some(entry) = self.table.find_mut(caller, |e| e.hash == caller) else { return };
        match sender == within.by_caller {
            true => entry.named.take(contact, true),
            false => entry.callees.name((callee, place), contact, true),
        }
    }

    /// Whether a request with our token goes where the other end wants requests sent, by its Request-URI and
    /// by the Route behind ours (`goes`). Of what is not known here that is assumed.
    pub fn is_as_named(
        &self,
        now: Time,
        request: &Message<'_>,
        dialog: &Dialog,
        others: bool,
        goes: Named,
    ) -> bool {
        let (from, to) = (
            self.hash(request.call_id(), request.from_tag()),
            self.hash(request.call_id(), request.to_tag()),
        );
        let (caller, callee) = if dialog.by_caller { (from, to) } else { (to, from) };
        let place = self.place(dialog.callee().remote);
        let known = self.table.find(caller, |e| e.hash == caller).and_then(|e| {
            let named = e.callees.named(callee, place)?;
            Some(if dialog.by_caller { named } else { e.named })
        });
        match known {
            Some(named) => named.is_followed_by(goes),
            None => !self.judges(now, dialog, others),
        }
    }

    /// Whether a request without our token is a callee's, by its key, and went to the caller: to the host
    /// that the call came from, or where its Contact is, as `uri` says if it is known.
    pub fn is_back_to_caller(&self, key: &DialogKey, to: SocketAddr, uri: &[u8]) -> bool {
        let find = |hash: u64| self.table.find(hash, |e| e.hash == hash);
        let Some(call) = find(key.to).filter(|e| e.callees.has(key.from)) else { return false };
        let earlier = find(key.from).is_none_or(|own| call.sequence < own.sequence);
        let contact = || {
            let named = Uri::parse(uri).map_or(0, |uri| self.named_by(None, Some(&uri)).contact);
            named != 0 && named == call.named.contact
        };
        key.within.is_none() && earlier && (call.origin == self.host(to.ip()) || contact())
    }

    /// A hash of the address of a host, never 0.
    fn host(&self, ip: IpAddr) -> u32 {
        self.place(SocketAddr::new(ip, 0)).max(1)
    }
}
