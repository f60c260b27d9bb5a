//! A report as data. The field names are those of the JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::metrics::OPEN;

/// Version of the JSON. It grows when an old reader would misunderstand a new file; new fields alone do
/// not make it grow.
pub const VERSION: u32 = 1;
/// What marks the JSON as a report of ours.
pub const FORMAT: &str = "strowger-load-report";

/// Everything that is known of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Program and version that wrote it.
    pub program: String,
    /// For people: what was run against what.
    pub title: String,
    /// What kind of load ("population", "scenario uac", "self-test").
    pub workload: String,
    /// Wall clock at the start, RFC 3339.
    pub started: String,
    /// The same to the microsecond, seconds since 1970; 0 in reports of earlier versions. Of a search it is
    /// the start of the run that stands for the answer.
    pub began: f64,
    /// The command line, which with the seed reproduces the schedule.
    pub command: Vec<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// How many times faster than real time users live; 1 is real time.
    pub compression: f64,
    /// Phases of the run.
    pub windows: Windows,
    /// Every parameter, defaults included.
    pub parameters: Vec<Fact>,
    /// The generator's machine.
    pub machine: Vec<Fact>,
    /// What is known of the server: its machine, processor time, memory, sockets.
    pub server: Vec<Fact>,
    /// Processor time of the server in the measured window, percent of one core; nothing if it is not known.
    pub server_cpu_percent: Option<f64>,
    /// Memory of the server at the end of the run, MiB; nothing if it is not known.
    pub server_memory_mib: Option<f64>,
    /// The result.
    pub verdict: VerdictReport,
    /// What is worth saying about how to read it.
    pub notes: Vec<String>,
    /// Every figure with its definition.
    pub metrics: Vec<MetricRow>,
    /// Distributions of latencies, in order.
    pub latencies: Vec<Latency>,
    /// How late scheduled sends were.
    pub lateness: Distribution,
    /// Messages due when a worker woke (not microseconds).
    pub queue: Distribution,
    /// Counters of the measured window.
    pub measured: BTreeMap<String, u64>,
    /// Counters of the whole run.
    pub whole: BTreeMap<String, u64>,
    /// The run over time.
    pub series: SeriesReport,
    /// The first call flows that failed.
    pub ladders: Vec<LadderReport>,
    /// Runs of a search for the largest load, in order; empty for a single run.
    pub trials: Vec<Trial>,
    /// What that search found.
    pub peak: Option<super::searched::Searched>,
}

/// One named value.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Fact {
    /// Name.
    pub name: String,
    /// Value with its unit.
    pub value: String,
}

impl Fact {
    /// From anything that can be shown.
    pub fn new(name: impl Into<String>, value: impl fmt::Display) -> Fact {
        Fact { name: name.into(), value: value.to_string() }
    }
}

/// Lengths of the phases in seconds of the wall clock, in the order in which they come.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Windows {
    /// The load grows to its level.
    pub ramp: f64,
    /// The load is at its level and not measured yet.
    pub warm_up: f64,
    /// What the figures are about.
    pub measured: f64,
    /// Calls may end; no figure counts what begins here.
    pub cool_down: f64,
}

impl Windows {
    /// Seconds from the start of the run to the measured window.
    pub fn before(&self) -> f64 {
        self.ramp + self.warm_up
    }
}

/// The result.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VerdictReport {
    /// PASS, FAIL, VOID or STOPPED.
    pub word: String,
    /// Exit status of the command: 0, 1, 3 or 4.
    pub exit_code: u8,
    /// Each reason.
    pub why: Vec<String>,
    /// Each thing looked at.
    pub checks: Vec<CheckReport>,
}

impl VerdictReport {
    /// Whether the run is VOID for nothing but what waited for the server when it ended. To a search it did
    /// not conform: that is no limit of the generator's.
    pub fn is_open(&self) -> bool {
        let broken = || self.checks.iter().filter(|check| !check.kept);
        self.word == "VOID" && !broken().any(|c| c.of_generator) && broken().any(|c| c.name == OPEN)
    }

    /// Whether the run says something of the server: it is neither VOID nor STOPPED.
    pub fn is_statement(&self) -> bool {
        !matches!(self.word.as_str(), "VOID" | "STOPPED")
    }

    /// Limits that the server also exceeded in a run without a verdict about it. The user may have to repair
    /// these first.
    pub fn unjudged(&self) -> impl Iterator<Item = String> {
        let broken = self.checks.iter().filter(|c| !c.kept && !c.of_generator && c.name != OPEN);
        let told = broken.filter(|_| !self.is_statement());
        told.map(|c| format!("not judged: {}: {}, limit {}", c.name, c.found, c.limit))
    }
}

/// One line of the judgement.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// What was looked at.
    pub name: String,
    /// What was found.
    pub found: String,
    /// What the rule asks.
    pub limit: String,
    /// Was it kept?
    pub kept: bool,
    /// About the generator (a breach is VOID) or about the server (FAIL)?
    pub of_generator: bool,
}

/// Which direction is an improvement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither.
    #[default]
    Neither,
}

/// One figure.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricRow {
    /// Short and stable, for programs.
    pub key: String,
    /// For people.
    pub name: String,
    /// The figure; nothing if it is undefined (a ratio of nothing).
    pub value: Option<f64>,
    /// "%", "ms", "s", "1/s" or nothing for a count.
    pub unit: String,
    /// What it is.
    pub definition: String,
    /// Who defines it.
    pub source: String,
    /// Which direction is an improvement.
    pub better: Better,
}

/// A distribution; microseconds unless its owner says otherwise.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Smallest.
    pub min: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation.
    pub deviation: f64,
    /// Sum of the squares.
    pub sum_of_squares: f64,
    /// Percentiles: of 1,000 values the 990th is `p99`.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile.
    pub p9999: u64,
    /// Largest.
    pub max: u64,
    /// (upper end, count) of buckets, ascending; at most 2 % wide.
    pub buckets: Vec<(u64, u64)>,
}

/// One latency.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Short and stable.
    pub key: String,
    /// What it is.
    pub text: String,
    /// A duration that no server should make short.
    pub duration: bool,
    /// From the intended start; empty for durations.
    pub intended: Distribution,
    /// From the actual start.
    pub sent: Distribution,
}

impl Latency {
    /// What is to be shown first: from the intended start, or the duration.
    pub fn main(&self) -> &Distribution {
        if self.duration { &self.sent } else { &self.intended }
    }
}

/// The run over time, in columns of equal length.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SeriesReport {
    /// Length of an interval, seconds.
    pub interval: f64,
    /// Start of each interval, seconds since the start of the run.
    pub time: Vec<f64>,
    /// What happened in them.
    pub columns: Vec<Column>,
}

impl SeriesReport {
    /// The values of a column; none if there is no such column.
    pub fn column(&self, key: &str) -> &[Option<f64>] {
        self.columns.iter().find(|c| c.key == key).map_or(&[], |c| &c.values)
    }
}

/// One column of a time series.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Column {
    /// Short and stable.
    pub key: String,
    /// "1/s", "ms", "%" or nothing for a count.
    pub unit: String,
    /// One value for each interval; nothing where there is none (a percentile of no call).
    pub values: Vec<Option<f64>>,
}

/// A failed call flow.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LadderReport {
    /// Its Call-ID.
    pub call_id: String,
    /// What went wrong.
    pub why: String,
    /// When, seconds since the start of the run.
    pub at: f64,
    /// Earlier messages may be missing.
    pub incomplete: bool,
    /// The drawing in plain text.
    pub drawing: String,
    /// The messages.
    pub messages: Vec<Message>,
}

/// One message of a flow.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Message {
    /// Seconds since the start of the run.
    pub at: f64,
    /// Did we send it?
    pub sent: bool,
    /// Our address.
    pub local: String,
    /// The other's.
    pub remote: String,
    /// Start line.
    pub label: String,
    /// The message; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// Its length on the wire, bytes.
    pub length: usize,
}

/// One run of a search.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Trial {
    /// The load: users or calls per second, as `unit` says.
    pub load: f64,
    /// "users", "calls/s".
    pub unit: String,
    /// PASS, FAIL or VOID.
    pub verdict: String,
    /// The first reason.
    pub why: String,
    /// Successful calls, percent.
    pub success_percent: Option<f64>,
    /// 99th percentile of the response time, ms.
    pub p99_ms: Option<f64>,
    /// Processor time of the server, percent of one core.
    pub server_cpu_percent: Option<f64>,
    /// Memory of the server, MiB.
    pub server_memory_mib: Option<f64>,
    /// How late the generator was, 99.9th percentile, ms.
    pub lateness_p999_ms: Option<f64>,
    /// Processor time of the generator's busiest worker, percent of one core.
    pub generator_cpu_percent: Option<f64>,
}

/// A line over several reports, for comparisons.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Curve {
    /// Whose.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Why a file is not a report that can be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// Not JSON, or not of this shape.
    Json(String),
    /// JSON of something else.
    NotAReport,
    /// Of a version that this program does not know.
    Version(u32),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Json(e) => write!(f, "not a report: {e}; name a file that --json has written"),
            ReadError::NotAReport => {
                write!(
                    f,
                    "not a report: no \"format\": \"{FORMAT}\" in it; name a file that --json has written"
                )
            }
            ReadError::Version(v) => {
                write!(
                    f,
                    "a report of version {v}; this program reads version {VERSION}: use the one that wrote it"
                )
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl Report {
    /// Reads what [`Report::to_json`] wrote.
    pub fn from_json(text: &str) -> Result<Report, ReadError> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default)]
            format: String,
            #[serde(default)]
            version: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(|e| ReadError::Json(e.to_string()))?;
        if head.format != FORMAT {
            return Err(ReadError::NotAReport);
        }
        if head.version != VERSION {
            return Err(ReadError::Version(head.version));
        }
        serde_json::from_str(text).map_err(|e| ReadError::Json(e.to_string()))
    }

    /// As JSON, one line for each field of the outermost object would be unreadable too: compact.
    pub fn to_json(&self) -> String {
        // A tree of numbers, strings and vectors always has a JSON form (numbers are finite by making).
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A figure by its key.
    pub fn metric(&self, key: &str) -> Option<f64> {
        self.metrics.iter().find(|m| m.key == key).and_then(|m| m.value)
    }

    /// A latency by its key.
    pub fn latency(&self, key: &str) -> Option<&Latency> {
        self.latencies.iter().find(|l| l.key == key)
    }
}
