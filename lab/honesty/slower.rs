//! Makes a program slower on purpose, for `make lab-honesty`: a library to preload. Each thread that waits
//! for events burns 5 % of the processor time that it took itself, in a busy loop before it waits.
//!
//! It is no part of Strowger: `run.py` builds it by itself, and no program of the workspace links it.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The part of its own time that a thread burns in addition.
const PART: f64 = 0.05;
/// Waits from one reading of the thread's time to the next: a reading is a system call, and costs time too.
const WAITS: u32 = 64;
const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;
const CLOCK_THREAD_CPUTIME_ID: c_int = 3;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
}

type Wait = unsafe extern "C" fn(c_int, *mut c_void, c_int, c_int) -> c_int;

/// What a thread has taken and burned since its last reading.
#[derive(Clone, Copy)]
struct Account {
    waits: u32,
    /// Its time at the last reading.
    read: Duration,
    /// Burned since then.
    burned: Duration,
    /// To burn at each wait.
    each: Duration,
}

impl Account {
    const NEW: Account =
        Account { waits: 0, read: Duration::ZERO, burned: Duration::ZERO, each: Duration::ZERO };
}

thread_local! {
    static ACCOUNT: Cell<Account> = const { Cell::new(Account::NEW) };
}

/// Processor time of this thread.
fn taken() -> Duration {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a timespec that lives for the call.
    if unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.seconds.unsigned_abs(), u32::try_from(time.nanoseconds).unwrap_or(0))
}

fn burn() {
    let mut account = ACCOUNT.get();
    account.waits += 1;
    if account.waits >= WAITS {
        let now = taken();
        let own = now.saturating_sub(account.read).saturating_sub(account.burned);
        account = Account { read: now, each: own.mul_f64(PART) / WAITS, ..Account::NEW };
    }
    let begun = Instant::now();
    while begun.elapsed() < account.each {
        std::hint::spin_loop();
    }
    account.burned += account.each;
    ACCOUNT.set(account);
}

/// `epoll_wait(2)` after the busy loop.
///
/// # Safety
/// As that of the system: `events` has room for `most` events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut c_void, most: c_int, timeout: c_int) -> c_int {
    static REAL: OnceLock<usize> = OnceLock::new();
    // SAFETY: the name ends in NUL.
    let real = *REAL.get_or_init(|| unsafe { dlsym(RTLD_NEXT, c"epoll_wait".as_ptr()) } as usize);
    assert!(real != 0, "the C library has epoll_wait");
    // SAFETY: it is the function of the C library, whose signature is `Wait`.
    let real: Wait = unsafe { std::mem::transmute::<usize, Wait>(real) };
    burn();
    // SAFETY: the caller's promise.
    unsafe { real(epoll, events, most, timeout) }
}
