//! The scenarios that come with the program.
//!
//! Those that speak for users take them from an injection file: `[field0]` is the user, `[field1]` its
//! password, `[field2]` whom it calls. Their domain is the key `domain`.

const NAMES: [(&str, &str); 10] = [
    ("uac", "calls -s NAME at the remote address, waits -d, hangs up"),
    ("uas", "answers calls"),
    ("register", "registers users, with digest if asked"),
    ("proxy200", "calls through a proxy (SIPstone's Proxy 200)"),
    ("proxy200_auth", "the same with digest on INVITE and BYE"),
    ("cancel", "gives up while it rings"),
    ("voicemail", "calls users who are away and talks to voicemail"),
    ("redirect", "calls, gets a 302 and follows it"),
    ("message", "sends instant messages"),
    ("options", "asks for capabilities"),
];

/// The text of a built-in scenario.
pub fn builtin(name: &str) -> Option<&'static str> {
    Some(match name {
        "uac" => include_str!("builtin/uac.xml"),
        "uas" => include_str!("builtin/uas.xml"),
        "register" => include_str!("builtin/register.xml"),
        "proxy200" => include_str!("builtin/proxy200.xml"),
        "proxy200_auth" => include_str!("builtin/proxy200_auth.xml"),
        "cancel" => include_str!("builtin/cancel.xml"),
        "voicemail" => include_str!("builtin/voicemail.xml"),
        "redirect" => include_str!("builtin/redirect.xml"),
        "message" => include_str!("builtin/message.xml"),
        "options" => include_str!("builtin/options.xml"),
        _ => return None,
    })
}

/// Names and one-line descriptions of the built-in scenarios.
pub fn builtin_names() -> &'static [(&'static str, &'static str)] {
    &NAMES
}

#[cfg(test)]
mod tests {
    use super::super::read::tests::read_with;
    use super::super::steps::{Op, Side};
    use super::super::template::tests::render;
    use super::*;

    const INVITE: &[u8] = b"INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKa\r\n\
        Via: SIP/2.0/UDP 10.0.0.2;branch=z9hG4bKb\r\nRecord-Route: <sip:r;lr>\r\nf: <sip:a@b>;tag=x\r\n\
        To: <sip:b@c>\r\nCall-ID: i\r\nCSeq: 41 INVITE\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn all_are_well_formed_and_send_well_formed_messages() {
        for &(name, _) in builtin_names() {
            let scenario = read_with(builtin(name).unwrap(), &["ann;secret;bob"])
                .unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
            assert_eq!(scenario.side == Side::Server, name == "uas", "{name}");
            for (at, step) in scenario.steps.iter().enumerate() {
                let Op::Send(send) = &step.op else { continue };
                let (result, text) = render(&send.template, |facts| (facts.step, facts.last) = (at, INVITE));
                assert_eq!(result, Ok(()), "{name}");
                let mut index = sip_message::Index::new();
                let limits = sip_message::Limits::default();
                let parsed = sip_message::parse(&text, &mut index, &limits);
                assert!(
                    matches!(parsed, sip_message::Parsed::Good(_)),
                    "{name}:\n{}",
                    String::from_utf8_lossy(&text)
                );
            }
        }
        assert!(builtin("foo").is_none());
    }

    /// What repeats a branch must name the step that it was first used in.
    #[test]
    fn branches_are_those_of_their_transactions() {
        for &(name, _) in builtin_names() {
            let scenario = read_with(builtin(name).unwrap(), &["ann;secret;bob"]).unwrap();
            let branch = |at: usize| {
                let Op::Send(send) = &scenario.steps[at].op else { return None };
                let (_, text) = render(&send.template, |facts| (facts.step, facts.last) = (at, INVITE));
                let text = String::from_utf8_lossy(&text).into_owned();
                let branch = text
                    .split(";branch=")
                    .nth(1)
                    .filter(|_| !text.starts_with("SIP/2.0"))?
                    .split("\r\n")
                    .next()?
                    .to_owned();
                Some((branch, text.split(' ').next()?.to_owned(), text))
            };
            let sent: Vec<_> = (0..scenario.steps.len()).filter_map(branch).collect();
            for (place, (branch, method, text)) in sent.iter().enumerate() {
                let first = sent.iter().position(|(other, ..)| other == branch).unwrap();
                // An ACK of a failure and a CANCEL have the branch of their INVITE (RFC 3261 sections 9.1,
                // 17.1.1.3).
                let repeats = method == "CANCEL" || method == "ACK" && !text.contains("ACK sip:next ");
                assert_eq!(first < place, repeats, "{name}: {text}");
                assert!(!repeats || sent[first].1 == "INVITE", "{name}: {text}");
            }
        }
    }
}
