//! Answers as trees of elements, so that a test can look at them before they are text.

use std::fmt::{Display, Write as _};

/// An element of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    name: String,
    inner: Inner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Inner {
    Text(String),
    Elements(Vec<Element>),
}

/// An element that holds a text.
pub(super) fn text(name: &str, value: impl Display) -> Element {
    Element { name: name.to_owned(), inner: Inner::Text(value.to_string()) }
}

/// An element that holds others.
pub(super) fn node(name: &str, inner: Vec<Element>) -> Element {
    Element { name: name.to_owned(), inner: Inner::Elements(inner) }
}

/// A list, as EC2 writes one.
pub(super) fn set(name: &str, items: impl IntoIterator<Item = Vec<Element>>) -> Element {
    node(name, items.into_iter().map(|item| node("item", item)).collect())
}

impl Element {
    /// The element as text.
    pub(super) fn write(&self, out: &mut String) {
        let _ = write!(out, "<{}>", self.name); // writing to a String cannot fail
        match &self.inner {
            Inner::Text(text) => escape(text, out),
            Inner::Elements(elements) => elements.iter().for_each(|element| element.write(out)),
        }
        let _ = write!(out, "</{}>", self.name);
    }

    /// The paths of all elements in it that hold no others.
    #[cfg(test)]
    pub(super) fn paths(&self) -> Vec<String> {
        match &self.inner {
            Inner::Elements(elements) if !elements.is_empty() => {
                elements.iter().flat_map(Self::paths).map(|path| format!("{}.{path}", self.name)).collect()
            }
            _ => vec![self.name.clone()],
        }
    }
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_becomes_text_with_its_marks_escaped() {
        let tree = node("a", vec![set("b", [vec![text("c", "1 < 2 & 3")], vec![]])]);
        let mut out = String::new();
        tree.write(&mut out);
        assert_eq!(out, "<a><b><item><c>1 &lt; 2 &amp; 3</c></item><item></item></b></a>");
        assert_eq!(tree.paths(), ["a.b.item.c", "a.b.item"]);
    }
}
