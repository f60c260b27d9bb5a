//! From the unspecified address to the addresses of this machine.
//!
//! A proxy writes its address into every message, so it must know which one a message came in on.
//! `0.0.0.0` is therefore opened as one listener for each address of the machine; of SCTP as one with all of
//! them.

use control::config::Listener;
use std::io;
use std::net::{IpAddr, SocketAddr};
use wire::Transport;

/// The listeners with every unspecified address replaced. Listeners marked optional are left out where
/// the machine lacks the address family.
///
/// # Errors
/// If the interfaces cannot be read, or a listener that is not optional has no address.
pub fn expand(listeners: &[Listener]) -> io::Result<Vec<Listener>> {
    let mut all: Vec<Listener> = Vec::new();
    for listener in listeners {
        let before = all.len();
        if listener.address.ip().is_unspecified() {
            let found = addresses(listener.address.is_ipv4())?;
            // An association has all of them.
            if let (Transport::Sctp, Some((first, more))) = (listener.transport, found.split_first()) {
                let address = SocketAddr::new(*first, listener.address.port());
                push(&mut all, Listener { address, more: more.to_vec(), ..listener.clone() });
                continue;
            }
            for ip in found {
                push(
                    &mut all,
                    Listener { address: SocketAddr::new(ip, listener.address.port()), ..listener.clone() },
                );
            }
        } else {
            push(&mut all, listener.clone());
        }
        if all.len() == before && !listener.optional {
            let what = format!("{listener}: this machine has no address of that family");
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, what));
        }
    }
    Ok(all)
}

fn push(all: &mut Vec<Listener>, listener: Listener) {
    let twice = all.iter().any(|l| {
        l.transport == listener.transport && l.address == listener.address && listener.address.port() != 0
    });
    if !twice {
        all.push(listener);
    }
}

/// The machine's addresses of one family, loopback last, link-local ones left out: they mean nothing
/// without an interface, which a SIP URI cannot name.
fn addresses(v4: bool) -> io::Result<Vec<IpAddr>> {
    let mut found: Vec<IpAddr> = if_addrs::get_if_addrs()?
        .into_iter()
        .map(|interface| interface.ip())
        .filter(|ip| ip.is_ipv4() == v4)
        .filter(|ip| match ip {
            IpAddr::V4(_) => true,
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
        })
        .collect();
    found.sort_by_key(|ip| (ip.is_loopback(), *ip));
    found.dedup();
    Ok(found)
}
