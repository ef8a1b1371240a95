//! The user data of a VM: the user data of the MachineClass with the Machine's name and bootstrap token inserted.
//!
//! User data is bytes. A compressed archive contains no placeholders and is not changed. A placeholder may be plain, or
//! URL-encoded if the user data contains it in a URL. As in MCM, the encoded form is replaced only if the plain form
//! does not occur.

use api::names::secrets;

use crate::percent;

/// Returns whether this user data contains the token placeholder. Without it no token is created, because a token that
/// is not used is only a risk.
#[must_use]
pub fn needs_token(user_data: &[u8]) -> bool {
    let forms = [secrets::BOOTSTRAP_TOKEN_PLACEHOLDER, secrets::BOOTSTRAP_TOKEN_PLACEHOLDER_ENCODED];
    forms.into_iter().any(|form| finds(user_data, form.as_bytes()).next().is_some())
}

/// Returns the user data with its placeholders replaced. Without a token (no target cluster) its placeholder stays.
#[must_use]
pub fn filled(user_data: &[u8], token: Option<&str>, machine: &str) -> Vec<u8> {
    let mut filled = user_data.to_vec();
    if let Some(token) = token {
        let forms = (secrets::BOOTSTRAP_TOKEN_PLACEHOLDER, secrets::BOOTSTRAP_TOKEN_PLACEHOLDER_ENCODED);
        filled = with(&filled, forms, token);
    }
    with(&filled, (secrets::MACHINE_NAME_PLACEHOLDER, secrets::MACHINE_NAME_PLACEHOLDER_ENCODED), machine)
}

fn with(text: &[u8], (plain, encoded): (&str, &str), value: &str) -> Vec<u8> {
    if finds(text, plain.as_bytes()).next().is_some() {
        replaced(text, plain.as_bytes(), value.as_bytes())
    } else {
        replaced(text, encoded.as_bytes(), query_escaped(value).as_bytes())
    }
}

fn replaced(text: &[u8], placeholder: &[u8], value: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut done = 0;
    for at in finds(text, placeholder) {
        if at >= done {
            result.extend_from_slice(text.get(done..at).unwrap_or_default());
            result.extend_from_slice(value);
            done = at + placeholder.len();
        }
    }
    result.extend_from_slice(text.get(done..).unwrap_or_default());
    result
}

fn finds<'a>(text: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    text.windows(wanted.len().max(1)).enumerate().filter(move |(_, window)| *window == wanted).map(|(at, _)| at)
}

/// As in a form, where a space is a `+`.
fn query_escaped(value: &str) -> String {
    percent::encoded(value).replace("%20", "+")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    /// Shows LIM-9.
    #[rstest]
    #[case("a <<BOOTSTRAP_TOKEN>> b <<BOOTSTRAP_TOKEN>>", "a id.secret b id.secret")]
    #[case("?t=%3C%3CBOOTSTRAP_TOKEN%3E%3E", "?t=id.secret")]
    #[case("<<BOOTSTRAP_TOKEN>> %3C%3CBOOTSTRAP_TOKEN%3E%3E", "id.secret %3C%3CBOOTSTRAP_TOKEN%3E%3E")]
    #[case("<<MACHINE_NAME>> <<BOOTSTRAP_TOKEN>>", "m 1 id.secret")]
    #[case("?m=%3C%3CMACHINE_NAME%3E%3E", "?m=m+1")]
    #[case("#cloud-config", "#cloud-config")]
    fn placeholders_are_replaced_in_the_form_that_occurs(#[case] given: &str, #[case] expected: &str) {
        assert_eq!(String::from_utf8(filled(given.as_bytes(), Some("id.secret"), "m 1")).unwrap(), expected);
    }

    /// Shows LIM-9.
    #[test]
    fn token_placeholder_stays_without_a_token() {
        assert_eq!(filled(b"<<BOOTSTRAP_TOKEN>> <<MACHINE_NAME>>", None, "m"), b"<<BOOTSTRAP_TOKEN>> m");
    }

    #[test]
    fn token_is_needed_for_either_placeholder_form() {
        assert!(needs_token(b"x <<BOOTSTRAP_TOKEN>>"));
        assert!(needs_token(b"%3C%3CBOOTSTRAP_TOKEN%3E%3E"));
        assert!(!needs_token(b"#cloud-config <<MACHINE_NAME>>"));
        assert!(!needs_token(b""));
    }

    #[test]
    fn no_plain_placeholder_remains_for_any_input() {
        let corpus =
            ["a <<BOOTSTRAP_TOKEN>> <<MACHINE_NAME>>", "?t=%3C%3CBOOTSTRAP_TOKEN%3E%3E", "<<BOOT<<MACHINE_NAME>>"];
        fuzz::fuzz(&corpus.map(str::as_bytes), |input| {
            let filled = filled(input, Some("id.secret"), "m");
            for placeholder in [secrets::BOOTSTRAP_TOKEN_PLACEHOLDER, secrets::MACHINE_NAME_PLACEHOLDER] {
                assert_eq!(finds(&filled, placeholder.as_bytes()).next(), None);
            }
        });
    }

    proptest! {
        /// Shows LIM-9.
        #[test]
        fn bytes_without_placeholder_are_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(filled(&bytes, Some("t"), "m"), bytes);
        }
    }
}
