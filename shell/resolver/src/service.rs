//! The thread that asks.

use crate::config::ResolverConfig;
use crate::convert;
use crate::types::{Answer, Failure, Kind, Outcome, Question};
use hickory_resolver::config::{ResolverConfig as Servers, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc};

/// How long an entry of the hosts file is believed, in seconds.
const HOSTS_TTL: u32 = 60;

/// A running resolver. Shared by all workers; dropping it ends its thread.
#[derive(Debug)]
pub struct Resolver {
    questions: Option<mpsc::Sender<Question>>,
    thread: Option<JoinHandle<()>>,
}

impl Resolver {
    /// Starts the thread. `deliver` is called on it, once for every question accepted by
    /// [`Resolver::ask`], and must not block.
    ///
    /// # Errors
    /// A hosts file that was named cannot be read, or the thread or its runtime cannot be made.
    pub fn start(config: &ResolverConfig, deliver: impl Fn(Answer) + Send + 'static) -> io::Result<Resolver> {
        let (questions, inbox) = mpsc::channel(config.queue.max(1));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (servers, options) = config.servers();
        let hosts = config.read_hosts()?;
        let (timeout, permits) = (config.timeout, config.concurrency.clamp(1, Semaphore::MAX_PERMITS));
        let work = move || {
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&runtime, async move {
                // The library binds itself to the runtime, so it is set up inside.
                match Lookups::new(servers, options, hosts, timeout) {
                    Ok(lookups) => serve(inbox, lookups, permits, deliver).await,
                    Err(error) => refuse_all(inbox, &error, deliver).await,
                }
            });
        };
        let thread = std::thread::Builder::new().name("resolver".into()).spawn(work)?;
        Ok(Resolver { questions: Some(questions), thread: Some(thread) })
    }

    /// Hands a question over. Never blocks.
    ///
    /// # Errors
    /// Too many questions are waiting, or the resolver has ended: the failed answer, at once.
    /// `deliver` is not called for it.
    pub fn ask(&self, question: Question) -> Result<(), Answer> {
        let Some(questions) = &self.questions else { return Err(question.failed(Failure::Closed)) };
        questions.try_send(question).map_err(|error| match error {
            TrySendError::Full(question) => question.failed(Failure::Busy),
            TrySendError::Closed(question) => question.failed(Failure::Closed),
        })
    }
}

impl Drop for Resolver {
    /// Ends the thread; look-ups under way are abandoned.
    fn drop(&mut self) {
        self.questions = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log_events::dns::resolver_panicked();
        }
    }
}

/// Takes questions as long as there are permits; the rest wait in the queue, and when that is full,
/// [`Resolver::ask`] refuses.
async fn serve(
    mut inbox: mpsc::Receiver<Question>,
    lookups: Lookups,
    permits: usize,
    deliver: impl Fn(Answer) + 'static,
) {
    let permits = Arc::new(Semaphore::new(permits));
    let shared = Rc::new((lookups, deliver));
    loop {
        // Neither fails: the semaphore is never closed.
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let Some(question) = inbox.recv().await else { return };
        let shared = shared.clone();
        tokio::task::spawn_local(async move {
            let (lookups, deliver) = &*shared;
            let (outcome, ttl) = lookups.find(question.kind, &question.name).await;
            deliver(Answer { question, outcome, ttl });
            drop(permit);
        });
    }
}

/// The library could not be set up: everything fails, nothing hangs.
async fn refuse_all(mut inbox: mpsc::Receiver<Question>, error: &str, deliver: impl Fn(Answer)) {
    log_events::dns::resolver_unusable(error);
    while let Some(question) = inbox.recv().await {
        deliver(question.failed(Failure::Server));
    }
}

/// The hosts file and the DNS.
struct Lookups {
    dns: TokioResolver,
    hosts: Hosts,
    timeout: Duration,
}

impl Lookups {
    fn new(
        servers: Servers,
        options: ResolverOpts,
        hosts: Hosts,
        timeout: Duration,
    ) -> Result<Lookups, String> {
        let builder = TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default());
        let dns = builder.with_options(options).build().map_err(|error| error.to_string())?;
        Ok(Lookups { dns, hosts, timeout })
    }

    /// The outcome and its time to live in seconds.
    async fn find(&self, kind: Kind, name: &[u8]) -> (Outcome, u32) {
        let Some(name) = convert::name(name) else { return (Outcome::Failed(Failure::Name), 0) };
        if let Some(known) = self.find_in_hosts(kind, &name) {
            return (known, HOSTS_TTL);
        }
        let lookup = self.dns.lookup(name, convert::record_type(kind));
        match tokio::time::timeout(self.timeout, lookup).await {
            Ok(Ok(lookup)) => convert::records(kind, &lookup),
            Ok(Err(error)) => convert::error(&error),
            Err(_) => (Outcome::Failed(Failure::Timeout), 0),
        }
    }

    /// A name in the hosts file has the addresses that are there and no others: the family that it
    /// lacks is not asked for outside, where the answer would be someone else's, or a time-out.
    fn find_in_hosts(&self, kind: Kind, name: &Name) -> Option<Outcome> {
        let find = |kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind));
        let (a, aaaa) = (find(RecordType::A), find(RecordType::AAAA));
        let wanted = match kind {
            Kind::A => &a,
            Kind::Aaaa => &aaaa,
            Kind::Naptr | Kind::Srv => return None,
        };
        if a.is_none() && aaaa.is_none() {
            return None;
        }
        Some(wanted.as_ref().map_or(Outcome::Nothing, |lookup| convert::records(kind, lookup).0))
    }
}
