//! Label selectors: `pool=a, tier in (gold,silver), !legacy`.
//!
//! A requirement that excludes (`!=`, `notin`, `!key`) is met by an object without the label: "not in pool a" includes those
//! in no pool at all. All requirements must be met.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::selector::SelectorError;
use crate::selector::syntax::{check_key, check_value};

/// A parsed label selector. The default one is empty and matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl Labels {
    /// Reads a selector as it stands in a `labelSelector` query parameter. Empty text matches everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser { tokens: tokens(text), next: 0 };
        Ok(Self { requirements: parser.requirements()? })
    }

    /// Whether the object's `metadata.labels` meet every requirement.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        self.requirements.iter().all(|r| r.is_met_by(labels))
    }

    /// Whether it matches every object there could be.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Requirement {
    fn is_met_by(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = labels.and_then(|l| l.get(&self.key)).and_then(Value::as_str);
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(wanted) => value.is_some_and(|v| wanted.contains(v)),
            Test::NotIn(unwanted) => value.is_none_or(|v| !unwanted.contains(v)),
            Test::GreaterThan(limit) => number().is_some_and(|n| n > *limit),
            Test::LessThan(limit) => number().is_some_and(|n| n < *limit),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Symbol(text) => text,
            Token::End => "",
        }
    }
}

const SYMBOLS: &str = "=!(),><";

/// Words end at a symbol or a blank; of the symbols only `==` and `!=` are longer than one character.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(is_blank);
    while let Some(first) = rest.chars().next() {
        let (token, length) = if SYMBOLS.contains(first) {
            let length = if rest.starts_with("==") || rest.starts_with("!=") { 2 } else { 1 };
            (Token::Symbol(rest.get(..length).unwrap_or(rest)), length)
        } else {
            let length = rest.find(|c| is_blank(c) || SYMBOLS.contains(c)).unwrap_or(rest.len());
            (Token::Word(rest.get(..length).unwrap_or(rest)), length)
        };
        found.push(token);
        rest = rest.get(length..).unwrap_or_default().trim_start_matches(is_blank);
    }
    found
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.next).copied().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut found = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(found),
                Token::Word(_) | Token::Symbol("!") => {
                    let requirement = self
                        .requirement()
                        .map_err(|e| SelectorError::new(format!("unable to parse requirement: {e}")))?;
                    found.push(requirement);
                    match self.take() {
                        Token::End => return Ok(found),
                        Token::Symbol(",") => match self.peek() {
                            Token::Word(_) | Token::Symbol("!") => {}
                            other => return Err(expected(other, "identifier after ','")),
                        },
                        other => return Err(expected(other, "',' or 'end of string'")),
                    }
                }
                other @ Token::Symbol(_) => return Err(expected(other, "!, identifier, or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let absent = self.peek() == Token::Symbol("!");
        if absent {
            self.take();
        }
        let key = match self.take() {
            Token::Word(key) => key,
            other => return Err(expected(other, "identifier")),
        };
        check_key(key)?;
        let test = match self.peek() {
            _ if absent => Test::Absent,
            Token::End | Token::Symbol(",") => Test::Exists,
            _ => self.comparison(key)?,
        };
        Ok(Requirement { key: key.to_owned(), test })
    }

    fn comparison(&mut self, key: &str) -> Result<Test, SelectorError> {
        match self.take() {
            Token::Word("in") => Ok(Test::In(self.set(key)?)),
            Token::Word("notin") => Ok(Test::NotIn(self.set(key)?)),
            Token::Symbol("=" | "==") => Ok(Test::In(BTreeSet::from([self.value(key)?]))),
            Token::Symbol("!=") => Ok(Test::NotIn(BTreeSet::from([self.value(key)?]))),
            Token::Symbol(">") => Ok(Test::GreaterThan(self.number(key)?)),
            Token::Symbol("<") => Ok(Test::LessThan(self.number(key)?)),
            other => Err(expected(other, "in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn value(&mut self, key: &str) -> Result<String, SelectorError> {
        let value = match self.peek() {
            Token::End | Token::Symbol(",") => "",
            Token::Word(value) => {
                self.take();
                value
            }
            other @ Token::Symbol(_) => return Err(expected(other, "identifier")),
        };
        check_value(key, 0, value)?;
        Ok(value.to_owned())
    }

    fn number(&mut self, key: &str) -> Result<i64, SelectorError> {
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            SelectorError::new(format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ))
        })
    }

    /// `(a,b)`; an empty place is the empty value, also in `()`.
    fn set(&mut self, key: &str) -> Result<BTreeSet<String>, SelectorError> {
        match self.take() {
            Token::Symbol("(") => {}
            other => return Err(SelectorError::new(format!("found '{}' expected: '('", other.text()))),
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Token::Word(value) => {
                    self.take();
                    value
                }
                Token::Symbol("," | ")") => "",
                other if values.is_empty() => return Err(expected(other, "',', ')' or identifier")),
                other => return Err(expected(other, "',', or identifier")),
            };
            values.insert(value.to_owned());
            match self.take() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => break,
                other => return Err(expected(other, "',' or ')'")),
            }
        }
        for (index, value) in values.iter().enumerate() {
            check_value(key, index, value)?;
        }
        Ok(values)
    }
}

fn expected(found: Token<'_>, what: &str) -> SelectorError {
    SelectorError::new(format!("found '{}', expected: {what}", found.text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    fn labelled() -> Value {
        json!({"metadata": {"labels": {"pool": "a", "cores": "16", "example.com/tier": "gold", "empty": ""}}})
    }

    /// Shows SRV-10.
    #[rstest]
    #[case("", true)]
    #[case("  ", true)]
    #[case("pool=a", true)]
    #[case("pool==a", true)]
    #[case("pool = a", true)]
    #[case("pool=b", false)]
    #[case("pool!=b", true)]
    #[case("pool!=a", false)]
    #[case("zone!=a", true)]
    #[case("zone=a", false)]
    #[case("pool", true)]
    #[case("zone", false)]
    #[case("!zone", true)]
    #[case("! pool", false)]
    #[case("pool in (a,b)", true)]
    #[case("pool in ( b , c )", false)]
    #[case("pool notin (b,c)", true)]
    #[case("pool notin (a)", false)]
    #[case("zone notin (a)", true)]
    #[case("zone in (a)", false)]
    #[case("empty=", true)]
    #[case("pool=", false)]
    #[case("empty in ()", true)]
    #[case("pool in ()", false)]
    #[case("empty in (,x)", true)]
    #[case("empty in (x,)", true)]
    #[case("pool in (x,,y)", false)]
    #[case("cores>8", true)]
    #[case("cores > 16", false)]
    #[case("cores<17", true)]
    #[case("pool>1", false)]
    #[case("zone<1", false)]
    #[case("example.com/tier=gold,pool", true)]
    #[case("example.com/tier=gold,pool=b", false)]
    #[case("in=x", false)]
    #[case("pool=in", false)]
    fn a_selector_matches_as_the_server_does(#[case] selector: &str, #[case] expected: bool) {
        assert_eq!(Labels::parse(selector).unwrap().matches(&labelled()), expected, "{selector}");
    }

    #[test]
    fn an_object_without_labels_meets_only_exclusions() {
        let bare = json!({"metadata": {"name": "m"}});
        assert!(Labels::parse("!pool,pool!=a,pool notin (a)").unwrap().matches(&bare));
        assert!(!Labels::parse("pool").unwrap().matches(&bare));
    }

    /// Shows SRV-10.
    #[rstest]
    #[case("pool=a,", "found '', expected: identifier after ','")]
    #[case(",pool", "found ',', expected: !, identifier, or 'end of string'")]
    #[case("=a", "found '=', expected: !, identifier, or 'end of string'")]
    #[case("pool a", "unable to parse requirement: found 'a', expected: in, notin, =, ==, !=, gt, lt")]
    #[case("pool=a b", "found 'b', expected: ',' or 'end of string'")]
    #[case("pool in a", "unable to parse requirement: found 'a' expected: '('")]
    #[case("pool in (a", "unable to parse requirement: found '', expected: ',' or ')'")]
    #[case("pool in (", "unable to parse requirement: found '', expected: ',', ')' or identifier")]
    #[case("pool in (a,", "unable to parse requirement: found '', expected: ',', or identifier")]
    #[case("pool in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'")]
    #[case("!pool=a", "found '=', expected: ',' or 'end of string'")]
    #[case("!", "unable to parse requirement: found '', expected: identifier")]
    #[case(
        "cores>many",
        "unable to parse requirement: values[0]: Invalid value: \"many\": for 'Gt', 'Lt' operators, the value must be an integer"
    )]
    fn a_malformed_selector_says_what_was_expected(#[case] selector: &str, #[case] message: &str) {
        assert_eq!(Labels::parse(selector).unwrap_err().to_string(), message);
    }

    #[rstest]
    #[case("-a=b", "<nil>: Invalid value: \"-a\": name part must consist of")]
    #[case("/a=b", "<nil>: Invalid value: \"/a\": prefix part must be non-empty")]
    #[case("Example.com/a", "<nil>: Invalid value: \"Example.com/a\": prefix part a lowercase RFC 1123 subdomain")]
    #[case("a=b!", "found '!', expected: ',' or 'end of string'")]
    #[case("a=-b", "values[0][a]: Invalid value: \"-b\": a valid label must be an empty string or consist of")]
    #[case("a in (b,c/d)", "values[1][a]: Invalid value: \"c/d\": a valid label must")]
    fn keys_and_values_must_be_labels(#[case] selector: &str, #[case] part: &str) {
        let message = Labels::parse(selector).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = Labels::parse(&text);
        }

        #[test]
        fn no_selector_like_text_makes_it_panic(text in "[ab=!(),<> in1é]{0,30}") {
            let _ = Labels::parse(&text).map(|l| l.matches(&labelled()));
        }

        #[test]
        fn every_object_meets_a_test_or_its_opposite(key in "[a-c]", value in "[a-c]", labels in prop::collection::btree_map("[a-c]", "[a-c]", 0..3)) {
            let object = json!({"metadata": {"labels": labels}});
            let is = |s: String| Labels::parse(&s).unwrap().matches(&object);
            prop_assert_ne!(is(format!("{key}={value}")), is(format!("{key}!={value}")));
            prop_assert_ne!(is(key.clone()), is(format!("!{key}")));
            prop_assert_ne!(is(format!("{key} in (a,b)")), is(format!("{key} notin (a,b)")));
        }
    }
}
