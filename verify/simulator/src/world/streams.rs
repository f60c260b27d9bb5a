//! Stream connections: opening, carrying messages in order, breaking.

use super::{Event, World};
use crate::network::{Conn, End, Place, Ticket};
use crate::phone::Source;
use crate::site::{TCP, TLS};
use crate::trace::Fate;
use core::time::Duration;
use std::net::SocketAddr;
use wire::{ConnId, Flow, Frame, Machine, Transport};

impl World {
    /// The name of a connection of a site, which the peer has opened or not.
    fn new_conn_id(&mut self, site: usize, accepted: bool) -> (ConnId, u32) {
        let worker = self.rng.below(self.sites[site].spec.workers.into()) as u16;
        let s = &mut self.sites[site];
        s.next_conn += 1;
        let id = if accepted { ConnId::accepted } else { ConnId::new };
        (id(worker, s.next_conn), s.life)
    }

    /// Opens a connection; `None`: refused.
    pub(super) fn connect(
        &mut self,
        (from, transport): (Place, Transport),
        local: SocketAddr,
        to: SocketAddr,
        ticket: Option<Ticket>,
    ) -> Option<u64> {
        let place = self.network.at(to).filter(|p| match p {
            Place::Site(site) => self.sites[*site].up,
            Place::Phone(_) => true,
            Place::Attacker => false,
        });
        let cut = self.network.is_cut(self.now, local.ip(), to.ip());
        let Some(place) = place.filter(|_| !cut) else {
            if let Some(ticket) = ticket {
                let wait = if cut { Duration::from_secs(6) } else { self.network.delay() };
                self.at(self.now + wait, Event::Undeliverable(ticket));
            }
            return None;
        };
        let end = |world: &mut World, place, address, accepted| {
            let conn = match place {
                Place::Site(site) => Some(world.new_conn_id(site, accepted)),
                _ => None,
            };
            End { place, address, conn, buffer: Vec::new(), resume: 0, clear: world.now }
        };
        let ends = [end(self, from, local, false), end(self, place, to, true)];
        let id = self.network.next_conn;
        self.network.next_conn += 1;
        self.network.conns.insert(id, Conn { ends, transport });
        Some(id)
    }

    /// Whether there is a connection for a message of this flow.
    pub(super) fn has_conn(&self, site: usize, flow: Flow) -> bool {
        match flow.conn {
            Some(conn) => self.network.find_own(site, conn).is_some(),
            None => self.network.find(Place::Site(site), flow.remote).is_some(),
        }
    }

    pub(super) fn send_stream(
        &mut self,
        site: usize,
        existing: bool,
        flow: Flow,
        bytes: Vec<u8>,
        ticket: Option<Ticket>,
    ) {
        let found = match flow.conn {
            Some(conn) => self.network.find_own(site, conn),
            None => self.network.find(Place::Site(site), flow.remote),
        };
        let found = match (found, flow.conn) {
            (Some(found), _) => Some(found),
            (None, Some(_)) => None,
            (None, None) if existing => None,
            (None, None) => {
                self.network.next_port = self.network.next_port.wrapping_add(1).max(50_000);
                let local = SocketAddr::new(self.sites[site].spec.address.ip(), self.network.next_port);
                match self.connect((Place::Site(site), flow.transport), local, flow.remote, ticket) {
                    Some(id) => Some((id, 0)),
                    // The ticket has been told already.
                    None => {
                        return self.trace.message(self.now, local, flow.remote, &bytes, Fate::Lost);
                    }
                }
            }
        };
        match found {
            Some((id, side)) => self.send_on(id, side, bytes, ticket),
            None => {
                let from = self.sites[site].spec.address;
                self.trace.message(self.now, from, flow.remote, &bytes, Fate::Lost);
                if let Some(ticket) = ticket {
                    self.at(self.now, Event::Undeliverable(ticket));
                }
            }
        }
    }

    pub(super) fn send_on(&mut self, id: u64, side: usize, bytes: Vec<u8>, ticket: Option<Ticket>) {
        let Some(conn) = self.network.conns.get(&id) else { return };
        let (from, to) = (conn.ends[side].address, conn.ends[1 - side].address);
        if self.network.is_cut(self.now, from.ip(), to.ip()) {
            // TCP tries for a while; then the connection is gone.
            self.trace.message(self.now, from, to, &bytes, Fate::Lost);
            if let Some(ticket) = ticket {
                self.at(self.now + Duration::from_secs(9), Event::Undeliverable(ticket));
            }
            return self.at(self.now + Duration::from_secs(9), Event::Closed { conn: id });
        }
        self.trace.message(self.now, from, to, &bytes, Fate::Sent);
        let at = self.network.arrival(self.now, id, 1 - side);
        self.at(at, Event::Stream { conn: id, to: 1 - side, bytes, ticket });
    }

    pub(super) fn stream_arrives(&mut self, id: u64, to: usize, bytes: &[u8], ticket: Option<Ticket>) {
        let Some(conn) = self.network.conns.get_mut(&id) else {
            // Broken under way. Sometimes the sender learns of it.
            if let Some(ticket) = ticket.filter(|_| self.network.chance(500)) {
                self.at(self.now, Event::Undeliverable(ticket));
            }
            return;
        };
        let remote = conn.ends[1 - to].address;
        match conn.ends[to].place {
            Place::Phone(phone) => {
                let source = Source { address: remote, conn: Some(id) };
                self.with_phone(phone, |phone, now| phone.receive(now, source, bytes));
            }
            Place::Site(site) => {
                conn.ends[to].buffer.extend_from_slice(bytes);
                self.read_stream(id, to, site, remote);
            }
            Place::Attacker => {}
        }
    }

    /// Takes whole messages off a stream, as the runtime does.
    pub(super) fn read_stream(&mut self, id: u64, to: usize, site: usize, remote: SocketAddr) {
        loop {
            if !self.sites[site].up {
                return;
            }
            let Some(conn) = self.network.conns.get_mut(&id) else { return };
            let end = &mut conn.ends[to];
            let Some((name, _)) = end.conn else { return };
            if end.buffer.is_empty() {
                return;
            }
            let transport = conn.transport;
            let listener = if transport == Transport::Tls { TLS } else { TCP };
            let flow = Flow { transport, listener, remote, conn: Some(name) };
            match self.sites[site].nodes[0].frame(flow.transport, &end.buffer, end.resume) {
                Frame::Partial { resume } => {
                    end.resume = resume;
                    return;
                }
                Frame::Idle => return,
                Frame::Skip { len } => {
                    end.buffer.drain(..len);
                    end.resume = 0;
                }
                Frame::Ping { len, pong } => {
                    end.buffer.drain(..len);
                    end.resume = 0;
                    self.send_on(id, to, pong.to_vec(), None);
                }
                Frame::Message { skip, len } => {
                    let message = end.buffer.drain(..skip + len).skip(skip).collect::<Vec<u8>>();
                    end.resume = 0;
                    self.deliver(site, flow, &message);
                }
                Frame::Broken { len, error } => {
                    let head = end.buffer.drain(..len).collect::<Vec<u8>>();
                    end.buffer.clear();
                    let who = self.who(site);
                    self.monitor.received(self.now, who, remote, &head);
                    let worker = usize::from(name.worker());
                    self.drive(site, worker, |node, now, out| node.refuse(now, flow, &head, error, out));
                    let at = self.now + Duration::from_millis(200);
                    return self.at(at, Event::Closed { conn: id });
                }
            }
        }
    }

    pub(super) fn break_conn(&mut self, id: u64) {
        let Some(conn) = self.network.conns.remove(&id) else { return };
        self.network.broken += u64::from(conn.transport == Transport::Tls);
        for end in conn.ends {
            match (end.place, end.conn) {
                (Place::Phone(phone), _) => self.with_phone(phone, |phone, now| phone.connection_lost(now)),
                (Place::Site(site), Some((name, life))) if self.is_alive(site, life) => {
                    for worker in 0..self.sites[site].nodes.len() {
                        self.drive(site, worker, |node, now, out| node.disconnected(now, name, out));
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn break_streams(&mut self, site: usize) {
        let ids: Vec<u64> = self
            .network
            .conns
            .iter()
            .filter(|(_, c)| c.ends.iter().any(|e| e.place == Place::Site(site)))
            .map(|(&id, _)| id)
            .collect();
        for id in ids {
            self.break_conn(id);
        }
    }
}
