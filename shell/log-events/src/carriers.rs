//! Events of accounts at trunks.

use std::fmt::Display;

events! {
    info trunk_registered(trunk: &dyn Display, address: &str, seconds: u32)
        "registered at the trunk"
        "";
    warn trunk_registration_refused(trunk: &dyn Display, address: &str, status: u16; why: &str)
        "the trunk refuses the registration: {why}; it is tried again after some minutes"
        "Check `user`, `password_file` and `register` of the trunk, and the account at the carrier. `strowger ctl reload` tries again at once if one of them has changed.";
    warn trunk_registration_failing(trunk: &dyn Display; why: &str)
        "the registration at the trunk fails: {why}; it is tried again"
        "Check the network to the registrar, and its name in the DNS. `strowger ctl trunks` shows all.";
    info trunk_registration_ended(trunk: &dyn Display)
        "the registration at the trunk is ended"
        "";
    warn trunk_account_refused(trunk: &dyn Display, address: &str, status: u16, before: u64; why: &str)
        "the trunk does not accept the account of this server in a request: {why}"
        "Check `user`, `password_file` and `realm` of the trunk, and the account at the carrier.";
    warn password_file_open(path: &dyn Display)
        "other users can read the password of a trunk; `chmod 600` it"
        "Run `chmod 600` on the file. Change the password if others may have read it.";
}
