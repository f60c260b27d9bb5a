//! How to receive datagrams: in batches or one by one, and when to look for more. Traffic tells.

/// Datagrams from which on one batch call is cheaper than as many plain calls: a batch has its
/// headers copied in and out, a plain call is one more system call. Measured on loopback: 10.4 against
/// 10.8 thousand instructions a relayed packet at bursts of 16, while CPU time is in favour of batches
/// from bursts of about this size.
pub const BATCH_PAYS: usize = 8;

/// Reports of a socket in a row, at most, of which one datagram each is taken without a look for the next.
const BLIND: u8 = 16;
/// Looks in vain in a row before they become rarer. A look costs less than half of a round through epoll (0.8
/// against 1.8 thousand instructions), so it pays if it finds something every other time.
const IN_VAIN: u8 = 3;

/// How to receive; traffic tells.
#[derive(Default)]
pub(super) struct ReceiveMode {
    /// In batches.
    pub batches: bool,
    /// Looks for more after the first datagram of a report, and after each further one: of several that come
    /// together there are often as many.
    after_one: Looks,
    after_more: Looks,
}

/// When to look for more.
#[derive(Default)]
pub struct Looks {
    /// How many more times epoll is asked instead.
    blind: u8,
    /// How many those were last time.
    stretch: u8,
    /// Looks in vain in a row, up to [`IN_VAIN`].
    vain: u8,
}

impl ReceiveMode {
    /// This number of datagrams came in one batch.
    pub fn received(&mut self, count: usize) {
        self.batches = count >= BATCH_PAYS;
    }

    /// The looks when this number was taken.
    pub fn after(&mut self, taken: usize) -> &mut Looks {
        if taken == 1 { &mut self.after_one } else { &mut self.after_more }
    }
}

impl Looks {
    /// Whether to look for more. A look that finds nothing is a system call in vain, one that finds something
    /// saves a round through epoll. So looks become rare where they are in vain and come back with the first
    /// that is not.
    pub fn wanted(&mut self) -> bool {
        let wanted = self.blind == 0;
        self.blind -= u8::from(!wanted);
        wanted
    }

    /// A look found more, or nothing.
    pub fn done(&mut self, more: bool) {
        if more {
            (self.vain, self.stretch) = (0, 0);
        } else if self.vain < IN_VAIN {
            self.vain += 1;
        } else {
            self.stretch = (self.stretch * 2).clamp(1, BLIND);
        }
        self.blind = self.stretch;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_begin_with_traffic_and_end_with_it() {
        let mut receive_mode = ReceiveMode::default();
        assert!(!receive_mode.batches);
        receive_mode.received(BATCH_PAYS);
        assert!(receive_mode.batches);
        receive_mode.received(BATCH_PAYS - 1);
        assert!(!receive_mode.batches);
    }

    #[test]
    fn looks_become_rare_while_they_are_in_vain() {
        let mut looks = Looks::default();
        let mut reports_until_a_look = |more| {
            let blind = (0..).take_while(|_| !looks.wanted()).count();
            looks.done(more);
            blind
        };
        let in_vain: Vec<usize> = (0..11).map(|_| reports_until_a_look(false)).collect();
        assert_eq!(in_vain, [0, 0, 0, 0, 1, 2, 4, 8, 16, 16, 16]);
        assert_eq!((reports_until_a_look(true), reports_until_a_look(true)), (16, 0));
        // Found something every other time: always.
        let found: Vec<usize> = (0..8).map(|n| reports_until_a_look(n % 2 == 0)).collect();
        assert_eq!(found, [0; 8]);
    }

    #[test]
    fn where_two_come_together_nobody_looks_for_a_third() {
        let mut receive_mode = ReceiveMode::default();
        let mut in_vain = 0;
        for _ in 0..100 {
            assert!(receive_mode.after(1).wanted());
            receive_mode.after(1).done(true);
            if receive_mode.after(2).wanted() {
                receive_mode.after(2).done(false);
                in_vain += 1;
            }
        }
        assert!(in_vain < 16, "{in_vain}");
    }
}
