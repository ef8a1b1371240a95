//! Removes secrets from the texts of drivers.
//!
//! A driver's error is written to the Machine's status, to Events and to the log, which are readable for users without
//! access to the Secret. Clouds quote requests in their errors, and requests contain credentials and user data. So each
//! value of the Secret is masked in a text before it is written: unchanged, trimmed, escaped as in JSON and in URLs,
//! and in base64 at any offset in a longer base64 text. Values shorter than eight bytes are not masked: they are not
//! secrets, and masking them would mutilate ordinary words. White space is ignored, so that wrapped and indented values
//! are found.
//!
//! Programs also quote parts of some values. So the leaves of a value that is JSON (a service account) and the lines of
//! a PEM key are masked too, also if the key is such a leaf.

use std::collections::BTreeSet;
use std::fmt;

use api::SecretData;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::Value;

use crate::percent;

/// Replaces a secret. It contains no brackets, because other code counts them.
pub const MASK: &str = "***";

/// Shorter values are not secrets.
pub const SHORTEST: usize = 8;

/// Masks the values of Secrets.
#[derive(Clone, Default)]
pub struct Scrubber {
    forms: BTreeSet<String>,
    /// The forms without white space: programs wrap base64 after 64 or 76 columns, and indent what they quote.
    compact: BTreeSet<String>,
}

impl Scrubber {
    /// Creates a scrubber for all values of a Secret.
    #[must_use]
    pub fn of(secret: &SecretData) -> Self {
        let mut scrubber = Self::default();
        for value in secret.keys().filter_map(|key| secret.get(key)) {
            scrubber.add(value);
        }
        scrubber
    }

    /// Adds a value and its parts.
    pub fn add(&mut self, value: &[u8]) {
        self.add_value(value);
        if let Ok(text) = std::str::from_utf8(value) {
            self.add_key(text);
            self.add_leaves(text);
        }
    }

    /// Returns the text with every secret masked.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // The text left and right of a mask may form another secret. Each round shortens the text, so the loop ends.
        while let Some(shorter) = self.masked(&text) {
            text = shorter;
        }
        text
    }

    /// Returns the beginning of a text with every secret masked. At most `at_most` bytes are read, so that the cost
    /// does not depend on the length of the text. A secret that is cut there is removed.
    #[must_use]
    pub fn scrub_beginning(&self, text: &str, at_most: usize) -> String {
        if text.len() <= at_most {
            return self.scrub(text);
        }
        let mut head = self.scrub(text.get(..text.floor_char_boundary(at_most)).unwrap_or_default());
        head.truncate(head.trim_end_matches('\\').len()); // first half of an escape sequence
        let compact = Compact::of(&head);
        let plain = self.forms.iter().filter_map(|form| find_cut(&head, form)).min();
        let wrapped = self.compact.iter().filter_map(|form| find_cut(&compact.text, form)).min();
        let cut = plain.into_iter().chain(wrapped.and_then(|at| compact.position(at))).min();
        let end = cut.or_else(|| compact.position(compact.text.len().checked_sub(SHORTEST - 1)?)).unwrap_or(0);
        head.truncate(head.floor_char_boundary(end));
        head
    }

    fn add_value(&mut self, value: &[u8]) {
        for value in [value, value.trim_ascii()] {
            if value.len() < SHORTEST {
                continue;
            }
            if let Ok(text) = std::str::from_utf8(value) {
                for form in [text.to_owned(), json_escaped(text), percent::encoded(text)] {
                    self.insert(form);
                }
            }
            for engine in [STANDARD, URL_SAFE] {
                self.insert(engine.encode(value));
                self.add_inside_base64(&engine, value);
            }
        }
    }

    fn add_inside_base64(&mut self, engine: &impl base64::Engine, value: &[u8]) {
        for form in (0..3).filter_map(|offset| inside_base64(engine, value, offset)) {
            self.insert(form);
        }
    }

    fn insert(&mut self, form: String) {
        let Compact { text: compact, .. } = Compact::of(&form);
        if compact.len() >= SHORTEST {
            self.compact.insert(compact);
        }
        self.forms.insert(form);
    }

    /// Adds each line of a PEM key, and all lines as one. The first and last lines are the same in all keys.
    fn add_key(&mut self, text: &str) {
        if !text.contains("-----BEGIN ") {
            return;
        }
        let text = text.replace("\\n", "\n"); // as in the values of environment variables
        let (mut inside, mut whole) = (false, String::new());
        for line in text.lines().map(str::trim) {
            if line.starts_with("-----") {
                inside = line.starts_with("-----BEGIN ");
                self.add_line(&std::mem::take(&mut whole));
            } else if inside && !line.contains(':') {
                whole.push_str(line);
                self.add_line(line);
            }
        }
        self.add_line(&whole);
    }

    /// Adds fewer forms than for a value, because a line is base64 itself and bundles have thousands of lines.
    fn add_line(&mut self, line: &str) {
        if line.len() >= SHORTEST {
            self.insert(line.to_owned());
            self.add_inside_base64(&STANDARD, line.as_bytes());
        }
    }

    /// Adds all leaves of a value that is JSON.
    fn add_leaves(&mut self, text: &str) {
        if !text.trim_start().starts_with(['{', '[', '"']) {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(text) else { return };
        let mut left = vec![value];
        while let Some(value) = left.pop() {
            match value {
                Value::String(leaf) => self.add(leaf.as_bytes()),
                Value::Number(leaf) => self.add_value(leaf.to_string().as_bytes()),
                Value::Array(values) => left.extend(values),
                Value::Object(values) => left.extend(values.into_iter().map(|(_, value)| value)),
                Value::Null | Value::Bool(_) => {}
            }
        }
    }

    /// Returns the text with all occurrences masked, or `None` if there are none. Overlapping occurrences become one
    /// mask.
    fn masked(&self, text: &str) -> Option<String> {
        let mut covered = vec![false; text.len()];
        let mut found = false;
        for form in &self.forms {
            let mut from = 0;
            while let Some(at) = text.get(from..).and_then(|rest| rest.find(form.as_str())) {
                found = true;
                covered.iter_mut().skip(from + at).take(form.len()).for_each(|byte| *byte = true);
                from = text.ceil_char_boundary(from + at + 1);
            }
        }
        let compact = Compact::of(text);
        for form in &self.compact {
            let mut from = 0;
            while let Some(at) = compact.text.get(from..).and_then(|rest| rest.find(form.as_str())) {
                let ends = (compact.position(from + at), compact.position(from + at + form.len() - 1));
                let (Some(first), Some(last)) = ends else { break };
                found = true;
                covered.iter_mut().take(last + 1).skip(first).for_each(|byte| *byte = true);
                from = compact.text.ceil_char_boundary(from + at + 1);
            }
        }
        if !found {
            return None;
        }
        let mut result = String::with_capacity(text.len());
        let mut masking = false;
        for (at, char) in text.char_indices() {
            let covered = covered.get(at) == Some(&true);
            if !covered {
                result.push(char);
            } else if !masking {
                result.push_str(MASK);
            }
            masking = covered;
        }
        Some(result)
    }
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrubber({} forms)", self.forms.len())
    }
}

/// A text without white space and without escaped white space (`\n`, `\r`, `\t`), and the position of each byte in the
/// original text.
struct Compact {
    text: String,
    positions: Vec<usize>,
}

impl Compact {
    fn of(whole: &str) -> Self {
        let (mut text, mut positions) = (String::with_capacity(whole.len()), Vec::with_capacity(whole.len()));
        let mut chars = whole.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\\' && chars.next_if(|(_, next)| matches!(next, 'n' | 'r' | 't')).is_some() {
                continue;
            }
            if !c.is_whitespace() {
                text.push(c);
                positions.extend(at..at + c.len_utf8());
            }
        }
        Self { text, positions }
    }

    /// Returns the position of a byte in the original text.
    fn position(&self, at: usize) -> Option<usize> {
        self.positions.get(at).copied()
    }
}

/// Returns where in a text that was cut off this secret begins without ending.
fn find_cut(text: &str, form: &str) -> Option<usize> {
    let start = form.get(..form.ceil_char_boundary(SHORTEST))?;
    let mut from = text.floor_char_boundary(text.len().saturating_sub(form.len()));
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(start)).map(|at| from + at) {
        if text.get(at..).is_some_and(|rest| form.starts_with(rest)) {
            return Some(at);
        }
        from = text.ceil_char_boundary(at + 1);
    }
    None
}

/// Returns the characters that a value has in the base64 of any longer text in which it begins at `offset` modulo
/// three.
fn inside_base64(engine: &impl base64::Engine, value: &[u8], offset: usize) -> Option<String> {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(value);
    let encoded = engine.encode(&padded);
    // Each character holds six bits. Characters that share bits with a neighbour of the value are unknown.
    let begin = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    encoded.get(begin..end).filter(|sure| sure.len() >= SHORTEST).map(str::to_owned)
}

/// The text as it is between the quotes of a JSON string. Programs also quote values in logs like this.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const SECRET: &str = "hunter2/hunter2";

    fn scrubber() -> Scrubber {
        Scrubber::of(&SecretData::from_iter([("password", format!("{SECRET}\n")), ("region", "eu-1".to_owned())]))
    }

    #[rstest]
    #[case::as_it_is(format!("login with {SECRET} failed"), "login with *** failed")]
    #[case::twice(format!("{SECRET},{SECRET}"), "***,***")]
    #[case::in_a_url("https://u:hunter2%2Fhunter2@host".to_owned(), "https://u:***@host")]
    #[case::in_base64(format!("Basic {}", STANDARD.encode(SECRET)), "Basic ***")]
    #[case::short_values_are_no_secret("no capacity in eu-1".to_owned(), "no capacity in eu-1")]
    fn secret_is_masked_in_every_form(#[case] text: String, #[case] expected: &str) {
        assert_eq!(scrubber().scrub(&text), expected);
    }

    /// Shows LIM-8.
    #[test]
    fn secret_is_masked_inside_a_longer_base64_text() {
        for before in ["", "u", "us", "use", "user:"] {
            let text = STANDARD.encode(format!("{before}{SECRET}:and more"));
            let scrubbed = scrubber().scrub(&text);
            assert!(scrubbed.contains(MASK), "{before}: {scrubbed}");
            assert!(scrubbed.len() < text.len() - 12, "{before}: {scrubbed}");
        }
    }

    const USER_DATA: &str = "#cloud-config\nwrite_files:\n- path: /etc/token\n  content: hunter2hunter2\nruncmd:\n- systemctl start kubelet\n";

    /// Shows LIM-8.
    #[rstest]
    #[case::lines("\n")]
    #[case::lines_of_windows("\r\n")]
    #[case::indented("\n        ")]
    #[case::escaped("\\n")]
    fn base64_is_masked_when_wrapped(#[case] between: &str) {
        let encoded = STANDARD.encode(USER_DATA);
        for columns in [20, 64, 76] {
            let lines: Vec<&str> =
                encoded.as_bytes().chunks(columns).map(|line| std::str::from_utf8(line).unwrap()).collect();
            let text = format!("bad user data: {}!", lines.join(between));
            let scrubber = Scrubber::of(&SecretData::from_iter([("userData", USER_DATA)]));
            assert_eq!(scrubber.scrub(&text), "bad user data: ***!", "{columns}");
            for at_most in 0..text.len() {
                let head = scrubber.scrub_beginning(&text, at_most);
                assert!(!lines.iter().any(|line| head.contains(line)), "cut after {at_most} bytes: {head}");
            }
        }
    }

    /// Shows LIM-8.
    #[test]
    fn user_data_is_masked_when_indented() {
        let scrubber = Scrubber::of(&SecretData::from_iter([("userData", USER_DATA)]));
        let indented = USER_DATA.trim_end().replace('\n', "\n    ");
        assert_eq!(scrubber.scrub(&format!("rejected:\n    {indented}\nend")), "rejected:\n    ***\nend");
    }

    #[test]
    fn multi_line_key_is_masked_when_quoted_in_a_log() {
        let key = "-----BEGIN KEY-----\nabc\"def\n-----END KEY-----\n";
        let scrubber = Scrubber::of(&SecretData::from_iter([("key", key)]));
        assert_eq!(scrubber.scrub(&format!("bad key {key:?}")), "bad key \"***\"");
    }

    /// A service account as clouds issue them: JSON with a PEM key among its leaves.
    fn service_account() -> Scrubber {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n";
        let account = serde_json::json!({
            "type": "x", "private_key_id": "4f2c9a7716be", "private_key": key, "ids": [{ "client": 104_467_920_118_u64 }],
        });
        Scrubber::of(&SecretData::from_iter([("serviceaccount.json", account.to_string())]))
    }

    /// Shows LIM-8.
    #[rstest]
    #[case::a_leaf("no such key: 4f2c9a7716be", "no such key: ***")]
    #[case::a_number("client 104467920118 is disabled", "client *** is disabled")]
    #[case::a_line_of_a_key("cannot read AQEFAASCBKcwggSjAgEAAoIB", "cannot read ***")]
    #[case::a_key_in_one_line("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIB=", "***=")]
    #[case::what_every_key_begins_with("expected -----BEGIN PRIVATE KEY-----", "expected -----BEGIN PRIVATE KEY-----")]
    fn json_leaves_and_pem_lines_are_masked(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(service_account().scrub(text), expected);
    }

    /// Shows LIM-8.
    #[test]
    fn line_of_a_pem_value_is_masked() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\r\nProc-Type: 4\r\nMIIEvQIBADANBgkqhkiG9w0B\r\n-----END RSA PRIVATE KEY-----\r\n";
        let scrubber = Scrubber::of(&SecretData::from_iter([("key", key)]));
        assert_eq!(scrubber.scrub("bad line MIIEvQIBADANBgkqhkiG9w0B"), "bad line ***");
        let quoted = STANDARD.encode("x MIIEvQIBADANBgkqhkiG9w0B x");
        assert!(scrubber.scrub(&quoted).contains(MASK), "in base64 as well");
    }

    /// Shows LIM-8.
    #[test]
    fn secret_that_is_cut_at_the_end_of_a_text_is_removed() {
        let text = format!("refused {SECRET} and {}", "x".repeat(100));
        for at_most in 0..text.len() {
            let head = scrubber().scrub_beginning(&text, at_most);
            assert!(!head.contains("hunter"), "cut after {at_most} bytes: {head}");
        }
        assert_eq!(scrubber().scrub_beginning(&text, text.len()), scrubber().scrub(&text));
    }

    #[test]
    fn scrubber_does_not_show_secrets_in_debug_output() {
        assert!(!format!("{:?}", scrubber()).contains("hunter2"));
    }

    proptest! {
        /// Shows LIM-8.
        #[test]
        fn no_value_of_eight_bytes_or_more_survives_in_any_form(
            values in prop::collection::vec("[ab*\n/]{0,14}", 0..5),
            pieces in prop::collection::vec((0usize..5, 0usize..6, "[ab* ]{0,6}"), 0..8),
        ) {
            let secret: SecretData = values.iter().enumerate().map(|(n, v)| (format!("k{n}"), v.as_str())).collect();
            let mut text = String::new();
            for (value, form, between) in &pieces {
                text.push_str(between);
                if let Some(value) = values.get(*value) {
                    text.push_str(&match form {
                        0 => value.clone(),
                        1 => value.trim().to_owned(),
                        2 => STANDARD.encode(value),
                        3 => URL_SAFE.encode(value),
                        4 => json_escaped(value),
                        _ => percent::encoded(value),
                    });
                }
            }
            let scrubbed = Scrubber::of(&secret).scrub(&text);
            for value in values.iter().flat_map(|v| [v.as_str(), v.trim()]).filter(|v| v.len() >= SHORTEST) {
                for form in [value.to_owned(), STANDARD.encode(value), URL_SAFE.encode(value), json_escaped(value), percent::encoded(value)] {
                    prop_assert!(!scrubbed.contains(&form), "{:?} survives in {:?}", form, scrubbed);
                }
            }
        }
    }
}
