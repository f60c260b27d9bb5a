//! What associations cost: memory by slab cache, times while there are more and more, time between packets.

use std::collections::BTreeMap;

use load::report::number;
use load::report::svg::{Line, Page, Plot};

use super::groups::{Combination, Group};
use super::page::{Cell, PLOT_WIDTH, cells, has_room, left_out, rows};
use super::words::{NOTHING, factors, short};
use crate::associations::{Associations, Packet, Point};
use crate::statistics::median;

/// Systems that have a column or a line.
const SYSTEMS_MAX: usize = 6;
/// Rows of a table.
const ROWS_MAX: usize = 100;

/// The section, where any run opened associations.
pub(super) fn associations(p: &mut Page, combinations: &[Combination<'_>]) {
    let with: Vec<(&Combination<'_>, Vec<&Group<'_>>)> = combinations
        .iter()
        .map(|combination| {
            let groups = combination.groups.iter().filter(|group| found(group).next().is_some());
            (combination, groups.take(SYSTEMS_MAX).collect())
        })
        .filter(|(_, groups): &(_, Vec<_>)| !groups.is_empty())
        .collect();
    if with.is_empty() {
        return;
    }
    p.section("associations", "Associations");
    let mut left = 0;
    for (combination, groups) in with {
        if !has_room(p) {
            left += 1;
            continue;
        }
        let name = factors(combination.factors);
        if !name.is_empty() {
            p.element("h3", &name);
        }
        curves(p, &groups);
        caches(p, &groups);
        packets(p, &groups);
        refusals(p, &groups);
    }
    left_out(p, left, "combination", "the archives have them");
}

/// What each run of a system found.
fn found<'a>(group: &'a Group<'_>) -> impl Iterator<Item = &'a Associations> {
    group.runs.iter().filter_map(|run| run.associations.as_ref())
}

fn curves(p: &mut Page, groups: &[&Group<'_>]) {
    type Of = fn(&Point) -> Option<f64>;
    let drawn: [(&str, &str, Of); 3] = [
        ("Set-up", "connect() of one more association", |point| point.connect),
        ("Exchange", "Request to answer on one more association", |point| point.exchange),
        ("First answer", "From the begin of the set-up to the answer", |point| point.first_answer),
    ];
    p.raw("<div class=\"plots\">");
    for (title, text, of) in drawn {
        let line = |group: &&Group<'_>| {
            let mut points: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for point in found(group).flat_map(|found| &found.curve) {
                points.entry(point.held).or_default().extend(of(point));
            }
            let points = points.into_iter().map(|(held, all)| (held as f64, median(&all)));
            Line::new(short(&group.subject), points.collect())
        };
        let lines: Vec<Line> = groups.iter().map(line).collect();
        if lines.iter().all(|line| line.points.iter().all(|(_, value)| value.is_none())) {
            continue;
        }
        let mut plot = Plot::over_time(title, text, "ms, median", lines);
        plot.x = "associations that were open".to_owned();
        plot.width = PLOT_WIDTH;
        p.raw(&plot.svg());
    }
    p.raw("</div>\n");
}

/// Objects of each slab cache, a column for each system.
fn caches(p: &mut Page, groups: &[&Group<'_>]) {
    let mut sizes: BTreeMap<&str, u32> = BTreeMap::new();
    for cache in groups.iter().flat_map(|group| found(group)).flat_map(|found| &found.caches) {
        sizes.insert(&cache.name, cache.size);
    }
    if sizes.is_empty() {
        return;
    }
    // The server's objects, or those of both sides where the server's are not known.
    let is_of_server = groups
        .iter()
        .flat_map(|group| found(group))
        .flat_map(|found| &found.caches)
        .all(|cache| cache.server.is_some());
    let objects = |group: &Group<'_>, name: &str| {
        let all: Vec<f64> = found(group)
            .map(|found| {
                let cache = found.caches.iter().find(|cache| cache.name == name);
                cache.map_or(0.0, |cache| if is_of_server { cache.server.unwrap_or(0.0) } else { cache.both })
            })
            .collect();
        median(&all).unwrap_or(0.0).max(0.0)
    };
    let side = if is_of_server { "at the server" } else { "at client and server together" };
    let caption = format!("Objects of slab caches for each association, {side}");
    let names: Vec<String> = groups.iter().map(|group| format!("#{}", short(&group.subject))).collect();
    let mut columns = vec!["Cache", "#Bytes"];
    columns.extend(names.iter().map(String::as_str));
    p.table(&caption, &columns);
    let mut by_weight: Vec<(&str, u32, Vec<f64>)> = sizes
        .iter()
        .map(|(name, size)| (*name, *size, groups.iter().map(|group| objects(group, name)).collect()))
        .collect();
    let weight = |(_, size, counts): &(&str, u32, Vec<f64>)| f64::from(*size) * counts.iter().sum::<f64>();
    by_weight.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    let left = rows(p, &by_weight, ROWS_MAX, |p, (name, size, counts)| {
        let (name, size) = (short(name), size.to_string());
        let counts: Vec<String> = counts.iter().map(|count| format!("{count:.2}")).collect();
        write_row(p, &name, &size, &counts);
    });
    let total = |nth: usize| -> f64 {
        by_weight
            .iter()
            .map(|(_, size, counts)| f64::from(*size) * counts.get(nth).copied().unwrap_or(0.0))
            .sum()
    };
    let totals: Vec<String> = (0..groups.len()).map(|nth| format!("{:.0}", total(nth))).collect();
    write_row(p, "All, bytes", "", &totals);
    p.end_table();
    left_out(p, left, "cache", "the archives have them");
}

fn write_row(p: &mut Page, name: &str, size: &str, values: &[String]) {
    let mut all = vec![Cell::Text("", name), Cell::Text("n", size)];
    all.extend(values.iter().map(|value| Cell::Text("n", value)));
    cells(p, &all);
}

/// Time between packets, a table for each system.
fn packets(p: &mut Page, groups: &[&Group<'_>]) {
    for group in groups {
        let Some(first) = found(group).map(|found| &found.packets).find(|packets| !packets.is_empty()) else {
            continue;
        };
        // Runs in which the packets came in another order are not mixed with the others.
        let alike: Vec<&Vec<Packet>> = found(group)
            .map(|found| &found.packets)
            .filter(|packets| packets.iter().map(|p| &p.name).eq(first.iter().map(|p| &p.name)))
            .collect();
        let caption = format!("Packets of {}: median time since the one before", short(&group.subject));
        p.table(&caption, &["Packet", "#ms", "#Associations"]);
        let left = rows(p, first.iter().enumerate(), ROWS_MAX, |p, (nth, packet)| {
            let of_runs = || alike.iter().filter_map(|packets| packets.get(nth));
            let times: Vec<f64> = of_runs().map(|packet| packet.ms).collect();
            let ms = median(&times).map_or_else(|| NOTHING.to_owned(), |ms| format!("{ms:.3}"));
            let seen = number(of_runs().map(|packet| packet.seen).sum::<u64>() as f64);
            p.row(&[("", &short(&packet.name)), ("n", &ms), ("n", &seen)]);
        });
        p.end_table();
        left_out(p, left, "packet", "the archives have them");
    }
}

/// Why a search ended.
fn refusals(p: &mut Page, groups: &[&Group<'_>]) {
    let line = |group: &&Group<'_>| {
        let ends: Vec<String> = found(group)
            .filter(|found| !found.refusal.is_empty())
            .map(|found| format!("{} open, then: {}", number(found.held as f64), short(&found.refusal)))
            .collect();
        (!ends.is_empty()).then(|| format!("{}: {}", short(&group.subject), ends.join("; ")))
    };
    p.list(&groups.iter().filter_map(line).collect::<Vec<String>>());
}
