//! Where calls leave from: one socket for each worker, for each address, or for each call.

use super::args::LoadArgs;
use super::ways::Sockets as Kind;
use load::engine::Origin;
use load::report::Fact;
use load::scenario::Injections;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wire::{ListenerId, Transport};
use worker_runtime::Listener;

/// Sockets of `-t un` where neither `-max_socket` nor `-l` nor `-m` says how many.
const SOCKETS: usize = 1_000;
/// Addresses that a range may have, and sockets altogether: listeners have 16 bits.
const MOST: usize = 60_000;

/// The listeners of a run and whose they are.
pub struct Sockets {
    pub listeners: Vec<Listener>,
    /// How many come first that all workers serve; the others are of one worker each, in turn.
    pub shared: usize,
    pub workers: usize,
    pub origin: Origin,
    /// Connections at a time, where calls have one each and their number is known.
    pub connections: usize,
}

/// What the run has to serve.
#[derive(Clone, Copy)]
pub struct Needs {
    pub transport: Transport,
    /// The address where none is chosen.
    pub local: IpAddr,
    pub workers: usize,
    /// Whether calls begin here.
    pub client: bool,
    /// Whether calls come in.
    pub server: bool,
}

impl Sockets {
    /// What the command line asks for.
    pub fn new(args: &LoadArgs, needs: Needs, injections: &Injections) -> Result<Sockets, String> {
        let Needs { transport, local, workers, client, server } = needs;
        let mut addresses = match &args.sipp.from {
            Some(text) => addresses(text)?,
            None => vec![local],
        };
        let listener = |ip, port| Listener { transport, address: SocketAddr::new(ip, port) };
        let first = addresses.first().copied().unwrap_or(local);
        if !client {
            if addresses.len() > 1 && args.sockets() != Kind::Address {
                return Err(several(addresses.len()));
            }
            let port = args.local_port.unwrap_or(transport.default_port());
            let listeners: Vec<Listener> = addresses.iter().map(|&ip| listener(ip, port)).collect();
            return Ok(Sockets {
                shared: listeners.len(),
                listeners,
                workers,
                origin: Origin::Turn,
                connections: 0,
            });
        }
        let mut listeners = Vec::new();
        if server {
            listeners.push(listener(first, args.local_port.unwrap_or(0)));
        }
        let shared = listeners.len();
        let fielded = args.sockets() == Kind::Address && args.sipp.from.is_none();
        if fielded {
            let field = args.sipp.ip_field.unwrap_or(0);
            addresses = addresses_of(injections, field)?;
            let own = addresses.iter().enumerate();
            let by_address: BTreeMap<IpAddr, ListenerId> =
                own.map(|(nth, &ip)| (ip, ListenerId((nth + shared) as u16))).collect();
            listeners.extend(addresses.iter().map(|&ip| listener(ip, args.local_port.unwrap_or(0))));
            if server && args.local_port.is_some() && addresses.contains(&first) {
                return Err(format!("-p: {first} is where calls come in and in the injection file as well"));
            }
            let origin = Origin::Field { field, listeners: by_address };
            return Ok(Sockets { shared: listeners.len(), listeners, workers, origin, connections: 0 });
        }
        let (count, origin) = match args.sockets() {
            Kind::Call if transport != Transport::Udp => (workers.max(addresses.len()), Origin::Connection),
            Kind::Call => (sockets_of_calls(args).max(workers), Origin::Call),
            Kind::Address => (addresses.len(), Origin::Turn),
            _ if addresses.len() > 1 => return Err(several(addresses.len())),
            _ => (workers, Origin::Turn),
        };
        // A worker without an address could begin no call.
        let workers = workers.min(count);
        for nth in 0..count {
            let ip = addresses.get(nth % addresses.len()).copied().unwrap_or(local);
            // Of one address, one port for each socket.
            let port = port(args, nth / addresses.len() + shared, count)?;
            listeners.push(listener(ip, port));
        }
        let connections =
            if args.has_connections_of_calls() { calls_at_a_time(args).unwrap_or(0) } else { 0 };
        Ok(Sockets { listeners, shared, workers, origin, connections })
    }

    /// Where calls of a worker begin, in turn.
    pub fn own(&self, worker: usize) -> Vec<ListenerId> {
        let own = (self.shared..self.listeners.len()).skip(worker).step_by(self.workers.max(1));
        own.map(|index| ListenerId(index as u16)).collect()
    }
}

fn several(count: usize) -> String {
    format!("-i: {count} addresses are for -t ui (a socket for each) or -t un (a socket for each call)")
}

fn port(args: &LoadArgs, nth: usize, count: usize) -> Result<u16, String> {
    let Some(first) = args.local_port else { return Ok(0) };
    u16::try_from(usize::from(first) + nth)
        .map_err(|_| format!("-p {first}: there are no {count} ports from there; choose a lower one"))
}

/// Whether options that choose sockets have any to choose.
pub fn known_options(args: &LoadArgs, begins: bool) -> Result<(), String> {
    let way = (args.over(), args.sockets());
    if let Some(field) = args.sipp.traces.cid_field {
        if !begins {
            return Err(format!("-cid_field {field}: this scenario only answers; leave it out"));
        }
        if args.inf.is_empty() {
            return Err(format!("-cid_field {field}: it is a field of the first injection file; add -inf"));
        }
    }
    if let Some(most) = args.sipp.max_socket {
        let why = match way {
            _ if !begins => "this scenario only answers, where calls come in",
            (Transport::Udp, Kind::Call) => return Ok(()),
            (_, Kind::Call) => "each call has a connection, and none is shared; -l limits calls under way",
            _ => "sockets are counted with -t un, where each call has one",
        };
        return Err(format!("-max_socket {most}: {why}; leave it out"));
    }
    if let Some(field) = args.sipp.ip_field {
        let why = match way.1 {
            _ if !begins => "this scenario only answers, at the addresses of -i",
            Kind::Address if args.sipp.from.is_none() => return Ok(()),
            Kind::Address => "the addresses are those of -i",
            _ => "local addresses are taken from the injection file with -t ui",
        };
        return Err(format!("-ip_field {field}: {why}; leave it out"));
    }
    Ok(())
}

/// What a report says of lateness where nobody knows when a message came.
pub fn unnoted(args: &LoadArgs) -> Option<Fact> {
    let text =
        "not known over connections: what lay here unread counts as the server's time, not as lateness";
    (args.over() != Transport::Udp).then(|| Fact::new("when a message came", text))
}

/// How many calls there can be under way at most, if the command line says so.
fn calls_at_a_time(args: &LoadArgs) -> Option<usize> {
    let calls = args.most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    // No machine allows this number of descriptors, and others are added.
    [args.limit, calls].into_iter().flatten().min().map(|calls| calls.min(u32::MAX as usize))
}

/// How many sockets are enough for a socket to each call.
fn sockets_of_calls(args: &LoadArgs) -> usize {
    let calls = args.most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    let asked = args.sipp.max_socket.or(args.limit).or(calls).unwrap_or(SOCKETS);
    let bounds = [args.limit, calls, args.sipp.max_socket].into_iter().flatten();
    bounds.fold(asked, usize::min).clamp(1, MOST)
}

/// A list of addresses: `A,B,C`, with ranges `A-B`.
pub fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    let wrong = |part: &str| format!("-i {part}: addresses are written A, A,B,C or A-B");
    let mut all = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (IpAddr, IpAddr) =
            (from.parse().map_err(|_| wrong(part))?, to.parse().map_err(|_| wrong(part))?);
        let (low, high, make): (u128, u128, fn(u128) -> IpAddr) = match (from, to) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (u32::from(a).into(), u32::from(b).into(), |n| IpAddr::V4((n as u32).into()))
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.into(), b.into(), |n| IpAddr::V6(n.into())),
            _ => return Err(wrong(part)),
        };
        let many = high.checked_sub(low).ok_or_else(|| wrong(part))?;
        if many.saturating_add(all.len() as u128) >= MOST as u128 {
            return Err(format!("-i {part}: at most {MOST} addresses"));
        }
        all.extend((low..=high).map(make));
    }
    Ok(all)
}

/// The addresses in a field of the first injection file, each once.
fn addresses_of(injections: &Injections, field: usize) -> Result<Vec<IpAddr>, String> {
    let Some(file) = injections.files.first() else {
        return Err(
            "-t ui: give the local addresses with -i A-B, or an injection file that has one in each line \
                    (-inf, -ip_field)"
                .into(),
        );
    };
    let mut all = std::collections::BTreeSet::new();
    let mut text = Vec::new();
    for line in 0..file.lines() {
        text.clear();
        let there = file.write(line, field, &mut text);
        let address = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok());
        match address {
            Some(address) => all.insert(address),
            None => {
                let (name, nth, text) = (&file.name, line + 1, String::from_utf8_lossy(&text));
                return Err(match there {
                    true => format!(
                        "{name}: line {nth} of the data: `{text}' in field {field} is no address; -ip_field says \
                         which field has it"
                    ),
                    false => format!("{name}: line {nth} of the data has no field {field} (-ip_field)"),
                });
            }
        };
        if all.len() > MOST {
            return Err(format!("{}: more than {MOST} addresses in field {field}", file.name));
        }
    }
    Ok(all.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_sockets_to_choose_are_refused() {
        let said = |line: &str, begins| {
            let load = LoadArgs::of(line.split(' '));
            known_options(&load, begins)
        };
        for good in
            ["-t un --max-socket 5", "-t ui --ip-field 1", "-t ui", "-t tn", "-t ln", "-t w1", "-t u1"]
        {
            assert_eq!(said(good, true), Ok(()), "{good}");
        }
        for (line, why) in [
            ("-t u1 --max-socket 5", "-max_socket 5: sockets are counted with -t un"),
            ("-t ui --max-socket 5", "-t un"),
            ("-t t1 --max-socket 5", "-t un"),
            ("-t tn --max-socket 5", "-l limits calls"),
            ("-t ln --max-socket 5", "-l limits calls"),
            ("-t wssn --max-socket 5", "-l limits calls"),
            ("-t s1 --max-socket 5", "-t un"),
            ("-t u1 --ip-field 1", "-ip_field 1: "),
            ("-t un --ip-field 0", "with -t ui"),
            ("-t ui --ip-field 1 --from ::1,::2", "those of -i"),
            ("-t u1 --cid-field 1", "add -inf"),
        ] {
            assert!(said(line, true).is_err_and(|said| said.contains(why)), "{line}");
        }
        for line in ["-t un --max-socket 5", "-t ui --ip-field 1", "--inf x --cid-field 1"] {
            assert!(said(line, false).is_err_and(|said| said.contains("only answers")), "{line}");
        }
    }

    #[test]
    fn a_report_says_where_nobody_knows_when_a_message_came() {
        let said = |transport: &str| {
            let load = LoadArgs::of(["-t", transport]);
            unnoted(&load).is_some()
        };
        let all = ["u1", "un", "ui", "t1", "tn", "l1", "w1", "sn"];
        assert_eq!(all.map(said), [false, false, false, true, true, true, true, true]);
    }

    #[test]
    fn addresses_come_in_lists_and_ranges() {
        let all = |text: &str| {
            addresses(text).map(|all| all.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(all("127.0.0.1").as_deref(), Ok("127.0.0.1"));
        assert_eq!(
            all("10.0.0.254-10.0.1.1,::1").as_deref(),
            Ok("10.0.0.254 10.0.0.255 10.0.1.0 10.0.1.1 ::1")
        );
        assert_eq!(all("::1-::3").as_deref(), Ok("::1 ::2 ::3"));
        for wrong in ["", "x", "10.0.0.2-10.0.0.1", "10.0.0.1-::1", "10.0.0.0-10.255.255.255", "::-ffff::"] {
            assert!(all(wrong).is_err(), "{wrong}");
        }
    }
}
