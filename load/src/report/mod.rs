//! Reports: data in, text out. Nothing here reads a file, a clock or a terminal.
//!
//! [`Report::build`] makes a [`Report`] of what was measured; it goes to JSON and comes back
//! ([`Report::from_json`]), and from it alone are made the CSV of the time series ([`csv`]), the page for
//! people ([`html`]) and comparisons ([`compare`]). [`Live`] draws a run while it goes on.

mod axis;
mod build;
mod compare;
mod compare_view;
mod format;
mod html;
mod live;
mod model;
mod own;
mod page;
mod plot;
mod searched;
mod series;
mod sides;
mod stats;
mod summary;
/// Pages and plots for other reports: one file, without scripts, nothing loaded from anywhere.
pub mod svg {
    pub use super::axis::Scale;
    pub use super::format::{escape, percent, quoted};
    pub use super::page::Page;
    pub use super::plot::{Line, Plot, Range, Spread};
}

pub use build::{Inputs, distribution};
pub use compare::{Comparison, Group, Row, Statement, compare};
pub use format::{number, plain, with_unit};
pub use html::html;
pub use live::Live;
pub use model::{
    Better, CheckReport, Column, Curve, Distribution, Fact, LadderReport, Latency, Message, MetricRow,
    ReadError, Report, SeriesReport, Trial, VERSION, VerdictReport, Windows,
};
pub use searched::Searched;
pub use series::csv;
pub use sides::Found;
pub use stats::moments;
