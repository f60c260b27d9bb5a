//! An element and its attributes, each of which must be understood.

use super::super::context::{Context, Place};
use super::super::problem::Problem;
use crate::nearest;
use roxmltree::Node;
use std::cell::RefCell;

/// Tells where a node stands in the file.
pub(super) type Places<'p> = &'p dyn Fn(Node<'_, '_>) -> Place;

/// An element.
pub(super) struct Tag<'n, 'p> {
    pub node: Node<'n, 'n>,
    pub place: Place,
    places: Places<'p>,
    /// Attributes that were asked for.
    known: RefCell<Vec<String>>,
}

impl<'n, 'p> Tag<'n, 'p> {
    pub fn new<'i: 'n>(node: Node<'n, 'i>, places: Places<'p>) -> Tag<'n, 'p> {
        Tag { node, place: places(node), places, known: RefCell::new(Vec::new()) }
    }

    pub fn name(&self) -> &'n str {
        self.node.tag_name().name()
    }

    /// How it is called in messages to people.
    pub fn shown(&self) -> String {
        format!("<{}>", self.name())
    }

    /// The elements in it.
    pub fn children(&self) -> impl Iterator<Item = Tag<'n, 'p>> + use<'n, 'p> {
        let places = self.places;
        self.node.children().filter(Node::is_element).map(move |node| Tag::new(node, places))
    }

    /// The texts in it that are not blank, with their nodes.
    pub fn texts(&self) -> impl Iterator<Item = (Node<'n, 'n>, &'n str)> + use<'n> {
        let texts = self.node.children().filter(Node::is_text);
        texts.filter_map(|node| Some((node, node.text().filter(|text| !text.trim().is_empty())?)))
    }

    pub fn place_of(&self, node: Node<'_, '_>) -> Place {
        (self.places)(node)
    }

    /// What its first CDATA section holds, and where that begins in the text that was parsed. Line ends are
    /// single line feeds, as the parser has them.
    pub fn section(&self) -> Option<(usize, String)> {
        const BEGIN: &str = "<![CDATA[";
        let range = self.node.range();
        let source = self.node.document().input_text().get(range.clone())?;
        let from = source.find(BEGIN)? + BEGIN.len();
        let rest = source.get(from..)?;
        let held = rest.get(..rest.find("]]>")?)?;
        Some((range.start + from, held.replace("\r\n", "\n").replace('\r', "\n")))
    }

    pub fn complain(&self, context: &mut Context<'_>, what: impl Into<String>, mend: impl Into<String>) {
        context.complain(self.place, &self.shown(), what, mend);
    }

    /// An attribute.
    pub fn get(&self, name: &str) -> Option<&'n str> {
        let mut known = self.known.borrow_mut();
        if !known.iter().any(|own| own == name) {
            known.push(name.to_owned());
        }
        self.node.attribute(name)
    }

    /// An attribute that must be there.
    pub fn need(&self, name: &str, context: &mut Context<'_>) -> Option<&'n str> {
        let value = self.get(name);
        if value.is_none() {
            self.complain(
                context,
                format!("the attribute `{name}' is missing"),
                format!("add {name}=\"...\""),
            );
        }
        value
    }

    /// `true` or `false`.
    pub fn flag(&self, name: &str, default: bool, context: &mut Context<'_>) -> bool {
        match self.get(name) {
            None => default,
            Some("true" | "1") => true,
            Some("false" | "0") => false,
            Some(other) => {
                self.complain(
                    context,
                    format!("{name}=\"{other}\" is neither true nor false"),
                    "write one of them",
                );
                default
            }
        }
    }

    /// Whether one of its attributes was probably meant to be one of these.
    pub fn has_misspelt(&self, names: &[&str]) -> bool {
        let near = |own: &str| !names.contains(&own) && nearest(own, names.iter().copied()).is_some();
        self.node.attributes().any(|own| near(own.name()))
    }

    /// Complains about what nobody asked for: attributes, and text.
    pub fn finish(&self, context: &mut Context<'_>) {
        let known = self.known.borrow();
        for attribute in self.node.attributes() {
            let name = attribute.name();
            if !known.iter().any(|own| own == name) {
                let what = format!("unknown attribute `{name}'");
                let list = known.join(", ");
                let meant = nearest(name, known.iter().map(String::as_str));
                let mend = match meant {
                    Some(meant) => format!("did you mean `{meant}'? It may have: {list}"),
                    None if list.is_empty() => "it has none".to_owned(),
                    None => format!("it may have: {list}"),
                };
                let said = context.problems.len();
                self.complain(context, what, mend);
                if meant.is_some() {
                    // What else was said of the element follows from it, mostly.
                    let is_here = |p: &Problem| (p.line, p.column) == (self.place.line, self.place.column);
                    let first = context.problems.iter().position(is_here).unwrap_or(said);
                    context.problems.get_mut(first..).into_iter().for_each(|own| own.rotate_right(1));
                }
            }
        }
        if self.name() != "send" && self.texts().next().is_some() {
            self.complain(
                context,
                "it holds text",
                "only <send> holds a message; put other text into comments",
            );
        }
    }
}
