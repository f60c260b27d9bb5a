//! How long a block of `<recv>`s waits.

use super::super::steps::{Op, Optional, Recv, Step};

/// A call stands at the first `<recv>` of a block while it waits for any of them, and it is the last that it
/// waits for: what is optional and has no limit gets that of what follows, and where that leads. SIPp looks
/// at the first one alone, and there the limit of the others has no effect.
pub(super) fn share(steps: &mut [Step]) {
    let mut next: Option<(Option<u32>, Option<usize>)> = None;
    for step in steps.iter_mut().rev() {
        let Op::Recv(recv) = &mut step.op else {
            next = None;
            continue;
        };
        if let Some(next) = next.filter(|_| recv.optional != Optional::No) {
            take(recv, next);
        }
        next = Some((recv.timeout_ms, recv.on_timeout));
    }
}

fn take(recv: &mut Recv, (timeout_ms, on_timeout): (Option<u32>, Option<usize>)) {
    if recv.timeout_ms.is_some() {
        return;
    }
    recv.timeout_ms = timeout_ms;
    // Where it leads belongs to the limit; only where that says nothing, or is that of the run, does its own
    // stand.
    recv.on_timeout = match timeout_ms {
        Some(_) => on_timeout.or(recv.on_timeout),
        None => recv.on_timeout.or(on_timeout),
    };
}
