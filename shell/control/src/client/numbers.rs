//! The route of a number as `ctl` shows it.

use super::{cell, table, whole};
use crate::admin::{NumberRoute, NumberTrunk};

/// The answer in words, and the trunks as a table.
pub fn number_text(route: &NumberRoute) -> String {
    let mut text = format!("number  {}\n", whole(&route.number));
    match (&route.prefix, &route.source) {
        (Some(prefix), Some(source)) => text += &format!("prefix  {} in {}\n", whole(prefix), whole(source)),
        _ => text += "prefix  none: no trunk serves this number\n",
    }
    if let Some(before) = &route.before {
        text += &format!("before  {}\n", whole(before));
    }
    if route.trunks.is_empty() {
        return text;
    }
    let head = ["TRY", "TRUNK", "LINE", "PRIORITY", "COST", "TARGETS"].map(str::to_owned);
    let rows = route.trunks.iter().enumerate().map(|(at, trunk)| row(at + 1, trunk));
    text + &table(&[head].into_iter().chain(rows).collect::<Vec<_>>())
}

fn row(nth: usize, trunk: &NumberTrunk) -> [String; 6] {
    let some = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let target = |uri: &String| match trunk.down.contains(uri) {
        true => format!("{} (down)", cell(uri)),
        false => cell(uri),
    };
    [
        nth.to_string(),
        cell(&trunk.trunk),
        some(trunk.line.map(|line| line.to_string())),
        some(trunk.priority.map(|priority| priority.to_string())),
        some(trunk.cost.map(|cost| cost.to_string())),
        trunk.targets.iter().map(target).collect::<Vec<_>>().join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_shown_with_its_trunks_in_order() {
        let trunk = |name: &str, line, down: &[&str]| NumberTrunk {
            trunk: name.into(),
            line,
            priority: line.map(|_| 10),
            cost: line.map(|_| 0.008),
            targets: vec!["sip:192.0.2.1".into(), "sip:192.0.2.2".into()],
            down: down.iter().map(|uri| (*uri).to_owned()).collect(),
        };
        let route = NumberRoute {
            number: "+4930555".into(),
            prefix: Some("+4930".into()),
            source: Some("routes.csv".into()),
            before: None,
            trunks: vec![trunk("carrier", Some(7), &["sip:192.0.2.1"]), trunk("backup", None, &[])],
        };
        let wanted = "number  +4930555\n\
                      prefix  +4930 in routes.csv\n\
                      TRY  TRUNK    LINE  PRIORITY  COST   TARGETS\n\
                      1    carrier  7     10        0.008  sip:192.0.2.1 (down), sip:192.0.2.2\n\
                      2    backup   -     -         -      sip:192.0.2.1, sip:192.0.2.2\n";
        assert_eq!(number_text(&route), wanted);
        let none = NumberRoute {
            prefix: None,
            source: None,
            trunks: Vec::new(),
            before: Some("[emergency]".into()),
            ..route
        };
        let wanted = "number  +4930555\nprefix  none: no trunk serves this number\nbefore  [emergency]\n";
        assert_eq!(number_text(&none), wanted);
    }
}
