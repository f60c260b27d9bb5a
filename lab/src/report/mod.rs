//! The report of an experiment: data in, text out. Nothing here reads a file, a clock or a terminal.
//!
//! [`html()`] makes one page for people, [`text()`] the essence for a terminal, [`csv()`] the figures for
//! other programs. [`comparison`] sets two experiments side by side. The page loads nothing and has no
//! script. Everything that came from outside is escaped. All that grows with an experiment has a limit, so
//! that a page stays below 2 MB.

mod associations;
mod bars;
mod checks;
mod claims;
mod compare_view;
mod comparison;
mod costs;
mod csv;
mod distribution;
mod figures;
mod groups;
mod hlog;
mod occupancy;
mod page;
mod papers;
mod runs;
mod series;
mod text;
mod words;
mod wrong;

#[cfg(test)]
mod tests;

pub use comparison::{Comparison, Difference, FigureRow, Relation, Side, comparison};
pub use csv::csv;
pub use hlog::hlog;
pub use page::html;
pub use text::text;
