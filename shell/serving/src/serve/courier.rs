//! Answers of the resolver on their way to the workers. A worker makes everybody wait who asks what it has
//! asked already, so no answer may be lost: neither one that comes before the workers' handle is there, nor
//! one that finds a worker's queue full.

use super::world;
use crate::throttle::Throttle;
use resolver::Answer;
use sip_node::{Located, Notice};
use sip_proxy::locate::Kind;
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::{Mutex, OnceLock, PoisonError};
use worker_runtime::{PostError, monotonic_now};

/// Answers that may wait for one worker. More questions of one are rarely under way; beyond it an answer is
/// lost, and its question is asked again. A worker that takes nothing any more costs no other one its
/// answers.
const MOST: usize = 4_096;

/// Gives a worker a notice, or gives it back.
type Post = Box<dyn Fn(u16, Notice) -> Result<(), PostError<Notice>> + Send + Sync>;

/// Brings answers to the workers. It holds no lock while it posts one.
#[derive(Default)]
pub struct Courier {
    post: OnceLock<Post>,
    /// By worker. Only of workers that were there, or before any is.
    waiting: Mutex<BTreeMap<u16, VecDeque<Notice>>>,
}

impl Courier {
    /// The workers are there: what waits is brought to them.
    pub fn start(&self, post: impl Fn(u16, Notice) -> Result<(), PostError<Notice>> + Send + Sync + 'static) {
        let _ = self.post.set(Box::new(post));
        self.retry();
    }

    /// Brings an answer to the worker that asked, now or later.
    pub fn bring(&self, answer: Answer) {
        let Answer { question, outcome, ttl } = answer;
        let kind = match question.kind {
            resolver::Kind::Naptr => Kind::Naptr,
            resolver::Kind::Srv => Kind::Srv,
            resolver::Kind::A => Kind::A,
            resolver::Kind::Aaaa => Kind::Aaaa,
        };
        let located = Located::Name { kind, name: question.name, answer: world::answer_of(outcome), ttl };
        let notice = Notice::Located(located);
        self.post_or_keep(question.worker, VecDeque::from([notice]));
    }

    /// Tries again to bring what waits. To be called now and then.
    pub fn retry(&self) {
        if self.post.get().is_none() {
            return;
        }
        let waiting = mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for (worker, notices) in waiting {
            self.post_or_keep(worker, notices);
        }
    }

    /// Posts as many as the worker has room for, and keeps the others.
    fn post_or_keep(&self, worker: u16, mut notices: VecDeque<Notice>) {
        let posted = self.post.get();
        while let Some(post) = posted
            && let Some(notice) = notices.pop_front()
        {
            match post(worker, notice) {
                Ok(()) => {}
                Err(PostError::Full(notice)) => {
                    notices.push_front(notice);
                    break;
                }
                // Nobody waits for it.
                Err(PostError::NoWorker(_)) => return,
            }
        }
        if notices.is_empty() {
            return;
        }
        self.keep(worker, notices);
        if posted.is_none() && self.post.get().is_some() {
            // The workers were started meanwhile.
            self.retry();
        }
    }

    fn keep(&self, worker: u16, notices: VecDeque<Notice>) {
        static LOST: Throttle = Throttle::new();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let of_worker = waiting.entry(worker).or_default();
        let lost = (of_worker.len() + notices.len()).saturating_sub(MOST);
        of_worker.extend(notices.into_iter().skip(lost));
        drop(waiting);
        if lost > 0
            && let Some(before) = LOST.pass(monotonic_now())
        {
            log_events::dns::dns_answer_lost(worker, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resolver::{Failure, Outcome, Question};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn answer(worker: u16) -> Answer {
        let question = Question { worker, id: 0, kind: resolver::Kind::A, name: b"x.test"[..].into() };
        Answer { question, outcome: Outcome::Failed(Failure::Busy), ttl: 0 }
    }

    /// A courier to workers that have so much room in all, and what they got.
    fn courier(room: usize) -> (Arc<Courier>, Arc<AtomicUsize>, Arc<Mutex<Vec<u16>>>) {
        let (room, got) = (Arc::new(AtomicUsize::new(room)), Arc::new(Mutex::new(Vec::new())));
        let courier = Arc::new(Courier::default());
        let (own_room, own_got) = (Arc::clone(&room), Arc::clone(&got));
        courier.start(move |worker, notice| {
            let taken = own_room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
            taken.map(|_| own_got.lock().unwrap().push(worker)).map_err(|_| PostError::Full(notice))
        });
        (courier, room, got)
    }

    #[test]
    fn answer_before_the_workers_are_there_waits_for_them() {
        let courier = Courier::default();
        courier.bring(answer(3));
        courier.retry();
        let got = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&got);
        courier.start(move |worker, _| {
            own.lock().unwrap().push(worker);
            Ok(())
        });
        assert_eq!(*got.lock().unwrap(), [3]);
    }

    #[test]
    fn answer_to_a_full_queue_is_brought_again() {
        let (courier, room, got) = courier(1);
        (1..=3).for_each(|worker| courier.bring(answer(worker)));
        assert_eq!(*got.lock().unwrap(), [1]);
        courier.retry();
        assert_eq!(*got.lock().unwrap(), [1], "still no room");
        room.store(10, Ordering::Relaxed);
        courier.retry();
        courier.retry();
        assert_eq!(*got.lock().unwrap(), [1, 2, 3], "once each");
    }

    #[test]
    fn answers_that_wait_are_bounded() {
        let (courier, room, got) = courier(0);
        (0..MOST + 10).for_each(|_| courier.bring(answer(0)));
        courier.bring(answer(1));
        room.store(usize::MAX, Ordering::Relaxed);
        courier.retry();
        let got = got.lock().unwrap();
        assert_eq!((got.len(), got.last()), (MOST + 1, Some(&1)), "each worker has its own room");
    }

    #[test]
    fn answer_for_no_worker_is_not_kept() {
        let courier = Courier::default();
        courier.bring(answer(7));
        let asked = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&asked);
        courier.start(move |_, notice| {
            own.fetch_add(1, Ordering::Relaxed);
            Err(PostError::NoWorker(notice))
        });
        courier.bring(answer(7));
        courier.retry();
        assert_eq!(asked.load(Ordering::Relaxed), 2, "each is tried once");
    }

    #[test]
    fn answer_is_posted_without_a_lock() {
        let courier = Arc::new(Courier::default());
        courier.bring(answer(1));
        let (own, got) = (Arc::downgrade(&courier), Arc::new(Mutex::new(Vec::new())));
        let own_got = Arc::clone(&got);
        courier.start(move |worker, _| {
            // It would wait for ever for a lock that is held here.
            if worker < 3 {
                own.upgrade().unwrap().bring(answer(worker + 1));
            }
            own_got.lock().unwrap().push(worker);
            Ok(())
        });
        courier.bring(answer(2));
        assert_eq!(*got.lock().unwrap(), [3, 2, 1, 3, 2]);
    }
}
