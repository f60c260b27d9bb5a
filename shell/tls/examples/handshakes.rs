//! What a TLS 1.3 handshake costs a server: rustls alone in memory, and a running server over its sockets.
//!
//! ```text
//! handshakes CHAIN KEY ROOTS NAME ADDRESS PID COUNT
//! ```
//! Prints `alone full`, `alone resumed`, `server full` and `server resumed`, each with handshakes for a
//! second of processor time. `alone` is the median of the time spent in the server's half; `server` is the
//! processor time of all threads of process PID. There a keepalive (RFC 5626 section 3.5.1) follows each
//! handshake.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example, not a part of the product")]

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Handshakes before those that count.
const WARM_UP: usize = 50;

fn client(roots: &str, resume: bool) -> Arc<ClientConfig> {
    let mut store = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(roots).unwrap();
    found.for_each(|root| store.add(root.unwrap()).unwrap());
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap();
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    config.resumption = match resume {
        true => Resumption::in_memory_sessions(64),
        false => Resumption::disabled(),
    };
    Arc::new(config)
}

fn server(chain: &str, key: &str) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(chain).unwrap().map(Result::unwrap).collect();
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap();
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap())
        .unwrap();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = Ticketer::new().unwrap();
    config.send_tls13_tickets = 1;
    Arc::new(config)
}

#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn timed<R>(total: &mut Duration, act: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let done = act();
    *total += begun.elapsed();
    done
}

/// The median time of the server's half of `count` handshakes.
fn alone(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>, name: &str, count: usize) -> Duration {
    let mut times = Vec::with_capacity(count);
    for round in 0..WARM_UP + count {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut far = ClientConnection::new(Arc::clone(client), name).unwrap();
        let mut spent = Duration::ZERO;
        let mut near = timed(&mut spent, || ServerConnection::new(Arc::clone(server)).unwrap());
        let (mut up, mut down) = (Vec::new(), Vec::new());
        while near.is_handshaking() || far.is_handshaking() || far.wants_write() || near.wants_write() {
            up.clear();
            while far.wants_write() {
                far.write_tls(&mut up).unwrap();
            }
            down.clear();
            timed(&mut spent, || {
                let mut unread = &up[..];
                while !unread.is_empty() {
                    near.read_tls(&mut unread).unwrap();
                    near.process_new_packets().unwrap();
                }
                while near.wants_write() {
                    near.write_tls(&mut down).unwrap();
                }
            });
            let mut unread = &down[..];
            while !unread.is_empty() {
                far.read_tls(&mut unread).unwrap();
                far.process_new_packets().unwrap();
            }
        }
        if round >= WARM_UP {
            times.push(spent);
        }
    }
    times.sort();
    times[times.len() / 2]
}

/// Processor time of all threads of a process.
fn processor_time(pid: &str) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: std::fs::DirEntry| {
        let line = std::fs::read_to_string(task.path().join("schedstat")).unwrap();
        line.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    Duration::from_nanos(tasks.map(|task| of(task.unwrap())).sum())
}

fn connect(client: &Arc<ClientConfig>, name: &str, address: &str) {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let session = ClientConnection::new(Arc::clone(client), name).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    let mut stream = StreamOwned::new(session, socket);
    stream.write_all(b"\r\n\r\n").unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [chain, key, roots, name, address, pid, count] = &words[..] else {
        panic!("handshakes CHAIN KEY ROOTS NAME ADDRESS PID COUNT");
    };
    let count: usize = count.parse().unwrap();
    let serving = server(chain, key);
    for (kind, resume) in [("full", false), ("resumed", true)] {
        let each = alone(&serving, &client(roots, resume), name, count);
        println!("alone {kind} {:.0}", 1.0 / each.as_secs_f64());
    }
    for (kind, resume) in [("full", false), ("resumed", true)] {
        let client = client(roots, resume);
        (0..WARM_UP).for_each(|_| connect(&client, name, address));
        let before = processor_time(pid);
        (0..count).for_each(|_| connect(&client, name, address));
        let spent = processor_time(pid) - before;
        println!("server {kind} {:.0}", count as f64 / spent.as_secs_f64());
    }
}
