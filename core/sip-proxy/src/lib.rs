//! sip-proxy

pub mod breadth;
pub mod context;
