//! What all workers count together of calls that leave and of strangers, and findings about classes that
//! need the users.

use control::config::Config;
use sip_node::call_limits::{Buckets, Held, Limits, Moment, Pace, Rule, StrangerRate, Usage};
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::CredentialCache;
use wire::Time;

/// Parts, each behind a lock of its own.
const SHARDS: usize = 64;
/// Accounts whose calls are counted. An entry takes some 50 octets.
const ACCOUNTS: usize = 1 << 20;
/// Networks of strangers that are told apart.
const NETWORKS: usize = 1 << 16;

/// Counters of calls, and the buckets of strangers.
pub struct Limited {
    usage: Vec<Mutex<Usage>>,
    strangers: Vec<Mutex<Buckets>>,
    total: Mutex<Pace>,
}

impl Default for Limited {
    fn default() -> Limited {
        Limited {
            usage: (0..SHARDS).map(|_| Mutex::new(Usage::new(ACCOUNTS / SHARDS))).collect(),
            strangers: (0..SHARDS).map(|_| Mutex::new(Buckets::new(NETWORKS / SHARDS))).collect(),
            total: Mutex::default(),
        }
    }
}

impl Limited {
    /// See [`sip_node::Services::begin_call`].
    pub fn begin_call(&self, account: u64, limits: &Limits, now: Moment) -> Result<(), Rule> {
        shard(&self.usage, account).map_or(Ok(()), |usage| lock(usage).begin(account, limits, now))
    }

    /// See [`sip_node::Services::end_call`].
    pub fn end_call(&self, account: u64) {
        if let Some(usage) = shard(&self.usage, account) {
            lock(usage).end(account);
        }
    }

    /// See [`sip_node::Services::admit_stranger`].
    pub fn admit_stranger(&self, network: u64, rate: StrangerRate, now: Time) -> Result<(), Held> {
        let micros = u64::try_from(now.since(Time::ZERO).as_micros()).unwrap_or(u64::MAX);
        if let Some(buckets) = shard(&self.strangers, network) {
            let taken = lock(buckets).take(network, rate.of_network, micros);
            taken.map_err(|seconds| Held { seconds, by_total: false })?;
        }
        let taken = lock(&self.total).take(rate.total, micros);
        taken.map_err(|seconds| Held { seconds, by_total: true })
    }
}

/// The part that has a number. The tables inside use the other half of it.
fn shard<T>(parts: &[Mutex<T>], number: u64) -> Option<&Mutex<T>> {
    let at = usize::try_from((number >> 32) % SHARDS as u64).ok()?;
    parts.get(at)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Logs what users have to do with classes and emergency numbers, if it is not what the operator can mean.
pub fn say_findings(config: &Config, users: &CredentialCache) {
    let by_class = users.users_by_class();
    for class in &config.classes {
        let has = |used: &String| *used == class.name;
        let by_domain = config.domain_rules.iter().any(|domain| has(&domain.class));
        let by_trunk = config.trunks.iter().any(|trunk| has(&trunk.class));
        if !by_domain && !by_trunk && !by_class.contains_key(&class.name) {
            log_events::server::class_unused(&class.name);
        }
    }
    // Without classes nobody is limited.
    let known = |name: &String| config.classes.iter().any(|class| class.name == *name);
    if !config.classes.is_empty() {
        for (class, users) in by_class.iter().filter(|&(name, _)| !known(name)) {
            log_events::server::class_unknown(class, *users);
        }
    }
    for number in config.emergency.iter().flat_map(|emergency| &emergency.numbers) {
        let mut domains = config.server.domains.iter();
        if let Some(domain) = domains.find(|d| users.is_local_user(number.as_bytes(), d.as_bytes())) {
            log_events::server::emergency_number_taken(number, domain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_limits_strangers_of_many_networks() {
        let limited = Limited::default();
        let rate = StrangerRate { of_network: 2, total: 3 };
        let admit = |network, second| limited.admit_stranger(network, rate, Time::from_secs(second));
        assert_eq!([admit(1, 100), admit(1, 100)], [Ok(()), Ok(())]);
        assert_eq!(admit(1, 100), Err(Held { seconds: 30, by_total: false }));
        assert_eq!(admit(2, 100), Ok(()));
        assert_eq!(admit(3, 100), Err(Held { seconds: 20, by_total: true }));
        assert_eq!(admit(3, 120), Ok(()));
    }

    #[test]
    fn channels_of_an_account_are_counted_across_workers() {
        let limited = Limited::default();
        let limits = Limits { channels: Some(1), ..Limits::default() };
        assert_eq!(limited.begin_call(u64::MAX, &limits, Moment::default()), Ok(()));
        assert_eq!(limited.begin_call(u64::MAX, &limits, Moment::default()), Err(Rule::Channels(1)));
        limited.end_call(u64::MAX);
        assert_eq!(limited.begin_call(u64::MAX, &limits, Moment::default()), Ok(()));
    }
}
