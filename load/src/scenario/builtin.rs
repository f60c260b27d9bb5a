//! The scenarios that come with the program.

/// The text of a built-in scenario.
pub fn builtin(name: &str) -> Option<&'static str> {
    let _ = name;
    None
}

/// Names and one-line descriptions of the built-in scenarios.
pub fn builtin_names() -> &'static [(&'static str, &'static str)] {
    &[]
}
