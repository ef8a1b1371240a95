//! Patterns, as Go reads them.
//!
//! Go's regular expressions and ours are of one family, with two differences that definitions in the field can meet: Go's `\d`,
//! `\w` and `\s` know ASCII only, and Go's character classes do not nest. So a pattern is rewritten before it is compiled,
//! and shown as it was written.

use std::fmt;

use regex::Regex;

/// A compiled pattern that remembers its source.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    source: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn compile(source: &str) -> Result<Self, regex::Error> {
        Ok(Self { source: source.to_owned(), regex: Regex::new(&rewritten(source))? })
    }

    /// Whether the text contains a match; only `^` and `$` make a pattern speak of the whole text.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// Where in a pattern the next character stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    /// Right after the bracket that opens a class, or its `^`: a closing bracket here is an ordinary character.
    ClassStart,
    Class,
}

fn rewritten(source: &str) -> String {
    let mut pattern = String::with_capacity(source.len());
    let mut place = Place::Outside;
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, place) {
            ('\\', _) => {
                match chars.next() {
                    Some('d') => pattern.push_str("[0-9]"),
                    Some('D') => pattern.push_str("[^0-9]"),
                    Some('w') => pattern.push_str("[0-9A-Za-z_]"),
                    Some('W') => pattern.push_str("[^0-9A-Za-z_]"),
                    Some('s') => pattern.push_str(r"[\t\n\f\r ]"),
                    Some('S') => pattern.push_str(r"[^\t\n\f\r ]"),
                    Some(other) => pattern.extend(['\\', other]),
                    None => pattern.push('\\'),
                }
                place = if place == Place::Outside { Place::Outside } else { Place::Class };
            }
            ('[', Place::Outside) => {
                pattern.push('[');
                if let Some(negation) = chars.next_if_eq(&'^') {
                    pattern.push(negation);
                }
                place = Place::ClassStart;
            }
            (']', Place::Class) => {
                pattern.push(']');
                place = Place::Outside;
            }
            ('[', _) if chars.peek() == Some(&':') => {
                // A class with a name, like [:alpha:], ends with its own bracket.
                pattern.push('[');
                for c in chars.by_ref() {
                    pattern.push(c);
                    if c == ']' {
                        break;
                    }
                }
                place = Place::Class;
            }
            ('[' | ']' | '&' | '~', Place::ClassStart | Place::Class) => {
                pattern.extend(['\\', c]);
                place = Place::Class;
            }
            (c, Place::Outside) => pattern.push(c),
            (c, Place::ClassStart | Place::Class) => {
                pattern.push(c);
                place = Place::Class;
            }
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case(r"^\d+$", "12", true)]
    #[case(r"^\d+$", "٣", false)]
    #[case(r"^\w$", "é", false)]
    #[case(r"^[\d.]+$", "1.2", true)]
    #[case(r"^[\D]+$", "1", false)]
    #[case(r"^[^\s]+$", "a b", false)]
    #[case(r"^[[a]$", "[", true)]
    #[case(r"^[]a]$", "]", true)]
    #[case(r"^[^]]$", "]", false)]
    #[case(r"^[a&&b]$", "&", true)]
    #[case(r"^[[:alpha:]_]+$", "a_", true)]
    #[case(r"^a\.b$", "axb", false)]
    #[case("b", "abc", true)]
    #[case("^.$", "é", true)]
    fn a_pattern_matches_as_in_go(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(Pattern::compile(pattern).unwrap().matches(text), expected);
    }

    #[test]
    fn a_pattern_is_shown_as_it_was_written() {
        assert_eq!(Pattern::compile(r"^\d+$").unwrap().to_string(), r"^\d+$");
    }

    proptest! {
        #[test]
        fn no_pattern_makes_it_panic(pattern in "\\PC*", likely in r"[\\\[\]^a:d&]{0,12}") {
            let _ = Pattern::compile(&pattern);
            let _ = Pattern::compile(&likely);
        }
    }
}
