//! Which worker a message is for.

use super::Settings;
use super::words::{read_branch, read_call_id};
use sip_message::{Uri, find_call_id, find_vias};

/// What says whose a message is.
pub struct Owners {
    /// Ports of all workers' users.
    ports: Vec<u16>,
    run: u32,
}

impl Owners {
    /// Of a run with these settings.
    pub fn new(settings: &Settings) -> Owners {
        let own = settings.listeners.iter().skip(usize::from(settings.own_from));
        Owners { ports: own.map(|address| address.port()).collect(), run: settings.run_id }
    }

    /// The worker of a message, if it says so.
    pub fn of(&self, message: &[u8]) -> Option<u16> {
        match message.starts_with(b"SIP/2.0 ") {
            true => self.of_response(message),
            false => self.of_request(message),
        }
    }

    /// That of the user in the Request-URI, otherwise (the mailbox) that of the caller.
    fn of_request(&self, message: &[u8]) -> Option<u16> {
        let uri = message.split(|&byte| byte == b' ').nth(1)?;
        let port = Uri::parse(uri).ok().and_then(|uri| uri.port);
        let worker = port.and_then(|port| self.ports.iter().position(|&own| own == port));
        worker.map(|worker| worker as u16).or_else(|| {
            let (_, name) = read_call_id(find_call_id(message)?, self.run)?;
            Some(name?.worker)
        })
    }

    fn of_response(&self, message: &[u8]) -> Option<u16> {
        let via = find_vias(message)?;
        let at = memchr::memmem::find(via, b"branch=")?;
        Some(read_branch(via.get(at + 7..)?, self.run)?.0.worker)
    }
}
