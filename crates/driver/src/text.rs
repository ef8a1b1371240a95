//! What a driver may say, and how it is made fit to be shown.
//!
//! A driver's words are written into objects, Events, logs and traces, where people and programs read them. A driver may be wrong,
//! and it may be hostile: three megabytes are more than etcd takes, an escape sequence paints over a terminal, a line break begins a
//! line of log that nobody wrote, and a bidirectional override shows a text that is not the one that stands there. So whatever
//! leaves the controllers was made [`printable`] first.
//!
//! Names are not repaired: a node name that was cut is the name of another node. [`node_name_problem`] and its like say what is
//! wrong with one.

pub use api::printable::{LONGEST_TEXT, is_deceptive, printable, printable_beginning};

/// The longest value of a label, which is what a node name is written down as.
const LONGEST_LABEL_VALUE: usize = 63;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// What keeps a text from being the name of a node; `None` if nothing does.
#[must_use]
pub fn node_name_problem(name: &str) -> Option<&'static str> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > LONGEST_LABEL_VALUE {
        Some("is longer than 63 characters, which no label can hold")
    } else if !name.chars().all(inner) || name.starts_with(['-', '_', '.']) || name.ends_with(['-', '_', '.']) {
        Some("is no value of a label: only letters, digits, '-', '_' and '.', with a letter or digit at both ends")
    } else {
        None
    }
}

/// What keeps a text from being the id of a VM; `None` if nothing does.
#[must_use]
pub fn provider_id_problem(id: &str) -> Option<&'static str> {
    if id.is_empty() {
        Some("is empty")
    } else if id.len() > LONGEST_TEXT {
        Some("is longer than 4096 bytes")
    } else if id.chars().any(is_deceptive) {
        Some("holds control or invisible characters")
    } else {
        None
    }
}

/// What keeps a text from being the name of a machine; `None` if nothing does.
#[must_use]
pub fn machine_name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > LONGEST_NAME {
        Some("is longer than 253 characters")
    } else if name.chars().any(is_deceptive) {
        Some("holds control or invisible characters")
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
    #[case("-a", Some("is no value"))]
    #[case("a b", Some("is no value"))]
    #[case("a\u{1b}[0m", Some("is no value"))]
    #[case("über", Some("is no value"))]
    fn a_node_name_is_the_value_of_a_label(#[case] name: &str, #[case] problem: Option<&str>) {
        let found = node_name_problem(name);
        assert!(found.is_some() == problem.is_some() && found.unwrap_or("").starts_with(problem.unwrap_or("")));
        assert_eq!(node_name_problem(&"n".repeat(63)), None);
        assert!(node_name_problem(&"n".repeat(64)).is_some_and(|problem| problem.contains("63")));
    }

    #[test]
    fn an_id_that_would_paint_on_a_terminal_is_no_id() {
        assert_eq!(provider_id_problem("aws:///eu-west-1a/i-0abc"), None);
        for bad in ["", "a\nb", "a\u{202e}b", &"i".repeat(LONGEST_TEXT + 1)] {
            assert!(provider_id_problem(bad).is_some(), "{bad:.20?}");
        }
        assert!(machine_name_problem("m\u{7}").is_some() && machine_name_problem("m-1").is_none());
    }
}
