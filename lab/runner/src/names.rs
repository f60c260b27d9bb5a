//! The DNS server of a run (RFC 1035): it knows every name, at the address of the generator, and can be
//! made to answer late or not at all.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Its port where it has a namespace; elsewhere only root may use it.
pub const PORT: u16 = 53;
/// Its port on the loopback interface.
pub const LOOPBACK_PORT: u16 = 5053;
/// The longest question that is read (RFC 1035 section 2.3.4).
const LARGEST: usize = 512;
/// Answers that wait at most; a question beyond gets none.
const MOST_WAITING: usize = 100_000;
/// Between two looks at whether the run is over.
const LOOK: Duration = Duration::from_millis(50);
/// No answer.
const NEVER: u64 = u64::MAX;

/// A DNS server on a thread of its own. Dropped, it ends.
#[derive(Debug)]
pub struct Names {
    place: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    /// How late answers are, microseconds, or [`NEVER`].
    late: AtomicU64,
    asked: AtomicU64,
}

impl Names {
    /// A server at `place` that gives this address for every name. Answers may be kept for whole seconds
    /// of `ttl`.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn start(place: SocketAddr, address: IpAddr, ttl: Duration) -> Result<Names, String> {
        let failed = |error: io::Error| format!("the DNS server of the lab at {place}: {error}");
        let socket = UdpSocket::bind(place).map_err(failed)?;
        let place = socket.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let known = Known { address, ttl: u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX) };
        let thread = thread::spawn(move || serve(&socket, known, &of_thread));
        Ok(Names { place, shared, thread: Some(thread) })
    }

    /// Where it is.
    pub fn place(&self) -> SocketAddr {
        self.place
    }

    /// Has answers come later from now on.
    pub fn slow(&self, late: Duration) {
        let micros = u64::try_from(late.as_micros()).unwrap_or(NEVER - 1);
        self.shared.late.store(micros, Ordering::Relaxed);
    }

    /// Answers nothing from now on.
    pub fn withhold(&self) {
        self.shared.late.store(NEVER, Ordering::Relaxed);
    }

    /// Questions so far.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is known of every name.
#[derive(Clone, Copy, Debug)]
struct Known {
    address: IpAddr,
    /// Seconds.
    ttl: u32,
}

fn serve(socket: &UdpSocket, known: Known, shared: &Shared) {
    let mut waiting: VecDeque<(Instant, SocketAddr, Vec<u8>)> = VecDeque::new();
    let mut question = [0; LARGEST];
    while !shared.over.load(Ordering::Relaxed) {
        let now = Instant::now();
        while let Some((_, to, answer)) = waiting.pop_front_if(|(due, ..)| *due <= now) {
            let _ = socket.send_to(&answer, to);
        }
        let next = waiting.front().map_or(LOOK, |(due, ..)| due.saturating_duration_since(now).min(LOOK));
        let _ = socket.set_read_timeout(Some(next.max(Duration::from_micros(100))));
        let Ok((length, from)) = socket.recv_from(&mut question) else { continue };
        let Some(answer) = question.get(..length).and_then(|question| answer(question, known)) else {
            continue;
        };
        shared.asked.fetch_add(1, Ordering::Relaxed);
        match shared.late.load(Ordering::Relaxed) {
            0 => drop(socket.send_to(&answer, from)),
            NEVER => {}
            late if waiting.len() < MOST_WAITING => {
                waiting.push_back((Instant::now() + Duration::from_micros(late), from, answer));
            }
            _ => {}
        }
    }
}

/// The answer to a question; nothing if it is none.
fn answer(question: &[u8], Known { address, ttl }: Known) -> Option<Vec<u8>> {
    let header = question.get(..12)?;
    let [_, _, flags, _, high, low, ..] = *header else { return None };
    // A response, an operation other than QUERY, or not one question.
    if flags & 0xf8 != 0 || (high, low) != (0, 1) {
        return None;
    }
    let mut end = 12;
    loop {
        match usize::from(*question.get(end)?) {
            0 => break,
            length if length < 64 => end += 1 + length,
            _ => return None,
        }
    }
    let asked = question.get(12..end + 5)?;
    let (kind, class) = (asked.get(asked.len() - 4..asked.len() - 2)?, asked.get(asked.len() - 2..)?);
    let is_address = matches!(address, IpAddr::V4(_)) && kind == [0, 1] && class == [0, 1];
    let mut out = Vec::with_capacity(asked.len() + 40);
    out.extend_from_slice(question.get(..2)?);
    // A response, authoritative; recursion as it was desired, and available.
    out.extend_from_slice(&[0x84 | (flags & 1), 0x80, 0, 1]);
    // Where there is no such record, the authority says how long that holds (RFC 2308).
    out.extend_from_slice(if is_address { &[0, 1, 0, 0, 0, 0] } else { &[0, 0, 0, 1, 0, 0] });
    out.extend_from_slice(asked);
    if let (true, IpAddr::V4(address)) = (is_address, address) {
        record(&mut out, (&[0xc0, 12], 1), ttl, &address.octets());
    } else {
        let mut rest = vec![0, 0];
        for number in [1, ttl, ttl, ttl, ttl] {
            rest.extend_from_slice(&u32::to_be_bytes(number));
        }
        record(&mut out, (&[0], 6), ttl, &rest);
    }
    Some(out)
}

fn record(out: &mut Vec<u8>, (name, kind): (&[u8], u8), ttl: u32, data: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(&[0, kind, 0, 1]);
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known = Known { address: IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 9)), ttl: 60 };

    fn question(kind: u8) -> Vec<u8> {
        let mut all = vec![7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        all.extend_from_slice(b"\x02h1\x04test\x00");
        all.extend_from_slice(&[0, kind, 0, 1]);
        all
    }

    #[test]
    fn every_name_has_the_address() {
        let answer = answer(&question(1), KNOWN).expect("an answer");
        assert_eq!(answer[..8], [7, 8, 0x85, 0x80, 0, 1, 0, 1]);
        assert!(answer.ends_with(&[0, 0, 0, 60, 0, 4, 198, 18, 0, 9]), "{answer:?}");
    }

    #[test]
    fn other_records_are_denied_with_an_authority() {
        let answer = answer(&question(33), KNOWN).expect("an answer");
        assert_eq!(answer[6..12], [0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn bytes_that_are_no_question_get_no_answer() {
        let whole = question(1);
        for length in 0..whole.len() {
            assert_eq!(answer(&whole[..length], KNOWN), None, "{length}");
        }
        let mut response = whole.clone();
        response[2] = 0x84;
        let mut pointer = whole;
        pointer[12] = 0xc0;
        for bytes in [response, pointer] {
            assert_eq!(answer(&bytes, KNOWN), None);
        }
    }

    #[test]
    fn answers_are_late_or_withheld_as_told() {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let names = Names::start(loopback, KNOWN.address, Duration::ZERO).expect("it starts");
        let asking = UdpSocket::bind(loopback).expect("bound");
        let ask = |limit: u64| {
            asking.set_read_timeout(Some(Duration::from_millis(limit))).expect("set");
            let begun = Instant::now();
            asking.send_to(&question(1), names.place()).expect("sent");
            asking.recv(&mut [0; LARGEST]).ok().map(|_| begun.elapsed())
        };
        assert!(ask(20_000).is_some());
        names.slow(Duration::from_millis(300));
        assert!(ask(20_000).is_some_and(|took| took >= Duration::from_millis(300)));
        names.withhold();
        assert_eq!(ask(400), None);
        names.slow(Duration::ZERO);
        assert!(ask(20_000).is_some());
        assert_eq!(names.asked(), 4);
    }
}
