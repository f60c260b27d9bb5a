//! Call records.

use std::fmt::Display;

events! {
    info call_records_kept(places: &dyn Display, open: u64)
        "call records are written"
        "";
    error call_records_unwritten(path: &dyn Display, error: &dyn Display)
        "call records cannot be written; they wait, calls continue"
        "Free space on the disk, or correct `file` in [records]. Writing then continues by itself.";
    info call_records_written_again(path: &dyn Display)
        "call records are written again"
        "";
    error call_records_unsent(url: &str, error: &dyn Display)
        "call records cannot be sent; they wait on disk, calls continue"
        "Repair the server, or correct `url` or `token_file` in [records]. Sending then continues by itself.";
    error call_record_set_aside(id: &str, path: &dyn Display, status: u64)
        "the server at `url` refuses a call record; it is stored in a file, the others are sent"
        "Read the record in the file, and ask the operator of the server for the reason. If the record is correct, send it by hand.";
    info call_records_sent_again(url: &str)
        "call records are sent again"
        "";
    error call_records_lost(events: u64)
        "no room for waiting call records: events of calls are lost"
        "See the event call_records_unwritten before it.";
}
