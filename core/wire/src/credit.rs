/// Bytes that may still be sent to a sender that has not shown that it receives: three times what it sent
/// (RFC 3261 section 26.1.5, RFC 9000 section 8). Its address may be somebody else's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit(u32);

impl Credit {
    /// Of a sender that has shown it.
    pub const UNBOUNDED: Credit = Credit(u32::MAX);

    /// What this number of bytes received pays for.
    pub fn of(received: usize) -> Credit {
        Credit(u32::try_from(received).unwrap_or(u32::MAX).saturating_mul(3).min(u32::MAX - 1))
    }

    /// More was received.
    pub fn grant(&mut self, received: usize) {
        if *self != Credit::UNBOUNDED {
            self.0 = self.0.saturating_add(Credit::of(received).0).min(u32::MAX - 1);
        }
    }

    /// Whether `len` bytes may be sent, which are then paid for, if `reserve` are left.
    pub fn pays(&mut self, len: usize, reserve: u32) -> bool {
        if *self == Credit::UNBOUNDED {
            return true;
        }
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let pays = len.saturating_add(reserve) <= self.0;
        self.0 -= if pays { len } else { 0 };
        pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_three_times_what_was_received() {
        let mut credit = Credit::of(100);
        assert!(credit.pays(200, 100) && !credit.pays(60, 50) && credit.pays(60, 40));
        assert!(!credit.pays(41, 0) && credit.pays(40, 0) && !credit.pays(1, 0));
        credit.grant(10);
        assert!(credit.pays(30, 0) && !credit.pays(1, 0));
    }

    #[test]
    fn unbounded_credit_is_never_used_up() {
        let mut credit = Credit::UNBOUNDED;
        assert!(credit.pays(usize::MAX, u32::MAX));
        credit.grant(1);
        assert_eq!(credit, Credit::UNBOUNDED);
        let mut most = Credit::of(usize::MAX);
        most.grant(usize::MAX);
        assert_ne!(most, Credit::UNBOUNDED);
    }
}
