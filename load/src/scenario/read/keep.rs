//! Which messages a call must keep after the moment they came.

use super::super::actions::Deed;
use super::super::steps::{Op, Pause, Step};

/// Marks the `<recv>`s whose message is used again after the call has waited for something else, and
/// tells whether there is any. `anywhere`: the call may be sent to other steps by unexpected messages.
pub(super) fn mark(steps: &mut [Step], anywhere: bool) -> bool {
    let uses: Vec<bool> = steps.iter().map(uses_last).collect();
    let jumps =
        anywhere || steps.iter().any(|step| step.actions.iter().any(|a| matches!(a.deed, Deed::Jump { .. })));
    let all = jumps && uses.contains(&true);
    let keeps: Vec<bool> = (0..steps.len())
        .map(|at| matches!(steps[at].op, Op::Recv(_)) && (all || is_used(at, steps, &uses)))
        .collect();
    for (step, &keep) in steps.iter_mut().zip(&keeps) {
        if let Op::Recv(recv) = &mut step.op {
            recv.keep = keep;
        }
    }
    keeps.contains(&true)
}

/// Whether the message of step `from` is used at a step that is reached by waiting.
fn is_used(from: usize, steps: &[Step], uses: &[bool]) -> bool {
    // For each step: reached at once, reached after a wait.
    let mut seen = vec![[false; 2]; steps.len()];
    let mut open = Vec::new();
    follow(steps, from, false, &mut open);
    while let Some((at, waited)) = open.pop() {
        let (Some(step), Some(seen)) = (steps.get(at), seen.get_mut(at)) else { continue };
        if core::mem::replace(&mut seen[usize::from(waited)], true) {
            continue;
        }
        match &step.op {
            // What comes here is another message; only a timeout goes on with this one.
            Op::Recv(recv) => {
                open.extend(recv.on_timeout.map(|to| (to, true)));
                if step.condition.is_some() {
                    open.push((at + 1, waited));
                }
                continue;
            }
            Op::Send(send) => open.extend(send.on_timeout.map(|to| (to, true))),
            Op::Pause(_) | Op::Nop => {}
        }
        let waits = matches!(&step.op, Op::Pause(pause) if *pause != Pause::Fixed(0));
        if uses.get(at) == Some(&true) && (waited || waits) {
            return true;
        }
        follow(steps, at, waited || waits, &mut open);
    }
    false
}

fn follow(steps: &[Step], at: usize, waited: bool, open: &mut Vec<(usize, bool)>) {
    open.push((at + 1, waited));
    open.extend(steps.get(at).and_then(|step| step.next).map(|next| (next.to, waited)));
}

fn uses_last(step: &Step) -> bool {
    let own = matches!(&step.op, Op::Send(send) if send.template.uses_last());
    // The actions of a <recv> see its own message, which has just come.
    own || !matches!(step.op, Op::Recv(_)) && step.actions.iter().any(|action| action.uses_last())
}
