//! Subscribers, the store that has them, and the data directory.

use std::fmt::Display;

events! {
    info subscribers_changed_much()
        "more subscribers changed than the change log holds; reading all of them"
        "";
    info subscribers_being_read(users: usize)
        "reading subscribers"
        "";
    warn clear_password_replaced()
        "a subscriber row held a clear password; it was replaced by hashes"
        "Make the program that writes such rows write hashes, or use `strowger user add`.";
    warn clear_password_kept(error: &dyn Display)
        "a subscriber row holds a clear password that could not be erased"
        "Do what the error says. The next start tries again.";
    warn data_directory_open(path: &dyn Display)
        "other users of this machine can read the data directory; `chmod 700` it"
        "Run `chmod 700` on the directory.";
    warn database_open(path: &dyn Display)
        "the password hashes in it are open to other users; `chmod 600` it"
        "Run `chmod 600` on the file.";
    info store_loaded(subscribers: usize, bindings: u64, expired: u64, path: &dyn Display)
        "store loaded"
        "";
    error store_not_closed(error: &dyn Display)
        "closing the store"
        "Do what the error says. The next start reads what is left in the log.";
    info subscribers_followed_again()
        "changes of subscribers are followed again"
        "";
    error subscribers_not_followed(error: &dyn Display)
        "changes of subscribers cannot be followed"
        "Do what the error says. Until then new users and passwords are not in force.";
}
