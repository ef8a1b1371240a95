//! Credentials and user data in the Secret of a class.
//!
//! A Secret contains a token file with a role or a pair of keys. The token file takes precedence if its key exists. A
//! Secret with neither is rejected, unless the process settings allow the credentials of the process for such Secrets:
//! a Secret must not select them by omitting a key.

use api::view::SecretData;
use driver_common::fault::Faults;
use driver_common::secret::{first, has, plain};
use secrecy::{ExposeSecret, SecretString};

/// Maximum size in EC2, before encoding.
const MAX_USER_DATA: usize = 16 << 10;

const TOKEN_FILE: &str = "workloadIdentityTokenFile";
const ROLE: &str = "roleARN";
const ACCESS_KEY: [&str; 2] = ["providerAccessKeyId", "accessKeyID"];
const SECRET_KEY: [&str; 2] = ["providerSecretAccessKey", "secretAccessKey"];
const SESSION_TOKEN: [&str; 2] = ["providerSessionToken", "sessionToken"];
const EXTERNAL_ID: &str = "externalID";

/// Whether a Secret without credentials selects the credentials of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ambient {
    /// Such a Secret is rejected.
    #[default]
    Refused,
    /// The credentials of the process are used: environment first, then the instance profile.
    Allowed,
}

/// The source of the credentials.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A pair of keys.
    Keys(Keys),
    /// A file with a web identity token and the role that trusts it.
    WebIdentity { token_file: String, role: String },
    /// The credentials of the process.
    Ambient,
    /// A role that is assumed with a pair of keys.
    Role { keys: Keys, role: String, external_id: Option<String> },
}

/// A pair of keys, with a session token if they are temporary.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Access key id; not secret.
    pub(crate) id: String,
    pub(crate) secret: SecretString,
    pub(crate) session_token: Option<SecretString>,
}

/// Returns the source of the credentials of a Secret.
pub(crate) fn source(secret: &SecretData, ambient: Ambient, faults: &mut Faults) -> Source {
    if has(secret, TOKEN_FILE) {
        return web_identity(secret, faults);
    }
    let mentioned = |keys: &[&str]| keys.iter().any(|key| has(secret, key));
    if ambient == Ambient::Allowed && !mentioned(&ACCESS_KEY) && !mentioned(&SECRET_KEY) {
        return Source::Ambient;
    }
    let (id, key) = (plain(secret, &ACCESS_KEY), first(secret, &SECRET_KEY));
    for (missing, [ours, short]) in [(id.is_none(), ACCESS_KEY), (key.is_none(), SECRET_KEY)] {
        if missing {
            faults.required(format!("secretRef.{ours}"), format!("Mention {ours} or {short}, and not empty"));
        }
    }
    let keys = Keys {
        id: id.unwrap_or_default(),
        secret: key.unwrap_or_else(|| SecretString::from("")),
        session_token: first(secret, &SESSION_TOKEN),
    };
    match plain(secret, &[ROLE]) {
        Some(role) => {
            role_form(&role, faults);
            Source::Role { keys, role, external_id: plain(secret, &[EXTERNAL_ID]) }
        }
        None => Source::Keys(keys),
    }
}

fn web_identity(secret: &SecretData, faults: &mut Faults) -> Source {
    let (token_file, role) = (plain(secret, &[TOKEN_FILE]), plain(secret, &[ROLE]));
    for (missing, key) in [(token_file.is_none(), TOKEN_FILE), (role.is_none(), ROLE)] {
        if missing {
            faults.required(format!("secretRef.{key}"), "needed for workload identity, and not empty");
        }
    }
    if let Some(role) = &role {
        role_form(role, faults);
    }
    Source::WebIdentity { token_file: token_file.unwrap_or_default(), role: role.unwrap_or_default() }
}

fn role_form(role: &str, faults: &mut Faults) {
    if !(role.starts_with("arn:") && role.contains(":role/")) {
        faults.invalid("secretRef.roleARN", role, "must have the form arn:aws:iam::<account>:role/<name>");
    }
}

/// Returns the user data as bytes.
pub(crate) fn user_data<'a>(secret: &'a SecretData, faults: &mut Faults) -> &'a [u8] {
    driver_common::secret::user_data(secret, MAX_USER_DATA, "EC2", faults)
}

impl Keys {
    /// Returns the secret parts, which must not appear in error messages.
    pub(crate) fn hidden(&self) -> Vec<&str> {
        let token = self.session_token.as_ref().map(ExposeSecret::expose_secret);
        std::iter::once(self.secret.expose_secret()).chain(token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn told(data: &[(&str, &str)], ambient: Ambient) -> (Source, String) {
        let secret: SecretData = data.iter().map(|(key, value)| (*key, *value)).collect();
        let mut faults = Faults::default();
        let source = source(&secret, ambient, &mut faults);
        (source, if faults.is_empty() { String::new() } else { faults.to_string() })
    }

    /// Shows AWS-9, AWS-C1.
    #[rstest]
    #[case(&[("providerAccessKeyId", "id"), ("providerSecretAccessKey", "key")])]
    #[case(&[("accessKeyID", "id"), ("secretAccessKey", "key")])]
    #[case(&[("providerAccessKeyId", "id"), ("secretAccessKey", " key\n")])]
    #[case::empty_first_alias_is_ignored(&[("providerAccessKeyId", ""), ("accessKeyID", "id"), ("providerSecretAccessKey", ""), ("secretAccessKey", "key")])]
    fn keys_are_read_under_every_alias(#[case] data: &[(&str, &str)]) {
        let (source, faults) = told(data, Ambient::Allowed);
        assert_eq!(faults, "");
        let Source::Keys(keys) = source else { panic!("{source:?}") };
        assert_eq!((keys.id.as_str(), keys.secret.expose_secret()), ("id", "key"));
        assert!(keys.session_token.is_none());
    }

    /// Shows AWS-11.
    #[test]
    fn session_token_is_read_and_redacted() {
        let data = [("accessKeyID", "id"), ("secretAccessKey", "key"), ("sessionToken", "token")];
        let (Source::Keys(keys), _) = told(&data, Ambient::Refused) else { panic!() };
        assert_eq!(keys.hidden(), ["key", "token"]);
        let shown = format!("{keys:?}");
        assert!(shown.contains("id") && !shown.contains("key\"") && !shown.contains("\"token"), "{shown}");
    }

    /// Shows AWS-2.
    #[rstest]
    #[case::no_keys(&[], "[secretRef.providerAccessKeyId: Required value: Mention providerAccessKeyId or accessKeyID, and not empty, secretRef.providerSecretAccessKey: Required value")]
    #[case::misspelled_key(&[("accessKeyId", "id"), ("secretAccessKey", "key")], "secretRef.providerAccessKeyId: Required value")]
    #[case::no_role(&[("workloadIdentityTokenFile", "/f")], "secretRef.roleARN: Required value")]
    #[case::no_file(&[("workloadIdentityTokenFile", ""), ("roleARN", "arn:aws:iam::1:role/r")], "secretRef.workloadIdentityTokenFile: Required value")]
    #[case::no_role_arn(&[("workloadIdentityTokenFile", "/f"), ("roleARN", "r")], "secretRef.roleARN: Invalid value: \"r\"")]
    fn missing_secret_key_is_named(#[case] data: &[(&str, &str)], #[case] beginning: &str) {
        let (_, faults) = told(data, Ambient::Refused);
        assert!(faults.starts_with(beginning), "{faults}");
    }

    /// Shows AWS-10.
    #[test]
    fn process_credentials_require_permission_of_the_operator() {
        assert!(matches!(told(&[], Ambient::Allowed).0, Source::Ambient));
        assert_ne!(told(&[], Ambient::Refused).1, "");
        assert_ne!(told(&[("accessKeyID", "")], Ambient::Allowed).1, "", "an empty key is an error");
    }

    #[test]
    fn role_next_to_keys_is_assumed_with_them() {
        let data = [
            ("accessKeyID", "id"),
            ("secretAccessKey", "key"),
            ("roleARN", "arn:aws:iam::1:role/r"),
            ("externalID", "x"),
        ];
        let (source, faults) = told(&data, Ambient::Refused);
        assert_eq!(faults, "");
        let Source::Role { role, external_id, .. } = source else { panic!("{source:?}") };
        assert_eq!((role.as_str(), external_id.as_deref()), ("arn:aws:iam::1:role/r", Some("x")));
    }
}
