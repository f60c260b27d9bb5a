//! The frame of a page: one file, no script, nothing loaded from anywhere.

use std::fmt::Write as _;

use super::format::escape;
use super::model::Fact;

const STYLE: &str = include_str!("style.css");

/// A page that is being written. Every text that its methods take is escaped.
#[derive(Clone, Debug)]
pub struct Page {
    /// The page so far, as markup.
    pub out: String,
}

impl Page {
    /// Begins the page. Should a peer's bytes ever get past the escaping, the policy in the head still lets
    /// no script run and nothing be loaded.
    pub fn new(title: &str) -> Page {
        Page::styled(title, "")
    }

    /// As [`Page::new`], with more rules after those of the style sheet.
    pub fn styled(title: &str, more: &str) -> Page {
        let mut out = String::with_capacity(1 << 18);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <title>{}</title>\n<style>\n{STYLE}{more}</style></head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">To the content</a>\n",
            escape(title)
        );
        Page { out }
    }

    /// Adds text that is not markup.
    pub fn text(&mut self, text: &str) {
        self.out.push_str(&escape(text));
    }

    /// Adds an element without attributes around text.
    pub fn element(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.out, "<{name}>{}</{name}>", escape(text));
    }

    /// Begins a section with a heading that the contents can lead to.
    pub fn section(&mut self, id: &str, title: &str) {
        let _ = writeln!(self.out, "<h2 id=\"{id}\">{}</h2>", escape(title));
    }

    /// Links to the sections.
    pub fn contents(&mut self, sections: &[(&str, &str)]) {
        self.out.push_str("<nav aria-label=\"Contents\"><ul>");
        for (id, title) in sections {
            let _ = write!(self.out, "<li><a href=\"#{id}\">{}</a></li>", escape(title));
        }
        self.out.push_str("</ul></nav>\n");
    }

    /// A list of sentences; nothing for none.
    pub fn list(&mut self, items: &[String]) {
        if items.is_empty() {
            return;
        }
        self.out.push_str("<ul>");
        for i in items {
            let _ = write!(self.out, "<li>{}</li>", escape(i));
        }
        self.out.push_str("</ul>\n");
    }

    /// Begins a table that scrolls by itself when it is too wide. A column whose title begins with '#'
    /// holds numbers.
    pub fn table(&mut self, caption: &str, columns: &[&str]) {
        let caption = escape(caption);
        let _ = write!(
            self.out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>\
             <caption><span>{caption}</span></caption><thead><tr>"
        );
        for c in columns {
            let (class, c) = c.strip_prefix('#').map_or(("", *c), |c| (" class=\"n\"", c));
            let _ = write!(self.out, "<th scope=\"col\"{class}>{}</th>", escape(c));
        }
        self.out.push_str("</tr></thead><tbody>\n");
    }

    /// A row of a table: (class, text) of each cell.
    pub fn row(&mut self, cells: &[(&str, &str)]) {
        self.out.push_str("<tr>");
        for (class, text) in cells {
            if class.is_empty() {
                let _ = write!(self.out, "<td>{}</td>", escape(text));
            } else {
                let _ = write!(self.out, "<td class=\"{class}\">{}</td>", escape(text));
            }
        }
        self.out.push_str("</tr>\n");
    }

    /// Ends a table.
    pub fn end_table(&mut self) {
        self.out.push_str("</tbody></table></div>\n");
    }

    /// Adds markup; what came from outside is escaped by the caller.
    pub fn raw(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// Names and values; nothing for none.
    pub fn facts(&mut self, caption: &str, facts: &[Fact]) {
        if facts.is_empty() {
            return;
        }
        self.table(caption, &["Name", "Value"]);
        for f in facts {
            self.row(&[("", &f.name), ("", &f.value)]);
        }
        self.end_table();
    }

    /// Ends the page.
    pub fn finish(mut self, program: &str) -> String {
        let _ = write!(
            self.out,
            "<footer>Written by {}. Figures are of the measured window unless they say otherwise.</footer>\n\
             </main></body></html>\n",
            escape(program)
        );
        self.out
    }
}
