//! What the nodes have to do: calls and unfinished transactions that they were given.
//!
//! A worker publishes what it has given to a node in a row of its own, as plain stores of numbers it keeps
//! itself, so nobody else writes to its cache lines and nothing is ever added up by two. Whoever wants the
//! load of a node adds up the rows.

use crate::{Kind, NodeIndex};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What one worker has given to one node. Written by that worker alone.
#[derive(Debug, Default)]
struct Given {
    calls: AtomicU32,
    open: [AtomicU32; Kind::COUNT],
    /// Records of any kind that name it.
    held: AtomicU32,
}

/// One worker's row, apart from the rows of others by at least a pair of cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Row(Box<[Given]>);

/// What a node has to do, as far as the balancer knows: calls and unfinished transactions it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Calls.
    pub calls: u32,
    /// Unfinished transactions, by [`Kind`].
    pub open: [u32; Kind::COUNT],
}

impl Load {
    /// Unfinished transactions.
    pub fn transactions(&self) -> u32 {
        self.open.iter().sum()
    }

    /// Unfinished work in thousandths of a BYE, each transaction counted by its cost.
    #[inline]
    pub fn work(&self) -> u64 {
        self.open.iter().zip(Kind::ALL).map(|(n, kind)| u64::from(*n) * u64::from(kind.cost())).sum()
    }
}

/// The rows of all workers.
#[derive(Debug)]
pub(crate) struct Loads(Box<[Row]>);

impl Loads {
    /// Rows of all workers, each with places for `nodes`.
    pub fn new(workers: u16, nodes: usize) -> Loads {
        let row = |_| Row((0..nodes).map(|_| Given::default()).collect());
        Loads((0..workers.max(1)).map(row).collect())
    }

    fn given(&self, at: NodeIndex) -> impl Iterator<Item = &Given> {
        self.0.iter().filter_map(move |row| row.0.get(usize::from(at.0)))
    }

    fn own(&self, worker: u16, at: NodeIndex) -> Option<&Given> {
        self.0.get(usize::from(worker)).and_then(|row| row.0.get(usize::from(at.0)))
    }

    /// What a node has to do: the sum over all workers.
    pub fn of(&self, at: NodeIndex) -> Load {
        let mut sum = Load::default();
        for given in self.given(at) {
            sum.calls += given.calls.load(Relaxed);
            for (sum, open) in sum.open.iter_mut().zip(&given.open) {
                *sum += open.load(Relaxed);
            }
        }
        sum
    }

    /// Records of all workers that name a node, calls and transactions that are over included.
    pub fn held(&self, at: NodeIndex) -> u32 {
        self.given(at).map(|given| given.held.load(Relaxed)).sum()
    }

    /// Publishes how many records of `worker` name a node.
    pub fn publish_held(&self, worker: u16, at: NodeIndex, held: u32) {
        if let Some(given) = self.own(worker, at) {
            given.held.store(held, Relaxed);
        }
    }

    /// Publishes what `worker` has given to a node.
    pub fn publish(&self, worker: u16, at: NodeIndex, load: &Load) {
        let Some(given) = self.own(worker, at) else { return };
        given.calls.store(load.calls, Relaxed);
        for (open, value) in given.open.iter().zip(load.open) {
            open.store(value, Relaxed);
        }
    }
}
