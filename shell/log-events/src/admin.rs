//! The admin API and the service manager.

use std::fmt::Display;

events! {
    info admin_listening(address: &dyn Display)
        "admin API"
        "";
    warn admin_token_open(path: &dyn Display)
        "the admin token is open to every user; `chmod 600` it"
        "Run `chmod 600` on the file.";
    error admin_not_started(error: &dyn Display)
        "the admin API cannot start"
        "Do what the error says, then restart. SIP is served without it.";
    error admin_request_failed(error: &dyn Display)
        "admin API: a handler failed"
        "Report it, with the request.";
    warn notify_socket_unusable(error: &dyn Display)
        "NOTIFY_SOCKET cannot be used"
        "Start the program by systemd, or without NOTIFY_SOCKET in its environment.";
    warn worker_not_asked(worker: u16, before: u64)
        "cannot ask the worker what it does: its queue is full"
        "Nothing if it is rare. If it goes on, that worker hangs: restart, and report it.";
}
