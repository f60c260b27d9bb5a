//! Subscribers that cannot register because their domain is not one that the server serves.

use crate::absolute;
use control::config::Config;
use std::sync::Arc;
use store::CredentialCache;

/// Domains named in one line of the log.
const NAMED: usize = 5;

/// Warns of them: at the start, and when there are more.
pub(crate) struct Unserved {
    credentials: Arc<CredentialCache>,
    config: Arc<Config>,
    /// What lists the domains that are served: an option, or a key of the file.
    list: String,
    count: Count,
}

impl Unserved {
    /// Warns of those that there are.
    pub fn new(credentials: &Arc<CredentialCache>, config: Arc<Config>, list: String) -> Unserved {
        let (credentials, count) = (Arc::clone(credentials), Count::default());
        let mut unserved = Unserved { credentials, config: Arc::clone(&config), list, count };
        // What there is at the start is reported at once.
        unserved.count.before = unserved.beyond();
        unserved.look(config);
        unserved
    }

    /// Looks again, each second or so.
    pub fn look(&mut self, config: Arc<Config>) {
        if config.server.domains != self.config.server.domains {
            // Others may be meant, though as many.
            self.count.told = 0;
        }
        self.config = config;
        if let Some(subscribers) = self.count.pass(self.beyond()) {
            let domains = &self.config.server.domains;
            let named = domains.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
            log_events::server::subscribers_unserved(
                subscribers,
                domains.len(),
                &named,
                &absolute(&self.config.server.data_dir).display(),
                &self.list,
            );
        }
    }

    /// How many there are; none where the domains are those of the subscribers.
    fn beyond(&self) -> usize {
        match self.config.server.domains.as_slice() {
            [] => 0,
            domains => self.credentials.users_beyond(domains.iter().map(String::as_bytes)),
        }
    }
}

/// When to report a number: when it has grown, and not while it changes.
#[derive(Default)]
struct Count {
    /// How many were reported, less those that have gone since.
    told: usize,
    /// How many there were at the last look.
    before: usize,
}

impl Count {
    fn pass(&mut self, now: usize) -> Option<usize> {
        let still = now == self.before;
        self.before = now;
        if now <= self.told {
            self.told = now;
            return None;
        }
        if !still {
            return None;
        }
        self.told = now;
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_told_when_it_has_grown_and_stands_still() {
        let mut count = Count::default();
        let told: Vec<_> =
            [0, 5, 5, 5, 6, 8, 8, 8, 3, 3, 4, 4, 4, 0, 1, 0, 1, 1].map(|now| count.pass(now)).into();
        let mut want = vec![None; 18];
        (want[2], want[6], want[11], want[17]) = (Some(5), Some(8), Some(4), Some(1));
        assert_eq!(told, want);
    }
}
