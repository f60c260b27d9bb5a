//! How much room the kernel's receive buffers have to have.

use std::time::Duration;
use wire::Time;

/// What comes is counted over so long at least.
const WHILE: Duration = Duration::from_secs(1);
/// What a buffer may be asked to hold at most, bytes; the kernel doubles the figure.
const MOST: u64 = 64 << 20;
/// What the kernel keeps with a datagram beside its bytes: headers with room in front, and the end of the block
/// (`struct skb_shared_info`), for all of which it takes the next power of two; and the head (`struct sk_buff`).
const AROUND: u64 = 400;
const HEAD: u64 = 256;

/// Has the buffers follow what a worker takes, so that it may stand still for a while (its machine is moved, its process
/// stopped) and lose nothing. What is lost is repeated by everybody at once half a second later, which is an overload
/// where there was none. They only grow: a buffer that is not used takes no memory.
pub struct Room {
    /// For so long; zero: they stay as they are.
    hold: Duration,
    /// What they hold, bytes as they are asked for.
    size: u64,
    /// When it was last counted, and what had come by then.
    since: Time,
    datagrams: u64,
    bytes: u64,
}

impl Room {
    pub fn new(hold: Duration, size: usize, now: Time) -> Room {
        Room { hold, size: size as u64, since: now, datagrams: 0, bytes: 0 }
    }

    /// So many datagrams have come since the start, of so many bytes in all. What to ask for, if that is more than there is.
    #[inline]
    pub fn wants(&mut self, now: Time, datagrams: u64, bytes: u64) -> Option<usize> {
        let time = now.since(self.since);
        if time < WHILE || self.hold.is_zero() {
            return None;
        }
        let (came, length) = (datagrams - self.datagrams, bytes - self.bytes);
        (self.since, self.datagrams, self.bytes) = (now, datagrams, bytes);
        let each = (length / came.max(1) + AROUND).next_power_of_two() + HEAD;
        let held = came as f64 * self.hold.as_secs_f64() / time.as_secs_f64();
        let wanted = (held as u64).saturating_mul(each / 2).min(MOST);
        // A little more is no reason.
        (wanted > self.size + self.size / 8).then_some(wanted as usize)
    }

    /// They got so much. `false` if that is no more than before: then it is not asked again.
    pub fn got(&mut self, size: usize) -> bool {
        let more = size as u64 > self.size;
        if more {
            self.size = size as u64;
        } else {
            self.hold = Duration::ZERO;
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Duration = Duration::from_millis(500);

    #[test]
    fn a_buffer_holds_what_comes_in_so_long_as_the_kernel_counts_it() {
        let mut room = Room::new(HALF, 4 << 20, Time::ZERO);
        // A datagram of 700 bytes takes 2,304, and the kernel doubles what is asked.
        assert_eq!(room.wants(Time::from_millis(999), 100_000, 70_000_000), None, "too early to say");
        let wanted = room.wants(Time::from_secs(1), 100_000, 70_000_000);
        assert_eq!(wanted, Some(50_000 * 1_152));
        assert!(room.got(wanted.unwrap()));
        // The same again, and a little more.
        assert_eq!(room.wants(Time::from_secs(2), 200_000, 140_000_000), None);
        assert_eq!(room.wants(Time::from_secs(3), 305_000, 213_500_000), None);
        // Less does not shrink it, and there is an end.
        assert_eq!(room.wants(Time::from_secs(13), 306_000, 214_200_000), None);
        assert_eq!(room.wants(Time::from_secs(14), 9_000_000, 9_000_000_000), Some(64 << 20));
    }

    #[test]
    fn what_the_system_does_not_give_is_asked_for_once() {
        let mut room = Room::new(HALF, 1 << 20, Time::ZERO);
        assert!(room.wants(Time::from_secs(1), 50_000, 25_000_000).is_some());
        assert!(!room.got(1 << 20));
        assert_eq!(room.wants(Time::from_secs(2), 500_000, 250_000_000), None);
    }

    #[test]
    fn nothing_is_asked_of_whoever_wants_it_as_it_is() {
        let mut room = Room::new(Duration::ZERO, 1 << 20, Time::ZERO);
        assert_eq!(room.wants(Time::from_secs(1), 500_000, 250_000_000), None);
    }
}
