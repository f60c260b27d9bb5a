//! Writes the tables of the reference of configuration and log anew: `cargo run -p control --example
//! reference`, in the root of the repository.

fn main() -> std::io::Result<()> {
    for (page, fill) in [
        ("docs/reference/configuration.md", control::config::fill_reference as fn(&str) -> String),
        ("docs/reference/log.md", log_events::fill),
    ] {
        std::fs::write(page, fill(&std::fs::read_to_string(page)?))?;
    }
    Ok(())
}
