//! The program by which the kernel steers datagrams: whatever comes, and however much of it lies within
//! reach, it names the owner that the workers' own function names, or nobody, and stays inside its memory.
#![no_main]

use fuzz::Feed;
use libfuzzer_sys::fuzz_target;
use sip_message::{Index, Limits, Parsed, parse};
use sip_steering::{Ownership, SteeringProgram, emulate};
use std::sync::LazyLock;

const WORKERS: u16 = 16;

static BOTH: LazyLock<(Ownership, SteeringProgram)> = LazyLock::new(|| {
    let ownership = Ownership::new(b"sixteen bytes---");
    let program = ownership.program(WORKERS).expect("a program");
    (ownership, program)
});

fuzz_target!(|data: &[u8]| {
    let (ownership, program) = &*BOTH;
    let mut feed = Feed::new(data);
    // The first two bytes say how much of the message the program can read directly.
    let within = usize::from(feed.byte()) << 4 | usize::from(feed.byte() & 15);
    let message = feed.rest();
    let owner = ownership.owner(message, WORKERS);
    let mut index = Index::new();
    if let Parsed::Good(parsed) = parse(message, &mut index, &Limits::default()) {
        assert_eq!(ownership.owner_of(parsed.call_id(), WORKERS), owner, "the index has another Call-ID");
    }
    for linear in [message.len(), within.min(message.len())] {
        let run = emulate::run(program, message, linear).expect("no fault of the program");
        assert!(run.chosen.is_none() || run.chosen == owner, "{run:?}, but it is {owner:?}'s");
    }
});
