//! Normalizes the output of kubectl.

/// Replaces every age, time, UID, version and address by a word, and several blanks by one, because the width of a
/// column depends on the longest age in it.
pub(super) fn normal(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut before = "";
        let mut words = Vec::new();
        for word in line.split_whitespace() {
            words.push(normal_word(before, word));
            before = word;
        }
        lines.push(words.join(" "));
    }
    lines.join("\n")
}

fn normal_word(before: &str, word: &str) -> String {
    let core = word.trim_matches(|c: char| matches!(c, '"' | ',' | '(' | ')' | '\'' | ';'));
    let name = match () {
        () if matches!(before, "resourceVersion:" | "\"resourceVersion\":") => "VERSION",
        () if is_uid(core) => "UID",
        () if is_time(core) => "TIME",
        () if is_age(core) => "AGE",
        () if core.starts_with("https://127.0.0.1") => "ADDRESS",
        () => return word.to_owned(),
    };
    word.replace(core, name)
}

fn is_age(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h', 'd'])
        && word.chars().all(|c| c.is_ascii_digit() || matches!(c, 's' | 'm' | 'h' | 'd' | '.' | 'µ'))
}

fn is_uid(word: &str) -> bool {
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

fn is_time(word: &str) -> bool {
    let mut parts = word.split(['-', 'T', ':']);
    word.ends_with('Z')
        && word.len() >= 20
        && parts.next().is_some_and(|year| year.len() == 4 && year.parse::<u16>().is_ok())
        || word.len() == 8 && word.split(':').count() == 3 && word.chars().all(|c| c.is_ascii_digit() || c == ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_that_differ_in_every_run_are_replaced() {
        let text = "NAME   AGE\nn1     5m32s\n  uid: 793bacfc-4807-414e-8e55-b4cb4e7749b1\n  resourceVersion: \"11\"\n  at: \"2026-11-16T08:40:52Z\"\nport 80 virtual:///m1 1/2";
        let expected =
            "NAME AGE\nn1 AGE\nuid: UID\nresourceVersion: \"VERSION\"\nat: \"TIME\"\nport 80 virtual:///m1 1/2";
        assert_eq!(normal(text), expected);
    }
}
