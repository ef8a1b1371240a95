//! XML as a tree of elements.
//!
//! EC2 omits unknown members, and drivers that require them have crashed. Every member of this tree may be missing, and
//! each caller defines what its absence means.

use driver::{Code, DriverError};
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};

/// Maximum nesting depth; EC2's responses have less than twenty levels.
const MAX_DEPTH: usize = 64;

/// An element, without its attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    name: String,
    text: String,
    children: Vec<Element>,
}

impl Element {
    /// Parses a document. The error never contains its content.
    pub(crate) fn parse(document: &[u8]) -> Result<Self, DriverError> {
        let unreadable = |why: &str| DriverError::new(Code::Unavailable, format!("AWS returned {why}"));
        let document = std::str::from_utf8(document).map_err(|_| unreadable("invalid UTF-8"))?;
        let mut reader = Reader::from_str(document);
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event().map_err(|_| unreadable("invalid XML"))? {
                Event::Start(tag) => {
                    if open.len() > MAX_DEPTH {
                        return Err(unreadable("XML that is nested too deeply"));
                    }
                    open.push(Self { name: tag.local_name().as_ref().to_owned(), ..Self::default() });
                }
                Event::Empty(tag) => {
                    let empty = Self { name: tag.local_name().as_ref().to_owned(), ..Self::default() };
                    open.last_mut().ok_or_else(|| unreadable("broken XML"))?.children.push(empty);
                }
                Event::End(_) => {
                    let done = open.pop().ok_or_else(|| unreadable("broken XML"))?;
                    open.last_mut().ok_or_else(|| unreadable("broken XML"))?.children.push(done);
                }
                Event::Text(text) => append(&mut open, &text.xml10_content()),
                Event::CData(text) => append(&mut open, &text.xml10_content()),
                Event::GeneralRef(entity) => append(&mut open, &resolved(&entity)),
                Event::Eof => break,
                _ => {}
            }
        }
        match open.pop() {
            Some(mut document) if open.is_empty() && document.children.len() == 1 => {
                document.children.pop().ok_or_else(|| unreadable("no XML element"))
            }
            _ => Err(unreadable("XML that ends too early")),
        }
    }

    /// Returns the first child with this name.
    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Returns the element at this path.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |element, name| element.child(name))
    }

    /// Returns the text of a child, or an empty string.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| child.text.trim())
    }

    /// Returns the boolean in a child, if there is one.
    pub(crate) fn boolean(&self, name: &str) -> Option<bool> {
        self.text(name).parse().ok()
    }

    /// Returns the number in a child, if there is one.
    pub(crate) fn int32(&self, name: &str) -> Option<i32> {
        self.text(name).parse().ok()
    }

    /// Returns the items of a list; empty if the list is missing.
    pub(crate) fn items(&self, name: &str) -> impl Iterator<Item = &Self> {
        let list = self.child(name).map_or(&[][..], |list| list.children.as_slice());
        list.iter().filter(|child| child.name == "item")
    }
}

fn append(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

fn resolved(entity: &BytesRef<'_>) -> String {
    if let Ok(Some(character)) = entity.resolve_char_ref() {
        return character.to_string();
    }
    // Undeclared entities are ignored.
    resolve_predefined_entity(entity).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn present_members_are_read_and_missing_ones_are_absent() {
        let document = br#"<?xml version="1.0"?>
            <R xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><set><item><k>a &amp; b&#33;</k><on>true</on><n>7</n></item><item/></set><empty/></R>"#;
        let answer = Element::parse(document).unwrap();
        let items: Vec<_> = answer.items("set").collect();
        assert_eq!(
            (items.len(), items[0].text("k"), items[0].boolean("on"), items[0].int32("n")),
            (2, "a & b!", Some(true), Some(7))
        );
        assert_eq!((items[1].text("k"), items[1].boolean("on"), items[1].int32("n")), ("", None, None));
        assert_eq!(answer.items("nothing").count(), 0);
        assert!(answer.at(&["set", "item"]).is_some() && answer.at(&["set", "other"]).is_none());
    }

    /// Shows AWS-11.
    #[rstest]
    #[case(b"")]
    #[case(b"<html><body>")]
    #[case(b"not xml")]
    #[case(b"{\"json\": true}")]
    #[case(b"\xff\xfe")]
    #[case(b"<a></b>")]
    fn invalid_xml_is_reported_without_its_content(#[case] document: &[u8]) {
        let error = Element::parse(document).unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.message().starts_with("AWS returned"), "{error}");
    }

    #[test]
    fn document_with_a_million_levels_is_rejected() {
        assert!(Element::parse("<a>".repeat(1 << 20).as_bytes()).is_err());
    }
}
