//! Requests to and responses from Keystone as JSON.

use driver::{Code, DriverError};
use driver_common::credential_cache::Temporary;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::answer::text;
use crate::catalogue::Catalogue;
use crate::secret::{AuthMethod, IdOrName, Project};

/// A Keystone token with the endpoints for which it is valid.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) id: SecretString,
    pub(crate) catalogue: Catalogue,
}

/// Returns the body of `POST /v3/auth/tokens`.
pub(crate) fn body(who: &AuthMethod) -> Value {
    let (identity, scope) = match who {
        AuthMethod::Password { user, domain, password, project } => {
            let user = json!({ "name": user, "domain": named(domain), "password": password.expose_secret() });
            (json!({ "methods": ["password"], "password": { "user": user } }), Some(project))
        }
        AuthMethod::ApplicationCredential { id, secret } => {
            let credential = json!({ "id": id, "secret": secret.expose_secret() });
            (json!({ "methods": ["application_credential"], "application_credential": credential }), None)
        }
        AuthMethod::ApplicationCredentialByName { name, user, domain, secret } => {
            let user = json!({ "name": user, "domain": named(domain) });
            let credential = json!({ "name": name, "secret": secret.expose_secret(), "user": user });
            (json!({ "methods": ["application_credential"], "application_credential": credential }), None)
        }
        AuthMethod::Token { token, project } => {
            (json!({ "methods": ["token"], "token": { "id": token.expose_secret() } }), project.as_ref())
        }
    };
    let mut auth = json!({ "identity": identity });
    if let (Some(project), Some(auth)) = (scope, auth.as_object_mut()) {
        auth.insert("scope".into(), json!({ "project": self::project(project) }));
    }
    json!({ "auth": auth })
}

fn named(named: &IdOrName) -> Value {
    match named {
        IdOrName::Id(id) => json!({ "id": id }),
        IdOrName::Name(name) => json!({ "name": name }),
    }
}

fn project(project: &Project) -> Value {
    match project {
        Project::Id(id) => json!({ "id": id }),
        Project::Name { name, domain } => json!({ "name": name, "domain": named(domain) }),
    }
}

/// Decodes a token: its id is a header, its expiration time and the catalog are in the body.
pub(crate) fn token(id: Option<&str>, body: &Value) -> Result<Temporary<Token>, DriverError> {
    let unusable = |what: &str| DriverError::new(Code::Internal, format!("Keystone returned {what}"));
    let id = id.filter(|id| !id.is_empty()).ok_or_else(|| unusable("no token"))?;
    let token = body.get("token").ok_or_else(|| unusable("no description of the token"))?;
    let expires = text(token, "expires_at").parse().map_err(|_| unusable("a token without an expiration time"))?;
    let catalogue = Catalogue::read(token.get("catalog").unwrap_or(&Value::Null));
    if catalogue.is_empty() {
        return Err(DriverError::new(
            Code::PermissionDenied,
            "Keystone returned a token without a catalog, because it has no project; set tenantName or tenantID and check the roles of the user",
        ));
    }
    Ok(Temporary { value: Token { id: SecretString::from(id), catalogue }, expires })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    fn shoot() -> Project {
        Project::Name { name: "shoot".into(), domain: IdOrName::Name("Default".into()) }
    }

    /// Shows OST-3.
    #[rstest]
    #[case::password(
        AuthMethod::Password { user: "mcm".into(), domain: IdOrName::Id("d".into()), password: secret("p"), project: shoot() },
        json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": { "name": "mcm", "domain": { "id": "d" }, "password": "p" } } },
            "scope": { "project": { "name": "shoot", "domain": { "name": "Default" } } },
        } })
    )]
    #[case::credential(
        AuthMethod::ApplicationCredential { id: "a".into(), secret: secret("s") },
        json!({ "auth": { "identity": { "methods": ["application_credential"], "application_credential": { "id": "a", "secret": "s" } } } })
    )]
    #[case::credential_by_name(
        AuthMethod::ApplicationCredentialByName { name: "a".into(), user: "u".into(), domain: IdOrName::Name("d".into()), secret: secret("s") },
        json!({ "auth": { "identity": { "methods": ["application_credential"],
            "application_credential": { "name": "a", "secret": "s", "user": { "name": "u", "domain": { "name": "d" } } } } } })
    )]
    #[case::token(
        AuthMethod::Token { token: secret("t"), project: Some(Project::Id("p".into())) },
        json!({ "auth": { "identity": { "methods": ["token"], "token": { "id": "t" } }, "scope": { "project": { "id": "p" } } } })
    )]
    fn auth_method_has_its_request_body(#[case] who: AuthMethod, #[case] body: Value) {
        assert_eq!(super::body(&who), body);
    }

    /// Shows OST-4.
    #[rstest]
    #[case::no_id(None, json!({ "token": {} }), Code::Internal)]
    #[case::no_token(Some("t"), json!({}), Code::Internal)]
    #[case::no_end(Some("t"), json!({ "token": { "catalog": [] } }), Code::Internal)]
    #[case::no_project(Some("t"), json!({ "token": { "expires_at": "2030-01-01T00:00:00.000000Z" } }), Code::PermissionDenied)]
    fn unusable_token_is_an_error(#[case] id: Option<&str>, #[case] body: Value, #[case] code: Code) {
        assert_eq!(token(id, &body).unwrap_err().code(), code);
    }
}
