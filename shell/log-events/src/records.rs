//! Call records.

use std::fmt::Display;

events! {
    info call_records_kept(places: &dyn Display, open: u64)
        "call records are written"
        "";
    error call_records_unwritten(path: &dyn Display, error: &dyn Display)
        "call records cannot be written; they wait, and calls go on"
        "Do what the error says: make room on the disk, or correct `file` in [records]. Writing goes on by itself.";
    info call_records_written_again(path: &dyn Display)
        "call records are written again"
        "";
    error call_records_unsent(url: &str, error: &dyn Display)
        "call records cannot be sent; they wait on disk, and calls go on"
        "Repair the server, or correct `url` or `token_file` in [records]. Sending goes on by itself.";
    error call_record_set_aside(id: &str, path: &dyn Display, status: u64)
        "the server of call records refuses a record; it is set aside, and the others are sent"
        "Read the record in the file, and ask who runs the server why it is refused. Send it by hand if it is right.";
    info call_records_sent_again(url: &str)
        "call records are sent again"
        "";
    error call_records_lost(events: u64)
        "call records have waited for so long that there is no room: events of calls are lost"
        "Do what the line call_records_unwritten before it says.";
}
