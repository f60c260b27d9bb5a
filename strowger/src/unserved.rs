//! Subscribers that cannot log in because their domain is none of those that the server was told to serve.

use control::config::Config;
use std::sync::Arc;
use store::CredentialCache;

/// Tells of them: at the start, and when there are more.
pub(crate) struct Unserved {
    credentials: Arc<CredentialCache>,
    /// How many there were when they were told of, or fewer.
    told: usize,
    /// How many there were at the last look.
    before: usize,
}

impl Unserved {
    /// Tells of those that there are.
    pub fn new(credentials: &Arc<CredentialCache>, config: &Config) -> Unserved {
        let before = count(credentials, config);
        let mut unserved = Unserved { credentials: Arc::clone(credentials), told: 0, before };
        unserved.look(config);
        unserved
    }

    /// Looks again. The figures are not of one moment, so only what is seen twice counts.
    pub fn look(&mut self, config: &Config) {
        let now = count(&self.credentials, config);
        let sure = now.min(self.before);
        if sure > self.told {
            tracing::warn!(
                subscribers = sure,
                domains = config.domains.join(", "),
                "there are subscribers of other domains than those served: they cannot register or be called; \
                 strowger user list shows them, and `domains` or --domain says what is served"
            );
        }
        (self.told, self.before) = (sure, now);
    }
}

/// How many subscribers are of none of the domains; none where the domains are those of the subscribers.
fn count(credentials: &CredentialCache, config: &Config) -> usize {
    if config.domains.is_empty() {
        return 0;
    }
    let all = credentials.len();
    let own = |domain: &String| domain.trim_end_matches('.').to_ascii_lowercase();
    let mut domains: Vec<String> = config.domains.iter().map(own).collect();
    domains.sort_unstable();
    domains.dedup();
    let served: usize = domains.iter().map(|domain| credentials.users_of(domain.as_bytes())).sum();
    all.saturating_sub(served)
}
