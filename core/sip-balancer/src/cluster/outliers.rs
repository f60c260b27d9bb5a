//! Nodes that answer, and far worse than the others: they get no new calls for a while.
//!
//! Each worker looks at what it has seen in ten seconds: how many requests were refused with 5xx or never
//! answered, and how long the first answer took that shows work (of an INVITE any but 100, of others the
//! final one). A node is judged by the median of the others, so that what is wrong with all of them, or with
//! what they all depend on, takes out nobody. Never more than a part of them is out.

use crate::{Cluster, NodeIndex, Order, Rules, Why};
use core::time::Duration;
use wire::Time;

/// How long is looked at before it is judged.
const WINDOW: Duration = Duration::from_secs(10);
/// Answers in that time without which nothing is said of a node.
const ENOUGH: u32 = 20;
/// Nodes without which there is no median to speak of.
const QUORUM: usize = 3;
/// Too many errors: a fifth of all, and a tenth more than three times the others' (thousandths).
const ERRORS: u64 = 200;
/// Too slow: a tenth of a second, and five times the others (microseconds).
const SLOW: u64 = 100_000;

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    answers: u32,
    errors: u32,
    micros: u64,
}

impl Sample {
    /// Errors in thousandths of the answers.
    fn errors(&self) -> u64 {
        u64::from(self.errors) * 1_000 / u64::from(self.answers.max(1))
    }

    fn mean(&self) -> u64 {
        self.micros / u64::from(self.answers.max(1))
    }
}

/// What one worker has seen.
#[derive(Debug, Default)]
pub(crate) struct Outliers {
    samples: Vec<Sample>,
    next: Time,
}

impl Outliers {
    fn sample(&mut self, node: NodeIndex) -> &mut Sample {
        let at = usize::from(node.0);
        if self.samples.len() <= at {
            self.samples.resize(at + 1, Sample::default());
        }
        &mut self.samples[at]
    }

    /// A node has answered after `micros`, microseconds.
    pub fn answered(&mut self, node: NodeIndex, micros: u32) {
        let sample = self.sample(node);
        sample.answers += 1;
        sample.micros += u64::from(micros);
    }

    /// A node has refused with 5xx, or not answered at all (`alone`: that is all there is of the request).
    pub fn failed(&mut self, node: NodeIndex, alone: bool) {
        let sample = self.sample(node);
        sample.answers += u32::from(alone);
        sample.errors += 1;
    }

    /// Judges, if it is time.
    pub fn judge(&mut self, now: Time, cluster: &Cluster, rules: &Rules) {
        if now < self.next {
            return;
        }
        let first = self.next == Time::ZERO;
        self.next = now + WINDOW;
        let mut samples = core::mem::take(&mut self.samples);
        if !first && rules.outlier_share > 0 {
            judge(now, cluster, rules, &samples);
        }
        samples.clear();
        self.samples = samples;
    }
}

fn judge(now: Time, cluster: &Cluster, rules: &Rules, samples: &[Sample]) {
    let known = samples.iter().enumerate().filter(|(_, s)| s.answers >= ENOUGH);
    let known: Vec<(NodeIndex, Sample)> = known.map(|(at, s)| (NodeIndex(at as u16), *s)).collect();
    if known.len() < QUORUM {
        return;
    }
    let serving = cluster.indexes().filter(|at| cluster.order(*at) == Order::Serve);
    let out =
        cluster.indexes().filter(|at| cluster.rest_of(*at).is_some_and(|rest| rest.is_ejected(now))).count();
    let serving = serving.count();
    // One of a few may go, too: else the share would have to be known that lets it.
    let most = (serving * usize::from(rules.outlier_share) / 100).max(usize::from(serving >= QUORUM));
    let mut left = most.saturating_sub(out);
    let others = |of: NodeIndex, value: fn(&Sample) -> u64| {
        let mut values: Vec<u64> = known.iter().filter(|(at, _)| *at != of).map(|(_, s)| value(s)).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    // The worst first.
    let badness = |at: NodeIndex, s: &Sample| {
        let (errors, slow) = (others(at, Sample::errors) * 3 + 100, others(at, Sample::mean) * 5);
        let errors = if s.errors() >= errors.max(ERRORS) { s.errors() * 1_000 / errors } else { 0 };
        let slow = if s.mean() >= slow.max(SLOW) { s.mean() * 1_000 / slow.max(1) } else { 0 };
        errors.max(slow)
    };
    let mut bad: Vec<(u64, NodeIndex)> = known.iter().map(|(at, s)| (badness(*at, s), *at)).collect();
    bad.retain(|(badness, at)| *badness > 0 && cluster.takes_calls(now, *at));
    bad.sort_unstable_by(|a, b| b.cmp(a));
    for (_, at) in bad {
        let alone = !cluster.indexes().any(|other| other != at && cluster.takes_calls(now, other));
        if left == 0 || alone {
            return;
        }
        cluster.rest(now, at, rules.outlier_rest, Why::Outlier);
        left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::of;

    fn rules(share: u8) -> Rules {
        Rules { outlier_share: share, ..Rules::default() }
    }

    /// Ten seconds in which each node gave a number of answers, after a number of milliseconds, some of them
    /// errors.
    fn window(cluster: &Cluster, share: u8, nodes: &[(u32, u32, u32)]) -> Vec<u16> {
        let mut outliers = Outliers::default();
        outliers.judge(Time::from_secs(100), cluster, &rules(share));
        for (at, (answers, millis, errors)) in nodes.iter().enumerate() {
            let node = NodeIndex(at as u16);
            (0..*answers).for_each(|_| outliers.answered(node, millis * 1_000));
            (0..*errors).for_each(|_| outliers.failed(node, false));
        }
        let now = Time::from_secs(110);
        outliers.judge(now, cluster, &rules(share));
        cluster
            .indexes()
            .filter(|at| cluster.rest_of(*at).is_some_and(|rest| rest.is_ejected(now)))
            .map(|at| at.0)
            .collect()
    }

    #[test]
    fn the_one_that_is_far_from_the_others_goes() {
        let quick = (50, 5, 1);
        assert_eq!(window(&of(4), 30, &[quick, (50, 5, 30), quick, quick]), [1]);
        assert_eq!(window(&of(4), 30, &[quick, quick, (50, 600, 0), quick]), [2]);
        // Slow as they are, these are all alike; and a little worse is no outlier.
        assert!(window(&of(4), 30, &[(50, 600, 40), (50, 700, 45), (50, 650, 40), (50, 900, 45)]).is_empty());
        assert!(window(&of(4), 30, &[quick, (50, 20, 9), quick, quick]).is_empty());
    }

    #[test]
    fn never_more_than_their_part_and_only_where_enough_is_known() {
        let (quick, bad, worse) = ((50, 5, 0), (50, 5, 25), (50, 5, 45));
        let nodes = [quick, bad, quick, worse, quick, quick];
        assert_eq!(window(&of(6), 20, &nodes), [3], "the worst of them");
        assert_eq!(window(&of(6), 40, &nodes), [1, 3]);
        assert!(window(&of(6), 0, &nodes).is_empty());
        assert_eq!(window(&of(6), 10, &nodes), [3], "one of three and more, whatever their part");
        assert!(window(&of(2), 100, &[quick, worse]).is_empty(), "no median of others");
        assert!(window(&of(4), 50, &[quick, (19, 5, 19), quick, quick]).is_empty(), "too few answers");
    }

    #[test]
    fn it_comes_back_after_its_rest() {
        let cluster = of(4);
        let quick = (50, 5, 0);
        assert_eq!(window(&cluster, 30, &[quick, (50, 5, 45), quick, quick]), [1]);
        let (now, rest) = (Time::from_secs(110), rules(30).outlier_rest);
        assert_eq!(cluster.reason(now, NodeIndex(1)), Why::Outlier);
        assert!(!cluster.takes_calls(now, NodeIndex(1)) && cluster.is_usable(now, NodeIndex(1)));
        assert!(cluster.takes_calls(now + rest, NodeIndex(1)));
    }
}
