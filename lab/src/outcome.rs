//! What an experiment found: what `strowger lab run --output json` prints and the report shows.

use serde::{Deserialize, Serialize};

use load::report::Fact;

use crate::times::Times;

/// Version of the JSON. It grows when an old reader would misunderstand a new file.
pub const VERSION: u32 = 1;

/// The result of an experiment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// [`VERSION`].
    pub version: u32,
    /// The digest of what was measured.
    pub experiment: String,
    /// The question in words.
    pub question: String,
    /// PASS, FAIL, NO DIFFERENCE SHOWN or VOID; MEASURED where the experiment claims nothing; STOPPED before
    /// its end.
    pub verdict: String,
    /// Why, in a sentence.
    pub reason: String,
    /// Each claim, at each combination of factors that it is about.
    pub claims: Vec<ClaimOutcome>,
    /// What each system shows against itself.
    pub controls: Vec<Control>,
    /// Every figure of every system at every combination.
    pub figures: Vec<Figure>,
    /// Statistics of the times of every system at every combination, the runs that count merged.
    pub times: Vec<Times>,
    /// The paper whose figures stand beside ours.
    #[serde(flatten)]
    pub beside: Beside,
    /// Every run, in the order in which they were made.
    pub runs: Vec<RunLine>,
    /// How many runs were planned.
    pub planned: usize,
    /// The looks at which it was judged, those of shorter plans first.
    pub looks: Vec<LookMade>,
    /// What is worth knowing beside the verdict.
    pub notes: Vec<String>,
    /// The machine.
    pub machine: Vec<Fact>,
}

/// A paper whose figures stand beside ours. In JSON its keys are beside those of the outcome.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Beside {
    /// The paper; empty if there is none.
    pub paper: String,
    /// Each figure of the paper, at each combination of factors that it is about.
    pub references: Vec<ReferenceOutcome>,
}

/// A moment at which an experiment was judged. To extend it afterwards is a further look.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LookMade {
    /// After this number of blocks.
    pub blocks: usize,
    /// With intervals of this confidence, before it is shared out among the claims.
    pub confidence: f64,
    /// Of a plan of this number of blocks.
    pub planned: usize,
}

/// A claim at one combination of factors.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimOutcome {
    /// The claim as a sentence.
    pub claim: String,
    /// The factors and their values; empty without factors.
    pub factors: Vec<Fact>,
    /// PASS, FAIL, NO DIFFERENCE SHOWN or VOID.
    pub verdict: String,
    /// Why, in a sentence.
    pub reason: String,
    /// What was measured: a value in `unit`, or a factor.
    pub measured: Option<f64>,
    /// Where it lies.
    pub interval: Option<(f64, f64)>,
    /// The limit: a value in `unit`, or a factor.
    pub limit: f64,
    /// The unit; "x" of a factor, empty of a count.
    pub unit: String,
    /// The least difference that the experiment may claim, percent; nothing if the claim does not compare.
    pub floor_percent: Option<f64>,
    /// Blocks that count.
    pub blocks: usize,
    /// About how many more may decide.
    pub more: Option<usize>,
}

/// The A/A control: a system measured twice in each block.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Control {
    /// The system.
    pub system: String,
    /// The figure, as "p99 of setup".
    pub quantity: String,
    /// The factors and their values.
    pub factors: Vec<Fact>,
    /// The second copy against the first: a factor, about 1.
    pub ratio: Option<f64>,
    /// Where it lies.
    pub interval: Option<(f64, f64)>,
    /// The least difference that may be claimed, percent; nothing if there are too few blocks.
    pub floor_percent: Option<f64>,
    /// How much the runs of a system differ within a block: their relative standard deviation, percent.
    pub spread_percent: Option<f64>,
}

/// A figure of a system: one value for each block.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Figure {
    /// The system, with ".again" for the second copy of the A/A control.
    pub subject: String,
    /// The figure, as "p99 of setup".
    pub quantity: String,
    /// Its unit; empty of a count.
    pub unit: String,
    /// The factors and their values.
    pub factors: Vec<Fact>,
    /// The value of each block, in order; nothing where the run is void, missing, or has no such figure.
    pub values: Vec<Option<f64>>,
    /// The median.
    pub median: Option<f64>,
    /// Its interval; nothing if there are too few values.
    pub interval: Option<(f64, f64)>,
    /// A percentile of the values of all runs together, from their merged histograms; nothing of other
    /// figures.
    pub pooled: Option<f64>,
    /// Its interval; nothing if there are too few runs.
    pub pooled_interval: Option<(f64, f64)>,
}

/// A figure of a paper beside ours.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReferenceOutcome {
    /// Where it stands in the paper.
    pub source: String,
    /// Our figure, as "mean of setup of A"; empty if there is no counterpart.
    pub what: String,
    /// The system of our figure.
    pub subject: String,
    /// Our figure without its system; empty if two systems are divided.
    pub quantity: String,
    /// The factor over which the paper has several values; empty of a single value.
    pub over: String,
    /// The factors and their values.
    pub factors: Vec<Fact>,
    /// What the paper has, in `unit`.
    pub paper: Option<f64>,
    /// What the paper has, as written, where there is no counterpart.
    pub said: String,
    /// The unit; "x" of a factor, empty of a count.
    pub unit: String,
    /// What was measured; nothing where the experiment has no such runs.
    pub measured: Option<f64>,
    /// Where it lies.
    pub interval: Option<(f64, f64)>,
    /// Ours divided by the paper's.
    pub ratio: Option<f64>,
    /// Why ours differs, or why there is no counterpart.
    pub note: String,
}

/// A run in the list of all.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLine {
    /// Its name.
    pub id: String,
    /// Its block, from 1.
    pub block: u32,
    /// The system, with ".again" for the second copy of the A/A control.
    pub subject: String,
    /// The factors and their values.
    pub factors: Vec<Fact>,
    /// The file with everything that is known of it, relative to the folder of the experiment.
    pub archive: String,
    /// Why it says nothing; empty if it counts.
    pub void: Vec<String>,
    /// What is worth knowing.
    pub notes: Vec<String>,
    /// Whether the warm-up ended because everything was steady; nothing if it had a fixed length.
    pub steady: Option<bool>,
}

impl Outcome {
    /// The exit status of `lab run`: 0 for PASS and MEASURED, 1 for FAIL, 3 for VOID and STOPPED, 4 for NO
    /// DIFFERENCE SHOWN.
    pub fn exit_status(&self) -> u8 {
        match self.verdict.as_str() {
            "PASS" | "MEASURED" => 0,
            "FAIL" => 1,
            "NO DIFFERENCE SHOWN" => 4,
            _ => 3,
        }
    }

    /// As JSON, for people too.
    pub fn to_json(&self) -> String {
        // Numbers, strings and vectors always have a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads what [`Outcome::to_json`] wrote.
    ///
    /// # Errors
    /// If it is no such JSON, or of a later version.
    pub fn from_json(text: &str) -> Result<Outcome, String> {
        let outcome: Outcome = serde_json::from_str(text)
            .map_err(|error| format!("not the result of an experiment: {error}"))?;
        if outcome.version != VERSION {
            return Err(format!(
                "the result of an experiment in version {}; this program reads version {VERSION}: use the one that wrote it",
                outcome.version
            ));
        }
        Ok(outcome)
    }
}
