//! The configurations of `docs/guide` give no error and no warning. Some are additions to the first one of
//! their page.

use super::*;
use std::path::{Path, PathBuf};

/// The place and the text of each configuration in a page.
fn blocks(page: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(page).unwrap();
    let name = page.file_name().unwrap().to_string_lossy();
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        match &mut open {
            None if line == "```toml" => open = Some((format!("{name}:{number}"), String::new())),
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some((_, block)) => *block += &format!("{line}\n"),
            None => {}
        }
    }
    blocks
}

/// Errors and warnings of a configuration.
fn found(place: &str, text: &str) -> Vec<String> {
    let read = Config::parse(place, text, &Overrides::default(), &[]);
    read.map_or_else(|errors| errors, |loaded| loaded.warnings).iter().map(ToString::to_string).collect()
}

#[test]
fn configurations_of_the_guides_give_no_warning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let pages = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (mut findings, mut count) = (Vec::new(), 0);
    // Experiments are no configurations of a server; the crate `lab` reads them.
    let is_lab =
        |page: &PathBuf| page.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"lab"));
    let is_ours = |page: &PathBuf| page.is_file() && !is_lab(page);
    for page in pages.filter(is_ours) {
        let blocks = blocks(&page);
        for (place, text) in &blocks {
            let whole = found(place, text);
            let added = || found(place, &format!("{}{text}", blocks[0].1));
            findings.extend(if whole.is_empty() { whole } else { added() });
            count += 1;
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert!(count > 15, "the guides show no configurations");
}
