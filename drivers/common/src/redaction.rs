//! Redacts the messages of a cloud.
//!
//! A cloud's message becomes part of the machine's status. Some messages repeat what was signed, including headers and
//! the session token, or contain an encoded authorization failure. These parts are removed, as are the driver's
//! credentials. Long messages are truncated.

use driver::text::printable;

/// The message is cut at the first of these marks.
const ENDS: [&str; 5] = [
    "The Canonical String for this request",
    "The String-to-Sign",
    "Encoded authorization failure message",
    "the Canonical String",
    "Authorization=",
];

/// Maximum length of a message.
const MAX_LENGTH: usize = 1024;

/// Returns the message of a cloud without secret parts. `hidden` are the credentials of the request.
pub fn message(text: &str, hidden: &[&str]) -> String {
    let end = ENDS.iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
    let mut kept = text.get(..end).unwrap_or_default().trim().to_owned();
    for secret in hidden.iter().filter(|secret| !secret.is_empty()) {
        kept = kept.replace(secret, "***");
    }
    if kept.len() > MAX_LENGTH {
        let cut = (0..=MAX_LENGTH).rev().find(|at| kept.is_char_boundary(*at)).unwrap_or(0);
        kept.truncate(cut);
        kept.push('…');
    }
    printable(&kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows CLD-11.
    #[rstest]
    #[case::plain("The image id '[ami-1]' does not exist", "The image id '[ami-1]' does not exist")]
    #[case::canonical(
        "The request signature we calculated does not match.\n\nThe Canonical String for this request should have been\n'POST\nx-amz-security-token:hunter2'",
        "The request signature we calculated does not match."
    )]
    #[case::encoded(
        "You are not authorized to perform this operation. Encoded authorization failure message: 4OX",
        "You are not authorized to perform this operation."
    )]
    #[case::credential("the key hunter2 is not known", "the key *** is not known")]
    #[case::lines("a\nb", "a\\nb")]
    fn signed_and_secret_parts_are_removed(#[case] said: &str, #[case] shown: &str) {
        assert_eq!(message(said, &["hunter2", ""]), shown);
    }

    #[test]
    fn long_message_is_cut_at_a_character_boundary() {
        let shown = message(&"é".repeat(5000), &[]);
        assert!(shown.len() <= MAX_LENGTH + 4 && shown.ends_with('…'));
    }
}
