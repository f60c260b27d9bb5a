//! The buffers of one worker's connections: pools of empty ones, and how much the others hold.

use super::input::Input;
use super::output::Output;

/// A pooled buffer that grew beyond this is freed.
const KEEP_CAPACITY: usize = 16 << 10;
/// Buffers kept in each pool.
const KEEP_BUFFERS: usize = 256;

/// Pools of buffers, and the bytes in those that connections have.
#[allow(clippy::vec_box, reason = "the pools hand out boxes, which a connection keeps by pointer")]
pub struct Buffers {
    inputs: Vec<Box<Input>>,
    outputs: Vec<Box<Output>>,
    /// Bytes that connections hold in their buffers, both directions.
    held: usize,
    most: usize,
}

impl Buffers {
    /// None yet, which may hold `most` bytes together.
    pub fn new(most: usize) -> Buffers {
        Buffers { inputs: Vec::new(), outputs: Vec::new(), held: 0, most }
    }

    /// An empty buffer for input.
    pub fn input(&mut self) -> Box<Input> {
        self.inputs.pop().unwrap_or_default()
    }

    /// An empty buffer for output.
    pub fn output(&mut self) -> Box<Output> {
        self.outputs.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn recycle_input(&mut self, mut input: Box<Input>) {
        if self.inputs.len() < KEEP_BUFFERS && input.capacity() <= KEEP_CAPACITY {
            input.clear();
            self.inputs.push(input);
        }
    }

    /// Takes a buffer back.
    pub fn recycle_output(&mut self, mut output: Box<Output>) {
        if self.outputs.len() < KEEP_BUFFERS && output.capacity() <= KEEP_CAPACITY {
            output.clear();
            self.outputs.push(output);
        }
    }

    /// Connections hold this number of bytes more.
    pub fn hold(&mut self, bytes: usize) {
        self.held += bytes;
    }

    /// Connections hold this number of bytes less.
    pub fn let_go(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.held, "what is let go was held");
        self.held -= bytes;
    }

    /// A connection that held `before` bytes in a layer holds `now` there.
    pub fn holds_now(&mut self, before: usize, now: usize) {
        self.hold(now.saturating_sub(before));
        self.let_go(before.saturating_sub(now));
    }

    /// Whether this number of bytes more would be too many.
    pub fn lack_room_for(&self, bytes: usize) -> bool {
        self.held + bytes > self.most
    }
}
