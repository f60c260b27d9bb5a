//! The resolver.

use std::fmt::Display;

events! {
    warn nameservers_unknown(error: &dyn Display)
        "no nameservers: the system's configuration cannot be read"
        "Repair `/etc/resolv.conf`, or set `servers` in `[dns]`.";
    warn hosts_file_unreadable(error: &dyn Display)
        "the hosts file cannot be read"
        "Repair `/etc/hosts`. Until then names are resolved by the DNS alone.";
    error resolver_panicked()
        "the resolver's thread panicked"
        "Report it, with the lines before.";
    error resolver_unusable(error: &str)
        "no DNS look-ups are possible"
        "Do what the error says, then restart. Targets given by name are not reached until then.";
    warn dns_answer_lost(worker: u16, before: u64)
        "a resolver's answer was lost: the worker's queue is full"
        "Nothing if it is rare. If it goes on, that worker hangs: restart, and report it.";
}
