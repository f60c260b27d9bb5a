//! Tests of the location service.
