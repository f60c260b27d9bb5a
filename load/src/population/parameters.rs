//! The numbers of the population workload, with their defaults.
//!
//! The model is that of the SIP benchmark workload of 2008 as Wright, Nahum, Wood, Tracey and Hu describe
//! it (IBM Journal of Research and Development 54(1), 2010): registrations every 10 minutes that expire
//! after 15, a think time of one hour, 65 % completed calls of 300 s, 30 % voicemail of 30 s, 5 %
//! cancelled, everything authenticated. What that text leaves open is chosen here, with the reason.

use super::distribution::{Distribution, Impossible};
use serde::{Deserialize, Serialize};

/// What the users do. Times are human times, before compression, unless the field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Users, of all workers together.
    pub users: u64,
    /// Human times are divided by this: at 60 an hour takes a minute, and the rates are 60 times those of
    /// the same users in life. Protocol timers (T1, Timer B, ...) are not touched.
    pub compression: f64,
    /// Seconds from one registration of a user to the next.
    pub register_every: f64,
    /// Registrations vary by up to this share of the interval, up and down.
    pub register_jitter: f64,
    /// Seconds from a failed registration to another attempt. Without it a lost registration would make
    /// the user's calls fail for the rest of the interval.
    pub register_retry: f64,
    /// Seconds of the Expires value. A figure of the protocol: it is sent as it stands, not compressed
    /// (servers refuse what is below their minimum, often 60 s).
    pub expires: u32,
    /// From the end of a user's call to the begin of the next one that it makes.
    pub think: Distribution,
    /// Share of calls that are answered.
    pub completed: f64,
    /// Share of calls whose callee is unavailable, so that voicemail answers.
    pub voicemail: f64,
    /// Share of calls that the caller gives up while it rings.
    pub cancelled: f64,
    /// From the answer to the BYE of a completed call.
    ///
    /// The paper gives the law and the mean only. Log-normal is also what was found for a year of calls to
    /// a bank (Brown and others, JASA 100, 2005) and for mobile calls (Pattavina and Parini, 2005). The
    /// default shape, sigma = 1 (coefficient of variation 1.31, median 61 % of the mean), is that of SIPp's
    /// manual and of the examples that the paper's first author gave on SIPp's list in 2006.
    pub hold: Distribution,
    /// From the answer of voicemail to the BYE.
    pub voicemail_hold: Distribution,
    /// How long a completed call rings. The paper says only "variable". Published measurements: a mean of
    /// 8.67 s over mobile users world-wide (tawKon, 2013); most calls of a survey dialler answered after 6
    /// to 10 s, some at once, some after 18 to 22 s (Unicom Intelligence, "Summary and conclusions" of its
    /// call log analysis). Log-normal with mean 8.5 s and sigma 0.6 has its middle half between 4.7 and
    /// 10.6 s and 4 % above 20 s.
    pub ring: Distribution,
    /// How long an unavailable callee rings before voicemail takes the call: by default it does not, the
    /// callee is known to be away.
    pub voicemail_ring: Distribution,
    /// How long the caller of a cancelled call lets it ring. No measurement is known to us; the default, a
    /// mean of 15 s, is about twice the time to answer, and ends before the usual 20 to 30 s of no-answer
    /// forwarding.
    pub patience: Distribution,
    /// Share of completed calls that the callee ends. The paper's flow lets the caller do it.
    pub callee_hangs_up: f64,
    /// Whom users call.
    pub callees: Callees,
    /// Seconds over which the first registrations are spread; calls begin at their end.
    pub ramp: f64,
    /// Seconds of calls before measuring begins (the paper: 10 minutes).
    pub warm_up: f64,
    /// Seconds measured (the paper: 2 hours).
    pub measure: f64,
    /// Seconds without new registrations and calls before a run ends. Not compressed: it is there for
    /// transactions to end by their own timers, 32 s at most. Calls still up then are ended by the engine.
    pub cool_down: f64,
}

/// Whom users call.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Callees {
    /// Anybody else, all equally likely.
    #[default]
    Uniform,
    /// With probability `share` somebody else in one's own group of `size` users with neighbouring numbers
    /// (a company, a town), otherwise anybody else.
    Neighbours {
        /// Users of a group.
        size: u64,
        /// Share of calls that stay in it.
        share: f64,
    },
    /// The k-th most popular user with a probability proportional to k^-exponent. Which users are popular
    /// is the same for every seed; they are spread over the numbers.
    Zipf {
        /// The exponent; 0 is uniform.
        exponent: f64,
    },
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            users: 10_000,
            compression: 1.0,
            register_every: 600.0,
            register_jitter: 0.0,
            register_retry: 60.0,
            expires: 900,
            think: Distribution::exponential(3_600e3),
            completed: 0.65,
            voicemail: 0.30,
            cancelled: 0.05,
            hold: Distribution::log_normal_mean(300e3, 1.0),
            voicemail_hold: Distribution::exponential(30e3),
            ring: Distribution::log_normal_mean(8.5e3, 0.6),
            voicemail_ring: Distribution::fixed(0.0),
            patience: Distribution::log_normal_mean(15e3, 0.6),
            callee_hangs_up: 0.0,
            callees: Callees::Uniform,
            ramp: 600.0,
            warm_up: 600.0,
            measure: 7_200.0,
            cool_down: 35.0,
        }
    }
}

/// The longest run, in seconds: what the calendar of a worker reaches, with some room.
pub const LONGEST_RUN: f64 = 12.0 * 86_400.0;
/// Users that one worker can own.
pub const USERS_PER_WORKER: u64 = 1 << 30;

impl Parameters {
    /// Whether a run with these numbers is possible; if not, which number must change and how.
    pub fn check(&self) -> Result<(), Impossible> {
        let refuse = |message: String| Err(Impossible::new(message));
        if self.users < 2 {
            return refuse(format!("users={} must be at least 2: a caller and a callee", self.users));
        }
        within("compression", self.compression, 1.0, 10_000.0)?;
        within("register_every", self.register_every, 1.0, 86_400.0)?;
        within("register_jitter", self.register_jitter, 0.0, 0.5)?;
        within("register_retry", self.register_retry, 1.0, 86_400.0)?;
        within("callee_hangs_up", self.callee_hangs_up, 0.0, 1.0)?;
        within("ramp", self.ramp, 0.0, LONGEST_RUN)?;
        within("warm_up", self.warm_up, 0.0, LONGEST_RUN)?;
        within("measure", self.measure, 1.0, LONGEST_RUN)?;
        within("cool_down", self.cool_down, 0.0, 3_600.0)?;
        let longest_gap = self.register_every * (1.0 + self.register_jitter) / self.compression;
        if f64::from(self.expires) <= longest_gap {
            return refuse(format!(
                "expires={} must be above {longest_gap}, the longest time between registrations \
                 (register_every, register_jitter and compression): registrations would lapse",
                self.expires
            ));
        }
        let run = (self.ramp + self.warm_up + self.measure) / self.compression + self.cool_down;
        if run > LONGEST_RUN {
            return refuse(format!(
                "ramp, warm_up and measure make a run of {run} s; the longest is {LONGEST_RUN} s"
            ));
        }
        for (name, share) in self.shares() {
            within(name, share, 0.0, 1.0)?;
        }
        let sum = self.completed + self.voicemail + self.cancelled;
        if (sum - 1.0).abs() > 1e-9 {
            return refuse(format!("completed, voicemail and cancelled must sum to 1, not {sum}"));
        }
        for (name, law) in self.laws() {
            check_law(name, law)?;
        }
        match self.callees {
            Callees::Uniform => Ok(()),
            Callees::Neighbours { size, .. } if size < 2 => {
                refuse(format!("callees: size={size} must be at least 2"))
            }
            Callees::Neighbours { share, .. } => within("callees: share", share, 0.0, 1.0),
            Callees::Zipf { exponent } => within("callees: exponent", exponent, 0.0, 10.0),
        }
    }

    fn shares(&self) -> [(&'static str, f64); 3] {
        [("completed", self.completed), ("voicemail", self.voicemail), ("cancelled", self.cancelled)]
    }

    fn laws(&self) -> [(&'static str, &Distribution); 6] {
        [
            ("think", &self.think),
            ("hold", &self.hold),
            ("voicemail_hold", &self.voicemail_hold),
            ("ring", &self.ring),
            ("voicemail_ring", &self.voicemail_ring),
            ("patience", &self.patience),
        ]
    }

    /// Sets the parameter `key` to `value`, a number, a distribution or the JSON of a structure, as on the
    /// command line. Refuses unknown keys, naming those there are; call [`Parameters::check`] after the
    /// last one.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Impossible> {
        let failed = |error: serde_json::Error| Impossible::new(format!("{key}={value}: {error}"));
        let mut all = serde_json::to_value(&*self).map_err(failed)?;
        let fields = all.as_object_mut().ok_or_else(|| Impossible::new("no parameters"))?;
        let Some(old) = fields.get_mut(key) else {
            let keys: Vec<&str> = fields.keys().map(String::as_str).collect();
            return Err(Impossible::new(format!(
                "there is no parameter \"{key}\"; there are {}",
                keys.join(", ")
            )));
        };
        let text = || serde_json::Value::String(value.to_owned());
        // Distributions are text even where they look like a number: "250" is a fixed time.
        *old = match old {
            serde_json::Value::Number(_) => serde_json::from_str(value).unwrap_or_else(|_| text()),
            _ if value.starts_with('{') => serde_json::from_str(value).map_err(failed)?,
            _ => text(),
        };
        *self = serde_json::from_value(all).map_err(failed)?;
        Ok(())
    }

    /// What these users offer in a steady state.
    pub fn expected(&self) -> Expected {
        let seconds = |law: &Distribution| law.mean() / 1e3 / self.compression;
        let (ring, hold) = (seconds(&self.ring), seconds(&self.hold));
        let (voicemail_ring, voicemail_hold) = (seconds(&self.voicemail_ring), seconds(&self.voicemail_hold));
        let patience = seconds(&self.patience);
        let duration = self.completed * (ring + hold)
            + self.voicemail * (voicemail_ring + voicemail_hold)
            + self.cancelled * patience;
        // A user's life is a sequence of cycles: think, call.
        let calls = self.users as f64 / (seconds(&self.think) + duration);
        let rates = [self.completed, self.voicemail, self.cancelled].map(|share| share * calls);
        let [completed, voicemail, cancelled] = rates;
        Expected {
            registrations: self.users as f64 * self.compression / self.register_every,
            calls,
            completed,
            voicemail,
            cancelled,
            ringing: completed * ring + voicemail * voicemail_ring + cancelled * patience,
            talking: completed * hold + voicemail * voicemail_hold,
        }
    }

    /// The workload in words, one statement a line, for reports. States the compression.
    pub fn describe(&self) -> Vec<String> {
        let percent = |share: f64| format!("{} %", (share * 1e6).round() / 1e4);
        let mut lines = vec![format!(
            "{} users; each registers every {} s (Expires: {} s) and calls after a think time of {}",
            self.users, self.register_every, self.expires, self.think
        )];
        lines.push(format!(
            "{} completed (ring {}, hold {}), {} to voicemail (ring {}, hold {}), {} cancelled while ringing \
             (after {})",
            percent(self.completed),
            self.ring,
            self.hold,
            percent(self.voicemail),
            self.voicemail_ring,
            self.voicemail_hold,
            percent(self.cancelled),
            self.patience
        ));
        lines.push(match self.callees {
            Callees::Uniform => "callees: anybody else, uniformly".to_owned(),
            Callees::Neighbours { size, share } => {
                format!("callees: {} in the caller's group of {size}, otherwise anybody", percent(share))
            }
            Callees::Zipf { exponent } => format!("callees: by popularity, Zipf with exponent {exponent}"),
        });
        lines.push(format!(
            "ramp {} s, warm-up {} s, measured {} s; cool-down {} s",
            self.ramp, self.warm_up, self.measure, self.cool_down
        ));
        lines.push(if self.compression == 1.0 {
            "time is not compressed".to_owned()
        } else {
            format!(
                "TIME COMPRESSED x{}: every time above is divided by {} except Expires and cool-down; \
                 protocol timers are not touched. The rates are those of {} users in life",
                self.compression,
                self.compression,
                self.users as f64 * self.compression
            )
        });
        lines
    }
}

fn within(name: &str, value: f64, low: f64, high: f64) -> Result<(), Impossible> {
    // Not a comparison with `contains`, which would let nothing but numbers through anyway; this reads NaN.
    if value >= low && value <= high {
        Ok(())
    } else {
        Err(Impossible::new(format!("{name}={value} must be from {low} to {high}")))
    }
}

fn check_law(name: &str, law: &Distribution) -> Result<(), Impossible> {
    let refuse = |message: String| Err(Impossible::new(format!("{name}={law}: {message}")));
    if let Err(why) = law.checked() {
        return refuse(why.to_string());
    }
    let mean = law.mean();
    if !mean.is_finite() {
        return refuse("this law has no mean, so no load could be stated; choose another".to_owned());
    }
    let zero = matches!(law, Distribution::Fixed { value: 0.0 });
    // Just below zero: a law that begins at zero is fine.
    let negative = law.cdf(-1e-9).unwrap_or(0.0);
    if !zero && (negative > 1e-3 || mean < 0.0) {
        return refuse(format!("{:.1} % of the times would be negative", negative * 100.0));
    }
    match name {
        "think" if mean <= 0.0 => refuse("a think time must be above 0".to_owned()),
        // What a call token can carry, with room for the tail.
        "ring" | "voicemail_ring" | "patience" if mean > 600e3 => {
            refuse("the mean must be at most 600 s; no SIP server lets a call ring longer".to_owned())
        }
        _ => Ok(()),
    }
}

/// The load that a population offers in a steady state, before the server's own delays.
///
/// Calls in progress are Little's law: rate times mean duration. As all rates it is a mean over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// Registrations a second (each two REGISTER requests if the server challenges).
    pub registrations: f64,
    /// Call attempts a second.
    pub calls: f64,
    /// Of those, answered.
    pub completed: f64,
    /// Of those, to voicemail.
    pub voicemail: f64,
    /// Of those, cancelled.
    pub cancelled: f64,
    /// Calls that ring, at any time.
    pub ringing: f64,
    /// Calls that are answered and not yet ended, at any time.
    pub talking: f64,
}

impl Expected {
    /// Calls in progress at any time, ringing or answered.
    pub fn in_progress(&self) -> f64 {
        self.ringing + self.talking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "{got} is not {want}");
    }

    #[test]
    fn the_defaults_are_possible_and_offer_what_the_paper_says() {
        let parameters = Parameters { users: 1_000_000, ..Parameters::default() };
        assert_eq!(parameters.check(), Ok(()));
        let expected = parameters.expected();
        near(expected.registrations, 1_666.666_666_7);
        // Think plus duration: 3600 + 0.65 (8.5 + 300) + 0.3 * 30 + 0.05 * 15.
        near(expected.calls, 1e6 / 3_810.275);
        near(expected.completed + expected.voicemail + expected.cancelled, expected.calls);
        near(expected.talking, expected.calls * (0.65 * 300.0 + 0.3 * 30.0));
        near(expected.in_progress(), expected.calls * 210.275);
    }

    #[test]
    fn compression_multiplies_rates_and_leaves_numbers_in_progress() {
        let slow = Parameters::default().expected();
        let fast = Parameters { compression: 60.0, ..Parameters::default() }.expected();
        near(fast.calls, 60.0 * slow.calls);
        near(fast.registrations, 60.0 * slow.registrations);
        near(fast.in_progress(), slow.in_progress());
        let text = Parameters { compression: 60.0, ..Parameters::default() }.describe().join("\n");
        assert!(text.contains("COMPRESSED x60") && text.contains("600000 users in life"), "{text}");
        assert!(Parameters::default().describe().join("\n").contains("not compressed"));
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_mend() {
        let refused = |change: fn(&mut Parameters)| {
            let mut parameters = Parameters::default();
            change(&mut parameters);
            parameters.check().expect_err("refused").to_string()
        };
        assert_eq!(refused(|p| p.users = 1), "users=1 must be at least 2: a caller and a callee");
        assert_eq!(refused(|p| p.compression = 0.5), "compression=0.5 must be from 1 to 10000");
        assert_eq!(refused(|p| p.measure = f64::NAN), "measure=NaN must be from 1 to 1036800");
        assert!(
            refused(|p| p.voicemail = 0.2).starts_with("completed, voicemail and cancelled must sum to 1")
        );
        assert!(refused(|p| p.expires = 600).contains("registrations would lapse"));
        assert!(refused(|p| p.measure = 1e6 + 30e3 + 6_000.0).contains("the longest is"));
        assert!(refused(|p| p.hold = Distribution::Pareto { k: 1.0, x_m: 5.0 }).contains("has no mean"));
        assert!(
            refused(|p| p.ring = Distribution::Normal { mean: 5.0, stdev: 10.0 })
                .contains("30.9 % of the times")
        );
        assert!(refused(|p| p.think = Distribution::fixed(0.0)).contains("think time must be above 0"));
        assert!(refused(|p| p.hold = Distribution::exponential(-1.0)).contains("must be greater than 0"));
        assert!(refused(|p| p.patience = Distribution::fixed(700e3)).contains("at most 600 s"));
        assert!(refused(|p| p.callees = Callees::Neighbours { size: 1, share: 0.5 }).contains("size=1"));
        assert!(refused(|p| p.callees = Callees::Zipf { exponent: -1.0 }).contains("exponent=-1"));
    }

    #[test]
    fn text_sets_every_parameter() {
        let mut parameters = Parameters::default();
        for (key, value) in [
            ("users", "250000"),
            ("compression", "60"),
            ("hold", "lognormal(mean_time=180s,sigma=1.2)"),
            ("voicemail_ring", "20s"),
            ("patience", "12000"),
            ("callees", "{\"zipf\":{\"exponent\":0.8}}"),
        ] {
            parameters.set(key, value).expect(key);
        }
        assert_eq!((parameters.users, parameters.compression), (250_000, 60.0));
        assert_eq!(parameters.hold, Distribution::log_normal_mean(180e3, 1.2));
        assert_eq!(parameters.voicemail_ring, Distribution::fixed(20e3));
        assert_eq!(parameters.patience, Distribution::fixed(12e3));
        assert_eq!(parameters.callees, Callees::Zipf { exponent: 0.8 });
        parameters.set("callees", "uniform").expect("uniform");
        assert_eq!(parameters.callees, Callees::Uniform);

        let refused = |key, value| Parameters::default().set(key, value).expect_err("refused").to_string();
        assert!(
            refused("user", "5").starts_with("there is no parameter \"user\"; there are callee_hangs_up")
        );
        assert!(refused("users", "many").contains("users=many"));
        assert!(refused("hold", "gauss(1)").contains("gauss"));
        assert!(refused("callees", "{\"zipf\":{\"exponent\":1,\"x\":2}}").contains("unknown field `x`"));
    }

    #[test]
    fn files_may_leave_out_fields_but_not_invent_some() {
        let read = serde_json::from_str::<Parameters>;
        let parameters = read("{\"users\": 5, \"think\": \"exponential(mean=10m)\"}").expect("read");
        assert_eq!(parameters.think, Distribution::exponential(600e3));
        assert!(read("{\"user\": 5}").expect_err("unknown").to_string().contains("unknown field `user`"));
        assert!(
            read("{\"think\": \"soon\"}").expect_err("no law").to_string().contains("is no number or time")
        );
        let written = serde_json::to_string(&parameters).expect("written");
        assert_eq!(read(&written).expect("read back"), parameters);
    }
}
