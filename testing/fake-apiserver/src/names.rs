//! Names: those that clients choose are checked, those that the server chooses come from its seed.

use fastrand::Rng;

use crate::resource::NameRule;

/// The letters of generated names: no vowels, so that no words come out, and nothing that is easily misread.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
const LONGEST_GENERATED: usize = 63;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                         must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation \
                         is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const KEY: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                   alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                   '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
                   'example.com/MyName')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                           must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                           regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with a name of an object.
pub(crate) fn complaints(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Label => label_complaints(name),
        NameRule::Subdomain => subdomain_complaints(name),
    }
}

fn label_complaints(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > 63 {
        found.push("must be no more than 63 characters".to_owned());
    }
    if name.contains('.') {
        found.push("must not contain dots".to_owned());
    } else if !is_word(name, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), |c| c == b'-') {
        found.push(LABEL.to_owned());
    }
    found
}

fn subdomain_complaints(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > 253 {
        found.push("must be no more than 253 characters".to_owned());
    }
    let word = |part| is_word(part, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), |c| c == b'-');
    if !name.split('.').all(word) {
        found.push(SUBDOMAIN.to_owned());
    }
    found
}

/// What is wrong with the key of a label or annotation, or with a finalizer.
pub(crate) fn qualified_complaints(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((_, name)) if name.contains('/') => return vec![KEY.to_owned()],
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let mut found = Vec::new();
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            found.push("prefix part must be non-empty".to_owned());
        } else {
            found.extend(subdomain_complaints(prefix).into_iter().map(|c| format!("prefix part {c}")));
        }
    }
    if name.is_empty() {
        found.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        found.push("name part must be no more than 63 characters".to_owned());
    }
    if !is_word(name, |c| c.is_ascii_alphanumeric(), |c| matches!(c, b'-' | b'_' | b'.')) {
        found.push(QUALIFIED.to_owned());
    }
    found
}

/// What is wrong with the value of a label.
pub(crate) fn label_value_complaints(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    if value.len() > 63 {
        found.push("must be no more than 63 characters".to_owned());
    }
    if !value.is_empty() && !is_word(value, |c| c.is_ascii_alphanumeric(), |c| matches!(c, b'-' | b'_' | b'.')) {
        found.push(LABEL_VALUE.to_owned());
    }
    found
}

/// Whether text begins and ends with an `edge` character and has only those and `inner` ones between.
fn is_word(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => edge(first) && edge(last) && bytes.iter().all(|&c| edge(c) || inner(c)),
        _ => false,
    }
}

/// A name that begins with `base`, which is cut when the result would be too long.
pub(crate) fn generated(base: &str, random: &mut Rng) -> String {
    let mut name: String = base.chars().take(LONGEST_GENERATED - SUFFIX).collect();
    for _ in 0..SUFFIX {
        let letter = ALPHABET.get(random.usize(..ALPHABET.len())).copied().unwrap_or(b'x');
        name.push(char::from(letter));
    }
    name
}

/// A random uid, version 4.
pub(crate) fn uid(random: &mut Rng) -> String {
    let bits = random.u128(..) & !(0xf << 76) & !(0b11 << 62) | (0x4 << 76) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("a", true)]
    #[case("machine-1.zone-2", true)]
    #[case("", false)]
    #[case("-a", false)]
    #[case("a..b", false)]
    #[case("Upper", false)]
    #[case("under_score", false)]
    fn object_names_are_subdomains(#[case] name: &str, #[case] valid: bool) {
        assert_eq!(complaints(NameRule::Subdomain, name).is_empty(), valid);
    }

    #[rstest]
    #[case("app", true)]
    #[case("machine.sapcloud.io/role_x", true)]
    #[case("/x", false)]
    #[case("a/", false)]
    #[case("A.io/x", false)]
    fn keys_may_have_a_domain_in_front(#[case] key: &str, #[case] valid: bool) {
        assert_eq!(qualified_complaints(key).is_empty(), valid);
    }

    #[test]
    fn the_same_seed_gives_the_same_names() {
        let course = |seed| {
            let mut random = Rng::with_seed(seed);
            (generated("m-", &mut random), uid(&mut random))
        };
        assert_eq!(course(7), course(7));
        assert_ne!(course(7), course(8));
    }

    proptest! {
        #[test]
        fn a_generated_name_is_valid_and_not_too_long(base in "[a-z][a-z0-9-]{0,80}", seed: u64) {
            let name = generated(&base, &mut Rng::with_seed(seed));
            prop_assert!(complaints(NameRule::Label, &name).is_empty(), "{name}");
        }

        #[test]
        fn a_uid_is_a_random_uuid(seed: u64) {
            let uid = uid(&mut Rng::with_seed(seed));
            prop_assert_eq!(uid.len(), 36);
            prop_assert_eq!(uid.as_bytes()[14], b'4');
            prop_assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        }
    }
}
