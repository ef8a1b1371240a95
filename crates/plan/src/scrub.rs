//! Keeps secrets out of what drivers say.
//!
//! A driver's error ends up in a Machine's status, in Events and in the log, where people read it who may not read the Secret.
//! Clouds quote requests in their errors, and requests hold credentials and user data. So before a text goes anywhere, whatever is
//! in the Secret is taken out of it: each value of eight bytes or more (a shorter one is no secret, and would tear holes into
//! ordinary words), as it is, trimmed, escaped as in JSON and in URLs, and in base64 wherever in a longer base64 text it may stand.

use std::collections::BTreeSet;
use std::fmt;

use api::SecretData;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use crate::percent;

/// What stands where a secret was. No brackets: others count them.
pub const MASK: &str = "***";

/// Shorter values are no secrets.
pub const SHORTEST: usize = 8;

/// Knows what must not be said.
#[derive(Clone, Default)]
pub struct Scrubber {
    unspeakable: BTreeSet<Vec<u8>>,
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

    /// Keeps this as well.
    pub fn keep(&mut self, value: &[u8]) {
        for value in [value, value.trim_ascii()] {
            if value.len() < SHORTEST {
                continue;
            }
            self.unspeakable.insert(value.to_vec());
            if let Ok(text) = std::str::from_utf8(value) {
                self.unspeakable.insert(json_escaped(text).into_bytes());
                self.unspeakable.insert(percent::encoded(text).into_bytes());
            }
            for engine in [STANDARD, URL_SAFE] {
                self.unspeakable.insert(engine.encode(value).into_bytes());
                self.unspeakable.extend((0..3).filter_map(|offset| inside_base64(&engine, value, offset)));
            }
        }
    }

    /// The text without anything that is kept.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let mut text = text.as_bytes().to_vec();
        // What is left and right of a mask may come to form another secret; each round makes the text shorter, so this ends.
        while let Some(shorter) = self.masked(&text) {
            text = shorter;
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The text with all that is found in it masked at once; `None` if nothing is. Overlapping finds become one mask.
    fn masked(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut covered = vec![false; text.len()];
        let mut found = false;
        for value in &self.unspeakable {
            for (at, _) in text.windows(value.len()).enumerate().filter(|(_, window)| window == value) {
                found = true;
                covered.iter_mut().skip(at).take(value.len()).for_each(|byte| *byte = true);
            }
        }
        if !found {
            return None;
        }
        let mut result = Vec::with_capacity(text.len());
        let mut masking = false;
        for (byte, covered) in text.iter().zip(covered) {
            if !covered {
                result.push(*byte);
            } else if !masking {
                result.extend_from_slice(MASK.as_bytes());
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

/// The characters that a value is sure to have in the base64 of a longer text in which it begins at `offset` modulo three.
fn inside_base64(engine: &impl base64::Engine, value: &[u8], offset: usize) -> Option<Vec<u8>> {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(value);
    let encoded = engine.encode(&padded).into_bytes();
    // Each character holds six bits: those that hold bits of a neighbour are unknown.
    let begin = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    encoded.get(begin..end).filter(|sure| sure.len() >= SHORTEST).map(<[u8]>::to_vec)
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

    #[test]
    fn a_secret_is_masked_inside_a_longer_base64_text() {
        for before in ["", "u", "us", "use", "user:"] {
            let said = STANDARD.encode(format!("{before}{SECRET}:and more"));
            let scrubbed = scrubber().scrub(&said);
            assert!(scrubbed.contains(MASK), "{before}: {scrubbed}");
            assert!(scrubbed.len() < said.len() - 12, "{before}: {scrubbed}");
        }
    }

    #[test]
    fn a_multi_line_key_is_masked_as_a_log_quotes_it() {
        let key = "-----BEGIN KEY-----\nabc\"def\n-----END KEY-----\n";
        let scrubber = Scrubber::of(&SecretData::from_iter([("key", key)]));
        assert_eq!(scrubber.scrub(&format!("bad key {key:?}")), "bad key \"***\"");
    }

    #[test]
    fn a_scrubber_does_not_show_what_it_keeps() {
        assert!(!format!("{:?}", scrubber()).contains("hunter2"));
    }

    proptest! {
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
