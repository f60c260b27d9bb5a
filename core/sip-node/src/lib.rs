//! sip-node
