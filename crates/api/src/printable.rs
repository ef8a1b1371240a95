//! Escaping of untrusted texts.
//!
//! Fields of objects and texts of drivers are written into objects, Events, logs, traces and terminals. They may contain escape sequences
//! for terminals, line breaks that forge log lines, bidirectional overrides, and invisible characters that make two names look equal.

use std::fmt::Write as _;

/// Maximum number of bytes of a text, including the remark that it was truncated.
pub const LONGEST_TEXT: usize = 4096;

/// Space for the remark that a text was truncated.
const REMARK: usize = 48;

/// Returns the text on one line, with control, bidirectional and invisible characters escaped, truncated to [`LONGEST_TEXT`].
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

/// Like [`printable`], for the beginning of a text with this many bytes. The result states that it was truncated.
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

/// Returns whether a character is invisible or changes how the text around it is displayed.
///
/// Control characters, line and paragraph separators, the annotation characters, and all that Unicode calls *default ignorable*
/// (`DerivedCoreProperties.txt`): zero-width characters, fillers, bidirectional controls, variation selectors, tags.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Returns a JSON text with such characters as JSON escapes. The value is unchanged.
#[must_use]
pub fn printable_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        // Line breaks within strings are already escaped; those between values are formatting.
        if c == '\n' || !is_deceptive(c) {
            shown.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _infallible = write!(shown, "\\u{unit:04x}");
            }
        }
    }
    shown
}

fn push(shown: &mut String, c: char) {
    if is_deceptive(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    /// Shows LIM-16.
    #[rstest]
    #[case::plain("größer als 5 €", "größer als 5 €")]
    #[case::ansi("\u{1b}[31mred", "\\u{1b}[31mred")]
    #[case::lines("one\r\ntwo\tthree", "one\\r\\ntwo\\tthree")]
    #[case::bidi("abc\u{202e}fed", "abc\\u{202e}fed")]
    #[case::c1("\u{9b}31m", "\\u{9b}31m")]
    #[case::separator("a\u{2028}b", "a\\u{2028}b")]
    #[case::zero_width("a\u{200b}b", "a\\u{200b}b")]
    #[case::tag("a\u{e0041}b", "a\\u{e0041}b")]
    #[case::annotation("a\u{fff9}b", "a\\u{fff9}b")]
    #[case::joiner("a\u{34f}b", "a\\u{34f}b")]
    #[case::filler("a\u{115f}b", "a\\u{115f}b")]
    #[case::backslash("C:\\new", "C:\\new")]
    fn deceptive_characters_are_escaped(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(printable(text), shown);
    }

    #[test]
    fn long_text_is_truncated_with_a_remark() {
        let shown = printable(&"€".repeat(1 << 20));
        assert!(shown.len() <= LONGEST_TEXT, "{}", shown.len());
        assert!(shown.starts_with("€€€") && shown.ends_with("… (cut, 3145728 bytes in all)"), "{shown}");
        let whole = "x".repeat(LONGEST_TEXT);
        assert_eq!(printable(&whole), whole, "a text that fits is not truncated");
    }

    /// Shows OPR-24.
    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({ "a\u{202e}": ["\u{1b}[31m\n", "\u{e0041}\u{7f}", "größer als 5 €"] });
        let shown = printable_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!shown.chars().any(|c| c != '\n' && is_deceptive(c)), "{shown}");
        assert!(shown.contains("größer als 5 €") && shown.contains("\\udb40\\udc41"), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    proptest! {
        /// Shows LIM-16.
        #[test]
        fn result_is_one_line_of_bounded_length(text in any::<String>(), times in 1usize..200) {
            let shown = printable(&text.repeat(times));
            prop_assert!(shown.len() <= LONGEST_TEXT);
            prop_assert!(!shown.chars().any(is_deceptive));
            prop_assert_eq!(printable(&shown), shown.clone(), "escaping is idempotent");
        }
    }
}
