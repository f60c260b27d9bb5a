//! What the admin API says of the calls of trunks.

use serde::{Deserialize, Serialize};

/// The calls of a trunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrunkLoad {
    /// Calls now, in both directions.
    pub calls: u32,
    /// Most calls at one time; none: no limit.
    pub channels: Option<u32>,
    /// Calls sent to it in the last full minute.
    pub last_minute: u32,
    /// Most new calls to it in a second; none: no limit.
    pub calls_per_second: Option<u32>,
    /// Calls sent to it since the start.
    pub attempts: u64,
    /// Those of them that it answered.
    pub answered: u64,
    /// Calls sent to it in the last hour.
    pub hour_attempts: u32,
    /// Those of them that it answered.
    pub hour_answered: u32,
    /// Calls, in either direction, that found all channels in use.
    pub no_channel: u64,
    /// Calls to it that were too many for their second.
    pub no_rate: u64,
    /// Why a call was refused last: `channels` or `rate`.
    pub full: Option<String>,
    /// Seconds since then.
    pub full_s: Option<u64>,
}

impl TrunkLoad {
    /// Calls now, and how many there may be: `7/10`.
    pub fn calls_text(&self) -> String {
        self.channels.map_or(self.calls.to_string(), |most| format!("{}/{most}", self.calls))
    }

    /// New calls a second in the last full minute, and how many there may be: `0.4/20`.
    pub fn rate_text(&self) -> String {
        let rate = f64::from(self.last_minute) / 60.0;
        self.calls_per_second.map_or(format!("{rate:.1}"), |most| format!("{rate:.1}/{most}"))
    }

    /// The answered part of the calls of the last hour.
    pub fn ratio_text(&self) -> String {
        match u64::from(self.hour_attempts) {
            0 => "-".to_owned(),
            all => format!("{} %", 100 * u64::from(self.hour_answered) / all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_shown_with_its_limits() {
        let load = TrunkLoad { calls: 7, last_minute: 30, ..TrunkLoad::default() };
        assert_eq!([load.calls_text(), load.rate_text(), load.ratio_text()], ["7", "0.5", "-"]);
        let limits = TrunkLoad { channels: Some(10), calls_per_second: Some(20), ..load };
        let load = TrunkLoad { hour_attempts: 3, hour_answered: 2, ..limits };
        assert_eq!([load.calls_text(), load.rate_text(), load.ratio_text()], ["7/10", "0.5/20", "66 %"]);
    }
}
