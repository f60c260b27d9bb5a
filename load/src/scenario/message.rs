//! What a call remembers of the messages it received.

/// Writes the value of the Route for later requests: the Record-Route of `message`, in reverse order if
/// it is a response (RFC 3261 section 12.1.2). False, and nothing written, if it has none.
pub fn learn_routes(message: &[u8], out: &mut Vec<u8>) -> bool {
    let _ = (message, out);
    false
}

/// Writes the URI of the first Contact: `[next_url]`. False, and nothing written, if there is none.
pub fn learn_next_url(message: &[u8], out: &mut Vec<u8>) -> bool {
    let _ = (message, out);
    false
}

/// Writes the tag of the To: what `[peer_tag_param]` needs. False, and nothing written, if it has none.
pub fn learn_peer_tag(message: &[u8], out: &mut Vec<u8>) -> bool {
    let _ = (message, out);
    false
}

/// The number in the CSeq of a message.
pub fn request_cseq(message: &[u8]) -> Option<u32> {
    let _ = message;
    None
}
