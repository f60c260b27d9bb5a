//! `strowger ctl connections`: the workers are asked for a part of their connections at a time.

use crate::operator::PATIENCE;
use control::admin::{Connection, ConnectionFilter, Listing, Page};
use std::sync::mpsc::sync_channel;
use worker_runtime::{ConnectionView, Portion, Question, RuntimeHandle, Wanted};

/// Connections shown in one part, which a worker gathers between two rounds: a system call for each.
const PART: usize = 64;
/// Parts asked for one page. One of few connections among many thousands ends here and says where to go on.
const PARTS: usize = 1_000;

/// One page, worker by worker. `None` if [`Page::after`] is nothing that a page could have ended with.
pub fn list<N: Send + 'static>(
    handle: &RuntimeHandle<N>,
    filter: &ConnectionFilter,
    page: &Page,
) -> Option<Listing<Connection>> {
    let (mut worker, mut from) = page.after.as_deref().map_or(Some((0, 0)), parse)?;
    let wanted = Wanted { transport: filter.transport, ip: filter.peer, port: filter.port };
    let mut items = Vec::new();
    for _ in 0..PARTS {
        if worker >= handle.workers() {
            return Some(Listing { items, next: None });
        }
        if items.len() >= page.limit {
            break;
        }
        let most = PART.min(page.limit - items.len());
        let portion = ask(handle, worker, wanted, (from, most));
        let next = portion.as_ref().and_then(|portion| portion.next);
        let found = portion.map(|portion| portion.items).unwrap_or_default();
        let found = found.into_iter().map(|view| shown(view, worker));
        items.extend(found.filter(|connection| is_searched(filter, connection)));
        // A worker that does not answer has none to show; the status names it.
        (worker, from) = next.map_or((worker + 1, 0), |next| (worker, next));
    }
    Some(Listing { items, next: Some(format!("{worker}.{from}")) })
}

/// Whether a connection has what is searched for.
fn is_searched(filter: &ConnectionFilter, connection: &Connection) -> bool {
    let names = connection.names.iter().map(String::as_bytes);
    let texts: Vec<&[u8]> = names.chain([connection.peer.as_bytes()]).collect();
    filter.search.takes(&texts)
}

fn ask<N: Send + 'static>(
    handle: &RuntimeHandle<N>,
    worker: u16,
    wanted: Wanted,
    (from, most): (u32, usize),
) -> Option<Portion> {
    let (send, receive) = sync_channel(1);
    let show = Box::new(move |portion| {
        let _ = send.try_send(portion);
    });
    handle.ask_connections(worker, Question { wanted, from, most, show }).ok()?;
    receive.recv_timeout(PATIENCE).ok()
}

fn parse(mark: &str) -> Option<(u16, u32)> {
    let (worker, from) = mark.split_once('.')?;
    Some((worker.parse().ok()?, from.parse().ok()?))
}

fn shown(view: ConnectionView, worker: u16) -> Connection {
    let agreed = view.tls.as_ref();
    let names = agreed.and_then(|agreed| agreed.peer.as_ref()).map(|peer| {
        let addresses = peer.addresses().iter().map(ToString::to_string);
        peer.domains().map(str::to_owned).chain(addresses).collect()
    });
    Connection {
        transport: view.transport.to_string(),
        peer: view.remote.to_string(),
        names: names.unwrap_or_default(),
        inbound: view.inbound,
        state: view.state.to_owned(),
        age_s: view.age.as_secs(),
        idle_s: view.idle.min(view.age).as_secs(),
        bytes_in: view.bytes_in,
        bytes_out: view.bytes_out,
        queued: view.queued as u64,
        tls: agreed.map(|agreed| agreed.version.to_owned()),
        suite: agreed.map(|agreed| agreed.suite.to_owned()),
        worker,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_of_a_page_is_worker_and_place() {
        assert_eq!(parse("3.70"), Some((3, 70)));
        assert_eq!([parse("3"), parse("3.x"), parse("70000.1"), parse("")], [None; 4]);
    }
}
