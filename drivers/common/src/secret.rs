//! Reads credentials from the Secret of a class.
//!
//! A credential may be stored under one of several keys. An empty value is skipped: the reference uses the first key
//! that exists even if it is empty, which silently selects other credentials. Values are trimmed, because a trailing
//! newline of a file becomes part of the Secret.

use api::names::secrets::USER_DATA;
use api::view::SecretData;
use secrecy::SecretString;

use crate::fault::Faults;

/// Returns the first value under these keys that is non-blank text, trimmed.
pub fn first(secret: &SecretData, keys: &[&str]) -> Option<SecretString> {
    let texts = keys.iter().filter_map(|key| secret.text(key));
    texts.map(str::trim).find(|text| !text.is_empty()).map(SecretString::from)
}

/// Like [`first`] for values that are not secret: a path, the name of a role.
pub fn plain(secret: &SecretData, keys: &[&str]) -> Option<String> {
    let texts = keys.iter().filter_map(|key| secret.text(key));
    texts.map(str::trim).find(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns whether this key exists, with any value.
pub fn has(secret: &SecretData, key: &str) -> bool {
    secret.get(key).is_some()
}

/// Returns the user data as bytes. Data larger than `largest` is a fault, so that the error names the limit.
pub fn user_data<'a>(secret: &'a SecretData, largest: usize, cloud: &str, faults: &mut Faults) -> &'a [u8] {
    match secret.get(USER_DATA).filter(|data| !data.is_empty()) {
        None => faults.required("secretRef.userData", "Mention userData"),
        Some(data) if data.len() > largest => {
            let text = format!("has {} bytes; {cloud} accepts at most {largest}", data.len());
            faults.forbidden("secretRef.userData", text);
        }
        Some(data) => return data,
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use secrecy::ExposeSecret;

    const KEYS: [&str; 2] = ["providerAccessKeyId", "accessKeyID"];

    /// Shows CLD-3, AWS-C1.
    #[rstest]
    #[case::first_alias(&[("providerAccessKeyId", "a")], Some("a"))]
    #[case::second_alias(&[("accessKeyID", "b")], Some("b"))]
    #[case::empty_first(&[("providerAccessKeyId", ""), ("accessKeyID", "b")], Some("b"))]
    #[case::blank_first(&[("providerAccessKeyId", " \n"), ("accessKeyID", "b")], Some("b"))]
    #[case::trimmed(&[("accessKeyID", " b\n")], Some("b"))]
    #[case::another_spelling(&[("accessKeyId", "b")], None)]
    #[case::none(&[], None)]
    fn credential_is_found_under_each_non_empty_alias(#[case] data: &[(&str, &str)], #[case] found: Option<&str>) {
        let secret: SecretData = data.iter().map(|(key, value)| (*key, *value)).collect();
        let read = first(&secret, &KEYS);
        assert_eq!(read.as_ref().map(ExposeSecret::expose_secret), found);
        assert_eq!(plain(&secret, &KEYS).as_deref(), found);
    }

    /// Shows AWS-W10.
    #[rstest]
    #[case(0, "secretRef.userData: Required value: Mention userData")]
    #[case(16384, "[]")]
    #[case(16385, "secretRef.userData: Forbidden: has 16385 bytes; EC2 accepts at most 16384")]
    fn user_data_is_required_and_limited(#[case] length: usize, #[case] told: &str) {
        let secret: SecretData = [(USER_DATA, vec![b'#'; length])].into_iter().collect();
        let mut faults = Faults::default();
        user_data(&secret, 16 << 10, "EC2", &mut faults);
        assert_eq!(faults.to_string(), told);
    }

    #[test]
    fn debug_output_of_a_credential_is_redacted() {
        let secret: SecretData = [("accessKeyID", "hunter2")].into_iter().collect();
        assert!(!format!("{:?}", first(&secret, &KEYS)).contains("hunter2"));
        assert!(has(&secret, "accessKeyID") && !has(&secret, "other"));
    }

    #[test]
    fn non_utf8_bytes_are_no_credential() {
        let secret: SecretData = [("accessKeyID", vec![0xff, 0xfe])].into_iter().collect();
        assert!(first(&secret, &KEYS).is_none());
    }
}
