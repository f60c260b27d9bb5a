//! Start, reload and end of `serve` and `balance`.

use std::fmt::Display;

events! {
    info starting(version: &str, config: &str, data_dir: &dyn Display; what: &str)
        "{what}"
        "";
    warn configuration_warning(; warning: &dyn Display)
        "{warning}"
        "Change the line of the configuration file that the warning names.";
    info reloaded(changed: &dyn Display)
        "configuration reloaded"
        "";
    error configuration_error(; error: &dyn Display)
        "{error}"
        "Correct the line of the configuration file that the error names, then reload again.";
    error configuration_errors_left(; more: usize)
        "and {more} more"
        "Run `strowger check` on the file: it shows all.";
    error not_reloaded(; changed: &str)
        "configuration not reloaded: {changed}"
        "Correct the file as the errors before this line say, then reload again.";
    info room(transactions: usize, calls: usize, message_bytes: usize, stream_bytes: usize)
        "room for"
        "";
    info draining()
        "draining: no new calls or registrations; a second signal stops at once"
        "";
    info draining_by_request()
        "draining by request: no new calls or registrations; SIGTERM ends the server"
        "";
    warn stopping_at_once(pending: u64)
        "stopping at once"
        "Nothing. `pending` counts the calls and requests left when the second signal came.";
    info stopped()
        "stopped"
        "";
}
