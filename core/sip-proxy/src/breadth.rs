//! Max-Breadth (RFC 5393 section 5): how many branches a request may have alive at one time.

/// The value a request gets that carries none, and the largest this server takes over from one that
/// does (RFC 5393 section 5.3.3 recommends 60 for both).
pub const RECOMMENDED: u8 = 60;

/// The Incoming Max-Breadth of a request: its header's value (`None`: it has no such header), cut to
/// `max`. Zero is no legal value (section 5.3.1 asks for a positive integer) and yields zero, which
/// permits no branch at all, so that the request ends with a 440.
pub fn incoming(header: Option<u32>, max: u8) -> u8 {
    match header {
        None => RECOMMENDED.min(max),
        Some(value) => u8::try_from(value).unwrap_or(u8::MAX).min(max),
    }
}

/// The share of branch number `index` when `available` is divided among `branches` branches as evenly
/// as it goes; the first ones get the remainder. Zero: there is not enough for this branch, which must
/// wait until another one ends (sections 5.3.3.1 and 5.5).
pub fn share(available: u8, branches: usize, index: usize) -> u8 {
    let branches = u8::try_from(branches.max(1)).unwrap_or(u8::MAX);
    let Ok(index) = u8::try_from(index) else { return 0 };
    if index >= branches {
        return 0;
    }
    available / branches + u8::from(index < available % branches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_header_is_cut_to_the_maximum_and_added_where_absent() {
        assert_eq!(incoming(None, RECOMMENDED), 60);
        assert_eq!(incoming(Some(1), RECOMMENDED), 1);
        assert_eq!(incoming(Some(61), RECOMMENDED), 60);
        assert_eq!(incoming(Some(u32::MAX), RECOMMENDED), 60);
        assert_eq!(incoming(Some(0), RECOMMENDED), 0);
        assert_eq!(incoming(None, 20), 20);
    }

    #[test]
    fn a_lone_branch_gets_everything() {
        // Section 5.3.3: a proxy should not use less than was present in the request.
        assert_eq!(share(60, 1, 0), 60);
        assert_eq!([share(4, 3, 0), share(4, 3, 1), share(4, 3, 2)], [2, 1, 1]);
        assert_eq!([share(1, 2, 0), share(1, 2, 1)], [1, 0]);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_what_is_there(available: u8, branches in 1_usize..=255) {
            let sum: u32 = (0..branches).map(|i| u32::from(share(available, branches, i))).sum();
            prop_assert_eq!(sum, u32::from(available));
        }
    }
}
