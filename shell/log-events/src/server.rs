//! Events of `serve`: calls, registrations, targets, overload.

use std::fmt::Display;

events! {
    warn open_to_strangers(; file: &str)
        "requests from any address may call our users: for users and trunks only, set `strangers = \"refuse\"` in [proxy] of {file}"
        "Set it, or accept calls of strangers: see docs/guide/who-may-call.md.";
    warn token_secret_open(path: &dyn Display)
        "other users can read the secret of WebSocket tokens; `chmod 600` it"
        "Run `chmod 600` on the file. Replace the secret if others may have read it.";
    warn no_subscribers(; data_dir: &dyn Display)
        "there are no subscribers yet, so no phone can register; add one: strowger user add USER@DOMAIN --data-dir {data_dir}"
        "Run the command.";
    warn subscribers_unserved(subscribers: usize, served: usize, domains: &str; data_dir: &dyn Display, list: &str)
        "there are subscribers of domains that are not served: they cannot register or be called. `strowger user list --data-dir {data_dir}` lists all; to serve a domain, add it to {list}"
        "Add the domain, or remove those users.";
    warn overloaded(worker: u16, before: u64; behind_ms: u128)
        "overload: there has been more to do than time for {behind_ms} ms; excess new calls and registrations are refused, and calls under way go first"
        "See docs/guide/overload.md. If it is the usual load, use more workers or another machine.";
    info overload_over(worker: u16, before: u64)
        "the overload is over: all requests are accepted again"
        "";
    warn target_down(uri: &dyn Display, address: &str; why: &str)
        "target down: {why}; others are tried first, and it is probed"
        "Check that target and the network to it. `strowger ctl trunks` shows all.";
    info target_up(uri: &dyn Display, address: &str)
        "target up: it answers again"
        "";
    warn targets_exhausted(list: &str, name: &dyn Display, targets: &str, status: u16, before: u64)
        "no target answered: see `strowger ctl trunks`"
        "Check those targets and the network to them.";
    warn trunk_full(trunk: &dyn Display, reason: &str, channels: u32, calls_per_second: u32, before: u64)
        "the trunk takes no further call now: raise `channels` or `calls_per_second` in its [[trunk]] if it can take more"
        "Compare the limits of that [[trunk]] with what the carrier or PBX takes. `strowger ctl trunks` shows its calls.";
    info routes_read(file: &dyn Display, rows: usize, prefixes: usize, bytes: usize)
        "the route table is in force"
        "";
    warn no_room(worker: u16, source: &dyn Display, before: u64; what: &str)
        "{what}"
        "Raise the limit that the line names, or find the sender of the load.";
    info trunk_call_not_carried(source: &dyn Display, before: u64, about: &dyn Display)
        "trunk call refused with 403, it would leave again: set `may_transit = true` in the [[trunk]] it came from"
        "If that trunk may call through this server, set it.";
    info trunk_call_looped(source: &dyn Display, before: u64, about: &dyn Display)
        "trunk call answered with 404, it would go back to its trunk: add a [[route]] for the number, or another emergency target"
        "Add the route, if that number is one of yours.";
    info trunk_call_not_found(source: &dyn Display, before: u64, about: &dyn Display)
        "trunk call answered with 404, it is to no user, [[route]] or prefix: add a [[route]] whose `user` is the number as it stands here, with or without `+`"
        "Add the route, if that number is one of yours.";
    info trunk_not_proven(source: &dyn Display, wanted: &str, found: &str, before: u64)
        "a request over TLS belongs to no trunk: the certificate of the peer has none of the wanted names"
        "If it is your carrier: write the name in `found` into `sources` as `\"tls:NAME\"`. If no certificate was found, ask the carrier to send one.";
    info name_unresolved(name: &dyn Display, before: u64; what: &str)
        "no request can be sent to a host name: {what}"
        "Add the name to the DNS, or correct it in the Path, Route, Contact, `targets` or dialled URI that has it.";
    info login_refused(source: &dyn Display, before: u64, about: &dyn Display; what: &str)
        "login refused: {what}"
        "If it is one of your phones, give it the password: see docs/guide/passwords.md.";
    info class_refused(source: &dyn Display, before: u64, about: &dyn Display; what: &str)
        "call refused with 403: {what}"
        "If the caller may make such calls, change the [[class]]. If not, its password may be known to others: see docs/guide/classes.md.";
    info strangers_held(source: &dyn Display, before: u64; what: &str)
        "requests of strangers answered with 503: {what}"
        "If they are calls that you want, raise that key, or make the sender a [[trunk]].";
    warn class_unused(class: &str)
        "no user, domain or trunk has this class"
        "Set `class` in a [[domain]] or [[trunk]], run `strowger user class`, or remove the [[class]].";
    warn class_unknown(class: &str, users: usize)
        "users have a class that is not configured: their calls do not leave"
        "Add the [[class]], or give them another one with `strowger user class`.";
    warn emergency_number_taken(number: &str; domain: &str)
        "this emergency number is also a user of {domain}: calls to it go to the emergency targets"
        "Give that user another name.";
    info insecure_refused(source: &dyn Display, before: u64, about: &dyn Display; what: &str)
        "sips: request refused: {what}"
        "Have the phone register its Contact as sips: over TLS, or have its callers use sip:.";
}
