//! A relay without any protocol, to measure what the runtime itself costs: what comes from port
//! `a` of an address goes to port `b` of it and back. It listens on port `a - 1`, as the bench's
//! floor relay does, over UDP and TCP.
//!
//!     relay 127.0.0.1 7001 7002 SECONDS [WORKERS]
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use wire::{Arrival, ConnId, Flow, Frame, FrameError, ListenerId, Machine, Outbox, Time, Transport};
use worker_runtime::{Listener, Runtime, RuntimeConfig};

struct Relay {
    a: SocketAddr,
    b: SocketAddr,
    /// The TCP connection that came before, for the bench's two.
    streams: Vec<ConnId>,
}

impl Machine for Relay {
    type Notice = ();

    fn frame(&self, _: Transport, buffer: &[u8], _: usize) -> Frame {
        Frame::Message { skip: 0, len: buffer.len() }
    }

    fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        Some(u16::from(message.first().copied().unwrap_or(0)) % workers)
    }

    fn receive(&mut self, arrival: Arrival<'_>, out: &mut Outbox) -> Option<u16> {
        if let Some(other) = arrival.other_owner(self) {
            return Some(other);
        }
        let Arrival { flow, message, .. } = arrival;
        let remote = if flow.remote.port() == self.a.port() { self.b } else { self.a };
        let Some(conn) = flow.conn else {
            out.send(Flow::udp(ListenerId(0), remote), 0, message);
            return None;
        };
        if !self.streams.contains(&conn) {
            self.streams.push(conn);
        }
        let other = self.streams.iter().copied().find(|other| *other != conn);
        out.send(Flow { conn: Some(other.unwrap_or(conn)), ..flow }, 0, message);
        None
    }

    fn refuse(&mut self, _: Time, _: Flow, _: &[u8], _: FrameError, _: &mut Outbox) {}
    fn disconnected(&mut self, _: Time, conn: ConnId, _: &mut Outbox) {
        self.streams.retain(|other| *other != conn);
    }
    fn undeliverable(&mut self, _: Time, _: u64, _: &mut Outbox) {}
    fn notice(&mut self, _: Time, _: (), _: &mut Outbox) {}
    fn timeout(&mut self, _: Time, _: &mut Outbox) {}
    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

#[allow(clippy::disallowed_methods, reason = "the main thread of a measurement waits")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [ip, a, b, secs, rest @ ..] = words.as_slice() else {
        return Err("see the head of this file".into());
    };
    let (ip, a, b): (IpAddr, u16, u16) = (ip.parse()?, a.parse()?, b.parse()?);
    let workers: usize = rest.first().map_or(Ok(1), |word| word.parse())?;
    let address = SocketAddr::new(ip, a - 1);
    let listeners =
        [Transport::Udp, Transport::Tcp].map(|transport| Listener { transport, address }).to_vec();
    let config = RuntimeConfig { listeners, ..RuntimeConfig::default() };
    let relay = || Relay { a: SocketAddr::new(ip, a), b: SocketAddr::new(ip, b), streams: Vec::new() };
    let runtime = Runtime::start(config, (0..workers).map(|_| relay()).collect())?;
    std::thread::sleep(Duration::from_secs_f64(secs.parse()?));
    for (name, _, count) in runtime.handle().counts().each().filter(|(.., count)| *count > 0) {
        println!("{name} {count}");
    }
    runtime.handle().shutdown();
    runtime.join().map_err(|panics| format!("{panics:?}").into())
}
