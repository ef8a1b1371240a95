//! Keystone credentials and TLS settings in the Secret of a class.
//!
//! All keys that the reference accepts are used, including those that it reads but ignores (`userDomainName`,
//! `userDomainID`, `domainID`, `tenantID`, `applicationCredentialName`). An application credential takes precedence
//! over a password, and a password over a token.

use api::view::SecretData;
use driver_common::fault::Faults;
use driver_common::http::{Servers, Tls};
use driver_common::secret::{first, has, plain};
use secrecy::{ExposeSecret, SecretString};

/// Maximum size in Nova, before encoding: 65535 bytes of Base64.
pub(crate) const MAX_USER_DATA: usize = 49149;

/// Credentials and the Keystone that accepts them.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    /// Keystone's URL, with `/v3`.
    pub(crate) auth_url: String,
    pub(crate) who: AuthMethod,
    pub(crate) tls: Tls,
    pub(crate) interface: String,
}

/// An authentication method of Keystone.
#[derive(Clone, Debug)]
pub(crate) enum AuthMethod {
    Password {
        user: String,
        domain: IdOrName,
        password: SecretString,
        project: Project,
    },
    ApplicationCredential {
        id: String,
        secret: SecretString,
    },
    ApplicationCredentialByName {
        name: String,
        user: String,
        domain: IdOrName,
        secret: SecretString,
    },
    /// An existing token, rescoped to another project if one is named.
    Token {
        token: SecretString,
        project: Option<Project>,
    },
}

/// A Keystone resource by id or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdOrName {
    Id(String),
    Name(String),
}

/// A project. A name is unique only within its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Project {
    Id(String),
    Name { name: String, domain: IdOrName },
}

const INTERFACES: [&str; 3] = ["public", "internal", "admin"];

/// Reads the credentials of a Secret.
pub(crate) fn credentials(secret: &SecretData, faults: &mut Faults) -> Credentials {
    let interface = plain(secret, &["interface"]).unwrap_or_else(|| "public".to_owned());
    if !INTERFACES.contains(&interface.as_str()) {
        faults.unsupported("secretRef.interface", interface.as_str(), &INTERFACES);
    }
    Credentials { auth_url: auth_url(secret, faults), who: who(secret, faults), tls: tls(secret, faults), interface }
}

fn auth_url(secret: &SecretData, faults: &mut Faults) -> String {
    let Some(text) = plain(secret, &["authURL"]) else {
        faults.required("secretRef.authURL", "URL of Keystone, for example https://keystone.example:5000/v3");
        return String::new();
    };
    let url = text.trim_end_matches('/');
    let is_address = url.parse::<http::Uri>().is_ok_and(|uri| uri.authority().is_some() && uri.query().is_none());
    if !is_address || !(url.starts_with("https://") || url.starts_with("http://")) || url.contains('@') {
        // The value is not shown, because it may contain a password.
        faults.forbidden("secretRef.authURL", "must be a URL, for example https://keystone.example:5000/v3");
    }
    match url.rsplit_once('/') {
        Some((_, "v3")) => url.to_owned(),
        Some((before, "v2.0")) => format!("{before}/v3"),
        _ => format!("{url}/v3"),
    }
}

fn who(secret: &SecretData, faults: &mut Faults) -> AuthMethod {
    let user = plain(secret, &["username"]);
    if let Some(key) = first(secret, &["applicationCredentialSecret"]) {
        if let Some(id) = plain(secret, &["applicationCredentialID"]) {
            return AuthMethod::ApplicationCredential { id, secret: key };
        }
        let name = plain(secret, &["applicationCredentialName"]);
        if name.is_none() || user.is_none() {
            faults.required("secretRef.applicationCredentialID", "set it, or applicationCredentialName and username");
        }
        let domain = user_domain(secret, faults);
        return AuthMethod::ApplicationCredentialByName {
            name: name.unwrap_or_default(),
            user: user.unwrap_or_default(),
            domain,
            secret: key,
        };
    }
    let password = first(secret, &["password"]);
    if let (None, Some(token)) = (&password, first(secret, &["token"])) {
        let named = has(secret, "tenantID") || has(secret, "tenantName");
        return AuthMethod::Token { token, project: named.then(|| project(secret, faults)) };
    }
    if user.is_none() {
        faults.required("secretRef.username", "required with password");
    }
    if password.is_none() {
        faults.required("secretRef.password", "set it, applicationCredentialSecret or token");
    }
    AuthMethod::Password {
        user: user.unwrap_or_default(),
        domain: user_domain(secret, faults),
        password: password.unwrap_or_else(|| SecretString::from("")),
        project: project(secret, faults),
    }
}

fn project(secret: &SecretData, faults: &mut Faults) -> Project {
    if let Some(id) = plain(secret, &["tenantID"]) {
        return Project::Id(id);
    }
    let name = plain(secret, &["tenantName"]);
    if name.is_none() {
        faults.required("secretRef.tenantName", "one of tenantName and tenantID is required");
    }
    Project::Name { name: name.unwrap_or_default(), domain: domain(secret, faults) }
}

fn domain(secret: &SecretData, faults: &mut Faults) -> IdOrName {
    named(secret, "domainID", "domainName").unwrap_or_else(|| {
        faults.required("secretRef.domainName", "one of domainName and domainID is required");
        IdOrName::Name(String::new())
    })
}

fn user_domain(secret: &SecretData, faults: &mut Faults) -> IdOrName {
    named(secret, "userDomainID", "userDomainName").unwrap_or_else(|| domain(secret, faults))
}

fn named(secret: &SecretData, id: &str, name: &str) -> Option<IdOrName> {
    plain(secret, &[id]).map(IdOrName::Id).or_else(|| plain(secret, &[name]).map(IdOrName::Name))
}

fn tls(secret: &SecretData, faults: &mut Faults) -> Tls {
    let (certificate, key) = (plain(secret, &["clientCert"]), first(secret, &["clientKey"]));
    if certificate.is_some() && key.is_none() {
        faults.required("secretRef.clientKey", "clientKey is required, if clientCert is present");
    }
    let servers = match plain(secret, &["insecure"]).as_deref() {
        None | Some("false") => Servers::Verified,
        Some("true") => Servers::Unverified,
        Some(other) => {
            faults.unsupported("secretRef.insecure", other, &["true", "false"]);
            Servers::Verified
        }
    };
    Tls { ca_certificates: plain(secret, &["caCert"]), identity: certificate.zip(key), servers }
}

impl Credentials {
    /// Returns the secret part, which must not appear in error messages.
    pub(crate) fn hidden(&self) -> &str {
        match &self.who {
            AuthMethod::Password { password: secret, .. }
            | AuthMethod::ApplicationCredential { secret, .. }
            | AuthMethod::ApplicationCredentialByName { secret, .. }
            | AuthMethod::Token { token: secret, .. } => secret.expose_secret(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const PASSWORD: [(&str, &str); 5] = [
        ("authURL", "https://keystone:5000/v3/"),
        ("username", "mcm"),
        ("password", "hunter2\n"),
        ("domainName", "Default"),
        ("tenantName", "shoot"),
    ];

    fn read(data: &[(&str, &str)]) -> (Credentials, String) {
        let secret: SecretData = data.iter().map(|(key, value)| (*key, *value)).collect();
        let mut faults = Faults::default();
        let credentials = credentials(&secret, &mut faults);
        (credentials, if faults.is_empty() { String::new() } else { faults.to_string() })
    }

    fn more(data: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        PASSWORD.iter().chain(data).copied().collect()
    }

    /// Shows OST-11.
    #[test]
    fn password_is_read_with_project_and_domain_and_redacted() {
        let (credentials, faults) = read(&PASSWORD);
        assert_eq!(faults, "");
        assert_eq!((credentials.auth_url.as_str(), credentials.hidden()), ("https://keystone:5000/v3", "hunter2"));
        assert!(!format!("{credentials:?}").contains("hunter2"));
        let AuthMethod::Password { user, domain, project, .. } = credentials.who else { panic!() };
        let default = IdOrName::Name("Default".into());
        assert_eq!((user.as_str(), &domain), ("mcm", &default));
        assert_eq!(project, Project::Name { name: "shoot".into(), domain: default });
    }

    /// Shows OST-W3.
    #[test]
    fn keys_that_the_reference_ignores_are_used() {
        let (credentials, faults) =
            read(&more(&[("userDomainName", "users"), ("tenantID", "p-1"), ("domainID", "d-1")]));
        assert_eq!(faults, "");
        let AuthMethod::Password { domain, project, .. } = credentials.who else { panic!() };
        assert_eq!((domain, project), (IdOrName::Name("users".into()), Project::Id("p-1".into())));
        let (credentials, _) = read(&more(&[("userDomainID", "u-1"), ("domainID", "d-1")]));
        let AuthMethod::Password { domain, project, .. } = credentials.who else { panic!() };
        let in_domain = Project::Name { name: "shoot".into(), domain: IdOrName::Id("d-1".into()) };
        assert_eq!((domain, project), (IdOrName::Id("u-1".into()), in_domain));
    }

    /// Shows OST-3.
    #[test]
    fn application_credential_takes_precedence_over_a_password() {
        let by_id = [("authURL", "http://k"), ("applicationCredentialID", "a-1"), ("applicationCredentialSecret", "s")];
        let (credentials, faults) = read(&by_id);
        assert_eq!((faults.as_str(), credentials.auth_url.as_str()), ("", "http://k/v3"));
        assert!(matches!(credentials.who, AuthMethod::ApplicationCredential { id, .. } if id == "a-1"));
        let by_name = more(&[("applicationCredentialName", "ac"), ("applicationCredentialSecret", "s")]);
        assert!(
            matches!(read(&by_name).0.who, AuthMethod::ApplicationCredentialByName { name, user, .. } if name == "ac" && user == "mcm")
        );
        let (_, faults) = read(&[("authURL", "http://k"), ("applicationCredentialSecret", "s"), ("domainName", "d")]);
        assert!(faults.starts_with("secretRef.applicationCredentialID: Required value"), "{faults}");
    }

    /// Shows OST-3.
    #[test]
    fn token_is_used_if_there_is_no_password() {
        let (credentials, faults) = read(&[("authURL", "http://k/v2.0"), ("token", "t")]);
        assert_eq!((faults.as_str(), credentials.auth_url.as_str()), ("", "http://k/v3"));
        assert!(matches!(credentials.who, AuthMethod::Token { project: None, .. }));
        assert!(matches!(read(&more(&[("token", "t")])).0.who, AuthMethod::Password { .. }));
    }

    /// Shows OST-2, OST-C1.
    #[rstest]
    #[case(&[("authURL", "")], "secretRef.authURL: Required value")]
    #[case(&[("authURL", "keystone:5000")], "secretRef.authURL: Forbidden")]
    #[case(&[("authURL", "https://me:hunter2@keystone")], "secretRef.authURL: Forbidden")]
    #[case(&[("username", "")], "secretRef.username: Required value")]
    #[case(&[("password", " ")], "secretRef.password: Required value")]
    #[case(&[("domainName", "")], "secretRef.domainName: Required value")]
    #[case(&[("tenantName", "")], "secretRef.tenantName: Required value")]
    #[case(&[("insecure", "yes")], "secretRef.insecure: Unsupported value: \"yes\"")]
    #[case(&[("clientCert", "c")], "secretRef.clientKey: Required value")]
    #[case(&[("interface", "private")], "secretRef.interface: Unsupported value")]
    fn missing_key_of_an_openstack_secret_is_named(#[case] changes: &[(&str, &str)], #[case] fault: &str) {
        let mut data: Vec<(&str, &str)> = PASSWORD.to_vec();
        data.retain(|(key, _)| changes.iter().all(|(changed, _)| changed != key));
        data.extend(changes);
        let (_, faults) = read(&data);
        assert!(faults.trim_start_matches('[').starts_with(fault) && !faults.contains("hunter2"), "{faults}");
    }
}
