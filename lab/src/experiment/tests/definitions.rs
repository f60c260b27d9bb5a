//! The experiments that come with the source.

use super::*;
use std::fs;
use std::path::{Path, PathBuf};

/// Every file of these folders.
fn definitions() -> Vec<PathBuf> {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in [lab.to_owned(), lab.join("papers"), lab.join("honesty")] {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let files = entries.map(|entry| entry.unwrap().path());
        let is_definition = |path: &PathBuf| {
            path.extension().is_some_and(|e| e == "toml")
                && path.file_name().is_some_and(|n| n != "Cargo.toml")
        };
        found.extend(files.filter(is_definition));
    }
    found.sort();
    found
}

fn open(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| error.to_string())
}

#[test]
fn every_definition_can_be_planned() {
    let all = definitions();
    let papers = all.iter().filter(|path| path.parent().is_some_and(|folder| folder.ends_with("papers")));
    assert!(all.len() >= 2 && papers.count() >= 2, "{all:?}");
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        let sources = Sources::new(&path.display().to_string(), &text).with_files(open);
        let experiment = Experiment::read(&sources).unwrap_or_else(|errors| panic!("{}", listed(&errors)));
        assert!(!experiment.question().is_empty(), "{}: an experiment has a question", path.display());
        let plan = experiment.plan().unwrap();
        assert!(!plan.runs().is_empty());
        let few = plan.blocks() < experiment.fewest_blocks() && !experiment.claims().is_empty();
        assert!(!few, "{}: too few blocks for a verdict", path.display());
    }
}

#[test]
fn quick_experiment_takes_five_minutes_at_most() {
    let text = include_str!("../../../quick.toml");
    let plan = good(text).plan().unwrap();
    assert!(plan.estimate().most <= std::time::Duration::from_secs(300), "{:?}", plan.estimate());
}

#[test]
fn experiments_of_the_guide_are_good() {
    let page = include_str!("../../../../docs/guide/lab.md");
    let papers = include_str!("../../../../docs/guide/lab-papers.md");
    let networks = include_str!("../../../../docs/guide/lab-networks.md");
    let blocks = |page: &'static str| -> Vec<&str> {
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
    };
    assert!(blocks(page).len() >= 4 && !blocks(papers).is_empty() && blocks(networks).len() >= 3);
    for block in blocks(page).into_iter().chain(blocks(papers)).chain(blocks(networks)) {
        let experiment = good(block);
        assert!(experiment.plan().is_ok() && !experiment.question().is_empty(), "{block}");
    }
    // The claims of the table, and the finding at the end.
    let systems = "[system.A]\n[system.B]\n[factor]\nrate = [1000, 2000]\ntransport = ['udp', 'tcp']\n";
    let only = systems.replace("[system.B]\n", "");
    let shown = page.split("## Say what is to be shown").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> =
        shown.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(rows.len() >= 5, "{rows:?}");
    for claim in rows {
        let systems = if claim.contains("of B") || claim.contains("of A") { systems } else { &only };
        good(&format!("{systems}[[claim]]\nthat = \"{claim}\"\n"));
    }
    let slower = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let wrong = slower.replace("of B at most 1.05 of A", "of C at most 1.05 of A");
    let errors = Experiment::read(&Sources::new("slower.toml", &wrong)).unwrap_err();
    assert!(page.contains(&format!("```\n{}\n```", listed(&errors))), "{}", listed(&errors));
}
