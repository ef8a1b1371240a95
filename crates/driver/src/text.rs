//! Validation of texts and names that drivers return.
//!
//! Texts of drivers are written into objects, Events, logs and traces. A driver may be faulty or hostile: a text may be too long
//! for etcd, contain escape sequences for terminals, contain line breaks that forge log lines, or contain bidirectional overrides.
//! Therefore all texts are made [`printable`] first.
//!
//! Names are not changed, because a truncated node name is the name of another node. [`node_name_problem`] and similar functions
//! return what is wrong with a name.

pub use api::printable::{LONGEST_TEXT, is_deceptive, printable, printable_beginning};

/// Maximum length of a label value. The node name is stored in a label.
const LONGEST_LABEL_VALUE: usize = 63;

/// Maximum length of an object name.
const LONGEST_NAME: usize = 253;

/// Returns why a text is not a valid node name; `None` if it is valid.
#[must_use]
pub fn node_name_problem(name: &str) -> Option<&'static str> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > LONGEST_LABEL_VALUE {
        Some("is longer than 63 characters, the maximum of a label value")
    } else if !name.chars().all(inner) || name.starts_with(['-', '_', '.']) || name.ends_with(['-', '_', '.']) {
        Some(
            "is not a valid label value: only letters, digits, '-', '_' and '.' are allowed, with a letter or digit at both ends",
        )
    } else {
        None
    }
}

/// Returns why a text is not a valid provider ID; `None` if it is valid.
#[must_use]
pub fn provider_id_problem(id: &str) -> Option<&'static str> {
    if id.is_empty() {
        Some("is empty")
    } else if id.len() > LONGEST_TEXT {
        Some("is longer than 4096 bytes")
    } else if id.chars().any(is_deceptive) {
        Some("contains control or invisible characters")
    } else {
        None
    }
}

/// Returns why a text is not a valid Machine name; `None` if it is valid.
#[must_use]
pub fn machine_name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > LONGEST_NAME {
        Some("is longer than 253 characters")
    } else if name.chars().any(is_deceptive) {
        Some("contains control or invisible characters")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("ip-10-0-0-1.ec2.internal", None)]
    #[case("", Some("is empty"))]
    #[case("-a", Some("is not a valid label value"))]
    #[case("a b", Some("is not a valid label value"))]
    #[case("a\u{1b}[0m", Some("is not a valid label value"))]
    #[case("über", Some("is not a valid label value"))]
    fn node_name_must_be_a_label_value(#[case] name: &str, #[case] problem: Option<&str>) {
        let found = node_name_problem(name);
        assert!(found.is_some() == problem.is_some() && found.unwrap_or("").starts_with(problem.unwrap_or("")));
        assert_eq!(node_name_problem(&"n".repeat(63)), None);
        assert!(node_name_problem(&"n".repeat(64)).is_some_and(|problem| problem.contains("63")));
    }

    #[test]
    fn control_characters_in_ids_are_rejected() {
        assert_eq!(provider_id_problem("aws:///eu-west-1a/i-0abc"), None);
        for bad in ["", "a\nb", "a\u{202e}b", &"i".repeat(LONGEST_TEXT + 1)] {
            assert!(provider_id_problem(bad).is_some(), "{bad:.20?}");
        }
        assert!(machine_name_problem("m\u{7}").is_some() && machine_name_problem("m-1").is_none());
    }
}
