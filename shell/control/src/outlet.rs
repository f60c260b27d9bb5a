//! Where log lines go: a descriptor that is never waited for.
//!
//! Workers log too, and strangers can make them do so. A reader of the log that reads no more (a collector
//! that hangs, a pipe into a stopped program) must not stop them, so a line for which there is no room is
//! dropped and counted, and the next line that finds room says how many were.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a pipe takes without waiting once it says that it has room (pipe(7), `PIPE_BUF`).
const PIECE: usize = 4_096;

/// Writes lines as long as there is room for them.
pub(crate) struct Outlet<'l, F> {
    to: F,
    lost: &'l AtomicU64,
    /// The line that stands for this number of lost lines.
    note: fn(u64) -> String,
}

impl<'l, F: Write + AsFd> Outlet<'l, F> {
    /// An outlet to `to`, which nobody else may write to meanwhile. `lost` counts over all of them.
    pub(crate) fn new(to: F, lost: &'l AtomicU64, note: fn(u64) -> String) -> Outlet<'l, F> {
        Outlet { to, lost, note }
    }

    fn has_room(&self) -> bool {
        let mut asked = [PollFd::new(&self.to, PollFlags::OUT)];
        // What cannot be asked is written to: it is no pipe.
        poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map_or(true, |ready| ready > 0)
    }

    /// Writes all of a line, or as much as there is room for; answers whether that was all.
    fn put(&mut self, line: &[u8]) -> io::Result<bool> {
        for piece in line.chunks(PIECE) {
            if !self.has_room() {
                return Ok(false);
            }
            self.to.write_all(piece)?;
        }
        Ok(true)
    }
}

impl<F: Write + AsFd> Write for Outlet<'_, F> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let lost = self.lost.load(Relaxed);
        let known = lost == 0 || self.put((self.note)(lost).as_bytes())?;
        if known {
            self.lost.fetch_sub(lost, Relaxed);
        }
        if !known || !self.put(line)? {
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, PipeWriter, Read, pipe};

    fn note(lost: u64) -> String {
        format!("{lost} lost\n")
    }

    fn full_pipe() -> (PipeReader, PipeWriter) {
        let (reader, mut writer) = pipe().unwrap();
        let lost = AtomicU64::new(0);
        while lost.load(Relaxed) == 0 {
            Outlet::new(&mut writer, &lost, note).write_all(&[b'x'; PIECE]).unwrap();
        }
        (reader, writer)
    }

    #[test]
    fn nobody_waits_for_a_reader_that_reads_no_more() {
        let (mut reader, mut writer) = full_pipe();
        let lost = AtomicU64::new(0);
        let mut say = |line: &str| Outlet::new(&mut writer, &lost, note).write_all(line.as_bytes()).unwrap();
        say("one\n");
        say("two\n");
        let mut buffer = vec![0; 2 * PIECE];
        reader.read_exact(&mut buffer).unwrap();
        say("three\n");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text.trim_start_matches('x'), "2 lost\nthree\n");
    }
}
