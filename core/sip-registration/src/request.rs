//! The text of a REGISTER (RFC 3261 section 10.2.1).

use sip_message::push_u64;

/// How this server registers somewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The URI of the registrar. `None`: the targets of the trunk, in their order.
    pub registrar: Option<Vec<u8>>,
    /// The user of the address-of-record.
    pub user: Vec<u8>,
    /// The user in our Contact.
    pub contact: Vec<u8>,
    /// The interval that is asked for, seconds.
    pub expires: u32,
    /// All numbers of the account at once: `;bnc` in the Contact (RFC 6140).
    pub bulk: bool,
}

/// The names in a REGISTER that stay the same as long as the registration is sent to the same registrar.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The Request-URI: scheme and host of the registrar, without a user (RFC 3261 section 10.2).
    pub registrar: &'a [u8],
    /// The address-of-record, a URI.
    pub aor: &'a [u8],
    /// Our Contact, a URI.
    pub contact: &'a [u8],
    /// All numbers of the account at once (RFC 6140).
    pub bulk: bool,
    /// The tag in From.
    pub tag: &'a [u8],
    /// The Call-ID.
    pub call_id: &'a [u8],
}

/// One REGISTER.
#[derive(Clone, Copy, Debug)]
pub struct Register<'a> {
    /// Its names.
    pub identity: Identity<'a>,
    /// The Via line without its end.
    pub via: &'a [u8],
    /// The number in CSeq.
    pub cseq: u32,
    /// The interval that is asked for, seconds. 0 ends the registration.
    pub expires: u32,
    /// Whole lines with credentials, or nothing.
    pub credentials: &'a [u8],
}

impl Register<'_> {
    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Register { identity: Identity { registrar, aor, contact, bulk, tag, call_id }, .. } = *self;
        let mut add = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        add(&[b"REGISTER ", registrar, b" SIP/2.0\r\n", self.via, b"\r\nMax-Forwards: 70\r\nFrom: <", aor]);
        add(&[b">;tag=", tag, b"\r\nTo: <", aor, b">\r\nCall-ID: ", call_id, b"\r\nCSeq: "]);
        push_u64(self.cseq.into(), out);
        let mut add = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        add(&[b" REGISTER\r\nContact: <", contact]);
        if bulk {
            // RFC 6140 section 5.1: no element that does not know it may take it for a usual one.
            add(&[b";bnc>\r\nRequire: gin\r\nProxy-Require: gin\r\nExpires: "]);
        } else {
            add(&[b">\r\nExpires: "]);
        }
        push_u64(self.expires.into(), out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.credentials);
        out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::{Index, Limits, Method, Name, Parsed, parse};

    fn written(bulk: bool, expires: u32) -> String {
        let identity = Identity {
            registrar: b"sip:carrier.example",
            aor: b"sip:4930555@carrier.example",
            contact: if bulk { b"sip:198.51.100.1:5060" } else { b"sip:4930555@198.51.100.1:5060" },
            bulk,
            tag: b"t",
            call_id: b"c",
        };
        let via = b"Via: SIP/2.0/UDP 198.51.100.1:5060;branch=z9hG4bKx;rport";
        let credentials = b"Authorization: Digest username=\"4930555\"\r\n";
        let mut out = Vec::new();
        Register { identity, via, cseq: 7, expires, credentials }.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn register_names_account_registrar_and_contact() {
        let text = written(false, 600);
        let mut index = Box::<Index>::default();
        let Parsed::Good(message) = parse(text.as_bytes(), &mut index, &Limits::default()) else {
            panic!("{text}")
        };
        assert_eq!((message.method(), message.cseq()), (Method::Register, 7));
        assert_eq!(message.request_uri(), b"sip:carrier.example");
        assert_eq!((message.from_uri(), message.to_tag()), (&b"sip:4930555@carrier.example"[..], &b""[..]));
        let value =
            |name| message.header(name).map(|header| String::from_utf8_lossy(header.value).into_owned());
        assert_eq!(value(Name::Contact).as_deref(), Some("<sip:4930555@198.51.100.1:5060>"));
        assert_eq!(value(Name::Expires).as_deref(), Some("600"));
        assert_eq!(value(Name::Require), None);
        assert!(value(Name::Authorization).is_some());
    }

    #[test]
    fn bulk_registration_requires_gin_and_has_no_user() {
        let text = written(true, 0);
        for line in
            ["Contact: <sip:198.51.100.1:5060;bnc>", "Require: gin", "Proxy-Require: gin", "Expires: 0"]
        {
            assert!(text.contains(&format!("\r\n{line}\r\n")), "{line}: {text}");
        }
    }
}
