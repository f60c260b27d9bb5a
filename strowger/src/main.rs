//! strowger
fn main() {}
