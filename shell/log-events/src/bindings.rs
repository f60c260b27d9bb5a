//! The log of bindings and the location table.

use std::fmt::Display;

events! {
    warn log_file_unborn(path: &dyn Display, bytes: u64)
        "a crash interrupted the creation of this log of bindings; it is empty and is deleted"
        "Nothing.";
    warn log_end_torn(path: &dyn Display, offset: u64, bytes: u64)
        "the end of the log of bindings is no whole batch: a crash cut it short; it is dropped. After a power cut it may have registrations of the last second before"
        "Nothing. Those phones come back when they register again.";
    error log_damaged(path: &dyn Display, offset: u64, bytes: u64)
        "the log of bindings is damaged there; what can be read is kept, and phones whose registration is lost come back when they register again; check the disk"
        "Check the disk (`smartctl`, `dmesg`) before you trust it further.";
    warn log_records_senseless(path: &dyn Display, records: u64)
        "records of the log of bindings are invalid"
        "Check memory and disk. Those bindings come back when their phones register again.";
    warn log_file_ignored(path: &dyn Display)
        "file ignored: its name is not that of a log of bindings"
        "Move the file out of the data directory.";
    warn log_damaged_kept(path: &dyn Display)
        "the damaged log of bindings is kept there; delete it when it is no longer needed"
        "Keep it until the cause is known, then delete it.";
    warn log_torn_kept(path: &dyn Display)
        "the part cut off the log of bindings is kept there"
        "Delete it when it is no longer needed.";
    warn log_torn_lost(error: &dyn Display, path: &dyn Display)
        "cannot keep the part cut off the log"
        "Nothing, unless the error says that the disk is full or fails.";
    error bindings_unwritten(error: &dyn Display; answer: &str)
        "bindings cannot be written to disk; {answer}"
        "Do what the error says: make room in the data directory, or repair the disk. Writing goes on by itself.";
    info bindings_written_again(seconds: u64)
        "bindings are written to disk again"
        "";
    error log_file_replaced(path: &dyn Display)
        "another file is in the place of a log of bindings"
        "Find out which program writes into the data directory. All bindings are written anew.";
    error log_file_cut(path: &dyn Display, bytes: u64)
        "a log of bindings was cut short by another program"
        "Find out which program writes into the data directory. All bindings are written anew.";
    error log_file_lost(error: &dyn Display)
        "a log of bindings is lost"
        "Find out which program deletes in the data directory. All bindings are written anew.";
    info table_written_again()
        "the location table is written again"
        "";
    warn table_locked(error: &dyn Display)
        "the location table cannot be written; bindings stay in the log"
        "End the program that holds the database open, such as a backup or an `sqlite3` shell.";
    error table_unwritten(error: &dyn Display)
        "the location table cannot be written; bindings stay in the log"
        "Do what the error says. Until then the log grows; no binding is lost.";
    warn bindings_written_anew()
        "all bindings are written anew, because a part of the log is lost"
        "Nothing. The line before says which part was lost, and why.";
    error bindings_not_all_written()
        "there was no time to write all bindings anew; bindings of a damaged or lost log return when their phones register"
        "Nothing. Give the program more time to end, such as `TimeoutStopSec=` of the service.";
    info table_behind_log()
        "the location table is older than the log beside it, which the next start reads as well"
        "";
    warn bindings_left_in_log(error: &dyn Display)
        "bindings stay in the log beside the database; the next start reads it"
        "Keep both files together when you copy the data directory.";
    warn wall_clock_set(seconds: &dyn Display)
        "the wall clock was set; bindings are unaffected and written anew"
        "Nothing. If it happens often, check the time service (`timedatectl`).";
    error log_deleted(path: &dyn Display)
        "the log of bindings was deleted or replaced while the server runs; all bindings are written anew"
        "Find out which program writes into the data directory.";
    error log_not_continued(error: &dyn Display)
        "the next file of the log cannot be started"
        "Do what the error says: make room in the data directory, or repair the disk.";
    warn wall_clock_behind(error: &dyn Display)
        "the wall clock was set back; at the next start bindings may live longer than they should"
        "Check the time service (`timedatectl`).";
    warn bindings_passed_over(rows: u64)
        "bindings on disk were skipped: damaged, or no room"
        "Raise `limits` if there are more bindings than they allow; else check the disk.";
    error log_not_moved(error: &dyn Display)
        "the log of bindings cannot be moved into the table now; the log stays in use"
        "Do what the error says. The table is written later; no binding is lost.";
    warn log_file_stays(error: &dyn Display)
        "a file of the log cannot be deleted; it is moved into the table again"
        "Do what the error says. Reading it twice does no harm.";
    info bindings_being_read(records: u64)
        "reading bindings"
        "";
    warn rows_ahead_of_clock(rows: usize)
        "the wall clock was set back since bindings were written; they are written anew"
        "Check the time service (`timedatectl`).";
    warn removed_users_may_be_bound(path: &dyn Display)
        "more subscribers changed than the change log holds: bindings of some that were removed may be in force until they end; `strowger ctl bindings` shows them"
        "Remove the bindings of those users, or wait until they expire.";
}
