//! Which datagrams leave next to each other.

use std::net::SocketAddr;
use wire::{Outbox, Transmit};

/// A datagram is brought forward past so many others at most.
const WINDOW: usize = 64;

/// Puts datagrams of one length to one peer next to each other, for the kernel can take those as one. What is about one
/// call, or about none in particular, keeps its order ([`Outbox::about`]): an ACK is not to come after the BYE, nor a 180 after
/// the 200. The network may do that to any of them, but seldom does.
pub(super) fn gather(queue: &mut [u32], out: &Outbox) {
    let like = |index: u32| out.transmits().get(index as usize).map(Like::of);
    let mut rest = queue;
    while let Some(first) = rest.first().and_then(|&index| like(index)) {
        let mut passed = Calls::default();
        let mut together = 1;
        for at in 1..rest.len().min(WINDOW) {
            let Some((&index, other)) = rest.get(at).and_then(|index| Some((index, like(*index)?))) else {
                break;
            };
            if other.about == 0 {
                break;
            }
            if (other.length, other.to) != (first.length, first.to) || passed.has(other.about) {
                passed.add(other.about);
                continue;
            }
            if at > together {
                rest.copy_within(together..at, together + 1);
                if let Some(place) = rest.get_mut(together) {
                    *place = index;
                }
            }
            together += 1;
        }
        rest = rest.get_mut(together..).unwrap_or_default();
    }
}

/// What two datagrams must have in common to go together, and what one is about.
struct Like {
    length: usize,
    to: SocketAddr,
    about: u32,
}

impl Like {
    fn of(transmit: &Transmit) -> Like {
        Like { length: transmit.range.len(), to: transmit.flow.remote, about: transmit.about }
    }
}

/// Calls; it may believe one more to be among them, but never one less.
#[derive(Default)]
struct Calls([u64; 4]);

impl Calls {
    fn place(about: u32) -> (usize, u64) {
        // The lowest bit is always set.
        ((about >> 1 & 3) as usize, 1 << (about >> 3 & 63))
    }

    fn add(&mut self, about: u32) {
        let (word, bit) = Calls::place(about);
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    fn has(&self, about: u32) -> bool {
        let (word, bit) = Calls::place(about);
        self.0.get(word).is_none_or(|word| word & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::{Flow, ListenerId};

    /// Call (none: about nothing), length, peer.
    type Sent = (Option<u8>, usize, u8);

    fn outbox(messages: &[Sent]) -> Outbox {
        let mut out = Outbox::new();
        for &(call, length, peer) in messages {
            out.about(&call.map_or(Vec::new(), |call| vec![b'c', call, b'@']));
            let flow = Flow::udp(ListenerId(0), SocketAddr::from(([192, 0, 2, peer], 5060)));
            out.send(flow, 0, &vec![b'x'; length]);
        }
        out
    }

    fn gathered(messages: &[Sent]) -> Vec<u32> {
        let mut queue: Vec<u32> = (0..messages.len() as u32).collect();
        gather(&mut queue, &outbox(messages));
        queue
    }

    #[test]
    fn those_of_one_length_to_one_peer_go_together() {
        let [a, b, c] = [1, 2, 3].map(Some);
        assert_eq!(gathered(&[(a, 9, 1), (b, 5, 1), (c, 9, 1), (Some(4), 5, 1)]), [0, 2, 1, 3]);
        assert_eq!(gathered(&[(a, 9, 1), (b, 9, 2), (c, 9, 1)]), [0, 2, 1]);
        assert_eq!(
            gathered(&[(a, 9, 1), (b, 5, 1), (b, 9, 1), (c, 9, 1)]),
            [0, 3, 1, 2],
            "b keeps its order"
        );
        assert_eq!(
            gathered(&[(a, 9, 1), (b, 5, 1), (None, 7, 1), (c, 9, 1)]),
            [0, 1, 2, 3],
            "nobody passes it"
        );
        assert_eq!(gathered(&[]), []);
    }

    #[test]
    fn nothing_is_brought_forward_past_many() {
        let mut messages: Vec<Sent> =
            (0..WINDOW as u8 + 1).map(|n| (Some(n), 5 + usize::from(n), 1)).collect();
        messages.push((Some(250), 5, 1));
        assert_eq!(gathered(&messages)[1], 1);
        messages.remove(20);
        messages.remove(20);
        assert_eq!(gathered(&messages)[1], 64 - 1);
    }

    proptest! {
        #[test]
        fn every_call_keeps_its_order(
            messages in prop::collection::vec((prop::option::weighted(0.95, 0..12_u8), 3..6_usize, 1..3_u8), 0..200)
        ) {
            let queue = gathered(&messages);
            let place = |index: usize| queue.iter().position(|&at| at as usize == index).unwrap();
            let mut sorted = queue.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.iter().enumerate().all(|(at, &index)| at as u32 == index), "each once");
            for (at, (call, ..)) in messages.iter().enumerate() {
                for (later, (other, ..)) in messages.iter().enumerate().skip(at + 1) {
                    if call == other || call.is_none() || other.is_none() {
                        prop_assert!(place(at) < place(later), "{at} and {later} of {messages:?}: {queue:?}");
                    }
                }
            }
        }

        /// As many as could: with calls of their own nothing keeps them apart.
        #[test]
        fn where_no_call_has_two_all_go_together(lengths in prop::collection::vec(3..7_usize, 1..12)) {
            let messages: Vec<Sent> = (0..).zip(&lengths).map(|(call, &length)| (Some(call), length, 1)).collect();
            let out = outbox(&messages);
            let mut seen = Calls::default();
            // Two that look alike may stay apart.
            let apart = out.transmits().iter().all(|transmit| {
                let new = !seen.has(transmit.about);
                seen.add(transmit.about);
                new
            });
            let queue = gathered(&messages);
            let runs = 1 + queue.windows(2).filter(|two| lengths[two[0] as usize] != lengths[two[1] as usize]).count();
            let mut kinds = lengths.clone();
            kinds.sort_unstable();
            kinds.dedup();
            prop_assert!(!apart || runs == kinds.len(), "{queue:?}");
        }
    }
}
