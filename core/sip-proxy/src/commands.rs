//! Commands to phones: to answer automatically, to take over a call, to be controlled. They are removed from
//! a stranger's request, or the request is refused.
//!
//! Phones follow no common standard. The lists hold what vendors document; `docs/guide/who-may-call.md` names
//! them for operators.

use core::iter;
use sip_message::{Message, Method, Name, NameAddr, Params, Splices, Uri, canonical_user};

/// Header fields that are removed whatever their value: Replaces and Join (RFC 3891, RFC 3911), and
/// Alert-Info, for which each vendor has its own values.
const WHOLE: [Name; 3] = [Name::Replaces, Name::Join, Name::AlertInfo];

/// Parts of other header names, and of URI parameters, that are commands: Auto-Answer, X-AutoAnswer,
/// P-Auto-Answer, Answer-Mode and Priv-Answer-Mode (RFC 5373), P-Alert-Answer, `answer-after`, `intercom`,
/// Target-Dialog (RFC 4538). Only letters are compared, in any case.
const COMMANDS: [&[u8]; 6] =
    [b"autoanswer", b"answermode", b"alertanswer", b"answerafter", b"intercom", b"targetdialog"];

/// Parts of a Call-Info value that are commands: `answer-after`, "Auto Answer", and the remote control of
/// Cisco's phones.
const CALL_INFO: [&[u8]; 3] = [b"answer", b"intercom", b"remotecc"];

/// Option tags in Require that belong to such a header field. Without the field the request would mean
/// something else.
const OPTIONS: [&[u8]; 4] = [b"replaces", b"join", b"tdialog", b"answermode"];

/// Removes the header fields that are commands.
pub(crate) fn strip(request: &Message<'_>, splices: &mut Splices) {
    for header in WHOLE.iter().flat_map(|&name| request.headers(name)) {
        splices.remove(header.line);
    }
    for header in request.headers(Name::CallInfo).filter(|header| has(header.value, &CALL_INFO)) {
        splices.remove(header.line);
    }
    for header in request.headers(Name::Other).filter(|header| has(header.raw_name, &COMMANDS)) {
        splices.remove(header.line);
    }
}

/// Whether an INVITE has a command that cannot be removed: in its Request-URI or To, which both ends keep, or
/// as an option that it requires.
pub fn are_demanded(request: &Message<'_>) -> bool {
    if request.method() != Method::Invite {
        return false;
    }
    let requires = OPTIONS.iter().any(|tag| request.lists(Name::Require, tag));
    let to = request.header(Name::To).and_then(|to| NameAddr::parse(to.value).ok());
    requires || commands(request.request_uri()) || to.is_some_and(|to| commands(to.uri) || names(to.params))
}

/// Whether a URI has such a parameter.
fn commands(uri: &[u8]) -> bool {
    Uri::parse(uri).map_or_else(|_| has(uri, &COMMANDS), |uri| names(uri.params))
}

/// Whether parameters, or their values, are such commands.
fn names(params: &[u8]) -> bool {
    let command = |text: &[u8]| has(&canonical_user(text), &COMMANDS);
    Params::new(params).any(|(name, value)| command(name) || value.is_some_and(command))
}

/// Whether a text holds one of these words. Only letters are compared, in any case.
fn has(text: &[u8], words: &[&[u8]]) -> bool {
    // From letters only: each is looked at from few others, whatever stands between them.
    let rests = iter::successors(Some(text), |rest| rest.get(1..));
    let mut from_letters = rests.filter(|rest| rest.first().is_some_and(u8::is_ascii_alphabetic));
    from_letters.any(|rest| words.iter().any(|word| begins(rest, word)))
}

fn begins(text: &[u8], word: &[u8]) -> bool {
    let mut letters = text.iter().filter(|byte| byte.is_ascii_alphabetic()).map(u8::to_ascii_lowercase);
    word.iter().all(|&letter| letters.next() == Some(letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::{Index, Limits, Parsed, parse};

    fn with<T>(uri: &str, to: &str, lines: &str, what: impl FnOnce(&Message<'_>) -> T) -> T {
        let text = format!(
            "INVITE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag=1\r\nTo: {to}\r\n\
             Call-ID: 1\r\nCSeq: 1 INVITE\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        let mut index = Index::new();
        let Parsed::Good(request) = parse(text.as_bytes(), &mut index, &Limits::default()) else {
            panic!("{text}")
        };
        what(&request)
    }

    /// The lines of these that are left.
    fn left(lines: &str) -> String {
        let stripped = with("sip:b@x", "<sip:b@x>", lines, |request| {
            let (mut splices, mut out) = (Splices::new(), Vec::new());
            splices.clear();
            strip(request, &mut splices);
            splices.apply(request.bytes(), &mut out);
            String::from_utf8(out).unwrap()
        });
        let bare = stripped.split("CSeq: 1 INVITE\r\n").nth(1).unwrap();
        bare.strip_suffix("Content-Length: 0\r\n\r\n").unwrap().to_owned()
    }

    #[test]
    fn every_listed_header_is_removed() {
        for line in [
            "Alert-Info: <http://x>;info=alert-autoanswer;delay=0",
            "Alert-Info: Auto Answer",
            "ALERT-INFO: ring-answer",
            "Alert-Info: Ring Answer",
            "Alert-Info: info=Auto Answer",
            "Alert-Info: Intercom",
            "alert-info : <http://x>;answer-after=0",
            "Call-Info: <sip:x>;answer-after=0",
            "Call-Info: ;answer-after=0",
            "Call-Info: <sip:x>;\r\n Answer-After = 0",
            "Call-Info: <http://x/a.png>;purpose=icon, <sip:x>;answer-after=0",
            "Call-Info: <sip:x>;info=alert-autoanswer;delay=0",
            "CALL-INFO: Auto Answer",
            "Call-Info: <urn:x-cisco-remotecc:callinfo>;orientation=from",
            "Answer-Mode: Auto",
            "priv-answer-mode : Auto;require",
            "Auto-Answer: 0",
            "P-Auto-Answer: normal",
            "P-Alert-Answer: yes",
            "X-Auto-Answer: 1",
            "X-AUTOANSWER: TRUE",
            "X-Intercom: true",
            "Replaces: a;to-tag=b;from-tag=c",
            "Join: a;to-tag=b;from-tag=c",
            "Target-Dialog: a;local-tag=b;remote-tag=c",
        ] {
            assert_eq!(left(&format!("{line}\r\n")), "", "{line}");
        }
        for line in [
            "Call-Info: <http://x/photo>;purpose=icon",
            "Subject: auto answer",
            "X-Answer: 1",
            "Supported: replaces, join, answermode",
            "In-Reply-To: intercom",
        ] {
            assert_eq!(left(&format!("{line}\r\n")), format!("{line}\r\n"));
        }
    }

    #[test]
    fn words_are_found_across_long_runs_without_letters() {
        let run = "-".repeat(60_000);
        for (text, found) in [
            (run.clone(), false),
            (format!("a{run}uto"), false),
            (format!("{run}aut{run}oanswer{run}"), true),
            ("a-".repeat(30_000), false),
        ] {
            assert_eq!(has(text.as_bytes(), &COMMANDS), found);
        }
    }

    #[test]
    fn commands_in_uris_are_found_in_any_spelling() {
        for (uri, to, lines) in [
            ("sip:b@x;intercom=true", "<sip:b@x>", ""),
            ("sip:b@x;transport=udp;INTERCOM", "<sip:b@x>", ""),
            ("sip:b@x;inter%63om=true", "<sip:b@x>", ""),
            ("sip:b@x;answer-after=0", "<sip:b@x>", ""),
            ("sip:b@x;auto-answer=yes", "<sip:b@x>", ""),
            ("sip:b@x;AutoAnswer", "<sip:b@x>", ""),
            ("sip:b@x;info=alert-autoanswer", "<sip:b@x>", ""),
            ("tel:+49;intercom=true", "<sip:b@x>", ""),
            ("sip:b@x", "<sip:b@x;intercom=true>", ""),
            ("sip:b@x", "\"b\" <sip:b@x;x=1;Intercom=true>;tag=1", ""),
            ("sip:b@x", "<sip:b@x>;intercom=true", ""),
            ("sip:b@x", "sip:b@x;intercom=true", ""),
            ("sip:b@x", "<sip:b@x>", "Require: replaces\r\n"),
            ("sip:b@x", "<sip:b@x>", "Require: 100rel\r\nRequire: x, JOIN\r\n"),
            ("sip:b@x", "<sip:b@x>", "Require: tdialog\r\n"),
            ("sip:b@x", "<sip:b@x>", "Require: answermode\r\n"),
        ] {
            assert!(with(uri, to, lines, are_demanded), "{uri} {to} {lines}");
        }
        for (uri, to, lines) in [
            ("sip:intercom@x;user=phone", "\"auto answer\" <sip:intercom@intercom.x>", ""),
            ("sip:b@x;transport=udp;lr;ob", "<sip:b@x;user=phone>;tag=1", "Require: 100rel, timer\r\n"),
            ("sip:b@x", "<sip:b@x>", "Supported: replaces\r\nProxy-Require: x\r\n"),
        ] {
            assert!(!with(uri, to, lines, are_demanded), "{uri} {to} {lines}");
        }
    }
}
