//! Calls under way: what they send, wait for and time.

mod wheel;
