//! Live values for browsers, as server-sent events: a sample each second.
//!
//! The server is asked once for all listeners, and only while there is one. A listener that does not take its
//! samples is disconnected, so that nothing piles up for it.

use super::live::Live;
use super::model::Admin;
use hyper::body::{Body, Bytes, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Interval, MissedTickBehavior, Sleep};

/// Listeners at one time. Each takes one of the connections, and the rest are for everybody else.
pub(super) const LISTENERS: usize = 16;
/// From one sample to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// Samples that may wait for a listener. With one more it is too slow.
const WAITING: usize = 5;
/// How long a stream goes on, a little less than its connection may live. Browsers then ask for another.
const STREAM_LIFE: Duration = Duration::from_secs(100);

/// Ends the connection that a request came over.
#[derive(Clone, Default)]
pub(super) struct HangUp(Arc<Notify>);

impl HangUp {
    /// Ends it.
    fn now(&self) {
        self.0.notify_one();
    }

    /// Waits until it is to end.
    pub async fn asked(&self) {
        self.0.notified().await;
    }
}

/// Everybody who listens.
pub(super) struct Events {
    admin: Arc<dyn Admin>,
    listeners: Mutex<Listeners>,
}

#[derive(Default)]
struct Listeners {
    all: Vec<Listener>,
    /// Whether a task takes samples. It ends when nobody listens.
    is_sampling: bool,
}

struct Listener {
    samples: mpsc::Sender<Bytes>,
    hang_up: HangUp,
}

impl Events {
    /// Nobody listens yet.
    pub fn new(admin: Arc<dyn Admin>) -> Arc<Events> {
        Arc::new(Events { admin, listeners: Mutex::default() })
    }

    /// One more listener, on a connection that `hang_up` ends. `None` if there are as many as may be.
    pub fn listen(self: &Arc<Events>, hang_up: HangUp) -> Option<Feed> {
        let (samples, feed) = mpsc::channel(WAITING);
        let mut listeners = self.lock();
        listeners.all.retain(|listener| !listener.samples.is_closed());
        if listeners.all.len() >= LISTENERS {
            return None;
        }
        listeners.all.push(Listener { samples, hang_up });
        if !std::mem::replace(&mut listeners.is_sampling, true) {
            tokio::spawn(sample(Arc::clone(self)));
        }
        Some(Feed { samples: feed, end: Box::pin(tokio::time::sleep(STREAM_LIFE)) })
    }

    /// Gives a sample to all. Answers whether there is still a listener; if not, the sampling task ends.
    fn give(&self, sample: &Bytes) -> bool {
        let mut listeners = self.lock();
        listeners.all.retain(|listener| match listener.samples.try_send(sample.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                listener.hang_up.now();
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        });
        listeners.is_sampling = !listeners.all.is_empty();
        listeners.is_sampling
    }

    /// Ends all streams, because there is nothing to give. Browsers try again by themselves.
    fn end(&self) {
        *self.lock() = Listeners::default();
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        // Nothing in here is half done when a panic passes by.
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes samples for as long as there is a listener.
async fn sample(events: Arc<Events>) {
    let mut ticks = ticks();
    loop {
        ticks.tick().await;
        let admin = Arc::clone(&events.admin);
        match tokio::task::spawn_blocking(move || admin.live()).await {
            Ok(live) => {
                if !events.give(&event(&live)) {
                    return;
                }
            }
            Err(error) => {
                log_events::admin::admin_request_failed(&error);
                return events.end();
            }
        }
    }
}

/// A slow sample delays the ones after it: there is no use in catching up.
fn ticks() -> Interval {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// A sample as an event. JSON has no line ends of its own, which would end the event.
fn event(live: &Live) -> Bytes {
    let json = serde_json::to_string(live).unwrap_or_default();
    Bytes::from(format!("event: live\ndata: {json}\n\n"))
}

/// The samples of one listener, as the body of a response.
pub(super) struct Feed {
    samples: mpsc::Receiver<Bytes>,
    end: Pin<Box<Sleep>>,
}

impl Body for Feed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        self.samples.poll_recv(context).map(|sample| sample.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Pretend;
    use super::*;

    fn events() -> Arc<Events> {
        Events::new(Arc::new(Pretend::default()))
    }

    fn run<T>(what: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(what)
    }

    #[test]
    fn listeners_beyond_the_limit_are_refused_until_one_ends() {
        run(async {
            let events = events();
            let mut feeds: Vec<Feed> =
                (0..LISTENERS).map_while(|_| events.listen(HangUp::default())).collect();
            assert_eq!(feeds.len(), LISTENERS);
            assert!(events.listen(HangUp::default()).is_none());
            feeds.pop();
            assert!(events.listen(HangUp::default()).is_some());
        });
    }

    #[test]
    fn slow_listener_is_disconnected_and_others_go_on() {
        run(async {
            let (events, slow) = (events(), HangUp::default());
            // The samples are the test's own.
            events.lock().is_sampling = true;
            let _idle = events.listen(slow.clone()).unwrap();
            let mut quick = events.listen(HangUp::default()).unwrap();
            let sample = Bytes::from_static(b"data: 1\n\n");
            for _ in 0..=WAITING {
                assert!(events.give(&sample));
                assert_eq!(quick.samples.recv().await.unwrap(), sample);
            }
            slow.asked().await;
            assert_eq!(events.lock().all.len(), 1);
            drop(quick);
            assert!(!events.give(&sample), "nobody is left");
        });
    }

    #[test]
    fn event_is_one_line_of_json() {
        let event = event(&Pretend::default().live());
        let text = std::str::from_utf8(&event).unwrap();
        let json = text.strip_prefix("event: live\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
        assert!(!json.contains(['\n', '\r']), "{json}");
        assert_eq!(serde_json::from_str::<Live>(json).unwrap(), Pretend::default().live());
    }
}
