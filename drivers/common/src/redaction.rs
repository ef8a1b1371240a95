//! What a cloud says, made fit to be shown.
//!
//! A cloud's message goes into the machine's status. Most are a sentence; some repeat what was signed, headers and session token
//! included, or an encoded account of who may do what. Those parts go. So do credentials of ours that come back in any other way,
//! and whatever makes a message long.

use driver::text::printable;

/// Where a message stops being for operators.
const ENDS: [&str; 5] = [
    "The Canonical String for this request",
    "The String-to-Sign",
    "Encoded authorization failure message",
    "the Canonical String",
    "Authorization=",
];

/// How much of a message is kept.
const LONGEST: usize = 1024;

/// The message of a cloud without what must not be shown. `hidden` are credentials that were sent with the request.
pub fn message(said: &str, hidden: &[&str]) -> String {
    let end = ENDS.iter().filter_map(|mark| said.find(mark)).min().unwrap_or(said.len());
    let mut kept = said.get(..end).unwrap_or_default().trim().to_owned();
    for secret in hidden.iter().filter(|secret| !secret.is_empty()) {
        kept = kept.replace(secret, "***");
    }
    if kept.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| kept.is_char_boundary(*at)).unwrap_or(0);
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
    fn what_was_signed_and_what_is_secret_is_left_out(#[case] said: &str, #[case] shown: &str) {
        assert_eq!(message(said, &["hunter2", ""]), shown);
    }

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        let shown = message(&"é".repeat(5000), &[]);
        assert!(shown.len() <= LONGEST + 4 && shown.ends_with('…'));
    }
}
