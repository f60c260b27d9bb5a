//! How many calls a trunk carries, and how many it may.
//!
//! One object for a trunk, shared by all workers and carried over a reload. A call holds a [`Channel`] for as
//! long as it lasts. Dropping that gives it back, so no way in which a call ends can forget it. Everything
//! here is an atomic: no worker waits for another.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use wire::Time;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Microseconds of a minute.
const MINUTE: u64 = 60_000_000;
/// Minutes of which attempts and answers are kept.
const MINUTES: u64 = 60;

/// What the operator lets a trunk have. 0: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LineLimits {
    /// Calls at one time, in both directions together.
    pub channels: u32,
    /// New calls to the trunk in a second.
    pub calls_per_second: u32,
}

/// Why a trunk takes no further call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineFull {
    /// All its channels are in use.
    Channels,
    /// It has been sent as many new calls as it may get in a second.
    Rate,
}

/// A trunk as it is at one time, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LineStanding {
    /// What it may have.
    pub limits: LineLimits,
    /// Calls now, in both directions.
    pub calls: u32,
    /// Calls sent to it since the start.
    pub attempts: u64,
    /// Those of them that it answered.
    pub answered: u64,
    /// Calls sent to it in the last hour, and those of them that it answered.
    pub hour: (u32, u32),
    /// Calls sent to it in the last full minute.
    pub minute: u32,
    /// Calls that found all channels in use, in either direction.
    pub no_channel: u64,
    /// Calls that were one too many for the second.
    pub no_rate: u64,
    /// When a call was one too many last, and why.
    pub full: Option<(LineFull, Time)>,
}

/// One trunk.
#[derive(Debug)]
pub struct Line {
    name: Box<[u8]>,
    channels: AtomicU32,
    rate: AtomicU32,
    calls: AtomicU32,
    bucket: Bucket,
    attempts: AtomicU64,
    answered: AtomicU64,
    hour: Hour,
    no_channel: AtomicU64,
    no_rate: AtomicU64,
    /// When a call was one too many last, microseconds and one, for each reason; 0: never.
    full: [AtomicU64; 2],
}

impl Line {
    fn new(name: &[u8]) -> Line {
        Line {
            name: name.into(),
            channels: AtomicU32::new(0),
            rate: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            bucket: Bucket::default(),
            attempts: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            hour: Hour::default(),
            no_channel: AtomicU64::new(0),
            no_rate: AtomicU64::new(0),
            full: Default::default(),
        }
    }

    /// The name of the trunk.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What it may have.
    pub fn limits(&self) -> LineLimits {
        LineLimits { channels: self.channels.load(Relaxed), calls_per_second: self.rate.load(Relaxed) }
    }

    fn limit(&self, limits: LineLimits) {
        self.channels.store(limits.channels, Relaxed);
        self.rate.store(limits.calls_per_second, Relaxed);
    }

    /// A call comes from the trunk.
    ///
    /// # Errors
    /// All channels are in use.
    pub fn inbound(self: &Arc<Line>, now: Time) -> Result<Channel, LineFull> {
        match self.take() {
            true => Ok(Channel(Arc::clone(self))),
            false => Err(self.refused(now, LineFull::Channels)),
        }
    }

    /// A call that `began` at this time is sent to the trunk.
    ///
    /// # Errors
    /// What the trunk has no more of.
    pub fn outbound(self: &Arc<Line>, now: Time, began: Time) -> Result<Channel, LineFull> {
        if self.is_full() {
            return Err(self.refused(now, LineFull::Channels));
        }
        if !self.bucket.take(now, self.rate.load(Relaxed)) {
            return Err(self.refused(now, LineFull::Rate));
        }
        // Another worker may have taken the last one meanwhile. The second then has one call less.
        if !self.take() {
            return Err(self.refused(now, LineFull::Channels));
        }
        self.attempt(began);
        Ok(Channel(Arc::clone(self)))
    }

    /// A call that no limit may refuse: an emergency call, or one that is under way already.
    pub fn anyway(self: &Arc<Line>) -> Channel {
        self.calls.fetch_add(1, Relaxed);
        Channel(Arc::clone(self))
    }

    /// A call that `began` at this time is sent to the trunk.
    pub fn attempt(&self, began: Time) {
        self.attempts.fetch_add(1, Relaxed);
        self.hour.add(began, false);
    }

    /// The trunk has answered a call that [began](Line::attempt) at this time.
    pub fn answered(&self, began: Time) {
        self.answered.fetch_add(1, Relaxed);
        self.hour.add(began, true);
    }

    /// Whether all channels are in use.
    pub fn is_full(&self) -> bool {
        let most = self.channels.load(Relaxed);
        most > 0 && self.calls.load(Relaxed) >= most
    }

    /// How it is.
    pub fn standing(&self, now: Time) -> LineStanding {
        let [channels, rate] = [0, 1].map(|at| self.full[at].load(Relaxed));
        let why = if channels >= rate { LineFull::Channels } else { LineFull::Rate };
        let last = channels.max(rate).checked_sub(1).map(Time::from_micros);
        LineStanding {
            limits: self.limits(),
            calls: self.calls.load(Relaxed),
            attempts: self.attempts.load(Relaxed),
            answered: self.answered.load(Relaxed),
            hour: self.hour.sum(now),
            minute: self.hour.last_minute(now),
            no_channel: self.no_channel.load(Relaxed),
            no_rate: self.no_rate.load(Relaxed),
            full: last.map(|at| (why, at)),
        }
    }

    /// Takes a channel if there is one.
    fn take(&self) -> bool {
        let most = self.channels.load(Relaxed);
        let one_more = |calls: u32| (most == 0 || calls < most).then(|| calls.saturating_add(1));
        self.calls.fetch_update(Relaxed, Relaxed, one_more).is_ok()
    }

    fn refused(&self, now: Time, why: LineFull) -> LineFull {
        let (count, at) = match why {
            LineFull::Channels => (&self.no_channel, &self.full[0]),
            LineFull::Rate => (&self.no_rate, &self.full[1]),
        };
        count.fetch_add(1, Relaxed);
        at.store(now.as_micros().saturating_add(1), Relaxed);
        why
    }
}

/// A channel of a trunk, in use by a call. It is given back when this is dropped.
#[derive(Debug)]
pub struct Channel(Arc<Line>);

impl Channel {
    /// The trunk.
    pub const fn line(&self) -> &Arc<Line> {
        &self.0
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Relaxed);
    }
}

/// All trunks of a configuration, by their names.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    by_name: std::collections::BTreeMap<Box<[u8]>, Arc<Line>>,
}

impl Lines {
    /// Those with these names, and what each may have. What `before` knows of them goes on.
    pub fn new<'a>(trunks: impl IntoIterator<Item = (&'a [u8], LineLimits)>, before: &Lines) -> Lines {
        let line = |(name, limits): (&'a [u8], LineLimits)| {
            let line = before.get(name).cloned().unwrap_or_else(|| Arc::new(Line::new(name)));
            line.limit(limits);
            (name.into(), line)
        };
        Lines { by_name: trunks.into_iter().map(line).collect() }
    }

    /// The trunk of this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Line>> {
        self.by_name.get(name)
    }
}

/// A token bucket that holds the tokens of one second (the generic cell rate algorithm of ITU-T I.371).
#[derive(Debug, Default)]
struct Bucket {
    /// When it is full again, nanoseconds.
    full_at: AtomicU64,
}

impl Bucket {
    /// Takes a token, of which `rate` come in a second; 0: any number.
    fn take(&self, now: Time, rate: u32) -> bool {
        if rate == 0 {
            return true;
        }
        let (now, token) = (now.as_micros().saturating_mul(1_000), SECOND / u64::from(rate));
        let taken = |full_at: u64| {
            let next = full_at.max(now) + token;
            (next <= now + SECOND).then_some(next)
        };
        self.full_at.fetch_update(Relaxed, Relaxed, taken).is_ok()
    }
}

/// Attempts and answers of the last hour, minute by minute. An answer counts in the minute of its attempt.
#[derive(Debug)]
struct Hour([AtomicU64; MINUTES as usize]);

/// What is kept of a minute: 16 bits of its number, then attempts and answers of 24 bits each.
#[derive(Clone, Copy)]
struct Minute {
    number: u16,
    attempts: u32,
    answered: u32,
}

impl Minute {
    const MOST: u32 = (1 << 24) - 1;

    const fn unpack(packed: u64) -> Minute {
        let (attempts, answered) = ((packed >> 24) as u32 & Minute::MOST, packed as u32 & Minute::MOST);
        Minute { number: (packed >> 48) as u16, attempts, answered }
    }

    const fn pack(self) -> u64 {
        (self.number as u64) << 48 | (self.attempts as u64) << 24 | self.answered as u64
    }
}

impl Default for Hour {
    fn default() -> Hour {
        Hour([const { AtomicU64::new(0) }; MINUTES as usize])
    }
}

impl Hour {
    fn slot(&self, minute: u64) -> &AtomicU64 {
        // The remainder is below the length.
        &self.0[(minute % MINUTES) as usize]
    }

    /// An attempt that began at this time, or the answer to one.
    fn add(&self, began: Time, is_answer: bool) {
        let minute = began.as_micros() / MINUTE;
        let number = minute as u16;
        let more = |packed| {
            let kept = Minute::unpack(packed);
            let kept = match (kept.number == number, is_answer) {
                (true, _) => kept,
                (false, false) => Minute { number, attempts: 0, answered: 0 },
                // Its attempt is of more than an hour ago.
                (false, true) => return None,
            };
            let one_more = |count: u32| (count + 1).min(Minute::MOST);
            Some(match is_answer {
                true => Minute { answered: one_more(kept.answered), ..kept }.pack(),
                false => Minute { attempts: one_more(kept.attempts), ..kept }.pack(),
            })
        };
        let _ = self.slot(minute).fetch_update(Relaxed, Relaxed, more);
    }

    fn at(&self, minute: u64) -> Option<Minute> {
        let kept = Minute::unpack(self.slot(minute).load(Relaxed));
        (kept.number == minute as u16).then_some(kept)
    }

    /// Attempts and answers of the last hour.
    fn sum(&self, now: Time) -> (u32, u32) {
        let last = now.as_micros() / MINUTE;
        let minutes = (last.saturating_sub(MINUTES - 1)..=last).filter_map(|minute| self.at(minute));
        minutes.fold((0, 0), |(attempts, answered), minute| {
            (attempts.saturating_add(minute.attempts), answered.saturating_add(minute.answered))
        })
    }

    /// Attempts of the last full minute.
    fn last_minute(&self, now: Time) -> u32 {
        let minute = (now.as_micros() / MINUTE).checked_sub(1);
        minute.and_then(|minute| self.at(minute)).map_or(0, |minute| minute.attempts)
    }
}

impl LineStanding {
    /// For so long after a refusal a trunk counts as one that has been full.
    pub const SHOWN: Duration = Duration::from_secs(600);

    /// Whether all channels are in use.
    pub const fn is_full(&self) -> bool {
        self.limits.channels > 0 && self.calls >= self.limits.channels
    }

    /// Why a call was refused lately, and how long ago.
    pub fn refused_lately(&self, now: Time) -> Option<(LineFull, Duration)> {
        let (why, at) = self.full?;
        Some((why, now.since(at))).filter(|(_, ago)| *ago < LineStanding::SHOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Time = Time::from_secs(100);

    fn line(channels: u32, calls_per_second: u32) -> Arc<Line> {
        let trunks = [(&b"pbx"[..], LineLimits { channels, calls_per_second })];
        Arc::clone(Lines::new(trunks, &Lines::default()).get(b"pbx").unwrap())
    }

    #[test]
    fn channels_bound_both_directions_and_come_back() {
        let pbx = line(2, 0);
        let first = pbx.inbound(NOW).unwrap();
        let second = pbx.outbound(NOW, NOW).unwrap();
        assert!(pbx.is_full());
        assert_eq!(pbx.inbound(NOW).err(), Some(LineFull::Channels));
        assert_eq!(pbx.outbound(NOW, NOW).err(), Some(LineFull::Channels));
        let urgent = pbx.anyway();
        assert_eq!(pbx.standing(NOW).calls, 3);
        drop(urgent);
        drop(first);
        assert!(!pbx.is_full() && pbx.inbound(NOW).is_ok());
        drop(second);
        let standing = pbx.standing(NOW);
        assert_eq!((standing.calls, standing.no_channel, standing.attempts), (0, 2, 1));
        assert_eq!(standing.full, Some((LineFull::Channels, NOW)));
    }

    #[test]
    fn refused_rate_takes_no_channel() {
        let carrier = line(10, 2);
        let held = [carrier.outbound(NOW, NOW).unwrap(), carrier.outbound(NOW, NOW).unwrap()];
        assert_eq!(carrier.outbound(NOW, NOW).err(), Some(LineFull::Rate));
        assert_eq!(carrier.standing(NOW).calls, 2);
        assert!(carrier.inbound(NOW).is_ok(), "a rate is of what is sent there");
        let later = NOW + Duration::from_millis(500);
        assert!(carrier.outbound(later, later).is_ok());
        assert_eq!(carrier.outbound(later, later).err(), Some(LineFull::Rate));
        let standing = carrier.standing(later);
        assert_eq!((standing.no_rate, standing.full), (2, Some((LineFull::Rate, later))));
        drop(held);
    }

    #[test]
    fn reload_keeps_calls_and_takes_new_limits() {
        let before = Lines::new([(&b"pbx"[..], LineLimits::default())], &Lines::default());
        let held: Vec<Channel> = (0..5).map(|_| before.get(b"pbx").unwrap().inbound(NOW).unwrap()).collect();
        let limits = LineLimits { channels: 3, calls_per_second: 0 };
        let after = Lines::new([(&b"pbx"[..], limits), (b"other", limits)], &before);
        let pbx = after.get(b"pbx").unwrap();
        assert!(Arc::ptr_eq(pbx, before.get(b"pbx").unwrap()) && after.get(b"gone").is_none());
        assert!(pbx.is_full() && pbx.inbound(NOW).is_err());
        drop(held);
        assert!(pbx.inbound(NOW).is_ok());
    }

    #[test]
    fn answers_count_in_the_minute_of_their_attempts() {
        let carrier = line(0, 0);
        let minute = |n: u64| Time::from_secs(6_000 + 60 * n);
        for n in 0..80 {
            drop(carrier.outbound(minute(n), minute(n)).unwrap());
            if n.is_multiple_of(2) {
                carrier.answered(minute(n));
            }
        }
        let standing = carrier.standing(minute(79));
        assert_eq!((standing.attempts, standing.answered), (80, 40));
        assert_eq!((standing.hour, standing.minute), ((60, 30), 1));
        // Its attempt is forgotten.
        carrier.answered(minute(3));
        assert_eq!(carrier.standing(minute(79)).hour, (60, 30));
        assert_eq!(carrier.standing(minute(79 + 60)).hour, (0, 0));
    }

    /// Threads stand for workers: none of them may see one channel more than there is.
    #[test]
    fn workers_share_channels_exactly() {
        const CHANNELS: u32 = 7;
        let pbx = line(CHANNELS, 0);
        let refused: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|worker| {
                    let pbx = &pbx;
                    scope.spawn(move || {
                        let (mut held, mut refused) = (Vec::new(), 0);
                        for round in 0..20_000_u32 {
                            match pbx.inbound(NOW) {
                                Ok(channel) => held.push(channel),
                                Err(_) => refused += 1,
                            }
                            assert!(pbx.standing(NOW).calls <= CHANNELS);
                            if (round + worker).is_multiple_of(3) {
                                held.pop();
                            }
                        }
                        refused
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        let standing = pbx.standing(NOW);
        assert_eq!((standing.calls, standing.no_channel), (0, refused));
        assert!(refused > 0);
    }

    proptest! {
        /// No second gets more than the bucket holds and what comes into it meanwhile.
        #[test]
        fn rate_is_kept_over_any_time(
            rate in 1_u32..200,
            steps in prop::collection::vec(0_u64..400_000, 1..300),
        ) {
            let carrier = line(0, rate);
            let (mut now, mut sent) = (NOW, Vec::new());
            for micros in steps {
                now = now + Duration::from_micros(micros);
                if carrier.outbound(now, now).is_ok() {
                    sent.push(now);
                }
            }
            for (at, first) in sent.iter().enumerate() {
                for (count, last) in sent[at..].iter().enumerate() {
                    let tokens = last.since(*first).as_secs_f64() * f64::from(rate);
                    prop_assert!((count + 1) as f64 <= f64::from(rate) + tokens + 1e-2);
                }
            }
        }

        /// Whatever calls do, what is in use is what they hold.
        #[test]
        fn channels_in_use_are_those_held(
            channels in 0_u32..6,
            steps in prop::collection::vec((0_u8..5, any::<usize>()), 0..200),
        ) {
            let pbx = line(channels, 0);
            let mut held: Vec<Channel> = Vec::new();
            let mut urgent = 0;
            for (step, which) in steps {
                match step {
                    0 => held.extend(pbx.inbound(NOW).ok()),
                    1 => held.extend(pbx.outbound(NOW, NOW).ok()),
                    2 => {
                        held.push(pbx.anyway());
                        urgent += 1;
                    }
                    _ if held.is_empty() => {}
                    _ => drop(held.swap_remove(which % held.len())),
                }
                prop_assert_eq!(pbx.standing(NOW).calls as usize, held.len());
                prop_assert!(channels == 0 || held.len() <= channels as usize + urgent);
            }
            drop(held);
            prop_assert_eq!(pbx.standing(NOW).calls, 0);
        }
    }
}
