//! The list of idioms.

use anyhow::Context;
use regex::Regex;

const LIST: &str = include_str!("idioms.txt");

/// One idiom and the words that replace it.
struct Idiom {
    pattern: Regex,
    plain: &'static str,
}

/// All idioms.
pub(super) struct Idioms(Vec<Idiom>);

impl Idioms {
    /// Reads `idioms.txt`.
    pub(super) fn read() -> anyhow::Result<Self> {
        let lines = LIST.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let idioms = lines.map(|line| {
            let (pattern, plain) =
                line.rsplit_once(" | ").with_context(|| format!("idioms.txt: {line:?} has no plain words"))?;
            let pattern = Regex::new(&format!(r"(?i)\b(?:{pattern})\b"))
                .with_context(|| format!("idioms.txt: {pattern:?} is not a regular expression"))?;
            Ok(Idiom { pattern, plain })
        });
        Ok(Self(idioms.collect::<anyhow::Result<_>>()?))
    }

    /// Returns the idioms in the text, each with its plain words.
    pub(super) fn find(&self, text: &str) -> Vec<(String, &'static str)> {
        let found =
            self.0.iter().filter_map(|idiom| Some((idiom.pattern.find(text)?.as_str().to_owned(), idiom.plain)));
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idioms_are_found_as_whole_words_in_any_case() {
        let idioms = Idioms::read().unwrap();
        let found = |text: &str| idioms.find(text).into_iter().map(|(idiom, _)| idiom).collect::<Vec<_>>();
        assert_eq!(found("Whoever asks is told; the roll-out goes on."), ["Whoever", "is told", "goes on", "roll-out"]);
        assert_eq!(found("The controller recommends a rollout."), [""; 0]);
    }
}
