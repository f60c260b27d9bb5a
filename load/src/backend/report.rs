//! What back ends say of themselves.

use crate::metrics::Hist;
use serde::{Deserialize, Serialize};

/// What one back end has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeReport {
    /// Where it listens.
    pub address: String,
    /// Calls a second that it can do.
    pub capacity: f64,
    /// INVITEs worked on to their end.
    pub invites: u64,
    /// BYEs.
    pub byes: u64,
    /// Other requests, OPTIONS among them.
    pub others: u64,
    /// INVITEs that were cancelled before that.
    pub cancelled: u64,
    /// Requests that came again.
    pub repeated: u64,
    /// Requests refused with 503: there was no room.
    pub refused: u64,
    /// Requests lost: there was no room while it stood still, or it stood still and they were CANCELs.
    pub lost: u64,
    /// Requests of dialogs, and CANCELs, of which it knew nothing: 481.
    pub unknown: u64,
    /// INVITEs that had come another way as well: 482.
    pub merged: u64,
    /// Requests refused with 503 because the program remembers as many as it may.
    pub full: u64,
    /// Mean time from arrival to end by the model, seconds: of INVITEs, and of all others.
    pub invite_seconds: f64,
    /// See [`NodeReport::invite_seconds`].
    pub other_seconds: f64,
    /// Requests that were there at most at a time.
    pub most: u64,
    /// Seconds in which there was something to do by the model.
    pub busy_seconds: f64,
    /// How many requests were there when another one came: entry n is of those that found n. The last entry
    /// that there may be, [`MOST_FOUND`], is of those that found as many or more.
    pub found: Vec<Found>,
}

/// The last entry of [`NodeReport::found`].
pub const MOST_FOUND: usize = 1_000;

/// Requests that found the same number of others at a back end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// How many there were, worked on to their end.
    pub requests: u64,
    /// The sum of their times from arrival to end by the model, seconds.
    pub seconds: f64,
}

impl NodeReport {
    /// Counts a request that found `others`, and took `seconds`.
    pub(super) fn count_found(&mut self, others: u32, seconds: f64) {
        let at = usize::try_from(others).unwrap_or(MOST_FOUND).min(MOST_FOUND);
        if self.found.len() <= at {
            self.found.resize(at + 1, Found::default());
        }
        if let Some(found) = self.found.get_mut(at) {
            found.requests += 1;
            found.seconds += seconds;
        }
    }
}

/// What all back ends of a program have done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendReport {
    /// Each of them.
    pub nodes: Vec<NodeReport>,
    /// Seconds since their start.
    pub seconds: f64,
    /// Dialogs that are up.
    pub dialogs: u64,
    /// Dialogs forgotten, for nobody ended them within an hour or two.
    pub forgotten: u64,
    /// Messages that were no SIP, or no requests.
    pub garbage: u64,
    /// Datagrams and connections that the kernel, or this program, had no room for.
    pub drops: u64,
    /// Who stopped them, and when; empty where `--timeout` was over.
    pub stopped: String,
    /// Whether that was before the end that they were to have.
    pub unfinished: bool,
    /// Why the figures say nothing of what was measured; empty where they do.
    pub void: Vec<String>,
    /// How much later than the model says responses left, microseconds: a machine that is busy otherwise. The
    /// median.
    pub late_p50: u64,
    /// The 99th percentile of it.
    pub late_p99: u64,
    /// The 99.9th.
    pub late_p999: u64,
    /// The largest.
    pub late_max: u64,
}

impl BackendReport {
    /// Takes over how late responses were.
    pub fn late(&mut self, hist: &Hist) {
        self.late_p50 = hist.percentile(50.0);
        self.late_p99 = hist.percentile(99.0);
        self.late_p999 = hist.percentile(99.9);
        self.late_max = hist.max();
    }

    /// Whether this program did what was asked of it: it lost nothing, and its responses were no later than
    /// so many microseconds (p99.9).
    pub fn judge(&mut self, max_late: u64) {
        self.void.clear();
        if self.drops > 0 {
            self.void.push(format!(
                "datagrams or connections that there was no room for: {}, limit 0",
                self.drops
            ));
        }
        let full: u64 = self.nodes.iter().map(|node| node.full).sum();
        if full > 0 {
            self.void.push(format!("requests refused because no more can be remembered: {full}, limit 0"));
        }
        if self.late_p999 > max_late {
            let ms = |micros: u64| micros as f64 / 1_000.0;
            let (late, max) = (ms(self.late_p999), ms(max_late));
            self.void.push(format!("responses later than modelled, p99.9: {late:.3} ms, limit {max:.3} ms"));
        }
    }

    /// As text for people.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{:<22} {:>8} {:>9} {:>9} {:>7} {:>9} {:>8} {:>8} {:>7} {:>7} {:>10} {:>9} {:>6} {:>6}\n",
            "back end",
            "calls/s",
            "INVITE",
            "BYE",
            "other",
            "cancelled",
            "repeated",
            "refused",
            "unknown",
            "lost",
            "INVITE ms",
            "other ms",
            "most",
            "busy"
        );
        for node in &self.nodes {
            out += &format!(
                "{:<22} {:>8} {:>9} {:>9} {:>7} {:>9} {:>8} {:>8} {:>7} {:>7} {:>10.2} {:>9.2} {:>6} {:>5.0}%\n",
                node.address,
                node.capacity,
                node.invites,
                node.byes,
                node.others,
                node.cancelled,
                node.repeated,
                node.refused,
                node.unknown,
                node.lost,
                node.invite_seconds * 1_000.0,
                node.other_seconds * 1_000.0,
                node.most,
                node.busy_seconds / self.seconds.max(f64::MIN_POSITIVE) * 100.0
            );
        }
        let ms = |micros: u64| micros as f64 / 1_000.0;
        out += &format!(
            "responses left later than modelled, ms: p50 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.3}\n",
            ms(self.late_p50),
            ms(self.late_p99),
            ms(self.late_p999),
            ms(self.late_max)
        );
        let sum = |of: fn(&NodeReport) -> u64| self.nodes.iter().map(of).sum();
        for (what, count) in [
            ("dialogs up", self.dialogs),
            ("dialogs forgotten, for nobody ended them", self.forgotten),
            ("messages that were no requests", self.garbage),
            ("INVITEs that came two ways (482)", sum(|node| node.merged)),
        ] {
            if count > 0 {
                out += &format!("{what}: {count}\n");
            }
        }
        match (self.unfinished, self.stopped.as_str()) {
            (true, stopped) => out += &format!("STOPPED\n  {stopped}\n"),
            (false, "") => {}
            (false, stopped) => out += &format!("{stopped}\n"),
        }
        if !self.void.is_empty() && !self.unfinished {
            out += "VOID\n";
        }
        for why in &self.void {
            out += &format!("  {why}\n");
        }
        out
    }
}
