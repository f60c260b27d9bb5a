//! What people and scripts are told on the way. Who reads it may stop reading (`| head`, `q` in a pager); the
//! run, its files and its exit code are what they would have been.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// A text on standard output, with its line ends.
pub fn out(text: Arguments<'_>) {
    let mut to = std::io::stdout().lock();
    let written = to.write_fmt(text).and_then(|()| to.flush());
    if let Err(error) = written.map_err(|error| (error.kind() != ErrorKind::BrokenPipe).then_some(error))
        && let Some(error) = error
    {
        err(format_args!("cannot write to standard output: {error}"));
    }
}

/// A line on standard error. Where that cannot be written there is nobody to tell.
pub fn err(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
