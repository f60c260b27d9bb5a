//! RFC 3261 section 10.3, steps 6 to 8. Steps 1 to 5 (whose domain, Require, who is asking, what
//! they may change, which address of record) are over before.

use crate::contact::{self, Wanted, parse_expires, same_instance};
use crate::reply::{Success, path_unsupported, refuse, too_brief};
use crate::table::{Binding, Draft, Table};
use crate::types::{Change, Config, PathPolicy, Reply};
use core::time::Duration;
use sip_message::{Message, Name, NameAddr, Scheme, Uri, parse_u32};
use std::borrow::Cow;
use wire::{Flow, Time};

/// What a REGISTER asks for, checked as far as that goes without the table. In two steps so that a
/// lock around the table need not be held while a request is read.
#[derive(Debug)]
pub struct Registration<'a> {
    aor: &'a [u8],
    what: What<'a>,
    call_id: &'a [u8],
    cseq: u32,
    agent: &'a [u8],
    path: Cow<'a, [u8]>,
    /// The client lists `path`, so it is shown the Path.
    knows_path: bool,
    /// Outbound was applied and the client lists it.
    outbound: bool,
    /// It came over a connection of the client's own, which has keepalives that are answered.
    connected: bool,
}

#[derive(Debug)]
enum What<'a> {
    /// No Contact: tell me.
    Fetch,
    /// `Contact: *` with `Expires: 0`.
    Clear,
    Update(Vec<Order<'a>>),
}

/// A contact and the interval it gets, seconds; 0: remove it.
#[derive(Debug)]
struct Order<'a> {
    wanted: Wanted<'a>,
    granted: u32,
    /// What the binding is filed under.
    flow: Flow,
}

impl<'a> Registration<'a> {
    /// Reads and checks a request for the canonical address of record `aor`, received over `flow`; the
    /// refusal if it cannot be served. `policy`: whether a Path is taken that the client does not know of.
    pub fn read(
        request: &Message<'a>,
        aor: &'a [u8],
        flow: Flow,
        config: &Config,
        policy: PathPolicy,
    ) -> Result<Registration<'a>, Reply> {
        let supports = |tag: &[u8]| request.values(Name::Supported).any(|v| v.eq_ignore_ascii_case(tag));
        let call_id = request.call_id();
        if call_id.len() > config.max_call_id_len {
            return Err(refuse(513, b"Call-ID Too Long"));
        }
        let path = read_path(request, config)?;
        let knows_path = !path.is_empty() && supports(b"path");
        if !path.is_empty() && !knows_path && policy == PathPolicy::Refuse {
            return Err(path_unsupported());
        }
        let mut registration = Registration {
            aor,
            what: read_contacts(request, aor, flow, config)?,
            call_id,
            cseq: request.cseq(),
            agent: request.header(Name::UserAgent).map_or(&[][..], |h| h.value),
            path,
            knows_path,
            outbound: false,
            connected: flow.transport.is_reliable() && request.values(Name::Via).nth(1).is_none(),
        };
        if let What::Update(orders) = &mut registration.what {
            let knows = supports(b"outbound");
            registration.outbound = check_outbound(orders, request, &registration.path, knows)? && knows;
            check_sips(orders, request)?;
        }
        Ok(registration)
    }

    /// Files each binding where `place` says for its Contact, of which it is told whether the flow is kept
    /// (RFC 5626). Bindings are filed under the flow that the request came over otherwise.
    ///
    /// # Errors
    /// What `place` refuses a Contact with.
    pub fn place<E>(&mut self, mut place: impl FnMut(&Uri<'a>, bool) -> Result<Flow, E>) -> Result<(), E> {
        let What::Update(orders) = &mut self.what else { return Ok(()) };
        for order in orders.iter_mut().filter(|order| order.granted > 0) {
            order.flow = place(&order.wanted.uri, order.wanted.reg_id != 0)?;
        }
        Ok(())
    }

    /// The Contacts that are to last, each with the flow that it is filed under.
    pub fn lasting(&self) -> impl Iterator<Item = (&'a [u8], Flow)> {
        let orders = match &self.what {
            What::Update(orders) => &orders[..],
            What::Fetch | What::Clear => &[],
        };
        orders.iter().filter(|order| order.granted > 0).map(|order| (order.wanted.text, order.flow))
    }

    /// The Path that its bindings get.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Carries the whole request out, or none of it. What changed is appended to `changes`.
    pub fn apply(&self, now: Time, config: &Config, table: &mut Table, changes: &mut Vec<Change>) -> Reply {
        let mut success = Success::new(now);
        if let What::Fetch = self.what {
            table.bindings(self.aor, now, |b| success.contact(&b));
        } else {
            table.wake(now);
            let mut snapshot = table.snapshot(self.aor);
            let body = std::mem::take(&mut snapshot.body);
            let bindings = snapshot.bindings(&body);
            // One more for the usual contact.
            let mut update = Update { drafts: Vec::with_capacity(bindings.len() + 1), gone: Vec::new() };
            for binding in bindings {
                update.load(binding, now);
            }
            let done = self.work_out(&mut update, now, config).and_then(|()| {
                table
                    .commit(&snapshot, self.aor, &mut update.drafts, &update.gone, changes)
                    .map_err(|_| refuse(500, b"Location Table Full"))
            });
            if done.is_ok() {
                update.drafts.iter().for_each(|d| success.contact(&table.view(&d.binding)));
            }
            snapshot.body = body;
            table.give_back(snapshot);
            if let Err(refusal) = done {
                return refusal;
            }
        }
        if self.knows_path {
            success.path(&self.path);
        }
        success.finish(config, self.outbound, self.connected)
    }

    /// What the table would hold, nothing of it committed.
    fn work_out<'s>(&'s self, update: &mut Update<'s>, now: Time, config: &Config) -> Result<(), Reply> {
        match &self.what {
            What::Fetch => {}
            What::Clear => {
                for at in (0..update.drafts.len()).rev() {
                    self.check_order(&update.drafts[at])?;
                    update.remove(at);
                }
            }
            What::Update(orders) => {
                for order in orders {
                    self.carry_out(order, update, now)?;
                }
                // Too many from before, when the limit was higher, may still be refreshed.
                let added = update.drafts.iter().any(|d| d.was.is_none());
                if added && update.drafts.len() > config.max_bindings {
                    return Err(refuse(403, b"Too Many Contacts"));
                }
            }
        }
        Ok(())
    }

    fn carry_out<'s>(
        &'s self,
        order: &'s Order<'s>,
        update: &mut Update<'s>,
        now: Time,
    ) -> Result<(), Reply> {
        let wanted = &order.wanted;
        let Some(at) = update.find(wanted) else {
            if order.granted > 0 {
                update.drafts.push(Draft::read(self.binding(order, now), &wanted.uri, self.agent));
            } else if wanted.reg_id == 0 {
                return self.remove_flows(&wanted.uri, update);
            }
            return Ok(());
        };
        self.check_order(&update.drafts[at])?;
        if order.granted > 0 {
            update.drafts[at].replace(self.binding(order, now), self.agent);
        } else {
            update.remove(at);
        }
        Ok(())
    }

    /// A plain contact with interval zero that no plain binding matches ends the outbound bindings
    /// with that URI (RFC 5626 section 6: such a request "can also de-register any Contact").
    fn remove_flows(&self, uri: &Uri<'_>, update: &mut Update<'_>) -> Result<(), Reply> {
        for at in (0..update.drafts.len()).rev() {
            if is_uri(update.drafts[at].binding.contact, uri) {
                self.check_order(&update.drafts[at])?;
                update.remove(at);
            }
        }
        Ok(())
    }

    /// Steps 6 and 7: a request of the same Call-ID must be later than the one that made the binding.
    /// What this very request has written is not held against it: of two values for one binding the
    /// last counts.
    fn check_order(&self, draft: &Draft<'_>) -> Result<(), Reply> {
        match &draft.was {
            Some(was) if was.call_id == self.call_id && self.cseq <= was.cseq => {
                Err(refuse(500, b"CSeq Out of Order"))
            }
            _ => Ok(()),
        }
    }

    fn binding<'s>(&'s self, order: &'s Order<'s>, now: Time) -> Binding<'s> {
        Binding {
            contact: order.wanted.text,
            params: &order.wanted.params,
            q: order.wanted.q,
            expires: now + Duration::from_secs(u64::from(order.granted)),
            call_id: self.call_id,
            cseq: self.cseq,
            flow: order.flow,
            path: &self.path,
            instance: order.wanted.instance,
            reg_id: order.wanted.reg_id,
            agent: 0,
        }
    }
}

/// The bindings of one address of record while a request works on them.
struct Update<'a> {
    drafts: Vec<Draft<'a>>,
    /// Bindings of the table that will not be there afterwards.
    gone: Vec<Binding<'a>>,
}

impl<'a> Update<'a> {
    fn load(&mut self, binding: Binding<'a>, now: Time) {
        if binding.expires > now {
            self.drafts.push(Draft::kept(binding));
        } else {
            self.gone.push(binding);
        }
    }

    fn remove(&mut self, at: usize) {
        self.gone.extend(self.drafts.remove(at).was);
    }

    /// The binding that a contact is about: by instance and reg-id where it has them (RFC 5626
    /// section 6), else by URI. URI equality is not transitive, so the same text goes first.
    fn find(&self, wanted: &Wanted<'_>) -> Option<usize> {
        if wanted.reg_id != 0 {
            return self.drafts.iter().position(|d| {
                d.binding.reg_id == wanted.reg_id && same_instance(d.binding.instance, wanted.instance)
            });
        }
        let plain = |d: &Draft<'_>| d.binding.reg_id == 0;
        let first = |fits: &dyn Fn(&[u8]) -> bool| {
            self.drafts.iter().position(|d| plain(d) && fits(d.binding.contact))
        };
        first(&|contact| contact == wanted.text)
            .or_else(|| first(&|contact| is_uri(contact, &wanted.uri)))
            .or_else(|| first(&|contact| is_uri_but_for_scheme(contact, &wanted.uri)))
    }
}

/// Whether a stored contact is equivalent to `uri` (RFC 3261 section 19.1.4).
fn is_uri(stored: &[u8], uri: &Uri<'_>) -> bool {
    Uri::parse(stored).is_ok_and(|stored| stored.equivalent(uri))
}

/// The same of a stored contact that has the other one of the schemes sip and sips: it is replaced (RFC 5630
/// section 5.1.1.1).
fn is_uri_but_for_scheme(stored: &[u8], uri: &Uri<'_>) -> bool {
    let other = match uri.scheme {
        Scheme::Sip => Scheme::Sips,
        Scheme::Sips => Scheme::Sip,
        Scheme::Tel | Scheme::Other(_) => return false,
    };
    is_uri(stored, &Uri { scheme: other, ..*uri })
}

/// All Path values, comma separated.
fn read_path<'a>(request: &Message<'a>, config: &Config) -> Result<Cow<'a, [u8]>, Reply> {
    let mut path = Cow::Borrowed(&[][..]);
    for (at, value) in request.values(Name::Path).enumerate() {
        if at >= config.max_path_values {
            return Err(refuse(513, b"Too Many Path Values"));
        }
        let uri = NameAddr::parse(value).ok().and_then(|a| Uri::parse(a.uri).ok());
        if !uri.is_some_and(|uri| uri.is_sip()) {
            return Err(refuse(400, b"Bad Path"));
        }
        if path.len() + value.len() >= config.max_path_len {
            return Err(refuse(513, b"Path Too Long"));
        }
        if path.is_empty() {
            path = Cow::Borrowed(value);
        } else {
            let all = path.to_mut();
            all.push(b',');
            all.extend_from_slice(value);
        }
    }
    Ok(path)
}

/// Step 6, and of step 7 what needs no binding: which contacts, for how long.
fn read_contacts<'a>(
    request: &Message<'a>,
    aor: &[u8],
    flow: Flow,
    config: &Config,
) -> Result<What<'a>, Reply> {
    let header = request.header(Name::Expires).map(|h| h.value);
    let (mut orders, mut star, mut count) = (Vec::new(), false, 0);
    for value in request.values(Name::Contact) {
        count += 1;
        if count > config.max_contacts {
            return Err(refuse(513, b"Too Many Contact Values"));
        }
        if value == b"*" {
            star = true;
            continue;
        }
        if orders.is_empty() {
            // Room for the usual one, where growing would take room for four.
            orders.reserve_exact(1);
        }
        let wanted = contact::read(value, aor, config)?;
        let granted = grant(wanted.requested.or(header.map(parse_expires)), config)?;
        orders.push(Order { wanted, granted, flow });
    }
    match (star, count) {
        (false, 0) => Ok(What::Fetch),
        (false, _) => Ok(What::Update(orders)),
        (true, 1) if header.and_then(parse_u32) == Some(0) => Ok(What::Clear),
        (true, _) => Err(refuse(400, b"Invalid Wildcard Contact")),
    }
}

/// The interval for a requested one.
fn grant(requested: Option<u32>, config: &Config) -> Result<u32, Reply> {
    let least = config.min_expires.min(3600);
    match requested {
        Some(0) => Ok(0),
        Some(seconds) if seconds < least => Err(too_brief(least)),
        Some(seconds) => Ok(seconds.min(config.max_expires).max(1)),
        None => Ok(config.default_expires.min(config.max_expires).max(least).max(1)),
    }
}

/// Whether outbound rules apply (RFC 5626 section 6); where they do not, every reg-id is ignored.
fn check_outbound(
    orders: &mut [Order<'_>],
    request: &Message<'_>,
    path: &[u8],
    knows_outbound: bool,
) -> Result<bool, Reply> {
    let lasting = orders.iter().filter(|o| o.granted > 0);
    let with_flow = |o: &&Order<'_>| o.wanted.reg_id != 0;
    if !orders.iter().any(|o| with_flow(&o)) {
        return Ok(false);
    }
    if lasting.clone().count() > 1 && lasting.clone().any(|o| with_flow(&o)) {
        return Err(refuse(400, b"More Than One Contact With reg-id"));
    }
    let direct = request.values(Name::Via).nth(1).is_none();
    if direct || (!path.is_empty() && first_hop_knows_outbound(request)) {
        return Ok(true);
    }
    if knows_outbound {
        return Err(refuse(439, b"First Hop Lacks Outbound Support"));
    }
    for order in orders {
        order.wanted.reg_id = 0;
    }
    Ok(false)
}

/// Whether the Path says that the client's edge proxy keeps flows. The RFC asks for `ob` in "the
/// first URI"; the edge proxy's own value is the last one, because each proxy puts its value on
/// top. Either is taken.
fn first_hop_knows_outbound(request: &Message<'_>) -> bool {
    let has_ob = |value: &[u8]| {
        let uri = NameAddr::parse(value).ok().map(|a| a.uri);
        uri.and_then(|uri| Uri::parse(uri).ok()).is_some_and(|uri| uri.param(b"ob").is_some())
    };
    let mut values = request.values(Name::Path);
    values.next().is_some_and(has_ob) || values.last().is_some_and(has_ob)
}

/// A SIPS contact is taken only if Request-URI, Path and the other contacts are SIPS too (RFC 5630 section
/// 5.2).
fn check_sips(orders: &[Order<'_>], request: &Message<'_>) -> Result<(), Reply> {
    let mut lasting = orders.iter().filter(|o| o.granted > 0).map(|o| o.wanted.uri.scheme == Scheme::Sips);
    if !lasting.clone().any(|sips| sips) {
        return Ok(());
    }
    let is_sips = |uri: &[u8]| Uri::parse(uri).is_ok_and(|u| u.scheme == Scheme::Sips);
    let path_is = |value: &[u8]| NameAddr::parse(value).is_ok_and(|a| is_sips(a.uri));
    let all =
        lasting.all(|sips| sips) && is_sips(request.request_uri()) && request.values(Name::Path).all(path_is);
    if !all {
        return Err(refuse(400, b"SIPS Required"));
    }
    Ok(())
}
