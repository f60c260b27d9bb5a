//! A forwarded request and everything that belongs to it until it is over.

use super::security::{Barred, bar};
use crate::calls::DialogKey;
use crate::channels::Claimed;
use crate::diverting::{Diverting, Trail};
use crate::overload::Algorithm;
use crate::records::{Recorded, Sent};
use crate::routing::Target;
use crate::settings::Bounds;
use crate::short::Short;
use crate::trunk_ref::TrunkRef;
use crate::uris::{is_sips, push_as_sip};
use crate::watch::Watch;
use call_rules::{HeaderRules, Identity};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use sip_auth::Tries;
use sip_health::LineFull;
use sip_proxy::context::{Action, BranchId, Context};
use sip_proxy::locate::Locate;
use sip_proxy::session_timer::Asked;
use sip_proxy::token::{MOST_RAISED, Role};
use sip_registrar::FlowBinding;
use sip_transaction::{ClientId, Original, Payer, ServerId, TimerId};
use std::mem;
use std::sync::Arc;
use wire::{Flow, Time, Transport};

/// Larger buffers do not stay in the pool.
pub(super) const POOLED: usize = 4_096;
/// Bytes of the texts that a usual request keeps: its targets', a realm and who has proven itself.
const TEXT_ROOM: usize = 224;

/// Names a [`Proxied`] request; kept by its transactions and timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProxiedId {
    pub slot: u32,
    pub generation: u16,
}

impl ProxiedId {
    /// The user data of a client transaction on this branch.
    pub fn with_branch(self, branch: BranchId) -> u64 {
        u64::from(self.slot) << 32 | u64::from(self.generation) << 16 | u64::from(branch.as_u16())
    }

    /// Back from [`ProxiedId::with_branch`].
    pub fn split(user: u64) -> (ProxiedId, BranchId) {
        let id = ProxiedId { slot: (user >> 32) as u32, generation: (user >> 16) as u16 };
        (id, BranchId::from_u16(user as u16))
    }

    /// The user data of the server transaction and of timers.
    pub fn as_u64(self) -> u64 {
        u64::from(self.slot) << 32 | u64::from(self.generation) << 16
    }
}

/// Where the addresses of a target come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// They are in [`StoredTarget::hops`].
    Known,
    /// This URI has to be looked up first; a range of [`Proxied::text`].
    Locate(Range<u32>),
}

/// One element of the target set (RFC 3261 section 16.5).
#[derive(Clone, Debug)]
pub(crate) struct StoredTarget {
    /// The Request-URI for it; a range of [`Proxied::text`].
    pub uri: Range<u32>,
    /// Whole Route lines for it, likewise.
    pub routes: Range<u32>,
    /// They take the place of all Route lines of the request.
    pub reroutes: bool,
    /// A whole Route line to put last, likewise (strict routing).
    pub last_route: Range<u32>,
    pub reach: Reach,
    /// The URI of the next hop, likewise, if its addresses come from there.
    pub next_hop: Range<u32>,
    /// Its addresses, in the order in which to try them.
    pub hops: Short<Flow>,
    /// Where it may be found.
    pub bounds: Bounds,
    /// The standing of what is there.
    pub role: Role,
    /// The trunk that it is a target of, as it was when the call began.
    pub trunk: Option<TrunkRef>,
    /// What is changed in the header fields of its request.
    pub headers: Option<Arc<HeaderRules>>,
    /// Whether it answers is watched.
    pub watch: Option<Watch>,
    /// It is a phone with an instance identifier, `next` another flow to the same phone (RFC 5626).
    pub instance: bool,
    /// The binding of one flow of a phone behind another proxy.
    pub flow: Option<Box<FlowBinding>>,
    /// Only the flow of the registration leads there (RFC 5626).
    pub flow_only: bool,
    /// Its first address is the far end of a connection that the peer opened: if that is gone, none is made.
    pub existing: bool,
    /// Its addresses are connections to the one proxy that its phone is behind.
    pub behind_edge: bool,
    /// Only an encrypted transport may be used: it is registered, or named, as `sips:`.
    pub secure: bool,
    /// Chosen by a sender that has not proven that it is there.
    pub elsewhere: bool,
    /// Where its binding was registered from.
    pub registered_from: Option<IpAddr>,
    /// The forwardings that led to it.
    pub trail: Option<Trail>,
    /// It has refused the request at one of its addresses, so it is there.
    pub refused: bool,
    /// Its connection has ended, and there is no other way to reach it.
    pub gone: bool,
    /// What is tried in its place if it cannot be reached.
    pub next: Option<Box<Target>>,
}

/// A branch that begins: its number, and the Max-Breadth of its request (RFC 5393 section 5.3.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    pub id: BranchId,
    pub breadth: u8,
}

/// A name being looked up for a branch.
#[derive(Debug)]
pub(crate) struct Pending {
    pub branch: Branch,
    pub locate: Box<Locate>,
    /// A question could not be put, because too many wait for the DNS.
    pub full: bool,
}

/// Who sent a request, and how responses go back.
pub(crate) struct Upstream {
    pub server: ServerId,
    /// Where it came from.
    pub source: Flow,
    /// The standing of who sent it.
    pub role: Role,
    /// It is a trunk outside of the trust domain: it is neither told who is called, nor believed who calls.
    pub distrusted: bool,
    /// Who pays for what is held here.
    pub payer: Payer,
    /// Who sent it has not shown that it receives anything.
    pub bounded: bool,
    /// Whether `rport` goes unasked into the received Via.
    pub always_rport: bool,
    /// How our load is reported to the caller, if it asks for that.
    pub oc: Option<Algorithm>,
    /// It may believe what its Via says of load.
    pub knows_oc: bool,
    /// What it has to do with a call.
    pub key: DialogKey,
    /// What it has to do with the record of a call.
    pub recorded: Option<Recorded>,
    /// The other end of its dialog, if its sender leads it elsewhere.
    pub led_from: Option<SocketAddr>,
}

impl Upstream {
    /// What the received Via is completed with: the address that it came from, and whether `rport` goes
    /// unasked into it.
    pub fn seen_as(&self) -> Option<(SocketAddr, bool)> {
        Some((self.source.remote, self.always_rport))
    }
}

/// How the request of each branch differs from the received one, whatever its target.
pub(crate) struct Edits {
    /// Route values to take off: how many at the beginning, and whether the last one.
    pub drop_routes: (usize, bool),
    /// Whether our Record-Route goes into it.
    pub record_route: Recording,
    /// The realm whose credentials to take off.
    pub realm: Option<Range<u32>>,
    /// The user of ours whose credentials these are, likewise.
    pub account: Option<Range<u32>>,
    /// The Request-URI asks for security all the way.
    pub sips: bool,
    /// Hash for loop detection.
    pub loop_hash: u64,
    /// The session timer that is asked for.
    pub session: Asked,
    /// The URI in its From, if the request has left with another one.
    pub from: Option<Arc<[u8]>>,
    /// The call is to a user who has rules for it.
    pub diverting: Option<Box<Diverting>>,
    /// By how much its CSeq is higher where it goes, as its dialog says.
    pub raised: u8,
    /// The number in its CSeq, if it has left with another one.
    pub cseq: Option<u32>,
    /// Challenges of trunks that were answered, and by how much the CSeq of the branch is higher for that.
    pub tries: Vec<(BranchId, Tries, u8)>,
}

/// Which requests get our Record-Route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recording {
    /// None: it sets up no dialog.
    Never,
    /// Those to phones that can be reached over their flow only (RFC 5626 section 5.3): what follows in the
    /// dialog has to come by here.
    ToFlows,
    /// All.
    Always,
}

/// Why branches were not made.
#[derive(Default)]
pub(crate) struct Withheld {
    /// For lack of room here.
    pub overloaded: bool,
    /// The next hop asked for less.
    pub held_back: bool,
    /// The trunk takes no further call.
    pub full: Option<LineFull>,
    /// The schemes of URIs forbid it.
    pub barred: Option<Barred>,
    /// A trunk did not accept the account of this server.
    pub not_accepted: bool,
}

/// When something is due.
pub(crate) struct Timing {
    pub started: Time,
    pub timer: TimerId,
    /// When the context wants to be woken.
    pub wakes: Time,
    /// When the caller gets a 100 if there is no response yet.
    pub trying: Time,
}

/// A forwarded request: its response context, its transactions, and what later branches need.
pub(crate) struct Proxied {
    pub(super) id: ProxiedId,
    pub(super) context: Context,
    pub(super) upstream: Upstream,
    pub(super) edits: Edits,
    pub(super) timing: Timing,
    pub(super) invite: bool,
    /// The context is over; an INVITE that may be accepted in spite of its failure stays until its server
    /// transaction ends, because every 2xx goes through it (RFC 3261 16.7).
    pub(super) over: bool,
    /// A request has left with our Record-Route.
    pub(super) recorded: bool,
    /// A 2xx was forwarded.
    pub(super) accepted: bool,
    pub(super) withheld: Withheld,
    /// The received request, until no branch or answer can need it any more.
    pub(super) request: Option<Original>,
    /// The bytes that were charged besides the request.
    pub(super) charged: usize,
    /// Whole Reason lines of the CANCEL received, for those sent.
    pub(super) reason: Range<u32>,
    /// The channels of trunks that it holds until it is answered.
    pub(super) claimed: Claimed,
    /// Bit n: target n is a trunk. Kept when the targets are not, for answers that come again. A
    /// context has 65 targets at most.
    trusted: u128,
    /// Backing of the ranges.
    text: Vec<u8>,
    targets: Vec<StoredTarget>,
    pub(super) clients: Vec<(BranchId, ClientId)>,
    pub(super) lookups: Vec<Pending>,
    /// Final responses kept for later, without our Via.
    pub(super) kept: Vec<(BranchId, Vec<u8>)>,
}

impl StoredTarget {
    /// Whether it is a trunk within the trust domain (RFC 3325 section 2.3).
    fn is_trusted(&self) -> bool {
        let identity = self.headers.as_ref().and_then(|rules| rules.identity());
        self.role == Role::Trunk && identity != Some(Identity::Withheld)
    }

    /// Where a branch to this target goes.
    pub fn hop(&self, branch: BranchId) -> Option<&Flow> {
        self.hops.get(usize::from(branch.attempt()))
    }
}

impl Proxied {
    /// One with nothing sent yet, in memory from an earlier one.
    pub fn new(
        id: ProxiedId,
        context: Context,
        upstream: Upstream,
        edits: Edits,
        invite: bool,
        (now, buffers): (Time, Buffers),
    ) -> Proxied {
        Proxied {
            id,
            context,
            upstream,
            edits,
            timing: Timing { started: now, timer: TimerId::NONE, wakes: Time::FAR, trying: Time::FAR },
            invite,
            over: false,
            recorded: false,
            accepted: false,
            withheld: Withheld::default(),
            request: None,
            charged: 0,
            reason: 0..0,
            claimed: Claimed::default(),
            trusted: 0,
            text: buffers.text,
            targets: buffers.targets,
            clients: buffers.clients,
            lookups: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// How often challenges to a branch were answered.
    pub fn tries(&mut self, branch: BranchId) -> &mut Tries {
        let tries = &mut self.edits.tries;
        let at = tries.iter().position(|(other, ..)| *other == branch).unwrap_or(tries.len());
        if at == tries.len() {
            tries.push((branch, Tries::default(), 0));
        }
        &mut tries[at].1
    }

    /// Whether a branch leaves again, because its target has asked for credentials.
    pub fn is_again(&self, branch: BranchId) -> bool {
        self.edits.tries.iter().any(|(other, ..)| *other == branch)
    }

    /// By how much the CSeq of a branch is higher than that of its request.
    pub fn raised(&self, branch: BranchId) -> u8 {
        let own =
            self.edits.tries.iter().find(|(other, ..)| *other == branch).map_or(0, |(.., raised)| *raised);
        self.edits.raised.saturating_add(own).min(MOST_RAISED)
    }

    /// A branch leaves again with a higher CSeq. `number`: that of its request.
    pub fn raise(&mut self, branch: BranchId, number: u32) {
        self.edits.cseq = Some(number);
        if let Some((.., raised)) = self.edits.tries.iter_mut().find(|(other, ..)| *other == branch) {
            *raised += 1;
        }
    }

    /// Bytes held here besides the request.
    pub fn held(&self) -> usize {
        let kept: usize = self.kept.iter().map(|(_, bytes)| bytes.capacity()).sum();
        size_of::<Proxied>() + self.text.capacity() + kept
    }

    /// The received request, if it is still there.
    pub fn request(&self) -> &[u8] {
        self.request.as_ref().map_or(&[], |request| request.as_slice())
    }

    /// Adds a target to the target set.
    pub fn push_target(&mut self, target: Target) {
        let sips = self.edits.sips;
        let uri = self.push_text(|t| match sips {
            true => t.extend_from_slice(&target.uri),
            false => push_as_sip(&target.uri, t),
        });
        let routes = self.push_text(|t| t.extend_from_slice(&target.routes));
        let last_route = self.push_text(|t| t.extend_from_slice(&target.last_route));
        let next_hop = self.push_text(|t| t.extend_from_slice(&target.locate));
        let reach = match next_hop.is_empty() {
            true => Reach::Known,
            false => Reach::Locate(next_hop.clone()),
        };
        self.targets.push(StoredTarget {
            uri,
            routes,
            reroutes: target.reroutes,
            last_route,
            reach,
            next_hop,
            hops: target.hops,
            bounds: target.bounds,
            role: target.role,
            trunk: target.trunk,
            headers: target.headers,
            watch: target.watch,
            instance: !target.instance.is_empty(),
            flow: target.flow,
            flow_only: target.flow_only,
            existing: target.existing,
            behind_edge: target.behind_edge,
            secure: target.secure || is_sips(&target.uri),
            elsewhere: target.elsewhere,
            registered_from: target.registered_from,
            trail: None,
            refused: false,
            gone: false,
            next: target.next,
        });
    }

    /// Sets the forwardings that led to the target added last.
    pub fn set_trail(&mut self, trail: Option<Trail>) {
        if let Some(last) = self.targets.last_mut() {
            last.trail = trail;
        }
    }

    /// The target set.
    pub fn targets(&self) -> &[StoredTarget] {
        &self.targets
    }

    /// Whether all targets had a connection that they opened themselves, and none can be reached.
    pub fn is_gone(&self) -> bool {
        !self.targets.is_empty() && self.targets.iter().all(|target| target.gone)
    }

    /// The target of a branch.
    pub fn target(&self, branch: BranchId) -> Option<&StoredTarget> {
        self.targets.get(usize::from(branch.target()))
    }

    /// The same, to change it.
    pub fn target_mut(&mut self, branch: BranchId) -> Option<&mut StoredTarget> {
        self.targets.get_mut(usize::from(branch.target()))
    }

    /// Makes room for the texts of a usual request.
    pub fn reserve_text(&mut self) {
        self.text.reserve(TEXT_ROOM);
    }

    /// Appends to the text and returns its range.
    pub fn push_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<u32> {
        let start = self.text.len() as u32;
        write(&mut self.text);
        start..self.text.len() as u32
    }

    /// The text of a range.
    pub fn text(&self, range: &Range<u32>) -> &[u8] {
        self.text.get(range.start as usize..range.end as usize).unwrap_or(b"")
    }

    /// A branch that was sent to this address.
    pub fn sent(&self, branch: BranchId, to: SocketAddr) -> Sent<'_> {
        let target = self.target(branch);
        let trunk = target.and_then(|target| target.trunk.as_ref()).and_then(TrunkRef::get);
        let uri = target.map_or(&b""[..], |target| self.text(&target.uri));
        let source = self.upstream.source.remote;
        Sent { branch, to, source, uri, trunk: trunk.map_or(b"", |trunk| &trunk.name) }
    }

    /// Whether our Record-Route goes into the request of a branch.
    pub fn records(&self, branch: BranchId) -> bool {
        match self.edits.record_route {
            Recording::Never => false,
            Recording::ToFlows => self.target(branch).is_some_and(|target| target.flow_only),
            Recording::Always => true,
        }
    }

    /// Why the request of a branch may not go this way.
    pub fn bars(&self, branch: BranchId, flow: Flow) -> Option<Barred> {
        let target = self.target(branch)?;
        bar(flow, self.edits.sips, self.text(&target.uri), target.secure)
    }

    /// The client transaction of a branch.
    pub fn client(&self, branch: BranchId) -> Option<ClientId> {
        self.clients.iter().find(|(b, _)| *b == branch).map(|(_, id)| *id)
    }

    /// Whether identity assertions of what answers on this branch are believed (RFC 3325 section 5).
    pub fn trusts(&self, branch: BranchId) -> bool {
        !self.upstream.distrusted
            && match self.target(branch) {
                Some(target) => target.is_trusted(),
                None => is_trunk(self.trusted, branch),
            }
    }

    /// Whether `status` means that the request is to be tried elsewhere: a trunk's next address or target
    /// for what its owner says, another flow for a phone that is not on this one (RFC 5626 section 7).
    pub fn gives_way(&self, branch: BranchId, status: u16) -> bool {
        let Some(target) = self.target(branch) else { return false };
        let trunk = target.trunk.as_ref().and_then(|trunk| trunk.get());
        match trunk {
            _ if status < 300 || !self.context.is_running(branch) => false,
            _ if target.instance => matches!(status, 408 | 430),
            // A dialog whose phone may have another flow behind its proxy. An overloaded proxy gets no more.
            None if status == 430 => target.behind_edge,
            None if target.next.as_ref().is_some_and(|next| next.reroutes) => false,
            Some(trunk) => status == 503 || trunk.retry_on.contains(&status),
            None => status == 503,
        }
    }

    /// The binding to remove, because the edge proxy of its phone has lost the flow (RFC 5626 section 7).
    pub fn lost_flow(&mut self, branch: BranchId, status: u16) -> Option<Box<FlowBinding>> {
        if status != 430 || self.has_another(branch) {
            return None;
        }
        self.target_mut(branch)?.flow.take()
    }

    /// Whether the target of a branch has another address.
    pub fn has_more(&self, branch: BranchId) -> bool {
        self.target(branch).is_some_and(|t| usize::from(branch.attempt()) + 1 < t.hops.len())
    }

    /// Whether the target of a branch has another address at which something else is.
    fn has_another(&self, branch: BranchId) -> bool {
        self.has_more(branch) && self.target(branch).is_some_and(|target| !target.behind_edge)
    }

    /// Adds the target that stands in for the one of this branch, if there is one.
    pub fn replace(&mut self, branch: BranchId) -> bool {
        let Some(next) = self.target_mut(branch).and_then(|t| t.next.take()) else {
            return false;
        };
        // Before all that waits: it is no further choice, but the same one again.
        if self.context.add_target(1000).is_none() {
            return false;
        }
        let trail = self.target(branch).and_then(|target| target.trail.clone());
        self.push_target(*next);
        self.set_trail(trail);
        true
    }

    /// A branch could not be sent: the next address, the next target in its place, or the end of it.
    pub fn branch_lost(&mut self, now: Time, branch: BranchId, actions: &mut Vec<Action>) {
        let flow_only = self.target(branch).is_some_and(|t| t.flow_only);
        if self.has_more(branch) {
            self.context.branch_unreachable(now, branch, actions);
        } else if flow_only {
            // RFC 5626 section 5.3.1.
            self.branch_useless(now, branch, 430, actions);
        } else if self.context.is_running(branch) && self.replace(branch) {
            self.context.branch_redirected(now, branch, actions);
        } else {
            if let Some(target) = self.target_mut(branch) {
                let connects = target.hops.iter().any(|hop| hop.transport != Transport::Udp);
                let ours = target.role == Role::Local || target.existing;
                target.gone = ours && connects && !target.refused;
            }
            self.context.branch_unreachable(now, branch, actions);
        }
    }

    /// A branch was answered with a status that [gives way](Proxied::gives_way): the next address, the next
    /// target in its place, or the end of it.
    pub fn branch_gave_way(&mut self, now: Time, branch: BranchId, status: u16, actions: &mut Vec<Action>) {
        if let Some(target) = self.target_mut(branch) {
            // A 430 says that nothing was reached (RFC 5626 section 5.3.1).
            target.refused |= status != 430;
        }
        if self.has_another(branch) {
            self.context.branch_unreachable(now, branch, actions);
        } else if self.replace(branch) {
            self.context.branch_redirected(now, branch, actions);
        } else {
            self.context.branch_response(now, branch, status, actions);
        }
    }

    /// A branch has no address at all: the next target in its place, or it ends with `status`.
    pub fn branch_useless(&mut self, now: Time, branch: BranchId, status: u16, actions: &mut Vec<Action>) {
        if self.context.is_running(branch) && self.replace(branch) {
            self.context.branch_redirected(now, branch, actions);
        } else {
            self.context.branch_failed(now, branch, status, actions);
        }
    }

    /// How a response of this branch goes back that came from `seen`.
    pub fn back(&self, branch: BranchId, seen: SocketAddr) -> Back {
        let target = self.target(branch);
        let hop = target.and_then(|target| target.hop(branch));
        Back {
            server: self.upstream.server,
            oc: self.upstream.oc,
            knows_oc: self.upstream.knows_oc,
            trusted: self.trusts(branch),
            from: self.edits.from.clone(),
            cseq: self.edits.cseq,
            place: hop.map_or(seen, |hop| hop.remote),
            key: self.upstream.key,
            session: self.edits.session.to_confirm(),
        }
    }

    /// Bit n: target n is a trunk whose word is believed.
    pub fn trunks(&self) -> u128 {
        let trusted = |target: &StoredTarget| target.is_trusted() && !self.upstream.distrusted;
        let trunks = (0..u128::BITS).zip(&self.targets).filter(|(_, target)| trusted(target));
        trunks.fold(self.trusted, |bits, (bit, _)| bits | 1 << bit)
    }

    /// Forgets what only new branches and answers need, and gives back the memory of it.
    pub fn shrink(&mut self) -> Buffers {
        self.trusted = self.trunks();
        self.lookups.clear();
        self.kept.clear();
        self.edits.diverting = None;
        self.edits.tries.clear();
        let (mut text, mut targets) = (mem::take(&mut self.text), mem::take(&mut self.targets));
        targets.clear();
        if text.capacity() > POOLED {
            text = Vec::new();
        }
        text.clear();
        Buffers { text, targets, clients: Vec::new() }
    }
}

/// How a response goes back to where the request came from.
pub(crate) struct Back {
    pub server: ServerId,
    /// How our load is reported to the caller, if it asks for that.
    pub oc: Option<Algorithm>,
    /// It may believe what its Via says of load.
    pub knows_oc: bool,
    /// Identity assertions in it are believed.
    pub trusted: bool,
    /// The URI that it has to have in From, if the request left with another one.
    pub from: Option<Arc<[u8]>>,
    /// The number that it has to have in CSeq, likewise.
    pub cseq: Option<u32>,
    /// Where the request went.
    pub place: SocketAddr,
    /// What the request has to do with a call.
    pub key: DialogKey,
    /// The session interval to confirm if the callee does not, seconds; 0: none.
    pub session: u16,
}

/// Vectors with memory from an earlier use.
#[derive(Default)]
pub(crate) struct Buffers {
    pub text: Vec<u8>,
    pub targets: Vec<StoredTarget>,
    pub clients: Vec<(BranchId, ClientId)>,
}

/// Whether the target of a branch is a trunk, of which bit n says it of target n.
pub(super) fn is_trunk(trunks: u128, branch: BranchId) -> bool {
    trunks.checked_shr(branch.target().into()).is_some_and(|bits| bits & 1 == 1)
}
