//! What a program may ask of mimalloc beyond memory.

/// Gives the kernel the pages that are free, whichever thread freed them, a second after the first of them
/// was, and what the calling thread holds for later.
pub fn give_back() {
    // SAFETY: it takes no pointer, and may be called at any time by any thread, also one that never
    // allocated.
    unsafe { libmimalloc_sys::mi_collect(false) }
}
