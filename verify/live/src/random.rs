//! Repeatable random numbers, and the settings of tests that use them.

/// xorshift64*: repeatable and good enough for a test.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed but zero.
    pub const fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound.max(1)
    }

    /// A sequence that depends on this one.
    pub fn fork(&mut self) -> Random {
        Random::new(self.below(u64::MAX))
    }
}

/// A number from the environment.
///
/// # Panics
/// If the variable holds something else.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect(name))
}

/// The seed in the variable `name`, else one from the clock.
///
/// # Panics
/// If the variable holds no number.
pub fn seed(name: &str) -> u64 {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    setting(name, u64::from(clock.subsec_nanos()) | 1)
}
