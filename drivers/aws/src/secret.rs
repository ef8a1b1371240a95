//! What the Secret of a class says: whose account, and what the VM runs at first.
//!
//! There are two ways to say whose account it is, a token file with a role or a pair of keys; the first wins if its key is there at all.
//! A Secret with neither is refused, unless the operator of this process has allowed its own credentials for such Secrets: a
//! Secret must not be able to choose them by leaving something out.

use api::view::SecretData;
use driver_common::fault::Faults;
use driver_common::secret::{first, has, plain};
use secrecy::{ExposeSecret, SecretString};

/// The most that EC2 takes, before it is encoded.
const LARGEST_USER_DATA: usize = 16 << 10;

const TOKEN_FILE: &str = "workloadIdentityTokenFile";
const ROLE: &str = "roleARN";
const ACCESS_KEY: [&str; 2] = ["providerAccessKeyId", "accessKeyID"];
const SECRET_KEY: [&str; 2] = ["providerSecretAccessKey", "secretAccessKey"];
const SESSION_TOKEN: [&str; 2] = ["providerSessionToken", "sessionToken"];
const EXTERNAL_ID: &str = "externalID";

/// Whether a Secret without credentials means those of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ambient {
    /// It is a mistake.
    #[default]
    Refused,
    /// It means them: environment, then the instance's profile.
    Allowed,
}

/// Where credentials come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A pair of keys.
    Keys(Keys),
    /// A file with a token that a role trusts.
    WebIdentity { token_file: String, role: String },
    /// Those of the process.
    Ambient,
    /// A role that the owner of a pair of keys may take on.
    Role { keys: Keys, role: String, external_id: Option<String> },
}

/// A pair of keys, and the token that belongs to a pair that expires.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Names the pair; no secret.
    pub(crate) id: String,
    pub(crate) secret: SecretString,
    pub(crate) session_token: Option<SecretString>,
}

/// Whose account a Secret names.
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

/// What the VM runs at first, as bytes.
pub(crate) fn user_data<'a>(secret: &'a SecretData, faults: &mut Faults) -> &'a [u8] {
    driver_common::secret::user_data(secret, LARGEST_USER_DATA, "EC2", faults)
}

impl Keys {
    /// What must not be shown in a message about a request that was signed with them.
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
    #[case::an_empty_first_alias_hides_nobody(&[("providerAccessKeyId", ""), ("accessKeyID", "id"), ("providerSecretAccessKey", ""), ("secretAccessKey", "key")])]
    fn keys_are_read_under_every_alias(#[case] data: &[(&str, &str)]) {
        let (source, faults) = told(data, Ambient::Allowed);
        assert_eq!(faults, "");
        let Source::Keys(keys) = source else { panic!("{source:?}") };
        assert_eq!((keys.id.as_str(), keys.secret.expose_secret()), ("id", "key"));
        assert!(keys.session_token.is_none());
    }

    /// Shows AWS-11.
    #[test]
    fn a_session_token_belongs_to_its_keys() {
        let data = [("accessKeyID", "id"), ("secretAccessKey", "key"), ("sessionToken", "token")];
        let (Source::Keys(keys), _) = told(&data, Ambient::Refused) else { panic!() };
        assert_eq!(keys.hidden(), ["key", "token"]);
        let shown = format!("{keys:?}");
        assert!(shown.contains("id") && !shown.contains("key\"") && !shown.contains("\"token"), "{shown}");
    }

    /// Shows AWS-2.
    #[rstest]
    #[case::no_keys(&[], "[secretRef.providerAccessKeyId: Required value: Mention providerAccessKeyId or accessKeyID, and not empty, secretRef.providerSecretAccessKey: Required value")]
    #[case::a_spelling_that_nobody_reads(&[("accessKeyId", "id"), ("secretAccessKey", "key")], "secretRef.providerAccessKeyId: Required value")]
    #[case::no_role(&[("workloadIdentityTokenFile", "/f")], "secretRef.roleARN: Required value")]
    #[case::no_file(&[("workloadIdentityTokenFile", ""), ("roleARN", "arn:aws:iam::1:role/r")], "secretRef.workloadIdentityTokenFile: Required value")]
    #[case::no_role_arn(&[("workloadIdentityTokenFile", "/f"), ("roleARN", "r")], "secretRef.roleARN: Invalid value: \"r\"")]
    fn what_a_secret_lacks_is_named(#[case] data: &[(&str, &str)], #[case] beginning: &str) {
        let (_, faults) = told(data, Ambient::Refused);
        assert!(faults.starts_with(beginning), "{faults}");
    }

    /// Shows AWS-10.
    #[test]
    fn the_process_s_own_credentials_are_used_only_where_the_operator_allows_it() {
        assert!(matches!(told(&[], Ambient::Allowed).0, Source::Ambient));
        assert_ne!(told(&[], Ambient::Refused).1, "");
        assert_ne!(told(&[("accessKeyID", "")], Ambient::Allowed).1, "", "an empty key is a mistake, not a choice");
    }

    #[test]
    fn a_role_beside_keys_is_taken_on_by_them() {
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
