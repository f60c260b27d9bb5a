//! Reference pages of metrics, compared with what a server says of them, or written anew.

use std::collections::BTreeMap;
use std::path::Path;

/// One family as a server describes it.
struct Family<'m> {
    kind: &'m str,
    help: String,
    /// Its labels as `{a,b}`; nothing where no sample shows them.
    labels: Option<String>,
}

/// Compares the tables of a page below `docs/reference` with the families of `metrics` that are `wanted`:
/// each has one row, with its labels, kind and HELP text. Where `STROWGER_WRITE_REFERENCE` is set the page is
/// written anew; a family that is new to it comes last.
///
/// # Panics
/// If the page differs and is not to be written.
pub fn compare(page: &str, metrics: &str, wanted: impl Fn(&str) -> bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    let before = std::fs::read_to_string(&path).expect("the page can be read");
    let after = filled(&before, metrics, wanted);
    if std::env::var_os("STROWGER_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, after).expect("the page can be written");
        return;
    }
    for (before, after) in before.lines().zip(after.lines()) {
        assert_eq!(before, after, "{page} is not what the server says: run `make reference`");
    }
    assert_eq!(before.len(), after.len(), "{page} is not what the server says: run `make reference`");
}

fn filled(page: &str, metrics: &str, wanted: impl Fn(&str) -> bool) -> String {
    let mut families = families(metrics);
    families.retain(|name, _| wanted(name));
    let mut rows: Vec<String> = Vec::new();
    let mut last = 0;
    for line in page.lines() {
        let Some(written) = line.strip_prefix("| `") else {
            rows.push(line.to_owned());
            continue;
        };
        let cell = written.split('`').next().unwrap_or_default();
        let (name, labels) = cell.split_at(cell.find('{').unwrap_or(cell.len()));
        // A row of what there is no more, or that stands twice, is left out.
        if let Some(family) = families.remove(name) {
            rows.push(row(name, &family, labels));
            last = rows.len();
        }
    }
    for (name, family) in families.iter().rev() {
        rows.insert(last, row(name, family, ""));
    }
    rows.join("\n") + "\n"
}

fn row(name: &str, family: &Family<'_>, written: &str) -> String {
    let labels = family.labels.as_deref().unwrap_or(written);
    format!("| `{name}{labels}` | {} | {} |", family.kind, family.help)
}

fn families(metrics: &str) -> BTreeMap<&str, Family<'_>> {
    let mut families: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    let mut current = "";
    for line in metrics.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            let help = help.replace("\\\\", "\\");
            let twice = families.insert(name, Family { kind: "", help, labels: None });
            assert!(twice.is_none(), "{name} stands twice");
            current = name;
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            families.get_mut(name).expect("HELP comes first").kind = kind;
        } else if let Some(family) = families.get_mut(current) {
            family.labels.get_or_insert_with(|| labels(line));
        }
    }
    families
}

/// The names of the labels of a sample, as `{a,b}`; empty where there are none.
fn labels(sample: &str) -> String {
    let inside =
        sample.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(inside, _)| inside);
    let names = inside.split(',').filter_map(|label| Some(label.split_once('=')?.0));
    // That of the buckets of histograms is not one of the family.
    let names: Vec<&str> = names.filter(|name| *name != "le").collect();
    if names.is_empty() { String::new() } else { format!("{{{}}}", names.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_what_the_server_says_and_new_ones_come_last() {
        let metrics = "# HELP a_total Old: `x`.\n# TYPE a_total counter\na_total{l=\"x\",m=\"y\"} 1\n\
                       # HELP b Empty.\n# TYPE b gauge\n\
                       # HELP c_seconds New.\n# TYPE c_seconds histogram\nc_seconds_bucket{le=\"1\"} 0\n\
                       # HELP d_other Not wanted.\n# TYPE d_other gauge\nd_other 1\n";
        let page = "# A\n\n| name | kind | meaning |\n|---|---|---|\n| `a_total` | gauge | Stale. |\n\
                    | `gone` | gauge | Gone. |\n| `b{node}` | gauge | Empty. |\n\nEnd.\n";
        let expected = "# A\n\n| name | kind | meaning |\n|---|---|---|\n| `a_total{l,m}` | counter | Old: `x`. |\n\
                        | `b{node}` | gauge | Empty. |\n| `c_seconds` | histogram | New. |\n\nEnd.\n";
        assert_eq!(filled(page, metrics, |name| name != "d_other"), expected);
    }
}
