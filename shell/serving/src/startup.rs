//! What `serve` and `balance` do alike: from the configuration to open sockets, and the end.

use crate::certificates::Certificates;
use crate::connecting::Tokens;
use crate::memory::Room;
use crate::steering::{self, Helmsman};
use crate::{absolute, interfaces};
use control::admin::{Admin, Bound as AdminSocket, Server};
use control::config::{self as c, Config, Loaded};
use control::log::LogHandle;
use control::signals::{self, Signal};
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use wire::ListenerId;
use worker_runtime::{
    Admission, Bound, Listener, Runtime, RuntimeConfig, SctpSettings, StreamLimits, WebSocket,
};

/// Anything that keeps the server from starting; its text says what to do.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What is there before the first socket.
pub struct Startup {
    pub helmsman: Helmsman,
    pub signals: Receiver<Signal>,
    pub log: LogHandle,
    pub workers: usize,
    /// With every unspecified address replaced.
    pub listeners: Vec<c::Listener>,
}

/// The open sockets.
pub struct Sockets {
    pub bound: Bound,
    /// What TLS listeners show, if there is something.
    pub certificates: Option<Certificates>,
    pub admin: Option<AdminSocket>,
    /// The check of WebSocket clients, if tokens are configured.
    pub tokens: Option<Arc<Tokens>>,
}

impl Startup {
    /// Starts to log, first that the program starts, in these words.
    pub fn begin(loaded: &Loaded, words: &str) -> Result<Startup, Failure> {
        let helmsman = Helmsman::appoint()?;
        let signals = signals::listen()?;
        let config = &loaded.config;
        let log = control::log::init(config.log.level, config.log.format)?;
        let file = loaded.file.as_deref().map_or("none".into(), |f| absolute(f).display().to_string());
        log_events::process::starting(
            env!("CARGO_PKG_VERSION"),
            &file,
            &absolute(&config.server.data_dir).display(),
            words,
        );
        for warning in &loaded.warnings {
            log_events::process::configuration_warning(warning);
        }
        let listeners = interfaces::expand(&config.server.listen)?;
        raise_descriptor_limit();
        Ok(Startup { helmsman, signals, log, workers: workers(config), listeners })
    }

    /// Opens every socket.
    pub fn bind(&self, config: &Config) -> Result<Sockets, Failure> {
        let (certificates, tls) = Certificates::start(config)?.unzip();
        let tls_client = certificates.as_ref().map(Certificates::client);
        let mut runtime =
            RuntimeConfig { tls, tls_client, ..runtime_config(config, &self.listeners, self.workers) };
        let secret = config.websocket.token_secret.as_deref();
        let tokens = secret
            .map(|file| Tokens::read(file, || crate::serve::wall_micros().unsigned_abs() / 1_000_000))
            .transpose()?
            .map(Arc::new);
        runtime.websocket.admission = tokens.clone().map(|t| Admission::new(move |query| t.admit(query)));
        let bound = Bound::new(runtime, self.workers)?;
        Ok(Sockets { bound, certificates, admin: bind_admin(&config.admin)?, tokens })
    }
}

/// Starts the admin API on its socket.
pub fn start_admin(
    socket: Option<AdminSocket>,
    control: Arc<impl Admin + 'static>,
) -> Result<Option<Server>, Failure> {
    let admin = socket.map(|socket| socket.start(control)).transpose()?;
    if let Some(admin) = &admin {
        log_events::admin::admin_listening(&admin.address());
    }
    Ok(admin)
}

/// Ends the admin API and the workers, then what they used.
pub fn end<N: Send + 'static>(
    admin: Option<Server>,
    runtime: Runtime<N>,
    close: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    drop(admin);
    runtime.handle().shutdown();
    let ended = runtime.join();
    close()?;
    log_events::process::stopped();
    ended.map_err(|panics| format!("{} of the workers failed; see the log", panics.len()).into())
}

/// How many workers the configuration means.
fn workers(config: &Config) -> usize {
    match config.server.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}

/// As far as it may be raised, before the first socket: there is one for each worker and listener. The
/// runtime says so if connections have to be fewer for it.
fn raise_descriptor_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        log_events::workers::descriptor_limit_fixed(&error);
    }
}

/// Opens the admin API's socket, or says whose fault it is that it cannot be opened.
fn bind_admin(access: &c::AdminAccess) -> Result<Option<AdminSocket>, Failure> {
    AdminSocket::new(access).map_err(|error| {
        let address = access.listen.map_or_else(String::new, |a| a.to_string());
        let mend = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another process has this port: end it (`ss -lntp` names it), choose another place with \
                 --admin, or `--admin off`"
            }
            std::io::ErrorKind::AddrNotAvailable => {
                "this machine has no such address: choose another place with --admin, or `--admin off`"
            }
            _ => "mend this, choose another place with --admin, or `--admin off`",
        };
        format!("cannot serve the admin API on {address}: {error}; {mend}").into()
    })
}

/// Bytes that this server may add to a message that it forwards.
const ADDED: usize = 16 << 10;
/// How long a stream may be without a message if it has no registration or answered call.
const LOOSE: Duration = Duration::from_secs(300);

/// The runtime of a server or balancer: its sockets, and the limits of its streams.
fn runtime_config(config: &Config, listeners: &[c::Listener], workers: usize) -> RuntimeConfig {
    let l = &config.limits;
    let usual = StreamLimits::default();
    // Whatever may be received must also fit where it waits to be sent on, and more than one of it.
    let longest = l.message_bytes.saturating_add(ADDED);
    let several = longest.saturating_mul(4);
    RuntimeConfig {
        listeners: listeners
            .iter()
            .map(|l| Listener { transport: l.transport, address: l.address })
            .collect(),
        pin: steering::cpus(&config.server.pin, workers),
        busy_poll: config.server.busy_poll,
        segment: config.server.udp_segmentation,
        sctp: associations(&config.sctp, listeners),
        // Timers B and F (RFC 3261 section 17.1).
        patience: config.timers.t1 * 64,
        websocket: WebSocket {
            path: config.websocket.path.clone(),
            origins: config.websocket.origins.clone(),
            admission: None,
            max_message: u32::try_from(l.message_bytes).unwrap_or(u32::MAX),
        },
        udp_buffer_most: crate::memory::buffer(l, workers),
        streams: StreamLimits {
            max_connections: l.connections,
            max_per_source: u32::try_from(l.connections_per_source).unwrap_or(u32::MAX),
            handshake: config.tls.handshake_timeout,
            max_handshakes: config.tls.handshakes,
            max_handshakes_per_source: u32::try_from(config.tls.handshakes_per_source).unwrap_or(u32::MAX),
            message: l.tcp_head_timeout,
            idle: l.tcp_idle_timeout,
            idle_loose: Some(l.tcp_idle_timeout.min(LOOSE)),
            first_message: usual.first_message.min(l.tcp_idle_timeout),
            max_message: usual.max_message.max(longest),
            max_queued: usual.max_queued.max(several),
            max_queued_yielding: usual.max_queued_yielding.max(several),
            max_queued_connecting: usual.max_queued_connecting.max(several),
            max_held: Room::of(l).streams_of_each(workers, several),
            ..usual
        },
        // A worker that is gone takes its calls along; the others cannot serve in its place, because
        // ownership is by hash. Better to end and be restarted, with all bindings on disk, or by what the
        // messages of dialogs say.
        on_panic: Some(Arc::new(|_| {
            log_events::workers::ending_without_worker();
            std::process::abort();
        })),
        ..RuntimeConfig::default()
    }
}

/// How associations of SCTP are made.
fn associations(sctp: &c::Sctp, listeners: &[c::Listener]) -> SctpSettings {
    let more = (0..).map(ListenerId).zip(listeners.iter().map(|l| l.more.clone()));
    SctpSettings {
        heartbeat: sctp.heartbeat,
        rto_initial: sctp.rto_initial,
        rto_min: sctp.rto_min,
        rto_max: sctp.rto_max,
        path_retransmissions: sctp.path_retransmissions,
        retransmissions: sctp.retransmissions,
        streams: sctp.streams,
        many: sctp.sockets,
        more: more.filter(|(_, more)| !more.is_empty()).collect(),
    }
}

/// Says that the program is ready. Scripts wait for this line: no log level hides it.
pub fn say_ready(status: &str, format: c::LogFormat) {
    let line = format!("strowger {} {status}", env!("CARGO_PKG_VERSION"));
    eprintln!("{}", control::log::line(&line, format));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_of_the_runtime_follows_t1() {
        let mut config = Config::default();
        for millis in [250, 500, 2_000] {
            config.timers.t1 = Duration::from_millis(millis);
            // Timers B and F (RFC 3261 section 17.1).
            assert_eq!(runtime_config(&config, &[], 2).patience, Duration::from_millis(64 * millis));
        }
    }

    #[test]
    fn what_may_be_received_may_wait_to_be_sent() {
        let mut config = Config::default();
        for bytes in [1_300, config.limits.message_bytes, 16 << 20] {
            config.limits.message_bytes = bytes;
            let streams = runtime_config(&config, &[], 1).streams;
            let queued = [streams.max_queued, streams.max_queued_yielding, streams.max_queued_connecting];
            for room in queued.into_iter().chain([streams.max_message]) {
                assert!(room >= bytes + 1_000, "{bytes} bytes: {streams:?}");
            }
        }
    }
}
