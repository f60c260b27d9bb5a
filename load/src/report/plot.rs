//! Line plots as inline SVG, without scripts. Colours come from the page's style sheet.

use std::fmt::Write as _;

use super::format::{escape, number};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;
/// More points than this to a line are drawn as their envelope.
const COLUMNS: usize = 700;

/// How an axis maps values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By powers of ten; values of zero and less are drawn at the lower edge.
    Log,
    /// A share from 0 to 1 by its nines: 0.9, 0.99, 0.999 are equally far apart.
    Nines,
}

/// One line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// In the legend.
    pub name: String,
    /// (x, y), x ascending; a gap where y is nothing.
    pub points: Vec<(f64, Option<f64>)>,
    /// Every point is a dot, of this style class.
    pub dots: Option<&'static str>,
}

impl Line {
    pub(super) fn new(name: impl Into<String>, points: Vec<(f64, Option<f64>)>) -> Line {
        Line { name: name.into(), points, dots: None }
    }

    /// Dots that are not connected.
    pub(super) fn dots(
        name: impl Into<String>,
        class: &'static str,
        points: Vec<(f64, Option<f64>)>,
    ) -> Line {
        Line { name: name.into(), points, dots: Some(class) }
    }

    /// Style classes of line number `i`.
    fn class(&self, i: usize) -> String {
        self.dots.map_or_else(|| format!("line l{}", i % 6), |class| format!("line dots {class}"))
    }
}

/// A plot.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// Heading.
    pub title: String,
    /// One sentence under it.
    pub text: String,
    /// Below the x axis.
    pub x: String,
    /// Unit of the y axis.
    pub y: String,
    pub x_scale: Scale,
    pub y_scale: Scale,
    pub lines: Vec<Line>,
    /// A span of x that is marked, with its name.
    pub span: Option<(f64, f64, String)>,
    /// A limit on y, with its name.
    pub limit: Option<(f64, String)>,
}

impl Plot {
    pub(super) fn over_time(title: &str, text: &str, y: &str, lines: Vec<Line>) -> Plot {
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
        }
    }

    /// The plot as a figure; nothing if no line has a point.
    pub(super) fn svg(&self) -> String {
        let lines: Vec<&Line> =
            self.lines.iter().filter(|l| l.points.iter().any(|p| p.1.is_some())).collect();
        if lines.is_empty() {
            return String::new();
        }
        let xs = lines.iter().flat_map(|l| l.points.iter().map(|p| p.0));
        let ys = lines.iter().flat_map(|l| l.points.iter().filter_map(|p| p.1));
        let x = Axis::over(self.x_scale, xs, LEFT, WIDTH - RIGHT, false);
        let y =
            Axis::over(self.y_scale, ys.chain(self.limit.iter().map(|l| l.0)), HEIGHT - BOTTOM, TOP, true);
        let mut out = String::new();
        let (title, text) = (escape(&self.title), escape(&self.text));
        let _ = write!(out, "<figure class=\"plot\"><figcaption><h3>{title}</h3><p>{text}</p></figcaption>");
        legend(&mut out, &lines);
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}. {}\">",
            escape(&summary(&lines, &self.y))
        );
        self.marks(&mut out, &x, &y);
        self.axes(&mut out, &x, &y);
        for (i, line) in lines.iter().enumerate() {
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
                WIDTH - RIGHT,
                WIDTH - RIGHT - 4.0,
                at - 4.0,
                escape(name)
            );
        }
    }

    fn axes(&self, out: &mut String, x: &Axis, y: &Axis) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (value, label) in y.ticks() {
            let at = y.place(value);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        for (value, label) in x.ticks() {
            let at = x.place(value);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\"/>\
                 <text class=\"tick middle\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>",
                bottom + 4.0,
                bottom + 16.0
            );
        }
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"tick middle\" transform=\"translate(12 {:.1}) rotate(-90)\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 4.0,
            escape(&self.x),
            f64::midpoint(TOP, bottom),
            escape(&self.y)
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
        let values = || line.points.iter().filter_map(|p| p.1);
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
        let values = || chunk.iter().filter_map(|p| p.1);
        let Some((at, first)) = chunk.iter().find_map(|p| p.1.map(|v| (x.place(p.0), v))) else {
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

/// One axis: from values to places.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis that has room for all `values`, drawn from `from` to `to`.
    fn over(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64, head_room: bool) -> Axis {
        let (mut low, mut high, mut least) = (f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY);
        // Nothing measured is as large as this; it keeps differences and ratios finite.
        for v in values.filter(|v| v.is_finite()).map(|v| v.clamp(-1e15, 1e15)) {
            (low, high) = (low.min(v), high.max(v));
            if v > 0.0 {
                least = least.min(v);
            }
        }
        if !(low.is_finite() && high.is_finite()) {
            (low, high) = (0.0, 1.0);
        }
        let (low, high) = match scale {
            Scale::Linear => {
                let low = if head_room { low.min(0.0) } else { low };
                let high = if high <= low { low + 1.0 } else { high };
                (low, if head_room { low + (high - low) * 1.08 } else { high })
            }
            Scale::Log => {
                let least = if least.is_finite() { least.log10() } else { -3.0 };
                let most = if high > 0.0 { high.log10() } else { least + 1.0 };
                let low = (least * 3.0).floor() / 3.0;
                (low, most.max(low + 0.7) + if head_room { 0.08 } else { 0.0 })
            }
            Scale::Nines => (0.0, nines(high).max(1.0) * if head_room { 1.04 } else { 1.0 }),
        };
        Axis { scale, low, high, from, to }
    }

    fn place(&self, v: f64) -> f64 {
        let v = match self.scale {
            Scale::Linear => v,
            Scale::Log if v > 0.0 => v.log10(),
            Scale::Log => self.low,
            Scale::Nines => nines(v),
        };
        let share = ((v - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + (self.to - self.from) * share
    }

    /// Values that get a line, with their labels.
    fn ticks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high),
            Scale::Log => log_ticks(self.low, self.high),
            Scale::Nines => {
                let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];
                let texts = ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"];
                let all = shares.into_iter().zip(texts);
                all.filter(|(s, _)| nines(*s) <= self.high).map(|(s, t)| (s, t.to_owned())).collect()
            }
        }
    }
}

/// 0.9 is 1, 0.99 is 2, and so on; 1 itself is beyond all.
fn nines(share: f64) -> f64 {
    -(1.0 - share.clamp(0.0, 1.0 - 1e-12)).log10()
}

/// About five round numbers.
fn linear_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let rough = (high - low) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (0..12)
        .map(|i| (first + i) as f64 * step)
        .take_while(|v| *v <= high + step * 1e-9)
        // A multiple of a power of ten, without what floating point adds to it.
        .map(|v| (v * 1e9).round() / 1e9)
        .map(|v| (v, short(v)))
        .collect()
}

/// Without zeroes at the end of a fraction.
fn short(v: f64) -> String {
    let text = number(v);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Powers of ten, with 2 and 5 between them where few powers are.
fn log_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let between: &[f64] = if high - low > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let mut out = Vec::new();
    for power in (low.floor() as i32)..=(high.ceil() as i32) {
        for m in between {
            let v = m * 10_f64.powi(power);
            if v.log10() >= low - 1e-9 && v.log10() <= high + 1e-9 {
                out.push((v, short(v)));
            }
        }
    }
    out
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
    fn every_place_is_inside_whatever_the_values() {
        let odd = [0.0, -1.0, 1e-9, 1.0, 1e12, f64::MAX, f64::NAN, f64::INFINITY];
        for scale in [Scale::Linear, Scale::Log, Scale::Nines] {
            for a in odd {
                for b in odd {
                    let axis = Axis::over(scale, [a, b].into_iter(), LEFT, WIDTH - RIGHT, true);
                    for v in odd.into_iter().filter(|v| v.is_finite()) {
                        let at = axis.place(v);
                        assert!((LEFT..=WIDTH - RIGHT).contains(&at), "{scale:?} {a} {b} {v}: {at}");
                    }
                    assert!(axis.ticks().len() < 700);
                }
            }
        }
    }

    #[test]
    fn ticks_are_round() {
        let labels = |t: Vec<(f64, String)>| t.into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(labels(linear_ticks(0.0, 1.0)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(linear_ticks(0.0, 4_300.0)), ["0", "1,000", "2,000", "3,000", "4,000"]);
        assert_eq!(labels(log_ticks(0.0, 1.0)), ["1", "2", "5", "10"]);
        assert_eq!(labels(log_ticks(-2.0, 3.0)), ["0.01", "0.1", "1", "10", "100", "1,000"]);
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
