//! Keepalives of phones over UDP: STUN Binding Requests on the port of SIP (RFC 5626 sections 5.4 and 8, RFC
//! 5389 sections 6 and 7.3). The server at the end of a phone's flow has to answer them.
//!
//! No other STUN is served. A response is shorter than three times its request, so that a forged source
//! address multiplies nothing.

use core::net::{IpAddr, SocketAddr};

/// Bytes of the header.
const HEADER: usize = 20;
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const REQUEST: [u8; 2] = [0x00, 0x01];
const SUCCESS: [u8; 2] = [0x01, 0x01];
const ERROR: [u8; 2] = [0x01, 0x11];
const ERROR_CODE: u16 = 0x0009;
const UNKNOWN_ATTRIBUTES: u16 = 0x000a;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;
/// From here on an attribute may be ignored.
const OPTIONAL: u16 = 0x8000;
/// Attributes that have to be understood, and ask for nothing here: no credentials are asked for (RFC 5389
/// section 18.2).
const KNOWN: [u16; 8] =
    [0x0001, 0x0006, 0x0008, ERROR_CODE, UNKNOWN_ATTRIBUTES, 0x0014, 0x0015, XOR_MAPPED_ADDRESS];
/// Attributes that an error names.
const MOST_UNKNOWN: usize = 4;

/// A whole Binding Request.
pub struct Binding<'a> {
    /// Cookie and transaction identifier.
    id: &'a [u8; 16],
    /// The first attributes that would have to be understood, and how many of them there are.
    unknown: ([u16; MOST_UNKNOWN], usize),
}

impl<'a> Binding<'a> {
    /// Reads a datagram. `None`: it is something else, or broken, and gets no answer.
    pub fn read(datagram: &'a [u8]) -> Option<Binding<'a>> {
        let (header, mut attributes) = datagram.split_first_chunk::<HEADER>()?;
        let [kind @ .., _, _] = header.first_chunk::<4>()?;
        let length = u16::from_be_bytes([header[2], header[3]]);
        let id = header.last_chunk::<16>()?;
        if *kind != REQUEST || !id.starts_with(&COOKIE) || usize::from(length) != attributes.len() {
            return None;
        }
        let mut binding = Binding { id, unknown: ([0; MOST_UNKNOWN], 0) };
        while !attributes.is_empty() {
            let (&[a, b, c, d], rest) = attributes.split_first_chunk::<4>()?;
            let padded = usize::from(u16::from_be_bytes([c, d])).next_multiple_of(4);
            binding.note(u16::from_be_bytes([a, b]));
            attributes = rest.get(padded..)?;
        }
        Some(binding)
    }

    fn note(&mut self, attribute: u16) {
        let (list, count) = &mut self.unknown;
        if attribute < OPTIONAL
            && !KNOWN.contains(&attribute)
            && let Some(place) = list.get_mut(*count)
        {
            (*place, *count) = (attribute, *count + 1);
        }
    }

    /// Appends the response to a sender at this address.
    pub fn answer(&self, sender: SocketAddr, out: &mut Vec<u8>) {
        let (list, count) = &self.unknown;
        if *count > 0 {
            let unknown = list.get(..*count).unwrap_or_default();
            let listed = unknown.len() * 2;
            let length = 8 + 4 + listed.next_multiple_of(4);
            self.head(ERROR, length, out);
            attribute(ERROR_CODE, 4, out);
            out.extend_from_slice(&[0, 0, 4, 20]);
            attribute(UNKNOWN_ATTRIBUTES, listed, out);
            unknown.iter().for_each(|attribute| out.extend_from_slice(&attribute.to_be_bytes()));
            out.resize(out.len() + listed.next_multiple_of(4) - listed, 0);
            return;
        }
        let port = u16::from_be_bytes([COOKIE[0], COOKIE[1]]) ^ sender.port();
        let [p, q] = port.to_be_bytes();
        match sender.ip().to_canonical() {
            IpAddr::V4(ip) => {
                self.head(SUCCESS, 12, out);
                attribute(XOR_MAPPED_ADDRESS, 8, out);
                out.extend_from_slice(&[0, 1, p, q]);
                out.extend(ip.octets().iter().zip(self.id).map(|(a, b)| a ^ b));
            }
            IpAddr::V6(ip) => {
                self.head(SUCCESS, 24, out);
                attribute(XOR_MAPPED_ADDRESS, 20, out);
                out.extend_from_slice(&[0, 2, p, q]);
                out.extend(ip.octets().iter().zip(self.id).map(|(a, b)| a ^ b));
            }
        }
    }

    fn head(&self, kind: [u8; 2], length: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&kind);
        out.extend_from_slice(&(length as u16).to_be_bytes());
        out.extend_from_slice(self.id);
    }
}

fn attribute(kind: u16, length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(length as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: [u8; 12] = [0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae];

    fn request(attributes: &[u8]) -> Vec<u8> {
        let length = (attributes.len() as u16).to_be_bytes();
        [&REQUEST[..], &length, &COOKIE, &ID, attributes].concat()
    }

    fn answer(request: &[u8], sender: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        Binding::read(request)?.answer(sender.parse().unwrap(), &mut out);
        Some(out)
    }

    #[test]
    fn addresses_of_rfc_5769_are_written_as_there() {
        // RFC 5769 sections 2.2 and 2.3: the transaction identifier is the one above.
        let mapped = [0x00, 0x20, 0x00, 0x08, 0x00, 0x01, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43];
        let want = [&SUCCESS[..], &[0, 12], &COOKIE, &ID, &mapped].concat();
        assert_eq!(answer(&request(&[]), "192.0.2.1:32853"), Some(want));
        let mapped = [
            0x00, 0x20, 0x00, 0x14, 0x00, 0x02, 0xa1, 0x47, 0x01, 0x13, 0xa9, 0xfa, 0xa5, 0xd3, 0xf1, 0x79,
            0xbc, 0x25, 0xf4, 0xb5, 0xbe, 0xd2, 0xb9, 0xd9,
        ];
        let want = [&SUCCESS[..], &[0, 24], &COOKIE, &ID, &mapped].concat();
        assert_eq!(answer(&request(&[]), "[2001:db8:1234:5678:11:2233:4455:6677]:32853"), Some(want));
    }

    #[test]
    fn attribute_that_has_to_be_understood_is_refused_by_name() {
        // CHANGE-REQUEST, and SOFTWARE, which may be ignored.
        let attributes = [0x00, 0x03, 0, 4, 0, 0, 0, 6, 0x80, 0x22, 0, 3, b'a', b'b', b'c', 0];
        let want = [0x00, 0x09, 0, 4, 0, 0, 4, 20, 0x00, 0x0a, 0, 2, 0x00, 0x03, 0, 0];
        let got = answer(&request(&attributes), "192.0.2.1:5060").unwrap();
        assert_eq!((&got[..2], &got[HEADER..]), (&ERROR[..], &want[..]));
        let optional = &attributes[8..];
        assert_eq!(answer(&request(optional), "192.0.2.1:5060").unwrap()[..2], SUCCESS);
    }

    #[test]
    fn what_is_no_whole_request_gets_no_answer() {
        let good = request(&[]);
        let mut bad: Vec<Vec<u8>> = (0..good.len()).map(|len| good[..len].to_vec()).collect();
        for (at, byte) in [(0, 1), (1, 0x11), (1, 0x02), (3, 4), (4, 0x22), (0, b'O')] {
            bad.push(good.clone());
            bad.last_mut().unwrap()[at] = byte;
        }
        bad.push([&good[..], b"x"].concat());
        bad.push(request(&[0, 6, 0, 9, 1, 2, 3, 4]));
        bad.push(request(&[0, 6, 0]));
        for datagram in bad {
            assert!(answer(&datagram, "192.0.2.1:5060").is_none(), "{datagram:?}");
        }
    }

    proptest! {
        #[test]
        fn any_datagram_is_read_safely_and_answered_in_brief(
            attributes in proptest::collection::vec(any::<u8>(), 0..80),
            whole in proptest::collection::vec((any::<u16>(), 0usize..9), 0..12),
            v6 in any::<bool>(),
        ) {
            let mut built = Vec::new();
            for (kind, length) in whole {
                attribute(kind, length, &mut built);
                built.resize(built.len() + length.next_multiple_of(4), 7);
            }
            let sender = if v6 { "[2001:db8::1]:5060" } else { "192.0.2.1:5060" };
            for datagram in [request(&attributes), request(&built), attributes] {
                if let Some(answer) = answer(&datagram, sender) {
                    prop_assert!(answer.len() <= 3 * datagram.len());
                    prop_assert_eq!(answer.len() % 4, 0);
                    let length = u16::from_be_bytes([answer[2], answer[3]]);
                    prop_assert_eq!(answer.len(), HEADER + usize::from(length));
                }
            }
            prop_assert!(answer(&request(&built), sender).is_some());
        }
    }
}
