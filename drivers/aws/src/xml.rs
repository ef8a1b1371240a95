//! XML as a tree of elements.
//!
//! EC2 leaves out what it does not know, and drivers that took a member for granted have crashed on that. So an answer is read into
//! a tree in which everything may be missing, and whoever looks for a member says what its absence means.

use driver::{Code, DriverError};
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};

/// How deep answers are nested at most; EC2's are below twenty.
const DEEPEST: usize = 64;

/// An element, without its attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    name: String,
    text: String,
    children: Vec<Element>,
}

impl Element {
    /// Reads a document. What is in it is never quoted in the error.
    pub(crate) fn parse(document: &[u8]) -> Result<Self, DriverError> {
        let unreadable = |why: &str| DriverError::new(Code::Unavailable, format!("AWS answered with {why}"));
        let document = std::str::from_utf8(document).map_err(|_| unreadable("something that is no text"))?;
        let mut reader = Reader::from_str(document);
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event().map_err(|_| unreadable("something that is no XML"))? {
                Event::Start(tag) => {
                    if open.len() > DEEPEST {
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

    /// The first child of this name.
    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The element at the end of this path.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |element, name| element.child(name))
    }

    /// The text of a child; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| child.text.trim())
    }

    /// `true`, `false`, or nothing.
    pub(crate) fn boolean(&self, name: &str) -> Option<bool> {
        self.text(name).parse().ok()
    }

    /// A number, or nothing.
    pub(crate) fn int32(&self, name: &str) -> Option<i32> {
        self.text(name).parse().ok()
    }

    /// The items of a list; none if there is no such list.
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
    // An entity that nobody declared means nothing.
    resolve_predefined_entity(entity).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn members_are_found_and_missing_ones_are_missing() {
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
    fn an_answer_that_is_no_xml_is_told_without_quoting_it(#[case] document: &[u8]) {
        let error = Element::parse(document).unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.message().starts_with("AWS answered with"), "{error}");
    }

    #[test]
    fn a_document_that_is_nested_a_million_times_is_refused() {
        assert!(Element::parse("<a>".repeat(1 << 20).as_bytes()).is_err());
    }
}
