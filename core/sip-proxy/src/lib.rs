//! sip-proxy
