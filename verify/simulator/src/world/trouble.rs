//! What goes wrong: faults, and the attacker.

use super::{Event, World, address};
use crate::attack::{self, ATTACKER, FORGED, Knowledge};
use crate::disk::Faults;
use crate::network::Place;
use crate::scenario::Fault;
use sip_node::Notice;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::{Machine, Transport};

impl World {
    pub(super) fn fault(&mut self, fault: Fault) {
        self.trace.note(self.now, format!("{fault:?}"));
        match fault {
            Fault::Crash { site, down } => {
                if self.sites[site].up {
                    match self.rng.chance(500) {
                        true => self.crash(site, down, false),
                        // In the midst of one of the next operations of its disk.
                        false => self.sites[site].disk.end_after(self.rng.below(12)),
                    }
                }
            }
            Fault::Clock(seconds) => self.set_wall(seconds),
            Fault::Cut { ip, length } => self.network.cut(ip, self.now + length),
            Fault::Streams { site } => self.break_streams(site),
            Fault::Store { site, length } => {
                let full = self.rng.chance(500);
                let (write, sync) = (self.rng.pick(&[0, 300, 1_000], 0), self.rng.pick(&[0, 300, 1_000], 0));
                let s = &mut self.sites[site];
                s.disk.set_faults(Faults { full, write, sync, unreadable: None });
                s.fails_until = s.fails_until.max(self.now + length);
                self.at(self.now + length, Event::StoreUp(site));
            }
            Fault::Names { length } => self.answers.fail_names(self.now + length),
            Fault::Drain { site } => self.tell_all(site, |_| Notice::Drain),
            Fault::Rebind { phone } => {
                let now = self.now;
                self.translators[phone].iter_mut().for_each(|translator| translator.rebind(now));
            }
            Fault::Reload { site, revision } => {
                let settings = Arc::new(self.sites[site].settings(revision));
                self.tell_all(site, |_| Notice::Settings(settings.clone()));
            }
        }
    }

    pub(super) fn tell_all(&mut self, site: usize, notice: impl Fn(usize) -> Notice) {
        self.sites[site].epoch += 1;
        for worker in 0..self.sites[site].nodes.len() {
            let notice = notice(worker);
            self.drive(site, worker, |node, now, out| node.notice(now, notice, out));
        }
    }

    pub(super) fn attack(&mut self) {
        let heard: Vec<Vec<u8>> = self.heard.iter().cloned().collect();
        let site = self.rng.index(self.sites.len());
        let (domain, server) = (self.sites[site].spec.domain.clone(), self.sites[site].spec.address);
        let user = self.rng.pick(&["alice", "bob", "off"], "alice");
        let trunks: Vec<SocketAddr> = self.sites[site].spec.trunks.iter().map(|t| t.neighbour).collect();
        let recorded = self.sites[site].spec.record_route;
        let know = Knowledge { heard: &heard, user, domain: &domain, server, trunks: &trunks, recorded };
        let shot = attack::shot(&mut self.rng, &know);
        let from = address(if shot.forged { FORGED } else { ATTACKER });
        let Some(piece) = shot.stream else {
            if shot.forged
                && let Some(balance) = self.monitor.reflected.get_mut(&from)
            {
                // A doubled datagram is two requests.
                *balance += 2;
            }
            return self.send_datagram(from, server, shot.bytes, None);
        };
        self.network.next_port = self.network.next_port.wrapping_add(1).max(50_000);
        let local = SocketAddr::new(from.ip(), self.network.next_port);
        if let Some(id) = self.connect((Place::Attacker, Transport::Tcp), local, server, None) {
            self.monitor.peers.push(local);
            for piece in shot.bytes.chunks(piece) {
                self.send_on(id, 0, piece.to_vec(), None);
            }
            let at = self.now + self.rng.millis(500, 20_000);
            self.at(at, Event::Closed { conn: id });
        }
    }
}
