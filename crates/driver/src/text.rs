//! What a driver may say, and how it is made fit to be shown.
//!
//! A driver's words are written into objects, Events, logs and traces, where people and programs read them. A driver may be wrong,
//! and it may be hostile: three megabytes are more than etcd takes, an escape sequence paints over a terminal, a line break begins a
//! line of log that nobody wrote, and a bidirectional override shows a text that is not the one that stands there. So whatever
//! leaves the controllers was made [`printable`] first.
//!
//! Names are not repaired: a node name that was cut is the name of another node. [`node_name_problem`] and its like say what is
//! wrong with one.

/// How many bytes of a text are kept, the remark that it was cut included.
pub const LONGEST_TEXT: usize = 4096;

/// The longest value of a label, which is what a node name is written down as.
const LONGEST_LABEL_VALUE: usize = 63;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// Room for the remark that a text was cut.
const REMARK: usize = 48;

/// The text on one line, with control and bidirectional characters escaped, and no longer than [`LONGEST_TEXT`].
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        push(&mut shown, c);
        if shown.len() > LONGEST_TEXT {
            return printable_beginning(text, text.len());
        }
    }
    shown
}

/// The same for the beginning of a text of so many bytes. What is left of it says that it was cut.
#[must_use]
pub fn printable_beginning(beginning: &str, bytes: usize) -> String {
    let mut shown = String::new();
    for c in beginning.chars() {
        let before = shown.len();
        push(&mut shown, c);
        if shown.len() > LONGEST_TEXT - REMARK {
            shown.truncate(before);
            break;
        }
    }
    shown + &format!("… (cut, {bytes} bytes in all)")
}

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
        Some("holds control characters")
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
        Some("holds control characters")
    } else {
        None
    }
}

/// Whether a character changes how the text around it is shown.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn push(shown: &mut String, c: char) {
    if is_deceptive(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case::plain("größer als 5 €", "größer als 5 €")]
    #[case::ansi("\u{1b}[31mred", "\\u{1b}[31mred")]
    #[case::lines("one\r\ntwo\tthree", "one\\r\\ntwo\\tthree")]
    #[case::bidi("abc\u{202e}fed", "abc\\u{202e}fed")]
    #[case::c1("\u{9b}31m", "\\u{9b}31m")]
    #[case::separator("a\u{2028}b", "a\\u{2028}b")]
    #[case::a_backslash_is_left_alone("C:\\new", "C:\\new")]
    fn what_changes_how_a_text_is_shown_is_escaped(#[case] said: &str, #[case] shown: &str) {
        assert_eq!(printable(said), shown);
    }

    #[test]
    fn three_megabytes_become_four_kilobytes_that_say_so() {
        let shown = printable(&"€".repeat(1 << 20));
        assert!(shown.len() <= LONGEST_TEXT, "{}", shown.len());
        assert!(shown.starts_with("€€€") && shown.ends_with("… (cut, 3145728 bytes in all)"), "{shown}");
        let whole = "x".repeat(LONGEST_TEXT);
        assert_eq!(printable(&whole), whole, "what fits is not cut");
    }

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

    proptest! {
        #[test]
        fn whatever_is_said_is_shown_on_one_line_of_bounded_length(text in any::<String>(), times in 1usize..200) {
            let shown = printable(&text.repeat(times));
            prop_assert!(shown.len() <= LONGEST_TEXT);
            prop_assert!(!shown.chars().any(is_deceptive));
            prop_assert_eq!(printable(&shown), shown.clone(), "what is shown can be shown again");
        }
    }
}
