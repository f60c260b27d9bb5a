//! worker-runtime
