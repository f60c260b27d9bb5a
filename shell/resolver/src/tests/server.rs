//! A DNS server of a few lines: UDP and TCP on one port of loopback, answers by a function.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What to answer.
pub enum Reply {
    Records(Vec<Record>),
    /// NXDOMAIN with an SOA whose negative TTL is 17 seconds.
    NoSuchName,
    /// Another response code.
    Code(u8),
    Silence,
    /// The records, but only after the other name was asked (or released).
    HoldUntil(&'static str, Vec<Record>),
    /// Nothing and the TC bit over UDP, the records over TCP.
    TruncatedOverUdp(Vec<Record>),
    /// An owner name whose compression pointer points to itself.
    PointerLoop,
    /// The right number and then nonsense.
    Garbage,
}

/// One answer record about the name that was asked.
pub struct Record {
    kind: u16,
    ttl: u32,
    data: Vec<u8>,
}

impl Record {
    pub fn a(ttl: u32, address: Ipv4Addr) -> Record {
        Record { kind: 1, ttl, data: address.octets().to_vec() }
    }

    pub fn aaaa(ttl: u32, address: Ipv6Addr) -> Record {
        Record { kind: 28, ttl, data: address.octets().to_vec() }
    }

    pub fn cname(ttl: u32, target: &str) -> Record {
        Record { kind: 5, ttl, data: wire_name(target) }
    }

    pub fn srv(ttl: u32, priority: u16, weight: u16, port: u16, target: &str) -> Record {
        let mut data: Vec<u8> = [priority, weight, port].iter().flat_map(|n| n.to_be_bytes()).collect();
        data.extend(wire_name(target));
        Record { kind: 33, ttl, data }
    }

    pub fn naptr(
        ttl: u32,
        order: u16,
        preference: u16,
        flags: &str,
        service: &str,
        regexp: &str,
        replacement: &str,
    ) -> Record {
        let mut data: Vec<u8> = [order, preference].iter().flat_map(|n| n.to_be_bytes()).collect();
        for text in [flags, service, regexp] {
            data.push(u8::try_from(text.len()).unwrap());
            data.extend(text.as_bytes());
        }
        data.extend(wire_name(replacement));
        Record { kind: 35, ttl, data }
    }
}

/// What the server has seen, and what it holds back.
#[derive(Default)]
struct Seen {
    questions: Vec<String>,
    released: Vec<String>,
    held: Vec<(&'static str, SocketAddr, Vec<u8>)>,
    tcp: usize,
}

type Shared = Arc<(Mutex<Seen>, Condvar)>;

/// A running server. Its threads end with the process.
pub struct Server {
    address: SocketAddr,
    socket: UdpSocket,
    seen: Shared,
}

impl Server {
    /// Starts a server that answers a lower-case name and a record type with what `answer` says.
    pub fn start(answer: impl Fn(&str, u16) -> Reply + Send + Sync + 'static) -> Server {
        let (socket, listener) = loop {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            // The TCP port of the same number may be taken.
            if let Ok(listener) = TcpListener::bind(socket.local_addr().unwrap()) {
                break (socket, listener);
            }
        };
        let (answer, seen) = (Arc::new(answer), Shared::default());
        let address = socket.local_addr().unwrap();
        let (udp, udp_seen, udp_answer) = (socket.try_clone().unwrap(), seen.clone(), answer.clone());
        spawn(move || serve_udp(&udp, &udp_seen, &*udp_answer));
        let tcp_seen = seen.clone();
        spawn(move || serve_tcp(&listener, &tcp_seen, &*answer));
        Server { address, socket, seen }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many questions came.
    pub fn questions(&self) -> usize {
        self.seen.0.lock().unwrap().questions.len()
    }

    /// How many of them came over TCP.
    pub fn tcp_questions(&self) -> usize {
        self.seen.0.lock().unwrap().tcp
    }

    /// Waits until a name was asked.
    pub fn wait_for(&self, name: &str) {
        let seen = self.seen.0.lock().unwrap();
        let absent = |seen: &mut Seen| !seen.questions.iter().any(|n| n == name);
        drop(self.seen.1.wait_while(seen, absent).unwrap());
    }

    /// Lets go what is held until `name` is asked.
    pub fn release(&self, name: &str) {
        release(&self.socket, &mut self.seen.0.lock().unwrap(), name);
    }
}

#[allow(clippy::disallowed_methods, reason = "a server for a test needs a thread")]
fn spawn(work: impl FnOnce() + Send + 'static) {
    thread::spawn(work);
}

fn release(socket: &UdpSocket, seen: &mut Seen, name: &str) {
    seen.released.push(name.to_owned());
    let (free, held) = std::mem::take(&mut seen.held).into_iter().partition(|(until, ..)| *until == name);
    seen.held = held;
    let free: Vec<(&str, SocketAddr, Vec<u8>)> = free;
    for (_, peer, bytes) in free {
        socket.send_to(&bytes, peer).unwrap();
    }
}

fn serve_udp(socket: &UdpSocket, seen: &Shared, answer: &dyn Fn(&str, u16) -> Reply) {
    let mut buffer = [0; 4096];
    while let Ok((len, peer)) = socket.recv_from(&mut buffer) {
        let query = Query::read(&buffer[..len]);
        let mut now = seen.0.lock().unwrap();
        now.questions.push(query.name.clone());
        seen.1.notify_all();
        release(socket, &mut now, &query.name);
        let bytes = match answer(&query.name, query.kind) {
            Reply::HoldUntil(until, records) if !now.released.iter().any(|name| name == until) => {
                now.held.push((until, peer, query.answer(&records)));
                continue;
            }
            Reply::TruncatedOverUdp(_) => query.reply(0x0200, &[], false),
            reply => match query.bytes_of(reply) {
                Some(bytes) => bytes,
                None => continue,
            },
        };
        socket.send_to(&bytes, peer).unwrap();
    }
}

fn serve_tcp(listener: &TcpListener, seen: &Shared, answer: &dyn Fn(&str, u16) -> Reply) {
    while let Ok((mut stream, _)) = listener.accept() {
        let mut length = [0; 2];
        while stream.read_exact(&mut length).is_ok() {
            let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut bytes).unwrap();
            let query = Query::read(&bytes);
            seen.0.lock().unwrap().tcp += 1;
            if let Some(bytes) = query.bytes_of(answer(&query.name, query.kind)) {
                stream.write_all(&u16::try_from(bytes.len()).unwrap().to_be_bytes()).unwrap();
                stream.write_all(&bytes).unwrap();
            }
        }
    }
}

/// A question as received.
struct Query {
    id: [u8; 2],
    name: String,
    kind: u16,
    /// Name, type and class, to be echoed.
    question: Vec<u8>,
}

impl Query {
    fn read(bytes: &[u8]) -> Query {
        let (mut at, mut labels) = (12, Vec::new());
        while bytes[at] != 0 {
            let len = usize::from(bytes[at]);
            labels.push(String::from_utf8_lossy(&bytes[at + 1..=at + len]).to_ascii_lowercase());
            at += len + 1;
        }
        let kind = u16::from_be_bytes([bytes[at + 1], bytes[at + 2]]);
        let question = bytes[12..at + 5].to_vec();
        Query { id: [bytes[0], bytes[1]], name: labels.join("."), kind, question }
    }

    fn bytes_of(&self, reply: Reply) -> Option<Vec<u8>> {
        Some(match reply {
            Reply::Records(records) | Reply::TruncatedOverUdp(records) | Reply::HoldUntil(_, records) => {
                self.answer(&records)
            }
            Reply::NoSuchName => self.reply(3, &[], true),
            Reply::Code(code) => self.reply(code.into(), &[], false),
            Reply::Silence => return None,
            Reply::PointerLoop => {
                let mut bytes = self.reply(0, &[], false);
                bytes[7] = 1;
                let own_place = 0xc000 | u16::try_from(bytes.len()).unwrap();
                bytes.extend(own_place.to_be_bytes());
                bytes.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
                bytes
            }
            Reply::Garbage => [&self.id[..], &[0xff; 40]].concat(),
        })
    }

    fn answer(&self, records: &[Record]) -> Vec<u8> {
        self.reply(0, records, false)
    }

    /// Response code and further flags in `flags`; with an SOA or without.
    fn reply(&self, flags: u16, records: &[Record], soa: bool) -> Vec<u8> {
        let mut bytes = self.id.to_vec();
        let count = u16::try_from(records.len()).unwrap();
        // Response, recursion desired and available.
        for word in [0x8180 | flags, 1, count, u16::from(soa), 0] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(&self.question);
        for record in records {
            bytes.extend(record_bytes(record.kind, record.ttl, &record.data));
        }
        if soa {
            let mut data = [wire_name("ns.example"), wire_name("root.example")].concat();
            data.extend([1_u32, 3600, 600, 86_400, 17].iter().flat_map(|n| n.to_be_bytes()));
            bytes.extend(record_bytes(6, 3600, &data));
        }
        bytes
    }
}

/// A record about the name in the question, which stands at offset 12.
fn record_bytes(kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xc0, 12];
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(ttl.to_be_bytes());
    bytes.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

fn wire_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}
