//! What is odd about something that was to be kept on a Node.

use std::fmt;

/// Something that could not be done as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// The annotation that says what we once put on the Node cannot be read.
    UnreadableRecord(&'static str),
    /// An entry of the node template that no API server takes.
    InvalidEntry(String),
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnreadableRecord(annotation) => write!(
                f,
                "annotation {annotation:?} of its node could not be read and was written anew; entries that only an earlier \
                 template wanted may have stayed on the node"
            ),
            Self::InvalidEntry(entry) => {
                write!(
                    f,
                    "{entry} of spec.nodeTemplate is not kept on its node, because no API server takes it; mend it there"
                )
            }
        }
    }
}

/// Whether a text may be the key of a label, an annotation or a taint: a name, with a domain before it and a slash between.
pub(super) fn is_qualified_name(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let in_order = |domain: &str| {
        let label = |label: &str| {
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
        };
        domain.len() <= 253 && domain.split('.').all(label)
    };
    !name.is_empty() && is_label_value(name) && domain.is_none_or(in_order)
}

/// Whether a text may be the value of a label or a taint.
pub(super) fn is_label_value(value: &str) -> bool {
    let outer = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| outer(c) || matches!(c, '-' | '_' | '.');
    value.len() <= 63
        && value.chars().all(inner)
        && (value.is_empty() || value.starts_with(outer) && value.ends_with(outer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("a", true)]
    #[case("Example_1.x-y", true)]
    #[case("example.org/name", true)]
    #[case("node-role.kubernetes.io/control-plane", true)]
    #[case("", false)]
    #[case("example.org/", false)]
    #[case("/name", false)]
    #[case("Example.org/name", false)]
    #[case("a..b/name", false)]
    #[case("-a", false)]
    #[case("a b", false)]
    #[case("a/b/c", false)]
    fn keys_are_what_an_api_server_takes(#[case] key: &str, #[case] taken: bool) {
        assert_eq!(is_qualified_name(key), taken);
    }

    #[rstest]
    #[case("", true)]
    #[case("a.B_c-9", true)]
    #[case("-a", false)]
    #[case("a/b", false)]
    fn values_are_what_an_api_server_takes(#[case] value: &str, #[case] taken: bool) {
        assert_eq!(is_label_value(value), taken);
        assert!(!is_label_value(&"a".repeat(64)));
        assert!(is_qualified_name(&format!("{}/{}", "d".repeat(60), "a".repeat(63))));
    }
}
