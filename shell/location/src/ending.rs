//! The orderly end of a log.

use std::time::Duration;

use wire::Time;

use crate::clock::Clock;
use crate::mover::Mover;
use crate::service::SharedLocation;
use crate::writer::Writer;

/// Attempts to write what is left at the end.
const LAST_ATTEMPTS: u32 = 5;
/// How long the last move into the table may take. What is left is moved after the next start.
const LAST_MOVE: Duration = Duration::from_secs(5);
/// How long the end may take to write all bindings anew, where a part of the log is lost.
const LAST_REPAIR: Duration = Duration::from_secs(30);

/// Writes what waits, and moves the log into the table as far as there is time.
pub fn finish(writer: &mut Writer, mover: &mut Mover, location: &SharedLocation, clock: &Clock) {
    let (moved, repaired) = (clock.now() + LAST_MOVE, clock.now() + LAST_REPAIR);
    let mut outcome = Ok(false);
    for _ in 0..LAST_ATTEMPTS {
        write_rest(writer, mover, location, || clock.now() >= repaired, moved);
        outcome = writer.seal().and_then(|()| mover.run(moved));
        // A file that cannot be read any more, found only now: memory is about to go, and has what it said.
        if !mover.sealed().needs_repair() || clock.now() >= repaired {
            break;
        }
    }
    if writer.rescanning() {
        log_events::bindings::bindings_not_all_written();
    }
    match outcome {
        Ok(true) => {}
        Ok(false) => log_events::bindings::table_behind_log(),
        Err(error) => {
            log_events::bindings::bindings_left_in_log(&error);
        }
    }
}

/// Rounds until nothing waits and no walk over all bindings is under way, or too many could not write. What
/// waits is written however late it is; the walk is left where it is when that is `late`.
fn write_rest(
    writer: &mut Writer,
    mover: &mut Mover,
    location: &SharedLocation,
    late: impl Fn() -> bool,
    until: Time,
) {
    let mut attempts = LAST_ATTEMPTS;
    while attempts != 0 {
        writer.round();
        match (location.pending(), writer.rescanning()) {
            (0, rescanning) if !rescanning || late() => return,
            (0, _) => {}
            _ => {
                attempts -= 1;
                // Where the log has no more room, moving makes some.
                if let Err(error) = mover.run(until) {
                    tracing::debug!(%error, "the location table cannot be written");
                }
            }
        }
    }
}
