//! Line plots as inline SVG, without scripts. Colours come from the page's style sheet.

use std::fmt::Write as _;

use super::axis::{Axis, Scale};
use super::format::{escape, number};

/// Width of a plot that has the page for itself, in units of its drawing: pixels where nothing scales it.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 68.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;
/// More points than this to a line are drawn as their envelope.
const COLUMNS: usize = 700;

/// Events that are named in a plot; of more only the lines are drawn.
const EVENTS_NAMED: usize = 6;
/// About the width of a character of a label, and its height.
const CHARACTER: f64 = 6.2;
const LINE: f64 = 12.0;

/// How the range of a value is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// An area around the line.
    Band,
    /// A bar through each point, which is a dot.
    Bars,
}

/// x, and the lowest and highest value there.
pub type Range = (f64, f64, f64);

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// (x, y), x ascending; a gap where y is nothing.
    pub points: Vec<(f64, Option<f64>)>,
    /// Every point is a dot, of this style class.
    pub dots: Option<&'static str>,
    /// (x, low, high), x ascending: between which values y lies.
    pub spread: Option<(Spread, Vec<Range>)>,
}

impl Line {
    /// A line through these points.
    pub fn new(name: impl Into<String>, points: Vec<(f64, Option<f64>)>) -> Line {
        Line { name: name.into(), points, dots: None, spread: None }
    }

    /// Dots that are not connected.
    pub fn dots(name: impl Into<String>, class: &'static str, points: Vec<(f64, Option<f64>)>) -> Line {
        Line { dots: Some(class), ..Line::new(name, points) }
    }

    /// The same line with the range of its values.
    #[must_use]
    pub fn with_spread(self, how: Spread, ranges: Vec<Range>) -> Line {
        Line { spread: Some((how, ranges)), ..self }
    }

    /// The value of a point that has a place.
    fn value(point: &(f64, Option<f64>)) -> Option<f64> {
        point.1.filter(|value| value.is_finite() && point.0.is_finite())
    }

    fn ranges(&self) -> &[Range] {
        self.spread.as_ref().map_or(&[], |(_, ranges)| ranges)
    }

    /// Style classes of line number `i`.
    fn class(&self, i: usize) -> String {
        self.dots.map_or_else(|| format!("line l{}", i % 6), |class| format!("line dots {class}"))
    }
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Heading.
    pub title: String,
    /// One sentence under it.
    pub text: String,
    /// Below the x axis.
    pub x: String,
    /// Unit of the y axis.
    pub y: String,
    /// Of the x axis.
    pub x_scale: Scale,
    /// Of the y axis.
    pub y_scale: Scale,
    /// What is drawn; six styles of lines take turns.
    pub lines: Vec<Line>,
    /// A span of x that is marked, with its name.
    pub span: Option<(f64, f64, String)>,
    /// A limit on y, with its name.
    pub limit: Option<(f64, String)>,
    /// What happened at some x, with its name.
    pub events: Vec<(f64, String)>,
    /// Names of the x values 0, 1, 2 and so on, in place of numbers; empty if x is a number.
    pub names: Vec<String>,
    /// In units of the drawing; the page scales it to the space that there is.
    pub width: f64,
}

impl Plot {
    /// A plot over seconds with axes from zero.
    pub fn over_time(title: &str, text: &str, y: &str, lines: Vec<Line>) -> Plot {
        Plot {
            title: title.to_owned(),
            text: text.to_owned(),
            x: "seconds since the start".to_owned(),
            y: y.to_owned(),
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            lines,
            span: None,
            limit: None,
            events: Vec::new(),
            names: Vec::new(),
            width: WIDTH,
        }
    }

    /// The right end of the x axis.
    fn right(&self) -> f64 {
        self.width.max(2.0 * LEFT) - RIGHT
    }

    fn axis_x(&self, lines: &[&Line]) -> Axis {
        let right = self.right();
        if !self.names.is_empty() {
            // Half a step of room on both sides.
            let ends = [-0.5, self.names.len() as f64 - 0.5];
            return Axis::over(Scale::Linear, ends.into_iter(), LEFT, right, false);
        }
        let points = lines.iter().flat_map(|l| l.points.iter().map(|p| p.0));
        let ranges = lines.iter().flat_map(|l| l.ranges().iter().map(|r| r.0));
        Axis::over(self.x_scale, points.chain(ranges), LEFT, right, false)
    }

    fn axis_y(&self, lines: &[&Line]) -> Axis {
        let points = lines.iter().flat_map(|l| l.points.iter().filter_map(Line::value));
        let ranges = lines.iter().flat_map(|l| l.ranges().iter().flat_map(|r| [r.1, r.2]));
        let values = points.chain(ranges).chain(self.limit.iter().map(|l| l.0));
        Axis::over(self.y_scale, values, HEIGHT - BOTTOM, TOP, true)
    }

    /// The plot as a figure; nothing if no line has a point.
    pub fn svg(&self) -> String {
        let lines: Vec<&Line> =
            self.lines.iter().filter(|l| l.points.iter().any(|p| Line::value(p).is_some())).collect();
        if lines.is_empty() {
            return String::new();
        }
        let (x, y) = (self.axis_x(&lines), self.axis_y(&lines));
        let mut out = String::new();
        let (title, text) = (escape(&self.title), escape(&self.text));
        let _ = write!(out, "<figure class=\"plot\"><figcaption><h3>{title}</h3><p>{text}</p></figcaption>");
        legend(&mut out, &lines);
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {} {HEIGHT}\" role=\"img\" aria-label=\"{title}. {}\">",
            self.right() + RIGHT,
            escape(&summary(&lines, &self.y))
        );
        self.marks(&mut out, &x, &y);
        self.axes(&mut out, &x, &y);
        for (i, line) in lines.iter().enumerate() {
            spread(&mut out, line, i, &x, &y);
            let _ = write!(out, "<path class=\"{}\" d=\"", line.class(i));
            path(&mut out, line, &x, &y);
            out.push_str("\"/>");
        }
        out.push_str("</svg></figure>\n");
        out
    }

    fn marks(&self, out: &mut String, x: &Axis, y: &Axis) {
        if let Some((from, to, name)) = &self.span {
            let (a, b) = (x.place(*from), x.place(*to));
            let _ = write!(
                out,
                "<rect class=\"span\" x=\"{a:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\
                 <text class=\"note\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                (b - a).max(0.0),
                HEIGHT - TOP - BOTTOM,
                a + 4.0,
                TOP + 12.0,
                escape(name)
            );
        }
        if let Some((limit, name)) = &self.limit {
            let at = y.place(*limit);
            let _ = write!(
                out,
                "<line class=\"limit\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"note end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                self.right(),
                self.right() - 4.0,
                at - 4.0,
                escape(name)
            );
        }
        self.events(out, x);
    }

    fn events(&self, out: &mut String, x: &Axis) {
        for (nth, (at, name)) in self.events.iter().enumerate().filter(|(_, (at, _))| at.is_finite()) {
            let at = x.place(*at);
            let bottom = HEIGHT - BOTTOM;
            let _ = write!(
                out,
                "<line class=\"event\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>"
            );
            if nth < EVENTS_NAMED {
                // Names of events close to each other stand below each other, and never beyond the edge.
                let line = TOP + LINE * (2 + nth % 3) as f64;
                let over = at + name.chars().count() as f64 * CHARACTER > self.right();
                let (class, place) = if over { ("note end", at - 4.0) } else { ("note", at + 4.0) };
                let name = escape(name);
                let _ = write!(out, "<text class=\"{class}\" x=\"{place:.1}\" y=\"{line:.1}\">{name}</text>");
            }
        }
    }

    /// Places on the x axis that get a mark, with their labels.
    fn ticks_x(&self, x: &Axis) -> Vec<(f64, String)> {
        if self.names.is_empty() {
            return x.ticks();
        }
        self.names.iter().enumerate().map(|(i, name)| (i as f64, escape(name))).collect()
    }

    fn axes(&self, out: &mut String, x: &Axis, y: &Axis) {
        let (bottom, right) = (HEIGHT - BOTTOM, self.right());
        let mut free = f64::INFINITY;
        for (value, label) in y.ticks() {
            let at = y.place(value);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
            );
            // From the bottom up; a label that would touch the one below it is left out.
            if at <= free {
                free = at - LINE;
                let (x, y) = (LEFT - 6.0, at + 4.0);
                let _ = write!(out, "<text class=\"tick end\" x=\"{x:.1}\" y=\"{y:.1}\">{label}</text>");
            }
        }
        let mut taken = 0.0;
        for (value, label) in self.ticks_x(x) {
            let at = x.place(value);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\"/>",
                bottom + 4.0
            );
            // A label that would run into the one before it is left out.
            let half = label.chars().count() as f64 * CHARACTER / 2.0;
            if at - half >= taken {
                taken = at + half + CHARACTER;
                let _ = write!(
                    out,
                    "<text class=\"tick middle\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>",
                    bottom + 16.0
                );
            }
        }
        // Labels by nines need all the room, and say by themselves that they are shares.
        let unit = if self.y_scale == Scale::Nines { "" } else { &self.y };
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"tick middle\" transform=\"translate(12 {:.1}) rotate(-90)\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 4.0,
            escape(&self.x),
            f64::midpoint(TOP, bottom),
            escape(unit)
        );
    }
}

fn legend(out: &mut String, lines: &[&Line]) {
    if lines.len() < 2 {
        return;
    }
    out.push_str("<ul class=\"legend\">");
    for (i, line) in lines.iter().enumerate() {
        let _ = write!(
            out,
            "<li><svg viewBox=\"0 0 26 8\" aria-hidden=\"true\"><path class=\"{}\" d=\"{}\"/></svg>{}</li>",
            line.class(i),
            if line.dots.is_some() { "M13 4h.1" } else { "M1 4H25" },
            escape(&line.name)
        );
    }
    out.push_str("</ul>");
}

/// What the plot shows, in words: smallest and largest value of each line.
fn summary(lines: &[&Line], unit: &str) -> String {
    let mut out = String::new();
    for line in lines {
        let values = || line.points.iter().filter_map(Line::value);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let _ = write!(out, "{}: {} to {} {unit}. ", line.name, number(low), number(high));
    }
    out
}

/// The points of a line as path data, reduced to the envelope where there are more than pixels.
fn path(out: &mut String, line: &Line, x: &Axis, y: &Axis) {
    let group = line.points.len().div_ceil(COLUMNS).max(1);
    let mut open = false;
    for chunk in line.points.chunks(group) {
        let values = || chunk.iter().filter_map(Line::value);
        let Some((at, first)) = chunk.iter().find_map(|p| Line::value(p).map(|v| (x.place(p.0), v))) else {
            open = false;
            continue;
        };
        let command = if open && line.dots.is_none() { 'L' } else { 'M' };
        let _ = write!(out, "{command}{at:.1} {:.1}", y.place(first));
        if group > 1 && line.dots.is_none() {
            let (low, high) =
                (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
            let _ = write!(out, "V{:.1}V{:.1}", y.place(low), y.place(high));
        } else if !open || line.dots.is_some() {
            // A value between two gaps is a dot.
            out.push_str("h.1");
        }
        open = true;
    }
}

/// The range of a line's values: an area reduced as the line is, or bars with a dot each.
fn spread(out: &mut String, line: &Line, nth: usize, x: &Axis, y: &Axis) {
    let Some((how, ranges)) = &line.spread else { return };
    let ranges: Vec<&Range> =
        ranges.iter().filter(|r| [r.0, r.1, r.2].iter().all(|v| v.is_finite())).collect();
    if ranges.is_empty() {
        return;
    }
    let nth = nth % 6;
    if *how == Spread::Bars {
        let _ = write!(out, "<path class=\"bars k{nth}\" d=\"");
        for (at, low, high) in ranges.iter().take(COLUMNS) {
            let (at, low, high) = (x.place(*at), y.place(*low), y.place(*high));
            let _ = write!(out, "M{at:.1} {low:.1}V{high:.1}M{0:.1} {low:.1}h8M{0:.1} {high:.1}h8", at - 4.0);
        }
        let _ = write!(out, "\"/><path class=\"knots k{nth}\" d=\"");
        for (at, value) in line.points.iter().take(COLUMNS).filter_map(|p| Some((p.0, Line::value(p)?))) {
            let _ = write!(out, "M{:.1} {:.1}h.1", x.place(at), y.place(value));
        }
        out.push_str("\"/>");
        return;
    }
    let group = ranges.len().div_ceil(COLUMNS / 2).max(1);
    let edge: Vec<(f64, f64, f64)> = ranges
        .chunks(group)
        .filter_map(|chunk| {
            let low = chunk.iter().map(|r| r.1).fold(f64::INFINITY, f64::min);
            let high = chunk.iter().map(|r| r.2).fold(f64::NEG_INFINITY, f64::max);
            Some((x.place(chunk.first()?.0), y.place(low), y.place(high)))
        })
        .collect();
    let _ = write!(out, "<path class=\"band b{nth}\" d=\"");
    for (i, (at, _, high)) in edge.iter().enumerate() {
        let _ = write!(out, "{}{at:.1} {high:.1}", if i == 0 { 'M' } else { 'L' });
    }
    for (at, low, _) in edge.iter().rev() {
        let _ = write!(out, "L{at:.1} {low:.1}");
    }
    out.push_str("Z\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, Option<f64>)>) -> Plot {
        Plot::over_time("T", "text", "ms", vec![Line::new("a", points)])
    }

    #[test]
    fn nothing_to_draw_is_no_figure() {
        assert_eq!(plot(vec![]).svg(), "");
        assert_eq!(plot(vec![(0.0, None)]).svg(), "");
    }

    #[test]
    fn gaps_interrupt_the_line_and_long_lines_are_reduced() {
        let svg = plot(vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(2.0)), (3.0, Some(3.0))]).svg();
        let d = svg.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(d.matches('M').count(), 2, "{d}");
        assert_eq!(d.matches('L').count(), 1, "{d}");
        let svg = plot((0..4_096).map(|i| (f64::from(i), Some(f64::from(i % 7)))).collect()).svg();
        assert!(svg.len() < 30_000, "{}", svg.len());
    }

    #[test]
    fn range_of_values_is_inside_and_reduced() {
        let points = |n: i32| (0..n).map(|i| (f64::from(i), Some(5.0))).collect::<Vec<_>>();
        let ranges = |n: i32| (0..n).map(|i| (f64::from(i), 1.0, 900.0)).collect::<Vec<_>>();
        let mut p = plot(vec![]);
        p.lines = vec![Line::new("a", points(4_096)).with_spread(Spread::Band, ranges(4_096))];
        let svg = p.svg();
        assert!(svg.contains("band b0") && svg.len() < 40_000, "{}", svg.len());
        assert!(svg.contains(">800<"), "the axis has room for the range");
        p.lines = vec![Line::new("a", points(3)).with_spread(Spread::Bars, ranges(3))];
        p.names = vec!["udp".to_owned(), "<i>".to_owned(), "tls".to_owned()];
        let svg = p.svg();
        assert!(svg.contains("bars k0") && svg.contains("knots k0"));
        assert!(svg.contains(">udp<") && svg.contains(">&lt;i&gt;<") && svg.contains(">tls<"));
        p.lines = vec![Line::new("a", points(3)).with_spread(Spread::Band, vec![(f64::NAN, 1.0, 2.0)])];
        p.lines[0].points.extend([(4.0, Some(f64::NAN)), (f64::NAN, Some(1.0))]);
        assert!(!p.svg().contains("NaN"));
    }

    #[test]
    fn labels_of_a_narrow_plot_do_not_collide() {
        let mut p = plot((0..9).map(|i| (10_f64.powi(i), Some(1.0))).collect());
        p.x_scale = Scale::Log;
        let labels = |p: &Plot| p.svg().matches("class=\"tick middle\"").count();
        let wide = labels(&p);
        p.width = 300.0;
        assert!(labels(&p) < wide, "{} {wide}", labels(&p));
        assert!(p.svg().contains("viewBox=\"0 0 300 250\""));
    }

    #[test]
    fn events_are_drawn_with_few_names() {
        let mut p = plot(vec![(0.0, Some(1.0)), (10.0, Some(2.0))]);
        p.events = (0..9).map(|i| (f64::from(i), format!("kill <{i}>"))).collect();
        let svg = p.svg();
        assert_eq!((svg.matches("class=\"event\"").count(), svg.matches("kill &lt;").count()), (9, 6));
    }

    #[test]
    fn names_are_escaped() {
        let mut p = plot(vec![(0.0, Some(1.0)), (1.0, Some(2.0))]);
        p.lines.push(Line::new("<b>", p.lines[0].points.clone()));
        (p.title, p.text, p.x, p.y) = ("<i>".into(), "<i>".into(), "<i>".into(), "<i>".into());
        p.span = Some((0.0, 1.0, "<i>".into()));
        p.limit = Some((1.0, "<i>".into()));
        let svg = p.svg();
        assert!(!svg.contains("<i>") && !svg.contains("<b>"));
    }
}
