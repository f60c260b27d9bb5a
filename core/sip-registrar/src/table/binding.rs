//! How one binding lies in its cell: no field costs a byte that its value does not need.

use super::bytes::{Reader, push_bytes, push_varint};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use wire::{ConnId, Flow, ListenerId, Time, Transport};

/// [`BindingView`](crate::BindingView) with the User-Agent as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Binding<'a> {
    pub(crate) contact: &'a [u8],
    pub(crate) params: &'a [u8],
    pub(crate) q: u16,
    pub(crate) expires: Time,
    pub(crate) call_id: &'a [u8],
    pub(crate) cseq: u32,
    pub(crate) flow: Flow,
    pub(crate) path: &'a [u8],
    pub(crate) instance: &'a [u8],
    pub(crate) reg_id: u32,
    /// Index into the table's agents; 0: none.
    pub(crate) agent: u16,
}

const TRANSPORTS: [Transport; 6] =
    [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss, Transport::Sctp];
const TRANSPORT_MASK: u8 = 7;
const V6: u8 = 8;
const CONN: u8 = 16;
const Q: u8 = 32;
/// Has params, path, instance or reg-id.
const EXTRAS: u8 = 64;
const AGENT: u8 = 128;

impl<'a> Binding<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(0);
        let mut flags = TRANSPORTS.iter().position(|t| *t == self.flow.transport).unwrap_or(0) as u8;
        out.extend_from_slice(&self.expires.as_micros().to_le_bytes());
        out.extend_from_slice(&self.cseq.to_le_bytes());
        push_varint(out, u32::from(self.flow.listener.0));
        if encode_address(self.flow.remote, out) {
            flags |= V6;
        }
        if let Some(conn) = self.flow.conn {
            flags |= CONN;
            out.extend_from_slice(&conn.as_u64().to_le_bytes());
        }
        if self.q != 1000 {
            flags |= Q;
            out.extend_from_slice(&self.q.to_le_bytes());
        }
        push_bytes(out, self.contact);
        push_bytes(out, self.call_id);
        if self.agent != 0 {
            flags |= AGENT;
            push_varint(out, u32::from(self.agent));
        }
        if self.reg_id != 0 || !(self.params.is_empty() && self.path.is_empty() && self.instance.is_empty()) {
            flags |= EXTRAS;
            push_bytes(out, self.params);
            push_bytes(out, self.path);
            push_bytes(out, self.instance);
            push_varint(out, self.reg_id);
        }
        out[start] = flags;
    }

    pub(crate) fn decode(from: &mut Reader<'a>) -> Binding<'a> {
        let flags = from.byte();
        let expires = Time::from_micros(u64::from_le_bytes(from.array()));
        let cseq = u32::from_le_bytes(from.array());
        let listener = ListenerId(from.varint() as u16);
        let remote = decode_address(flags & V6 != 0, from);
        let conn = (flags & CONN != 0).then(|| ConnId::from_u64(u64::from_le_bytes(from.array())));
        let q = if flags & Q != 0 { u16::from_le_bytes(from.array()) } else { 1000 };
        let contact = from.bytes();
        let call_id = from.bytes();
        let agent = if flags & AGENT != 0 { from.varint() as u16 } else { 0 };
        let extras = flags & EXTRAS != 0;
        let extra = |from: &mut Reader<'a>| if extras { from.bytes() } else { &[][..] };
        let (params, path, instance) = (extra(from), extra(from), extra(from));
        let reg_id = if extras { from.varint() } else { 0 };
        let transport =
            TRANSPORTS.get(usize::from(flags & TRANSPORT_MASK)).copied().unwrap_or(Transport::Udp);
        let flow = Flow { transport, listener, remote, conn };
        Binding { contact, params, q, expires, call_id, cseq, flow, path, instance, reg_id, agent }
    }
}

/// Writes an address; true if it is IPv6. The flow label is not kept: a reply needs none.
fn encode_address(address: SocketAddr, out: &mut Vec<u8>) -> bool {
    match address {
        SocketAddr::V4(a) => {
            out.extend_from_slice(&a.ip().octets());
            out.extend_from_slice(&a.port().to_le_bytes());
            false
        }
        SocketAddr::V6(a) => {
            out.extend_from_slice(&a.ip().octets());
            out.extend_from_slice(&a.port().to_le_bytes());
            push_varint(out, a.scope_id());
            true
        }
    }
}

fn decode_address(v6: bool, from: &mut Reader<'_>) -> SocketAddr {
    if v6 {
        let ip = Ipv6Addr::from(from.array::<16>());
        let port = u16::from_le_bytes(from.array());
        SocketAddr::V6(SocketAddrV6::new(ip, port, 0, from.varint()))
    } else {
        let ip = Ipv4Addr::from(from.array::<4>());
        SocketAddr::new(IpAddr::V4(ip), u16::from_le_bytes(from.array()))
    }
}

/// The bindings of one cell, in order.
#[derive(Clone)]
pub(crate) struct Bindings<'a> {
    left: u8,
    from: Reader<'a>,
}

impl<'a> Bindings<'a> {
    pub(crate) fn new(count: u8, payload: &'a [u8]) -> Bindings<'a> {
        Bindings { left: count, from: Reader(payload) }
    }

    /// How many are left.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.left)
    }
}

impl<'a> Iterator for Bindings<'a> {
    type Item = Binding<'a>;

    fn next(&mut self) -> Option<Binding<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(Binding::decode(&mut self.from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(remote: &str, conn: Option<ConnId>) -> Binding<'static> {
        Binding {
            contact: b"sip:alice@192.0.2.1:5060",
            params: b"",
            q: 1000,
            expires: Time::from_micros(u64::MAX - 7),
            call_id: b"843817637684230@998sdasdh09",
            cseq: u32::MAX,
            flow: Flow {
                transport: Transport::Wss,
                listener: ListenerId(300),
                remote: remote.parse().expect("an address"),
                conn,
            },
            path: b"",
            instance: b"",
            reg_id: 0,
            agent: 0,
        }
    }

    #[test]
    fn every_shape_comes_back_as_it_was() {
        let mut shapes = Vec::new();
        for remote in ["192.0.2.9:1", "[2001:db8::1]:65535", "[fe80::1%7]:5060"] {
            for conn in [None, Some(ConnId::from_u64(u64::MAX))] {
                let plain = sample(remote, conn);
                let long = [b'x'; 300];
                shapes.push((plain, Vec::new()));
                shapes.push((Binding { q: 0, agent: 65535, ..plain }, Vec::new()));
                shapes.push((Binding { reg_id: u32::MAX, instance: b"<urn:x:y>", ..plain }, Vec::new()));
                shapes.push((Binding { path: b"<sip:p;lr>", params: b";a=b", ..plain }, long.to_vec()));
            }
        }
        let mut bytes = Vec::new();
        for (shape, contact) in &shapes {
            let long =
                Binding { contact: if contact.is_empty() { shape.contact } else { contact }, ..*shape };
            long.encode(&mut bytes);
        }
        let back: Vec<Binding<'_>> = Bindings::new(shapes.len() as u8, &bytes).collect();
        assert_eq!(back.len(), shapes.len());
        for ((shape, contact), got) in shapes.iter().zip(&back) {
            let want =
                Binding { contact: if contact.is_empty() { shape.contact } else { contact }, ..*shape };
            assert_eq!(&want, got);
        }
    }
}
