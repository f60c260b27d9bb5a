//! Answers of the resolver on their way to the workers. A worker makes everybody wait who asks what it has asked
//! already, so no answer may be lost: neither one that comes before the workers' handle is there, nor one that finds a
//! worker's queue full.

use crate::throttle::Throttle;
use crate::world;
use resolver::Answer;
use sip_node::Notice;
use sip_proxy::locate::Kind;
use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};
use worker_runtime::monotonic_now;

/// Answers that may wait. There are no more questions under way than the resolver's queue and its look-ups hold, and
/// those that workers could not put; beyond it an answer is lost, and its question is asked again.
const MOST: usize = 16_384;

/// Gives a worker a notice, or gives it back.
type Post = Box<dyn Fn(u16, Notice) -> Result<(), Notice> + Send + Sync>;

/// Brings answers to the workers.
#[derive(Default)]
pub struct Courier {
    post: OnceLock<Post>,
    waiting: Mutex<VecDeque<(u16, Notice)>>,
}

impl Courier {
    /// The workers are there: what waits is brought to them.
    pub fn start(&self, post: impl Fn(u16, Notice) -> Result<(), Notice> + Send + Sync + 'static) {
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
        let notice = Notice::Located { kind, name: question.name, answer: world::answer_of(outcome), ttl };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let posted = match self.post.get() {
            Some(post) => post(question.worker, notice),
            None => Err(notice),
        };
        let Err(notice) = posted else { return };
        static LOST: Throttle = Throttle::new();
        if waiting.len() < MOST {
            waiting.push_back((question.worker, notice));
        } else if let Some(before) = LOST.pass(monotonic_now()) {
            let worker = question.worker;
            tracing::warn!(worker, before, "a resolver's answer was lost: the worker's queue is full");
        }
    }

    /// Tries again to bring what waits. To be called now and then.
    pub fn retry(&self) {
        let Some(post) = self.post.get() else { return };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..waiting.len() {
            let Some((worker, notice)) = waiting.pop_front() else { return };
            if let Err(notice) = post(worker, notice) {
                waiting.push_back((worker, notice));
            }
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
            taken.map(|_| own_got.lock().unwrap().push(worker)).map_err(|_| notice)
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
        room.store(usize::MAX, Ordering::Relaxed);
        courier.retry();
        assert_eq!(got.lock().unwrap().len(), MOST);
    }
}
