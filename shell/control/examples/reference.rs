//! Writes the tables of the reference of configuration anew: `cargo run -p control --example reference`, in
//! the root of the repository.

fn main() -> std::io::Result<()> {
    let path = "docs/reference/configuration.md";
    std::fs::write(path, control::config::fill_reference(&std::fs::read_to_string(path)?))
}
