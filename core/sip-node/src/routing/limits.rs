//! What the class of a caller lets leave. See docs/guide/classes.md.
//!
//! A class limits what leaves this server: over trunks, by static routes, to other hosts. Calls to phones
//! that are registered here pass, and so do emergency calls. A request is judged when its targets are known,
//! so no way to them goes round the class.

use super::{Plan, Target};
use crate::access::Holder;
use crate::admitted::Admitted;
use crate::services::{Refusal, Services};
use crate::settings::Trunk;
use crate::site::{Aor, Site, domain};
use crate::trunk_ref::TrunkRef;
use call_limits::{Barred, Class, ClassName, Limits, Moment, Number, Readings, Rule};
use call_rules::NumberPlan;
use core::hash::Hasher;
use core::mem;
use number_routes::Digits;
use sip_message::{Message, Method, Name, NameAddr, Scheme, Uri};
use sip_proxy::token::Role;
use sip_registrar::ContactAt;
use wire::{Flow, Time};

/// A call that is to be counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// A keyed hash of the user or trunk.
    pub account: u64,
    pub class: ClassName,
    pub limits: Limits,
    pub moment: Moment,
}

/// Who is limited.
enum Account<'r> {
    User(Aor<'r>),
    /// By its place in the settings.
    Trunk(usize),
    /// A user whose name is not known.
    Nameless,
}

impl Account<'_> {
    /// The domain of the user.
    fn domain(&self) -> &[u8] {
        match self {
            Account::User(aor) => aor.domain(),
            Account::Trunk(_) | Account::Nameless => b"",
        }
    }
}

/// Whether a request with this method begins something. What belongs to a call that was let through passes.
pub(crate) const fn begins(method: Method<'_>) -> bool {
    !matches!(
        method,
        Method::Ack | Method::Bye | Method::Cancel | Method::Prack | Method::Update | Method::Info
    )
}

/// A target and those that stand in for it.
fn chain(first: &Target) -> impl Iterator<Item = &Target> {
    core::iter::successors(Some(first), |target| target.next.as_deref())
}

/// The same, one by one.
fn unchained(first: Target) -> Vec<Target> {
    let (mut all, mut next) = (Vec::new(), Some(Box::new(first)));
    while let Some(mut target) = next {
        next = target.next.take();
        all.push(*target);
    }
    all
}

/// Whether a request may leave this server by a target: it is not where a phone has registered from.
fn may_leave(target: &Target) -> bool {
    target.role != Role::Local || target.elsewhere
}

/// Where a target is, for a class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// A phone that is registered here.
    Phone,
    /// What a registration names, at another address than it came from. Only denied numbers are refused.
    Device,
    /// Outside.
    Outside,
}

/// Judges requests by the classes of their senders.
pub(crate) struct Limiter<'a, S> {
    site: &'a Site<S>,
    now: Time,
}

impl<'a, S: Services> Limiter<'a, S> {
    /// By the classes of a server; `None`: there are none.
    #[inline]
    pub fn new(site: &'a Site<S>, now: Time) -> Option<Limiter<'a, S>> {
        (!site.settings().proxy.classes.is_empty()).then_some(Limiter { site, now })
    }

    /// What the class of the caller leaves of a plan, and what the call counts as.
    pub fn limited(
        &self,
        plan: Plan,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
    ) -> (Plan, Option<Charge>) {
        let Plan::Forward(mut targets) = plan else { return (plan, None) };
        let refers = request.method() == Method::Refer;
        let leaving = targets.iter().any(|(_, first)| chain(first).any(may_leave));
        let judged = begins(request.method())
            && a.caller.role != Role::Stranger
            && (leaving || refers)
            && !self.site.is_emergency_call(&a.uri, a.routing.request_uri);
        if !judged {
            return (Plan::Forward(targets), None);
        }
        let found = self.class_of(flow, request, a).and_then(|found| match found {
            None => Ok(None),
            Some((class, account)) => {
                self.in_class(class, &account, &mut targets, request, a).map_err(|rule| class.bars(rule))
            }
        });
        match found {
            Ok(charge) => (Plan::Forward(targets), charge),
            Err(barred) => (Plan::Barred(barred), None),
        }
    }

    /// What the class of the user who forwards a call leaves of its plan. Such a call is not counted. What is
    /// refused is told to the operator, because the caller is told nothing of it.
    pub fn forwarded(
        &self,
        user: &[u8],
        plan: Plan,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
    ) -> Plan {
        let (plan, _) = self.limited(plan, flow, request, a);
        if let Plan::Barred(barred) = &plan {
            let about = [user, b" -> ", a.uri.user.unwrap_or(a.uri.host)].concat();
            self.site.tell(Refusal::Class(*barred), &about, flow, request);
        }
        plan
    }

    /// Judges a request by a class. Targets that it does not allow are left out.
    fn in_class(
        &self,
        class: &Class,
        account: &Account<'_>,
        targets: &mut Vec<(u16, Target)>,
        request: &Message<'_>,
        a: &Admitted<'_>,
    ) -> Result<Option<Charge>, Rule> {
        let plan = self.plan_of(account, a);
        if request.method() == Method::Refer && a.caller.role == Role::Local {
            self.judge_referral(class, plan, request)?;
        }
        if !targets.iter().any(|(_, first)| chain(first).any(may_leave)) {
            return Ok(None);
        }
        let dialled = dialled(&a.uri, plan);
        if a.dialog.is_some() {
            // The other end was let through when the dialog began. A number in place of its Contact was not.
            return dialled_denied(class, &dialled).map_or(Ok(None), |prefix| Err(Rule::Denied(prefix)));
        }
        // An emergency or voicemail target, as the operator wrote it.
        if self.site.places().of_uri(self.site.settings(), &a.uri) == Some(Holder::Service) {
            return Ok(None);
        }
        self.keep_allowed(class, targets, &dialled)?;
        if !targets.iter().any(|(_, first)| chain(first).any(|target| self.reach(target) == Reach::Outside)) {
            return Ok(None);
        }
        let counts = class.limits.are_any() && request.method() == Method::Invite;
        if !counts && class.hours == call_limits::Hours::default() {
            return Ok(None);
        }
        let moment = class.zone.at(self.site.services().unix_seconds());
        if !class.hours.has(moment.minute) {
            return Err(Rule::Hours);
        }
        let charge = || Charge {
            account: self.account_number(account),
            class: class.name,
            limits: class.limits,
            moment,
        };
        Ok(counts.then(charge))
    }

    /// The class that limits a request, and whose calls are counted.
    fn class_of<'r>(
        &self,
        flow: Flow,
        request: &Message<'r>,
        a: &Admitted<'r>,
    ) -> Result<Option<(&Class, Account<'r>)>, Barred> {
        let settings = self.site.settings();
        let classes = &settings.proxy.classes;
        if a.caller.role != Role::Local {
            let trunk = a.caller.trunk.and_then(|at| Some((at, settings.trunks.get(at)?)));
            let class =
                trunk.and_then(|(at, trunk)| Some((classes.of_trunk(&trunk.name)?, Account::Trunk(at))));
            return Ok(class);
        }
        let Some(user) = self.sender(a.caller.account.clone(), request) else {
            let domain = settings.domains.first().map_or(&b""[..], |domain| domain);
            return Ok(classes.of_domain(domain).map(|class| (class, Account::Nameless)));
        };
        // A phone that shows only its address has the class of no user but the one who is registered there.
        let proven = a.caller.account.is_some() || !settings.auth.enabled || self.is_bound_at(flow, &user);
        Ok(self.class_of_user(&user, proven)?.map(|class| (class, Account::User(user))))
    }

    /// The user who sent a request: whose credentials it has, or who From names.
    fn sender<'r>(&self, account: Option<Aor<'r>>, request: &Message<'r>) -> Option<Aor<'r>> {
        account.or_else(|| self.site.aor_of(request.from_uri()).filter(|aor| aor.user() != b"anonymous"))
    }

    /// The class of a user: its own if it is `proven`, else that of its domain.
    fn class_of_user(&self, user: &Aor<'_>, proven: bool) -> Result<Option<&Class>, Barred> {
        let classes = &self.site.settings().proxy.classes;
        match self.site.services().class_of(user.user(), user.domain()).filter(|_| proven) {
            Some(name) => classes.named(&name).map(Some).ok_or(Barred { class: name, rule: Rule::Unknown }),
            None => Ok(classes.of_domain(user.domain())),
        }
    }

    /// Whether the class of a user lets its call follow a 3xx to this URI, which is of no user of ours.
    /// `same`: a trunk leads to another host of its own. `account`: whose credentials the request had.
    pub fn may_follow<'r>(
        &self,
        request: &Message<'r>,
        account: Option<Aor<'r>>,
        uri: &Uri<'_>,
        same: bool,
    ) -> bool {
        let proven = account.is_some() || !self.site.settings().auth.enabled;
        let Some(user) = self.sender(account, request) else { return true };
        let Ok(class) = self.class_of_user(&user, proven) else { return false };
        let Some(class) = class else { return true };
        let readings = dialled(uri, self.site.rules().number_plan(None, user.domain()));
        match same {
            true => dialled_denied(class, &readings).is_none(),
            false => class.trunks.is_none() && class.prefixes.judge(&readings).is_ok(),
        }
    }

    /// Whether a user is registered at the address that a request comes from.
    fn is_bound_at(&self, flow: Flow, user: &Aor<'_>) -> bool {
        let mut here = false;
        let services = self.site.services();
        let _ = services
            .bindings(user.text(), self.now, &mut |binding| here |= binding.flow.remote == flow.remote);
        here
    }

    /// A number for an account.
    fn account_number(&self, account: &Account<'_>) -> u64 {
        let mut hash = self.site.keyed(domain::CALLER);
        match account {
            Account::User(aor) => hash.write(aor.text()),
            Account::Trunk(at) => {
                // No address-of-record is without `@`.
                hash.write(self.site.settings().trunks.get(*at).map_or(&b""[..], |trunk| &trunk.name));
            }
            Account::Nameless => {}
        }
        hash.finish()
    }

    /// How the called number was dialled.
    fn plan_of(&self, account: &Account<'_>, a: &Admitted<'_>) -> Option<&NumberPlan> {
        let called;
        let domain = match a.uri.scheme {
            Scheme::Tel => self.site.settings().domains.first().map_or(account.domain(), |domain| domain),
            _ => {
                called = self.site.local_aor(&a.uri, a.routing.request_uri);
                called.as_ref().map_or(account.domain(), |aor| aor.domain())
            }
        };
        self.site.rules().number_plan(a.caller.trunk, domain)
    }

    /// Leaves out targets that a class does not allow.
    fn keep_allowed(
        &self,
        class: &Class,
        targets: &mut Vec<(u16, Target)>,
        dialled: &Readings,
    ) -> Result<(), Rule> {
        let mut refused = Ok(());
        for (_, first) in &*targets {
            for target in chain(first) {
                refused = refused.and(self.judge(class, target, dialled));
            }
        }
        let Err(rule) = refused else { return Ok(()) };
        for (q, first) in mem::take(targets) {
            let allowed =
                unchained(first).into_iter().filter(|target| self.judge(class, target, dialled).is_ok());
            let allowed: Vec<Target> = allowed.collect();
            targets.extend(Target::chain(allowed.into_iter()).map(|target| (q, target)));
        }
        if targets.is_empty() { Err(rule) } else { Ok(()) }
    }

    /// Whether a class lets a request leave by this target.
    fn judge(&self, class: &Class, target: &Target, dialled: &Readings) -> Result<(), Rule> {
        let reach = self.reach(target);
        let sent = Uri::parse(&target.uri).ok().and_then(|uri| uri.user).map(Number::of);
        match reach {
            Reach::Phone => return Ok(()),
            Reach::Device => {
                let denied = sent.and_then(|number| class.prefixes.denies(number.digits()));
                return denied.map_or(Ok(()), |prefix| Err(Rule::Denied(prefix)));
            }
            Reach::Outside => {}
        }
        let trunk = target.trunk.as_ref().and_then(TrunkRef::get).or_else(|| self.trunk_there(target));
        match trunk {
            Some(trunk) => class.lets_over(&trunk.name)?,
            None if class.trunks.is_some() => return Err(Rule::Elsewhere),
            None => {}
        }
        let mut readings = *dialled;
        if let Some(number) = sent {
            readings.sent(number.digits());
            let global = trunk.and_then(|trunk| trunk.numbers.as_ref()?.read(&number));
            readings.sent(global.map_or(Digits::default(), |global| Digits::dialled(&global)));
        }
        class.prefixes.judge(&readings)
    }

    /// Where a target is. A gateway may be registered here, and every number can be called at its address:
    /// only the Contact that it has registered itself is no way out.
    fn reach(&self, target: &Target) -> Reach {
        if target.role != Role::Local {
            return Reach::Outside;
        }
        if !target.elsewhere {
            return Reach::Phone;
        }
        if target.registered_from.is_some() {
            return Reach::Device;
        }
        let (Some(hop), Ok(uri)) = (target.hops.first(), Uri::parse(&target.uri)) else {
            return Reach::Outside;
        };
        let mut own = false;
        self.site.services().contacts(&ContactAt::new(hop.remote, &uri, self.now), &mut |binding| {
            own |= !binding.is_elsewhere() && binding.flow.remote.ip() == hop.remote.ip();
            own
        });
        if own { Reach::Device } else { Reach::Outside }
    }

    /// The trunk that a static route leads to.
    fn trunk_there(&self, target: &Target) -> Option<&Trunk> {
        let uri = Uri::parse(&target.locate).ok()?;
        match self.site.places().of_uri(self.site.settings(), &uri)? {
            Holder::Trunk(at) => self.site.settings().trunks.get(at),
            Holder::Service => None,
        }
    }

    /// Judges the number that a user tells another end to call (RFC 3515). A phone of ours calls it in its
    /// own name, but the other end of a trunk calls it in ours.
    fn judge_referral(
        &self,
        class: &Class,
        plan: Option<&NumberPlan>,
        request: &Message<'_>,
    ) -> Result<(), Rule> {
        for value in request.values(Name::ReferTo) {
            let Some(uri) = NameAddr::parse(value).ok().and_then(|to| Uri::parse(to.uri).ok()) else {
                continue;
            };
            let readings = dialled(&uri, plan);
            let here = uri.scheme == Scheme::Tel || self.site.is_local_host(&uri);
            let is_ours = || {
                let aor = self.site.local_aor(&uri, value);
                aor.is_some_and(|aor| self.site.services().is_user(aor.user(), aor.domain()))
            };
            match here {
                true if is_ours() => {}
                true => class.prefixes.judge(&readings)?,
                // It may be the Contact of the other end of a call.
                false => {
                    dialled_denied(class, &readings).map_or(Ok(()), |prefix| Err(Rule::Denied(prefix)))?
                }
            }
        }
        Ok(())
    }
}

/// What the number in a URI may mean as it was dialled.
fn dialled(uri: &Uri<'_>, plan: Option<&NumberPlan>) -> Readings {
    let mut readings = Readings::default();
    let user = uri.user.unwrap_or(b"");
    let number = Number::of(user);
    readings.dialled(number.digits());
    if let Some(global) = plan.and_then(|plan| plan.read(&number)) {
        readings.dialled(Digits::dialled(&global));
    }
    let context = uri.param(b"phone-context").or_else(|| context_in(user));
    if let Some(global) = context.and_then(|context| Number::within(context, user)) {
        readings.dialled(global.digits());
    }
    readings
}

/// The context among the parameters of a telephone number in the user part of a SIP URI (RFC 3261 section
/// 19.1.6).
fn context_in(user: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"phone-context=";
    user.split(|&byte| byte == b';').skip(1).find_map(|param| {
        let (name, value) = param.split_at_checked(NAME.len())?;
        name.eq_ignore_ascii_case(NAME).then_some(value)
    })
}

/// The prefix that a reading of a number is denied by, where no list of allowed ones counts.
fn dialled_denied(class: &Class, readings: &Readings) -> Option<Digits> {
    match class.prefixes.judge(readings) {
        Err(Rule::Denied(prefix)) => Some(prefix),
        _ => None,
    }
}
