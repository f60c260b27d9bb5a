//! sip-registrar
