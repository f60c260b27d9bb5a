//! How much room the kernel's receive buffers have to have.

use std::time::Duration;
use wire::Time;

/// What comes is counted over so long at least.
const WHILE: Duration = Duration::from_secs(1);
/// Where a worker has more sockets than that each gets little, and they stay as they are.
const SOCKETS: usize = 512;
/// What the kernel keeps with a datagram beside its bytes: headers with room in front, and the end of the
/// block (`struct skb_shared_info`), for all of which it takes the next power of two; and the head (`struct
/// sk_buff`).
const AROUND: u64 = 400;
const HEAD: u64 = 256;

/// Has the buffers follow what a worker takes, so that it may stand still for a while (its machine is moved,
/// its process stopped) and lose nothing. What is lost is repeated by everybody at once half a second later,
/// which is an overload where there was none. They shrink again when less comes, for the kernel tells what
/// waits in steps of a quarter of them.
pub struct ReceiveBuffers {
    /// For so long; zero: they stay as they are.
    hold: Duration,
    /// What they hold at least and at most, and now: bytes as they are asked for.
    least: u64,
    most: u64,
    size: u64,
    /// What was wanted lately.
    wanted: u64,
    /// When it was last counted, and what had come by then.
    since: Time,
    datagrams: u64,
    bytes: u64,
}

impl ReceiveBuffers {
    /// Of this number of sockets with buffers of `size` bytes, which may become `most`.
    pub fn new(hold: Duration, sockets: usize, size: usize, most: usize, now: Time) -> ReceiveBuffers {
        let hold = if sockets > SOCKETS { Duration::ZERO } else { hold };
        let size = size as u64;
        let most = (most as u64).max(size);
        ReceiveBuffers { hold, least: size, most, size, wanted: size, since: now, datagrams: 0, bytes: 0 }
    }

    /// What has come since the start: datagrams, and their bytes. What to ask for, if not what
    /// there is.
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
        let wanted = (held as u64).saturating_mul(each / 2);
        // Half of it is forgotten in 22 s.
        self.wanted = wanted.max(self.wanted - self.wanted / 32).clamp(self.least, self.most);
        // A little more is no reason, nor is a little less.
        let other = self.wanted > self.size + self.size / 8 || self.wanted < self.size / 2;
        other.then_some(self.wanted as usize)
    }

    /// They got so much. `false` if more was wanted and there is none: then it is not asked again.
    pub fn got(&mut self, size: usize) -> bool {
        let size = size as u64;
        let lacks = self.wanted > self.size && size <= self.size;
        self.size = size;
        if lacks {
            self.hold = Duration::ZERO;
        }
        !lacks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Duration = Duration::from_millis(500);

    #[test]
    fn a_buffer_holds_what_comes_in_so_long_as_the_kernel_counts_it() {
        let mut buffers = ReceiveBuffers::new(HALF, 2, 4 << 20, 64 << 20, Time::ZERO);
        // A datagram of 700 bytes takes 2,304, and the kernel doubles what is asked.
        assert_eq!(buffers.wants(Time::from_millis(999), 100_000, 70_000_000), None, "too early to say");
        let wanted = buffers.wants(Time::from_secs(1), 100_000, 70_000_000);
        assert_eq!(wanted, Some(50_000 * 1_152));
        assert!(buffers.got(wanted.unwrap()));
        // The same again, and a little more.
        assert_eq!(buffers.wants(Time::from_secs(2), 200_000, 140_000_000), None);
        assert_eq!(buffers.wants(Time::from_secs(3), 305_000, 213_500_000), None);
        // There is an end.
        let wanted = buffers.wants(Time::from_secs(4), 9_000_000, 9_000_000_000);
        assert_eq!(wanted, Some(64 << 20));
        assert!(buffers.got(64 << 20));
    }

    #[test]
    fn what_is_not_needed_any_more_is_given_back_after_a_while() {
        let mut buffers = ReceiveBuffers::new(HALF, 2, 4 << 20, 64 << 20, Time::ZERO);
        buffers.wants(Time::from_secs(1), 1_000_000, 700_000_000);
        assert!(buffers.got(64 << 20));
        let sizes: Vec<(u64, usize)> = (2..300)
            .filter_map(|second| {
                let size = buffers.wants(Time::from_secs(second), 1_000_000, 700_000_000)?;
                assert!(buffers.got(size), "less is no lack");
                Some((second, size))
            })
            .collect();
        assert!(sizes.len() == 3 && sizes.first().is_some_and(|(second, _)| *second > 20), "{sizes:?}");
        assert!(sizes.is_sorted_by_key(|(_, size)| std::cmp::Reverse(*size)));
        assert!(sizes.last().is_some_and(|(_, size)| (4 << 20..9 << 20).contains(size)), "{sizes:?}");
    }

    #[test]
    fn what_the_system_does_not_give_is_asked_for_once() {
        let mut buffers = ReceiveBuffers::new(HALF, 2, 1 << 20, 64 << 20, Time::ZERO);
        assert!(buffers.wants(Time::from_secs(1), 50_000, 25_000_000).is_some());
        assert!(!buffers.got(1 << 20));
        assert_eq!(buffers.wants(Time::from_secs(2), 500_000, 250_000_000), None);
    }

    #[test]
    fn nothing_is_asked_of_whoever_wants_it_as_it_is() {
        for (hold, sockets) in [(Duration::ZERO, 2), (HALF, 513)] {
            let mut buffers = ReceiveBuffers::new(hold, sockets, 1 << 20, 64 << 20, Time::ZERO);
            assert_eq!(buffers.wants(Time::from_secs(1), 500_000, 250_000_000), None);
        }
    }
}
