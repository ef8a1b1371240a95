//! What a label key and a label value may look like.

use crate::selector::SelectorError;

const LONGEST_NAME: usize = 63;
const LONGEST_PREFIX: usize = 253;

const NAME_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const PREFIX_RULE: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
     is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// A key is `name` or `prefix/name`, the prefix a DNS subdomain.
pub(super) fn check_key(key: &str) -> Result<(), SelectorError> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let mut complaints = Vec::new();
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            complaints.push("prefix part must be non-empty".to_owned());
        } else if prefix.len() > LONGEST_PREFIX {
            complaints.push(format!("prefix part must be no more than {LONGEST_PREFIX} bytes"));
        } else if !is_subdomain(prefix) {
            complaints.push(PREFIX_RULE.to_owned());
        }
    }
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    } else if name.len() > LONGEST_NAME {
        complaints.push(format!("name part must be no more than {LONGEST_NAME} bytes"));
    }
    if !is_qualified_word(name) {
        complaints.push(NAME_RULE.to_owned());
    }
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(SelectorError::new(format!("<nil>: Invalid value: {key:?}: {}", complaints.join("; "))))
    }
}

/// A value is empty or a word; `index` is its place among the values of a requirement on `key`.
pub(super) fn check_value(key: &str, index: usize, value: &str) -> Result<(), SelectorError> {
    let complaint = if value.len() > LONGEST_NAME {
        format!("must be no more than {LONGEST_NAME} bytes")
    } else if value.is_empty() || is_qualified_word(value) {
        return Ok(());
    } else {
        VALUE_RULE.to_owned()
    };
    Err(SelectorError::new(format!("values[{index}][{key}]: Invalid value: {value:?}: {complaint}")))
}

fn is_qualified_word(word: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    edge(word.bytes().next()) && edge(word.bytes().next_back()) && word.bytes().all(inner)
}

fn is_subdomain(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.split('.').all(|part| {
        edge(part.bytes().next())
            && edge(part.bytes().next_back())
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    })
}
