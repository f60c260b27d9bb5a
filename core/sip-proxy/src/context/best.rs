//! Which of several final responses goes to the caller (RFC 3261 16.7 step 6).

/// How good a final response is: smaller is better. `None`: it may never be chosen.
///
/// 6xx before all; then the lowest class. Within 4xx those first that tell the caller how to try
/// again (401, 407, then 415, 420, 484), then a phone's own word, and last what says least: 480, 487,
/// and 408. Within 5xx a 503 comes last, since it is not
/// passed on as it is. A 408 never answers a request other than INVITE (RFC 4320 section 4.2).
pub(super) fn rank(status: u16, generated: bool, invite: bool) -> Option<u8> {
    if status == 408 && !invite {
        return None;
    }
    let (class, within) = match status {
        600..=699 => (0, 0),
        300..=399 => (1, 0),
        401 | 407 => (2, 0),
        415 | 420 | 484 => (2, 1),
        486 => (2, 2),
        430 | 480 => (2, 4),
        487 => (2, 5),
        408 => (2, 6),
        400..=499 => (2, 3),
        503 => (3, 1),
        500..=599 => (3, 0),
        _ => return None,
    };
    // What was received beats the same status made up here: it has a body, headers, a To tag.
    Some(class << 4 | within << 1 | u8::from(generated))
}

/// Ranks below this are 6xx and 3xx responses.
pub(super) const FIRST_OF_4XX: u8 = 2 << 4;

/// What the caller gets in place of a status that concerns one path to the callee only. A 503 would say that
/// this server is out of service (16.7 step 6). A 430 is for proxies (RFC 5626 section 11.6).
pub(super) const fn in_place_of(status: u16) -> u16 {
    match status {
        503 => 500,
        430 => 480,
        other => other,
    }
}

/// Whether a response is a challenge, to be merged with others (16.7 step 7).
pub(super) fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statuses in the order in which they were received; the chosen one.
    fn choose(received: &[u16]) -> u16 {
        let ranked = received.iter().filter_map(|&s| rank(s, false, true).map(|r| (r, s)));
        // `min_by_key` keeps the first of equals, as the context does.
        ranked.min_by_key(|&(rank, _)| rank).map_or(0, |(_, status)| status)
    }

    #[test]
    fn the_example_of_the_rfc_chooses_407() {
        assert_eq!(choose(&[503, 407, 501, 404]), 407);
    }

    #[test]
    fn class_first_then_usefulness() {
        assert_eq!(choose(&[404, 302, 500]), 302);
        assert_eq!(choose(&[302, 603, 401]), 603);
        assert_eq!(choose(&[486, 484, 404]), 484);
        assert_eq!(choose(&[408, 480, 486]), 486);
        assert_eq!(choose(&[408, 487]), 487);
        assert_eq!(choose(&[503, 500]), 500);
        assert_eq!(choose(&[404, 403]), 404);
        assert_eq!(choose(&[500, 480]), 480);
    }

    #[test]
    fn what_was_received_beats_what_was_made_up() {
        assert!(rank(408, false, true) < rank(408, true, true));
        assert!(rank(487, false, true) < rank(408, true, true));
    }

    #[test]
    fn a_408_answers_invites_only() {
        assert_eq!(rank(408, false, false), None);
        assert!(rank(408, false, true).is_some());
        // Neither a provisional nor a success is ever a candidate.
        assert_eq!(rank(180, false, true), None);
        assert_eq!(rank(200, false, true), None);
        assert_eq!(rank(700, false, true), None);
    }
}
