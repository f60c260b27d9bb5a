//! The checks of RFC 3261 section 16.3, and what a request is.

use crate::forwarding::forwarder::Forwarder;
use crate::message::origin;
use crate::token::{Dialog, Sealer, Sender};
use crate::{CallKey, NodeIndex};
use sip_message::{Message, Method, Name, Scheme, Uri};
use sip_proxy::routes::{Routing, preprocess};
use sip_proxy::transport::reply_flow;
use wire::Flow;

/// So often a request may come by here: a node may send it back with another Request-URI (a spiral), but one
/// that goes round is stopped long before its Max-Forwards is used up.
const MOST_VISITS: usize = 4;

/// A request that passed the checks.
#[derive(Clone, Copy)]
pub(crate) struct Checked<'a> {
    pub routing: Routing<'a>,
    pub uri: Uri<'a>,
    /// The dialog that its token names, and who sends.
    pub dialog: Option<(Dialog, Sender)>,
    /// The phone that its token names, as it registered.
    pub phone: Option<Dialog>,
    pub back: Flow,
    pub call: CallKey,
    /// What it is known by, under the key of this epoch.
    pub id: u64,
    pub epoch: u8,
}

impl<'a> Checked<'a> {
    /// Whether the request must be secure on every hop, so that this way is not allowed (RFC 5630 section
    /// 5.3). Within a dialog of ours the scheme is that of the other end's Contact. The dialog continues as
    /// it began, and its BYE is not refused.
    pub fn bars(&self, way: &Flow) -> bool {
        self.is_sips() && !way.transport.is_secure() && self.dialog.is_none()
    }

    /// Whether it is for a `sips:` URI.
    pub fn is_sips(&self) -> bool {
        self.uri.scheme == Scheme::Sips
    }

    /// Its next hop: the next Route, or the Request-URI.
    pub fn next(&self) -> Uri<'a> {
        self.routing.next.and_then(|next| Uri::parse(next).ok()).unwrap_or(self.uri)
    }
}

impl Forwarder {
    /// The checks of section 16.3, and the route of 16.4. An error is status, reason and further header
    /// lines.
    pub fn check<'a>(
        &mut self,
        flow: Flow,
        request: &Message<'a>,
    ) -> Result<Checked<'a>, (u16, &'static [u8], Vec<u8>)> {
        let malformed = |this: &mut Forwarder, reason: &'static [u8]| {
            this.counts.malformed += 1;
            Err((400, reason, Vec::new()))
        };
        let uri = Uri::parse(request.request_uri()).ok();
        let settings = &self.settings;
        let ours = |uri: &Uri<'_>| uri.is_sip() && settings.is_self(uri);
        let as_written = |value| settings.token_as_written(value);
        let Ok(routing) = preprocess(request, uri.as_ref(), as_written, ours) else {
            return malformed(self, b"Malformed Route");
        };
        // Only a strict router before us changes it.
        let uri = if routing.drop_last { Uri::parse(routing.request_uri).ok() } else { uri };
        // Within a dialog it is the Contact of the other end, and leads nowhere here.
        let inside = !request.to_tag().is_empty();
        let Some(uri) = uri.or_else(|| inside.then(|| Uri::opaque(routing.request_uri))) else {
            return malformed(self, b"Malformed Request-URI");
        };
        let known = match uri.scheme {
            Scheme::Sip | Scheme::Tel => true,
            // Without TLS it could only be forwarded unencrypted, which is forbidden (section 26.2.2).
            Scheme::Sips => settings.listeners.iter().any(|l| l.transport.is_secure()),
            Scheme::Other(_) => inside,
        };
        if !known {
            return Err((416, b"", Vec::new()));
        }
        if self.visits(request) >= MOST_VISITS {
            self.counts.loops += 1;
            return Err((482, b"", Vec::new()));
        }
        if let Some(line) = required(request) {
            return Err((420, b"", line));
        }
        let call = self.sealer.call(request.call_id());
        let dialog = routing.token.and_then(|token| {
            let of = (call, request.call_id());
            self.sealer.open_dialog(token, of, request.from_tag(), request.to_tag())
        });
        let mut phone = None;
        if let Some(token) = routing.token.filter(|_| dialog.is_none()) {
            phone = self.sealer.open_path(token);
            if phone.is_none() {
                self.counts.forged += 1;
                let whose: &[u8] = match Sealer::is_path(token) {
                    true => b"Path Not Of This Balancer",
                    false => b"Dialog Not Of This Balancer",
                };
                return Err((403, whose, Vec::new()));
            }
        }
        // If it were forwarded, it would look as if every hop had been secure (RFC 5630 section 5.3). Within
        // a dialog of ours it is accepted: the scheme comes from the other end's Contact, and a BYE must
        // work.
        if uri.scheme == Scheme::Sips && !flow.transport.is_secure() && dialog.is_none() {
            return malformed(self, b"SIPS Over Insecure Transport");
        }
        let back = reply_flow(flow, request);
        let epoch = self.sealer.epoch();
        let id = self.sealer.id(epoch, &origin(request, back.remote.ip(), call));
        Ok(Checked { routing, uri, dialog, phone, back, call, id, epoch })
    }

    /// How often the request has been here.
    fn visits(&self, request: &Message<'_>) -> usize {
        if request.via_count() < MOST_VISITS {
            return 0;
        }
        let branches = request.values(Name::Via).filter_map(|value| sip_message::Via::parse(value).ok());
        branches.filter(|via| self.sealer.open_branch(via.branch).is_some()).count()
    }

    /// Whether the balancer itself is asked how it is.
    pub fn is_for_us(&self, request: &Message<'_>, checked: &Checked<'_>) -> bool {
        request.method() == Method::Options
            && checked.uri.user.is_none()
            && checked.routing.next.is_none()
            && checked.uri.is_sip()
            && self.settings.is_self(&checked.uri)
    }

    /// The node that its token names.
    pub fn node_of(&self, c: &Checked<'_>) -> Option<NodeIndex> {
        c.dialog.and_then(|(dialog, _)| self.cluster.by_id(dialog.node))
    }

    /// Whether a request shows that it is of its dialog, as far as one can.
    pub fn is_sealed(&self, c: &Checked<'_>) -> bool {
        c.dialog.is_some() || !self.settings.record_route
    }

    /// The home of a REGISTER's address-of-record.
    pub fn home(&mut self, request: &Message<'_>) -> Option<u64> {
        let uri = Uri::parse(request.to_uri()).ok()?;
        let mut aor = self.take_scratch();
        uri.write_aor(&mut aor);
        let home = Sealer::home(&aor);
        self.scratch = aor;
        Some(home)
    }
}

/// `Unsupported` with what a Proxy-Require asks for; nothing is supported.
fn required(request: &Message<'_>) -> Option<Vec<u8>> {
    request.header(Name::ProxyRequire)?;
    let mut line = Vec::new();
    for value in request.values(Name::ProxyRequire) {
        line.extend_from_slice(if line.is_empty() { b"Unsupported: " } else { b", " });
        line.extend_from_slice(value);
    }
    line.extend_from_slice(b"\r\n");
    (line.len() > 2).then_some(line)
}
