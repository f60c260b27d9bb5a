//! The stream framer: however the bytes are cut on their way, the same messages and pings come out;
//! and whatever it cuts out can be parsed without harm.
#![no_main]

use fuzz::Feed;
use libfuzzer_sys::fuzz_target;
use sip_message::{Index, Limits, frame, parse};
use wire::Frame;

/// What a reader of the stream saw.
#[derive(PartialEq, Debug)]
enum Seen {
    Message(Vec<u8>),
    Ping,
    Broken,
}

/// Reads `stream` as it arrives in pieces of the sizes that `cut` says.
fn read(stream: &[u8], limits: &Limits, mut cut: impl FnMut() -> usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let (mut have, mut at, mut resume) = (0, 0, 0);
    loop {
        if at == have {
            if have == stream.len() {
                return seen;
            }
            have = (have + cut().max(1)).min(stream.len());
        }
        let used = match frame(&stream[at..have], resume, limits) {
            Frame::Partial { resume: next } => {
                assert!(next <= have - at, "a cookie beyond the buffer");
                resume = next;
                if have == stream.len() {
                    return seen;
                }
                have = (have + cut().max(1)).min(stream.len());
                continue;
            }
            Frame::Idle => {
                assert!(have - at <= 3, "{} bytes of nothing", have - at);
                if have == stream.len() {
                    return seen;
                }
                have = (have + cut().max(1)).min(stream.len());
                continue;
            }
            Frame::Message { skip, len } => {
                seen.push(Seen::Message(stream[at + skip..at + skip + len].to_vec()));
                skip + len
            }
            Frame::Skip { len } => len,
            Frame::Ping { len, .. } => {
                seen.push(Seen::Ping);
                len
            }
            Frame::Broken { len, .. } => {
                assert!(len <= have - at, "broken beyond the buffer");
                seen.push(Seen::Broken);
                return seen;
            }
        };
        assert!(used > 0 && used <= have - at, "no progress, or too much");
        at += used;
        resume = 0;
    }
}

fuzz_target!(|data: &[u8]| {
    let mut feed = Feed::new(data);
    // The first byte chooses caps, the next four the sizes of the pieces.
    let limits = match feed.byte() & 3 {
        0 => Limits { head: 64, body: 32, message: 96, ..Limits::default() },
        1 => Limits { head: 512, body: 64, message: 560, ..Limits::default() },
        _ => Limits::default(),
    };
    let cuts: [u8; 4] = std::array::from_fn(|_| feed.byte());
    let stream = feed.rest();
    let whole = read(stream, &limits, || stream.len());
    let mut turn = 0;
    let pieces = read(stream, &limits, || {
        turn += 1;
        usize::from(cuts[turn % cuts.len()])
    });
    assert_eq!(pieces, whole);
    let mut index = Index::new();
    for seen in whole {
        if let Seen::Message(bytes) = seen {
            assert!(bytes.len() <= limits.message, "longer than the cap");
            let _ = parse(&bytes, &mut index, &limits);
        }
    }
});
