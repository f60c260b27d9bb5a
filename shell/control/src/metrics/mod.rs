//! Numbers about the running server. What a node counts, its names and their meaning are declared in
//! [`sip_node::FAMILIES`].
//!
//! Each worker owns a [`Recorder`] and is the only writer of its block of counters, so that counting
//! is a plain load and store on a cache line nobody else writes: no read-modify-write, no lock, no
//! line bouncing between cores. Readers sum the blocks when asked. A sum taken while workers count
//! is a little old, never wrong: each counter only grows, and what histograms report as their count
//! is the sum of the very buckets they report.
//!
//! The text writer is our own. The client libraries for Prometheus keep shared atomics behind their
//! counters, which is the thing to avoid here, and what remains of them, putting
//! `name{label="value"} number` on lines, is [`Text`] below.

mod histogram;
#[cfg(test)]
mod tests;
mod text;

pub use histogram::Distribution;
pub use text::{Kind, Text};

use histogram::Buckets;
use sip_node::{Counter, FAMILIES, Span};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Named methods that requests can be counted by; others are counted together.
const METHODS: usize = 31;

/// What one writer counts. The alignment keeps two writers off each other's cache lines, and off
/// the pairs of lines that processors fetch together.
#[repr(align(128))]
struct Block {
    counters: [AtomicU64; Counter::COUNT],
    methods: [AtomicU64; METHODS + 1],
    histograms: [Buckets; Span::ALL.len()],
    taken: AtomicBool,
}

impl Block {
    fn new() -> Block {
        Block {
            counters: [const { AtomicU64::new(0) }; Counter::COUNT],
            methods: [const { AtomicU64::new(0) }; METHODS + 1],
            histograms: [const { Buckets::new() }; Span::ALL.len()],
            taken: AtomicBool::new(false),
        }
    }
}

/// All blocks. Shared by everyone who reads.
pub struct Registry {
    blocks: Box<[Block]>,
    methods: &'static [&'static str],
}

impl Registry {
    /// Blocks for `writers` threads. `methods` are the values of the `method` label, in the order of
    /// the indexes given to [`Recorder::count_method`]; at most 31 are used.
    pub fn new(writers: usize, methods: &'static [&'static str]) -> Arc<Registry> {
        let blocks = (0..writers).map(|_| Block::new()).collect();
        let methods = methods.get(..METHODS).unwrap_or(methods);
        Arc::new(Registry { blocks, methods })
    }

    /// The right to write block `index`; `None` if there is no such block or it is taken.
    pub fn recorder(self: &Arc<Registry>, index: usize) -> Option<Recorder> {
        let block = self.blocks.get(index)?;
        if block.taken.swap(true, Acquire) {
            return None;
        }
        Some(Recorder { registry: Arc::clone(self), index, one_thread: PhantomData })
    }

    fn sum(&self, pick: impl Fn(&Block) -> &AtomicU64) -> u64 {
        self.blocks.iter().fold(0, |sum: u64, block| sum.wrapping_add(pick(block).load(Relaxed)))
    }

    /// A counter over all writers.
    pub fn total(&self, counter: Counter) -> u64 {
        self.sum(|block| &block.counters[counter as usize])
    }

    /// A histogram over all writers.
    pub fn histogram(&self, span: Span) -> Distribution {
        let mut all = Distribution::default();
        for block in &self.blocks {
            block.histograms[span as usize].add_to(&mut all);
        }
        all
    }

    /// Appends everything in Prometheus text format.
    pub fn render(&self, out: &mut String) {
        let mut text = Text::new(out);
        for family in FAMILIES {
            text.family(family.name, family.help, Kind::Counter);
            for (value, counters) in family.members {
                let labels = [(family.label, *value)];
                let labels = if family.label.is_empty() { &[][..] } else { &labels };
                text.sample(family.name, labels, counters.iter().map(|c| self.total(*c)).sum::<u64>());
            }
        }
        self.render_methods(&mut text);
        for (span, name, help) in Span::ALL {
            text.family(name, help, Kind::Histogram);
            text.histogram(name, &[], &self.histogram(span));
        }
    }

    fn render_methods(&self, text: &mut Text<'_>) {
        const NAME: &str = "strowger_requests_received_total";
        text.family(
            NAME,
            "Requests received, by method; unknown methods as `other`. Retransmissions count.",
            Kind::Counter,
        );
        for (index, method) in self.methods.iter().enumerate() {
            text.sample(NAME, &[("method", method)], self.sum(|block| &block.methods[index.min(METHODS)]));
        }
        text.sample(NAME, &[("method", "other")], self.sum(|block| &block.methods[METHODS]));
    }
}

/// The writing end of one block. It can move to the thread that will use it, and then stays there:
/// it is not `Sync` and not `Clone`, so there is one writer, which is what makes a plain load and
/// store enough.
pub struct Recorder {
    registry: Arc<Registry>,
    index: usize,
    one_thread: PhantomData<Cell<()>>,
}

impl Recorder {
    fn block(&self) -> &Block {
        // Checked when the recorder was made; blocks are never removed.
        &self.registry.blocks[self.index]
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: Counter, more: u64) {
        bump(&self.block().counters[counter as usize], more);
    }

    /// Counts a request of method number `method`; a number beyond the list counts as other.
    #[inline]
    pub fn count_method(&self, method: usize) {
        let known = if method < self.registry.methods.len() { method } else { METHODS };
        bump(&self.block().methods[known], 1);
    }

    /// Notes that something took `micros`, microseconds.
    #[inline]
    pub fn observe(&self, span: Span, micros: u64) {
        self.block().histograms[span as usize].observe(micros);
    }
}

impl Drop for Recorder {
    /// What was counted stays; the block can be taken again, by a worker that was restarted.
    fn drop(&mut self) {
        let block = self.block();
        block.taken.store(false, Release);
    }
}

/// Adds, for the only writer of a cell.
#[inline]
fn bump(cell: &AtomicU64, more: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
}
