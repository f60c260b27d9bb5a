//! Writes the tables of the reference of experiments anew: `cargo run -p lab --example lab-reference`, in
//! the root of the repository.

fn main() -> std::io::Result<()> {
    let page = "docs/reference/lab.md";
    std::fs::write(page, lab::experiment::fill_reference(&std::fs::read_to_string(page)?))
}
