//! From the configuration to the settings of the protocol core.

use crate::memory::Room;
use control::config as c;
use sip_auth::{Algorithm, Authenticator, Secret, UriRule};
use sip_node as n;
use sip_proxy::context::Reroute;
use std::net::SocketAddr;
use std::sync::Arc;
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
    n::Settings {
        domains: bytes_of(&config.domains),
        aliases: bytes_of(&config.aliases),
        listeners: listeners
            .iter()
            .map(|(transport, address, advertise)| {
                let advertise = advertise.as_ref().map(|a| (a.host.clone().into_bytes(), a.port));
                n::Listener::new(*transport, *address, advertise)
            })
            .collect(),
        admin,
        auth: auth(&config.auth, secret),
        registrar: registrar(config),
        proxy: proxy(&config.proxy, &config.timers),
        voicemail: config.voicemail.as_ref().map(voicemail),
        emergency: config.emergency.as_ref().map(emergency),
        trunks: config.trunks.iter().map(trunk).collect(),
        routes: config.routes.iter().map(route).collect(),
        gateways: n::Gateways::default(),
        message: sip_message::Limits {
            message: config.limits.message_bytes,
            head: config.limits.message_bytes.min(32_768),
            body: config.limits.message_bytes,
            headers: config.limits.headers,
            ..sip_message::Limits::default()
        },
        calls: Room::of(&config.limits).calls.div_ceil(workers.max(1)),
        overload: n::OverloadRules {
            enabled: config.overload.enabled,
            patience: config.overload.delay,
            retry_after: u32::try_from(config.overload.retry_after.as_secs()).unwrap_or(u32::MAX),
            feedback: config.overload.feedback,
            kernel: config.overload.kernel,
            workers: u16::try_from(workers).unwrap_or(u16::MAX),
        },
    }
    .watching(before)
}

fn bytes_of(list: &[String]) -> Vec<Vec<u8>> {
    list.iter().map(|s| s.clone().into_bytes()).collect()
}

fn auth(auth: &c::Auth, secret: &Secret) -> n::Auth {
    let algorithm = |a: &c::Algorithm| match a {
        c::Algorithm::Md5 => Algorithm::Md5,
        c::Algorithm::Sha256 => Algorithm::Sha256,
        c::Algorithm::Sha512_256 => Algorithm::Sha512_256,
    };
    let config = sip_auth::Config {
        algorithms: auth.algorithms.iter().map(algorithm).collect(),
        lifetime: auth.nonce_lifetime,
        require_qop: auth.require_qop,
        uri: UriRule::Equivalent,
        opaque: None,
    };
    n::Auth {
        enabled: auth.enabled,
        challenge: match &auth.challenge {
            c::Challenge::All => n::Challenge::All,
            c::Challenge::Only(list) => n::Challenge::Only(bytes_of(list)),
        },
        realm: auth.realm.clone().map(String::into_bytes),
        bind_from: auth.bind_from,
        in_dialog: auth.in_dialog,
        fronts: auth.fronts.iter().map(|c| (c.address, c.length)).collect(),
        authenticator: Arc::new(Authenticator::new(secret, config)),
    }
}

fn registrar(config: &c::Config) -> sip_registrar::Config {
    let r = &config.registrar;
    let seconds = |d: std::time::Duration| u32::try_from(d.as_secs()).unwrap_or(u32::MAX);
    let service_route: Vec<String> = r.service_route.iter().map(|uri| format!("<{uri}>")).collect();
    sip_registrar::Config {
        min_expires: seconds(r.min_expires),
        max_expires: seconds(r.max_expires),
        default_expires: seconds(r.default_expires),
        max_bindings: r.max_bindings,
        service_route: service_route.join(", ").into_bytes(),
        ..sip_registrar::Config::default()
    }
}

fn proxy(proxy: &c::Proxy, timers: &c::Timers) -> n::Proxy {
    n::Proxy {
        mode: match proxy.mode {
            c::ProxyMode::Stateful => n::Mode::Stateful,
            c::ProxyMode::Stateless => n::Mode::Stateless,
            c::ProxyMode::Redirect => n::Mode::Redirect,
        },
        parallel: proxy.fork == c::Fork::Parallel,
        record_route: proxy.record_route,
        recurse: proxy.recurse_redirects,
        max_breadth: u8::try_from(proxy.max_breadth).unwrap_or(u8::MAX),
        max_forwards: proxy.max_forwards,
        timer_c_ms: millis(proxy.timer_c),
        trying: match timers.trying {
            c::Trying::Learned => n::Trying::Learned,
            c::Trying::After(wait) => n::Trying::After(millis(wait)),
        },
        mtu: proxy.mtu,
        strangers: n::Strangers {
            allowed: proxy.strangers == c::Strangers::Allow,
            methods: bytes_of(&proxy.stranger_methods),
        },
    }
}

fn millis(duration: std::time::Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn voicemail(voicemail: &c::Voicemail) -> n::Voicemail {
    let reason = |d: &c::Divert| match d {
        c::Divert::Busy => Reroute::BUSY,
        c::Divert::NoAnswer => Reroute::NO_ANSWER,
        c::Divert::Rejected => Reroute::REJECTED,
        c::Divert::Unregistered => Reroute::UNREGISTERED,
        c::Divert::Unreachable => Reroute::UNREACHABLE,
    };
    n::Voicemail {
        uri: voicemail.target.uri.clone().into_bytes(),
        on: voicemail.on.iter().map(reason).fold(Reroute::NEVER, Reroute::and),
        no_answer_ms: millis(voicemail.no_answer_timeout),
        silent_after_ms: millis(voicemail.silent_after),
    }
}

fn emergency(emergency: &c::Emergency) -> n::Emergency {
    n::Emergency {
        targets: uris(&emergency.targets),
        numbers: bytes_of(&emergency.numbers),
        strangers: emergency.strangers,
        silent_after_ms: millis(emergency.silent_after),
    }
}

fn uris(targets: &[c::Target]) -> Vec<Vec<u8>> {
    targets.iter().map(|t| t.uri.clone().into_bytes()).collect()
}

fn trunk(trunk: &c::Trunk) -> n::Trunk {
    n::Trunk {
        name: trunk.name.clone().into_bytes(),
        targets: uris(&trunk.targets),
        sources: trunk.sources.iter().map(|c| (c.address, c.length)).collect(),
        prefixes: trunk.prefixes.iter().map(|prefix| user_part(prefix)).collect(),
        domains: bytes_of(&trunk.domains),
        strip: trunk.strip,
        prepend: user_part(&trunk.prepend),
        may_transit: trunk.may_transit,
        overload_control: trunk.overload_control,
        retry_on: trunk.retry_on.clone(),
        silent_after_ms: millis(trunk.silent_after),
    }
}

/// What the operator wrote of a called user, as it is compared with one and written into a URI.
fn user_part(written: &str) -> Vec<u8> {
    sip_message::canonical_user(written.as_bytes()).into_owned()
}

fn route(route: &c::Route) -> n::Route {
    let text = |s: &Option<String>| s.clone().map(String::into_bytes);
    n::Route {
        domain: text(&route.domain),
        prefix: route.prefix.as_deref().map(user_part),
        user: route.user.as_deref().map(user_part),
        silent_after_ms: millis(route.silent_after),
        action: match &route.action {
            c::RouteAction::Forward(targets) => n::RouteAction::Forward(uris(targets)),
            c::RouteAction::Redirect(targets) => n::RouteAction::Redirect(uris(targets)),
        },
    }
}
