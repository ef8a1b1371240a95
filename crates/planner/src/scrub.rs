//! Keeps secrets out of what drivers say.
//!
//! A driver's error ends up in a Machine's status, in Events and in the log, where people read it who may not read the Secret.
//! Clouds quote requests in their errors, and requests hold credentials and user data. So before a text goes anywhere, whatever is
//! in the Secret is taken out of it: each value of eight bytes or more (a shorter one is no secret, and would tear holes into
//! ordinary words), as it is, trimmed, escaped as in JSON and in URLs, and in base64 wherever in a longer base64 text it may stand.
//! White space does not count: a form is also recognized if it was wrapped or indented.
//!
//! Programs take some values apart before they quote them, so their parts are kept as well: the leaves of a value that is JSON (a
//! service account), and the lines of a key in PEM, also where such a key is a leaf.

use std::collections::BTreeSet;
use std::fmt;

use api::SecretData;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::Value;

use crate::percent;

/// What stands where a secret was. No brackets: others count them.
pub const MASK: &str = "***";

/// Shorter values are no secrets.
pub const SHORTEST: usize = 8;

/// Knows what must not be said.
#[derive(Clone, Default)]
pub struct Scrubber {
    unspeakable: BTreeSet<String>,
    /// The same without white space: programs wrap base64 after 64 or 76 columns, and indent what they quote.
    squeezed: BTreeSet<String>,
}

impl Scrubber {
    /// Keeps every value of a class's Secrets.
    #[must_use]
    pub fn of(secret: &SecretData) -> Self {
        let mut scrubber = Self::default();
        for value in secret.keys().filter_map(|key| secret.get(key)) {
            scrubber.keep(value);
        }
        scrubber
    }

    /// Keeps this as well, and its parts.
    pub fn keep(&mut self, value: &[u8]) {
        self.keep_whole(value);
        if let Ok(text) = std::str::from_utf8(value) {
            self.keep_key(text);
            self.keep_leaves(text);
        }
    }

    /// The text without anything that is kept.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // What is left and right of a mask may come to form another secret; each round makes the text shorter, so this ends.
        while let Some(shorter) = self.masked(&text) {
            text = shorter;
        }
        text
    }

    /// The beginning of a text without anything that is kept. No more than `at_most` bytes are looked at, so that a text of
    /// megabytes costs no more than one of kilobytes; a secret that is cut in two there is not begun.
    #[must_use]
    pub fn scrub_beginning(&self, text: &str, at_most: usize) -> String {
        if text.len() <= at_most {
            return self.scrub(text);
        }
        let mut head = self.scrub(text.get(..text.floor_char_boundary(at_most)).unwrap_or_default());
        head.truncate(head.trim_end_matches('\\').len()); // half of an escape
        let squeezed = Squeezed::of(&head);
        let plain = self.unspeakable.iter().filter_map(|form| begins(&head, form)).min();
        let wrapped = self.squeezed.iter().filter_map(|form| begins(&squeezed.text, form)).min();
        let begun = plain.into_iter().chain(wrapped.and_then(|at| squeezed.place(at))).min();
        let end = begun.or_else(|| squeezed.place(squeezed.text.len().checked_sub(SHORTEST - 1)?)).unwrap_or(0);
        head.truncate(head.floor_char_boundary(end));
        head
    }

    fn keep_whole(&mut self, value: &[u8]) {
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
                self.keep_inside_base64(&engine, value);
            }
        }
    }

    fn keep_inside_base64(&mut self, engine: &impl base64::Engine, value: &[u8]) {
        for form in (0..3).filter_map(|offset| inside_base64(engine, value, offset)) {
            self.insert(form);
        }
    }

    fn insert(&mut self, form: String) {
        let Squeezed { text: squeezed, .. } = Squeezed::of(&form);
        if squeezed.len() >= SHORTEST {
            self.squeezed.insert(squeezed);
        }
        self.unspeakable.insert(form);
    }

    /// Each line of a key in PEM, and all of them as one. Not its first and last: they are the same in all keys.
    fn keep_key(&mut self, text: &str) {
        if !text.contains("-----BEGIN ") {
            return;
        }
        let text = text.replace("\\n", "\n"); // as keys stand in the values of environment variables
        let (mut inside, mut whole) = (false, String::new());
        for line in text.lines().map(str::trim) {
            if line.starts_with("-----") {
                inside = line.starts_with("-----BEGIN ");
                self.keep_line(&std::mem::take(&mut whole));
            } else if inside && !line.contains(':') {
                whole.push_str(line);
                self.keep_line(line);
            }
        }
        self.keep_line(&whole);
    }

    /// A line is base64 itself, so there are fewer forms of it: bundles have thousands.
    fn keep_line(&mut self, line: &str) {
        if line.len() >= SHORTEST {
            self.insert(line.to_owned());
            self.keep_inside_base64(&STANDARD, line.as_bytes());
        }
    }

    /// Everything that stands in a value that is JSON.
    fn keep_leaves(&mut self, text: &str) {
        if !text.trim_start().starts_with(['{', '[', '"']) {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(text) else { return };
        let mut left = vec![value];
        while let Some(value) = left.pop() {
            match value {
                Value::String(leaf) => self.keep(leaf.as_bytes()),
                Value::Number(leaf) => self.keep_whole(leaf.to_string().as_bytes()),
                Value::Array(values) => left.extend(values),
                Value::Object(values) => left.extend(values.into_iter().map(|(_, value)| value)),
                Value::Null | Value::Bool(_) => {}
            }
        }
    }

    /// The text with all that is found in it masked at once; `None` if nothing is. Overlapping finds become one mask.
    fn masked(&self, text: &str) -> Option<String> {
        let mut covered = vec![false; text.len()];
        let mut found = false;
        for form in &self.unspeakable {
            let mut from = 0;
            while let Some(at) = text.get(from..).and_then(|rest| rest.find(form.as_str())) {
                found = true;
                covered.iter_mut().skip(from + at).take(form.len()).for_each(|byte| *byte = true);
                from = text.ceil_char_boundary(from + at + 1);
            }
        }
        let squeezed = Squeezed::of(text);
        for form in &self.squeezed {
            let mut from = 0;
            while let Some(at) = squeezed.text.get(from..).and_then(|rest| rest.find(form.as_str())) {
                let ends = (squeezed.place(from + at), squeezed.place(from + at + form.len() - 1));
                let (Some(first), Some(last)) = ends else { break };
                found = true;
                covered.iter_mut().take(last + 1).skip(first).for_each(|byte| *byte = true);
                from = squeezed.text.ceil_char_boundary(from + at + 1);
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
        write!(f, "Scrubber({} forms)", self.unspeakable.len())
    }
}

/// A text without white space and without the escapes of it (`\n`, `\r`, `\t`), and where each of its bytes was.
struct Squeezed {
    text: String,
    places: Vec<usize>,
}

impl Squeezed {
    fn of(whole: &str) -> Self {
        let (mut text, mut places) = (String::with_capacity(whole.len()), Vec::with_capacity(whole.len()));
        let mut chars = whole.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\\' && chars.next_if(|(_, next)| matches!(next, 'n' | 'r' | 't')).is_some() {
                continue;
            }
            if !c.is_whitespace() {
                text.push(c);
                places.extend(at..at + c.len_utf8());
            }
        }
        Self { text, places }
    }

    /// Where a byte was in the whole text.
    fn place(&self, at: usize) -> Option<usize> {
        self.places.get(at).copied()
    }
}

/// Where in a text that was cut off this secret begins without ending.
fn begins(text: &str, form: &str) -> Option<usize> {
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

/// The characters that a value is sure to have in the base64 of a longer text in which it begins at `offset` modulo three.
fn inside_base64(engine: &impl base64::Engine, value: &[u8], offset: usize) -> Option<String> {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(value);
    let encoded = engine.encode(&padded);
    // Each character holds six bits: those that hold bits of a neighbour are unknown.
    let begin = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    encoded.get(begin..end).filter(|sure| sure.len() >= SHORTEST).map(str::to_owned)
}

/// As it stands between the quotes of a JSON text, which is also how programs quote it in their logs.
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
    fn a_secret_is_masked_in_every_form(#[case] said: String, #[case] expected: &str) {
        assert_eq!(scrubber().scrub(&said), expected);
    }

    /// Shows LIM-8.
    #[test]
    fn a_secret_is_masked_inside_a_longer_base64_text() {
        for before in ["", "u", "us", "use", "user:"] {
            let said = STANDARD.encode(format!("{before}{SECRET}:and more"));
            let scrubbed = scrubber().scrub(&said);
            assert!(scrubbed.contains(MASK), "{before}: {scrubbed}");
            assert!(scrubbed.len() < said.len() - 12, "{before}: {scrubbed}");
        }
    }

    const USER_DATA: &str = "#cloud-config\nwrite_files:\n- path: /etc/token\n  content: hunter2hunter2\nruncmd:\n- systemctl start kubelet\n";

    /// Shows LIM-8.
    #[rstest]
    #[case::lines("\n")]
    #[case::lines_of_windows("\r\n")]
    #[case::indented("\n        ")]
    #[case::escaped("\\n")]
    fn base64_is_masked_when_it_is_wrapped(#[case] between: &str) {
        let encoded = STANDARD.encode(USER_DATA);
        for columns in [20, 64, 76] {
            let lines: Vec<&str> =
                encoded.as_bytes().chunks(columns).map(|line| std::str::from_utf8(line).unwrap()).collect();
            let said = format!("bad user data: {}!", lines.join(between));
            let scrubber = Scrubber::of(&SecretData::from_iter([("userData", USER_DATA)]));
            assert_eq!(scrubber.scrub(&said), "bad user data: ***!", "{columns}");
            for at_most in 0..said.len() {
                let head = scrubber.scrub_beginning(&said, at_most);
                assert!(!lines.iter().any(|line| head.contains(line)), "cut after {at_most} bytes: {head}");
            }
        }
    }

    /// Shows LIM-8.
    #[test]
    fn user_data_is_masked_when_it_is_indented() {
        let scrubber = Scrubber::of(&SecretData::from_iter([("userData", USER_DATA)]));
        let indented = USER_DATA.trim_end().replace('\n', "\n    ");
        assert_eq!(scrubber.scrub(&format!("rejected:\n    {indented}\nend")), "rejected:\n    ***\nend");
    }

    #[test]
    fn a_multi_line_key_is_masked_as_a_log_quotes_it() {
        let key = "-----BEGIN KEY-----\nabc\"def\n-----END KEY-----\n";
        let scrubber = Scrubber::of(&SecretData::from_iter([("key", key)]));
        assert_eq!(scrubber.scrub(&format!("bad key {key:?}")), "bad key \"***\"");
    }

    /// A service account as clouds hand them out: JSON with a key in PEM among its leaves.
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
    fn the_leaves_of_json_and_the_lines_of_pem_are_masked(#[case] said: &str, #[case] expected: &str) {
        assert_eq!(service_account().scrub(said), expected);
    }

    /// Shows LIM-8.
    #[test]
    fn a_line_of_a_key_that_is_a_value_of_its_own_is_masked() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\r\nProc-Type: 4\r\nMIIEvQIBADANBgkqhkiG9w0B\r\n-----END RSA PRIVATE KEY-----\r\n";
        let scrubber = Scrubber::of(&SecretData::from_iter([("key", key)]));
        assert_eq!(scrubber.scrub("bad line MIIEvQIBADANBgkqhkiG9w0B"), "bad line ***");
        let quoted = STANDARD.encode("x MIIEvQIBADANBgkqhkiG9w0B x");
        assert!(scrubber.scrub(&quoted).contains(MASK), "in base64 as well");
    }

    /// Shows LIM-8.
    #[test]
    fn a_secret_that_is_cut_in_two_at_the_end_of_a_long_text_is_not_begun() {
        let said = format!("refused {SECRET} and {}", "x".repeat(100));
        for at_most in 0..said.len() {
            let head = scrubber().scrub_beginning(&said, at_most);
            assert!(!head.contains("hunter"), "cut after {at_most} bytes: {head}");
        }
        assert_eq!(scrubber().scrub_beginning(&said, said.len()), scrubber().scrub(&said));
    }

    #[test]
    fn a_scrubber_does_not_show_what_it_keeps() {
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
            let mut said = String::new();
            for (value, form, between) in &pieces {
                said.push_str(between);
                if let Some(value) = values.get(*value) {
                    said.push_str(&match form {
                        0 => value.clone(),
                        1 => value.trim().to_owned(),
                        2 => STANDARD.encode(value),
                        3 => URL_SAFE.encode(value),
                        4 => json_escaped(value),
                        _ => percent::encoded(value),
                    });
                }
            }
            let scrubbed = Scrubber::of(&secret).scrub(&said);
            for value in values.iter().flat_map(|v| [v.as_str(), v.trim()]).filter(|v| v.len() >= SHORTEST) {
                for form in [value.to_owned(), STANDARD.encode(value), URL_SAFE.encode(value), json_escaped(value), percent::encoded(value)] {
                    prop_assert!(!scrubbed.contains(&form), "{:?} survives in {:?}", form, scrubbed);
                }
            }
        }
    }
}
