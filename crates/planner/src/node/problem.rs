//! Problems with the fields that Millwright sets on a Node.

use std::fmt;

/// A part of the node template or virtual capacity that could not be applied as specified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The annotation that records what was applied to the Node earlier cannot be decoded.
    UndecodableRecord(&'static str),
    /// An entry of the node template that the API server rejects.
    InvalidEntry(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UndecodableRecord(annotation) => write!(
                f,
                "failed to decode annotation {annotation:?} of the Node, so it was replaced; entries of earlier templates \
                 may still be on the Node"
            ),
            Self::InvalidEntry(entry) => {
                write!(
                    f,
                    "{entry} of spec.nodeTemplate is invalid and not applied to the Node; fix it in the MachineDeployment's template"
                )
            }
        }
    }
}

/// Returns whether a text is a valid key of a label, annotation or taint: a name with an optional DNS domain and a
/// slash before it.
pub(super) fn is_qualified_name(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let is_domain = |domain: &str| {
        let label = |label: &str| {
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
        };
        domain.len() <= 253 && domain.split('.').all(label)
    };
    !name.is_empty() && is_label_value(name) && domain.is_none_or(is_domain)
}

/// Returns whether a text is a valid value of a label or taint.
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
    fn qualified_names_are_validated_like_the_api_server(#[case] key: &str, #[case] valid: bool) {
        assert_eq!(is_qualified_name(key), valid);
    }

    #[rstest]
    #[case("", true)]
    #[case("a.B_c-9", true)]
    #[case("-a", false)]
    #[case("a/b", false)]
    fn label_values_are_validated_like_the_api_server(#[case] value: &str, #[case] valid: bool) {
        assert_eq!(is_label_value(value), valid);
        assert!(!is_label_value(&"a".repeat(64)));
        assert!(is_qualified_name(&format!("{}/{}", "d".repeat(60), "a".repeat(63))));
    }
}
