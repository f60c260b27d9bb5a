//! sip-auth
