//! What people are told of a message that a scenario does not expect: which request it answers, and what to
//! do where that is known.

use sip_message::{Message, Method};

/// What came, in words. `sent` is what the call sent last, `service` the user that `-s` names.
#[cold]
pub(super) fn what(message: &Message<'_>, sent: &[u8], service: &str) -> String {
    let line = text(first_line(message.bytes()));
    let Some(line) = line.strip_prefix("SIP/2.0 ").filter(|_| !message.is_request()) else { return line };
    let request = text(first_line(sent));
    let mut words = request.split(' ');
    let (method, uri) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // The last request may be another one: an ACK has no answer.
    if method.as_bytes() != message.method().as_bytes() {
        return line.to_owned();
    }
    let mend = match message.status() {
        401 | 407 if has_credentials(sent) => {
            "the credentials were refused: is the password right, and is the user one of \
             that server's (`strowger serve` knows one that was just added within a second)? They come from the file \
             of -inf, or from -au and -ap"
                .to_owned()
        }
        401 | 407 => {
            "it asks for credentials, which the scenario does not send: auth=\"true\" in a <recv> and \
             [authentication] in a <send> do, as in -sn proxy200_auth"
                .to_owned()
        }
        404 | 410 | 480 | 604 if message.method() == Method::Invite => {
            let mend = if user_of(uri) == Some(service) { " -s names another user" } else { "" };
            format!("is anybody registered there?{mend}")
        }
        _ => String::new(),
    };
    let parted = if mend.is_empty() { "" } else { ": " };
    format!("{line} to {method} {uri}{parted}{mend}")
}

fn first_line(message: &[u8]) -> &[u8] {
    message.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default()
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// The user part of a SIP URI.
fn user_of(uri: &str) -> Option<&str> {
    let (_, rest) = uri.split_once(':')?;
    rest.split_once('@').map(|(user, _)| user)
}

/// Whether a request answers a challenge.
fn has_credentials(request: &[u8]) -> bool {
    let head = request.split(|&byte| byte == b'\n').take_while(|line| !line.trim_ascii().is_empty());
    head.filter_map(|line| line.split(|&byte| byte == b':').next()).any(|name| {
        let name = name.trim_ascii();
        name.eq_ignore_ascii_case(b"authorization") || name.eq_ignore_ascii_case(b"proxy-authorization")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::{Index, Limits, Parsed, parse};

    /// What is said of a response to a request of this method, where that was sent last.
    fn said(status: &str, method: &str, sent: &str) -> String {
        let message = format!(
            "SIP/2.0 {status}\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:a@b>;tag=2\r\n\
             Call-ID: 1\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
        );
        let (mut index, limits) = (Index::new(), Limits::default());
        let Parsed::Good(message) = parse(message.as_bytes(), &mut index, &limits) else {
            panic!("{message}")
        };
        what(&message, sent.as_bytes(), "service")
    }

    #[test]
    fn a_challenge_after_credentials_refuses_them() {
        let register = "REGISTER sip:h SIP/2.0\r\nauthorization : Digest x\r\n\r\n";
        let refused = said("401 Unauthorized", "REGISTER", register);
        assert!(
            refused.starts_with("401 Unauthorized to REGISTER sip:h: the credentials were refused"),
            "{refused}"
        );
        let invite = "INVITE sip:b@h SIP/2.0\r\nProxy-Authorization: Digest x\r\n\r\n";
        assert!(said("407 No", "INVITE", invite).contains("the credentials were refused"));
        let none = "REGISTER sip:h SIP/2.0\r\nX: y\r\n\r\nAuthorization: in the body\r\n";
        assert!(said("401 Unauthorized", "REGISTER", none).contains("asks for credentials"));
    }

    #[test]
    fn who_was_not_found_is_named() {
        let invite = |user: &str| format!("INVITE sip:{user}@127.0.0.1:5060 SIP/2.0\r\n\r\n");
        assert_eq!(
            said("480 Temporarily Unavailable", "INVITE", &invite("service")),
            "480 Temporarily Unavailable to INVITE sip:service@127.0.0.1:5060: is anybody registered there? -s names \
             another user"
        );
        assert_eq!(
            said("404 Not Found", "INVITE", &invite("bob")),
            "404 Not Found to INVITE sip:bob@127.0.0.1:5060: is anybody registered there?"
        );
        let (busy, other) =
            (said("486 Busy Here", "INVITE", &invite("bob")), said("404 Not Found", "BYE", &invite("bob")));
        assert_eq!(busy, "486 Busy Here to INVITE sip:bob@127.0.0.1:5060");
        assert_eq!(other, "404 Not Found", "it answers another request");
    }
}
