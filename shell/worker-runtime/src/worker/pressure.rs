//! Whether a worker keeps up with what comes.

use crate::sys;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use wire::{Load, Time};

/// A round that took fewer messages than this had next to nothing waiting: the worker keeps up.
const FEW: u64 = 8;
/// So long a wait for the next report means that there was nothing to do. Asking in vain takes a few
/// microseconds.
const IDLE: Duration = Duration::from_micros(20);

/// Counts for how long a worker has not kept up. A round that finds few messages is over at once; one of
/// more, after which the worker waits, has caught up as well. Only such rounds have their end timed, so that
/// a message costs no reading of the clock.
pub struct Pressure {
    /// When the window began.
    since: Time,
    /// When the last round began.
    woken: Time,
    behind: Duration,
    kept_up: bool,
    /// This round was mostly spent on work that can wait.
    excused: bool,
    /// Messages taken since the start, as of the end of the last round.
    taken: u64,
}

impl Pressure {
    pub fn new(now: Time) -> Pressure {
        Pressure { since: now, woken: now, behind: Duration::ZERO, kept_up: true, excused: false, taken: 0 }
    }

    /// The worker is about to wait and has taken so many messages since the start. Whether it matters how
    /// long it waits.
    pub fn waits(&mut self, taken: u64) -> bool {
        let many = taken.wrapping_sub(self.taken) >= FEW;
        self.taken = taken;
        if !many {
            self.keeps_up();
        }
        many
    }

    /// It has waited from `before`, if that matters, and begins a round. What to tell the machine, once in a
    /// window.
    #[inline]
    pub fn woke(&mut self, before: Option<Time>, now: Time) -> Option<Load> {
        if let Some(before) = before {
            if now.since(before) >= IDLE || self.excused {
                self.keeps_up();
            } else {
                self.behind += now.since(self.woken).min(Load::ROUND);
            }
        }
        (self.woken, self.excused) = (now, false);
        let window = now.since(self.since);
        (window >= Load::WINDOW).then(|| {
            let load =
                Load { window, behind: self.behind, kept_up: self.kept_up, sieved: None, waiting: None };
            (self.since, self.kept_up) = (now, false);
            load
        })
    }

    /// The worker spent some of this round on work that can wait, after the `rest`. If that was the larger
    /// part, it keeps up with what cannot; otherwise only the rest counts.
    pub fn spent_aside(&mut self, aside: Duration, rest: Duration) {
        if aside >= rest {
            self.keeps_up();
            self.excused = true;
        } else {
            self.woken = self.woken + aside;
        }
    }

    fn keeps_up(&mut self) {
        self.behind = Duration::ZERO;
        self.kept_up = true;
    }
}

/// Looks at what waits in the kernel while a worker is behind.
#[derive(Default)]
pub struct Backlog {
    /// What the sockets had lost at the last look; `None`: the worker was not behind then.
    lost: Option<u32>,
}

impl Backlog {
    /// So many sockets are looked at at most: each costs a system call.
    const SOCKETS: usize = 256;
    /// What the kernel drops because it was told to is counted with what is lost, a little sooner or later
    /// than by itself.
    const RACE: u64 = 16;

    /// See [`Load::waiting`].
    pub fn look<'a>(
        &mut self,
        load: &Load,
        sockets: impl ExactSizeIterator<Item = BorrowedFd<'a>>,
    ) -> Option<u64> {
        if load.behind < Load::ROUND || sockets.len() > Self::SOCKETS {
            self.lost = None;
            return None;
        }
        let (mut waiting, mut lost) = (0u64, 0u32);
        for socket in sockets {
            let received = sys::received(socket);
            waiting += u64::from(received.waiting);
            lost = lost.wrapping_add(received.drops);
        }
        let before = self.lost.replace(lost);
        let sieved = load.sieved.unwrap_or(0).saturating_add(Self::RACE);
        before.is_none_or(|before| u64::from(lost.wrapping_sub(before)) <= sieved).then_some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn what_waits_is_seen_and_what_was_lost() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let mut backlog = Backlog::default();
        let behind = Load { behind: Load::ROUND, ..Load::default() };
        let mut look = |load: &Load| backlog.look(load, [socket.as_fd()].into_iter());
        assert_eq!(look(&Load::default()), None);
        assert_eq!(look(&behind), Some(0));
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(&[0; 1_000], to).unwrap();
        assert!((1_000..10_000).contains(&look(&behind).unwrap()));
        // No buffer is so large.
        for _ in 0..20_000 {
            sender.send_to(&[0; 1_000], to).unwrap();
        }
        assert_eq!(look(&behind), None, "some of it was lost");
        assert!(look(&behind).unwrap() > 10_000, "nothing since");
        for _ in 0..20_000 {
            sender.send_to(&[0; 1_000], to).unwrap();
        }
        let told = Load { sieved: Some(20_000), ..behind };
        assert!(look(&told).unwrap() > 10_000, "the kernel was told to");
    }

    const fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    /// One round: so many messages in all, waited from, woken at.
    fn round(pressure: &mut Pressure, taken: u64, before: u64, now: u64) -> Option<Load> {
        let matters = pressure.waits(taken);
        pressure.woke(matters.then_some(at(before)), at(now))
    }

    #[test]
    fn whoever_never_waits_is_behind() {
        let mut pressure = Pressure::new(at(0));
        let loads: Vec<Load> =
            (1..=100).filter_map(|n| round(&mut pressure, n * 256, n * 2_000 - 3, n * 2_000)).collect();
        let behind: Vec<u128> = loads.iter().map(|load| load.behind.as_millis()).collect();
        assert_eq!(behind, [50, 100, 150, 200]);
        let kept_up: Vec<bool> = loads.iter().map(|load| load.kept_up).collect();
        assert_eq!(kept_up, [true, false, false, false], "it began with nothing to do");
    }

    #[test]
    fn a_wait_or_a_small_round_ends_it() {
        let mut pressure = Pressure::new(at(0));
        for n in 1..10 {
            round(&mut pressure, n * 64, n * 1_000 - 3, n * 1_000);
        }
        assert_eq!(pressure.behind, Duration::from_millis(9));
        round(&mut pressure, 640, 9_980, 10_000);
        assert_eq!(pressure.behind, Duration::ZERO, "it waited");
        round(&mut pressure, 704, 10_999, 11_000);
        assert_eq!(pressure.behind, Duration::from_millis(1));
        round(&mut pressure, 711, 11_999, 12_000);
        assert_eq!(pressure.behind, Duration::ZERO, "seven messages are few");
    }

    #[test]
    fn time_on_work_that_can_wait_is_not_held_against_calls() {
        let mut pressure = Pressure::new(at(0));
        // Each round: eight messages and their time, then handshakes, and no wait.
        let mut round = |n: u64, calls: u64, handshakes: u64| {
            pressure.spent_aside(Duration::from_micros(handshakes), Duration::from_micros(calls));
            assert!(pressure.waits(n * 8));
            pressure.woke(Some(at(n * 1_000 - 3)), at(n * 1_000));
            pressure.behind
        };
        assert!((1..20).all(|n| round(n, 400, 600) == Duration::ZERO));
        assert_eq!(round(20, 700, 300), Duration::from_micros(700));
        assert_eq!(round(21, 700, 300), Duration::from_micros(1_400));
    }

    #[test]
    fn a_process_that_stood_still_is_not_behind_for_long() {
        let mut pressure = Pressure::new(at(0));
        let load = round(&mut pressure, 256, 5_000_000, 5_000_001).unwrap();
        assert_eq!((load.window.as_secs(), load.behind), (5, Load::ROUND));
    }
}
