//! `strowger lab serve echo` and `front-end`: the two servers of Ono and Schulzrinne's measurements (paper
//! 001 section 3), with one worker on this project's own runtime.

mod machine;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use control::say;
use control::signals::{self, Signal};
use lab::experiment::Sockets;
use wire::Transport;
use worker_runtime::{Bound, Listener, RuntimeConfig, SctpSettings, StreamLimits};

pub use machine::Role;
use machine::Server;

/// The longest request, octets.
const LONGEST: usize = 64 << 10;
/// Nobody waits for the end of associations.
const LINGER: Duration = Duration::from_millis(100);
/// A silent association is kept for a day: what it costs is measured.
const IDLE: Duration = Duration::from_secs(86_400);

/// An echo server or a front end.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Listen here
    pub own: SocketAddr,
    /// Use these sockets: udp, tcp, or for SCTP one-to-one or one-to-many
    #[arg(long, value_name = "KIND", default_value = "udp", value_parser = PossibleValuesParser::new(NAMES))]
    pub sockets: String,
    /// Accept this number of connections or associations at a time
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub most: u32,
}

/// The names of [`Sockets`].
const NAMES: [&str; 4] =
    [Sockets::Udp.name(), Sockets::Tcp.name(), Sockets::OneToOne.name(), Sockets::OneToMany.name()];

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If the address cannot be listened on, or the worker fails.
pub fn run(args: &ServeArgs, role: Role) -> Result<(), String> {
    let sockets = Sockets::ALL.iter().find(|(name, _)| *name == args.sockets).map(|(_, sockets)| *sockets);
    let sockets = sockets.ok_or_else(|| format!("--sockets {}: unknown", args.sockets))?;
    let signals = signals::listen().map_err(|error: io::Error| format!("signals: {error}"))?;
    let bound = Bound::new(config(args, sockets), 1).map_err(|error| error.to_string())?;
    let place = bound.listeners().first().map_or(args.own, |listener| listener.address);
    let runtime = bound.start(vec![Server::new(role)]).map_err(|error| error.to_string())?;
    let handle = runtime.handle();
    // The runner waits for this line.
    say::err(format_args!("strowger lab ready: {} at {}:{place}", role.name(), args.sockets));
    while handle.live_workers() > 0 {
        if let Ok(Signal::Stop | Signal::Interrupt) = signals.recv_timeout(Duration::from_millis(100)) {
            break;
        }
    }
    handle.shutdown();
    runtime.join().map_err(|panics| format!("the worker failed: {panics:?}"))
}

fn config(args: &ServeArgs, sockets: Sockets) -> RuntimeConfig {
    let transport = match sockets {
        Sockets::Udp => Transport::Udp,
        Sockets::Tcp => Transport::Tcp,
        Sockets::OneToOne | Sockets::OneToMany => Transport::Sctp,
    };
    let streams = StreamLimits {
        max_connections: usize::try_from(args.most).unwrap_or(usize::MAX),
        max_per_source: args.most,
        idle: IDLE,
        linger: LINGER,
        half_closed: LINGER,
        max_message: LONGEST,
        // What the kernel gives by itself is what is measured.
        receive_buffer: 0,
        ..StreamLimits::default()
    };
    let sctp = SctpSettings {
        // As in the paper, appendix D.3.
        heartbeat: Duration::ZERO,
        many: sockets == Sockets::OneToMany,
        ..SctpSettings::default()
    };
    RuntimeConfig {
        listeners: vec![Listener { transport, address: args.own }],
        streams,
        sctp,
        ..RuntimeConfig::default()
    }
}
