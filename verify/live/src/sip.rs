//! Just enough SIP for tests, independent of the code under test: reading what came, building what
//! to send. Deliberately simple, so that a test can also send what no honest builder would.

use crate::Link;
use std::sync::atomic::{AtomicU64, Ordering};

/// A word that no other call of this run uses.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{prefix}{:x}x{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A message that came from the server.
#[derive(Clone, Debug)]
pub struct Msg {
    /// Every byte as it came.
    pub raw: Vec<u8>,
    /// The start line.
    pub start: String,
    /// Header fields in order, names as they came.
    pub headers: Vec<(String, String)>,
    /// What follows the empty line.
    pub body: Vec<u8>,
}

/// The long form of a compact header field name (RFC 3261 section 7.3.3), lower case.
fn long_name(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    let long = match name.as_str() {
        "v" => "via",
        "f" => "from",
        "t" => "to",
        "i" => "call-id",
        "m" => "contact",
        "l" => "content-length",
        "c" => "content-type",
        "k" => "supported",
        _ => return name,
    };
    long.to_owned()
}

impl Msg {
    /// Read one message. The server must write well-formed messages, so anything else is `None`.
    pub fn parse(raw: &[u8]) -> Option<Self> {
        let end = raw.windows(4).position(|w| w == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(raw.get(..end)?).into_owned();
        let mut lines = head.split("\r\n");
        let start = lines.next()?.to_owned();
        let headers = lines
            .map(|line| line.split_once(':').map(|(n, v)| (n.to_owned(), v.trim().to_owned())))
            .collect::<Option<Vec<_>>>()?;
        Some(Self { raw: raw.to_vec(), start, headers, body: raw.get(end + 4..)?.to_vec() })
    }

    /// Whether it is a response to `req`.
    pub fn answers(&self, req: &Req) -> bool {
        let cseq = format!("{} {}", req.cseq, req.method);
        self.status().is_some()
            && self.header("Call-ID") == Some(&req.call_id)
            && self.header("CSeq") == Some(&cseq)
    }

    /// The status of a response.
    pub fn status(&self) -> Option<u16> {
        self.start.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
    }

    /// The method of a request, or that of the CSeq of a response.
    pub fn method(&self) -> &str {
        if self.status().is_some() {
            self.header("CSeq").and_then(|v| v.split_whitespace().nth(1)).unwrap_or("")
        } else {
            self.start.split(' ').next().unwrap_or("")
        }
    }

    /// The Request-URI of a request.
    pub fn uri(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or("")
    }

    /// The first header field of that name, compact forms included.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).into_iter().next()
    }

    /// Every header field of that name in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let name = long_name(name);
        self.headers.iter().filter(|(n, _)| long_name(n) == name).map(|(_, v)| v.as_str()).collect()
    }

    /// Is this text anywhere in the message?
    pub fn has(&self, text: &str) -> bool {
        self.raw.windows(text.len()).any(|w| w == text.as_bytes())
    }

    /// The tag of the To header field.
    pub fn to_tag(&self) -> Option<String> {
        tag(self.header("To")?)
    }

    /// A response to this request, with the To tag a callee gives and its further header lines.
    pub fn reply(&self, status: u16, to_tag: &str, extra: &[&str]) -> Vec<u8> {
        self.reply_with_body(status, to_tag, extra, b"")
    }

    /// As [`Msg::reply`] with a body.
    pub fn reply_with_body(&self, status: u16, to_tag: &str, extra: &[&str], body: &[u8]) -> Vec<u8> {
        let mut out = format!("SIP/2.0 {status} Test\r\n");
        for name in ["Via", "Record-Route", "From", "To", "Call-ID", "CSeq"] {
            for value in self.all(name) {
                let add = name == "To" && tag(value).is_none() && !to_tag.is_empty();
                let suffix = if add { format!(";tag={to_tag}") } else { String::new() };
                out.push_str(&format!("{name}: {value}{suffix}\r\n"));
            }
        }
        for line in extra {
            out.push_str(line);
            out.push_str("\r\n");
        }
        out.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        [out.as_bytes(), body].concat()
    }
}

/// The `tag` parameter of a From or To value.
fn tag(value: &str) -> Option<String> {
    let after = value.rsplit_once('>').map_or(value, |(_, params)| params);
    after
        .split(';')
        .find_map(|p| p.trim().strip_prefix("tag=").or_else(|| p.trim().strip_prefix("TAG=")))
        .map(str::to_owned)
}

/// A request to send. Fields are plain text, so a test can put anything there.
#[derive(Clone, Debug)]
pub struct Req {
    /// Method of the request line.
    pub method: String,
    /// Request-URI.
    pub uri: String,
    /// The whole topmost Via value.
    pub via: String,
    /// From value with tag.
    pub from: String,
    /// To value, with a tag inside a dialog.
    pub to: String,
    /// Call-ID.
    pub call_id: String,
    /// CSeq number.
    pub cseq: u32,
    /// Value of Max-Forwards, or none.
    pub max_forwards: Option<String>,
    /// Further header lines without CRLF.
    pub extra: Vec<String>,
    /// Body.
    pub body: Vec<u8>,
}

impl Req {
    /// A well-formed request of `caller@example.com` to the user of `uri`.
    pub fn new(method: &str, uri: &str, link: &Link) -> Self {
        Self {
            method: method.into(),
            uri: uri.into(),
            via: format!("SIP/2.0/{} {};branch={};rport", link.via().name(), link.name(), unique("z9hG4bK")),
            from: format!("<sip:caller@example.com>;tag={}", unique("f")),
            to: format!("<{uri}>"),
            call_id: unique("call"),
            cseq: 1,
            max_forwards: Some("70".into()),
            extra: Vec::new(),
            body: Vec::new(),
        }
    }

    /// An INVITE with a Contact and a small session description.
    pub fn invite(uri: &str, link: &Link) -> Self {
        let ip = link.local().ip();
        Self::new("INVITE", uri, link).contact(link).with("Content-Type: application/sdp").body(
            format!(
                "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"
            )
            .as_bytes(),
        )
    }

    /// A REGISTER of `user@example.com` at this link's address for an hour.
    pub fn register(user: &str, link: &Link) -> Self {
        let mut req = Self::new("REGISTER", "sip:example.com", link).user(user).with("Expires: 3600");
        req.to = format!("<sip:{user}@example.com>");
        req.with(&format!("Contact: <{}>", link.contact(user)))
    }

    /// From this user of `example.com`.
    pub fn user(mut self, user: &str) -> Self {
        self.from = format!("<sip:{user}@example.com>;tag={}", unique("f"));
        self
    }

    /// One more header line.
    pub fn with(mut self, line: &str) -> Self {
        self.extra.push(line.into());
        self
    }

    /// A Contact of this link.
    pub fn contact(self, link: &Link) -> Self {
        self.with(&format!("Contact: <{}>", link.contact("caller")))
    }

    /// The body; Content-Length follows.
    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// The same request once more as a new transaction: next CSeq, new branch, more header lines.
    pub fn again(&self, link: &Link, line: &str) -> Self {
        let mut next = self.clone();
        next.cseq += 1;
        next.via =
            format!("SIP/2.0/{} {};branch={};rport", link.via().name(), link.name(), unique("z9hG4bK"));
        next.extra.retain(|l| !l.to_ascii_lowercase().contains("authorization:"));
        next.extra.push(line.into());
        next
    }

    /// A request inside the dialog that `answer` made: the remote target, the route set, both tags.
    pub fn in_dialog(&self, method: &str, answer: &Msg, link: &Link) -> Self {
        let contact = answer.header("Contact").unwrap_or("");
        let target =
            contact.split_once('<').and_then(|(_, r)| r.split_once('>')).map_or(contact, |(uri, _)| uri);
        let mut next = self.clone();
        next.method = method.into();
        next.uri = target.into();
        next.to = answer.header("To").unwrap_or("").into();
        next.cseq = if method == "ACK" { self.cseq } else { self.cseq + 1 };
        next.via =
            format!("SIP/2.0/{} {};branch={};rport", link.via().name(), link.name(), unique("z9hG4bK"));
        next.extra = answer.all("Record-Route").iter().rev().map(|r| format!("Route: {r}")).collect();
        next.body.clear();
        next
    }

    /// The ACK for a non-2xx answer: same branch and Request-URI (RFC 3261 section 17.1.1.3).
    pub fn ack(&self, answer: &Msg) -> Self {
        let mut next = self.clone();
        next.method = "ACK".into();
        next.to = answer.header("To").unwrap_or("").into();
        next.extra.retain(|l| l.starts_with("Route:"));
        next.body.clear();
        next
    }

    /// The CANCEL of this request (RFC 3261 section 9.1).
    pub fn cancel(&self) -> Self {
        let mut next = self.clone();
        next.method = "CANCEL".into();
        next.extra.retain(|l| l.starts_with("Route:"));
        next.body.clear();
        next
    }

    /// The header part up to and including Content-Length, without the empty line.
    pub fn head(&self) -> String {
        let mut out = format!("{} {} SIP/2.0\r\nVia: {}\r\n", self.method, self.uri, self.via);
        if let Some(hops) = &self.max_forwards {
            out.push_str(&format!("Max-Forwards: {hops}\r\n"));
        }
        out.push_str(&format!(
            "From: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {} {}\r\n",
            self.from, self.to, self.call_id, self.cseq, self.method
        ));
        for line in &self.extra {
            out.push_str(line);
            out.push_str("\r\n");
        }
        out
    }

    /// The whole request with a right Content-Length.
    pub fn bytes(&self) -> Vec<u8> {
        let head = format!("{}Content-Length: {}\r\n\r\n", self.head(), self.body.len());
        [head.as_bytes(), &self.body].concat()
    }
}
