//! From the configuration to the settings of the protocol core.

use crate::memory::Room;
use control::config as c;
use sip_auth::Secret;
use sip_node as n;
use std::net::SocketAddr;
use wire::Transport;

/// The methods that `auth.challenge` may be expected to list.
pub const METHODS: &[&str] = &[
    "INVITE",
    "ACK",
    "BYE",
    "CANCEL",
    "REGISTER",
    "OPTIONS",
    "PRACK",
    "SUBSCRIBE",
    "NOTIFY",
    "PUBLISH",
    "INFO",
    "REFER",
    "MESSAGE",
    "UPDATE",
];

/// The settings of every node. `listeners` are those of the runtime, in its order, with their real
/// addresses, and the names to advertise; `secret` is the server's. What `before` knows of targets goes on.
pub fn settings(
    config: &c::Config,
    listeners: &[(Transport, SocketAddr, Option<c::HostPort>)],
    admin: Option<SocketAddr>,
    secret: &Secret,
    workers: usize,
    before: &n::Gateways,
) -> n::Settings {
    let bytes_of = |list: &[String]| list.iter().map(|text| text.clone().into_bytes()).collect();
    n::Settings {
        domains: bytes_of(&config.server.domains),
        aliases: bytes_of(&config.server.aliases),
        listeners: listeners
            .iter()
            .map(|(transport, address, advertise)| {
                let advertise = advertise.as_ref().map(|a| (a.host.clone().into_bytes(), a.port));
                n::Listener::new(*transport, *address, advertise)
            })
            .collect(),
        admin,
        auth: config.auth.settings(secret),
        registrar: sip_registrar::Config {
            flow_timer: config.limits.flow_timer(),
            ..config.registrar.settings()
        },
        proxy: n::Proxy {
            classes: config.class_settings(),
            forwarding: config.forwarding.settings(),
            ..config.proxy.settings(&config.timers)
        },
        voicemail: config.voicemail.as_ref().map(c::Voicemail::settings),
        emergency: config.emergency.as_ref().map(c::Emergency::settings),
        trunks: config.trunks.iter().map(c::Trunk::settings).collect(),
        routes: config.routes.iter().map(c::Route::settings).collect(),
        domain_rules: config.domain_settings(),
        gateways: n::Gateways::default(),
        message: config.limits.message(),
        calls: Room::of(&config.limits).calls.div_ceil(workers.max(1)),
        overload: config.overload.settings(workers),
        records: config.records.are_kept(),
    }
    .watching(before)
}
