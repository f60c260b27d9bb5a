//! sip-transaction
